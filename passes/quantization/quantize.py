"""`quantize`: a graph's weights, and its activations where asked, as integers; with a report by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from irkit.build import const, op
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.errors import EvaluateError, RewriteError
from irkit.evaluation.interpreter import Feeds, evaluate
from irkit.onnx.writing.inlining import expand_calls
from irkit.support.counts import count_text
from passes.precision import Kept
from passes.quantization.forms import dynamic, scaled_weight, static, weight_only
from passes.quantization.integers import Scaled, scale_of
from passes.quantization.layers import PRODUCTS, Layer, is_float, layer_of, layers_of
from passes.quantization.observed import Seen, moments_of, ranges_of
from passes.quantization.request import Quantization
from passes.quantization.smooth import smooth_outliers
from passes.targets import Target, target_of

FOLLOWING = frozenset((
    "Add", "Mul", "Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSwish", "MaxPool", "AveragePool", "GlobalAveragePool",
    "Concat", "Resize", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Pad",
))  # fmt: skip
"""Operators that are computed on integers beside products and convolutions."""

BOUNDED = frozenset(("Clip", "Resize", "Pad"))
"""Operators of one tensor whose other operands may be constants in float32."""

SAME = frozenset(("MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice"))
"""Operators whose result has its operand's scale, for it holds no other numbers."""

SLOW = "convolutions by a range of their own at each call are slower than in floating point"

Steps = Mapping[Value, tuple[np.ndarray, np.ndarray]]
"""(scale, zero point) of each activation that is quantized by a range."""

BYTE = (0, 255)
"""The ends of activations' integers."""


@attrs.frozen
class LayerReport:
    """What became of a layer: its name, its operator, the bytes of its weight before and after, and how far what the
    integers stand for is from the weight, as a part of the weight's norm."""

    name: str
    op: str
    bytes: int
    bytes_now: int
    error: float
    value: Value = attrs.field(repr=False)

    def __str__(self) -> str:
        return f"{self.op} {self.name}: {self.bytes:,} -> {self.bytes_now:,} bytes, error {self.error:.2%}"


