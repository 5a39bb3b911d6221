"""Arithmetic on values: what an operator of Python builds.

Nothing is cast. Numbers, sizes and lists of numbers take the element type of the value beside them, where it holds
their kind: an integer stands for a float too, and neither a float for an integer nor a boolean for a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import NotImplementedType
from typing import Any, Final, NoReturn

import numpy as np
import sympy

from irkit import dims
from irkit.core.blobs import Blob, blob, owned_blob
from irkit.core.ir import Value, constant
from irkit.core.types import DType, Tensor, dims_of, element_type
from irkit.dims import Dim
from irkit.dims.validation import number_of
from irkit.errors import TypeRuleError
from irkit.nodes.construct import call, const, dim_scalar
from irkit.support.arguments import brief

Made = Value | NotImplementedType
"""What an operator of Python gives: NotImplemented where the other side is nothing that irkit knows."""

SIGNS: Final[Mapping[str, str]] = {
    "Add": "+", "Sub": "-", "Mul": "*", "MatMul": "@", "Div": "/", "Mod": "%", "Pow": "**", "And": "&", "Or": "|",
    "Xor": "^", "Equal": ".equal", "Less": ".less", "LessOrEqual": ".less_equal", "Greater": ".greater",
    "GreaterOrEqual": ".greater_equal",
}  # fmt: skip
"""What is written for an operator of ONNX."""


def binary(op: str, x: Value, other: object) -> Made:
    """`x` and another operand under an operator of ONNX, or under one of Python that ONNX has no single one for.

    Raises TypeRuleError where the element types differ, or the operator does not take them.
    """
    if type(other) is not Value:
        y = operand(x, other, op)
        return NotImplemented if y is None else applied(op, x, y)
    try:  # as `applied`, which most are spared
        return SPECIAL[op](x, other) if op in SPECIAL else call(op, (x, other))
    except TypeRuleError as error:
        raise explained(op, x, other, error) from None


def reflected(op: str, y: Value, other: object) -> Made:
    """`binary`, with the operands the other way round."""
    x = operand(y, other, op)
    return NotImplemented if x is None else applied(op, x, y)


def comparison(op: str, x: Value, other: object) -> Value:
    """A tensor of booleans. Raises TypeRuleError as `binary` does, and for what is no operand."""
    found = binary(op, x, other)
    if found is NotImplemented:
        raise TypeRuleError(f"{x!r} cannot be compared with {brief(other)}", hint="irkit.const(data) makes a value")
    return found


def refuse_comparison(method: str, other: object) -> NoReturn:
    """Raises TypeRuleError: `<` would promise that `==` compares as well, which asks for the same value."""
    raise TypeRuleError("values are compared by their methods", hint=f"write x.{method}(y)")


def truth(x: Value) -> bool:
    """True. Raises TypeRuleError for booleans: what they hold is known when the graph runs, so Python cannot branch on
    it."""
    if not isinstance(x.type, Tensor) or x.dtype is not DType.BOOL:
        return True
    raise TypeRuleError(
        f"a {x.type!r} of {x.op} is neither true nor false while the graph is built",
        hint="write op.Where(c, x, y), or op.If(c, f, g) with two functions; `x is not None` asks whether there is one",
    )


def unary(op: str, x: Value) -> Value:
    """`-x`, `+x`, `abs(x)`, `~x`. Raises TypeRuleError for an element type that has none."""
    if op == "+":
        return x
    if op == "Not" and x.dtype.is_integer:
        op = "BitwiseNot"
    return call(op, (x,))


def cast(x: Value, dtype: object) -> Value:
    """The value in another element type. Raises TypeRuleError for what is none."""
    wanted = element_type(dtype)
    return x if wanted is x.dtype else call("Cast", (x,), {"to": int(wanted)})


# ---------------------------------------------------------------------------------------------- operators


def applied(op: str, x: Value, y: Value) -> Value:
    """The operator over two values. Raises TypeRuleError for different element types."""
    made = SPECIAL.get(op)
    try:
        return call(op, (x, y)) if made is None else made(x, y)
    except TypeRuleError as error:
        raise explained(op, x, y, error) from None


def explained(op: str, x: Value, y: Value, error: TypeRuleError) -> TypeRuleError:
    """The error, with what to write where the element types differ."""
    sign = SIGNS.get(op, op)
    if not isinstance(x.type, Tensor) or not isinstance(y.type, Tensor) or x.dtype is y.dtype:
        return error
    wide = x.dtype if (x.dtype.is_float, x.dtype.bits) >= (y.dtype.is_float, y.dtype.bits) else y.dtype
    left, right = (f'{n}.cast("{wide.short}")' if v.dtype is not wide else n for n, v in (("x", x), ("y", y)))
    written = f"{left}{sign}({right})" if sign.startswith(".") else f"{left} {sign} {right}"
    return TypeRuleError(
        f"x is a {x.type!r} and y a {y.type!r}, and irkit casts nothing by itself", hint=f"write {written}"
    )


def quotient(x: Value, y: Value) -> Value:
    """x / y of floats. Raises TypeRuleError for integers."""
    kind = x.type
    if type(kind) is Tensor and kind.dtype.is_integer and y.dtype.is_integer:
        raise TypeRuleError(
            f"x / y is a quotient of floats, and x is a {x.type!r}",
            hint='write x // y, which rounds down, or x.cast("f32") / y.cast("f32")',
        )
    return call("Div", (x, y))


def floor_quotient(x: Value, y: Value) -> Value:
    """x // y of integers, rounded down, where ONNX's Div cuts off. Raises TypeRuleError for floats."""
    require_integers("//", "op.Floor(x / y)", x, y)
    cut = call("Div", (x, y))
    if x.dtype.is_unsigned:
        return cut
    # One less where what is left of the cut quotient is not what is left of the one rounded down.
    left = call("Sub", (x, call("Mul", (cut, y))))
    differs = call("Not", (call("Equal", (left, call("Mod", (x, y)))),))
    return call("Sub", (cut, call("Cast", (differs,), {"to": int(x.dtype)})))


