"""Products by sparse tensors that the model holds: rows are taken, scaled and summed, as torch's own kernels do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch


def is_sparse(each: Any) -> bool:
    """Whether an argument is a sparse tensor, which holds its numbers itself, and of which no gradient is asked for."""
    return isinstance(each, torch.Tensor) and each.layout in LAYOUTS and not each.requires_grad


def sparse_product(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a product by a sparse matrix gives; None where neither or both factors are sparse, or an axis is a batch."""
    if not any(map(is_sparse, args)):
        return None
    return PRODUCTS[func](*args, **kwargs)


def product(one: Any, other: Any) -> Any:
    """one @ other, of which one is sparse: what the sparse one does not hold adds nothing, of infinities, too."""
    if is_sparse(one) is is_sparse(other) or one.dim() != 2 or other.dim() not in (1, 2):
        return None
    require_type(one, other)
    if is_sparse(other):
        turned = product(other.transpose(0, 1), one.t()) if other.dim() == 2 else None
        return None if turned is None else turned.t()
    if other.dim() == 1:
        return product(one, other.unsqueeze(1)).squeeze(1)
    torch._check(other.shape[0] == one.shape[1], lambda: f"a product of {one.shape[1]} columns by other rows")
    rows, columns, numbers = content_of(one)
    parts = numbers.unsqueeze(1) * other.index_select(0, columns)
    return torch.zeros(one.shape[0], other.shape[1], dtype=parts.dtype).index_add(0, rows, parts)


def content_of(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(rows, columns, numbers) of what a sparse matrix holds, out of sight of what meets operators."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        held = matrix.detach().to_sparse(layout=torch.sparse_coo).coalesce()
        (rows, columns), numbers = held.indices(), held.values()
        return rows.clone(), columns.clone(), numbers.clone()


def require_type(one: torch.Tensor, other: torch.Tensor) -> None:
    """Raises RuntimeError, as torch does, for tensors of other element types."""
    torch._check(one.dtype is other.dtype, lambda: f"expected one element type, and got {one.dtype} and {other.dtype}")


def sum_and_product(start: torch.Tensor, one: Any, other: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * start + alpha * (one @ other), of which torch does not look at the start where beta is 0."""
    found = product(one, other)
    if found is None:
        return None
    require_type(start, found)
    wide, whole = start.expand(found.shape), found * alpha
    scaled = whole if beta == 0 else wide * beta + whole
    require_type(scaled, found)
    return scaled


ATEN = torch.ops.aten
LAYOUTS = frozenset((torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))
PRODUCTS: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    ATEN._sparse_mm.default: product, ATEN.mm.default: product, ATEN.matmul.default: product, ATEN.mv.default: product,
    ATEN.addmm.default: sum_and_product, ATEN._sparse_addmm.default: sum_and_product,
})  # fmt: skip
"""Operators that may be given a sparse matrix."""


def is_held(args: Sequence[Any]) -> bool:
    """Whether all tensors among arguments are the model's own, of which no gradient is asked for."""
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    return all(type(each) in (torch.Tensor, torch.nn.Parameter) and not each.requires_grad for each in tensors)


def held_by_model(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What torch gives, out of sight of what meets operators."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        return func(*args, **kwargs)


def made_of_constants(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The sparse tensor of what the model holds; None of what it computes."""
    return held_by_model(func, args, kwargs) if is_held(args) else None


MAKING = (
    ATEN._sparse_coo_tensor_with_dims_and_tensors.default, ATEN.sparse_coo_tensor.indices,
    ATEN.sparse_coo_tensor.indices_size, ATEN._sparse_coo_tensor_unsafe.default,
    ATEN.sparse_compressed_tensor.comp_plain_value_size, ATEN._sparse_compressed_tensor_unsafe.default,
    ATEN.to_sparse.default, ATEN.to_sparse.sparse_dim, ATEN._to_sparse.default, ATEN._to_sparse.sparse_dim,
    ATEN.to_sparse_csr.default, ATEN._to_sparse_csr.default, ATEN.to_sparse_csc.default, ATEN._to_sparse_csc.default,
)  # fmt: skip
HINTS: Mapping[Any, str] = MappingProxyType(dict.fromkeys(MAKING, (
    "a graph has dense tensors of what a model computes or trains: compute with the dense one, or by places, "
    "zeros.index_add(0, rows, numbers[:, None] * x[columns])"
)))  # fmt: skip
"""What to try where a model computes the content of a sparse tensor."""
SPARSE: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    **dict.fromkeys(PRODUCTS, sparse_product), **dict.fromkeys(MAKING, made_of_constants),
})  # fmt: skip
"""Operators that may be met otherwise for sparse tensors that the model holds."""
