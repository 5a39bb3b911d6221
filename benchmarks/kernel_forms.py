"""What benchmarks/kernel_costs.py measures: a fusion as a case of several forms, and the operands that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from irkit.build import const
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor

DTYPES: Mapping[str, DType] = {d.short: d for d in (DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16)}

Sizes = Mapping[str, int]
Form = Callable[["Maker"], Any]
"""What makes a value, or a tuple of those that a model would give out."""


@attrs.frozen
class Case:
    """A fusion: its fused form, plain forms of which the fastest counts, and sizes by class. `name` is only for cases
    whose fused form is ONNX's own operator; the others are called as passes.targets.costs calls them. `copies` of it
    make a graph: few where weights are large, which would have to come from memory by turns."""

    fused: Form
    plain: tuple[Form, ...]
    sizes: Mapping[str, Sizes]
    name: str = ""
    copies: int = 6


@attrs.define(eq=False)
class Maker:
    """Operands of one copy: parameters and constants, the same numbers for every form."""

    sizes: Sizes
    dtype: str
    params: list[Value] = attrs.field(factory=list)
    arrays: list[np.ndarray] = attrs.field(factory=list)
    seed: int = 0

    def __getattr__(self, name: str) -> int:
        return self.sizes[name]

    def random(self, *shape: int) -> np.ndarray:
        """Normal numbers, others in each copy."""
        self.seed += 1
        generator = np.random.default_rng([self.seed, *shape])
        return (generator.standard_normal(shape) * 0.5).astype(DTYPES[self.dtype].numpy)

    def input(self, *shape: int) -> Value:
        """A parameter of random content."""
        return self.fed(self.random(*shape))

    def fed(self, array: np.ndarray) -> Value:
        """A parameter of that content. Sizes are written down: what shapes cost is no matter here."""
        self.params.append(param(Tensor(DType.of(array.dtype), array.shape)))
        self.arrays.append(array)
        return self.params[-1]

    def weight(self, *shape: int) -> Value:
        """A constant of random content."""
        return const(self.random(*shape))
