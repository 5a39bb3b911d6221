"""Samples of sequences, optionals, strings, signals, random numbers, and places."""

from __future__ import annotations

import numpy as np

from irkit.build import call, const, op
from irkit.checking.samples.movement import indices
from irkit.checking.samples.sampler import ANY, F32, FLOATS, I64, NUMBERS, STRING, Sampler, has_static_axis, static_axis
from irkit.core.ir import Value
from irkit.core.types import DType

# ---------------------------------------------------------------------------------------------- sequences


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


def sample_SequenceMap(s: Sampler) -> Value:
    """One operator of each element."""
    x = s.tensor((F32,))
    found = op.SequenceMap(op.SequenceConstruct(x, s.of(F32, x.shape)), body=op.Neg)
    return op.SequenceAt(found[0] if isinstance(found, tuple) else found, s.integer(0, 1))


def sample_Optional(s: Sampler) -> Value:
    """That holds a tensor, which is taken out."""
    return op.OptionalGetElement(op.Optional(s.tensor(ANY)))


def sample_OptionalGetElement(s: Sampler) -> Value:
    """Of a tensor itself."""
    return op.OptionalGetElement(s.tensor(ANY))


def sample_OptionalHasElement(s: Sampler) -> Value:
    """Of what holds one."""
    return op.OptionalHasElement(op.Optional(s.tensor(ANY)))


# ---------------------------------------------------------------------------------------------- strings


def sample_StringConcat(s: Sampler) -> Value:
    """Of tensors that broadcast."""
    x = s.tensor((STRING,), 0, 2)
    return op.StringConcat(x, s.broadcastable(x))


def sample_StringSplit(s: Sampler) -> tuple[Value, ...]:
    """At blanks."""
    return op.StringSplit(s.tensor((STRING,), 1, 2), delimiter=" ")


def sample_StringNormalizer(s: Sampler) -> Value:
    """To one case, without one word."""
    return op.StringNormalizer(s.constant(STRING, (3,)), case_change_action=s.choose(("LOWER", "UPPER")))


def sample_RegexFullMatch(s: Sampler) -> Value:
    """Of a few letters."""
    return op.RegexFullMatch(s.tensor((STRING,), 0, 2), pattern="[a-c ]*")


def sample_TfIdfVectorizer(s: Sampler) -> Value:
    """Of single numbers, counted."""
    return op.TfIdfVectorizer(
        s.of(I64, (4,)), mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0],
        ngram_indexes=[0, 1], pool_int64s=[1, 2],
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- signals


def window(name: str):
    """The sample of a window."""

    def sample(s: Sampler) -> Value:
        return call(name, [const(np.array(s.integer(1, 5)))], {"periodic": s.integer(0, 1)})

    return sample


sample_BlackmanWindow, sample_HannWindow = window("BlackmanWindow"), window("HannWindow")
sample_HammingWindow = window("HammingWindow")


def sample_DFT(s: Sampler) -> Value:
    """Of real numbers."""
    return op.DFT(s.of(F32, (s.choose(s.sizes), 4, 1)), onesided=s.integer(0, 1))


def sample_STFT(s: Sampler) -> Value:
    """Of two frames."""
    return op.STFT(s.of(F32, (s.choose(s.sizes), 8, 1)), np.array(4), None, np.array(4))


def sample_MelWeightMatrix(s: Sampler) -> Value:
    """Of a few bands."""
    edges = (np.float32(0), np.float32(4000))
    return op.MelWeightMatrix(np.array(s.integer(1, 4)), np.array(16), np.array(8000), *edges)


# ---------------------------------------------------------------------------------------------- random numbers


def sample_RandomNormal(s: Sampler) -> Value:
    """Of a small shape."""
    return op.RandomNormal(shape=s.static_shape(1, 2))


def sample_RandomUniform(s: Sampler) -> Value:
    """Of a small shape."""
    return op.RandomUniform(shape=s.static_shape(1, 2))


def sample_RandomNormalLike(s: Sampler) -> Value:
    """Of the shape of another."""
    return op.RandomNormalLike(s.tensor(FLOATS))


def sample_RandomUniformLike(s: Sampler) -> Value:
    """Of the shape of another."""
    return op.RandomUniformLike(s.tensor(FLOATS))


def sample_Bernoulli(s: Sampler) -> Value:
    """By probabilities."""
    return op.Bernoulli(op.Sigmoid(s.tensor((F32,))))


def sample_Multinomial(s: Sampler) -> Value:
    """Of three choices."""
    return op.Multinomial(s.of(F32, (s.integer(1, 2), 3)), sample_size=2)


def sample_Dropout(s: Sampler) -> Value:
    """Which does nothing outside of training."""
    found = op.Dropout(s.tensor(FLOATS), outputs=1)
    return found[0] if isinstance(found, tuple) else found


DRAWN = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
)
"""The samples whose results nobody can foretell."""


# ---------------------------------------------------------------------------------------------- places


def sample_GatherND(s: Sampler) -> Value:
    """Rows of known places."""
    x = s.of(s.choose(ANY), (3, s.choose(s.sizes)))
    return op.GatherND(x, indices(s, (s.integer(1, 2), 1), 3))


def sample_ScatterND(s: Sampler) -> Value:
    """One row replaced, or added to."""
    x = s.of(F32, (3, s.choose(s.sizes)))
    return op.ScatterND(x, indices(s, (1, 1), 3), s.of(F32, (1, x.shape[1])), reduction=s.choose(("none", "add")))


def sample_Compress(s: Sampler) -> Value:
    """Rows that are asked for: a size that depends on data."""
    x = s.of(s.choose(ANY), (3, 2))
    return op.Compress(x, s.of(DType.BOOL, (3,)), axis=0 if s.flag() else None)


def sample_Unique(s: Sampler) -> Value:
    """Sorted, of all elements: a size that depends on data."""
    found = op.Unique(s.of(s.choose(NUMBERS), (s.integer(1, 4),)), outputs=1)
    return found[0] if isinstance(found, tuple) else found


def sample_NonMaxSuppression(s: Sampler) -> Value:
    """Of three boxes: a size that depends on data."""
    boxes = const(np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32))
    return op.NonMaxSuppression(boxes, s.of(F32, (1, 1, 3)), np.array([2]), np.array([0.5], np.float32))


def sample_ReverseSequence(s: Sampler) -> Value:
    """As far as is said for each row."""
    x = s.of(s.choose(ANY), (3, 2))
    return op.ReverseSequence(x, np.array([s.integer(1, 3), s.integer(1, 3)]), time_axis=0, batch_axis=1)
