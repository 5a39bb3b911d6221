"""Modules that are equal but for their weights: the first is traced, the others are made of its values.

Where a module is called as one before it of the same class, structure and attributes was, with arguments of equal types
and layouts, torch would meet the same operators. So what the first call computed is taken over, with the weights and
arguments of the second in place of the first's. That is right only where a call does nothing but compute its results,
which is looked at as the first one runs: it draws no random numbers, asks nothing of data, writes nothing, keeps no
tensor, changes no attribute, and reads none in which the two modules differ. Anything else is traced as it comes.

What a model looks up by the identity of a module would not be noticed so. Therefore the last module of each kind is
traced all the same, and where that gives something else than was taken over, the whole run is made anew without this.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.autograd import forward_ad

from irkit import dims
from irkit.core import walk
from irkit.core.ir import Value
from irkit.core.origins import Origin
from irkit.core.vocabulary import PARAM
from irkit.rewriting.numbering import is_random
from lowering.direct.caches import (
    SIMPLE,
    Answer,
    Ask,
    Asking,
    Fresh,
    Given,
    Level,
    Number,
    Unequal,
    Unmatched,
    Watch,
    effects_of,
    functions_of,
    is_asked_only,
    unmet,
)
from lowering.direct.repeats import SIZES, SMALL, Index, TakenOver, rebuilt, recognize_values
from lowering.direct.tensors import Handle, Memory, Traced
from lowering.direct.tracer import Tracer

INTERNAL = frozenset(torch.nn.Module().__dict__)
TRIES = 3
"""How many calls with equal arguments are looked at before others like them are traced as they come."""


@attrs.frozen(eq=False)
class Called:
    """What a call of a module gave, of which tensors, with which weights; `parts` are the module and its children,
    `state` is that of its attributes, `read`
    those of them that it read among the ones that differ; `counts` are the names taken before it and by it."""

    parts: Sequence[torch.nn.Module]
    path: str
    inputs: tuple[Value, ...]
    results: Any
    weights: Mapping[Value, Sequence[int]]
    state: tuple[Any, ...]
    read: frozenset[tuple[int, str]]
    before: Mapping[str, int]
    counts: Mapping[str, int]
    operators: int
    decomposed: Mapping[str, int]
    asks: tuple[Ask, ...] = ()


@attrs.define(eq=False, kw_only=True)
class Calls(Asking):
    """The calls that were met in a run, by what they are called with; and the attributes that were read so far of those
    in which equal modules differ."""

    likes: Mapping[int, int]
    hooks: Mapping[int, Sequence[Mapping[Any, Any]]]
    last: frozenset[int] = frozenset()
    watched: set[tuple[type, str]] = attrs.field(factory=set)
    known: dict[Any, list[Called | None]] = attrs.field(factory=dict)
    times: Counter[int] = attrs.field(factory=Counter)

    def called(self, module: torch.nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a module gives."""
        if self.tracer.frames or any(self.hooks[id(module)]):
            return forward(*args, **kwargs)
        tensors: list[Traced] = []
        objects: list[Any] = []
        with unmet():
            try:
                key = (self.likes[id(module)], surroundings(), self.key((args, kwargs), tensors, objects))
                require_asked_only(module, objects)
            except Unmatched:
                key = None
            tries = self.known.setdefault(key, []) if key is not None else []
            parts = list(module.modules()) if tries else []
            likely = (each for each in tries if each is not None and self.is_like(each, parts))
            found = next((made for each in likely if (made := self.again(each, parts, tensors))), None)
        if found is not None and id(module) not in self.last:
            return self.taken(found, parts, tensors, objects)
        if key is None or (found is None and len(tries) >= TRIES):
            return forward(*args, **kwargs)
        tracer = self.tracer
        effects, names = effects_of(tracer), Counter(tracer.counts)
        written, alive = len(tracer.written), len(tracer.alive)
        level = Level(module, tracer.modules[-1], tensors, objects, effects, names, written, alive)
        if found is None:
            return self.traced(level, forward, args, kwargs, tries)
        with self.noting(level):
            returned = forward(*args, **kwargs)
        with unmet():
            self.compare(found, returned, level)
        return returned

    def is_like(self, other: Called, parts: Sequence[torch.nn.Module]) -> bool:
        """Whether a module has the attributes of one that was called, as far as that read them."""
        state = state_of(parts)
        if len(state) != len(other.state):
            return False
        for one, a, b in zip(other.parts, other.state, state, strict=True):
            if a.keys() != b.keys():
                return False
            for name in a:
                unread = (type(one), name) in self.watched and (id(one), name) not in other.read
                if not unread and a[name] != b[name]:
                    return False
        return True

    # ------------------------------------------------------------------------------------------ the first call

    def traced(
        self, level: Level, forward: Callable[..., Any], args: Any, kwargs: Any, tries: list[Called | None]
    ) -> Any:
        """What a module gives where it runs, kept for others like it if it does nothing but compute that."""
        tracer, module, given = self.tracer, level.module, level.given
        inputs = tuple(tracer.read(tracer.handle(each)) for each in given)
        parts = list(module.modules())
        state, start = state_of(parts), len(self.reads)
        before, calls, decomposed = Counter(tracer.counts), tracer.calls, Counter(tracer.scope.decomposed)
        with self.noting(level):
            returned = forward(*args, **kwargs)
        kept = level.failed or level.keeps_answers()
        if kept or self.left_something(level) or not same_state(state, state_of(list(module.modules()))):
            tries.append(None)
            return returned
        with unmet():
            outputs: list[Traced] = []
            try:
                if any(level.answer_of(each) for each in tensors_of(returned)):
                    raise Unmatched
                results = self.results(returned, given, outputs)
            except Unmatched:
                tries.append(None)
                return returned
            made = enumerate(tracer.alive[level.first :], level.first)
            alive = {id(each()) for i, each in made if each() is not None and not level.is_answer(i)}
            counts, operators = tracer.counts - before, tracer.calls - calls - sum(a.operators for a in level.asks)
            own = sum((Counter(ask.decomposed) for ask in level.asks), Counter())
            kept = Called(
                parts, level.path, inputs, results, {}, state, frozenset(self.reads[start:]), before,
                counts, operators, Counter(tracer.scope.decomposed) - decomposed - own, tuple(level.asks),
            )  # fmt: skip
            tries.append(self.closed(kept) if alive == {id(each) for each in outputs} else None)
        return returned

    def results(self, returned: Any, given: Sequence[Traced], outputs: list[Traced]) -> Any:
        """What a call returns, to be made again. Raises Unmatched."""
        kind = type(returned)
        if kind is Traced:
            index = next((i for i, each in enumerate(given) if each is returned), None)
            if index is not None:
                return Given(index)
            handle, taken = returned.handle, {each.handle.key for each in (*given, *outputs)}
            memory = handle.memory
            busy = memory.name or memory.torn or memory.doubtful or memory.linked or memory.stale
            part = bool(handle.lenses) and not self.is_whole(handle)
            if busy or part or returned.requires_grad or handle.key in taken or handle.twin.is_complex():
                raise Unmatched
            outputs.append(returned)
            return Fresh(handle.twin, self.tracer.read(handle), handle.name)
        if kind is tuple or kind is list:
            return kind([self.results(each, given, outputs) for each in returned])
        if kind is dict:
            return {name: self.results(each, given, outputs) for name, each in returned.items()}
        if isinstance(returned, SIMPLE) or kind in SIZES:
            return returned
        raise Unmatched

    def is_whole(self, handle: Handle) -> bool:
        """Whether a view has all elements of its memory, in an order of its axes that its sizes tell."""
        twin, shape = handle.twin, handle.value.shape
        whole = dims.same(dims.product(shape), dims.product(handle.memory.content.shape)) is True
        told = all(type(d) is int or self.tracer.asked.hint(d) > 1 for d in shape)
        return whole and told and is_non_overlapping_and_dense_or_false(twin) and not twin.is_neg()

    def closed(self, call: Called) -> Called | None:
        """A call with the weights that it uses, by their numbers among those of its module; None where it reaches a
        tensor that it was not given."""
        tracer = self.tracer
        weights: dict[Value, list[int]] = {}
        for number, weight in enumerate(weights_of(call.parts)):
            held = tracer.handles.get(id(weight))
            if held is not None:
                if held[1].memory.version or held[1].memory.torn or held[1].lenses:
                    return None
                weights.setdefault(held[1].value, []).append(number)
        stop = {*call.inputs, *weights, *(value for ask in call.asks for value in ask.answers)}
        roots = fresh_of([call.results, *(ask.given for ask in call.asks)])
        reached = walk.post_order(tuple(roots), stop=stop.__contains__)
        if any(value.op == PARAM or is_random(value) for value in reached):
            return None
        return attrs.evolve(call, weights=weights)

    # ------------------------------------------------------------------------------------------ the others

    def again(self, call: Called, parts: Sequence[torch.nn.Module], given: Sequence[Traced]) -> Again | None:
        """A call with the weights of another module, of other tensors; None where these are not as they were."""
        tracer = self.tracer
        theirs = list(weights_of(parts))
        swaps = {old: tracer.read(tracer.handle(each)) for old, each in zip(call.inputs, given, strict=True)}
        for old, numbers in call.weights.items():
            handles = [tracer.handle(theirs[number]) for number in numbers]
            new = tracer.read(handles[0])
            tied = all(tracer.read(each) is new for each in handles)  # what was one tensor there is one here
            written = any(each.memory.version or each.memory.torn for each in handles)
            if written or not tied or new.type != old.type or new.op != old.op:
                return None
            swaps[old] = new
        rename = functools.partial(renamed, call, tracer.modules[-1], Counter(tracer.counts))
        return Again(call, swaps, rename)

    def grown(self, found: Again, results: Any) -> Again:
        """The same with the values among results, too."""
        if found.before is not None:
            there = found.before.values
            return attrs.evolve(found, values={**found.values, **{value: there[value] for value in fresh_of(results)}})
        values = rebuilt(fresh_of(results), found.values, found.rename)
        known = values if self.tracer.before is None else recognize_values(self.tracer.index, values)
        return attrs.evolve(found, values=known)

    def taken(
        self, found: Again, own: Sequence[torch.nn.Module], given: Sequence[Traced], objects: Sequence[Any]
    ) -> Any:
        """The results of a call as the model gets them, which count as met; objects are asked what they were asked."""
        tracer, call = self.tracer, found.call
        found = self.as_before(found, own[0])
        places = dict(zip(map(id, call.parts), map(id, own), strict=True))
        self.reads += [(places[place], name) for place, name in call.read]
        names, known = Counter(call.counts), list(given)
        for ask in call.asks:
            with unmet():
                found = self.grown(found, ask.given)
                tracer.counts.update(ask.segment)
                tracer.first_met([found.values[value] for value in fresh_of(ask.given)])
                args, kwargs = self.shown(found, ask.given, known, own)
            before, new = Counter(tracer.counts), []
            tracer.modules.append(tracer.modules[-1] + ask.inside)
            returned = getattr(objects[ask.holder], ask.method)(*args, **kwargs)
            tracer.modules.pop()
            with unmet():
                if self.key(returned, new) != ask.key or tracer.counts - before != ask.names:
                    tracer.unequal = True
                    raise Unequal
                answers = [tracer.read(tracer.handle(each)) for each in new]
                found = self.answered(found, ask.answers, answers)
            known += new
            names -= Counter(ask.segment) + Counter(ask.names)
        with unmet():
            found = self.grown(found, call.results)
            tracer.counts.update(names)
            tracer.calls += call.operators
            tracer.scope.decomposed.update(call.decomposed)
            tracer.first_met([found.values[value] for value in fresh_of(call.results)])
            if tracer.before is None:
                tracer.record.taken.setdefault(id(own[0]), []).append(found.taken_over(found.values))
            return self.shown(found, call.results, known, own)

    def as_before(self, found: Again, module: torch.nn.Module) -> Again:
        """In a trial, the same with what its values became in the run before, where that took over the same."""
        tracer, place = self.tracer, id(module)
        if tracer.before is None:
            return found
        calls, count = tracer.before.taken.get(place, ()), self.times[place]
        self.times[place] += 1
        if count < len(calls) and calls[count].is_again(found.taken_over(found.values)):
            return attrs.evolve(found, before=calls[count])
        tracer.open_index()
        return found

    def answered(self, found: Again, asked: Sequence[Value], answers: Sequence[Value]) -> Again:
        """The same with what came as answers, which may be others than in the run before."""
        values, before = {**found.values, **dict(zip(asked, answers, strict=True))}, found.before
        if before is not None and any(before.values[old] is not values[old] for old in asked):
            self.tracer.open_index()
            before = None
        return attrs.evolve(found, values=values, before=before)

    def shown(self, found: Again, results: Any, known: Sequence[Traced], own: Sequence[torch.nn.Module]) -> Any:
        """Results as the model gets them, or what it hands over."""
        if isinstance(results, Given | Answer):
            return known[results.index + (len(found.call.inputs) if isinstance(results, Answer) else 0)]
        if isinstance(results, Number):
            held, name = own[results.module], results.name
            return getattr(held, name) if self.marks else held.__dict__[name]
        if isinstance(results, Fresh):
            twin, value = results.twin, found.values[results.value]
            made = torch.empty_strided(twin.shape, twin.stride(), dtype=twin.dtype, device="meta")
            name = found.rename(Origin(results.name)).node
            return self.tracer.shown(Handle(made, Memory(value, twin=made), (), value, 0, name))
        if isinstance(results, list | tuple):
            return type(results)([self.shown(found, each, known, own) for each in results])
        if isinstance(results, dict):
            return {name: self.shown(found, each, known, own) for name, each in results.items()}
        return results

    def compare(self, found: Again, returned: Any, level: Level) -> None:
        """Notes where a module gave something else than what was expected of it, or asked it."""
        call, index, pairs = found.call, Index({}), []
        alike = [form_of(ask) for ask in call.asks] == [form_of(ask) for ask in level.asks]
        if level.failed or not alike:
            self.tracer.unequal = True
            return
        given = [found.values[value] for value in (*call.inputs, *call.weights)]
        for ours, theirs in zip(call.asks, level.asks, strict=True):
            found = self.grown(found, ours.given)
            pairs += zip([found.values[v] for v in fresh_of(ours.given)], fresh_of(theirs.given), strict=True)
            found = attrs.evolve(found, values={**found.values, **dict(zip(ours.answers, theirs.answers, strict=True))})
            given += theirs.answers
        found = self.grown(found, call.results)
        expected = [found.values[value] for value in fresh_of(call.results)]
        tensors = [each for each in tensors_of(returned) if self.tracer.handle(each).value not in call.inputs]
        actual = [self.tracer.read(self.tracer.handle(each)) for each in tensors]
        index.same.update(zip(given, given, strict=True))  # the rest comes from these
        index.include((*expected, *actual, *(value for pair in pairs for value in pair)))
        met = {index.same[value]: value for value in actual}
        same = all(index.same[one] is index.same[other] for one, other in pairs)
        if not same or not {index.same[value] for value in expected} <= met.keys():
            self.tracer.unequal = True
            return
        asked = [value for ask in call.asks for value in fresh_of(ask.given)]
        became = {old: met[index.same[found.values[old]]] for old in fresh_of(call.results)}
        became |= {old: actual for old, (_, actual) in zip(asked, pairs, strict=True)}
        taken = found.taken_over({**found.values, **became})
        self.tracer.record.taken.setdefault(id(level.module), []).append(taken)


