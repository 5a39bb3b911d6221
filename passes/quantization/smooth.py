"""Outliers of activations moved into weights (SmoothQuant, Xiao et al., 2022): (x / s) @ (s * W) is x @ W."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from irkit.build import const, op
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.evaluation.interpreter import Feeds
from passes.quantization.layers import Layer, operand
from passes.quantization.observed import sizes_of_channels

NORMS = ("LayerNormalization", "RMSNormalization")
"""Operators whose scale takes a factor for each channel."""


def smooth_outliers(
    graph: Graph, layers: Sequence[Layer], samples: Sequence[Feeds], strength: float
) -> tuple[Graph, Mapping[Value, Value]]:
    """(the graph with each product's activation divided by a factor for each channel and its weight multiplied by it,
    what stands for each of its values).

    Where a norm makes the activation, and nothing but such products uses it, the norm's own scale is divided.
    """
    products = [layer for layer in layers if layer.is_product]
    shared: dict[Value, list[Layer]] = {}
    for layer in products:
        shared.setdefault(layer.x, []).append(layer)
    sizes = sizes_of_channels(graph, samples, tuple(shared))
    uses = walk.users(graph.order)
    swaps: dict[Value, Value] = {}
    for x, users in shared.items():
        if x not in sizes:
            continue
        factors = factors_of(sizes[x], users, strength)
        own = len(uses.get(x, ())) == len(users) and x not in graph.results
        divided = through_norm(x, factors) if own else None
        small = op.Mul(x, const(1 / factors)) if divided is None else divided
        for layer in users:
            weight = (layer.rows() * factors).astype(np.float32)
            blob = layer.weight.blob
            name = blob.name if blob is not None else ""
            held = const(np.ascontiguousarray(weight.T if layer.turned else weight), name=name)
            swaps[layer.value] = layer.with_operands(small, held.with_origin(layer.weight.origin), layer.bias)
    built = walk.rebuild_through(graph.results, swaps)
    return graph.with_results(built[r] for r in graph.results), built


def factors_of(largest: np.ndarray, users: Sequence[Layer], strength: float) -> np.ndarray:
    """The factor of each channel: max|x|^strength / max|w|^(1 - strength); 1 where either is 0."""
    weights = np.max([np.abs(layer.rows()).max(0) for layer in users], axis=0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factors = largest.astype(np.float64) ** strength / weights ** (1 - strength)
    good = np.isfinite(factors) & (factors > 1e-5) & (factors < 1e5)
    return np.where(good, factors, 1.0).astype(np.float32)


def through_norm(x: Value, factors: np.ndarray) -> Value | None:
    """A norm with its scale and bias divided; None where x is none over the last axis with constants."""
    if x.op not in NORMS or x.attribute("axis", -1) not in (-1, x.rank - 1):
        return None
    parts = [operand(x, i) for i in range(1, len(x.inputs))]
    if any(p.blob is None or p.shape != factors.shape for p in parts):
        return None
    divided = (const(p.blob.read() / factors, name=p.blob.name) for p in parts if p.blob is not None)
    return x.with_inputs((operand(x, 0), *divided))
