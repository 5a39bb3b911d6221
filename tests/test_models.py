"""Every model of the zoo, exported and compared with eager on ONNX Runtime at its traced size and at others."""

from __future__ import annotations

import pytest

from tests.zoo.case import Case
from tests.zoo.cases import CASES
from tests.zoo.outcome import outcome_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_model_agrees_with_eager(case: Case) -> None:
    outcome = outcome_of(case)
    problems = [outcome.problem, *(f"{sizes}: {problem}" for sizes, _, problem in outcome.runs if problem)]
    assert outcome.as_expected, "\n".join(filter(None, problems))
