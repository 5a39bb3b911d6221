"""Sparse tensors that a model computes: the places of what they hold, and the numbers there, as dense tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch

from lowering.direct.functions.sparse import ATEN, PRODUCTS
from lowering.errors import CaptureError, LoweringError


class ComputedSparse(torch.Tensor):
    """A sparse tensor without numbers that a model computes with while it is traced: an element for each column of
    `places`, which has a row for each axis, and `numbers`, of which the first axis is that of these columns. `whole`
    says that it is made of a dense tensor whose gradient is recorded: torch may give that one where it is 0, too."""

    places: torch.Tensor
    numbers: torch.Tensor
    in_order: bool
    given: tuple[Any, ...]
    whole: bool

    @staticmethod
    def __new__(
        cls, places: torch.Tensor, numbers: torch.Tensor, sizes: Sequence[Any], in_order: bool, whole: bool = False
    ) -> Any:
        make: Any = torch.Tensor._make_wrapper_subclass  # whose stub lacks the layout
        made = make(cls, tuple(sizes), dtype=numbers.dtype, layout=torch.sparse_coo, device=torch.device("cpu"))
        made.places, made.numbers, made.in_order, made.given = places, numbers, in_order, tuple(sizes)
        made.whole = whole
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        held = next(each for each in (*args, *(kwargs or {}).values()) if type(each) is ComputedSparse)
        return sparse_call(getattr(held.numbers, "tracer", None), func, args, kwargs or {})

    def with_numbers(self, numbers: torch.Tensor) -> ComputedSparse:
        """Other numbers at the same places."""
        return ComputedSparse(self.places, numbers, self.given, self.in_order, self.whole)

    @property
    def count(self) -> Any:
        """How many elements it holds."""
        return self.places.shape[1]

    @property
    def sparse_axes(self) -> int:
        """How many of its axes have places."""
        return self.places.shape[0]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"ComputedSparse({list(self.given)})"


def is_computed(each: Any) -> bool:
    """Whether an argument is a sparse tensor that the model computes, or a list with one."""
    if isinstance(each, list | tuple):
        return any(map(is_computed, each))
    return type(each) is ComputedSparse


def is_traced(each: Any) -> bool:
    """Whether an argument is a tensor that the model computes, or a list with one."""
    if isinstance(each, list | tuple):
        return any(map(is_traced, each))
    return hasattr(type(each), "stands_for_tensor")


def makes_sparse(func: Any, args: Sequence[Any]) -> bool:
    """Whether an operator makes a sparse tensor of what the model computes, or takes one."""
    return (func in MAKERS and any(map(is_traced, args))) or any(map(is_computed, args))


def sparse_call(tracer: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives of sparse tensors that a model computes. Raises LoweringError for one that is not met."""
    with noted_errors(tracer):
        return called(tracer, func, args, kwargs)


@contextmanager
def noted_errors(tracer: Any) -> Iterator[None]:
    """A block of which the first error is kept, but for one that eager raises at all sizes: the model may catch it."""
    try:
        yield
    except Uncoalesced:
        raise
    except Exception as error:
        if tracer is not None and tracer.asked.raised is None:
            tracer.asked.raised = (error, tracer.line())
        raise


class Uncoalesced(RuntimeError):
    """The places of a sparse tensor may come twice, which torch tells."""


