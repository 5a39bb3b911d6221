"""What varies among several calls, and how: sizes that are equal, sums, products and multiples of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from itertools import count as count_from
from types import MappingProxyType
from typing import Any

import attrs

from irkit import dims

Sizes = tuple[int | None, ...]
"""One size in each of several calls; None where a call says nothing of it."""

MOST = 64
"""Sizes among which sums and products are looked for; of more, only what two have in common is."""


@attrs.frozen
class Formula:
    """How a size follows from others: `(first * factor [+ or *] second + offset) // divisor`.

    `first` and `second` are numbers of those others; without a first one the size is `offset`.
    """

    first: int | None = None
    second: int | None = None
    is_product: bool = False
    factor: int = 1
    divisor: int = 1
    offset: int = 0

    def of(self, sizes: Sequence[Any]) -> Any:
        """The size, out of numbers or torch's symbolic ones."""
        if self.first is None:
            return self.offset
        found = sizes[self.first] * self.factor if self.factor != 1 else sizes[self.first]
        if self.second is not None:
            found = found * sizes[self.second] if self.is_product else found + sizes[self.second]
        found = found + self.offset if self.offset else found
        return found // self.divisor if self.divisor != 1 else found

    def dim(self, sizes: Sequence[Any]) -> Any:
        """The size as a dimension of irkit's, out of dimensions."""
        if self.first is None:
            return self.offset
        found = dims.mul(sizes[self.first], self.factor)
        if self.second is not None:
            found = (dims.mul if self.is_product else dims.add)(found, sizes[self.second])
        return dims.floordiv(dims.add(found, self.offset), self.divisor)

    def text(self, names: Sequence[str]) -> str:
        """The size in words that `dynamic_shapes` takes: `2*batch`, `past + seq`."""
        if self.first is None:
            return str(self.offset)
        one = names[self.first]
        found = one if self.factor == 1 else f"{self.factor}*{as_factor(one)}"
        if self.second is not None:
            other = names[self.second]
            found = f"{as_factor(found)}*{as_factor(other)}" if self.is_product else f"{found} + {other}"
        if self.offset:
            found = f"{found} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"
        return found if self.divisor == 1 else f"{as_factor(found)}//{self.divisor}"


def as_factor(text: str) -> str:
    """The text of a size, in brackets where it is a sum."""
    return f"({text})" if " " in text else text


def formula_of(sizes: Sizes, others: Sequence[Sizes], sure: bool = False) -> Formula | None:
    """The simplest formula that gives a size in every call, out of others; None where there is none.

    Two calls of different sizes have to agree on it; to be `sure` of more than a multiple, three.
    """
    known = [s for s in sizes if s is not None]
    if known and all(s == known[0] for s in known):
        return Formula(offset=known[0])
    needed = 3 if sure else 2
    for formula in formulas(sizes, others):
        used = [i for i in (formula.first, formula.second) if i is not None]
        rows = {
            tuple(others[i][row] for i in used)
            for row, size in enumerate(sizes)
            if size is not None and all(others[i][row] is not None for i in used)
        }
        if len(rows) >= (needed if formula.offset or formula.second is not None else 2) and fits(
            formula, sizes, others
        ):
            return formula
    return None


