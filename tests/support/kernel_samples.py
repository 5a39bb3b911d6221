"""Random applications of single operators: what the differential tests of the kernels draw from.

Each function `sample_<Op>` takes a `Draw` and returns a `Sample`; `unary` and its like make such functions. Sizes reach
down to 0 and 1, ranks to 0, element types over all that ONNX Runtime has a kernel for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st

from irkit.core.types import DType
from tests.support.onnxruntime_node import dtypes

F32, I64 = DType.FLOAT, DType.INT64


@attrs.frozen(eq=False)
class Sample:
    """One application: arrays (None for an operand left out), attributes, and how many results are asked for."""

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = attrs.field(factory=dict)
    outputs: int | None = None
    rtol: float | None = None
    atol: float | None = None

    def __str__(self) -> str:
        shown = ["-" if x is None else f"{x.dtype}{list(x.shape)}" for x in self.inputs]
        return f"({', '.join(shown)}) {dict(self.attributes)}"


class Draw:
    """Choices made by Hypothesis; the contents of arrays come from one seed.

    `kinds` says which element types an operand may have, by default those that ONNX Runtime has a kernel for.
    """

    def __init__(self, draw: Any, kinds: Callable[[str, int], tuple[DType, ...]] = dtypes) -> None:
        self.draw = draw
        self.kinds = kinds
        self.rng = np.random.default_rng(draw(st.integers(0, 2**20)))

    def pick(self, choices: Sequence[Any]) -> Any:
        """One of the choices."""
        return self.draw(st.sampled_from(list(choices)))

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self.draw(st.integers(low, high))

    def flag(self) -> int:
        """0 or 1."""
        return self.number(0, 1)

    def shape(self, low: int = 0, high: int = 4, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """A shape whose rank is from `low` to `high`."""
        sizes = st.sampled_from([s for s in (2, 3, 1, 4, 0, 5) if least <= s <= most])
        return tuple(self.draw(st.lists(sizes, min_size=low, max_size=high)))

    def axis(self, rank: int) -> int:
        """An axis, counted from the front or from the back."""
        return self.number(-rank, rank - 1)

    def array(
        self, kind: Any, shape: Sequence[int], low: float = -4, high: float = 4, special: bool = False
    ) -> np.ndarray:
        """Numbers from low to high of an element type; `special` puts in zeros, infinities and NaN."""
        kind, shape = DType.of(kind), tuple(shape)
        if kind is DType.STRING:
            return self.rng.choice(np.array(["", "a", "b", "ab"], dtype=object), shape)
        if kind is DType.BOOL:
            return np.asarray(self.rng.random(shape) < 0.5)
        if kind.is_integer:
            low = max(low, 0) if kind.is_unsigned else low
            return np.asarray(self.rng.integers(int(low), int(high) + 1, shape)).astype(kind.numpy)
        found = np.asarray(self.rng.uniform(low, high, shape))
        if special and found.size:
            values = self.rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1e-30, 1e30], shape)
            found = np.where(self.rng.random(shape) < 0.3, values, found)
        with np.errstate(all="ignore"):
            return np.asarray(found.astype(kind.numpy))

    def dtype(self, op: str, operand: int = 0) -> DType:
        """An element type that the operand may have."""
        return self.pick(self.kinds(op, operand))

    def axes(self, rank: int) -> np.ndarray:
        """Some axes, none twice."""
        chosen = self.draw(st.lists(st.integers(0, max(rank - 1, 0)), unique=True, max_size=rank)) if rank else []
        return np.array([a - rank if self.rng.random() < 0.3 else a for a in chosen], dtype=np.int64)

    def broadcast(self, *kinds: DType, low: float = -4, high: float = 4, special: bool = False) -> list[np.ndarray]:
        """Arrays whose shapes broadcast together."""
        full = self.shape()
        found = []
        for kind in kinds:
            cut = self.number(0, len(full))
            shape = [1 if d and self.rng.random() < 0.3 else d for d in full[cut:]]
            found.append(self.array(kind, shape, low, high, special))
        return found


Maker = Callable[[Draw], Sample]


def unary(
    op: str, low: float = -4, high: float = 4, special: bool = True, **attributes: Callable[[Draw], Any]
) -> Maker:
    """One operand of any shape. Attributes are float32 in a file, so doubles that they enter agree to that."""

    def make(d: Draw) -> Sample:
        x = d.array(d.dtype(op), d.shape(), low, high, special)
        return Sample((x,), {k: v(d) for k, v in attributes.items()}, rtol=1e-6 if x.dtype == np.float64 else None)

    return make


def broadcasting(op: str, low: float = -4, high: float = 4, special: bool = True, count: int = 2) -> Maker:
    """Operands of one type that broadcast."""

    def make(d: Draw) -> Sample:
        return Sample(tuple(d.broadcast(*[d.dtype(op)] * count, low=low, high=high, special=special)))

    return make


def variadic(op: str) -> Maker:
    """One to four operands that broadcast."""

    def make(d: Draw) -> Sample:
        return Sample(tuple(d.broadcast(*[d.dtype(op)] * d.number(1, 4))))

    return make


def real(low: float, high: float) -> Callable[[Draw], float]:
    """An attribute between two numbers."""
    return lambda d: float(np.float32(d.rng.uniform(low, high)))


def along_axis(op: str) -> Maker:
    """One operand and an axis."""

    def make(d: Draw) -> Sample:
        x = d.array(d.dtype(op), d.shape(1, 4))
        return Sample((x,), {"axis": d.axis(x.ndim)})

    return make


def reduction(op: str, low: float = -3) -> Maker:
    """One operand, axes given, empty or left out. Logarithms of integers round as each likes, and are left out."""

    def make(d: Draw) -> Sample:
        kinds = [k for k in dtypes(op) if k.is_float or "Log" not in op]
        x = d.array(d.pick(kinds), d.shape(1, 4, least=1), low, 3)
        axes = d.axes(x.ndim)
        attributes = {"keepdims": d.flag()}
        if not len(axes):
            attributes["noop_with_empty_axes"] = 0
        return Sample((x, axes if len(axes) or d.flag() else None), attributes)

    return make


def search(op: str) -> Maker:
    """One operand, an axis and the way ties are settled."""

    def make(d: Draw) -> Sample:
        x = d.array(d.dtype(op), d.shape(1, 4, least=1), -2, 2)
        return Sample((x,), {"axis": d.axis(x.ndim), "keepdims": d.flag(), "select_last_index": d.flag()})

    return make


def running(op: str) -> Maker:
    """A running sum or product."""

    def make(d: Draw) -> Sample:
        x = d.array(d.dtype(op), d.shape(1, 4))
        axis = np.array(d.axis(x.ndim), dtype=np.int64)
        return Sample((x, axis), {"exclusive": d.flag(), "reverse": d.flag()})

    return make


# ---------------------------------------------------------------------------------------------- elementwise


def sample_Where(d: Draw) -> Sample:
    """Three operands that broadcast."""
    kind = d.dtype("Where", 1)
    return Sample(tuple(d.broadcast(DType.BOOL, kind, kind)))


def sample_Clip(d: Draw) -> Sample:
    """Both bounds, one, or none; crossed at times."""
    kind = d.dtype("Clip")
    x = d.array(kind, d.shape())
    low, high = (d.array(kind, ()) if d.flag() else None for _ in range(2))
    return Sample((x, low, high))


def sample_Mod(d: Draw) -> Sample:
    """Both signs; floats only with fmod."""
    kind = d.dtype("Mod")
    a, b = d.broadcast(kind, kind)
    b = np.where(b == 0, np.ones((), b.dtype), b)
    return Sample((a, b), {"fmod": 1 if kind.is_float else d.flag()})


def sample_Div(d: Draw) -> Sample:
    """Integers of both signs, no zero among their divisors."""
    kind = d.dtype("Div")
    a, b = d.broadcast(kind, kind, low=-100, high=100)
    return Sample((a, b if kind.is_float else np.where(b == 0, np.ones((), b.dtype), b)))


def sample_Pow(d: Draw) -> Sample:
    """Bases and exponents of all pairs of types; integer bases to powers that are not negative."""
    kind, power = d.dtype("Pow"), d.dtype("Pow", 1)
    a, b = d.broadcast(kind, power, low=-3, high=3)
    return Sample((np.abs(a) if power.is_float else a, b if kind.is_float else np.abs(b)))


def sample_BitShift(d: Draw) -> Sample:
    """Shifts below the width of the type."""
    kind = d.dtype("BitShift")
    x, by = d.broadcast(kind, kind, low=0, high=7)
    return Sample((x, by), {"direction": d.pick(["LEFT", "RIGHT"])})


def sample_IsInf(d: Draw) -> Sample:
    """Either sign, both, none."""
    x = d.array(d.dtype("IsInf"), d.shape(), special=True)
    return Sample((x,), {"detect_positive": d.flag(), "detect_negative": d.flag()})


def sample_PRelu(d: Draw) -> Sample:
    """A slope that broadcasts to x."""
    kind = d.dtype("PRelu")
    x = d.array(kind, d.shape(1, 4, least=1))
    slope = [s if d.flag() else 1 for s in x.shape[d.number(0, x.ndim) :]]
    return Sample((x, d.array(kind, slope)))


def sample_Cast(d: Draw) -> Sample:
    """From every type to every type, within the range of both."""
    source, to = d.dtype("Cast"), d.dtype("Cast")
    if DType.STRING in (source, to) or DType.FLOAT8E8M0 in (source, to):
        source, to = F32, DType.BFLOAT16
    special = source.is_float and to.is_float and to.bits >= 16
    low, high = (0, 1) if to.is_unsigned else (-4, 4)
    return Sample((d.array(source, d.shape(), low, high * 25, special),), {"to": int(to)})


def sample_CastFloat8(d: Draw) -> Sample:
    """To the float8 types, saturating and not, of numbers beyond their range."""
    to = d.pick([DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ])
    source = d.pick([F32, DType.FLOAT16, DType.BFLOAT16])
    x = d.array(source, d.shape(), -60000, 60000, special=True) * np.asarray(d.pick([1, 1e-3, 1e-5])).astype(
        source.numpy
    )
    return Sample((x.astype(source.numpy),), {"to": int(to), "saturate": d.flag()}, rtol=0, atol=0)


# ---------------------------------------------------------------------------------------------- movement


def sample_Reshape(d: Draw) -> Sample:
    """A permutation of the sizes, with 0 or -1 for one of them."""
    x = d.array(d.dtype("Reshape"), d.shape(1, 4, least=1))
    shape = [x.shape[i] for i in d.rng.permutation(x.ndim)]
    if d.flag():
        shape[d.number(0, len(shape) - 1)] = -1
    elif shape[0] == x.shape[0]:
        shape[0] = 0
    return Sample((x, np.array(shape, dtype=np.int64)))


def sample_Transpose(d: Draw) -> Sample:
    """Some permutation, or the reversal."""
    x = d.array(d.dtype("Transpose"), d.shape())
    perm = [int(p) for p in d.rng.permutation(x.ndim)]
    return Sample((x,), {"perm": perm} if x.ndim and d.flag() else {})


def sample_Squeeze(d: Draw) -> Sample:
    """Given axes or all."""
    x = d.array(d.dtype("Squeeze"), d.shape(0, 4))
    ones = [i for i, s in enumerate(x.shape) if s == 1]
    chosen = [i - x.ndim if d.flag() else i for i in ones if d.flag()]
    return Sample((x, np.array(chosen, np.int64) if chosen else None))


def sample_Unsqueeze(d: Draw) -> Sample:
    """One or two new axes."""
    x = d.array(d.dtype("Unsqueeze"), d.shape(0, 3))
    axes = d.draw(st.lists(st.integers(0, x.ndim), unique=True, min_size=1, max_size=2))
    rank = x.ndim + len(axes)
    return Sample((x, np.array([a - rank if d.flag() else a for a in axes], np.int64)))


def sample_Concat(d: Draw) -> Sample:
    """One to three pieces."""
    kind, shape = d.dtype("Concat"), d.shape(1, 4)
    axis = d.axis(len(shape))
    pieces = []
    for _ in range(d.number(1, 3)):
        sizes = list(shape)
        sizes[axis] = d.number(0, 3)
        pieces.append(d.array(kind, sizes))
    return Sample(tuple(pieces), {"axis": axis})


def sample_Split(d: Draw) -> Sample:
    """By sizes, or evenly."""
    x = d.array(d.dtype("Split"), d.shape(1, 3, least=1))
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    if d.flag():
        cut = d.number(0, size)
        return Sample((x, np.array([cut, size - cut], np.int64)), {"axis": axis}, 2)
    return Sample((x,), {"axis": axis, "num_outputs": size}, size)


def sample_Slice(d: Draw) -> Sample:
    """Bounds beyond the sizes, steps of both signs."""
    x = d.array(d.dtype("Slice"), d.shape(1, 4))
    axes = np.array(list(dict.fromkeys(int(a) % x.ndim for a in d.axes(x.ndim))) or [0], np.int64)
    starts = np.array([d.pick([0, 1, -1, 2, -3, -(2**31), 2**40]) for _ in axes], np.int64)
    ends = np.array([d.pick([2, -1, 5, 0, 2**62, -(2**62), 1]) for _ in axes], np.int64)
    steps = np.array([d.pick([1, 2, -1, -2, 3]) for _ in axes], np.int64)
    return Sample((x, starts, ends, axes, steps))


def sample_Pad(d: Draw) -> Sample:
    """All modes; negative pads in constant mode."""
    mode = d.pick(["constant", "reflect", "edge", "wrap"])
    x = d.array(d.dtype("Pad"), d.shape(1, 3, least=1 if mode == "constant" else 2))
    low = 0 if mode != "constant" else -1
    most = min(x.shape) - 1 if mode in ("reflect", "wrap") else 2
    pads = np.array([max(d.number(low, most), -(x.shape[i % x.ndim] // 2)) for i in range(2 * x.ndim)], np.int64)
    fill = d.array(x.dtype, ()) if mode == "constant" and d.flag() else None
    return Sample((x, pads, fill), {"mode": mode})


def sample_Expand(d: Draw) -> Sample:
    """Both operands broadcast to the other."""
    kind = d.dtype("Expand")
    (x,) = d.broadcast(kind)
    shape = [s if s != 1 or d.flag() else 3 for s in x.shape[d.number(0, x.ndim) :]]
    lead = [d.number(0, 2)] if len(shape) == x.ndim and d.flag() else []
    return Sample((x, np.array(lead + shape, np.int64)))


def sample_Tile(d: Draw) -> Sample:
    """Up to two repeats."""
    x = d.array(d.dtype("Tile"), d.shape(1, 3))
    return Sample((x, np.array([d.number(0, 2) for _ in x.shape], np.int64)))


def sample_Trilu(d: Draw) -> Sample:
    """Either triangle, any diagonal."""
    x = d.array(d.dtype("Trilu"), d.shape(2, 4))
    k = np.array(d.number(-4, 4), np.int64) if d.flag() else None
    return Sample((x, k), {"upper": d.flag()})


def sample_DepthToSpace(d: Draw) -> Sample:
    """Both modes."""
    b = d.number(1, 2)
    x = d.array(d.dtype("DepthToSpace"), (d.number(1, 2), b * b * d.number(1, 2), d.number(1, 3), d.number(1, 3)))
    return Sample((x,), {"blocksize": b, "mode": d.pick(["DCR", "CRD"])})


def sample_SpaceToDepth(d: Draw) -> Sample:
    """Blocks of one or two."""
    b = d.number(1, 2)
    x = d.array(d.dtype("SpaceToDepth"), (d.number(1, 2), d.number(1, 2), b * d.number(1, 2), b * d.number(1, 2)))
    return Sample((x,), {"blocksize": b})


def sample_Flatten(d: Draw) -> Sample:
    """Any axis, the rank included."""
    x = d.array(d.dtype("Flatten"), d.shape(0, 4))
    return Sample((x,), {"axis": d.number(-x.ndim, x.ndim)})


def sample_ReverseSequence(d: Draw) -> Sample:
    """Both layouts."""
    x = d.array(d.dtype("ReverseSequence"), d.shape(2, 4, least=1))
    time = d.flag()
    lengths = d.rng.integers(1, x.shape[time] + 1, x.shape[1 - time])
    return Sample((x, lengths.astype(np.int64)), {"time_axis": time, "batch_axis": 1 - time})


def sample_Shape(d: Draw) -> Sample:
    """All dimensions, or those between two bounds."""
    x = d.array(d.dtype("Shape"), d.shape())
    return Sample((x,), {} if d.flag() else {"start": d.number(-5, 5), "end": d.number(-5, 5)})


def sample_Size(d: Draw) -> Sample:
    """Any shape."""
    return Sample((d.array(d.dtype("Size"), d.shape()),))


# ---------------------------------------------------------------------------------------------- indexing


def indices(d: Draw, shape: Sequence[int], size: int, kind: DType = I64) -> np.ndarray:
    """Indices of both signs into a dimension."""
    return np.asarray(d.rng.integers(-size, size, shape)).astype(kind.numpy)


def sample_Gather(d: Draw) -> Sample:
    """Indices of any rank."""
    # Of strings ONNX Runtime 1.31 gathers the first of each slice only.
    kind = d.pick([k for k in dtypes("Gather") if k is not DType.STRING])
    x = d.array(kind, d.shape(1, 4, least=1))
    axis = d.axis(x.ndim)
    return Sample((x, indices(d, d.shape(0, 2), x.shape[axis], d.pick([I64, DType.INT32]))), {"axis": axis})


def sample_GatherElements(d: Draw) -> Sample:
    """Indices of smaller sizes than x off the axis."""
    x = d.array(d.dtype("GatherElements"), d.shape(1, 3, least=1))
    axis = d.axis(x.ndim)
    shape = [d.number(1, s) for s in x.shape]
    return Sample((x, indices(d, shape, x.shape[axis])), {"axis": axis})


def sample_GatherND(d: Draw) -> Sample:
    """Index tuples of every depth, with and without batch dimensions."""
    x = d.array(d.dtype("GatherND"), d.shape(1, 4, least=1))
    batch = d.number(0, x.ndim - 1)
    depth = d.number(1, x.ndim - batch)
    lead = (*x.shape[:batch], *d.shape(0, 2, least=1))
    parts = [indices(d, lead, x.shape[batch + i]) for i in range(depth)]
    return Sample((x, np.stack(parts, axis=-1)), {"batch_dims": batch})


def distinct(d: Draw, shape: Sequence[int], size: int, axis: int) -> np.ndarray:
    """Indices along an axis, none twice in one line."""
    lines = [d.rng.permutation(size)[: shape[axis]] for _ in range(int(np.prod(shape)) // shape[axis])]
    moved = [s for i, s in enumerate(shape) if i != axis]
    return np.moveaxis(np.array(lines, np.int64).reshape(*moved, shape[axis]), -1, axis)


def sample_ScatterElements(d: Draw) -> Sample:
    """All reductions; distinct places where there is none."""
    reduction = d.pick(["none", "add", "mul", "max", "min"])
    numeric = [k for k in dtypes("ScatterElements") if k.is_integer or k in (F32, DType.DOUBLE)]
    kind = d.dtype("ScatterElements") if reduction == "none" else d.pick(numeric)
    x = d.array(kind, d.shape(1, 3, least=1))
    axis = d.number(0, x.ndim - 1)
    shape = [d.number(1, s) for s in x.shape]
    place = distinct(d, shape, x.shape[axis], axis) if reduction == "none" else indices(d, shape, x.shape[axis])
    return Sample((x, place, d.array(kind, shape)), {"axis": axis, "reduction": reduction})


def sample_ScatterND(d: Draw) -> Sample:
    """All reductions; distinct places where there is none."""
    reduction = d.pick(["none", "add", "mul", "max", "min"])
    numeric = [k for k in dtypes("ScatterND") if k.is_integer or k in (F32, DType.DOUBLE)]
    kind = d.dtype("ScatterND") if reduction == "none" else d.pick(numeric)
    x = d.array(kind, d.shape(1, 3, least=1))
    depth = d.number(1, x.ndim)
    count = int(np.prod(x.shape[:depth]))
    chosen = d.rng.permutation(count)[: d.number(1, count)]
    place = np.stack(np.unravel_index(chosen, x.shape[:depth]), axis=-1).astype(np.int64)
    return Sample((x, place, d.array(kind, (len(chosen), *x.shape[depth:]))), {"reduction": reduction})


def sample_TopK(d: Draw) -> Sample:
    """Largest and smallest, with ties."""
    x = d.array(d.dtype("TopK"), d.shape(1, 3, least=1), -2, 2)
    axis = d.axis(x.ndim)
    k = np.array([d.number(0, x.shape[axis])], np.int64)
    return Sample((x, k), {"axis": axis, "largest": d.flag(), "sorted": 1}, 2)


def sample_NonZero(d: Draw) -> Sample:
    """Half of it zeros."""
    return Sample((d.array(d.dtype("NonZero"), d.shape(1, 4), 0, 1),))


def sample_Compress(d: Draw) -> Sample:
    """Along an axis, or of the flat tensor."""
    x = d.array(d.dtype("Compress"), d.shape(1, 3, least=1))
    axis = d.axis(x.ndim) if d.flag() else None
    count = x.size if axis is None else x.shape[axis]
    return Sample((x, d.array(DType.BOOL, (d.number(1, count),))), {} if axis is None else {"axis": axis})


def sample_Unique(d: Draw) -> Sample:
    """All four results, sorted and not, flat and along an axis."""
    x = d.array(d.dtype("Unique"), d.shape(1, 3, least=1), -2, 2)
    attributes = {"sorted": d.flag()} | ({"axis": d.axis(x.ndim)} if d.flag() and x.dtype != object else {})
    return Sample((x,), attributes, 4)


def sample_OneHot(d: Draw) -> Sample:
    """Indices inside and outside."""
    index = d.array(I64, d.shape(1, 3), -5, 5)
    values = d.array(F32, (2,))
    return Sample((index, np.array(d.number(1, 4), np.int64), values), {"axis": d.number(-index.ndim - 1, index.ndim)})


def sample_TensorScatter(d: Draw) -> Sample:
    """Linear and circular writes."""
    kind = d.dtype("TensorScatter")
    size, length, batch = 4, d.number(1, 3), d.number(1, 3)
    mode = d.pick(["linear", "circular"])
    starts = d.rng.integers(0, size - length + 1 if mode == "linear" else size, batch)
    cache, update = d.array(kind, (batch, 2, size, 2)), d.array(kind, (batch, 2, length, 2))
    return Sample((cache, update, starts.astype(np.int64)), {"mode": mode, "axis": -2})


# ---------------------------------------------------------------------------------------------- made from numbers


def sample_Range(d: Draw) -> Sample:
    """Steps of both signs."""
    kind = d.dtype("Range")
    start, limit, delta = d.number(-5, 5), d.number(-5, 5), d.pick([1, 2, -1, -3])
    scale = 0.5 if kind.is_float else 1
    return Sample(tuple(np.array(v * scale).astype(kind.numpy) for v in (start, limit, delta)))


def sample_ConstantOfShape(d: Draw) -> Sample:
    """Sizes from 0 up."""
    return Sample((np.array(d.shape(0, 3), np.int64),))


def sample_EyeLike(d: Draw) -> Sample:
    """Any diagonal."""
    return Sample((d.array(d.dtype("EyeLike"), d.shape(2, 2)),), {"k": d.number(-3, 3)})


def window(op: str) -> Maker:
    """A window of a few samples."""

    def make(d: Draw) -> Sample:
        return Sample((np.array(d.number(2, 9), np.int64),), {"periodic": d.flag()})

    return make
