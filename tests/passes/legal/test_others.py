"""The quirks of other runtimes: each row is met and mended, or refused with its reason, without the runtimes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from irkit.build import call, const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.doors.to_onnx import to_onnx
from irkit.errors import EvaluateError, RewriteError
from irkit.evaluation.interpreter import evaluate
from passes import prepare
from passes.legal.others.narrow import narrow_note
from passes.legal.others.quirks import OTHERS, other_of, refusal
from passes.targets import NAMES, target_of
from passes.targets.measured import MEASURED, OPENVINO, REFERENCE, TRACT, measured_version

RNG = np.random.default_rng(0)
ROWS = [(provider, row) for provider, rows in OTHERS.items() for row in rows]
NAMED = {target.provider: name for name, target in NAMES.items()}


def gathered(*index_shape: int | str, size: int = 70) -> Graph:
    """A lookup along the last axis, counted from the end."""
    x, i = param(tensor("f32", 3, size)), op.Mod(found := param(tensor("i64", *index_shape)), np.int64(size))
    return Graph((x, found), (op.GatherElements(x, i, axis=-1),))


def lookup_far() -> Graph:
    """A lookup of as many places as there are."""
    x, i = param(tensor("f32", 3, 70)), param(tensor("i64", 3, 70))
    return Graph((x, i), (op.GatherElements(x, i, axis=1),))


def split_by_numbers() -> Graph:
    """A Split into parts whose sizes are computed."""
    x, sizes = param(tensor("f32", 6, 2)), param(tensor("i64", 2))
    return Graph((x, sizes), tuple(op.Split(x, sizes, axis=0, outputs=2)))


def attending() -> Graph:
    """An attention with a mask of booleans, of which one row is hidden whole."""
    q, k, v = (param(tensor("f32", 2, 2, 3, 4)) for _ in range(3))
    mask = param(tensor("bool", 3, 3))
    return Graph((q, k, v, mask), (op.Attention(q, k, v, mask),))


def normalized() -> Graph:
    """A normalization by statistics that are inputs."""
    x, *given = param(tensor("f32", 2, 3, 4)), *(param(tensor("f32", 3)) for _ in range(3)), param(tensor("f32", 3))
    return Graph((x, *given), (op.BatchNormalization(x, given[0], given[1], given[2], op.Abs(given[3])),))


def of(made: Value, *params: Value) -> Graph:
    """A graph of one result."""
    return Graph(params, (made,))


def arrays(graph: Graph) -> list[np.ndarray]:
    """What to feed a graph."""
    found: list[np.ndarray] = []
    for value in graph.params:
        shape = [d if isinstance(d, int) else 2 for d in value.shape]
        if value.dtype is DType.INT64:
            found.append(np.array([4, 2]) if shape == [2] else RNG.integers(-70, 70, shape))
        elif value.dtype is DType.BOOL:
            found.append(np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool))
        elif value.dtype.is_integer:
            least = 0 if value.dtype.is_unsigned else -128
            found.append(RNG.integers(least, least + 256, shape).astype(value.dtype.numpy))
        else:
            found.append(RNG.normal(size=shape).astype(value.dtype.numpy))
    return found


def of_infinities() -> Graph:
    """The greatest and the least numbers of rows of NaN, of infinities, and of both beside numbers."""
    x, inf, nan = param(tensor("f32", 4, 3)), np.inf, np.nan
    rows = const(np.array([[nan, 0, 0], [-inf, -inf, -inf], [inf, inf, inf], [inf, -inf, 0]], np.float32))
    shifted = op.Add(x, rows)
    return Graph((x,), (op.ReduceMax(shifted, np.array([1])), op.ReduceMin(shifted, np.array([1]), keepdims=0)))


def by_numbers_of_data() -> Graph:
    """A Slice and an Expand of which a tensor says the places and the sizes: 4 and 2, in the calls here."""
    x, places = param(tensor("f32", 6, 1)), param(tensor("i64", 2))
    count, begin = (op.Gather(places, np.array([at])) for at in range(2))
    sliced = op.Slice(x, op.Neg(count), op.Add(count, begin), np.array([0]))
    return Graph((x, places), (sliced, op.Expand(op.Gather(x, np.array([0])), op.Concat(begin, count, axis=0))))


def layer(kind: str, lengths: bool = False, states: bool = True, peepholes: bool = False, **given: str) -> Graph:
    """A recurrent layer of three times, two samples and two states."""
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1 + (given.get("direction") == "bidirectional")
    x = param(tensor("f32", 3, 2, 3))
    numbers = [const(RNG.normal(size=(ways, *s)).astype(np.float32)) for s in ((gates * 2, 3), (gates * 2, 2))]
    ends = const(np.array([3, 2], np.int32)) if lengths else None
    begin = const(RNG.normal(size=(ways, 2, 2)).astype(np.float32)) if states else None
    holes = const(RNG.normal(size=(ways, 6)).astype(np.float32)) if peepholes else None
    more = [begin, holes] if kind == "LSTM" else []
    bias = const(RNG.normal(size=(ways, 4 * gates)).astype(np.float32))
    made = call(
        kind, [x, *numbers, bias, ends, begin, *more], {"hidden_size": 2, **given}, outputs=1 + len(more[:1]) + 1
    )
    return Graph((x,), tuple(made))


def sums_from_the_end() -> Graph:
    """Running sums of rows from the last one on, whose results are told from the first one on."""
    x = param(tensor("f32", "n", 4))
    total, rows = op.Scan(
        np.zeros(4, np.float32),
        x,
        num_scan_inputs=1,
        body=lambda s, row: (op.Add(s, row), op.Mul(s, row)),
        scan_input_directions=[1],
        scan_output_directions=[0],
    )
    return Graph((x,), (total, rows))


def halved() -> Graph:
    """Every other number from 0 down to less than a size that is halved."""
    x = param(tensor("f32", "n", 2))
    half = op.Mul(op.Div(op.Squeeze(op.Shape(x, start=0, end=1)), np.int64(2)), np.int64(-2))
    return Graph((x,), (op.Range(np.int64(0), half, np.int64(-2)),))


def layers(*kinds: str, **given: Any) -> list[Graph]:
    """Recurrent layers of some kinds."""
    return [layer(kind, **given) for kind in kinds]


def image(shape: tuple[int, ...]) -> Value:
    """An image."""
    return param(tensor("f32", *shape))


def seen_around() -> list[Graph]:
    """Scans whose steps see tensors from around them: of states and rows, of rows alone, of a sequence as it is."""
    x, s, c = param(tensor("f32", "n", 4)), param(tensor("f32", 4)), param(tensor("f32", 4))
    total, rows = op.Scan(
        s, x, num_scan_inputs=1, body=lambda a, row: (op.Add(a, op.Mul(row, c)), op.Sub(a, op.Add(c, s)))
    )
    (alone,) = op.Scan(x, num_scan_inputs=1, body=lambda row: op.Mul(row, op.Gather(x, np.int64(0))))
    return [Graph((x, s, c), (total, rows)), Graph((x,), (alone,))]


def sizes_as_data() -> list[Graph]:
    """Operators on integers that are cast from bools, and on sizes."""
    mask, x = param(tensor("bool", 3, 3)), param(tensor("f32", "n", 3))
    cast, size = op.Cast(mask, to=DType.INT64), op.Gather(op.Shape(x), np.array([0]))
    sizes = op.Expand(size, np.array([3]))
    places, minus = const(np.array([2, 0, 0])), op.Sub(op.Add(cast, cast), np.int64(1))
    made = [
        op.CumSum(cast, np.int64(1)),
        op.CumSum(op.Where(mask, minus, np.int64(5)), np.int64(0)),
        op.ArgMax(minus, axis=1),
        op.ArgMin(cast, axis=0, keepdims=0),
        op.Sign(minus),
        op.NonZero(cast),
        op.Pad(cast, np.array([0, 1, 2, 0]), np.int64(7)),
        op.BitwiseAnd(cast, minus),
        op.BitwiseNot(cast),
        *op.TopK(minus, np.array([2])),
    ]
    scattered = [
        op.ScatterElements(sizes, places, op.Range(np.int64(0), np.int64(3), np.int64(1)), reduction="min"),
        op.ScatterND(sizes, op.Unsqueeze(places, np.array([1])), sizes, reduction="add"),
    ]
    return [*(of(each, mask) for each in made), *(of(each, x) for each in scattered)]


def masked_places(small: bool = True) -> list[Graph]:
    """Lookups and writes at places, 0 and 1 if they are small, that are masked so that none counts from the end."""
    x, data = param(tensor("f32", 6, 4)), param(tensor("f32", 2, 1))
    places = op.Cast(op.Min(op.Abs(data), np.float32(1)) if small else data, to=DType.INT64)
    masked = op.BitwiseAnd(places, np.int64(np.iinfo(np.int64).max))
    both, none = op.Concat(masked, op.Add(masked, masked), axis=1), np.zeros((2, 1), np.float32)
    made = [
        op.Gather(x, op.Reshape(masked, np.array([2])), axis=0),
        op.GatherElements(x, masked, axis=0),
        op.GatherND(x, both),
        op.ScatterElements(x, masked, none, axis=0),
        op.ScatterND(x, both, none[:, 0]),
    ]
    return [of(each, x, data) for each in made]


def squeezed() -> Graph:
    """One number, squeezed along an axis that data say: 0."""
    x, places = param(tensor("f32", 4)), param(tensor("i64", 2))
    axis = op.Sub(op.Gather(places, np.array([0])), np.int64(4))
    return of(op.Squeeze(op.ReduceSum(x), axis), x, places)


def shaped(*directions: str, **activations: list[str]) -> list[Graph]:
    """Recurrent layers of other activations than the usual ones."""
    ways = {way: 1 + (way == "bidirectional") for way in directions}
    return [
        layer(kind, direction=way, activations=names * many)  # type: ignore[arg-type]
        for kind, names in activations.items()
        for way, many in ways.items()
    ]


def in_halves() -> list[Graph]:
    """Sums of int64 whose upper and lower 32 bits are added apart, which ONNX Runtime needs."""
    x, whole = param(tensor("i64", 3, 4)), np.int64(2**32)
    low = op.BitwiseAnd(x, np.int64(2**32 - 1))
    high = op.Div(op.Sub(x, low), whole)
    ways = ([[0], 0], [[1], 1])
    return [
        of(op.Add(op.Mul(op.ReduceSum(high, axes, keepdims=k), whole), op.ReduceSum(low, axes, keepdims=k)), x)
        for axes, k in ways
    ]


def of_bytes() -> list[Graph]:
    """Quotients that are no whole numbers, and what leaves a byte."""
    found = list[Graph]()
    for kind in ("i8", "u8"):
        x, y = param(tensor(kind, 3, 4)), param(tensor(kind, 4))
        divisor = op.Max(op.BitwiseOr(y, const(np.ones((), x.dtype.numpy))), const(np.full((), 2, x.dtype.numpy)))
        wide = op.Mul(x, const(np.full((), 77, x.dtype.numpy)))
        found += [of(op.Div(x, divisor), x, y), of(op.Add(wide, y), x, y), of(op.Sub(y, wide), x, y)]
    signed, places = param(tensor("i8", 5)), param(tensor("u8", 5))
    shifted = op.BitShift(op.Add(places, const(np.uint8(99))), const(np.full(5, 3, np.uint8)), direction="LEFT")
    return [*found, of(op.Neg(signed), signed), of(op.Abs(signed), signed), of(shifted, places)]


def remainders() -> list[Graph]:
    """Remainders of numbers of both signs, cast to int64."""
    x, y = param(tensor("i32", 3, 4)), param(tensor("i64", 4))
    divisor = op.Where(op.Less(y, np.int64(0)), np.int64(-3), np.int64(5))
    return [
        of(op.Mod(op.Cast(x, to=DType.INT64), np.int64(3)), x),
        of(op.Mod(op.Cast(x, to=DType.INT64), divisor), x, y),
    ]


class Hashed(torch.nn.Module):
    """Places in a table by a product that 64 bits hold."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 3_000_000_019) % 1000


