"""Whether a text is made for a message only: what is printed, logged or raised tells nothing to the model."""

from __future__ import annotations

import ast
import dis
import os
import sys
import types
from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from lowering.records.message_instructions import ERRORS, Use, binds_error, use_of_text
from lowering.records.source_lines import lines_now

TELLING = frozenset(
    "print pprint debug info warn warning warning_once warn_once info_once error exception critical log fail".split()
)
"""Functions whose arguments are read by people."""
NAMED = frozenset("record_function range_push emit_range".split())
"""Functions that give a stretch of a run its name."""
TELLERS = TELLING | NAMED
MESSENGERS = frozenset("logging warnings traceback pdb bdb".split())
"""Modules that make texts for people."""

MESSAGES = frozenset("msg message error_msg err_msg error_message".split())
"""Arguments that are read by people."""
MAKING = frozenset("__repr__ __str__ __format__ extra_repr".split())
"""Methods that make texts of their objects, for whoever asks them."""
MAKERS = frozenset(("reprlib", "dataclasses", "pprint"))
"""Modules that do so."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

TEXT = (ast.JoinedStr, ast.FormattedValue, ast.Constant, ast.Tuple, ast.BinOp, ast.Name, ast.Attribute)
"""What a text is made of, that decides nothing."""


OWN = tuple(f"{each}{os.sep}" for each in (Path(torch.__file__).parent, Path(__file__).parents[1]))


ENTRIES = tuple(f"{OWN[1]}{file}" for file in (f"direct{os.sep}run.py", f"capture{os.sep}torch_export.py"))
"""The files of irkit that call the model."""


def asks_text(frame: Any, *, keys: bool = True) -> bool:
    """Whether a frame makes a text by which the model may decide: neither for a message, nor in torch's own code or
    irkit's, nor, with `keys`, as the key of a module."""
    frame = asking_frame(frame)
    if frame is None or frame.f_code.co_filename.startswith(OWN):
        return False
    return not is_message(frame) and not (keys and chooses_module(frame))


def asking_frame(frame: Any) -> Any:
    """The frame that asks for a text which objects of Python make of their parts; None where nobody does."""
    while frame is not None and (frame.f_code.co_name in MAKING or frame.f_globals.get("__name__") in MAKERS):
        frame = frame.f_back
    return frame


def is_message(frame: Any) -> bool:
    """Whether a text that a frame is making is that of a message; one that it returns is for its caller to tell."""
    returned = 0
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in MESSENGERS:
            return True
        chain = nodes_around(frame)
        use = use_of_lines(chain, returned) if chain else use_of_text(frame, TELLERS)
        if use is Use.RAISED:
            return not is_caught(frame)
        if use is not Use.RETURNED:
            return use is Use.TOLD
        returned = 1  # the call that gives the text
        frame = asking_frame(frame.f_back)
    return False


def use_of_lines(chain: Sequence[ast.AST], returned: int) -> Use:
    """What becomes of a text that is made in some nodes, outer ones first; of what a function has `returned` there, the
    last is its call."""
    if is_told(chain):
        raised = any(isinstance(node, ast.Raise | ast.Assert) for node in chain)
        return Use.RAISED if raised else Use.TOLD
    statement = next((node for node in reversed(chain) if isinstance(node, ast.stmt)), None)
    if isinstance(statement, ast.Return):
        return Use.RETURNED
    return Use.TOLD if is_kept_for_messages(chain[: len(chain) - returned], statement) else Use.ELSE


def is_told(chain: Sequence[ast.AST]) -> bool:
    """Whether one of some nodes, outer ones first, only tells what is made in those inside it: what is compared there
    decides something."""
    told = list(map(tells, chain, [*chain[1:], None]))
    return True in told and not any(isinstance(node, ast.Compare) for node in chain[told.index(True) :])


def is_caught(frame: Any) -> bool:
    """Whether the model catches what a frame raises, and may read its text."""
    while frame is not None and not frame.f_code.co_filename.startswith(ENTRIES):
        if not frame.f_code.co_filename.startswith(OWN):
            chain = nodes_around(frame)
            if any(map(reads_error, chain, chain[1:])) if chain else binds_error(frame):
                return True
        frame = frame.f_back
    return False


def reads_error(node: ast.AST, inner: ast.AST) -> bool:
    """Whether a statement catches what is raised in a node of its body, and has its text for more than messages."""
    if not isinstance(node, ast.Try | ast.TryStar) or inner not in node.body:
        return False
    for handler in node.handlers:
        if handler.name and not all(map(is_told, readings(handler, handler.name))):
            return True
        if any(getattr(each, "attr", getattr(each, "id", "")) in ERRORS for each in ast.walk(handler)):
            return True
    return False


def is_kept_for_messages(chain: Sequence[ast.AST], statement: ast.AST | None) -> bool:
    """Whether a statement gives a text a name that its function reads for messages alone."""
    function = next((node for node in reversed(chain) if isinstance(node, FUNCTIONS)), None)
    name = name_given(statement)
    if function is None or statement is None or not name:
        return False
    if not all(map(is_part_of_text, chain[chain.index(statement) + 1 :])):
        return False
    shared = (n for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal) and name in n.names)
    return next(shared, None) is None and all(map(is_told, readings(function, name)))


