"""The connectionist temporal classification loss: its forward recursion, in the logarithm, as a Scan over time.

A. Graves et al., Connectionist Temporal Classification, ICML 2006, equations 6 to 8; torch's schema `aten::ctc_loss`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors.pieces import mean
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import iota, up_to

NEVER = float("-inf")


def aten_ctc_loss(
    log_probs: Value,
    targets: Value,
    input_lengths: Value | Sequence[int],
    target_lengths: Value | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Value:
    """-log of the probability that the labels follow from the frames.

    log_probs: (T, N, C) or (T, C).  targets: (N, S), (S,) of one sample, or all samples joined in one vector.
    Lengths: one for each sample.  reduction 0 gives (N,), 1 the mean over samples of loss / length, 2 the sum.
    """
    single = log_probs.rank == 2
    if single:
        log_probs = op.Unsqueeze(log_probs, np.array([1]))
    frames = up_to(lengths_of(input_lengths), log_probs.shape[0])
    labels = lengths_of(target_lengths)
    count = dim_scalar(targets.shape[-1])
    wrong = op.Not(op.Equal(op.ReduceSum(labels), count)) if targets.rank == 1 and not single else None
    labels = up_to(labels, targets.shape[-1], wrong)
    padded = padded_targets(targets, target_lengths, log_probs.shape[1])
    if targets.rank == 2:  # what pads the labels may be any number
        padded = op.Where(are_labels(targets.shape[1], labels), padded, const(np.array(0)))
    loss = op.Neg(log_likelihood(log_probs, padded, frames, labels, blank))
    if zero_infinity:
        loss = op.Where(op.IsInf(loss), scalar(0, loss.dtype), loss)
    if reduction == 0:
        return op.Squeeze(loss, np.array([0])) if single else loss
    if reduction == 2:
        return op.ReduceSum(loss, keepdims=0)
    longest = cast(op.Max(labels, const(np.array(1))), loss.dtype)
    return mean(op.Div(loss, longest))


def lengths_of(lengths: Any) -> Value:
    """The lengths as a vector of int64."""
    if not isinstance(lengths, Value):
        return const(np.array(lengths, dtype=np.int64).reshape(-1))
    return op.Reshape(cast(lengths, DType.INT64), np.array([-1]))


def are_labels(count: Dim, lengths: Value) -> Value:
    """(N, count): whether each place is before the length of its sample.  lengths: (N,)."""
    return op.Less(iota(count), op.Unsqueeze(lengths, np.array([1])))


def padded_targets(targets: Value, lengths: Any, batch: Any) -> Value:
    """The labels as (N, S); those of joined samples are taken apart. Where their lengths are no numbers, S is the
    length of all together: the states that no path reaches weigh nothing."""
    labels = cast(targets, DType.INT64)
    if targets.rank == 2:
        return labels
    if dims.same(batch, 1) is True:
        return op.Unsqueeze(labels, np.array([0]))
    if isinstance(lengths, Value):
        starts = op.Unsqueeze(op.CumSum(lengths_of(lengths), const(np.array(0)), exclusive=1), np.array([1]))
        places = op.Add(starts, iota(labels.shape[0]))
        return op.Gather(labels, op.Min(places, dim_scalar(dims.sub(labels.shape[0], 1))))
    sizes = [int(n) for n in lengths]
    starts = np.cumsum([0, *sizes[:-1]])[:, None]
    places = starts + np.arange(max([*sizes, 1]))[None]
    return op.Gather(labels, np.clip(places, 0, max(sum(sizes) - 1, 0)))


def log_likelihood(log_probs: Value, targets: Value, frames: Value, labels: Value, blank: int) -> Value:
    """log p(labels | frames) for each sample: (N,).  log_probs: (T, N, C), targets: (N, S)."""
    time, batch, _ = log_probs.shape
    count = targets.shape[1]
    states = dims.add(dims.mul(count, 2), 1)
    last = np.array([-1])
    # The states are blank, label, blank, label, ..., blank.
    empty = op.Expand(const(np.array(blank)), shape_vector((batch, count)))
    pairs = op.Concat(op.Unsqueeze(empty, last), op.Unsqueeze(targets, last), axis=-1)
    ends = op.Expand(const(np.array(blank)), shape_vector((batch, 1)))
    path = op.Concat(op.Reshape(pairs, shape_vector((batch, dims.mul(count, 2)))), ends, axis=1)
    scores = op.GatherElements(
        log_probs, op.Expand(op.Unsqueeze(path, np.array([0])), shape_vector((time, batch, states))), axis=2
    )
    before = moved_right(path, 2, -1)
    may_skip = op.And(op.Not(op.Equal(path, before)), op.GreaterOrEqual(iota(states), const(np.array(2))))
    start = op.Where(op.Equal(iota(states), const(np.array(0))), scalar(0, scores.dtype), scalar(NEVER, scores.dtype))
    running = op.Less(op.Unsqueeze(iota(time), last), op.Unsqueeze(frames, np.array([0])))

    def step(alpha: Value, score: Value, active: Value) -> tuple[Value, ...]:
        skipped = op.Where(may_skip, moved_right(alpha, 2, NEVER), scalar(NEVER, alpha.dtype))
        moved = op.Add(log_sum(alpha, moved_right(alpha, 1, NEVER), skipped), score)
        return (op.Where(op.Unsqueeze(active, last), moved, alpha),)

    begin = op.Expand(start, shape_vector((batch, states)))
    final = op.Scan(begin, scores, running, body=step, num_scan_inputs=2)
    final = final[0] if isinstance(final, tuple) else final
    end = op.Mul(labels, const(np.array(2)))
    on_blank = op.GatherElements(final, op.Unsqueeze(end, last), axis=1)
    on_label = op.GatherElements(
        final, op.Unsqueeze(op.Max(op.Sub(end, const(np.array(1))), const(np.array(0))), last), axis=1
    )
    has_label = op.Greater(op.Unsqueeze(labels, last), const(np.array(0)))
    both = log_sum(on_blank, op.Where(has_label, on_label, scalar(NEVER, final.dtype)))
    return op.Squeeze(both, last)


def moved_right(x: Value, by: int, fill: float) -> Value:
    """x moved right along its last axis of two, what comes in filled."""
    pads = const(np.array([0, by, 0, -by], dtype=np.int64))
    return op.Pad(x, pads, scalar(fill, x.dtype))


def log_sum(*parts: Value) -> Value:
    """log of the sum of the exponentials of the parts, elementwise; -inf where all are."""
    most = op.Max(*parts)
    safe = op.Where(op.Equal(most, scalar(NEVER, most.dtype)), scalar(0, most.dtype), most)
    total = op.Sum(*(op.Exp(op.Sub(part, safe)) for part in parts))
    return op.Add(op.Log(total), safe)