def times(v: Value, factor: float) -> Value:
    """A multiple of a tensor: by 262147 odd integers beyond 2^24 come of those that tests feed."""
    return op.Mul(v, const(np.array(factor, v.dtype.numpy)))


def large_integers() -> dict[str, list[Graph]]:
    """What is computed of integers between 2^24 and 2^31, by the row that it is about."""
    found: dict[str, list[Graph]] = {}

    def add(name: str, *made: Value) -> None:
        found.setdefault(name, []).extend(of(each, x, y) for each in made)

    for kind in ("i32", "i64"):
        x, y = param(tensor(kind, 3, 4)), param(tensor(kind, 3, 4))
        big, other = times(x, 262147), times(y, 393241)
        zero, odd = const(np.zeros((), x.dtype.numpy)), const(np.array(2**24 + 3, x.dtype.numpy))
        divisor = op.Sub(op.Mul(y, const(np.array(2, x.dtype.numpy))), const(np.array(5, x.dtype.numpy)))
        near = op.Add(big, op.Sign(y))
        for one, two in ((big, near), (near, big)):
            compared = (op.Equal, op.Less, op.Greater, op.LessOrEqual, op.GreaterOrEqual)
            add("large_compared", *(each(one, two) for each in compared))
        add("large_clipped", op.Clip(big, op.Neg(odd), odd), op.Relu(big))
        add("large_between", op.Max(op.Min(big, odd), op.Neg(odd)), op.Min(op.Max(big, op.Neg(odd)), odd))
        chosen = op.Where(op.Less(y, zero), big, other)
        add("large_chosen", times(chosen, 3), op.Add(chosen, op.Where(op.Less(x, zero), x, big)))
        huge = times(x, 2**24 + 3)
        add("large_divided", op.Div(huge, divisor), op.Div(huge, const(np.array(-7, x.dtype.numpy))), op.Div(huge, big))
        add("large_remainder", op.Mod(big, divisor), op.Mod(big, divisor, fmod=1), op.Mod(big, op.Neg(odd)))
        cast, seven = op.Cast(huge, to=DType.INT64), const(np.int64(7))
        add("large_divided", op.Div(op.Sub(cast, op.Mod(cast, seven)), seven))  # cut off downwards, as torch does
        add("large_compared", op.Less(op.Clip(big, op.Neg(odd), odd), op.Clip(near, op.Neg(odd), odd)))
        for axes in ([0], [-1], [0, 1]):
            along = np.array(axes)
            add("large_extremes", op.ReduceMax(big, along), op.ReduceMin(big, along, keepdims=0))
            add("large_sums", op.ReduceSum(big, along), op.ReduceSum(big, along, keepdims=0))
            add("sums_of_other_integers", op.ReduceL1(big, along), op.ReduceSumSquare(times(x, 77), along, keepdims=0))
            add("mean_in_floats", op.ReduceMean(big, along), op.ReduceMean(big, along, keepdims=0))
        turned = op.Transpose(y)
        add("product_in_floats", op.MatMul(big, turned), op.MatMul(op.Unsqueeze(big, np.array([0])), turned))
        add("product_and_sum_in_floats", op.Gemm(big, y, op.MatMul(x, turned), transB=1))
        powers = [op.Pow(x, const(np.array(n, y.dtype.numpy))) for n in (0, 1, 3, 4)]
        base, exponent = op.Mod(x, const(np.array(9, x.dtype.numpy))), op.Mod(y, const(np.array(9, x.dtype.numpy)))
        add("power_in_floats", *powers, op.Pow(base, exponent))
    return found


