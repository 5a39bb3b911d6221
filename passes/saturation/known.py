"""What `passes` knows already: the rules beside which a discovered equation is new."""

from __future__ import annotations

from irkit.rewriting.rules import Rules
from passes.pipelines.standard import all_rules
from passes.saturation.equations import EQUATIONS, SUMS

KNOWN: Rules = (*all_rules(2), *EQUATIONS, *(each for found in SUMS for each in found.rules))
"""The rules of `passes.optimize`, and the equations of `passes.saturate`, sums that are grouped in another way among
them: what `irkit.discover(operators, rules=KNOWN)` is to leave out."""
