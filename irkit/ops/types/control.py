"""Type rules of If, Loop, Scan and SequenceMap.

The bodies are closed graphs; what they capture are the last `captures` operands, and the last parameters of each body.
A symbol that a body binds itself (the size of a NonZero, a carried size that changes) means nothing outside: where it
stands in the type of a result, the size is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy

from irkit import dims
from irkit.core.ir import Graph, Value
from irkit.core.types import Optional, Sequence, Tensor, Type, dims_of, map_dims, same_types
from irkit.core.vocabulary import SHAPE_VECTOR
from irkit.dims import Dim
from irkit.ops.types.context import Context
from irkit.ops.types.sequences import EMPTY
from irkit.support.counts import count_text


def captured(c: Context) -> int:
    """How many of the last operands are captures."""
    count = c.attributes.get("captures") or 0
    if not 0 <= count <= len(c.inputs):
        raise c.fail(f"captures is {count}, for {count_text(len(c.inputs), 'operand')}")
    return count


def check_body(c: Context, body: Graph, operands: Iterable[Any], name: str) -> None:
    """Raises TypeRuleError where a body does not take what it is given: pairs of operand (or None) and type."""
    given = tuple(operands)
    if len(body.params) != len(given):
        raise c.fail(f"{name} takes {count_text(len(body.params), 'parameter')}, and is given {len(given)}")
    for index, (param, (value, type_)) in enumerate(zip(body.params, given, strict=True)):
        if same_types(param.type, type_) is False and not is_empty(value, param.type):
            raise c.fail(f"parameter {index} of {name} is a {param.type!r}, and is given a {type_!r}")


def is_empty(value: Value | None, wanted: Type) -> bool:
    """True for an empty sequence, which has no element that could be of the wrong type."""
    return value is not None and value.op == EMPTY and isinstance(wanted, Sequence)


def captures_of(c: Context) -> list[tuple[Value | None, Type]]:
    """The captured operands with their types."""
    count = captured(c)
    return [(v, v.type) for v in c.inputs[len(c.inputs) - count :]]


def inner_symbols(c: Context, body: Graph) -> frozenset[sympy.Symbol]:
    """The symbols that a body binds: those of its types that its operands do not have, and that no ShapeVector takes
    over from outside."""
    known: set[sympy.Symbol] = set()
    for value in c.inputs:
        if value is not None:
            known.update(s for d in dims_of(value.type) for s in dims.symbols_of(d))
    outer = set(body.params[len(body.params) - captured(c) :])
    bound: set[sympy.Symbol] = set()
    for value in body.order:
        here = {s for d in dims_of(value.type) for s in dims.symbols_of(d)} - known - bound
        if not here:
            if value.op == SHAPE_VECTOR and outer.issuperset(value.inputs):
                known.update(s for d in value.attributes[0][1] for s in dims.symbols_of(d) if s not in bound)
            continue
        bound.update(here)
    return frozenset(bound)


def left(type_: Type, inner: frozenset[sympy.Symbol]) -> Type:
    """A type as it is outside the body that binds `inner`: sizes in those symbols are unknown there."""
    if not inner:
        return type_
    return map_dims(type_, lambda d: d if inner.isdisjoint(dims.symbols_of(d)) else dims.fresh())


def merged(c: Context, a: Value, b: Value, what: str) -> Type:
    """The type of a value that is one of two: sizes that may differ are unknown."""
    if is_empty(a, b.type):
        return b.type
    if is_empty(b, a.type):
        return a.type
    return merged_types(c, a.type, b.type, what)


def merged_types(c: Context, a: Type, b: Type, what: str) -> Type:
    """The type that holds both; raises TypeRuleError where kinds, element types or ranks differ."""
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype is b.dtype and len(a.shape) == len(b.shape):
        pairs = zip(a.shape, b.shape, strict=True)
        return Tensor(a.dtype, tuple(x if dims.same(x, y) is True else dims.fresh() for x, y in pairs))
    if isinstance(a, Sequence | Optional) and type(a) is type(b):
        return type(a)(merged_types(c, a.element, b.element, what))  # type: ignore[union-attr]
    raise c.fail(
        f"{what} is a {a!r} on one way and a {b!r} on the other", hint="both must have one rank and element type"
    )


def infer_If(c: Context) -> tuple[Type, ...]:
    """cond bool[], captures... -> results of then_branch or of else_branch"""
    check_flag(c, 0)
    first, second = c.bodies
    outer = captures_of(c)
    check_body(c, first, outer, "then_branch")
    check_body(c, second, outer, "else_branch")
    if len(first.results) != len(second.results):
        raise c.fail(
            f"then_branch has {count_text(len(first.results), 'result')}, and else_branch {len(second.results)}"
        )
    inner = inner_symbols(c, first) | inner_symbols(c, second)
    pairs = zip(first.results, second.results, strict=True)
    return tuple(left(merged(c, a, b, f"result {i}"), inner) for i, (a, b) in enumerate(pairs))


def check_flag(c: Context, index: int) -> None:
    """Raises TypeRuleError where an operand is not a single element."""
    if any(dims.same(d, 1) is False for d in c.shape(index)):
        raise c.fail(f"operand {index} ({c.spec.formal(index).name}) must hold one element")


def infer_Loop(c: Context) -> tuple[Type, ...]:
    """M i64[]?, cond bool[]?, carried..., captures... -> carried..., each scan result with the trips as first axis"""
    (body,) = c.bodies
    for index in (0, 1):
        if c.has(index):
            check_flag(c, index)
    count = captured(c)
    carried = c.inputs[2 : len(c.inputs) - count]
    number, flag = body.params[:2] if len(body.params) >= 2 else (None, None)
    if number is None or flag is None:
        raise c.fail("the body must take the number of the trip and the condition first")
    starts = [(v, c.type(2 + i)) for i, v in enumerate(carried)]
    check_body(c, body, [(None, number.type), (None, flag.type), *starts, *captures_of(c)], "the body")
    if len(body.results) < 1 + len(carried):
        raise c.fail(f"the body must give back the condition and {len(carried)} carried values")
    inner = inner_symbols(c, body)
    finals = tuple(carried_type(c, v, body, 2 + i, 1 + i, inner) for i, v in enumerate(carried))
    trips = trip_count(c)
    return finals + tuple(stacked(c, r, inner, trips, 0) for r in body.results[1 + len(carried) :])


def carried_type(
    c: Context, start: Value, body: Graph, param_at: int, result_at: int, inner: frozenset[sympy.Symbol]
) -> Type:
    """The type of a carried value after any number of trips: a size is known where no trip changes it."""
    param, result = body.params[param_at].type, body.results[result_at].type
    if same_types(left(param, inner), left(result, inner)) is False:  # each trip binds the inner symbols anew
        raise c.fail(f"parameter {param_at} of the body is a {param!r}, and comes back as a {result!r}")
    if is_empty(start, param):
        return left(param, inner)
    return kept(start.type, param, result, inner)


def kept(start: Type, param: Type, result: Type, inner: frozenset[sympy.Symbol]) -> Type:
    """The sizes of `start` where the body gives back the size that it takes, else unknown ones."""
    if isinstance(start, Tensor) and isinstance(param, Tensor) and isinstance(result, Tensor):
        return Tensor(start.dtype, tuple(map(kept_dim, start.shape, param.shape, result.shape)))
    if isinstance(start, Sequence | Optional):
        return left(param, inner)
    return start


def kept_dim(start: Dim, param: Dim, result: Dim) -> Dim:
    """The size after any number of trips."""
    if dims.same(param, result) is not True:
        return dims.fresh()
    return param if type(param) is int else start


def trip_count(c: Context) -> Dim:
    """How many trips a Loop takes; known where only M can end it."""
    count = c.scalar(0)
    if count is None:
        return dims.fresh()
    flag = c.numbers(1) if c.has(1) else (1,)
    always = flag == (1,) and ends_by_count(c)
    return dims.maximum(0, count) if always else dims.fresh()


def ends_by_count(c: Context) -> bool:
    """True where the condition that a Loop's body gives back is always true, or nobody looks at it."""
    (body,) = c.bodies
    flag = body.results[0]
    if flag is body.params[1] or (flag.op == "Identity" and flag.inputs[0] is body.params[1]):
        return True
    found = flag.blob
    if found is None and flag.op == "Identity":
        found = flag.inputs[0].blob  # type: ignore[union-attr]
    return found is not None and bool(found.array.all())


