"""Arithmetic on sizes: what computes dimensions becomes a ShapeVector, or, for one dimension, a Squeeze of one.

Graphs that irkit lowers hold no such arithmetic; in imported ONNX graphs chains of Shape, Gather, Concat, Mul and their
like fold away here, so that Reshape, Expand and Slice below them have known results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.checking.instances import Sampler
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.dims import Dim, signs
from irkit.errors import RewriteError
from irkit.pattern import Is, attr, hole, one_of, p, rest
from irkit.pattern import const as constant
from irkit.rewriting.face import Match, Rule, decline, rule

MOST = 64
"""Vectors of more numbers are not sizes."""


@attrs.frozen
class Sizes:
    """An int64 scalar or vector whose elements are known dimensions, with what binds their symbols."""

    dims: tuple[Dim, ...]
    rank: int
    binders: tuple[Value, ...] = ()
    scalars: tuple[tuple[Any, Value], ...] = ()

    @property
    def symbolic(self) -> bool:
        """True where some element is no number."""
        return any(type(d) is not int for d in self.dims)


def read(value: Value | None) -> Sizes | None:
    """The sizes that a value holds, if it is a constant, a ShapeVector or a Squeeze of one; None for all others."""
    if value is None:
        return None
    if value.op == SHAPE_VECTOR:
        symbols = value.attribute("scalars", ())
        count = len(value.inputs) - len(symbols)
        pairs = tuple(zip(symbols, value.inputs[count:], strict=True))
        return Sizes(value.attributes[0][1], 1, value.inputs[:count], pairs)  # type: ignore[arg-type]
    if value.op == "Squeeze":
        inner = read(value.inputs[0])
        return None if inner is None or inner.rank != 1 or value.rank else attrs.evolve(inner, rank=0)
    blob = value.blob
    if blob is None or blob.dtype is not DType.INT64 or len(blob.shape) > 1 or blob.size > MOST:
        return None
    return Sizes(tuple(blob.array.ravel().tolist()), len(blob.shape))


def known(value: Value | None) -> Sizes:
    """The sizes of a value that `is_size` holds of. Raises RewriteError for others."""
    found = read(value)
    if found is None:
        raise RewriteError(f"{value!r} holds no sizes")
    return found


def built(m: Match, sizes: Iterable[Dim], rank: int, *sources: Sizes) -> Value:
    """The value that holds those sizes, bound by what binds the sources."""
    found = tuple(sizes)
    if dims.are_numbers(found):
        return const(np.array(found, dtype=np.int64).reshape((-1,) if rank else ()))
    scalars, others, candidates = _parts(found, sources)
    vector = shape_vector(found, *m.binders(others, *candidates), scalars=scalars)
    return vector if rank else op.Squeeze(vector, np.array([0]))


def built_if_bound(m: Match, sizes: tuple[Dim, ...], *sources: Sizes) -> Value | None:
    """The vector of those sizes, bound by what binds the sources; None where something binds no symbol of theirs."""
    if dims.are_numbers(sizes):
        return const(np.array(sizes, dtype=np.int64))
    scalars, others, candidates = _parts(sizes, sources)
    binders = m.binding(others, *candidates)
    return None if binders is None else shape_vector(sizes, *binders, scalars=scalars)


def is_bound(m: Match, sizes: Iterable[Dim], *sources: Sizes) -> bool:
    """True where every symbol of the sizes is bound, by a parameter's type or by a source."""
    _, others, candidates = _parts(tuple(sizes), sources)
    return m.is_bound(others, *candidates)


def _parts(sizes: tuple[Dim, ...], sources: tuple[Sizes, ...]) -> tuple[dict[Any, Value], list[Any], list[Value]]:
    """(the scalars whose content symbols of the sizes are, the other symbols, the binders of the sources)"""
    symbols = dict.fromkeys(s for d in sizes for s in dims.symbols_of(d))
    scalars = {s: v for source in sources for s, v in source.scalars if s in symbols}
    candidates = dict.fromkeys(v for source in sources for v in source.binders)
    return scalars, [s for s in symbols if s not in scalars], list(candidates)


def bound_by(*values: Value) -> Sizes:
    """No sizes, with values whose types bind symbols."""
    return Sizes((), 1, values)


