"""What torch.export leaves to be done: functorch's transforms, regions of mixed precision, tensors made of others.

Before dispatch, `torch.vmap` and `torch.func.jvp` are calls that say how what follows is to be batched, an autocast
region does not hold the casts that it stands for, and a weight of a class of its own, as torchao's quantized ones, is
one tensor. Only torch can carry those out; it does so on the whole program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from lowering.errors import CaptureError
from lowering.records.torch_internals import TRANSFORMS, is_traceable_wrapper_subclass

AUTOCAST = "wrap_with_autocast"


def carried_out(program: ExportedProgram) -> ExportedProgram:
    """The program with every transform and every cast of an autocast region written out, and with the tensors that
    weights are made of in their place; itself where it has none.

    Raises CaptureError, with torch's error as its cause, where torch cannot do so.
    """
    held = (*program.state_dict.values(), *program.constants.values())
    made = any(is_traceable_wrapper_subclass(each) for each in held if isinstance(each, torch.Tensor))
    if not made and not any(is_left_over(node) for node in nodes_within(program.graph_module)):
        return program
    if any(unwraps_nothing(module.graph.nodes) for module in modules_within(program.graph_module)):
        raise CaptureError(f"{WRITTEN_OUT}: it takes a gradient out of none", hint=EXPORTED)
    try:
        with torch.no_grad():
            return program.run_decompositions({})
    except Exception as error:
        raise CaptureError(f"{WRITTEN_OUT}: {type(error).__name__}", hint=EXPORTED) from error


WRITTEN_OUT = "torch cannot write out the transforms that the program uses"
EXPORTED = "torch.func.grad and its like cannot be exported; vmap, jvp and autocast can"


def unwraps_nothing(nodes: Iterable[Node]) -> bool:
    """True for a graph that takes a tensor out of a transform which it did not enter, as torch.func.vjp leaves it:
    torch would end the process."""
    depth = 0
    for node in nodes:
        name = getattr(node.target, "__name__", "") if is_left_over(node) else ""
        depth += name.endswith("_increment_nesting") - name.endswith("_decrement_nesting")
        if name == "_unwrap_for_grad" and depth == 0:
            return True
    return False


def nodes_within(module: GraphModule) -> Iterator[Node]:
    """The nodes of a graph and of every graph module below it."""
    for each in modules_within(module):
        yield from each.graph.nodes


def modules_within(module: GraphModule) -> Iterator[GraphModule]:
    """A graph module and every one below it."""
    return (each for each in module.modules() if isinstance(each, GraphModule))


def is_left_over(node: Node) -> bool:
    """True for a call of functorch's machinery, and for a region in which autocast is on."""
    if node.op != "call_function":
        return False
    if getattr(node.target, "_name", None) == AUTOCAST:
        return node.args[2] is not False
    return getattr(node.target, "__module__", "") == TRANSFORMS
