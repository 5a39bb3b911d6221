"""Contents that are computed of weights, computed again of other ones."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

from irkit.core.blobs import Blob, computed_blob, transposed_blob


def below(blob: Blob) -> Iterator[Blob]:
    """The contents that another is made of, as far as it tells."""
    yield from blob.of
    yield from blob.parts
    if blob.turned is not None:
        yield blob.turned


def is_made_of(blob: Blob, slots: Container[Blob]) -> bool:
    """Whether a content is one of the slots, or made of one."""
    return blob in slots or any(is_made_of(each, slots) for each in below(blob))


def is_made_of_these(blob: Blob, slots: Container[Blob]) -> bool:
    """Whether a content is one of the slots, or made of nothing else."""
    inside = list(below(blob))
    return blob in slots or (bool(inside) and all(is_made_of_these(each, slots) for each in inside))


def can_be_remade(blob: Blob, slots: Container[Blob]) -> bool:
    """Whether a content can be made of other weights: one of the slots, one transposed, or what is computed of some by
    a function that is known, and has a name only where that begins with the name of one."""
    if blob in slots or not is_made_of(blob, slots):
        return True
    inside = list(below(blob))
    if blob.parts or not all(can_be_remade(each, slots) for each in inside):
        return False
    named = not blob.name or any(is_name_of(blob.name, each.name) for each in inside)
    return named if blob.compute is not None else blob.turned is not None and not blob.of


def is_name_of(name: str, weight: str) -> bool:
    """Whether a name is that of a weight, or of something made of it."""
    return bool(weight) and (name == weight or name.startswith(f"{weight}."))


def remade(blob: Blob, blobs: Mapping[Blob, Blob], known: dict[object, Blob]) -> Blob:
    """A content that can be remade, of other weights: `blobs` has that which each of the slots is now, and `known` what
    was made already, so that of weights that are one it is one, too."""
    if blob in blobs:
        return blobs[blob]
    if not blob.of and blob.turned is None:
        return blob
    made = [remade(each, blobs, known) for each in below(blob)]
    key = (blob, *[each.key for each in made])
    found = known.get(key)
    if found is None:
        found = known[key] = made_of(blob, made)
    return found


def made_of(blob: Blob, others: Sequence[Blob]) -> Blob:
    """A content, made of others than it was."""
    if blob.compute is None:
        return transposed_blob(others[0])
    pairs = zip(below(blob), others, strict=True)
    names = [(old.name, new.name) for old, new in pairs if is_name_of(blob.name, old.name)]
    old, new = max(names, key=lambda pair: len(pair[0]), default=("", ""))
    return computed_blob(blob.dtype, blob.shape, blob.compute, others, f"{new}{blob.name[len(old) :]}" if old else "")


def computing_key(blob: Blob) -> Any:
    """Equal for contents that are computed alike of the very same contents; None where that is not known."""
    if blob.compute is None:
        return None
    compute = blob.compute
    if not isinstance(compute, FunctionType) or compute.__defaults__ or compute.__kwdefaults__:
        return None
    used = tuple(cell.cell_contents for cell in compute.__closure__ or ())
    if not all(map(is_plain, used)):
        return None
    return (compute.__code__, used, tuple(map(type, used)), blob.dtype, blob.shape, blob.name, tuple(map(id, blob.of)))


def is_plain(held: object) -> bool:
    """Whether something is an integer, a text, or a tuple of such."""
    return type(held) in (int, str) or (type(held) is tuple and all(map(is_plain, cast("tuple[object, ...]", held))))
