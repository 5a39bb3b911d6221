"""Objects that modules are handed and call methods of, as the layers of a decoder do with a cache.

A module that is taken over from one like it does not run, but what it asks of such an object is asked all the same: the
method is called, with what the module would have handed to it. So what a cache does with a layer is its own business.
The number by which a layer tells the cache which one it is, an attribute in which layers differ, may go there and
nowhere else.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import torch
from torch.autograd import forward_ad

from irkit.core.ir import Value
from irkit.core.vocabulary import CONSTANT
from lowering.capture.inputs.alike import INEXACT, SIMPLE, Likes, functions_of, own_attributes
from lowering.capture.inputs.objects import (
    ASKED,
    Known,
    Mark,
    Shadow,
    are_objects,
    code_tells_which,
    functions_called,
    identity_tells,
    is_asked_only,
    names_read_by,
    shadow_methods,
    value_tells_which,
    without_marks,
)
from lowering.capture.inputs.python_state import PythonState
from lowering.capture.inputs.surroundings import Surroundings
from lowering.capture.inputs.torch_settings import settings_key
from lowering.direct.kernel_sizes.lookups import unused_lookups
from lowering.direct.repeats import SIZES
from lowering.direct.tensors import Handle, Traced
from lowering.direct.tracer import Tracer


class Unmatched(Exception):
    """A call that is not compared with others."""


class Unequal(Exception):
    """A module does something else than one like it: none may be taken over."""


# ---------------------------------------------------------------------------------------------- what is asked


@attrs.frozen(eq=False)
class Fresh:
    """A result of a call: a tensor of memory of its own, with the number of its type and layout."""

    twin: torch.Tensor
    value: Value
    name: str
    kind: int


@attrs.frozen(eq=False)
class Given:
    """A result of a call: its argument number `index`."""

    index: int


@attrs.frozen(eq=False)
class Number:
    """An argument: the attribute `name` of the module at a place among the children of the one that runs."""

    module: int
    name: str


@attrs.frozen(eq=False)
class Answer:
    """An argument: a tensor that was the answer to an earlier question, its number among all of these."""

    index: int


@attrs.frozen(eq=False)
class Ask:
    """A method of an object that a module was handed, or of a list or dict that is an `attribute` of that, as the
    module called it.

    `holder` is the object's number among those handed in, and `seen` what could be seen of all these afterwards without
    asking; `answers` are what the tensors hold that were returned, `key`
    is equal for returned tensors of equal types and layouts; `segment` are the names taken since the question before,
    `names` those taken to answer, with as many `operators`, and `decomposed`. `inside` is the path of the child that
    asked, from the module on.
    """

    holder: int
    attribute: str | None
    method: str
    given: Any
    answers: tuple[Value, ...]
    key: Any
    segment: Mapping[str, int]
    names: Mapping[str, int]
    operators: int
    decomposed: Mapping[str, int]
    inside: str
    seen: Any


CALLABLE = (types.FunctionType, types.MethodType, partial)
"""Types of attributes of modules that are functions."""


@attrs.define(eq=False)
class Level:
    """What a module has asked since it began to run, with the tensors and objects that it was given; `described` says
    what it hands over. `effects` and `writes` are what the run has left behind but for answers, `born` the numbers of
    the tensors made for these, `held` the tensors that it got with the number of their references, `settled` the
    memories of all that passed with their versions, `standing` how what Python code may change stood when the last
    question was answered, as far as it is around the model or reached by arguments. `failed` says that what it asked
    cannot be asked by another."""

    module: torch.nn.Module
    path: str
    given: Sequence[Any]
    objects: Sequence[Any]
    standing: PythonState
    effects: Any
    counts: Counter[str]
    writes: int
    first: int
    begun: int
    asks: list[Ask] = attrs.field(factory=list)
    born: list[range] = attrs.field(factory=list)
    held: list[tuple[weakref.ref[Any], int]] = attrs.field(factory=list)
    settled: list[tuple[Any, int]] = attrs.field(factory=list)
    failed: bool = False
    codes: Mapping[int, tuple[types.CodeType, Known]] = {}

    def place_of(self, mark: Mark) -> Number:
        """An attribute of the module or a child. Raises Unmatched for another's."""
        identity, name = mark.place
        index = next((i for i, each in enumerate(self.module.modules()) if id(each) == identity), None)
        if index is None:
            raise Unmatched
        return Number(index, name)

    def answer_of(self, tensor: Any) -> Answer | None:
        """The number of an answer; None for another tensor."""
        index = next((i for i, (each, _) in enumerate(self.held) if each() is tensor), None)
        return None if index is None else Answer(index)

    def keeps_answers(self) -> bool:
        """Whether more hold an answer now than when it was given, beside the tuple in which it came."""
        for each, count in self.held:
            tensor = each()
            if tensor is not None and sys.getrefcount(tensor) > count:
                return True
        return False

    def include(self, answers: Sequence[Any]) -> None:
        """Takes in the tensors of an answer, which the caller holds in a list, and in what was returned."""
        for tensor in answers:
            self.held.append((weakref.ref(tensor), sys.getrefcount(tensor) - 2))
            self.settled.append((tensor.handle.memory, tensor.handle.memory.version))

    def is_settled(self) -> bool:
        """Whether nothing was written since into what was handed over or answered."""
        return all(memory.version == version and not memory.torn for memory, version in self.settled)

    def is_answer(self, number: int) -> bool:
        """Whether the tensor of a number was made for an answer."""
        return any(number in each for each in self.born)