def is_size(value: Value) -> bool:
    """True for what `read` can read and that is no constant."""
    return value.op != CONSTANT and read(value) is not None


x = hole("x")


def _example(sampler: Sampler) -> Value:
    """A random ShapeVector, or a Squeeze of one."""
    n, k = dims.symbol("n"), dims.symbol("k")
    sampler.param(DType.FLOAT, (n, k))
    parts = [sampler.pick(n, k, dims.mul(n, k), dims.add(n, 3), 2, 1) for _ in range(sampler.pick(1, 1, 2, 3))]
    parts[0] = n
    binder = sampler.params[-1]
    vector = shape_vector(parts, binder)
    return op.Squeeze(vector, np.array([0])) if len(parts) == 1 and sampler.chance(0.5) else vector


s = hole("s", where=Is("is_size", is_size, (_example,)), ops=(SHAPE_VECTOR, "Squeeze"))


def _sized(sampler: Sampler) -> Value:
    """Sizes, or numbers."""
    return _example(sampler) if sampler.chance(0.5) else const(np.array(sampler.pick(2, [3], [1]), dtype=np.int64))


known_sizes = Is("holds_sizes", lambda value: read(value) is not None, (_sized,))
a, b = hole("a", where=known_sizes), hole("b", where=known_sizes)
index = constant("index")


# ---------------------------------------------------------------------------------------------- from tensors


@rule(p.Shape(x, start=attr("start"), end=attr("end")))
def shape_of(m: Match) -> Any:
    """Shape(x) -> the dimensions of x"""
    shape = m.x.shape[slice(m.start, m.end)]
    return built(m, shape, 1, bound_by(m.x))


@rule(p.Size(x))
def size_of(m: Match) -> Any:
    """Size(x) -> the product of the dimensions of x"""
    return built(m, (dims.product(m.x.shape),), 0, bound_by(m.x))


# ---------------------------------------------------------------------------------------------- parts of vectors


@rule(p.Gather(s, index, axis=attr("axis")))
def gather_sizes(m: Match) -> Any:
    """Gather(dims, constant) -> those dimensions"""
    sizes, where = known(m.s), m.index
    if sizes.rank != 1 or where.rank > 1:
        return decline("no part of a vector")
    places = [int(i) for i in where.blob.array.ravel()]
    if not all(-len(sizes.dims) <= i < len(sizes.dims) for i in places):
        return decline("there is no such place")
    return built(m, [sizes.dims[i] for i in places], where.rank, sizes)


@rule(
    p.Slice(s, constant("starts"), constant("ends"), constant("axes", optional=True), constant("steps", optional=True))
)
def slice_sizes(m: Match) -> Any:
    """dims[a:b:c] -> those dimensions"""
    sizes = known(m.s)
    start, end, step = (int(v.blob.array.ravel()[0]) if v is not None else 1 for v in (m.starts, m.ends, m.steps))
    end = None if step < 0 and end < -len(sizes.dims) else end
    return built(m, sizes.dims[start:end:step], 1, sizes)


@rule(p.Concat(*rest("parts", where=known_sizes), axis=attr("axis")).typed(dtype="i64", rank=1))
def concat_sizes(m: Match) -> Any:
    """Concat(dims, dims, ...) -> one vector of dimensions"""
    parts = [sizes for v in m.parts if (sizes := read(v)) is not None and sizes.rank == 1]
    if len(parts) < len(m.parts) or not any(part.symbolic for part in parts):
        return decline("not all operands are sizes")
    return built(m, [d for part in parts for d in part.dims], 1, *parts)


@rule(one_of("Unsqueeze", "Reshape")(s, index))
def view_sizes(m: Match) -> Any:
    """Unsqueeze(dim) -> a vector of one; Reshape of one dimension to a scalar or a vector"""
    sizes = known(m.s)
    rank = m.root.rank
    if rank > 1 or (rank == sizes.rank):
        return decline("not between a scalar and a vector of one")
    return built(m, sizes.dims, rank, sizes)


