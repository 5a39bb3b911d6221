"""What a program asserts of its data: conditions that sizes of inputs and results do not tell, as truth values.

`torch._check(x.sum().item() > 3)` holds for some inputs and not for others of the same sizes. Each such condition
becomes a further result of the graph, with the role "check", that a `Program` reads and drops. In bodies of control
flow the conditions of a branch or a round become one more result of the body.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import attrs
import sympy
import torch
from torch.fx import Node

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.contract.as_json import solved_symbol
from irkit.core import walk
from irkit.core.ir import Fact, Graph, Port, Value
from irkit.core.origins import Origin
from irkit.core.types import DType, dims_of
from irkit.dims import Range, reals
from lowering.capture.guards.comparisons import closed
from lowering.capture.guards.guards import CONTENT, TRUTH, Guard, is_truth
from lowering.errors import LoweringError, Unsupported
from lowering.fold.facts import is_of_range
from lowering.fold.scope import Check, Scope, stamp_origin
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import line_of, trace_of
from lowering.records.wide_numbers import wide_numbers
from lowering.tensors.promotion import NONE, cast, scalar, truth

CHECK = "check"
"""The role of a result that is true where the condition that it binds holds."""


def condition(scope: Scope, expr: Any, origin: Origin, seen: Mapping[Any, Any] = NONE) -> Value:
    """A condition on sizes and numbers, over torch's symbols, as a boolean scalar; `seen` stand in for irkit's symbols.

    Raises Unsupported for one that ONNX cannot say.
    """
    return stamp_origin(scope, scalar(over_sizes(scope, expr, seen), DType.BOOL, scope.numbers), origin)


def over_sizes(scope: Scope, expr: Any, seen: Mapping[Any, Any] = NONE) -> Any:
    """The same condition over irkit's symbols."""
    if isinstance(expr, sympy.core.relational.Relational):
        a, b = (sympy.sympify(scope.sizes.number(side)).xreplace(seen) for side in expr.args)
        return expr.func(reals.side(a, b), reals.side(b, a))
    if isinstance(expr, sympy.Basic) and expr.args:
        return expr.func(*(over_sizes(scope, part, seen) for part in expr.args))
    return expr


def as_seen(scope: Scope, symbol: Any) -> Any:
    """A symbol for what a symbol of the data turns out to be, of which no range and no sign is known: these are what is
    asked for."""
    found = dims.symbol(f"{symbol.name}_seen", signed=True)
    if found not in scope.binders:
        value, by_content = scope.binders[symbol]
        scope.binders[found] = (value if by_content else dim_scalar(symbol, value), True)
    return found


# ---------------------------------------------------------------------------------------------- noting


def note(scope: Scope, node: Node) -> None:
    """Keeps what a node asserts: of the content of a tensor its value, of numbers the condition."""
    schema = getattr(node.target, "_schema", None)
    name = "" if schema is None else schema.name.rpartition("::")[2]
    line = line_of(trace_of(node))
    if name in ("_assert_async", "_functional_assert_async"):
        told = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], str) else "all is true"
        scope.checks.append(Check(scope.read(node.args[0]), f"{told} {CONTENT}", line))  # type: ignore[arg-type]
    elif name in ("_assert_scalar", "_functional_assert_scalar") and isinstance(node.args[0], Node):
        asked = node.args[0]
        if is_truth(asked):
            flag = scope.read(asked.args[0].args[0])  # type: ignore[union-attr, arg-type]
            scope.checks.extend([Check(flag, TRUTH, line)] if isinstance(flag, Value) else [])
            return
        recorded = asked.meta.get("val")
        if isinstance(recorded, torch.SymBool):
            scope.checks.append(said(scope, recorded.node.expr, line))
    elif name in ("sym_constrain_range", "sym_constrain_range_for_size") and isinstance(node.args[0], Node):
        recorded = node.args[0].meta.get("val")
        ends = {"min": sympy.Ge, "max": sympy.Le}
        if isinstance(recorded, torch.SymInt):
            named = {key: relation for key, relation in ends.items() if isinstance(node.kwargs.get(key), int)}
            scope.checks.extend(said(scope, r(recorded.node.expr, node.kwargs[k]), line) for k, r in named.items())


def said(scope: Scope, condition: Any, line: str) -> Check:
    """A condition on numbers, over torch's symbols, as it is kept."""
    expr = closed(condition)
    return Check(expr, text_of(scope, expr, str(expr)), line)


def said_of_data(scope: Scope, condition_: Any, line: str) -> Check:
    """The same, asked of the numbers themselves: a size that a result tells is 0 where the number is below it."""
    own = [scope.sizes.symbol(s) for s in dims.symbols_of(condition_)]
    seen = {s: as_seen(scope, s) for s in own if s in scope.binders and is_unbacked(s.name)}
    value = condition(scope, condition_, Origin(source=line, target="assert"), seen)
    return Check(value, text_of(scope, condition_, str(condition_)), line)


