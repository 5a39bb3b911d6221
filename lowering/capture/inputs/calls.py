"""What the user calls, and how: any callable as a module, arguments bound to their parameters, leaves with names."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch

from irkit.support.arguments import type_text
from irkit.support.counts import count_text
from lowering.capture.inputs.containers import restore
from lowering.capture.torchscript.modules import function_of, owner_of, without_scripts
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import Groups, Leaf
from lowering.records.pytrees import is_names, leaf_paths, unique_names
from lowering.records.torch_internals import pytree

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
SETTINGS = ("use_cache", "return_dict", "output_attentions", "output_hidden_states")
"""Arguments of models of transformers for which their configuration has a value."""
MASKS = ("attention_mask",)
"""Arguments of models of transformers that are all ones where they are None: `generate` leaves such a mask out."""


# ---------------------------------------------------------------------------------------------------------------------
# Any callable as a module
# ---------------------------------------------------------------------------------------------------------------------


class Function(torch.nn.Module):
    """A function as a module: `forward` is the function, and the modules that it refers to are its children."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = as_forward(function) if hasattr(function, "__code__") else plain(function)
        for name, module in modules_behind(function).items():
            self.add_module(name, module)


def as_module(model: Any, branches: bool = False) -> torch.nn.Module:
    """The module that torch.export traces for `model`; a module itself, with its parameters under their own names.

    A bound method of a module becomes a view of that module, whose `forward` is the method. TorchScript becomes modules
    of Python that run its graphs, with branches on data computed where `branches` says so. Raises CaptureError for what
    cannot be called.
    """
    model = getattr(model, "_orig_mod", model)
    if isinstance(model, torch.jit.ScriptFunction):
        model = function_of(model, branches=branches)
    if isinstance(model, torch.ScriptMethod):
        return owner_of(model, branches)
    if isinstance(model, torch.nn.Module):
        return without_scripts(model, branches)
    owner = getattr(model, "__self__", None)
    if inspect.ismethod(model) and isinstance(owner, torch.nn.Module):
        return owner if model.__name__ == "forward" else seen_through(owner, model)
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        raise CaptureError(f"{model.__name__} is a class, no module", hint=f"pass an instance: {model.__name__}(...)")
    if callable(model):
        return Function(model)
    raise CaptureError(
        f"{type_text(model)} cannot be captured",
        hint="pass a module, function or method, an ExportedProgram, an FX GraphModule or Graph, or the path of a .pt2",
    )


def seen_through(owner: torch.nn.Module, method: types.MethodType) -> torch.nn.Module:
    """A module that shares everything with `owner`, but whose forward is the method, and which has no hooks."""
    view = object.__new__(type(owner))
    view.__dict__.update(owner.__dict__)
    view.__dict__.update({hooks: OrderedDict() for hooks in HOOKS if hooks in owner.__dict__})
    view.__dict__["forward"] = types.MethodType(as_forward(method.__func__), view)
    return view


def as_forward(function: Any) -> Any:
    """The same function or method under the name `forward`: torch records source lines of frames called so only."""
    if inspect.ismethod(function):
        return types.MethodType(as_forward(function.__func__), function.__self__)
    if not isinstance(function, types.FunctionType):
        return function
    code, name = function.__code__.replace(co_name="forward"), function.__name__
    made = types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    made.__dict__.update(function.__dict__)
    return made


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function with the signature of a builtin, a partial or a callable object: torch asks for its code."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    try:
        call.__signature__ = inspect.signature(function)
    except ValueError:
        return call
    return call


def modules_behind(function: Any) -> dict[str, torch.nn.Module]:
    """The modules that a function uses without taking them as arguments, by the names that it calls them by."""
    found: dict[str, Any] = {}
    if isinstance(function, functools.partial):
        found |= modules_behind(function.func)
        found |= {f"argument_{i}": each for i, each in enumerate(function.args)} | dict(function.keywords)
    owner = getattr(function, "__self__", None)
    found |= getattr(owner, "__dict__", {})
    inner = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(inner):
        variables = inspect.getclosurevars(inner)
        found |= {**variables.globals, **variables.nonlocals}
    elif not inspect.isroutine(inner) and not isinstance(function, functools.partial):
        found |= getattr(inner, "__dict__", {})
    return {name: each for name, each in found.items() if isinstance(each, torch.nn.Module)}


