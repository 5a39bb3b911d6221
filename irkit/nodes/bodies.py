"""Bodies of control flow: closed graphs, out of values or out of Python functions.

A closed graph reaches no Param but its own. What a body uses from outside is a capture: the last operands of the
operator, and the last parameters of each of its bodies. A function is traced by calling it on fresh parameters. Calling
it twice tells what it made from what it found: a value that both calls reach existed before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import attrs
import numpy as np

from irkit import dims
from irkit.core import walk
from irkit.core.attributes import Given
from irkit.core.blobs import Blob, blob
from irkit.core.ir import Graph, Value, constant, param, parameters, values
from irkit.core.types import DType, Optional, Tensor, Type
from irkit.core.types import Sequence as SequenceType
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.ops.schemas import BODIES, NONDETERMINISTIC
from irkit.support.arguments import type_text
from irkit.support.counts import count_text

Operand = Any
"""What may stand where a value is wanted: a value, a number, an array, a list of numbers, or None."""

BodyFunction = Callable[..., Any]
"""What a user writes for a body: from values to a value, to several, or to what becomes one."""

Traced = tuple[list[Value | None], Given, tuple[Graph, ...]]
"""operands, attributes, closed bodies"""

INDEX, FLAG = Tensor(DType.INT64, ()), Tensor(DType.BOOL, ())
EMPTY = "SequenceEmpty"


# ---------------------------------------------------------------------------------------------- closing


def closed(params: Sequence[Value], results: Sequence[Value], name: str = "body") -> tuple[Graph, tuple[Value, ...]]:
    """(graph, captures): the results as a closed graph, and the outer values that it takes as further parameters.

    What does not depend on `params` is captured from outside; constants and random draws stay inside. Raises GraphError
    for parameters that are none, and results that are no values.
    """
    params, results = parameters(params), values(results)
    inside: set[Value] = set(params)
    for value in walk.post_order(results):
        if stays(value) or value.op in NONDETERMINISTIC or any(v in inside for v in value.inputs):
            inside.add(value)
    used = entries(results, inside)
    return sealed_graph(params, results, used, name), used


def stays(value: Value) -> bool:
    """True for a leaf that costs nothing to have in a body too: a constant, or sizes that nothing binds."""
    return value.op == CONSTANT or (value.op == SHAPE_VECTOR and not value.inputs)


def entries(results: Iterable[Value], inside: set[Value]) -> tuple[Value, ...]:
    """The values from outside that values of `inside` use, or that are results themselves, in order of first use."""
    found: dict[Value, None] = {}
    reached = walk.post_order(results, stop=lambda v: v not in inside)
    for value in (*reached, None):
        for operand in results if value is None else value.inputs:
            if operand is not None and operand not in inside:
                found[operand] = None
    return tuple(found)


def sealed_graph(params: Sequence[Value], results: Sequence[Value], captures: Sequence[Value], name: str) -> Graph:
    """The closed graph over `params` and one more parameter for each capture."""
    swaps = {v: param(v.type) for v in captures}
    built = walk.rebuild(results, {**swaps, **{p: p for p in params}})
    return Graph((*params, *swaps.values()), tuple(built[r] for r in results), name=name)


# ---------------------------------------------------------------------------------------------- tracing


@attrs.frozen(eq=False)
class Trace:
    """One call of a body: its parameters and what it gave back."""

    params: tuple[Value, ...]
    results: tuple[Value, ...]


def with_bodies(op: str, inputs: Sequence[Operand], given: Given) -> Traced:
    """Operands, attributes and closed bodies of a control-flow operator whose bodies are graphs or Python functions.

    Graphs are taken as they are, with attribute `captures` saying how many of the operands are captures. Raises
    TypeRuleError where a body is missing.
    """
    attributes = dict(given)
    bodies = [attributes.pop(name, None) for name in BODIES[op]]
    if all(isinstance(body, Graph) for body in bodies):
        return list(inputs), {"captures": 0, **attributes}, tuple(bodies)
    if not all(callable(body) and not isinstance(body, Graph) for body in bodies):
        raise TypeRuleError(
            f"{op} needs {' and '.join(BODIES[op])}", hint="give functions over values, or closed graphs for all"
        )
    return traced(op, inputs, attributes, bodies)


def traced(op: str, inputs: Sequence[Operand], given: Given, bodies: Sequence[BodyFunction]) -> Traced:
    """Operands with the captures at the end, attributes with their number, and the bodies as closed graphs.

    Raises TypeRuleError where a body gives back too few values, or a carried value of another element type or rank.
    """
    operands = [None if x is None else as_value(x) for x in inputs]
    makers = {"If": trace_if, "Loop": trace_loop, "Scan": trace_scan, "SequenceMap": trace_map}
    rounds = makers[op](operands, given, bodies)
    insides = [made_by(first, second) for first, second in rounds]
    last = [second for _, second in rounds]
    found = [entries(t.results, inside) for t, inside in zip(last, insides, strict=True)]
    captures = tuple(dict.fromkeys(v for used in found for v in used))
    graphs = tuple(sealed_graph(t.params, t.results, captures, name) for t, name in zip(last, BODIES[op], strict=True))
    return [*operands, *captures], {**given, "captures": len(captures)}, graphs


def made_by(first: Trace, second: Trace) -> set[Value]:
    """What the second call made: all that it reaches and the first does not, and leaves that may stand in a body."""
    before = set(walk.post_order(first.results))
    made = walk.post_order(second.results, stop=before.__contains__)
    leaves = (v for value in made for v in value.inputs if v is not None and stays(v))
    return {*made, *second.params, *leaves, *(r for r in second.results if stays(r))}


def trace(
    function: BodyFunction,
    types: Sequence[Type],
    like: Sequence[Type],
    instead: Mapping[int, Value] = MappingProxyType({}),
) -> Trace:
    """`function` called on new parameters of those types, or on the values that `instead` holds for some of them;
    numbers that it gives back become constants of the element types of `like`."""
    params = tuple(param(t) for t in types)
    given = tuple(instead.get(i, p) for i, p in enumerate(params))
    require_arguments(function, given)
    found = function(*given)
    several = cast("Sequence[Operand]", found if isinstance(found, tuple | list) else (found,))
    wanted = (*like, *(None for _ in range(len(several) - len(like))))
    return Trace(params, tuple(as_value(r, t) for r, t in zip(several, wanted, strict=False)))


def require_arguments(function: BodyFunction, given: Sequence[Value]) -> None:
    """Raises TypeRuleError for a body that cannot be called with what it is given."""
    try:
        inspect.signature(function).bind(*given)
    except TypeError as error:
        types = ", ".join(repr(v.type) for v in given)
        raise TypeRuleError(
            f"a body is called with {count_text(len(given), 'value')} ({types}), which it does not take: {error}",
            hint="If gives none; Loop the number of the trip, the condition, and what is carried; Scan and SequenceMap "
            "what is carried, and the elements",
        ) from error
    except ValueError:  # what is written in C tells nothing of its parameters
        return


def as_value(data: Operand, like: Type | None = None) -> Value:
    """A value as it is; a number, list or array as a constant, of the element type of `like` where that is a tensor."""
    if type(data) is Value:
        return data
    if isinstance(data, Blob):
        return constant(data)
    array: np.ndarray = np.asarray(data)
    if array.dtype == object:
        raise TypeRuleError(f"a body cannot give back {type_text(data)}", hint="give values, numbers or arrays")
    return constant(blob(data, like.dtype if isinstance(like, Tensor) else None))


# ---------------------------------------------------------------------------------------------- the operators

Rounds = list[tuple[Trace, Trace]]
"""For each body two calls on parameters of the same types."""


def twice(function: BodyFunction, types: Sequence[Type], like: Sequence[Type] = ()) -> tuple[Trace, Trace]:
    """Two calls."""
    return trace(function, types, like), trace(function, types, like)


def trace_if(operands: list[Value | None], given: Given, bodies: Sequence[BodyFunction]) -> Rounds:
    """`op.If(cond, then_branch=lambda: ..., else_branch=lambda: ...)`"""
    return [twice(body, ()) for body in bodies]


def trace_loop(operands: list[Value | None], given: Given, bodies: Sequence[BodyFunction]) -> Rounds:
    """`op.Loop(M, cond, *carried, body=lambda i, cond, *carried: (cond, *carried, *scan_results))`"""
    while len(operands) < 2:
        operands.append(None)
    return [settled("Loop", bodies[0], operands[2:], lead=(INDEX, FLAG), before=(FLAG,))]


def trace_scan(operands: list[Value | None], given: Given, bodies: Sequence[BodyFunction]) -> Rounds:
    """`op.Scan(*states, *sequences, num_scan_inputs=k, body=lambda *states_then_elements: (*states, *results))`"""
    count = given.get("num_scan_inputs")
    if not isinstance(count, int) or not 1 <= count <= len(operands):
        raise TypeRuleError(
            f"Scan: num_scan_inputs is {count}, and it is given {count_text(len(operands), 'operand')}",
            hint="num_scan_inputs counts the last operands, which are scanned; the others are states",
        )
    states, taken = operands[: len(operands) - count], operands[len(operands) - count :]
    axes = tuple(given.get("scan_input_axes") or (0,) * count)
    if len(axes) != count:
        raise TypeRuleError(
            f"Scan: scan_input_axes has {count_text(len(axes), 'axis', 'axes')}, for {count} scanned operands",
            hint="give one axis for each scanned operand, or leave scan_input_axes out",
        )
    elements = [without_axis(v, axis) for v, axis in zip(taken, axes, strict=True)]
    return [settled("Scan", bodies[0], states, after=elements)]


def without_axis(value: Value | None, axis: int) -> Tensor:
    """The type of one element of a scanned tensor."""
    if value is None or not isinstance(value.type, Tensor) or not -value.rank <= axis < value.rank:
        raise TypeRuleError(
            f"Scan: {value!r} has no axis {axis} to scan", hint="scan a tensor of rank 1 or more, along one of its axes"
        )
    at = axis % value.rank
    return Tensor(value.dtype, value.shape[:at] + value.shape[at + 1 :])


def trace_map(operands: list[Value | None], given: Given, bodies: Sequence[BodyFunction]) -> Rounds:
    """`op.SequenceMap(seq, *others, body=lambda element, *others: ...)`; sequences are taken apart, tensors are not"""
    if not operands or operands[0] is None or not isinstance(operands[0].type, SequenceType):
        raise TypeRuleError(
            f"SequenceMap: operand 0 is {operands[:1]!r}, and no sequence", hint="op.SequenceConstruct(...)"
        )
    types = [v.type.element if isinstance(v.type, SequenceType) else v.type for v in operands if v is not None]
    return [twice(bodies[0], types)]


def settled(
    op: str,
    function: BodyFunction,
    carried: Sequence[Value | None],
    *,
    lead: Sequence[Type] = (),
    before: Sequence[Type] = (),
    after: Sequence[Type] = (),
) -> tuple[Trace, Trace]:
    """Two calls of a body on types that its results fit: a carried size that a trip changes is made unknown.

    Args:
        op: the operator, for errors.
        function: the body.
        carried: the first values of what is carried from one trip to the next.
        lead, after: types of the parameters before and after the carried ones.
        before: types of the results before the carried ones.
    """
    if any(v is None for v in carried):
        raise TypeRuleError(
            f"{op}: a carried value is missing", hint="give an initial value for each value that the body carries"
        )
    starts = [v for v in carried if v is not None]
    types: list[Type] = [v.type for v in starts]
    # An empty sequence takes the type of what the first trip makes of it.
    instead = {len(lead) + i: v for i, v in enumerate(starts) if v.op == EMPTY}
    while True:
        found = trace(function, (*lead, *types, *after), (*before, *types), instead)
        if len(found.results) < len(before) + len(types):
            wanted = f"{'the condition and ' if before else ''}{len(types)} carried"
            raise TypeRuleError(
                f"{op}: the body gives back {count_text(len(found.results), 'value')}, and {wanted} are needed",
                hint="return what the body carries, then what is collected, as one tuple",
            )
        backs = [r.type for r in found.results[len(before) : len(before) + len(types)]]
        wider = [b if len(lead) + i in instead else widened(op, types[i], b) for i, b in enumerate(backs)]
        if not instead and all(a is b for a, b in zip(types, wider, strict=True)):
            return found, trace(function, (*lead, *types, *after), (*before, *types))
        types, instead = wider, {}


def widened(op: str, taken: Type, back: Type) -> Type:
    """`taken` with the sizes that come back otherwise made unknown; itself where there are none."""
    if isinstance(taken, Tensor) and isinstance(back, Tensor):
        if taken.dtype is back.dtype and len(taken.shape) == len(back.shape):
            shape = tuple(widened_dim(a, b) for a, b in zip(taken.shape, back.shape, strict=True))
            return taken if shape == taken.shape else Tensor(taken.dtype, shape)
    elif isinstance(taken, SequenceType | Optional) and type(taken) is type(back):
        element = widened(op, taken.element, back.element)  # type: ignore[union-attr]
        return taken if element is taken.element else type(taken)(element)
    raise TypeRuleError(
        f"{op}: a carried value goes in as {taken!r} and comes back as {back!r}",
        hint="the element type and the rank must stay; sizes may change",
    )


def widened_dim(taken: Dim, back: Dim) -> Dim:
    """`taken` where every trip keeps it, or where nothing is known of it already; else a fresh symbol."""
    return taken if dims.is_fresh(taken) or dims.same(taken, back) is True else dims.fresh()
