"""Operators by others that an opset before them has: what legalization takes first for such an opset."""

from __future__ import annotations

from collections.abc import Mapping

from passes.expand import Expansion

OLDER: Mapping[str, tuple[tuple[int, Expansion], ...]] = {}
"""For each operator the opsets below which it is expanded, and how."""