def of_unsigned() -> dict[str, list[Graph]]:
    """What is computed of uint32 beyond 2^24, and beyond 2^31, and of bytes many of which are multiplied."""
    u, rows, places = param(tensor("u32", 3, 4)), param(tensor("u8", 4, 600)), param(tensor("u8", 1, 64, 6, 6))
    weights = np.full((600, 3), 255, np.uint8), np.full((2, 64, 3, 3), 255, np.uint8)
    weights[0][::7, 1] = 254
    weights[1][1, ::5] = 254
    most = times(u, 16843009)
    bits = op.BitShift(times(u, 262147), const(np.uint32(1)), direction="RIGHT")
    return {
        "large_shifted": [of(bits, u), of(op.BitShift(times(u, 262147), const(np.uint32(17)), direction="RIGHT"), u)],
        "size_of_unsigned": [of(op.Abs(most), u), of(op.Sign(most), u)],
        "products_of_bytes": [of(op.MatMulInteger(rows, const(weights[0])), rows)],
        "convolution_of_bytes": [of(op.ConvInteger(places, const(weights[1])), places)],
    }


def sums_of_64_bits() -> dict[str, list[Graph]]:
    """Sums of int64 that 32 bits do not hold, and of squares."""
    x, n = param(tensor("i64", "n", 4)), param(tensor("i32", "n", 4))
    y = param(tensor("i64", "n", 4))
    big, squared = op.Add(times(x, 2**40 + 1), y), times(n, 12345)
    ways: list[tuple[list[int], int]] = [([0], 1), ([-1], 0), ([0, 1], 0)]
    sums = [op.ReduceSum(big, np.array(axes), keepdims=k) for axes, k in ways]
    return {
        "sums_of_64_bits": [of(each, x, y) for each in sums],
        "mean_of_64_bits": [of(op.ReduceMean(big, np.array([-1]), keepdims=k), x, y) for k in (0, 1)],
        "size_of_integers_added": [of(op.ReduceL1(big, np.array(axes), keepdims=k), x, y) for axes, k in ways],
        "squares_of_integers_added": [
            *(of(op.ReduceSumSquare(squared, np.array(axes), keepdims=k), n) for axes, k in ways),
            of(op.ReduceSumSquare(x, np.array([1])), x),
        ],
    }


