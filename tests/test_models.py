"""Every model of the zoo, exported and compared with eager on ONNX Runtime at its traced size and at others."""

from __future__ import annotations

import pytest

from tests.zoo.case import Case
from tests.zoo.cases import CASES, TORCH_NN
from tests.zoo.outcome import Outcome, outcome_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_model_agrees_with_eager(case: Case) -> None:
    refuse_problems(outcome_of(case))


@pytest.mark.parametrize("case", [case for case in CASES if case not in TORCH_NN], ids=lambda case: case.name)
def test_model_agrees_with_eager_in_operators_of_onnx_runtime(case: Case) -> None:
    refuse_problems(outcome_of(case, 2, target="onnxruntime-cpu+com.microsoft"))


def refuse_problems(outcome: Outcome) -> None:
    """Fails with all that went wrong."""
    problems = [outcome.problem, *(f"{sizes}: {problem}" for sizes, _, problem in outcome.runs if problem)]
    assert outcome.as_expected, "\n".join(filter(None, problems))
