"""Rules, how they are applied, why one was not, and passes made of them."""

from irkit.rewriting.face import (
    Decline,
    Explanation,
    Explanations,
    Match,
    Rule,
    Rules,
    decline,
    explain,
    misses,
    rewrite,
    rule,
)
from irkit.rewriting.firings import Firing
from irkit.rewriting.journal import Applied, Usage, culprit, usage, with_journal
from irkit.rewriting.numbering import share
from irkit.rewriting.passes import (
    Pass,
    fixpoint,
    graph_pass,
    in_bodies,
    in_sequence,
    record,
    rules_pass,
    verified,
    when,
)

__all__ = [
    # rules
    "Rule",
    "Rules",
    "Match",
    "Decline",
    "rule",
    "decline",
    "rewrite",
    "share",
    # why, and how often
    "explain",
    "misses",
    "Explanation",
    "Explanations",
    "with_journal",
    "usage",
    "culprit",
    "Applied",
    "Firing",
    "Usage",
    # passes
    "Pass",
    "graph_pass",
    "rules_pass",
    "in_sequence",
    "in_bodies",
    "fixpoint",
    "when",
    "verified",
    "record",
]
