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

from lowering.records.message_lines import ENTRIES, OWN, nodes_around
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import lines_now

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
    """Whether code that makes a truth, or calls what does, asks whether something `is True`, or, where sizes alone
    tell that truth, whether it is anything but None, or stands in a file that does: no symbol is, so that it is to be
    Python's own there. Code without source may do so wherever. Code of torch's does not ask for the model, but where it
    is looked `through`."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN if through else HERE):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(OWN):
        return False
    of_data = any(is_unbacked(each.name) for each in getattr(number.node.expr, "free_symbols", ()))
    if not of_data and has_identities(frame.f_code.co_filename):
        return True
    while frame is not None and not frame.f_code.co_filename.startswith(ENTRIES):
        if not frame.f_code.co_filename.startswith(OWN) and identities_in(frame.f_code)[of_data]:
            return True
        frame = frame.f_back
    return False


def has_identities(file: str) -> bool:
    """Whether `is True` or `is False` stands in a file, or the file is none."""
    return not lines_now(file) or stands_in(file, tuple(linecache.cache[file][:2]))


@lru_cache(maxsize=1 << 12)
def stands_in(file: str, _state: tuple[Any, ...]) -> bool:
    """Whether `is True` or `is False` stands in a file, as long as it is of this size and time."""
    return any(map(IDENTITY.search, linecache.getlines(file)))


@lru_cache(maxsize=1 << 12)
def identities_in(code: types.CodeType) -> tuple[bool, bool]:
    """(whether a code, or one inside it, asks whether something is another thing, but None and such; whether it asks
    so for `True` or `False`)."""
    steps = [*dis.get_instructions(code)]
    asked = [a for a, b in pairwise(steps) if b.opname == "IS_OP"]
    truths = any(each.opname == "LOAD_CONST" and type(each.argval) is bool for each in asked)
    others = any(each.opname != "LOAD_CONST" for each in asked) or not {"is_", "is_not"}.isdisjoint(code.co_names)
    inner = [identities_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return truths or others or any(any(each) for each in inner), truths or any(each[1] for each in inner)


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
