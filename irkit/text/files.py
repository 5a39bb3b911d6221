"""A graph as a text file, with its weights in a safetensors file beside it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from irkit.errors import ParseError
from irkit.files import replacing
from irkit.ir import Graph
from irkit.text.parser import parse
from irkit.text.printer import large_blobs, print_graph
from irkit.text.side_file import write_side_file

SUFFIX = ".safetensors"
"""What the name of the side file has beyond that of the text file."""


def save_text(graph: Graph, path: str | PathLike[str]) -> None:
    """Writes the text of the graph, and beside it, where the graph has large constants, their contents.

    `save_text(graph, "model.irkit")` writes `model.irkit` and `model.irkit.safetensors`. Each is written under another
    name and then renamed, so that no reader sees half a file. Raises SerializeError where they cannot be written.
    """
    target = Path(path)
    blobs = large_blobs(graph).values()
    with replacing(target) as file:
        file.write(print_graph(graph, hashes=True).encode())
        file.write(b"\n")
        if blobs:
            write_side_file(target.with_name(target.name + SUFFIX), blobs)


def load_text(path: str | PathLike[str]) -> Graph:
    """The graph that `save_text` wrote; its large constants are read from the side file when they are asked for.

    Raises ParseError where a file is missing or malformed.
    """
    source = Path(path)
    try:
        text = source.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or error
        raise ParseError(f"{source.name} cannot be read as text: {why}") from error
    beside = source.with_name(source.name + SUFFIX)
    return parse(text, beside if beside.exists() else None)
