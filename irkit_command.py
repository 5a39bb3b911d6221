"""The `irkit` script: an interrupt ends it with one line, also while what it runs is still being imported."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Runs the command line."""
    heard = listening()
    from irkit.doors.cli import app_main

    signal.signal(signal.SIGINT, heard)
    app_main()


def listening() -> Any:
    """Lets an interrupt end the process at once, and returns what it did before."""
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:  # else somebody chose that interrupts are ignored
        signal.signal(signal.SIGINT, leave)
    return signal.default_int_handler if heard is leave else heard


def leave(*_: Any) -> None:
    """Ends the process as an interrupted one, at once: nothing has been opened yet."""
    os.write(2, b"interrupted\n")
    os._exit(130)


def is_module_run(arguments: list[str], whole: list[str]) -> bool:
    """True while `python -m irkit` imports the package, before its `__main__` runs: then the first argument is `-m`,
    and the whole line says of which module."""
    return arguments[:1] == ["-m"] and whole[-len(arguments)].removeprefix("-m") == "irkit"


if is_module_run(sys.argv, sys.orig_argv):  # irkit imports this file first
    listening()

if __name__ == "__main__":
    main()
