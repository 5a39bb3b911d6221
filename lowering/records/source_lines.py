"""Where an FX node came from: module path and the user's source line."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

import torch

from irkit.core.origins import REPEAT, Origin, plain

ASKERS = 3
"""Of so many functions, the innermost ones, the files are told in which a model asks something."""
TORCH = f"{Path(torch.__file__).parent}{os.sep}"
GENERATED = "<eval_with_key>"  # what torch calls code that it wrote itself
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ([^\n]+)\n\s+([^\n]*)')


def origin_of(node: Any) -> Origin:
    """The origin of an FX node; one object for nodes that share all of it."""
    target = node.target
    name = getattr(target, "name", None)
    operator = name() if callable(name) else getattr(target, "__name__", str(target))
    return Origin(node.name, str(operator), module_of(node), line_of(trace_of(node)))


def module_of(node: Any) -> str:
    """The dotted path of the innermost torch module that a node was traced in: with the number of the call of each that
    was called before, as in `layer@1.linear`."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path, _ = next(reversed(stack.values()))
    if any(REPEAT in key for key in stack):
        return below_all([f"{own_path(each)}{number_in(key)}" for key, (each, _) in stack.items()])
    return own_path(path)


def number_in(key: str) -> str:
    """The number of a call in the key of a module, with what stands before it; empty for the first."""
    return "".join(key.rpartition(REPEAT)[1:]) if REPEAT in key else ""


def own_path(path: str) -> str:
    """The path of a module, of what torch calls it."""
    return "" if path.startswith("_empty") else path.removeprefix("L['self'].").removeprefix("L__self__")


def below_all(paths: Sequence[str]) -> str:
    """The last of some paths, each below the one before, with the numbers of calls of all of them."""
    found = ""
    for path in paths:
        outer = plain(found)
        inside = path.startswith(f"{outer}.") if outer else False
        found = found + path[len(outer) :] if inside else path
    return found


def trace_of(node: Any) -> str:
    """The stack trace that torch recorded for an FX node; empty where there is none, or a file has something else."""
    found = node.meta.get("stack_trace")
    return found if isinstance(found, str) else ""


@lru_cache(maxsize=1 << 14)
def line_of(trace: str) -> str:
    """`file.py:12 x = f(y)`: the innermost frame of a stack trace outside of torch; the file by its last two parts."""
    frames = _FRAME.findall(trace)
    frames = [f for f in frames if not f[0].startswith(GENERATED)] or frames
    if not frames:
        return ""
    file, line, _, code = next((f for f in reversed(frames) if not f[0].startswith(TORCH)), frames[-1])
    if file.startswith(GENERATED):
        return ""
    return f"{short_path(file)}:{line} {code.strip()}"


def line_of_trace(trace: str) -> str:
    """`line_of`, which says so where the line is torch's own."""
    frames = _FRAME.findall(trace)
    return ("in torch: " if frames and all(f[0].startswith(TORCH) for f in frames) else "") + line_of(trace)


def source_of(node: Any) -> str:
    """The user's frames that made a node, outermost first, one a line; empty where torch kept none."""
    frames = _FRAME.findall(trace_of(node))
    return "\n".join(f"{short_path(f)}:{n} in {where}: {code.strip()}" for f, n, where, code in frames)


@lru_cache(maxsize=1 << 12)
def short_path(file: str) -> str:
    """`folder/file.py`, the last two parts of the path of code. What a library writes into a temporary file to import
    it is called as its module is: the name of the file has letters that are drawn anew in each process."""
    path = PurePath(file)
    if str(path.parent) == tempfile.gettempdir():
        loaded = [*sys.modules.items()]
        name = next((name for name, each in loaded if getattr(each, "__file__", None) == file), None)
        if name is not None and path.stem != name and path.stem.startswith(name):
            return name + path.suffix
    return "/".join(path.parts[-2:])


LEFT = (*(f"{sysconfig.get_path(each)}{os.sep}" for each in ("stdlib", "purelib", "platlib")), "<")
"""How the files begin that nobody changes while a process runs, and what is no file."""


def lines_now(file: str, variables: dict[str, Any] | None = None) -> list[str]:
    """The lines of a file, by the loader among these globals where it lies in an archive. The user's may have been
    changed, and loaded anew, since Python read them."""
    if not file.startswith(LEFT):
        linecache.checkcache(file)
    return linecache.getlines(file, variables)


def calling_files() -> set[str]:
    """The files of the functions that called the caller, innermost ones only: a model asks by helpers, too."""
    frame, found = sys._getframe(2), set[str]()
    for _ in range(ASKERS):
        if frame is not None:
            found.add(posix_path(frame.f_code.co_filename))
            frame = frame.f_back
    return found


@lru_cache(maxsize=1 << 12)
def posix_path(file: str) -> str:
    """The path of a file with slashes, on any system."""
    return Path(file).as_posix()
