"""Arithmetic that reads alike for real and for complex tensors: what algorithms of linear algebra are written in.

A complex value is a Pair of `lowering.tensors.complex_pairs`; every function here takes and gives real values or Pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from irkit.build import call, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors import complex_numbers, shaping
from lowering.tensors.complex_numbers import conjugate, modulus, product
from lowering.tensors.complex_pairs import PARTS, pair, parts
from lowering.tensors.pieces import full
from lowering.tensors.pieces import swap as swapped
from lowering.tensors.promotion import scalar


def part_type(x: Value) -> DType:
    """The element type of x, or of the parts of x."""
    return PARTS.get(x.dtype, x.dtype)


def each(function: Callable[..., Value], x: Value, *args: Any, **kwargs: Any) -> Value:
    """`function(x, ...)` for what moves elements or is linear: applied to both parts of a complex x."""
    if not x.dtype.is_complex:
        return function(x, *args, **kwargs)
    a, b = parts(x)
    return pair(function(a, *args, **kwargs), function(b, *args, **kwargs))


def together(function: Callable[[Value, Value], Value], x: Value, y: Value) -> Value:
    """`function(x, y)`, applied to the real and to the imaginary parts where one is complex."""
    if not x.dtype.is_complex and not y.dtype.is_complex:
        return function(x, y)
    (a, b), (c, d) = parts(x), parts(y)
    return pair(function(a, c), function(b, d))


def number(real: Any, like: Value) -> Value:
    """A real number as a scalar of the type of `like`."""
    made = scalar(real, part_type(like))
    return pair(made, scalar(0, made.dtype)) if like.dtype.is_complex else made


def zeros(shape: Sequence[Dim], like: Value) -> Value:
    """0 everywhere, in the type of `like`."""
    made = full(0, shape, part_type(like))
    return pair(made, made) if like.dtype.is_complex else made


def whole(x: Value, like: Value) -> Value:
    """A real x in the type of `like`."""
    return pair(x, shaping.expand(scalar(0, x.dtype), x.shape)) if like.dtype.is_complex else x


# ---------------------------------------------------------------------------------------------- movement


def reshape(x: Value, shape: Sequence[Dim]) -> Value:
    """The elements of x, in order, under new dimensions."""
    return each(shaping.reshape, x, tuple(shape))


def expand(x: Value, shape: Sequence[Dim]) -> Value:
    """x repeated along dimensions of size 1, and new leading ones."""
    return each(shaping.expand, x, tuple(shape))


def unsqueeze(x: Value, *where: int) -> Value:
    """x with dimensions of size 1 at those places of the result."""
    return each(shaping.unsqueeze, x, *where)


def squeeze(x: Value, *where: int) -> Value:
    """x without those dimensions, which have size 1."""
    return each(shaping.squeeze, x, *where)


def slice_axis(x: Value, dim: int, start: Dim | None, stop: Dim | None) -> Value:
    """x[start:stop] along one axis."""
    return each(shaping.slice_axis, x, dim, start, stop)


def permute(x: Value, order: Sequence[int]) -> Value:
    """Axis i of the result is axis order[i] of x."""
    return each(shaping.permute, x, tuple(order))


def swap(x: Value) -> Value:
    """The transposes of matrices."""
    return each(swapped, x)


def adjoint(x: Value) -> Value:
    """The conjugate transposes of matrices."""
    return swap(conj(x))


def take(x: Value, index: Value, axis: int) -> Value:
    """x at an index, or at a vector of them, along one axis."""
    return each(op.Gather, x, index, axis=axis)


def rows_in(x: Value, order: Value) -> Value:
    """The rows of matrices in another order for each.  x: (b, n, m); order: (b, n)."""
    return each(op.GatherElements, x, shaping.expand(shaping.unsqueeze(order, 2), x.shape), axis=1)


def columns_in(x: Value, order: Value) -> Value:
    """The columns of matrices in another order for each.  x: (b, n, m); order: (b, m)."""
    return each(op.GatherElements, x, shaping.expand(shaping.unsqueeze(order, 1), x.shape), axis=2)


def triangle(x: Value, upper: bool, offset: int = 0) -> Value:
    """One triangle of matrices, from a diagonal on, zeros elsewhere."""
    return each(op.Trilu, x, shaping.ints_scalar(offset), upper=int(upper))


def beside(x: Value, y: Value) -> Value:
    """Matrices side by side.  (*, n, m), (*, n, k) -> (*, n, m + k)"""
    return together(lambda a, b: op.Concat(a, b, axis=-1), x, y)


def where(flag: Value, x: Value, y: Value) -> Value:
    """x where the flag holds, else y."""
    return together(lambda a, b: op.Where(flag, a, b), x, y)


# ---------------------------------------------------------------------------------------------- numbers


def add(x: Value, y: Value) -> Value:
    """x + y"""
    return together(op.Add, x, y)


def sub(x: Value, y: Value) -> Value:
    """x - y"""
    return together(op.Sub, x, y)


def bilinear(function: Callable[[Value, Value], Value], x: Value, y: Value) -> Value:
    """A product of real tensors as one of complex tensors; two products where one operand is real, else four."""
    if not y.dtype.is_complex:
        return each(function, x, y)
    if not x.dtype.is_complex:
        return each(lambda v: function(x, v), y)
    return pair(*product(parts(x), parts(y), function))


def mul(x: Value, y: Value) -> Value:
    """x * y"""
    return bilinear(op.Mul, x, y)


def matmul(x: Value, y: Value) -> Value:
    """x @ y"""
    return bilinear(op.MatMul, x, y)


def div(x: Value, y: Value) -> Value:
    """x / y"""
    if not y.dtype.is_complex:
        return each(op.Div, x, y)
    size = taxicab(y)  # squares of what has about size 1 neither overflow nor vanish; a pivot has one reciprocal
    unit = parts(each(op.Div, y, size))
    bottom = op.Mul(complex_numbers.squared_modulus(unit), size)
    return mul(x, each(op.Div, pair(*conjugate(unit)), bottom))


def conj(x: Value) -> Value:
    """The conjugates; x itself where it is real."""
    return pair(*conjugate(parts(x))) if x.dtype.is_complex else x


def real(x: Value) -> Value:
    """The real part."""
    return parts(x)[0] if x.dtype.is_complex else x


def imaginary(x: Value) -> Value:
    """The imaginary part."""
    return parts(x)[1]


def taxicab(x: Value) -> Value:
    """|real| + |imaginary|, by which LAPACK looks for pivots."""
    return op.Add(*map(op.Abs, parts(x))) if x.dtype.is_complex else op.Abs(x)


def squared_modulus(x: Value) -> Value:
    """The squares of absolute values."""
    return complex_numbers.squared_modulus(parts(x)) if x.dtype.is_complex else op.Mul(x, x)


def absolute(x: Value) -> Value:
    """Absolute values."""
    return modulus(parts(x)) if x.dtype.is_complex else op.Abs(x)


# ---------------------------------------------------------------------------------------------- loops


def scan(
    step: Callable[..., tuple[Value, ...]],
    states: Sequence[Value],
    elements: Sequence[Value],
    *,
    backward: bool = False,
) -> tuple[Value, ...]:
    """A Scan over the first axis of `elements`, from the last on where `backward`: the last states, and what each step
    gave beyond its states, stacked. `step(*states, *elements)` gives new states and then results."""
    kinds: list[bool] = []  # of what a step gives back: True for a pair

    def body(*flat: Value) -> tuple[Value, ...]:
        made = step(*whole_again(flat, [v.dtype.is_complex for v in (*states, *elements)]))
        kinds[:] = [v.dtype.is_complex for v in made]
        return flat_parts(made)

    given, over = flat_parts(states), flat_parts(elements)
    attributes: dict[str, Any] = {"num_scan_inputs": len(over), "body": body}
    if backward:
        attributes["scan_input_directions"] = [1] * len(over)
    found = call("Scan", [*given, *over], attributes)
    return whole_again(found if isinstance(found, tuple) else (found,), kinds)


def flat_parts(values: Sequence[Value]) -> tuple[Value, ...]:
    """The values, both parts for each complex one."""
    return tuple(part for v in values for part in (parts(v) if v.dtype.is_complex else (v,)))


def whole_again(flat: Sequence[Value], kinds: Sequence[bool]) -> tuple[Value, ...]:
    """The values out of their parts; `kinds` says which are complex."""
    rest = iter(flat)
    return tuple(pair(next(rest), next(rest)) if is_pair else next(rest) for is_pair in kinds)