def exponentials(kind: str = "f32") -> dict[str, list[Graph]]:
    """Logarithms of sums of exponentials that overflow, or are all 0."""
    x = param(tensor(kind, 3, 4))
    far = op.Add(times(x, 300), const(np.array([[9e3], [-9e3], [0]], x.dtype.numpy)))
    nothing = op.Sub(x, const(np.array([[np.inf], [0], [0]], x.dtype.numpy)))
    sums = [of(op.ReduceLogSumExp(far, np.array([1]), keepdims=k), x) for k in (0, 1)]
    return {
        "logarithm": [of(op.LogSoftmax(far, axis=axis), x) for axis in (0, 1)],
        "sum": [*sums, of(op.ReduceLogSumExp(far), x)],
        "nothing": [of(op.ReduceLogSumExp(nothing, np.array([1])), x)],
        "softplus": [of(op.Softplus(far), x)],
        "loss": [of(op.SoftmaxCrossEntropyLoss(far, const(np.array([1, 0, 3])), outputs=1), x)],
    }


SQUARE, PLACES = param(tensor("f32", 70, 70)), param(tensor("i64", 5, 2))
COUNTS = param(tensor("i64", 2))
ADDED = param(tensor("f32", 5))
X, IMAGE = param(tensor("f32", 3, 4)), image((1, 1, 4, 4))
GRAPHS = {
    "gather_of_part": [gathered(2, 5), gathered("n", 5)],
    "far_lookups": [lookup_far()],
    "lookups_of_part": [gathered(2, 5, size=9), gathered(3, 5, size=9), gathered(3, "m", size=9)],
    "expanded_scalar": [of(op.Expand(scalar := param(tensor("f32")), np.zeros(0, np.int64)), scalar)],
    "wrapped": [of(op.Pad(X, np.array([1, 0, 2, 3]), mode="wrap"), X)],
    "wrapped_there": [of(op.Pad(X, np.array([1, 0, 2, 3]), mode="wrap"), X)],
    "less_than_nothing": [of(op.Pad(X, np.array([-1, 2, 1, -2])), X), of(op.Pad(X, np.array([-1, 0, 0, -2])), X)],
    "part_of_nothing": [of(op.Pad(X, np.array([1, -2, -1, 0]), np.float32(2)), X)],
    "counting_down": [halved()],
    "saturated_bytes": of_bytes(),
    "remainder_of_casts": remainders(),
    "halves_of_int64": in_halves(),
    "halves_of_sizes": in_halves(),
    "computed_padding": [
        of(op.Pad(PLACES, np.array([2, 0]), op.Gather(COUNTS, np.int64(1)), np.array([-1])), PLACES, COUNTS)
    ],
    "scanned_backwards": [sums_from_the_end()],
    "peepholes": layers("LSTM", peepholes=True, direction="bidirectional"),
    "varying_lengths": layers("LSTM", "GRU", "RNN", lengths=True),
    "all_times": layers("LSTM", "GRU", "RNN", lengths=True, direction="bidirectional"),
    "backwards": layers("LSTM", "GRU", "RNN", direction="reverse"),
    "states_left_out": layers("LSTM", "GRU", "RNN", states=False),
    "ignored_classes": [
        of(op.NegativeLogLikelihoodLoss(X, const(np.array([1, 0, 3])), reduction="sum", ignore_index=0), X)
    ],
    "begun_windows": [
        of(op.AveragePool(IMAGE, kernel_shape=[3, 2], strides=[3, 2], pads=[0, 1, 0, 0], ceil_mode=1), IMAGE)
    ],
    "computed_split": [split_by_numbers()],
    "attention_with_masks": [attending()],
    "zeros_of_shape": [of(op.ConstantOfShape(op.Shape(sized := param(tensor("f32", 2, "n")))), sized)],
    "computed_statistics": [normalized()],
    "product_of_integers": [
        of(op.MatMul(PLACES, op.Transpose(PLACES)), PLACES),
        of(op.MatMul(op.Unsqueeze(PLACES, np.array([0])), COUNTS), PLACES, COUNTS),
        of(op.MatMul(COUNTS, op.Transpose(PLACES)), COUNTS, PLACES),
        of(op.MatMul(COUNTS, COUNTS), COUNTS),
    ],
    "square_of_integers": [
        of(op.Mul(COUNTS, COUNTS), COUNTS),
        of(op.Pow(COUNTS, np.int64(2)), COUNTS),
        of(op.Mul(wide := times(narrow := param(tensor("i32", 3, 4)), 4099), wide), narrow),
    ],
    **large_integers(),
    **of_unsigned(),
    **sums_of_64_bits(),
    "logarithm_of_softmax": [*exponentials()["logarithm"], *exponentials("f64")["logarithm"]],
    "sum_that_overflows": [*exponentials()["sum"], *exponentials()["nothing"]],
    "softplus_that_overflows": exponentials()["softplus"],
    "logarithm_there": exponentials()["logarithm"],
    "loss_there": exponentials()["loss"],
    "sum_of_nothing": exponentials()["nothing"],
    "sizes_as_data": sizes_as_data(),
    "squeezed_axis": [squeezed()],
    "seen_by_steps": seen_around(),
    "activations_beyond": shaped(
        "forward", "bidirectional", RNN=["Elu"], GRU=["HardSigmoid", "Tanh"], LSTM=["Sigmoid", "Softsign", "Tanh"]
    ),
    "usual_activations": shaped("forward", RNN=["Relu"], GRU=["Tanh", "Tanh"], LSTM=["Sigmoid", "Tanh", "Relu"]),
    "given_activations": shaped(
        "forward", "bidirectional", RNN=["Relu"], GRU=["Sigmoid", "Relu"], LSTM=["HardSigmoid", "Tanh", "LeakyRelu"]
    ),
    "vector_of_padding": [of(op.Pad(X, np.array([1, 0, 0, 2]), const(np.ones(1, np.float32))), X)],
    "places_from_the_end": [
        of(op.GatherND(SQUARE, PLACES), SQUARE, PLACES),
        of(op.ScatterND(SQUARE, PLACES, ADDED), SQUARE, PLACES, ADDED),
    ],
    "masked_places": masked_places(),
    "least_of_nothing": [of_infinities()],
    "computed_slice": [by_numbers_of_data()],
    "computed_repetition": [by_numbers_of_data()],
    "grouped_transposed_convolution": [
        of(
            op.ConvTranspose(
                channels := image((2, 4, 5)),
                const(RNG.normal(size=(4, 3, 2)).astype(np.float32)),
                const(RNG.normal(size=6).astype(np.float32)),
                group=2,
            ),
            channels,
        )
    ],
}
REFUSED = {
    "places_by_columns": of(op.MaxPool(IMAGE, kernel_shape=[2, 2], storage_order=1, outputs=2)[1], IMAGE),
    "images_of_three_axes": of(
        op.GridSample(volume := image((1, 1, 2, 2, 2)), grid := image((1, 1, 1, 1, 3))), volume, grid
    ),
    "cubic_inside": of(
        op.Resize(IMAGE, None, const(np.array([1, 1, 2, 2], np.float32)), mode="cubic", exclude_outside=1), IMAGE
    ),
}


