"""What tells whether a torch tensor still is what it was when a graph was made of it.

torch counts the writes into a tensor that autograd could see: operators in place, `copy_`, `load_state_dict`, most
optimizers. It does not count what goes through `.data`, numpy, the storage or a fused optimizer; a sample of the
elements is compared for those, and finds what writes all of a tensor, or most of it. A tensor on another device than
the CPU is not sampled.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import torch

from irkit.errors import StaleError
from irkit.support.watch import Watch, sample


@attrs.frozen(eq=False, slots=False)
class TensorWatch:
    """Watches the memory of a tensor: its address, torch's count of writes, and a sample of its elements. Each weight
    has one, and one with slots takes longer to be made."""

    tensor: torch.Tensor
    name: str
    address: int
    version: int
    array: np.ndarray | None = None
    first: bytes = b""

    @classmethod
    def of(cls, tensor: torch.Tensor, name: str, array: np.ndarray | None) -> TensorWatch:
        """The watch of a tensor as it is now; `array` is a view of its memory, where there can be one."""
        first = b"" if array is None else sample(array)
        return cls(tensor, name, address(tensor), version(tensor), array, first)

    def check(self, closely: bool = True) -> None:
        """Raises StaleError where the tensor was written into, or its memory given away."""
        if address(self.tensor) != self.address:
            raise self.stale("got other memory")
        written = version(self.tensor) != self.version
        if written or (closely and self.array is not None and sample(self.array) != self.first):
            raise self.stale("was written in place")

    def stale(self, what: str) -> StaleError:
        """The error for a tensor that is no longer what it was."""
        return StaleError(
            f"{f'the weight {self.name}' if self.name else 'a tensor'} {what} after the graph was made",
            hint="export the model again; to go on training beside a graph that keeps what it was, export it with "
            "copy=True, or take irkit.freeze(graph) before the weights change",
        )


@attrs.frozen(eq=False)
class ManyWatches:
    """Many watches, asked at once: those of plain tensors in one loop, so that a call costs little.

    `tensors` lie at `addresses` and were written `versions` times; of those that are `uncounted`, of inference mode,
    the address alone is known. After a run of the session the processor's caches hold nothing of this: what takes time
    is how much memory is looked at. So the numbers are made anew, side by side, and none that is compared with them
    outlives its comparison.
    """

    watches: Sequence[Watch]
    others: Sequence[Watch]
    tensors: Sequence[torch.Tensor]
    addresses: Sequence[int]
    versions: Sequence[int]
    uncounted: Sequence[tuple[torch.Tensor, int]]

    @classmethod
    def of(cls, watches: Sequence[Watch]) -> ManyWatches:
        """The same watches, for all of which what they say now is as yet true or not, as each of them says."""
        plain = [w for w in watches if isinstance(w, TensorWatch) and type(w.tensor) in PLAIN and w.address]
        known = {id(w) for w in plain}
        others = [w for w in watches if id(w) not in known]
        counted = [w for w in plain if not w.tensor.is_inference()]
        uncounted = [(w.tensor, w.address) for w in plain if w.tensor.is_inference()]
        addresses = np.array([w.address for w in counted], np.uint64).tolist()
        return cls(watches, others, [w.tensor for w in counted], addresses, [w.version for w in counted], uncounted)

    def check(self) -> None:
        """Raises StaleError where a watch would that does not look closely."""
        if self.are_written():
            for watch in self.watches:
                watch.check(closely=False)
        for watch in self.others:
            watch.check(closely=False)

    def are_written(self) -> bool:
        """Whether one of the tensors was written, or lies elsewhere."""
        for tensor, at, version in zip(self.tensors, self.addresses, self.versions, strict=True):
            if tensor._version != version or tensor.data_ptr() != at:
                return True
        return bool(self.uncounted) and any(tensor.data_ptr() != at for tensor, at in self.uncounted)


PLAIN = (torch.Tensor, torch.nn.Parameter)


def address(tensor: torch.Tensor) -> int:
    """Where the elements of a tensor lie; 0 where that is nowhere, as for sparse ones."""
    return tensor.data_ptr() if tensor.layout is torch.strided else 0


def version(tensor: torch.Tensor) -> int:
    """How often torch saw the tensor written; 0 for tensors of inference mode, of which it keeps no count."""
    return 0 if tensor.is_inference() else tensor._version
