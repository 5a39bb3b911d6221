"""FX graphs that no torch.export made: which of them can be lowered as they are, their inputs, and their weights."""

from __future__ import annotations

import builtins
import copy
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from torch.export import Dim
from torch.fx import Graph, GraphModule, Node

from irkit.support.counts import count_text
from lowering.capture.guards.guards import Guard
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import Leaf
from lowering.records.pytrees import Path, leaf_paths, unique_names
from lowering.records.torch_internals import OperatorBase, pytree

PYTHON = frozenset(module.__name__ for module in (operator, math, builtins)) | {"_operator"}


TRACE = "irkit"
"""The key of irkit's own in the `meta` of a graph and its nodes."""


@attrs.frozen(eq=False)
class Trace:
    """What capture knows of the sizes in a graph that it made: the user's name for each of torch's symbols, the names
    that turned out to be something else, the ranges, what was relied on, and the symbols that are one number."""

    names: Mapping[str, str]
    equal: Mapping[str, str]
    ranges: Mapping[str, tuple[int, int | None]]
    guards: tuple[Guard, ...]
    settled: Mapping[str, int]


def module_of_graph(graph: Graph) -> GraphModule:
    """The module of a bare graph: the one that owns it, or one made of a copy of it over what it fetches.

    Raises CaptureError where the graph fetches or calls something by name, and no module has that.
    """
    owner = graph.owning_module
    for node in graph.nodes:
        if node.op in ("get_attr", "call_module") and not holds(owner, str(node.target)):
            held = "no module owns the graph" if owner is None else f"{type(owner).__name__}, which owns it, has none"
            raise CaptureError(
                f"the graph takes {node.target!r} from its module, and {held}",
                hint="pass torch.fx.GraphModule(module, graph), with the module that holds it",
            )
    if isinstance(owner, GraphModule) and owner.graph is graph:
        return owner
    return GraphModule(owner if owner is not None else torch.nn.Module(), copy.deepcopy(graph))


def holds(module: Any, path: str) -> bool:
    """Whether a module has an attribute of that dotted path."""
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def is_aten(module: GraphModule) -> bool:
    """Whether every node calls an operator of torch or does arithmetic on sizes, as make_fx leaves a graph."""
    calls = [node for node in module.graph.nodes if node.op in ("call_module", "call_method", "call_function")]
    return all(node.op == "call_function" and is_operator(node.target) for node in calls)


def is_operator(target: Any) -> bool:
    """Whether this is an operator of torch, or a Python function on sizes (`operator.add`, `torch.sym_max`)."""
    module, name = getattr(target, "__module__", ""), getattr(target, "__name__", "")
    return isinstance(target, OperatorBase) or module in PYTHON or (module == "torch" and name.startswith("sym_"))


def placeholders(module: GraphModule) -> list[Node]:
    """The inputs of a graph, in order."""
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def recorded(node: Node) -> Any:
    """What the graph knows of a node's value: torch's `val`, dynamo's `example_value`, or ShapeProp's `tensor_meta`."""
    for key in ("val", "example_value", "tensor_meta"):
        if key in node.meta:
            return node.meta[key]
    return None


def is_recorded(module: GraphModule) -> bool:
    """Whether torch recorded the value of every node, as make_fx does; ShapeProp and dynamo keep less."""
    nodes = [node for node in module.graph.nodes if "val" not in node.meta]
    return not any(node.op == "placeholder" or recorded(node) is not None for node in nodes)


def has_shapes(module: GraphModule) -> bool:
    """Whether every input of the graph knows its shape."""
    return all(recorded(node) is not None for node in placeholders(module))


def as_meta(value: Any) -> Any:
    """A recorded value with a shape that can be asked for: what ShapeProp leaves becomes a tensor without data."""
    if isinstance(value, torch.Tensor) or not hasattr(value, "shape"):
        return value
    return torch.empty(tuple(value.shape), dtype=value.dtype, device="meta")


