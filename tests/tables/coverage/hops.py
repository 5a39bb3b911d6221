"""Higher-order operators: torch's own database of them, and a program for each that torch.export can record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.hop_db import hop_db

from irkit.build import op
from irkit.core.types import DType
from tests.lowering.aten.oracle import op_case
from tests.tables.coverage.hop_programs import PROGRAMS
from tests.tables.coverage.subjects import Subject

OPS = {f"{info.name}.{info.variant_test_name}": info for info in hop_db}


def plus_five(x: Any, z: Any) -> tuple[Any, ...]:
    """What torch's operator for this test returns, and then what it leaves in x and z."""
    x, z = (op.Add(v, 5) if v.dtype is not DType.BOOL else op.Or(v, True) for v in (x, z))
    return x, z, op.Or(x, z) if x.dtype is DType.BOOL else op.Add(x, z), x, z


CONVERTERS = {torch.ops.testlib.mutating_custom_op: plus_five}
KINDS = ("float32", "float16", "int64", "bool")
ON_ACCELERATORS_ONLY = frozenset(("flex_attention.simple",))
"""What torch lists for CUDA only, and its CPU kernels run too."""


def cells() -> Iterator[tuple[str, str, str]]:
    """(name, element type, mode) of each cell."""
    for name, info in OPS.items():
        for dtype in KINDS:
            if getattr(torch, dtype) in info.dtypes or (dtype == "float32" and not info.dtypes):
                yield name, dtype, "static"
                if dtype != "float16":  # products of large random matrices have no digits left in it
                    yield name, dtype, "dynamic"
    for name in PROGRAMS:
        yield name, "float32", "static"
        yield name, "float32", "dynamic"


def subjects(name: str, dtype: str, mode: str) -> Iterator[Subject]:
    """The calls of one cell."""
    shapes: Any = "every" if mode == "dynamic" else None
    if name in PROGRAMS:
        model, args = PROGRAMS[name]()
        yield Subject(model, args, {}, name, shapes)
        return
    info = OPS[name]
    for sample in list(info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)):
        case = op_case(info, sample.transform(lambda x: x.detach() if isinstance(x, torch.Tensor) else x))
        yield Subject(case.model, case.args, {}, case.words, shapes, converters=CONVERTERS)
