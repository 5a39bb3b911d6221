"""Attribute values in one frozen, hashable, comparable form."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from ctypes import c_float
from operator import index
from typing import Any, TypeAlias, cast

import numpy as np
import sympy

from irkit.core.blobs import Blob, blob
from irkit.core.types import DType, Type
from irkit.errors import TypeRuleError

Attribute: TypeAlias = "int | float | str | bytes | Blob | Type | sympy.Expr | tuple[Attribute, ...] | None"
"""The value of an attribute: a number, a text, a tensor, a type, a dimension, or a tuple of those; None where it is not
given."""

AttributeMap = Mapping[str, Any]
"""Attributes by name. The schema says of what kind each is, which whoever reads one knows: hence Any."""

Given = dict[str, Any]
"""The same, while they are put together."""

Attributes = tuple[tuple[str, Any], ...]
"""Pairs of name and value, sorted by name; Any as for `AttributeMap`."""


def freeze(values: AttributeMap) -> Attributes:
    """The attributes sorted by name, each in frozen form; those that are None are left out."""
    if not values:
        return ()
    return tuple((name, freeze_attribute(name, values[name])) for name in sorted(values) if values[name] is not None)


def freeze_attribute(name: str, value: Any) -> Attribute:
    """One attribute value: lists become tuples, numpy scalars Python numbers, arrays blobs, bools ints."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # the type of Any
    if kind is int or kind is float or kind is str:
        return value
    if kind is bool:
        return int(value)
    if kind is tuple or kind is list:
        return tuple(freeze_attribute(name, item) for item in value)
    if isinstance(value, Blob | bytes | Type):
        return value
    if isinstance(value, np.ndarray):
        return blob(value)
    if isinstance(value, np.generic):
        return freeze_attribute(name, value.item())
    if hasattr(value, "free_symbols"):
        return value
    if isinstance(value, int):  # IntEnum: element types are written as ONNX numbers
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Iterable) and not isinstance(value, Mapping | Set):
        return tuple(freeze_attribute(name, item) for item in cast("Iterable[Any]", value))
    raise TypeRuleError(f"attribute {name} cannot hold a {kind.__name__}", hint="numbers, strings, arrays, or lists")


def single(value: Any) -> float:
    """The number that ONNX keeps of a float attribute: the nearest f32. So equal models have equal attributes, whether
    they were built with `1e-5` or read from a file."""
    return c_float(value).value


def single_in_range(value: Any) -> float:
    """As `single`. Raises ValueError for a number beyond the range of an f32, which would become infinity."""
    try:
        found = single(value)
    except OverflowError:  # an int beyond the range of a float
        found = math.inf
    if found in (math.inf, -math.inf) and value not in (math.inf, -math.inf):
        raise ValueError(f"{value!r} is beyond the range of float32")
    return found


_ONLY_INTS = frozenset((int,))


def integer(value: Any) -> int:
    """A Python int for an int, a bool, an element type or an integer of numpy. Raises TypeError for anything else, a
    float with an integral value too."""
    return int(bool(cast(object, value))) if isinstance(value, np.bool_) else int(index(value))


def integers(values: Any) -> tuple[int, ...]:
    """The elements as Python ints. Raises TypeError where one is not an integer."""
    found = tuple(values)
    return found if are_ints(found) else tuple(map(integer, found))


def are_ints(values: tuple[Any, ...]) -> bool:
    """True where each element is a Python int itself."""
    return _ONLY_INTS.issuperset(map(type, values))


def string(value: Any) -> str:
    """Text, or bytes that hold text. Raises TypeError for anything else."""
    if not isinstance(value, str | bytes):
        raise TypeError(f"{value!r} is not text")
    return value.decode() if isinstance(value, bytes) else str(value)


def several(one: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """The conversion of a list of what `one` converts. Raises TypeError for text, which is a list of letters."""

    def converted(values: Any) -> tuple[str, ...]:
        if isinstance(values, str | bytes):
            raise TypeError(f"{values!r} is not a list")
        return tuple(map(one, values))

    return converted


CASTS: Mapping[str, Callable[[Any], Any]] = {
    "INT": integer, "FLOAT": single_in_range, "STRING": string,
    "INTS": integers, "FLOATS": several(single_in_range), "STRINGS": several(string),
    "TENSOR": lambda v: v if isinstance(v, Blob) else blob(v),
}  # fmt: skip
"""What makes an attribute of each ONNX kind. Each raises TypeError or ValueError for what is none."""


ELEMENT_TYPES = frozenset(
    ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to")
)
"""Attributes that name an element type by its number in ONNX."""


def kind_held(kind: str, name: str, value: Any) -> Attribute:
    """An attribute as one of that kind is held: an element type by its number, whatever names it.

    Raises TypeError, ValueError or KeyError for what is none of that kind.
    """
    cast = CASTS.get(kind)
    if kind == "INT" and name in ELEMENT_TYPES and (isinstance(value, type) or not hasattr(value, "__index__")):
        return int(DType.of(value))
    return freeze_attribute(name, value) if cast is None else cast(value)


def key(attributes: Attributes) -> Hashable:
    """A hashable that is equal just for attributes that mean the same: by content for blobs, telling -0.0 from 0.0."""
    for _, value in attributes:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # the type of Any
        if kind is int or kind is str or (kind is tuple and _APART.isdisjoint(map(type, value))):
            continue
        if (kind is float and value == 0.0) or kind is Blob or kind is tuple:
            return tuple([(name, _key(value)) for name, value in attributes])
    return attributes  # equal just where they mean the same


_APART = frozenset((float, Blob, tuple))
"""Types of which equal values may mean something else, or equal ones differ."""


def _key(value: Any) -> Hashable:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # the type of Any
    if kind is tuple:
        return tuple(_key(item) for item in value)
    if kind is float and value == 0.0:
        return ("0.0", math.copysign(1.0, value))
    return value.key if kind is Blob else value