def readings(node: ast.AST, name: str) -> Iterator[list[ast.AST]]:
    """The nodes inside of one, outer ones first, to each place that reads a name, but for what the name gets."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load):
            yield [node, child]
        for found in readings(child, name):
            if name_given(child) != name:
                yield [node, *found]


def name_given(statement: ast.AST | None) -> str:
    """The one name to which a statement gives something; empty where it is none."""
    if isinstance(statement, ast.Assign):
        (target, *others) = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        target, others = statement.target, []
    else:
        return ""
    return target.id if isinstance(target, ast.Name) and not others else ""


def is_part_of_text(node: ast.AST) -> bool:
    """Whether an expression is a text, or what is put into one, by nothing that could decide by it."""
    if isinstance(node, ast.Call):
        return name_called(node) in ("str", "repr", "format", "join")
    return isinstance(node, TEXT)


def fills_text(frame: Any) -> bool:
    """Whether a frame puts a number into the text of a message by `%`: `"%d rows" % n`."""
    code: types.CodeType = frame.f_code
    if code.co_filename.startswith(OWN) or not dis.opname[code.co_code[frame.f_lasti]].startswith("BINARY"):
        return False
    if not lines_of(frame):
        return is_message(frame)
    node = next(reversed(nodes_around(frame)), None)
    text = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) else None
    return isinstance(getattr(text, "value", None), str) and is_message(frame)


def tells(node: ast.AST, inner: ast.AST | None) -> bool:
    """Whether a statement or call only tells what is made in a node inside it."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg in MESSAGES):
        return True
    if isinstance(node, ast.Assert):
        return inner is not None and inner is node.msg
    if isinstance(node, ast.Call) and name_called(node) == "_assert":  # torch's own, which tells its second argument
        return inner in node.args[1:]
    if isinstance(node, ast.withitem):
        return isinstance(node.context_expr, ast.Call) and name_called(node.context_expr) in NAMED
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    name = name_called(node.value)
    if name == "print" and (any(each.arg == "file" for each in node.value.keywords) or type(sys.stdout) is StringIO):
        return False
    return name in TELLING or name in NAMED or name.endswith("_check") or name.startswith(("check", "_check"))


def name_called(call: ast.Call) -> str:
    """The last name of the function that a call calls; empty where it has none."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def chooses_module(frame: Any) -> bool:
    """Whether a text that a frame is making is the key of one of several modules: `self.experts[f"expert_{i}"]`."""
    for node in nodes_around(frame):
        if isinstance(node, ast.Subscript) and isinstance(held_by(frame, node.value), torch.nn.Module):
            return True
    return False


def held_by(frame: Any, path: ast.AST) -> Any:
    """What a path of names holds in a frame, `self.layers`; None where it is none."""
    if isinstance(path, ast.Name):
        return frame.f_locals.get(path.id, frame.f_globals.get(path.id))
    if isinstance(path, ast.Attribute):
        holder = held_by(frame, path.value)
        return getattr(holder, path.attr, None) if isinstance(holder, torch.nn.Module) else None
    return None


# ---------------------------------------------------------------------------------------------- nodes of a frame


def nodes_around(frame: Any) -> list[ast.AST]:
    """The nodes of the source, outer ones first, in which an instruction of a frame stands; none where it has none."""
    code: types.CodeType = frame.f_code
    place = next(iter(tuple(code.co_positions())[frame.f_lasti // 2 :]), None)
    lines = lines_of(frame)
    if place is None or None in place or not lines:
        return []
    return nodes_at(lines, place)


def lines_of(frame: Any) -> tuple[str, ...]:
    """The source that a frame runs, of a file, an archive or what keeps lines elsewhere; empty where it has none."""
    return tuple(lines_now(frame.f_code.co_filename, frame.f_globals))


@lru_cache(maxsize=256)
def nodes_at(lines: tuple[str, ...], place: tuple[int, int, int, int]) -> list[ast.AST]:
    """The nodes of a source, outer ones first, that have a place in them."""
    tree = parsed(lines)
    found: list[ast.AST] = []
    pending = [] if tree is None else [tree]
    while pending:
        node = pending.pop()
        if covers(node, place):
            found.append(node)
            pending = [*ast.iter_child_nodes(node)]
    return found


def covers(node: Any, place: Sequence[int]) -> bool:
    """Whether a node has a place in it."""
    if isinstance(node, ast.withitem):
        return covers(node.context_expr, place)
    if not hasattr(node, "lineno"):
        return isinstance(node, ast.mod)
    first, last, left, right = place
    return (node.lineno, node.col_offset) <= (first, left) and (last, right) <= (node.end_lineno, node.end_col_offset)


@lru_cache(maxsize=32)
def parsed(lines: tuple[str, ...]) -> ast.AST | None:
    """The source of a file; None where it is no Python."""
    try:
        return ast.parse("".join(lines))
    except SyntaxError:
        return None
