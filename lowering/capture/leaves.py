"""Modules that a trace leaves whole: calls of modules in the FX graph, as the model makes them.

While the model is captured, each of them is one opaque operator on tensors, whose sizes are those that the module gives
for fake ones. Afterwards that operator becomes a call of the module.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import attrs
import torch
from torch.fx import Graph, GraphModule, Node

from lowering.errors import CaptureError
from lowering.records.torch_internals import pytree


@attrs.define(eq=False)
class Call:
    """One call of a module: what it is given, tensors by their places, and how its results lie."""

    path: str
    module: torch.nn.Module
    forward: Callable[..., Any]
    given: Sequence[Any]
    spec: Any
    results: Any = None

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors among the results of the module for such tensors."""
        rest = iter(tensors)
        leaves = [next(rest) if each is TENSOR else each for each in self.given]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        found, self.results = pytree.tree_flatten_with_path(self.forward(*args, **kwargs))
        wrong = [each for _, each in found if not isinstance(each, torch.Tensor)]
        if wrong:
            raise CaptureError(
                f"the module {self.path!r} gives a {type(wrong[0]).__name__} among its results, and only tensors cross",
                hint="leave a module whole that gives tensors, or structures of them",
            )
        self.results = [path for path, _ in found]
        return [each.clone() for _, each in found]


TENSOR = object()
"""What stands in the place of a tensor among arguments."""

CALLS: ContextVar[list[Call] | None] = ContextVar("CALLS", default=None)
"""The calls of the trace that this thread makes."""


@torch.library.custom_op("irkit::leaf", mutates_args=())
def leaf(tensors: Sequence[torch.Tensor], call: int) -> list[torch.Tensor]:
    """The results of a module that is left whole, while it is traced."""
    return (CALLS.get() or [])[call].run(tensors)


@leaf.register_fake
def _(tensors: Sequence[torch.Tensor], call: int) -> list[torch.Tensor]:
    """Tensors of the sizes that the module gives."""
    return (CALLS.get() or [])[call].run(tensors)


@contextmanager
def modules_left_whole(model: Any, chosen: Callable[[str, torch.nn.Module], bool]) -> Iterator[list[Call]]:
    """A block in which the outermost modules that are chosen are each one operator; its calls are listed."""
    calls: list[Call] = []
    held: list[torch.nn.Module] = []
    outer: list[str] = []
    for path, module in model.named_modules() if isinstance(model, torch.nn.Module) else ():
        inside = any(path.startswith(f"{each}.") for each in outer)
        if path and not inside and chosen(path, module):
            outer.append(path)
            module.__dict__["forward"] = as_leaf(path, module, module.forward, calls)
            held.append(module)
    token = CALLS.set(calls)
    try:
        yield calls
    finally:
        CALLS.reset(token)
        for module in held:
            module.__dict__.pop("forward", None)


def as_leaf(path: str, module: torch.nn.Module, forward: Callable[..., Any], calls: list[Call]) -> Callable[..., Any]:
    """A forward that is one operator."""

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        symbolic = next((each for each in leaves if isinstance(each, torch.SymInt | torch.SymFloat)), None)
        if symbolic is not None:
            raise CaptureError(
                f"the module {path!r} is given the size {symbolic}, and only tensors cross",
                hint="leave it out of the leaves, or give it tensors: it can read their sizes itself",
            )
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        given = [TENSOR if isinstance(each, torch.Tensor) else each for each in leaves]
        made = Call(path, module, forward, given, spec)
        calls.append(made)
        number = len(calls) - 1
        found = torch.ops.irkit.leaf(tensors, number)
        return rebuilt(made, found)

    return call


def rebuilt(call: Call, found: Sequence[torch.Tensor]) -> Any:
    """The results of a module in their own structure, of which the module told for fake tensors."""
    if call.results == [()]:
        return found[0]
    table: dict[Any, Any] = {}
    for path, each in zip(call.results, found, strict=True):
        at = table
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = each
    return structured(table)


def structured(table: Any) -> Any:
    """Nested tables of keys as tuples and dicts."""
    if not isinstance(table, dict):
        return table
    parts: dict[Any, Any] = {
        getattr(key, "idx", getattr(key, "key", getattr(key, "name", None))): structured(v) for key, v in table.items()
    }
    return tuple(parts[i] for i in sorted(parts)) if all(type(k) is int for k in parts) else parts


def with_modules(made: GraphModule, calls: Sequence[Call]) -> GraphModule:
    """The graph with calls of the modules in the place of the operators."""
    if not calls:
        return made
    graph: Graph = made.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.irkit.leaf.default:
            call = calls[int(node.args[1])]
            made.add_submodule(call.path, call.module)
            put_call(graph, node, call)
    made.recompile()
    return made


def put_call(graph: Graph, node: Node, call: Call) -> None:
    """A call of a module in the place of its operator."""
    rest = iter(node.args[0])  # type: ignore[arg-type]
    leaves = [next(rest) if each is TENSOR else each for each in call.given]
    args, kwargs = pytree.tree_unflatten(leaves, call.spec)
    with graph.inserting_before(node):
        made = graph.call_module(call.path, tuple(args), dict(kwargs))
        made.meta = dict(node.meta)
        for user in list(node.users):
            result: Node = made
            for key in call.results[user.args[1]]:
                index = getattr(key, "idx", getattr(key, "key", None))
                function, at = (getattr, key.name) if index is None else (operator.getitem, index)
                result = graph.call_function(function, (result, at))
            result.meta = dict(user.meta)
            user.replace_all_uses_with(result)
            graph.erase_node(user)
    graph.erase_node(node)


def choice_of(asked: Any) -> Callable[[str, torch.nn.Module], bool]:
    """Whether a module is left whole: by classes, or a predicate of path and module. Raises CaptureError otherwise."""
    if asked is None:
        return lambda path, module: False
    if isinstance(asked, type):
        asked = (asked,)
    if isinstance(asked, set | frozenset | tuple | list) and all(isinstance(each, type) for each in asked):
        classes: tuple[type, ...] = tuple(asked)
        return lambda _, module: isinstance(module, classes)
    if callable(asked):
        return lambda path, module: bool(asked(path, module))
    raise CaptureError(f"leaves is {asked!r}", hint="give classes of modules, or a predicate of path and module")
