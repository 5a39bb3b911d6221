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
    """An ONNX element type; the number is that of `onnx.TensorProto.DataType`. `DType.of` finds one by any of the names
    that it has: `DType.of("f32")`, "float32", "FLOAT", np.float32, torch.float32.

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
        """The element type that something names: every door that takes an element type takes all of these.

        A DType or its number in ONNX; the short name that texts and errors use ("f32"), numpy's and torch's
        ("float32", "bfloat16", "float8_e4m3fn", "half"), ONNX's ("FLOAT") or that of safetensors ("F32"); a dtype of
        numpy or torch, or a type that numpy takes for one (np.float32, ml_dtypes.bfloat16).

        Raises KeyError, TypeError or ValueError for anything else, for names that mean one thing to torch and another
        to numpy ("float", "int"), and for Python's own float, int and complex, which say no width; `irkit.tensor` and
        others say what to write.
        """
        if isinstance(dtype, np.dtype):
            return _of_numpy(dtype)  # pyright: ignore[reportUnknownArgumentType]  # of any element type
        if isinstance(dtype, cls):
            return dtype
        if isinstance(dtype, int):
            return cls(dtype)
        if isinstance(dtype, str):
            return ELEMENT_NAMES[dtype] if dtype in ELEMENT_NAMES else _of_text(dtype)
        if isinstance(dtype, type) and dtype in (float, int, complex, object):
            raise TypeError(f"{dtype!r} has no width")
        if type(dtype).__module__ == "torch":
            return ELEMENT_NAMES[_BY_TORCH.get(str(dtype), str(dtype).removeprefix("torch."))]
        return _of_numpy(np.dtype(dtype))


_BY_SHORT = {dtype.short: dtype for dtype in DType}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DType}
ELEMENT_NAMES = (
    {dtype.numpy.name: dtype for dtype in DType if dtype is not DType.STRING}
    | {dtype.name: dtype for dtype in DType}
    | {dtype.short.upper(): dtype for dtype in DType}  # as in safetensors, but for two
    | {"F8_E4M3": DType.FLOAT8E4M3FN, "F8_E5M2": DType.FLOAT8E5M2, "string": DType.STRING}
    | {"half": DType.FLOAT16, "double": DType.DOUBLE}
    | _BY_SHORT
)
"""Every element type by each of its names."""
_TWO_MEANINGS = {"float": ("f32", "f64"), "int": ("i32", "i64"), "cfloat": ("c64", "c128")}
"""Names that torch and numpy both have: what each means by it."""
_WIDTHS: dict[type, str] = {float: '"f32" or "f64"', int: '"i32" or "i64"', complex: '"c64" or "c128"'}
"""Types of Python's that have no width, and what to write."""
_BY_TORCH = {f"torch.{name}": torch for name, (torch, _) in _TWO_MEANINGS.items()}
"""What they are where torch is named."""


def _of_text(name: str) -> DType:
    """The element type of a name that numpy or torch has beside the common ones."""
    if name.startswith("torch."):
        return ELEMENT_NAMES[_BY_TORCH.get(name, name.removeprefix("torch."))]
    found = np.dtype(name)
    if name in _TWO_MEANINGS or (found.str[1:] == name and found.kind not in "US"):  # numpy's "i8" has eight bytes
        raise KeyError(name)
    return _of_numpy(found)


@cache
def _of_numpy(dtype: np.dtype) -> DType:
    if dtype.kind in "US":
        return DType.STRING
    return _BY_NUMPY[dtype]


@attrs.frozen(repr=False, cache_hash=True)
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


ElementType = DType | str | int | np.dtype[Any] | type[Any]
"""What names an element type (see `DType.of`)."""


def element_type(dtype: Any) -> DType:
    """The element type that `DType.of` finds. Raises TypeRuleError for anything else."""
    try:
        return DType.of(dtype)
    except (KeyError, TypeError, ValueError) as error:
        hint = width_hint(dtype) or f"they are {', '.join(_BY_SHORT)}"
        raise TypeRuleError(f"there is no element type {dtype!r}", hint=hint) from error


def width_hint(dtype: object) -> str:
    """What to write instead of a name that says no width, or two; empty for any other."""
    if isinstance(dtype, str) and dtype in _TWO_MEANINGS:
        torch, numpy = _TWO_MEANINGS[dtype]
        return f"to torch that is {torch}, to numpy {numpy}: write one of these"
    widths = _WIDTHS.get(dtype) if isinstance(dtype, type) else None
    return f"Python's {dtype.__name__} says no width: write {widths}" if isinstance(dtype, type) and widths else ""


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
        shape = tuple([function(d) for d in type_.shape])
        return type_ if shape == type_.shape else Tensor(type_.dtype, shape)
    if isinstance(type_, Tuple):
        items = tuple(map_dims(item, function) for item in type_.items)
        return type_ if items == type_.items else Tuple(items)
    element = map_dims(type_.element, function)
    return type_ if element is type_.element else type(type_)(element)
