"""TorchScript's operators on numbers, lists, texts and dicts, by name: what Python calls the same.

TorchScript's own interpreter wants plain integers; sizes that vary are torch.SymInt, for which Python's operators do.
What an operator means: torch/csrc/jit/runtime/register_prim_ops.cpp.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

Number = Any
"""An int, float, bool or complex number, or a symbolic one of torch."""


def size(x: torch.Tensor, dim: int | None = None) -> Any:
    """The sizes of a tensor as a list, or one of them."""
    return list(x.size()) if dim is None else x.size(dim)


def length(x: Any) -> Number:
    """How many elements a list has, or how long a tensor is along its first dimension."""
    return x.size(0) if isinstance(x, torch.Tensor) else len(x)


def as_int(x: Any) -> Number:
    """aten::Int: the number of a tensor, text or number, without its fraction."""
    if isinstance(x, torch.Tensor):
        x = x.item()
    return int(x) if isinstance(x, str) else torch.sym_int(x)


def as_float(x: Any) -> Number:
    """aten::Float: the number of a tensor, text or number, as a float."""
    if isinstance(x, torch.Tensor):
        x = x.item()
    return float(x) if isinstance(x, str) else torch.sym_float(x)


def true_division(a: Number, b: Number) -> Number:
    """aten::div of numbers, whose result is a float."""
    return a / b


def divided(a: Number, b: Number, rounding_mode: str | None = None) -> Number:
    """aten::div of integers that tensors hold."""
    if rounding_mode is None:
        return a / b
    return a // b if rounding_mode == "floor" else torch.sym_int(a / b)


def added(a: Number, b: Number, alpha: Number = 1) -> Number:
    """a + alpha * b"""
    return a + b if alpha == 1 else a + alpha * b


def subtracted(a: Number, b: Number, alpha: Number = 1) -> Number:
    """a - alpha * b"""
    return a - b if alpha == 1 else a - alpha * b


def extreme(of_two: Callable[[Any, Any], Any]) -> Callable[..., Number]:
    """prim::min or prim::max of two numbers, or of the numbers of a list."""

    def call(a: Any, *b: Any) -> Number:
        return functools.reduce(of_two, (a, *b) if b else a)

    return call


def rooted(x: Number) -> Number:
    """The square root of a number."""
    return torch.sym_sqrt(x) if isinstance(x, torch.SymInt | torch.SymFloat) else math.sqrt(x)


def rounded(function: Callable[[Any], Any]) -> Callable[[Number], Number]:
    """A function that rounds a number to an integer, of integers too."""

    def call(x: Number) -> Number:
        return x if isinstance(x, int | torch.SymInt) else function(x)

    return call


def part(x: Any, start: Number | None = None, stop: Number | None = None, step: Number = 1) -> Any:
    """Elements of a list or text."""
    return x[start:stop:step]


def popped(x: list[Any], place: int = -1) -> Any:
    """An element that is taken out of a list."""
    return x.pop(place)


def deleted(x: Any, key: Any) -> None:
    """Takes an entry out of a list or dict."""
    del x[key]


def stored(x: Any, key: Any, value: Any) -> Any:
    """Puts an entry into a list or dict, and gives that back."""
    x[key] = value
    return x


def in_order(x: list[Any], reverse: bool = False) -> None:
    """Sorts a list in place."""
    x.sort(reverse=reverse)


def joined(text: str, parts: list[str]) -> str:
    """Texts with another between them."""
    return text.join(parts)


def formatted(text: str, *parts: Any) -> str:
    """A text with others in its places."""
    return text.format(*parts)


def method(name: str) -> Callable[..., Any]:
    """A function that calls the method of its first argument."""

    def call(owner: Any, *args: Any) -> Any:
        return getattr(owner, name)(*args)

    return call


def listed(name: str) -> Callable[..., Any]:
    """The same, with a list for what the method gives."""

    def call(owner: Any, *args: Any) -> Any:
        return builtins.list(getattr(owner, name)(*args))

    return call


MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
"""In the order of c10::MemoryFormat, by whose numbers TorchScript names them."""


def is_contiguous(x: torch.Tensor, memory_format: int = 0) -> bool:
    """Whether a tensor lies in memory in this order."""
    return x.is_contiguous(memory_format=MEMORY_FORMATS[memory_format])


ON_TENSORS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "size": size,
        "len": length,
        "dim": lambda x: x.dim(),
        "numel": lambda x: x.numel(),
        "stride": lambda x, dim=None: builtins.list(x.stride()) if dim is None else x.stride(dim),
        "Int": as_int,
        "IntImplicit": as_int,
        "Float": as_float,
        "FloatImplicit": as_float,
        "Bool": bool,
        "ScalarImplicit": lambda x: x.item(),
        "item": lambda x: x.item(),
        "is_floating_point": lambda x: x.is_floating_point(),
        "is_complex": lambda x: x.is_complex(),
        "is_contiguous": is_contiguous,
        "__is__": operator.is_,
        "__isnot__": operator.is_not,
        "dict": lambda x=(): builtins.dict(x),
        "warn": lambda *given: None,
    }
)
"""What operators ask of tensors, of whatever else they take, or of nothing."""

ON_CONTAINERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "__getitem__": operator.getitem,
        "__contains__": operator.contains,
        "_set_item": stored,
        "append": method("append"),
        "extend": method("extend"),
        "insert": method("insert"),
        "pop": popped,
        "copy": lambda x: x.copy(),
        "list": lambda x: builtins.list(x),
        "clear": method("clear"),
        "reverse": method("reverse"),
        "values": listed("values"),
        "items": listed("items"),
        "keys": listed("keys"),
        "get": method("get"),
        "setdefault": method("setdefault"),
        "update": method("update"),
        "popitem": method("popitem"),
        "__delitem__": deleted,
        "Delete": deleted,
        "slice": part,
        "add": operator.add,
        "add_": operator.iadd,
        "mul": operator.mul,
    }
)
"""Operators on lists, dicts and texts, of tensors too."""

ON_NUMBERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": added,
        "sub": subtracted,
        "mul": operator.mul,
        "div": true_division,
        "true_divide": true_division,
        "floordiv": operator.floordiv,
        "floor_divide": operator.floordiv,
        "remainder": operator.mod,
        "fmod": math.fmod,
        "mod": operator.mod,
        "pow": operator.pow,
        "neg": operator.neg,
        "abs": abs,
        "round": round,
        "divmod": lambda a, b: (a // b, a % b),
        "floor": rounded(math.floor),
        "ceil": rounded(math.ceil),
        "sqrt": rooted,
        "log": math.log,
        "log2": math.log2,
        "log10": math.log10,
        "log1p": math.log1p,
        "exp": math.exp,
        "expm1": math.expm1,
        "sin": math.sin,
        "cos": math.cos,
        "tan": math.tan,
        "tanh": math.tanh,
        "gcd": math.gcd,
        "isnan": math.isnan,
        "isinf": math.isinf,
        "isfinite": math.isfinite,
        "degrees": math.degrees,
        "radians": math.radians,
        "factorial": math.factorial,
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "__not__": operator.not_,
        "__and__": operator.and_,
        "__or__": operator.or_,
        "__xor__": operator.xor,
        "__lshift__": operator.lshift,
        "__rshift__": operator.rshift,
        "bitwise_not": operator.invert,
        "index": method("index"),
        "count": method("count"),
        "remove": method("remove"),
        "sort": in_order,
        "sorted": sorted,
        "any": any,
        "all": all,
        "sum": sum,
        "ord": ord,
        "chr": chr,
        "hex": hex,
        "oct": oct,
        "bin": bin,
        "str": str,
        "join": joined,
        "format": formatted,
        "split": method("split"),
        "strip": method("strip"),
        "lstrip": method("lstrip"),
        "rstrip": method("rstrip"),
        "lower": method("lower"),
        "upper": method("upper"),
        "startswith": method("startswith"),
        "endswith": method("endswith"),
        "replace": method("replace"),
        "find": method("find"),
        "rfind": method("rfind"),
        "isdigit": method("isdigit"),
        "isalpha": method("isalpha"),
        "capitalize": method("capitalize"),
        "title": method("title"),
    }
)
"""Operators of numbers, texts, and lists of them."""

OF_HELD_NUMBERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": added,
        "sub": subtracted,
        "rsub": lambda a, b, alpha=1: subtracted(b, a, alpha),
        "mul": operator.mul,
        "div": divided,
        "true_divide": true_division,
        "floor_divide": operator.floordiv,
        "remainder": operator.mod,
        "neg": operator.neg,
        "detach": lambda x: x,
        "clone": lambda x, memory_format=None: x,
    }
)
"""Operators on tensors of one element that only hold a number, as torch.jit.trace writes arithmetic of sizes."""
