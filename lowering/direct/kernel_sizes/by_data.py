"""What operators whose results data sizes require of the sizes of their operands: none of them is run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from irkit import dims


def require_beside(tracer: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Keeps what bincount(x, weights) and repeat_interleave(x, repeats, dim) require: a weight for each number, of
    which there are some, for of nothing torch counts in integers; and repeats for each row, or one for all."""
    given = {**dict(zip([each.name for each in func._schema.arguments], args, strict=False)), **kwargs}
    name = f"{func._schema.name}.{func._schema.overload_name}"
    if name == "aten::bincount." and given.get("weights") is not None:
        count, weights = (tracer.handle(given[each]).value.shape[0] for each in ("self", "weights"))
        tracer.asked.equal(count, weights)
        if type(count) is not int:
            tracer.asked.required(sympy.Ge(count, 1))
    if name == "aten::repeat_interleave.self_Tensor":
        shape, repeats = (tracer.handle(given[each]).value.shape for each in ("self", "repeats"))
        rows = dims.product(shape) if given.get("dim") is None else shape[given["dim"]]
        if repeats and repeats[0] != 1 and dims.same(rows, repeats[0]) is not True:
            one: Any = sympy.Eq(repeats[0], 1)
            tracer.asked.required(sympy.Or(sympy.Eq(rows, repeats[0]), one))
