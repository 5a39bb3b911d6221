"""Every expansion of legalization, both sides computed on random instances; and operators at every opset and in every
element type, by numbers, through a file and back.

`make expansions` checks many more instances of each.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import attrs
import numpy as np
import pytest

import irkit
from irkit.check_rule import check
from irkit.errors import RewriteError
from irkit.rewrite import Match, Rule, decline
from passes.expansions import Expanded, all_expansions
from tests.operator_instances import OF_RULES, instances_of

COUNT = int(os.environ.get("IRKIT_EXPANSIONS", "10"))
"""On how many instances each expansion is checked."""


def sampled(expanded: Expanded) -> Rule:
    """The rule with a sample: instances of its operator."""
    rule = expanded.rule
    ops = getattr(rule.pattern, "ops", ())
    if rule.name in OF_RULES:
        return attrs.evolve(rule, sample=OF_RULES[rule.name])
    rule = attrs.evolve(rule, sample=instances_of(ops[0])) if len(ops) == 1 else rule
    return without_ties(rule) if rule.name == "older Resize" else rule


def without_ties(rule: Rule) -> Rule:
    """The rule, which declines for integers: means of them lie half-way between two, and either may be taken."""

    def function(m: Match) -> Any:
        return decline("ties") if m.root.dtype.is_integer else rule.function(m)

    return attrs.evolve(rule, function=function)


@pytest.mark.parametrize("expanded", all_expansions(), ids=lambda e: e.rule.name.replace(" ", "-"))
def test_both_sides_of_the_expansion_are_equal(expanded: Expanded) -> None:
    rule = sampled(expanded)
    assert check(rule, COUNT, seed=zlib.crc32(rule.name.encode()) % 1000).fired >= min(3, COUNT)


def test_a_slip_in_an_expansion_is_found() -> None:
    """The comparison can fail: one expansion made wrong in four ways."""
    by_name = {e.rule.name: sampled(e) for e in all_expansions()}
    wrong: dict[str, Any] = {
        "expand Mean": lambda m, made: irkit.op.Mul(made, np.array(1.001, made.dtype.numpy)),
        "older Trilu": lambda m, made: irkit.op.Trilu(m.root.inputs[0], np.array(3), upper=0),
        "double Erf": lambda m, made: irkit.op.Cast(irkit.op.Cast(made, to=10), to=11),
        "expand TensorScatter": lambda m, made: irkit.op.Identity(m.root.inputs[0]),
    }
    for name, slip in wrong.items():
        rule = by_name[name]

        def function(m: Match, rule: Rule = rule, slip: Any = slip) -> Any:
            made = rule.function(m)
            return slip(m, made) if isinstance(made, irkit.Value) else made

        with pytest.raises(RewriteError, match="differ"):
            check(attrs.evolve(rule, function=function), 30)
