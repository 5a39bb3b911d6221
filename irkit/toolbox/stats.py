"""What a model holds and does, as formulas over its sizes: operators, weights, operations on numbers, bytes moved."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import attrs
import sympy
from onnx import ModelProto
from pyrsistent import PMap, pmap

from irkit import dims
from irkit.build import runtime
from irkit.contract.as_json import Json
from irkit.core.blobs import SMALL, Blob, blobs_in
from irkit.core.ir import Graph, Value, param
from irkit.core.printer import nested_graphs, value_names
from irkit.core.types import DType, Tensor, Type, dims_of, types_of
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.core.walk import post_order
from irkit.dims import Dim, Range, notation
from irkit.errors import DimensionError, GraphError, TypeRuleError
from irkit.nodes.operators import defined_results
from irkit.onnx.load import load
from irkit.support.counts import count_text
from irkit.toolbox.flops import flops_of

By = Literal["op", "module", "source", "name"]
"""What rows are added up by: the operator, the module or line of the user's model, or each value by itself."""

VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", ITEM, SHAPE_VECTOR, "Shape", "Size"))
"""Operators that move no element: they only say otherwise what is there, or look at sizes."""

PICKING = frozenset(("Gather", "GatherElements", "GatherND", "Slice", "Split"))
"""Operators that read no more of their first operand than they give."""

CONTROL = frozenset((CALL, "If", "Loop", "Scan", "SequenceMap"))
"""Operators that do what their bodies do."""

TYPICAL = 64
"""The size of every symbol, where it is asked which branch of an If does more."""


@attrs.frozen
class Row:
    """What some operators do together: how many they are, and their formulas, numbers where no symbol is in them.

    `flops` are operations on numbers, `read` and `written` bytes. `parameters` are the numbers in constants that they
    take, `parameter_bytes` what these take; a weight that several take is counted where it stands first.
    """

    key: str
    nodes: int = 0
    flops: Dim = 0
    parameters: int = 0
    parameter_bytes: int = 0
    read: Dim = 0
    written: Dim = 0


@attrs.frozen
class Cost(Row):
    """What one operator does each time that its graph runs, and how many times that is."""

    op: str = ""
    module: str = ""
    source: str = ""


