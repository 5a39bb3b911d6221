"""FX graphs without mutation: what is written is a value of its own, and written back once, at the end."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from irkit.support.arguments import type_text
from lowering.errors import CaptureError
from lowering.records.programs import first_line
from lowering.records.torch_internals import OpOverload, make_fx, pytree

END = (1 << 63) - 1
"""What torch says for the end of an axis."""


def functional(module: GraphModule, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> GraphModule:
    """The FX graph of a module with every operator that writes its operand replaced by one that gives the new content,
    views of it included, and slices of whole axes left out.

    The graph is that of ATen's operators for inputs like `args` and `kwargs`, in the order and with the names of the
    graph's own placeholders; parameters and buffers keep their names. What the module writes of its inputs and buffers
    it still writes, once, by `copy_` at the end. The module itself is left as it is, and returned where nothing in it
    writes and no slice is left out.

    Both are run on copies of the arguments, and compared. Raises CaptureError where the module cannot be run or traced
    with them, and where what it gives or writes would differ.
    """
    if not isinstance(module, GraphModule):
        raise CaptureError(
            f"{type_text(module)} is no torch.fx.GraphModule",
            hint="lowering.trace(model, args) makes one of a model",
        )
    given = (tuple(args), dict(kwargs or {}))
    if not writes(module):
        made = GraphModule(module, copy.deepcopy(module.graph))
        if not remove_whole_slices(made.graph):
            return module
        made.recompile()
    else:
        made = functionalized(module, *given)
    require_equal(module, made, given)
    return made


def writes(module: torch.nn.Module) -> bool:
    """Whether something in a graph may write: an operator whose schema says so, a method or function whose name ends in
    an underscore, an assignment of items, an `out`, a module that is no graph and may do anything."""
    graph = getattr(module, "graph", None)
    if not isinstance(graph, Graph):
        return any(True for _ in module.modules())
    return any(node_writes(module, node) for node in graph.nodes)


def node_writes(module: torch.nn.Module, node: Node) -> bool:
    """Whether one node may write."""
    if node.op == "call_module":
        return writes(module.get_submodule(str(node.target)))
    if node.op not in ("call_function", "call_method"):
        return False
    if isinstance(node.target, OpOverload):
        return bool(node.target._schema.is_mutable)
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return (
        in_place
        or name in ("setitem", "iadd", "isub", "imul")
        or "out" in node.kwargs
        or bool(node.kwargs.get("inplace"))
    )


def functionalized(module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphModule:
    """The graph of a module as torch functionalizes it, with the names of its state and of its placeholders."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def flat(*given: Any) -> Any:
        a, k = pytree.tree_unflatten(list(given[len(state) :]), spec)
        return torch.func.functional_call(module, dict(zip(state, given, strict=False)), a, k)

    copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in leaves]
    held = [each.detach().clone() for each in state.values()]
    try:
        made = make_fx(torch.func.functionalize(flat, remove="mutations_and_views"))(*held, *copies)
    except Exception as error:
        raise CaptureError(
            f"the graph cannot be traced with these arguments: {type(error).__name__}: {first_line(error)}",
            hint="give arguments with which the module runs",
        ) from error
    return with_state(module, made, list(state))


def with_state(module: GraphModule, made: GraphModule, names: Sequence[str]) -> GraphModule:
    """The traced graph as one of the module: placeholders of state become attributes, others get their names back."""
    graph = made.graph
    holders = [node for node in graph.nodes if node.op == "placeholder"]
    own = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    for node, name in zip(holders, names, strict=False):
        with graph.inserting_before(node):
            held = graph.create_node("get_attr", name)
        node.replace_all_uses_with(held)
        graph.erase_node(node)
    rest = holders[len(names) :]
    if len(own) == len(rest):
        for node, name in zip(rest, own, strict=True):
            node.target = name
            node.name = name
    remove_whole_slices(graph)
    root = copy.copy(module)
    for node in graph.nodes:  # constants that were met on the way
        if node.op == "get_attr" and not has_attribute(root, str(node.target)):
            root.register_buffer(str(node.target), getattr(made, str(node.target)), persistent=False)
    found = GraphModule(root, graph)
    found.graph.eliminate_dead_code()
    found.recompile()
    return found


def has_attribute(module: torch.nn.Module, path: str) -> bool:
    """Whether a module has an attribute at a path."""
    owner: Any = module
    for part in path.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


def remove_whole_slices(graph: Graph) -> int:
    """Takes slices of whole axes, `x[0:]`, out of a graph: how many there were."""
    count = 0
    for node in list(graph.nodes):
        at = SLICES.get(node.target) if node.op == "call_function" else None
        if at is not None and is_whole(node, at):
            node.replace_all_uses_with(node.args[at - 1])
            graph.erase_node(node)
            count += 1
    return count


SLICES: Mapping[Any, int] = {
    torch.ops.aten.slice.Tensor: 1, torch.ops.aten.slice_copy.Tensor: 1, torch.ops.aten.slice_scatter.default: 2,
}  # fmt: skip
"""Operators of slices, with the place of the axis among their arguments: before it stands what a whole slice is."""


def is_whole(node: Node, at: int) -> bool:
    """Whether a slice has all of its operand, and nobody writes into it."""
    given = node.args[at:]
    _, start, end, step = (*given, *(0, None, None, 1)[len(given) :])
    users = [u for u in node.users if isinstance(u.target, OpOverload) and u.target._schema.is_mutable]
    return bool(start in (0, None) and end in (END, None) and step == 1 and not users)


# ---------------------------------------------------------------------------------------------- comparing


def require_equal(module: GraphModule, made: GraphModule, given: Any) -> None:
    """Raises CaptureError where two modules give, or write, other things."""
    before, after = outcome(module, given), outcome(made, given)
    for (what, mine), (_, other) in zip(before, after, strict=True):
        try:
            torch.testing.assert_close(other, mine, equal_nan=True)
        except (AssertionError, TypeError) as error:
            raise CaptureError(
                f"without mutation {what} would differ: {first_line(error)}",
                hint="the graph writes what it reads elsewhere: give each tensor memory of its own",
            ) from error


def outcome(module: GraphModule, given: Any) -> list[tuple[str, Any]]:
    """What a module gives for copies of arguments, what these are then, and its buffers."""
    held = copy.deepcopy(module)
    leaves, spec = pytree.tree_flatten(given)
    copies = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in leaves]
    args, kwargs = pytree.tree_unflatten(copies, spec)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        results = pytree.tree_leaves(held(*args, **kwargs))
    named = [*((f"result {i}", each) for i, each in enumerate(results))]
    named += [(f"argument {i}", each) for i, each in enumerate(copies)]
    return named + [(f"the buffer {name}", each) for name, each in held.named_buffers() if has_attribute(module, name)]
