"""Other numbers in place of an example's, at which two programs that should be one are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def randomized(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Normal random numbers in place of floats; other numbers as they are."""
    if array.dtype.kind != "f":
        return array
    return generator.standard_normal(array.shape).astype(array.dtype)


def turned(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Masks with 0 and 1 exchanged; the rest redrawn."""
    is_mask = array.dtype.kind != "f" and bool(np.isin(array, (0, 1)).all())
    return (1 - array).astype(array.dtype) if is_mask else redrawn(array, generator)


def redrawn(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The same with other numbers drawn from those that are there; masks, from 0 and 1."""
    if array.dtype.kind == "f" or not array.size:
        return randomized(array, generator)
    is_mask = bool(np.isin(array, (0, 1)).all())
    return generator.choice(np.array([0, 1], array.dtype) if is_mask else array.reshape(-1), array.shape)


def zeroed(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Zeros in place of floats; other numbers as they are."""
    return np.zeros_like(array) if array.dtype.kind == "f" else array


def nearby(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Floats of the same sign, and small ones above 0 in place of zeros; other numbers as they are."""
    if array.dtype.kind != "f":
        return array
    beside = array * generator.uniform(0.5, 1.5, array.shape)
    return np.where(array == 0, generator.uniform(0.05, 0.5, array.shape), beside).astype(array.dtype)


DRAWS: tuple[tuple[Draw, Draw], ...] = (
    *((draw, draw) for draw in (randomized, turned, redrawn)), (zeroed, randomized), (randomized, zeroed),
)  # fmt: skip
"""What is drawn of the first, third, ... and of the second, fourth, ... of some arrays, each time that two programs are
compared."""


FURTHER = 8
"""How often numbers are drawn once more where integers count that only one of two programs hangs on."""


def draws_for(apart: Iterable[np.ndarray]) -> tuple[tuple[Draw, Draw], ...]:
    """The draws by which two programs are compared, given the arrays on which only one of them hangs: of integers some
    few draws may tell nothing, since they are drawn from those that are there."""
    several = any(array.dtype.kind in "iu" and len(np.unique(array)) > 1 for array in apart)
    return (*DRAWS, *(((redrawn, redrawn),) * FURTHER if several else ()))


def redrawn_tensor(leaf: Any, draw: Draw, generator: np.random.Generator) -> Any:
    """What is drawn of a tensor; anything else as it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    numbers = leaf.detach().double() if leaf.is_floating_point() else leaf.detach()
    return torch.from_numpy(np.array(draw(numbers.numpy(), generator))).to(leaf)
