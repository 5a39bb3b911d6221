"""One operator of a traced model: torch itself runs it on the twins, a converter makes the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor
from lowering.direct.converting import (
    META,
    Decomposed,
    Info,
    converted,
    flattened,
    info_of,
    listed,
    on_twins_if_possible,
    operand,
    settled,
    tensors_in,
)
from lowering.direct.data import DATA, nothing
from lowering.direct.layouts import QUESTIONS, is_part
from lowering.direct.requirements import require, require_broadcast, require_masks
from lowering.direct.tensors import Handle, Traced
from lowering.direct.tracer import Tracer
from lowering.direct.writes import as_shown, batch_norm, written
from lowering.errors import LoweringError
from lowering.fold import storage
from lowering.fold.arguments import call_arguments
from lowering.fold.complex_registry import complex_entry
from lowering.fold.mutation import positional as positional_arguments
from lowering.fold.mutation import with_shape
from lowering.fold.nodes import EFFECTS
from lowering.fold.registry import Registry, operator_of
from lowering.records.types import TORCH, tensor_of
from lowering.tensors.complex_pairs import is_complex


def call(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator: traced tensors over new values, or the very argument where torch gives it back."""
    if type(func) is not torch._ops.OpOverload:
        raise LoweringError(f"{func} is not met by direct capture", hint="use capture='torch.export'")
    special = SPECIAL.get(func._schema.name)
    if special is not None:
        found = special(tracer, func, args, kwargs)
        if found is not NotImplemented:
            return found
    return computed(tracer, func, info_of(func), args, kwargs)


