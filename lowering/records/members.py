"""`n in (1, 2, 4)`: the numbers among which the line that is being run looks for another; and `flag is True`."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import re
import sys
import types
from functools import lru_cache
from itertools import pairwise
from typing import Any

from lowering.records.message_lines import OWN, nodes_around
from lowering.records.sizes import is_unbacked

MOST = 64
"""Of so many numbers a condition that one is among them can be read."""


HERE = OWN[-1]
IDENTITY = re.compile(r"\bis\s+(not\s+)?(True|False)\b")


def calling_frame() -> Any:
    """The frame of the code that called torch or irkit."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN):
        frame = frame.f_back
    return frame


def tells_by_identity(number: Any, through: bool = False) -> bool:
    """Whether the code that makes a truth asks whether something `is True`, or stands in a file that does where sizes
    alone tell that truth: no symbol is, so that it is to be Python's own there. Code of torch's does not ask for the
    model, but where it is looked `through`."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN if through else HERE):
        frame = frame.f_back
    if frame is None or not has_identities(frame.f_code):
        return False
    symbols = getattr(number.node.expr, "free_symbols", ())
    return not any(is_unbacked(each.name) for each in symbols) or asks_identity(frame.f_code)


@lru_cache(maxsize=1 << 12)
def has_identities(code: types.CodeType) -> bool:
    """Whether `is True` or `is False` stands in the file of a code that is not torch's."""
    file = code.co_filename
    return not file.startswith(OWN) and any(map(IDENTITY.search, linecache.getlines(file)))


@lru_cache(maxsize=1 << 12)
def asks_identity(code: types.CodeType) -> bool:
    """Whether a code itself asks whether something `is True`, or `is False`."""
    steps = [*dis.get_instructions(code)]
    pairs = pairwise(steps)
    return any(b.opname == "IS_OP" and a.opname == "LOAD_CONST" and type(a.argval) is bool for a, b in pairs)


def members_asked() -> frozenset[int]:
    """The whole numbers among which the code that called torch or irkit asks, now, whether something is; none where it
    asks something else."""
    frame = calling_frame()
    if frame is None or dis.opname[frame.f_code.co_code[frame.f_lasti]] != "CONTAINS_OP":
        return frozenset()
    node = next(reversed(nodes_around(frame)), None)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
        return frozenset()
    return frozenset(numbers_of(node.comparators[0], frame))


def keys_asked() -> frozenset[int]:
    """The whole numbers that are keys of a dict which the code that called torch or irkit asks, now, by `get`; none
    where it does something else."""
    frame = calling_frame()
    node = None if frame is None else next(reversed(nodes_around(frame)), None)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "get":
        return frozenset()
    return frozenset(numbers_of(node.func.value, frame))


def numbers_of(node: ast.expr, frame: Any) -> list[int]:
    """The numbers that a tuple, list, set, range or the keys of a dict are written with, or that a name of a frame
    holds so; none where it is another expression."""
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    found: list[int | None] = []
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        found = [whole_number(each) for each in node.elts]
    elif isinstance(node, ast.Dict):
        found = [None if each is None else whole_number(each) for each in node.keys]
    elif isinstance(node, ast.Name | ast.Attribute):
        held = held_by(node, frame)
        plain = type(held) in (tuple, list, set, frozenset, dict, range) and len(held) <= MOST
        found = [each if type(each) is int else None for each in held] if plain else []
    elif isinstance(node, ast.Call) and called in ("frozenset", "set", "tuple", "list") and len(node.args) == 1:
        return numbers_of(node.args[0], frame)
    elif isinstance(node, ast.Call) and called == "range":
        ends = [whole_number(each) for each in node.args]
        numbers = [each for each in ends if each is not None]
        step = numbers[2] if len(numbers) == 3 else 1
        found = [*range(*numbers)[: MOST + 1]] if numbers and len(numbers) == len(ends) <= 3 and step else []
    numbers = [each for each in found if each is not None]
    return numbers if len(numbers) == len(found) <= MOST else []


def held_by(node: ast.expr, frame: Any) -> Any:
    """What a name of a frame, or an attribute of what it names, holds, where no code is run to tell that; None
    elsewhere."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if not isinstance(node, ast.Attribute):
        return None
    found = inspect.getattr_static(held_by(node.value, frame), node.attr, None)
    return None if hasattr(type(found), "__get__") else found


def whole_number(node: ast.expr) -> int | None:
    """The number that an expression is written with; None where it is none."""
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return found if type(found) is int else None
