"""What FX recorded of a node, as irkit types; torch dtypes as element types; torch tensors as blobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import torch

from irkit.core.blobs import COPIED, Blob, owned_blob
from irkit.core.types import DType, Tensor, Type
from irkit.errors import AbsentError, EvaluateError
from lowering.records.sizes import Sizes
from lowering.records.tensor_versions import TensorWatch
from lowering.records.torch_internals import FakeTensor
from lowering.tensors.promotion import COMPLEX32

DTYPES: Mapping[torch.dtype, DType] = {
    torch.float32: DType.FLOAT, torch.float64: DType.DOUBLE, torch.float16: DType.FLOAT16,
    torch.bfloat16: DType.BFLOAT16, torch.int8: DType.INT8, torch.int16: DType.INT16, torch.int32: DType.INT32,
    torch.int64: DType.INT64, torch.uint8: DType.UINT8, torch.uint16: DType.UINT16, torch.uint32: DType.UINT32,
    torch.uint64: DType.UINT64, torch.bool: DType.BOOL, torch.complex32: COMPLEX32,
    torch.complex64: DType.COMPLEX64, torch.complex128: DType.COMPLEX128, torch.float8_e4m3fn: DType.FLOAT8E4M3FN,
    torch.float8_e4m3fnuz: DType.FLOAT8E4M3FNUZ, torch.float8_e5m2: DType.FLOAT8E5M2,
    torch.float8_e5m2fnuz: DType.FLOAT8E5M2FNUZ, torch.float8_e8m0fnu: DType.FLOAT8E8M0,
}  # fmt: skip
TORCH: Mapping[DType, torch.dtype] = {ours: theirs for theirs, ours in DTYPES.items()}

# torch hands numpy no view of these; the bits are viewed through an integer of the same width.
_VIEWED: Mapping[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz),
    torch.float8_e8m0fnu: (torch.uint8, ml_dtypes.float8_e8m0fnu),
}


def type_of(recorded: Any, sizes: Sizes) -> Any:
    """The irkit type of what FX recorded in `meta["val"]`: a Tensor, a tuple of such, None for what is not a tensor."""
    if isinstance(recorded, torch.Tensor):
        return Tensor(DTYPES[recorded.dtype], sizes.shape(recorded.shape))
    if isinstance(recorded, tuple | list):
        return tuple(type_of(part, sizes) for part in recorded)
    return None


def blob_of(tensor: torch.Tensor, name: str = "", *, copy: bool = False) -> Blob:
    """The blob of what a torch tensor holds now. A small one is copied, and any with `copy`; of a large one it is a
    view of its memory where torch can give one, read when asked, which refuses once the tensor was written into."""
    held = tensor.detach()  # a parameter gets other memory where its module is converted afterwards
    dtype = DTYPES[tensor.dtype]
    if is_absent(tensor):
        return Blob(dtype, tuple(tensor.shape), lambda: array_of(held), name, source=tensor)
    if copy or held.nbytes <= COPIED:
        return owned_blob(np.array(array_of(held), order="K"), dtype, name, tensor)
    array = seen_array(held) if is_seen(held) else None
    watch = TensorWatch.of(held, name, array)
    load = (lambda: array_of(held)) if array is None else (lambda: array)
    return Blob(dtype, tuple(tensor.shape), load, name, source=tensor, watch=watch)


def is_seen(tensor: torch.Tensor) -> bool:
    """Whether numpy can see the memory of a tensor as it is, so that `array_of` copies nothing."""
    plain = tensor.is_cpu and tensor.layout is torch.strided
    if not plain or tensor.is_conj() or tensor.is_neg():
        return False
    return tensor.dtype not in _VIEWED or tensor.is_contiguous()


def is_absent(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no numbers: it is on the meta device, or a fake one."""
    return tensor.is_meta or (type(tensor) not in PRESENT and isinstance(tensor, FakeTensor))


PRESENT = frozenset((torch.Tensor, torch.nn.Parameter))
"""Types of most weights, of which it need not be asked."""


