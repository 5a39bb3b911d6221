"""Products: views and broadcasts around MatMul, factors moved out of it, and Einsum that is one MatMul."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.pattern import Constant, attr, hole, p, uniform
from irkit.pattern import const as constant
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import OUT_OF_RANGE, is_float, is_moderate, lazily, number, same_shape, wide
from passes.rules.movement.views import broadcast

a, b = hole("a"), hole("b")


# ---------------------------------------------------------------------------------------------- views and broadcasts


def _rows(rng: np.random.Generator) -> Value:
    n = dims.symbol("n")
    x, y = param(Tensor(DType.FLOAT, (n, 2, 3, 4))), param(Tensor(DType.FLOAT, (n, 2, 4, 5)))
    rows, columns = (op.Reshape(v, shape_vector((dims.mul(n, 2), *v.shape[2:]))) for v in (x, y))
    return op.Reshape(op.MatMul(rows, columns), shape_vector((n, 2, 3, 5)))


_flat_a = p.Reshape(a, hole("sa"), allowzero=attr("za")).named("left")
_flat_b = p.Reshape(b, hole("sb"), allowzero=attr("zb")).named("right")


@rule(p.Reshape(p.MatMul(_flat_a, _flat_b).once(), hole("s"), allowzero=attr("z")), exact=False, sample=_rows)
def product_of_batches(m: Match) -> Made:
    """Reshape(Reshape(a) @ Reshape(b)) -> a @ b, where only batches were joined and come back"""
    for whole, flat in ((m.a, m.left), (m.b, m.right)):
        if whole.rank < 2 or flat.rank < 2 or not same_shape(whole.shape[-2:], flat.shape[-2:]):
            return decline("a matrix is reshaped")
    if not same_shape(m.left.shape[:-2], m.right.shape[:-2]) or not same_shape(m.a.shape[:-2], m.b.shape[:-2]):
        return decline("the batches differ")
    if not same_shape((*m.a.shape[:-1], m.b.shape[-1]), m.root.shape):
        return decline("the batches do not come back")
    return op.MatMul(m.a, m.b)


def _spread(rng: np.random.Generator) -> Value:
    n = dims.symbol("n")
    x, y = param(Tensor(DType.FLOAT, (n, 2, 3, 4))), param(Tensor(DType.FLOAT, (1, 2, 4, 5)))
    wide_y = op.Expand(y, shape_vector((n, 2, 4, 5)))
    if rng.random() < 0.5:
        return op.MatMul(x, wide_y)
    return op.MatMul(op.Expand(param(Tensor(DType.FLOAT, (3, 4))), shape_vector((n, 2, 3, 4))), wide_y)


def _unspread(m: Match, first: Value, second: Value) -> Made:
    if min(first.rank, second.rank) < 2 or not same_shape(first.shape[-1:], second.shape[-2:-1]):
        return decline("a matrix is expanded")
    batch = broadcast([first.shape[:-2], second.shape[:-2]])
    if batch is None or not same_shape((*batch, first.shape[-2], second.shape[-1]), m.root.shape):
        return decline("the other operand does not broadcast as far")
    return op.MatMul(first, second)


@rule(p.MatMul(a, p.Expand(b, hole("s"))), exact=False, sample=_spread)
def product_with_expanded(m: Match) -> Made:
    """a @ Expand(b) -> a @ b, where a broadcasts b as far"""
    return _unspread(m, m.a, m.b)


@rule(
    p.MatMul(p.Expand(a, hole("s")), b),
    exact=False,
    sample=lambda rng: op.MatMul(
        op.Expand(param(tensor("f32", 1, 3, 4)), shape_vector(("n", 3, 4))), param(tensor("f32", "n", 4, 2))
    ),
)
def product_of_expanded(m: Match) -> Made:
    """Expand(a) @ b -> a @ b, where b broadcasts a as far"""
    return _unspread(m, m.a, m.b)


# ---------------------------------------------------------------------------------------------- factors


def _is_number(value: Value) -> bool:
    found = uniform(value)
    return value.dtype.is_float and isinstance(found, float) and bool(np.isfinite(found)) and value.blob.size == 1  # type: ignore[union-attr]


def _numbered(name: str) -> Constant:
    return constant(name, where=Is("is_number", _is_number, (0.5, 3.0)))


def _factors(rng: np.random.Generator) -> Value:
    x, y = param(tensor("f32", "n", 3, 4)), param(tensor("f32", "n", 5, 4))
    turned = op.Transpose(op.Mul(y, np.float32(0.5)), perm=(0, 2, 1))
    other = turned if rng.random() < 0.5 else op.Mul(op.Transpose(y, perm=(0, 2, 1)), np.float32(0.5))
    return op.MatMul(op.Mul(x, np.float32(0.7)), other)


@rule(p.MatMul(p.Mul(a, _numbered("c")).once(), p.Mul(b, _numbered("d")).once()), exact=False)
def product_of_scaled(m: Match) -> Made:
    """(a * c) @ (b * d) -> (a @ b) * (c * d), for numbers c and d"""
    factor = uniform(m.c) * uniform(m.d)
    if not np.isfinite(np.array(factor).astype(m.a.dtype.numpy)) or not factor:
        return decline("the factor overflows")
    if m.c.rank > m.a.rank or m.d.rank > m.b.rank or m.a.dtype.bits < 32:
        return decline("a factor adds axes, or the product might overflow")
    return op.Mul(op.MatMul(m.a, m.b), number(m.a, factor))


@rule(
    p.MatMul(p.Mul(a, _numbered("c")).once(), p.Transpose(p.Mul(b, _numbered("d")).once(), perm=attr("perm")).once()),
    exact=False,
    sample=_factors,
)
def product_of_scaled_transpose(m: Match) -> Made:
    """(a * c) @ Transpose(b * d) -> (a @ Transpose(b)) * (c * d), for numbers c and d"""
    factor = uniform(m.c) * uniform(m.d)
    if not np.isfinite(np.array(factor).astype(m.a.dtype.numpy)) or not factor:
        return decline("the factor overflows")
    if m.c.rank > m.a.rank or m.d.rank > m.b.rank or m.a.dtype.bits < 32:
        return decline("a factor adds axes, or the product might overflow")
    return op.Mul(op.MatMul(m.a, op.Transpose(m.b, perm=m.perm)), number(m.a, factor))


# ---------------------------------------------------------------------------------------------- constant chains


def _chain(rng: np.random.Generator) -> Value:
    first, second = (const(rng.standard_normal(shape).astype(np.float32)) for shape in ((4, 9), (9, 3)))
    return op.MatMul(op.MatMul(param(tensor("f32", "n", "m", 4)), first), second)


_first, _second = constant("v").once(), constant("w").once()


@rule(p.MatMul(p.MatMul(a, _first).once(), _second), exact=False, sample=_chain)
def product_of_product(m: Match) -> Made:
    """(a @ v) @ w -> a @ (v @ w), for constants whose product is no larger than the two"""
    if m.v.rank != 2 or m.w.rank != 2 or m.a.rank < 2 or not is_float(m.a):
        return decline("no matrices")
    (rows, middle), columns = m.v.shape, m.w.shape[1]
    if rows * columns > middle * (rows + columns):
        return decline("one product would be more work than two")
    if not is_moderate(m.v, m.w, whole=True):  # which takes a small part of what their product takes
        return decline(OUT_OF_RANGE)
    name = m.w.blob.name if m.v.blob.is_weight else ""
    return op.MatMul(m.a, lazily(m.w, (rows, columns), lambda: wide(m.v) @ wide(m.w), [m.v, m.w], name))


# ---------------------------------------------------------------------------------------------- Einsum


def _einsum(rng: np.random.Generator) -> Value:
    sizes = {"b": dims.symbol("n"), "h": 2, "i": 3, "j": 4, "k": 5}
    cases = ("bij,bjk->bik", "bij,bkj->bik", "ij,jk->ik", "bhij,bhkj->bhik", "bij,jk->bik", "bji,bjk->bik",
             "i,j->ij", "ij,kj->ik", "bij,bij->bij", "bij->bji", "bhij,bhjk->bihk", "bi,bj->bij")  # fmt: skip
    equation = cases[int(rng.integers(len(cases)))]
    operands = equation.partition("->")[0].split(",")
    given = [param(Tensor(DType.FLOAT, tuple(sizes[c] for c in each))) for each in operands]
    return op.Einsum(*given, equation=equation)


def _parsed(m: Match) -> tuple[str, str, str] | None:
    equation = m.equation.replace(" ", "")
    given, arrow, result = equation.partition("->")
    parts = given.split(",")
    letters = all(each.isalpha() and len(set(each)) == len(each) for each in (*parts, result) if each)
    if not arrow or len(parts) != 2 or not letters:
        return None
    return parts[0], parts[1], result


@rule(p.Einsum(a, b, equation=attr("equation")), exact=False, sample=_einsum)
def einsum(m: Match) -> Made:
    """Einsum(a, b, "bij,bjk->bik") -> a @ b, with at most one Transpose for each of the three"""
    found = _parsed(m)
    if found is None or not is_float(m.a):
        return decline("ellipses, or letters twice")
    left, right, result = found
    if len(left) != m.a.rank or len(right) != m.b.rank or set(result) - set(left + right):
        return decline("letters and axes differ in number")
    both = [c for c in result if c in left and c in right]
    rows, columns = (
        [c for c in result if c in mine and c not in other] for mine, other in ((left, right), (right, left))
    )
    summed = [c for c in left if c in right and c not in result]
    if (
        len(rows) != 1
        or len(columns) != 1
        or len(summed) != 1
        or set(left + right) != {*both, *rows, *columns, *summed}
    ):
        return decline("not one axis of rows, one of columns and one that is summed over")
    if any(m.a.shape[left.index(c)] != m.b.shape[right.index(c)] for c in (*both, *summed)):
        return decline("an axis broadcasts")
    x = turned(m.a, left, [*both, *rows, *summed])
    y = turned(m.b, right, [*both, *summed, *columns])
    return turned(op.MatMul(x, y), "".join([*both, *rows, *columns]), list(result))


def turned(value: Value, letters: str, wanted: list[str]) -> Value:
    """A value whose axes are named by letters, with its axes in another order of letters."""
    perm = tuple(letters.index(c) for c in wanted)
    return value if perm == tuple(range(len(perm))) else op.Transpose(value, perm=perm)


PRODUCTS: tuple[Rule, ...] = (
    product_of_batches, product_with_expanded, product_of_expanded, product_of_scaled, product_of_scaled_transpose,
    product_of_product, einsum,
)  # fmt: skip
"""Products of matrices, with what stands around them left out."""
