"""Operators of ONNX Runtime's own, each defined by ONNX's."""

from irkit.build.runtime.table import DEFINITIONS, MOST, RULES, StandIn, body, defined_results

__all__ = ["DEFINITIONS", "MOST", "RULES", "StandIn", "body", "defined_results"]
