"""The conditions of a graph on the sizes of its inputs, laid out flat once for calls that shall cost little."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import sympy

from irkit import dims
from irkit.contract.sizes import ENFORCED
from irkit.core.ir import Graph
from irkit.core.types import Tensor
from irkit.dims import Dim, Range, notation
from irkit.dims.conditions import holds
from irkit.dims.known_conditions import always_holds, bound_of

NUMBER = -1
"""In the place of an axis: the number that the input itself is."""


@attrs.frozen(eq=False)
class FlatSizes:
    """What `binding_of` and `check_sizes` ask of a call, as rows that are gone through without a detour.

    Inputs are counted as the graph counts its parameters. `ranks` are those of the inputs that are read; `same` names
    an input with an earlier one of the same symbolic shape, `fixed` a dimension with its size, `told` a symbol with the
    first dimension that is it, `again` every other such dimension, `sums` one that is a sum of multiples of symbols,
    `computed` one that is another expression over symbols, as a condition with the name that its size has in it.
    `ranges` have the bounds among the conditions, and `conditions` are what these do not say already.
    """

    ranks: tuple[tuple[int, int], ...]
    same: tuple[tuple[int, int], ...]
    fixed: tuple[tuple[int, int, int], ...]
    told: tuple[tuple[str, int, int], ...]
    again: tuple[tuple[str, int, int], ...]
    sums: tuple[tuple[int, tuple[tuple[str, int], ...], int, int], ...]
    computed: tuple[tuple[str, str, int, int], ...]
    ranges: tuple[tuple[str, int, int | None], ...]
    conditions: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph, enforced: Graph) -> FlatSizes | None:
        """The rows of a graph's inputs, with the ranges and conditions of `enforced`; None where an input is no tensor,
        and where a size has to be solved for its symbols."""
        first: dict[tuple[object, ...], int] = {}
        found: dict[str, list[tuple[int, int]]] = {}
        ranks, same = list[tuple[int, int]](), list[tuple[int, int]]()
        fixed, later = list[tuple[int, int, int]](), list[tuple[int, int, Dim]]()
        for i, port in enumerate(graph.signature.params):
            if port.role == "input" and port.binds:
                found.setdefault(port.binds, []).append((i, NUMBER))
        for i, param in enumerate(graph.params):
            if not isinstance(param.type, Tensor):
                return None
            shape = param.type.shape
            if shape in first:
                same.append((i, first[shape]))
                continue
            first[shape] = i
            ranks.append((i, len(shape)))
            for axis, dim in enumerate(shape):
                if isinstance(dim, int):
                    fixed.append((i, axis, dim))
                elif isinstance(dim, sympy.Symbol):
                    found.setdefault(dims.label(dim), []).append((i, axis))
                else:
                    later.append((i, axis, dim))
        if any(dims.label(symbol) not in found for _, _, dim in later for symbol in dims.symbols_of(dim)):
            return None
        sums = {(i, axis): told for i, axis, dim in later if (told := sum_of(dim)) is not None}
        computed = tuple(
            (f"({notation.text(dim)}) == size_{i}_{axis}", f"size_{i}_{axis}", i, axis)
            for i, axis, dim in later
            if (i, axis) not in sums
        )
        stated = dict.fromkeys(fact.text for fact in enforced.signature.facts if fact.kind in ENFORCED)
        ranges, conditions = bounded(stated, {n: r for n, r in enforced.symbols.items() if n in found})
        return cls(
            tuple(ranks),
            tuple(same),
            tuple(fixed),
            tuple((name, *places[0]) for name, places in found.items()),
            tuple((name, *place) for name, places in found.items() for place in places[1:]),
            tuple((number, terms, *place) for place, (number, terms) in sums.items()),
            computed,
            tuple((name, each.lo, each.hi) for name, each in ranges.items()),
            conditions,
        )

    def sizes(self, shapes: Sequence[tuple[int, ...]], numbers: Mapping[int, int]) -> dict[str, int] | None:
        """The value of each symbol for inputs of these shapes, and these numbers for those that are numbers; None where
        `binding_of` or `check_sizes` would raise, which then say why."""
        if not self.fits(shapes):
            return None
        found = {name: numbers[i] if axis == NUMBER else shapes[i][axis] for name, i, axis in self.told}
        for name, i, axis in self.again:
            if (numbers[i] if axis == NUMBER else shapes[i][axis]) != found[name]:
                return None
        for name, least, most in self.ranges:
            if found[name] < least or (most is not None and found[name] > most):
                return None
        return found if self.agrees(found, shapes) else None

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether these shapes have the ranks and the fixed sizes, and are the same where the graph says so."""
        for i, rank in self.ranks:
            if len(shapes[i]) != rank:
                return False
        for i, other in self.same:
            if shapes[i] != shapes[other]:
                return False
        for i, axis, size in self.fixed:  # noqa: SIM110 (a generator is a call for each)
            if shapes[i][axis] != size:
                return False
        return True

    def agrees(self, found: Mapping[str, int], shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the dimensions that are computed of symbols, and the conditions, agree with these values of them."""
        for number, terms, i, axis in self.sums:
            for name, factor in terms:
                number += factor * found[name]
            if shapes[i][axis] != number:
                return False
        for condition, name, i, axis in self.computed:
            if holds(condition, {**found, name: shapes[i][axis]}) is not True:
                return False
        for condition in self.conditions:  # noqa: SIM110
            if holds(condition, found) is False:
                return False
        return True


def sum_of(dim: Dim) -> tuple[int, tuple[tuple[str, int], ...]] | None:
    """(number, multiples of symbols) of a dimension that is their sum, `2*batch + past + 1`; None for any other."""
    number, terms = 0, list[tuple[str, int]]()
    for term in sympy.Add.make_args(sympy.sympify(dim)):
        factor, rest = term.as_coeff_Mul()
        if not factor.is_Integer:
            return None
        if isinstance(rest, sympy.Symbol):
            terms.append((dims.label(rest), int(factor)))
        elif rest is sympy.S.One:
            number += int(factor)
        else:
            return None
    return number, tuple(terms)


def bounded(conditions: Iterable[str], ranges: Mapping[str, Range]) -> tuple[Mapping[str, Range], tuple[str, ...]]:
    """(ranges, conditions) that say the same together: bounds of a symbol are of its range, and what ranges say already
    is left out."""
    known, left = dict(ranges), list[str]()
    for text in conditions:
        bound = bound_of(text, known)
        if bound is None:
            left.append(text)
        else:
            known[bound[0]] = bound[1]
    return known, tuple(text for text in left if not always_holds(text, known))