@pytest.mark.parametrize("target", ["openvino", "tract", "onnx-reference", "onnx"])
def test_a_sum_of_exponentials_does_not_overflow(target: str) -> None:
    """ONNX's definition of it, which takes the exponentials as they are, was once written for OpenVINO's float64."""
    for graph in exponentials("f64")["sum"]:
        written = prepare(graph, target)
        fed = arrays(graph)
        ((expected,), (found,)) = evaluate(graph, fed), evaluate(written, fed)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_integers_that_openvino_has_no_bits_for_are_named() -> None:
    ids, x = param(tensor("i64", "b", "n")), param(tensor("f32", "b", "n"))
    small = Graph((x,), (op.Cast(op.Greater(x, np.float32(0)), to=DType.INT64), op.Shape(x)))
    assert narrow_note(small, OPENVINO) == "" == narrow_note(Graph((ids,), (op.Neg(ids),)), TRACT)
    found = narrow_note(Graph((ids,), (op.Mul(ids, np.int64(2**40)),)), OPENVINO)
    assert found.startswith("OpenVINO computes integers of 64 bits in 32") and "a constant of Mul" in found
    cast = narrow_note(Graph((x,), (op.Cast(x, to=DType.INT64),)), OPENVINO)
    assert "numbers beyond 2^31 are others there, in what " in cast and "Cast" in cast
    hashed = to_onnx(Hashed(), (torch.ones(2, 3, dtype=torch.int64),), target="openvino")
    assert any("in the input x, a constant of Mul" in note for note in hashed.report.notes)


