"""What a sample of an operator is told: values to build on, and how to choose.

A sampler never rejects. Where no value fits, one is made to fit: a parameter, a constant, or a value cast and expanded.
What an operator could not take at run time (a kernel larger than its input, an index into nothing) is not built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import HALVES, DType, Tensor, Type, dims_of
from irkit.dims import Dim
from irkit.ops.schemas import TYPE_STRINGS, OpSpec, has_schema, spec

F32, F64, F16, I64, I32, U8, BOOL = (
    DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.INT64, DType.INT32, DType.UINT8, DType.BOOL,
)  # fmt: skip

Where = Callable[[Tensor], bool]
"""A condition on the type of a value that is looked for."""

FLOATS = (F32, F32, F32, F64)
INTEGERS = (I64, I64, I32)
NUMBERS = (*FLOATS, I64, I32)
ANY = (*NUMBERS, BOOL)
"""Element types to choose from; the usual ones stand there more often."""

STRING = DType.STRING
BYTES = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
WIDER: Mapping[tuple[DType, ...], tuple[DType, ...]] = {
    FLOATS: (*HALVES, F64),
    INTEGERS: (*BYTES, DType.UINT32, DType.UINT64),
    NUMBERS: (*HALVES, *BYTES, DType.UINT32, DType.UINT64),
    ANY: tuple(DType),
}
"""What else may be drawn in the place of the usual element types, where an operator takes it."""

CASTABLE = tuple(
    d for d in DType if TYPE_STRINGS[d] in spec("Cast").allowed(spec("Cast").outputs[0]) and d is not STRING
)
"""Element types that a Cast of numbers may give; no text, whose digits differ from runtime to runtime."""

NUMBERS_USED = (0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, -2.0, -0.0)
"""What the elements of constants are drawn from."""


@attrs.define(eq=False)
class Sampler:
    """`integer(low, high)` makes every choice: a Hypothesis draw, or a random generator. Low numbers are simple.

    `values` are what may be used, `params` what the graph takes; `sizes` are the dimensions to choose from. `outer` is
    the sampler around a body; `least` is the smallest number of elements or trips. `wide` says whether element types
    beyond the usual ones are drawn; `sample` is the name of the sample that is drawn now.
    """

    integer: Callable[[int, int], int]
    sizes: tuple[Dim, ...] = (2, 1, 3)
    values: list[Value] = attrs.field(factory=list[Value])
    params: list[Value] = attrs.field(factory=list[Value])
    outer: Sampler | None = None
    most_params: int = 6
    least: int = 0
    wide: bool = True
    sample: str = ""

    # -- choices

    def choose(self, options: Sequence[Any]) -> Any:
        """One of the options; the first is the simplest."""
        return options[self.integer(0, len(options) - 1)] if len(options) > 1 else options[0]

    def flag(self) -> bool:
        """True or False."""
        return self.integer(0, 1) == 1

    def rarely(self) -> bool:
        """True about one time in four."""
        return self.integer(0, 3) == 3

    def shape(self, low: int = 0, high: int = 3) -> tuple[Dim, ...]:
        """Dimensions, between `low` and `high` of them."""
        return tuple(self.choose(self.sizes) for _ in range(self.integer(low, high)))

    def static_shape(self, low: int = 0, high: int = 3, least: int = 1) -> tuple[int, ...]:
        """Numbers from `least` to 3."""
        return tuple(self.integer(least, 3) for _ in range(self.integer(low, high)))

    def axis(self, rank: int) -> int:
        """An axis of a tensor of that rank, counted from either end."""
        return self.integer(-rank, rank - 1) if self.flag() else self.integer(0, rank - 1)

    # -- values

    def add(self, *values: Value) -> None:
        """Makes values available."""
        self.values.extend(values)

    def tensor(self, kinds: Sequence[DType] = ANY, low: int = 0, high: int = 4, where: Where | None = None) -> Value:
        """A tensor of one of the element types, with `low` to `high` dimensions; `where` is a condition on its type."""
        kinds = self.widened(kinds, self.sample)
        fitting = [v for v in reversed(self.values) if fits(v.type, kinds, low, high, where)]
        if fitting and not self.rarely():
            return self.choose(fitting[:8])
        kind = self.choose(kinds)
        shape = self.shape(low, min(high, low + 2, 4))
        if where is not None and not where(Tensor(kind, shape)):
            shape = tuple(d if type(d) is int and d > 0 else 2 for d in shape)
        return self.of(kind, shape)

    def widened(self, kinds: Sequence[DType], op: str) -> Sequence[DType]:
        """The element types; now and then others in their place, that the operator takes, too."""
        more = WIDER.get(tuple(kinds), ()) if self.wide and has_schema(op) else ()
        if not more or not self.rarely():
            return kinds
        return [d for d in more if d in taken(op)] or kinds

    def of(self, kind: DType, shape: tuple[Dim, ...]) -> Value:
        """A value of exactly that type."""
        wanted = Tensor(kind, shape)
        fitting = [v for v in reversed(self.values) if v.type == wanted]
        if fitting and not self.rarely():
            return self.choose(fitting[:4])
        ways: list[Callable[[DType, tuple[Dim, ...]], Value]] = []
        if self.binders(shape) is not None and kind in taken("Expand"):
            ways.append(self.expanded)
        if not any(dims.is_fresh(d) for d in shape) and (not ways or self.can_take_params()):
            ways = [self.parameter, self.parameter, *ways]
        if all(type(d) is int for d in shape):
            ways.append(self.constant)
        return self.choose(ways)(kind, shape)

    def binders(self, shape: Sequence[Dim]) -> list[Value] | None:
        """Values whose types bind the symbols of a shape that parameters do not; None where some are not bound."""
        found: list[Value] = []
        by_params = {s for p in self.root.params for d in dims_of(p.type) for s in dims.symbols_of(d)}
        for symbol in dict.fromkeys(s for d in shape for s in dims.symbols_of(d) if s not in by_params):
            holders = [v for v in self.values if any(d is symbol for d in dims_of(v.type))]
            if not holders:
                return None
            found.append(holders[0])
        return found

    def bound_shape(self, low: int, high: int) -> tuple[Dim, ...]:
        """Dimensions of which parameters say what they are."""
        sizes = [d for d in self.sizes if self.binders((d,)) == []]
        return tuple(self.choose(sizes) for _ in range(self.integer(low, high)))

    @property
    def root(self) -> Sampler:
        """The sampler of the outermost graph."""
        top = self
        while top.outer is not None:
            top = top.outer
        return top

    def can_take_params(self) -> bool:
        """True where the graph may have one more parameter."""
        return len(self.root.params) < self.most_params

    def parameter(self, kind: DType, shape: tuple[Dim, ...]) -> Value:
        """A new parameter of the outermost graph."""
        if self.outer is not None:
            found = self.outer.parameter(kind, shape)
            self.values.append(found)
            return found
        found = param(Tensor(kind, shape))
        self.params.append(found)
        self.values.append(found)
        return found

    def constant(self, kind: DType, shape: tuple[Dim, ...]) -> Value:
        """A constant of small numbers."""
        count = int(np.prod([int(d) for d in shape], dtype=np.int64))
        numbers = [self.choose(NUMBERS_USED) for _ in range(min(count, 4))]
        data = np.resize(np.array(numbers or [0.0]), [int(d) for d in shape])
        if kind is STRING:
            return const(np.where(data > 0, "a", "b c").astype(object))
        return const(np.abs(data).astype(kind.numpy) if kind.is_unsigned else data.astype(kind.numpy))

    def expanded(self, kind: DType, shape: tuple[Dim, ...]) -> Value:
        """Some value, made a scalar of that element type, and repeated."""
        scalars = [v for v in reversed(self.values) if fits(v.type, ANY, 0, 0, None)]
        start = self.choose(scalars[:4]) if scalars and kind in CASTABLE else self.constant(kind, ())
        found = cast(start, kind)
        return op.Expand(found, shape_vector(shape, *(self.binders(shape) or ()))) if shape else found

    def broadcastable(self, x: Value) -> Value:
        """A value of the element type of `x` whose shape broadcasts to that of `x`: its own, some of its dimensions 1,
        leading ones left out."""
        if self.flag():
            return self.of(x.dtype, x.shape)
        shape = x.shape[self.integer(0, x.rank) :]
        return self.of(x.dtype, tuple(1 if self.rarely() else d for d in shape))

    def inside(self) -> Sampler:
        """The sampler for a body: it may use all values of this one."""
        return Sampler(self.integer, self.sizes, list(self.values), [], self, self.most_params, self.least, self.wide)


def fits(type_: Type, kinds: Sequence[DType], low: int, high: int, where: Where | None) -> bool:
    """Whether a value of that type will do."""
    if not isinstance(type_, Tensor) or type_.dtype not in kinds or not low <= len(type_.shape) <= high:
        return False
    if any(any(map(dims.is_fresh, dims.symbols_of(d))) and not dims.is_fresh(d) for d in type_.shape):
        return False  # no value of another kind can be made of such a shape
    return where is None or bool(where(type_))


def cast(x: Value, kind: DType) -> Value:
    """`x` in another element type. A float is first brought into a range that every integer type has, since what a
    runtime makes of others differs."""
    if x.dtype is kind:
        return x
    if x.dtype.is_float and kind.is_integer:
        x = op.Clip(op.Where(op.IsNaN(x), np.zeros((), x.dtype.numpy), x), 0.0, 100.0 if kind.bits >= 8 else 1.0)
    return op.Cast(x, to=int(kind))


def taken(op: str) -> frozenset[DType]:
    """The element types that an operator takes for the operand that may have the most of them; all for a constant."""
    return _taken(spec(op))


@lru_cache(maxsize=1 << 12)
def _taken(known: OpSpec) -> frozenset[DType]:
    rows = [known.allowed(formal) for formal in known.inputs] or [frozenset(TYPE_STRINGS.values())]
    most = max(rows, key=len)
    return frozenset(d for d in DType if TYPE_STRINGS[d] in most)


def is_static(type_: Tensor) -> bool:
    """Every dimension is a number above zero."""
    return all(type(d) is int and d > 0 for d in type_.shape)


def has_static_axis(type_: Tensor) -> bool:
    """Some dimension is a number above zero."""
    return any(type(d) is int and d > 0 for d in type_.shape)


def static_axis(s: Sampler, x: Value) -> int:
    """An axis of `x` whose size is a number above zero."""
    return s.choose([i for i, d in enumerate(x.shape) if type(d) is int and d > 0])