def require_asked_only(likes: Likes, parts: Sequence[torch.nn.Module], objects: Sequence[Any]) -> None:
    """Raises Unmatched where modules may see of an object more than what is noted."""
    classes = (*dict.fromkeys(map(type, parts)),)
    kinds = (*dict.fromkeys(map(type, objects)),)
    if kinds and not likes.remembered((classes, kinds), lambda: are_asked_only(classes, kinds)):
        raise Unmatched


def are_asked_only(classes: Sequence[type], kinds: Sequence[type]) -> bool:
    """Whether modules of some classes see no more of objects of some kinds than what is noted."""
    functions = functions_called(classes)
    names = names_read_by(functions)
    return all(is_asked_only(kind, names) for kind in kinds) and not identity_tells(functions)


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

    return (ask.holder, ask.attribute, ask.method, form(ask.given), ask.key, ask.seen)


def tensors_of(returned: Any) -> list[Traced]:
    """The tensors among results."""
    if isinstance(returned, Traced):
        return [returned]
    each = returned.values() if isinstance(returned, dict) else returned if isinstance(returned, list | tuple) else ()
    return [tensor for part in each for tensor in tensors_of(part)]


def fresh_of(results: Any) -> list[Value]:
    """The values among results."""
    return [each.value for each in handed_on(results)]


def handed_on(results: Any) -> list[Fresh]:
    """What is new among results."""
    if isinstance(results, Fresh):
        return [results]
    each = results.values() if isinstance(results, dict) else results if isinstance(results, list | tuple) else ()
    return [fresh for part in each for fresh in handed_on(part)]


def effects_of(tracer: Tracer) -> tuple[Any, ...]:
    """What else than values a call may leave: numbers out of data, conditions on it, writes, large new constants, and
    what was asked of contents."""
    scope, numbers = tracer.scope, {name: count for name, count in tracer.symbols.items() if name != "constant"}
    effects = {name: count for name, count in tracer.effects.items() if count}
    return (
        numbers, len(scope.checks), len(scope.numbers), len(scope.binders), effects,
        len(tracer.unexplained), len(tracer.asked.fixed),
    )  # fmt: skip


def in_vain(tracer: Tracer, before: int, returned: Any) -> bool:
    """Whether a call looked something up, since there were so many lookups, that nothing of its results uses."""
    made = tracer.scope.lookups[before:]
    return bool(made and unused_lookups(made, [tracer.read(tracer.handle(each)) for each in tensors_of(returned)]))


