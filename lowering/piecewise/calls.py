"""Calls of a module or function as they were made: arguments before, what came of them, and arguments that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import attrs
import torch

from irkit.support.arguments import type_text
from lowering.capture.inputs.calls import as_module, bind, named_leaves
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import Leaf
from lowering.records.pytrees import leaf_paths, register_classes, unique_names
from lowering.records.torch_internals import pytree


@attrs.frozen(eq=False, repr=False)
class Recorded:
    """One call: the arguments as they were when it was made, the result, and the number of the model's own call that it
    is part of. `inputs` and `outputs` are the leaves of both, with names.

    `after` is what the arguments were afterwards where the call changed them (a cache that it went on), else None.
    """

    row: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    after: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    @property
    def shape(self) -> Any:
        """Equal for calls of the same structure, element types and constants."""
        return kinds_of(self.inputs), kinds_of(self.outputs)

    def copied(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, in tensors and containers of their own, for a call that may write to them."""
        return copy_tree((self.args, dict(self.kwargs)))


def kinds_of(leaves: Sequence[Leaf]) -> tuple[Any, ...]:
    """What leaves are but for sizes and numbers: names, element types, ranks; and constants."""
    return tuple((leaf.name, kind_of(leaf.value)) for leaf in leaves)


def kind_of(value: Any) -> Any:
    """The element type and rank of a tensor, the type of a number that may vary, a constant itself."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.dim()
    if type(value) in (int, float):
        return type(value)
    return value if value is None or type(value) in (bool, str) else repr(value)[:200]


def copy_tree(tree: Any, clones: Mapping[int, torch.Tensor] | None = None) -> Any:
    """A structure with tensors and containers of its own; all else in it is shared."""
    with register_classes(tree):
        leaves, spec = pytree.tree_flatten(tree)
        known = clones or {}
        made = [known[id(x)] if id(x) in known else x.detach().clone() if is_tensor(x) else x for x in leaves]
        return pytree.tree_unflatten(made, spec)


def is_tensor(value: Any) -> bool:
    """Whether a leaf is a tensor."""
    return isinstance(value, torch.Tensor)


def leaves_of(tree: Any, name: str = "output") -> tuple[Leaf, ...]:
    """The leaves of a result, with names: `output` alone, else by path."""
    with register_classes(tree):
        flat, spec = pytree.tree_flatten(tree)
        paths = leaf_paths(spec)
    names = unique_names(".".join(path) or name for path in paths)
    return tuple(Leaf(*each) for each in zip(names, paths, flat, strict=True))


def inputs_of(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Leaf, ...]:
    """The leaves of the arguments of a call, under the names that an export gives them."""
    with register_classes(args, kwargs):
        return named_leaves(bind(as_module(model), args, kwargs))


# ---------------------------------------------------------------------------------------------- listening


@attrs.frozen(eq=False)
class Spot:
    """A place where something that can be called is looked up: the attribute of a module, or a function's name in the
    variables of a Python module. `key` tells what is called there."""

    holder: dict[str, Any]
    name: str
    called: Callable[..., Any]
    key: Any


@contextmanager
def replace_calls(spots: Sequence[Spot], made: Callable[[Spot], Callable[..., Any]]) -> Iterator[None]:
    """A block in which something else is called at each spot."""
    missing = object()
    with ExitStack() as undo:
        for spot in spots:
            undo.callback(put_back, spot, spot.holder.get(spot.name, missing), missing)
            spot.holder[spot.name] = made(spot)
        yield


def put_back(spot: Spot, before: Any, missing: Any) -> None:
    """Lets a spot hold what it held."""
    if before is missing:
        spot.holder.pop(spot.name, None)
    else:
        spot.holder[spot.name] = before


Heard = Callable[[Spot, Recorded], None]


@attrs.define(eq=False)
class Listener:
    """What records each call at some spots. `row` is the number of the model's own call that is being made, `stack` has
    the keys of what is running, `clones` those tensors that were copied already and have not changed since."""

    heard: Heard
    row: int = -1
    stack: list[Any] = attrs.field(factory=list)
    clones: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = attrs.field(factory=dict)

    def at(self, spot: Spot) -> Callable[..., Any]:
        """What is called at a spot in place of what stands there: the same, and it is heard."""

        @wraps(spot.called)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return spot.called(*args, **kwargs)
            if not self.stack:
                self.row += 1
                self.clones.clear()
            before, state = self.copy((args, kwargs)), state_of((args, kwargs))
            self.stack.append(spot.key)
            try:
                result = spot.called(*args, **kwargs)
            finally:
                self.stack.pop()
            after = self.copy((args, kwargs)) if state_of((args, kwargs)) != state else None
            self.heard(spot, self.recorded(spot, before, self.copy(result), after))
            return result

        return call

    def recorded(self, spot: Spot, before: Any, result: Any, after: Any) -> Recorded:
        """The record of a call."""
        args, kwargs = before
        return Recorded(
            self.row, tuple(args), kwargs, result, inputs_of(spot.called, args, kwargs), leaves_of(result), after
        )

    def copy(self, tree: Any) -> Any:
        """A structure with copies of its tensors; one that has not changed since it was copied is not copied again."""
        known: dict[int, torch.Tensor] = {}
        with register_classes(tree):
            tensors = [leaf for leaf in pytree.tree_leaves(tree) if is_tensor(leaf)]
        for tensor in tensors:
            found = self.clones.get(id(tensor))
            if found is None or found[0] is not tensor or found[1] != tensor._version:
                found = self.clones[id(tensor)] = (tensor, tensor._version, tensor.detach().clone())
            known[id(tensor)] = found[2]
        return copy_tree(tree, known)


def state_of(tree: Any) -> Any:
    """Equal as long as nobody writes to the tensors in a structure or puts others in."""
    with register_classes(tree):
        leaves, spec = pytree.tree_flatten(tree)
    return spec, tuple((id(x), x._version) if is_tensor(x) else kind_of(x) for x in leaves)


def calls_of(model: Any, calls: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The calls that a user lists: (args, kwargs) each, a tuple of arguments, a dict of named ones, or a tensor; one
    alone stands for a list of one. Raises CaptureError for anything else."""
    if is_call(calls) and not is_list_of_calls(calls):
        calls = [calls]
    if not isinstance(calls, Sequence) or not calls or not all(map(is_call, calls)):
        raise CaptureError(
            f"the calls of {type(model).__name__} are {type_text(calls)}",
            hint="give a list of calls, each (args, kwargs), a tuple of arguments or a dict of named ones",
        )
    return [call_of(each) for each in calls]


def is_call(given: Any) -> bool:
    """Whether something tells the arguments of a call."""
    return isinstance(given, tuple | dict | torch.Tensor)


def is_list_of_calls(given: Any) -> bool:
    """Whether a tuple holds calls, each (args, kwargs), rather than arguments."""
    return isinstance(given, tuple) and len(given) > 0 and all(is_pair(each) for each in given)


def is_pair(given: Any) -> bool:
    """Whether something is (args, kwargs)."""
    return (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], tuple | list)
        and isinstance(given[1], dict)
        and all(isinstance(key, str) for key in given[1])
    )


def call_of(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) of what a user gives for a call."""
    if isinstance(given, torch.Tensor):
        return (given,), {}
    if isinstance(given, dict):
        return (), dict(given)
    if is_pair(given):
        return tuple(given[0]), dict(given[1])
    return tuple(given), {}
