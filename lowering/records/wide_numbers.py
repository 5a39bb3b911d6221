"""Integers out of data that a graph computes with in 64 bits, and Python without an end: conditions that they fit.

`n = int(x.sum())`, `y * (n * n)`: where 64 bits do not hold the product eager raises, or goes on with a greater number;
in the graph it would wrap around. What made a number tells how great it can be: places, counts, and what is of a
narrower type cannot go that far, of which nothing is asked. Nor is it of what a loop counts, which never makes so
many rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sympy

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core import walk
from irkit.core.ir import Value
from irkit.core.types import DType, dims_of
from irkit.core.vocabulary import SHAPE_VECTOR
from irkit.dims import Range, notation
from irkit.dims.functions import interval
from irkit.errors import AbsentError
from lowering.records.wide_sizes import LONG, MOST, RING, Limits, ends_of
from lowering.tensors.promotion import cast, fold_left
from passes.analysis.spans import span_of

LEAST = -MOST - 1
FITTING = float(MOST - (1 << 20))
"""64 bits hold an integer whose terms add up to less in doubles: roundings count for less than what this leaves out."""


def wide_numbers(
    roots: Sequence[Value], params: Sequence[Value], known: Mapping[str, Range], guards: Iterable[Any], *, inside: bool
) -> Iterator[tuple[str, Value, str]]:
    """(text, condition, line) for the numbers of which values are computed, where data has a say in them and 64 bits
    may not hold them. `known` are the ranges of sizes and numbers that `params` tell, `guards` conditions that hold;
    `inside` says that the values are those of a body."""
    order = walk.post_order(roots)
    vectors = [v for v in order if v.op == SHAPE_VECTOR and v.inputs and any(map(is_computed, v.attribute("dims")))]
    if not vectors:
        return
    told = {dims.label(s) for param in params for d in dims_of(param.type) for s in dims.symbols_of(d)} | known.keys()
    limits = Limits(narrowed_ends(ends_by_name(vectors, known), guards), (tuple(params), tuple(order)))
    said = set[str]()
    for vector in vectors:
        for part in (part for size in vector.attribute("dims") for part in wide_parts(limits, size, inside)):
            text = f"64 bits hold {notation.text(part)}"
            if text not in said and not told.issuperset(map(dims.label, dims.symbols_of(part))):
                said.add(text)
                yield text, holding(vector, part, limits), vector.origin.source


def ends_by_name(vectors: Sequence[Value], known: Mapping[str, Range]) -> dict[str, Range]:
    """Between which numbers the symbols of vectors of sizes are."""
    found = {name: ends_of(each) for name, each in known.items()}
    for vector in vectors:
        for symbol, value in numbers_of(vector).items():
            name = dims.label(symbol)
            if name in known and known[name].hi is None:  # a number among the inputs
                found[name] = Range(known[name].lo, MOST)
            found.setdefault(name, range_of(value))
        for symbol in (s for d in vector.attribute("dims") for s in dims.symbols_of(d)):
            found.setdefault(dims.label(symbol), Range(0, LONG))
    return found


def is_computed(size: Any) -> bool:
    """Whether a size is neither a number nor a symbol alone."""
    return type(size) is not int and not size.is_Symbol


def numbers_of(vector: Value) -> dict[Any, Any]:
    """The scalars whose content the symbols of a vector of sizes stand for."""
    symbols = vector.attribute("scalars", ())
    return dict(zip(symbols, vector.inputs[len(vector.inputs) - len(symbols) :], strict=True))


def range_of(value: Value) -> Range:
    """Between which numbers an integer of a tensor is, by what made it."""
    try:
        span = span_of(value)
    except AbsentError:  # of a model without numbers, which cannot be run
        return Range(LEAST, MOST)
    return Range(LEAST if span.low <= LEAST else int(span.low), MOST if span.high >= MOST else int(span.high))


def narrowed_ends(ends: Mapping[str, Range], guards: Iterable[Any]) -> dict[str, Range]:
    """The same, as far as conditions leave them that a symbol is no greater, or no less, than something."""
    found = dict(ends)
    for guard in guards:
        if not isinstance(guard, sympy.Ge | sympy.Le | sympy.Gt | sympy.Lt):
            continue
        sides: Any = guard.args
        about = {s for side in sides for s in dims.symbols_of(side)}
        found |= {dims.label(s): Range(0, LONG) for s in about if s.is_nonnegative and dims.label(s) not in found}
        if not all(s.is_integer and dims.label(s) in found for s in about):
            continue
        up = isinstance(guard, sympy.Ge | sympy.Gt)
        for symbol, other, above in ((*sides, up), (*reversed(sides), not up)):
            if symbol.is_Symbol:
                known, (low, high) = found[dims.label(symbol)], interval(other, found)
                low = max(known.lo, low) if above else known.lo
                high = known.hi if above or known.hi is None else min(known.hi, high)
                if high is None or low <= high:
                    found[dims.label(symbol)] = Range(int(low), high if high is None else int(high))
    return found


def wide_parts(limits: Limits, expr: Any, inside: bool) -> Iterator[Any]:
    """The outermost parts of an expression that 64 bits may not hold: sums and products, but for a sum of which an
    extreme is a part, as places counted from the end are, and for one that only counts `inside` a body."""
    if type(expr) is int:
        return
    if isinstance(expr, dims.FloorDiv) and limits.span(expr.args[0])[0] < 0:  # the remainder is taken off it before
        sides: Any = expr.args
        top, bottom = sides
        yield from (part for each in (top - bottom + 1, bottom) for part in wide_parts(limits, each, inside))
        return
    if isinstance(expr, sympy.Pow) and expr.exp.is_Rational and expr.exp < 1:  # a root is less than what it is of
        yield from wide_parts(limits, expr.base, inside)
        return
    if isinstance(expr, RING):
        expr = expr * common_denominator(expr)
        low, high = limits.span(expr)
        counts = all(term.is_Number or abs(term.as_coeff_Mul()[0]) == 1 for term in sympy.Add.make_args(expr))
        if (low < LEAST or high > MOST) and not (expr.is_Add and (expr.has(dims.Min, dims.Max) or (inside and counts))):
            yield expr
            return
    for part in expr.args:
        yield from wide_parts(limits, part, inside)


def common_denominator(expr: Any) -> int:
    """By what a sum of fractions is divided once it is computed: that of n**2/2 + n/2 is 2."""
    found: list[Any] = [term.as_coeff_Mul()[0] for term in sympy.Add.make_args(expr)]
    return math.lcm(*(int(each.q) for each in found if each.is_Rational))


# ---------------------------------------------------------------------------------------------- as values


def holding(vector: Value, expr: Any, limits: Limits) -> Value:
    """Whether 64 bits hold a sum of products, for the numbers that bind the symbols of a vector of sizes: of a multiple
    of a number, and what is small beside it, by the ends of that number, else in doubles."""
    terms = sympy.Add.make_args(expr)
    wide = [term.as_coeff_Mul() for term in terms if not term.is_Number and max(map(abs, limits.span(term))) > LONG]
    if len(wide) == 1 and wide[0][1].is_Symbol and wide[0][0].is_Integer:
        factor, symbol = int(wide[0][0]), wide[0][1]
        rest = limits.span(expr - factor * symbol)
    else:
        factor, symbol, rest = 0, None, (-math.inf, math.inf)
    if factor and all(map(math.isfinite, rest)):
        low, high = map(int, rest)
        below, above = (low - LEAST) // abs(factor), (MOST - high) // abs(factor)
        ends = (-below, above) if factor > 0 else (-above, below)
        return between(number_in(vector, symbol), limits.span(symbol), *ends)
    found = [in_doubles(vector, term) for term in terms]
    sizes = [op.Abs(each) if limits.span(term)[0] < 0 else each for each, term in zip(found, terms, strict=True)]
    return op.Less(fold_left(op.Add, sizes), const(FITTING, "f64"))


def between(number: Value, span: tuple[float, float], low: int, high: int) -> Value:
    """Whether a number in a span is between two ends, of which it may pass one or both."""
    asked: list[Value] = []
    if span[0] < low:
        asked.append(op.GreaterOrEqual(number, const(low, "i64")))
    if span[1] > high:
        asked.append(op.LessOrEqual(number, const(high, "i64")))
    return fold_left(op.And, asked)


def in_doubles(vector: Value, expr: Any) -> Value:
    """A product in doubles; what is no product is computed as it is, and asked about by itself."""
    if expr.is_Rational or expr.is_Float:
        return const(float(expr), "f64")
    if isinstance(expr, dims.Double):
        return in_doubles(vector, expr.args[0])
    if isinstance(expr, sympy.Mul):
        return fold_left(op.Mul, [in_doubles(vector, part) for part in expr.args])
    if isinstance(expr, sympy.Pow):
        return op.Pow(*(in_doubles(vector, part) for part in expr.args))
    if isinstance(expr, sympy.Add):
        return fold_left(op.Add, [op.Abs(in_doubles(vector, part)) for part in expr.args])
    return cast(number_in(vector, expr), DType.DOUBLE)


def number_in(vector: Value, expr: Any) -> Value:
    """An expression as an integer, by what binds the symbols of a vector of sizes."""
    numbers = numbers_of(vector)
    if expr in numbers:
        return numbers[expr]
    own = dims.symbols_of(expr)
    scalars = {symbol: numbers[symbol] for symbol in own if symbol in numbers}
    by_type = [v for v in vector.inputs[: len(vector.inputs) - len(numbers)] if v and set(dims_of(v.type)) & set(own)]
    made = shape_vector((expr,), *by_type, scalars=scalars)
    return op.Squeeze(made, const([0], "i64")) if made.inputs else dim_scalar(expr)
