"""The numbers of the example: what a value holds when the model is called with the arguments it is traced with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from irkit.contract.binding import Binding
from irkit.core import walk
from irkit.core.ir import Value
from irkit.core.vocabulary import PARAM, SHAPE_VECTOR
from irkit.evaluation.interpreter import KERNELS, Run
from irkit.evaluation.kernels.common import Kernel
from lowering.tensors.complex_pairs import PAIR


@attrs.define(eq=False)
class Examples:
    """Values with what they hold for the example, each computed when it is first asked for.

    `hints` has the number of each symbol of the sizes. `later` has for parameters of bodies the value that they stand
    for, and whether they stand for its first element only. `kernels` compute what irkit has no kernel for, by name.
    """

    hints: Mapping[str, int]
    known: dict[Value, Any] = attrs.field(factory=dict)
    later: dict[Value, tuple[Value, bool]] = attrs.field(factory=dict)
    kernels: Mapping[str, Kernel] = {}

    def of(self, value: Value) -> np.ndarray:
        """What a value holds."""
        run = Run({**KERNELS, **self.kernels} if self.kernels else KERNELS, np.random.default_rng(0), None)
        binding = Binding(outer=dict(self.hints))
        with np.errstate(all="ignore"):
            for each in walk.post_order((value,), stop=self.known.__contains__):
                if each in self.later:
                    whole, first = self.later[each]
                    self.known[each] = self.of(whole)[0] if first else self.of(whole)
                    continue
                operands: Any = tuple(None if v is None else self.known[v] for v in each.inputs)
                pair = each.op == PAIR
                self.known[each] = operands[0] + 1j * operands[1] if pair else run.value(each, operands, binding)
        return self.known[value]


def reaches_parameter(value: Value, constant: dict[Value, bool]) -> bool:
    """Whether a value hangs on a parameter, on sizes that vary or on random numbers; `constant` remembers others."""
    from irkit.rewriting.numbering import is_random

    for each in walk.post_order((value,), stop=constant.__contains__):
        fixed = each.op not in (PARAM, SHAPE_VECTOR) and not is_random(each)
        constant[each] = fixed and all(constant[v] for v in each.inputs if v is not None)
    return not constant[value]
