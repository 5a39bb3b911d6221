"""What most kernels need: attributes with their defaults, axes, and arithmetic for element types that numpy lacks.

A kernel is a function `kernel_<Op>(node, *operands)` from numpy arrays to a numpy array, or to a tuple of arrays where
the operator has several results; sequences are Python lists, and an operand left out is None. It follows the ONNX text
at the IR's opset, and never writes into an operand. Element types narrower than float32 are computed in float32 and
rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeGuard

import numpy as np

from irkit.core.ir import Value
from irkit.core.types import DType, types_of
from irkit.errors import EvaluateError
from irkit.ops.schemas import spec

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]
Kernel = Callable[..., Any]

Content = Any
"""What a value holds: an array, a list for a sequence, None for an empty optional. Its type says which: hence Any."""


def is_array(content: Content) -> TypeGuard[Array]:
    """True for what a tensor holds; a sequence is a list of them."""
    return isinstance(content, np.ndarray)


def attr(node: Value, name: str) -> Any:
    """The attribute as given, or the schema's default, or None."""
    found = node.attribute(name)
    return spec(node.op).attributes[name].default if found is None else found


def results(node: Value) -> int:
    """How many results are asked for."""
    return len(types_of(node.type))


def fail(node: Value, what: str) -> EvaluateError:
    """The error to raise for operands that the operator does not allow."""
    return EvaluateError(f"{node.op}: {what}")


@cache
def is_narrow(dtype: np.dtype) -> bool:
    """True for floating-point types of fewer than 32 bits."""
    kind = DType.of(dtype)
    return kind.is_float and kind.bits < 32


@cache
def is_float(dtype: np.dtype) -> bool:
    """True for real floating-point types, ml_dtypes' among them."""
    return DType.of(dtype).is_float


@cache
def is_integer(dtype: np.dtype) -> bool:
    """True for integer types, int4's among them."""
    return DType.of(dtype).is_integer


def wide(x: Array) -> Array:
    """Narrow floats as float32, narrow integers as int32, everything else as it is."""
    if is_narrow(x.dtype):
        return x.astype(np.float32)
    kind = DType.of(x.dtype)
    return x.astype(np.int32) if kind.is_integer and kind.bits < 8 else x


def real(x: Array) -> Array:
    """Numbers that a formula of real arithmetic can work on: floats widened, integers as float64."""
    return wide(x) if is_float(x.dtype) or x.dtype.kind == "c" else x.astype(np.float64)


def narrowed_to(x: Array, dtype: np.dtype | type[np.generic]) -> Array:
    """`x` in the element type `dtype`; floats that become integers are cut towards zero."""
    return np.asarray(x).astype(dtype, copy=False)


def unary(function: Callable[[Array], Array]) -> Kernel:
    """The kernel that applies a function of real numbers to each element."""

    def kernel(node: Value, x: Array) -> Array:
        return narrowed_to(function(wide(x)), x.dtype)

    return kernel


def axis_of(node: Value, axis: int, rank: int) -> int:
    """`axis` counted from the front. Raises EvaluateError out of range."""
    if not -rank <= axis < max(rank, 1):
        raise fail(node, f"axis {axis} is out of range for rank {rank}")
    return axis + rank if axis < 0 else axis


def axes_of(node: Value, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Each axis counted from the front."""
    return tuple(axis_of(node, int(axis), rank) for axis in axes)


def ints(x: Array) -> tuple[int, ...]:
    """The elements of an integer tensor as Python numbers, flat."""
    return tuple(int(v) for v in np.asarray(x).ravel())


def scalar(x: Array) -> Any:
    """The only element of a tensor, as a numpy scalar. Raises ValueError where there is not exactly one."""
    return np.asarray(x).reshape(-1)[0] if np.size(x) == 1 else np.asarray(x).item()


def mean_of(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean over axes, which are kept; NaN over nothing, without a warning."""
    count = np.prod([x.shape[a] for a in axes], dtype=np.int64)
    return x.sum(axis=axes, keepdims=True) / np.asarray(count, x.dtype)


def lowest(dtype: np.dtype) -> Any:
    """The smallest number of an element type: -inf for floats, False for bool."""
    return _extreme(np.dtype(dtype), lowest=True)


def highest(dtype: np.dtype) -> Any:
    """The largest number of an element type: inf for floats, True for bool."""
    return _extreme(np.dtype(dtype), lowest=False)


def _extreme(dtype: np.dtype, lowest: bool) -> Any:
    if dtype == np.bool_:
        return np.bool_(not lowest)
    if is_float(dtype):
        return np.array(-np.inf if lowest else np.inf).astype(dtype)[()]
    info = np.iinfo(dtype)
    return dtype.type(info.min if lowest else info.max)
