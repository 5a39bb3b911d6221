"""Type rules of normalizations."""

from __future__ import annotations

from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context, broadcast_to
from irkit.ops.types.reduction import infer_along


def infer_BatchNormalization(c: Context) -> tuple[Type, ...]:
    """x[n, c, ...], scale[c], bias[c], mean[c], var[c] -> x[...]; in training also the running mean[c] and var[c]"""
    x = c.tensor(0)
    if not x.shape:
        raise c.fail("a scalar has no channels")
    channels: Dim = x.shape[1] if len(x.shape) > 1 else 1
    for index in range(1, 5):
        channels = c.unify(c.ranked(index, 1).shape[0], channels, "the channels")
    if c.outputs > 1 and not c.attr("training_mode"):
        raise c.fail("the running statistics are results in training only", hint="set training_mode=1")
    statistics = Tensor(c.dtype(3), (channels,))
    return c.several(x, statistics, statistics)


def infer_channelwise(c: Context) -> Type:
    """x[n, c, ...], scale[c], bias[c] -> x[...]"""
    x = c.tensor(0)
    if len(x.shape) < 2:
        raise c.fail(f"the operand must have a batch and a channel axis, and has rank {len(x.shape)}")
    for index in (1, 2):
        c.unify(c.ranked(index, 1).shape[0], x.shape[1], "the channels")
    return x


infer_InstanceNormalization = infer_channelwise


def infer_GroupNormalization(c: Context) -> Type:
    """x[n, c, ...], scale[c], bias[c] -> x[...], normalized over `num_groups` groups of channels"""
    x, groups = infer_channelwise(c), c.attr("num_groups")
    channels = c.shape(0)[1]
    if groups < 1 or (type(channels) is int and channels % groups):
        raise c.fail(f"{channels} channels cannot be divided into {groups} groups")
    return x


def infer_LayerNormalization(c: Context) -> tuple[Type, ...]:
    """x[b..., n...], scale, bias? broadcast to x -> x[...], mean[b..., 1...], inverse deviation[b..., 1...]"""
    x = c.tensor(0)
    axis = c.axis(c.attr("axis"), len(x.shape))
    for index in (1, 2):
        if c.has(index):
            broadcast_to(c, c.shape(index), x.shape, c.spec.formal(index).name)
    if c.outputs == 1:
        return (x,)
    shape = x.shape[:axis] + (1,) * (len(x.shape) - axis)
    statistics = Tensor(c.allowed(c.element("stash_type", DType.FLOAT), 1), shape)
    return c.several(x, statistics, statistics)


def infer_RMSNormalization(c: Context) -> Type:
    """x[b..., n...], scale broadcast to x -> x[...]"""
    x = c.tensor(0)
    c.axis(c.attr("axis"), len(x.shape))
    broadcast_to(c, c.shape(1), x.shape, "the scale")
    return x


def infer_LRN(c: Context) -> Type:
    """x[n, c, ...] -> x[...]"""
    x = c.tensor(0)
    if len(x.shape) < 2:
        raise c.fail(f"the operand must have a batch and a channel axis, and has rank {len(x.shape)}")
    return x


def infer_MeanVarianceNormalization(c: Context) -> Type:
    """x[...] -> x[...], normalized over `axes`"""
    x = c.tensor(0)
    c.axes(c.attr("axes"), len(x.shape))
    return x


infer_LpNormalization = infer_along
