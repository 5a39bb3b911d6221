"""Functions of whole numbers that dimensions have none for: bits, powers of a constant, rounded logarithms. The graph
looks them up in tables, or computes them, in 64 bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from lowering.errors import LoweringError

MOST = 2**63 - 1
"""The greatest number of 64 bits."""
REACHES: Mapping[str, int] = MappingProxyType({"exp": 709, "expm1": 709, "exp2": 1023})
"""As far as Python computes a function of `math` that grows like a power."""


def whole_tensor(number: Any) -> torch.Tensor:
    """A whole number as a tensor of 64 bits."""
    return torch.full((), number, dtype=torch.int64)


def powers_of(base: int) -> list[int]:
    """base ** 0, base ** 1, ... as far as 64 bits hold them; `base` is none of -1, 0, 1."""
    found = [1]
    while abs(found[-1] * base) <= MOST:
        found.append(found[-1] * base)
    return found


def constant_power(base: int, exponent: Any, example: int) -> Any:
    """base ** exponent, where the exponent varies and is at least 0. Raises LoweringError where the example's has more
    than 64 bits; that no other has is kept as a condition."""
    if base in (0, 1):
        return 1 if base else 1 - torch.sym_min(exponent, 1)
    if base == -1:
        return 1 - exponent % 2 * 2
    table = powers_of(base)
    if example >= len(table):
        raise LoweringError(f"{base} to the power of {example} has more than 64 bits", hint="compute it with floats")
    torch._check(exponent < len(table))
    passed = whole_tensor(exponent) >= torch.arange(1, len(table))
    made = 1 + (passed * torch.tensor([above - below for below, above in itertools.pairwise(table)])).sum()
    return (made.clamp(1, table[-1]) if base > 0 else made).item()


def counted_steps(steps: Callable[[int], int], number: Any) -> Any:
    """steps(number), of a function of whole numbers from 1 on that never falls and has few values."""
    first = steps(1)
    ends = thresholds(steps, range(first + 1, steps(MOST) + 1))
    return (whole_tensor(number) >= torch.tensor(ends)).sum().item() + first


def thresholds(steps: Callable[[int], int], values: Sequence[int]) -> list[int]:
    """For each value the first number from 1 on whose value it is, or a greater one."""
    found, start = [], 1
    for value in values:
        low, high = start, MOST
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if steps(middle) >= value else (middle + 1, high)
        start = low
        found.append(low)
    return found


def bit_length(number: Any) -> Any:
    """number.bit_length()"""
    size = torch.sym_max(number, -number)
    return (whole_tensor(size) >= torch.tensor(powers_of(2))).sum().item()


def masked_number(number: Any, mask: int) -> Any:
    """number & mask, where the mask cuts the lowest bits off, or leaves them alone; None of another mask."""
    if mask >= 0 and mask & (mask + 1) == 0:
        return number % (mask + 1)
    if mask < 0 and -mask & (-mask - 1) == 0:
        return number // -mask * -mask
    return None


def combined_bits(function: Callable[[Any, Any], torch.Tensor], a: Any, b: Any) -> Any:
    """`torch.bitwise_and`, or another, of two whole numbers."""
    return function(whole_tensor(a), whole_tensor(b)).item()
