"""Definition of ONNX Runtime's rotary embedding."""

from __future__ import annotations

from irkit import dims
from irkit.build.runtime.application import Application, op, vector
from irkit.core.ir import Value


def rotary_embedding(a: Application, x: Value, positions: Value, cos: Value, sin: Value) -> Value:
    """ONNX's RotaryEmbedding, with the caches last; one position stands for it and those that follow"""
    a.refuse("is_packed_batching")
    if a.attr("scale", 1.0) not in (0.0, 1.0):
        raise a.fail("attribute scale is not defined")
    if x.rank not in (3, 4):
        raise a.fail("operand input must have rank 3 or 4")
    batch, length = x.shape[0], x.shape[x.rank - 2]
    if positions.rank == 1:
        row = op.Unsqueeze(op.Add(positions, a.ordinals(length)), vector(0))
        positions = row if batch == 1 else op.Expand(row, a.sizes((batch, length)))
    given = {"interleaved": a.attr("interleaved", 0), "rotary_embedding_dim": a.attr("rotary_embedding_dim", 0)}
    if x.rank == 3:
        given["num_heads"] = heads_of(a, x, cos)
    return op.RotaryEmbedding(x, cos, sin, positions, **given)


def heads_of(a: Application, x: Value, cos: Value) -> int:
    """How many heads the last axis of x holds: it is told, or follows from the caches, which then span a whole head."""
    if a.attr("rotary_embedding_dim", 0):
        if not a.attr("num_heads", 0):
            raise a.fail("num_heads must be given with rotary_embedding_dim")
        return a.attr("num_heads")
    half = cos.shape[-1]
    found = dims.floordiv(x.shape[-1], dims.mul(2, half))
    if type(found) is not int:
        raise a.fail("how many heads there are is not known")
    return found
