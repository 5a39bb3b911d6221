"""An operator's type rule, kernel, sample and converters are found by the name of its family."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from irkit.checking.samples.table import SAMPLES
from irkit.evaluation.kernels.table import KERNELS
from irkit.nodes.type_rules import RULES
from irkit.ops.families import FAMILIES, family_of
from irkit.ops.schemas import names

ROOT = Path(__file__).resolve().parents[3]
PLACES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "type rule": ("irkit.ops.types", "infer_", RULES),
    "kernel": ("irkit.evaluation.kernels", "kernel_", KERNELS),
    "sample": ("irkit.checking.samples", "sample_", SAMPLES),
}
ELSEWHERE = {
    "control": "its operands are graphs: see lowering/fold/control.py and lowering/direct/control.py",
    "sequences": "torch's lists are taken apart while a program is captured",
    "text": "torch has no strings",
}
"""Why a family has no converters of its own."""


def families_of(package: str, prefix: str) -> Iterator[tuple[str, str]]:
    """(operator, family) for each `<prefix><operator>` that a module of the package defines."""
    for family in FAMILIES:
        path = ROOT / package.replace(".", "/") / f"{family}.py"
        if path.exists():
            for name in vars(importlib.import_module(f"{package}.{family}")):
                if name.startswith(prefix) and name[len(prefix)].isupper():
                    yield name.removeprefix(prefix), family


def test_each_operator_of_onnx_is_of_one_family() -> None:
    counted = Counter(op for operators in FAMILIES.values() for op in operators)
    assert set(counted.values()) == {1}
    assert sorted(counted) == sorted(names())
    assert family_of("Softmax") == "activations"
    assert family_of("NoSuchOperator") is None


@pytest.mark.parametrize("place", PLACES)
def test_what_is_said_of_an_operator_stands_in_the_module_of_its_family(place: str) -> None:
    package, prefix, table = PLACES[place]
    found = dict(families_of(package, prefix))
    assert {op: family for op, family in found.items() if family_of(op) not in (None, family)} == {}
    assert [op for op in table if family_of(op) is not None and op not in found] == []


def test_each_family_has_a_folder_of_converters_and_of_their_tests() -> None:
    folders = {path.name for path in (ROOT / "lowering" / "aten").iterdir() if path.is_dir()}
    assert set(FAMILIES) - folders == set(ELSEWHERE)
    tested = {path.name for path in (ROOT / "tests" / "lowering" / "aten").iterdir() if path.is_dir()}
    assert set(FAMILIES) - tested <= set(ELSEWHERE)