def made_for_once(tracer: Tracer) -> frozenset[str]:
    """The names of constants that a model made as it ran and has let go of, so that the tracer alone holds them: a
    layer that makes an equal one would do the same with that."""
    found: list[str] = []
    constants = [(identity, each) for identity, each in tracer.seen.items() if identity not in tracer.names]
    bases = {id(tensor) for _, tensor in tracer.memories.values()} if constants else set[int]()
    for identity, (tensor, _, _, name) in constants:
        holders = 3 + (identity in tracer.handles) + (identity in bases)  # two of this loop, and one is `seen`
        if sys.getrefcount(tensor) <= holders:
            found.append(name)
    return frozenset(found)


def surroundings() -> Any:
    """What of torch's own state tells how a module computes. Raises Unmatched where gradients are recorded."""
    transforms = torch._C._functorch.maybe_current_level() is not None  # type: ignore[attr-defined]
    if torch.is_grad_enabled() or forward_ad._current_level >= 0 or transforms:
        raise Unmatched
    return settings_key()


class Unmet:
    """A block in which what torch does is not met; a class, since a generator takes twice the calls, and each layer of
    each run has several."""

    def __enter__(self) -> Unmet:
        self.functions, self.dispatch = torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch()
        self.dispatcher = torch._C._DisablePythonDispatcher()
        self.functions.__enter__()
        self.dispatch.__enter__()
        self.dispatcher.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.dispatcher.__exit__(None, None, None)
        self.dispatch.__exit__(None, None, None)
        self.functions.__exit__(None, None, None)


@attrs.define(eq=False)
class Met:
    """A block in one that is not met, in which what torch does is met all the same."""

    around: Unmet

    def __enter__(self) -> None:
        self.around.__exit__()

    def __exit__(self, *_: object) -> None:
        self.around.__enter__()


