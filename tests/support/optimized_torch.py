"""Samples of torch's database of operators, exported: a source of tests/fuzz/optimized_runs.py."""

from __future__ import annotations

import warnings
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import torch

from irkit.core.ir import Graph
from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from tests.lowering.aten.oracle import OPS, Case
from tests.tables.coverage.measure import DTYPES, NOT_DETERMINED, Key, cases_of, clones, dynamic_axes

NAMES = tuple(name for name, info in OPS.items() if info.name not in NOT_DETERMINED and "linalg" not in name)
"""Operators of which two runs give one result; those of linear algebra are loops, and slow."""


@lru_cache(maxsize=4)
def samples(key: Key) -> tuple[Case, ...]:
    """The samples of an operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(islice(cases_of(key), 40))


def exported(rng: np.random.Generator) -> tuple[Graph, list[Any]] | None:
    """(graph, arguments) of a random sample, exported with fixed or dynamic sizes; None where there is none."""
    name = NAMES[int(rng.integers(len(NAMES)))]
    kinds = [kind for kind, dtype in DTYPES.items() if dtype in OPS[name].dtypes]
    if not kinds:
        return None
    key = Key(name, kinds[int(rng.integers(len(kinds)))], "static")
    torch.manual_seed(0)
    try:
        found = samples(key)
        case = found[int(rng.integers(len(found)))]
        axes = dynamic_axes(case) if rng.random() < 0.5 else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = to_onnx(case.model.eval(), clones(case.args), dynamic_shapes=axes)
            feeds = program.feeds(case.args, {})
    except (IrkitError, RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return None
    return program.graph, [feeds[port.name] for port in program.graph.signature.params]
