"""The numbers of the example: what a value holds when the model is called with the arguments it is traced with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.contract.binding import Binding
from irkit.core import walk
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.core.vocabulary import PARAM, SHAPE_VECTOR
from irkit.evaluation.interpreter import KERNELS, Run
from irkit.evaluation.kernels.common import Kernel
from lowering.tensors.complex_pairs import PAIR


@attrs.define(eq=False)
class Examples:
    """Values with what they hold for the example, each computed when it is first asked for.

    `hints` has the number of each symbol of the sizes. `given` tells what inputs hold, `later` has for parameters of
    bodies the value that they stand for, and whether they stand for its first element only. `kernels` compute what
    irkit has no kernel for, by name.
    """

    hints: Mapping[str, int]
    known: dict[Value, Any] = attrs.field(factory=dict)
    given: dict[Value, Callable[[], np.ndarray]] = attrs.field(factory=dict)
    later: dict[Value, tuple[Value, bool]] = attrs.field(factory=dict)
    kernels: Mapping[str, Kernel] = {}

    def of(self, value: Value) -> np.ndarray:
        """What a value holds."""
        run = Run({**KERNELS, **self.kernels} if self.kernels else KERNELS, np.random.default_rng(0), None)
        binding = Binding(outer=dict(self.hints))
        with np.errstate(all="ignore"):
            for each in walk.post_order((value,), stop=self.known.__contains__):
                if each in self.given:
                    self.known[each] = self.given[each]()
                    continue
                if each in self.later:
                    whole, first = self.later[each]
                    self.known[each] = self.of(whole)[0] if first else self.of(whole)
                    continue
                operands: Any = tuple(None if v is None else self.known[v] for v in each.inputs)
                pair = each.op == PAIR
                self.known[each] = operands[0] + 1j * operands[1] if pair else run.value(each, operands, binding)
        return self.known[value]


FEW, SMALL = 64, 1 << 16
"""Of how many values something is quickly computed, and how many elements each may have."""
SLOW = frozenset("MatMul Gemm Conv ConvTranspose Attention LSTM GRU RNN Einsum If Loop Scan DFT Resize".split())


def is_quickly_told(value: Value, examples: Examples) -> bool:
    """Whether what a value holds for the example takes no time to compute."""
    seen: set[Value] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if each in seen or each in examples.known or each in examples.given:
            continue
        seen.add(each)
        sizes, blob = each.shape if isinstance(each.type, Tensor) else (), each.blob
        count = math.prod([dims.evaluate(size, dict(examples.hints)) for size in sizes if known_size(size, examples)])
        absent = blob is not None and blob.absent
        if len(seen) > FEW or count > SMALL or each.op in SLOW or each in examples.later or absent:
            return False
        pending += [operand for operand in each.inputs if operand is not None]
    return True


def known_size(size: Any, examples: Examples) -> bool:
    """Whether the example tells a size."""
    return all(dims.label(symbol) in examples.hints for symbol in dims.symbols_of(size))


def reaches_parameter(value: Value, constant: dict[Value, bool]) -> bool:
    """Whether a value hangs on a parameter, on sizes that vary or on random numbers; `constant` remembers others."""
    from irkit.rewriting.numbering import is_random

    for each in walk.post_order((value,), stop=constant.__contains__):
        fixed = each.op not in (PARAM, SHAPE_VECTOR) and not is_random(each)
        constant[each] = fixed and all(constant[v] for v in each.inputs if v is not None)
    return not constant[value]
