"""A sample of the programs that `make both-ways` captures by both ways, and what its harness tells apart."""

from __future__ import annotations

import pytest
import torch

from tests.fuzz import both_ways
from tests.fuzz.both_ways import FAULTS, Verdict, compared, names_of, of_contracts
from tests.support.draws import drawn
from tests.tables.coverage.subjects import Subject

SAMPLE = 10
NAMES = [name for name in names_of() if not name.startswith("zoo:")]
"""The zoo runs by the default way in test_models.py."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", drawn("both ways", NAMES, SAMPLE))
def test_both_ways_of_capture_agree(name: str) -> None:
    found = compared(name)
    assert found.outcome not in (*FAULTS, "neither"), found


def subject(function: torch.nn.Module) -> Subject:
    """A module of one tensor whose rows vary."""
    return Subject(function, (torch.randn(4, 3),), {}, "", ({0: "n"},))


class Halved(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2 if x.shape[0] > 1 else x


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_contracts_are_compared_at_sizes() -> None:
    plain, limited = (both_ways.captured(subject(m()), "direct") for m in (Doubled, Halved))
    assert not isinstance(plain, str) and not isinstance(limited, str)
    assert of_contracts(plain, plain) == Verdict("same")
    assert of_contracts(plain, limited).outcome == "weaker"
    assert of_contracts(limited, plain).outcome == "narrower"
