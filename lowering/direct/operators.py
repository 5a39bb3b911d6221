"""One operator of a traced model: torch itself runs it on the twins, a converter makes the value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.errors import IrkitError
from lowering.capture.guards.assumed import asks_in_its_kernel, compares_in_its_kernel, replaces_part
from lowering.direct.converting import (
    Decomposed,
    Info,
    apply_converter,
    as_list,
    contradiction,
    converted_again,
    form_of,
    has_fresh,
    info_of,
    leaves_of,
    on_twins_if_possible,
    operand,
    operands,
    refuse_other_count,
    settle_results,
    tensors_in,
)
from lowering.direct.data import DATA, compute_nothing, counted_mask, seeded_draw
from lowering.direct.examples import is_quickly_told
from lowering.direct.expected import require_broadcast, require_counts, require_masks, require_shared_sizes
from lowering.direct.functions.lists import LISTS, each_call, scaled_calls
from lowering.direct.kernel_sizes.asserted import TELLING, keep_asserted
from lowering.direct.kernel_sizes.by_data import require_beside
from lowering.direct.kernel_sizes.given_back import gives_back
from lowering.direct.layouts import QUESTIONS, elsewhere, settle_sharing, settle_view
from lowering.direct.meta_device.arguments import lying_as, of_elements
from lowering.direct.meta_device.by_chance import lie_by_chance, may_lie_apart, note_elsewhere
from lowering.direct.points import FREE
from lowering.direct.repeats import Entry, Met, Outcome, as_met, entry_of, symbols_of_data
from lowering.direct.requirements import (
    Elsewhere,
    refuse_untaken,
    require,
    require_again,
)
from lowering.direct.tensors import META, Handle, Traced, weakly
from lowering.direct.tracer import Tracer
from lowering.direct.writes import MAYBE_COPIES, MAYBE_SUMS, as_shown, batch_norm, lens_of, write_arguments
from lowering.errors import LoweringError
from lowering.fold.asserted_operands import STEPS
from lowering.fold.nodes import EFFECTS
from lowering.fold.registry import operator_of
from lowering.fold.scope import bind_symbols
from lowering.records.types import TORCH, tensor_of


def call(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator: traced tensors over new values, or the very argument where torch gives it back."""
    if tracer.codes is not None:
        tracer.note_codes(sys._getframe(1))
    if isinstance(func, torch._ops.TorchBindOpOverload) and func._schema.name in DATA:
        return func(*args, **kwargs)
    if type(func) is not torch._ops.OpOverload:
        raise LoweringError(f"{func} is not met by direct capture", hint="use capture='torch.export'")
    special = SPECIAL.get(func._schema.name)
    if special is not None:
        found = special(tracer, func, args, kwargs)
        if found is not NotImplemented:
            return found
    info = info_of(func)
    if info.draws:
        found = seeded_draw(tracer, func, args, kwargs)
        if found is not NotImplemented:
            return found
    return computed(tracer, func, info, args, kwargs)


