"""The sizes at which an operator gives a view that it does not give at the example's: reshape, contiguous and their
like copy what is laid out otherwise, and how it is laid out sizes tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import sympy
import torch
from torch.fx import Node

from lowering.capture.guards.guards import over_sizes
from lowering.errors import LoweringError
from lowering.fold.memory import storage
from lowering.records.source_lines import source_of
from lowering.records.torch_internals import pytree

Point = Mapping[Any, int]
"""A size for each of torch's symbols."""


def kept_apart(node: Node) -> Iterator[Any]:
    """The conditions under which what an operator gives shares no memory with what it is given.

    torch decides that by whether sizes are 1 and whether a stride is that of what lies in order behind it. Those of
    these equations are conditions that are true where it shares memory, at many sizes that are tried.

    Raises LoweringError where eager shares memory at the example's own sizes, or none of the equations tells where.
    """
    tensors = [each for each in recorded_of(node) if isinstance(each, torch.Tensor)]
    hints = hints_of(node)
    if shares_at(node, hints):
        raise refused(node, "gives a view of what it is given, which torch.export does not record")
    if not hints:
        return
    points = list(points_near(node, tensors, hints))
    found = [shares_at(node, each) for each in points]
    shared = [each for each, told in zip(points, found, strict=True) if told]
    if not shared:
        return
    apart = [each for each, told in zip(points, found, strict=True) if told is False]
    for equation in equations_of(node, tensors, hints):
        here = [each for each in shared if holds_at(equation, each)]
        if not here or any(holds_at(equation, each) for each in apart):
            continue
        yield is_false(equation)
        shared = [each for each in shared if each not in here]
        if not shared:
            return
    for equation in equations_of(node, tensors, hints):
        here = [each for each in shared if holds_at(equation, each)]
        if here and not holds_at(equation, hints):
            yield is_false(equation)
            shared = [each for each in shared if each not in here]
    if shared:
        raise refused(node, "gives a view of what it is given at some sizes, which torch.export does not record")


def shares_everywhere(node: Node) -> bool:
    """Whether an operator gives a view of what it is given, at the example's sizes and all others that are tried."""
    hints = hints_of(node)
    tensors = [each for each in recorded_of(node) if isinstance(each, torch.Tensor)]
    told = [shares_at(node, each) for each in (hints, *(points_near(node, tensors, hints) if hints else ()))]
    return True in told and False not in told


def refused(node: Node, what: str) -> LoweringError:
    """The error for what an operator gives, where that or what it is given is written."""
    return LoweringError(
        f"{node.target} {what}, and one of them is written",
        source=source_of(node),
        hint="clone() it before the write, or use capture='direct'",
    )


def recorded_of(node: Node) -> list[Any]:
    """What torch recorded of all that an operator is given."""
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return pytree.tree_leaves([each.meta.get("val") if isinstance(each, Node) else each for each in leaves])


def hints_of(node: Node) -> dict[Any, int]:
    """The numbers of the example for the symbols in sizes that an operator is given."""
    sizes = [each for each in recorded_of(node) if isinstance(each, torch.SymInt)]
    for each in recorded_of(node):
        if isinstance(each, torch.Tensor):
            sizes += [n for n in (*each.shape, *each.stride()) if isinstance(n, torch.SymInt)]
    return {s: hint_of(n, s) for n in sizes for s in sorted(n.node.expr.free_symbols, key=str)}


def hint_of(size: torch.SymInt, symbol: Any) -> int:
    """The number of the example that a symbol stands for."""
    found = size.node.shape_env.backed_var_to_val.get(symbol)
    return int(found) if found is not None else UNKNOWN


UNKNOWN = 3
"""What is taken for a number that data tells."""


def points_near(node: Node, tensors: Sequence[torch.Tensor], hints: Point) -> Iterator[Point]:
    """Small sizes, and those around the numbers in sizes and in the example: all together where they are few, else two
    at a time."""
    given = [expression(n) for each in tensors for n in (*each.shape, *each.stride())]
    given += [expression(each) for each in recorded_of(node) if isinstance(each, int | torch.SymInt)]
    ends = {int(n) for each in given for n in each.atoms(sympy.Integer)} | set(hints.values())
    some = sorted({n + step for n in ends for step in (-1, 0, 1)} | set(range(SMALL)))
    near = [size for size in some if 0 <= size <= LARGE]
    if len(near) ** len(hints) <= MOST:
        yield from (dict(zip(hints, sizes, strict=True)) for sizes in product(near, repeat=len(hints)))
        return
    yield from (
        {**hints, **dict.fromkeys(some, 1)} for n in range(1, len(hints) + 1) for some in combinations(hints, n)
    )
    for some in combinations(hints, 2):
        yield from ({**hints, **dict(zip(some, sizes, strict=True))} for sizes in product(near, repeat=2))


