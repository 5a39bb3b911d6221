"""Whether a text is made for a message only: what is printed, logged or raised tells nothing to the model."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import attrs
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
        use = use_of_lines(chain, returned, frame) if chain else use_of_text(frame, partial(tells_people, frame))
        if use is Use.RAISED:
            return not is_caught(frame)
        if use is not Use.RETURNED:
            return use is Use.TOLD
        returned = 1  # the call that gives the text
        frame = asking_frame(frame.f_back)
    return False


def use_of_lines(chain: Sequence[ast.AST], returned: int, frame: Any) -> Use:
    """What becomes of a text that is made in some nodes of a frame, outer ones first; of what a function has `returned`
    there, the last is its call."""
    if is_told(chain, frame):
        raised = any(isinstance(node, ast.Raise | ast.Assert) for node in chain)
        return Use.RAISED if raised else Use.TOLD
    statement = next((node for node in reversed(chain) if isinstance(node, ast.stmt)), None)
    if isinstance(statement, ast.Return):
        return Use.RETURNED
    return Use.TOLD if is_kept_for_messages(chain[: len(chain) - returned], statement, frame) else Use.ELSE


def is_told(chain: Sequence[ast.AST], frame: Any) -> bool:
    """Whether one of some nodes of a frame, outer ones first, only tells what is made in those inside it: what is
    compared there decides something."""
    told = (place for place in range(len(chain)) if tells(chain, place, frame))
    first = next(told, None)
    return first is not None and not any(isinstance(node, ast.Compare) for node in chain[first:])


def is_caught(frame: Any) -> bool:
    """Whether the model catches what a frame raises, and may read its text."""
    while frame is not None and not frame.f_code.co_filename.startswith(ENTRIES):
        if not frame.f_code.co_filename.startswith(OWN):
            chain = nodes_around(frame)
            reads = partial(reads_error, frame=frame)
            if any(map(reads, chain, chain[1:])) if chain else binds_error(frame):
                return True
        frame = frame.f_back
    return False


def reads_error(node: ast.AST, inner: ast.AST, frame: Any) -> bool:
    """Whether a statement catches what is raised in a node of its body, and has its text for more than messages."""
    if not isinstance(node, ast.Try | ast.TryStar) or inner not in node.body:
        return False
    for handler in node.handlers:
        if handler.name and not all(is_told(each, frame) for each in readings(handler, handler.name)):
            return True
        if any(getattr(each, "attr", getattr(each, "id", "")) in ERRORS for each in ast.walk(handler)):
            return True
    return False


def is_kept_for_messages(chain: Sequence[ast.AST], statement: ast.AST | None, frame: Any) -> bool:
    """Whether a statement gives a text a name that its function reads for messages alone."""
    function = next((node for node in reversed(chain) if isinstance(node, FUNCTIONS)), None)
    name = name_given(statement)
    if function is None or statement is None or not name:
        return False
    if not all(map(is_part_of_text, chain[chain.index(statement) + 1 :])):
        return False
    shared = (n for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal) and name in n.names)
    return next(shared, None) is None and all(is_told(each, frame) for each in readings(function, name))


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


def tells(chain: Sequence[ast.AST], place: int, frame: Any) -> bool:
    """Whether one of some nodes of a frame, a statement or call, only tells what is made in those inside it."""
    node, inner = chain[place], chain[place + 1] if place + 1 < len(chain) else None
    if isinstance(node, ast.Raise):
        return True
    if isinstance(node, ast.keyword) and node.arg in MESSAGES:
        return place > 0 and is_taken_as_message(chain, place - 1, frame)
    if isinstance(node, ast.Assert):
        return inner is not None and inner is node.msg
    if isinstance(node, ast.Call) and name_called(node) == "_assert":  # torch's own, which tells its second argument
        return inner in node.args[1:] and is_taken_as_message(chain, place, frame)
    if isinstance(node, ast.withitem):
        call = node.context_expr
        return (
            isinstance(call, ast.Call) and name_called(call) in NAMED and is_taken_as_message(chain, place + 1, frame)
        )
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    name = name_called(node.value)
    if name == "print" and (any(each.arg == "file" for each in node.value.keywords) or not are_prints_for_people()):
        return False
    known = name in TELLING or name in NAMED or name.endswith("_check") or name.startswith(("check", "_check"))
    return known and is_taken_as_message(chain, place + 1, frame)


# ---------------------------------------------------------------------------------------------- who is told


DEEPEST = 4
"""How many functions of the user's one inside the other may hand a message on."""
KINDS = ("isinstance", "callable", "type")
"""Functions of what a message is, not of its text."""
STDLIB = f"{sysconfig.get_path('stdlib')}{os.sep}"
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
"""Folders of installed code, whose functions do what their names say."""
LOGGERS = ("getLogger", "get_logger")


