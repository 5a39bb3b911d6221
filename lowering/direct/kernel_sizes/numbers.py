"""What operators require of plain numbers that sizes tell, which torch looks at only as it computes: the meta device
takes any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sympy

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import DType


def of_sizes(number: Any) -> bool:
    """Whether a number is computed of sizes, or is a whole one out of data."""
    return not isinstance(number, Value) and bool(getattr(number, "free_symbols", None))


def power_of(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """pow(x, exponent) of integers, whose exponent is not below 0"""
    given = {**dict(zip(("self", "exponent"), args, strict=False)), **kwargs}
    x, exponent = given["self"], given["exponent"]
    whole = isinstance(x, Value) and not x.dtype.is_float and not x.dtype.is_complex
    if whole and of_sizes(exponent) and exponent.is_integer and not exponent.is_nonnegative:
        tracer.asked.required(sympy.Ge(exponent, 0))


def shrunk(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """softshrink(x, lambd), which is not below 0"""
    least = args[1] if len(args) > 1 else kwargs.get("lambd", 0.5)
    if of_sizes(least) and not least.is_nonnegative:
        tracer.asked.required(sympy.Ge(least, 0))


def of_norm(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """renorm(x, p, dim, maxnorm): the order is above 0, and the norm that is left not below it"""
    given = {**dict(zip(("self", "p", "dim", "maxnorm"), args, strict=False)), **kwargs}
    if of_sizes(given["p"]) and not given["p"].is_positive:
        tracer.asked.required(sympy.Gt(given["p"], 0))
    if of_sizes(given["maxnorm"]) and not given["maxnorm"].is_nonnegative:
        tracer.asked.required(sympy.Ge(given["maxnorm"], 0))


def drawn_of(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """multinomial(weights, count, replacement): one or more, and without replacement no more than weights"""
    given = {**dict(zip(("self", "num_samples", "replacement"), args, strict=False)), **kwargs}
    count, there = given["num_samples"], given["self"].shape[-1]
    if of_sizes(count) and not count.is_positive:
        tracer.asked.required(sympy.Ge(count, 1))
    if not given.get("replacement", False) and (of_sizes(count) or of_sizes(there)):
        enough = sympy.Le(sympy.sympify(count), sympy.sympify(there))
        if enough is not sympy.true and dims.same(count, there) is not True:
            tracer.asked.required(enough)


def counted_from(tracer: Any, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """bincount(x, weights, minlength), which makes no fewer than 0 counts"""
    least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    if of_sizes(least) and not least.is_nonnegative:
        tracer.asked.required(sympy.Ge(least, 0))


NUMBERED = MappingProxyType({
    "aten::pow": power_of, "aten::softshrink": shrunk, "aten::renorm": of_norm, "aten::multinomial": drawn_of,
    "aten::bincount": counted_from,
})  # fmt: skip
"""By operator: what keeps the conditions on its numbers; none tells more of its results."""

# ---------------------------------------------------------------------------------------------- element types

LIMITS = MappingProxyType({
    DType.INT8: (-128, 127), DType.UINT8: (-255, 255), DType.INT16: (-32768, 32767), DType.FLOAT16: (-65504, 65504),
})  # fmt: skip
"""The least and the greatest number that torch makes an element of a type, of types that cannot hold most sizes."""
FILLING = MappingProxyType({
    **{f"aten::{name}": ("fill_value",) for name in ("full", "new_full", "full_like")},
    **{f"aten::{name}": ("value",) for name in "fill masked_fill index_fill scatter addcmul addcdiv".split()},
    **{f"aten::{name}": ("value",) for name in ("constant_pad_nd", "pad")},
    **{f"aten::{name}": ("alpha",) for name in ("add", "sub", "rsub")},
    "aten::clamp": ("min", "max"), "aten::clamp_min": ("min",), "aten::clamp_max": ("max",),
    "aten::pow": ("exponent",), "aten::linspace": ("start", "end"), "aten::scalar_tensor": ("s",),
    "aten::where": ("self", "other"), "aten::hardtanh": ("min_val", "max_val"),
    "aten::threshold": ("threshold", "value"),
})  # fmt: skip
"""By operator: the numbers that it makes elements of the type of its result."""
ALONE = frozenset(f"aten::{name}" for name in ("scalar_tensor", "where", "addcmul", "addcdiv"))
"""Those of which a number that half precision does not hold is an infinity, or is computed with as it is."""


def keep_fitting(
    tracer: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]
) -> None:
    """Keeps that numbers of sizes are some of the element type that one of FILLING makes of them."""
    made = results[0] if results else None
    kind = made.dtype if isinstance(made, Value) else None
    limits = None if kind is None else LIMITS.get(kind)
    if limits is None or (kind is DType.FLOAT16 and func._schema.name in ALONE):
        return
    given = {**dict(zip((each.name for each in func._schema.arguments), args, strict=False)), **kwargs}
    for name in FILLING[func._schema.name]:
        number = given.get(name)
        if of_sizes(number):
            tracer.asked.required(sympy.Le(number, limits[1]))
            tracer.asked.required(sympy.Ge(number, limits[0]))
