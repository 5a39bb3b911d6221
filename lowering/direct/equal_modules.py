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
import inspect
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import attrs
import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from irkit import dims
from irkit.core import walk
from irkit.core.ir import Value
from lowering.capture.inputs.alike import SIMPLE, Below, Likes
from lowering.capture.inputs.objects import Shadow, Watch, identity_noted, method_of
from lowering.capture.inputs.python_state import PythonState
from lowering.capture.inputs.surroundings import Surroundings
from lowering.direct.caches import (
    Answer,
    Ask,
    Asking,
    Fresh,
    Given,
    Level,
    Met,
    Number,
    Unequal,
    Unmatched,
    Unmet,
    effects_of,
    form_of,
    fresh_of,
    handed_on,
    in_vain,
    made_for_once,
    require_asked_only,
    surroundings,
    tensors_of,
)
from lowering.direct.repeats import SIZES, Index, Stage, TakenOver, recognize_values
from lowering.direct.tensors import META, Handle, Memory, Traced
from lowering.direct.tracer import Tracer
from lowering.records.module_calls import InnerCalls, Repeated, add_counts, name_after, names_since
from passes.whole_graph.layer_calls import Alike
from passes.whole_graph.layer_search import LEAST

TRIES = 3
"""How many calls with equal arguments are looked at before others like them are traced as they come."""


@attrs.frozen(eq=False)
class Called:
    """What a call of a module gave, of which tensors, with which weights; `below` is what the module was made of,
    `read` are those of its attributes that it read among the ones that differ; `counts` are the names taken by it,
    after those taken `before`. `fresh` are the values that it gave or handed over, `answers` those it was answered,
    `inner` the calls of modules inside it, `ground` and `own` how what Python code may change stood around the model
    and in the module; `stages` say how the former are made again, question by question, and its results last; `rest`
    are the names taken after the last question, `writes` is how many writes came before, and `numbers` has those of the
    names of what it gave or handed over."""

    below: Below
    path: str
    inputs: tuple[Value, ...]
    results: Any
    weights: Mapping[Value, Sequence[int]]
    read: frozenset[tuple[int, str]]
    before: Mapping[str, int]
    counts: Mapping[str, int]
    operators: int
    decomposed: Mapping[str, int]
    asks: tuple[Ask, ...]
    fresh: tuple[Value, ...]
    answers: tuple[Value, ...]
    inner: InnerCalls
    ground: PythonState
    own: PythonState
    stages: tuple[Stage, ...] = ()
    rest: Mapping[str, int] = {}
    writes: int = 0
    numbers: Mapping[str, tuple[str, int] | None] = {}

    def is_overwritten(self, before: Sequence[Value]) -> bool:
        """Whether something that the call computed with, and was not handed, is among all that was written since."""
        since = before[self.writes :]
        return bool(since) and not all(stage.same.keys().isdisjoint(since) for stage in self.stages)

    def numbered(self, node: str) -> tuple[str, int] | None:
        """What the name of a node begins with, and which of the names that begin so it is among those that the call
        took; None for a name that it did not take."""
        base, number = node, 0
        if base not in self.counts:
            base, _, digits = node.rpartition("_")
            number = int(digits) if digits.isdecimal() else 0
        return (base, number - self.before.get(base, 0)) if base in self.counts else None


