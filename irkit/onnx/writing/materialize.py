"""ShapeVectors written out as ONNX nodes: each expression once, by the cheapest route. The last step before a file."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import attrs

from irkit import dims
from irkit.core import walk
from irkit.core.attributes import Given
from irkit.core.ir import Graph, Value, param
from irkit.core.vocabulary import CALL, CONSTANT, PARAM, SHAPE_VECTOR
from irkit.dims import Dim, Range
from irkit.onnx.writing.sizes import ONE, Sizes
from irkit.ops.schemas import OPSET
from irkit.support.uncollected import without_collector

CHECK = "check"
"""The role of a result that is true where a condition on data holds."""
SIZED_BY_OPERANDS: Mapping[str, int] = {
    "Range": 0, "NonZero": 0, "Unique": 0, "Compress": 1, "ConstantOfShape": 0,
    **dict.fromkeys(("Reshape", "Expand", "Tile", "Slice", "Pad", "Resize", "OneHot", "TopK", "CenterCropPad"), 1),
}  # fmt: skip
"""Operators whose results have sizes that operands tell by what they hold, from which operand on."""
ALLOWZERO = 14
"""The opset that lets Reshape take a 0 for a size of 0."""


@without_collector
def materialize_dims(graph: Graph, opset: int = OPSET) -> Graph:
    """The graph without ShapeVector, in its bodies too; itself where there is none.

    In Reshape a dimension of the operand at the same place becomes 0 and one other becomes -1, where ONNX allows that
    for every size in range; in Expand a dimension of the operand becomes 1. Everything else is read off the
    shape of a value or computed (see `irkit.onnx.writing.sizes`). Symbols that nothing in a body binds become captures
    of it. Below opset 14 a Reshape that needs `allowzero` is only written where nothing else does.
    Raises SerializeError for a symbol that nothing binds.
    """
    if not has_vectors(graph):
        return graph
    asks = any(port.role == CHECK for port in graph.signature.results)
    results = Sweep(Sizes(graph.params, graph.symbols, opset=opset), graph.symbols, opset, asks=asks).graph(graph)
    return graph.with_results(results)


def has_vectors(graph: Graph) -> bool:
    """True where a ShapeVector stands in the graph or in a body of it."""
    return SHAPE_VECTOR in map(attrgetter("op"), graph.order) or any(map(has_vectors, walk.bodies(graph.order)))


@attrs.define(eq=False)
class Sweep:
    """One graph being rewritten, operands before users: `new` maps each old value to its new one, and `done` the bodies
    of Calls, which all Calls share, by identity, with the sizes that they need from outside. Where the graph `asks`
    whether sizes that data tells are others, `said` are the values whose types may say so before it is known."""

    sizes: Sizes
    ranges: Mapping[str, Range]
    opset: int = OPSET
    done: dict[int, tuple[Graph, tuple[Dim, ...]]] = attrs.field(factory=dict[int, tuple[Graph, tuple[Dim, ...]]])
    asks: bool = False
    said: set[Value | None] = attrs.field(factory=set["Value | None"])
    new: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    squeezed: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    targets: dict[Hashable, tuple[tuple[Dim, ...], bool]] = attrs.field(
        factory=dict[Hashable, tuple[tuple[Dim, ...], bool]]
    )

    def graph(self, graph: Graph) -> tuple[Value, ...]:
        """The new results of a graph."""
        vectors: dict[Value, tuple[Dim, ...]] = {}
        results, new, offer = set(graph.results), self.new, self.sizes.offer
        changed: set[Value | None] = set()
        for value in graph.order:
            if value.op == PARAM or value.op == CONSTANT:
                new[value] = value
                continue
            if not value.bodies and value.op != SHAPE_VECTOR and changed.isdisjoint(value.inputs):
                new[value] = value
                offer(value, self.says_more(value))
                continue
            changed.add(value)
            if value.op == SHAPE_VECTOR:
                vectors[value] = self.vector(value)
                if value in results:
                    self.written(value, vectors)
                continue
            made = new[value] = self.value(value, vectors)
            offer(made, self.says_more(value))
        return tuple(new[r] for r in graph.results)

    def says_more(self, value: Value) -> bool:
        """Whether the type of a value may say of sizes that data tells what the graph asks: a condition that looked
        there would hold always."""
        if not self.asks:
            return False
        sized = value.op in SIZED_BY_OPERANDS and any(
            v is not None and v.op not in (CONSTANT, SHAPE_VECTOR) for v in value.inputs[SIZED_BY_OPERANDS[value.op] :]
        )
        if sized or value.bodies or not self.said.isdisjoint(value.inputs):
            self.said.add(value)
        return value in self.said

    def vector(self, value: Value) -> tuple[Dim, ...]:
        """The dimensions of a ShapeVector, whose scalars are made known."""
        symbols = value.attribute("scalars", ())
        for symbol, scalar in zip(symbols, value.inputs[len(value.inputs) - len(symbols) :], strict=True):
            self.sizes.bind(symbol, self.new[scalar])  # type: ignore[index]
        return value.attribute("dims")

    def written(self, vector: Value, vectors: Mapping[Value, tuple[Dim, ...]]) -> Value:
        """The new value of a ShapeVector, as nodes."""
        if vector not in self.new:
            self.sizes.origin = vector.origin
            self.new[vector] = self.sizes.vector(vectors[vector])
        return self.new[vector]

    def value(self, value: Value, vectors: Mapping[Value, tuple[Dim, ...]]) -> Value:
        """The new value of anything that is not a leaf."""
        vector = value.inputs[1] if len(value.inputs) > 1 else None
        if value.op in ("Reshape", "Expand") and vector is not None and vector in vectors:
            (data,) = self.operands(value.inputs[:1], vectors)
            self.sizes.origin = value.origin
            if value.op == "Expand":
                options = (expand_target(data.shape, vectors[vector]), vectors[vector])
                return value.with_inputs((data, self.sizes.vector(min(options, key=self.sizes.cost))))
            target, allowzero = self.reshape_target(value, data.shape, vectors[vector])
            attributes = (("allowzero", 1),) if allowzero else ()
            return Value("Reshape", (data, self.sizes.vector(target)), attributes, (), value.type, value.origin)
        if value.op == "Squeeze" and any(v in vectors for v in value.inputs[:1]):
            return self.number(value, vectors)
        inputs = self.operands(value.inputs, vectors)
        made = value if inputs == value.inputs else value.with_inputs(inputs)
        return self.bodies(made) if value.bodies and any(map(has_vectors, value.bodies)) else made

    def operands(self, inputs: tuple[Value | None, ...], vectors: Mapping[Value, tuple[Dim, ...]]) -> tuple[Any, ...]:
        """The new values of operands; ShapeVectors among them are written out."""
        new = self.new
        return tuple([None if v is None else self.written(v, vectors) if v in vectors else new[v] for v in inputs])

    def number(self, value: Value, vectors: Mapping[Value, tuple[Dim, ...]]) -> Value:
        """One dimension as a scalar: the scalar whose content it is, or a Squeeze made once."""
        sizes = vectors[value.inputs[0]]  # type: ignore[index]
        scalar = self.sizes.scalar(sizes[0]) if len(sizes) == 1 else None
        if scalar is not None and scalar.rank == value.rank == 0:
            return scalar
        made = value.with_inputs(self.operands(value.inputs, vectors))
        return made if value.rank else self.squeezed.setdefault(made.inputs[0], made)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------------------ Reshape

    def reshape_target(
        self, value: Value, shape: tuple[Dim, ...], wanted: tuple[Dim, ...]
    ) -> tuple[tuple[Dim, ...], bool]:
        """(target, allowzero): the cheapest operand that gives the wanted dimensions for all sizes in range.

        A 0 copies the dimension of the operand; a -1 is legal where no other dimension can be 0; a computed dimension
        that can be 0 would be taken for a copy, unless `allowzero`, which allows no copies.
        """
        zero_is_zero = bool(value.attribute("allowzero", 0))
        key = (shape, wanted, zero_is_zero)
        if key not in self.targets:
            self.targets[key] = self.cheapest_target(zero_is_zero, shape, wanted)
        return self.targets[key]

    def cheapest_target(
        self, zero_is_zero: bool, shape: tuple[Dim, ...], wanted: tuple[Dim, ...]
    ) -> tuple[tuple[Dim, ...], bool]:
        """See `reshape_target`, which remembers what this finds."""
        copies = [i for i, d in enumerate(wanted) if i < len(shape) and is_copy(d, shape[i], zero_is_zero)]
        if -1 in wanted:  # given by whoever built the Reshape: it stays theirs
            return tuple(0 if i in copies and not zero_is_zero else d for i, d in enumerate(wanted)), zero_is_zero
        meant = tuple(shape[i] if d == 0 and not zero_is_zero else d for i, d in enumerate(wanted))
        positive = [self.sizes.at_least(d, 1) for d in meant]
        copied = tuple(0 if i in copies else d for i, d in enumerate(meant))
        open_ = [i for i, d in enumerate(copied) if type(d) is not int]
        clear = all(type(d) is int and d > 0 for i, d in enumerate(meant) if i not in copies and i not in open_)
        options: list[tuple[tuple[Dim, ...], bool]] = []
        # ONNX Runtime puts -1 for a single computed dimension, which goes wrong where a copied one is 0.
        fused = len(open_) == 1 and not all(positive[i] or unknown(meant[i]) for i in copies)
        if clear and not fused and all(positive[i] for i in open_):
            options.append((copied, False))
        for k in open_ if self.holds_as_many(shape, meant) else ():
            if all(known for i, known in enumerate(positive) if i != k):
                options.append((tuple(-1 if i == k else d for i, d in enumerate(copied)), False))
        if not options or self.opset >= ALLOWZERO:
            options.append((meant, True))
        if all(type(d) is int for d in options[0][0]):
            return options[0]
        return min(options, key=lambda option: (self.sizes.cost(option[0]), option[1]))

    def holds_as_many(self, shape: tuple[Dim, ...], meant: tuple[Dim, ...]) -> bool:
        """Whether a tensor of some shape has as many elements as one of another, as far as the types can tell: where
        sizes meet that data tells, this may be what the program has yet to find out, which a -1 would take for granted.
        """
        ours, theirs = self.of_data(shape), self.of_data(meant)
        if ours is None or theirs is None or ours == theirs:
            return True
        if not ours > theirs and any(self.sizes.scalar(symbol) is None for symbol in theirs - ours):
            return True  # nothing but this Reshape binds the symbol
        return dims.same(dims.product(shape), dims.product(meant)) is True

    def of_data(self, shape: tuple[Dim, ...]) -> set[Any] | None:
        """The symbols of a shape that no parameter's type tells; None where one of them has no name."""
        found = {symbol for d in shape if type(d) is not int for symbol in dims.symbols_of(d)}
        if any(map(dims.is_fresh, found)):
            return None
        return {symbol for symbol in found if symbol.name not in self.sizes.told}

    # ------------------------------------------------------------------------------------------ bodies

    def bodies(self, value: Value) -> Value:
        """A value with its bodies rewritten, and further captures for the sizes that they need from outside."""
        if value.op == CALL and id(value.bodies[0]) in self.done:
            body, needed = self.done[id(value.bodies[0])]
            return self.captured(value, (body,), needed)
        wanted: dict[Dim, None] = {}
        asked: list[dict[Dim, Value]] = []
        results: list[tuple[Value, ...]] = []
        for body in value.bodies:
            own: dict[Dim, Value] = {}
            asked.append(own)

            def need(size: Dim, own: dict[Dim, Value] = own) -> Value:
                wanted.setdefault(size)
                if size not in own:
                    own[size] = param(ONE)
                return own[size]

            inner = Sizes(body.params, self.ranges, need, opset=self.opset)
            results.append(Sweep(inner, self.ranges, self.opset, self.done, self.asks).graph(body))
        bodies = tuple(
            attrs.evolve(
                body,
                params=(*body.params, *(own[size] if size in own else param(ONE) for size in wanted)),
                results=found,
            )
            for body, own, found in zip(value.bodies, asked, results, strict=True)
        )
        if value.op == CALL:
            self.done[id(value.bodies[0])] = bodies[0], tuple(wanted)
        return self.captured(value, bodies, tuple(wanted))

    def captured(self, value: Value, bodies: tuple[Graph, ...], wanted: Sequence[Dim]) -> Value:
        """A value over bodies that take some sizes from outside as their last parameters. For a Call these are operands
        like all others."""
        if not wanted:
            return attrs.evolve(value, bodies=bodies)
        self.sizes.origin = value.origin
        attributes: Given = dict(value.attributes)
        if value.op != CALL:
            attributes["captures"] = attributes.get("captures", 0) + len(wanted)
        inputs = (*value.inputs, *(self.sizes.expression(size) for size in wanted))
        return attrs.evolve(value, inputs=inputs, attributes=tuple(sorted(attributes.items())), bodies=bodies)


def unknown(size: Dim) -> bool:
    """True for a size in a symbol that has no name."""
    return any(dims.is_fresh(s) for s in dims.symbols_of(size))


def is_copy(wanted: Dim, size: Dim, zero_is_zero: bool) -> bool:
    """True where a 0 in Reshape's target gives the wanted dimension, and saves computing it."""
    if type(wanted) is int:
        return wanted == 0 and not zero_is_zero
    return dims.same(wanted, size) is True


def expand_target(shape: tuple[Dim, ...], wanted: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The cheapest operand of Expand: 1 leaves a dimension as it is."""
    skip = len(wanted) - len(shape)
    return tuple(
        1 if type(d) is not int and i >= skip and dims.same(d, shape[i - skip]) is True else d
        for i, d in enumerate(wanted)
    )