def formulas(sizes: Sizes, others: Sequence[Sizes]) -> Iterator[Formula]:
    """What may be tried for a size, the simplest first."""
    several = range(len(others))
    yield from (Formula(i) for i in several)
    for i in several:
        ratio = next(((s, o) for s, o in zip(sizes, others[i], strict=True) if s and o), None)
        if ratio is not None and ratio[0] % ratio[1] == 0 and ratio[0] != ratio[1]:
            yield Formula(i, factor=ratio[0] // ratio[1])
        elif ratio is not None and ratio[1] % ratio[0] == 0 and ratio[0] != ratio[1]:
            yield Formula(i, divisor=ratio[1] // ratio[0])
    if len(others) <= MOST:
        yield from (Formula(i, j) for i, j in combinations(several, 2))
        yield from (Formula(i, j, is_product=True) for i, j in combinations(several, 2))
    for i in several:
        pairs = [(o, s) for s, o in zip(sizes, others[i], strict=True) if s is not None and o is not None]
        distinct = sorted(set(pairs))
        if len(distinct) < 2:
            continue
        (a, s), (b, t) = distinct[0], distinct[-1]
        if b > a and (t - s) % (b - a) == 0 and t > s:
            factor = (t - s) // (b - a)
            yield Formula(i, factor=factor, offset=s - factor * a)
        for divisor in (2, 3, 4, 8, 16, 32):  # strides: (n + 1) // 2
            yield from (Formula(i, divisor=divisor, offset=offset) for offset in (divisor - 1, -1, 1))


def fits(formula: Formula, sizes: Sizes, others: Sequence[Sizes]) -> bool:
    """Whether a formula gives a size in every call that says something of it."""
    used = [i for i in (formula.first, formula.second) if i is not None]
    rows = [row for row, size in enumerate(sizes) if size is not None and all(others[i][row] is not None for i in used)]
    return bool(rows) and all(formula.of([each[row] for each in others]) == sizes[row] for row in rows)


@attrs.frozen
class Place:
    """A dimension of a leaf, its size in each call, and what it may be called."""

    leaf: str
    axis: int
    sizes: Sizes
    names: tuple[str, ...]


@attrs.frozen
class Related:
    """What varies: each name with its size in each call, and what each place is, as a formula of these names and as
    text; None where it never varies. `told` are the relations that were found, in words."""

    names: Mapping[str, Sizes]
    formulas: tuple[Formula | None, ...]
    texts: tuple[str | None, ...]
    told: tuple[str, ...]


def relate(places: Sequence[Place], known: Mapping[str, Sizes] = MappingProxyType({})) -> Related:
    """What varies among places, under names, with the equalities, multiples, products and sums that hold in every
    call. A call that leaves a leaf out has nothing there: sizes that vary are 0 in it, unless another place tells.
    `known` are names with their sizes, which go first."""
    known = {name: sizes for name, sizes in known.items() if len(set(sizes)) > 1}
    groups: dict[Sizes, list[int]] = {}
    for number, place in enumerate(places):
        if len({s for s in place.sizes if s is not None}) > 1:
            groups.setdefault(joined(place.sizes, groups), []).append(number)
    filled = {sizes: tuple(s or 0 for s in sizes) for sizes in groups}
    order = sorted(groups, key=lambda sizes: (sum(filled[sizes]), groups[sizes][0]))
    bases: list[Sizes] = list(known.values())
    found: dict[Sizes, Formula] = {}
    for sizes in order:
        formula = formula_of(filled[sizes], bases, sure=True)
        if formula is None:
            formula = Formula(len(bases))
            bases.append(filled[sizes])
        found[sizes] = formula
    own = [groups[sizes] for sizes in order if filled[sizes] in bases[len(known) :]]
    names = [*known, *names_for(places, own, known)]
    formulas: list[Formula | None] = [None] * len(places)
    texts: list[str | None] = [None] * len(places)
    told: list[str] = []
    for sizes in order:
        text = found[sizes].text(names)
        for number in groups[sizes]:
            formulas[number], texts[number] = found[sizes], text
        if text not in names:
            first = places[groups[sizes][0]]
            told.append(f"dimension {first.axis} of {first.leaf} is {text}")
    return Related(dict(zip(names, bases, strict=True)), tuple(formulas), tuple(texts), tuple(told))


def joined(sizes: Sizes, known: Iterable[Sizes]) -> Sizes:
    """The sizes of a place, or those of another place that are the same wherever both are told, in two calls at least
    and not everywhere the same number."""
    for other in known:
        both = [(a, b) for a, b in zip(sizes, other, strict=True) if a is not None and b is not None]
        if (
            len(set(both)) > 1
            and all(a == b for a, b in both)
            and sum(s is None for s in other) <= sum(s is None for s in sizes)
        ):
            return other
    return sizes


def names_for(places: Sequence[Place], groups: Sequence[Sequence[int]], known: Iterable[str]) -> list[str]:
    """A name for each group of places: what its places may be called, or the first of them by leaf and axis; none that
    is known already."""
    taken: list[str] = list(known)
    count = len(taken)
    for group in groups:
        wanted = [name for number in group for name in places[number].names]
        first = places[group[0]]
        own = f"{first.leaf.rpartition('.')[2]}_{first.axis}" if first.axis >= 0 else first.leaf.rpartition(".")[2]
        own = "".join(c if c.isalnum() else "_" for c in own)
        own = own if own[:1].isalpha() else f"n_{own}"
        free = chain(wanted, [own], (f"{own}_{i}" for i in count_from(2)))
        taken.append(next(name for name in free if name not in taken))
    return taken[count:]
