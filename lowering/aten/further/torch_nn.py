"""Operators that torch.nn registers under its own name: the cross entropy of a linear layer, which torch takes in
chunks to save memory."""

from __future__ import annotations

from typing import Any

from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.linear_algebra.products import aten_linear
from lowering.aten.reduction.loss import REDUCTIONS, aten_cross_entropy_loss
from lowering.errors import Unsupported
from lowering.tensors.pieces import full
from lowering.tensors.promotion import cast


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
    """(loss, three gradients, which are empty).  input: (n, e); linear_weight: (c, e); target: (n,)."""
    if compute_input_grad or compute_linear_weight_grad or compute_linear_bias_grad:
        raise Unsupported("a loss that computes its gradients: export the model under torch.no_grad()")
    loss = of_linear(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing)
    none = full(0, (0, 0), input.dtype)
    return loss, none, none, full(0, (0,), input.dtype)


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
    wide = x.dtype if x.dtype in (DType.FLOAT, DType.DOUBLE) else DType.FLOAT
    operands: list[Any] = [None if v is None else cast(v, wide) for v in (x, w, bias, weight)]
    logits = aten_linear(*operands[:3])
    made = aten_cross_entropy_loss(logits, target, operands[3], REDUCTIONS.index(reduction), ignored, smoothing)
    return cast(made, x.dtype)
