"""A graph as a text file, with its weights in a safetensors file beside it."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

from irkit.core.ir import Graph, require_graph
from irkit.core.operator_names import Dialects
from irkit.core.printer import large_blobs, print_graph
from irkit.errors import ParseError, SerializeError
from irkit.support.arguments import path_of
from irkit.support.files import atomic_write, replaceable
from irkit.text.parser import parse
from irkit.text.side_file import read_side_file, write_side_file

_HASH = re.compile(r"blob#([0-9a-f]+)")

SUFFIX = ".safetensors"
"""What the name of the side file has beyond that of the text file."""


def save_text(graph: Graph, path: str | PathLike[str]) -> None:
    """Writes the text of the graph, and beside it, where the graph has large constants, their contents.

    `save_text(graph, "model.irkit")` writes `model.irkit` and `model.irkit.safetensors`. Each is written under another
    name and then renamed, so that no reader sees half a file; where there are contents of an earlier text, they stay
    until the new text stands, and the new ones are in `model.irkit.new.safetensors` for that moment. Raises
    SerializeError where they cannot be written, StaleError where a content has changed since the graph was made.
    """
    require_graph(graph)
    target = replaceable(path_of(path, SerializeError))
    side, new = settled(target)
    blobs = large_blobs(graph).values()
    written = None if not blobs else new if side.exists() else side
    try:
        with atomic_write(target) as file:
            file.write(print_graph(graph, hashes=True).encode())
            file.write(b"\n")
            if written is not None:
                write_side_file(written, blobs)
            graph.check_contents()  # while it was written, too
    except BaseException:
        if written is not None:
            written.unlink(missing_ok=True)
        raise
    if written is new:
        new.replace(side)


def settled(path: Path) -> tuple[Path, Path]:
    """The names of `sides_of`, of which the second is free: what a save that was killed has left there takes the place
    of the first where the text is made of it, and is removed where it is not."""
    side, new = sides_of(path)
    if new.exists():
        try:
            asked, there = set(_HASH.findall(path.read_text())), read_side_file(new)
            whole = asked <= there.keys()
        except (OSError, UnicodeDecodeError, ParseError):
            whole = False
        if whole:
            new.replace(side)
        else:
            new.unlink()
    return side, new


def sides_of(path: Path) -> tuple[Path, Path]:
    """The side file of a text, and its name while one of an earlier text is there."""
    return path.with_name(path.name + SUFFIX), path.with_name(path.name + ".new" + SUFFIX)


def load_text(path: str | PathLike[str], *, dialects: Dialects = None) -> Graph:
    """The graph that `save_text` wrote; its large constants are read from the side file when they are asked for.

    `dialects` are operators of your own, as `irkit.parse` takes them. Raises ParseError where a file is missing or
    malformed.
    """
    source = path_of(path, ParseError)
    try:
        text = source.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or error
        raise ParseError(
            f"{source.name} cannot be read as text: {why}",
            hint="give a file that irkit.save_text wrote; irkit.load reads ONNX models",
        ) from error
    found = [read_side_file(side) for side in sides_of(source) if side.exists()]  # by hash: none is taken for another
    blobs = {key: each for contents in reversed(found) for key, each in contents.items()}
    return parse(text, blobs or None, dialects=dialects)
