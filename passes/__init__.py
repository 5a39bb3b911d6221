"""Passes over irkit's graphs: rules by subject, graph passes, pipelines and targets."""

from passes.files import optimize_file
from passes.prepare import prepare
from passes.seeded import seeded
from passes.standard import optimize

__all__ = ["optimize", "optimize_file", "prepare", "seeded"]
