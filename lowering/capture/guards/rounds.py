"""What the number of a round says of conditions: it is 0 or more, and less than the number of rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.dims import Dim, Range, signs
from irkit.dims.functions import interval


@attrs.frozen
class Below:
    """A number that is 0 or more, and less than this one, which is so that there is such a number."""

    length: Any


Numbers = Mapping[Any, "Dim | Below"]
"""What symbols are, over those that come behind them."""


def always_in_rounds(condition: Any, numbers: Numbers) -> bool:
    """Whether a condition holds in every round, as far as that is seen.  u < n, of u below n -> True"""
    if isinstance(condition, sympy.And):
        return all(always_in_rounds(each, numbers) for each in condition.args)
    if isinstance(condition, sympy.Or):
        return any(always_in_rounds(each, numbers) for each in condition.args)
    if not isinstance(condition, sympy.Ge | sympy.Gt | sympy.Le | sympy.Lt):
        return False
    sides = [condition.gts, condition.lts]
    if not all(signs.is_whole(side) for side in sides):
        return False
    more, less = map(dims.dim, sides)
    gap = dims.sub(more, less)
    if isinstance(condition, sympy.Gt | sympy.Lt):
        gap = dims.sub(gap, 1)
    return any(is_never_below(each, numbers) for each in least(gap, tuple(numbers.items())))


def least(gap: Dim, numbers: tuple[tuple[Any, Dim | Below], ...]) -> Iterator[Dim]:
    """What a number is no less than in any round, without the numbers of rounds in which it is linear."""
    if not numbers:
        yield gap
        return
    (symbol, known), *others = numbers
    rest = tuple(others)
    if not isinstance(known, Below):
        yield from least(dims.substitute(gap, {symbol: known}), rest)
        return
    slope = slope_of(gap, symbol)
    if slope is None:
        yield from least(gap, rest)
    elif signs.is_nonnegative(sympy.sympify(slope)):
        yield from least(dims.substitute(gap, {symbol: 0}), rest)
    elif signs.is_nonnegative(sympy.sympify(dims.mul(slope, -1))):
        for most in ends_of(known.length):
            yield from least(dims.substitute(gap, {symbol: dims.sub(most, 1)}), rest)


def slope_of(gap: Dim, symbol: Any) -> Dim | None:
    """By how much a number is greater in each round than in the one before; None where that is not the same in all."""
    if type(gap) is int or symbol not in dims.symbols_of(gap):
        return None
    first = dims.substitute(gap, {symbol: 0})
    slope = dims.sub(dims.substitute(gap, {symbol: 1}), first)
    return slope if dims.same(gap, dims.add(dims.mul(slope, symbol), first)) else None


def ends_of(length: Dim) -> Iterator[Dim]:
    """Numbers that rounds are no more than, where there is one: of the longer of nothing and something the latter, and
    of the shortest of several each."""
    if isinstance(length, dims.Max) and 0 in length.args and len(length.args) == 2:
        yield from (each for part in length.args if part != 0 for each in ends_of(dims.dim(part)))
    elif isinstance(length, dims.Min):
        yield from (each for part in length.args for each in ends_of(dims.dim(part)))
    else:
        yield length


def is_never_below(gap: Dim, numbers: Numbers) -> bool:
    """Whether a number is 0 or more, where there is a round of each loop: it is no less than 0, or than a multiple
    of the rounds that there are beside one."""
    ranges = {dims.label(symbol): Range(0, None) for symbol, known in numbers.items() if isinstance(known, Below)}
    lengths = [known.length for known in numbers.values() if isinstance(known, Below)]
    beside = [dims.mul(dims.sub(most, 1), n) for length in lengths for most in ends_of(length) for n in TIMES]
    return any(interval(sympy.sympify(dims.sub(gap, each)), ranges)[0] >= 0 for each in (0, *beside))


TIMES = (1, 2, 3)


def bounds_of_rounds(numbers: Numbers) -> Iterator[Any]:
    """That the numbers of rounds, and what stands for them in conditions, are in their bounds, as conditions."""
    for symbol, known in numbers.items():
        if not isinstance(known, Below):
            continue
        for each in (symbol, dims.symbol(f"{symbol.name}_seen", signed=True)):
            yield sympy.Ge(each, 0, evaluate=False)
            yield from (sympy.Lt(each, most, evaluate=False) for most in ends_of(known.length))
