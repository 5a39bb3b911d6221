"""Tensors made from a shape or a few numbers: ranges, fills, random draws.

Random kernels take a keyword argument `rng`, the generator of the evaluation. A node that has a `seed` of its own draws
from a generator of that seed instead, so that it gives the same numbers in every evaluation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.evaluation.kernels.common import Array, Kernel, attr, ints, narrowed_to, wide


def result_dtype(node: Value) -> np.dtype:
    """The numpy dtype of the node's first result."""
    found = node.type if isinstance(node.type, Tensor) else node.type.items[0]  # type: ignore[union-attr]
    return found.dtype.numpy  # type: ignore[union-attr]


def kernel_ConstantOfShape(node: Value, shape: Array) -> Array:
    """A tensor of those dimensions filled with the only element of `value`, by default 0 of f32."""
    value = attr(node, "value")
    fill = np.zeros((), np.float32) if value is None else value.array.reshape(())
    return np.full(ints(shape), fill, dtype=fill.dtype)


def kernel_Range(node: Value, start: Array, limit: Array, delta: Array) -> Array:
    """start, start + delta, ... up to but not including limit."""
    first, last, step = (wide(v).reshape(()) for v in (start, limit, delta))
    exact = np.float64 if start.dtype.kind not in "iu" else np.int64
    count = max(int(np.ceil((last.astype(exact) - first.astype(exact)) / step.astype(exact))), 0)
    return narrowed_to(first + np.arange(count).astype(first.dtype) * step, start.dtype)


def kernel_EyeLike(node: Value, x: Array) -> Array:
    """Ones on diagonal `k`, zeros elsewhere, in the shape of the matrix x."""
    return np.eye(*x.shape, k=attr(node, "k")).astype(result_dtype(node))


def generator(node: Value, rng: np.random.Generator) -> np.random.Generator:
    """The generator of the node's own seed, or else that of the evaluation."""
    seed = attr(node, "seed")
    return rng if seed is None else np.random.default_rng(int(np.float32(seed).view(np.uint32)))


def shaped(draw: Callable[[Value, np.random.Generator, tuple[int, ...]], Array], like: bool) -> Kernel:
    """The kernel of a draw in the shape of the attribute, or in that of the operand."""

    def kernel(node: Value, x: Array | None = None, *, rng: np.random.Generator) -> Array:
        shape = x.shape if like and x is not None else attr(node, "shape")
        return narrowed_to(draw(node, generator(node, rng), tuple(shape)), result_dtype(node))

    return kernel


def uniform(node: Value, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers from [low, high)."""
    return rng.uniform(attr(node, "low"), attr(node, "high"), shape)


def normal(node: Value, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of the normal distribution with that mean and scale."""
    return rng.normal(attr(node, "mean"), attr(node, "scale"), shape)


kernel_RandomUniform, kernel_RandomUniformLike = shaped(uniform, False), shaped(uniform, True)
kernel_RandomNormal, kernel_RandomNormalLike = shaped(normal, False), shaped(normal, True)


def kernel_Bernoulli(node: Value, x: Array, *, rng: np.random.Generator) -> Array:
    """1 with the probability that each element says, else 0."""
    return narrowed_to(generator(node, rng).random(x.shape) < wide(x), result_dtype(node))


def kernel_Multinomial(node: Value, x: Array, *, rng: np.random.Generator) -> Array:
    """(batch, sample_size): class numbers drawn by the unnormalized log probabilities of each row."""
    score = wide(x)[:, None, :]
    noise = -np.log(-np.log(generator(node, rng).random((x.shape[0], attr(node, "sample_size"), x.shape[1]))))
    return narrowed_to(np.argmax(score + noise, axis=-1), result_dtype(node))


def kernel_Dropout(
    node: Value, x: Array, ratio: Array | None = None, training: Array | None = None, *, rng: np.random.Generator
) -> tuple[Array, ...]:
    """(y, mask): x, or in training mode x / (1 - ratio) where a draw keeps the element and 0 elsewhere."""
    rate = 0.5 if ratio is None else float(wide(ratio).reshape(()))
    if training is None or not bool(training.reshape(())) or rate == 0:
        return x, np.ones(x.shape, dtype=np.bool_)
    seed = attr(node, "seed")
    # With a seed of its own: numpy's legacy generator, which the ONNX reference draws from.
    draw = rng.random(x.shape) if seed is None else np.random.RandomState(seed).uniform(0, 1, x.shape)
    mask = np.asarray(draw >= rate)
    kept = np.where(mask, wide(x), 0) / np.float64(1 - rate)
    return narrowed_to(kept, x.dtype), mask
