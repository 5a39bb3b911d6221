"""Initializers that hold the same numbers, held once.

Equal values are merged by every sweep, where they are small or the same storage. What this adds are large constants
that were made twice: they are compared by dtype and shape, then by their first elements, and read in full only
where those agree, so that different weights cost next to nothing, however large they are.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs
import numpy as np

from irkit.core.blobs import SMALL, Blob
from irkit.core.ir import Graph, Value, constant, substitute
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT
from irkit.errors import AbsentError
from irkit.rewriting.passes import Observer, Pass, in_bodies

SAMPLE = 64
"""So many bytes at the beginning are looked at before two constants are compared."""

CHUNK = 1 << 22
"""So many elements are compared at a time."""


@attrs.frozen(eq=False)
class Contents:
    """The different contents that one run has met, each with the first blob that holds it: by dtype, shape and first
    bytes. One that is `alone` of its dtype and shape has not been looked at."""

    alone: dict[Hashable, Blob | None] = attrs.field(factory=dict[Hashable, "Blob | None"])
    found: dict[Hashable, list[Blob]] = attrs.field(factory=dict[Hashable, list[Blob]])

    def first(self, blob: Blob) -> Blob:
        """The first blob of the same content: `blob` itself where there is none."""
        kind = blob.dtype, blob.shape
        if kind not in self.alone:
            self.alone[kind] = blob
            return blob
        lone = self.alone[kind]
        if lone is not None:
            self.found[kind, sample(lone)] = [lone]
            self.alone[kind] = None
        alike = self.found.setdefault((kind, sample(blob)), [])
        for other in alike:
            if other.key == blob.key or is_equal(blob, other):
                return other
        alike.append(blob)
        return blob


def sample(blob: Blob) -> bytes:
    """The first bytes. Of a content that lies in a file no more than these are read."""
    place = blob.place
    if place is not None and is_stored(blob):
        size = min(blob.nbytes, SAMPLE)
        if len(place.head) >= size:
            return place.head[:size]
        found = place.file.peek(place.start, size)
        place.file.check()
        return found
    try:
        return blob.read().flat[:SAMPLE].tobytes()[:SAMPLE]
    except AbsentError:
        return repr(blob.key).encode()


def is_stored(blob: Blob) -> bool:
    """True for a content that lies in a file, and of which parts can be read."""
    return blob.place is not None and blob.dtype.bits >= 8 and bool(blob.shape)


def is_equal(a: Blob, b: Blob) -> bool:
    """True where two blobs of one dtype and shape hold the same bits. What lies in files is read a piece at a time."""
    if a.place is not None and b.place is not None and is_stored(a):
        pieces = zip(a.place.chunks(a.nbytes), b.place.chunks(b.nbytes), strict=True)
        return all(
            np.array_equal(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)) for one, other in pieces
        )
    one, other = (bits(blob.read()) for blob in (a, b))
    rows = max(1, CHUNK // max(1, one[0].size))
    return all(np.array_equal(one[i : i + rows], other[i : i + rows]) for i in range(0, len(one), rows))


def bits(array: np.ndarray) -> np.ndarray:
    """The elements as unsigned numbers of their width, which are equal just where all bits are; nothing is copied."""
    kinds = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    if array.itemsize in kinds:
        return array.view(kinds[array.itemsize])
    return np.stack([np.real(array), np.imag(array)], axis=-1).view(np.uint64)


def share_contents_here(graph: Graph, table: Contents, *, names: bool) -> Graph:
    """The graph with equal large constants held once, outside of bodies; see `share_contents`."""
    swaps: dict[Value, Value] = {}
    for value in graph.order:
        if value.op != CONSTANT:
            continue
        blob: Blob = value.attributes[0][1]
        if blob.nbytes <= SMALL or blob.dtype is DType.STRING or (names and blob.is_weight):
            continue
        found = table.first(blob)
        if found is not blob and found.key != blob.key:
            swaps[value] = constant(found).with_origin(value.origin)
    return substitute(graph, swaps) if swaps else graph


def made(names: bool = True) -> Pass:
    """The pass with its option."""

    def body(graph: Graph, observe: Observer, depth: int) -> Graph:
        table = Contents()

        here = Pass("here", (), lambda inner, _observe, _depth: share_contents_here(inner, table, names=names))
        return in_bodies(here).run(graph)

    return Pass("share_contents", () if names else (("names", names),), body, made)


share_contents: Pass = made()
"""Large constants of equal content held once, across bodies too. Weights keep their public names, and so stay two where
they have two; `share_contents(names=False)` merges those as well, under the name that comes first."""
