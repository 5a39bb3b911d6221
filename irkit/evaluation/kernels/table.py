"""The kernels of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Mapping

from irkit.evaluation.kernels.common import Kernel
from irkit.ops.families import FAMILIES
from irkit.ops.schemas import NONDETERMINISTIC
from irkit.support.families import functions_of

DRAWS = NONDETERMINISTIC | {"Dropout"}
"""Operators whose kernels take the keyword argument `rng`."""


KERNELS: Mapping[str, Kernel] = functions_of("kernel_", "irkit.evaluation.kernels", FAMILIES)
"""The kernel of each operator, by its name in the IR."""