SMALL, LARGE, MOST = 6, 1 << 16, 1500
"""Below which sizes are tried, above which none is, and how many of several symbols together."""


def equations_of(node: Node, tensors: Sequence[torch.Tensor], hints: Point) -> Iterator[Any]:
    """What layouts hang on: that a size is 1, or one that a tensor is to have, and that a stride is that of what lies
    in order behind it, then two of these at a time; each once, false for the example."""
    symbols = sorted(hints, key=str)
    made = [each for each in pytree.tree_leaves(node.meta.get("val")) if isinstance(each, torch.Tensor)]
    single = [sympy.Eq(each, 1) for each in symbols]
    single += [
        sympy.Eq(expression(one), expression(other))
        for given, result in product(tensors, made)
        for one, other in product(given.shape, result.shape)
    ]
    single += [sympy.Eq(expression(n), 1) for each in tensors for n in each.shape]
    for each in tensors:
        sizes, strides = ([expression(n) for n in told] for told in (each.shape, each.stride()))
        single += [
            sympy.Eq(strides[i], sizes[j] * strides[j])
            for i, j in product(range(len(sizes)), repeat=2)
            if i != j and sizes[i] != 1 and sizes[j] != 1
        ]
    single = [each for each in dict.fromkeys(single) if each not in (sympy.true, sympy.false)]
    both = (sympy.And(*pair) for pair in combinations(single, 2))
    for each in dict.fromkeys((*single, *both, sympy.And(*(sympy.Eq(each, 1) for each in symbols)))):
        if each is not sympy.false and not holds_at(each, hints):
            yield each


def expression(size: Any) -> Any:
    """torch's expression for a size."""
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(int(size))


def holds_at(equation: Any, sizes: Point) -> bool:
    """Whether equations hold at sizes; not where one would divide by 0."""
    parts = equation.args if isinstance(equation, sympy.And) else (equation,)
    try:
        return all(int(each.lhs.xreplace(dict(sizes))) == int(each.rhs.xreplace(dict(sizes))) for each in parts)
    except ArithmeticError:
        return False


def is_false(equation: Any) -> Any:
    """left < right or left > right, over sizes that may be 0, of one of the equations."""
    parts = equation.args if isinstance(equation, sympy.And) else (equation,)
    sides = [(over_sizes(each.lhs), over_sizes(each.rhs)) for each in parts]
    return sympy.Or(*(relation(*pair) for pair in sides for relation in (sympy.Lt, sympy.Gt)))


def shares_at(node: Node, sizes: Point) -> bool | None:
    """Whether torch gives a view at these sizes, on the meta device; None where it refuses them, or gives nothing."""
    numbers = {over_sizes(symbol): size for symbol, size in sizes.items()} | dict(sizes)

    def plain(given: Any) -> Any:
        held = given.meta.get("val") if isinstance(given, Node) else given
        if isinstance(held, torch.SymInt):
            return int(held.node.expr.xreplace(numbers))
        if isinstance(held, torch.Tensor):
            places = (tuple(map(plain, held.shape)), tuple(map(plain, held.stride())))
            return torch.empty_strided(*places, dtype=held.dtype, device="meta")
        return torch.device("meta") if isinstance(held, torch.device) else held

    try:
        args, kwargs = pytree.tree_map_only((Node, torch.SymInt, torch.device), plain, (node.args, node.kwargs))
        target: Any = node.target
        made = pytree.tree_leaves(target(*args, **kwargs))
    except (ArithmeticError, RuntimeError, TypeError, ValueError, IndexError):
        return None
    given = {storage.recorded_storage(each) for each in pytree.tree_leaves((args, kwargs))} - {None}
    if all(isinstance(each, torch.Tensor) and each.numel() == 0 for each in made):
        return None
    return any(storage.recorded_storage(each) in given for each in made)
