"""Where a model was when its time ended: the innermost line of the model, else of the work on its program."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[3]
WORK = tuple(f"{ROOT / name}/" for name in ("irkit", "passes", "lowering"))
"""Where irkit's own files are."""
TOOLS = ("torch", "onnx", "onnxruntime", "numpy", "attr", "attrs", "sympy", "google")
"""Packages that no model is of, whatever calls them."""
FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


@attrs.frozen
class Place:
    """A line of a file, and the function that it is in."""

    file: str
    line: int
    function: str


def places_in(text: str) -> list[Place]:
    """The places of the main thread in what faulthandler wrote, the outermost first."""
    threads = re.split(r"^(?:Current thread|Thread) .*$", text, flags=re.MULTILINE)
    found = [Place(file, int(line), function) for file, line, function in FRAME.findall(threads[-1])]
    return found[::-1]


def line_at_work(stack: Sequence[Place]) -> str:
    """The innermost line of the model on a stack, outermost first; else that of irkit, with its function."""
    models = [place for place in stack if is_models(place.file)]
    works = [place for place in stack if place.file.startswith(WORK)]
    if models:
        return told(models[-1])
    return f"{told(works[-1])} (in {works[-1].function})" if works else ""


def told(place: Place) -> str:
    """A place as a row says it: the last folder, the file, the line and its text."""
    name = "/".join(Path(place.file).parts[-2:])
    return f"{name}:{place.line} {linecache.getline(place.file, place.line).strip()}".strip()


def is_models(file: str) -> bool:
    """Whether a file is of a model: of a package that is neither irkit's, nor the table's, nor a tool."""
    _, between, inside = file.rpartition("/site-packages/")
    return bool(between) and inside.partition("/")[0].removesuffix(".py") not in (*TOOLS, *sys.stdlib_module_names)