@attrs.define(eq=False, kw_only=True)
class Calls(Asking):
    """The calls that were met in a run, by what they are called with; and the attributes that were read so far of those
    in which equal modules differ."""

    likes: Likes
    last: frozenset[int]
    watched: set[tuple[type, str]] = attrs.field(factory=set)
    known: dict[Any, list[Called | None]] = attrs.field(factory=dict)
    times: Counter[int] = attrs.field(factory=Counter)

    def called(self, module: torch.nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a module gives."""
        if self.tracer.frames:
            return forward(*args, **kwargs)
        tensors: list[Traced] = []
        objects: list[Any] = []
        values: list[Value] = []
        with Unmet() as block:
            below = None
            try:
                arguments = self.key_of((args, kwargs), tensors, objects, values)
                key = (self.likes.numbers[id(module)], surroundings(), arguments)
                below = self.likes.of(module)
                if any(below.hooks):
                    raise Unmatched
                require_asked_only(self.likes, below.parts, objects)
            except Unmatched:
                key = below = None
            tries = self.known.setdefault(key, []) if key is not None else []
            found = None if below is None else self.found(tries, below, values)
            if below is not None and found is not None and id(module) not in self.last:
                return self.taken(found, below.parts, tensors, objects, block)
        if below is None or (found is None and len(tries) >= TRIES):
            return forward(*args, **kwargs)
        tracer = self.tracer
        effects, names = effects_of(tracer), Counter(tracer.counts)
        written, alive = len(tracer.written), len(tracer.alive)
        tables = {id(each._modules) for each in below.parts}
        own = [each for each in below.contents.containers if id(each) not in tables]
        standing, path = self.standing((args, kwargs, own)), tracer.modules[-1]
        level = Level(
            module, path, tensors, objects, standing, effects, names, written, alive, id(sys._getframe())
        )  # fmt: skip
        if found is None:
            return self.traced(level, below, forward, args, kwargs, tries, own)
        with self.noting(level):
            returned = forward(*args, **kwargs)
        with Unmet():
            self.compare(found, returned, level)
        return returned

    def found(self, tries: Sequence[Called | None], below: Below, given: Sequence[Value]) -> Again | None:
        """The first of some calls that a module makes again; None where it makes none of them."""
        ground = self.grounded() if any(tries) else None
        standing = (each for each in tries if each and each.ground is ground and each.own.is_kept_alone())
        likely = (each for each in standing if self.is_like(each, below))
        return next((made for each in likely if (made := self.again(each, below, given))), None)

    def is_like(self, other: Called, below: Below) -> bool:
        """Whether a module has the attributes of one that was called, as far as that read them."""
        differing = self.likes.differences(other.below, below)
        if differing is None:
            return False
        parts = other.below.parts
        return all(
            (type(parts[place]), name) in self.watched and (id(parts[place]), name) not in other.read
            for place, name in differing
        )

    # ------------------------------------------------------------------------------------------ the first call

    def traced(
        self, level: Level, below: Below, forward: Callable[..., Any], args: Any, kwargs: Any,
        tries: list[Called | None], held: Sequence[Any],
    ) -> Any:  # fmt: skip
        """What a module gives where it runs, kept for others like it if it does nothing but compute that; `held` are
        the containers that are its own."""
        tracer, module, given = self.tracer, level.module, level.given
        inputs = tuple(tracer.read(tracer.handle(each)) for each in given)
        start, first, lookups = len(self.reads), len(tracer.visits.met), len(tracer.scope.lookups)
        before, calls, decomposed = Counter(tracer.counts), tracer.calls, Counter(tracer.scope.decomposed)
        with self.noting(level):
            returned = forward(*args, **kwargs)
        kept = level.failed or level.keeps_answers() or self.tells_which(level) or in_vain(tracer, lookups, returned)
        if kept or self.left_something(level) or self.likes.differences(below, self.likes.of(module)) != frozenset():
            tries.append(None)
            return returned
        with Unmet():
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
            answering = sum((Counter(ask.decomposed) for ask in level.asks), Counter())
            ground = self.grounded()
            kept = Called(
                below, level.path, inputs, results, {}, frozenset(self.reads[start:]), before,
                counts, operators, Counter(tracer.scope.decomposed) - decomposed - answering, tuple(level.asks),
                tuple(fresh_of([results, *(ask.given for ask in level.asks)])),
                tuple(value for ask in level.asks for value in ask.answers),
                InnerCalls.of(level.path, list(map(id, below.parts)), tracer.visits.met[first:]),
                ground, PythonState.of(held, Shadow, ground, draws=False),
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
            own = returned.is_marked or returned.requires_grad or handle.twin.is_complex()
            if busy or part or own or handle.key in taken:
                raise Unmatched
            outputs.append(returned)
            return self.fresh(handle)
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
        for number, weight in enumerate(call.below.weights):
            if id(weight) in tracer.seen:
                memory, value, _ = tracer.lying(weight)
                if memory.version or memory.torn:
                    return None
                weights.setdefault(value, []).append(number)
        known, varying = {*call.inputs, *weights}, set[Value | None]((*call.inputs, *weights))
        slots = [each for each in weights if each.blob is not None]
        stages: list[Stage] = []
        for given, answers in [*((ask.given, ask.answers) for ask in call.asks), (call.results, ())]:
            roots = fresh_of(given)
            reached = walk.post_order(roots, stop=known.__contains__)
            stage = Stage.of(call.path, call.numbered, roots, reached, varying, slots)
            if stage is None:
                return None
            stages.append(stage)
            known.update((*reached, *answers))
            varying.update(answers)
        rest = Counter(call.counts)
        for ask in call.asks:
            rest -= Counter(ask.segment) + Counter(ask.names)
        writes = len(tracer.record.overwritten)
        names = [each.name for each in handed_on([call.results, *(ask.given for ask in call.asks)])]
        numbers = {name: call.numbered(name) for name in names}
        return attrs.evolve(call, weights=weights, stages=tuple(stages), rest=rest, writes=writes, numbers=numbers)

    # ------------------------------------------------------------------------------------------ the others

    def again(self, call: Called, below: Below, values: Sequence[Value]) -> Again | None:
        """A call with the weights of another module, of other values; None where these are not as they were."""
        tracer = self.tracer
        if call.is_overwritten(tracer.record.overwritten):
            return None
        path, taken = tracer.modules[-1], dict(tracer.counts)
        before = self.once_before(call, below, values)
        last = None if before is None or before.below is not below else before.repeated
        repeated = tracer.visits.again(call.inner, path, below.parts, last)
        if before is not None:
            return Again(call, before.values, path, repeated, taken, None, before)
        swaps = dict(zip(call.inputs, values, strict=True))
        outside, as_entered = tracer.record.outside, True
        for old, numbers in call.weights.items():
            new = None
            for number in numbers:
                weight = below.weights[number]
                memory, held, _ = tracer.lying(weight)
                if memory.version or memory.torn or memory.stale or (new is not None and held is not new):
                    return None  # it is written, or what was one tensor there is two here
                as_entered = as_entered and outside.get(id(weight)) is held
                new = held
            if new is None or new.type != old.type or new.op != old.op:
                return None
            swaps[old] = new
        return Again(call, swaps, path, repeated, taken, below if as_entered else None)

    def once_before(self, call: Called, below: Below, values: Sequence[Value]) -> TakenOver | None:
        """In a trial, the same call in the run before, where that took over the same with these inputs and weights;
        None elsewhere, and where anything from outside was written."""
        tracer, place = self.tracer, id(below.parts[0])
        if tracer.before is None:
            return None
        calls, count = tracer.before.taken.get(place, ()), self.times.get(place, 0)
        if count >= len(calls) or tracer.effects.get("outside"):
            return None
        found = calls[count]
        if not found.is_of(call.below.parts[0], call.inputs, call.fresh, call.answers):
            return None
        there = found.values
        for old, new in zip(call.inputs, values, strict=True):
            if there[old] is not new:
                return None
        if found.below is below:
            return found
        weights, known = below.weights, tracer.before.outside
        same = all(
            known.get(id(weights[number])) is there[old] for old, numbers in call.weights.items() for number in numbers
        )
        return found if same else None

    def grown(self, found: Again, number: int) -> Again:
        """The same with the values of a stage, too."""
        if found.before is not None:
            return found  # which has the values of all stages
        values = found.call.stages[number].again(found.values, found.path, found.repeated, found.taken)
        known = values if self.tracer.before is None else recognize_values(self.tracer.index, values)
        return found.over(known, None)

    def taken(
        self, found: Again, own: Sequence[torch.nn.Module], given: Sequence[Traced], objects: Sequence[Any],
        block: Unmet,
    ) -> Any:  # fmt: skip
        """The results of a call as the model gets them, which count as met; objects are asked what they were asked,
        which is met in the `block` that is not."""
        tracer, call = self.tracer, found.call
        found = self.as_before(found, own[0])
        places = dict(zip(map(id, call.below.parts), map(id, own), strict=True)) if call.read else {}
        self.reads += [(places[place], name) for place, name in call.read]
        tracer.visits.take(found.repeated)
        known = list(given)
        for number, ask in enumerate(call.asks):
            found = self.grown(found, number)
            add_counts(tracer.counts, ask.segment)
            tracer.first_met([found.values[value] for value in call.stages[number].roots])
            args, kwargs = self.shown(found, ask.given, known, own)
            before, new = dict(tracer.counts), []
            tracer.modules.append(found.repeated.path_of(call.path + ask.inside, tracer.modules[-1] + ask.inside))
            with Met(block):
                returned = method_of(objects[ask.holder], ask.attribute, ask.method)(*args, **kwargs)
            tracer.modules.pop()
            named = tracer.before is not None or names_since(tracer.counts, before) == ask.names
            same = self.key(returned, new) == ask.key and self.seen_of(objects) == ask.seen
            if not same or not named:  # a trial takes no name for what it met before
                tracer.unequal = True
                raise Unequal
            answers = [tracer.read(tracer.handle(each)) for each in new]
            found = self.answered(found, ask.answers, answers)
            known += new
        found = self.grown(found, -1)
        add_counts(tracer.counts, call.rest)
        tracer.calls += call.operators
        add_counts(tracer.scope.decomposed, call.decomposed)
        tracer.first_met([found.values[value] for value in call.stages[-1].roots])
        if tracer.before is None:
            tracer.record.taken.setdefault(id(own[0]), []).append(found.taken_over(found.values))
        return self.shown(found, call.results, known, own)

    def as_before(self, found: Again, module: torch.nn.Module) -> Again:
        """In a trial, the same with what its values became in the run before, where that took over the same."""
        tracer, place = self.tracer, id(module)
        if tracer.before is None:
            return found
        calls, count = tracer.before.taken.get(place, ()), self.times.get(place, 0)
        self.times[place] = count + 1
        if found.before is not None:
            return found
        if count < len(calls) and calls[count].is_again(found.taken_over(found.values)):
            return found.over(calls[count].values, calls[count])
        tracer.open_index()
        return found

    def answered(self, found: Again, asked: Sequence[Value], answers: Sequence[Value]) -> Again:
        """The same with what came as answers, which may be others than in the run before."""
        new, before = dict(zip(asked, answers, strict=True)), found.before
        if before is not None and all(before.values[old] is answer for old, answer in new.items()):
            return found
        if before is not None:
            self.tracer.open_index()
        return found.over({**found.values, **new}, None)

    def shown(self, found: Again, results: Any, known: Sequence[Traced], own: Sequence[torch.nn.Module]) -> Any:
        """Results as the model gets them, or what it hands over."""
        kind = type(results)
        if kind is Fresh:
            twin, value = results.twin, found.values[results.value]
            made = torch.empty_strided(twin.shape, twin.stride(), dtype=twin.dtype, device=META)
            number = found.call.numbers.get(results.name)
            name = results.name if number is None else name_after(found.taken, number)
            return self.tracer.shown(Handle(made, Memory(value, twin=made), (), value, 0, name, results.kind))
        if kind is Given:
            return known[results.index]
        if kind is Answer:
            return known[results.index + len(found.call.inputs)]
        if kind is Number:
            held, name = own[results.module], results.name
            return getattr(held, name) if self.marks else held.__dict__[name]
        if kind is list or kind is tuple:
            return kind([self.shown(found, each, known, own) for each in results])
        if kind is dict:
            return {name: self.shown(found, each, known, own) for name, each in results.items()}
        return results

    def compare(self, found: Again, returned: Any, level: Level) -> None:
        """Notes where a module gave something else than what was expected of it, or asked it."""
        call, index, pairs = found.call, Index({}, nameless=made_for_once(self.tracer), unknown=True), []
        alike = [form_of(ask) for ask in call.asks] == [form_of(ask) for ask in level.asks]
        if not alike or level.failed or not level.standing.is_kept() or self.tells_which(level):
            self.tracer.unequal = True
            return
        given = [found.values[value] for value in (*call.inputs, *call.weights)]
        handed = set[Value]()
        for number, (ours, theirs) in enumerate(zip(call.asks, level.asks, strict=True)):
            found = self.grown(found, number)
            handed.update(fresh_of(theirs.given))
            pairs += zip([found.values[v] for v in fresh_of(ours.given)], fresh_of(theirs.given), strict=True)
            found = found.over({**found.values, **dict(zip(ours.answers, theirs.answers, strict=True))}, found.before)
            given += [
                value for value in theirs.answers if value not in handed
            ]  # an empty cache gives back what it gets
        found = self.grown(found, -1)
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


@attrs.frozen(eq=False, slots=False)
class Again:
    """A call that is taken over: what its values become, at which path, with which calls of modules `repeated` in it,
    and how many names are `taken` before it; what its module is made of, where each weight is what it was when the run
    met it first; and the same call in the run `before`, in a trial in which all of them become what they became there.
    """

    call: Called
    values: Mapping[Value, Value]
    path: str
    repeated: Repeated
    taken: Mapping[str, int]
    below: Below | None
    before: TakenOver | None = None

    def over(self, values: Mapping[Value, Value], before: TakenOver | None) -> Again:
        """The same, where values become these."""
        return Again(self.call, values, self.path, self.repeated, self.taken, self.below, before)

    def taken_over(self, values: Mapping[Value, Value]) -> TakenOver:
        """What is to be known of it in a trial, where values have become these."""
        call = self.call
        first = call.below.parts[0]
        return TakenOver(first, call.inputs, call.fresh, call.answers, values, self.below, self.repeated)


# ---------------------------------------------------------------------------------------------- while a model runs


@contextmanager
def reuse_equal_modules(tracer: Tracer, around: Surroundings) -> Iterator[None]:
    """A block in which calls of modules that are like one before are made of what that computed; `around` is what the
    model reaches beside its modules."""
    likes = tracer.likes
    if not likes.chosen:
        yield
        return
    calls = Calls(tracer=tracer, around=around, likes=likes, last=likes.last if tracer.before is None else frozenset())
    watches = [(cls, name, Watch(name, calls)) for cls, name in likes.different]
    calls.watched = {(cls, name) for cls, name, _ in watches}
    try:
        for cls, name, watch in watches:
            setattr(cls, name, watch)
        if not likes.forwards:
            forwards = {cls: forward_of(likes.running, cls) for cls in set(map(type, likes.chosen))}
            likes.forwards.update({id(module): forwards[type(module)](module) for module in likes.chosen})
        likes.running.append(calls)
        for module, forward in zip(likes.chosen, likes.forwards.values(), strict=True):
            module.__dict__["forward"] = forward
        with identity_noted((*likes.classes, torch.Tensor), calls.looked_up):
            yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if calls.marked:  # not everything takes a mark for the number that it is
            raise Unequal from error
        raise
    finally:
        likes.running.clear()
        for module in likes.chosen:
            module.__dict__.pop("forward", None)
        for cls, name, _ in watches:
            delattr(cls, name)


def forward_of(running: Sequence[Calls], cls: type) -> Callable[[torch.nn.Module], Callable[..., Any]]:
    """The forward of modules of a class that looks for a call like it first, in the run that is being made: a function
    of the module, whose attribute it is in every run, so that it is no change of that."""
    own = cls.forward
    if not inspect.isfunction(own):
        return lambda module: functools.wraps(module.forward)(functools.partial(met_first, running, module))

    @functools.wraps(own)
    def forward(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return running[-1].called(module, types.MethodType(cls.forward, module), args, kwargs)

    return functools.partial(types.MethodType, forward)


def met_first(running: Sequence[Calls], module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """What a module gives, where it may be like one that was called."""
    own = inspect.getattr_static(type(module), "forward")
    bound = own.__get__(module, type(module)) if hasattr(own, "__get__") else own
    return running[-1].called(module, bound, args, kwargs)


# ---------------------------------------------------------------------------------------------- layers of a graph


def alike_layers(taken: Mapping[int, Sequence[TakenOver]]) -> list[Alike]:
    """The layers of a run that are alike: the calls that were made of the same one, of those that were taken over by
    each module."""
    groups: dict[Any, list[TakenOver]] = {}
    for each in chain.from_iterable(taken.values()):
        known = (*each.inputs, *each.given, *each.answers)
        groups.setdefault((id(each.first), *map(id, known)), []).append(each)
    return [alike for group in groups.values() if len(group) >= LEAST and (alike := layers_alike(group)) is not None]


def layers_alike(taken: Sequence[TakenOver]) -> Alike | None:
    """A call and those that were made of its values, as layers; None where a value in it is not known in each."""
    first = taken[0]
    same = {x for x, y in first.values.items() if x is y}
    given = same.union(first.inputs)
    results = list(dict.fromkeys((*first.given, *first.answers)))
    order = walk.post_order(results, stop=lambda x: x in given or not x.inputs)
    inner = [x for x in order if x not in given and x.inputs]
    used = dict.fromkeys(x for value in inner for x in value.inputs if x is not None)
    outer = [x for x in used if x in given or not x.inputs]
    each = [seen for one in taken if (seen := seen_in(one, inner, outer)) is not None]
    if len(each) < len(taken):
        return None
    return Alike(outer, inner, results, [{x: x for x in used} | {x: x for x in results}, *each])


def seen_in(taken: TakenOver, inner: Sequence[Value], outer: Sequence[Value]) -> Mapping[Value, Value] | None:
    """What the values of a call are in one that was made of it, those among them that were computed in between, too, by
    what it was answered; None where one of them is not known."""
    found = dict(taken.values)
    pairs = [(x, found[x]) for x in taken.answers if x not in taken.given]  # an empty cache gives back what it gets
    while pairs:
        x, y = pairs.pop()
        alike = x.op == y.op and x.type == y.type and x.attributes == y.attributes and not x.bodies and not y.bodies
        if not x.inputs or not alike or len(x.inputs) != len(y.inputs):
            continue
        for one, other in zip(x.inputs, y.inputs, strict=True):
            if one is not None and other is not None and one not in found:
                found[one] = other
                pairs.append((one, other))
            elif (one is None) is not (other is None) or (one is not None and found[one] is not other):
                return None
    return found if all(map(found.__contains__, (*inner, *outer))) else None
