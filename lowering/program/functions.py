"""Submodules kept as functions: Calls in the place of what they computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from irkit.core.ir import Graph
from lowering.capture.inputs.calls import as_module
from lowering.errors import CaptureError
from lowering.fold.lower import Lowered
from lowering.program.ways import is_captured
from lowering.records.options import INSIDE, Functions
from lowering.records.source_lines import own_path
from passes.whole_graph.outline import outline

ROOT = ""
HINT = "write functions=True, a set of classes, or a predicate of path and module"


def with_functions(low: Lowered, model: Any, asked: Functions) -> tuple[Callable[[Graph], Graph], list[str]]:
    """(a step that outlines the submodules of a graph that are asked for, what it notes): of those that could not be.

    Raises CaptureError for a choice of modules that there is none of, and where no module is what was asked for.
    """
    names = chosen_names(asked.modules, modules_of(low, model))
    if not names:
        raise CaptureError(f"the model has no submodule that functions={asked.modules!r} asks for", hint=HINT)
    notes: list[str] = []

    def step(graph: Graph) -> Graph:
        found = outline(graph, names.get, inside=asked.weights == INSIDE)
        notes.extend(f"{path} is no function: {why}" for path, why in found.left)
        return found.graph

    return step, notes


def modules_of(low: Lowered, model: Any) -> Mapping[str, Any]:
    """What is called in a model by its path: modules, or for what was captured already the names of their classes."""
    if not is_captured(model) or (isinstance(model, torch.nn.Module) and not captured_stacks(low)):
        return dict(as_module(model).named_modules())
    return captured_stacks(low)


def captured_stacks(low: Lowered) -> Mapping[str, str]:
    """The names of the classes that torch recorded for the modules of a program, by path."""
    program = low.captured.program
    nodes = program.graph.nodes if isinstance(program, ExportedProgram) else low.captured.graph_module.graph.nodes
    found: dict[str, str] = {}
    for node in nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            found[own_path(path)] = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return found


def chosen_names(asked: Any, modules: Mapping[str, Any]) -> dict[str, str]:
    """The names of functions by the paths of modules. Raises CaptureError for what chooses no modules."""
    chosen = choice(asked)
    found: dict[str, str] = {}
    for path, module in modules.items():
        if path != ROOT and not isinstance(module, torch.nn.ModuleList | torch.nn.ModuleDict) and chosen(path, module):
            found[path] = class_of(module).rpartition(".")[2]
    return found


def choice(asked: Any) -> Callable[[str, Any], bool]:
    """Whether a module is asked for, of its path and itself. Raises CaptureError for what says nothing of it."""
    if asked is True:
        return lambda path, module: True
    if isinstance(asked, type | str):
        asked = (asked,)
    if isinstance(asked, set | frozenset | tuple | list) and all(isinstance(each, type | str) for each in asked):
        classes = tuple(each for each in asked if isinstance(each, type))
        texts = {each if isinstance(each, str) else f"{each.__module__}.{each.__qualname__}" for each in asked}

        def of_class(_: str, module: Any) -> bool:
            name = class_of(module)
            return isinstance(module, classes) or name in texts or name.rpartition(".")[2] in texts

        return of_class
    if callable(asked):
        return told_by(asked)
    raise CaptureError(f"functions is {asked!r}, which chooses no modules", hint=HINT)


def told_by(predicate: Callable[[str, Any], Any]) -> Callable[[str, Any], bool]:
    """What a predicate of the user says. Raises CaptureError where there is no module to ask it of."""

    def told(path: str, module: Any) -> bool:
        if isinstance(module, str):
            raise CaptureError(
                f"a predicate is asked of modules, and of {path} only the class, {module}, is known",
                hint="give the model itself, or the names of classes: functions={'LlamaDecoderLayer'}",
            )
        return bool(predicate(path, module))

    return told


def class_of(module: Any) -> str:
    """The full name of the class of a module."""
    return module if isinstance(module, str) else f"{type(module).__module__}.{type(module).__qualname__}"
