"""Other numbers in place of an example's, at which two programs that should be one are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

Draw = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""Of an array, and of one in which the numbers stand that are known for it, more of them perhaps."""


def randomized(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Normal random numbers in place of floats; other numbers as they are."""
    if array.dtype.kind != "f":
        return array
    return generator.standard_normal(array.shape).astype(array.dtype)


def is_mask(held: np.ndarray) -> bool:
    """Whether the numbers that are known are those of a mask."""
    return held.dtype.kind != "f" and bool(np.isin(held, (0, 1)).all())


def turned(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Masks with 0 and 1 exchanged; the rest redrawn."""
    return (1 - array).astype(array.dtype) if is_mask(held) else redrawn(array, held, generator)


def redrawn(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The same with other numbers drawn from those that are known; masks, from 0 and 1."""
    if array.dtype.kind == "f" or not array.size:
        return randomized(array, held, generator)
    return generator.choice(np.array([0, 1], array.dtype) if is_mask(held) else held.reshape(-1), array.shape)


def zeroed(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Zeros in place of floats; other numbers as they are."""
    return np.zeros_like(array) if array.dtype.kind == "f" else array


def nearby(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Floats of the same sign, and small ones above 0 in place of zeros; other numbers as they are."""
    if array.dtype.kind != "f":
        return array
    beside = array * generator.uniform(0.5, 1.5, array.shape)
    return np.where(array == 0, generator.uniform(0.05, 0.5, array.shape), beside).astype(array.dtype)


def later_state(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """What state may have become: greater counts, masks at random, and floats nearby."""
    if array.dtype.kind == "b":
        return generator.integers(0, 1, array.shape, endpoint=True).astype(bool)
    if array.dtype.kind not in "iu":
        return nearby(array, held, generator)
    more = min(int(np.iinfo(array.dtype).max) // 2, int(generator.choice([COUNT, FAR, FAR * FAR])))
    return (np.abs(array) // 2 + generator.integers(0, more, array.shape, endpoint=True)).astype(array.dtype)


COUNT = 8
"""As far some counts go."""


def spread(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Integers of either sign and of several bytes in place of those of no mask; other numbers redrawn."""
    if array.dtype.kind not in "iu" or is_mask(held):
        return redrawn(array, held, generator)
    ends, far = np.iinfo(array.dtype), 4 * int(np.abs(held.astype("i8")).max()) + FAR
    low, high = max(int(ends.min), -far), min(int(ends.max), far)
    return generator.integers(low, high, array.shape, endpoint=True).astype(array.dtype)


def the_same(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The same numbers in all arrays of a shape, for those that are compared with one another."""
    again = np.random.default_rng(SEED)
    if array.dtype.kind in "iu" and not is_mask(held):
        return again.integers(0, SOME, array.shape).astype(array.dtype)
    return redrawn(array, held, again)


SEED, SOME = 5, 4


def below(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Integers below 0 in place of those of no mask; other numbers redrawn."""
    made = spread(array, held, generator)
    return made if array.dtype.kind != "i" or is_mask(held) else (-np.abs(made // 2) - 1).astype(array.dtype)


FAR = 300
"""So far beyond those that are known integers are drawn."""
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


BESIDE = (2.0, -2.0, 1.0, 0.5, -1.0, -0.5, 10.0, 0.99, 1.01, -0.99, -1.01, 0.0)
"""Multiples of a number that lie on both sides of it, and it."""


def beside(whole: Sequence[int], real: Sequence[float], turn: int) -> Draw:
    """Multiples of some numbers in place of floats, and these whole numbers and their neighbours, with some of those
    that are there, in place of integers: small arrays have each in its turn."""

    def draw(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        if array.dtype.kind == "f" and real:
            return taken(np.array([a * b for b in BESIDE for a in real], array.dtype), array, generator)
        if array.dtype.kind not in "iu" or not whole or not held.size:
            return redrawn(array, held, generator)
        ends = np.iinfo(array.dtype)
        near = (*whole, *(n + 1 for n in whole), *(n - 1 for n in whole if n and not is_mask(held)))
        pool = np.array([n for n in dict.fromkeys(near) if ends.min <= n <= ends.max], array.dtype)
        return taken(np.concatenate([pool, held.reshape(-1)[: len(pool)]]), array, generator)

    def taken(pool: np.ndarray, array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Numbers of a pool, for a small array those whose turn it is."""
        if array.size >= len(pool):
            return generator.choice(pool, array.shape)
        return np.resize(np.roll(pool, -turn * array.size), array.shape)

    return draw


def beyond(real: Sequence[float], sign: int) -> Draw:
    """Floats that all lie beyond some numbers, on one side; other numbers redrawn."""

    def draw(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        if array.dtype.kind != "f":
            return redrawn(array, held, generator)
        return (sign * generator.choice(real, array.shape) * generator.uniform(1, 3, array.shape)).astype(array.dtype)

    return draw


def scaled(scale: float) -> Draw:
    """Normal random numbers times a scale in place of floats; other numbers redrawn."""

    def draw(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        made = redrawn(array, held, generator)
        return (made.astype("f8") * scale).astype(array.dtype) if array.dtype.kind == "f" else made

    return draw


SCALES = (1e-3, 10.0, 100.0, 1e4)


def infinite(array: np.ndarray, held: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Some infinities and NaN among random floats; other numbers as they are."""
    ends = generator.choice(np.array([np.nan, np.inf, -np.inf, 0.0, 0.0, 0.0]), array.shape)
    return (redrawn(array, held, generator) + ends).astype(array.dtype) if array.dtype.kind == "f" else array


def draws_beside(
    whole: Sequence[int], real: Sequence[float], finite: bool, arrays: Sequence[np.ndarray], held: Sequence[np.ndarray]
) -> tuple[tuple[Draw, Draw], ...]:
    """Further draws, which programs need not take: for such as compare with these whole numbers, and others, or ask
    whether one is finite, and for integers, of which those that are `held` may be few."""
    integers = any(h.dtype.kind in "iu" and h.size and not is_mask(h) for h in held)
    pools = (len(real) * len(BESIDE) if a.dtype.kind == "f" else 3 * len(whole) for a in arrays)
    count = max(
        (min(most // a.size + 1, MOST_TURNS) for a, most in zip(arrays, pools, strict=True) if a.size), default=1
    )
    turns = [beside(whole, real, turn) for turn in range(max(count, 2) if real or whole else 0)]
    pairs = [pair for each in turns[:2] for pair in ((each, each), (each, redrawn), (redrawn, each))]
    pairs += [(each, each) for each in turns[2:]]
    pairs += [(beyond(real, sign), beyond(real, sign)) for sign in ((1, -1) if real else ())]
    pairs += [(the_same, the_same)] if len(arrays) > 1 else []
    pairs += [(scaled(scale), scaled(scale)) for scale in (SCALES if real else ())]
    far = [(spread, spread), (spread, redrawn), (redrawn, spread), (below, below)] if integers else []
    return (*pairs, *far, *(((infinite, infinite),) if finite else ()))


MOST_TURNS = 8


def redrawn_tensor(leaf: Any, held: Any, draw: Draw, generator: np.random.Generator) -> Any:
    """What is drawn of a tensor, for which the numbers of `held` are known; anything else as it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.is_complex():
        whole = held.resolve_conj() if isinstance(held, torch.Tensor) else leaf
        parts = [torch.view_as_real(each) for each in (leaf.resolve_conj(), whole)]
        return torch.view_as_complex(redrawn_tensor(parts[0], parts[1], draw, generator))
    return torch.from_numpy(np.array(draw(plain_array(leaf), plain_array(held), generator))).to(leaf)


def plain_array(tensor: torch.Tensor) -> np.ndarray:
    """What a tensor holds, floats as those of NumPy."""
    return (tensor.detach().double() if tensor.is_floating_point() else tensor.detach()).cpu().numpy()