def symbols_in(scope: Scope, condition_: Any) -> list[Any]:
    """irkit's symbols for those that a condition is about, each once, by name."""
    known = dims.symbols_of(condition_) if hasattr(condition_, "free_symbols") else ()
    return list(dict.fromkeys(scope.sizes.symbol(symbol) for symbol in known))


def text_of(scope: Scope, expr: Any, otherwise: str) -> str:
    """A condition as text that can be checked anywhere; else as it was said."""
    try:
        return scope.sizes.condition(expr)
    except LoweringError:
        return otherwise


def noted_checks(scope: Scope, guards: Iterable[Guard]) -> Iterator[Check]:
    """The conditions on data that torch keeps elsewhere than in a node."""
    for guard in guards:
        if any(is_unbacked(symbol.name) for symbol in getattr(guard.expr, "free_symbols", ())):
            yield Check(guard.expr, text_of(scope, guard.expr, guard.text), guard.source)


# ---------------------------------------------------------------------------------------------- as values


def settled_checks(scope: Scope, checks: Iterable[Check], told: frozenset[str] = frozenset()) -> list[Check]:
    """The conditions that only data decides, each once, with a boolean scalar for each.

    `told` are the symbols that inputs tell. A condition on what another graph binds is left out, and one
    that holds for every size.
    """
    found: dict[str, Check] = {}
    for check in checks:
        known, value = found.get(check.text), None
        if known is None or isinstance(check.condition, Value) or (check.source and not known.source):
            value = truth_of(scope, check, told)
        if value is not None and known is not None and isinstance(check.condition, Value):
            value = stamp_origin(scope, op.And(known.condition, value), Origin(target="assert"))  # of another tensor
        if value is not None:
            found[check.text] = attrs.evolve(check, condition=value)
    return list(found.values())


def truth_of(scope: Scope, check: Check, told: frozenset[str]) -> Value | None:
    """A condition as a boolean scalar; None where it is told otherwise, holds for every size, or is bound elsewhere."""
    where = Origin(source=check.source, target="assert")
    if isinstance(check.condition, Value):
        flag = truth(check.condition)
        return stamp_origin(scope, op.Reshape(flag, []) if flag.rank else flag, where)
    symbols = symbols_in(scope, check.condition)
    ofdata = [s for s in symbols if is_unbacked(s.name) and s.name not in told]
    if any(s not in scope.binders and s not in scope.numbers for s in ofdata):
        return None
    if goes_without_saying(scope, check, told):
        return None
    try:
        return condition(scope, check.condition, where, {s: as_seen(scope, s) for s in ofdata if s in scope.binders})
    except Unsupported:
        return None


def goes_without_saying(scope: Scope, check: Check, told: frozenset[str]) -> bool:
    """Whether all symbols of a condition are told, or it holds for every number that they can be."""
    if isinstance(check.condition, Value):
        return False
    symbols = symbols_in(scope, check.condition)
    ofdata = [s for s in symbols if is_unbacked(s.name) and s.name not in told]
    ranges = {s.name: natural(*scope.binders[s]) for s in ofdata if s in scope.binders}
    known = {name: found for name, found in ranges.items() if found is not None}
    return not ofdata or is_of_range(known, check.condition)


def natural(value: Value, by_content: bool) -> tuple[int, int | None] | None:
    """The range that a symbol has by what binds it: a size is not negative, and no greater than the number of elements
    that were searched; a truth value is 0 or 1, and an integer one of its element type."""
    if not by_content:
        return 0, most_found(value)
    while value.op in ("Reshape", "Cast") and value.inputs[0] is not None:
        value = value.inputs[0]
    if value.dtype is DType.BOOL:
        return 0, 1
    return (-(2**63), 2**63 - 1) if value.dtype.is_integer else None


def most_found(value: Value) -> int | None:
    """How many rows a tensor has at most that has one for each place found in another one, of known sizes."""
    while value.op in ("Transpose", "Squeeze", "Gather", "NonZero", "Compress"):
        given = [each for each in value.inputs if each is not None]
        if value.op in ("NonZero", "Compress"):
            return product_of(dims_of(given[-1].type))  # of Compress the mask
        of_places = value.op == "Gather" and given[1].rank == 1
        if of_places and product_of(dims_of(given[0].type)) is None:
            return None
        if value.op == "Gather" and not of_places and given[1].rank != 0:
            return None
        value = given[1] if of_places else given[0]
    return None


def product_of(sizes: Sequence[dims.Dim]) -> int | None:
    """The product of sizes; None where one of them varies."""
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known) if len(known) == len(sizes) else None


