"""Operators on lists of tensors, `torch._foreach_mul_(xs, 2)`, by those on each of them: optimizers take them where
they were asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

ATEN = torch.ops.aten

SAME = (
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos",
    "cosh", "copy", "div", "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma",
    "log", "log10", "log1p", "log2", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid",
    "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc", "zero",
)  # fmt: skip
"""Operators whose name is that of the operator on one tensor."""
OTHERS: Mapping[str, Any] = MappingProxyType({
    "maximum": ATEN.clamp_min, "maximum_": ATEN.clamp_min_, "minimum": ATEN.clamp_max, "minimum_": ATEN.clamp_max_,
    "norm": ATEN.linalg_vector_norm, "max": ATEN.amax,
})  # fmt: skip
"""The operator on one tensor, where its name is another."""

LISTS: Mapping[str, Any] = MappingProxyType({
    f"aten::_foreach_{name}{end}": getattr(ATEN, f"{name}{end}") for name in SAME for end in ("", "_")
} | {f"aten::_foreach_{name}": operator for name, operator in OTHERS.items()})  # fmt: skip
"""What stands for each operator on lists, by its name."""


def each_call(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[list[Any], dict[str, Any]]] | None:
    """(args, kwargs) of the operator for each place of the lists; None for quotients and products to be added whose
    scalars lie in one tensor: see `scaled_calls`."""
    schema = func._schema
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | dict(kwargs)
    if isinstance(given.get("scalars"), torch.Tensor):
        return None
    lists = {argument.name for argument in schema.arguments if str(argument.type).startswith("List")}
    count = next(len(given[name]) for name in given if name in lists)
    scaling = schema.name.startswith("aten::_foreach_addc")
    calls = []
    for place in range(count):
        own = {name: value[place] if name in lists else value for name, value in given.items()}
        named = {name: own.pop(name) for name in ("alpha", "non_blocking", "dtype") if name in own}
        if scaling and len(own) > 3:
            named["value"] = own.popitem()[1]
        calls.append(([*own.values()], {name: value for name, value in named.items() if value is not None}))
    return calls


def scaled_calls(func: Any, args: Sequence[Any]) -> list[torch.Tensor]:
    """_foreach_addcdiv(xs, tops, bottoms, scalars), or _foreach_addcmul, of scalars in a tensor."""
    xs, firsts, seconds, scalars = args
    divides = "addcdiv" in func._schema.name
    products = [a / b if divides else a * b for a, b in zip(firsts, seconds, strict=True)]
    return [x + scalar * each for x, scalar, each in zip(xs, scalars.unbind(0), products, strict=True)]
