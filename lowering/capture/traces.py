"""What was captured as an FX graph that can be run, looked at and lowered, with irkit's types at its nodes."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.fx import GraphModule

from lowering.capture.capture import Captured
from lowering.capture.functional import remove_whole_slices
from lowering.capture.fx_graphs import TRACE, Trace
from lowering.records.programs import gives_gradients
from lowering.records.sizes import Sizes
from lowering.records.types import DTYPES, type_of


def traced_module(captured: Captured, *, functional: bool = False) -> GraphModule:
    """A module that computes what was captured. `meta["irkit"]` of a node is the type of what it gives, over the user's
    names of dimensions, or the size that it is; that of the module is the `Trace`, by which `lower` keeps the contract.

    Of a program with gradients, and of an FX graph that was given, it is the graph as it stands, copied. Where it shall
    be `functional`, torch's own pass takes the writes of a program out, and slices of whole axes go.
    """
    program = captured.program
    if functional and program is not None and not gives_gradients(program):
        program = program.run_decompositions({})
    if program is None or gives_gradients(program):
        made = GraphModule(captured.graph_module, copy.deepcopy(captured.graph_module.graph))
    else:
        made = program.module(check_guards=False)  # what they guard is in the Trace
    if functional and remove_whole_slices(made.graph):
        made.recompile()
    sizes = Sizes(captured.dim_names, captured.signed, settled=captured.settled)
    for node in made.graph.nodes:
        known = said_of(node.meta.get("val"), sizes)
        if known is not None:
            node.meta[TRACE] = known
    made.meta[TRACE] = Trace(
        captured.dim_names, captured.equal, captured.range_constraints, captured.guards, captured.settled
    )
    return made


def said_of(recorded: Any, sizes: Sizes) -> Any:
    """The type of a recorded tensor, or of several; a recorded size as a dimension; None for anything else."""
    if isinstance(recorded, torch.SymInt):
        return sizes.dim(recorded)
    if isinstance(recorded, torch.Tensor) and recorded.dtype not in DTYPES:
        return None
    if isinstance(recorded, tuple | list):
        return tuple(said_of(each, sizes) for each in recorded)
    return type_of(recorded, sizes)