def told_by(params: Iterable[tuple[Port, Value]], results: Iterable[Value] = ()) -> frozenset[str]:
    """The names of the symbols that the sizes of parameters and results tell, or numbers among the parameters.

    Who runs the file need not look at the sizes of its results: a condition on what they alone tell is kept like any
    other that data decides.
    """
    params = list(params)
    sizes = {size for kind in walk.types([*(value for _, value in params), *results]) for size in dims_of(kind)}
    told = {name for name, _ in filter(None, map(solved_symbol, sizes))}
    return frozenset(told.union(port.binds for port, _ in params))


def wide_checks(
    scope: Scope,
    roots: Sequence[Value],
    params: Sequence[Value] = (),
    *,
    known: Mapping[str, Range] = MappingProxyType({}),
    guards: Iterable[Any] = (),
    inside: bool = False,
) -> list[Check]:
    """The conditions that 64 bits hold the numbers of which values are computed, as `wide_numbers` finds them."""
    found = wide_numbers(roots, params, known, guards, inside=inside)
    return [Check(stamp_origin(scope, v, Origin(source=s, target="assert")), text, s) for text, v, s in found]


def all_of(checks: Sequence[Check]) -> Value:
    """Whether all conditions hold, as one boolean scalar."""
    found = checks[0].condition
    for check in checks[1:]:
        found = op.And(found, check.condition)
    return found


def in_every_round(held: Value) -> Value:
    """Whether a condition held in every round, of which there may be none.  held: bool[n]"""
    broken = op.ReduceSum(cast(op.Not(held), DType.INT64), keepdims=0)
    return op.Equal(broken, const(0, "i64"))


def join_checks(checks: Sequence[Check], held: Value, where: str) -> Check:
    """The conditions of a body as one of the graph around it."""
    text = "; ".join(dict.fromkeys(check.text for check in checks))
    return Check(held, f"{where}: {text}", next((check.source for check in checks if check.source), ""))


# ---------------------------------------------------------------------------------------------- as results


def as_facts(facts: Sequence[Fact], checks: Sequence[Check]) -> tuple[Fact, ...]:
    """The facts, and the conditions that are not among them."""
    known = {fact.text for fact in facts}
    return (*facts, *(Fact("note", check.text, check.source) for check in checks if check.text not in known))


@attrs.frozen(eq=False)
class Watched:
    """A graph together with the conditions that only its data decides.

    `whole` is one graph: after the results of the program comes a boolean scalar for each of `told`, with the role
    "check". So passes rewrite both at once, and what they share stays shared. `graph` and `checks` are its two parts.
    """

    whole: Graph
    told: tuple[Check, ...] = ()

    @classmethod
    def of(cls, graph: Graph, checks: Sequence[Check]) -> Watched:
        """A graph with conditions on its values."""
        if not checks:
            return cls(graph)
        signature = graph.signature
        taken = {port.name for port in (*signature.params, *signature.results)}
        names = (f"check_{i}" for i in range(len(checks) + len(taken)))
        free = [name for name in names if name not in taken]
        ports = [Port(name, CHECK, check.text) for name, check in zip(free, checks, strict=False)]
        whole = attrs.evolve(
            graph,
            results=(*graph.results, *(check.condition for check in checks)),
            signature=attrs.evolve(signature, results=(*signature.results, *ports)),
        )
        return cls(whole, tuple(checks))

    @cached_property
    def graph(self) -> Graph:
        """The graph without the conditions; `whole` itself where there is none."""
        if not self.told:
            return self.whole
        signature, count = self.whole.signature, len(self.told)
        signature = attrs.evolve(signature, results=signature.results[:-count])
        return attrs.evolve(self.whole, results=self.whole.results[:-count], signature=signature)

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The conditions, as boolean scalars of `whole`."""
        values = self.whole.results[len(self.whole.results) - len(self.told) :]
        return tuple(attrs.evolve(check, condition=value) for check, value in zip(self.told, values, strict=True))

    def then(self, step: Callable[[Graph], Graph]) -> Watched:
        """What a pass, which keeps the results, makes of both."""
        return self.with_whole(step(self.whole))

    def with_whole(self, whole: Graph) -> Watched:
        """The same with a rewritten graph; the same object where it is the very graph."""
        return self if whole is self.whole else attrs.evolve(self, whole=whole)

    def with_facts(self, facts: Sequence[Fact]) -> Watched:
        """The same with other facts in its contract; the same object where they are the very facts."""
        signature = self.whole.signature
        if facts is signature.facts:
            return self
        return self.with_whole(self.whole.with_signature(attrs.evolve(signature, facts=tuple(facts))))

    def asking(self, checks: Sequence[Check]) -> Watched:
        """The same with further conditions on its values; the same object where there is none."""
        more = Watched.of(self.whole, checks)
        return attrs.evolve(more, told=(*self.told, *checks)) if checks else self
