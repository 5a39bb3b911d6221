"""The conditions of a graph on the sizes of its inputs, laid out flat once for calls that shall cost little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.contract.sizes import ENFORCED
from irkit.core.ir import Graph
from irkit.core.types import Tensor
from irkit.dims import Dim, Range, notation
from irkit.dims.condition_source import condition_source
from irkit.dims.conditions import holds
from irkit.dims.known_conditions import always_holds, bound_of

Sizes = Callable[[Sequence[Sequence[int]], Mapping[int, int]], "dict[str, int] | None"]
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

    @cached_property
    def sizes(self) -> Sizes:
        """What takes the shapes of the inputs, and the numbers of those that are numbers, and returns the value of each
        symbol; None where `binding_of` or `check_sizes` would raise, which then say why.

        It is one function of Python, made of the rows: to go through them costs a call for each part of a condition.
        """
        made: dict[str, Any] = {}
        exec(compile(self.source, "<sizes>", "exec"), {"asked": holds}, made)
        return made["sizes"]

    @property
    def source(self) -> str:
        """The source of that function. Names of symbols stand in it as texts only."""
        variables = {name: f"s{at}" for at, (name, _, _) in enumerate(self.told)}
        lines = [*self.lines_of_shapes(), *(f"s{at} = {place(i, axis)}" for at, (_, i, axis) in enumerate(self.told))]
        wrong = [f"{place(i, axis)} != {variables[name]}" for name, i, axis in self.again]
        for name, least, most in self.ranges:
            wrong.append(f"{variables[name]} < {least}")
            wrong += [] if most is None else [f"{variables[name]} > {most}"]
        for number, terms, i, axis in self.sums:
            whole = " + ".join((str(number), *(f"{factor} * {variables[name]}" for name, factor in terms)))
            wrong.append(f"{place(i, axis)} != {whole}")
        found = f"{{{', '.join(f'{name!r}: {variable}' for name, variable in variables.items())}}}"
        left = [f"found = {found}"]
        for text, name, i, axis in self.computed:
            written = condition_source(text, {**variables, name: place(i, axis)})
            if written is None:
                left.append(f"if asked({text!r}, {{**found, {name!r}: {place(i, axis)}}}) is not True: return None")
            else:
                wrong.append(f"not {written}")
        for text in self.conditions:
            written = condition_source(text, variables)
            if written is None:
                left.append(f"if asked({text!r}, found) is False: return None")
            else:
                wrong.append(f"not {written}")
        lines += [f"if {each}: return None" for each in wrong]
        body = "\n".join(f"        {line}" for line in (*lines, *left, "return found"))
        return f"def sizes(shapes, numbers):\n    try:\n{body}\n    except ZeroDivisionError:\n        return None\n"

    def lines_of_shapes(self) -> Iterator[str]:
        """What reads the shapes, and ends where one has another rank, or another size where that is fixed."""
        ranks = dict(self.ranks)
        for i, rank in self.ranks:
            yield f"a{i} = shapes[{i}]"
            yield f"if len(a{i}) != {rank}: return None"
        for i, other in self.same:
            yield f"a{i} = shapes[{i}]"
            unlike = (f" or a{i}[{axis}] != a{other}[{axis}]" for axis in range(ranks[other]))
            yield f"if len(a{i}) != {ranks[other]}{''.join(unlike)}: return None"
        for i, axis, size in self.fixed:
            yield f"if a{i}[{axis}] != {size}: return None"


def place(i: int, axis: int) -> str:
    """The source of a size of an input, or of the number that it is."""
    return f"numbers[{i}]" if axis == NUMBER else f"a{i}[{axis}]"


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