def blobs_of_parts(tensor: torch.Tensor, name: str = "", *, copy: bool = False) -> tuple[Blob, Blob]:
    """The blobs of the real and of the imaginary part of a complex tensor; copied as `blob_of` does, large ones when
    asked."""
    held = tensor.detach()
    pairs = torch.view_as_real(held.resolve_conj())
    watch = None if is_absent(tensor) else TensorWatch.of(held, name, array_of(held) if is_seen(held) else None)

    def part(index: int, suffix: str) -> Blob:
        half, label = pairs[..., index], name and f"{name}.{suffix}"
        if watch is not None and (copy or held.nbytes <= COPIED):
            return owned_blob(np.array(array_of(half.contiguous())), DTYPES[half.dtype], label)
        return Blob(DTYPES[half.dtype], tuple(half.shape), lambda: array_of(half.contiguous()), label, watch=watch)

    return part(0, "real"), part(1, "imag")


def as_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as a real one of a last dimension of 2, which is how it crosses the boundary of a graph."""
    return torch.view_as_real(tensor.detach().resolve_conj())


def from_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """The complex tensor over the memory of a real one of a last dimension of 2."""
    if tensor.numel() == 0:  # of which the strides may be any
        return torch.complex(tensor[..., 0], tensor[..., 1])
    return torch.view_as_complex(tensor.contiguous())


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The numpy array over a tensor's memory; tensors on other devices, and sparse or conjugated ones, are copied.

    numpy has no complex32: its numbers come as pairs of float16. Raises AbsentError for a tensor without content.
    """
    if is_absent(tensor):
        what = "a tensor {} on the meta device" if tensor.is_meta else "the fake tensor {}"
        raise AbsentError(
            f"{what.format(tuple(tensor.shape))} has no numbers",
            hint="load the weights before the model is captured; without them its graph can be looked at and "
            "optimized, not run or written",
        )
    if is_wrapper(tensor):
        raise EvaluateError(
            f"a {type(tensor).__name__} {tuple(tensor.shape)} has no memory of its own: its class wraps other tensors",
            hint="hand over the tensors that it wraps, or dequantize it before",
        )
    plain = tensor.detach()
    if not is_seen(plain):
        plain = plain.to_dense() if plain.layout is not torch.strided else plain
        plain = plain.cpu().resolve_conj().resolve_neg()
    return seen_array(plain)


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether a tensor is made of others by a class of its own: torch hands its operators to that, and where its
    numbers would lie there is nothing."""
    own = type(tensor) in PRESENT or hasattr(type(tensor), "stands_for_tensor")  # one of a capture around this one
    if own or tensor.layout is not torch.strided or not tensor.numel():
        return False
    try:
        return tensor.untyped_storage().data_ptr() == 0
    except RuntimeError:  # "invalid python storage"
        return True


def seen_array(tensor: torch.Tensor) -> np.ndarray:
    """The numpy array over the memory of a tensor that numpy can see as it is, and that has no gradient."""
    plain = as_pairs(tensor) if tensor.dtype is torch.complex32 else tensor
    if plain.dtype in _VIEWED:
        through, target = _VIEWED[plain.dtype]
        return plain.contiguous().view(through).numpy().view(target)
    return plain.numpy()


def is_type(expected: Any) -> bool:
    """True for a type or a tuple of types, which is all that a result can be checked against."""
    return isinstance(expected, Type) or (isinstance(expected, tuple) and all(map(is_type, expected)))


def tensor_of(array: np.ndarray, value: Any = None) -> torch.Tensor:
    """The torch tensor over an array's memory (copied where numpy says it is read-only)."""
    found = np.ascontiguousarray(array).reshape(array.shape)
    if not found.flags.writeable:
        found = found.copy()
    kind = DType.of(found.dtype)
    for theirs, (through, _) in _VIEWED.items():
        if DTYPES[theirs] is kind:
            width = np.int16 if through is torch.int16 else np.uint8
            return torch.from_numpy(found.view(width)).view(theirs)
    # C has two unsigned types of 64 bits, of which torch takes one and ONNX Runtime returns the other.
    return torch.from_numpy(found.view(np.uint64) if found.dtype == np.uint64 else found)
