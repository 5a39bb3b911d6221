"""What masks of attention may hold: numbers so low that they hide keys, and -inf, which may hide all keys of a query.

ONNX's Attention gives zeros for a query that sees no key; a softmax that is written out gives NaN for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.blobs import Blob
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import ITEM
from irkit.dims import Dim
from irkit.ops.types.contents import contents
from irkit.pattern import attribute_of, uniform
from passes.analysis.counting import ANSWERS, Counted, broadcast_count, comparison_result, extremes
from passes.analysis.questions import VIEWS, axes_of

LEAST = float(np.finfo(np.float32).min)
"""What transformers adds to the scores of hidden keys."""

FAR = 1e4
"""Masks of what is not a mask, as biases of positions, do not reach further."""

HIDDEN = -(2.0**24)
"""Scores that are put to this and less are of hidden keys: so far down, no score of a key that is seen has a digit
after the point. Queries and keys of some size do reach -1e4, which hides no key then."""

DEEP = 12
"""How many operators of a mask are looked through."""

TABLE = 1 << 22
"""The most elements of a constant that are looked at."""

NOTHING, NUMBERS, EXTREMES, ALL = range(4)
"""How far numbers reach: none beyond 1e4 of size; further; so far that two of them may overflow; to infinity."""

MOVES = ("Identity", "Transpose", "Slice", "Gather", "GatherElements", "GatherND", "Tile", "Split", "Trilu", "Expand",
         *VIEWS)  # fmt: skip
"""What holds elements of the first operand, or zeros."""

COMPUTED = frozenset((
    "MatMul", "Gemm", "Einsum", "Conv", "Softmax", "Sigmoid", "Tanh", "Relu", "Gelu", "Erf", "Sin", "Cos", "Swish",
    "LayerNormalization", "RMSNormalization", "RotaryEmbedding", "Attention",
))  # fmt: skip
"""What is not a mask, and reaches infinity where a model is broken only."""


FEW = 4
"""How many numbers are told apart in the first column of a mask."""

PLAIN = (DType.BOOL, DType.FLOAT, DType.INT64, DType.INT32, DType.UINT8)
"""Element types of masks."""

_POINTWISE: Mapping[str, Callable[..., Any]] = {
    "Not": np.logical_not, "And": np.logical_and, "Or": np.logical_or, "Equal": np.equal, "Less": np.less,
    "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "Where": np.where,
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply,
}  # fmt: skip


@attrs.frozen
class Reach:
    """How far the numbers of a tensor reach below and above zero: `NOTHING` ... `ALL`."""

    down: int = ALL
    up: int = ALL

    def __or__(self, other: Reach) -> Reach:
        return Reach(max(self.down, other.down), max(self.up, other.up))


UNKNOWN, SMALL = Reach(), Reach(NOTHING, NOTHING)


def reach(value: Value | None, depth: int = DEEP) -> Reach:
    """How far the numbers of a tensor may reach; what comes of integers or of products of tensors counts as small."""
    if value is None or depth == 0:
        return UNKNOWN
    if value.op == ITEM:
        return reach(value.inputs[0], depth - 1)
    if isinstance(value.type, Tensor) and not value.dtype.is_float:
        return SMALL
    if value.blob is not None:
        return _reach_of(value.blob)
    if value.op in COMPUTED:
        return SMALL
    reader = _READERS.get(value.op)
    return UNKNOWN if reader is None else reader(value, depth - 1)


def _reach_of(blob: Blob) -> Reach:
    if blob.size > TABLE:
        return UNKNOWN
    least, greatest = blob.extremes
    return Reach(_level(-least), _level(greatest))


def _level(number: float) -> int:
    """How far a number reaches above zero; NaN reaches everywhere."""
    if number < FAR:
        return NOTHING
    return NUMBERS if number < -LEAST / 2 else EXTREMES if number <= -LEAST else ALL


def _either(value: Value, depth: int) -> Reach:
    first, *more = value.inputs[1:] if value.op == "Where" else value.inputs
    found = reach(first, depth)
    for each in more:
        found |= reach(each, depth)
    return found


def _sum(value: Value, depth: int) -> Reach:
    a, b = (reach(v, depth) for v in value.inputs)
    b = Reach(b.up, b.down) if value.op == "Sub" else b
    both = a | b
    return Reach(ALL if min(a.down, b.down) >= EXTREMES else both.down, ALL if min(a.up, b.up) >= EXTREMES else both.up)


def _product(value: Value, depth: int) -> Reach:
    for x, c in (value.inputs, value.inputs[::-1]):
        number = None if c is None or c.blob is None else uniform(c)
        if not isinstance(number, float) or (value.op == "Div" and (c is value.inputs[0] or not number)):
            continue
        factor, inner = 1 / number if value.op == "Div" else number, reach(x, depth)
        if inner == SMALL:
            return Reach(_level(abs(factor)), _level(abs(factor)))
        if abs(factor) >= (1 if max(inner.down, inner.up) >= EXTREMES else FAR):
            return UNKNOWN
        return inner if factor > 0 else Reach(inner.up, inner.down)
    small = value.op == "Mul" and all(reach(v, depth) == SMALL for v in value.inputs)
    return SMALL if small else UNKNOWN


def _negated(value: Value, depth: int) -> Reach:
    found = reach(value.inputs[0], depth)
    return Reach(found.up, found.down)


def _same(value: Value, depth: int) -> Reach:
    return reach(value.inputs[0], depth)


_READERS = {
    **dict.fromkeys(MOVES, _same),
    "Where": _either, "Concat": _either, "Add": _sum, "Sub": _sum, "Mul": _product, "Div": _product, "Neg": _negated,
    "Cast": _same,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- blind queries


def is_low(value: Value | None) -> bool:
    """True for the number that stands for the scores of hidden keys."""
    found = number_of(value)
    return found is not None and found <= HIDDEN


def number_of(value: Value | None) -> float | None:
    """The number that a constant holds throughout, -inf among them; None for every other value."""
    found = None if value is None or value.blob is None else uniform(value)
    return found if isinstance(found, float) else None


def leaves_first(mask: Value | None, low: float) -> bool:
    """True for a mask beside which another that hides with a `low` number, but never the first key, may hide by -inf:
    the first key stays what it was to each query."""
    if mask is None or (down := reach(mask).down) == NOTHING:
        return True
    return low == -np.inf and (down < ALL or sees_first(mask))


def may_be_blind(mask: Value) -> bool:
    """True for a mask that may hide all keys of a query, with -inf or False."""
    if mask.blob is not None and 0 < mask.blob.size <= TABLE:
        array = mask.blob.array
        hidden = ~array if mask.dtype is DType.BOOL else ~(array > -np.inf)
        return bool(hidden.all(axis=-1).any()) if mask.rank else bool(hidden)
    if mask.dtype is not DType.BOOL and (reach(mask).down < ALL or _says_nan(mask)):
        return False
    return not sees_first(mask)


def sees_first(mask: Value | None, depth: int = DEEP) -> bool:
    """True for a mask that certainly lets each query see the first key: no -inf stands there, or True does."""
    if mask is None or depth == 0:
        return False
    if mask.dtype is DType.BOOL:
        return at_first(mask, depth) == (True,)
    if reach(mask, depth).down < ALL:
        return True
    if mask.op == "Add":
        low = sum(reach(v, depth - 1).down >= EXTREMES for v in mask.inputs)
        return low < 2 and all(sees_first(v, depth - 1) for v in mask.inputs)
    if mask.op == "Where":
        conditions = at_first(mask.inputs[0], depth - 1) or (True, False)
        return all(sees_first(mask.inputs[1 if c else 2], depth - 1) for c in conditions)
    if mask.op in MOVES and _keeps_first(mask):
        return _is_cleared(mask) or sees_first(mask.inputs[0], depth - 1)
    found = at_first(mask, depth)
    return found is not None and all(number > -np.inf for number in found)


def at_first(value: Value | None, depth: int = DEEP) -> tuple[float, ...] | None:
    """The few numbers that stand at the first place of the last axis; None where they are many or not known."""
    if value is None or depth == 0 or not isinstance(value.type, Tensor):
        return None
    if value.blob is not None:
        return _column(value.blob)
    if value.op in MOVES:
        if not _keeps_first(value):
            return None
        return (value.dtype.numpy.type(0),) if _is_cleared(value) else at_first(value.inputs[0], depth - 1)
    if value.op in ANSWERS and (answer := _compared(value)) is not None:
        return (answer,)
    found: list[tuple[float, ...]] = []
    for each in value.inputs if value.op in _POINTWISE or value.op == "Cast" else (None,):
        known = at_first(each, depth - 1)
        if known is None:
            return None
        found.append(known)
    function = _POINTWISE.get(value.op, value.dtype.numpy.type)
    made = {_plain(function(*numbers)) for numbers in product(*found)}
    return tuple(sorted(made)) if len(made) <= FEW else None


def _compared(value: Value) -> bool | None:
    """What comparisons of positions come to at the first place of the last axis, where they all come out alike."""
    a, b = (broadcast_count(v, value.shape) for v in value.inputs)
    if a is None or b is None or not value.rank:
        return None
    gap = a.plus(b, -1)
    ends = extremes(Counted(gap.start, (*gap.steps[:-1], 0)), (*value.shape[:-1], 1))
    return None if ends is None else comparison_result(value.op, *ends)


def _column(blob: Blob) -> tuple[float, ...] | None:
    if not 0 < blob.size <= TABLE or blob.dtype not in PLAIN:
        return None
    found = np.unique(blob.array[..., :1] if blob.shape else blob.array)
    return tuple(map(_plain, found)) if len(found) <= FEW else None


def _plain(number: Any) -> Any:
    return np.asarray(number).item()


def _is_cleared(value: Value) -> bool:
    """True for the part above the diagonal of a matrix: zeros stand in its first column."""
    if value.op != "Trilu" or not attribute_of(value, "upper"):
        return False
    k = value.inputs[1] if len(value.inputs) > 1 else None
    return k is not None and k.blob is not None and int(k.blob.array.item()) >= 1


def _keeps_first(value: Value) -> bool:
    """True where the first places of the last axis are, or are repeated from, those of the first operand."""
    x, rank = value.inputs[0], value.rank
    if x is None or not isinstance(x.type, Tensor):
        return False
    if value.op in ("Expand", "Identity") or not x.rank:
        return True
    if value.op == "Transpose":
        return value.attribute("perm") is not None and value.attribute("perm")[-1] == rank - 1
    if value.op == "Trilu":
        k = value.inputs[1] if len(value.inputs) > 1 else None
        kept = k is None or (k.blob is not None and int(k.blob.array.item()) >= 0)
        return _is_cleared(value) or (kept and not attribute_of(value, "upper"))
    if value.op in ("Unsqueeze", "Squeeze"):
        axes, high = axes_of(value.inputs[1] if len(value.inputs) > 1 else None), max(rank, x.rank)
        return axes is not None and all(a % high < high - 1 for a in axes)
    return value.op == "Slice" and _starts_first(value, x.rank)


def _starts_first(value: Value, rank: int) -> bool:
    """True for a slice that leaves out no first places of the last axis."""
    _, begins, _, along, strides = (*value.inputs, None, None)[:5]
    starts, steps = (None if v is None else contents(v) for v in (begins, strides))
    axes = axes_of(along) if along is not None else None if starts is None else tuple(range(len(starts)))
    if axes is None:
        return False
    places = [i for i, a in enumerate(axes) if a % rank == rank - 1]
    if not places:
        return True
    (place,) = places
    step = 1 if strides is None else None if steps is None else steps[place]
    first = None if starts is None else starts[place]
    return type(first) is int and first == 0 and type(step) is int and step > 0


def shows_a_key(bias: Value) -> bool:
    """True for Where(table, a small number, a low one) that lets each query see a key: itself, on the diagonal."""
    seen, number, _ = bias.inputs if bias.op == "Where" else (None, None, None)
    if seen is None or reach(number) != SMALL or (seen.rank > 2 and any(d != 1 for d in seen.shape[:-2])):
        return False
    first_row: Dim = 0
    rows: Dim | None = None
    columns: Dim | None = None
    while seen.op == "Slice" and seen.inputs[0] is not None:
        cut = _cut(seen)
        if cut is None:
            return False
        axis, start, end = cut
        if axis == seen.rank - 2 and rows is None:
            first_row, rows = start, end
        elif axis == seen.rank - 1 and columns is None and type(start) is int and start == 0:
            columns = end
        else:
            return False
        seen = seen.inputs[0]
    cut_alike = rows is not None and columns is not None and dims.same(rows, columns) is True
    below = dims.bounds(first_row, {}).lo >= 0
    blob = seen.blob
    if not cut_alike or not below or blob is None or blob.dtype is not DType.BOOL or blob.size > TABLE:
        return False
    square = len(blob.shape) >= 2 and blob.shape[-1] == blob.shape[-2]
    return square and bool(np.diagonal(blob.array, axis1=-2, axis2=-1).all())


def _cut(value: Value) -> tuple[int, Dim, Dim] | None:
    """(axis, start, end) of a Slice along one axis in steps of 1."""
    _, begins, ends, along, strides = (*value.inputs, None, None)[:5]
    axes, starts, stops = (axes_of(along), *(None if v is None else contents(v) for v in (begins, ends)))
    if axes is None or starts is None or stops is None or not len(axes) == len(starts) == len(stops) == 1:
        return None
    steps = (1,) if strides is None else contents(strides)
    return (axes[0] % value.rank, starts[0], stops[0]) if steps is not None and tuple(steps) == (1,) else None


def with_nan(mask: Value) -> Value:
    """The mask, as numbers to add, with NaN in rows that hide all keys: what a softmax written out makes of them."""
    if mask.dtype is DType.BOOL:
        mask = op.Where(mask, const(np.float32(0)), const(np.float32(-np.inf)))
    highest = op.ReduceMax(mask, np.array([-1]))
    return op.Where(op.Equal(highest, const(np.float32(-np.inf))), const(np.float32(np.nan)), mask)


def _says_nan(mask: Value) -> bool:
    """True for what `with_nan` made."""
    condition, marked, x = mask.inputs if mask.op == "Where" else (None, None, None)
    if condition is None or condition.op != "Equal" or marked is None or marked.blob is None or marked.blob.size != 1:
        return False
    highest, low = condition.inputs
    if highest is None or highest.op != "ReduceMax" or highest.inputs[0] is not x or number_of(low) != -np.inf:
        return False
    return bool(np.isnan(marked.blob.array).all()) and axes_of(highest.inputs[1]) == (-1,)


# ---------------------------------------------------------------------------------------------- the least number


def may_hold_least(mask: Value | None, depth: int = DEEP) -> bool:
    """True for a mask in which the least number may stand, which ONNX Runtime takes for a mark."""
    if mask is None or not isinstance(mask.type, Tensor) or mask.dtype is not DType.FLOAT:
        return False
    if depth == 0 or reach(mask, depth).down < EXTREMES:
        return depth == 0
    if mask.blob is not None:
        return _has_least(mask.blob)
    if mask.op == "Where":
        return not _is_raised(mask) and any(may_hold_least(v, depth - 1) for v in mask.inputs[1:])
    if mask.op in MOVES:
        return may_hold_least(mask.inputs[0], depth - 1)
    if mask.op == "Add":
        return any(may_hold_least(v, depth - 1) for v in mask.inputs)
    return True


def _is_raised(mask: Value) -> bool:
    """True for Where(x == least, another number, x)."""
    condition, number, x = mask.inputs
    if (
        condition is None
        or condition.op != "Equal"
        or number is None
        or number.blob is None
        or condition.inputs[0] is not x
    ):
        return False
    least = condition.inputs[1]
    return least is not None and least.blob is not None and uniform(least) == LEAST and not _has_least(number.blob)


def _has_least(blob: Blob) -> bool:
    return blob.size > TABLE or bool((blob.array == np.float32(LEAST)).any())
