"""By what a model knows the file of weights that was written with it: one short text at the head of the file and in the
model's metadata, so that files of two saves that were mixed are told apart without reading the weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from irkit.core.blobs import Blob
from irkit.errors import LoadError
from irkit.support.stored_files import StoredFile

MARK = b"irkit: weights of a model beside it\n"
"""How a file of weights begins; its identity follows."""
IDENTITY_KEY = "irkit.weights"
"""Key of a model's metadata for the identity of its file of weights. It is a file's, and no graph's."""
_DIGITS = 24
_SAMPLES, _SAMPLE = 16, 64


class Identity:
    """Gathers the identity of a file of weights: where each content lies, and bytes of it, evenly spaced, since to hash
    all of them would take as long as to write them. So equal models have equal identities, and two trainings of one
    model other ones; weights that differ in a few numbers only may have the same."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGITS // 2)

    def place(self, blob: Blob, offset: int) -> None:
        """The next content, and where it lies."""
        self._hash.update(repr((int(blob.dtype), blob.shape, offset)).encode())

    def sample(self, chunk: bytes | memoryview) -> None:
        """Some bytes of the next piece of it."""
        step = max(len(chunk) // _SAMPLES, _SAMPLE)
        for start in range(0, len(chunk), step):
            self._hash.update(chunk[start : start + _SAMPLE])
        self._hash.update(chunk[-_SAMPLE:])

    @property
    def text(self) -> str:
        """The identity of all that came so far."""
        return self._hash.hexdigest()


def exact_identity(placed: Iterable[tuple[Blob, int]]) -> str:
    """The identity by all bytes of contents whose digests are known already."""
    made = Identity()
    for blob, offset in placed:
        made.place(blob, offset)
        made.sample(blob.digest)
    return made.text


def require_written_together(file: StoredFile, said: Any) -> None:
    """Raises LoadError for a file of weights of irkit's whose identity is another than the model says. What a model
    says nothing of, or another program wrote, is taken as it is."""
    size = len(MARK) + _DIGITS
    if not said or file.size < len(MARK):
        return
    head = file.peek(0, min(size, file.size))
    if head.startswith(MARK) and head[len(MARK) :] != str(said).encode():
        raise LoadError(
            f"{file.path.name!r} holds the weights of another model, or of another save of this one",
            hint="put the file beside it that was written with the model, or save both anew",
        )