@attrs.define(eq=False, kw_only=True)
class Asking:
    """The modules of a run that are noted, and what is `around` them: `levels` are those that run now, `answering` says
    that an object that they were handed does, `marked` that numbers of modules were read as marks, `reads` are the
    attributes read so far of those in which equal modules differ; `classes` says of a class whether its instances are
    such objects; `ground` is how what is around the model stood when that was last looked at."""

    tracer: Tracer
    around: Surroundings
    reads: list[tuple[int, str]] = attrs.field(factory=list)
    levels: list[Level] = attrs.field(factory=list)
    answering: bool = False
    marked: bool = False
    classes: dict[type, bool] = attrs.field(factory=dict)
    ground: PythonState | None = None

    def is_object(self, given: Any) -> bool:
        """Whether something is an object of a class of Python's, whose methods can be noted."""
        cls = type(given)
        if cls not in self.classes:
            self.classes[cls] = hasattr(given, "__dict__") and are_objects(cls)
        return self.classes[cls]

    def key(self, given: Any, tensors: list[Traced], objects: list[Any] | None = None) -> Any:
        """Equal for arguments of equal types and layouts, whose tensors are gathered, and other objects where these may
        be. Raises Unmatched."""
        return self.key_of(given, tensors, objects, [])

    def key_of(self, given: Any, tensors: list[Traced], objects: list[Any] | None, values: list[Value]) -> Any:
        """The same, where tensors that hold these `values` came before."""
        kind = type(given)
        if kind is Traced:
            handle = given.handle
            value = self.tracer.read(handle)
            layout = handle.kind or self.tracer.kind(handle)
            if layout < 0 or given.requires_grad or given.is_marked:
                raise Unmatched
            same = values.index(value) if value in values else -1
            values.append(value)
            tensors.append(given)
            return (kind, layout, same, id(value) if value.op == CONSTANT else None)
        if kind is tuple or kind is list:
            return (kind, *[self.key_of(each, tensors, objects, values) for each in given])
        if kind is dict:
            return (kind, *[(n, self.key_of(each, tensors, objects, values)) for n, each in given.items()])
        if isinstance(given, SIMPLE):
            return (kind, repr(given) if kind in INEXACT else given)
        if kind in SIZES:
            return (kind, given.node.expr)
        if isinstance(given, torch.Tensor) and id(given) in self.tracer.names:
            memory, _, _ = self.tracer.lying(given)
            if memory.version or memory.torn or memory.stale:
                raise Unmatched
            return (kind, id(given))  # a weight, which all of them are handed
        if objects is not None and self.is_object(given):
            return self.object_key(given, objects)
        raise Unmatched

    def object_key(self, given: Any, objects: list[Any]) -> Any:
        """Equal for the same object, of which modules see the same without asking it; it is gathered, with those that
        are attributes of it."""
        if any(each is given for each in objects):
            return id(given)
        objects.append(given)
        return (type(given), *self.seen(given, objects))

    def seen(self, given: Any, objects: list[Any]) -> Iterator[Any]:
        """What modules see of an object without asking it, and of those that are attributes of it, which are
        gathered."""
        for name, held in given.__dict__.items():
            if isinstance(held, SIMPLE):
                yield name, type(held), repr(held) if type(held) in INEXACT else held
            elif self.is_object(held):
                yield name, self.object_key(held, objects)
            elif type(held) is not Shadow:
                yield name, id(held)

    def seen_of(self, objects: Sequence[Any]) -> Any:
        """What modules see of some objects without asking them."""
        return tuple(tuple(self.seen(each, list(objects))) for each in objects)

    def read(self, holder: Any, name: str) -> Any:
        """An attribute of an object as a module gets it that runs now: of a list or dict the calls are noted."""
        held = holder.__dict__[name]
        if self.answering or not any(each is holder for level in self.levels for each in level.objects):
            return held
        kind = type(held)
        inside = held.values() if kind is dict else held if kind is list else ()
        if kind in ASKED and not any(isinstance(each, torch.Tensor) for each in inside):
            return ASKED[kind].of(held, partial(self.asked_of, holder, name), self.fail)
        self.fail()
        return held

    def fail(self) -> None:
        """Notes that the modules that run now see something that is not noted."""
        for level in self.levels:
            level.failed = True

    def looked_up(self) -> None:
        """Notes that one of several equal modules, or a weight, is looked up, which tells which it is."""
        if not self.answering:
            self.fail()

    def tells_which(self, level: Level) -> bool:
        """Whether something that ran in a module may ask which of several equal ones it is, or which weight."""
        judged = self.tracer.likes.judged
        for identity, (code, known) in level.codes.items():
            if identity not in judged:
                judged[identity] = (code, code_tells_which(code, known))
            if judged[identity][1]:
                return True
        held = (each for one in level.module.modules() for each in own_attributes(one).values())
        return any(type(each) in CALLABLE and value_tells_which(each) for each in held)

    def asked_of(
        self, holder: Any, attribute: str, name: str, method: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """What a method of a list or dict gives that is an attribute of an object, which is noted likewise."""
        return self.asked(holder, name, method, args, kwargs, attribute)

    @property
    def marks(self) -> bool:
        """Whether numbers of modules are read as marks: while one runs that was handed an object."""
        return not self.answering and any(level.objects for level in self.levels)

    @contextmanager
    def noting(self, level: Level) -> Iterator[None]:
        """A block in which a module runs whose questions to objects are noted."""
        outermost, tracer = not self.levels, self.tracer
        if outermost:
            tracer.codes, tracer.until = {}, level.begun
        self.levels.append(level)
        try:
            with shadow_methods(level.objects, self.asked, self.read, self.is_object):
                yield
        finally:
            self.levels.remove(level)
            level.codes = {**(tracer.codes or {})}
            if outermost:
                tracer.codes = None

    def asked(
        self, holder: Any, name: str, method: Callable[..., Any], args: Any, kwargs: Any, attribute: str | None = None
    ) -> Any:
        """What a method of an object gives, which is noted for the modules that run."""
        given, named = without_marks(args), without_marks(kwargs)
        if not self.levels or self.answering:
            return method(*given, **named)
        tracer = self.tracer
        with Unmet():
            handed = [self.handed(level, holder, (args, kwargs)) for level in self.levels]
        before, first = Counter(tracer.counts), len(tracer.alive)
        calls, decomposed = tracer.calls, Counter(tracer.scope.decomposed)
        self.answering = True
        try:
            returned = method(*given, **named)
        finally:
            self.answering = False
        with Unmet():
            before_it, ground = self.ground, self.grounded()
            standing = ground
            for level in self.levels:
                standing = level.standing.renewed(ground if level.standing.outer is before_it else standing)
                level.standing = standing
            new: list[Traced] = []
            try:
                key = self.key(returned, new)
            except Unmatched:
                key = None
            answers = tuple(tracer.read(tracer.handle(each)) for each in new)
            spent = Counter(tracer.scope.decomposed) - decomposed
            for level, told in zip(self.levels, handed, strict=True):
                level.failed = level.failed or told is None or key is None or not level.is_settled()
                if told is None:
                    continue
                own = next(i for i, each in enumerate(level.objects) if each is holder)
                names, seen = tracer.counts - before, self.seen_of(level.objects)
                level.asks.append(
                    Ask(
                        own, attribute, name, told, answers, key, before - level.counts, names, tracer.calls - calls,
                        spent, (tracer.modules or [""])[-1][len(level.path) :], seen,
                    )
                )  # fmt: skip
                level.counts, level.effects, level.writes = (
                    Counter(tracer.counts),
                    effects_of(tracer),
                    len(tracer.written),
                )
                level.born.append(range(first, len(tracer.alive)))
                level.include(new)
        return returned

    def handed(self, level: Level, holder: Any, given: Any) -> Any:
        """What a module hands to a method, to be made again; None where that cannot be."""
        if level.failed or not any(each is holder for each in level.objects) or self.left_something(level):
            return None
        try:
            return self.described(level, given)
        except Unmatched:
            return None

    def described(self, level: Level, given: Any) -> Any:
        """An argument of a method, to be made again. Raises Unmatched."""
        kind = type(given)
        if kind is Traced:
            handle = given.handle
            index = next((i for i, each in enumerate(level.given) if each is given), None)
            if index is not None:
                return Given(index)
            if given.requires_grad or handle.twin.is_complex() or handle.twin.is_neg():
                raise Unmatched
            level.settled.append((handle.memory, handle.memory.version))
            return level.answer_of(given) or self.fresh(handle)
        if kind is Mark:
            return level.place_of(given)
        if kind is tuple or kind is list:
            return kind([self.described(level, each) for each in given])
        if kind is dict:
            return {name: self.described(level, each) for name, each in given.items()}
        if isinstance(given, SIMPLE) or kind in SIZES:
            return given
        raise Unmatched

    def fresh(self, handle: Handle) -> Fresh:
        """What a handle says of a tensor, to be made again."""
        value = self.tracer.read(handle)
        return Fresh(handle.twin, value, handle.name, handle.kind or self.tracer.kind(handle))

    def left_something(self, level: Level) -> bool:
        """Whether a module has left something else behind than results, and than what it asked of objects."""
        tracer = self.tracer
        written = any(born < level.first for born in tracer.written[level.writes :])
        settled = level.effects == effects_of(tracer) and level.is_settled()
        return written or not settled or not level.standing.is_kept()

    def grounded(self) -> PythonState:
        """How what Python code may change stands that is around the model: the same as before if nothing changed."""
        if self.ground is None:
            functions = functions_of(self.tracer.likes.classes)
            self.ground = PythonState.around(self.around, functions, Shadow)
        elif not self.ground.is_kept():
            self.ground = self.ground.renewed(None)
        return self.ground

    def standing(self, arguments: Any) -> PythonState:
        """How what Python code may change stands that is around the model, or that arguments reach, as a module is
        called."""
        outer = self.levels[-1].standing if self.levels else None
        if outer is not None and outer.is_kept():
            return PythonState.of(arguments, Shadow, outer, draws=False)
        return PythonState.of(arguments, Shadow, self.grounded(), draws=True)
