"""Element types and the four kinds of type: tensor, sequence, optional, tuple."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import sympy

from irkit import dims
from irkit.dims import Dim, notation
from irkit.dims.validation import size_of
from irkit.errors import TypeRuleError


class DType(enum.IntEnum):
    """An ONNX element type; the number is that of `onnx.TensorProto.DataType`. `DType.of` finds one by the short name
    that texts and errors use, `DType.of("f32")`, or by a numpy dtype.

    Attributes:
        short: the name used in text: `f32`, `i64`, `bf16`, `bool`.
        numpy: the numpy dtype (from ml_dtypes where numpy has none; `object` for strings).
        bits: bits that one element takes in an ONNX file; 0 for strings.
        is_float: True for real floating-point types of any width.
        is_integer: True for signed and unsigned integers (not bool).
        is_unsigned: True for unsigned integers.
        is_complex: True for complex64 and complex128.
    """

    _value_: int
    short: str
    numpy: np.dtype
    bits: int
    is_float: bool
    is_integer: bool
    is_unsigned: bool
    is_complex: bool

    def __new__(cls, number: int, short: str, numpy: Any, bits: int, kind: str) -> DType:
        made = int.__new__(cls, number)
        made._value_, made.short, made.numpy, made.bits = number, short, np.dtype(numpy), bits
        made.is_float, made.is_integer, made.is_unsigned = kind == "f", kind in "iu", kind == "u"
        made.is_complex = kind == "c"
        return made

    FLOAT = 1, "f32", np.float32, 32, "f"
    UINT8 = 2, "u8", np.uint8, 8, "u"
    INT8 = 3, "i8", np.int8, 8, "i"
    UINT16 = 4, "u16", np.uint16, 16, "u"
    INT16 = 5, "i16", np.int16, 16, "i"
    INT32 = 6, "i32", np.int32, 32, "i"
    INT64 = 7, "i64", np.int64, 64, "i"
    STRING = 8, "str", np.object_, 0, "s"
    BOOL = 9, "bool", np.bool_, 8, "b"
    FLOAT16 = 10, "f16", np.float16, 16, "f"
    DOUBLE = 11, "f64", np.float64, 64, "f"
    UINT32 = 12, "u32", np.uint32, 32, "u"
    UINT64 = 13, "u64", np.uint64, 64, "u"
    COMPLEX64 = 14, "c64", np.complex64, 64, "c"
    COMPLEX128 = 15, "c128", np.complex128, 128, "c"
    BFLOAT16 = 16, "bf16", ml_dtypes.bfloat16, 16, "f"
    FLOAT8E4M3FN = 17, "f8e4m3fn", ml_dtypes.float8_e4m3fn, 8, "f"
    FLOAT8E4M3FNUZ = 18, "f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8, "f"
    FLOAT8E5M2 = 19, "f8e5m2", ml_dtypes.float8_e5m2, 8, "f"
    FLOAT8E5M2FNUZ = 20, "f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8, "f"
    UINT4 = 21, "u4", ml_dtypes.uint4, 4, "u"
    INT4 = 22, "i4", ml_dtypes.int4, 4, "i"
    FLOAT4E2M1 = 23, "f4e2m1", ml_dtypes.float4_e2m1fn, 4, "f"
    FLOAT8E8M0 = 24, "f8e8m0", ml_dtypes.float8_e8m0fnu, 8, "f"
    UINT2 = 25, "u2", ml_dtypes.uint2, 2, "u"
    INT2 = 26, "i2", ml_dtypes.int2, 2, "i"
    FLOAT6E2M3 = 27, "f6e2m3", ml_dtypes.float6_e2m3fn, 6, "f"
    FLOAT6E3M2 = 28, "f6e3m2", ml_dtypes.float6_e3m2fn, 6, "f"

    @classmethod
    def of(cls, dtype: Any) -> DType:
        """The element type that a DType, an ONNX number, a short name or a numpy dtype names.

        Raises KeyError for anything else.
        """
        if isinstance(dtype, np.dtype):
            return _of_numpy(dtype)  # pyright: ignore[reportUnknownArgumentType]  # of any element type
        if isinstance(dtype, cls):
            return dtype
        if isinstance(dtype, int):
            return cls(dtype)
        if isinstance(dtype, str) and dtype in _BY_SHORT:
            return _BY_SHORT[dtype]
        return _of_numpy(np.dtype(dtype))


_BY_SHORT = {dtype.short: dtype for dtype in DType}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DType}


@cache
def _of_numpy(dtype: np.dtype) -> DType:
    if dtype.kind in "US":
        return DType.STRING
    return _BY_NUMPY[dtype]


@attrs.frozen(repr=False)
class Tensor:
    """A tensor of known rank. `shape` holds ints and sympy expressions in canonical form (see `irkit.dims`)."""

    dtype: DType
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """True where every dimension is a number."""
        return dims.are_numbers(self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype.short}[{', '.join(notation.text(d) for d in self.shape)}]"


@attrs.frozen(repr=False)
class Sequence:
    """An ONNX sequence: a list of any length whose elements have one type."""

    element: Type

    def __repr__(self) -> str:
        return f"seq({self.element!r})"


@attrs.frozen(repr=False)
class Optional:
    """An ONNX optional: a value of `element`, or nothing."""

    element: Type

    def __repr__(self) -> str:
        return f"opt({self.element!r})"


@attrs.frozen(repr=False)
class Tuple:
    """What an operator with several results returns; `item(v, i)` takes one out."""

    items: tuple[Type, ...]

    def __repr__(self) -> str:
        return f"({', '.join(repr(t) for t in self.items)})"


HALVES = (DType.FLOAT16, DType.BFLOAT16)
"""Element types of 16 bits that hold floating-point numbers."""

Type = Tensor | Sequence | Optional | Tuple


def element_type(dtype: Any) -> DType:
    """The element type that `DType.of` finds. Raises TypeRuleError for anything else."""
    try:
        return DType.of(dtype)
    except (KeyError, TypeError, ValueError) as error:
        raise TypeRuleError(f"there is no element type {dtype!r}", hint=f"they are {', '.join(_BY_SHORT)}") from error


def tensor(dtype: Any, *shape: Any) -> Tensor:
    """The tensor type with those dimensions: ints, sympy expressions, or strings that name symbols.

    `tensor("f32", "batch", 64)` is `f32[batch, 64]`. Raises TypeRuleError for what is not an element type,
    DimensionError for what is not a dimension: below 0, no integer at some size, over symbols of sympy's own."""
    return Tensor(element_type(dtype), tuple(map(size_of, shape)))