def test_integers_that_are_small_or_places_are_left_as_they_are() -> None:
    """Comparisons of positions, of ids with a number, and counts of masks, which models have by the hundred."""
    ids, x = param(tensor("i64", "b", "n")), param(tensor("f32", "b", "n"))
    length = op.Squeeze(op.Shape(x, start=1, end=2), np.array([0]))
    row = op.Range(np.int64(0), length, np.int64(1))
    causal = op.LessOrEqual(op.Unsqueeze(row, np.array([0])), op.Unsqueeze(op.Add(row, length), np.array([1])))
    padded = op.Equal(ids, np.int64(50256))
    count = op.ReduceSum(op.Cast(padded, to=DType.INT64), np.array([1]))
    half = op.Div(op.Sub(length, np.int64(1)), np.int64(2))
    graph = Graph((ids, x), (causal, padded, count, half))
    written = prepare(graph, "openvino")
    assert [v.op for v in written.order if v.op in ("Equal", "LessOrEqual", "ReduceSum", "Div", "CumSum", "Max")] == [
        v.op for v in prepare(graph, "onnx").order if v.op in ("Equal", "LessOrEqual", "ReduceSum", "Div")
    ]


def test_each_row_has_an_example() -> None:
    assert {row.quirk.name for _, row in ROWS} == {*GRAPHS, *REFUSED}
    assert len(ROWS) == len({row.quirk.name for _, row in ROWS})
    for provider, row in ROWS:
        assert row.quirk.reason and row.quirk.when and row.quirk.fix and row.quirk.condition is not None
        assert row.quirk.version == measured_version(provider), row.quirk.name
        assert bool(row.expansion) is (row.quirk.name in GRAPHS)


