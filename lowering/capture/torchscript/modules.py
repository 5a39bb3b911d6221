"""Modules and functions of TorchScript as modules of Python, whose forward runs their graphs."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from lowering.capture.torchscript.interpreter import run_graph
from lowering.records.module_kinds import kinds_of_parts
from lowering.records.torch_internals import wrap_cpp_module


class Scripted(torch.nn.Module):
    """A module of TorchScript, with its parameters, buffers and children under their own names: of `torch.jit.script`,
    `torch.jit.trace` or `torch.jit.load`. What its methods set is set here, and leaves `script` as it is. Branches on
    data are computed where `branches` says so, and followed elsewhere."""

    def __init__(self, script: Any, branches: bool = False) -> None:
        super().__init__()
        self.__dict__["script"] = script
        self.__dict__["branches"] = branches
        self.training = getattr(script, "training", False)  # a frozen module has no mode
        for name, each in script._parameters.items():
            kept = each if each is None or isinstance(each, torch.nn.Parameter) else parameter_of(each)
            self._parameters[name] = kept  # register_parameter refuses names that the script has
        for name, each in script._buffers.items():
            self._buffers[name] = each
        for name, each in script._modules.items():
            self._modules[name] = Scripted(each, branches) if isinstance(each, torch.jit.ScriptModule) else each
        if script._c._has_method("forward"):
            self.__dict__["forward"] = method_of(self, script._c._get_method("forward"))
        for hooks in ("_forward_pre_hooks", "_forward_hooks"):  # those of children stand in the graph
            for key, hook in script.__dict__[hooks].items():
                self.__dict__[hooks][key] = function_of(hook, branches=branches)

    def __getattr__(self, name: str) -> Any:
        for kept in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[kept]:
                return self.__dict__[kept][name]
        script = self.__dict__["script"]
        if script._c._has_method(name):
            return method_of(self, script._c._get_method(name))
        return getattr(script, name)


def parameter_of(tensor: torch.Tensor) -> torch.nn.Parameter:
    """The same memory as a parameter."""
    return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)


def method_of(owner: Scripted, method: Any) -> Callable[..., Any]:
    """A method of TorchScript as a function of Python, with the same arguments and defaults."""
    return function_of(method, (owner,), owner.branches)


def function_of(function: Any, first: tuple[Any, ...] = (), branches: bool = False) -> Callable[..., Any]:
    """A function of TorchScript as one of Python, with the same arguments and defaults; the `first` are given."""
    graph, arguments = function.inlined_graph, function.schema.arguments[len(first) :]
    kept = inspect.Signature(
        [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY if each.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=each.default_value if each.has_default_value() else inspect.Parameter.empty,
            )
            for each in arguments
        ]
    )

    def forward(*args: Any, **kwargs: Any) -> Any:
        bound = kept.bind(*args, **kwargs)
        bound.apply_defaults()
        return run_graph(graph, (*first, *bound.arguments.values()), branches)

    forward.__signature__ = kept
    return forward


def owner_of(method: torch.ScriptMethod, branches: bool = False) -> torch.nn.Module:
    """The module that a method of TorchScript belongs to, with that method as its forward, and no hooks."""
    made = Scripted(wrap_cpp_module(method.owner), branches)
    made.__dict__.update(_forward_pre_hooks=OrderedDict(), _forward_hooks=OrderedDict())
    made.__dict__["forward"] = method_of(made, method)
    return made


def without_scripts(module: torch.nn.Module, branches: bool = False) -> torch.nn.Module:
    """The module with `Scripted` in place of what is TorchScript in it; itself where nothing is. The modules around
    them are others that share everything else with those given, which stay as they are."""
    return replaced(module, branches) if has_scripts(module) else module


def has_scripts(module: torch.nn.Module) -> bool:
    """Whether a module is TorchScript, or has a part that is."""
    return any(issubclass(kind, torch.jit.ScriptModule) for kind in kinds_of_parts(module))


def replaced(module: torch.nn.Module, branches: bool) -> torch.nn.Module:
    """The same as `without_scripts`, for modules that may have some."""
    if isinstance(module, torch.jit.ScriptModule):
        return Scripted(module, branches)
    swaps = {name: None if each is None else without_scripts(each, branches) for name, each in module._modules.items()}
    if all(swaps[name] is each for name, each in module._modules.items()):
        return module
    view = object.__new__(type(module))
    view.__dict__.update(module.__dict__)
    view.__dict__["_modules"] = {**module._modules, **swaps}
    return view
