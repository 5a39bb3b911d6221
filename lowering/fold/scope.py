"""The state of lowering one FX graph, and what every step does with a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any, Protocol

import attrs
import numpy as np
import sympy
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from irkit.build import const, shape_vector
from irkit.core import walk
from irkit.core.ir import Value, vertex
from irkit.core.origins import NOWHERE, Origin, provenance
from irkit.core.types import DType, Tensor, Type, dims_of, same_types
from irkit.core.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.dims import symbols_of
from irkit.support.arguments import type_text
from irkit.support.counts import count_text
from lowering.errors import LoweringError
from lowering.fold.memory import storage
from lowering.fold.memory.in_front import InFront
from lowering.fold.memory.storage import Location
from lowering.fold.registry import Registry, by_operator
from lowering.records.options import ExportOptions
from lowering.records.sizes import Sizes, inexact, is_unbacked
from lowering.records.source_lines import origin_of
from lowering.records.types import blob_of, blobs_of_parts, is_absent
from lowering.tensors.complex_pairs import PAIR, pair, parts


@attrs.frozen(eq=False)
class Options:
    """How to lower: the converters, whether single-operator decomposition is allowed, who hears of progress, whether
    weights are copied, or are inputs, whether all gradients that a call leaves are results, and what computes operators
    of other domains on the example's numbers.
    `reached` hears of each question that the example answers, before it does; `decides` says whether code decides now
    whose ways at other sizes are to be branches; `declined` hears of the line that makes what no program has, before
    that is refused; `learned` gives what captures that ended at a question learned under a key, or else something."""

    registry: Registry
    strict: bool = False
    progress: Callable[[int, int], None] | None = None
    copy: bool = False
    live: bool = False
    gradients: bool = False
    kernels: Mapping[str, Callable[..., Any]] = {}
    reached: Callable[[Any], None] | None = None
    decides: Callable[[], bool] | None = None
    declined: Callable[[str], None] | None = None
    learned: Callable[[Any, Any], Any] | None = None

    @classmethod
    def of(cls, asked: ExportOptions) -> Options:
        """What the options of an export say of lowering. Raises LoweringError for converters of no operator."""
        registry = Registry(by_operator(asked.converters or {}))
        told = None if asked.progress is None else partial(asked.progress, "lower")
        hearing = [getattr(asked.rewrite, name, None) for name in ("reached", "decides", "declined", "learned")]
        inner = (asked.live, asked.gradients, asked.kernels or {})
        return cls(registry, asked.strict, told, asked.copy, *inner, *hearing)


@attrs.frozen(eq=False)
class Check:
    """A condition that data decides: torch's expression, or what must be true; its text, and the user's line. `hint` is
    what to try where it is irkit that assumes it, and empty where the model asserts it."""

    condition: Any
    text: str
    source: str = ""
    hint: str = ""


@attrs.frozen(eq=False)
class Lookup:
    """A value that looks places up; in words that they are there, and the user's line."""

    value: Value
    text: str
    line: str


class LowersGraph(Protocol):
    """What `lowering.fold.nodes.lower_graph` is."""

    def __call__(
        self, module: GraphModule, given: Sequence[Any], sizes: Sizes, options: Options, outer: Scope, closed: bool
    ) -> tuple[Any, Scope]: ...


@attrs.define(eq=False)
class Scope:
    """The state of lowering one FX graph; made by `lower_graph`, seen by nobody else once it returns.

    It is written into, once for each node of most models. As an immutable record of persistent maps it was measured at
    5.3 us for each write, half of it for the map and half for the record, where a write takes 0.05: 7 % of the 73 us
    in which a node is lowered.

    `env` holds what nodes are, `fronts` what graphs have in front of their writes, `places` where the tensors live
    that some node writes, `store` what those hold now; `binders` what binds each data-dependent symbol (by its
    content where the flag says so), `numbers` the float64 scalars that those stand for which are no integers;
    `guards` what decompositions assumed of torch's sizes, with the user's line, `checks` what the program asserts of
    its data; `lookups` what looks up places of which only the data tells whether they are there; `deciding` the
    operands that each of torch's symbols of data was taken out of; `closed` says that the graph is the body of a branch
    or a loop, or part of one. Lowering is recursive, since nodes have bodies and decompositions, which are graphs:
    `lower` is the fold itself, which `graph_within` calls; None where no FX graph is lowered at all. `around` has a
    body know a number that data tells around it.
    """

    sizes: Sizes
    options: Options
    env: dict[Node, Any] = attrs.field(factory=dict)
    fronts: dict[Graph, InFront] = attrs.field(factory=dict)
    bases: Mapping[Any, Node] = attrs.field(factory=dict)
    places: dict[Node, Location] = attrs.field(factory=dict)
    store: dict[Node, Value] = attrs.field(factory=dict)
    binders: dict[Any, tuple[Value, bool]] = attrs.field(factory=dict)
    numbers: dict[Any, Value] = attrs.field(factory=dict)
    decomposed: Counter[str] = attrs.field(factory=Counter)
    constants: dict[Any, Value] = attrs.field(factory=dict)
    guards: list[tuple[Any, str]] = attrs.field(factory=list)
    checks: list[Check] = attrs.field(factory=list)
    lookups: list[Lookup] = attrs.field(factory=list)
    deciding: dict[Any, tuple[Any, ...]] = attrs.field(factory=dict)
    closed: bool = False
    lower: LowersGraph | None = None
    around: Callable[[Any], object] | None = None

    def read(self, node: Node) -> Any:
        """The current content of a node."""
        place = self.places.get(node)
        return self.env[node] if place is None else place.read(self.store[place.base])

    def graph_within(self, module: GraphModule, given: Sequence[Any], *, closed: bool) -> tuple[Any, Scope]:
        """(results, scope) of a graph that a node of this one stands for; `closed` where it is a body, and no part.

        Raises LoweringError where no FX graph is being lowered.
        """
        if self.lower is None:
            raise LoweringError(
                f"the graph {type(module).__name__} can be lowered as a part of an FX graph only",
                hint="lower the FX graph that calls it",
            )
        return self.lower(module, given, self.sizes, self.options, self, closed)


