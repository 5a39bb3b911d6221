"""What an expansion is: a function that writes one operator in others."""

from __future__ import annotations

from collections.abc import Callable

from irkit.core.ir import Value
from irkit.rewriting.face import Made, Match

Expanded = Made | None
"""What stands for a value: other values, or None or a reason where it cannot be written so."""

Expansion = Callable[[Match, Value], Expanded]