def computed(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator that asks nothing of data or layouts."""
    if info.writes:
        return write_arguments(tracer, func, info, args, kwargs)
    if info.reshapes:
        return reshaped(tracer, func, info, args, kwargs)
    met = as_met(tracer, func, info.aliases, args, kwargs)
    if met is not None:
        found = met_again(tracer, met, info, args, kwargs)
        if found is not None:
            return found
    tracer.asked.told.clear()
    handles = met.handles if met is not None else map(tracer.handle, tensors_in((args, tuple(kwargs.values()))))
    chance = lie_by_chance(handles, elsewhere(tracer), tracer.others)
    if info.quick and not chance and (info.lies_alike or all_in_order(tracer, (args, tuple(kwargs.values())))):
        found = computed_quickly(tracer, func, args, kwargs, met)
        if found is not None:
            return found
    twins = twins_of(tracer, func, info, args, kwargs)
    if twins is None:
        return sized_by_data(tracer, func, info, args, kwargs)
    several = isinstance(twins, tuple | list)
    flat = list(twins) if several else [twins]
    given = tensors_in((args, tuple(kwargs.values())))
    if info.aliases and not several:
        same = next((t for t in given if tracer.handle(t).twin is twins), None)
        if same is not None and gives_back(
            func,
            tracer.handle(same),
            lambda: apply_converter(tracer, func, *operands(tracer, func, args, kwargs), None, args, kwargs),
        ):
            tracer.handle(same).memory.doubtful += sharing_to_all(tracer, func, (args, kwargs), given)
            return same
        twins, flat = (twins, flat) if same is None else (twins.clone(), [twins.clone()])
    value_args, value_kwargs = operands(tracer, func, args, kwargs)
    name, state = tracer.name(func), tracer.state
    with knowing_requirements(tracer, func, info, args, kwargs):
        made = apply_converter(tracer, func, value_args, value_kwargs, flat if several else twins, args, kwargs)
    if isinstance(made, Decomposed):
        if asks_in_its_kernel(func._schema.name) or compares_in_its_kernel(func._schema.name):
            values = [operand(tracer, each) for each in as_list(made.result)]
            require(tracer, func, args, kwargs, values, info.device)
        return made.result if info.aliases else lying_as_told(tracer, made.result, twins)
    refuse_other_count(tracer, func, made, flat if several else None)
    raw = list(made) if isinstance(made, tuple | list) else [made]
    results = settle_results(tracer, func, raw, flat, name, value_args)
    require_sizes(tracer, func, info, args, kwargs, results)
    keep_asserted(tracer, func, value_args, value_kwargs, results)
    if met is not None and len(results) == len(flat):
        remember(tracer, met, info, twins, raw, results, name, state, chance)
    whole = args, kwargs
    found = [
        wrapped(
            tracer, func, info, given, twin, results, name, at if several else None, value_args, value_kwargs, whole
        )
        for at, twin in enumerate(flat[: len(results)])
    ]
    if chance:
        keep_elsewhere(tracer, func, args, kwargs, found)
    return type(twins)(found) if several and type(twins) in (tuple, list) else tuple(found) if several else found[0]


def keep_elsewhere(
    tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], found: Sequence[Any]
) -> None:
    """Keeps how the results of an operator lie at other sizes, whose operands lie in order by chance."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        made = [tracer.handle(t) for t in tensors_in(found)]
        given, named = handled(tracer, (args, kwargs))
        note_elsewhere(func, given, named, elsewhere(tracer), made)


def lying_as_told(tracer: Tracer, made: Any, twins: Any) -> Any:
    """What the operators gave that another was run as, which lies in memory as what that one gives."""
    if isinstance(made, list | tuple) and isinstance(twins, list | tuple) and len(made) == len(twins):
        return type(made)([lying_as_told(tracer, one, other) for one, other in zip(made, twins, strict=True)])
    if not isinstance(made, Traced) or not isinstance(twins, torch.Tensor):
        return made
    handle = made.handle
    if handle.twin.stride() == twins.stride() or handle.twin.shape != twins.shape or handle.twin.dtype != twins.dtype:
        return made
    return tracer.tensor(twins, tracer.read(handle), handle.name)


@contextmanager
def knowing_requirements(
    tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """A block that may fail for want of knowing that sizes must be equal: then Alike is raised, which says so."""
    try:
        yield
    except IrkitError:
        require(tracer, func, args, kwargs, (), info.device)
        raise


def reshaped(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`t_`, `squeeze_` and their like: the tensor itself becomes a view of what it was."""
    target: Any = args[0]
    if func._schema.name == "aten::detach_":
        return target
    plain = operator_of(func)
    if type(target) is not Traced:
        raise LoweringError(f"{func} gives a tensor of the model other dimensions", hint="use capture='torch.export'")
    tracer.effects["write"] += 1
    shown = call(tracer, plain, args, kwargs)
    target.handle = shown.handle
    as_shown(target, shown)
    return target


def all_in_order(tracer: Tracer, given: Any) -> bool:
    """Whether the elements of all tensors lie in order."""
    return all(tracer.handle(t).twin.is_contiguous() for t in tensors_in(given))


def computed_quickly(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], met: Met | None) -> Any:
    """The result of an operator of which the layout follows from its type and those of its operands; None where its
    type does not tell all."""
    value_args, value_kwargs = operands(tracer, func, args, kwargs)
    made = apply_converter(tracer, func, value_args, value_kwargs, None, args, kwargs)
    if isinstance(made, Decomposed):
        return made.result
    if not isinstance(made, Value) or made.dtype not in TORCH or any(map(has_fresh, made.shape)):
        return None
    sizes = [d if type(d) is int else tracer.asked.hint(d) for d in made.shape]
    given = [tracer.handle(t).twin for t in tensors_in((args, tuple(kwargs.values())))]
    twin = of_elements(sizes, TORCH[made.dtype], given if info_of(func).lies_alike else ())
    name = tracer.name(func)
    (value,) = settle_results(tracer, func, [made], [twin], name, value_args)
    require_sizes(tracer, func, info_of(func), args, kwargs, [value])
    keep_asserted(tracer, func, value_args, value_kwargs, [value])
    if met is not None:
        remember(tracer, met, info_of(func), twin, [made], [value], name, tracer.state)
    return tracer.tensor(twin, value, name)


def require_sizes(
    tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any],
    keep: Callable[..., None] = require,
) -> None:  # fmt: skip
    """Keeps what an operator requires of sizes; it is run at others only where that does not go without saying."""
    if replaces_part(func._schema.name):
        refuse_untaken(Elsewhere(tracer, func, args, kwargs, results, info.device), computed=True)
    if info.pointwise:
        given, named = operands(tracer, func, args, kwargs)
        require_broadcast(tracer, leaves_of((*given, *named.values())))
    elif (place := MAKING.get(func._schema.name)) is not None and len(args) > place and not info.writes:
        require_counts(tracer, operands(tracer, func, args, kwargs)[0][place])
    elif takes_any_size(tracer, func, args, kwargs):
        refuse_untaken(Elsewhere(tracer, func, args, kwargs, results, info.device))
    else:
        keep(tracer, func, args, kwargs, results, info.device)


MAKING = {
    **dict.fromkeys((f"aten::{name}" for name in "zeros ones full empty rand randn".split()), 0),
    **dict.fromkeys((f"aten::new_{name}" for name in "zeros ones full empty".split()), 1),
}
"""Operators that make a tensor of given sizes, by the place of these; all that they require is that none is below 0."""


def takes_any_size(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether torch takes an operator whatever the sizes are that vary, where it takes it for the example."""
    told = FREE.get(func._schema.name)
    return told is not None and told(*operands(tracer, func, args, kwargs))


def check_steps(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """What says that a step of an elimination failed: it computes nothing, and refuses that."""
    keep_asserted(tracer, func, *operands(tracer, func, args, kwargs), ())


def sized_by_data(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator whose result's sizes hang on data: torch runs it on the example's own numbers."""
    tracer.unproven = True
    require_masks(tracer, func, args)
    require_shared_sizes(tracer, func, args)
    require_beside(tracer, func, args, kwargs)
    real_args = [real(tracer, a) for a in args]
    found = func(*real_args, **{k: real(tracer, v) for k, v in kwargs.items()})
    several = isinstance(found, tuple | list)
    twins = [t.to(META) if isinstance(t, torch.Tensor) else t for t in (found if several else [found])]
    value_args, value_kwargs = operands(tracer, func, args, kwargs)
    made = apply_converter(tracer, func, value_args, value_kwargs, twins if several else twins[0], args, kwargs)
    if isinstance(made, Decomposed):
        return made.result
    name = tracer.name(func)
    tracer.counted = counted_mask(func, value_args)
    results = settle_results(tracer, func, as_list(made), twins, name, value_args)
    tracer.counted = None
    keep_asserted(tracer, func, value_args, value_kwargs, results)
    shown = [
        tracer.tensor(twin, value, name) if isinstance(twin, torch.Tensor) else twin
        for twin, value in zip(twins, results, strict=False)
    ]
    if info.aliases:
        refuse_writes_of_shared(tracer, func, args, real_args, found, shown)
    return tuple(shown) if several else shown[0] if shown else None


def refuse_writes_of_shared(
    tracer: Tracer, func: Any, args: Sequence[Any], real_args: Sequence[Any], found: Any, shown: Sequence[Any]
) -> None:
    """Has writes refused of what an operator gives a view of, whose place or sizes data tells, and of the view."""
    line = tracer.line()

    def refuse() -> None:
        raise LoweringError(
            f"{func} gives a view whose place data tells, and one of the two is written", source=line,
            hint="clone() it before the write",
        )  # fmt: skip

    memories = {each.untyped_storage()._cdata for each in tensors_in(as_list(found))}
    for given, real_one in zip(args, real_args, strict=True):
        if isinstance(real_one, torch.Tensor) and real_one.untyped_storage()._cdata in memories:
            for each in tensors_in(shown):
                link(tracer, tracer.handle(each), [tracer.handle(given)], [refuse])


def narrowed(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """narrow(x, dim, start, length) by a tensor, which tells the place of a view; NotImplemented by a number"""
    if func is not torch.ops.aten.narrow.Tensor or kwargs:
        return NotImplemented
    with tracer.resumed():
        return torch.ops.aten.narrow.default(*args[:2], args[2].item(), args[3])


def twins_of(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """How results lie in memory; None where only numbers tell that, or torch refuses the operator on numbers."""
    if info.is_sized_by_data(args) or are_beyond(tracer, info, args):
        return None
    return on_twins_if_possible(tracer, func, info, args, kwargs)


def are_beyond(tracer: Tracer, info: Info, args: Sequence[Any]) -> bool:
    """Whether places in a tensor, as far as they are quickly told, are not all there in the example: torch refuses them
    where it sees them, and the model may catch that."""
    if not info.masked or tracer.asked.moved:
        return False
    for size, each in zip(tracer.handle(args[0]).twin.shape, args[1], strict=False):
        value = None if each is None else tracer.read(tracer.handle(each))
        if value is not None and is_quickly_told(value, tracer.examples):
            places = tracer.examples.of(value)
            if places.size and (places.min() < -size or places.max() >= size):
                return True
    return False


def real(tracer: Tracer, given: Any) -> Any:
    """An argument with the example's own numbers, which lie in memory as torch lays them: views are refused by that."""
    if isinstance(given, torch.Tensor):
        handle = tracer.handle(given)
        return lying_as(handle.twin, tensor_of(tracer.example(tracer.read(handle))))
    if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
        return given.node.hint
    if isinstance(given, list | tuple):
        return type(given)(real(tracer, each) for each in given)
    return given


def wrapped(
    tracer: Tracer, func: Any, info: Info, given: list[torch.Tensor], twin: Any, results: list[Any], name: str,
    index: int | None, args: list[Any], kwargs: dict[str, Any], call_args: tuple[Sequence[Any], Mapping[str, Any]],
) -> Any:  # fmt: skip
    """One result as the model gets it: the only one, or that at `index`."""
    value = results[index or 0]
    if not isinstance(twin, torch.Tensor):
        return value if not hasattr(value, "free_symbols") else twin
    if value is None and index is not None:
        raise LoweringError(
            f"the converter of {func} leaves out a result, which direct capture would give the model",
            hint="return a value for each result, or use capture='torch.export'",
        )
    if not isinstance(value, Value):
        raise contradiction(tracer, func, repr(value), "a tensor")
    name = name if index is None else f"getitem_{index}"
    if info.aliases:
        key = twin.untyped_storage()._cdata
        of = next((h for h in map(tracer.handle, given) if h.key == key), None)
        settle = sharing_to_all(tracer, func, call_args, given)
        if of is not None:
            if func._schema.name == "aten::view" and may_lie_apart(of):
                settle_view(tracer, of, (func, *handled(tracer, call_args), index))
            lens = lens_of(tracer, func, args, kwargs, of, results, index)
            of.memory.doubtful += settle
            found = tracer.view(twin, of, lens, value, name)
            found.handle.made = (func, *handled(tracer, call_args), index)
            return found
        found = tracer.tensor(twin, value, name)
        link(tracer, found.handle, [tracer.handle(each) for each in given], settle)
        found.handle.made = (func, *handled(tracer, call_args), index) if settle else None  # a view at some sizes
        return found
    return tracer.tensor(twin, value, name)


def sharing_to_all(
    tracer: Tracer, func: Any, call_args: tuple[Sequence[Any], Mapping[str, Any]], given: Sequence[torch.Tensor]
) -> list[Callable[[], None]]:
    """What keeps that an operator gives a view, or a copy, for all sizes as for the example; nothing where that is so
    anyway."""
    of, name = tracer.handle(given[0]) if given else None, func._schema.name
    copies = name in MAYBE_COPIES and of is not None and may_lie_apart(of)
    if of is None or not (copies or (name in MAYBE_SUMS and len(given) == 1)):
        return []
    return [weakly(tracer, settle_sharing, of, (func, *handled(tracer, call_args), None))]


def link(tracer: Tracer, made: Handle, given: Sequence[Handle], settle: list[Callable[[], None]]) -> None:
    """Says of a copy and of what it was made of that for other sizes they may share their memory."""
    for each in settle:
        made.memory.join(given[0].memory, each)


def handled(tracer: Tracer, given: Any) -> Any:
    """Arguments with handles in place of tensors, which may become views of what they are."""
    if isinstance(given, torch.Tensor):
        return tracer.handle(given)
    if isinstance(given, dict):
        return {name: handled(tracer, each) for name, each in given.items()}
    return tuple(handled(tracer, each) for each in given) if isinstance(given, tuple | list) else given


# ---------------------------------------------------------------------------------------------- met before


def remember(
    tracer: Tracer, met: Met, info: Info, twins: Any, raw: Sequence[Any], results: Sequence[Any], name: str, state: Any,
    chance: bool = False,
) -> None:  # fmt: skip
    """Keeps what was found out of an operator, for others like it; `state` is that of the tracer before it. By `chance`
    an operand lies in order."""
    tracer.first_met(results)
    values = (*raw, *results)
    if state != tracer.state or not all(isinstance(v, Value) and isinstance(v.type, Tensor) for v in values):
        return
    entry = entry_of(met, info.aliases, twins)
    if entry is not None:
        entry.chance = chance
    if entry is not None and not any(has_fresh(d) or d == 0 for v in raw for d in v.shape):
        entry.types = tuple(v.type for v in raw)
        tracer.met[met.layout] = entry
    values = tuple(map(tracer.read, met.handles))
    if entry is not None:
        entry.form = form_of(tracer, met.func, raw, values)
    record(tracer, met, values, tuple(results), name, tuple(tracer.asked.told))


def record(
    tracer: Tracer, met: Met, values: tuple[Value, ...], results: tuple[Value, ...], name: str,
    conditions: tuple[Any, ...],
) -> None:  # fmt: skip
    """Keeps what an operator gave under conditions, for trials."""
    if tracer.before is None:
        random = torch.Tag.nondeterministic_seeded in met.func.tags
        kept = Met(met.func, (), (), met.plain, None)  # which keeps no tensor alive
        of_data = symbols_of_data(met.plain) if tracer.symbols.get("u") else frozenset[Any]()
        tracer.record.outcomes.append((kept, Outcome(values, results, conditions, name, random, of_data)))


def met_again(tracer: Tracer, met: Met, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator of which enough is known from before; None elsewhere."""
    entry = tracer.met.get(met.layout)
    if entry is not None and entry.same >= 0:
        return met.given[entry.same]
    values = tuple(map(tracer.read, met.handles))
    earlier = tracer.earlier(met, values)
    if earlier is not None:
        known, name, results = entry is not None, earlier.name, earlier.results
        entry = entry or laid_out(tracer, met, info, results, args, kwargs)
        if entry is None:
            return None
        for condition in earlier.conditions:  # which say what sizes there may be
            tracer.asked.condition(condition, True)
        if not known and not info.pointwise:
            require_sizes(tracer, met.func, info, args, kwargs, results, require_again)
        if entry.same >= 0:
            return met.given[entry.same]
    elif entry is None or entry.types is None:
        return None
    else:
        raw = converted_again(tracer, met, entry, values, args, kwargs)
        if tuple([getattr(v, "type", None) for v in raw]) != entry.types:
            return None  # a converter that looks at more than types
        name = tracer.name(met.func)
        refined = dict(zip(raw, entry.types, strict=True))  # the very types, of which more is known than of equal ones
        new = tracer.stamped(refined, tracer.origin(info.text, name))
        results = tuple(new[v] for v in raw)
        record(tracer, met, values, results, name, entry.conditions or ())
        tracer.first_met(results)
    if met.func._schema.name in TELLING:
        keep_asserted(tracer, met.func, *operands(tracer, met.func, args, kwargs), results)
    if tracer.symbols.get("u"):
        for value in results:
            bind_symbols(tracer.scope, value)
    return shown_again(tracer, met, info, entry, results, name, args, kwargs)


def laid_out(
    tracer: Tracer, met: Met, info: Info, results: Sequence[Value], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Entry | None:
    """How the results of an operator lie in memory that the run before a trial has met already; None where torch does
    not tell, or tells other sizes."""
    sizes = [[tracer.asked.hint(d) for d in value.shape] for value in results]
    chance = lie_by_chance(met.handles, elsewhere(tracer), tracer.others)
    if info.quick and not chance and (info.lies_alike or all(h.twin.is_contiguous() for h in met.handles)):
        given = [h.twin for h in met.handles] if info.lies_alike else ()
        twins: Any = of_elements(sizes[0], TORCH[results[0].dtype], given)
    else:
        twins = twins_of(tracer, met.func, info, args, kwargs)
    flat = as_list(twins)
    if len(flat) != len(results) or not all(isinstance(twin, torch.Tensor) for twin in flat):
        return None
    if any(list(twin.shape) != size for twin, size in zip(flat, sizes, strict=True)):
        return None
    found = entry_of(met, info.aliases, twins)
    if found is not None:
        found.chance = chance
        tracer.met[met.layout] = found
    return found


def shown_again(
    tracer: Tracer, met: Met, info: Info, entry: Entry, results: Sequence[Value], name: str, args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:  # fmt: skip
    """Results as the model gets them, which lie in memory as they did before."""
    found = []
    settle = sharing_to_all(tracer, met.func, (args, kwargs), met.given)
    several = entry.container is not None
    for index, (recipe, value) in enumerate(zip(entry.recipes, results, strict=True)):
        twin, called = recipe.twin(met.handles), f"getitem_{index}" if several else name
        if recipe.of >= 0:
            of = met.handles[recipe.of]
            given = operands(tracer, met.func, args, kwargs)
            lens = lens_of(tracer, met.func, *given, of, list(results), index if several else None)
            of.memory.doubtful += settle
            found.append(tracer.view(twin, of, lens, value, called))
            made = (met.func, *handled(tracer, (args, kwargs)), index if several else None)
            if met.func._schema.name == "aten::view" and entry.chance:
                settle_view(tracer, of, made)
            found[-1].handle.made = made
        else:
            found.append(tracer.tensor(twin, value, called))
            link(tracer, found[-1].handle, met.handles, settle)
            found[-1].handle.made = (met.func, *handled(tracer, (args, kwargs)), index) if settle else None
    if entry.chance:
        keep_elsewhere(tracer, met.func, args, kwargs, found)
    if entry.kinds is None:
        entry.kinds = tuple(tracer.kind(each.handle) for each in found)
    for each, kind in zip(found, entry.kinds, strict=True):
        each.handle.kind = kind
    return found[0] if entry.container is None else entry.container(found)


def with_count(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator that gives as many results as its second argument says, which is part of the graph; NotImplemented
    where that is a number already"""
    if len(args) < 2 or not isinstance(args[1], torch.SymInt):
        return NotImplemented
    return computed(tracer, func, info_of(func), (args[0], args[1].node.guard_int(), *args[2:]), kwargs)


def runs_of_vector(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """unique_consecutive(x, inverse, counts, 0) of a vector, which torch takes for one without an axis: it leaves out
    what is not asked for; NotImplemented elsewhere"""
    dim = args[3] if len(args) > 3 else kwargs.get("dim")
    if dim != 0 or args[0].dim() != 1:
        return NotImplemented
    named = {name: each for name, each in kwargs.items() if name != "dim"}
    return computed(tracer, func, info_of(func), args[:3], named)


COUNTS = dict.fromkeys(("aten::tensor_split", "aten::chunk", "aten::unsafe_chunk"), with_count)
NOTHING = {**dict.fromkeys(EFFECTS, compute_nothing), STEPS: check_steps}


def on_lists(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator on lists of tensors, tensor by tensor: a list, or None for one that writes."""
    calls = each_call(func, args, kwargs)
    with tracer.resumed():
        if calls is not None:
            results = [LISTS[func._schema.name](*each, **named) for each, named in calls]
        else:
            results = scaled_calls(func, args)
            if not func._schema.returns:
                results = [x.copy_(each) for x, each in zip(args[0], results, strict=True)]
    return results if func._schema.returns else None


SPECIAL: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(LISTS, on_lists), **NOTHING, **QUESTIONS, **DATA, **COUNTS,
    "aten::batch_norm": batch_norm, "aten::instance_norm": batch_norm,
    "aten::unique_consecutive": runs_of_vector, "aten::narrow": narrowed,
}  # fmt: skip
