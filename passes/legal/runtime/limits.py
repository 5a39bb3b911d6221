"""The sizes at which ONNX Runtime computes what the graph says: conditions that go into the contract.

Some of its kernels leave some out. Attention refuses a batch, queries or keys of which there are none, GridSample an
image without places, pooling one without channels or places. LSTM and GRU without a step or a batch end the process,
and so do ConvTranspose and InstanceNormalization without places, and a product with a tensor that is turned so that its
first axis, of size 0, becomes rows or columns. Products of turned matrices in a batch leave what memory held where
there is nothing to add. A sum over an axis that is not the last one adds row by row in float32,
and stands still at 2**24, which 1 more does not change. To write these in other words takes time at every size, so a
graph whose sizes do not rule this out says it instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from irkit import dims
from irkit.core.ir import Fact, Graph, Value
from irkit.core.types import DType, Tensor
from irkit.dims import Dim, Range, notation
from passes.analysis.questions import axes_of, positive
from passes.targets import Target

RUNTIME = "runtime"
"""The kind of a fact that says at which sizes the runtime computes what the graph says."""

CPU = "CPUExecutionProvider"

MOST = 2**24
"""So many numbers a sum in float32 may add one by one: from there on, 1 more is rounded off."""

ATTENTION = frozenset((
    "Attention", "com.microsoft::Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention",
))  # fmt: skip
"""The operators that want queries and keys."""

RECURRENT = frozenset(("LSTM", "GRU"))
"""The operators that want steps and a batch: without them they end the process."""

PRODUCT, FUSED_PRODUCT = "MatMul", "com.microsoft::FusedMatMul"
"""The operators that want rows, columns and something to add, where these are turned before them."""

IMAGES = frozenset(("GridSample", "ConvTranspose", "InstanceNormalization"))
"""The operators that want places in an image."""

CONVOLUTIONS = frozenset(("Conv", "ConvTranspose"))
"""The operators that want channels: without them Conv does not come to an end."""

POOLS = frozenset(("AveragePool", "MaxPool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"))
"""The operators that want channels and places, if not images."""

WANTING = ATTENTION | RECURRENT | IMAGES | CONVOLUTIONS | POOLS | {PRODUCT, FUSED_PRODUCT}
"""All operators that want some size to be at least 1."""

SUMS = frozenset((
    "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
))  # fmt: skip
"""The operators that add along axes."""

ADDING = SUMS | {"CumSum"}
"""Those, and the one that has a result for each number that it adds."""

LIMITED = ATTENTION | RECURRENT | {PRODUCT, FUSED_PRODUCT} | IMAGES | CONVOLUTIONS | POOLS | ADDING
"""All operators that want something of sizes."""

TRUTHS = frozenset(("Cast", "Greater", "Equal"))
"""What asks of a sum of truths whether there is one: it may stand still."""


def state_limits(graph: Graph, target: Target) -> Graph:
    """The graph with a fact for each condition under which ONNX Runtime computes it, which its ranges do not imply; the
    same object where there is none, or where it is not ONNX Runtime that runs it."""
    if not target.is_onnxruntime:
        return graph
    known = {fact.text for fact in graph.signature.facts if fact.kind in ("guard", "relation", RUNTIME)}
    facts = tuple(fact for fact in conditions(graph, target.provider == CPU) if fact.text not in known)
    if not facts:
        return graph
    signature = graph.signature
    return graph.with_signature(attrs.evolve(signature, facts=(*signature.facts, *facts)))


def conditions(graph: Graph, on_cpu: bool) -> Iterator[Fact]:
    """The conditions, each once, those on one dimension first, with the line of the operator that wants it."""
    ranges: dict[str, Range] = dict(graph.symbols)
    wanted: dict[Dim, str] = {}
    most: dict[Dim, str] = {}
    for holder, value in values_of(graph):
        for size in sizes_wanted(value) if value.op in WANTING else ():
            wanted.setdefault(size, value.origin.source)
        if on_cpu and value.op in ADDING:
            count = added(value)
            if is_told(count) and not asks_whether(holder, value):
                most.setdefault(count, value.origin.source)
    for size, source in sorted(wanted.items(), key=lambda pair: len(dims.symbols_of(pair[0]))):
        if is_told(size) and dims.bounds(size, ranges).lo < 1:
            yield Fact(RUNTIME, f"{notation.text(size)} >= 1", source)
            raise_least(ranges, size)
    for count, source in most.items():
        greatest = dims.bounds(count, ranges).hi
        if greatest is None or greatest > MOST:
            yield Fact(RUNTIME, f"{notation.text(count)} <= {MOST}", source)


def sizes_wanted(value: Value) -> Iterator[Dim]:
    """The sizes of which an operator wants at least 1."""
    x = value.inputs[0] if value.inputs else None
    if value.op in ATTENTION:
        yield from sizes_of_attention(value)
    elif value.op in RECURRENT:
        yield from steps_and_batch(value)
    elif value.op in (PRODUCT, FUSED_PRODUCT):
        yield from sizes_of_turned(value)
    elif x is not None and value.op in IMAGES | POOLS | CONVOLUTIONS:
        yield from x.shape[1:2] if value.op in POOLS | CONVOLUTIONS else ()
        yield from x.shape[2:] if value.op in IMAGES | POOLS else ()


def values_of(graph: Graph) -> Iterator[tuple[Graph, Value]]:
    """(graph, value) for the values of a graph that have limits, and those of the bodies in it, which share its
    dimensions."""
    for value in graph.order:
        if value.op in LIMITED:
            yield graph, value
        for body in value.bodies:
            yield from values_of(body)


def is_told(size: Dim) -> bool:
    """True for a size that varies, and of which each symbol has a name."""
    return type(size) is not int and not any(map(dims.is_fresh, dims.symbols_of(size)))


def raise_least(ranges: dict[str, Range], size: Dim) -> None:
    """Notes in the ranges that a size which is one symbol is at least 1."""
    names = [dims.label(symbol) for symbol in dims.symbols_of(size)]
    if len(names) == 1 and dims.same(size, dims.symbols_of(size)[0]) is True:
        known = ranges.get(names[0])
        ranges[names[0]] = Range(1, None if known is None else known.hi)


def sizes_of_attention(value: Value) -> Iterator[Dim]:
    """The sizes of queries, keys and values."""
    for operand in value.inputs[:3]:
        if operand is not None and isinstance(operand.type, Tensor):
            yield from operand.shape


def steps_and_batch(value: Value) -> Iterator[Dim]:
    """The sizes of the sequence and of the batch of a recurrent layer."""
    x = value.inputs[0]
    if x is not None and x.rank == 3:
        yield from x.shape[:2]


def sizes_of_turned(product: Value) -> Iterator[Dim]:
    """The sizes of a product that ONNX Runtime makes one with what turns its operands: the first ones of operands whose
    first axis becomes rows or columns, and all others but one are a batch, in order, by which it divides; and how many
    numbers are added, for it writes nothing where there are none. Measured at ranks 3 to 5."""
    a, b = product.inputs[:2]
    if a is None or b is None or min(a.rank, b.rank) < 2:
        return
    swapped = bool(product.attribute("transA") or product.attribute("transB"))
    for operand in (a, b):
        turned = turned_value(operand)
        x = None if turned is None else turned.inputs[0]
        if turned is not None and x is not None and x.rank > 2:
            perm = tuple(turned.attribute("perm", tuple(reversed(range(x.rank)))))
            if perm[:-2] == tuple(range(1, x.rank - 1)):
                swapped = True
                yield x.shape[0]
            swapped |= perm == (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    if swapped and max(a.rank, b.rank) > 2:
        yield a.shape[-2] if product.attribute("transA") else a.shape[-1]


def turned_value(operand: Value) -> Value | None:
    """The Transpose that an operand is, or becomes where ONNX Runtime moves it behind operators on each element; None
    where there is none."""
    found = operand
    for _ in range(FAR):
        if found.op == "Transpose":
            return found
        if found.op not in POINTWISE:
            return None
        alike = [v for v in found.inputs if v is not None and isinstance(v.type, Tensor) and v.rank == operand.rank]
        if not (len(alike) == 1 and alike[0].shape == operand.shape):
            return None
        found = alike[0]
    return None


FAR = 4
"""Behind so many operators on each element a Transpose is looked for."""
POINTWISE = frozenset(("Mul", "Div", "Add", "Sub", "Cast", "Neg", "Relu", "Exp", "Sqrt", "Sigmoid", "Tanh"))
"""Operators on each element that scores and their operands go through."""


def added(value: Value) -> Dim:
    """How many numbers of float32 a value adds one by one; 1 where it does not."""
    x = value.inputs[0]
    return 1 if x is None else dims.product(x.shape[i] for i in one_by_one(value))


def one_by_one(value: Value) -> tuple[int, ...]:
    """The axes along which numbers of float32 are added one by one: those before the last one that stays, for a run at
    the end is added in parts. None for sums of other elements."""
    x = value.inputs[0]
    axes = axes_of(value.inputs[1]) if len(value.inputs) > 1 else None
    if x is None or x.dtype is not DType.FLOAT or not x.rank or not axes:
        return ()
    named = positive(axes, x.rank)
    last = x.rank if value.op == "CumSum" else max((i for i in range(x.rank) if i not in named), default=0)
    return tuple(i for i in named if i < last)


def asks_whether(graph: Graph, value: Value) -> bool:
    """True for a sum of truths of which only is asked whether there is one."""
    x = value.inputs[0]
    made = None if x is None or x.op != "Cast" else x.inputs[0]
    if made is None or made.dtype is not DType.BOOL:
        return False
    users = graph.users.get(value, ())
    return bool(users) and all(user.op in TRUTHS for user in users)