def stacked(c: Context, result: Value, inner: frozenset[sympy.Symbol], count: Dim, axis: int) -> Type:
    """The type of a scan result: an element's, with the number of trips put in at `axis`."""
    type_ = left(result.type, inner)
    if not isinstance(type_, Tensor):
        raise c.fail(f"a scan result is a {type_!r}, where a tensor is needed")
    at = c.axis(axis, len(type_.shape), end=True)
    return Tensor(type_.dtype, (*type_.shape[:at], count, *type_.shape[at:]))


def infer_Scan(c: Context) -> tuple[Type, ...]:
    """states..., sequences..., captures... -> states..., each scan result with the steps on its scan axis"""
    (body,) = c.bodies
    count, taken = captured(c), c.attr("num_scan_inputs")
    states = len(c.inputs) - count - taken
    if states < 0 or taken < 1:
        raise c.fail(f"num_scan_inputs is {taken}, and {len(c.inputs) - count} operands are given")
    axes = c.attr("scan_input_axes") or (0,) * taken
    if len(axes) != taken:
        raise c.fail(f"scan_input_axes must hold {taken} axes")
    steps: Dim | None = None
    elements: list[tuple[Value | None, Type]] = []
    for index, axis in enumerate(axes, start=states):
        x = c.tensor(index)
        at = c.axis(axis, len(x.shape)) if x.shape else None
        if at is None:
            raise c.fail(f"operand {index} is a scalar, and has no axis to scan")
        steps = x.shape[at] if steps is None else c.unify(steps, x.shape[at], "the lengths of the sequences")
        elements.append((None, Tensor(x.dtype, x.shape[:at] + x.shape[at + 1 :])))
    starts = [(c.inputs[i], c.type(i)) for i in range(states)]
    check_body(c, body, [*starts, *elements, *captures_of(c)], "the body")
    outs = body.results[states:]
    if len(body.results) < states:
        raise c.fail(f"the body must give back {states} states")
    out_axes = c.attr("scan_output_axes") or (0,) * len(outs)
    if len(out_axes) != len(outs):
        raise c.fail(f"scan_output_axes must hold {count_text(len(outs), 'axis', 'axes')}")
    inner = inner_symbols(c, body)
    finals = tuple(carried_type(c, c.inputs[i], body, i, i, inner) for i in range(states))
    length = dims.fresh() if steps is None else steps
    return finals + tuple(stacked(c, r, inner, length, a) for r, a in zip(outs, out_axes, strict=True))


def infer_SequenceMap(c: Context) -> tuple[Type, ...]:
    """seq, more seqs or tensors..., captures... -> for each result of the body a seq of it"""
    (body,) = c.bodies
    count = captured(c)
    given: list[tuple[Value | None, Type]] = []
    for index in range(len(c.inputs) - count):
        found = c.type(index)
        given.append((None, found.element if isinstance(found, Sequence) else found))
    if not isinstance(c.type(0), Sequence):
        raise c.fail(f"operand 0 is a {c.type(0)!r}, where a sequence is needed")
    check_body(c, body, [*given, *captures_of(c)], "the body")
    inner = inner_symbols(c, body)
    return tuple(Sequence(left(r.type, inner)) for r in body.results)