@attrs.frozen(eq=False)
class Again:
    """A call that is taken over: what its values become, and their origins; and the same call in the run `before`, in a
    trial in which all of them become what they became there."""

    call: Called
    values: Mapping[Value, Value]
    rename: Callable[[Origin], Origin]
    before: TakenOver | None = None

    def taken_over(self, values: Mapping[Value, Value]) -> TakenOver:
        """What is to be known of it in a trial, where values have become these."""
        call = self.call
        given = fresh_of([call.results, *(ask.given for ask in call.asks)])
        answers = tuple(value for ask in call.asks for value in ask.answers)
        return TakenOver(call.parts[0], call.inputs, tuple(given), answers, values)


def tensors_of(returned: Any) -> list[Traced]:
    """The tensors among results."""
    if isinstance(returned, Traced):
        return [returned]
    each = returned.values() if isinstance(returned, dict) else returned if isinstance(returned, list | tuple) else ()
    return [tensor for part in each for tensor in tensors_of(part)]


def renamed(call: Called, path: str, taken: Mapping[str, int], origin: Origin) -> Origin:
    """The origin of a value of a call in another module, where so many names were taken."""
    name, base, number = origin.node, origin.node, 0
    if base not in call.counts:
        base, _, digits = name.rpartition("_")
        number = int(digits) if digits.isdecimal() else 0
    if base in call.counts:
        place = number - call.before.get(base, 0) + taken.get(base, 0)
        name = f"{base}_{place}" if place else base
    inside = f"{origin.module}.".startswith(f"{call.path}.")
    module = path + origin.module[len(call.path) :] if inside else origin.module
    return Origin(name, origin.target, module, origin.source, origin.rules)


