"""Numbers as integers with a scale: ranges, rounding, packing. Everything here is numpy.

A number x is kept as q = round(x / scale) + zero, and stands for (q - zero) * scale afterwards.
"""

from __future__ import annotations

import attrs
import numpy as np

from irkit.core.types import DType

LIMITS = {DType.INT4: (-8, 7), DType.UINT4: (0, 15), DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
"""The ends of each type."""

SHRUNK = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
"""The parts of a range that are tried where the square error decides."""


@attrs.frozen(eq=False)
class Scaled:
    """Integers with what they stand for.

    `integers` has rows that share a scale in blocks: (rows, blocks, block). `scales` and `zeros` are (rows, blocks).
    """

    integers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray

    @property
    def numbers(self) -> np.ndarray:
        """What the integers stand for, in float32: (rows, blocks, block)."""
        held = self.integers.astype(np.float32) - self.zeros[..., None].astype(np.float32)
        return held * self.scales[..., None]


def ends_of(dtype: DType, *, symmetric: bool, reduced: bool = False) -> tuple[int, int]:
    """The least and the largest integer that are used. Symmetric 8 bits leave -128 out, as ONNX Runtime wants it."""
    low, high = LIMITS[dtype]
    if reduced:
        low, high = low // 2, high // 2
    return (-high, high) if symmetric and dtype is DType.INT8 else (low, high)


def scale_of(low: np.ndarray, high: np.ndarray, ends: tuple[int, int], *, symmetric: bool) -> tuple[np.ndarray, ...]:
    """(scale, zero) for ranges from `low` to `high`, in float32 and int32; 0 is always one of the numbers that can be
    said. A range of nothing but 0 has the scale 1."""
    low, high = np.minimum(low, 0).astype(np.float64), np.maximum(high, 0).astype(np.float64)
    least, largest = ends
    if symmetric:
        # Of -8 to 7, -8 takes the number of the largest size, whichever its sign: the scale may be negative.
        extreme = np.maximum(-low, high) if least == -largest else np.where(-low > high, low, high)
        scale = extreme / (largest if least == -largest else least)
        scale = np.where(np.abs(scale) < np.finfo(np.float32).tiny, 1.0, scale)
        return scale.astype(np.float32), np.zeros(scale.shape, np.int32)
    scale = (high - low) / (largest - least)
    scale = np.where(scale < np.finfo(np.float32).tiny, 1.0, scale).astype(np.float32)
    zero = np.clip(np.rint(least - low / scale), least, largest).astype(np.int32)
    return scale, zero


def nearest_integers(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, ends: tuple[int, int]) -> np.ndarray:
    """The integers next to numbers, ties to even, as int32."""
    return np.clip(np.rint(x / scale) + zero, *ends).astype(np.int32)


def in_blocks(rows: np.ndarray, block: int | None) -> np.ndarray:
    """(rows, n) as (rows, blocks, block), the last one filled with 0; one block for each row where there is no size."""
    count, size = rows.shape
    if block is None:
        return rows[:, None, :]
    blocks = -(-size // block)
    filled = np.pad(rows, ((0, 0), (0, blocks * block - size)))
    return filled.reshape(count, blocks, block)


def scaled_rows(
    rows: np.ndarray, dtype: DType, *, symmetric: bool, block: int | None, reduced: bool = False, search: bool = False
) -> Scaled:
    """The rows of a matrix as integers, rounded to the nearest.

    `search` tries parts of each range, and takes the one of the least square error.
    """
    ends = ends_of(dtype, symmetric=symmetric, reduced=reduced)
    x = in_blocks(np.asarray(rows, np.float32), block)
    low, high = x.min(-1), x.max(-1)
    best: Scaled | None = None
    least = np.full(low.shape, np.inf)
    for part in SHRUNK if search else (1.0,):
        scales, zeros = scale_of(low * part, high * part, ends, symmetric=symmetric)
        found = Scaled(nearest_integers(x, scales[..., None], zeros[..., None], ends), scales, zeros)
        if not search:
            return found
        error = np.square(found.numbers - x, dtype=np.float64).sum(-1)
        better = error < least
        least = np.where(better, error, least)
        best = found if best is None else chosen(better, found, best)
    return best if best is not None else found  # pyright: ignore[reportPossiblyUnboundVariable]


def chosen(better: np.ndarray, new: Scaled, old: Scaled) -> Scaled:
    """Of two ways to scale, for each block the one that is better."""
    return Scaled(
        np.where(better[..., None], new.integers, old.integers),
        np.where(better, new.scales, old.scales),
        np.where(better, new.zeros, old.zeros),
    )


def gptq(rows: np.ndarray, moments: np.ndarray, plain: Scaled, ends: tuple[int, int], *, damp: float = 0.01) -> Scaled:
    """Integers on the scales of `plain`, column by column, where the error of each column is made up for in those that
    follow, so far as the inputs move together (Frantar et al., 2022).

    `moments` is X^T X of the sample inputs X, whose columns are those of `rows`.
    """
    size = rows.shape[1]
    block = plain.integers.shape[-1]
    scales = np.repeat(plain.scales, block, axis=1)[:, :size]
    zeros = np.repeat(plain.zeros, block, axis=1)[:, :size]
    held = moments.astype(np.float64).copy()
    dead = np.diag(held) == 0
    held[dead, dead] = 1.0
    held[np.diag_indices(size)] += damp * float(np.mean(np.diag(held)))
    # The inverse's upper Cholesky factor: row i tells how the error of column i spreads to those after it.
    spread = np.linalg.cholesky(np.linalg.inv(held)).T
    left = rows.astype(np.float64).copy()
    found = np.zeros(rows.shape, np.int32)
    for i in range(size):
        found[:, i] = nearest_integers(left[:, i], scales[:, i], zeros[:, i], ends)
        error = (left[:, i] - (found[:, i] - zeros[:, i]) * scales[:, i].astype(np.float64)) / spread[i, i]
        left[:, i + 1 :] -= np.outer(error, spread[i, i + 1 :])
    filled = np.pad(found, ((0, 0), (0, plain.integers.shape[1] * block - size)))
    # What fills the last block stands for 0.
    shaped = filled.reshape(plain.integers.shape)
    if filled.shape[1] != size:
        inside = (np.arange(int(filled.shape[1])) < size).reshape(1, *plain.integers.shape[1:])
        shaped = np.where(inside, shaped, plain.zeros[..., None])
    return Scaled(shaped, plain.scales, plain.zeros)


def packed_bytes(integers: np.ndarray, bits: int) -> np.ndarray:
    """Unsigned integers as bytes: two of 4 bits in one, the first in the lower half, along the last axis."""
    small = integers.astype(np.uint8)
    if bits == 8:
        return small
    if small.shape[-1] % 2:
        small = np.concatenate([small, np.zeros((*small.shape[:-1], 1), np.uint8)], axis=-1)
    return small[..., 0::2] | (small[..., 1::2] << 4)