@pytest.mark.parametrize("name", GRAPHS)
def test_what_a_runtime_gets_wrong_is_written_otherwise(name: str) -> None:
    provider, row = next(pair for pair in ROWS if pair[1].quirk.name == name)
    for graph in GRAPHS[name]:
        met = [value for value in graph.order if value.op in row.quirk.ops and other_of(value, provider) is row]
        assert met and refusal(met[0], provider) == row.quirk.reason
        assert not refusal(met[0], ""), "ONNX's own rules have no quirks"
        legal = prepare(graph, NAMED[provider])
        assert not any(refusal(value, provider) for value in legal.order)
        fed = arrays(graph)
        for expected, found in zip(evaluate(graph, fed), evaluate(legal, fed), strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_what_nothing_stands_for_is_refused_with_its_reason(name: str) -> None:
    provider, row = next(pair for pair in ROWS if pair[1].quirk.name == name)
    with pytest.raises(RewriteError) as refused:
        prepare(REFUSED[name], NAMED[provider])
    assert row.quirk.reason in str(refused.value)


def test_integers_without_room_in_32_bits_are_refused_where_tract_computes_them_as_sizes() -> None:
    x, i = param(tensor("f32", 3)), param(tensor("i64", 3))
    for sizes in (op.Cast(x, to=DType.INT64), op.Add(i, op.Cast(op.Greater(x, 0.0), to=DType.INT64))):
        with pytest.raises(RewriteError, match="an element type of its own, which this operator does not take"):
            prepare(Graph((x, i), (op.CumSum(sizes, np.int64(0)),)), "tract")
    assert "Cast" not in [v.op for v in prepare(of(op.CumSum(i, np.int64(0)), i), "tract").order]


@pytest.mark.parametrize("many", (1, 2))
@pytest.mark.parametrize("inside", (True, False))
def test_integers_that_branches_compute_as_sizes_are_found(many: int, inside: bool) -> None:
    x, i, test = param(tensor("f32", 3)), param(tensor("i64", 3)), param(tensor("bool"))
    outside = op.Cast(x, to=DType.INT64)

    def then() -> Value | tuple[Value, ...]:
        sizes = op.Cast(x, to=DType.INT64) if inside else outside
        return (i, sizes) if many > 1 else sizes

    chosen = op.If(test, then_branch=then, else_branch=lambda: (i, i) if many > 1 else i)
    last = chosen[-1] if isinstance(chosen, tuple) else chosen
    with pytest.raises(RewriteError, match="an element type of its own, which this operator does not take"):
        prepare(Graph((x, i, test), (op.CumSum(last, np.int64(0)),)), "tract")


@pytest.mark.parametrize("place", range(5))
def test_masked_places_below_zero_are_refused_as_they_were(place: int) -> None:
    graph = masked_places(small=False)[place]
    legal = prepare(graph, "tract")
    assert "BitwiseAnd" not in {v.op for v in legal.order}
    x, right, wrong = np.ones((6, 4), np.float32), np.array([[1], [1]], np.float32), np.array([[1], [-1]], np.float32)
    for each in (graph, legal):
        assert evaluate(each, [x, right])
        with pytest.raises(EvaluateError):
            evaluate(each, [x, wrong])


def test_usual_activations_are_left_alone() -> None:
    names = {"RNN": ["Tanh"], "GRU": ["sigmoid", "tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
    for target in ("openvino", "tract", "onnx-reference"):
        for graph in shaped("forward", "bidirectional", **names):
            assert not {"Scan"} & {v.op for v in prepare(graph, target).order}
    (relu,) = shaped("forward", RNN=["Relu"])
    assert "RNN" in [v.op for v in prepare(relu, "openvino").order]


def test_an_activation_that_onnx_does_not_have_is_refused() -> None:
    (graph,) = shaped("forward", RNN=["Gelu"])
    with pytest.raises(RewriteError, match="no word of activations"):
        prepare(graph, "tract")


def test_uses_that_are_right_are_left_alone() -> None:
    x, i = param(tensor("f32", 3, 8)), param(tensor("i64", 3, 2))
    graph = of(op.GatherElements(x, i, axis=1), x, i)
    for name in ("openvino", "onnx-reference"):
        assert [v.op for v in prepare(graph, name).order if v.inputs] == ["GatherElements"]
    constant = Graph((x,), tuple(op.Split(x, np.array([3, 5]), axis=1, outputs=2)))
    assert "Split" in [v.op for v in prepare(constant, "tract").order]


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "i64"])
def test_extremes_of_each_element_type_are_written_for_tract(dtype: str) -> None:
    x = param(tensor(dtype, 2, 3))
    legal = prepare(of(op.ReduceMax(x, np.array([-1])), x), "tract")
    assert ("IsNaN" in [v.op for v in legal.order]) is (dtype != "i64")
    numbers = np.array([[1, 3, 2], [-5, -7, -6]]).astype(x.dtype.numpy)
    (found,) = evaluate(legal, [numbers])
    assert np.asarray(found).astype(np.float64).tolist() == [[3], [-5]]


def test_an_element_type_that_tract_does_not_have_is_refused_in_these_words() -> None:
    x = param(tensor("bf16", 2, 3))
    with pytest.raises(RewriteError, match=r"tract has no kernel of Cast for \(bf16, f32\)"):
        prepare(of(op.ReduceMax(x, np.array([-1])), x), "tract")


def test_targets_say_what_runs_there() -> None:
    assert {OPENVINO, TRACT, REFERENCE} == {*MEASURED} == {*OTHERS}
    for name in ("openvino", "tract", "onnx-reference", "onnxruntime-web"):
        target = target_of(name)
        x = param(tensor("f32", 2, "n"))
        assert not target.problem(op.Add(x, x)) and not target.problem(op.MatMul(x, op.Transpose(x)))
        assert target.is_onnxruntime is (name == "onnxruntime-web")
        assert str(target).endswith(target.provider)
    doubles = param(tensor("f64", 2, 3))
    assert "OpenVINO has no kernel of Sin for (f64" in target_of("openvino").problem(op.Sin(doubles))
    with pytest.raises(RewriteError, match="there is no target"):
        target_of("tensorrt")
