"""Each application of a rule as a value, and who is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from irkit.core.ir import Value
from irkit.rewriting.rules import Rule


@attrs.frozen(eq=False)
class Firing:
    """One application of a rule. `roots` are the values that it replaces, as the graph or an earlier replacement has
    them, `found` the same over operands that are rewritten already, which is what its pattern matched, `made` what
    stands for them, and `seconds` the time of the match and of its function. `times` is for how many places of the
    graph that was, where layers that are alike are rewritten as one."""

    rule: Rule
    roots: tuple[Value, ...]
    found: tuple[Value, ...]
    made: tuple[Value, ...]
    seconds: float
    times: int = 1


Told = Callable[[Firing], None]
"""Who is told of each firing, before the step is over that it belongs to."""


def counts_only(observe: Any) -> bool:
    """Whether an observer of a pass counts firings, by its own word (`counts_only`), and looks at no graph."""
    return bool(getattr(observe, "counts_only", False))


def heard(observe: Any) -> Told | None:
    """How the observer of a pass is told of firings: its method `fired`; None for one without."""
    return getattr(observe, "fired", None)
