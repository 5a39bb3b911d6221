"""Between which numbers the elements of a tensor lie: what made them tells, whatever the inputs hold.

Positions that are counted, found or compared are not below 0, nor is what is added, multiplied or picked out of such
numbers. What is computed of floats may be NaN besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce

import attrs
import numpy as np

from irkit.core import walk
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import ITEM, SHAPE_VECTOR
from irkit.dims import signs
from passes.analysis.questions import operand

MOST = 2**31 - 2**20
"""No axis is longer along which positions are counted that serve as places of a table."""

DEEP = 24
"""How many operators are looked through."""

LOOKED_UP = frozenset(("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"))
"""Operators whose second operand is places, and refused where one lies beyond the end."""

WHOLE_VIEWS = frozenset(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten", "Expand", "Cast"))
"""What holds every element of its first operand."""

SLACK = 1e-3
"""What roundings may take from a float, of what was added up; and whole numbers are made of a float so far from one."""


@attrs.frozen
class Span:
    """The least and the greatest number that an element may be."""

    low: float = -math.inf
    high: float = math.inf

    def __or__(self, other: Span) -> Span:
        return Span(min(self.low, other.low), max(self.high, other.high))


ANY, SIZE, UNIT = Span(), Span(0, MOST), Span(0, 1)

Reader = Callable[[Value, "Spans"], Span]


@attrs.frozen(eq=False)
class Spans:
    """The spans of the operands of a value, each asked for once."""

    depth: int
    known: dict[Value, Span]

    def __call__(self, value: Value | None) -> Span:
        if value is None or not isinstance(value.type, Tensor):
            return ANY
        if value not in self.known:
            self.known[value] = found(value, attrs.evolve(self, depth=self.depth - 1))
        return self.known[value]


def span_of(value: Value) -> Span:
    """Between which numbers the elements of a tensor lie. Raises AbsentError where a weight without numbers tells."""
    return Spans(DEEP, {})(value)


def found(value: Value, of: Spans) -> Span:
    """The span of a value by its operator, where that of its element type is no narrower."""
    dtype = value.dtype
    if dtype is DType.BOOL:
        return UNIT
    kind = limits(dtype)
    if kind is None:
        return ANY
    if value.blob is not None:
        return Span(*value.blob.extremes) if value.blob.size and not np.isnan(value.blob.extremes).any() else kind
    reader = READERS.get(value.inputs[0].op if value.op == ITEM and value.inputs[0] is not None else value.op)
    if reader is None or of.depth < 0:
        return kind
    made = reader(value, of)
    # what the element type does not hold has wrapped around
    return made if made.low >= kind.low and made.high <= kind.high else kind


def limits(dtype: DType) -> Span | None:
    """What an element type holds; None of one that is no real number."""
    if dtype.is_integer:
        return Span(0 if dtype.is_unsigned else -(2 ** (8 * dtype.numpy.itemsize - 1)), greatest(dtype))
    return ANY if dtype.is_float else None


def greatest(dtype: DType) -> int:
    """The greatest number of an integer type."""
    bits = 8 * dtype.numpy.itemsize
    return 2**bits - 1 if dtype.is_unsigned else 2 ** (bits - 1) - 1


# ---------------------------------------------------------------------------------------------- readers


def is_from_front(value: Value) -> bool:
    """Whether a value is BitwiseAnd(x, greatest integer): x, and a place beyond every end for each below 0."""
    mask = operand(value, 1) if value.op == "BitwiseAnd" else None
    return mask is not None and mask.blob is not None and not mask.rank and mask.blob.array == greatest(mask.dtype)


def _counted(value: Value, of: Spans) -> Span:
    return SIZE


def _flags(value: Value, of: Spans) -> Span:
    return UNIT


def _sizes(value: Value, of: Spans) -> Span:
    sizes = value.attribute("dims", ())
    natural = all(n >= 0 if isinstance(n, int) else signs.is_nonnegative(n) for n in sizes)
    return SIZE if natural else ANY


def _moved(value: Value, of: Spans) -> Span:
    source = value.inputs[0]
    if source is not None and value.op == ITEM:
        source = next(iter(source.inputs), None)
    return of(source)


def _place_or_number(value: Value, of: Spans) -> Span:
    """A result of TopK or Unique: its numbers, or places."""
    return SIZE if value.attribute("index", 0) else _moved(value, of)


def _any_of(value: Value, of: Spans) -> Span:
    return reduce(Span.__or__, map(of, value.inputs))


def _chosen(value: Value, of: Spans) -> Span:
    """Of a Where: what is chosen where `v < k` does not hold is computed of a `v` that is not below `k`."""
    test, one, other = value.inputs
    first, second = of(one), of(other)
    if test is None or other is None or test.op != "Less" or test.inputs[0] is None or second.low >= 0:
        return first | second
    v = test.inputs[0]
    if (v is not other and v.type != value.type) or not is_element_by_element(other, v, of.depth):
        return first | second
    known, least = of(v), of(test.inputs[1]).low
    return first | attrs.evolve(of, known={v: Span(max(known.low, least), max(known.high, least))})(other)


def is_element_by_element(value: Value, of: Value, depth: int) -> bool:
    """Whether each element of a value hangs on no other element of another value than the one at its place."""
    if value is of:
        return True
    shape = value.shape if isinstance(value.type, Tensor) else None
    if depth < 0 or value.op not in ELEMENTWISE or shape != of.shape:
        return not reaches(value, of)
    return all(is_element_by_element(each, of, depth - 1) for each in value.inputs if each is not None)


def reaches(value: Value, other: Value) -> bool:
    """Whether a value is computed of another."""
    return other in walk.post_order([value])


def _zero_or_moved(value: Value, of: Spans) -> Span:
    return of(value.inputs[0]) | Span(0, 0)


def _padded(value: Value, of: Spans) -> Span:
    filler = operand(value, 2)
    return of(value.inputs[0]) | (Span(0, 0) if filler is None else of(filler))


def _written(value: Value, of: Spans) -> Span:
    plain = value.attribute("reduction", "none") in ("none", "max", "min")
    return of(value.inputs[0]) | of(value.inputs[2]) if plain else ANY


def _largest(value: Value, of: Spans) -> Span:
    each = [of(v) for v in value.inputs]
    return Span(max(s.low for s in each), max(s.high for s in each))


def _smallest(value: Value, of: Spans) -> Span:
    each = [of(v) for v in value.inputs]
    return Span(min(s.low for s in each), min(s.high for s in each))


def _clipped(value: Value, of: Spans) -> Span:
    x, low, high = (*value.inputs, None, None)[:3]
    made = of(x)
    if low is not None:
        made = Span(max(made.low, of(low).low), max(made.high, of(low).high))
    return made if high is None else Span(min(made.low, of(high).low), min(made.high, of(high).high))


def _relu(value: Value, of: Spans) -> Span:
    x = of(value.inputs[0])
    return Span(max(x.low, 0), max(x.high, 0))


def _absolute(value: Value, of: Spans) -> Span:
    x = of(value.inputs[0])
    return Span(max(x.low, -x.high, 0), max(-x.low, x.high))


def _negated(value: Value, of: Spans) -> Span:
    x = of(value.inputs[0])
    return Span(-x.high, -x.low)


def _sum(value: Value, of: Spans) -> Span:
    a, b = (of(v) for v in value.inputs)
    b = Span(-b.high, -b.low) if value.op == "Sub" else b
    cancels = value.dtype.is_float and min(a.low, b.low) < 0 and math.isfinite(a.low + b.low)
    lost = SLACK * (abs(a.low) + abs(b.low)) if cancels else 0
    return Span(a.low + b.low - lost, a.high + b.high)


def _product(value: Value, of: Spans) -> Span:
    a, b = (of(v) for v in value.inputs)
    if min(a.low, b.low) < 0:
        return ANY
    return Span(a.low * b.low, math.inf if math.inf in (a.high, b.high) else a.high * b.high)


def _quotient(value: Value, of: Spans) -> Span:
    a, b = (of(v) for v in value.inputs)
    if a.low < 0 or b.low < 0 or (b.low < 1 and value.dtype.is_integer):
        return ANY
    whole = value.dtype.is_integer or math.isinf(b.high) or b.high == 0
    return Span(0 if whole else a.low / b.high, a.high if b.low >= 1 else math.inf)


def _remainder(value: Value, of: Spans) -> Span:
    a, b = (of(v) for v in value.inputs)
    if value.attribute("fmod", 0):
        return Span(0, a.high) if a.low >= 0 else ANY
    return Span(0, b.high) if b.low >= 0 else ANY


def _added_up(value: Value, of: Spans) -> Span:
    x = of(value.inputs[0])
    return Span(0, x.high * MOST) if x.low >= 0 else ANY


def _bits(value: Value, of: Spans) -> Span:
    natural = [s for s in (of(v) for v in value.inputs) if s.low >= 0]
    return Span(0, min(s.high for s in natural)) if natural else ANY


def _shifted(value: Value, of: Spans) -> Span:
    x = of(value.inputs[0])
    return Span(0, x.high) if x.low >= 0 and value.attribute("direction", "") == "RIGHT" else ANY


def _ranged(value: Value, of: Spans) -> Span:
    start, limit, step = (of(v) for v in value.inputs)
    if step.low > 0:
        return Span(start.low, max(start.low, limit.high))
    # a count down ends before its limit
    return Span(min(limit.low + 1, start.high), start.high) if step.high < 0 and value.dtype.is_integer else ANY


def _cast(value: Value, of: Spans) -> Span:
    source = value.inputs[0]
    x = of(source)
    if source is None or source.dtype.is_integer or source.dtype is DType.BOOL or not value.dtype.is_integer:
        return x
    # of a float that is no number of the type, NaN among them, the least number is made, which is no place at all
    whole = limits(value.dtype)
    low = 0 if x.low > SLACK - 1 else x.low - 1
    high = x.high if math.isinf(x.high) else math.floor(x.high + SLACK * abs(x.high))
    return Span(low, min(high, whole.high) if whole else high)


def _whole(value: Value, of: Spans) -> Span:
    x = of(value.inputs[0])
    low = math.ceil if value.op == "Ceil" else math.floor
    high = math.floor if value.op == "Floor" else math.ceil
    return Span(x.low if math.isinf(x.low) else low(x.low), x.high if math.isinf(x.high) else high(x.high))


def _logarithm(value: Value, of: Spans) -> Span:
    x = of(value.inputs[0])
    return Span(math.log(x.low) if x.low > 0 else -math.inf, math.log(x.high) if x.high > 0 else math.inf)


def _natural(value: Value, of: Spans) -> Span:
    return Span(0, math.inf)


MOVES = (
    "Identity", "Transpose", "Slice", "Gather", "GatherElements", "GatherND", "Tile", "Split", "Expand", "Reshape",
    "Squeeze", "Unsqueeze", "Flatten", "Compress", "ReverseSequence", "DepthToSpace", "SpaceToDepth",
)  # fmt: skip
"""What holds elements of its first operand and no others."""
ELEMENTWISE = frozenset(("Add", "Sub", "Mul", "Div", "Min", "Max", "Cast", "Log", "Neg", "Abs", "Identity"))
"""Operators each element of whose result is computed of the elements at its place."""
READERS: Mapping[str, Reader] = {
    **dict.fromkeys(MOVES, _moved), **dict.fromkeys(("Shape", "Size", "NonZero", "ArgMax", "ArgMin"), _counted),
    **dict.fromkeys(("Sigmoid", "Softmax", "EyeLike"), _flags), SHAPE_VECTOR: _sizes, "TopK": _place_or_number,
    "Unique": _place_or_number, "Where": _chosen, "Concat": _any_of, "Log": _logarithm, "Trilu": _zero_or_moved,
    "Pad": _padded, **dict.fromkeys(("ScatterElements", "ScatterND"), _written), "Max": _largest, "Min": _smallest,
    "Clip": _clipped, "Relu": _relu, "Abs": _absolute, "Neg": _negated, **dict.fromkeys(("Add", "Sub"), _sum),
    "Mul": _product, "Div": _quotient, "Mod": _remainder, "CumSum": _added_up, "ReduceSum": _added_up,
    "BitwiseAnd": _bits, "BitShift": _shifted, "Range": _ranged, "Cast": _cast,
    **dict.fromkeys(("Floor", "Ceil", "Round"), _whole), **dict.fromkeys(("Sqrt", "Exp"), _natural),
}  # fmt: skip
"""What reads the span of a value, by its operator."""
