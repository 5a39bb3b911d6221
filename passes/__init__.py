"""Passes over irkit's graphs: rules by subject, graph passes, pipelines and targets."""

from passes.files import optimize_file
from passes.pipelines.standard import optimize
from passes.preparing.prepare import prepare
from passes.whole_graph.seeded import seeded

__all__ = ["optimize", "optimize_file", "prepare", "seeded"]
