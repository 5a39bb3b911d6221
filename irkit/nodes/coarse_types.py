"""Type rules over sizes that are vast expressions: where the algebra refuses one, the size is unknown in the result."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from irkit import dims
from irkit.core.types import Type, dims_of, map_dims
from irkit.dims import Dim, signs
from irkit.errors import DimensionError
from irkit.ops.types.context import Context

PLAIN = 12
"""Parts of the expressions that are kept as they are."""


Inferred = Type | tuple[Type, ...]


def inferred_or_coarser(rule: Callable[[Context], Inferred], context: Context) -> Inferred:
    """What a type rule says, whose sizes may be such that no expression of moderate length says what comes of them."""
    try:
        return rule(context)
    except DimensionError:
        stand_ins: dict[Dim, Dim] = {}

        def plain(size: Dim) -> Dim:
            if type(size) is int or signs.extent(size)[0] <= PLAIN:
                return size
            return stand_ins.setdefault(size, dims.fresh())

        inputs = tuple(None if v is None else v.with_type(map_dims(v.type, plain)) for v in context.inputs)
        if not stand_ins:
            raise
        found = rule(attrs.evolve(context, inputs=inputs))
        back = {symbol: size for size, symbol in stand_ins.items()}
        return tuple(restored(t, back) for t in found) if isinstance(found, tuple) else restored(found, back)


def restored(type_: Type, back: dict[Dim, Dim]) -> Type:
    """The type with the sizes that something stood in for; those made of one are unknown."""

    def size_of(size: Dim) -> Dim:
        if type(size) is int or not any(s in back for s in dims.symbols_of(size)):
            return size
        return back[size] if size in back else dims.fresh()

    return map_dims(type_, size_of) if any(type(d) is not int for d in dims_of(type_)) else type_
