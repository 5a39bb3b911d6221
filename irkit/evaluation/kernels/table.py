"""The kernels of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from irkit.errors import EvaluateError
from irkit.evaluation.kernels import (
    activations,
    attention,
    casts,
    convolution,
    creation,
    elementwise,
    images,
    indexing,
    linear_algebra,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    sequences,
    signal,
    text,
)
from irkit.evaluation.kernels.common import Kernel
from irkit.ops.schemas import NONDETERMINISTIC

PREFIX = "kernel_"

DRAWS = NONDETERMINISTIC | {"Dropout"}
"""Operators whose kernels take the keyword argument `rng`."""


def gathered(*families: ModuleType) -> Mapping[str, Kernel]:
    """Every function `kernel_X` of the modules, by operator name. Raises EvaluateError where two have one name."""
    found: dict[str, Kernel] = {}
    for family in families:
        for name, function in vars(family).items():
            if name.startswith(PREFIX) and function.__module__.startswith(__package__ or ""):
                op = name.removeprefix(PREFIX)
                if op in found and found[op] is not function:
                    raise EvaluateError(f"two kernels for {op}")
                found[op] = function
    return MappingProxyType(found)


KERNELS = gathered(
    activations, attention, casts, convolution, creation, elementwise, images, indexing, linear_algebra,
    movement, normalization, pooling, recurrent, reduction, sequences, signal, text,
)  # fmt: skip
"""The kernel of each operator, by its name in the IR."""
