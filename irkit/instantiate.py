"""The result types of a call: those of the body, over the dimensions of the operands.

A body is generic in the symbols of its parameters' types: a body from f32[n] to f32[2*n], called on an f32[a], gives an
f32[2*a].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from irkit import dims
from irkit.dims import Dim
from irkit.ir import Graph
from irkit.types import Tuple, Type, dims_of, map_dims


def substitution(wanted: Iterable[Type], given: Iterable[Type]) -> Mapping[Any, Dim]:
    """What the plain symbols of the parameters' types are in the operands' types, where that is something else."""
    found: dict[Any, Dim] = {}
    for inner_type, outer_type in zip(wanted, given, strict=True):
        if inner_type is outer_type:
            continue
        for inner, outer in zip(dims_of(inner_type), dims_of(outer_type), strict=False):
            if isinstance(inner, dims.sympy.Symbol):
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
