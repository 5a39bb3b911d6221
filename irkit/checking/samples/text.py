"""Samples of operators on strings."""

from __future__ import annotations

from irkit.build import op
from irkit.checking.samples.sampler import I64, STRING, Sampler
from irkit.core.ir import Value


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
        s.of(I64, (4,)),
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=[0, 1],
        pool_int64s=[1, 2],
    )
