"""Operators that were met before with equal arguments: what was found out of them then serves again.

Within a run, what torch says of layouts and requires of sizes hangs on the types, strides and numbers that an operator
is called with (`Entry`). A trial is a run of the same model at other sizes, so most of what it meets was met by the run
before it, on the very same values; where each question that was asked meanwhile has the same answer, the results are
the same values, too (`Record`). So a trial makes values only where it takes another way.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, cast

import attrs
import numpy as np
import sympy
import torch

from irkit import dims
from irkit.core import walk
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value, vertex
from irkit.core.origins import Origin, provenance
from irkit.core.remade_blobs import can_be_remade, computing_key, is_made_of_these, remade
from irkit.core.types import Tensor, Tuple, Type, dims_of, map_dims
from irkit.core.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.rewriting.numbering import is_random
from lowering.direct.tensors import META, Traced
from lowering.records.module_calls import Repeated
from lowering.records.sizes import is_unbacked

PLAIN = (torch.dtype, torch.device, torch.layout, torch.memory_format)
SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool)
SMALL = 64
"""Constants of up to this many elements are compared by content."""


@attrs.frozen(eq=False)
class Recipe:
    """How a result lies in memory: on its own, or as a view of the argument at `of`."""

    of: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    def twin(self, handles: Sequence[Any]) -> torch.Tensor:
        """A new tensor on the meta device that lies so."""
        if self.of < 0:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=META)
        return handles[self.of].twin.as_strided(self.shape, self.stride, self.offset)


@attrs.define(eq=False)
class Entry:
    """What is known of an operator with arguments of certain types and layouts.

    `twins` are what its converter was told of its results, `types` what it gave, `container` the type of a list of
    results, `same` the argument that it gives back. `expected` is what its converter is told, under `conditions`,
    `form` the operator that it makes of all operands of these types. By `chance` an operand lies in order.
    """

    twins: Any
    recipes: tuple[Recipe, ...]
    container: type | None = None
    types: tuple[Type, ...] | None = None
    same: int = -1
    kinds: tuple[int, ...] | None = None
    conditions: tuple[Any, ...] | None = None
    expected: Any = None
    chance: bool = False
    form: tuple[str, Any] | None = None


@attrs.frozen(eq=False, slots=False)
class Met:
    """An operator as it is called, with its tensors, and keys of their layouts; slots would take longer to be made."""

    func: Any
    given: Sequence[torch.Tensor]
    handles: Sequence[Any]
    plain: tuple[Any, ...]
    layout: Any

    def content(self, values: Sequence[Value], plain: tuple[Any, ...]) -> Any:
        """The key of what it is called with, where its tensors hold these values and the rest is `plain`."""
        return (id(self.func), plain, tuple(map(id, values)))  # an operator of torch takes long to be hashed


def gathered(handle_of: Any, given: Any, plain: list[Any], tensors: list[torch.Tensor], handles: list[Any]) -> bool:
    """Adds what arguments hold to the lists; False where something among them is not known."""
    for each in given:
        kind = type(each)
        if kind is Traced or isinstance(each, torch.Tensor):
            tensors.append(each)
            handles.append(handle_of(each))
            plain.append(torch.Tensor)
        elif kind is int or kind is bool or kind is str or each is None:
            plain += (kind, each)
        elif kind is float:
            plain += (kind, repr(each))
        elif kind is list or kind is tuple:
            plain += (kind, len(each))
            if not gathered(handle_of, each, plain, tensors, handles):
                return False
        elif kind in SIZES:
            plain += (kind, each.node.expr)
        elif isinstance(each, PLAIN):
            plain.append(each)
        else:
            return False
    return True


def as_met(tracer: Any, func: Any, aliases: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Met | None:
    """An operator as it is called; None where it is not to be remembered: in bodies, which keep conditions of their
    own, on complex numbers, and without tensors."""
    if tracer.frames or tracer.scope.numbers:
        return None
    plain: list[Any] = []
    tensors: list[torch.Tensor] = []
    handles: list[Any] = []
    if not gathered(tracer.handle, args, plain, tensors, handles):
        return None
    for name, each in kwargs.items():
        plain.append(name)
        if not gathered(tracer.handle, (each,), plain, tensors, handles):
            return None
    kinds = tuple([h.kind or tracer.kind(h) for h in handles])
    if not kinds or -1 in kinds:
        return None
    alike: Any = ()
    if aliases and len(handles) > 1:
        keys = [h.key for h in handles]
        alike = tuple(keys.index(key) for key in keys)
    known = tuple(plain)
    return Met(func, tensors, handles, known, (id(func), known, kinds, alike))


def recipe_of(twin: torch.Tensor, handles: Sequence[Any], aliases: bool) -> Recipe | None:
    """How a result lies in memory; None where that is not told by sizes and strides."""
    if twin.is_complex() or twin.is_neg():
        return None
    of = -1
    if aliases:
        key = twin.untyped_storage()._cdata
        of = next((i for i, h in enumerate(handles) if h.key == key), -1)
        if of >= 0 and handles[of].twin.dtype is not twin.dtype:
            return None
    return Recipe(of, tuple(twin.shape), twin.stride(), int(twin.storage_offset()) if of >= 0 else 0, twin.dtype)


def entry_of(met: Met, aliases: bool, twins: Any) -> Entry | None:
    """What is known of an operator once torch has told its results; None where that cannot be used again."""
    several = isinstance(twins, tuple | list)
    flat = list(twins) if several else [twins]
    if not all(isinstance(twin, torch.Tensor) for twin in flat):
        return None
    if aliases and not several:
        same = next((i for i, h in enumerate(met.handles) if h.twin is twins), -1)
        if same >= 0:
            return Entry(None, (), same=same)
    recipes = [recipe_of(twin, met.handles, aliases) for twin in flat]
    known = tuple(recipe for recipe in recipes if recipe is not None)
    if len(known) < len(recipes):
        return None
    container = (type(twins) if type(twins) in (tuple, list) else tuple) if several else None
    return Entry(flat if several else twins, known, container)


# ---------------------------------------------------------------------------------------------- another run


@attrs.frozen(eq=False)
class Outcome:
    """What an operator gave, the conditions that were asked meanwhile, as they hold, whether it is random, and the
    symbols of data that it was called with."""

    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    conditions: tuple[Any, ...]
    name: str
    random: bool
    of_data: frozenset[Any] = frozenset()


def symbols_of_data(plain: Sequence[Any]) -> frozenset[Any]:
    """The symbols of numbers that only data tells among what an operator is called with beside tensors."""
    found = (symbol for each in plain if isinstance(each, sympy.Basic) for symbol in each.free_symbols)
    return frozenset(symbol for symbol in found if is_unbacked(str(symbol)))


@attrs.frozen(eq=False)
class Stage:
    """How values of a call are made again, operands first: each with the number of its origin among `origins`, of which
    each has its name as `Called.numbered` tells it, and its path from that of the module on, None where it is not in
    it. `roots` are those that were asked for, `same` what hangs on nothing that is another in a call like it: that is
    made once; `slots` are the weights that constants among the values are made of, and `unknown` the sizes of which
    nothing is known, which are others in each call."""

    roots: tuple[Value, ...]
    values: Sequence[tuple[Value, int]]
    origins: Sequence[tuple[Origin, tuple[str, int] | None, str | None]]
    same: Mapping[Value, Value]
    slots: Sequence[Value]
    unknown: Sequence[sympy.Symbol]

    @classmethod
    def of(
        cls, path: str, numbered: Callable[[str], tuple[str, int] | None], roots: Sequence[Value],
        reached: Sequence[Value], varying: set[Value | None], slots: Sequence[Value],
    ) -> Stage | None:  # fmt: skip
        """The stage of a call of the module at a path in which values were reached; `varying` are those that are others
        in a call like it, and has those then that hang on them. None where one of them cannot be made again."""
        blobs = {each.blob for each in slots if each.blob is not None}
        hanging: list[Value] = []
        derived = False
        for value in reached:
            if value.op == PARAM or is_random(value):
                return None
            blob = value.blob
            if blob is not None and is_made_of_weights(blob):
                if not is_made_of_these(blob, blobs) or not can_be_remade(blob, blobs):
                    return None
                derived = True
            elif varying.isdisjoint(value.inputs):
                continue
            varying.add(value)
            hanging.append(value)
        places: dict[int, int] = {}
        origins: list[tuple[Origin, tuple[str, int] | None, str | None]] = []
        for origin in (value.origin for value in hanging):
            if id(origin) not in places:
                places[id(origin)] = len(origins)
                within = f"{origin.module}.".startswith(f"{path}.")
                inside = origin.module[len(path) :] if within else None
                origins.append((origin, numbered(origin.node), inside))
        same = {value: value for value in reached if value not in varying}
        values = [(value, places[id(value.origin)]) for value in hanging]
        unknown = unknown_sizes(hanging)
        if unknown and (unknown & unknown_sizes(varying.difference(hanging)) or any(map(says_sizes, hanging))):
            return None  # of another stage, or used where no type tells it
        return cls(tuple(roots), values, origins, same, slots if derived else (), list(unknown))

    def again(
        self, swaps: Mapping[Value, Value], path: str, repeated: Repeated, taken: Mapping[str, int]
    ) -> dict[Value, Value]:
        """`swaps` grown to the values, each with the origin that it has in a module at another path, where so many
        names were taken."""
        others = repeated.paths
        made: list[Origin] = []
        for origin, number, inside in self.origins:
            node = origin.node
            if number is not None:
                base, place = number
                place += taken.get(base, 0)
                node = f"{base}_{place}" if place else base
            module = origin.module if inside is None else path + inside
            if others is not None and origin.module in others:
                module = others[origin.module]
            made.append(provenance(node, origin.target, module, origin.source, origin.rules))
        new: dict[Value | None, Value | None] = {None: None, **self.same, **swaps}
        operand = new.__getitem__
        blobs: dict[Blob, Blob] = {old.attributes[0][1]: swaps[old].attributes[0][1] for old in self.slots}
        known: dict[object, Blob] = {}
        others_of = {each: dims.fresh() for each in self.unknown}
        types: dict[int, Type] = {}
        for value, place in self.values:
            inputs, attributes, kind = tuple(map(operand, value.inputs)), value.attributes, value.type
            if blobs and value.op == CONSTANT:
                attributes = (("value", remade(attributes[0][1], blobs, known)),)
            if others_of:
                if id(kind) not in types:
                    types[id(kind)] = map_dims(kind, lambda dim: dims.substitute(dim, others_of))
                kind = types[id(kind)]
            new[value] = vertex(value.op, inputs, attributes, value.bodies, kind, made[place])
        del new[None]
        return cast("dict[Value, Value]", new)


def unknown_sizes(values: Iterable[Value | None]) -> set[sympy.Symbol]:
    """The symbols in the types of values that stand for sizes of which nothing is known."""
    return {symbol for each in values if each is not None for dim in dims_of(each.type) for symbol in fresh_of(dim)}


def fresh_of(dim: dims.Dim) -> list[sympy.Symbol]:
    """The symbols of a size that stand for what nothing is known of."""
    return [] if type(dim) is int else [each for each in dims.symbols_of(dim) if dims.is_fresh(each)]


UNKNOWN = dims.fresh()
"""Any of these."""


def says_sizes(value: Value) -> bool:
    """Whether a value has sizes of which nothing is known among its attributes, or in its bodies."""
    return bool(value.bodies) or (value.op == SHAPE_VECTOR and any(map(dims.is_fresh, value.attributes[0][1])))


@attrs.frozen(eq=False, slots=False)
class TakenOver:
    """A call that was made of the values of one before it: of which module that was a call, over which `inputs`, what
    it gave and handed over and what it was answered; and what each of these values became. `below` is what the module
    that called was made of, where each of its weights was what it was when the run met it first; None elsewhere.
    `repeated` are the calls of modules in it."""

    first: torch.nn.Module
    inputs: tuple[Value, ...]
    given: tuple[Value, ...]
    answers: tuple[Value, ...]
    values: Mapping[Value, Value]
    below: object = None
    repeated: Repeated | None = None

    def is_again(self, other: TakenOver) -> bool:
        """Whether another run takes over the same of the same, so that each value becomes what it became here."""
        same = self.is_of(other.first, other.inputs, other.given, other.answers)
        return same and all(self.values.get(old) is new for old, new in other.values.items())

    def is_of(
        self, first: torch.nn.Module, inputs: Sequence[Value], given: Sequence[Value], answers: Sequence[Value]
    ) -> bool:
        """Whether it was taken over of this call."""
        ours, theirs = (*self.inputs, *self.given, *self.answers), (*inputs, *given, *answers)
        return self.first is first and list(map(id, ours)) == list(map(id, theirs))

    @property
    def made(self) -> list[Value]:
        """What became of that which it gave and handed over."""
        return [self.values[value] for value in self.given]


@attrs.define(eq=False, slots=False)
class Record:
    """What a run has met: what its operators gave, in order; what tensors from outside held, by identity or, where they
    are small, by content; what was written, and what was there before, in order; the parameters that stand for state,
    by its first content; the calls of each module that were taken over, in order, by its identity; and the values that
    symbols of data stand for."""

    outcomes: list[tuple[Met, Outcome]] = attrs.field(factory=list)
    outside: dict[int, Value] = attrs.field(factory=dict)
    small: dict[Any, Value] = attrs.field(factory=dict)
    written: list[Value] = attrs.field(factory=list)
    overwritten: list[Value] = attrs.field(factory=list)
    states: dict[Value, Value] = attrs.field(factory=dict)
    taken: dict[int, list[TakenOver]] = attrs.field(factory=dict)
    binders: Mapping[Any, tuple[Value, bool]] = attrs.field(factory=dict)
    numbers: Mapping[Any, Value] = attrs.field(factory=dict)

    @property
    def told_by_data(self) -> dict[Any, tuple[Value, bool]]:
        """What each symbol of data stands for: a value, and whether for what that holds or for how long it is."""
        return {**self.binders, **{symbol: (value, True) for symbol, value in self.numbers.items()}}

    def index_at(self, point: Mapping[Any, int], closed: bool = False) -> Index:
        """The values of the run, for a trial at a point to find its own among; a `closed` one is made sooner, and will
        do as long as the trial takes over what the run did."""
        operands = [v for _, each in self.outcomes for v in each.operands]
        roots = [v for _, each in self.outcomes for v in each.results]
        taken = [v for calls in self.taken.values() for each in calls for v in each.made] if closed else []
        found = Index(point, dict(zip(taken, taken, strict=True)), closed=closed)
        found.include((*operands, *roots, *self.written, *(value for value, _ in self.told_by_data.values())))
        for met, each in self.outcomes:
            found.outcomes.setdefault(found.key_of(met, each.operands), []).append(each)
        return found


@attrs.define(eq=False)
class Index:
    """Of each value of a run the one that stands for all that compute the same at a point, where some symbols are
    numbers; these by what they are, with the contents of small constants; and what the operators gave by what they were
    called with, in order. In one that is `closed`, what was taken over stands for itself, and what that is computed of
    is not looked at. Constants with names in `nameless` are told by their contents, too, and with `unknown` types that
    differ in sizes of which nothing is known are equal."""

    point: Mapping[Any, int]
    same: dict[Value, Value] = attrs.field(factory=dict)
    nodes: dict[Any, Value] = attrs.field(factory=dict)
    outcomes: dict[Any, list[Outcome]] = attrs.field(factory=dict)
    contents: dict[Value | None, np.ndarray] = attrs.field(factory=dict)
    settled: dict[Any, Any] = attrs.field(factory=dict)
    types: dict[int, tuple[Type, Any]] = attrs.field(factory=dict)
    kinds: dict[int, tuple[Type, Any]] = attrs.field(factory=dict)
    empty: dict[int, tuple[Type, bool]] = attrs.field(factory=dict)
    closed: bool = False
    nameless: Container[str] = ()
    unknown: bool = False

    def include(self, roots: Sequence[Value]) -> None:
        """Takes in what values are computed of."""
        same = self.same
        for value in walk.post_order(tuple(roots), stop=same.__contains__):
            inputs = [None if v is None else same[v] for v in value.inputs]
            same[value] = value if value.op == PARAM else self.stand_in(value, inputs, value)

    def stand_in(self, value: Value, inputs: Sequence[Value | None], otherwise: Value) -> Value:
        """The value that computes the same as one whose operands stand for all like them: one of them, one that is
        known, or else this, which from now on is."""
        plain = self.operand_itself(value, inputs)
        if plain is not None:
            return plain
        content = self.content(value, inputs)
        key = self.key(value, inputs) if content is None else (content.dtype.num, content.shape, content.tobytes())
        if key is None:
            return otherwise
        found = self.nodes.setdefault(key, otherwise)
        if content is not None:
            self.contents[found] = content
        return found

    def operand_itself(self, value: Value, inputs: Sequence[Value | None]) -> Value | None:
        """The operand that an operator gives back at the point; None where it computes something."""
        op = value.op
        if op == "Concat":
            whole = [v for v, own in zip(inputs, value.inputs, strict=True) if not self.is_empty(own)]
            return whole[0] if len(whole) == 1 and len(inputs) > 1 else None
        unit = UNITS.get(op)
        if unit is None and op not in RESHAPING and op != "Slice":
            return None
        first = value.inputs[0]
        if first is None or self.type_at(value.type) != self.type_at(first.type):
            return None
        if op in RESHAPING or (op == "Slice" and self.goes_on(inputs)):
            return inputs[0]
        if unit is None or not value.dtype.is_integer or inputs[1] not in self.contents:
            return None
        return inputs[0] if bool((self.contents[inputs[1]] == unit).all()) else None

    def goes_on(self, inputs: Sequence[Value | None]) -> bool:
        """Whether the steps of a Slice are known, and positive."""
        steps = inputs[4] if len(inputs) > 4 else None
        return steps is None or (steps in self.contents and bool((self.contents[steps] > 0).all()))

    def content(self, value: Value, inputs: Sequence[Value | None]) -> np.ndarray | None:
        """The content of a small constant, or of sizes that are numbers at the point; None elsewhere."""
        if value.op == CONSTANT:
            blob = value.blob
            named = blob is not None and blob.name and blob.name not in self.nameless
            return None if blob is None or blob.size > SMALL or named else blob.array
        if value.op == SHAPE_VECTOR:
            sizes = self.at(value.attributes[0][1])
            return np.array(sizes, np.int64) if dims.are_numbers(sizes) else None
        if value.op in MOVING and inputs[0] in self.contents:
            return self.contents[inputs[0]].reshape(self.type_at(value.type)[1])
        return None

    def is_empty(self, value: Value | None) -> bool:
        """Whether a tensor has no elements at the point."""
        if value is None:
            return False
        known = self.empty.get(id(value.type))
        if known is None:
            sizes = self.type_at(value.type)[1] if isinstance(value.type, Tensor) else ()
            known = self.empty[id(value.type)] = (value.type, 0 in sizes)
        return known[1]

    def key(self, value: Value, inputs: Sequence[Value | None]) -> Any:
        """Equal for nodes that compute the same of the same operands at the point; None where that is not known."""
        if value.op == PARAM or value.bodies or is_random(value) or not isinstance(value.type, Tensor | Tuple):
            return None
        if value.op == CONSTANT:
            blob = value.blob
            if blob is None or blob.size > SMALL:  # a weight: by itself, and what is computed of some by that
                return None if blob is None else computing_key(blob)
            return (CONSTANT, *content_of(blob))
        attributes = value.attributes
        if attributes and any(isinstance(each, Blob) for _, each in attributes):
            return None
        kind = self.kind_at(value.type) if self.unknown else self.type_at(value.type)
        return (value.op, tuple(map(id, inputs)), attributes and self.at(attributes), kind)

    def stand_for_the_same(self, one: Record, other: Record, symbols: Iterable[Any] | None = None) -> bool:
        """Whether symbols of data, or all that two runs have in common, stand for the same in both: they are counted,
        and a run that takes another way comes to others."""
        ours, theirs = one.told_by_data, other.told_by_data
        for symbol in ours.keys() & theirs.keys() if symbols is None else symbols:
            if symbol not in ours or symbol not in theirs:
                return False
            (value, held), (again, also) = ours[symbol], theirs[symbol]
            if held is not also or self.same.get(value, value) is not self.same.get(again, again):
                return False
        return True

    def by_one_operator(self, a: Value, b: Value) -> bool:
        """Whether two values are computed by the same operator at the point, with as many operands."""
        if a.op != b.op or a.op in (PARAM, CONSTANT) or a.bodies or b.bodies:
            return False
        given = [each is None for each in a.inputs] == [each is None for each in b.inputs]
        return given and self.at(a.attributes) == self.at(b.attributes) and self.type_at(a.type) == self.type_at(b.type)

    def key_of(self, met: Met, values: Sequence[Value]) -> Any:
        """The key of an operator that is called with tensors which hold these values."""
        return met.content([self.same.get(v, v) for v in values], self.at(met.plain))

    def kind_at(self, type_: Type) -> Any:
        """The same, and equal for types that differ in sizes of which nothing is known: what an operator gives of the
        same operands has the same ones, though it has other symbols for them each time."""
        known = self.kinds.get(id(type_))
        if known is None:
            unknown = {symbol: UNKNOWN for dim in dims_of(type_) for symbol in fresh_of(dim)}
            plain = map_dims(type_, lambda dim: dims.substitute(dim, unknown)) if unknown else type_
            known = self.kinds[id(type_)] = (type_, self.type_at(plain))
        return known[1]

    def type_at(self, type_: Type) -> Any:
        """What a type is at the point; equal for equal types."""
        known = self.types.get(id(type_))
        if known is None:
            parts = type_.items if isinstance(type_, Tuple) else ()
            told = (type_.dtype, self.at(type_.shape)) if isinstance(type_, Tensor) else tuple(map(self.type_at, parts))
            known = self.types[id(type_)] = (type_, told)
        return known[1]

    def at(self, given: Any) -> Any:
        """Something with the numbers of the point in its sizes."""
        if not self.point:
            return given
        if isinstance(given, tuple):
            if given not in self.settled:
                self.settled[given] = tuple([self.at(each) for each in given])
            return self.settled[given]
        if isinstance(given, sympy.Basic) and given.free_symbols & self.point.keys():
            if given not in self.settled:
                whole = isinstance(given, sympy.Expr)
                self.settled[given] = dims.substitute(given, self.point) if whole else given.xreplace(self.point)
            return self.settled[given]
        return given


def equal_at(point: Mapping[str, int], graph: Graph, other: Graph) -> bool:
    """Whether two graphs over the same parameters compute the same of them where names have the sizes of a point."""
    return len(graph.results) == len(other.results) and not unlike_at(point, graph, other, len(graph.results))


def unlike_at(point: Mapping[str, int], graph: Graph, other: Graph, count: int) -> list[int]:
    """The places of those of the last so many results of two graphs that are not computed alike of the same parameters
    where names have the sizes of a point."""
    places = range(-count, 0)
    if graph.params != other.params:
        return list(places)
    index = Index({dims.symbol(name): size for name, size in point.items()})
    index.include((*graph.results, *other.results))
    shared = {*walk.post_order(graph.results)} & {*walk.post_order(other.results)}
    drawn = {value: value for value in shared if is_random(value)}
    return [place for place in places if not computed_alike(index, graph.results[place], other.results[place], drawn)]


def computed_alike(index: Index, one: Value, two: Value, drawn: dict[Value, Value]) -> bool:
    """Whether two values are the same at the point of an index, or computed by the same operators of such that are; of
    random ones each stands for one of the other graph, as those that were `drawn` do."""
    pending, seen = [(one, two)], set[tuple[Value, Value]]()
    while pending:
        a, b = pending.pop()
        same = index.same[a] is index.same[b] and index.type_at(a.type) == index.type_at(b.type)
        if same or (a, b) in seen:
            continue
        seen.add((a, b))
        if not index.by_one_operator(a, b):
            return False
        if is_random(a) and (drawn.setdefault(a, b) is not b or drawn.setdefault(b, a) is not a):
            return False
        pending += [(a, b) for a, b in zip(a.inputs, b.inputs, strict=True) if a is not None and b is not None]
    return True


RESHAPING = ("Reshape", "Expand", "Tile", "Cast", "Identity")
"""Operators that give back their operand where it has the sizes asked for."""
UNITS = {"Add": 0, "Sub": 0, "Mul": 1}
"""The second operand with which an operator on integers gives back the first."""
MOVING = ("Squeeze", "Unsqueeze", "Reshape")
"""Operators that give the elements of their operand in order."""


def is_made_of_weights(blob: Blob) -> bool:
    """Whether a content is computed of others, as a part of a weight is."""
    return bool(blob.of or blob.parts or blob.turned is not None)


def content_of(blob: Blob) -> tuple[Any, ...]:
    """The content of a small constant."""
    return (blob.dtype, blob.shape, blob.name, blob.array.tobytes())


def content_of_tensor(tensor: torch.Tensor) -> Any:
    """The content of a small tensor; None for a large one."""
    if tensor.numel() > SMALL or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return None
    return (tensor.dtype, tuple(tensor.shape), tensor.stride(), repr(tensor.tolist()))


def recognize_values(index: Index, new: Mapping[Value, Value]) -> Mapping[Value, Value]:
    """What values become, each replaced by the one of the run before that computes the same, where there is one."""
    swaps: dict[Value, Value] = {}
    for value in new.values():
        if value not in swaps and value not in index.same:
            inputs = tuple([None if i is None else swaps.get(i, i) for i in value.inputs])
            made = value if inputs == value.inputs else value.with_inputs(inputs)
            swaps[value] = index.stand_in(made, [None if i is None else index.same.get(i, i) for i in inputs], made)
    return {old: swaps.get(value, value) for old, value in new.items()}
