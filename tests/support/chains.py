"""Random chains of operators that move elements, compute places and change element types, with what to feed them.

They are what ONNX Runtime's optimizer rewrites: Gather by a Range, Slices of Slices, Casts of Casts, Reshapes by
computed sizes, Transposes past whatever they meet, sums with zeros. Axes are counted from either end, sizes are 0 and 1
as well, limits lie far outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Graph, Port, Signature, Value, param
from irkit.core.types import DType, Tensor
from irkit.errors import IrkitError

Rng = np.random.Generator

FLOATS = (DType.FLOAT, DType.FLOAT, DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16)
INTEGERS = (DType.INT64, DType.INT64, DType.INT32, DType.UINT8, DType.INT8)
KINDS = (*FLOATS, *INTEGERS, DType.BOOL)
SIZES = (0, 1, 1, 2, 3, 4, 5)
LIMITS = (0, 1, 2, -1, -2, -3, 3, 7, -7, 2**31 - 1, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63))
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.5, 100.0, 1e-3, 7.0, 255.0, -128.0)


def pick(rng: Rng, options: Sequence[Any]) -> Any:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def axis(rng: Rng, x: Value, more: int = 0) -> int:
    """An axis of a value, counted from either end."""
    rank = x.rank + more
    return int(rng.integers(-rank, rank))


def number(rng: Rng, kind: DType) -> np.ndarray:
    """A number of an element type."""
    found = pick(rng, NUMBERS)
    found = abs(found) if kind.is_unsigned else found
    return np.array(min(found, 100.0) if kind.is_integer else found).astype(kind.numpy)


def ranked(values: Sequence[Value], rng: Rng, low: int, high: int = 9, kinds: Any = None) -> Value:
    """One of the values of such a rank and element type. Raises IndexError where there is none."""
    fitting = [v for v in values if low <= v.rank <= high and (kinds is None or v.dtype in kinds)]
    return fitting[max(int(rng.integers(len(fitting))), int(rng.integers(len(fitting))))]  # rather a late one


def size_of(x: Value, at: int) -> Value:
    """The size of an axis as a scalar."""
    at %= x.rank
    return op.Squeeze(op.Shape(x, start=at, end=at + 1), [0])


def places(x: Value, at: int, rng: Rng) -> Value:
    """Places along an axis, some of them out of a Range, counted from either end."""
    n = size_of(x, at)
    way = int(rng.integers(12))
    if way == 0:
        return op.Range(op.Sub(n, 1), np.array(-1), np.array(-1))
    if way == 1:
        return op.Range(op.Neg(n), np.array(0), np.array(pick(rng, (1, 2))))
    if way == 2:
        return op.Range(np.array(pick(rng, (0, 1))), n, np.array(pick(rng, (1, 2, 3))))
    if way == 3:
        return op.Sub(op.Range(np.array(0), n, np.array(1)), n)
    if way == 4:
        return op.Sub(op.Sub(n, 1), op.Range(np.array(0), n, np.array(1)))
    if way == 5:
        return op.Range(np.array(-1), op.Sub(op.Neg(n), 1), np.array(-1))
    if way == 6:
        return op.Mod(op.Add(op.Range(np.array(0), n, np.array(1)), pick(rng, (1, 2, 5))), op.Max(n, np.array(1)))
    if way == 7:
        return op.Range(np.array(pick(rng, (-1, -2))), np.array(0), np.array(1))
    if way == 8:
        return const(rng.integers(-1, 1, size=pick(rng, ((), (1,), (2,), (0,), (2, 2)))))
    if way == 9:
        return op.Range(
            np.array(pick(rng, (0, 1, -1, 2))), np.array(pick(rng, (0, 1, -1, -2, 2))), np.array(pick(rng, (1, -1)))
        )
    if way == 10:
        return op.Cast(
            op.Range(np.array(0, np.int32), op.Cast(n, to=DType.INT32), np.array(1, np.int32)), to=DType.INT64
        )
    return op.Range(np.array(0), op.Div(n, np.array(2)), np.array(1))


def gathered(v: list[Value], rng: Rng) -> Value:
    """Elements at places."""
    x = ranked(v, rng, 1)
    at = axis(rng, x)
    where = places(x, at, rng)
    if x.rank == 1 and where.rank == 1 and rng.random() < 0.2:
        return op.GatherElements(x, where, axis=at)
    return op.Gather(x, where if rng.random() < 0.8 else op.Cast(where, to=DType.INT32), axis=at)


def sliced(v: list[Value], rng: Rng) -> Value:
    """Slices with any starts, ends and steps, over axes in any order."""
    x = ranked(v, rng, 1)
    count = int(rng.integers(1, x.rank + 1))
    axes = rng.permutation(x.rank)[:count]
    axes = [int(a) - x.rank * int(rng.integers(2)) for a in axes]
    steps = [pick(rng, (1, 1, 1, -1, 2, -2, 3, 2**31 - 1, 2**62, -(2**62))) for _ in axes]
    starts, ends = ([pick(rng, LIMITS) for _ in axes] for _ in range(2))
    if rng.random() < 0.2:
        n = op.Shape(x, start=0, end=1)
        known = (([0], op.Sub(n, 1)), (op.Neg(n), [2**62]), ([1], n), (op.Div(n, [2]), n))
        start, end = pick(rng, known)
        return op.Slice(x, start, end, [0])
    if rng.random() < 0.3:
        kind = np.int32
        near = [np.clip(np.array(each), -(2**31), 2**31 - 1).astype(kind) for each in (starts, ends, axes, steps)]
        return op.Slice(x, near[0], near[1], near[2], near[3])
    return op.Slice(x, starts, ends, axes, steps) if rng.random() < 0.8 else op.Slice(x, starts, ends, axes)


def padded(v: list[Value], rng: Rng) -> Value:
    """In every mode, over some axes or all, and less than nothing."""
    x = ranked(v, rng, 1)
    mode = pick(rng, ("constant", "constant", "edge", "reflect", "wrap"))
    low = -1 if mode == "constant" else 0
    if rng.random() < 0.4:
        pads = rng.integers(low, 3, 2)
        return op.Pad(x, pads, number(rng, x.dtype) if mode == "constant" else None, [axis(rng, x)], mode=mode)
    pads = rng.integers(low, 3, 2 * x.rank) * rng.integers(0, 2, 2 * x.rank)
    return op.Pad(x, pads, number(rng, x.dtype) if mode == "constant" and rng.random() < 0.5 else None, mode=mode)


def transposed(v: list[Value], rng: Rng) -> Value:
    """By a permutation."""
    x = ranked(v, rng, 0)
    return op.Transpose(x, perm=[int(i) for i in rng.permutation(x.rank)])


def reshaped(v: list[Value], rng: Rng) -> Value:
    """The same elements under other dimensions."""
    x = ranked(v, rng, 0)
    way = int(rng.integers(7))
    if way == 0:
        return op.Reshape(x, [-1])
    if way == 1 and x.rank:
        return op.Reshape(x, [0] * int(rng.integers(0, x.rank)) + [-1])
    if way == 2:
        return op.Unsqueeze(x, [axis(rng, x, 1)])
    if way == 3:
        return (
            op.Squeeze(op.Unsqueeze(x, [axis(rng, x, 1)]), [0]) if not x.rank or x.shape[0] != 1 else op.Squeeze(x, [0])
        )
    if way == 4:
        return op.Flatten(x, axis=axis(rng, x)) if x.rank else op.Flatten(x)
    if way == 5:
        return op.Reshape(x, op.Concat(op.Shape(x), const(np.array([1])), axis=0), allowzero=1)
    y = ranked(v, rng, 0)
    return op.Reshape(x, op.Shape(y), allowzero=1)


def expanded(v: list[Value], rng: Rng) -> Value:
    """Repeated."""
    x = ranked(v, rng, 0, 3)
    if rng.random() < 0.5:
        return op.Expand(x, op.Concat(const(np.array([pick(rng, (0, 1, 2))])), op.Shape(x), axis=0))
    if x.rank and rng.random() < 0.4:
        return op.Tile(x, rng.integers(0, 3, x.rank))
    return op.Expand(x, [pick(rng, (1, 2))] * int(rng.integers(0, 4)))


def joined(v: list[Value], rng: Rng) -> Value:
    """One to three tensors of one type."""
    x = ranked(v, rng, 1)
    same = [y for y in v if y.type == x.type]
    parts = [x, *(pick(rng, same) for _ in range(int(rng.integers(0, 3))))]
    return op.Concat(*parts, axis=axis(rng, x))


def split(v: list[Value], rng: Rng) -> Value:
    """A part of two."""
    x = ranked(v, rng, 1)
    at = axis(rng, x)
    n = op.Shape(x, start=at % x.rank, end=at % x.rank + 1)
    first = op.Min(n, const(np.array([pick(rng, (0, 1, 2))])))
    parts = op.Split(x, op.Concat(first, op.Sub(n, first), axis=0), axis=at, outputs=2)
    return pick(rng, parts)


def cast(v: list[Value], rng: Rng) -> Value:
    """In another element type; floats first within what all integers hold."""
    x = ranked(v, rng, 0)
    to = pick(rng, KINDS)
    if x.dtype.is_float and to.is_integer:
        x = op.Clip(
            op.Where(op.IsNaN(x), number(rng, x.dtype) * 0, x),
            np.zeros((), x.dtype.numpy),
            np.array(100, x.dtype.numpy),
        )
    return op.Cast(x, to=to)


def computed(v: list[Value], rng: Rng) -> Value:
    """With another value, or a number."""
    x = ranked(v, rng, 0)
    name = pick(rng, ("Add", "Sub", "Mul", "Div", "Min", "Max", "Pow", "Where", "Equal", "Less", "Mod"))
    if x.dtype is DType.BOOL:
        y = pick(rng, [y for y in v if y.dtype is DType.BOOL])
        return pick(
            rng,
            (
                lambda: op.Not(x),
                lambda: op.And(x, y),
                lambda: op.Or(x, y),
                lambda: op.Not(op.Not(x)),
                lambda: op.Where(x, y, x),
            ),
        )()
    same = [y for y in v if y.dtype is x.dtype]
    y: Any = pick(rng, same) if rng.random() < 0.5 else const(number(rng, x.dtype))
    if rng.random() < 0.4:
        plain = np.array(pick(rng, (0, 1, 2)), x.dtype.numpy)
        y = const(plain if rng.random() < 0.6 else plain.reshape((1,) * int(rng.integers(0, 4))))
    if name in ("Div", "Mod") and x.dtype.is_integer:
        y = const(np.array(pick(rng, (1, 2, 3)), x.dtype.numpy))
    if name == "Where":
        return op.Where(op.Less(x, y), x, y)
    if name == "Mod" and x.dtype.is_float:
        return op.Mod(x, y, fmod=1)
    return getattr(op, name)(x, y) if rng.random() < 0.7 or name in ("Div", "Mod", "Pow") else getattr(op, name)(y, x)


ALONE = ("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Erf", "Gelu", "Floor", "Round", "Identity", "Sign", "Exp", "Sqrt",
         "IsNaN", "LeakyRelu", "HardSigmoid", "Elu", "Softplus", "Swish", "HardSwish", "Mish",
         "Reciprocal")  # fmt: skip


def alone(v: list[Value], rng: Rng) -> Value:
    """A function of each element."""
    x = ranked(v, rng, 0, kinds=FLOATS if rng.random() < 0.8 else None)
    if rng.random() < 0.25:
        low, high = sorted(number(rng, x.dtype).item() for _ in range(2)) if x.dtype is not DType.BFLOAT16 else (-1, 2)
        bounds = [np.array(b, x.dtype.numpy) if rng.random() < 0.8 else None for b in (low, high)]
        return op.Clip(x, *bounds)
    return getattr(op, pick(rng, ALONE))(x)


def reduced(v: list[Value], rng: Rng) -> Value:
    """Over some axes, counted from either end."""
    x = ranked(v, rng, 1)
    keep = int(rng.integers(2))
    if rng.random() < 0.25:
        return pick(rng, (op.ArgMax, op.ArgMin))(
            x, axis=axis(rng, x), keepdims=keep, select_last_index=int(rng.integers(2))
        )
    name = pick(
        rng,
        (
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceL2",
            "ReduceLogSumExp",
            "ReduceSumSquare",
            "ReduceL1",
        ),
    )
    axes = [int(a) - x.rank * int(rng.integers(2)) for a in rng.permutation(x.rank)[: int(rng.integers(0, x.rank + 1))]]
    return getattr(op, name)(x, np.array(axes, np.int64), keepdims=keep, noop_with_empty_axes=int(rng.integers(2)))


def along(v: list[Value], rng: Rng) -> Value:
    """What works along an axis."""
    x = ranked(v, rng, 1, kinds=FLOATS if rng.random() < 0.7 else None)
    at = axis(rng, x)
    way = int(rng.integers(9))
    if way == 0:
        return op.CumSum(x, np.array(at), exclusive=int(rng.integers(2)), reverse=int(rng.integers(2)))
    if way == 1:
        return op.Softmax(x, axis=at)
    if way == 2:
        return op.LogSoftmax(x, axis=at)
    if way == 3:
        n = op.Shape(x, start=at % x.rank, end=at % x.rank + 1)
        return op.TopK(x, op.Min(n, const(np.array([pick(rng, (0, 1, 2))]))), axis=at, largest=int(rng.integers(2)))[
            int(rng.integers(2))
        ]
    if way == 4:
        mean = op.ReduceMean(x, [-1])
        var = op.ReduceMean(op.Pow(op.Sub(x, mean), np.array(2, x.dtype.numpy)), [-1])
        return op.Div(op.Sub(x, mean), op.Sqrt(op.Add(var, np.array(1e-5, x.dtype.numpy))))
    if way == 5 and type(x.shape[-1]) is int:
        scale = const(rng.choice([0.5, 1.0, 2.0], x.shape[-1]).astype(x.dtype.numpy))
        return op.LayerNormalization(x, scale, axis=-1)
    if way == 6:
        return op.ScatterElements(
            x,
            op.Slice(op.Cast(op.Mul(x, np.array(0, x.dtype.numpy)), to=DType.INT64), [0], [1], [at]),
            op.Slice(x, [0], [1], [at]),
            axis=at,
        )
    if way == 7:
        return op.Trilu(op.Unsqueeze(x, [0]), np.array(pick(rng, (-1, 0, 1))), upper=int(rng.integers(2)))
    return op.Compress(x, op.Cast(op.Reshape(op.Shape(x), [-1]), to=DType.BOOL), axis=at)


def multiplied(v: list[Value], rng: Rng) -> Value:
    """Products of matrices, with what ONNX Runtime fuses with them."""
    x = ranked(v, rng, 2, 4, FLOATS[:4])
    way = int(rng.integers(5))
    if way == 0:
        turned = op.Transpose(x, perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])
        return op.MatMul(x, turned) if rng.random() < 0.5 else op.MatMul(turned, x)
    if type(x.shape[-1]) is not int:
        raise IndexError("no known width")
    weight = const(rng.choice([0.5, 1.0, -2.0], (x.shape[-1], 2)).astype(x.dtype.numpy))
    product = op.MatMul(x, weight)
    if way == 1:
        return op.Add(product, const(np.array([1.0, -1.0], x.dtype.numpy)))
    if way == 2:
        return op.Mul(product, const(number(rng, x.dtype)))
    return product


def imaged(v: list[Value], rng: Rng) -> Value:
    """Convolutions, pools, norms and sizes of images."""
    x = ranked(v, rng, 3, 4, FLOATS[:3])
    if x.dtype is not DType.FLOAT:
        raise IndexError("another element type")
    spatial = x.rank - 2
    way = int(rng.integers(6))
    if way == 0:
        scales = np.array([1.0, 1.0, *rng.choice([0.5, 1.0, 2.0, 1.5], spatial)], np.float32)
        mode = pick(rng, ("nearest", "linear", "nearest"))
        return op.Resize(
            x,
            None,
            scales,
            mode=mode,
            coordinate_transformation_mode=pick(
                rng, ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
            ),
        )
    if way == 1:
        return pick(rng, (op.MaxPool, op.AveragePool))(
            x, kernel_shape=[2] * spatial, pads=[pick(rng, (0, 1))] * (2 * spatial)
        )
    if way == 2:
        return pick(rng, (op.GlobalAveragePool, op.GlobalMaxPool))(x)
    if type(x.shape[1]) is not int or not x.shape[1]:
        raise IndexError("no known number of channels")
    c = x.shape[1]
    if way == 3:
        each = [const(rng.choice([0.5, 1.0, 2.0], c).astype(np.float32)) for _ in range(4)]
        return op.BatchNormalization(x, *each)
    bias = const(rng.choice([0.5, -1.0], 2).astype(np.float32)) if rng.random() < 0.5 else None
    weight = const(rng.choice([0.5, 1.0, -2.0], (2, c, *[pick(rng, (1, 2))] * spatial)).astype(np.float32))
    return op.Conv(x, weight, bias, pads=[pick(rng, (0, 1))] * (2 * spatial), strides=[pick(rng, (1, 2))] * spatial)


def sized(v: list[Value], rng: Rng) -> Value:
    """Sizes, and what is made of them."""
    x = ranked(v, rng, 0)
    way = int(rng.integers(6))
    if way == 0:
        return op.Shape(x)
    if way == 1:
        return op.Size(x)
    if way == 2:
        return op.ConstantOfShape(op.Shape(x), value=number(rng, pick(rng, FLOATS)).reshape(1))
    if way == 3 and x.rank:
        return op.Range(np.array(0), size_of(x, axis(rng, x)), np.array(1))
    if way == 4 and x.rank:
        return op.Shape(
            x, start=int(rng.integers(-x.rank - 1, x.rank + 1)), end=int(rng.integers(-x.rank - 1, x.rank + 1))
        )
    return op.NonZero(x)


LINKS: Sequence[Callable[[list[Value], Rng], Value]] = (
    gathered, gathered, gathered, sliced, sliced, padded, transposed, transposed, reshaped, reshaped, expanded, joined,
    split, cast, cast, computed, computed, alone, reduced, along, multiplied, imaged, sized,
)  # fmt: skip

FEED = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.5, 7.0, 100.0)
SPECIAL = (*FEED, np.nan, np.inf, -np.inf, 1e-40)


def chain(rng: Rng) -> tuple[Graph, list[list[Any]]]:
    """(graph, feeds): a random chain and arguments for it, at several sizes where some are symbols."""
    n, m = dims.symbol("n"), dims.symbol("m")
    params: list[Value] = []
    for _ in range(int(rng.integers(1, 3))):
        shape = tuple(
            pick(rng, (n, m, *SIZES)) if rng.random() < 0.6 else pick(rng, (n, 2, 3))
            for _ in range(int(rng.integers(1, 5)))
        )
        params.append(param(Tensor(pick(rng, KINDS), shape)))
    values = list(params)
    wanted, tries = int(rng.integers(1, 7)), 0
    while len(values) < len(params) + wanted and tries < 40:
        tries += 1
        try:
            made = pick(rng, LINKS)(values, rng)
        except (IrkitError, IndexError, ValueError, OverflowError):
            continue
        if isinstance(made.type, Tensor) and made.rank <= 6 and not is_large(made):
            values.append(made)
    results = [values[-1], *(pick(rng, values) for _ in range(int(rng.integers(0, 2))))]
    names = [
        [Port(f"{way}{i}", kind) for i in range(n)]
        for way, kind, n in (("x", "input", len(params)), ("y", "output", len(results)))
    ]
    ports = Signature(tuple(names[0]), tuple(names[1]))
    graph = Graph(tuple(params), tuple(results), signature=ports)
    numbers = SPECIAL if rng.random() < 0.3 else FEED
    feeds = []
    for a, b in ((3, 2), (int(pick(rng, SIZES)), int(pick(rng, SIZES))), (1, 4), (0, 1), (5, 1)):
        sizes = {"n": a, "m": b}
        feeds.append([data(p.type, sizes, rng, numbers) for p in params])
    return graph, feeds


def is_large(value: Value) -> bool:
    """True for a value of many elements."""
    return int(np.prod([d for d in value.shape if type(d) is int], dtype=np.float64)) > 10_000


def data(type_: Any, sizes: dict[str, int], rng: Rng, numbers: Sequence[float]) -> np.ndarray:
    """An array of a type."""
    shape = [dims.evaluate(d, sizes) for d in type_.shape]
    found = rng.choice(np.array(numbers), shape)
    if not type_.dtype.is_float:
        found = np.nan_to_num(np.clip(found, 0 if type_.dtype.is_unsigned else -100, 100), nan=1.0)
    return found.astype(type_.dtype.numpy)