def remainder(x: Value, y: Value) -> Value:
    """x % y of integers, with the sign of y. Raises TypeRuleError for floats."""
    require_integers("%", "op.Mod(x, y, fmod=1), which has the sign of x", x, y)
    return call("Mod", (x, y))


def require_integers(sign: str, instead: str, x: Value, y: Value) -> None:
    """Raises TypeRuleError for floats."""
    for each in (x, y):
        if not each.dtype.is_integer:
            raise TypeRuleError(f"x {sign} y is one of integers, and one is a {each.type!r}", hint=f"write {instead}")


def power(x: Value, y: Value) -> Value:
    """x ** y, both of one element type. Raises TypeRuleError for different ones, and for a negative constant over
    integers."""
    if x.dtype is not y.dtype:  # which ONNX allows
        raise TypeRuleError(f"Pow: {x.type!r} and {y.type!r}", hint="cast one of them")
    exponent = y.blob
    if exponent is not None and x.dtype.is_integer and bool(np.any(exponent.array < 0)):
        raise TypeRuleError("an integer to a negative power is none", hint='cast it first: x.cast("f32") ** -1')
    return call("Pow", (x, y))


def logical(op: str) -> Callable[[Value, Value], Value]:
    """An operator of booleans, and that of the bits of integers."""

    def made(x: Value, y: Value) -> Value:
        return call(f"Bitwise{op}" if x.dtype.is_integer else op, (x, y))

    return made


def shift(direction: str) -> Callable[[Value, Value], Value]:
    """The bits moved. Raises TypeRuleError for signed integers, and for a constant beyond the width."""

    def made(x: Value, y: Value) -> Value:
        if not x.dtype.is_unsigned:
            raise TypeRuleError(
                f"only unsigned integers are shifted, and x is a {x.type!r}", hint="write x * 2**n, or x // 2**n"
            )
        if y.blob is not None and bool(np.any(y.blob.array >= x.dtype.bits)):
            raise TypeRuleError(
                f"{x.dtype.short} has {x.dtype.bits} bits, and is shifted by as many", hint="shift by less"
            )
        return call("BitShift", (x, y), {"direction": direction})

    return made


SPECIAL: Final[Mapping[str, Callable[[Value, Value], Value]]] = {
    "Div": quotient, "//": floor_quotient, "Mod": remainder, "Pow": power, "And": logical("And"), "Or": logical("Or"),
    "Xor": logical("Xor"), "<<": shift("LEFT"), ">>": shift("RIGHT"),
}  # fmt: skip
"""Operators that ask more than that ONNX's own takes the operands."""