@attrs.frozen(repr=False)
class Stats:
    """The statistics of a graph, an immutable value; `stats.at(batch=4)` has numbers where it has formulas.

    `sizes` are the symbols of the inputs with their ranges. `costs` has a row for each operator, those of bodies among
    them; `stats.by("op")` adds them up. `uncounted` says how many operators there are for which there is no formula, by
    name: their operations are not in `flops`. Of the branches of an If, the one counts that does more where every size
    is 64. A Loop whose trips are not known counts with a symbol for them.
    """

    name: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    sizes: PMap[str, Range]
    costs: tuple[Cost, ...]
    parameters: int
    parameter_bytes: int
    uncounted: PMap[str, int]

    @property
    def nodes(self) -> int:
        """How many operators there are, those of bodies among them."""
        return len(self.costs)

    @property
    def operators(self) -> PMap[str, int]:
        """How many there are of each operator."""
        return pmap(Counter(each.op for each in self.costs))

    @property
    def flops(self) -> Dim:
        """Operations on numbers of one run: a number, or a formula over the symbols."""
        return total(each.flops for each in self.costs)

    @property
    def bytes(self) -> Dim:
        """Bytes that the operators of one run read and write, were each to run by itself."""
        return total(size for each in self.costs for size in (each.read, each.written))

    def by(self, key: By = "op") -> tuple[Row, ...]:
        """The costs added up, those of most operations first."""
        if key not in ("op", "module", "source", "name"):
            raise GraphError(f"there is nothing to add up by {key!r}", hint="take op, module, source or name")
        groups: dict[str, list[Cost]] = {}
        for each in self.costs:
            groups.setdefault(each.key if key == "name" else getattr(each, key), []).append(each)
        rows = [added(name, costs) for name, costs in groups.items()]
        return tuple(sorted(rows, key=lambda row: (-typical(row.flops), -typical(row.written), row.key)))

    def at(self, sizes: Mapping[str, int] | None = None, **named: int) -> Stats:
        """The same with numbers for symbols. Raises DimensionError for a symbol that there is none of."""
        given = {**(sizes or {}), **named}
        known = {s.name for each in self.costs for d in (each.flops, each.read, each.written) for s in symbols_in(d)}
        known |= set(self.sizes)
        unknown = sorted(set(given) - known)
        if unknown:
            has = ", ".join(sorted(known)) or "none"
            raise DimensionError(f"there is no size called {unknown[0]!r}", hint=f"the sizes are: {has}")
        costs = [
            attrs.evolve(
                each,
                flops=at_sizes(each.flops, given),
                read=at_sizes(each.read, given),
                written=at_sizes(each.written, given),
            )
            for each in self.costs
        ]
        return attrs.evolve(self, costs=tuple(costs))

    def as_json(self, by: By = "op") -> Json:
        """The same as plain data: formulas as text, numbers as numbers."""
        return {
            "model": self.name,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "nodes": self.nodes,
            "operators": dict(sorted(self.operators.items())),
            "parameters": self.parameters,
            "parameter_bytes": self.parameter_bytes,
            "flops": plain(self.flops),
            "bytes": plain(self.bytes),
            "uncounted": dict(sorted(self.uncounted.items())),
            "by": by,
            "rows": [
                {name: plain(each) for name, each in attrs.asdict(row).items() if name in ROW} for row in self.by(by)
            ],
        }

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {count_text(self.nodes, 'operator')}, "
            f"{count_text(self.parameters, 'parameter')} in {count_text(self.parameter_bytes, 'byte')}",
            *(f"input {name}: {type_}" for name, type_ in self.inputs),
            *(f"output {name}: {type_}" for name, type_ in self.outputs),
            f"flops: {notation.text(self.flops)}",
            f"bytes: {notation.text(self.bytes)}",
        ]
        if self.uncounted:
            told = ", ".join(f"{count} {op}" for op, count in sorted(self.uncounted.items()))
            lines.append(f"not counted: {told}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


ROW = frozenset(each.name for each in attrs.fields(Row))
"""The names of the parts of a row."""


def stats(model: Graph | ModelProto | str | os.PathLike[str] | bytes) -> Stats:
    """The statistics of a graph, or of an ONNX model as `irkit.load` takes it: operators, parameters, operations on
    numbers and bytes moved, as formulas over its symbols. No weight is read.

    `irkit.stats(graph).at(batch=4).flops` is a number. Raises LoadError for a model that cannot be read.
    """
    graph = model if isinstance(model, Graph) else load(model)
    counter = Counted()
    counter.graph(graph, 1)
    weights = {id(blob.source or blob): blob for blob in held_blobs(graph)}.values()
    return Stats(
        graph.name,
        ports([port.name for port in graph.signature.params], [v.type for v in graph.params], "input"),
        ports([port.name for port in graph.signature.results], [v.type for v in graph.results], "output"),
        pmap({name: graph.symbols.get(name, Range()) for name in sizes_of(graph)}),
        tuple(counter.costs),
        sum(blob.size for blob in weights),
        sum(blob.nbytes for blob in weights),
        pmap(counter.uncounted),
    )


def ports(names: list[str], types: list[Type], word: str) -> tuple[tuple[str, str], ...]:
    """(name, type) of each parameter or result."""
    return tuple((names[i] if i < len(names) else f"{word} {i}", repr(each)) for i, each in enumerate(types))


def sizes_of(graph: Graph) -> list[str]:
    """The symbols of the inputs that have a name."""
    found = (s for v in graph.params for d in dims_of(v.type) for s in dims.symbols_of(d) if not dims.is_fresh(s))
    return sorted({s.name for s in found})


def held_blobs(graph: Graph) -> Iterator[Blob]:
    """The parameters among the contents of the constants of a graph and its bodies."""
    for nested, first in nested_graphs(graph):
        for value in nested.order if first else ():
            for _, attribute in value.attributes:
                yield from filter(is_parameter, blobs_in(attribute))


def is_parameter(blob: Blob) -> bool:
    """False for a few integers in a row, flags and texts: axes, shapes, indices."""
    return blob.dtype not in (DType.BOOL, DType.STRING) and not (
        blob.dtype is DType.INT64 and len(blob.shape) < 2 and blob.nbytes <= SMALL
    )


# ---------------------------------------------------------------------------------------------- counting


@attrs.define(eq=False)
class Counted:
    """What was counted so far, and the contents that were met already."""

    costs: list[Cost] = attrs.field(factory=list[Cost])
    uncounted: Counter[str] = attrs.field(factory=Counter[str])
    seen: set[int] = attrs.field(factory=set[int])

    def graph(self, graph: Graph, times: Dim) -> None:
        """Counts the operators of a graph that runs so many times."""
        names = value_names(graph)
        for value in graph.order:
            if value.op in CONTROL:
                self.control(value, names[value], times)
            elif value.op not in (PARAM, CONSTANT, ITEM):
                self.operator(value, names[value], times)

    def operator(self, value: Value, name: str, times: Dim) -> None:
        """Counts one operator."""
        flops = operations(value)
        if flops is None:
            self.uncounted[value.op] += 1
        held = [b for v in value.inputs if v is not None and (b := v.blob) is not None and is_parameter(b)]
        new = [b for b in held if id(b.source or b) not in self.seen]
        self.seen.update(id(b.source or b) for b in new)
        read, written = moved(value)
        self.costs.append(
            Cost(
                name,
                1,
                times_(flops or 0, times),
                sum(b.size for b in new),
                sum(b.nbytes for b in new),
                times_(read, times),
                times_(written, times),
                value.op,
                value.origin.module,
                value.origin.source,
            )
        )

    def control(self, value: Value, name: str, times: Dim) -> None:
        """Counts what the bodies of an operator do, and the operator itself as one that does nothing."""
        self.costs.append(Cost(name, 1, op=value.op, module=value.origin.module, source=value.origin.source))
        if value.op == "If":
            branches = [attrs.evolve(self, costs=[], uncounted=Counter(), seen=set(self.seen)) for _ in value.bodies]
            for branch, body in zip(branches, value.bodies, strict=True):
                branch.graph(body, times)
            most = max(branches, key=lambda branch: typical(total(each.flops for each in branch.costs)))
            self.costs += most.costs
            self.uncounted.update(most.uncounted)
            self.seen |= most.seen
            return
        trips = trips_of(value, name)
        for body in value.bodies:
            self.graph(body, times_(trips, times))


def trips_of(value: Value, name: str) -> Dim:
    """How often the body of a Loop, Scan, SequenceMap or Call runs: a number, a size, or a symbol of its own."""
    if value.op == CALL:
        return 1
    if value.op == "SequenceMap" and value.inputs[0] is not None:
        made = value.inputs[0]
        if made.op == "SequenceConstruct":
            return len(made.inputs)
        whole = made.inputs[0] if made.op == "SplitToSequence" and len(made.inputs) == 1 else None
        if whole is not None and isinstance(whole.type, Tensor):
            return whole.type.shape[int(made.attribute("axis", 0))]
    if value.op == "Scan":
        count = int(value.attribute("num_scan_inputs", 1))
        axes = value.attribute("scan_input_axes", ()) or (0,)
        first = value.inputs[len(value.inputs) - count]
        if first is not None and isinstance(first.type, Tensor):
            return first.type.shape[axes[0]]
    trips = value.inputs[0] if value.inputs else None
    if trips is not None and trips.blob is not None and trips.blob.integers and trips.blob.integers[0] < 2**31:
        return trips.blob.integers[0]
    if trips is not None and trips.op == SHAPE_VECTOR and len(dict(trips.attributes)["dims"]) == 1:
        return dict(trips.attributes)["dims"][0]
    return dims.symbol(f"trips_of_{''.join(c if c.isalnum() else '_' for c in name).strip('_') or 'loop'}")


def operations(value: Value) -> Dim | None:
    """How many operations an operator does; by its definition where it is of a dialect; None where nothing is known of
    it."""
    known = runtime.defined_operator(value.op)
    if known is None:
        return flops_of(value)
    if known.definition is None:
        return None
    stands = tuple(v if v is None or v.blob is not None else param(v.type) for v in value.inputs)
    try:
        inner = defined_results(known, stands, value.attributes, len(types_of(value.type)))
    except (TypeRuleError, DimensionError):
        return None
    counter = Counted()
    counter.graph(Graph(tuple(v for v in post_order(inner) if v.op == PARAM), inner), 1)
    return None if counter.uncounted else total(each.flops for each in counter.costs)


def moved(value: Value) -> tuple[Dim, Dim]:
    """(bytes read, bytes written) by an operator that runs by itself."""
    if value.op in VIEWS:
        return 0, 0
    written = bytes_of(value.type)
    operands = [v for v in value.inputs if v is not None]
    if value.op in PICKING:
        return total([written, *(bytes_of(v.type) for v in operands[1:])]), written
    return total(bytes_of(v.type) for v in operands), written


def bytes_of(type_: Type) -> Dim:
    """Bytes that a value of that type takes; 0 for sequences and text, of which no size is known."""
    sizes: list[Dim] = []
    for each in types_of(type_):
        if isinstance(each, Tensor):
            bits = times_(dims.product(each.shape), each.dtype.bits)
            whole = each.dtype.bits % 8 == 0
            sizes.append(times_(dims.product(each.shape), each.dtype.bits // 8) if whole else dims.ceildiv(bits, 8))
    return total(sizes)


# ---------------------------------------------------------------------------------------------- formulas


def times_(count: Dim, times: Dim) -> Any:
    """The product of two formulas. Numbers may be beyond 64 bits, which sizes may not."""
    return count * times if type(count) is int or type(times) is int else dims.mul(count, times)


def total(parts: Iterable[Dim]) -> Any:
    """The sum of formulas, equal ones at one go."""
    counted = Counter(parts)
    number = sum(part * count for part, count in counted.items() if type(part) is int)
    others = [part * count for part, count in counted.items() if type(part) is not int]
    return dims.canonical(sympy.Add(number, *others)) if others else number


def symbols_in(formula: Dim) -> tuple[sympy.Symbol, ...]:
    """The symbols in a formula that have a name."""
    return tuple(s for s in dims.symbols_of(formula) if not dims.is_fresh(s)) if type(formula) is not int else ()


def at_sizes(formula: Dim, sizes: Mapping[str, int]) -> Any:
    """A formula with numbers for some of its symbols."""
    if type(formula) is int:
        return formula
    known = {s: sizes[s.name] for s in symbols_in(formula) if s.name in sizes}
    if len(known) == len(dims.symbols_of(formula)):
        return dims.evaluate(formula, sizes)
    return dims.substitute(formula, known) if known else formula


def typical(formula: Dim) -> int:
    """About how large a formula is, to put what does most first."""
    if type(formula) is int:
        return formula
    try:
        return dims.evaluate(formula, {dims.label(s): TYPICAL for s in dims.symbols_of(formula)})
    except DimensionError:
        return 0


def added(key: str, costs: list[Cost]) -> Row:
    """Several costs as one row."""
    return Row(
        key,
        len(costs),
        total(each.flops for each in costs),
        sum(each.parameters for each in costs),
        sum(each.parameter_bytes for each in costs),
        total(each.read for each in costs),
        total(each.written for each in costs),
    )


def plain(given: object) -> object:
    """A formula as text, anything else as it is."""
    return notation.text(given) if isinstance(given, sympy.Expr) else given
