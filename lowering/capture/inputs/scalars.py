"""Python numbers among the arguments as inputs of the model: ints as symbols of torch, floats as tensors of rank 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lowering.capture.inputs.calls import Call, bind, named_leaves
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import Leaf, LeafStatement, Place
from lowering.records.pytrees import is_names
from lowering.records.torch_internals import pytree


def with_numbers(module: torch.nn.Module, call: Call, asked: Sequence[str]) -> tuple[Call, dict[int, type]]:
    """(call, numbers): the call with tensors in place of the floats that were asked for, and for each one asked for, by
    its number, what it is to its caller: int or float.

    A float becomes a float64 where the model or its inputs hold one, and else torch's default. Raises CaptureError for
    a name that no number has.
    """
    if not is_names(asked):
        text = isinstance(asked, str)
        raise CaptureError(
            f"scalar_inputs is {'the string ' if text else ''}{asked!r}",
            hint=f"give a list of names: [{asked!r}]" if text and asked else "give a list of names",
        )
    if not asked:
        return call, {}
    leaves = named_leaves(call)
    numbers: dict[int, type] = {}
    for name in asked:
        found = [i for i, leaf in enumerate(leaves) if name in (leaf.name, ".".join(leaf.path))]
        value = leaves[found[0]].value if found else None
        if type(value) not in (int, float):
            able = ", ".join(leaf.name for leaf in leaves if type(leaf.value) in (int, float)) or "there are none"
            kind = "a tensor" if found and leaves[found[0]].is_tensor else repr(value)
            what = f"which is {kind}" if found else "and no input is called so"
            raise CaptureError(f"scalar_inputs speaks of {name!r}, {what}", hint=f"name ints and floats: {able}")
        numbers[found[0]] = type(value)
    if not any(kind is float for kind in numbers.values()):
        return call, numbers
    dtype = float_of(module, leaves)
    flat, spec = pytree.tree_flatten((call.args, call.kwargs))
    for i, kind in numbers.items():
        flat[i] = torch.tensor(flat[i], dtype=dtype) if kind is float else flat[i]
    args, kwargs = pytree.tree_unflatten(flat, spec)
    return bind(module, args, kwargs), numbers


def float_of(module: torch.nn.Module, leaves: Sequence[Leaf]) -> torch.dtype:
    """The element type that stands for Python's floats in a model."""
    tensors = [*module.parameters(), *module.buffers(), *(leaf.value for leaf in leaves if leaf.is_tensor)]
    double = any(tensor.dtype is torch.float64 for tensor in tensors)
    return torch.float64 if double else torch.get_default_dtype()


def said_of_numbers(
    said: Sequence[LeafStatement], leaves: Sequence[Leaf], numbers: Mapping[int, type], places: Sequence[Place]
) -> list[LeafStatement]:
    """The statements, with a name of its own for each int that was asked for and has none."""
    taken = {symbol.name for place in places for symbol in getattr(place.expr, "free_symbols", ())}
    found = list(said)
    for i, kind in numbers.items():
        if kind is int and found[i] is None:
            name = "".join(c if c.isalnum() else "_" for c in leaves[i].name)
            while name in taken or not name.isidentifier():
                name = f"{name}_" if name.isidentifier() else f"n_{name}"
            taken.add(name)
            found[i] = name
    return found


def as_numbers(leaves: Sequence[Any], names: Sequence[str], numbers: Mapping[str, type]) -> tuple[Any, ...]:
    """Leaves as the caller has them: a Python float for a tensor that stands for one."""
    return tuple(
        leaf.item() if numbers.get(name) is float and isinstance(leaf, torch.Tensor) else leaf
        for name, leaf in zip(names, leaves, strict=True)
    )
