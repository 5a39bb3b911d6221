"""torch's type promotion, in one place: which element type operands meet in, and operands brought to it.

An operand is a tensor (a `Value`), a Python number, or a symbolic expression (a SymInt, SymFloat or SymBool as sympy).
torch ranks operands in three categories: tensors with dimensions, tensors without, and numbers. A lower category
decides only where its kind of number (bool < integer < float < complex) is above that of every higher category.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import sympy

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType
from irkit.dims import Dim, reals
from lowering.errors import Unsupported

Number = bool | int | float | complex | sympy.Basic
"""A Python number, or a sympy expression that stands for one."""

Operand = Value | Number

DEFAULT = DType.FLOAT
"""What torch makes of a Python float, and of integers where a float is needed."""

NONE: Mapping[Any, Value] = MappingProxyType({})
_KIND = {DType.BOOL: 0}
_SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
_WIDE = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE)
_LONE = (DType.UINT16, DType.UINT32, DType.UINT64)  # torch promotes these to floats only


class ComplexHalf:
    """The type of complex numbers of float16, in the place of an element type.

    ONNX has none, so it never gets into a graph: it is the type of a pair while a program is lowered.
    """

    short, bits = "c32", 32
    is_float = is_integer = is_unsigned = False
    is_complex = True

    def __repr__(self) -> str:
        return "COMPLEX32"


COMPLEX32: Any = ComplexHalf()
"""torch.complex32"""

_COMPLEX = (COMPLEX32, DType.COMPLEX64, DType.COMPLEX128)
_COMPLEX_OF = {DType.FLOAT16: COMPLEX32, DType.DOUBLE: DType.COMPLEX128}


def complex_of(dtype: DType) -> DType:
    """The complex type that torch gives numbers of a float type. Raises Unsupported where torch has none."""
    if dtype not in _WIDE:
        raise Unsupported(f"torch has no complex numbers of {dtype.short}")
    return _COMPLEX_OF.get(dtype, DType.COMPLEX64)


def kind(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype.is_integer:
        return 1
    return 2 if dtype.is_float else 3 if dtype.is_complex else _KIND[dtype]


def promote_types(a: DType, b: DType) -> DType:
    """The smallest element type that holds both, as `torch.promote_types`. Raises Unsupported where torch has none."""
    if a is b:
        return a
    if kind(a) > kind(b):
        a, b = b, a
    if (a.is_float and a not in _WIDE) or (b.is_float and b not in _WIDE):
        raise Unsupported(f"torch does not promote {a.short} and {b.short}")
    if b.is_complex:
        if a in _LONE:
            raise Unsupported(f"torch does not promote {a.short} and {b.short}")
        wide = a if a.is_complex else complex_of(a) if a.is_float else COMPLEX32
        return max(wide, b, key=_COMPLEX.index)
    if a.is_float:
        return DType.DOUBLE if DType.DOUBLE in (a, b) else DType.FLOAT
    if b.is_float:
        return b
    if a in _LONE or b in _LONE:
        raise Unsupported(f"torch does not promote {a.short} and {b.short}")
    if a is DType.BOOL:
        return b
    if DType.UINT8 in (a, b):
        other = b if a is DType.UINT8 else a
        return DType.INT16 if other is DType.INT8 else other
    return max(a, b, key=_SIGNED.index)


def number_dtype(number: Number) -> DType:
    """The element type that torch gives a lone number: bool, i64, f32 or c64."""
    if isinstance(number, bool) or is_truth(number):
        return DType.BOOL
    if isinstance(number, int) or (isinstance(number, sympy.Expr) and number.is_integer):
        return DType.INT64
    return DType.COMPLEX64 if isinstance(number, complex) else DEFAULT


def is_truth(number: Any) -> bool:
    """True for a sympy expression that is a comparison or a combination of comparisons (a SymBool)."""
    return isinstance(number, sympy.logic.boolalg.Boolean) and not isinstance(number, sympy.Symbol)


def result_dtype(*operands: Operand) -> DType:
    """The element type that an operator computes in, as `torch.result_type`."""
    found: list[DType | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Value):
            category, dtype = (0 if operand.rank else 1), operand.dtype
        else:
            category, dtype = 2, number_dtype(operand)
        held = found[category]
        found[category] = dtype if held is None else promote_types(held, dtype)
    result = combined(combined(found[0], found[1]), found[2])
    if result is None:
        raise Unsupported("there is no operand to take an element type from")
    return result


def combined(high: DType | None, low: DType | None) -> DType | None:
    """The element type of a category and a lower one, either of which may be absent."""
    if high is None or low is None:
        return low if high is None else high
    if high.is_complex:
        return high
    if high.is_float:
        return complex_of(high) if low.is_complex else high
    if high in _LONE and low.is_complex:
        return low
    if high is DType.BOOL or low.is_float or low.is_complex:
        return promote_types(high, low)
    return high


def is_beyond(operand: Operand, dtype: DType) -> bool:
    """True for a lone number that a half type does not hold, or not with all its digits, and torch computes with in
    f32: one above its largest or below its smallest normal number, a symbolic one, a scalar of a wider type."""
    if dtype not in HALVES:
        return False
    if isinstance(operand, Value):
        known = operand.blob
        if operand.rank or operand.dtype in (*HALVES, DType.BOOL):
            return False
        return known is None or is_beyond(known.array.item(), dtype)
    if not isinstance(operand, int | float):
        return not isinstance(operand, complex)
    about: Any = ml_dtypes.finfo(dtype.numpy)
    size = abs(operand)
    return 0 < size < float(about.smallest_normal) or float(about.max) < size < np.inf


def in_digits(*operands: Operand) -> tuple[tuple[Value, ...], DType]:
    """(the operands promoted, the element type of the result): in f32 where a half type does not hold a number among
    them, so that one result is rounded to it, as torch does."""
    dtype = result_dtype(*operands)
    if any(is_beyond(x, dtype) for x in operands):
        return promote(*operands, to=DType.FLOAT), dtype
    return promote(*operands, to=dtype), dtype


def promote(*operands: Operand, to: DType | None = None) -> tuple[Value, ...]:
    """The operands as tensors of one element type: `to`, or the one that torch computes in."""
    dtype = result_dtype(*operands) if to is None else to
    return tuple(cast(x, dtype) if isinstance(x, Value) else scalar(x, dtype) for x in operands)


def cast(x: Value, dtype: DType) -> Value:
    """x with elements of `dtype`; x itself where it has them. Floats become integers by truncation. What 8 bits do not
    hold is infinity or NaN, as torch has it, but for float8_e4m3fn, where torch gives the largest number."""
    if x.dtype is dtype:
        return x
    return op.Cast(x, to=int(dtype), saturate=0) if dtype in UNBOUNDED else op.Cast(x, to=int(dtype))


UNBOUNDED = frozenset((DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ))
"""Element types to which torch casts what they do not hold as infinity or NaN."""


def to_float(x: Value) -> Value:
    """x as floating point: integers and bools become f32."""
    return cast(x, DEFAULT) if x.dtype.is_integer or x.dtype is DType.BOOL else x


def floating_all(*operands: Operand) -> tuple[Value, ...]:
    """The operands promoted, and to f32 where that gives an integer or bool."""
    dtype = result_dtype(*operands)
    return promote(*operands, to=DEFAULT if dtype.is_integer or dtype is DType.BOOL else dtype)


def sum_dtype(x: Value, dtype: DType | None = None) -> DType:
    """What sums and products are computed in and returned as: `dtype`, else i64 for integers and bools."""
    if dtype is not None:
        return dtype
    return DType.INT64 if x.dtype.is_integer or x.dtype is DType.BOOL else x.dtype


def truth(x: Value) -> Value:
    """x != 0, as bool (NaN is true)."""
    return cast(x, DType.BOOL)


# ---------------------------------------------------------------------------------------------- numbers


def scalar(number: Number, dtype: DType, numbers: Mapping[Any, Value] = NONE) -> Value:
    """A number as a tensor without dimensions. A symbolic one becomes arithmetic on dimensions, in float64 where it is
    no integer; `numbers` are the scalars that symbols stand for which are no integers."""
    if not isinstance(number, sympy.Basic):
        return const(filled((), number, dtype))
    if number.is_number and not is_truth(number):
        return const(filled((), int(number) if number.is_integer else float(number), dtype))  # type: ignore[arg-type]
    return cast(symbolic(number, numbers), dtype)


def filled(shape: tuple[int, ...], number: Any, dtype: DType) -> np.ndarray:
    """An array of one number, wrapped around where an integer type cannot hold it."""
    array = np.array(number)
    if dtype.is_integer and array.dtype.kind == "f":
        array = np.array(int(number))
    if dtype.is_integer and array.dtype == object:
        array = np.array(int(number) & (2**64 - 1), dtype=np.uint64)
    with np.errstate(over="ignore"):  # what a float type does not hold is infinite
        return np.broadcast_to(array.astype(dtype.numpy), shape).copy()


def symbolic(expr: Any, numbers: Mapping[Any, Value] = NONE) -> Value:
    """A sympy expression as a tensor without dimensions: i64 for an integer, bool for a comparison, else f64.

    Raises Unsupported for what ONNX cannot say, and for a symbol that is neither an integer nor one of `numbers`.
    """
    if expr in (sympy.true, sympy.false):
        return const(np.array(bool(expr)))
    if is_truth(expr):
        return comparison(expr, numbers)
    if expr in numbers:
        return numbers[expr]
    if expr.is_integer and not expr.is_Float and not expr.free_symbols & numbers.keys():  # sympy: 0.0 is an integer
        return dim_scalar(dims.dim(expr))
    if expr.is_number:
        if expr is sympy.zoo:
            raise Unsupported("a number that is divided by 0, where Python ends with an error")
        return const(np.array(float(dims.number_of(expr, {}))))
    top, bottom = reals.ratio(expr) or reals.fraction(expr)
    if bottom != 1:  # n / 3 is rounded once, n * (1 / 3) twice
        return op.Div(*(cast(symbolic(part, numbers), DType.DOUBLE) for part in (top, bottom)))
    return of_parts(expr, [cast(symbolic(part, numbers), DType.DOUBLE) for part in expr.args])


def of_parts(expr: Any, parts: list[Value]) -> Value:
    """An expression over its parts in double precision."""
    if isinstance(expr, dims.Double):
        return parts[0]
    if isinstance(expr, dims.Mod):
        return python_remainder(*parts)
    if isinstance(expr, sympy.Add):
        return fold_left(op.Add, parts)
    if isinstance(expr, sympy.Mul):
        return fold_left(op.Mul, parts)
    if isinstance(expr, sympy.Pow):
        return power(expr, parts)
    rounding = _FUNCTIONS.get(kind_of(expr))
    if rounding is not None:
        return fold_left(getattr(op, rounding), parts) if len(parts) > 1 else getattr(op, rounding)(*parts)
    raise Unsupported(f"the symbolic number {expr} has no ONNX form")


_FUNCTIONS = {
    "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "tanh": "Tanh", "sinh": "Sinh",
    "cosh": "Cosh", "asin": "Asin", "acos": "Acos", "atan": "Atan", "Abs": "Abs", "Max": "Max", "Min": "Min",
    "sqrt": "Sqrt",
}  # fmt: skip


def python_remainder(a: Value, b: Value) -> Value:
    """a % b of floats with the sign of b."""
    rest = op.Mod(a, b, fmod=1)
    return op.Where(op.Less(op.Mul(rest, b), const(np.array(0.0))), op.Add(rest, b), rest)


def power(expr: Any, parts: list[Value]) -> Value:
    """base ** exponent, by the cheapest operator."""
    exponent = expr.args[1]
    if exponent == 2:
        return op.Mul(parts[0], parts[0])
    return op.Sqrt(parts[0]) if exponent == sympy.S.Half else op.Pow(*parts)


_COMPARISONS = {
    "StrictLessThan": "Less", "LessThan": "LessOrEqual", "StrictGreaterThan": "Greater",
    "GreaterThan": "GreaterOrEqual", "Equality": "Equal", "And": "And", "Or": "Or", "Xor": "Xor", "Not": "Not",
}  # fmt: skip


def kind_of(expr: Any) -> str:
    """The name of a sympy function or relation: `StrictLessThan`."""
    return type(expr).__name__


def is_too_wide(number: Any) -> bool:
    """True for an integer that no 64 bits hold, on one side of all that they do."""
    return bool(getattr(number, "is_Integer", False)) and not -(2**63) <= int(number) < 2**63


def within(relation: Any) -> Any:
    """A relation of an integer of 64 bits to one that is beyond, as a relation to the end of these: the first is still
    computed, so that it is asked whether 64 bits hold it."""
    one, end = relation.lhs, 2**63 - 1 if relation.rhs > 0 else -(2**63)
    if isinstance(relation, sympy.Eq | sympy.Ne):
        return relation.func(one, -(2**63), evaluate=False)
    below = isinstance(relation, sympy.StrictLessThan | sympy.LessThan)
    kinds = (sympy.StrictGreaterThan, sympy.LessThan) if end > 0 else (sympy.GreaterThan, sympy.StrictLessThan)
    return kinds[below](one, end, evaluate=False)


def comparison(expr: Any, numbers: Mapping[Any, Value] = NONE) -> Value:
    """A sympy truth value as a bool."""
    if isinstance(expr, sympy.Rel) and is_too_wide(expr.lhs) and expr.rhs.is_integer:
        return comparison(expr.reversed, numbers)
    if isinstance(expr, sympy.Rel) and is_too_wide(expr.rhs) and expr.lhs.is_integer:
        return comparison(within(expr), numbers)
    parts = [symbolic(part, numbers) for part in expr.args]
    if isinstance(expr, sympy.Rel):
        both = promote(*parts, to=result_dtype(*parts))
        return (
            op.Not(op.Equal(*both)) if isinstance(expr, sympy.Ne) else getattr(op, _COMPARISONS[kind_of(expr)])(*both)
        )
    name = _COMPARISONS.get(kind_of(expr))
    if name is None:
        raise Unsupported(f"the symbolic truth value {expr} has no ONNX form")
    return op.Not(*parts) if name == "Not" else fold_left(getattr(op, name), parts)


def fold_left(function: Any, parts: list[Value]) -> Value:
    """function(function(a, b), c)..."""
    result = parts[0]
    for part in parts[1:]:
        result = function(result, part)
    return result


def is_static(*numbers: Any) -> bool:
    """True where every number is a Python number (no symbolic expression)."""
    return not any(isinstance(n, sympy.Basic) for n in numbers)


def as_dim(number: Dim | float) -> Dim:
    """An integer-valued number as a dimension. Raises Unsupported for any other."""
    if isinstance(number, float):
        if number != int(number):
            raise Unsupported(f"{number} is not a whole number")
        return int(number)
    return int(number) if isinstance(number, bool) else dims.dim(number)


# ---------------------------------------------------------------------------------------------- limits


def lowest(dtype: DType) -> Any:
    """The least number of an element type: -inf for floats, False for bool."""
    if dtype.is_float:
        return -np.inf
    return False if dtype is DType.BOOL else int(np.iinfo(dtype.numpy).min)


def highest(dtype: DType) -> Any:
    """The greatest number of an element type: inf for floats, True for bool."""
    if dtype.is_float:
        return np.inf
    return True if dtype is DType.BOOL else int(np.iinfo(dtype.numpy).max)


def finite_limits(dtype: DType) -> tuple[float, float]:
    """The least and the greatest finite number of a float type."""
    info = ml_dtypes.finfo(dtype.numpy)
    return float(info.min), float(info.max)
