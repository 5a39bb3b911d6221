"""Linear layers on rows: what works along the last axis alone is computed on matrices of [rows, width].

A linear layer is a MatMul with a weight that torch holds transposed, and an Add. As a Gemm it is one node, and takes
the weight as torch holds it, so that no weight is turned when the model is written. A Gemm takes matrices only: whole
regions of linear layers, of norms over the last axis and of elementwise operators between them go to rows, with one
Reshape where a value enters and one where it leaves. Layers of one operand whose results all leave are joined: one
Gemm, one Reshape, and a Split. The joined weight has their names, joined by `+` where they differ
("layer.q_proj+k_proj+v_proj.weight"), and holds them one after the other.

A region is taken where that needs no more nodes than before. Most of its layers must have a bias: measured on ONNX
Runtime, in one thread, BERT, ViT, Whisper, BART and Swin take 0.93 to 1.00 of the time on rows, and decoders without
biases 0.95 to 1.04, where nothing is fused but Reshapes are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, shape_vector
from irkit.core.blobs import Blob, joined_blob
from irkit.core.ir import Graph, Value, constant, param, vertex
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.pattern import attribute_of
from irkit.rewriting.passes import Observer, Pass, in_bodies, nobody
from irkit.support.uncollected import without_collector
from passes.analysis.questions import is_known, joined_name, same_shape, vector
from passes.rules.movement.transposes import BINARY, UNARY
from passes.targets import Target

ELEMENTWISE = frozenset((*UNARY, *BINARY, "Sum", "Mean", "Clip", "Where", "Cast", "Mod"))
NORMS = frozenset(("LayerNormalization", "RMSNormalization", "Softmax", "LogSoftmax"))
"""Operators along one axis, here the last."""

ON_ROWS = ELEMENTWISE | NORMS | {"MatMul"}
"""What may be computed on rows."""

DTYPES = frozenset((DType.FLOAT, DType.DOUBLE))

SWEEPS = 4
"""How often the edges of a region are looked at for values that are better left outside."""


@attrs.frozen(eq=False)
class Linear:
    """The linear layer in a value: `product` is its MatMul, `bias` what is added to every row of it. `held` is the
    weight as a Gemm takes it."""

    product: Value
    held: Value
    transposed: int
    bias: Value | None

    @property
    def x(self) -> Value:
        """What the layer is applied to."""
        return present_operand(self.product, 0)


@attrs.frozen(eq=False)
class Form:
    """A value that can be computed on rows: `rows` are the operands that are put on rows for it. `linear` is the linear
    layer in it, and `saved` how many nodes fewer it takes on rows."""

    value: Value
    rows: tuple[Value, ...]
    linear: Linear | None = None
    saved: int = 0


def present_operand(value: Value, index: int) -> Value:
    """An operand that every value of the operator has."""
    found = value.inputs[index]
    if found is None:
        raise ValueError(f"{value!r} has no operand {index}")
    return found


# ---------------------------------------------------------------------------------------------- what goes on rows


def has_rows(value: Value) -> bool:
    """True for a tensor of rank 3 or more, with a last axis of known size, not 0, and dimensions that have names."""
    type_ = value.type
    if type(type_) is not Tensor or len(type_.shape) < 3:
        return False
    width = type_.shape[-1]
    return type(width) is int and width > 0 and is_known(type_.shape)


def turned(value: Value, alone: bool) -> Value | None:
    """The weight whose transpose a constant is seen as, or that a Transpose makes of it; None where there is none."""
    if value.op == CONSTANT:
        blob: Blob = value.attributes[0][1]
        return None if blob.turned is None else constant(blob.turned).with_origin(value.origin)
    source = value.inputs[0] if value.op == "Transpose" and value.rank == 2 else None
    if source is None or source.op != CONSTANT or not alone or value.attribute("perm", (1, 0)) != (1, 0):
        return None
    return source


def forms_of(graph: Graph) -> dict[Value, Form]:
    """What of a graph can be computed on rows, by value. The MatMul of a layer with a bias is part of its sum."""
    found: dict[Value, Form] = {}
    users, results = graph.users, set(graph.results)

    def alone(value: Value) -> bool:
        return len(users.get(value, ())) == 1 and value not in results

    for value in graph.order:
        if value.op in ON_ROWS and has_rows(value):
            made = form_of(value, found, alone)
            if made is not None:
                found[value] = made
                if made.linear is not None and made.linear.product is not value:
                    del found[made.linear.product]
    return found


def form_of(value: Value, found: Mapping[Value, Form], alone: Callable[[Value], bool]) -> Form | None:
    """How a value is computed on rows; None where it is not."""
    if value.op == "MatMul":
        x, weight = present_operand(value, 0), present_operand(value, 1)
        if weight.rank != 2 or value.dtype not in DTYPES or not has_rows(x):
            return None
        held = turned(weight, alone(weight))
        saved = int(weight.op != CONSTANT and held is not None)
        if held is None and weight.op != CONSTANT:
            return None
        return Form(value, (x,), Linear(value, weight if held is None else held, int(held is not None), None), saved)
    if value.op in NORMS:
        x = present_operand(value, 0)
        last = attribute_of(value, "axis") in (-1, value.rank - 1)
        plain = all(v is None or v.rank < 2 for v in value.inputs[1:])
        return Form(value, (x,)) if last and plain and has_rows(x) and x.rank == value.rank else None
    return with_bias(value, found, alone) or elementwise(value, value.inputs)


def elementwise(value: Value, operands: Sequence[Value | None], linear: Linear | None = None) -> Form | None:
    """The form of an operator that computes each element by itself: its operands have its rows, or are the same for
    every row."""
    lead, rows = value.shape[:-1], list[Value]()
    for each in operands:
        if each is None or type(each.type) is not Tensor:
            return None
        if each.rank > 1:
            if not has_rows(each) or not same_shape(each.shape[:-1], lead):
                return None
            rows.append(each)
    if linear is not None:
        rows.insert(0, linear.x)
    return Form(value, tuple(rows), linear, int(linear is not None and len(value.inputs) == 2)) if rows else None


def with_bias(value: Value, found: Mapping[Value, Form], alone: Callable[[Value], bool]) -> Form | None:
    """The form of a sum that holds a linear layer and its bias."""
    if value.op not in ("Add", "Sum"):
        return None
    terms = [v for v in value.inputs if v is not None]
    width = value.shape[-1]
    vectors = [v for v in terms if v.shape == (width,)]
    bias = vectors[0] if vectors else None
    for term in terms if bias is not None else ():
        form = found.get(term)
        if form is not None and form.linear is not None and form.linear.product is term and alone(term):
            if not same_shape(term.shape, value.shape):
                continue
            rest = [v for v in terms if v is not term and v is not bias]
            if len(rest) + 2 != len(terms):
                continue
            layer = form.linear
            made = elementwise(value, rest, Linear(layer.product, layer.held, layer.transposed, bias))
            return made if made is None else Form(value, made.rows, made.linear, made.saved + form.saved)
    return None


# ---------------------------------------------------------------------------------------------- regions


def regions(forms: Mapping[Value, Form]) -> list[list[Form]]:
    """The forms in groups that hang together, each in the order of the graph; those without a linear layer of a turned
    weight are left out."""
    parent: dict[Value, Value] = {}

    def root(value: Value) -> Value:
        while parent[value] is not value:
            parent[value] = value = parent[parent[value]]
        return value

    for value, form in forms.items():
        parent[value] = value
        for each in form.rows:
            parent.setdefault(each, each)
            parent[root(each)] = root(value)
    groups: dict[Value, list[Form]] = {}
    for value, form in forms.items():
        groups.setdefault(root(value), []).append(form)
    return [g for g in groups.values() if any(f.linear is not None and f.linear.transposed for f in g)]


@attrs.define(eq=False)
class Region:
    """Values that are computed on rows together. `owner` says which value a MatMul that stands for no value of its own
    belongs to."""

    graph: Graph
    inside: dict[Value, Form]
    owner: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    results: frozenset[Value] = frozenset()
    _users: dict[Value, tuple[list[Value], list[Value], bool]] = attrs.field(factory=dict)  # pyright: ignore[reportUnknownVariableType]
    """What was found of the users of values; where the region changes, that of the operands it concerns is dropped."""

    @classmethod
    def of(cls, graph: Graph, forms: Iterable[Form], results: frozenset[Value]) -> Region:
        """The region of these forms, without the values at its edges that are better left outside."""
        made = cls(graph, {f.value: f for f in forms}, results=results)
        for form in made.inside.values():
            if form.linear is not None and form.linear.product is not form.value:
                made.owner[form.linear.product] = form.value
        for sweep in range(2 * SWEEPS):  # forth and back
            values = tuple(made.inside)
            for value in reversed(values) if sweep % 2 else values:
                if made.change(value) < 0:
                    made.drop(value)
            if len(made.inside) == len(values):
                break
        return made

    def drop(self, value: Value) -> None:
        """Leaves a value outside."""
        form = self.inside.pop(value)
        concerned = value.inputs if form.linear is None else (*value.inputs, *form.linear.product.inputs)
        for each in concerned:
            self._users.pop(each, None)  # type: ignore[arg-type]

    def users(self, value: Value) -> tuple[list[Value], list[Value], bool]:
        """(the users of a value in the region, those outside, whether it is needed with its own dimensions)"""
        found = self._users.get(value)
        if found is None:
            within: list[Value] = []
            outside: list[Value] = []
            owner, inside = self.owner, self.inside
            for user in self.graph.users.get(value, ()):
                (within if owner.get(user, user) in inside else outside).append(user)
            leaves = value in self.results or any(not is_free(user, value) for user in outside)
            found = self._users[value] = within, outside, leaves
        return found

    def leaves(self, value: Value) -> bool:
        """True where a value of the region is needed with its own dimensions, by more than a Reshape of it."""
        return self.users(value)[2]

    def enters(self, value: Value) -> bool:
        """True where putting a value from outside on rows takes a node."""
        return not (value.op == "Reshape" and value not in self.results and not self.users(value)[1])

    def change(self, value: Value) -> int:
        """How many nodes more it takes where a value of the region is left outside."""
        form = self.inside[value]
        found = form.saved - int(self.leaves(value)) + int(bool(self.users(value)[0]))
        if form.linear is not None and self.joins(form):
            beside = [self.inside.get(self.owner.get(u, u)) for u in self.graph.users[form.linear.x]]
            found += min(2, sum([f is not None and f is not form and self.joins(f) for f in beside]))
        for each in dict.fromkeys(form.rows):
            if each in self.inside:
                found += int(not self.leaves(each))
            elif len(self.users(each)[0]) == 1:
                found -= int(self.enters(each))
        return found

    def joins(self, form: Form) -> bool:
        """True for a layer that can be joined: its result leaves, its weight and bias are constants."""
        linear = form.linear
        if linear is None or not linear.transposed or len(form.rows) > 1 or self.users(form.value)[0]:
            return False
        return (linear.bias is None or linear.bias.op == CONSTANT) and self.leaves(form.value)

    def groups(self) -> list[list[Form]]:
        """Layers of one operand that are joined."""
        found: dict[Value, list[Form]] = {}
        for form in self.inside.values():
            if form.linear is not None and self.joins(form):
                found.setdefault(form.linear.x, []).append(form)
        return [group for group in found.values() if len(group) > 1]

    def is_empty(self) -> bool:
        """True where a dimension, and so the number of all rows, is 0: a Reshape would copy a size in its place."""
        return any(type(d) is int and d == 0 for d in next(iter(self.inside)).shape)

    def pays(self) -> bool:
        """True where the region takes no more nodes on rows, and most of its linear layers have a bias."""
        layers = [f.linear for f in self.inside.values() if f.linear is not None]
        if 2 * sum(each.bias is not None for each in layers) < len(layers) or not any(e.transposed for e in layers):
            return False
        entering = {v for f in self.inside.values() for v in f.rows if v not in self.inside}
        grown = sum(map(self.enters, entering)) - sum(f.saved for f in self.inside.values())
        grown += sum(map(self.leaves, self.inside))
        computed: set[tuple[dims.Dim, ...]] = set()
        for value in self.inside:
            if self.leaves(value) and sum(type(d) is not int for d in value.shape) > 1:
                computed.add(value.shape)
        for group in self.groups():
            grown -= 2 * len(group) - 3
            computed.difference_update(f.value.shape for f in group)
            computed.update([f.value.shape[:-1] for f in group if sum(type(d) is not int for d in f.value.shape) > 1])
        return grown + len(computed) <= 0


def is_free(user: Value, value: Value) -> bool:
    """True for a Reshape of a value that is as well one of its rows: its target copies no dimension."""
    if user.op != "Reshape" or user.inputs[0] is not value:
        return False
    target = present_operand(user, 1)
    if target is value:
        return False
    if target.op == SHAPE_VECTOR:
        return not any(type(d) is int and d == 0 for d in target.attribute("dims"))
    return target.blob is not None and bool((target.blob.array != 0).all())


# ---------------------------------------------------------------------------------------------- the new graph


@attrs.define(eq=False)
class Builder:
    """A graph being built: `flat` has what is on rows, by the value that it stands for, and `new` what is not."""

    bound: frozenset[object]
    inside: dict[Value, Form]
    groups: dict[Value, list[Form]]
    new: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    flat: dict[Value, Value] = attrs.field(factory=dict[Value, Value])

    def old(self, value: Value) -> Value:
        """A value with its own dimensions."""
        if value in self.inside and value not in self.new:
            self.new[value] = shaped(self.flat[value], value.shape, self.binders(value)).with_origin(value.origin)
        return self.new.get(value, value)

    def binders(self, value: Value) -> tuple[Value, ...]:
        """What binds the dimensions of a value of a region that no parameter does: an operand that is on no rows."""
        symbols = {s for d in value.shape for s in dims.symbols_of(d)}
        if symbols <= self.bound:
            return ()
        while value in self.inside:
            value = self.inside[value].rows[0]
        return (self.old(value),)

    def rows(self, value: Value) -> Value:
        """A value on rows."""
        if value not in self.flat:
            source = present_operand(value, 0) if value.op == "Reshape" else value
            given = self.flat[source] if source in self.inside and source not in self.new else self.old(source)
            shape = flattened(value.shape)
            if not same_shape(given.shape, shape):
                given = shaped(given, shape, self.binders(value)).with_origin(value.origin.after("rows"))
            self.flat[value] = given
        return self.flat[value]

    def add(self, form: Form) -> None:
        """Puts a value of a region on rows."""
        value, linear = form.value, form.linear
        if linear is not None and linear.x in self.groups and form in self.groups[linear.x]:
            self.split(self.groups[linear.x], linear.x)
            return
        origin = value.origin.after("rows")
        gone = () if linear is None else (linear.product, linear.bias)
        kept = () if linear is not None and linear.product is value else value.inputs
        operands = [
            v if v is None else self.rows(v) if v in form.rows else self.old(v)
            for v in kept
            if v is None or v not in gone
        ]
        if linear is not None:
            bias = None if linear.bias is None else self.old(linear.bias)
            layer = gemm(self.rows(linear.x), linear.held, linear.transposed, bias)
            if not operands:
                self.flat[value] = layer.with_origin(origin)
                return
            operands.insert(0, layer.with_origin(linear.product.origin.after("rows")))
        attributes = value.attributes
        if value.op in NORMS:  # along the last axis, which is the default of all of them
            attributes = tuple(each for each in attributes if each[0] != "axis")
        type_ = Tensor(value.dtype, flattened(value.shape))
        self.flat[value] = vertex(value.op, tuple(operands), attributes, (), type_, origin)

    def split(self, group: list[Form], x: Value) -> None:
        """Layers of one operand as one: each result is a part of it."""
        first = group[0].value
        if first in self.new:
            return
        layers = [f.linear for f in group if f.linear is not None]
        weights = [each.held.blob for each in layers if each.held.blob is not None]
        sizes = [weight.shape[0] for weight in weights]
        bias = None
        if any(each.bias is not None for each in layers):
            bias = constant(joined_blob([bias_of(each) for each in layers], joined_name([e.bias for e in layers])))
        weight = constant(joined_blob(weights, joined_name([each.held for each in layers])))
        origin = first.origin.after("rows")
        made = gemm(self.rows(x), weight.with_origin(layers[0].held.origin), 1, bias).with_origin(origin)
        whole = shaped(made, (*first.shape[:-1], sum(sizes)), self.binders(first)).with_origin(origin)
        parts = call("Split", [whole, vector(sizes)], {"axis": -1}, outputs=len(sizes))
        node = parts[0].inputs[0].with_origin(origin)
        self.new.update(
            (f.value, p.with_inputs((node,)).with_origin(origin)) for f, p in zip(group, parts, strict=True)
        )


def flattened(shape: tuple[dims.Dim, ...]) -> tuple[dims.Dim, dims.Dim]:
    """(rows, width)"""
    return dims.product(shape[:-1]), shape[-1]


def gemm(x: Value, weight: Value, transposed: int, bias: Value | None) -> Value:
    """x @ weight + bias, for matrices; `transposed` for a weight that is held so."""
    type_ = Tensor(x.dtype, (x.shape[0], weight.shape[0 if transposed else 1]))
    operands = (x, weight) if bias is None else (x, weight, bias)
    return vertex("Gemm", operands, (("transB", 1),) if transposed else (), (), type_)


def shaped(value: Value, shape: tuple[dims.Dim, ...], binders: tuple[Value, ...]) -> Value:
    """A value under other dimensions, of which none is the number 0."""
    return vertex("Reshape", (value, shape_vector(shape, *binders)), (), (), Tensor(value.dtype, shape))


def bias_of(layer: Linear) -> Blob:
    """The bias of a layer; zeros where it has none."""
    if layer.bias is not None and layer.bias.blob is not None:
        return layer.bias.blob
    size, dtype = layer.product.shape[-1], layer.product.dtype
    return Blob(dtype, (size,), partial(np.zeros, size, dtype.numpy))


# ---------------------------------------------------------------------------------------------- the pass


def rows_here(graph: Graph, target: Target) -> Graph:
    """The graph with linear layers on rows, outside of bodies; itself where there is none that pays."""
    products = [v for v in graph.order if v.op in ("MatMul", "Gemm")]
    if not products:
        return graph
    results = frozenset(graph.results)
    chosen: list[Region] = []
    sums = [v for v in graph.order if v.op in ("Add", "Sum")]
    for forms in regions(forms_of(graph)) if any(map(adds_row, sums)) else ():
        region = Region.of(graph, forms, results)
        good = region.inside and not region.is_empty() and region.pays()
        if good and all(takes(target, *kind) for kind in kinds(region)):
            chosen.append(region)
    matrices = {v: new for v in products if (new := unturned(v, target)) is not None}
    if not chosen and not matrices:
        return graph
    bound = frozenset(s for p in graph.params for d in shape_of(p) for s in dims.symbols_of(d))
    inside = {v: f for region in chosen for v, f in region.inside.items()}
    owned = {p for region in chosen for p, v in region.owner.items() if v in region.inside}
    groups = {present_operand(g[0].linear.product, 0): g for region in chosen for g in region.groups() if g[0].linear}
    builder = Builder(bound, inside, groups)
    for value in graph.order:
        if value in inside:
            builder.add(inside[value])
        elif value not in owned:
            rebuild(builder, value, matrices.get(value))
    return graph.with_results(builder.old(r) for r in graph.results)


def adds_row(value: Value) -> bool:
    """Whether a sum may be a linear layer with its bias: layers without any do not pay on rows."""
    return any(v is not None and len(shape_of(v)) == 1 for v in value.inputs)


def rebuild(builder: Builder, value: Value, instead: Value | None) -> None:
    """Puts a value that is on no rows over its new operands. `instead` may stand for it, with operands of the old
    graph."""
    source = value.inputs[0] if value.op == "Reshape" else None
    if source is not None and source in builder.inside and source not in builder.new and is_free(value, source):
        shape = builder.old(present_operand(value, 1))
        builder.new[value] = value.with_inputs((builder.flat[source], shape))
        return
    given = value if instead is None else instead
    inputs = tuple([None if v is None else builder.old(v) for v in given.inputs])
    if instead is not None or inputs != value.inputs:
        builder.new[value] = given.with_inputs(inputs)


def unturned(value: Value, target: Target) -> Value | None:
    """The product of matrices that takes its weight as it is held; None for every other product."""
    if value.inputs[1] is None or value.inputs[1].op != CONSTANT:
        return None
    x, weight = present_operand(value, 0), present_operand(value, 1)
    held = turned(weight, True) if value.rank == x.rank == 2 and value.dtype in DTYPES else None
    if 0 in weight.shape:
        return None
    if held is None:
        return None
    attributes = dict(value.attributes)
    made = call("Gemm", [x, held, *value.inputs[2:]], {**attributes, "transB": 1 - attributes.get("transB", 0)})
    return made.with_origin(value.origin.after("rows")) if not target.problem(made) else None


def shape_of(value: Value) -> tuple[dims.Dim, ...]:
    """The dimensions of a tensor; none for another value."""
    return value.type.shape if isinstance(value.type, Tensor) else ()


def kinds(region: Region) -> set[tuple[DType, int, bool]]:
    """The element type of each layer of a region, whether its weight is held transposed, and whether it has a bias."""
    layers = [f.linear for f in region.inside.values() if f.linear is not None]
    return {(each.product.dtype, each.transposed, each.bias is not None) for each in layers}


@lru_cache(maxsize=256)
def takes(target: Target, dtype: DType, transposed: int, biased: bool) -> bool:
    """True where the target has what a layer of such a kind is made of on rows."""
    x, weight, bias = (param(Tensor(dtype, shape)) for shape in ((1, 1, 1), (1, 1), (1,)))
    flat = shaped(x, (1, 1), ())
    return not (target.problem(flat) or target.problem(gemm(flat, weight, transposed, bias if biased else None)))


@without_collector
def rows(graph: Graph, target: Target, *, observe: Observer = nobody) -> Graph:
    """The graph with linear layers on rows where that pays, in bodies too; the very same object where it does not, and
    for targets but ONNX Runtime on the CPU."""
    if target.provider != "CPUExecutionProvider":
        return graph

    here = Pass("here", (), lambda given, _observe, _depth: rows_here(given, target))
    return Pass("rows", (("target", str(target)),), in_bodies(here).body).run(graph, observe)