# ---------------------------------------------------------------------------------------------- operands


def operand(like: Value, other: object, op: str) -> Value | None:
    """What stands beside a value, as one; None for what is nothing that irkit knows.

    Raises TypeRuleError for a number that the element type of the value does not hold.
    """
    data: Any = other
    if isinstance(other, np.ndarray):
        return constant(blob(data))
    if isinstance(other, sympy.Basic):
        return size_as(like, number_of(other))
    if isinstance(other, bool | int | float | complex | str | bytes | list | tuple | np.generic):
        return constant(owned_blob(number_as(data, like.dtype, op), like.dtype))
    if isinstance(other, Blob):
        return const(other)
    return None


ALL_FLOATS, ALL_INTEGERS = 60_000.0, 128
"""Below these numbers are within the range of each float of 16 bits or more, and of each integer of 8 bits or more."""


def number_as(data: object, dtype: DType, op: str) -> np.ndarray:
    """A number, or a list of numbers, in an element type. Raises TypeRuleError where it does not hold their kind, or a
    number is beyond its range."""
    if is_small(data, dtype):
        return np.array(data, dtype.numpy)
    given: np.ndarray = np.array(data)
    require_kind(given, dtype, data, op)
    with np.errstate(all="ignore"):
        found = given.astype(dtype.numpy)
    if dtype.is_integer:
        fits = bool(np.all(found.astype(given.dtype) == given))
    else:
        fits = not dtype.is_float or bool(np.all(np.isfinite(found) | ~np.isfinite(given)))
    if not fits:
        raise TypeRuleError(f"{brief(data)} is beyond {dtype.short}", hint='cast the value first: x.cast("f32"), say')
    return found


def is_small(data: Any, dtype: DType) -> bool:
    """Whether something is a number that is certainly held by an element type."""
    if dtype.is_float:
        return (type(data) is float or type(data) is int) and dtype.bits > 8 and -ALL_FLOATS < data < ALL_FLOATS
    return type(data) is int and dtype.is_integer and dtype.bits >= 8 and 0 <= data < ALL_INTEGERS


def require_kind(given: np.ndarray, dtype: DType, data: object, op: str) -> None:
    """Raises TypeRuleError where numbers are of a kind that an element type does not hold."""
    kind = None if given.dtype.kind == "O" else DType.of(given.dtype)
    if kind is None or kind is DType.STRING:
        raise TypeRuleError(
            f"{brief(data)} is no operand of {SIGNS.get(op, op)}", hint="give a value, a number, or an array"
        )
    if dtype.is_float:
        fits = kind.is_float or kind.is_integer
    elif dtype.is_complex:
        fits = kind.is_float or kind.is_integer or kind.is_complex
    else:
        fits = (kind.is_integer and dtype.is_integer) or kind is dtype
    if not fits and given.size:
        cast = kind.short if kind is not DType.DOUBLE else "f32"
        raise TypeRuleError(
            f"{brief(data)} is no {dtype.short}, and irkit casts nothing by itself", hint=f'cast: x.cast("{cast}")'
        )


def size_as(like: Value, size: Dim) -> Value:
    """A size as a scalar of the element type of the value beside it. Raises TypeRuleError for booleans."""
    if not (like.dtype.is_integer or like.dtype.is_float):
        raise TypeRuleError(f"a size is no {like.dtype.short}", hint='cast the value first: x.cast("i64")')
    if type(size) is int:
        return constant(owned_blob(number_as(size, like.dtype, "size"), like.dtype))
    return cast(dim_scalar(size, *binders([size], like)), like.dtype)


def binders(sizes: Iterable[Dim], *candidates: Value) -> tuple[Value, ...]:
    """The values in whose types symbols of the sizes stand that depend on data, and that no parameter binds. Raises
    TypeRuleError where one stands in none of them."""
    wanted: set[Any] = {s for d in sizes for s in dims.symbols_of(d) if dims.is_fresh(s)}
    if not wanted:
        return ()
    found = tuple(v for v in candidates if wanted.intersection(d for d in dims_of(v.type) if type(d) is not int))
    if wanted - {d for v in found for d in dims_of(v.type)}:
        raise TypeRuleError(
            "a size that depends on data is taken from a value that stands elsewhere",
            hint="write op.Shape(y)[axis] for a size of y, which is a scalar of i64",
        )
    return found
