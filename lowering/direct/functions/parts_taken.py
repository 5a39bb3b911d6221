"""`x.unbind(0)[0]`, `list(x)[-1]` and `x.split(2)[0]`, where how many parts there are varies: of a call whose parts are
taken at places that are written out, and nothing else is done with, these parts alone are made."""

from __future__ import annotations

import ast
import builtins
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import handle_torch_function

from lowering.direct.functions.numbers import has_symbols, nested_lists
from lowering.records.members import whole_number
from lowering.records.message_lines import FUNCTIONS, OWN, held_by, name_called, name_given, nodes_around

METHODS = torch.Tensor.__iter__, torch.Tensor.__len__, torch.Tensor.split
BETWEEN = frozenset(func.__code__ for func in (*METHODS, torch.functional.split, handle_torch_function))
"""What of torch's own stands between the line of a model and the call that a mode sees."""
NAMES = frozenset("unbind split chunk tolist".split())
NAMESPACES = frozenset("locals vars eval exec".split())
"""Functions that find a variable without its name."""


def unbound_parts(x: torch.Tensor, dim: int = 0) -> Any:
    """x.unbind(dim): the parts that the model's line takes, None in the place of all others; None where it takes more,
    or how many there are does not vary."""
    return taken_parts(x, dim, lambda size: size, lambda place: x.select(dim, place))


def listed_parts(x: torch.Tensor) -> Any:
    """x.tolist(), as `unbound_parts`; as it is where that has none"""
    parts = unbound_parts(x) if x.dim() else None
    return nested_lists(x) if parts is None else [None if part is None else nested_lists(part) for part in parts]


def length_hinted(x: torch.Tensor) -> Any:
    """len(x), by which list(x) takes memory before it has the elements; None where the model itself asks."""
    if not x.dim() or not has_symbols(x.shape[0]) or not places_taken(x, iterates=True):
        return None
    size: Any = x.shape[0]
    return size.node.hint


