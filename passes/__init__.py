"""Passes over irkit's graphs: rules by subject, graph passes, pipelines and targets."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from passes.files import optimize_file
from passes.legal.legalize import legalize
from passes.pipelines.standard import optimize, rules_named
from passes.precision import Precision, mixed_precision, overflowing, to_precision
from passes.preparing.prepare import prepare
from passes.quantization import Quantization, Quantized, quantize
from passes.targets import Target, target_of
from passes.whole_graph.hoist import hoist
from passes.whole_graph.outline import inline, outline
from passes.whole_graph.schedule import scheduled
from passes.whole_graph.seeded import seeded

if TYPE_CHECKING:
    from passes.saturation import saturate

__all__ = [
    # pipelines
    "optimize",
    "optimize_file",
    "prepare",
    "rules_named",
    "saturate",
    # what will run the graph
    "Target",
    "target_of",
    "legalize",
    # precision
    "Precision",
    "to_precision",
    "mixed_precision",
    "overflowing",
    # integers
    "Quantization",
    "Quantized",
    "quantize",
    # passes by themselves
    "hoist",
    "inline",
    "outline",
    "scheduled",
    "seeded",
]


def __getattr__(name: str) -> Any:
    """`saturate`, whose equations are made when it is asked for."""
    if name != "saturate":
        raise AttributeError(f"module 'passes' has no attribute {name!r}")
    return import_module("passes.saturation").saturate
