"""What is known to differ between the two ways of capture, why, and whose it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import attrs

from tests.fuzz.both_ways.verdicts import Verdict


@attrs.frozen
class Reason:
    """Why some programs have an outcome: those whose name fits one of the patterns, where `says` is found in what is
    said of them. `whose` is who would have to change it."""

    outcome: str
    programs: Sequence[str]
    why: str
    whose: str
    says: str = ""


EVERY = ("*",)
REASONS: tuple[Reason, ...] = ()


def reason_for(name: str, verdict: Verdict) -> Reason | None:
    """The first reason that fits a program and what became of it; None where it is not known."""
    for reason in REASONS:
        fits = any(fnmatchcase(name, pattern) for pattern in reason.programs)
        if reason.outcome == verdict.outcome and fits and re.search(reason.says, verdict.detail):
            return reason
    return None
