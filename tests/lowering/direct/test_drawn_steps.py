"""Drawn steps of training, over several calls: see `tests.fuzz.training_steps`."""

from __future__ import annotations

import pytest

from tests.fuzz.training_steps import faults, text_of
from tests.support.draws import drawn

PINNED = (3400010, 3400132, 5200411)
"""A rate that data tells, set for the next call; the same before a step of the schedule; gradients that are nothing but
rounding, of which NAdam makes any number."""


@pytest.mark.parametrize("seed", drawn("steps of training", range(400), 12, PINNED))
@pytest.mark.filterwarnings("ignore")
def test_a_drawn_step_of_training_is_that_of_eager_in_each_call(seed: int) -> None:
    assert not [*faults(seed)], text_of(seed)
