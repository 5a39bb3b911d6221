"""Operators of one's own, with meaning, and dialects, which are tables of them."""

from irkit.dialects.dialect import Dialect, dialect
from irkit.dialects.operators import operator
from irkit.dialects.runtime import runtime_dialect
from irkit.nodes.operators import Operator

__all__ = ["Dialect", "Operator", "dialect", "operator", "runtime_dialect"]