def name_of(model: Any) -> str:
    """What a report calls the model."""
    if isinstance(model, torch.nn.Module):
        return type(model).__name__
    return getattr(model, "__qualname__", None) or getattr(model, "__name__", None) or type(model).__name__


# ---------------------------------------------------------------------------------------------------------------------
# Arguments
# ---------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Parameters:
    """How a call may give arguments: `by_position` names the parameters that take them by position, in order,
    `only_so` those of them that have no name for a caller, `usual` what stands for an argument that is left out, and
    `whole` the masks that hide nothing where they are left out."""

    by_position: tuple[str, ...]
    only_so: frozenset[str] = frozenset()
    usual: Mapping[str, Any] = {}
    whole: frozenset[str] = frozenset()

    @classmethod
    def of(cls, signature: inspect.Signature, given: Sequence[str], module: torch.nn.Module) -> Parameters:
        """The parameters of a signature, for a call that gave these by position."""
        found, only, usual = [], [], {}
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                found += [each for each in given if each not in found]
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                found.append(name)
                only += [name] if parameter.kind is parameter.POSITIONAL_ONLY else []
            if parameter.default is not parameter.empty:
                usual[name] = parameter.default
        of_transformers = any(
            kind.__name__ == "PreTrainedModel" and kind.__module__.partition(".")[0] == "transformers"
            for kind in type(module).__mro__
        )
        whole = frozenset(MASKS if of_transformers else ())
        return cls(tuple(found), frozenset(only), usual | settings_of(module), whole)

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name. Raises CaptureError for too many, and for one that is given twice, as Python does."""
        if len(args) > len(self.by_position):
            raise CaptureError(
                f"the call has {len(args)} positional arguments, and the model takes {len(self.by_position)}",
                hint=f"those are {', '.join(self.by_position) or 'none'}; give the others by name",
            )
        given = dict(zip(self.by_position, args, strict=False))
        twice = next((name for name in kwargs if name in given), None)
        unnamed = next((name for name in kwargs if name in self.only_so), None)
        if twice is not None or unnamed is not None:
            what = f"has two values for {twice!r}" if twice is not None else f"gives {unnamed!r} by name"
            hint = "give each argument once" if twice is not None else "the model takes it by position only"
            raise CaptureError(f"the call {what}", hint=hint)
        return {**given, **kwargs}

    def goes_without_saying(self, name: str, value: Any) -> bool:
        """Whether an argument that the example left out has the value that stands for it then."""
        if value is None:
            return True
        usual = self.usual.get(name, self)
        return type(value) in (bool, int, float, str) and type(usual) is type(value) and usual == value


def settings_of(module: torch.nn.Module) -> dict[str, Any]:
    """What models of transformers read from their configuration where the caller does not say, by the argument. Models
    of images and text read it from the configuration of the text."""
    config: Any = getattr(module, "config", None)
    configs: list[Any] = [config]
    if hasattr(config, "get_text_config"):
        with contextlib.suppress(ValueError):  # it has several of texts
            configs.append(config.get_text_config())
    return {name: getattr(each, name) for each in reversed(configs) for name in SETTINGS if hasattr(each, name)}


@attrs.frozen(eq=False)
class Call:
    """The example arguments of a call, and the parameters that take them.

    `positional` names each positional argument; `combined` holds the arguments by name, in the order of the signature.
    `groups` tells which of them stand behind `*args` and `**kwargs`; `parameters` is how a call may give arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    positional: tuple[str, ...]
    combined: dict[str, Any]
    groups: Groups
    parameters: Parameters

    @property
    def is_variable(self) -> bool:
        """Whether an argument stands behind `*args` or `**kwargs`."""
        return any(self.groups.values())

    @property
    def arguments(self) -> tuple[str, ...]:
        """The name of every argument, positional ones first."""
        return (*self.positional, *self.kwargs)