def is_taken_as_message(chain: Sequence[ast.AST], place: int, frame: Any) -> bool:
    """Whether the function that is called at a place of some nodes of a frame only tells people what it is given by
    the nodes inside: one of a library, by its name, and one of the user's by what it does."""
    call = chain[place] if place < len(chain) else None
    if not isinstance(call, ast.Call):
        return True  # a call that makes no text among its arguments
    function = called_in(frame, call.func)
    if function is UNKNOWN:
        return isinstance(call.func, ast.Attribute) and is_call_of(call.func.value, LOGGERS)
    if place + 1 >= len(chain):
        return is_of_library(function)
    return is_of_library(function) or hands_to_people(function, argument_of(call, chain[place + 1]), frame)


def tells_people(frame: Any, path: Sequence[str]) -> bool:
    """Whether a function that a frame without source calls by some names tells people what it is given, as one of a
    library may; nobody sees what others do with it."""
    if not path or path[-1] not in TELLERS or (path == ["print"] and not are_prints_for_people()):
        return False
    node: ast.expr = ast.Name(path[0])
    for name in path[1:]:
        node = ast.Attribute(node, name)
    function = called_in(frame, node)
    return function is not UNKNOWN and is_of_library(function)


def are_prints_for_people() -> bool:
    """Whether what is printed goes where the model cannot read it: to no text of its own, by no class of its own."""
    stream = sys.stdout
    kept = isinstance(stream, StringIO | BytesIO) or isinstance(getattr(stream, "buffer", None), BytesIO)
    return not kept and (stream is sys.__stdout__ or is_of_library(type(stream)))


def is_call_of(node: ast.AST, names: Sequence[str]) -> bool:
    """Whether a node calls a function of one of these names."""
    return isinstance(node, ast.Call) and name_called(node) in names


UNKNOWN = object()
"""What is not found without running something of the user's."""


def called_in(frame: Any, path: ast.AST) -> Any:
    """What a path of names is in a frame, methods with the object that they are of, `UNKNOWN` where only code tells
    it."""
    if isinstance(path, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if path.id in names:
                return names[path.id]
        return UNKNOWN
    if not isinstance(path, ast.Attribute):
        return UNKNOWN
    if is_call_of(path.value, ("super",)):
        return attribute_beyond(frame, path.attr)
    holder = called_in(frame, path.value)
    return UNKNOWN if holder is UNKNOWN else attribute_of(holder, path.attr)


def attribute_of(holder: Any, name: str) -> Any:
    """An attribute of an object, without running code of its class; `UNKNOWN` where it is not found so."""
    held = inspect.getattr_static(holder, name, UNKNOWN)
    if held is UNKNOWN and isinstance(holder, torch.nn.Module):
        return holder._modules.get(name, UNKNOWN)
    if isinstance(held, staticmethod):
        return held.__func__
    if isinstance(held, classmethod):
        return types.MethodType(held.__func__, holder if isinstance(holder, type) else type(holder))
    bound = isinstance(held, types.FunctionType) and not isinstance(holder, type | types.ModuleType)
    if bound and name not in getattr(holder, "__dict__", {}):
        return types.MethodType(held, holder)
    return UNKNOWN if isinstance(held, property) or type(held).__name__ == "getset_descriptor" else held


def attribute_beyond(frame: Any, name: str) -> Any:
    """What `super().name` is in a method that a frame runs."""
    cls, code = frame.f_locals.get("__class__"), frame.f_code
    own = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    if cls is None or own is None:
        return UNKNOWN
    order = (own if isinstance(own, type) else type(own)).__mro__
    for each in order[order.index(cls) + 1 :] if cls in order else ():
        if name in vars(each):
            held = vars(each)[name]
            return types.MethodType(held, own) if isinstance(held, types.FunctionType) else held
    return UNKNOWN


def is_of_library(function: Any) -> bool:
    """Whether a function is Python's, torch's, irkit's, or of an installed library, and what it stands for, too, where
    it is around another one; an error is one."""
    if isinstance(function, type) and issubclass(function, BaseException):
        return True
    if isinstance(function, types.BuiltinFunctionType):
        return isinstance(function.__self__, types.ModuleType | None)
    inner = [getattr(function, "__wrapped__", None), function.func if isinstance(function, functools.partial) else None]
    kind = function if isinstance(function, type) else type(function)
    code = getattr(function, "__code__", None)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) if code is None else code.co_filename
    file = file or ""
    installed = file.startswith((*OWN, STDLIB)) or any(each in file for each in INSTALLED)
    return installed and all(is_of_library(each) for each in inner if each is not None)


