"""What a model asks of the layout of a tensor: the example's, which leaves no trace; strides as sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from irkit import dims
from lowering.direct.sizes import size_of
from lowering.direct.tensors import Handle
from lowering.direct.tracer import Tracer
from lowering.errors import LoweringError


def strides_of(handle: Handle) -> tuple[dims.Dim, ...]:
    """The strides of a tensor: products of its sizes where it is dense, numbers where no size varies.

    Raises LoweringError for a tensor that is neither.
    """
    shape, sizes, strides = handle.value.shape, handle.twin.shape, handle.twin.stride()
    if dims.are_numbers(shape):
        return tuple(strides)
    found: dict[int, dims.Dim] = {}
    expression, number = 1, 1
    for axis in sorted(range(len(sizes)), key=lambda a: (strides[a], sizes[a] != 1, -a)):
        if strides[axis] == 0 and sizes[axis] != 1:
            found[axis] = 0
            continue
        if sizes[axis] != 1 and strides[axis] != number:
            raise LoweringError(
                "the model asks for the strides of a tensor that is no dense one, and whose sizes vary",
                hint="call contiguous() before it, or use capture='torch.export'",
            )
        found[axis] = expression
        expression, number = dims.mul(expression, shape[axis]), number * sizes[axis]
    return tuple(found[axis] for axis in range(len(sizes)))


def stride(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """stride(x), stride(x, dim)"""
    found = [size_of(tracer.asked, d) for d in strides_of(tracer.handle(args[0]))]
    return found[args[1]] if len(args) > 1 else tuple(found)


def size(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """size(x), size(x, dim)"""
    found = [size_of(tracer.asked, d) for d in tracer.handle(args[0]).value.shape]
    return found[args[1]] if len(args) > 1 else tuple(found)


def numel(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """How many elements."""
    return size_of(tracer.asked, dims.product(tracer.handle(args[0]).value.shape))


def offset(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Where in its memory a tensor begins."""
    handle = tracer.handle(args[0])
    found = handle.twin.storage_offset()
    if found and not dims.are_numbers(handle.value.shape):
        raise LoweringError("the model asks where in its memory a view begins", hint="use capture='torch.export'")
    return found


def contiguous(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Whether the elements of the example lie in order."""
    form = args[1] if len(args) > 1 else kwargs.get("memory_format", torch.contiguous_format)
    return tracer.handle(args[0]).twin.is_contiguous(memory_format=form)


def strides_like(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Whether the example is laid out as images in a memory format."""
    return tracer.handle(args[0]).twin.is_contiguous(memory_format=args[1])


def dense(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Whether the example fills its memory."""
    return is_non_overlapping_and_dense_or_false(tracer.handle(args[0]).twin)


QUESTIONS = {
    "aten::stride": stride, "aten::sym_stride": stride, "aten::size": size, "aten::sym_size": size,
    "aten::numel": numel, "aten::sym_numel": numel, "aten::storage_offset": offset,
    "aten::sym_storage_offset": offset, "aten::is_contiguous": contiguous, "aten::sym_is_contiguous": contiguous,
    "aten::is_strides_like_format": strides_like, "aten::is_non_overlapping_and_dense": dense,
}  # fmt: skip
"""What answers each question."""
