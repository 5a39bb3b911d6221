"""`pieces`: a model run on one or more calls, as a tree that can be exported piece by piece."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import torch

from lowering.capture.inputs.calls import as_module, name_of
from lowering.capture.inputs.contents import keep_unchanged
from lowering.direct.request import request_of
from lowering.errors import CaptureError
from lowering.piecewise.calls import Listener, Recorded, Spot, calls_of, replace_calls
from lowering.piecewise.exported import Exported
from lowering.piecewise.observing import Observation, observation_of
from lowering.piecewise.relations import Sizes
from lowering.piecewise.tree import FUNCTION, METHOD, MODULE, Called
from lowering.piecewise.trials import export_piece
from lowering.records.options import ExportOptions
from lowering.records.torch_internals import pytree


@attrs.frozen(eq=False, repr=False)
class Piece(Called):
    """A module, method or function of a model, with the calls that were made of it and the pieces that it called: what
    `lowering.pieces` gives. See `lowering.piecewise.tree.Called` for its fields."""

    def __getitem__(self, name: str) -> Piece:
        """The piece of that name. Raises KeyError for none."""
        found = super().__getitem__(name)
        if not isinstance(found, Piece):
            raise KeyError(name)
        return found

    def export(
        self,
        *,
        exporter: Any = "irkit",
        strategy: Any = "only_if_failing",
        check: bool = True,
        rtol: float | None = None,
        atol: float | None = None,
        quiet: bool = True,
        **options: Any,
    ) -> Exported:
        """This piece exported; where that fails, the pieces in it, until all that fail are known.

        Args:
            exporter: "irkit"; "torch.export", which says what torch itself captures; or a function of (module, args,
                kwargs, dynamic_shapes in torch's form) that gives something to call.
            strategy: what is done about pieces that fail (see `Strategy`), for all or, in a mapping, by name or class:
                "only_if_failing", "none", "always", "local"; True and False stand for the first two.
            check: compare what is exported with what eager gave, on every call.
            rtol, atol: tolerances of the comparison, in place of those of the element type.
            quiet: False raises the first error instead of going on.
            options: those of `irkit.to_onnx`.

        The whole is tried first: what it covers needs no trial of its own. What fails and has no piece in it that fails
        is to blame, and an opaque operator is put in its place, which knows types and sizes from the calls, sizes that
        hang on data among them. So the whole is exported around it, and compared with eager, where the opaque operators
        run in torch. Pieces of one class and kind that are called alike are tried once.
        """
        return export_piece(self, exporter, strategy, check, rtol, atol, quiet, options)


def pieces(
    model: Any,
    calls: Any,
    *,
    methods: Mapping[Any, str] | None = None,
    functions: Sequence[Callable[..., Any]] | bool = (),
    dynamic_shapes: Any = None,
) -> Piece:
    """A model as a tree of the modules and functions that run when it is called, with arguments and results of each.

    Args:
        model: a module, function or method.
        calls: a list of calls, each `(args, kwargs)`, a tuple or a dict; one alone; or what `lowering.observe` gave.
            What differs between calls is what varies: two calls of different sizes tell what an export may leave open.
        methods: another method than `forward` to listen to, by the class or the name of a module; "" for none, which
            leaves the module and all in it out.
        functions: functions that are pieces as well, where modules of the model call them; True for all functions that
            stand in the files of its classes.
        dynamic_shapes: for one call, what varies, as `irkit.to_onnx` takes it: the model is run at two more sizes.

    The model runs in eager mode, without gradients, and keeps the attributes that it has. Returns the root of the tree,
    which is immutable: `print(tree)`, `tree["layers.0"].inputs`, `tree.export()`, `tree.page()`, `tree.asdict()`.
    Raises CaptureError for calls that are none, and what the model raises.
    """
    module = as_module(model)
    given = given_calls(model, calls, dynamic_shapes)
    places = dict(module.named_modules())
    spots = list(spots_of(places, methods or {}))
    found = functions_of(places.values(), functions)
    spots += [spot for function in found for spot in function_spots(function, places.values())]
    heard: dict[Any, list[Recorded]] = {}
    listener = Listener(lambda spot, call: None)

    def keep(spot: Spot, call: Recorded) -> None:
        caller = next((key for key in reversed(listener.stack) if isinstance(key, str)), "")
        heard.setdefault(spot.key if isinstance(spot.key, str) else (caller, spot.key), []).append(call)

    listener.heard = keep
    with torch.no_grad(), keep_unchanged(module), replace_calls(spots, listener.at):
        for args, kwargs in given:
            args, kwargs = Recorded(0, args, kwargs, None, (), ()).copied()
            module.forward(*args, **kwargs) if methods else module(*args, **kwargs)
    if "" not in heard:
        raise CaptureError(f"{name_of(model)} was not called", hint="leave it out of methods, or name what is called")
    names = observation_of(module, heard[""]).names if len(heard[""]) > 1 else {}
    return tree_of("", model, places, heard, complete(names, heard[""]), {s.key: s for s in spots}, found)


def given_calls(model: Any, calls: Any, dynamic_shapes: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The calls to make: those given, or those that were observed; of one with dimensions that vary, two more."""
    if isinstance(calls, Observation):
        return [(call.args, dict(call.kwargs)) for call in calls.calls]
    given = calls_of(model, calls)
    if dynamic_shapes is None:
        return given
    args, kwargs = given[0]
    request = request_of(as_module(model), name_of(model), args, kwargs, ExportOptions(dynamic_shapes=dynamic_shapes))
    for more in (1, 3):
        sizes = {
            name: min(size + more * (i + 1), request.ranges[name].hi or 1 << 30)
            for i, (name, size) in enumerate(request.hints.items())
        }
        given.append(pytree.tree_unflatten(request.examples(sizes), request.spec))
    return given


def complete(names: Mapping[str, Sizes], calls: Sequence[Recorded]) -> dict[str, Sizes]:
    """The names with a size for each of the model's calls; none where a call has another structure than the others."""
    return {name: tuple(s or 0 for s in sizes) for name, sizes in names.items() if len(sizes) == len(calls)}


def spots_of(places: Mapping[str, torch.nn.Module], methods: Mapping[Any, str]) -> Iterator[Spot]:
    """Where the methods of modules are looked up."""
    left_out = [path for path, module in places.items() if method_of(path, module, methods) == ""]
    for path, module in places.items():
        if not any(path == out or path.startswith(f"{out}.") for out in left_out):
            method = method_of(path, module, methods)
            yield Spot(module.__dict__, method, getattr(module, method), path)


def method_of(path: str, module: torch.nn.Module, methods: Mapping[Any, str]) -> str:
    """The method of a module that is listened to."""
    for key in (path, type(module), type(module).__name__):
        if key in methods:
            return methods[key]
    return "forward"


def functions_of(modules: Any, asked: Sequence[Callable[..., Any]] | bool) -> list[Callable[..., Any]]:
    """The functions that are pieces: those given, or all that stand in the files of the modules' classes."""
    if not isinstance(asked, bool):
        return list(asked)
    files = {type(module).__module__ for module in modules} if asked else set()
    files = {name for name in files if name.partition(".")[0] != "torch"}
    return [
        each
        for name in sorted(files)
        for each in vars(sys.modules[name]).values()
        if isinstance(each, types.FunctionType) and each.__module__ == name
    ]


def function_spots(function: Any, modules: Any) -> Iterator[Spot]:
    """Where the files of the modules' classes look a function up."""
    files = {type(module).__module__ for module in modules} | {function.__module__}
    for name in sorted(files):
        variables = vars(sys.modules[name]) if name in sys.modules else {}
        for each, value in list(variables.items()):
            if value is function:
                yield Spot(variables, each, function, function)


def tree_of(
    path: str,
    owner: Any,
    places: Mapping[str, torch.nn.Module],
    heard: Mapping[Any, Sequence[Recorded]],
    names: Mapping[str, Sizes],
    spots: Mapping[Any, Spot],
    functions: Sequence[Any],
) -> Piece:
    """The piece at a path, with those below it that were called. A module that was never called itself (a list of
    others) has its children in its parent's place."""
    below = [name for name in places if name and parent_of(name, heard) == path]
    children = [tree_of(name, places[name], places, heard, names, spots, functions) for name in below if name in heard]
    for function in functions:
        calls = heard.get((path, function), ())
        if calls:
            name = f"{path}.{function.__name__}()" if path else f"{function.__name__}()"
            children.append(Piece(name, FUNCTION, function, tuple(calls), (), names, own_spots(function, places)))
    spot = spots.get(path)
    method = spot is not None and spot.name != "forward"
    target = getattr(owner, spot.name) if method and spot is not None else owner
    kind = METHOD if method else MODULE if isinstance(owner, torch.nn.Module) else FUNCTION
    return Piece(path, kind, target, tuple(heard[path]), tuple(children), names, () if spot is None else (spot,))


def own_spots(function: Any, places: Mapping[str, torch.nn.Module]) -> tuple[Spot, ...]:
    """Where a function is looked up."""
    return tuple(function_spots(function, places.values()))


def parent_of(path: str, heard: Mapping[Any, Any]) -> str:
    """The path of the innermost module around another that was called itself."""
    while path:
        path = path.rpartition(".")[0]
        if path in heard:
            return path
    return ""
