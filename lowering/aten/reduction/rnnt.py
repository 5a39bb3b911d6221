"""The loss of a transducer: its forward and backward recursions, in the logarithm, each a Scan along the diagonals of
the lattice of frames and labels.

A. Graves, Sequence Transduction with Recurrent Neural Networks, 2012, equations 16 to 20; torchaudio's schema
`torchaudio::rnnt_loss_forward`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.reduction.ctc import NEVER, lengths_of, log_sum, moved_right
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import iota, up_to

LAST = const(np.array([-1]))


def torchaudio_rnnt_loss_forward(
    logits: Value,
    targets: Value,
    logit_lengths: Value,
    target_lengths: Value,
    blank: int = -1,
    clamp: float = -1,
    fused_log_softmax: bool = True,
) -> tuple[Value, Value]:
    """(-log of the probability that the labels follow from the frames, its gradient by the logits).

    logits: (N, T, U + 1, C).  targets: (N, U).  Lengths: one for each sample, of which the longest fill T and U.
    """
    _, time, places, classes = logits.shape
    frames, labels = lengths_of(logit_lengths), lengths_of(target_lengths)
    frames = up_to(frames, time, op.Or(longest_is_not(frames, time), op.Less(frames, const(np.array(1)))))
    labels = up_to(labels, dims.sub(places, 1), longest_is_not(labels, dims.sub(places, 1)))
    scores = op.LogSoftmax(logits, axis=-1) if fused_log_softmax else logits
    known = op.Less(op.Unsqueeze(iota(dims.sub(places, 1)), np.array([0])), op.Unsqueeze(labels, LAST))
    spelt = up_to(op.Where(known, cast(targets, DType.INT64), const(np.array(0))), dims.sub(classes, 1))
    spelt = op.Pad(spelt, const(np.array([0, 0, 0, 1])), const(np.array(0)))
    silent = op.Gather(scores, const(np.array(blank)), axis=3)
    which = op.Expand(op.Unsqueeze(spelt, np.array([1, 3])), shape_vector((*logits.shape[:3], 1)))
    spoken = op.Squeeze(op.GatherElements(scores, which, axis=3), LAST)
    lattice = Lattice(time, places)
    silents, spokens = lattice.diagonals(silent), lattice.diagonals(spoken)
    ends = lattice.ends(frames, labels)
    before = lattice.forward(silents, spokens)
    never = scalar(NEVER, scores.dtype)
    costs = op.Neg(op.ReduceMax(op.Where(ends, op.Add(before, silents), never), const(np.array([0, 2])), keepdims=0))
    behind = lattice.backward(silents, spokens, ends)
    gradient = Gradient(lattice, before, behind, ends, costs, logits.shape)
    found = gradient.of(scores, silent, spoken, which, blank, fused_log_softmax)
    return costs, op.Clip(found, scalar(-clamp, found.dtype), scalar(clamp, found.dtype)) if clamp > 0 else found


def longest_is_not(lengths: Value, most: Dim) -> Value:
    """Whether the greatest of lengths is another number."""
    return op.Not(op.Equal(op.ReduceMax(lengths, keepdims=0), dim_scalar(most)))


class Lattice:
    """The places (t, u) of so many frames and labels: the diagonal n has those whose sum is n, each at its u."""

    def __init__(self, time: Dim, places: Dim) -> None:
        self.time, self.places = time, places
        self.count = dims.sub(dims.add(time, places), 1)
        self.numbers = iota(self.count)

    def diagonals(self, x: Value) -> Value:
        """(N, T, U) -> (T + U - 1, N, U), with -inf where there is no frame."""
        frames = op.Sub(op.Unsqueeze(self.numbers, LAST), op.Unsqueeze(iota(self.places), np.array([0])))
        last = dim_scalar(dims.sub(self.time, 1))
        there = op.And(op.GreaterOrEqual(frames, const(np.array(0))), op.LessOrEqual(frames, last))
        places = op.Min(op.Max(frames, const(np.array(0))), last)
        whole = shape_vector((self.count, x.shape[0], self.places))
        found = op.GatherElements(
            op.Transpose(x, perm=[1, 0, 2]), op.Expand(op.Unsqueeze(places, np.array([1])), whole), axis=0
        )
        return op.Where(op.Unsqueeze(there, np.array([1])), found, scalar(NEVER, x.dtype))

    def ends(self, frames: Value, labels: Value) -> Value:
        """(T + U - 1, N, U): where the last place of each sample is."""
        last = op.Unsqueeze(op.Sub(op.Add(frames, labels), const(np.array(1))), LAST)
        diagonal = op.Equal(op.Unsqueeze(self.numbers, np.array([1, 2])), last)
        return op.And(diagonal, op.Equal(op.Unsqueeze(iota(self.places), np.array([0])), op.Unsqueeze(labels, LAST)))

    def rows(self, x: Value, later: int = 0) -> Value:
        """(diagonals, N, U) -> (N, T, U), of diagonals that are so many later."""
        places = op.Add(op.Unsqueeze(iota(self.time), LAST), op.Add(iota(self.places), const(np.array(later))))
        whole = shape_vector((self.time, x.shape[1], self.places))
        found = op.GatherElements(x, op.Expand(op.Unsqueeze(places, np.array([1])), whole), axis=0)
        return op.Transpose(found, perm=[1, 0, 2])

    def forward(self, silents: Value, spokens: Value) -> Value:
        """log of the probability of all ways from the first place to each, by diagonals."""

        def step(state: Value, silent: Value, spoken: Value) -> tuple[Value, ...]:
            moved = log_sum(op.Add(state, silent), moved_right(op.Add(state, spoken), 1, NEVER))
            return moved, op.Identity(state)

        first = op.Equal(iota(self.places), const(np.array(0)))
        begin = op.Where(first, scalar(0, silents.dtype), scalar(NEVER, silents.dtype))
        begin = op.Expand(begin, shape_vector((silents.shape[1], self.places)))
        return op.Scan(begin, silents, spokens, body=step, num_scan_inputs=2)[1]

    def backward(self, silents: Value, spokens: Value, ends: Value) -> Value:
        """log of the probability of all ways from each place to the last, by diagonals."""
        never = scalar(NEVER, silents.dtype)

        def step(state: Value, silent: Value, spoken: Value, end: Value) -> tuple[Value, ...]:
            pads = const(np.array([0, -1, 0, 1], dtype=np.int64))
            on = log_sum(op.Add(state, silent), op.Add(op.Pad(state, pads, never), spoken))
            moved = op.Where(end, silent, on)
            return moved, op.Identity(moved)

        begin = op.Expand(never, shape_vector((silents.shape[1], self.places)))
        return op.Scan(
            begin,
            silents,
            spokens,
            ends,
            body=step,
            num_scan_inputs=3,
            scan_input_directions=(1, 1, 1),
            scan_output_directions=(1,),
        )[1]


class Gradient:
    """What the loss changes by with each logit: the probability of what passes a place, less that of what leaves it by
    the class of the logit."""

    def __init__(self, lattice: Lattice, before: Value, behind: Value, ends: Value, costs: Value, shape: Any) -> None:
        zero, never = scalar(0, costs.dtype), scalar(NEVER, costs.dtype)
        later = op.Pad(behind, const(np.array([0, 0, 0, 1, 0, 0])), never)
        beside = op.Pad(behind, const(np.array([0, 0, -1, 1, 0, 1])), never)
        self.shape, self.zero = shape, zero
        self.through = op.Add(lattice.rows(before), op.Unsqueeze(costs, np.array([1, 2])))
        self.here = lattice.rows(behind)
        at_end = lattice.rows(cast(ends, DType.INT64))
        self.later = op.Where(op.Equal(at_end, const(np.array(1))), zero, lattice.rows(later, 1))
        self.beside = lattice.rows(beside, 1)

    def of(self, scores: Value, silent: Value, spoken: Value, which: Value, blank: int, fused: bool) -> Value:
        """(N, T, U, C)"""
        classes = self.shape[3]
        numbers = op.Unsqueeze(iota(classes), np.array([0, 1, 2]))
        number = dim_scalar(dims.add(classes, blank)) if blank < 0 else const(np.array(blank))
        left = op.Neg(op.Exp(op.Add(op.Add(self.through, silent), self.later)))
        named = op.Neg(op.Exp(op.Add(op.Add(self.through, spoken), self.beside)))
        found = op.Add(
            op.Where(op.Equal(numbers, number), op.Unsqueeze(left, LAST), self.zero),
            op.Where(op.Equal(numbers, which), op.Unsqueeze(named, LAST), self.zero),
        )
        if not fused:
            return found
        return op.Add(found, op.Exp(op.Add(scores, op.Unsqueeze(op.Add(self.through, self.here), LAST))))