def called(tracer: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The same, whose errors are to be noted."""
    if any(map(is_held, args)):
        tracer.effects["content"] += 1  # what it holds is looked at
        args = [as_computed(each) if is_held(each) else each for each in args]
    meant = MAKERS.get(func) or TAKERS.get(func)
    if func in DENSE_BACK and torch.is_grad_enabled():
        require_places_alone(args)
    if meant is None and func in OF_NUMBERS:
        x = merged(args[0])
        return x.with_numbers(func(x.numbers, *args[1:], **kwargs))
    found = NotImplemented if meant is None else meant(*args, **kwargs)
    if found is NotImplemented:
        raise LoweringError(
            f"{func} of a sparse tensor that the model computes is not met",
            hint="compute with the dense one, x.to_dense(), or by places: "
            "zeros.index_add(0, rows, numbers[:, None] * x[columns])",
        )
    return found


def require_places_alone(args: Sequence[Any]) -> None:
    """Raises CaptureError for a product by which torch gives a dense tensor a gradient where it is 0, too."""
    if any(type(each) is ComputedSparse and each.whole for each in args):
        raise CaptureError(
            "a gradient of a product by x.to_sparse() is recorded, which torch computes of all of x, also where x is 0",
            hint="compute x @ y, or torch.sparse.mm(x.to_sparse(), y), whose gradient is that of the elements it has",
        )


def is_held(each: Any) -> bool:
    """Whether an argument is a sparse tensor that the model holds."""
    return isinstance(each, torch.Tensor) and each.layout is torch.sparse_coo and type(each) is not ComputedSparse


def as_computed(each: torch.Tensor) -> ComputedSparse:
    """A sparse tensor that the model holds as one that it computes."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        held = each.detach().coalesce()
        return ComputedSparse(held.indices().clone(), held.values().clone(), each.shape, True)


# ---------------------------------------------------------------------------------------------- made


def of_dense(x: Any, layout: Any = None, *, sparse_dim: Any = None, **more: Any) -> Any:
    """x.to_sparse()"""
    if type(x) is ComputedSparse:
        return x
    if layout not in (None, torch.sparse_coo) or sparse_dim is not None or any(v is not None for v in more.values()):
        return NotImplemented
    return of_dense_axes(x, x.dim())


def refuse_rows(*_: Any, **__: Any) -> Any:
    """Raises CaptureError: neither way of capture meets x.to_sparse_csr() of what the model computes."""
    raise CaptureError("the model makes a sparse tensor by rows or by columns of what it computes", hint=BY_PLACES)


def of_dense_axes(x: Any, axes: Any) -> Any:
    """x.to_sparse(axes): an element for each place along the first axes where something is not 0."""
    if type(axes) is not int or not 0 < axes <= x.dim():
        return NotImplemented
    held = x != 0
    held = held.flatten(axes).any(-1) if axes < x.dim() else held
    places = held.nonzero().t()
    return ComputedSparse(places, x[tuple(places.unbind(0))], x.shape, True, x.requires_grad)


CHECKED: Any = ATEN._assert_async.default
"""A truth value of the data that must be true."""
BY_PLACES = "make it by places, x.to_sparse(), which products take as well"


def of_parts(indices: Any, values: Any, size: Any = None, **more: Any) -> Any:
    """torch.sparse_coo_tensor(indices, values, size); None of what the model does not compute."""
    traced = [each for each in (indices, values) if is_traced(each)]
    if not traced and not is_traced(size):
        return None
    with noted_errors(getattr(traced[0], "tracer", None) if traced else None):
        return of_columns(indices, values, size, **more)


def of_columns(indices: Any, values: Any, size: Any, **more: Any) -> ComputedSparse:
    """The same, of what the model computes."""
    places = indices if isinstance(indices, torch.Tensor) else torch.tensor(indices)
    numbers = values if isinstance(values, torch.Tensor) else torch.tensor(values)
    numbers = numbers.to(more["dtype"]) if more.get("dtype") is not None else numbers
    places = places.to(torch.int64).reshape(1, -1) if places.dim() == 1 else places.to(torch.int64)
    torch._check(places.shape[1] == numbers.shape[0], lambda: "as many places as numbers")
    if size is None:
        size = [*(end.item() + 1 for end in places.amax(1).unbind(0)), *numbers.shape[1:]]
    for end, row in zip(size, places.unbind(0), strict=False):
        CHECKED(((row >= 0) & (row < end)).all())  # torch would write beyond its memory
    return ComputedSparse(places, numbers, size, bool(more.get("is_coalesced")))


def of_tensors(
    sparse_dim: Any, dense_dim: Any, size: Any, indices: Any, values: Any, is_coalesced: Any = None, **more: Any
) -> Any:
    """The same, as an operator has it."""
    return of_parts(indices, values, size, is_coalesced=is_coalesced)


# ---------------------------------------------------------------------------------------------- asked


def merged(x: ComputedSparse) -> ComputedSparse:
    """x.coalesce(): places in order, each once, with the sum of its numbers."""
    if x.in_order:
        return x
    sizes = x.given[: x.sparse_axes]
    each, group = torch.unique(flat_places(x.places, sizes), return_inverse=True)
    shape = (each.shape[0], *x.numbers.shape[1:])
    counted = x.numbers.to(torch.int64) if x.dtype is torch.bool else x.numbers
    numbers = torch.zeros(shape, dtype=counted.dtype).index_add(0, group, counted)
    return ComputedSparse(places_of_flat(each, sizes), numbers.to(x.dtype), x.given, True, x.whole)


def flat_places(places: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """The number of each place among all, counted along the last axis first."""
    found = places[0]
    for row, size in zip(places.unbind(0)[1:], sizes[1:], strict=True):
        found = found * size + row
    return found


def places_of_flat(flat: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """The places that have these numbers."""
    rows: list[torch.Tensor] = []
    for size in reversed(sizes[1:]):
        rows.append(flat % size)
        flat = flat // size
    return torch.stack([flat, *reversed(rows)])


def require_order(x: ComputedSparse, what: str) -> None:
    """Raises RuntimeError, as torch does, where places may come twice."""
    if not x.in_order:
        raise Uncoalesced(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")


def places_in_order(x: ComputedSparse) -> torch.Tensor:
    """x.indices()"""
    require_order(x, "indices")
    return x.places


def numbers_in_order(x: ComputedSparse) -> torch.Tensor:
    """x.values()"""
    require_order(x, "values")
    return x.numbers


def count_held(x: Any) -> Any:
    """x._nnz(); None of what the model does not compute."""
    return x.count if type(x) is ComputedSparse else None


def dense(x: ComputedSparse, dtype: Any = None, **_: Any) -> torch.Tensor:
    """x.to_dense()"""
    counted = x.numbers.to(torch.int64) if x.dtype is torch.bool else x.numbers
    whole = torch.zeros(x.given, dtype=counted.dtype)
    return whole.index_put(tuple(x.places.unbind(0)), counted, accumulate=True).to(dtype or x.dtype)


# ---------------------------------------------------------------------------------------------- computed


def product(one: Any, other: Any) -> Any:
    """one @ other, of which one is sparse, of two axes or with a batch before them."""
    if type(one) is not ComputedSparse and one.layout is torch.strided and other.dim() == 2 and one.dim() <= 2:
        turned = product(transposed(other, 0, 1), one.t() if one.dim() == 2 else one)
        return turned.t() if one.dim() == 2 and turned is not NotImplemented else turned
    if type(one) is ComputedSparse and type(other) is ComputedSparse:
        return sparse_product(one, other)
    if type(one) is not ComputedSparse or one.sparse_axes != one.dim() or other.layout is not torch.strided:
        return NotImplemented
    torch._check(one.dtype is other.dtype, lambda: f"expected one element type, and got {one.dtype} and {other.dtype}")
    if one.dim() == 2 and other.dim() == 1:
        return product(one, other.unsqueeze(1)).squeeze(1)
    if not 2 <= one.dim() == other.dim() <= 3:
        return NotImplemented
    torch._check(one.shape[-1] == other.shape[-2], lambda: "a product of columns by as many rows")
    *batch, rows, columns = one.places.unbind(0)
    parts = one.numbers.unsqueeze(1) * other[(*batch, columns)]
    count = math.prod(one.given[:-1])
    place = rows if not batch else batch[0] * one.given[1] + rows
    whole = torch.zeros((count, other.shape[-1]), dtype=parts.dtype).index_add(0, place, parts)
    return whole.reshape(*one.given[:-1], other.shape[-1]) if batch else whole


def sparse_product(one: ComputedSparse, other: ComputedSparse) -> Any:
    """one @ other of two sparse matrices: an element where one of both has met one of the other."""
    if not one.sparse_axes == other.sparse_axes == one.dim() == other.dim() == 2 or one.dtype is torch.bool:
        return NotImplemented
    met = product(
        one.with_numbers(torch.ones_like(one.numbers)), dense(other.with_numbers(torch.ones_like(other.numbers)))
    )
    places = met.nonzero().t()
    numbers = product(one, dense(other))[tuple(places.unbind(0))]
    return ComputedSparse(places, numbers, (one.given[0], other.given[1]), True, one.whole or other.whole)


def sum_and_product(start: torch.Tensor, one: Any, other: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * start + alpha * (one @ other), of which torch does not look at the start where beta is 0."""
    found = product(one, other)
    if found is NotImplemented or type(found) is ComputedSparse or start.layout is not torch.strided:
        return NotImplemented
    return found * alpha if beta == 0 else start.expand(found.shape) * beta + found * alpha


def transposed(x: ComputedSparse, one: int, other: int) -> ComputedSparse:
    """x.transpose(one, other)"""
    order = [*range(x.dim())]
    one, other = one % x.dim(), other % x.dim()
    order[one], order[other] = other, one
    return permuted(x, order)


def permuted(x: ComputedSparse, axes: Sequence[int]) -> ComputedSparse:
    """x.permute(axes), of which those with places stay before the others."""
    order = [axis % x.dim() for axis in axes]
    if order[x.sparse_axes :] != [*range(x.sparse_axes, x.dim())]:
        return NotImplemented
    rows = x.places.unbind(0)
    places = torch.stack([rows[axis] for axis in order[: x.sparse_axes]])
    same = order == [*range(x.dim())]
    return ComputedSparse(places, x.numbers, [x.given[axis] for axis in order], x.in_order and same, x.whole)


def turned(x: ComputedSparse) -> ComputedSparse:
    """x.t()"""
    return transposed(x, 0, 1) if x.dim() == 2 else NotImplemented


def times(one: Any, other: Any) -> Any:
    """one * other: by a number, or at the places of the sparse one by a dense one of its sizes."""
    x, by = (one, other) if type(one) is ComputedSparse else (other, one)
    if type(by) is ComputedSparse:
        return NotImplemented
    if not isinstance(by, torch.Tensor) or by.dim() == 0:
        return x.with_numbers(x.numbers * by)
    if by.layout is not torch.strided or by.dim() != x.dim():
        return NotImplemented
    for size, own in zip(by.shape, x.given, strict=True):
        torch._check(size == own, lambda: "a product of equal sizes")
    return x.with_numbers(x.numbers * by[tuple(x.places.unbind(0))])


def divided(x: Any, by: Any, **more: Any) -> Any:
    """x / by, a number."""
    plain = type(x) is ComputedSparse and (not isinstance(by, torch.Tensor) or by.dim() == 0)
    return x.with_numbers(torch.div(x.numbers, by)) if plain and not more else NotImplemented


def added(one: Any, other: Any, *, alpha: Any = 1) -> Any:
    """one + alpha * other: the elements of both, or a dense tensor where the first is one."""
    if type(other) is not ComputedSparse:
        return NotImplemented
    if type(one) is not ComputedSparse:
        return torch.add(one, dense(other), alpha=alpha) if one.layout is torch.strided else NotImplemented
    if one.sparse_axes != other.sparse_axes or one.dtype is not other.dtype:
        return NotImplemented
    for size, own in zip(other.given, one.given, strict=True):
        torch._check(size == own, lambda: "a sum of equal sizes")
    numbers = torch.cat([one.numbers, other.numbers * alpha if alpha != 1 else other.numbers])
    both = ComputedSparse(torch.cat([one.places, other.places], 1), numbers, one.given, False, one.whole or other.whole)
    return merged(both) if one.in_order and other.in_order else both


def subtracted(one: Any, other: Any, *, alpha: Any = 1) -> Any:
    """one - alpha * other"""
    return added(one, other, alpha=-alpha)


def summed(x: ComputedSparse, *, dtype: Any = None) -> torch.Tensor:
    """The sum of all."""
    return x.numbers.sum(dtype=dtype)


def summed_along(x: ComputedSparse, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """x.sum(dim): sparse, but where no axis with places is left."""
    axes = {axis % x.dim() for axis in ([dim] if isinstance(dim, int) else dim or range(x.dim()))}
    if keepdim:
        return NotImplemented
    numbers, kept = x.numbers, [axis for axis in range(x.sparse_axes) if axis not in axes]
    inner = [1 + axis - x.sparse_axes for axis in axes if axis >= x.sparse_axes]
    numbers = numbers.sum(inner, dtype=dtype) if inner else numbers if dtype is None else numbers.to(dtype)
    if not kept:
        return numbers.sum(0)
    rows, left = x.places.unbind(0), [size for axis, size in enumerate(x.given) if axis not in axes]
    return merged(ComputedSparse(torch.stack([rows[axis] for axis in kept]), numbers, left, False, x.whole))


def softened(x: ComputedSparse, dim: int, half_to_float: Any = False, *, log: bool = False) -> Any:
    """torch.sparse.softmax(x, dim): over the elements that are held along an axis."""
    x, axis = merged(x), dim % x.dim()
    if half_to_float not in (False, None) or x.sparse_axes != x.dim() or not x.is_floating_point():
        return NotImplemented
    rows = [row for place, row in enumerate(x.places.unbind(0)) if place != axis]
    sizes = [size for place, size in enumerate(x.given) if place != axis]
    group = flat_places(torch.stack(rows), sizes) if rows else torch.zeros_like(x.places[0])
    count = math.prod(sizes)
    most = torch.full((count,), -math.inf, dtype=x.dtype).scatter_reduce(0, group, x.numbers.detach(), "amax")
    apart = x.numbers - most.index_select(0, group)
    total = torch.zeros((count,), dtype=x.dtype).index_add(0, group, apart.exp()).index_select(0, group)
    return x.with_numbers(apart - total.log() if log else apart.exp() / total)


def softened_logarithm(x: ComputedSparse, dim: int, half_to_float: Any = False) -> Any:
    """torch.sparse.log_softmax(x, dim)"""
    return softened(x, dim, half_to_float, log=True)


def masked(x: Any, mask: Any) -> Any:
    """x.sparse_mask(mask): the numbers of a dense tensor at the places of a sparse one."""
    if type(x) is ComputedSparse or type(mask) is not ComputedSparse:
        return NotImplemented
    numbers = x[tuple(mask.places.unbind(0))]
    return ComputedSparse(mask.places, numbers, mask.given, mask.in_order, mask.whole or x.requires_grad)


def converted(x: ComputedSparse, dtype: Any = None, layout: Any = None, **more: Any) -> Any:
    """x.to(dtype)"""
    plain = not any(each for name, each in more.items() if name not in ("device", "non_blocking", "copy"))
    if not plain or layout not in (None, torch.sparse_coo) or not isinstance(dtype, torch.dtype | None):
        return NotImplemented
    return x if dtype is None else x.with_numbers(x.numbers.to(dtype))


def same(x: ComputedSparse, *_: Any, **__: Any) -> ComputedSparse:
    """A copy of it, or itself under another name: nothing is written into one."""
    return x.with_numbers(x.numbers)


# ---------------------------------------------------------------------------------------------- which


SHAPE: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    ATEN.sparse_dim.default: lambda x: x.sparse_axes, ATEN.dense_dim.default: lambda x: x.dim() - x.sparse_axes,
    ATEN.is_coalesced.default: lambda x: x.in_order, ATEN.numel.default: lambda x: math.prod(x.given),
})  # fmt: skip
MAKERS: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    ATEN.to_sparse.default: of_dense, ATEN.to_sparse.sparse_dim: of_dense_axes,
    ATEN._to_sparse.default: of_dense, ATEN._to_sparse.sparse_dim: of_dense_axes,
    **dict.fromkeys((ATEN.to_sparse_csr.default, ATEN._to_sparse_csr.default, ATEN.to_sparse_csc.default,
                     ATEN._to_sparse_csc.default), refuse_rows),
    ATEN.sparse_coo_tensor.indices: of_parts, ATEN.sparse_coo_tensor.indices_size: of_parts,
    ATEN._sparse_coo_tensor_unsafe.default: of_parts,
    ATEN._sparse_coo_tensor_with_dims_and_tensors.default: of_tensors,
})  # fmt: skip
"""What makes a sparse tensor of dense ones."""
TAKERS: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    **SHAPE,
    ATEN.coalesce.default: merged, ATEN._coalesce.default: merged,
    ATEN.indices.default: places_in_order, ATEN.values.default: numbers_in_order,
    ATEN._indices.default: lambda x: x.places, ATEN._values.default: lambda x: x.numbers,
    ATEN.to_dense.default: dense, ATEN._to_dense.default: dense,
    **{each: sum_and_product if "addmm" in str(each) else product for each in PRODUCTS}, ATEN.bmm.default: product,
    ATEN.t.default: turned, ATEN.numpy_T.default: turned,
    ATEN.transpose.int: transposed, ATEN.permute.default: permuted,
    ATEN.mul.Tensor: times, ATEN.mul.Scalar: times, ATEN.div.Tensor: divided, ATEN.div.Scalar: divided,
    ATEN.neg.default: lambda x: x.with_numbers(-x.numbers),
    ATEN.add.Tensor: added, ATEN.sub.Tensor: subtracted,
    ATEN._sparse_sum.default: summed, ATEN.sum.default: summed, ATEN._sparse_sum.dtype: summed,
    ATEN._sparse_sum.dim: summed_along, ATEN._sparse_sum.dim_dtype: summed_along, ATEN.sum.dim_IntList: summed_along,
    ATEN._sparse_softmax.default: softened, ATEN._sparse_log_softmax.default: softened_logarithm,
    ATEN._sparse_softmax.int: softened, ATEN._sparse_log_softmax.int: softened_logarithm,
    ATEN.sparse_mask.default: masked, ATEN._to_copy.default: converted,
    ATEN.to.dtype: converted, ATEN.to.dtype_layout: converted,
    ATEN.detach.default: lambda x: x.with_numbers(x.numbers.detach()),
    ATEN.clone.default: same, ATEN.alias.default: same,
})  # fmt: skip
"""What an operator gives of one."""
DENSE_BACK = frozenset((
    ATEN.mm.default, ATEN.matmul.default, ATEN.mv.default, ATEN.addmm.default, ATEN.bmm.default,
))  # fmt: skip
"""Products of which torch gives a sparse factor a dense gradient."""
OF_NUMBERS = frozenset((
    ATEN.relu.default, ATEN.abs.default, ATEN.sqrt.default, ATEN.sin.default, ATEN.tan.default, ATEN.sinh.default,
    ATEN.tanh.default, ATEN.asin.default, ATEN.atan.default, ATEN.asinh.default, ATEN.atanh.default, ATEN.sign.default,
    ATEN.sgn.default, ATEN.square.default, ATEN.expm1.default, ATEN.log1p.default, ATEN.erf.default,
    ATEN.floor.default, ATEN.ceil.default, ATEN.round.default, ATEN.trunc.default,
))  # fmt: skip
"""Operators on each number that leave a 0 as it is."""
FROM_PARTS: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    torch.sparse_coo_tensor: of_parts, torch.Tensor._nnz: count_held,
})  # fmt: skip
"""Functions that take sizes as plain numbers once torch has them."""
