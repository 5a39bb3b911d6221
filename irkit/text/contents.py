"""Where the contents come from that a text only names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, cast

import attrs
import numpy as np

from irkit.core.blobs import Blob, blob
from irkit.core.ir import Graph
from irkit.core.literals import quoted_text
from irkit.core.printer import long_blobs
from irkit.core.types import Tensor
from irkit.errors import ParseError
from irkit.support.arguments import path_of
from irkit.text.side_file import Stored, read_side_file

Find = Callable[[str | int, str], object]
"""(label, public name) -> what is held under them, or None."""

Contents = Callable[[str | int, str, Tensor], Blob]
"""(label, public name, type) -> the blob. The label is `blob#...`, a name, or a number. Raises LookupError."""


def contents_of(source: object) -> Contents:
    """The contents that a graph, a mapping from name, number or hash, or a side file hold; with None, there are none.

    One label gives one blob.
    """
    if source is None:
        find: Find = lambda label, name: None  # noqa: E731
    elif isinstance(source, Graph):
        find = of_graph(source)
    elif isinstance(source, Mapping):
        find = of_mapping(cast("Mapping[Any, Any]", source))
    else:
        find = of_mapping(read_side_file(path_of(source, ParseError)))
    found: dict[Hashable, Blob] = {}

    def content(label: str | int, name: str, type_: Tensor) -> Blob:
        key = (label, name, type_)
        if key not in found:
            what = find(label, name)
            if what is None:
                raise LookupError(f"the content of {shown(label)} is not in the text, and was not handed in")
            found[key] = fitting(what, label, name, type_)
        return found[key]

    return content


def shown(label: str | int) -> str:
    """A label as the text has it."""
    if isinstance(label, str) and label.startswith("blob#"):
        return label
    return f"blob {quoted_text(label) if isinstance(label, str) else label}"


def of_graph(graph: Graph) -> Find:
    """The blobs that texts of a graph leave out, by the labels that they have there, or by their hashes."""
    labels = long_blobs(graph)

    def find(label: str | int, name: str) -> object:
        if isinstance(label, int):
            return labels.get(str(label))
        if label.startswith("blob#"):
            digest = label.removeprefix("blob#")
            same = [b for b in labels.values() if b.digest.hex() == digest]
            return next((b for b in same if b.name == name), same[0] if same else None)
        return labels.get(quoted_text(label))

    return find


def of_mapping(given: Mapping[Any, object]) -> Find:
    """The arrays or blobs of a mapping; by hash, or by public name, or by the number of the label."""

    def find(label: str | int, name: str) -> object:
        digest = label.removeprefix("blob#") if isinstance(label, str) and label.startswith("blob#") else None
        keys = (digest, name or None) if digest else (label, str(label), name or None)
        return next((given[key] for key in keys if key is not None and key in given), None)

    return find


def fitting(what: object, label: str | int, name: str, type_: Tensor) -> Blob:
    """What was found, as a blob of that name. Raises LookupError where it has another type."""
    given = what.blob(type_) if isinstance(what, Stored) else what
    found = given if isinstance(given, Blob) else blob(np.asarray(given))
    if found.type != type_:
        raise LookupError(f"the content of {shown(label)} is a {found.type!r}, where the text says {type_!r}")
    return found if found.name == name else attrs.evolve(found, name=name, source=found.source or found)
