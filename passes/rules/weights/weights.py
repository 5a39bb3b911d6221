"""What is computed from weights alone, and numbers that become part of weights: computed when the weight is loaded."""

from __future__ import annotations

import math

import numpy as np

from irkit.build import const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.dims import Dim
from irkit.evaluation.interpreter import apply
from irkit.pattern import attr, either, hole, p, rest
from irkit.pattern import const as constant
from irkit.pattern.language import OfConstants
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import OUT_OF_RANGE, computed_constant, is_moderate, lazily, same_shape, same_type
from passes.rules.constants import EXACT, transposed_constant

SIZE = 1 << 22
"""What is computed from weights has at most this many elements."""

GROWTH = 1 << 18
"""Up to so many elements, it may have more than the weights that it is computed from."""

VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Identity", "Expand", "Cast", "CastLike"))
"""What is as good as free, and would keep a weight twice; and what changes the element type, for a narrow one is there
to keep weights small."""

COMPUTED = (EXACT - VIEWS) | frozenset((
    "Resize", "Pow", "Exp", "Log", "Tanh", "Sigmoid", "Softmax", "Softplus", "Sin", "Cos", "Erf", "Reciprocal",
    "MatMul", "Gemm", "ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare", "LayerNormalization",
))  # fmt: skip
"""What is computed from weights."""


def floats(value: Value) -> np.ndarray:
    """The content of a constant as floating-point numbers of at least 32 bits."""
    return as_floats(value.blob.read())  # type: ignore[union-attr]


def as_floats(array: np.ndarray) -> np.ndarray:
    """An array as floating-point numbers of at least 32 bits."""
    return array if array.dtype == np.float64 else array.astype(np.float32, copy=False)


# ---------------------------------------------------------------------------------------------- weights alone


def _of_weights(rng: np.random.Generator) -> Value:
    table = const(rng.standard_normal((1, 6, 4)).astype(np.float32), name="embeddings.weight")
    makers = (
        lambda: op.Slice(table, [1], [4], [1]), lambda: op.Gather(table, 0, axis=1), lambda: op.Sqrt(table),
        lambda: op.Concat(table, table, axis=1), lambda: op.Add(table, const(np.ones(4, np.float32))),
    )  # fmt: skip
    return makers[int(rng.integers(len(makers)))]()


def _fold(m: Match) -> Made:
    value = m.root
    blobs = [v.blob for v in value.inputs if v is not None and v.blob is not None]
    if value.op not in COMPUTED or not isinstance(value.type, Tensor) or not value.type.is_static:
        return decline("left to the runtime, or its size is not known")
    size, named = math.prod(value.shape), [b.name for b in blobs if b.is_weight]
    if not named or size > min(SIZE, max(GROWTH, sum(b.size for b in blobs))):
        return decline("no weight, or the result would be large")
    if any(b.dtype is DType.STRING or b.dtype.bits < 8 for b in blobs) or value.dtype.bits < 8:
        return decline("strings, or elements smaller than a byte")

    def compute(*arrays: np.ndarray) -> np.ndarray:
        given = iter(arrays)
        return np.asarray(apply(value, [None if v is None else next(given) for v in value.inputs]))  # type: ignore

    return computed_constant(value, value.shape, compute, value.inputs, named[0] if len(named) == 1 else "")


fold_weights = Rule("fold_weights", OfConstants(), _fold, False, "f(weights) -> a weight of its own", _of_weights)


# ---------------------------------------------------------------------------------------------- scaled products


def _scaled(rng: np.random.Generator) -> Value:
    made = op.MatMul(param(tensor("f32", "batch", "n", 3)), const(rng.standard_normal((3, 4)).astype(np.float32)))
    if rng.random() < 0.6:
        made = op.Add(made, const(rng.standard_normal(4).astype(np.float32)))
    shape = ((4,), (1, 1, 4), (), (1,))[int(rng.integers(4))]
    return op.Mul(made, const(rng.standard_normal(shape).astype(np.float32)))


_product = p.MatMul(hole("x"), constant("w", rank=2).once()).once()
_biased = p.Add(_product, constant("b", rank=1)).named("sum").once()


@rule(p.Mul(either(_biased, _product), constant("c")), exact=False, sample=_scaled)
def scaled_weights(m: Match) -> Made:
    """(x @ w + b) * c -> x @ (w * c) + b * c, for a number c, or one for each column"""
    width = m.w.shape[1]
    if m.w.dtype not in (DType.FLOAT, DType.DOUBLE) or m.x.rank < 2 or m.c.rank > m.x.rank:
        return decline("rounded once more in a narrow type, or a vector")
    if m.c.blob.size not in (1, width) or any(d != 1 for d in m.c.shape[:-1]):
        return decline("c is not a number, and no row of the product")
    b = m.b if m.get("sum") is not None else None
    if not is_moderate(m.c, m.w, b):
        return decline(OUT_OF_RANGE)
    if b is not None and b.shape[0] != width:
        return decline("the bias broadcasts")
    made = op.MatMul(m.x, _scaled_columns(m.w, m.c))
    return made if b is None else op.Add(made, computed_constant(b, b.shape, times_row, [b, m.c], b.blob.name))