def split_parts(x: torch.Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> Any:
    """x.split(size, dim), as `unbound_parts`"""
    part = split_size if split_size_or_sections is None else split_size_or_sections
    return parts_of_one_size(x, dim, lambda size: part) if type(part) is int and part > 0 else None


def chunked_parts(x: torch.Tensor, chunks: Any, dim: int = 0) -> Any:
    """x.chunk(count, dim), as `unbound_parts`; of nothing there are as many parts as were asked for"""
    if type(chunks) is not int or chunks < 1:
        return None
    return parts_of_one_size(x, dim, lambda size: torch.sym_max((size + chunks - 1) // chunks, 1))


def parts_of_one_size(x: torch.Tensor, dim: int, part_of: Callable[[Any], Any]) -> Any:
    """Parts of one size, but for the last."""

    def count(size: Any) -> Any:
        return torch.sym_max((size + part_of(size) - 1) // part_of(size), 1)

    def part(place: int) -> torch.Tensor:
        size: Any = x.shape[dim]
        first = (place if place >= 0 else count(size) + place) * part_of(size)
        length: Any = torch.sym_min(part_of(size), size - first)
        return x.narrow(dim, first, length)

    return taken_parts(x, dim, count, part)


def taken_parts(x: torch.Tensor, dim: int, count_of: Callable[[Any], Any], part: Callable[[int], torch.Tensor]) -> Any:
    """As many parts as the example has, those made that the model's line takes; None where `unbound_parts` has none."""
    if type(dim) is not int or not -x.dim() <= dim < x.dim() or not has_symbols(x.shape[dim]):
        return None
    places = places_taken(x)
    count = count_of(x.shape[dim])
    known = getattr(getattr(count, "node", None), "hint", None)
    if not places or known is None or not all(-known <= place < known for place in places):
        return None
    made: list[Any] = [None] * known
    for place in sorted(places):
        torch._check(count > place if place >= 0 else count >= -place)
        made[place] = part(place)
    return tuple(made)


def places_taken(x: torch.Tensor, iterates: bool = False) -> frozenset[int]:
    """The places at which the line that is being run takes parts of x; none where it does more with them. `iterates`
    where it goes over x."""
    frame, by_torch = calling_frame()
    iterates = iterates or by_torch
    chain = nodes_around(frame) if frame is not None else []
    if len(chain) < 2 or not isinstance(call := chain[-1], ast.Call):
        return frozenset()
    around: Any = chain[-2]
    if iterates:
        if not goes_over(frame, call, x):
            return frozenset()
        if is_own(frame, call, ("iter",)):
            return frozenset((0,)) if is_own(frame, around, ("next",)) and around.args == [call] else frozenset()
        if not is_own(frame, call, ("list", "tuple")):
            return frozenset()
    elif name_called(call) not in NAMES:
        return frozenset()
    taken = place_of(around, call)
    if taken is not None:
        return frozenset((taken,))
    name = name_given(around) if isinstance(around, ast.Assign | ast.AnnAssign) else ""
    function = next((node for node in reversed(chain) if isinstance(node, FUNCTIONS)), None)
    return places_of_name(function, name) if function is not None and name else frozenset()


def calling_frame() -> tuple[Any, bool]:
    """(the frame of the model whose line called what a mode sees, or None where torch's own code did; whether it goes
    over a tensor rather than calling a function of torch's)"""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__torch_function__":
        frame = frame.f_back
    frame, iterates = getattr(frame, "f_back", None), False
    while frame is not None and frame.f_code in BETWEEN:
        iterates = iterates or frame.f_code is torch.Tensor.__iter__.__code__
        frame = frame.f_back
    foreign = frame is None or frame.f_code.co_filename.startswith((*OWN, "<"))
    return (None if foreign else frame), iterates


def goes_over(frame: Any, call: ast.Call, x: torch.Tensor) -> bool:
    """Whether a call goes over the very tensor x: what stands between may be a function that takes all of it."""
    if len(call.args) != 1 or call.keywords:
        return False
    return isinstance(call.args[0], ast.BinOp) or held_by(frame, call.args[0]) is x


def is_own(frame: Any, node: ast.AST, names: Sequence[str]) -> bool:
    """Whether a node calls a function of Python's own, of one of some names, that the frame has not named otherwise."""
    name = name_called(node) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    held = frame.f_locals.get(name, frame.f_globals.get(name))
    return name in names and held in (None, getattr(builtins, name))


def place_of(node: Any, of: ast.AST) -> int | None:
    """The place that is written out at which a node takes a part of another; None where it is something else."""
    taken = isinstance(node, ast.Subscript) and node.value is of and isinstance(node.ctx, ast.Load)
    return whole_number(node.slice) if taken else None


def places_of_name(function: ast.AST, name: str) -> frozenset[int]:
    """The places at which a function takes parts of what a variable holds; none where it does more with it."""
    nodes = [*ast.walk(function)]
    if any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in nodes):
        return frozenset()
    if any(isinstance(n, ast.Name) and n.id in NAMESPACES for n in nodes):
        return frozenset()
    found = [place_of(around, node) for around, node in readings_of(function, name)]
    places = [each for each in found if each is not None]
    return frozenset(places) if len(places) == len(found) else frozenset()


def readings_of(function: ast.AST, name: str) -> Iterator[tuple[ast.AST, ast.AST]]:
    """(the node around, the name) for each place that reads a variable, or changes what it holds."""
    for around in ast.walk(function):
        for node in ast.iter_child_nodes(around):
            changes = isinstance(around, ast.AugAssign) and node is around.target
            if isinstance(node, ast.Name) and node.id == name and (isinstance(node.ctx, ast.Load) or changes):
                yield around, node


PARTS: Mapping[Any, Callable[..., Any]] = types.MappingProxyType({
    torch.unbind: unbound_parts, torch.Tensor.unbind: unbound_parts,
    torch.split: split_parts, torch.Tensor.split: split_parts,
    torch.chunk: chunked_parts, torch.Tensor.chunk: chunked_parts, torch.Tensor.__len__: length_hinted,
})  # fmt: skip
"""What makes the parts that are taken, by the function of torch that makes all; it gives None where that must."""
