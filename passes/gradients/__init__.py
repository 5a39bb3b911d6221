"""Gradients of graphs: reverse mode, by a rule for each operator."""

from passes.gradients.reverse import RULES, grad

__all__ = ["RULES", "grad"]
