"""Samples of sequences and optionals."""

from __future__ import annotations

from irkit.build import op
from irkit.checking.samples.sampler import ANY, Sampler, has_static_axis, static_axis
from irkit.core.ir import Value


def sequence(s: Sampler) -> Value:
    """A sequence of two tensors of one type."""
    x = s.tensor(ANY)
    return op.SequenceConstruct(x, s.of(x.dtype, x.shape))


def sample_SequenceConstruct(s: Sampler) -> Value:
    """Of two tensors."""
    return sequence(s)


def sample_SequenceEmpty(s: Sampler) -> Value:
    """Of an element type, and its length."""
    return op.SequenceLength(op.SequenceEmpty(dtype=int(s.choose(ANY))))


def sample_SequenceAt(s: Sampler) -> Value:
    """From either end."""
    return op.SequenceAt(sequence(s), s.integer(-2, 1))


def sample_SequenceLength(s: Sampler) -> Value:
    """Of two tensors."""
    return op.SequenceLength(sequence(s))


def sample_SequenceInsert(s: Sampler) -> Value:
    """At the end, or before it; the result is taken out again."""
    x = s.tensor(ANY)
    held = op.SequenceConstruct(x)
    return op.SequenceAt(op.SequenceInsert(held, s.of(x.dtype, x.shape), s.integer(-1, 1)), s.integer(0, 1))


def sample_SequenceErase(s: Sampler) -> Value:
    """One of two."""
    return op.SequenceAt(op.SequenceErase(sequence(s), s.integer(-2, 1)), 0)


def sample_ConcatFromSequence(s: Sampler) -> Value:
    """Along an axis, or a new one."""
    x = s.tensor(ANY, 1, 3)
    held = op.SequenceConstruct(x, s.of(x.dtype, x.shape))
    return op.ConcatFromSequence(held, axis=s.integer(0, x.rank - 1), new_axis=s.integer(0, 1))


def sample_SplitToSequence(s: Sampler) -> Value:
    """In single rows, of which the first is taken."""
    x = s.tensor(ANY, 1, 3, has_static_axis)
    return op.SequenceAt(op.SplitToSequence(x, axis=static_axis(s, x), keepdims=s.integer(0, 1)), 0)


def sample_Optional(s: Sampler) -> Value:
    """That holds a tensor, which is taken out."""
    return op.OptionalGetElement(op.Optional(s.tensor(ANY)))


def sample_OptionalGetElement(s: Sampler) -> Value:
    """Of a tensor itself."""
    return op.OptionalGetElement(s.tensor(ANY))


def sample_OptionalHasElement(s: Sampler) -> Value:
    """Of what holds one."""
    return op.OptionalHasElement(op.Optional(s.tensor(ANY)))