def computed(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator that asks nothing of data or layouts."""
    if info.writes:
        return written(tracer, func, info, args, kwargs)
    if info.reshapes:
        return reshaped(tracer, func, info, args, kwargs)
    if info.quick and all_in_order(tracer, (args, tuple(kwargs.values()))):
        found = computed_quickly(tracer, func, args, kwargs)
        if found is not None:
            return found
    twins = None if info.sized_by_data else on_twins_if_possible(tracer, func, info, args, kwargs)
    if twins is None:
        return sized_by_data(tracer, func, info, args, kwargs)
    several = isinstance(twins, tuple | list)
    flat = list(twins) if several else [twins]
    given = tensors_in((args, tuple(kwargs.values())))
    if info.aliases and not several:
        same = next((t for t in given if tracer.handle(t).twin is twins), None)
        if same is not None:
            return same
    value_args = [operand(tracer, a) for a in args]
    value_kwargs = {k: operand(tracer, v) for k, v in kwargs.items()}
    name = tracer.name(func)
    made = converted(tracer, func, value_args, value_kwargs, flat if several else twins, args, kwargs)
    if isinstance(made, Decomposed):
        return made.result
    results = list(made) if isinstance(made, tuple | list) else [made]
    if len(results) != len(flat) and not several:
        raise LoweringError(f"the converter of {func} gave {len(results)} results, where torch gives one")
    results = settled(tracer, func, results, flat, name, value_args)
    require(tracer, func, args, kwargs, results, info.device)
    found = [
        wrapped(tracer, func, info, given, twin, results, name, index if several else None, value_args, value_kwargs)
        for index, twin in enumerate(flat[: len(results)])
    ]
    return type(twins)(found) if several and type(twins) in (tuple, list) else tuple(found) if several else found[0]


def reshaped(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`t_`, `squeeze_` and their like: the tensor itself becomes a view of what it was."""
    target: Any = args[0]
    if func._schema.name == "aten::detach_":
        return target
    plain = operator_of(func)
    if type(target) is not Traced:
        raise LoweringError(f"{func} gives a tensor of the model other dimensions", hint="use capture='torch.export'")
    shown = call(tracer, plain, args, kwargs)
    target.handle = shown.handle
    as_shown(target, shown)
    return target


def all_in_order(tracer: Tracer, given: Any) -> bool:
    """Whether the elements of all tensors lie in order."""
    return all(tracer.handle(t).twin.is_contiguous() for t in tensors_in(given))


def computed_quickly(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator whose layout is known beforehand; None where its type does not tell all."""
    value_args = [operand(tracer, a) for a in args]
    value_kwargs = {k: operand(tracer, v) for k, v in kwargs.items()}
    made = converted(tracer, func, value_args, value_kwargs, None, args, kwargs)
    if isinstance(made, Decomposed):
        return made.result
    if not isinstance(made, Value) or made.dtype not in TORCH or any(map(has_fresh, made.shape)):
        return None
    sizes = [d if type(d) is int else tracer.asked.hint(d) for d in made.shape]
    twin = torch.empty(sizes, dtype=TORCH[made.dtype], device=META)
    name = tracer.name(func)
    (value,) = settled(tracer, func, [made], [twin], name, value_args)
    if info_of(func).pointwise:
        require_broadcast(tracer, flattened((*value_args, *value_kwargs.values())))
    else:
        require(tracer, func, args, kwargs, [value], False)
    return tracer.tensor(twin, value, name)


def has_fresh(dim: Any) -> bool:
    """Whether a dimension hangs on one that no type rule could tell."""
    return type(dim) is not int and (dims.is_fresh(dim) or any(map(dims.is_fresh, dims.symbols_of(dim))))


def sized_by_data(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator whose result's sizes hang on data: torch runs it on the example's own numbers."""
    tracer.unproven = True
    require_masks(tracer, func, args)
    real_args = [real(tracer, a) for a in args]
    found = func(*real_args, **{k: real(tracer, v) for k, v in kwargs.items()})
    several = isinstance(found, tuple | list)
    twins = [t.to(META) if isinstance(t, torch.Tensor) else t for t in (found if several else [found])]
    value_args = [operand(tracer, a) for a in args]
    value_kwargs = {k: operand(tracer, v) for k, v in kwargs.items()}
    made = converted(tracer, func, value_args, value_kwargs, twins if several else twins[0], args, kwargs)
    if isinstance(made, Decomposed):
        return made.result
    name = tracer.name(func)
    results = settled(tracer, func, listed(made), twins, name, value_args)
    shown = [
        tracer.tensor(twin, value, name) if isinstance(twin, torch.Tensor) else twin
        for twin, value in zip(twins, results, strict=False)
    ]
    return tuple(shown) if several else shown[0] if shown else None


def real(tracer: Tracer, given: Any) -> Any:
    """An argument with the example's own numbers."""
    if isinstance(given, torch.Tensor):
        return tensor_of(tracer.example(tracer.read(tracer.handle(given))))
    if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
        return given.node.hint
    if isinstance(given, list | tuple):
        return type(given)(real(tracer, each) for each in given)
    return given


def wrapped(
    tracer: Tracer, func: Any, info: Info, given: list[torch.Tensor], twin: Any, results: list[Any], name: str,
    index: int | None, args: list[Any], kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """One result as the model gets it: the only one, or that at `index`."""
    value = results[index or 0]
    if not isinstance(twin, torch.Tensor):
        return value if not hasattr(value, "free_symbols") else twin
    if not isinstance(value, Value):
        raise LoweringError(f"the converter of {func} gave {value!r}, where torch gives a tensor")
    name = name if index is None else f"getitem_{index}"
    if info.aliases:
        doubtful = func._schema.name in MAYBE_COPIES and is_part(tracer.handle(given[0]))
        key = twin.untyped_storage()._cdata
        of = next((h for h in map(tracer.handle, given) if h.key == key), None)
        if of is not None:
            lens = lens_of(tracer, func, args, kwargs, of, results, index)
            of.memory.doubtful = of.memory.doubtful or doubtful
            return tracer.view(twin, of, lens, value, name)
        if doubtful:
            tracer.handle(given[0]).memory.doubtful = True
    return tracer.tensor(twin, value, name)


MAYBE_COPIES = frozenset(f"aten::{name}" for name in "reshape reshape_as flatten ravel contiguous".split())
"""Operators that give a view or a copy, as the layout of the elements has it."""


def lens_of(
    tracer: Tracer, func: Any, args: list[Any], kwargs: dict[str, Any], of: Handle, results: list[Any],
    index: int | None,
) -> storage.Lens | None:  # fmt: skip
    """How the view that an operator gives of its first argument is read out of it, and written back."""
    value = results[index or 0]
    target, rest, shape = operator_of(func), tuple(args[1:]), value.shape

    def get(content: Value) -> Value:
        found = Registry.find(tracer.options.registry, target)
        mixed = is_complex(content)
        found = complex_entry(tracer.options.registry, target) if mixed else found
        if found is None:
            raise LoweringError(f"{func} is a view that has no converter, and what it shows is written")
        expected = Tensor(content.dtype, shape)
        if index is not None:
            expected = tuple(Tensor(content.dtype, part.shape) for part in results)
        positional, keyword = call_arguments(target, found, (content, *rest), kwargs, expected)
        made = found.function(*positional, **keyword)
        return with_shape(made[index] if index is not None else made, shape)

    before = of.value.shape
    same = len(before) == len(shape) and all(dims.same(a, b) is True for a, b in zip(before, shape, strict=True))
    if same and target._schema.name in storage.SAME:
        return None
    if index is not None:
        return storage.by_position(get)
    grows = target._schema.name in storage.EXPANSIONS and not same
    return storage.lens_of(target, get, positional_arguments(target, rest, kwargs), grows)


NOTHING = dict.fromkeys((*EFFECTS, "aten::_linalg_check_errors"), nothing)
SPECIAL: Mapping[str, Callable[..., Any]] = {
    **NOTHING, **QUESTIONS, **DATA, "aten::batch_norm": batch_norm, "aten::instance_norm": batch_norm,
}  # fmt: skip
