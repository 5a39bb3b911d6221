"""The tables of what runtimes take: what is decided of them by no chance, and that they say it."""

from __future__ import annotations

import json
from importlib import import_module, util
from pathlib import Path
from typing import Any

import pytest

from irkit.core.types import DType
from irkit.ops.schemas import TYPE_STRINGS
from passes.targets.measured import MEASURED, OPENVINO, REFERENCE, TRACT, measured_kernels
from tests.support.kernel_samples_table import SAMPLES
from tests.tables.runtime_kernels import (
    BLIND,
    NUMPY,
    Plain,
    kernels_without,
    measured,
    narrowed_types,
    rows_of,
    samples,
)

RUNTIMES = {"openvino": OPENVINO, "tract": TRACT, "onnx-reference": REFERENCE}
DOUBLE = TYPE_STRINGS[DType.DOUBLE]


def needed(runtime: str) -> None:
    """Skips where a runtime is missing."""
    package = {"onnx-reference": "onnx"}.get(runtime, runtime)
    if util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install -e '.[runtimes]'")
    import_module(package)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_types_whose_digits_a_runtime_loses_are_in_no_row(runtime: str) -> None:
    needed(runtime)
    lost = narrowed_types(runtime)
    assert lost == ({DOUBLE} if runtime == "openvino" else set())
    for (_, op), rows in measured_kernels(RUNTIMES[runtime]).items():
        assert op in BLIND or not any(lost & types for _, _, bound in rows for types in bound.values()), op


def test_kernels_without_types() -> None:
    table: dict[str, list[list[Any]]] = {
        "Cast": [[1, 25, {"T1": ["a", "b"], "T2": ["b"]}]], "Equal": [[1, 19, {"T": ["a", "b"]}]],
        "Sin": [[1, 22, {"T": ["b"]}]], "If": [[1, 25, {}]],
    }  # fmt: skip
    assert kernels_without(table, ()) == table
    assert kernels_without(table, ["b"]) == {
        "Cast": [[1, 25, {"T1": ["a", "b"], "T2": ["b"]}]],
        "Equal": [[1, 19, {"T": ["a"]}]],
        "If": [[1, 25, {}]],
    }


def test_a_type_has_a_kernel_where_a_third_of_the_samples_agree() -> None:
    good = {
        ("Neg", 13, (("T", "tensor(float)"),)): ["", "wrong", "wrong"],
        ("Neg", 13, (("T", "tensor(int8)"),)): ["", "wrong", "wrong", "wrong"],
        ("Neg", 13, (("T", "tensor(int32)"),)): [""],
    }
    ((first, last, bound),) = rows_of(good)["Neg"]
    assert (first, last) == (1, 13) and "tensor(int8)" not in bound["T"]
    assert {"tensor(float)", "tensor(int32)", "tensor(int16)"} <= set(bound["T"])  # of int16 none was drawn


@pytest.mark.parametrize("name", ["Equal", "Max", "TopK", "Pow", "GridSample"])
def test_samples_are_the_same_each_time(name: str) -> None:
    kinds = sorted(NUMPY)
    first, second = ([str(each) for each in samples(name, kinds)] for _ in range(2))
    assert first == second and len(set(first)) > len(first) // 2
    assert Plain(7, DType.FLOAT).shape() == Plain(7, DType.FLOAT).shape() and name in SAMPLES


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_two_runs_write_one_table_which_is_that_of_the_file(runtime: str) -> None:
    needed(runtime)
    kinds, names = (DType.DOUBLE, DType.FLOAT, DType.INT64), ["Floor", "Equal"]
    first, second = (measured(runtime, names, names, kinds) for _ in range(2))
    assert first == second and set(first) == set(names)
    path = Path(__file__).parents[2] / "passes" / "targets" / MEASURED[RUNTIMES[runtime]]
    held = json.loads(path.read_text(encoding="utf-8"))["kernels"]
    short = {TYPE_STRINGS[kind] for kind in kinds}
    for name in names:
        assert short & set(first[name][0][2]["T"]) == short & set(held[name][0][2]["T"]), name
