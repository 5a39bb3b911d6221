"""What operators that take parts of tensors, or continue them, require of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from irkit import dims
from irkit.core.ir import Value
from lowering.errors import CaptureError
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


def wrapped_around(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """_pad_circular(x, pad): once it is cropped there must be something to repeat, which a side does once at most.

    Raises CaptureError where sizes tell that one side takes away what the other would repeat."""
    x, pad = args[:2]
    hint = tracer.asked.hint
    for i, left in enumerate(sizes_cropped(x, pad)):
        sides = pad[2 * i : 2 * i + 2]
        for side, other in zip(sides, reversed(sides), strict=True):
            if type(side) is int:
                continue
            tracer.asked.required(sympy.Le(side, x.shape[-1 - i]))
            if (
                type(x.shape[-1 - i]) is int
                or side.is_nonnegative
                or side.is_negative
                or (type(other) is int and other <= 0)
            ):
                continue
            if hint(side) < 0 < hint(other):
                what = "sizes tell that a circular padding takes away at one side what it repeats at the other"
                raise CaptureError(what, source=tracer.line(), hint="take the part, x[..., a:], and pad that")
            tracer.asked.required(sympy.Or(sympy.Ge(side, 0), sympy.Le(other, 0)))
        whole = dims.add(x.shape[-1 - i], dims.add(*sides))
        if type(whole) is not int and not all(type(side) is int and side >= 0 for side in sides):
            tracer.asked.required(sympy.Ge(whole, 0))
        if any(hint(side) > 0 for side in sides) and type(left) is not int:
            tracer.asked.required(sympy.Ge(left, 1))


def sizes_cropped(x: Value, pad: Sequence[Any]) -> list[Any]:
    """The sizes of the last dimensions, from the last one on, less what a negative padding takes off."""
    taken = [[dims.minimum(side, 0) for side in pad[2 * i : 2 * i + 2]] for i in range(len(pad) // 2)]
    return [dims.add(dims.add(x.shape[-1 - i], first), last) for i, (first, last) in enumerate(taken)]