def require_type(given: object) -> None:
    """Raises TypeRuleError for what is not a type of a value: no Tensor, Sequence or Optional, or one that holds
    something else than an element type and dimensions."""
    if isinstance(given, Sequence | Optional):
        require_type(given.element)
        return
    if not isinstance(given, Tensor):
        hint = "a tuple is what an operator with several results returns" if isinstance(given, Tuple) else ""
        raise TypeRuleError(f"{given!r} is not a type", hint=hint or 'write irkit.tensor("f32", "batch", 64)')
    whole = type(given.dtype) is DType and type(given.shape) is tuple
    if not whole or not all(type(d) is int or isinstance(d, sympy.Basic) for d in given.shape):
        raise TypeRuleError(
            f"Tensor({given.dtype!r}, {given.shape!r}) is not a type of a tensor",
            hint='write irkit.tensor("f32", "batch", 64), which takes names and numbers',
        )
    for each in given.shape:
        if type(each) is not int or each < 0:
            size_of(each)


def same_types(a: Type, b: Type) -> bool | None:
    """True where the types are equal, False where they cannot be, None where some dimension leaves it open."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is Tensor:
        if a.dtype is not b.dtype:  # type: ignore[union-attr]
            return False
        if a.shape == b.shape:  # type: ignore[union-attr]
            return True
        if len(a.shape) != len(b.shape):  # type: ignore[union-attr]
            return False
        return _all([dims.same(x, y) for x, y in zip(a.shape, b.shape, strict=True) if x is not y])  # type: ignore[union-attr]
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        if len(a.items) != len(b.items):
            return False
        return _all(same_types(x, y) for x, y in zip(a.items, b.items, strict=True))
    return same_types(a.element, b.element)  # type: ignore[union-attr]


def _all(answers: Iterable[bool | None]) -> bool | None:
    verdict: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            verdict = None
    return verdict


def types_of(type_: Type) -> tuple[Type, ...]:
    """The types of the results: those of a Tuple, or the one type itself."""
    return type_.items if isinstance(type_, Tuple) else (type_,)


def dims_of(type_: Type) -> tuple[Dim, ...]:
    """Every dimension that stands in a type, in order."""
    if isinstance(type_, Tensor):
        return type_.shape
    if isinstance(type_, Tuple):
        return tuple(d for item in type_.items for d in dims_of(item))
    return dims_of(type_.element)


def map_dims(type_: Type, function: Callable[[Dim], Dim]) -> Type:
    """The type with `function` applied to each dimension; the same object where nothing changed."""
    if isinstance(type_, Tensor):
        shape = tuple(function(d) for d in type_.shape)
        return type_ if shape == type_.shape else Tensor(type_.dtype, shape)
    if isinstance(type_, Tuple):
        items = tuple(map_dims(item, function) for item in type_.items)
        return type_ if items == type_.items else Tuple(items)
    element = map_dims(type_.element, function)
    return type_ if element is type_.element else type(type_)(element)