def bind(module: torch.nn.Module, args: Sequence[Any] | torch.Tensor, kwargs: Mapping[str, Any] | None) -> Call:
    """The arguments bound to the parameters of `module.forward`; a tensor by itself is the one argument.

    Raises CaptureError where they do not fit.
    """
    args = (args,) if isinstance(args, torch.Tensor) else args
    if not isinstance(args, Sequence):
        raise CaptureError(
            f"args is {type_text(args)}, and must be a tuple of positional arguments", hint="write (x,) for one"
        )
    args, kwargs = tuple(args), dict(kwargs or {})
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise CaptureError(
            f"the arguments do not fit {type(module).__name__}.forward{signature}: {error}",
            hint="args and kwargs are what you would call the model with",
        ) from error
    positional: list[str] = []
    groups: dict[str, dict[str, str]] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = [f"{name}_{i}" for i in range(len(args) - len(positional))]
            groups[name] = {each: str(i) for i, each in enumerate(rest)}
            positional += rest
        elif parameter.kind is parameter.VAR_KEYWORD:
            groups[name] = {each: each for each in bound.arguments.get(name, {})}
        elif len(positional) < len(args) and name not in kwargs and parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(name)
    combined = dict(bound.arguments)
    if any(groups.values()):
        combined = {**dict(zip(positional, args, strict=True)), **kwargs}
    return Call(args, kwargs, tuple(positional), combined, groups, Parameters.of(signature, positional, module))


def named_leaves(call: Call, with_sources: bool = True) -> tuple[Leaf, ...]:
    """Every leaf of the arguments, positional ones first, with its name, and with the source that torch.export gives
    it, which takes as long to find as all the rest."""
    flat, spec = pytree.tree_flatten((call.args, call.kwargs))
    paths = []
    for side, index, *inside in leaf_paths(spec):
        argument = call.positional[int(index)] if side == "0" else index
        paths.append((argument, *inside))
    sources = sources_of(call, len(flat)) if with_sources else [""] * len(flat)
    names = unique_names(".".join(path) for path in paths)
    return tuple(Leaf(*each) for each in zip(names, paths, flat, sources, strict=True))


def sources_of(call: Call, count: int) -> list[str]:
    """torch's name in guards for each leaf, in the order of args and then kwargs as the user passed them."""
    keys: dict[str, list[str]] = {}
    path: Any
    for path, _ in pytree.tree_flatten_with_path(call.combined)[0]:
        keys.setdefault(path[0].key, []).append(f"L{pytree.keystr(path)}")
    found = [source for argument in call.arguments for source in keys.get(argument, ())]
    return found if len(found) == count else [""] * count


@contextmanager
def flat_signature(module: torch.nn.Module, call: Call) -> Iterator[None]:
    """A block in which `module.forward` has a parameter for each argument of the call, and no `*args` or `**kwargs`.

    torch.export takes dynamic shapes of what stands behind `**kwargs` for another structure than the arguments.
    """
    forward = module.forward

    def flat(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in call.arguments]
    flat.__signature__ = inspect.Signature(parameters)
    before = dict(module.__dict__)
    module.__dict__["forward"] = flat
    try:
        yield
    finally:
        restore(module.__dict__, before)


def rename_leaves(leaves: Sequence[Leaf], input_names: Sequence[str] | Mapping[str, str] | None) -> tuple[Leaf, ...]:
    """The leaves under the user's names, given in order for those that become inputs, or as a mapping.

    Raises CaptureError for too many names, a name twice, or a mapping from a name that no input has.
    """
    if input_names is None:
        return tuple(leaves)
    names = {leaf.name: leaf.name for leaf in leaves}
    wanted = input_names.values() if isinstance(input_names, Mapping) else input_names
    if not is_names(wanted):
        raise CaptureError(f"input_names is {input_names!r}", hint='give a list of names: ["image"]')
    if isinstance(input_names, Mapping):
        unknown = [name for name in input_names if name not in names]
        if unknown:
            raise CaptureError(
                f"input_names renames {unknown[0]!r}, and no input is called so",
                hint=f"the inputs are {', '.join(names)}",
            )
        names |= input_names
    else:
        tensors = [leaf.name for leaf in leaves if leaf.is_tensor]
        able = tensors if len(input_names) <= len(tensors) else [leaf.name for leaf in leaves]
        if len(input_names) > len(able):
            raise CaptureError(
                f"{len(input_names)} input names were given for {count_text(len(able), 'input')}",
                hint=f"they are {', '.join(able)}",
            )
        names |= dict(zip(able, input_names, strict=False))
    chosen = list(names.values())
    twice = next((name for name in chosen if chosen.count(name) > 1), None)
    if twice is not None:
        raise CaptureError(f"two inputs would be called {twice!r}", hint="give each input a name of its own")
    return tuple(attrs.evolve(leaf, name=names[leaf.name]) for leaf in leaves)
