"""What an operator requires of sizes: found by running it once more on the meta device, at other sizes of the example.

torch checks sizes where an operator is carried out: that matrices are square, that two dimensions agree. A traced run
has one example, whose sizes may agree by chance. So each operator that meets sizes which vary is run at a second set of
sizes as well, all of them different. Where torch refuses that, equal sizes of the first example are made equal in the
second, until it does not: these are what the operator requires, and are kept. The sizes of the results are compared,
too, so that no dimension is told wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.errors import DimensionError
from lowering.direct.sizes import SizeNode
from lowering.direct.tracer import Alike, Tracer
from lowering.errors import LoweringError

META = torch.device("meta")
REFUSED = (RuntimeError, IndexError, ValueError, TypeError)


class Refused(Exception):
    """torch refuses an operator at other sizes."""


def require(
    tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any], device: bool
) -> None:
    """Keeps what an operator requires of sizes. Raises Alike where names must be one, LoweringError where the sizes of
    a result are others than its type says."""
    key = key_of(tracer, func, (args, tuple(kwargs.items())))
    if key is None or key in tracer.required:
        return
    tracer.required.add(key)
    try:
        told = at_other_sizes(tracer, func, args, kwargs, device, tracer.others)
    except Refused:
        relate(tracer, func, args, kwargs, results, device)
        return
    compare(tracer, func, results, told, tracer.others)


def key_of(tracer: Tracer, func: Any, given: Any) -> Any:
    """What an operator is called with, as far as sizes go; None where none varies, or data is asked for."""
    varying = False

    def plain(each: Any) -> Any:
        nonlocal varying
        if isinstance(each, torch.Tensor):
            handle = tracer.handle(each)
            shape = handle.value.shape
            varying = varying or not dims.are_numbers(shape)
            return (*shape, handle.twin.stride(), handle.twin.dtype)
        if isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool):
            varying = True
            return str(each.node.expr)
        if isinstance(each, list | tuple):
            return tuple(map(plain, each))
        return repr(each)

    key = (func, plain(given))
    return key if varying else None


def at_other_sizes(
    tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], device: bool, sizes: Mapping[str, Any]
) -> Any:
    """What torch gives on the meta device for these sizes of the names. Raises Refused."""

    def resized(each: Any) -> Any:
        if isinstance(each, torch.Tensor):
            handle = tracer.handle(each)
            return laid_out(handle.twin, [number(d, sizes) for d in handle.value.shape])
        if isinstance(each, torch.SymInt):
            return number(each.node.expr, sizes) if isinstance(each.node, SizeNode) else int(each)
        if isinstance(each, torch.SymFloat | torch.SymBool):
            return each.node.hint
        if isinstance(each, list | tuple):
            return type(each)(map(resized, each))
        return META if isinstance(each, torch.device) else each

    try:
        given = {name: resized(each) for name, each in kwargs.items() if name != "pin_memory"}
        if device and all(a.name != "device" for a in func._schema.arguments[: len(args)]):
            given["device"] = META
        return func(*map(resized, args), **given)
    except DimensionError:
        raise Refused from None
    except REFUSED as error:
        raise Refused(str(error)) from None


def number(dim: Any, sizes: Mapping[str, Any]) -> int:
    """What a dimension is for sizes of the names."""
    found = dim if type(dim) is int else dims.evaluate(dim, sizes)
    if found < 0:
        raise DimensionError(f"the dimension {dim} is {found}")
    return found


def laid_out(twin: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of another shape whose axes lie in memory in the order of a twin's."""
    order = sorted(range(twin.dim()), key=lambda a: -twin.stride(a))
    made = torch.empty([shape[a] for a in order], dtype=twin.dtype, device=META)
    return made.permute([order.index(a) for a in range(twin.dim())]) if order != sorted(order) else made


