"""The results of a program that rounds to integers, told from those of the graph itself.

ONNX Runtime computes with integers what is written in floating-point numbers between integers, and is off by some steps
of a result; how many, no tolerance can say that also catches a wrong scale. So the graph is compared first, as irkit
evaluates it, and has no more room than ties: torch sums in another order, and a number in the middle between two steps
may be rounded to the one here and to the other there. All numbers that are quantized are moved by a small part of a
step, some times; what then becomes of each element of the results is the room that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from irkit.checking.comparison import tolerance
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.evaluation.interpreter import evaluate
from irkit.evaluation.kernels import casts
from irkit.evaluation.kernels.table import KERNELS
from lowering.records.torch_internals import pytree
from lowering.records.types import array_of

NEAR = 2**-10
"""How near the middle of two steps a number may be rounded to either, in steps: a sum of thousands of products in
float32, and a scale of some hundredths, are off by less."""

DRAWS = 8
"""So often are the numbers moved: all up, all down, and then each as chance has it."""

ROOM = 2.0
"""How much further than any of the draws results may be moved: chance does not meet the worst choice for each."""


def has_roundings(graph: Graph) -> bool:
    """True where a graph, or a body in it, quantizes numbers that it computes."""
    return any(value.op == "QuantizeLinear" or any(map(has_roundings, value.bodies)) for value in graph.order)


def moved_kernel(draw: int) -> Any:
    """The kernel of QuantizeLinear for numbers that are moved by a part of a step, as one of the draws has it."""
    generator = np.random.default_rng(draw)

    def kernel(node: Value, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None) -> np.ndarray:
        step = np.asarray(casts.spread_along(node, x, scale.astype(np.float64)))
        by = generator.choice((-NEAR, NEAR), x.shape) if draw > 1 else (-NEAR, NEAR)[draw]
        moved = x.astype(np.float64) + by * step
        return casts.kernel_QuantizeLinear(node, moved, scale, zero_point)

    return kernel


def evaluated_result(program: Any, feeds: Mapping[str, np.ndarray], draw: int | None = None) -> Any:
    """The result of the graph that is saved, as irkit evaluates it; of a draw, of numbers that are moved. Raises
    EvaluateError for an operator without a kernel."""
    kernels = KERNELS
    if draw is not None:
        kernels = {**KERNELS, "QuantizeLinear": moved_kernel(draw)}
    return program.taken(evaluate(program.ready, feeds, kernels=kernels)[: len(program.graph.results)])[0]


def within_room(program: Any, expected: Any, exact: Any, feeds: Mapping[str, np.ndarray]) -> Any:
    """The result of a graph, with the expected numbers where roundings may make these of it."""
    with program.lowered.captured.pytrees():
        leaves, spec = pytree.tree_flatten(exact)
        wanted = pytree.tree_leaves(expected)
        draws = [pytree.tree_leaves(evaluated_result(program, feeds, draw)) for draw in range(DRAWS)]
        if len(wanted) == len(leaves):
            leaves = [nearer(*each) for each in zip(leaves, wanted, zip(*draws, strict=True), strict=True)]
        return pytree.tree_unflatten(leaves, spec)


def nearer(leaf: Any, wanted: Any, draws: Sequence[Any]) -> Any:
    """A tensor of a result, with what is wanted at the places at which the draws are as far off."""
    if not isinstance(leaf, torch.Tensor) or not isinstance(wanted, torch.Tensor) or leaf.dtype != wanted.dtype:
        return leaf
    if leaf.shape != wanted.shape or leaf.is_complex() or leaf.dtype is torch.bool:
        return leaf
    far = torch.zeros(leaf.shape, dtype=torch.float64)
    for draw in draws:
        far = torch.maximum(far, (draw.double() - leaf.double()).abs())
    own = tolerance(DType.of(array_of(leaf).dtype))
    room = ROOM * far + own.atol + own.rtol * wanted.double().abs()
    return torch.where((far > 0) & ((leaf.double() - wanted.double()).abs() <= room), wanted, leaf)
