"""Samples of operators that make a tensor of sizes, or draw one."""

from __future__ import annotations

import numpy as np

from irkit.build import op, shape_vector
from irkit.checking.samples.sampler import ANY, F32, FLOATS, NUMBERS, Sampler
from irkit.core.ir import Value
from irkit.support.results import as_tuple


def sample_Range(s: Sampler) -> Value:
    """As many numbers as there are elements along an axis."""
    x = s.tensor(ANY, 1)
    size = op.Squeeze(op.Shape(x, start=0, end=1), [0])
    return op.Range(np.array(0), size, np.array(1))


def sample_ConstantOfShape(s: Sampler) -> Value:
    """Ones, twos or zeros."""
    shape = shape_vector(s.bound_shape(0, 2))
    return op.ConstantOfShape(shape, value=np.array([s.choose((1.0, 2.0))], np.float32))


def sample_EyeLike(s: Sampler) -> Value:
    """Ones on one diagonal."""
    return op.EyeLike(s.tensor(NUMBERS, 2, 2), k=s.integer(-1, 1))


def sample_Constant(s: Sampler) -> Value:
    """A few numbers."""
    return s.constant(s.choose(s.widened(ANY, "Constant")), s.static_shape(0, 2, 0))


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
    return as_tuple(op.Dropout(s.tensor(FLOATS), outputs=1))[0]


DRAWN = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
)
"""The samples whose results nobody can foretell."""
