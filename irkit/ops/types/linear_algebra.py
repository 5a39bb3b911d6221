"""Type rules of matrix products."""

from __future__ import annotations

from collections.abc import Iterator

from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context, broadcast, broadcast_dim, broadcast_to


def infer_MatMul(c: Context) -> Type:
    """a[..., n, k], b[..., k, m] -> [..., n, m] as numpy's matmul: vectors lose their axis, the others broadcast"""
    a = c.tensor(0)
    return Tensor(a.dtype, matmul(c, a.shape, c.shape(1)))


def matmul(c: Context, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of numpy's matmul. Raises TypeRuleError for scalars, and where the inner sizes differ."""
    if not a or not b:
        raise c.fail("scalars have no matrix product", hint="use op.Mul")
    inner = b[-2:][0]
    if a[-1] is not inner:
        c.unify(a[-1], inner, "the inner sizes")
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    return broadcast(c, a[:-2], b[:-2]) + rows + columns


def infer_MatMulInteger(c: Context) -> Type:
    """a[..., n, k], b[..., k, m] of integers -> i32[..., n, m]"""
    return Tensor(DType.INT32, matmul(c, c.shape(0), c.shape(1)))


def infer_QLinearMatMul(c: Context) -> Type:
    """a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero -> matmul(a, b) of the element type of y_zero"""
    return Tensor(c.dtype(7), matmul(c, c.shape(0), c.shape(3)))


def infer_Gemm(c: Context) -> Type:
    """a[n, k], b[k, m], bias broadcast to [n, m]? -> [n, m]; `transA` and `transB` swap the axes first"""
    a, b = c.ranked(0, 2), c.ranked(1, 2)
    n, k = a.shape[::-1] if c.attr("transA") else a.shape
    inner, m = b.shape[::-1] if c.attr("transB") else b.shape
    if k is not inner:
        c.unify(k, inner, "the inner sizes")
    if c.has(2):
        broadcast_to(c, c.shape(2), (n, m), "the bias")
    return Tensor(a.dtype, (n, m))


def infer_Det(c: Context) -> Type:
    """x[..., n, n] -> [...]"""
    x = c.tensor(0)
    if len(x.shape) < 2:
        raise c.fail(f"the operand must have rank 2 or more, and has {len(x.shape)}")
    c.unify(x.shape[-1], x.shape[-2], "the sizes of a square matrix")
    return Tensor(x.dtype, x.shape[:-2])


def infer_Einsum(c: Context) -> Type:
    """operands -> what `equation` says, as numpy's einsum: `ij,jk->ik`, with `...` for axes that broadcast"""
    equation = str(c.attr("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(c.inputs):
        raise c.fail(f"{equation!r} has {len(terms)} terms for {len(c.inputs)} operands")
    sizes: dict[str, Dim] = {}
    rest: tuple[Dim, ...] = ()
    for index, term in enumerate(terms):
        for letter, dim in labelled(c, term, c.shape(index)):
            sizes[letter] = broadcast_dim(c, sizes[letter], dim) if letter in sizes else dim
        rest = broadcast(c, rest, ellipsis_dims(term, c.shape(index)))
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    shape: tuple[Dim, ...] = ()
    for letter in right.replace("...", "."):
        if letter != "." and letter not in sizes:
            raise c.fail(f"{equation!r} asks for the axis {letter}, which no operand has")
        shape += rest if letter == "." else (sizes[letter],)
    return Tensor(c.dtype(0), shape)


def labelled(c: Context, term: str, shape: tuple[Dim, ...]) -> Iterator[tuple[str, Dim]]:
    """(letter, size) of each axis of one einsum operand that has a letter."""
    before, dots, after = term.partition("...")
    count = len(before) + len(after)
    if count > len(shape) or (not dots and count != len(shape)):
        raise c.fail(f"the term {term!r} has {count} axes for an operand of rank {len(shape)}")
    yield from zip(before, shape, strict=False)
    yield from zip(after, shape[len(shape) - len(after) :], strict=True)


def ellipsis_dims(term: str, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The sizes that `...` stands for in one einsum operand."""
    before, dots, after = term.partition("...")
    return shape[len(before) : len(shape) - len(after)] if dots else ()
