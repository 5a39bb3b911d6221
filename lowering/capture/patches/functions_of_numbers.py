"""`math.sqrt(n)` and `divmod(n, 3)` of numbers that vary, which Python refuses or answers with a plain number."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from lowering.capture.patches.asked_texts import is_of_data
from lowering.capture.patches.replaced import replaced_attributes

NUMBERS = (torch.SymInt, torch.SymFloat)


@contextmanager
def divided_numbers() -> Iterator[None]:
    """A block in which `divmod` takes numbers that vary, and so does NumPy's `sqrt`, which calls a method."""
    methods = {
        "__divmod__": lambda a, b: (a // b, a % b),
        "__rdivmod__": lambda a, b: (b // a, b % a),
        "sqrt": torch.sym_sqrt,
    }
    with replaced_attributes(*((kind, name, method) for kind in NUMBERS for name, method in methods.items())):
        yield


def symbolic(plain: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`plain`, but of numbers some of which vary `function`, which gives None where only `plain` will do."""

    @functools.wraps(plain)
    def of_numbers(*numbers: Any) -> Any:
        numbers = tuple(each.item() if isinstance(each, torch.Tensor) else each for each in numbers)
        found = function(*numbers) if any(isinstance(each, NUMBERS) for each in numbers) else None
        return plain(*numbers) if found is None else found

    return of_numbers


def whole_root(n: Any) -> Any:
    """math.isqrt(n) of a size, of which doubles hold the root; None of another number."""
    return torch.sym_int(torch.sym_sqrt(n)) if isinstance(n, torch.SymInt) and not is_of_data(n) else None


def power(a: Any, b: Any) -> Any:
    """math.pow(a, b) of sizes; None of numbers out of data, for some of which Python raises."""
    if any(isinstance(each, NUMBERS) and is_of_data(each) for each in (a, b)):
        return None
    return torch.sym_float(a) ** torch.sym_float(b)


def logarithm(x: Any, base: Any = None) -> Any:
    """math.log(x), math.log(x, base)"""
    if isinstance(base, NUMBERS):
        return None
    made = computed("log", x)
    return made if made is None or base is None else made / math.log(base)


def computed(name: str, x: Any) -> Any:
    """What the function of torch gives of a number; None where the way of capture computes none."""
    function = getattr(x.node, "computed_by", None)
    return None if function is None else function(name)


KEPT: Mapping[Any, Callable[..., Any]] = types.MappingProxyType(
    {
        math.sqrt: symbolic(math.sqrt, torch.sym_sqrt),
        math.isqrt: symbolic(math.isqrt, whole_root),
        math.pow: symbolic(math.pow, power),
        math.fabs: symbolic(math.fabs, lambda x: torch.sym_float(abs(x))),
        math.log: symbolic(math.log, logarithm),
        **{
            plain: symbolic(plain, functools.partial(computed, plain.__name__))
            for plain in (math.log2, math.log10, math.exp)
        },
    }
)
"""What stands for functions of `math`."""


def kept_function(held: Any) -> Any:
    """What stands for `math`, or one of its functions, under whatever name a module has it; None for anything else."""
    if held is math:
        return MATH
    return KEPT.get(held) if isinstance(held, types.BuiltinFunctionType) else None


MATH = types.SimpleNamespace(**{name: kept_function(each) or each for name, each in vars(math).items()})
"""What stands for the module."""