def fresh_of(results: Any) -> list[Value]:
    """The values among results."""
    if isinstance(results, Fresh):
        return [results.value]
    each = results.values() if isinstance(results, dict) else results if isinstance(results, list | tuple) else ()
    return [value for part in each for value in fresh_of(part)]


def surroundings() -> Any:
    """What of torch's own state tells how a module computes. Raises Unmatched where gradients are recorded."""
    transforms = torch._C._functorch.maybe_current_level() is not None  # type: ignore[attr-defined]
    if torch.is_grad_enabled() or forward_ad._current_level >= 0 or transforms:
        raise Unmatched
    return (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.get_default_dtype())


# ---------------------------------------------------------------------------------------------- equal modules


def state_of(parts: Sequence[torch.nn.Module]) -> tuple[dict[str, Any], ...]:
    """The attributes of modules, each as it stands: simple ones themselves, others by identity."""
    return tuple(
        {name: each if isinstance(each, SIMPLE) else Same(each) for name, each in one.__dict__.items()
         if name not in INTERNAL and name != "forward"}
        for one in parts
    )  # fmt: skip


@attrs.frozen(eq=False)
class Same:
    """An object that is equal to itself only, or to a list, tuple or dict of the same simple content."""

    held: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return False
        return self.held is other.held or (is_plain(self.held) and is_plain(other.held) and self.held == other.held)

    __hash__ = None  # type: ignore[assignment]