def leaves_of_graph(
    module: GraphModule, args: Sequence[Any]
) -> tuple[tuple[Leaf, ...], list[Any], pytree.TreeSpec, pytree.TreeSpec | None]:
    """(leaves, what the graph recorded for each, structure of the inputs, structure of the outputs) of a graph.

    Raises CaptureError where example arguments are given and there are more or fewer of them than inputs.
    """
    nodes = placeholders(module)
    metas = [as_meta(recorded(node)) for node in nodes]
    structure = structure_of(module)
    flat = pytree.tree_leaves(tuple(args)) if args else metas
    if len(flat) != len(nodes):
        raise CaptureError(
            f"the graph has {count_text(len(nodes), 'input')}, and {len(flat)} example arguments were given",
            hint=f"its inputs are {', '.join(str(node.target) for node in nodes)}",
        )
    if structure is None:
        _, in_spec = pytree.tree_flatten((tuple(range(len(nodes))), {}))
        paths = [(name,) for name in unique_names(str(node.target) for node in nodes)]
    else:
        in_spec, arguments = structure.in_spec, structure.arguments
        paths = [named(path, in_spec.child(0).num_children, arguments) for path in leaf_paths(in_spec)]
    names = unique_names(".".join(path) for path in paths)
    leaves = [Leaf(name, path, each, f"L['{name}']") for name, path, each in zip(names, paths, flat, strict=True)]
    return tuple(leaves), metas, in_spec, None if structure is None else structure.out_spec


def named(path: Path, count: int, arguments: Sequence[str]) -> Path:
    """The path of a leaf in `((positional, ...), {by name})`, from its argument on."""
    side, index, *inside = path
    return (arguments[int(index)] if side == "0" and int(index) < count else index, *inside)


@attrs.frozen(eq=False)
class Structure:
    """How a graph takes its arguments, as `((positional, ...), {by name})`, their names, and the form of results."""

    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None
    arguments: tuple[str, ...]


def structure_of(module: GraphModule) -> Structure | None:
    """The structure that a graph takes, where its code says so: make_fx and torch.export write it. None for a graph
    that takes its inputs one by one."""
    info = getattr(getattr(module.graph, "_codegen", None), "pytree_info", None)
    if info is None or info.in_spec is None or info.in_spec.num_leaves != len(placeholders(module)):
        return None
    spec, arguments = info.in_spec, [name for name in info.orig_args if name != "self"]
    sides = spec.children()
    if spec.type is tuple and [each.type for each in sides] == [tuple, dict]:
        count = sides[0].num_children
        if len(arguments) == count + sides[1].num_children:
            return Structure(spec, info.out_spec, tuple(arguments))
    # make_fx keeps the structure of the positional arguments alone.
    whole = pytree.tree_unflatten(range(spec.num_leaves), spec)
    _, both = pytree.tree_flatten((tuple(whole), {}))
    named_all = arguments if len(arguments) == len(sides) else [f"arg_{i}" for i in range(len(sides))]
    return Structure(both, info.out_spec, tuple(named_all))


def state_of_graph(module: GraphModule) -> dict[str, Any]:
    """What the graph fetches from its module, by name."""
    found = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value: Any = module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            if not isinstance(value, torch.nn.Module):
                found[str(node.target)] = value
    return found


def examples_of(module: GraphModule) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """(args, kwargs, dynamic_shapes) of the sizes that a graph recorded: to trace it again, down to ATen operators."""
    args: list[Any] = []
    shapes: list[Any] = []
    for node in placeholders(module):
        value = recorded(node)
        if isinstance(value, torch.SymInt):
            args.append(value.node.hint)
            shapes.append(stated(value))
        elif hasattr(value, "shape"):
            sizes = [size.node.hint if isinstance(size, torch.SymInt) else size for size in value.shape]
            args.append(torch.zeros(sizes, dtype=value.dtype))
            varying = {axis: stated(size) for axis, size in enumerate(value.shape) if isinstance(size, torch.SymInt)}
            shapes.append(varying or None)
        else:
            args.append(value)
            shapes.append(None)
    structure = structure_of(module)
    if structure is None:
        return tuple(args), {}, tuple(shapes) if any(shapes) else None
    positional, by_name = pytree.tree_unflatten(args, structure.in_spec)
    names = unique_names(
        ".".join(named(path, len(positional), structure.arguments)) for path in leaf_paths(structure.in_spec)
    )
    varying = {name: each for name, each in zip(names, shapes, strict=True) if each is not None}
    return tuple(positional), dict(by_name), varying or None


def stated(size: torch.SymInt) -> Any:
    """A symbolic size as a statement: the symbol's own name, so that equal sizes stay equal; else torch finds out."""
    text = str(size.node.expr)
    return text if text.isidentifier() else Dim.AUTO
