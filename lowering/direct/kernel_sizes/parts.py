"""What operators that take parts of tensors require of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from irkit import dims
from irkit.core.ir import Value
from lowering.records.sizes import is_unbacked
from lowering.tensors.shaping import axis


def part_of(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """narrow(x, dim, start, length), which lies within the dimension, counted from the end where it starts below 0"""
    given = {**dict(zip(("self", "dim", "start", "length"), args, strict=False)), **kwargs}
    size, start, length = args[0].shape[axis(given["dim"], args[0].rank)], given["start"], given["length"]
    sizes = [each for each in (size, start, length) if type(each) is not int]
    if isinstance(start, Value) or not sizes or any(is_unbacked(s.name) for each in sizes for s in each.free_symbols):
        return
    if sympy.sympify(start).is_nonnegative:
        tracer.asked.required(sympy.Le(dims.add(start, length), size))
    elif type(start) is int:
        tracer.asked.required(sympy.Le(length, -start))
        tracer.asked.required(sympy.Ge(size, -start))
    else:
        within = sympy.And(sympy.Ge(start, 0), sympy.Le(dims.add(start, length), size))
        from_end = sympy.And(
            sympy.Lt(start, 0), sympy.Ge(dims.add(size, start), 0), sympy.Le(dims.add(start, length), 0)
        )
        tracer.asked.required(sympy.Or(within, from_end))