def is_plain(held: Any) -> bool:
    """Whether a tuple, list or dict has simple content only."""
    if type(held) is dict:
        return all(isinstance(each, SIMPLE) for pair in held.items() for each in pair)
    return type(held) in (tuple, list) and all(isinstance(each, SIMPLE) for each in held)


def same_state(a: tuple[dict[str, Any], ...], b: tuple[dict[str, Any], ...]) -> bool:
    """Whether attributes are the same."""
    return len(a) == len(b) and all(x == y for x, y in zip(a, b, strict=True))


def weights_of(parts: Sequence[torch.nn.Module]) -> Iterator[torch.Tensor]:
    """The parameters and buffers of modules, each as often as it is there."""
    for one in parts:
        yield from (each for each in one._parameters.values() if each is not None)
        yield from (each for each in one._buffers.values() if each is not None)


def looks_into_itself(cls: type) -> bool:
    """Whether a class reads attributes in a way that is not noticed."""
    return any(name in function.__code__.co_names for function in functions_of([cls]) for name in ("__dict__", "vars"))


def require_asked_only(module: torch.nn.Module, objects: Sequence[Any]) -> None:
    """Raises Unmatched where a module may see of an object more than what its methods answer."""
    classes = list(dict.fromkeys(type(each) for each in module.modules())) if objects else []
    if not all(is_asked_only(type(each), tuple(classes)) for each in objects):
        raise Unmatched


