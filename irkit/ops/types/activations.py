"""Type rules of activations."""

from __future__ import annotations

from irkit.core.types import Type
from irkit.ops.types.context import Context, broadcast_to
from irkit.ops.types.elementwise import infer_same
from irkit.ops.types.reduction import infer_along

infer_Relu = infer_LeakyRelu = infer_ThresholdedRelu = infer_Elu = infer_Celu = infer_Selu = infer_Gelu = infer_same
infer_Sigmoid = infer_HardSigmoid = infer_HardSwish = infer_Swish = infer_Mish = infer_Softplus = infer_same
infer_Softsign = infer_Shrink = infer_same


def infer_PRelu(c: Context) -> Type:
    """x[...], slope[...] broadcast to x -> x[...]"""
    broadcast_to(c, c.shape(1), c.shape(0), "the slope")
    return c.tensor(0)


infer_Softmax = infer_LogSoftmax = infer_Hardmax = infer_along
