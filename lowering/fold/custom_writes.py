"""Operators of the user's that write their arguments, as torch's functionalization leaves them: calls that return what
the arguments hold afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from irkit.core.ir import Value
from irkit.core.types import same_types
from lowering.errors import LoweringError
from lowering.fold.convert import convert
from lowering.fold.memory import storage
from lowering.fold.registry import writing_operator
from lowering.fold.scope import Scope, read_arguments, settle_result
from lowering.records.types import type_of
from lowering.tensors.complex_pairs import as_type, expand_pair

OF_A_VIEW = ("slice_dim", "slice_start", "slice_end", "size", "stride", "storage_offset", "alias")


def auto_functionalized(scope: Scope, node: Node) -> tuple[Any, ...]:
    """(results or None, new contents) of an operator that writes arguments, without the writing.

    In the second version of the call an argument is a view of one of several bases, and the bases' contents are
    returned. Raises LoweringError for a list of written tensors.
    """
    target: Any = node.args[0]
    given = dict(read_arguments(scope, node)[1])
    bases = list(given.pop("_all_bases", ()))
    places = {name: place_of(scope, name, given, node) for _, name in storage.written_arguments(target) if bases}
    for name, (index, lens) in places.items():
        given[name] = None if index is None else lens.get(bases[index])
    made = convert(scope, node, writing_operator(scope.options.registry, target), (), given, None)
    several = tuple(made) if isinstance(made, tuple | list) else (made,)
    count = sum(r.alias_info is None for r in target._schema.returns)
    results, contents = several[:count] or (None,), several[count:]
    if bases:
        for (index, lens), content in zip(places.values(), contents, strict=True):
            if index is not None:
                old = lens.get(bases[index])
                bases[index] = lens.put(bases[index], fitted(content, old))
        contents = tuple(bases)
    return settle_result(scope, node, (*results, *contents), type_of(node.meta.get("val"), scope.sizes))


def with_effects(scope: Scope, node: Node) -> tuple[Any, ...]:
    """(token, *results) of an operator of the user's that torch holds in order by a token.

    Values are in no order but that of what they read, so that the token is handed on as it is.
    """
    positional, given = read_arguments(scope, node)
    target: Any = node.args[1]
    made = convert(scope, node, target, tuple(positional[2:]), dict(given), None)
    results = tuple(made) if isinstance(made, tuple | list) else (made,)
    results = results or (None,)  # torch records None for an operator that gives nothing, such as a check
    return settle_result(scope, node, (positional[0], *results), type_of(node.meta.get("val"), scope.sizes))


def fitted(content: Value, old: Value) -> Value:
    """New content of the element type and shape of what it replaces"""
    content = as_type(content, old.dtype)
    return content if same_types(content.type, old.type) is True else expand_pair(content, old.shape)


def place_of(scope: Scope, name: str, given: dict[str, Any], node: Node) -> tuple[int | None, storage.Lens]:
    """(number of the base, lens) of a written argument; what says so is taken out of the arguments"""
    if f"_{name}_length" in given:
        raise LoweringError(
            f"the operator writes the list of tensors {name}, which cannot be lowered",
            hint="hand in a converter for it: converters={operator: function}",
        )
    index = given.pop(f"_{name}_base_index")
    view = {key: given.pop(f"_{name}_{key}") for key in OF_A_VIEW if f"_{name}_{key}" in given}
    return index, lens_of_view(scope, view, node)


def lens_of_view(scope: Scope, view: Mapping[str, Any], node: Node) -> storage.Lens:
    """The lens of a slice, of an address in the base's memory, or of the whole base"""
    if "slice_dim" in view:
        target, args = torch.ops.aten.slice.Tensor, (view["slice_dim"], view["slice_start"], view["slice_end"], 1)
    elif "size" in view:
        target, args = torch.ops.aten.as_strided.default, (view["size"], view["stride"], view["storage_offset"])
        if not all(is_contiguous(base) for base in node.kwargs["_all_bases"]):  # type: ignore[union-attr]
            raise LoweringError(
                "the operator writes a view of memory that is not laid out as its elements are",
                hint="call .contiguous() on what it writes",
            )
    else:
        return storage.Lens(lambda base: base, lambda base, new: new)
    found = scope.options.registry.find(target)
    if found is None:
        raise LoweringError(f"{target} has no converter", hint="hand one in: converters={operator: function}")
    function = found.function

    def get(base: Value) -> Value:
        return function(base, *args)

    return storage.lens_of(target, get, args)


def is_contiguous(base: Any) -> bool:
    """True for a tensor that torch recorded with its elements in order"""
    recorded = base.meta.get("val")
    return isinstance(recorded, torch.Tensor) and recorded.is_contiguous() and recorded.storage_offset() == 0
