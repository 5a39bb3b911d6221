"""What operators of linear algebra require of the sizes of their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from irkit import dims
from irkit.core.types import Tensor
from lowering.capture.guards.products import integers_scaled
from lowering.records.types import DTYPES


def reflections(tracer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], twins: Any) -> None:
    """householder_product(x, tau): at least as many rows as columns, and as many of these as reflections"""
    x, tau = (*args, *kwargs.values())[:2]
    for one, other in zip(x.shape[:-2], tau.shape[:-1], strict=True):
        tracer.asked.equal(one, other)
    rows, columns = x.shape[-2:]
    for more, less in ((rows, columns), (columns, tau.shape[-1])):
        if not dims.are_numbers((more, less)):
            tracer.asked.required(sympy.Ge(sympy.sympify(more), sympy.sympify(less)))


def tensor_inverse(tracer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], twins: Any) -> None:
    """tensorinv(x, ind): as many elements along the first dimensions as along the others"""
    shape, count = args[0].shape, args[1] if len(args) > 1 else kwargs.get("ind", 2)
    tracer.asked.equal(dims.product(shape[:count]), dims.product(shape[count:]))


def tensor_solution(tracer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], twins: Any) -> None:
    """tensorsolve(a, b, dims): a has as many elements along its last dimensions, those that are moved behind among
    them, as b has, and as many along the others, but where that is none"""
    a, b = args[:2]
    moved = [axis % a.rank for axis in (args[2] if len(args) > 2 else kwargs.get("dims")) or ()]
    shape = [*(d for axis, d in enumerate(a.shape) if axis not in moved), *(a.shape[axis] for axis in moved)]
    count, rows = dims.product(b.shape), dims.product(shape[: b.rank])
    tracer.asked.equal(count, dims.product(shape[b.rank :]))
    if tracer.asked.decided("ge", count, 1) is True:
        tracer.asked.equal(rows, count)
    elif dims.same(rows, count) is not True:
        tracer.asked.required(sympy.Or(sympy.Eq(rows, count), sympy.Eq(count, 0)))


def product_added_to(tracer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], twins: Any) -> None:
    """addbmm(x, a, b, beta), baddbmm(x, a, b, beta): of integers, something to multiply where beta is no integer"""
    x, a, b = args[:3]
    name = "aten::baddbmm" if twins.dim() == 3 else "aten::addmm" if a.rank == 2 else "aten::addbmm"
    if x.dtype.is_integer:
        for condition in integers_scaled(name, kwargs.get("beta", 1), a.shape, b.shape):
            tracer.asked.required(condition)


def attention_of_some(tracer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], twins: Any) -> None:
    """scaled_dot_product_attention(q, k, v): something to look at, by something, where keys have other batches than
    queries: torch gives of nothing a result with the batches of the queries alone"""
    q, k, v = (*args, *(kwargs[name] for name in ("query", "key", "value") if name in kwargs))[:3]
    batches = [each.shape[:-2] for each in (q, k, v)]
    if all(len(b) == len(batches[0]) and all(map(dims.same, b, batches[0])) for b in batches):
        return
    for size in (*q.shape[:-1], *v.shape):
        if tracer.asked.decided("ge", size, 1) is not True and not dims.are_numbers((size,)):
            tracer.asked.required(sympy.Ge(sympy.sympify(size), 1))


def unpacked_factors(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """lu_unpack(factors, pivots): as many pivots as the smaller side of a matrix is long, for each of them"""
    factors, pivots = args[:2]
    wanted = (*factors.shape[:-2], dims.minimum(*factors.shape[-2:]))
    for size, other in zip(pivots.shape, wanted, strict=True):
        tracer.asked.equal(size, other)
    return None


def least_squares(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """linalg_lstsq(a, b): residuals where matrices are higher than wide. Batches of matrices are broadcast."""
    a, b = args[:2]
    kind = (args[3] if len(args) > 3 else kwargs.get("driver")) or "gelsy"
    (m, n), batch = a.shape[-2:], a.shape[:-2]
    vector = twins[0].dim() < a.rank
    met = zip(b.shape if vector else b.shape[:-1], (*batch, m)[-b.rank + (not vector) :], strict=True)
    sizes = [met_size(tracer, *pair, not vector and axis < b.rank - 2) for axis, pair in enumerate(met)]
    together = batch if vector or b.rank < a.rank else tuple(sizes[:-1])
    if not vector and b.rank < a.rank:
        whole: list[Any] = [sympy.Eq(s, t) for s, t in zip(b.shape, a.shape[:-1], strict=True)]
        tracer.asked.condition(sympy.And(*whole), False)
    high = kind != "gelsy" and tracer.asked.hint(m) > tracer.asked.hint(n)
    if kind != "gelsy" and not dims.are_numbers((m, n)):
        tracer.asked.condition(sympy.Gt(m, n), high)
    count, least = () if vector else b.shape[-1:], dims.minimum(m, n)
    shapes = (
        (*together, n, *count), (*together, *(count or (1,))) if high else (0,),
        batch if kind != "gels" else (0,),
        (*batch, least) if kind in ("gelsd", "gelss") else (0,),
    )  # fmt: skip
    return tuple(Tensor(DTYPES[t.dtype], tuple(shape)) for t, shape in zip(twins, shapes, strict=True))


def met_size(tracer: Any, size: Any, other: Any, broadcast: bool) -> Any:
    """The size of a result that two of operands tell: equal ones or, of a batch, one of them 1 in the example."""
    if broadcast and tracer.asked.hint(size) != tracer.asked.hint(other):
        one, many = (size, other) if tracer.asked.hint(size) == 1 else (other, size)
        tracer.asked.equal(one, 1)
        return many
    tracer.asked.equal(size, other)
    return size