def argument_of(call: ast.Call, inner: ast.AST) -> int | str | None:
    """The place or name of the argument of a call in which a node stands; None where that is not told."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if isinstance(inner, ast.keyword):
        return inner.arg
    return call.args.index(inner) if inner in call.args else None  # type: ignore[arg-type]


def hands_to_people(function: Any, place: int | str | None, frame: Any) -> bool:
    """Whether a function of the user's that a frame calls only tells people what it is given in one place, as its
    source says."""
    own: dict[str, Any] = {}
    if isinstance(function, types.MethodType):
        place, first = place + 1 if type(place) is int else place, function.__self__
        function = function.__func__
        own = dict.fromkeys(getattr(function, "__code__", NO_CODE).co_varnames[:1], first)
    if type(function) is not types.FunctionType or place is None:
        return False
    node, inside = definition_of(function), Inside.of(function, own, frame)
    name = "" if node is None else parameter_at(node, place)
    if node is None or not name or inside.depth > DEEPEST or READING & {*function.__code__.co_names}:
        return False
    if any(name in each.names for each in ast.walk(node) if isinstance(each, ast.Global | ast.Nonlocal)):
        return False
    return all(is_harmless(each, inside) for each in readings(node, name))


NO_CODE = compile("", "", "exec")
READING = frozenset(("locals", "vars", "eval", "exec"))
"""Functions that read variables without their names."""


def is_harmless(chain: Sequence[ast.AST], inside: Inside) -> bool:
    """Whether a function reads a message in some nodes without deciding by its text, also where it raises that."""
    if is_call_of(chain[-2], KINDS):
        return True
    statement = next((node for node in reversed(chain) if isinstance(node, ast.stmt)), None)
    if not is_told(chain, inside) and not is_kept_for_messages(chain, statement, inside):
        return False
    return not any(isinstance(each, ast.Raise | ast.Assert) for each in chain) or not is_caught(inside.asking)


@attrs.frozen(eq=False)
class Inside:
    """The names that a function of the user's knows before it runs, as a frame has them; the frame that is `asking` for
    a text that is handed on to it, by how many others."""

    f_globals: dict[str, Any]
    f_locals: dict[str, Any]
    f_code: types.CodeType
    asking: Any
    depth: int

    @classmethod
    def of(cls, function: types.FunctionType, own: dict[str, Any], frame: Any) -> Inside:
        """Of a function that is called by a frame, or by another such function, with the object whose method it is."""
        held = dict(own)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # it has none yet
                held[name] = cell.cell_contents
        further = isinstance(frame, Inside)
        asking, depth = (frame.asking, frame.depth + 1) if further else (frame, 1)
        return cls(function.__globals__, held, function.__code__, asking, depth)


def definition_of(function: types.FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The definition of a function in its source; None where that is not at hand, or it is a lambda."""
    code = function.__code__
    tree = parsed(tuple(lines_now(code.co_filename, function.__globals__)))
    for each in ast.walk(tree) if tree is not None else ():
        if isinstance(each, FUNCTIONS) and each.name == code.co_name:
            first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
            if first == code.co_firstlineno:
                return each
    return None


def parameter_at(node: ast.FunctionDef | ast.AsyncFunctionDef, place: int | str) -> str:
    """The name of the parameter that gets an argument; empty where there is none."""
    given = node.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    if type(place) is int:
        rest = "" if given.vararg is None else given.vararg.arg
        return names[place] if place < len(names) else rest
    named = [each.arg for each in (*given.args, *given.kwonlyargs)]
    rest = "" if given.kwarg is None else given.kwarg.arg
    return str(place) if place in named else rest


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
