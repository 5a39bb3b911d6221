"""A sample of the programs that `make both-ways` captures by both ways, and what its harness tells apart."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch

from irkit.build import const, op
from irkit.core.ir import Value
from tests.fuzz.both_ways.page import page
from tests.fuzz.both_ways.programs import names_of, subject_of
from tests.fuzz.both_ways.reasons import REASONS, reason_for
from tests.fuzz.both_ways.verdicts import OUTCOMES, Verdict, captured, compared, of_contracts
from tests.support.draws import drawn
from tests.tables.coverage.subjects import Subject

SAMPLE = 10
NAMES = [name for name in names_of() if not name.startswith("zoo:")]
"""The zoo runs by the default way in test_models.py."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", drawn("both ways", NAMES, SAMPLE))
def test_both_ways_of_capture_agree(name: str) -> None:
    found = compared(name)
    assert found.outcome == "same" or reason_for(name, found) is not None, found


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
    plain, limited = (captured(subject(m()), "direct") for m in (Doubled, Halved))
    assert not isinstance(plain, str) and not isinstance(limited, str)
    given = subject(Doubled())
    assert of_contracts(given, plain, plain) == Verdict("same")
    assert of_contracts(given, plain, limited).outcome == "more"
    assert of_contracts(given, limited, plain).outcome == "narrower"
    assert of_contracts(given, plain, plain, meant=lambda x: False) == Verdict("same")


def added(self: Value, other: Any) -> Value:
    """Their sum, where a product is asked for."""
    return op.Add(self, const(float(other), self.dtype))


def test_an_answer_that_is_not_eagers_differs() -> None:
    given = attrs.evolve(subject(Doubled()), converters={torch.ops.aten.mul.Tensor: added})
    wrong = captured(given, "direct")
    assert not isinstance(wrong, str)
    found = of_contracts(given, wrong, wrong)
    assert found.outcome == "differs" and "direct at [[4, 3]]" in found.detail


def test_programs_have_names() -> None:
    assert (
        names_of(["operators"], ["int64"], 2)[:2]
        == [name for name in names_of(["operators"], ["int64"], 2) if name.startswith("operators:")][:2]
    )
    first, second = subject_of("operators:add"), subject_of("operators:add@int64#1")
    assert first is not None and first.args[0].dtype is torch.float32
    assert second is not None and second.args[0].dtype is torch.int64
    assert subject_of("operators:add#100000") is None
    with pytest.raises(ValueError, match="no name of a program"):
        subject_of("add")


def test_reasons_are_of_outcomes_that_there_are() -> None:
    assert {reason.outcome for reason in REASONS} <= set(OUTCOMES) - {"same"}
    assert len({(reason.outcome, tuple(reason.programs), reason.says) for reason in REASONS}) == len(REASONS)
    assert reason_for("operators:no such", Verdict("differs", "")) is None


def test_the_page_counts_what_is_named_and_lists_what_is_new() -> None:
    known = {"name": "hops:grad", "outcome": "direct alone", "detail": "torch.export: CaptureError: no"}
    new = {"name": "operators:no such", "outcome": "differs", "detail": "off by one"}
    written = page([known, new, {"name": "zoo:mlp", "outcome": "same", "detail": ""}])
    assert "| programs | 1 | 1 | 1 | with a size that varies |" in written
    assert "- `operators:no such`: differs: off by one" in written and "hops:grad`" not in written
