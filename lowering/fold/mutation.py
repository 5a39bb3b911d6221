"""Views and writes: where a node's tensor lives, and what an in-place operator leaves there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor, dims_of, same_types
from irkit.dims import Dim
from irkit.dims.algebra import any_fresh
from lowering.aten.normalization.norm import instance_norm_with_update
from lowering.errors import LoweringError
from lowering.fold.arguments import summed_as
from lowering.fold.asserted_operands import asserted_in_place
from lowering.fold.convert import convert
from lowering.fold.memory import storage
from lowering.fold.memory.overlap import refuse_shared_elements
from lowering.fold.memory.own_operands import reads_apart, refuse_other_types, refuse_own_operands
from lowering.fold.memory.storage import Location
from lowering.fold.refused_arguments import require_fits
from lowering.fold.registry import operator_of, writing_operator
from lowering.fold.scope import Scope, hold, read_arguments, settle_result
from lowering.records.source_lines import source_of
from lowering.records.types import type_of
from lowering.tensors.complex_pairs import as_type, expand_pair, pair, parts


def view(scope: Scope, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Places a node that is a view of a written storage."""
    base = scope.bases.get(storage.storage_of(node))
    source = node.args[0] if node.args else None
    if base is None or base is node or not isinstance(source, Node) or source not in scope.places:
        return
    target, rest = operator_of(node.target), args[1:]
    place = scope.places[source]
    held, recorded = scope.read(source), type_of(node.meta["val"], scope.sizes)
    before, after = held.shape, dims_of(recorded)

    def get(value: Value) -> Value:
        expected = recorded if value.dtype is held.dtype else Tensor(value.dtype, after)
        return with_shape(convert(scope, node, target, (value, *rest), kwargs, expected), after)

    same = all(dims.same(a, b) is True for a, b in zip(before, after, strict=False))
    if same and target._schema.name in storage.SAME:
        scope.places[node] = place
        return
    grows = target._schema.name in storage.EXPANSIONS and dims.same(*map(dims.product, (before, after))) is not True
    lens = storage.lens_of(target, get, positional(target, rest, kwargs), grows)
    scope.places[node] = Location(place.base, (*place.lenses, lens))


def with_shape(value: Value, shape: tuple[Dim, ...]) -> Value:
    """The value with the dimensions that torch recorded, where one of its own is not known."""
    if not any_fresh(value.shape) or len(shape) != value.rank:
        return value
    if value.dtype.is_complex:
        return pair(*(with_shape(part, shape) for part in parts(value)))
    return value.with_type(Tensor(value.dtype, shape))


