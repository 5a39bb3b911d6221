"""Dimension expressions as ONNX values: read off the shapes of values that are there, and computed once each.

Everything is a vector of int64; one expression is a vector of one element, so that pieces join in a Concat without
Unsqueeze. Where there are several ways, the one with the fewest new nodes wins; the shapes of parameters come before
those of inner values, whose other users a Shape would keep a runtime from fusing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import sympy

from irkit import dims
from irkit.core.blobs import blob
from irkit.core.ir import Value, constant
from irkit.core.origins import NOWHERE, Origin
from irkit.core.types import DType, Tensor, dims_of
from irkit.dims import Dim, Range, reals, signs
from irkit.dims.signs import extent
from irkit.errors import SerializeError
from irkit.ops.schemas import OPSET

ONE = Tensor(DType.INT64, (1,))
"""The type of one expression."""
SHORT = 64
"""Of how many parts a size is at most of which the others are taken away, to tell one symbol."""
INNER = 1.5
"""What a Shape of an inner value counts for, where that of a parameter counts 1."""
PARTIAL = 15
"""The opset from which Shape gives a part of a shape."""
PLACES = 4
"""So many places of one dimension are remembered: each is tried where a run of dimensions is looked for."""

_ROUNDINGS: Mapping[type[sympy.Expr], str] = {
    dims.Floor: "Floor",
    dims.Ceil: "Ceil",
    dims.Round: "Round",
    dims.Trunc: "",
}
"""The operator of ONNX for each way to round; a Cast alone rounds towards zero."""

_OF_REALS: Mapping[Any, str] = {sympy.Add: "Add", sympy.Mul: "Mul", dims.Max: "Max", dims.Min: "Min"}

Segment = tuple[int, int, Any]
"""Where a run of sizes starts and stops, and what gives it."""

Need = Callable[[Dim], Value]


class Sizes:
    """What one graph offers to compute sizes from, and the sizes computed so far. Grows in the order of the graph, so
    that whatever it hands out depends only on values before the one that asks.

    `need` is given in a body: it asks the graph around for an expression that nothing inside binds.
    """

    def __init__(
        self, params: Iterable[Value], ranges: Mapping[str, Range], need: Need | None = None, opset: int = OPSET
    ) -> None:
        self.ranges, self.need, self.opset = ranges, need, opset
        self.origin: Origin = NOWHERE
        self._outer: dict[Dim, list[tuple[Value, int]]] = {}
        self._inner: dict[Dim, list[tuple[Value, int]]] = {}
        self._offered: dict[tuple[Dim, ...], int] = {}
        self._full: dict[int, Tensor] = {}
        self._scalars: dict[sympy.Symbol, Value] = {}
        self._vectors: dict[tuple[Dim, ...], Value] = {}
        self._shapes: dict[tuple[Value, int, int], Value] = {}
        self._params = tuple(params)
        for value in self._params:
            self._offer(value, self._outer)

    # ------------------------------------------------------------------------------------------ what there is

    @cached_property
    def told(self) -> frozenset[str]:
        """The names of the symbols that the types of parameters tell."""
        return frozenset(s.name for value in self._params for d in dims_of(value.type) for s in dims.symbols_of(d))

    def offer(self, value: Value, said: bool = False) -> None:
        """Makes the shape of a value available; where that is only `said`, the sizes that no parameter tells."""
        self._offer(value, self._inner, said)

    def bind(self, symbol: Any, scalar: Value) -> None:
        """Makes a symbol available that is the content of an integer scalar."""
        self._scalars.setdefault(symbol, scalar)

    def scalar(self, symbol: Any) -> Value | None:
        """The scalar whose content a symbol is; None where there is none."""
        return self._scalars.get(symbol)

    def _offer(self, value: Value, places: dict[Dim, list[tuple[Value, int]]], said: bool = False) -> None:
        type_ = value.type
        if id(type_) in self._full or type(type_) is not Tensor:
            return
        if said:
            for axis, size in enumerate(type_.shape):
                if any(symbol.name not in self.told for symbol in dims.symbols_of(size)):
                    places.setdefault(size, []).append((value, axis))
            return
        seen = self._offered.get(type_.shape, 0)
        if seen >= PLACES:
            self._full[id(type_)] = type_
            return
        self._offered[type_.shape] = seen + 1
        for axis, size in enumerate(type_.shape):
            if type(size) is not int:
                known = places.setdefault(size, [])
                if len(known) < PLACES:
                    known.append((value, axis))

    # ------------------------------------------------------------------------------------------ vectors

    def vector(self, sizes: tuple[Dim, ...]) -> Value:
        """The sizes as a vector of int64. Raises SerializeError for a symbol that nothing binds."""
        found = self._vectors.get(sizes)
        if found is None:
            parts = [self._part(sizes, segment) for segment in self._plan(sizes)[1]]
            found = parts[0] if len(parts) == 1 else self._node("Concat", parts, (len(sizes),), axis=0)
            self._vectors[sizes] = found
        return found

    def cost(self, sizes: tuple[Dim, ...]) -> float:
        """How many nodes `vector` would add."""
        return 0 if sizes in self._vectors else self._plan(sizes)[0]

    def _plan(self, sizes: tuple[Dim, ...]) -> tuple[float, list[Segment]]:
        """(cost, segments) of the cheapest way to write `sizes` as pieces: constants, runs of a shape, expressions."""
        if not sizes:
            return 0, [(0, 0, None)]
        runs = self._runs(sizes)
        best: list[tuple[float, list[Segment]]] = [(0, [])]
        for stop in range(1, len(sizes) + 1):
            options: list[tuple[float, list[Segment]]] = []
            for start in range(stop):
                cost, source = self._segment(sizes, start, stop, runs)
                if cost is not None:
                    before, segments = best[start]
                    # A tenth for each piece: fewer pieces where the number of nodes is the same.
                    options.append((before + cost + 0.1, [*segments, (start, stop, source)]))
            best.append(min(options, key=lambda option: option[0]))
        cost, segments = best[-1]
        return cost + (1 if len(segments) > 1 else 0), segments

    def _segment(self, sizes: tuple[Dim, ...], start: int, stop: int, runs: Any) -> tuple[float | None, Any]:
        """(cost, source) of sizes[start:stop] as one piece; (None, None) where it cannot be one."""
        if all(type(size) is int for size in sizes[start:stop]):
            return 0, None
        if sizes[start:stop] in self._vectors:
            return 0, None
        run = runs.get((start, stop))
        alone = (self._expression_cost(sizes[start]), None) if stop - start == 1 else (None, None)
        if run is not None and (alone[0] is None or run[0] <= alone[0]):
            return run
        return alone

    def _part(self, sizes: tuple[Dim, ...], segment: Segment) -> Value:
        start, stop, source = segment
        piece = sizes[start:stop]
        if all(type(size) is int for size in piece):
            return self._constant(piece)
        if piece in self._vectors:
            return self._vectors[piece]
        if source is not None:
            return self._shape(source[0], source[1], source[1] + stop - start)
        return self.expression(piece[0])

    def _runs(self, sizes: tuple[Dim, ...]) -> dict[tuple[int, int], tuple[float, tuple[Value, int]]]:
        """For slices of `sizes` that stand in the shape of some value: the cost and the place of the cheapest."""
        found: dict[tuple[int, int], tuple[float, tuple[Value, int]]] = {}
        for at, size in enumerate(sizes):
            if type(size) is int:
                continue
            for places, price in ((self._outer, 1.0), (self._inner, INNER)):
                for value, axis in places.get(size, ()):
                    shape = value.shape
                    low = at
                    while low > 0 and axis - (at - low) > 0 and sizes[low - 1] == shape[axis - (at - low) - 1]:
                        low -= 1
                    high = at + 1
                    while (
                        high < len(sizes) and axis + high - at < len(shape) and sizes[high] == shape[axis + high - at]
                    ):
                        high += 1
                    for start in range(low, at + 1):
                        for stop in range(at + 1, high + 1):
                            first = axis - (at - start)
                            cost = 0.0 if (value, first, first + stop - start) in self._shapes else price
                            if (start, stop) not in found or cost < found[start, stop][0]:
                                found[start, stop] = cost, (value, first)
        return found

    def _shape(self, value: Value, start: int, stop: int) -> Value:
        """Shape(value)[start:stop]"""
        key = (value, start, stop)
        whole = stop - start == value.rank
        if key not in self._shapes and self.opset < PARTIAL and not whole:
            ends = [self._constant((at,)) for at in (start, stop)]
            self._shapes[key] = self._node("Slice", [self._shape(value, 0, value.rank), *ends], (stop - start,))
        if key not in self._shapes:
            attributes = {
                name: at for name, at, left_out in (("end", stop, value.rank), ("start", start, 0)) if at != left_out
            }
            self._shapes[key] = self._node("Shape", [value], (stop - start,), DType.INT64, **attributes)
        return self._shapes[key]

    def _constant(self, sizes: tuple[Dim, ...]) -> Value:
        if sizes not in self._vectors:
            for size in sizes:
                if type(size) is int and not -(2**63) <= size < 2**63:
                    raise SerializeError(
                        f"a size is computed with the number {size}, which 64 bits do not hold",
                        source=str(self.origin),
                        hint="compute with smaller numbers, or with floats",
                    )
            self._vectors[sizes] = constant(blob(np.array(sizes, dtype=np.int64)))
        return self._vectors[sizes]

    # ------------------------------------------------------------------------------------------ expressions

    def expression(self, size: Dim) -> Value:
        """One size as a vector of one element. Raises SerializeError for a symbol that nothing binds."""
        if type(size) is int:
            return self._constant((size,))
        found = self._vectors.get((size,))
        if found is None:
            found = self._vectors[size,] = self._compute(size)
        return found

    def _compute(self, size: Any) -> Value:
        scalar = self._scalars.get(size)
        if scalar is not None:
            return self._node("Unsqueeze", [scalar, self._constant((0,))])
        place = self._place(size)
        if place is not None and (place[0] <= 1 or size.is_Symbol or self._arithmetic_cost(size) > place[0]):
            value, axis = place[1]
            return self._shape(value, axis, axis + 1)
        if self.need is not None and not any(self._is_bound(s) for s in dims.symbols_of(size)):
            return self.need(size)
        return self._solved(size) if size.is_Symbol else self._arithmetic(size)

    def _place(self, size: Dim) -> tuple[float, tuple[Value, int]] | None:
        """(cost, (value, axis)) of a shape in which a size stands; None where it stands in none."""
        for places, price in ((self._outer, 1.0), (self._inner, INNER)):
            for value, axis in places.get(size, ()):
                return (0.0 if (value, axis, axis + 1) in self._shapes else price), (value, axis)
        return None

    def _is_bound(self, symbol: Any) -> bool:
        return symbol in self._scalars or self._place(symbol) is not None or self._line(symbol) is not None

    def _expression_cost(self, size: Any) -> float:
        """About how many nodes one expression takes."""
        if type(size) is int or (size,) in self._vectors:
            return 0
        place = self._place(size)
        if place is not None and (place[0] <= 1 or size.is_Symbol):
            return place[0]
        if size in self._scalars:
            return 1
        cost = 3.0 if size.is_Symbol else self._arithmetic_cost(size)
        return cost if place is None else min(cost, place[0])

    def _arithmetic_cost(self, size: Any) -> float:
        extra = 2 if isinstance(size, (dims.FloorDiv, dims.Floor, dims.Ceil, dims.Round, dims.Trunc)) else 0
        parts: list[float] = [self._expression_cost(a) if not a.is_number else 0 for a in size.args]
        return sum(parts) + max(len(size.args) - 1, 1) + extra

    def _line(self, symbol: Any, others: bool = True) -> tuple[Dim, int, Dim] | None:
        """(size, slope, rest) of a size that stands in some shape and is slope * symbol + rest, where that is a number,
        or else of other symbols that are bound."""
        candidates: list[Any] = [*self._outer, *self._inner]
        found: tuple[Dim, int, Dim] | None = None
        for size in candidates:
            symbols = dims.symbols_of(size)
            alone = symbols == (symbol,)
            if symbol not in symbols or not (alone or (others and extent(size)[0] <= SHORT)):
                continue
            if not size.is_polynomial(symbol):
                continue
            slope = size.coeff(symbol, 1)
            rest = dims.sub(size, slope * symbol) if slope.is_Integer and sympy.degree(size, symbol) == 1 else symbol
            if type(rest) is int:
                return size, int(slope), rest
            if found is None and symbol not in dims.symbols_of(rest) and all(map(self._stands, dims.symbols_of(rest))):
                found = size, int(slope), rest
        return found

    def _stands(self, symbol: Any) -> bool:
        """Whether a symbol is bound without others."""
        return symbol in self._scalars or self._place(symbol) is not None or self._line(symbol, False) is not None

    def _solved(self, symbol: Any) -> Value:
        """A symbol that stands in no shape by itself: solved from a linear expression that does."""
        line = self._line(symbol)
        if line is None:
            raise SerializeError(
                f"nothing binds the dimension {symbol}: no parameter has it in its shape, and no operand either",
                source=str(self.origin),
                hint="give shape_vector the value whose shape it comes from",
            )
        size, slope, rest = line
        found = self.expression(size)
        if rest != 0:
            found = self._node("Sub", [found, self.expression(rest)])
        return found if slope == 1 else self._node("Div", [found, self._constant((slope,))])

    def _arithmetic(self, size: Any) -> Value:
        """A compound expression of integers."""
        if isinstance(size, sympy.Add):
            return self._sum(size)
        if isinstance(size, (sympy.Mul, sympy.Pow)):
            return self._product(size)
        if isinstance(size, dims.FloorDiv):
            return self._floordiv(*size.args)
        if isinstance(size, dims.Mod):
            return self._node("Mod", [self._of(a) for a in size.args])
        if isinstance(size, (dims.Max, dims.Min)):
            return self._node("Max" if isinstance(size, dims.Max) else "Min", [self._of(a) for a in size.args])
        return self._rounded(size)

    def _of(self, part: Any) -> Value:
        return self.expression(dims.canonical(part))

    def _sum(self, size: Any) -> Value:
        denominator = math.lcm(
            *(int(term.as_coeff_Mul()[0].q) for term in size.args if term.as_coeff_Mul()[0].is_Rational)
        )
        if denominator > 1:  # the sum is an integer where its terms are not: s*(s + 1)/2
            whole = self._of(sympy.expand(size * denominator))
            return self._node("Div", [whole, self._constant((denominator,))])
        plus = [t for t in size.args if not t.could_extract_minus_sign()]
        minus = [-t for t in size.args if t.could_extract_minus_sign()]
        plus.sort(key=lambda t: (t.is_number, sympy.default_sort_key(t)))
        minus.sort(key=sympy.default_sort_key)
        found = self._of(plus[0]) if plus else self._constant((0,))
        for term in plus[1:]:
            found = self._node("Add", [found, self._of(term)])
        for term in minus:
            found = self._node("Sub", [found, self._of(term)])
        return found

    def _product(self, size: Any) -> Value:
        """A product; what it divides by divides it without remainder."""
        top, bottom = sympy.fraction(size)
        found = self._factors(top)
        return found if bottom == 1 else self._node("Div", [found, self._factors(bottom)])

    def _factors(self, product: sympy.Expr) -> Value:
        factors: list[Any] = []
        for factor in sympy.Mul.make_args(product):
            base, exponent = factor.as_base_exp()
            if not exponent.is_Integer or exponent < 1 or exponent > 64:
                raise SerializeError(
                    f"the dimension {product} cannot be written as ONNX arithmetic",
                    hint="name the size in dynamic_shapes, so that it is read off an input",
                )
            factors += [base] * int(exponent)
        factors.sort(key=lambda f: (f.is_number, sympy.default_sort_key(f)))
        found = self._of(factors[0])
        for factor in factors[1:]:
            found = self._node("Mul", [found, self._of(factor)])
        return found

    def _floordiv(self, a: Any, b: Any) -> Value:
        """ONNX's Div of integers rounds towards zero: floor(a / b) is (a - a mod b) / b where a may be negative."""
        top, bottom = self._of(a), self._of(b)
        if a == 1 and self.at_least(b, 0):  # of x * (1 / b) ONNX Runtime makes x / b, also of integers
            return self._node("Neg", [self._node("Div", [self._constant((-1,)), bottom])])
        if self.at_least(a, 0) and self.at_least(b, 0):
            return self._node("Div", [top, bottom])
        return self._node("Div", [self._node("Sub", [top, self._node("Mod", [top, bottom])]), bottom])

    def at_least(self, size: Dim, low: int) -> bool:
        """True where a size is known to be `low` or more."""
        if type(size) is int:
            return size >= low
        if low <= 0 and signs.is_nonnegative(size):
            return True
        return dims.bounds(size, self.ranges).lo >= low

    # ------------------------------------------------------------------------------------------ real numbers

    def _rounded(self, size: sympy.Expr) -> Value:
        """floor, ceil, round or trunc of a real expression, computed in double precision."""
        name = _ROUNDINGS.get(type(size))
        if name is None:
            raise SerializeError(
                f"the dimension {size} cannot be written as ONNX arithmetic",
                source=str(self.origin),
                hint="name the size in dynamic_shapes, so that it is read off an input",
            )
        found = self._real(size.args[0])
        if name:
            found = self._node(name, [found], dtype=DType.DOUBLE)
        return self._node("Cast", [found], to=int(DType.INT64))

    def _real(self, number: Any) -> Value:
        if number.is_Number and not number.is_Integer:
            return constant(blob(np.array([float(number)])))
        if number.is_integer:
            return self._node("Cast", [self._of(number)], dtype=DType.DOUBLE, to=int(DType.DOUBLE))
        if isinstance(number, dims.Double):
            return self._real(number.args[0])
        top, bottom = reals.ratio(number) or reals.fraction(number)
        if bottom != 1:  # once and last, so that it is rounded once
            return self._node("Div", [self._real(top), self._real(bottom)], dtype=DType.DOUBLE)
        operator = _OF_REALS.get(type(number))
        if operator is not None:
            return self._folded(operator, number.args)
        if isinstance(number, sympy.Pow):
            return self._real_power(*number.args)
        if isinstance(number, dims.Mod):
            return self._remainder(*number.args)
        raise SerializeError(
            f"the number {number} cannot be written as ONNX arithmetic",
            source=str(self.origin),
            hint="name the size in dynamic_shapes, so that it is read off an input",
        )

    def _real_power(self, base: Any, exponent: Any) -> Value:
        if exponent == sympy.S.Half:
            return self._node("Sqrt", [self._real(base)], dtype=DType.DOUBLE)
        if exponent == 2:
            return self._node("Mul", [self._real(base)] * 2, dtype=DType.DOUBLE)
        return self._node("Pow", [self._real(base), self._real(exponent)], dtype=DType.DOUBLE)

    def _remainder(self, a: Any, b: Any) -> Value:
        """a % b with the sign of b, as Python's; Mod of floats has the sign of a."""
        top, bottom = self._real(a), self._real(b)
        rest = self._node("Mod", [top, bottom], dtype=DType.DOUBLE, fmod=1)
        if self.at_least(a, 0) and self.at_least(b, 0):
            return rest
        below = [self._node("Mul", [rest, bottom], dtype=DType.DOUBLE), self._real(sympy.Float(0))]
        wrong = self._node("Less", below, dtype=DType.BOOL)
        moved = self._node("Add", [rest, bottom], dtype=DType.DOUBLE)
        return self._node("Where", [wrong, moved, rest], dtype=DType.DOUBLE)

    def _folded(self, op: str, parts: Iterable[sympy.Expr]) -> Value:
        ordered = sorted(parts, key=lambda p: (p.is_number, sympy.default_sort_key(p)))
        found = self._real(ordered[0])
        for part in ordered[1:]:
            found = self._node(op, [found, self._real(part)], dtype=DType.DOUBLE)
        return found

    def _node(
        self, op: str, inputs: list[Value], shape: tuple[int, ...] = (1,), dtype: DType = DType.INT64, **attributes: int
    ) -> Value:
        """A new value. Its type is known here, so that no type rule is asked."""
        type_ = ONE if shape == (1,) and dtype is DType.INT64 else Tensor(dtype, shape)
        return Value(op, tuple(inputs), tuple(sorted(attributes.items())), (), type_, self.origin)
