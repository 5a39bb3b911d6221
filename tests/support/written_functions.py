"""Functions of texts that a generator wrote, whose lines Python, and so irkit, finds as those of a file."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any


def function_of(text: str, file: str, name: str = "f", space: dict[str, Any] | None = None) -> Callable[..., Any]:
    """The function of that name which a text defines, in a namespace that has what the text does not import."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {} if space is None else space
    exec(compile(text, file, "exec"), space)
    return space[name]