def form_of(ask: Ask) -> Any:
    """Equal for questions that differ in the numbers of layers and in the values of tensors alone."""

    def form(given: Any) -> Any:
        if isinstance(given, Fresh):
            return Fresh
        if isinstance(given, Given | Answer | Number):
            return (type(given), *attrs.astuple(given))
        if isinstance(given, list | tuple):
            return (type(given), *map(form, given))
        if isinstance(given, dict):
            return (dict, *((name, form(each)) for name, each in given.items()))
        return given.node.expr if type(given) in SIZES else (type(given), repr(given))

    return (ask.holder, ask.method, form(ask.given), ask.key)


def weight_like(weight: torch.Tensor) -> Any:
    """Equal for weights of equal types and layouts, and small ones of equal content."""
    if weight.layout is not torch.strided or type(weight) not in (torch.Tensor, torch.nn.Parameter):
        return id(weight)
    small = repr(weight.tolist()) if weight.numel() <= SMALL and weight.device.type == "cpu" else ""
    whole = weight.untyped_storage().nbytes() == weight.nbytes
    return (weight.dtype, weight.device, tuple(weight.shape), weight.stride(), small) if whole else id(weight)


def likes_of(model: torch.nn.Module) -> dict[int, int]:
    """A number of each module that is like another one and does more than one operator of torch's: equal for those of
    the same class and structure, with weights of equal types."""
    numbers: dict[Any, int] = {}
    found: dict[int, int] = {}

    def number(module: torch.nn.Module) -> int:
        if id(module) not in found:
            children = tuple((name, each and number(each)) for name, each in module._modules.items())
            found[id(module)] = numbers.setdefault((*own_like(module), children, sharing(module)), len(numbers))
        return found[id(module)]

    number(model)
    chosen = {id(each): found[id(each)] for each in model.modules() if is_composite(each)}
    often = Counter(chosen.values())
    return {place: each for place, each in chosen.items() if often[each] > 1}


