"""The result types of a call: those of the body, over the dimensions of the operands.

A body is generic in the symbols of its parameters' types: a body from f32[n] to f32[2*n], called on an f32[a], gives an
f32[2*a].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sympy

from irkit import dims
from irkit.core.ir import Graph, Value
from irkit.core.origins import NOWHERE, Origin
from irkit.core.types import Tuple, Type, dims_of, map_dims
from irkit.core.vocabulary import PARAM, SHAPE_VECTOR
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


def applied_body(body: Graph, operands: tuple[Value, ...], place: Origin = NOWHERE) -> tuple[Value, ...]:
    """The results of `body` over `operands`, one for each parameter, as values of their own. Those that have no origin
    take `place`. Sizes that depend on data become fresh dimensions."""
    known = dict(substitution((p.type for p in body.params), (v.type for v in operands)))

    def resized(size: Dim) -> Dim:
        for symbol in dims.symbols_of(size):
            if dims.is_fresh(symbol) and symbol not in known:
                known[symbol] = dims.fresh()
        return dims.substitute(size, known) if known else size

    new: dict[Value, Value] = dict(zip(body.params, operands, strict=True))
    for value in body.order:
        if value.op == PARAM:
            continue
        inputs = tuple(None if v is None else new[v] for v in value.inputs)
        attributes = value.attributes
        if value.op == SHAPE_VECTOR:
            sizes = tuple(map(resized, value.attributes[0][1]))
            attributes = (("dims", sizes), *attributes[1:])
            inputs = (*_binders(sizes, operands), *inputs)
        if value.inputs or attributes is not value.attributes:
            origin = place if value.origin is NOWHERE else value.origin
            value_type = map_dims(value.type, resized)
            new[value] = Value(value.op, inputs, attributes, value.bodies, value_type, origin)
        else:
            new[value] = value
    return tuple(new[r] for r in body.results)


def _binders(sizes: Iterable[Dim], operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """The operands in whose types symbols of the sizes stand."""
    used = {s for d in sizes for s in dims.symbols_of(d)}
    return tuple(v for v in operands if used.intersection(s for d in dims_of(v.type) for s in dims.symbols_of(d)))
