"""Where an error arose in code that irkit was handed."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path, PurePath

IRKIT = str(Path(__file__).parents[1])
PYTHON = sysconfig.get_path("stdlib")


def failed_line(error: BaseException, function: Callable[..., object]) -> str:
    """`folder/rules.py:12: return op.Relu(m.x)`: the innermost line of the caller's own code that an error went
    through, neither irkit's nor a library's; without one, of the function's file; "" where none is known."""
    frames = traceback.extract_tb(error.__traceback__)
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    own = [f for f in frames if is_own(f.filename)] or [f for f in frames if f.filename == file]
    if not own:
        return ""
    found = own[-1]
    place = f"{'/'.join(PurePath(found.filename).parts[-2:])}:{found.lineno}"
    return f"{place}: {found.line}" if found.line else place


def is_own(file: str) -> bool:
    """Whether a file is neither irkit's, nor Python's, nor of an installed package."""
    return not file.startswith((IRKIT, PYTHON, "<frozen", "<attrs")) and "site-packages" not in PurePath(file).parts
