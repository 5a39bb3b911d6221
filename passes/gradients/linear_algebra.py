"""Gradients of products of matrices."""

from __future__ import annotations

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from passes.gradients.node import Node, Slopes, ints, num, sum_back


def turned(x: Value) -> Value:
    """The last two axes exchanged."""
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return op.Transpose(x, perm=order)


def grad_MatMul(n: Node) -> Slopes:
    """slope b', a' slope; vectors as matrices of one row, or one column."""
    a, b = n.inputs
    slope = n.slope
    rows = op.Unsqueeze(a, ints([0])) if a.rank == 1 else a
    columns = op.Unsqueeze(b, ints([1])) if b.rank == 1 else b
    if b.rank == 1:
        slope = op.Unsqueeze(slope, ints([-1]))
    if a.rank == 1:
        slope = op.Unsqueeze(slope, ints([-2]))
    first = sum_back(op.MatMul(slope, turned(columns)), rows)
    second = sum_back(op.MatMul(turned(rows), slope), columns)
    first = op.Squeeze(first, ints([0])) if a.rank == 1 else first
    return first, op.Squeeze(second, ints([1])) if b.rank == 1 else second


def grad_Gemm(n: Node) -> Slopes:
    """As of a product, turned and scaled as the operands are."""
    a, b, c = n.inputs[0], n.inputs[1], n.operand(2)
    alpha, beta = n.get("alpha", 1.0), n.get("beta", 1.0)
    left, right = n.get("transA", 0), n.get("transB", 0)
    slope = n.slope
    if left:
        first = op.Gemm(b, slope, alpha=alpha, transA=right, transB=1)
    else:
        first = op.Gemm(slope, b, alpha=alpha, transB=0 if right else 1)
    if right:
        second = op.Gemm(slope, a, alpha=alpha, transA=1, transB=left)
    else:
        second = op.Gemm(a, slope, alpha=alpha, transA=0 if left else 1)
    if c is None:
        return (first, second, None)[: len(n.inputs)]
    scaled = slope if beta == 1.0 else op.Mul(slope, num(slope, beta))
    return first, second, sum_back(scaled, c)


def grad_Einsum(n: Node) -> Slopes:
    """The same product with the result in place of each operand; letters of one operand alone are broadcast."""
    text = n.get("equation").replace(" ", "")
    if "." in text:
        raise n.refuse("its equation has an ellipsis")
    terms, _, result = text.partition("->")
    letters = terms.split(",")
    if "->" not in text:
        joined = "".join(letters)
        result = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    found: list[Value | None] = []
    for i, (own, x) in enumerate(zip(letters, n.inputs, strict=True)):
        if len(set(own)) < len(own):
            raise n.refuse("a letter stands twice in one operand")
        others = [(t, v) for j, (t, v) in enumerate(zip(letters, n.inputs, strict=True)) if j != i]
        terms_now, values = [result, *(t for t, _ in others)], [n.slope, *(v for _, v in others)]
        missing = "".join(c for c in own if not any(c in t for t in terms_now))
        if missing:  # summed over, and in no other operand
            sizes = [op.Slice(op.Shape(x), ints([own.index(c)]), ints([own.index(c) + 1])) for c in missing]
            terms_now.append(missing)
            values.append(op.Expand(num(x, 1), op.Concat(*sizes, axis=0)))
        found.append(op.Einsum(*values, equation=f"{','.join(terms_now)}->{own}"))
    return tuple(found)


def grad_Det(n: Node) -> Slopes:
    """The cofactors: determinants without a row and a column, of alternating sign; right for singular matrices too."""
    x = n.x
    size = op.Gather(op.Shape(x), ints([x.rank - 1]))
    if x.shape[-1] == 1:
        return (op.Reshape(n.slope, op.Shape(x)),)
    every = op.Range(0, op.Squeeze(size, ints([0])), 1)
    others = op.Slice(every, ints([0]), op.Sub(size, ints([1])))
    columns = op.Unsqueeze(every, ints([1]))
    later = op.Cast(op.GreaterOrEqual(op.Unsqueeze(others, ints([0])), columns), to=DType.INT64)
    kept = op.Add(op.Unsqueeze(others, ints([0])), later)  # (size, size - 1): all but one
    rows = op.Gather(x, kept, axis=x.rank - 2)  # (*, i, size - 1, size)
    both = op.Gather(rows, kept, axis=x.rank)  # (*, i, size - 1, j, size - 1)
    lead = list(range(x.rank - 2))
    minors = op.Det(op.Transpose(both, perm=[*lead, x.rank - 2, x.rank, x.rank - 1, x.rank + 1]))
    odd = op.Equal(op.Mod(op.Add(columns, op.Unsqueeze(every, ints([0]))), 2), 1)
    signed = op.Where(odd, op.Neg(minors), minors)
    return (op.Mul(op.Unsqueeze(n.slope, ints([-1, -2])) if n.slope.rank else n.slope, signed),)
