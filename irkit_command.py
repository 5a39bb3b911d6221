"""The `irkit` script: an interrupt ends it with one line, also while what it runs is still being imported."""

from __future__ import annotations

import os
import signal
from typing import Any


def main() -> None:
    """Runs the command line."""
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:  # else somebody chose that interrupts are ignored
        signal.signal(signal.SIGINT, leave)
    from irkit.cli import app_main

    signal.signal(signal.SIGINT, heard)
    app_main()


def leave(*_: Any) -> None:
    """Ends the process as an interrupted one, at once: nothing has been opened yet."""
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
