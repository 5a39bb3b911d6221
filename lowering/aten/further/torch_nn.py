"""Operators that torch.nn registers under its own name: the cross entropy of a linear layer, which torch takes in
chunks to save memory."""

from __future__ import annotations

from typing import Any

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.linear_algebra.products import aten_linear
from lowering.aten.reduction.loss import REDUCTIONS, aten_cross_entropy_loss
from lowering.tensors.pieces import full, swap, total
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import iota, unsqueeze


def torch_nn__linear_cross_entropy_batch_chunked(
    input: Value,
    linear_weight: Value,
    target: Value,
    linear_bias: Value | None,
    weight: Value | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: DType,
    allow_retain_graph: bool,
    compute_input_grad: bool,
    compute_linear_weight_grad: bool,
    compute_linear_bias_grad: bool,
) -> tuple[Value, ...]:
    """(loss, and its gradients for input, linear_weight and bias, empty where they are not asked for).

    input: (n, e); linear_weight: (c, e); target: (n,).
    """
    loss = of_linear(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing)
    none = full(0, (0, 0), input.dtype)
    asked = (compute_input_grad, compute_linear_weight_grad, compute_linear_bias_grad)
    if not any(asked):
        return loss, none, none, full(0, (0,), input.dtype)
    wide = wide_type(input)
    x, w = cast(input, wide), cast(linear_weight, wide)
    logits = aten_linear(x, w, None if linear_bias is None else cast(linear_bias, wide))
    slopes = slopes_of_scores(logits, target, weight, reduction, ignore_index)
    of_input = op.MatMul(slopes, w) if asked[0] else none
    of_weight = op.MatMul(swap(slopes), x) if asked[1] else none
    of_bias = total(slopes, [0]) if asked[2] else full(0, (0,), wide)
    return loss, *(cast(g, input.dtype) for g in (of_input, of_weight, of_bias))


def slopes_of_scores(logits: Value, target: Value, weight: Value | None, reduction: str, ignored: int) -> Value:
    """The gradient of a cross entropy for the scores: softmax less 1 at the label, as much as the item counts.

    logits: (n, c); target: (n,) -> (n, c)
    """
    used = op.Not(op.Equal(target, scalar(ignored, target.dtype)))
    label = op.Where(used, target, scalar(0, target.dtype))
    counts = cast(used, logits.dtype)
    if weight is not None:
        counts = op.Mul(counts, op.Gather(cast(weight, logits.dtype), label, axis=0))
    if reduction == "mean":
        counts = op.Div(counts, total(counts))
    here = cast(op.Equal(unsqueeze(label, 1), cast(iota(logits.shape[1]), label.dtype)), logits.dtype)
    return op.Mul(op.Sub(op.Softmax(logits, axis=1), here), unsqueeze(counts, 1))


def wide_type(x: Value) -> DType:
    """The type that torch adds up in: float32 for half precision."""
    return x.dtype if x.dtype in (DType.FLOAT, DType.DOUBLE) else DType.FLOAT


def torch_nn__linear_cross_entropy_batch_chunked_no_reduction(
    input: Value,
    linear_weight: Value,
    target: Value,
    linear_bias: Value | None,
    weight: Value | None,
    ignore_index: int,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: DType,
) -> Value:
    """The loss of each item, (n,).  input: (n, e); linear_weight: (c, e); target: (n,)."""
    return of_linear(input, linear_weight, target, linear_bias, weight, "none", ignore_index, 0.0)


def of_linear(
    x: Value,
    w: Value,
    target: Value,
    bias: Value | None,
    weight: Value | None,
    reduction: str,
    ignored: int,
    smoothing: float,
) -> Value:
    """cross_entropy(x @ w^T + bias, target), half precision computed in float32 as torch's accumulator does."""
    wide = wide_type(x)
    operands: list[Any] = [None if v is None else cast(v, wide) for v in (x, w, bias, weight)]
    logits = aten_linear(*operands[:3])
    made = aten_cross_entropy_loss(logits, target, operands[3], REDUCTIONS.index(reduction), ignored, smoothing)
    return cast(made, x.dtype)
