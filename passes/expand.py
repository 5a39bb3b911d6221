"""Operators by others, where ONNX has no definition by others, or a longer one: what legalization takes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irkit.ir import Value
from irkit.rewrite import Match

EXPANSIONS: Mapping[str, Callable[[Match, Value], Any]] = {}
"""The expansion of each operator: a value, a tuple of values, or None where it does not apply."""
