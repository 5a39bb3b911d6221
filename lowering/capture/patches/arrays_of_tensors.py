"""`torch.from_numpy` of an array that stands for a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lowering.capture.patches.replaced import Replaced, replaced_attributes


class OfTensor:
    """What stands for an array of NumPy's whose content is a tensor's."""

    tensor: torch.Tensor
    dtype: Any

    def in_own_order(self) -> Any:
        """The same, or what has its elements one behind the other in memory."""
        return self

    def astype(self, dtype: Any) -> Any:
        """The array with elements of another type."""
        raise TypeError(f"no elements of {dtype}")


def arrays_of_tensors() -> Replaced:
    """A block in which torch makes of such an array its tensor."""
    own: Callable[[Any], torch.Tensor] = torch.from_numpy

    def from_numpy(array: Any) -> torch.Tensor:
        return array.tensor if isinstance(array, OfTensor) else own(array)

    return replaced_attributes((torch, "from_numpy", from_numpy))
