"""The draws of the suite: pinned, of the asked size, each by itself."""

from __future__ import annotations

import pytest

from tests.support import draws

CASES = tuple(range(100))


def test_a_draw_is_the_same_each_time_and_holds_what_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "SEED", 1)
    monkeypatch.setattr(draws, "TIMES", 1)
    found = draws.drawn("some", CASES, 10, pinned=(7, 99))
    assert found == draws.drawn("some", CASES, 10, pinned=(7, 99)) == sorted(found)
    assert len(found) == 12 and {7, 99} <= set(found)
    assert found != draws.drawn("other", CASES, 10, pinned=(7, 99))


def test_what_is_pinned_beyond_the_cases_is_run() -> None:
    found = draws.drawn("some", CASES, 10, pinned=(7, 31446, 20686))
    assert found[-2:] == [31446, 20686]
    assert found[:-2] == draws.drawn("some", CASES, 10, pinned=(7,))


def test_a_sweep_draws_others_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "SEED", 1)
    monkeypatch.setattr(draws, "TIMES", 1)
    first = draws.drawn("some", CASES, 10)
    monkeypatch.setattr(draws, "SEED", 2)
    monkeypatch.setattr(draws, "TIMES", 3)
    assert len(draws.drawn("some", CASES, 10)) == 30
    monkeypatch.setattr(draws, "TIMES", 1)
    assert draws.drawn("some", CASES, 10) != first
    monkeypatch.setattr(draws, "TIMES", 1000)
    assert draws.drawn("some", CASES, 10, pinned=(3,)) == list(CASES)


def test_a_case_that_is_added_displaces_one_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "TIMES", 1)
    first = draws.drawn("some", CASES, 10)
    assert all(len(set(draws.drawn("some", (*CASES, new), 10)) ^ set(first)) in (0, 2) for new in range(100, 150))