@attrs.frozen(eq=False)
class Quantized:
    """A quantized graph: the graph, what was asked, its layers, what stays as it is and why."""

    graph: Graph
    request: Quantization
    layers: tuple[LayerReport, ...]
    kept: tuple[Kept, ...]
    notes: tuple[str, ...]
    original: Graph = attrs.field(repr=False)
    standing: Mapping[Value, Value] = attrs.field(repr=False)

    def __str__(self) -> str:
        now = sum(each.bytes_now for each in self.layers)
        how = self.request.activations or "none"
        shared = {each.value.inputs[1]: each.bytes for each in self.layers}  # a weight of several layers stands once
        before = sum(shared.values())
        lines = [
            f"{count_text(len(self.layers), 'weight')} as {self.request.weights}, activations {how}: "
            f"{before:,} -> {now:,} bytes",
            *(f"  {each}" for each in self.layers),
            *(f"  as it was: {each}" for each in self.kept),
            *(f"  {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def accuracy(self, feeds: Feeds) -> tuple[tuple[str, float], ...]:
        """(layer, relative error of what it gives) for sample inputs, in order: the norm of the difference between the
        quantized graph's value and the original's, as a part of the original's norm. What was lost before a layer
        counts in it. Raises EvaluateError for feeds that do not fit."""
        pairs = [(each.name, each.value, self.standing[each.value]) for each in self.layers]
        exact = contents(self.original, feeds, [old for _, old, _ in pairs])
        found = contents(self.graph, feeds, [new for _, _, new in pairs])
        return tuple((name, distance(exact[old], found[new])) for name, old, new in pairs)


def contents(graph: Graph, feeds: Feeds, values: Sequence[Value]) -> Mapping[Value, np.ndarray]:
    """The arrays of some values of a graph."""
    wanted = frozenset(values)
    found: dict[Value, np.ndarray] = {}

    def look(value: Value, result: object) -> None:
        if value in wanted and isinstance(result, np.ndarray):
            found[value] = result

    evaluate(graph, feeds, every=look)
    lost = [v for v in values if v not in found]
    if lost:
        raise EvaluateError(f"{lost[0]!r} is not computed by the graph", hint="give inputs that reach it")
    return found


def distance(exact: np.ndarray, found: np.ndarray) -> float:
    """The norm of the difference as a part of the norm of what is exact; the norm itself where that is 0."""
    size = float(np.linalg.norm(exact.astype(np.float64)))
    return float(np.linalg.norm(found.astype(np.float64) - exact)) / (size or 1.0)


def quantize(
    graph: Graph,
    wanted: Quantization | str = "int8",
    *,
    target: str | Target = "onnxruntime-cpu",
    feeds: Feeds | Sequence[Feeds] | None = None,
) -> Quantized:
    """The graph with weights, and activations where asked, as integers.

    MatMul, Gemm and Conv with constant float32 weights are quantized; a body of If, Loop or Scan stays as it is.

    Args:
        wanted: "int4" (weights by blocks of 32, with zero points), "int8" (weights by output channel), "dynamic" (int8,
            and the operands of products by their own range at each call), or a `Quantization`.
        target: decides the form: with "+com.microsoft", weights by blocks go into ONNX Runtime's MatMulNBits.
        feeds: sample inputs, where the request has none.

    Raises RewriteError for another name, and EvaluateError for feeds that do not fit.
    """
    request = Quantization.of(wanted)
    if feeds is not None:
        request = attrs.evolve(request, feeds=feeds)
    graph, written_out = without_functions(graph)
    layers, left = layers_of(graph, request)
    chosen = tuple(each for each in layers if each.is_product or request.activations != "dynamic")
    left = {**left, **{each.value: SLOW for each in layers if each not in chosen}}
    start, moved = graph, dict[Value, Value]()
    if request.smooth > 0:
        start, moved = smooth_outliers(graph, chosen, request.samples, request.smooth)
    now = {each.value: again(moved.get(each.value, each.value), each) for each in chosen}
    scaled = scaled_weights(start, tuple(now.values()), request)
    steps: Steps = {}
    steps = activation_steps(start, tuple(scaled), request) if request.activations == "static" else steps
    swaps = swaps_of(scaled, request, target_of(target).domains, steps)
    built = walk.rebuild_through(start.results, swaps)
    if request.activations == "static":
        exact = walk.rebuild_through(
            [built[r] for r in start.results], exact_readers([built[r] for r in start.results])
        )
        built = {old: exact.get(new, new) for old, new in built.items()}
    idle = [p for p in request.keep if not any(f"{p!r} is on" in why for why in left.values())]
    return Quantized(
        start.with_results(built[r] for r in start.results),
        request,
        tuple(report(old, each, scaled[each], request) for old, each in now.items()),
        tuple(Kept(value, why) for value, why in left.items()),
        (
            *(f"{p!r} of the keep-list names nothing that is quantized" for p in idle),
            *notes_of_bodies(graph, request),
            *written_out,
            *notes_of_weights(graph, chosen),
            *notes_of_rounding(request, chosen),
            *notes_of_ranges(request, tuple(now.values()), steps),
        ),
        graph,
        {old: built[each.value] for old, each in now.items()},
    )


def without_functions(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """(the graph with its functions that hold products written out, what is said of it): their weights are operands of
    calls, and each call's become integers of their own."""

    made = expand_calls(graph, lambda call: multiplies(call.bodies[0]))
    return (graph, ()) if made is graph else (made, ("functions that multiply by weights were written out",))


def multiplies(graph: Graph) -> bool:
    """Whether a product or a convolution stands in a graph or in a body of it."""
    return any(value.op in (*PRODUCTS, "Conv") or any(map(multiplies, value.bodies)) for value in graph.order)


def notes_of_weights(graph: Graph, layers: Sequence[Layer]) -> tuple[str, ...]:
    """What is said of weights that something else reads too, which stand beside their integers."""
    at, names = {layer.value for layer in layers}, {layer.weight: layer.name for layer in layers}
    others = [names[w] for w in names if any(user not in at for user in graph.users.get(w, ())) or w in graph.results]
    return (f"{', '.join(others)}: read elsewhere too, and stays beside its integers",) if others else ()


def notes_of_rounding(request: Quantization, layers: Sequence[Layer]) -> tuple[str, ...]:
    """What is said of weights for which rounding that makes up for itself is not there."""
    count = len([layer for layer in layers if not layer.is_product])
    if request.rounding != "gptq" or not count:
        return ()
    return (f"{count_text(count, 'weight')} of convolutions rounded to the nearest: gptq is for products",)


def notes_of_ranges(request: Quantization, layers: Sequence[Layer], steps: Steps) -> tuple[str, ...]:
    """What is said of layers of whose activations the samples show nothing. Raises RewriteError where that is all."""
    unseen = [layer.name for layer in layers if layer.x not in steps] if request.activations == "static" else []
    if unseen and len(unseen) == len(layers):
        raise RewriteError(
            "the samples show no finite number of what is multiplied",
            hint="give feeds of inputs that the model will see",
        )
    return (f"{', '.join(unseen)}: computed in floating point, the samples show no number there",) if unseen else ()


def notes_of_bodies(graph: Graph, request: Quantization) -> tuple[str, ...]:
    """What is said of layers in bodies, which stay as they are."""
    count = sum(len(layers_of(body, request)[0]) for body in walk.bodies(graph.order))
    return (f"{count} in bodies of If, Loop or Scan stay as they are",) if count else ()


def again(value: Value, layer: Layer) -> Layer:
    """The layer of a value that stands for another layer's."""
    return layer if value is layer.value else layer_of(value) or layer


def scaled_weights(graph: Graph, layers: Sequence[Layer], request: Quantization) -> Mapping[Layer, Scaled]:
    """The integers of each layer's weight."""
    moments: Mapping[Value, np.ndarray] = {}
    if request.rounding == "gptq":
        inputs = tuple({layer.x for layer in layers if layer.is_product})
        moments = moments_of(graph, request.samples, inputs)
    return {
        layer: scaled_weight(layer, request, moments.get(layer.x) if layer.is_product else None) for layer in layers
    }


def report(old: Value, layer: Layer, scaled: Scaled, request: Quantization) -> LayerReport:
    """What became of a layer."""
    rows = layer.rows()
    stands = scaled.numbers.reshape(len(rows), -1)[:, : rows.shape[1]]
    zeros = 0 if request.is_symmetric else scaled.zeros.size
    now = (rows.size + zeros) * request.bits // 8 + scaled.scales.nbytes
    return LayerReport(layer.name, old.op, rows.size * 4, now, distance(rows, stands), old)


# ---------------------------------------------------------------------------------------------- what is replaced


def swaps_of(
    scaled: Mapping[Layer, Scaled], request: Quantization, domains: tuple[str, ...], steps: Steps
) -> Mapping[Value, Value]:
    """What stands for each layer, and for each activation that is quantized by a range."""
    if request.activations is None:
        return {each.value: placed(weight_only(each, s, request, domains), each.value) for each, s in scaled.items()}
    if request.activations == "dynamic":
        return {each.value: placed(dynamic(each, s, request), each.value) for each, s in scaled.items()}
    scales = {value: float(scale) for value, (scale, _) in steps.items()}
    made = {each.value: placed(static(each, s, request, scales), each.value) for each, s in scaled.items()}
    return {**made, **{v: through_integers(made.get(v, v), *steps[v]) for v in steps}}


def exact_readers(roots: Sequence[Value]) -> Mapping[Value, Value]:
    """What reads a rounded number and computes in floating point, over the number before it was rounded, where that is
    computed in floating point too: nothing is saved by rounding it."""
    order = walk.post_order(roots)
    uses = walk.users(order)
    found: dict[Value, Value] = {}
    for value in order:
        if is_on_integers(value) or value.op == "QuantizeLinear":
            continue
        if value.op in FOLLOWING and all(user.op == "QuantizeLinear" for user in uses.get(value, ())):
            continue
        inputs = tuple(None if v is None else before_rounding(v) for v in value.inputs)
        if any(a is not b for a, b in zip(inputs, value.inputs, strict=True)):
            found[value] = value.with_inputs(inputs)
    return found


def before_rounding(value: Value) -> Value:
    """The number that a rounded one was, where that is computed in floating point; any other value itself."""
    if value.op != "DequantizeLinear" or value.inputs[0] is None or value.inputs[0].op != "QuantizeLinear":
        return value
    exact = value.inputs[0].inputs[0]
    return value if exact is None or is_on_integers(exact) or exact.op in FOLLOWING else exact


def is_on_integers(value: Value) -> bool:
    """Whether a value is that of a layer whose weight was made integers."""
    weight = value.inputs[1] if value.op in ("MatMul", "Gemm", "Conv") else None
    return weight is not None and weight.op == "DequantizeLinear"


def placed(new: Value, old: Value) -> Value:
    """The new value with the old one's origin."""
    return new.with_origin(old.origin.after("quantize"))


def through_integers(value: Value, scale: np.ndarray, zero: np.ndarray) -> Value:
    """A value, rounded to what integers stand for."""
    step, point = const(np.float32(scale)), const(np.uint8(zero))
    return op.DequantizeLinear(op.QuantizeLinear(value, step, point), step, point).with_origin(value.origin)


def activation_steps(graph: Graph, layers: Sequence[Layer], request: Quantization) -> Steps:
    """(scale, zero point) of each activation that is quantized by what the samples show of it."""
    wanted, alike = quantized_activations(graph, layers)
    seen = ranges_of(graph, request.samples, wanted)
    steps: dict[Value, tuple[np.ndarray, np.ndarray]] = {}
    for value in wanted:  # in order: what has the scale of its operand comes after it
        found: Seen | None = seen.get(value)
        if alike.get(value) in steps:
            steps[value] = steps[alike[value]]
        elif found is not None:
            low, high = found.range(request.ranges, BYTE)
            scale, zero = scale_of(np.asarray(low), np.asarray(high), BYTE, symmetric=False)
            steps[value] = scale, zero
    return steps


def quantized_activations(graph: Graph, layers: Sequence[Layer]) -> tuple[tuple[Value, ...], Mapping[Value, Value]]:
    """(the activations that become integers, those that have the scale of another one).

    They are what layers take and give, and what operators give that can be computed on integers alone. Of a layer and
    an activation function or a bias right behind it, the last one's result is taken.
    """
    at = {layer.value for layer in layers}
    needed = {layer.x for layer in layers}
    uses = walk.users(graph.order)
    taken: dict[Value, None] = {}
    open_: set[Value] = set()  # layers whose result is taken behind the operator that uses it
    alike: dict[Value, Value] = {}
    for value in graph.order:
        given = [v for v in value.inputs if is_float(v) and v is not None and v.blob is None]
        whole = value.op in BOUNDED or len(given) == len([v for v in value.inputs if is_float(v)])
        on_integers = value.op in FOLLOWING and whole and given and all(v in taken or v in open_ for v in given)
        behind = any(v in open_ for v in given)
        if (
            not is_float(value)
            or value.blob is not None
            or not (value in at or value in needed or on_integers or behind)
        ):
            continue
        after = uses.get(value, ())
        if (
            value not in needed
            and len(after) == 1
            and (value in at or on_integers)
            and ends(after[0], value, value in at)
        ):
            open_.add(value)
        elif value in needed or value not in graph.results:
            taken[value] = None
            if value.op in SAME and given and given[0] in taken:
                alike[value] = given[0]
    return tuple(taken), alike


def ends(user: Value, value: Value, is_layer: bool) -> bool:
    """True for an operator that is computed with the one before it: what cuts off, and the bias of a layer."""
    if user.op in ("Relu", "Clip"):
        return True
    others = [v for v in user.inputs if v is not None and v is not value]
    return is_layer and user.op == "Add" and bool(others) and all(v.blob is not None for v in others)
