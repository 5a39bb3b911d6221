"""Each rule of a gradient against torch's autograd, through the torch module that a graph makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from irkit.build import call
from irkit.core.ir import Graph, Port, Signature, param
from irkit.core.types import DType, Tensor
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from lowering import as_module
from passes.gradients import grad
from tests.passes.gradients.test_rules import NAMES, OWN, Smooth, doubles
from tests.support.kernel_samples import Sample
from tests.support.kernel_samples_table import SAMPLES
from tests.support.node_cases import SIZES

WITH_AUTOGRAD = {"BatchNormalization": (0, 1, 2), "Pad": (0,)}
"""Operands that torch has gradients for, where not all: it has none for a given mean, nor for what is padded with."""
WITHOUT = {"ReverseSequence": "it runs in irkit's evaluator, which torch does not differentiate"}
"""Operators of which `as_module` makes nothing that torch has gradients for."""


def graph_of(op: str, sample: Sample) -> tuple[Graph, list[np.ndarray]] | None:
    """(a graph of one operator, what it is fed); None where the operator has no floats."""
    operands: list[Any] = []
    params, feeds = [], []
    for index, x in enumerate(sample.inputs):
        if x is None or index in SIZES.get(op, ()):
            operands.append(x)
            continue
        params.append(param(Tensor(DType.of(x.dtype), x.shape)))
        operands.append(params[-1])
        feeds.append(x)
    made = call(op, operands, sample.attributes, outputs=sample.outputs)
    result = made[0] if isinstance(made, tuple) else made
    if not isinstance(result.type, Tensor) or not result.dtype.is_float or result.dtype.is_complex:
        return None
    ports = tuple(Port(f"x{i}") for i in range(len(params)))
    return Graph(tuple(params), (result,), signature=Signature(ports, (Port("y", "output"),))), feeds


@pytest.mark.parametrize("op", sorted(set(NAMES) - set(WITHOUT)))
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_gradients_are_those_of_autograd(op: str, data: st.DataObject) -> None:
    draw = Smooth(data.draw, doubles)
    draw.narrow = op == "Celu"
    found = graph_of(op, OWN[op](draw) if op in OWN else SAMPLES[op](draw))
    floats = [i for i, x in enumerate(found[1]) if x.dtype in (np.float64, np.float32)] if found else []
    if found is None or not floats:
        return
    graph, feeds = found
    floats = [i for i in floats if i in WITH_AUTOGRAD.get(op, (i,))]
    names = [f"x{i}" for i in floats]
    try:
        back = grad(graph, names, results=False)
    except IrkitError as error:
        if "has no gradient here" in str(error) and op not in OWN:
            return
        raise
    leaves = [torch.tensor(x, requires_grad=i in floats) for i, x in enumerate(feeds)]
    y = as_module(graph)(*leaves)
    y = y[0] if isinstance(y, tuple | list) else y
    seed = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(0))
    with_seed = len(back.params) > len(feeds)
    ours = evaluate(back, [*feeds, seed.numpy()] if with_seed else feeds)
    chosen = [leaves[i] for i in floats]
    if not y.requires_grad:
        assert all(not g.any() for g in ours)
        return
    theirs = torch.autograd.grad(y, chosen, seed if with_seed else torch.ones_like(y), allow_unused=True)
    for own, other in zip(ours, theirs, strict=True):
        wanted = np.zeros_like(own) if other is None else other.numpy()
        tolerance = 1e-6 if own.dtype == np.float64 else 1e-4
        np.testing.assert_allclose(
            own,
            wanted,
            rtol=tolerance,
            atol=tolerance * (1 + np.abs(np.nan_to_num(wanted, posinf=0, neginf=0)).max(initial=0)),
        )
