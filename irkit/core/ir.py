"""The one vertex, `Value`, and the closed function over it, `Graph`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Protocol, cast

import attrs
import numpy as np
import sympy
from pyrsistent import PMap, pmap

from irkit.core import digest, finding, pickling, walk
from irkit.core.as_html import graph_html
from irkit.core.attributes import Attributes, freeze_attribute
from irkit.core.blobs import Blob, blobs_in
from irkit.core.methods import GraphMethods, ValueMethods
from irkit.core.origins import NOWHERE, Origin
from irkit.core.printer import print_graph, value_names
from irkit.core.types import DType, Tuple, Type, require_type, same_types
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.dims import Range
from irkit.errors import GraphError, TypeRuleError
from irkit.support.arguments import type_text
from irkit.support.counts import count_text
from irkit.support.watch import Watch, distinct


class _Fields(ValueMethods):
    """A Value while it is made. A frozen class sets each of its fields by a call, which takes three times as long."""

    __slots__ = ("__weakref__", "attributes", "bodies", "inputs", "op", "origin", "type")


_OP = attrgetter("op")


class PrettyPrinter(Protocol):
    """The printer of IPython, of which Hypothesis has a copy."""

    def text(self, text: str) -> None:
        """Prints."""
        ...


ITS_PARTS = "take an item of it, or ask its type: value.type"
"""What to try where something is asked for that tensors have only."""


@attrs.frozen(eq=False, repr=False, init=False)
class Value(_Fields):
    """The result of applying `op` to `inputs`. Immutable, compared by identity, and all that an edge is.

    `op` is an ONNX operator name, with its domain before `::` unless it is ONNX's own (`com.microsoft::Gelu`).
    An operator with several results has a `Tuple` type, of which `Item` values take one each.
    """

    op: str
    inputs: tuple[Value | None, ...]
    attributes: Attributes
    bodies: tuple[Graph, ...]
    type: Type
    origin: Origin = NOWHERE

    def __new__(
        cls,
        op: str,
        inputs: tuple[Value | None, ...],
        attributes: Attributes,
        bodies: tuple[Graph, ...],
        type: Type,
        origin: Origin = NOWHERE,
    ) -> Value:
        if not (builtins.type(inputs) is builtins.type(attributes) is builtins.type(bodies) is tuple):
            inputs, attributes, bodies = tuple(inputs), tuple(attributes), tuple(bodies)
        if any(builtins.type(each) in (list, np.ndarray) for _, each in attributes):
            attributes = tuple((name, freeze_attribute(name, each)) for name, each in attributes)
        return vertex(op, inputs, attributes, bodies, type, origin)

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute called `name` as it was given, or `default`; schema defaults are not filled in here."""
        for key, value in self.attributes:
            if key == name:
                return value
        return default

    def with_inputs(self, inputs: tuple[Value | None, ...]) -> Value:
        """The same operator over other operands of the same types."""
        return vertex(self.op, inputs, self.attributes, self.bodies, self.type, self.origin)

    def with_type(self, type: Type) -> Value:
        """The same value with a type that says more about its dimensions."""
        return vertex(self.op, self.inputs, self.attributes, self.bodies, type, self.origin)

    def with_origin(self, origin: Origin) -> Value:
        """The same value with other provenance."""
        return vertex(self.op, self.inputs, self.attributes, self.bodies, self.type, origin)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The dimensions of a tensor. Raises GraphError for other types."""
        try:
            return self.type.shape  # type: ignore[union-attr]
        except AttributeError:
            raise GraphError(f"a {self.type!r} has no shape", ir=repr(self), hint=ITS_PARTS) from None

    @property
    def rank(self) -> int:
        """How many dimensions a tensor has."""
        try:
            return len(self.type.shape)  # type: ignore[union-attr]
        except AttributeError:
            return len(self.shape)  # which says what is wrong

    @property
    def dtype(self) -> DType:
        """The element type of a tensor. Raises GraphError for other types."""
        try:
            return self.type.dtype  # type: ignore[union-attr]
        except AttributeError:
            raise GraphError(f"a {self.type!r} has no element type", ir=repr(self), hint=ITS_PARTS) from None

    @property
    def blob(self) -> Blob | None:
        """The content of a constant; None for every other value."""
        return self.attributes[0][1] if self.op == CONSTANT else None

    def __repr__(self) -> str:
        return f"<{self.type!r} {self.op}>"  # shallow: a deep one is exponential on shared operands

    def _repr_pretty_(self, printer: PrettyPrinter, cycle: bool) -> None:
        printer.text(repr(self))  # IPython and Hypothesis would show the fields, and theirs, without end

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        raise TypeError("values are pickled as part of a Graph, as rows: pickle the graph")


def vertex(
    op: str,
    inputs: tuple[Value | None, ...],
    attributes: Attributes,
    bodies: tuple[Graph, ...],
    type: Type,
    origin: Origin = NOWHERE,
) -> Value:
    """What `Value(...)` makes, in half the time: a class with a `__new__` takes that long to be called."""
    made: Any = _Fields()
    made.op, made.inputs, made.attributes, made.bodies = op, inputs, attributes, bodies
    made.type, made.origin = type, origin
    made.__class__ = Value  # from here on nothing can be set
    return made


@attrs.frozen
class Port:
    """The public face of one parameter or result: its name and, for state, the name of what it carries on.

    `role` is "input", "output", "state" or "check". A state result is the new content of `binds`, the name of a
    parameter. A check is a boolean scalar that is true where the condition `binds`, the text of a fact, holds. Raises
    GraphError for any other role.
    """

    name: str
    role: str = attrs.field(default="input", validator=lambda port, _, role: require_role(port.name, role))
    binds: str = ""


@attrs.frozen
class Fact:
    """Something capture relied on. `text` is Python over dimension symbols, `source` the user's line it came from.

    `kind` is "guard", a condition that the model itself made; "relation", one that the user promised; "baked", the
    value of a constant; "length", that of a list among the arguments; "static", what was to vary and does not;
    "least", the least number that an input may hold, `ids >= 0`; "runtime", sizes at which the runtime computes what
    the graph says; "finite", an operator of which it wants finite numbers; or "note", a condition in words, which
    nothing can check.
    """

    kind: str
    text: str
    source: str = ""


@attrs.frozen
class Signature:
    """Names and contract of a graph, which no pass may change: ports in order, facts, and free-form metadata."""

    params: tuple[Port, ...] = attrs.field(default=(), converter=tuple)
    results: tuple[Port, ...] = attrs.field(default=(), converter=tuple)
    facts: tuple[Fact, ...] = attrs.field(default=(), converter=tuple)
    metadata: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=tuple)


ROLES = ("input", "output", "state", "check")


def require_role(name: str, role: object) -> None:
    """Raises GraphError for what is not a role of a port."""
    if role not in ROLES:
        raise GraphError(f"the port {name!r} has the role {role!r}", hint=f"the roles are {', '.join(ROLES)}")


def values(given: Iterable[Value]) -> tuple[Value, ...]:
    """The same as a tuple. Raises GraphError where something else than a Value is among them."""
    # A caller may give anything.
    found: tuple[Any, ...] = tuple(given) if isinstance(given, Iterable) else (given,)  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(given, Value) or any(type(each) is not Value for each in found):
        raise GraphError(
            f"parameters and results are a tuple of values, and {given!r} was given",
            hint="write (value,) for one; an operator with several results, or with bodies, gives a tuple itself",
        )
    return found


def parameters(given: Iterable[Value]) -> tuple[Value, ...]:
    """The same as a tuple. Raises GraphError where something else than a Param is among them, or one twice."""
    found = values(given)
    for each in found:
        if each.op != PARAM:
            raise GraphError(f"{each!r} is not a parameter", hint="irkit.param(type) makes one")
    if len(found) > 1 and len(set(found)) != len(found):
        raise GraphError("a parameter is listed twice", hint="make a parameter for each")
    return found


def ranges(given: Mapping[str, Range]) -> PMap[str, Range]:
    """The same as a persistent map. Raises GraphError for what is not a mapping from names to ranges."""
    # A caller may give anything.
    named = isinstance(given, Mapping)  # pyright: ignore[reportUnnecessaryIsInstance]
    found: Any = given if isinstance(given, PMap) else pmap(given) if named else None
    if found is None or (found is not given and not all(isinstance(r, Range) for r in found.values())):
        raise GraphError(f"{given!r} gives no ranges of symbols", hint='write {"batch": irkit.Range(1, 64)}')
    return found


def signatures(given: object) -> Signature:
    """The same. Raises GraphError for what is no signature."""
    if not isinstance(given, Signature):
        raise GraphError(f"{given!r} is not the signature of a graph", hint="the signature is an irkit.Signature")
    return given


@attrs.frozen(eq=False, repr=False)
class Graph(GraphMethods):
    """A closed function: `results` reach no Param but `params`. Compared by structure (see `irkit.core.digest`).

    `symbols` maps each dimension symbol's name to its range. `name` is a display name, no part of equality.
    `graph.order` are its values, operands first, `graph.users` who uses each, `len(graph)` is the number of operators,
    `str(graph)` the text, and `graph.names` what each value is called there. Raises GraphError for parameters or
    results that are no tuple of values, and for results that reach a parameter which is not listed.
    """

    params: tuple[Value, ...] = attrs.field(converter=parameters)
    results: tuple[Value, ...] = attrs.field(converter=values)
    symbols: PMap[str, Range] = attrs.field(factory=lambda: pmap({}), converter=ranges)
    signature: Signature = Signature()
    name: str = "graph"

    def __attrs_post_init__(self) -> None:
        signatures(self.signature)
        name = cast(object, self.name)  # a caller may give anything
        if not isinstance(name, str):
            raise GraphError(f"{name!r} is not the name of a graph", hint="the name is a text")
        others = self.canonical[len(self.params) :]
        if PARAM in map(_OP, others):
            loose = next(v for v in others if v.op == PARAM)
            users = walk.users(self.canonical).get(loose, ())
            raise GraphError(
                f"the graph {self.name} reaches a {loose!r} that is not among its parameters",
                ir="\n".join(map(repr, users[:3])),
                hint="list it among the parameters; what a body takes from outside is a capture: irkit.closed(...)",
            )

    @cached_property
    def canonical(self) -> tuple[Value, ...]:
        """Parameters first, then every value that the results reach, operands before users, in the order in which a
        walk from the results meets them: what two equal graphs have in common."""
        return walk.post_order(self.results, first=self.params)

    @cached_property
    def order(self) -> tuple[Value, ...]:
        """Parameters first, then every value that the results reach, operands before users: the order in which a file
        has them. The canonical one, unless the graph was `arranged`."""
        return self.canonical

    def arranged(self, order: Iterable[Value]) -> Graph:
        """The same graph with another `order`, for as long as it is not changed. It is equal to this one.

        Raises GraphError for an order that leaves out a value, or has one before its operands.
        """
        found = (*self.params, *(v for v in order if v.op != PARAM))
        place = {value: at for at, value in enumerate(found)}
        if place.keys() != set(self.canonical) or len(found) != len(place):
            raise GraphError(
                "the order of a graph holds each of its values once",
                ir=repr(self),
                hint="list each value of graph.canonical once, operands first",
            )
        if any(place[v] > at for at, value in enumerate(found) for v in value.inputs if v is not None):
            raise GraphError(
                "in the order of a graph operands come before users",
                ir=repr(self),
                hint="list each value of graph.canonical once, operands first",
            )
        new = _copy(self)
        object.__setattr__(new, "order", found)  # where a cached property keeps what it found
        return new

    @cached_property
    def users(self) -> Mapping[Value, tuple[Value, ...]]:
        """The values of `order` that use each value."""
        return MappingProxyType(walk.users(self.order))

    @cached_property
    def names(self) -> Mapping[Value, str]:
        """What each value of `order` is called in the text of the graph: `%x`, `%17`."""
        return MappingProxyType(value_names(self))

    @cached_property
    def named(self) -> Mapping[str, Value]:
        """Each value by every name that `value` takes."""
        return MappingProxyType(dict(finding.named_values(self)))

    def value(self, name: str) -> Value:
        """The value of that name: as the text of the graph has it (`%17`, `%x`; the `%` may be left out), of a result
        at its port, or of the node that it came from. Raises GraphError, with names near it, for any other."""
        return finding.value_called(self, name)

    def find(self, key: str) -> tuple[Value, ...]:
        """The values that a key tells of, in order: the one of that name; else those of a module and of all in it
        (`layer.0`, `layer/0`), of an operator (`MatMul`), of what a node called (`aten::relu`), of a rule, or of a line
        of source, by its place or a part of its text (`model.py:12`, `self.norm(x)`). None is an empty tuple."""
        return finding.values_at(self, key)

    @cached_property
    def watches(self) -> tuple[Watch, ...]:
        """What tells whether the contents still are what they were, those of bodies among them."""
        own = (w for v in self.order for _, a in v.attributes for blob in blobs_in(a) for w in blob.watches)
        return distinct((*own, *(w for body in walk.bodies(self.order) for w in body.watches)))

    def check_contents(self, closely: bool = True) -> None:
        """Raises StaleError where a content is no longer what it was when the graph was made: a tensor that was written
        in place, a file that was changed. Where not `closely`, only what takes no time to see is looked at.

        All that reads contents looks for itself: evaluation, ONNX, files, digests, comparison, pickles, folding.
        """
        for watch in self.watches:
            watch.check(closely)

    @cached_property
    def _summary(self) -> tuple[bytes, tuple[sympy.Symbol, ...]]:
        return digest.summary(self)

    @cached_property
    def settled(self) -> frozenset[sympy.Symbol]:
        """What is known to leave this graph as it is, by any key; no part of the graph, and lost when it is changed."""
        return frozenset()

    def settled_by(self, key: Hashable) -> Graph:
        """The same graph, of which it is known that what `key` stands for leaves it as it is."""
        new = _copy(self)
        for name, found in (("settled", self.settled | {key}), ("canonical", self.canonical), ("order", self.order)):
            object.__setattr__(new, name, found)  # where a cached property keeps what it found
        return new

    @property
    def digest(self) -> bytes:
        """A hash of the structure: parameters by position, symbols by first use; no names, no origins. Raises
        StaleError where a content has changed since the graph was made, as a comparison does."""
        self.check_contents()
        return self._summary[0]

    @cached_property
    def _sketch(self) -> tuple[bytes, tuple[sympy.Symbol, ...]]:
        return digest.summary(self, contents=False)

    @property
    def token(self) -> bytes:
        """As the digest, with large constants by their storage: equal for graphs that may stand for one another, for as
        long as both live. No weight is read for it."""
        return self._sketch[0]

    @property
    def symbols_used(self) -> tuple[sympy.Symbol, ...]:
        """The dimension symbols that stand in the graph, in the order in which the digest numbers them."""
        return self._sketch[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or self.digest == other.digest

    def __hash__(self) -> int:
        return int.from_bytes(self.digest[:8], "little")

    def __len__(self) -> int:
        """How many operators there are: values that are no Param, Constant or Item; those of bodies not counted."""
        return len([v for v in self.order if v.op not in (PARAM, CONSTANT, ITEM)])

    def with_results(self, results: Iterable[Value]) -> Graph:
        """The same graph with other results; itself where they are the same values."""
        new = tuple(results)
        if len(new) == len(self.results) and all(a is b for a, b in zip(new, self.results, strict=True)):
            return self
        return attrs.evolve(self, results=new)

    def with_symbols(self, symbols: Mapping[str, Range]) -> Graph:
        """The same values with other ranges of their symbols. Raises GraphError for what is no mapping to ranges."""
        return self._of_same_values("symbols", ranges(symbols))

    def with_signature(self, signature: Signature) -> Graph:
        """The same values with another signature. Raises GraphError for what is none."""
        return self._of_same_values("signature", signatures(signature))

    def _of_same_values(self, name: str, given: object) -> Graph:
        new = _copy(self)
        for field, held in ((name, given), ("canonical", self.canonical)):
            object.__setattr__(new, field, held)  # the latter is where a cached property keeps what it found
        return new

    def __repr__(self) -> str:
        counts = ((self.params, "param"), (self, "operator"), (self.results, "result"))
        return f"<Graph {self.name}: {', '.join(count_text(len(held), word) for held, word in counts)}>"

    def __str__(self) -> str:
        return print_graph(self, brief=True)

    def text(self) -> str:
        """The graph as text that `irkit.parse` reads: `irkit.parse(graph.text()) == graph`. Contents of constants up to
        1 KiB stand in it whole, where `str(graph)` shows 32 elements at most; larger ones are named, and handed to
        `parse` (`irkit.save_text` writes them to a file beside)."""
        return print_graph(self)

    def _repr_pretty_(self, printer: PrettyPrinter, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return graph_html(self)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        self.check_contents()
        return _from_rows, (pickling.to_rows(self),)


def _copy(graph: Graph) -> Graph:
    """The same graph as another object, of which nothing is looked at again."""
    new = object.__new__(Graph)
    for name in ("params", "results", "symbols", "signature", "name"):
        object.__setattr__(new, name, getattr(graph, name))
    return new


def _from_rows(table: tuple[Any, ...]) -> Graph:
    return pickling.from_rows(table, Value, Graph)


def substitute(graph: Graph, swaps: Mapping[Value, Value]) -> Graph:
    """`graph` with every use of each key replaced by its value; itself where nothing changes.

    Replacements are made of values of the graph: one that lies above another key is put over what stands for that key,
    and one that uses the value that it replaces means the old one. Keys may change places, as in `{x: y, y: x}`. Raises
    GraphError where a replacement has another type than what it replaces, and where replacements lie above one
    another's keys in any other circle.
    """
    require_graph(graph)
    given = cast(object, swaps)
    if not isinstance(given, Mapping) or not all(type(v) is Value for pair in swaps.items() for v in pair):
        raise GraphError(
            "what is substituted must be a mapping from values to values", hint="irkit.substitute(graph, {old: new})"
        )
    for old, new in swaps.items():
        if same_types(old.type, new.type) is False:
            raise GraphError(
                f"{new!r} cannot stand for {old!r}: the types differ",
                hint="cast or reshape the new value, or give one of the same element type and shape",
            )
    if not any(new.inputs or new in swaps for new in swaps.values()):
        placed = walk.rebuild_over_leaves(graph.order, swaps)
        return graph.with_results(placed.get(r, r) for r in graph.results)
    moved = walk.exchanged_keys(swaps)
    if not moved:
        built = walk.rebuild_through(graph.results, swaps)
        return graph.with_results(built[r] for r in graph.results)
    held = {value: param(value.type) for value in moved}  # what the old value of each is called meanwhile
    operands = {v for value in moved for v in value.inputs if v is not None}
    through = {old: held[new] if old in held else new for old, new in swaps.items()}
    built = walk.rebuild_through((*graph.results, *operands), through)
    inputs = {v: tuple([None if i is None else built[i] for i in v.inputs]) for v in moved}
    olds = {held[v]: v if inputs[v] == v.inputs else v.with_inputs(inputs[v]) for v in moved}
    if any(v in olds for v in walk.post_order(olds.values())):
        raise GraphError(
            "two values cannot replace each other where one is computed from the other",
            ir="\n".join(map(repr, moved)),
            hint="replace them one after the other",
        )
    placed = walk.rebuild([built[r] for r in graph.results], olds)
    return graph.with_results(placed[built[r]] for r in graph.results)


def require_graph(graph: object) -> None:
    """Raises GraphError for what is not a graph: a model of ONNX, a program, a path."""
    if not isinstance(graph, Graph):
        raise GraphError(
            f"{type_text(graph)} is not an irkit graph",
            hint="irkit.load(model) makes one of an ONNX model or its path; that of a program is program.graph",
        )


def item(value: Value, index: int) -> Value:
    """Result number `index` of an operator with several results. Raises GraphError where there is none such."""
    if type(value) is not Value:
        raise GraphError(f"{value!r} is not a value", hint="op.TopK(...) gives its results as a tuple: take one by [0]")
    if type(value.type) is not Tuple or type(index) is not int or not 0 <= index < len(value.type.items):
        count = len(value.type.items) if isinstance(value.type, Tuple) else 1
        raise GraphError(f"{value!r} has no result number {index!r}", hint=f"it has {count}, counted from 0")
    return vertex(ITEM, (value,), (("index", index),), (), value.type.items[index])


def param(type: Type) -> Value:
    """A new parameter: a fresh identity of that type. Raises TypeRuleError for what is not a type of a value."""
    require_type(type)
    return Value(PARAM, (), (), (), type)


def constant(blob: Blob) -> Value:
    """The value that holds a blob; `const` makes one of numbers and arrays. Raises TypeRuleError for what is none."""
    if type(blob) is not Blob:
        raise TypeRuleError(f"{blob!r} is not a blob", hint="irkit.const(data) makes a constant of numbers and arrays")
    return vertex(CONSTANT, (), (("value", blob),), (), blob.type)