def relate(
    tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any], device: bool
) -> None:
    """Finds the sizes that must be equal for torch to take an operator, and keeps that they are; none must where it
    takes multiples of the example's sizes."""
    for factor in (2, 3):
        sizes = {name: factor * size for name, size in tracer.asked.hints.items()}
        try:
            told = at_other_sizes(tracer, func, args, kwargs, device, sizes)
        except Refused:
            continue
        if not pairs(tracer, (args, tuple(kwargs.values()))):
            compare(tracer, func, results, told, sizes)
            tracer.asked.untold(f"{func} takes sizes under a condition of torch's that is not known")
            return
    found = list(candidates(tracer, (args, tuple(kwargs.values()))))
    for some in (*([each] for each in found), found):
        sizes = dict(tracer.others)
        for symbol, other in some:
            sizes[symbol.name] = other if type(other) is int else number(other, sizes)
        try:
            at_other_sizes(tracer, func, args, kwargs, device, sizes)
        except Refused:
            continue
        swaps = {s: o for s, o in some if is_symbol(o)}
        if swaps and all(s.name in tracer.named and o.name in tracer.named for s, o in swaps.items()):
            raise Alike(swaps, tracer.line())
        for symbol, other in some:
            tracer.asked.equal(symbol, other)
        tracer.others.update(sizes)
        return
    # What torch requires is no equality of sizes: it is said, and the other sizes are given up.
    tracer.asked.untold(f"{func} takes sizes under a condition of torch's that is not known")
    for symbol in {s for d in shapes_in(tracer, (args, tuple(kwargs.values()))) for s in dims.symbols_of(d)}:
        tracer.others[symbol.name] = tracer.asked.hints[symbol.name]


def pairs(tracer: Tracer, given: Any) -> bool:
    """Whether two names among the sizes of operands are equal in the example, and so in multiples of it."""
    return any(is_symbol(o) for _, o in candidates(tracer, given))


def candidates(tracer: Tracer, given: Any) -> Iterator[tuple[Any, Any]]:
    """(symbol, dimension) for each symbol among operands and a dimension that it equals in the example."""
    every: list[Any] = list(dict.fromkeys(shapes_in(tracer, given)))
    hints: list[tuple[Any, int]] = [(d, tracer.asked.hint(d)) for d in every]
    for i, (d, size) in enumerate(hints):
        for other, theirs in hints[i + 1 :]:
            if size == theirs and d != other:
                if is_symbol(other):
                    yield other, d
                elif is_symbol(d):
                    yield d, other


def is_symbol(dim: Any) -> bool:
    """Whether a dimension is a name by itself."""
    return type(dim) is not int and dim.is_Symbol


def shapes_in(tracer: Tracer, given: Any) -> list[Any]:
    """The dimensions of the tensors among operands, and the sizes."""
    found: list[Any] = []
    for each in given:
        if isinstance(each, torch.Tensor):
            found += tracer.handle(each).value.shape
        elif isinstance(each, torch.SymInt) and isinstance(each.node, SizeNode):
            found.append(each.node.dim)
        elif isinstance(each, list | tuple):
            found += shapes_in(tracer, each)
    return found


def compare(tracer: Tracer, func: Any, results: Sequence[Any], told: Any, sizes: Mapping[str, Any]) -> None:
    """Raises LoweringError where torch gives other sizes than the types of the results say."""
    twins = list(told) if isinstance(told, tuple | list) else [told]
    for value, twin in zip(results, twins, strict=False):
        if not isinstance(value, Value) or not isinstance(twin, torch.Tensor) or not isinstance(value.type, Tensor):
            continue
        for d, size in zip(value.shape, twin.shape, strict=True):
            new = [s for s in dims.symbols_of(d) if s.name in tracer.loose]
            for symbol in new:
                tracer.loose.discard(symbol.name)
                tracer.others[symbol.name] = size
            if not new and type(d) is not int and number(d, sizes) != size:
                raise LoweringError(
                    f"{func} gives {d} elements along a dimension of the example, and {size} where that is "
                    f"{number(d, sizes)}",
                    source=tracer.line(), hint="use capture='torch.export'",
                )  # fmt: skip
