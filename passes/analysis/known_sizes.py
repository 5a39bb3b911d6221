"""Sizes that a value holds, read as dimensions, and values made of such, with what binds their symbols."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np
import sympy

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.errors import DimensionError
from irkit.ops.types.integers import LIMIT
from irkit.rewriting.face import Match


@attrs.frozen
class Sizes:
    """An int64 scalar or vector whose elements are known dimensions, with what binds their symbols."""

    dims: tuple[Dim, ...]
    rank: int
    binders: tuple[Value, ...] = ()
    scalars: tuple[tuple[sympy.Symbol, Value], ...] = ()

    @property
    def symbolic(self) -> bool:
        """True where some element is not a number."""
        return any(type(d) is not int for d in self.dims)


def sizes_held(value: Value | None) -> Sizes | None:
    """The sizes that a value holds, if it is a constant, a ShapeVector or a Squeeze of one; None for all others."""
    if value is None:
        return None
    if value.op == SHAPE_VECTOR:
        symbols = value.attribute("scalars", ())
        count = len(value.inputs) - len(symbols)
        pairs = tuple(zip(symbols, value.inputs[count:], strict=True))
        return Sizes(value.attributes[0][1], 1, value.inputs[:count], pairs)  # type: ignore[arg-type]
    if value.op == "Squeeze":
        inner = sizes_held(value.inputs[0])
        return None if inner is None or inner.rank != 1 or value.rank else attrs.evolve(inner, rank=0)
    blob = value.blob
    if blob is None or blob.dtype is not DType.INT64 or len(blob.shape) > 1 or blob.size > LIMIT:
        return None
    return Sizes(tuple(blob.array.ravel().tolist()), len(blob.shape))


def sizes_value(m: Match, sizes: Iterable[Dim], rank: int, *sources: Sizes) -> Value:
    """The value that holds those sizes, bound by what binds the sources. Raises DimensionError, which rules let pass,
    for numbers beyond 64 bits."""
    found = tuple(sizes)
    if dims.are_numbers(found):
        return const(_numbers(found).reshape((-1,) if rank else ()))
    scalars, others, candidates = _parts(found, sources)
    vector = shape_vector(found, *m.binders(others, *candidates), scalars=scalars)
    return vector if rank else op.Squeeze(vector, np.array([0]))


def built_if_bound(m: Match, sizes: tuple[Dim, ...], *sources: Sizes) -> Value | None:
    """The vector of those sizes, bound by what binds the sources; None where something binds no symbol of theirs."""
    if dims.are_numbers(sizes):
        return const(_numbers(sizes))
    scalars, others, candidates = _parts(sizes, sources)
    binders = m.binding(others, *candidates)
    return None if binders is None else shape_vector(sizes, *binders, scalars=scalars)


def _numbers(found: tuple[Dim, ...]) -> np.ndarray:
    try:
        return np.array(found, dtype=np.int64)
    except OverflowError:
        raise DimensionError(f"a size would be beyond 64 bits: {found}", hint="such numbers wrap around") from None


def is_bound(m: Match, sizes: Iterable[Dim], *sources: Sizes) -> bool:
    """True where every symbol of the sizes is bound, by a parameter's type or by a source."""
    _, others, candidates = _parts(tuple(sizes), sources)
    return m.is_bound(others, *candidates)


def _parts(
    sizes: tuple[Dim, ...], sources: tuple[Sizes, ...]
) -> tuple[dict[sympy.Symbol, Value], list[sympy.Symbol], list[Value]]:
    """(the scalars whose content symbols of the sizes are, the other symbols, the binders of the sources)"""
    symbols = dict.fromkeys(s for d in sizes for s in dims.symbols_of(d))
    scalars = {s: v for source in sources for s, v in source.scalars if s in symbols}
    candidates = dict.fromkeys(v for source in sources for v in source.binders)
    return scalars, [s for s in symbols if s not in scalars], list(candidates)


def bound_by(*values: Value) -> Sizes:
    """No sizes, with values whose types bind symbols."""
    return Sizes((), 1, values)


def is_size(value: Value) -> bool:
    """True for what `sizes_held` can read and that is not a constant."""
    return value.op != CONSTANT and sizes_held(value) is not None
