"""Operators of ONNX Runtime's own, each defined by ONNX's."""

from irkit.build.runtime.table import DEFINITIONS, OPERATORS, RULES, defined_operator

__all__ = ["DEFINITIONS", "OPERATORS", "RULES", "defined_operator"]