def _scaled_columns(w: Value, c: Value) -> Value:
    """The weight w * c, for a c for each column or one for all; it is held transposed where the old one is."""
    turned = w.blob.turned if w.blob is not None else None
    if turned is None:
        return computed_constant(w, w.shape, times_row, [w, c], factored="scaled_weights")
    held = const(turned)
    return transposed_constant(computed_constant(held, held.shape, times_column, [held, c], factored="scaled_weights"))


def times_row(w: np.ndarray, c: np.ndarray) -> np.ndarray:
    """w * c, with c along the last axis."""
    return as_floats(w) * as_floats(c).reshape(-1)


def times_column(w: np.ndarray, c: np.ndarray) -> np.ndarray:
    """w * c, with c along the first axis."""
    return as_floats(w) * as_floats(c).reshape(-1, 1)


# ---------------------------------------------------------------------------------------------- tokens of a class


def _tokens(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "batch", 5, 4))
    tokens = [const(rng.standard_normal((1, n, 4)).astype(np.float32)) for n in (1, 2)]
    before, after = (op.Expand(t, shape_vector(("batch", t.shape[1], 4))) for t in tokens)
    parts = ((before, x), (x, after), (before, x, after))[int(rng.integers(3))]
    joined = op.Concat(*parts, axis=1)
    return op.Add(joined, const(rng.standard_normal((1, joined.shape[1], 4)).astype(np.float32)))


@rule(
    p.Add(p.Concat(*rest("parts"), axis=attr("axis")).named("joined").once(), constant("k")),
    exact=False,
    sample=_tokens,
)
def tokens_of_class(m: Match) -> Made:
    """Concat(tokens, x) + k -> Pad(x) + (k + tokens), for tokens and k that are constant"""
    rank = m.root.rank
    axis = m.axis % rank
    inner = [v for v in m.parts if _token(v) is None]
    if len(inner) != 1 or not same_type(m.root, m.joined) or m.root.dtype not in (DType.FLOAT, DType.DOUBLE):
        return decline("the parts are no constants with one thing more, or k broadcasts them")
    x, total = inner[0], m.root.shape[axis]
    tokens = [_token(v) for v in m.parts]
    row = m.root.shape[axis + 1 :]
    if type(total) is not int or any(type(v.shape[axis]) is not int for v in m.parts) or not _is_known(row):
        return decline("a size is not known")
    if any(not _is_row(t, row, v.shape[axis], axis) for t, v in zip(tokens, m.parts, strict=True) if t is not None):
        return decline("the tokens are not the same for all")
    if m.k.rank != rank or not same_shape(m.k.shape, (*(1,) * axis, total, *row)):
        return decline("k is not the same for all")
    place = next(i for i, v in enumerate(m.parts) if v is x)
    before = sum(v.shape[axis] for v in m.parts[:place])
    pads = np.zeros((2, rank), np.int64)
    pads[:, axis] = before, total - before - x.shape[axis]
    k = m.k

    def compute() -> np.ndarray:
        found, at = floats(k).copy(), 0
        for token, part in zip(tokens, m.parts, strict=True):
            size = part.shape[axis]
            if token is not None:
                found[(*(slice(None),) * axis, slice(at, at + size))] += floats(token)
            at += size
        return found

    return op.Add(op.Pad(x, pads.reshape(-1)), lazily(k, k.shape, compute, [k, *tokens], k.blob.name))


def _token(value: Value) -> Value | None:
    """The constant that is repeated along the batch."""
    source = value.inputs[0] if value.op == "Expand" else value
    return source if source is not None and source.blob is not None else None


def _is_known(shape: tuple[Dim, ...]) -> bool:
    return all(type(d) is int for d in shape)


def _is_row(token: Value, row: tuple[Dim, ...], size: int, axis: int) -> bool:
    """True for a constant that, broadcast or not, has that size along the axis and does not vary along those before."""
    rank = axis + 1 + len(row)
    shape = (1,) * (rank - token.rank) + token.shape
    return token.rank <= rank and shape[:axis] == (1,) * axis and shape[axis] in (1, size)


WEIGHTS: tuple[Rule, ...] = (fold_weights, scaled_weights, tokens_of_class)
"""Not exact: weights are rounded once more."""
