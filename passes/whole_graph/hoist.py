"""What a body computes of captures alone, computed outside: once for all trips of a loop, or once for both branches.

A value of a body that depends on captures and constants only has an image outside: the same operator over what is
captured. Where the graph around computes that image already, the body captures it. Otherwise it is computed outside

- for Loop and Scan, where it cannot fail, or a trip is certain: a loop of no trips must not fail for it;
- for If, where both branches compute it.

Sizes stay inside: what a body knows of its shapes it knows of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from irkit import dims
from irkit.build import retyping
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, Type, dims_of, types_of
from irkit.core.vocabulary import ITEM, PARAM, SHAPE_VECTOR
from irkit.dims import Range
from irkit.errors import TypeRuleError
from irkit.ops.types.contents import contents
from irkit.pattern import uniform
from irkit.rewriting.numbering import Numbering, is_random
from irkit.rewriting.passes import Pass, in_bodies
from passes.analysis.questions import same_shape
from passes.rules.control_flow import is_leaf, parts_of, rebuild_results, trips_of, with_captures

OPERATORS = frozenset(("If", "Loop", "Scan"))
"""Operators out of whose bodies values are taken."""

UNARY = frozenset((
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf",
    "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg",
    "Not", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Swish", "Tan", "Tanh", "Transpose",
))  # fmt: skip
"""Operators of one tensor, which no size of it makes fail."""

PAIRWISE = frozenset((
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mul", "Or",
    "Pow", "PRelu", "Sub", "Sum", "Where", "Xor",
))  # fmt: skip
"""Operators of several tensors, element by element."""

STATIC = UNARY | PAIRWISE | {
    "Clip", "Concat", "Conv", "Expand", "Gemm", "LayerNormalization", "LogSoftmax", "MatMul", "RMSNormalization",
    "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare", "Reshape", "Slice",
    "Softmax", "Split", "Squeeze", "Tile", "Trilu", "Unsqueeze",
}  # fmt: skip
"""Operators that cannot fail where all sizes are numbers, which the type rules have compared."""


def hoist_here(graph: Graph, ranges: Mapping[str, Range]) -> Graph:
    """Values taken out of the bodies of a graph; bodies in bodies are left alone."""
    if not any(v.op in OPERATORS for v in graph.order):
        return graph
    table = Numbering()
    for value in graph.order:
        table.first(value)
    new: dict[Value, Value] = {}
    for value in graph.order:
        made = value
        if new and not new.keys().isdisjoint(value.inputs):
            made = retyping.over(value, tuple([v if v is None else new.get(v, v) for v in value.inputs]))
        if value.op in OPERATORS and value.attribute("captures", 0):
            made = hoisted(made, table, ranges)
        if made is not value:
            new[value] = made
    return graph.with_results(new.get(r, r) for r in graph.results) if new else graph


def hoist_all(graph: Graph) -> Graph:
    """The graph with values taken out of bodies, innermost bodies first."""

    def here(inner: Graph) -> Graph:
        return hoist_here(inner, graph.symbols)

    return in_bodies(here).run(graph)


hoist: Pass = Pass("hoist", (), lambda graph, observe, depth: hoist_all(graph))
"""What bodies compute of captures alone, computed outside, where that is no more work."""


# ---------------------------------------------------------------------------------------------- one operator


def hoisted(value: Value, table: Numbering, ranges: Mapping[str, Range]) -> Value:
    """The operator with values taken out of its bodies; itself where there are none to take."""
    parts, joint = parts_of(value), Numbering()
    local = [images(body, parts.captures, table, joint) for body in value.bodies]
    if value.op == "If":
        common = frozenset(local[0].values()).intersection(local[1].values())
        free = [{v for v, image in found.items() if image in common} for found in local]
    else:
        certain = runs(value, ranges)
        free = [{v for v in found if certain or cannot_fail(v)} for found in local]
    taken = [capturable(*each, table) for each in zip(value.bodies, local, free, strict=True)]
    edges = [edge(body, found) for body, found in zip(value.bodies, taken, strict=True)]
    outer = dict.fromkeys(found[v] for found, values in zip(taken, edges, strict=True) for v in values)
    if not outer:
        return value
    bodies: list[Graph] = []
    for body, found, values in zip(value.bodies, taken, edges, strict=True):
        extra = {image: param(image.type) for image in outer}
        results = rebuild_results(body.results, {v: extra[found[v]] for v in values})
        bodies.append(attrs.evolve(body, params=(*body.params, *extra.values()), results=results))
    for image in outer:
        table.first(image)
    return with_captures(value, parts.own, (*parts.captures, *outer), bodies)


def images(body: Graph, captures: tuple[Value, ...], table: Numbering, joint: Numbering) -> dict[Value, Value]:
    """What the values of a body are outside, for those that depend on captures alone: a value of the graph around,
    which `table` holds, where there is an equal one, and else one that is equal for all bodies that share `joint`."""
    outside: dict[Value, Value] = dict(zip(body.params[len(body.params) - len(captures) :], captures, strict=True))
    for value in body.order:
        if value.op == PARAM or not all(v is None or v in outside for v in value.inputs):
            continue
        if is_leaf(value):
            outside[value] = value
        elif not is_random(value) and not binds(value):
            try:
                image = retyping.over(value, tuple([v if v is None else outside[v] for v in value.inputs]))
            except TypeRuleError:
                continue
            known = table.find(image)
            outside[value] = joint.first(image) if known is None else known
    return outside


def binds(value: Value) -> bool:
    """True where the type of a value has unknown sizes that those of its operands do not have: of a body that is used
    in two places they would be taken for the same."""
    sizes = {d for d in dims_of(value.type) if retyping.is_unknown(d)}
    for operand in value.inputs if sizes else ():
        if operand is not None:
            sizes.difference_update(dims_of(operand.type))
    return bool(sizes)


def capturable(body: Graph, outside: Mapping[Value, Value], free: set[Value], table: Numbering) -> dict[Value, Value]:
    """The images of those values of a body that may be captured: they are there, or they and their operands may be
    computed outside."""
    there: set[Value] = {p for p in body.params if p in outside}
    found: dict[Value, Value] = {}
    for value in body.order:
        image = outside.get(value)
        if image is None or value.op == PARAM:
            continue
        size = is_size(value)
        known = not is_leaf(value) and table.find(image) is image
        over_these = there.issuperset(v for v in value.inputs if v is not None)
        if known or is_leaf(value) or ((value in free or size) and over_these):
            there.add(value)
            if isinstance(value.type, Tensor) and not size and not is_leaf(value):
                found[value] = image
    return found


def edge(body: Graph, taken: Mapping[Value, Value]) -> list[Value]:
    """Those of the values that results, or values that are none of them, use, in order."""
    if not taken:
        return []
    found = {r for r in body.results if r in taken}
    for value in body.order:
        if value not in taken:
            found.update(v for v in value.inputs if v is not None and v in taken)
    return [v for v in body.order if v in found]


# ---------------------------------------------------------------------------------------------- conditions


def runs(value: Value, ranges: Mapping[str, Range]) -> bool:
    """True where a loop certainly takes a trip."""
    own = parts_of(value).own
    if value.op == "Loop":
        count, flag = own[:2]
        if trips_of(count, flag, value.bodies[0]):
            return True
        if flag is not None and not (flag.blob is not None and bool(flag.blob.array.all())):
            return False
        most = None if count is None else (contents(count) or (None,))[0]
        return count is None or (most is not None and dims.bounds(most, ranges).lo > 0)
    scanned: int = value.attribute("num_scan_inputs")
    first = own[len(own) - scanned]
    axis: int = (value.attribute("scan_input_axes") or (0,))[0]
    return first is not None and dims.bounds(first.shape[axis], ranges).lo > 0


def is_size(value: Value) -> bool:
    """True for sizes, and for small integer tensors that are computed of sizes."""
    if value.op == SHAPE_VECTOR:
        return True
    return isinstance(value.type, Tensor) and value.type.dtype is DType.INT64 and contents(value) is not None


def is_static(type: Type) -> bool:
    """True for a tensor of numbers, none of its sizes unknown or 0."""
    return (
        isinstance(type, Tensor)
        and type.dtype is not DType.STRING
        and all(isinstance(d, int) and d > 0 for d in type.shape)
    )


def cannot_fail(value: Value) -> bool:
    """True for a value that is computed whatever its operands hold, and whatever sizes their symbols stand for."""
    if value.op == ITEM:
        return True
    if value.op not in STATIC:
        return False
    operands = [v for v in value.inputs if v is not None]
    if value.op == "Div" and not operands[0].dtype.is_float and uniform(operands[1]) in (None, 0, -1):
        return False
    types = types_of(value.type)
    if all(map(is_static, (*types, *(v.type for v in operands)))):
        return True
    if any(not isinstance(t, Tensor) or t.dtype is DType.STRING for t in (*types, *(v.type for v in operands))):
        return False
    if value.op in PAIRWISE:
        return all(same_shape(v.shape, value.shape) or all(d == 1 for d in v.shape) for v in operands)
    if value.op == "MatMul":
        first, second = operands
        return second.rank == 2 and first.rank > 1 and dims.same(first.shape[-1], second.shape[0]) is True
    return value.op in UNARY