def hold(scope: Scope, node: Node, value: Any) -> None:
    """Binds a node to its value: in the environment, or in the store where its storage is written somewhere."""
    base = scope.bases.get(storage.storage_of(node)) if scope.bases else None
    if base is None or not isinstance(value, Value):
        scope.env[node] = value
    elif base is node:
        scope.store[node] = value
        scope.places[node] = Location(node)
    elif node not in scope.places:
        # The same memory by a way that no schema tells of: it must hold just what its base holds.
        scope.env[node] = value
    if isinstance(value, Value):
        bind_symbols(scope, value)


def bind_symbols(scope: Scope, value: Value) -> None:
    """Records `value` as the binder of the data-dependent symbols that its type is the first to hold."""
    if value.op == PAIR:
        value = parts(value)[0]
    for dim in dims_of(value.type):
        if isinstance(dim, sympy.Symbol) and dim not in scope.binders and is_unbacked(dim.name):
            scope.binders[dim] = (value, False)


WRONG = "the converter is wrong; hand lower() another one with converters={...}"


def read_arguments(scope: Scope, node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a node with every node in them replaced by its current content."""

    def content(given: Node) -> Any:
        found = scope.read(given)
        is_float = isinstance(given.meta.get("val"), torch.SymFloat) and not isinstance(found, Value)
        return inexact(found) if is_float else found

    args: Any = map_arg(node.args, content)
    kwargs: Any = map_arg(node.kwargs, content)
    return args, kwargs


def memory(tensor: torch.Tensor) -> Any:
    """Equal for tensors that begin at one place of one memory; those without numbers have a storage and no address."""
    if is_absent(tensor):
        return tensor.untyped_storage()._cdata, tensor.storage_offset()
    try:
        return tensor.data_ptr()
    except RuntimeError as error:  # what torch.export traced with, left over by a transform of torch.func
        what = "the program holds a tensor without numbers as a constant, which torch traced it with"
        raise LoweringError(what, hint="use capture='direct'") from error


def memory_key(tensor: torch.Tensor) -> Any:
    """Equal for tensors that are the same elements of one memory, in the same order."""
    return memory(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.is_conj()


def tensor_constant(known: dict[Any, Value], tensor: torch.Tensor, name: str, *, copy: bool = False) -> Value:
    """The constant of what a tensor holds now; one value for tensors that are the same memory (tied weights)."""
    tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
    key = memory_key(tensor)
    if key not in known or tensor.numel() == 0:
        where = provenance(name, "weight")
        if tensor.is_complex():
            halves = (const(blob).with_origin(where) for blob in blobs_of_parts(tensor, name, copy=copy))
            known[key] = pair(*halves).with_origin(where)
        else:
            held = blob_of(tensor, name, copy=copy)
            known[key] = vertex(CONSTANT, (), (("value", held),), (), held.type, where)
    return known[key]


def settle_result(scope: Scope, node: Node, result: Any, expected: Any) -> Any:
    """The result checked against what FX recorded, its dimensions refined by it, its new values given an origin.

    Of several results each value below them is made anew once, so that a random draw that two of them use stays one.
    """
    several = isinstance(result, tuple | list)
    results = tuple(without_elements(r) for r in (result if several else (result,)))
    types = (expected,) if not several else expected if isinstance(expected, tuple) else (None,) * len(results)
    shaped = isinstance(expected, Tensor) if several else isinstance(expected, tuple)
    if len(types) != len(results) or shaped:
        given = f"{type_text(result)} of {len(results)}" if several else "one result"
        wanted = count_text(len(expected), "result") if isinstance(expected, tuple) else "one"
        raise LoweringError(f"the converter of {node.target} gave {given}, where torch recorded {wanted}", hint=WRONG)
    for r, t in zip(results, types, strict=True):
        if isinstance(t, Tensor) and not isinstance(r, Value) and not (several and r is None):
            raise LoweringError(f"the converter of {node.target} gave {r!r}, where torch recorded {t!r}", hint=WRONG)
    refined = {r: checked(scope, node, r, t) for r, t in zip(results, types, strict=True) if isinstance(r, Value)}
    new = stamped_all(scope, refined, origin_of(node))
    final = tuple(new[r] if isinstance(r, Value) else r for r in results)
    return final if several else final[0]


def without_elements(result: Any) -> Any:
    """The result; a constant where it has no elements, so that no runtime is asked what becomes of nothing."""
    if not isinstance(result, Value) or not isinstance(result.type, Tensor) or result.op in (PARAM, CONSTANT):
        return result
    shape, dtype = [d for d in result.shape if isinstance(d, int)], result.dtype
    if dtype is DType.STRING or 0 not in shape or len(shape) < result.rank:
        return result
    if dtype.is_complex:
        return pair(*(without_elements(part) for part in parts(result)))
    return const(np.zeros(shape, dtype.numpy))


def checked(scope: Scope, node: Node, result: Value, expected: Any) -> Type:
    """The type of a result, with the dimensions that FX recorded. Raises LoweringError where it contradicts FX."""
    if not isinstance(expected, Tensor) or result.type == expected:
        return result.type
    same = same_types(result.type, expected)
    if same is False or (same is None and differ_at_trace(scope.sizes, result.shape, expected.shape)):
        raise LoweringError(
            f"the converter of {node.target} gave {result.type!r}, where torch recorded {expected!r}",
            hint=WRONG,
        )
    return expected


def differ_at_trace(sizes: Sizes, ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    """True for two shapes that may be equal for some sizes, and are not for those that torch traced."""
    pairs = ((sizes.at_trace(a), sizes.at_trace(b)) for a, b in zip(ours, theirs, strict=True) if a is not b)
    return any(a is not None and b is not None and a != b for a, b in pairs)


def stamp_origin(scope: Scope, value: Value, origin: Origin) -> Value:
    """`value` with `origin` on every value below it that has none, and binders on data-dependent ShapeVectors."""
    return stamped_all(scope, {value: value.type}, origin)[value]


def stamped_all(scope: Scope, refined: Mapping[Value, Type], origin: Origin) -> Mapping[Value, Value]:
    """What each key becomes: of its refined type, stamped as by `stamp_origin`, with what they share made anew once."""
    new = {v: retyped(v, t, origin) for v, t in refined.items() if is_placed(v)}
    for v in walk.post_order(tuple(refined), stop=is_placed):
        inputs = tuple(None if i is None else new.get(i, i) for i in v.inputs)
        attributes = v.attributes
        if v.op == SHAPE_VECTOR and (scope.binders or scope.around is not None) and not v.inputs:
            inputs, attributes = with_binders(scope, v)
        new[v] = vertex(v.op, inputs, attributes, v.bodies, refined.get(v, v.type), origin)
    return new


def retyped(value: Value, type_: Type, origin: Origin) -> Value:
    """A value of a refined type; a parameter stays what it is, and what follows sees a copy of it."""
    if value.type is type_ or value.type == type_:
        return value
    if value.op == PARAM:
        return Value("Identity", (value,), (), (), type_, origin)
    return value.with_type(type_)


def is_placed(value: Value) -> bool:
    """True for a value that needs no origin: it has one, or is a parameter."""
    return value.origin is not NOWHERE or value.op == PARAM


def with_binders(scope: Scope, vector: Value) -> tuple[tuple[Value | None, ...], Any]:
    """Operands and attributes of a ShapeVector, with what binds its data-dependent symbols among the operands."""
    if vector.inputs:
        return vector.inputs, vector.attributes
    sizes = vector.attributes[0][1]
    found = dict.fromkeys(s for d in sizes for s in symbols_of(d))
    if (around := scope.around) is not None:
        for symbol in found:
            if symbol not in scope.binders and is_unbacked(symbol.name):
                around(symbol)
    needed = [symbol for symbol in found if symbol in scope.binders]
    by_type = tuple(dict.fromkeys(scope.binders[s][0] for s in needed if not scope.binders[s][1]))
    scalars = {s: scope.binders[s][0] for s in needed if scope.binders[s][1]}
    bound_vector = shape_vector(sizes, *by_type, scalars=scalars)
    return bound_vector.inputs, bound_vector.attributes


@attrs.define(eq=False)
class Frame:
    """A body that is being traced: its scope, the scope around it, and the parameters that stand for values around it.
    Its own symbols are the `moving` ones, of sizes that rounds change, and those of data made since it was `born`.
    `counter` is the number of a round, and how many rounds there are; `stands` has what symbols stand for that a round
    does not change."""

    scope: Scope
    outer: Scope
    moving: Set[Any] = frozenset()
    born: int = 0
    counter: tuple[Value, Any] | None = None
    captured: dict[Value, Value] = attrs.field(factory=dict)
    stands: dict[Any, Any] = attrs.field(factory=dict)

    def owns(self, symbol: Any) -> bool:
        """Whether a symbol means nothing outside the body."""
        number = symbol.name.removeprefix("u")
        return symbol in self.moving or (number.isdigit() and int(number) >= self.born)

    @property
    def params(self) -> list[Value]:
        """The parameters, in the order in which the values were first used."""
        return list(self.captured.values())