@rule(p.Where(constant("c"), a, b))
def where_sizes(m: Match) -> Any:
    """Where(constant, dims, dims) -> the chosen dimensions"""
    a, b = known(m.a), known(m.b)
    if m.c.rank > 1 or not (a.symbolic or b.symbolic):
        return decline("nothing is symbolic")
    count = max(len(a.dims), len(b.dims), m.c.blob.size)
    if any(n not in (1, count) for n in (len(a.dims), len(b.dims), m.c.blob.size)):
        return decline("the sizes do not broadcast")
    chosen = np.broadcast_to(m.c.blob.array.ravel(), (count,))
    pick = [_at(a, i) if take else _at(b, i) for i, take in enumerate(chosen)]
    return built(m, pick, m.root.rank, a, b)


# ---------------------------------------------------------------------------------------------- arithmetic


def _at(sizes: Sizes, index: int) -> Dim:
    return sizes.dims[0 if len(sizes.dims) == 1 else index]


def _quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b rounded towards zero, as ONNX has it; None where the sign of one is open."""
    if not (b > 0 if type(b) is int else signs.sign(b) == 1):
        return None
    if type(a) is int and type(b) is int:
        return abs(a) // b * (1 if a >= 0 else -1)
    nonnegative = a >= 0 if type(a) is int else signs.is_nonnegative(a)
    return dims.floordiv(a, b) if nonnegative else None


def _remainder(a: Dim, b: Dim) -> Dim | None:
    return dims.mod(a, b) if type(b) is int and b > 0 else None


ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim | None]] = {
    "Add": dims.add, "Sub": dims.sub, "Mul": dims.mul, "Div": _quotient, "Mod": _remainder,
    "Max": dims.maximum, "Min": dims.minimum,
}  # fmt: skip


def _arithmetic(m: Match) -> Any:
    a, b = known(m.root.inputs[0]), known(m.root.inputs[1])
    if m.root.op == "Mod" and m.root.attribute("fmod"):
        return decline("fmod")
    count = max(len(a.dims), len(b.dims)) if min(len(a.dims), len(b.dims)) else 0
    if {len(a.dims), len(b.dims)} - {1, count}:
        return decline("the sizes do not broadcast")
    every = [ARITHMETIC[m.root.op](_at(a, i), _at(b, i)) for i in range(count)]
    found = [d for d in every if d is not None]
    if len(found) < len(every):
        return decline("the sign of a dimension is open")
    return built(m, found, m.root.rank, a, b)


@rule(one_of(*ARITHMETIC)(s, b))
def left_size_arithmetic(m: Match) -> Any:
    """dims + y -> dims"""
    return _arithmetic(m)


@rule(one_of(*ARITHMETIC)(a, s))
def right_size_arithmetic(m: Match) -> Any:
    """x + dims -> dims"""
    return _arithmetic(m)


@rule(p.Neg(s))
def neg_sizes(m: Match) -> Any:
    """-dims -> dims"""
    sizes = known(m.s)
    return built(m, [dims.mul(d, -1) for d in sizes.dims], sizes.rank, sizes)


@rule(one_of("ReduceProd", "ReduceSum")(s, *rest("axes")))
def reduce_sizes(m: Match) -> Any:
    """ReduceProd(dims) -> the product of the dimensions"""
    sizes = known(m.s)
    if sizes.rank != 1 or (not m.axes and m.root.attribute("noop_with_empty_axes")):
        return decline("no vector, or nothing is reduced")
    if m.root.op == "ReduceProd":
        total = dims.product(sizes.dims)
    else:
        total = 0
        for d in sizes.dims:
            total = dims.add(total, d)
    return built(m, (total,), m.root.rank, sizes)


@rule(p.Equal(s, b))
def equal_sizes(m: Match) -> Any:
    """dims == dims -> a constant, where every comparison can be told"""
    a, b = known(m.s), known(m.b)
    count = max(len(a.dims), len(b.dims))
    if {len(a.dims), len(b.dims)} - {1, count}:
        return decline("the sizes do not broadcast")
    found = [dims.same(_at(a, i), _at(b, i)) for i in range(count)]
    if any(answer is None for answer in found):
        return decline("the dimensions may be equal or not")
    return const(np.array(found, dtype=bool).reshape((-1,) if m.root.rank else ()))


SIZES: tuple[Rule, ...] = (
    shape_of, size_of, gather_sizes, slice_sizes, concat_sizes, view_sizes, where_sizes, left_size_arithmetic,
    right_size_arithmetic, neg_sizes, reduce_sizes, equal_sizes,
)  # fmt: skip
