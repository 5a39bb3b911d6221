"""The result types of a call: those of the body, over the dimensions of the operands.

A body is generic in the symbols of its parameters' types: a body from f32[n] to f32[2*n], called on an f32[a], gives an
f32[2*a].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

import attrs
import numpy as np
import sympy

from irkit import dims
from irkit.core.blobs import blob
from irkit.core.ir import Graph, Value, constant, vertex
from irkit.core.origins import NOWHERE, Origin
from irkit.core.types import Tuple, Type, dims_of, map_dims
from irkit.core.vocabulary import CALL, PARAM, SHAPE_VECTOR
from irkit.dims import Dim


def substitution(wanted: Iterable[Type], given: Iterable[Type]) -> Mapping[sympy.Symbol, Dim]:
    """What the plain symbols of the parameters' types are in the operands' types, where that is something else."""
    found: dict[sympy.Symbol, Dim] = {}
    for inner_type, outer_type in zip(wanted, given, strict=True):
        if inner_type is outer_type:
            continue
        for inner, outer in zip(dims_of(inner_type), dims_of(outer_type), strict=False):
            if isinstance(inner, sympy.Symbol):
                found.setdefault(inner, outer)
    return {inner: outer for inner, outer in found.items() if inner is not outer}


def call_type(body: Graph, given: Iterable[Type]) -> Type:
    """The type of a Call of `body` on operands of these types: a Tuple unless it has one result.

    A size that depends on data is another one in each call, and so becomes a fresh dimension.
    """
    known = dict(substitution((p.type for p in body.params), given))

    def resized(size: Dim) -> Dim:
        for symbol in dims.symbols_of(size):
            if dims.is_fresh(symbol) and symbol not in known:
                known[symbol] = dims.fresh()
        return dims.substitute(size, known)

    types = tuple(map_dims(r.type, resized) for r in body.results)
    return types[0] if len(types) == 1 else Tuple(types)


def inlined_call(call: Value) -> tuple[Value, ...]:
    """What a Call computes, written with the values of its body over its operands: one value for each result.

    Sizes that depend on data are other ones in each call, and so become fresh dimensions.
    """
    return applied_body(call.bodies[0], tuple(v for v in call.inputs if v is not None), call.origin)


def applied_body(
    body: Graph,
    operands: tuple[Value, ...],
    place: Origin = NOWHERE,
    sizes: Mapping[sympy.Symbol, Dim] = MappingProxyType({}),
) -> tuple[Value, ...]:
    """The results of `body` over `operands`, one for each parameter, as values of their own. Those that have no origin
    take `place`. Sizes that depend on data become fresh dimensions; `sizes` are known beyond what operands tell."""
    known = {**substitution((p.type for p in body.params), (v.type for v in operands)), **sizes}
    work = _Resizing(known)
    new: dict[Value, Value] = dict(zip(body.params, operands, strict=True))
    for value in body.order:
        if value.op == PARAM:
            continue
        inputs = tuple(None if v is None else new[v] for v in value.inputs)
        attributes = tuple([(name, work.attribute(each)) for name, each in value.attributes])
        if value.op == SHAPE_VECTOR:
            if dims.are_numbers(attributes[0][1]):
                new[value] = constant(blob(np.array(attributes[0][1], np.int64))).with_origin(value.origin)
                continue
            inputs = (*_binders(attributes[0][1], operands), *inputs)
        if value.inputs or attributes != value.attributes:
            origin = place if value.origin is NOWHERE else value.origin
            bodies = tuple([work.body(each, value.op == CALL) for each in value.bodies])
            new[value] = vertex(value.op, inputs, attributes, bodies, map_dims(value.type, work.size), origin)
        else:
            new[value] = value
    return tuple(new[r] for r in body.results)


@attrs.define(eq=False)
class _Resizing:
    """Sizes put in the place of others in one application of a body, and in the bodies in it.

    `renews` says that each fresh symbol that is met becomes another one. Those in bodies are of these bodies alone,
    unless they were met outside before.
    """

    known: dict[sympy.Symbol, Dim]
    renews: bool = True
    bodies: dict[tuple[int, int], tuple[Graph, Graph]] = attrs.field(factory=dict[tuple[int, int], tuple[Graph, Graph]])

    def size(self, size: Dim) -> Dim:
        """A size over what is known."""
        if type(size) is int:
            return size
        for symbol in dims.symbols_of(size) if self.renews else ():
            if dims.is_fresh(symbol) and symbol not in self.known:
                self.known[symbol] = dims.fresh()
        return dims.substitute(size, self.known) if self.known else size

    def attribute(self, attribute: Any) -> Any:
        """An attribute with the sizes in it replaced."""
        if type(attribute) is tuple:
            return tuple([self.attribute(part) for part in cast("tuple[Any, ...]", attribute)])
        return self.size(attribute) if isinstance(attribute, sympy.Expr) else attribute

    def body(self, body: Graph, called: bool) -> Graph:
        """A body with other sizes; itself where it has none of them. What a Call names is generic in the symbols of its
        parameters, which so stay."""
        key = id(body), len(self.known)
        if key not in self.bodies:
            own = {s for p in body.params for d in dims_of(p.type) for s in dims.symbols_of(d)} if called else ()
            known = {s: d for s, d in self.known.items() if s not in own}
            self.bodies[key] = body, _Resizing(known, renews=False).rebuilt(body) if known else body
        return self.bodies[key][1]

    def rebuilt(self, body: Graph) -> Graph:
        """The body over parameters and values of other types."""
        new: dict[Value, Value] = {}
        for value in body.order:
            inputs = tuple([None if v is None else new[v] for v in value.inputs])
            attributes = tuple([(name, self.attribute(each)) for name, each in value.attributes])
            bodies = tuple([self.body(each, value.op == CALL) for each in value.bodies])
            type_ = map_dims(value.type, self.size)
            before, after = (value.type, *value.inputs, *value.bodies), (type_, *inputs, *bodies)
            if all(a is b for a, b in zip(before, after, strict=True)) and attributes == value.attributes:
                new[value] = value
            else:
                new[value] = vertex(value.op, inputs, attributes, bodies, type_, value.origin)
        if all(new[v] is v for v in (*body.params, *body.results)):
            return body
        params, results = (tuple([new[v] for v in each]) for each in (body.params, body.results))
        return Graph(params, results, body.symbols, body.signature, body.name)


def _binders(sizes: Iterable[Dim], operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """The operands in whose types symbols of the sizes stand."""
    used = {s for d in sizes for s in dims.symbols_of(d)}
    return tuple(v for v in operands if used.intersection(s for d in dims_of(v.type) for s in dims.symbols_of(d)))
