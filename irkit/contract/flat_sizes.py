"""The conditions of a graph on the sizes of its inputs, laid out flat once for calls that shall cost little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import sympy

from irkit import dims
from irkit.contract.sizes import ENFORCED
from irkit.core.ir import Graph
from irkit.core.types import Tensor
from irkit.dims import Dim, Range, notation
from irkit.dims.conditions import holds

NUMBER = -1
"""In the place of an axis: the number that the input itself is."""


@attrs.frozen(eq=False)
class FlatSizes:
    """What `binding_of` and `check_sizes` ask of a call, as rows that are gone through without a detour.

    Inputs are counted as the graph counts its parameters. `ranks` are those of the inputs that are read; `same` names
    an input with an earlier one of the same symbolic shape, `fixed` a dimension with its size, `told` a symbol with the
    first dimension that is it, `again` every other such dimension, `computed` one that is an expression over symbols,
    as a condition with the name that its size has in it.
    """

    ranks: tuple[tuple[int, int], ...]
    same: tuple[tuple[int, int], ...]
    fixed: tuple[tuple[int, int, int], ...]
    told: tuple[tuple[str, int, int], ...]
    again: tuple[tuple[str, int, int], ...]
    computed: tuple[tuple[str, str, int, int], ...]
    ranges: tuple[tuple[str, Range], ...]
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
        computed = tuple(
            (f"({notation.text(dim)}) == size_{i}_{axis}", f"size_{i}_{axis}", i, axis) for i, axis, dim in later
        )
        return cls(
            tuple(ranks),
            tuple(same),
            tuple(fixed),
            tuple((name, *places[0]) for name, places in found.items()),
            tuple((name, *place) for name, places in found.items() for place in places[1:]),
            computed,
            tuple((name, range_) for name, range_ in enforced.symbols.items() if name in found),
            tuple(dict.fromkeys(fact.text for fact in enforced.signature.facts if fact.kind in ENFORCED)),
        )

    def sizes(self, shapes: Sequence[tuple[int, ...]], numbers: Mapping[int, int]) -> dict[str, int] | None:
        """The value of each symbol for inputs of these shapes, and these numbers for those that are numbers; None where
        `binding_of` or `check_sizes` would raise, which then say why."""
        for i, rank in self.ranks:
            if len(shapes[i]) != rank:
                return None
        for i, other in self.same:
            if shapes[i] != shapes[other]:
                return None
        for i, axis, size in self.fixed:
            if shapes[i][axis] != size:
                return None
        found = {name: numbers[i] if axis == NUMBER else shapes[i][axis] for name, i, axis in self.told}
        for name, i, axis in self.again:
            if (numbers[i] if axis == NUMBER else shapes[i][axis]) != found[name]:
                return None
        for name, range_ in self.ranges:
            if found[name] not in range_:
                return None
        for condition, name, i, axis in self.computed:
            if holds(condition, {**found, name: shapes[i][axis]}) is not True:
                return None
        if any(holds(condition, found) is False for condition in self.conditions):
            return None
        return found
