"""Changes of element type, and the operators that change nothing at all."""

from __future__ import annotations

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.errors import Unsupported
from lowering.tensors.promotion import cast, number_dtype, scalar
from lowering.tensors.shaping import expand

# ---------------------------------------------------------------------------------------------- element types


def aten_to(self: Value, dtype: DType | None = None) -> Value:
    """self with elements of `dtype`; self where it is None (a device or a memory format means nothing here)."""
    if not isinstance(self, Value):  # torch's decompositions cast plain numbers too
        return scalar(self, number_dtype(self) if dtype is None else dtype)
    return self if dtype is None else cast(self, dtype)


def aten_to_dtype(self: Value, dtype: DType) -> Value:
    """self with elements of `dtype`."""
    return cast(self, dtype)


def aten_to_device(self: Value, device: object, dtype: DType) -> Value:
    """self with elements of `dtype`."""
    return cast(self, dtype)


def aten_to_other(self: Value, other: Value) -> Value:
    """self with elements of the type of `other`."""
    return cast(self, other.dtype)


def aten__to_copy(self: Value, *, dtype: DType | None = None) -> Value:
    """self with elements of `dtype`."""
    return aten_to(self, dtype)


def prims_convert_element_type(a: Value, dtype: DType) -> Value:
    """a with elements of `dtype`."""
    return cast(a, dtype)


def aten_view_dtype(self: Value, dtype: DType) -> Value:
    """The bits of self read as elements of another type of the same width."""
    if dtype is self.dtype:
        return self
    if dtype.bits != self.dtype.bits or DType.BOOL in (dtype, self.dtype):
        raise Unsupported(f"the bits of {self.dtype.short} cannot be read as {dtype.short} in ONNX")
    return op.BitCast(self, to=int(dtype))


# ---------------------------------------------------------------------------------------------- nothing


def aten_clone(self: Value) -> Value:
    """self"""
    return self


def aten_copy(self: Value, src: Value) -> Value:
    """src, in the shape and the element type of self."""
    return expand(cast(src, self.dtype), self.shape)
