"""For tests of passes, rules and converters: random well-typed graphs, golden pairs, equality by numbers, `check`."""

from irkit.checking.rules import (
    Checked,
    check_rule,
    guarded,
)
from irkit.checking.strategies import (
    assert_equivalent,
    bindings,
    choices,
    feeds,
    golden,
    grown_graph,
    random_feeds,
    random_graph,
    random_value,
    typed_graphs,
)

__all__ = [
    "Checked",
    "assert_equivalent",
    "bindings",
    "check_rule",
    "choices",
    "feeds",
    "golden",
    "grown_graph",
    "guarded",
    "random_feeds",
    "random_graph",
    "random_value",
    "typed_graphs",
]
