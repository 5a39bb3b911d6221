"""The table of measured costs: every element type with a kernel has a row of its own, and decisions read it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.kernel_cases import CASES
from benchmarks.kernel_costs import TABLE, Runner, dtypes_of, graph_of, named
from benchmarks.kernel_forms import DTYPES, Case, Maker
from irkit.build import op
from irkit.core.ir import Graph, param
from irkit.core.types import DType, tensor
from passes.preparing.fuse import fuse
from passes.targets import costs, target_of

CPU = "CPUExecutionProvider"
RATIOS = json.loads(TABLE.read_text(encoding="utf-8"))["ratios"]


def name_of(case: Case) -> str:
    made = case.fused(Maker(next(iter(case.sizes.values())), "f32"))
    return named(case, made[0] if isinstance(made, tuple) else made)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_element_type_with_a_kernel_was_measured(case: Case) -> None:
    rows = RATIOS[name_of(case)]
    assert set(rows) == set(dtypes_of(case)), "run `make costs`"
    assert all(set(row) == set(case.sizes) and all(0.02 < r < 50 for r in row.values()) for row in rows.values())


def test_a_decision_reads_the_row_of_its_element_type() -> None:
    differ = [
        (fusion, dtype)
        for fusion, rows in RATIOS.items()
        for dtype in rows
        if dtype != "f32" and costs.pays(fusion, DTYPES[dtype], CPU)[0] is not costs.pays(fusion, DType.FLOAT, CPU)[0]
    ]
    assert differ, "kernels of the half types are others, and so are some decisions"
    for fusion, dtype in differ:
        row = RATIOS[fusion][dtype]
        good = costs.mean(row) <= costs.EVEN and max(row.values()) <= costs.WORST
        assert costs.pays(fusion, DTYPES[dtype], CPU)[0] is good
    assert costs.pays("BiasGelu", DType.DOUBLE, CPU) == (False, f"BiasGelu in f64 was not measured on {CPU}")


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_a_graph_is_fused_by_the_row_of_its_element_type(dtype: str) -> None:
    a, b = param(tensor(dtype, "n", 8, 4)), param(tensor(dtype, "n", 8, 6))
    graph = Graph((a, b), (op.MatMul(op.Transpose(a, perm=(0, 2, 1)), b),))
    fused = any("FusedMatMul" in v.op for v in fuse(graph, target_of("onnxruntime-cpu+com.microsoft")).order)
    assert fused is costs.pays("FusedMatMul[transA]", DTYPES[dtype], CPU)[0]


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_forms_of_a_case_agree_in_every_element_type(dtype: str) -> None:
    """What is measured is the same computation: by the results of one case."""
    (case,) = [c for c in CASES if c.name == "onnx.LayerNormalization"]
    results = []
    for form in (case.fused, *case.plain):
        graph, arrays, _ = graph_of(form, case.sizes["small"], dtype, target_of("onnxruntime-cpu"), 1)
        results.append(Runner(graph, arrays).results()[0].astype(np.float64))
    for other in results[1:]:
        np.testing.assert_allclose(results[0], other, atol={"f16": 1e-2, "bf16": 1e-1}.get(dtype, 1e-5))
