"""Graphs of the ways that a model takes at other sizes, joined to the first one as branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.build.retyping import inferred_type
from irkit.core import walk
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor, Type, map_dims, same_types, types_of
from irkit.core.vocabulary import CONSTANT
from irkit.hand.sizes import retyped_values
from irkit.nodes.bodies import sealed_graph
from irkit.nodes.calls import applied_body
from lowering.fold.assertions import Watched
from lowering.fold.lower import Lowered
from lowering.fold.scope import Check
from lowering.records.wide_sizes import with_wide_sizes
from lowering.tensors.complex_pairs import complex_names
from lowering.tensors.promotion import scalar


@attrs.frozen(eq=False)
class Way:
    """The graph that computes what the model does where a relation of sizes holds, with the conditions on data that it
    is right under; where that is a point, `sizes` are those of its names."""

    where: Any
    watched: Watched
    sizes: Mapping[str, int] = MappingProxyType({})


def way_where(conditions: Sequence[Any], watched: Watched) -> Way:
    """The way that is taken where conditions on sizes hold, of which some may say what number a size is."""
    sides: list[Any] = [each.args for each in conditions if isinstance(each, sympy.Eq)]
    told = {dims.label(name): int(number) for name, number in sides if name.is_Symbol and number.is_Integer}
    return Way(sympy.And(*conditions), watched, told)


def gives_alike(low: Lowered, other: Lowered) -> bool:
    """Whether two graphs give as many tensors and numbers in the same places, complex ones where the other does: of
    nothing pairs of real numbers are the same as real ones."""
    if low.outputs != other.outputs or complex_names(low.graph) == complex_names(other.graph):
        return low.outputs == other.outputs
    one, two = (
        [port.name in complex_names(each) for port in each.signature.results] for each in (low.graph, other.graph)
    )
    return one == two


def can_branch(low: Lowered, other: Lowered) -> bool:
    """Whether two graphs over the same parameters can be branches of one: they give as many tensors of the same types
    but for sizes, and write no state."""
    first, second = low.graph, other.graph
    return (
        not (low.initial_state or other.initial_state)
        and first.params == second.params
        and gives_alike(low, other)
        and all(map(alike, first.results, second.results))
        and not any(port.role == "state" for each in (first, second) for port in each.signature.results)
    )


def alike(value: Value, other: Value) -> bool:
    """Whether two values are tensors of one element type and rank."""
    if not (isinstance(value.type, Tensor) and isinstance(other.type, Tensor)):
        return False
    return value.dtype == other.dtype and value.rank == other.rank and None not in value.type.shape


def with_size_branches(low: Lowered, ways: Sequence[Way]) -> Lowered:
    """The same with a branch for each of the ways, the last one asked first; the very same for none."""
    if not ways:
        return low
    made = reduce(branched, ways, low.watched)
    return attrs.evolve(low, graph=made.graph, checks=made.checks)


def branched(watched: Watched, way: Way) -> Watched:
    """The graph whose results another one computes where the sizes are those of its way. What one of them checks need
    hold only where that one computes the results."""
    graph, ours, count = watched.graph, watched.whole.results, len(watched.graph.results)
    found = results_there(graph, way)
    order = (*watched.whole.order, *walk.post_order(tuple(found)))
    captures = (*graph.params, *(v for v in dict.fromkeys(order) if is_weight(v)))
    told = {told_by(check): check for check in (*watched.told, *way.watched.told)}
    mine, theirs = (
        dict(zip(map(told_by, checks), values, strict=True))
        for checks, values in ((watched.told, ours[count:]), (way.watched.told, found[count:]))
    )
    always = const(True)
    sides = {
        "then_branch": [*found[:count], *(theirs.get(key, always) for key in told)],
        "else_branch": [*ours[:count], *(mine.get(key, always) for key in told)],
    }
    there = {**way.watched.graph.symbols, **{name: dims.Range(size, size) for name, size in way.sizes.items()}}
    known = {"then_branch": there, "else_branch": graph.symbols}
    bodies = {
        name: sealed_graph((), results, captures, name).with_symbols(known[name]) for name, results in sides.items()
    }
    flag = relation_value(way.where)
    made = call("If", [flag, *captures], {"captures": len(captures), **bodies}, outputs=count + len(told))
    values = made if isinstance(made, tuple) else (made,)
    checks = [attrs.evolve(check, condition=v) for check, v in zip(told.values(), values[count:], strict=True)]
    whole = with_wide_sizes(attrs.evolve(graph, results=values[:count]), [each.condition for each in checks])
    return Watched.of(whole, checks)


def told_by(check: Check) -> tuple[str, str]:
    """What two checks are the same by, each in its way."""
    return check.text, check.source


def results_there(graph: Graph, way: Way) -> list[Value]:
    """The results of a way, then what it checks. The results of one at a point are said to have the sizes of the
    graph's own where these are the same there. They are computed for its very numbers where values that are equal there
    alone were found to be one."""
    whole = way.watched.whole
    found = list(whole.results)
    if not way.sizes:
        return found
    point: dict[Any, dims.Dim] = {dims.symbol(name): size for name, size in way.sizes.items()}
    if not all(map(is_general, whole.order)):
        params = tuple(at_point(param, point) for param in whole.params)
        found = list(retyped_values(applied_body(whole, params, sizes=point)))
    pairs = zip(found, graph.results, strict=False)
    made = [of_sizes(v, ours) if type_at(v, point) == type_at(ours, point) else v for v, ours in pairs]
    return [*made, *found[len(made) :]]


def is_general(value: Value) -> bool:
    """Whether a value, and each in its bodies, has the type that its operator gives for all sizes; unknown sizes may be
    what the type says."""
    if not all(is_general(inner) for body in value.bodies for inner in body.order):
        return False
    if not value.inputs:
        return True
    pairs = zip(types_of(inferred_type(value, value.inputs)), types_of(value.type), strict=True)
    return all(is_as_inferred(found, said) for found, said in pairs)


def is_as_inferred(found: Type, said: Type) -> bool:
    """Whether a tensor that is inferred has the shape that is said of it, unknown sizes apart."""
    if not isinstance(said, Tensor):
        return True
    if not isinstance(found, Tensor) or found.rank != said.rank:
        return False
    return all(is_unknown(a) or dims.same(a, b) is True for a, b in zip(found.shape, said.shape, strict=True))


def is_unknown(dim: dims.Dim) -> bool:
    """Whether a size is one that only data tells."""
    return any(dims.is_fresh(symbol) for symbol in dims.symbols_of(dim))


def type_at(value: Value, point: Mapping[Any, dims.Dim]) -> Type:
    """The type of a value at a point."""
    return map_dims(value.type, lambda dim: dims.substitute(dim, point))


def at_point(value: Value, point: Mapping[Any, dims.Dim]) -> Value:
    """A value, said to have the sizes that it has at a point."""
    there = type_at(value, point)
    if there == value.type or not isinstance(there, Tensor):
        return value
    return op.Reshape(value, shape_vector(there.shape), allowzero=1)


def relation_value(where: Any) -> Value:
    """Whether a relation of sizes holds, as a scalar. Raises Unsupported for one that ONNX cannot say."""
    parts = where.args if isinstance(where, sympy.And) else (where,)
    return reduce(op.And, (scalar(divided_safely(part), DType.BOOL) for part in parts))


def divisors_of(expr: Any) -> list[Any]:
    """What a relation divides by, but for numbers."""
    found = [each.args[1] for each in expr.atoms(dims.FloorDiv, dims.Mod)]
    return [each for each in dict.fromkeys(found) if not each.is_Integer]


def divided_safely(expr: Any) -> Any:
    """A relation that divides by 1 where it would by less: all parts of a condition are computed, also where one of
    them says that there is nothing."""
    return expr.replace(
        lambda each: isinstance(each, dims.FloorDiv | dims.Mod) and not each.args[1].is_Integer,
        lambda each: each.func(each.args[0], dims.Max(1, each.args[1])),
    )


def is_weight(value: Value) -> bool:
    """Whether a value is a constant that stands outside of the branches, once."""
    held: Blob | None = value.blob if value.op == CONSTANT else None
    return held is not None and held.nbytes >= SHARED


SHARED = 1024
"""Bytes of a constant that is not written into each branch."""


def of_sizes(value: Value, like: Value) -> Value:
    """The value, said to have the sizes of another, which it has where it is computed; as it is where only data tells
    these."""
    shape = like.type.shape if isinstance(like.type, Tensor) else ()
    if same_types(value.type, like.type) is True or any(map(is_unknown, shape)):
        return value
    return op.Reshape(value, shape_vector(shape), allowzero=1)
