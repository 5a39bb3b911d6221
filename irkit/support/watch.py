"""What tells whether a content that lies in somebody else's memory still is what it was.

A content is the value that it had when its blob was made. Large contents are not copied for that: a watch is made with
the blob, and asked before each reading. What watches torch's tensors stands in `lowering.records.tensor_versions`, what
watches files in `irkit.support.stored_files`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs
import numpy as np

from irkit.errors import StaleError

PLACES, RUN = 8, 8
"""A sample of a content is so many runs of so many elements, spread evenly: few pages of memory, at any size."""


class Watch(Protocol):
    """What tells whether a content still is what it was when its blob was made."""

    def check(self, closely: bool = True) -> None:
        """Raises StaleError where the content has changed. What takes more than a moment is looked at `closely`."""


def distinct(watches: Iterable[Watch | None]) -> tuple[Watch, ...]:
    """Each watch once."""
    return tuple({id(each): each for each in watches if each is not None}.values())


@attrs.frozen(eq=False)
class SampleWatch:
    """Watches an array that is in others' hands by a sample of it: what writes all of it, or much of it, is noticed."""

    array: np.ndarray
    what: str
    first: bytes

    @classmethod
    def of(cls, array: np.ndarray, what: str) -> SampleWatch:
        """The watch of an array as it is now; `what` names it in the error."""
        return cls(array, what, sample(array))

    def check(self, closely: bool = True) -> None:
        """Raises StaleError where the sample has changed; looks only `closely`."""
        if closely and sample(self.array) != self.first:
            raise StaleError(
                f"{self.what} was written into after the graph was made",
                hint="make the constant again; leave copy=False out, and irkit keeps a copy",
            )


def sample(array: np.ndarray) -> bytes:
    """The bytes of a few elements that are spread over an array."""
    lying = array if array.flags.c_contiguous else array.T
    if not lying.flags.c_contiguous:
        steps = tuple(slice(None, None, max(1, size // PLACES)) for size in array.shape)
        return array[steps].tobytes()
    if lying.size and not lying.size % PLACES:  # as weights' mostly is, and each weight has one
        rows = lying.reshape(PLACES, -1)
        return rows[:, :RUN].tobytes() + rows[-1, -1:].tobytes()
    flat = lying.reshape(-1)
    count = flat.size // PLACES
    return flat[: count * PLACES].reshape(PLACES, count)[:, :RUN].tobytes() + flat[-1:].tobytes()
