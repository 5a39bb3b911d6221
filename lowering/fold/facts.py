"""What capture relied on, as facts of the graph: over the user's dimensions, in text that can be checked anywhere."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy

from irkit.core.ir import Fact
from irkit.dims import Range
from lowering.capture.capture import Captured
from lowering.capture.guards.guards import Guard
from lowering.errors import LoweringError
from lowering.records.sizes import Sizes

KINDS = {"guard": "guard", "assertion": "guard", "promise": "relation"}
UNBOUNDED = 2**40
"""A greatest size beyond this is none: torch writes some of its infinities as numbers."""


def facts_of(captured: Captured, sizes: Sizes, guards: Sequence[Guard]) -> tuple[Fact, ...]:
    """Guards, relations and baked scalars, each once; of those that a range says already, the ones with a line."""
    found: dict[tuple[str, str], Fact] = {}
    for guard in guards:
        kind = KINDS.get(guard.kind, guard.kind)
        if guard.expr is None:
            found.setdefault(("note", guard.text), Fact("note", guard.text, guard.source))
            continue
        if is_always_true(guard.expr) or is_said(captured, guard):
            continue
        try:
            text = sizes.condition(guard.expr)
            kind = kind if all(symbol.is_integer for symbol in guard.expr.free_symbols) else "note"
        except LoweringError as error:
            if kind == "guard" and is_of_sizes(captured, guard):
                raise LoweringError(
                    f"a condition that the model sets its sizes is one that no program can ask for: {guard.text}",
                    source=guard.source,
                    hint="compute it of sizes by + - * // % and comparisons, or use capture='direct'",
                ) from error
            found.setdefault(("note", guard.text), Fact("note", guard.text, guard.source))
            continue
        found.setdefault((kind, text), Fact(kind, text, guard.source))
    for name, value in captured.scalars.items():
        found[("baked", name)] = Fact("baked", f"{name} == {value!r}")
    for name, count in lengths_of(captured):
        found[("length", name)] = Fact("length", f"len({name}) == {count}")
    for each in captured.fixed:
        found[("static", each.what)] = Fact("static", str(each), each.source)
    return tuple(found.values())


def is_of_sizes(captured: Captured, guard: Guard) -> bool:
    """Whether a condition is about sizes that vary, and nothing else."""
    symbols = getattr(guard.expr, "free_symbols", ())
    return bool(symbols) and all(symbol.name in captured.dim_names for symbol in symbols)


def lengths_of(captured: Captured) -> Iterator[tuple[str, int]]:
    """(name, length) of every list and tuple among the arguments and inside them."""
    positional, by_name = captured.in_spec.children()
    named = [*zip(captured.arguments, positional.children(), strict=False)]
    named += [*zip(map(str, by_name.context or ()), by_name.children(), strict=False)]
    while named:
        name, spec = named.pop(0)
        if spec.type in (list, tuple):
            yield name, spec.num_children
            named[:0] = [(f"{name}.{i}", child) for i, child in enumerate(spec.children())]
        elif spec.type is dict:
            named[:0] = [(f"{name}.{key}", child) for key, child in zip(spec.context, spec.children(), strict=True)]


def is_always_true(expr: Any) -> bool:
    """True for a condition that no size can break: some alternative holds just where another one does not."""
    if expr in (True, sympy.true):
        return True
    if not isinstance(expr, sympy.Or):
        return False
    parts: list[Any] = list(expr.args)
    equal = [gap(a) for a in parts if isinstance(a, sympy.Eq)]
    unequal = [gap(a) for a in parts if isinstance(a, sympy.Ne)]
    if any(sympy.cancel(e / u).is_number for e in equal for u in unequal):
        return True
    together = [each for each in parts if isinstance(each, sympy.And)]
    return any(all(sympy.Not(one) in parts for one in each.args) for each in together)


def gap(relation: Any) -> Any:
    """The difference of the two sides of a relation."""
    return relation.args[0] - relation.args[1]


def is_said(captured: Captured, guard: Guard) -> bool:
    """True for a comparison of one symbol with a number that holds for every size; or that the symbol's range holds
    already, where it has no line to tell."""
    ranges = captured.range_constraints
    natural = {name: (min(low, 0), None) for name, (low, _) in ranges.items()}
    return is_of_range(natural, guard.expr) or (not guard.source and is_of_range(ranges, guard.expr))


COMPARISONS: Mapping[type, Callable[[int, int], bool]] = {
    sympy.Gt: operator.gt, sympy.Ge: operator.ge, sympy.Lt: operator.lt, sympy.Le: operator.le,
}  # fmt: skip


def is_of_range(ranges: Mapping[str, tuple[int, int | None]], expr: Any) -> bool:
    """True for a comparison of one symbol with a number, which holds in all of the symbol's range."""
    if not isinstance(expr, sympy.core.relational.Relational) or isinstance(expr, sympy.Eq):
        return False
    sides: Any = expr.args
    left, right = sides
    symbol, number = (left, right) if left.is_Symbol else (right, left)
    if not symbol.is_Symbol or not number.is_Integer or symbol.name not in ranges:
        return False
    low, high = ranges[symbol.name]
    if isinstance(expr, sympy.Ne):
        return int(number) < low or (high is not None and int(number) > high)
    compare, bound = COMPARISONS[type(expr)], int(number)
    ends = (low, high if high is not None else low + 1000)
    return all(compare(end, bound) if symbol is left else compare(bound, end) for end in ends)


def ranges_by_name(captured: Captured, sizes: Sizes) -> dict[str, Range]:
    """The ranges that torch knows, by the names of irkit's symbols."""
    found: dict[str, Range] = {}
    for theirs, (low, high) in captured.range_constraints.items():
        found.setdefault(
            sizes.names.get(theirs, theirs), Range(low, None if high is None or high > UNBOUNDED else high)
        )
    return found