def positional(target: Any, rest: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments after the first in the order of the schema, defaults filled in up to the last one given."""
    names = target._schema.arguments[1:]
    values = list(rest)
    for argument in names[len(rest) :]:
        if argument.name not in kwargs and not argument.has_default_value():
            break
        values.append(kwargs.get(argument.name, argument.default_value if argument.has_default_value() else None))
    return tuple(values)


def view_of_several(scope: Scope, node: Node, source: Node, index: int) -> None:
    """Places one of the views that split, chunk or unbind return."""
    base = source.args[0]
    if not isinstance(base, Node) or base not in scope.places or source.op != "call_function":
        return
    args, kwargs = read_arguments(scope, source)
    place, types = scope.places[base], type_of(source.meta["val"], scope.sizes)

    def get(value: Value) -> Value:
        every = tuple(Tensor(value.dtype, each.shape) for each in types)
        return with_shape(
            convert(scope, source, source.target, (value, *args[1:]), kwargs, every)[index], every[index].shape
        )

    lens = storage.by_position(get)
    scope.places[node] = Location(place.base, (*place.lenses, lens))


def call_inplace(scope: Scope, node: Node) -> None:
    """Lowers a call that writes its arguments: the functional operator's result is put where they live."""
    target: Any = node.target
    functional = writing_operator(scope.options.registry, target)
    args, kwargs = read_arguments(scope, node)
    written = storage.written_nodes(node)
    if functional is None or not written:
        raise LoweringError(
            f"{target} writes in place, and torch has no functional form of it",
            hint="write it out of place in the model, or hand in a converter for it: converters={operator: function}",
        )
    for each in written:
        if storage.storage_of(each) is not None:
            refuse_shared_elements(node, each)
            refuse_own_operands(node, each)
            scope.guards.extend((condition, source_of(node)) for condition in reads_apart(node, each))
    if target is torch.ops.aten.copy_.default:
        require_same_buffer(scope, node, written[0])
    names = {name for _, name in storage.written_arguments(target)}
    alone = any(n.startswith("out") or n not in {a.name for a in functional._schema.arguments} for n in names)
    if alone:
        kwargs = {k: v for k, v in kwargs.items() if k not in names}
        kwargs = {**kwargs, **summed_as(functional, kwargs, written[0].meta["val"].dtype)}
    results = convert(scope, node, functional, args, kwargs, None)
    scope.checks.extend(asserted_in_place(functional._schema.name, args, kwargs, results, source_of(node)))
    several = results if isinstance(results, tuple | list) else (results,)
    if any(name.startswith("out") for name in names):
        for place, result in zip(written, several, strict=False):
            require_sizes_of_out(scope, node, place, result)
    own = [r.alias_info is None for r in target._schema.returns]
    if own and all(own):
        # What the operator returns is new; the content of what it writes follows in the functional form's results.
        types = type_of(node.meta.get("val"), scope.sizes)
        new = settle_result(scope, node, tuple(several[: len(own)]), types if isinstance(types, tuple) else (types,))
        scope.env[node] = new if len(own) > 1 else new[0]
        several = several[len(own) :]
        for place, result in zip(written, several, strict=True):
            write(scope, node, place, result)
        return
    for place, result in zip(written, several, strict=False):
        if not alone and target not in RESIZES:
            require_fits(target, result, scope.read(place))
        elif result.dtype is not scope.read(place).dtype:
            refuse_other_types(node)
        write(scope, node, place, result)
    scope.places[node] = scope.places[written[0]] if written[0] in scope.places else Location(node)
    recorded = node.meta.get("val")
    if isinstance(recorded, tuple | list) or written[0] not in scope.places:
        scope.places.pop(node, None)
        scope.env[node] = tuple(scope.read(n) for n in written)


def renews_buffer(node: Node) -> bool:
    """True for the copy by which torch.export records, behind all else, that a buffer became another tensor. It bears
    the marks of what made that tensor, and no `copy_` of the model's own."""
    if node.op != "call_function" or node.target is not torch.ops.aten.copy_.default or len(node.args) != 2:
        return False
    buffer, new, mark = *node.args, node.meta.get("torch_fn")
    if not isinstance(new, Node) or not isinstance(buffer, Node) or not is_last(node):
        return False
    if buffer.op not in ("placeholder", "get_attr"):  # a part of one is written: y[0] = 7 bears one mark throughout
        return False
    if new.op == "placeholder":
        return node.name.startswith("copy__default") and mark is None
    own = mark is None or any(name in str(mark[1]) for name in ("copy_", "__setitem__"))
    return not own and new.meta.get("torch_fn") == mark


def is_last(node: Node) -> bool:
    """Whether nothing but copies stands behind a node."""
    later = node.next
    while later.target is torch.ops.aten.copy_.default:
        later = later.next
    return later.op in ("output", "root")


def renew_buffers(scope: Scope, copies: Sequence[Node]) -> None:
    """Gives buffers the content of the tensors that they became, all at once: one may have become another's."""
    contents = [scope.read(node.args[1]) for node in copies if isinstance(node.args[1], Node)]
    for node, content in zip(copies, contents, strict=True):
        buffer = node.args[0]
        if isinstance(buffer, Node):
            require_same_buffer(scope, node, buffer)
            write(scope, node, buffer, content)


def require_same_buffer(scope: Scope, node: Node, buffer: Node) -> None:
    """Raises LoweringError for a buffer that becomes a tensor of other sizes: torch.export records that as a copy whose
    sizes are not those of what it is copied into."""
    after, before = (each.meta.get("val") for each in (node, buffer))
    if isinstance(after, torch.Tensor) and isinstance(before, torch.Tensor):
        new, old = (type_of(each, scope.sizes) for each in (after, before))
        if same_types(new, old) is not True:
            raise LoweringError(
                f"{buffer.name}, of {old!r}, becomes another tensor, of {new!r}",
                hint="write it in place: self.buffer.copy_(...)",
            )


def require_sizes_of_out(scope: Scope, node: Node, target: Node, result: Any) -> None:
    """Raises LoweringError for a tensor of other sizes that an operator writes its result into: torch resizes it."""
    old = scope.read(target)
    if not isinstance(result, Value) or not isinstance(old, Value) or node.target in RESIZES:
        return
    alike = result.rank == old.rank and all(
        dims.same(a, b) is True for a, b in zip(result.shape, old.shape, strict=True)
    )
    if not alike:
        raise LoweringError(
            f"{node.target} gives the tensor that it writes to other sizes",
            source=source_of(node),
            hint="give out= a tensor of the result's sizes, or use capture='direct'",
        )


RESIZES = frozenset((torch.ops.aten.resize_.default, torch.ops.aten.resize_as_.default))
"""Operators that give a whole storage other dimensions."""


def call_norm(scope: Scope, node: Node) -> None:
    """Lowers a norm in training mode: normalized by the batch's own statistics, running ones written."""
    args, _ = read_arguments(scope, node)
    x, weight, bias, mean, variance, training, momentum, epsilon, *_ = args
    if node.target is torch.ops.aten.instance_norm.default:
        result, *new = instance_norm_with_update(x, weight, bias, mean, variance, momentum, epsilon)
    else:
        functional = torch.ops.aten._native_batch_norm_legit_functional.default
        given = (x, weight, bias, mean, variance, training, momentum, epsilon)
        result, _, _, *new = convert(scope, node, functional, given, {}, None)
    if x.rank > 1:  # of a vector, which is empty, nothing is learnt
        for target, content in zip(storage.silent_writes(node), new, strict=True):
            write(scope, node, target, content)
    hold(scope, node, settle_result(scope, node, result, type_of(node.meta.get("val"), scope.sizes)))


def write(scope: Scope, node: Node, target: Node, result: Value) -> None:
    """Puts `result`, cast and broadcast to what `target` is, where `target` lives."""
    old = scope.read(target)
    if node.target in RESIZES and target in scope.places and not scope.places[target].lenses:
        scope.store[scope.places[target].base] = settle_result(scope, node, result, None)
        return
    result = as_type(result, old.dtype)
    if same_types(result.type, old.type) is not True:
        result = expand_pair(result, old.shape)
    result = settle_result(scope, node, result, old.type)
    place = scope.places.get(target)
    if place is None:
        raise LoweringError(
            f"{node.target} writes to {target.name}, whose memory torch did not record",
            hint="copy the tensor before it is written: x = x.clone()",
        )
    content = scope.store[place.base]
    scope.store[place.base] = settle_result(scope, node, place.write(content, result), content.type)