def sharing(module: torch.nn.Module) -> tuple[int, ...]:
    """Which children are one module: of each the place of the first that is the same; nothing where all differ."""
    below = [id(each) for _, each in module.named_modules(remove_duplicate=False)]
    return () if len(set(below)) == len(below) else tuple(map(below.index, below))


def own_like(module: torch.nn.Module) -> tuple[Any, ...]:
    """Equal for modules that may be equal but for their weights, apart from their children; by itself where a module is
    like no other."""
    if isinstance(module, torch.jit.ScriptModule) or "forward" in module.__dict__ or looks_into_itself(type(module)):
        return (id(module),)
    weights = [*module._parameters.items(), *module._buffers.items()]
    shown = tuple((name, None if each is None else weight_like(each)) for name, each in weights)
    simple = tuple((name, type(each)) for name, each in module.__dict__.items() if name not in INTERNAL)
    return (type(module), module.training, shown, simple)


def is_composite(module: torch.nn.Module) -> bool:
    """Whether a module does more than call one operator."""
    own = type(module).__module__.startswith("torch.nn.modules")
    return bool(module._modules) or not own


# ---------------------------------------------------------------------------------------------- while a model runs


@contextmanager
def reuse_equal_modules(tracer: Tracer, model: torch.nn.Module) -> Iterator[None]:
    """A block in which calls of modules that are like one before are made of what that computed."""
    likes = tracer.likes
    if not likes:
        yield
        return
    chosen = [each for each in model.modules() if id(each) in likes]
    hooks = {id(each): hooks_below(each) for each in chosen}
    last = frozenset({likes[id(each)]: id(each) for each in chosen}.values()) if tracer.before is None else frozenset()
    calls = Calls(tracer=tracer, likes=likes, hooks=hooks, last=last)
    watches = [(cls, name, Watch(name, calls)) for cls, name in different(chosen)]
    calls.watched = {(cls, name) for cls, name, _ in watches}
    try:
        for cls, name, watch in watches:
            setattr(cls, name, watch)
        for module in chosen:
            module.__dict__["forward"] = wrapped(calls, module, module.forward)
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if calls.marked:  # not everything takes a mark for the number that it is
            raise Unequal from error
        raise
    finally:
        for module in chosen:
            module.__dict__.pop("forward", None)
        for cls, name, _ in watches:
            delattr(cls, name)


def hooks_below(module: torch.nn.Module) -> list[Mapping[Any, Any]]:
    """The tables of hooks of a module's children, which run while it does."""
    below = [each for each in module.modules() if each is not module]
    return [held for each in below for held in (each._forward_hooks, each._forward_pre_hooks)]


def wrapped(calls: Calls, module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The forward of a module that looks for a call like it first."""

    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        return calls.called(module, forward, args, kwargs)

    return call


def different(modules: Sequence[torch.nn.Module]) -> list[tuple[type, str]]:
    """The simple attributes in which modules of one class differ."""
    by_class: dict[type, list[dict[str, Any]]] = {}
    for module in modules:
        for one in module.modules():
            by_class.setdefault(type(one), []).append(one.__dict__)
    found = []
    for cls, each in by_class.items():
        names = {name for one in each for name in one if name not in INTERNAL and not hasattr(cls, name)}
        for name in sorted(names):
            held = [one.get(name) for one in each]
            if all(isinstance(value, SIMPLE) for value in held) and any(value != held[0] for value in held):
                found.append((cls, name))
    return found
