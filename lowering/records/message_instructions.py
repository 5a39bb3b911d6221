"""What a text is made for, where there is no source to tell: executed texts, and modules that came without theirs.

The instructions of a frame tell it, from the one that asks for the text to the end of its statement: it is raised,
given to a function whose arguments are read by people, or returned. Whatever else is done with it may decide something.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from itertools import takewhile
from typing import Any

ENDING = ("STORE_", "POP_", "JUMP", "RETURN", "RAISE", "RERAISE", "RESUME", "FOR_ITER", "BEFORE_")
"""How instructions begin after which a statement may begin; within an expression the stack tells that it did not."""
MAKING = ("LOAD_", "FORMAT_", "BUILD_", "CALL", "CACHE", "CONVERT_VALUE", "EXTENDED_ARG", "LIST_EXTEND")
PLAIN = frozenset(("PRECALL", "KW_NAMES", "PUSH_NULL", "NOP", "BINARY_OP"))
"""Instructions by which a text, or what it is put into, decides nothing."""
OF_TWO = frozenset(("BINARY_SUBSCR", "COMPARE_OP", "IS_OP", "CONTAINS_OP"))
"""Instructions that take two operands, and decide by them."""
NAMES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF")


class Use(Enum):
    """What becomes of a text."""

    TOLD = "told to people"
    RAISED = "raised"
    RETURNED = "returned to whoever called"
    ELSE = "anything else"


def use_of_text(frame: Any, tells: Callable[[Sequence[str]], bool]) -> Use:
    """What becomes of a text that an instruction of a frame asks for; `tells` says of the names by which a function is
    called whether that tells it people."""
    code: types.CodeType = frame.f_code
    statement, at = statement_around(code, frame.f_lasti)
    ask, last = statement[at:-1], statement[-1].opname if statement else ""
    if not ask or not decides_nothing(ask[1:]) or any(each.is_jump_target for each in statement[1:]):
        return Use.ELSE
    path = path_called(statement[:-1])
    if last == "RAISE_VARARGS" and path is not None:
        return Use.RAISED
    if last.startswith("RETURN"):
        return Use.RETURNED
    given = last in ("POP_TOP", "BEFORE_WITH") and ask[-1].opname.startswith("CALL")
    kept = any("file" in names_given(code, each) for each in statement)
    known = bool(path) and tells(path or ())
    return Use.TOLD if given and known and not (path == ["print"] and kept) else Use.ELSE


def names_given(code: types.CodeType, instruction: dis.Instruction) -> Any:
    """The names of arguments that an instruction gives a call."""
    if instruction.opname == "KW_NAMES" and instruction.arg is not None:
        return code.co_consts[instruction.arg]
    told = instruction.argval
    return told if instruction.opname == "LOAD_CONST" and isinstance(told, tuple) else ()


def binds_error(frame: Any) -> bool:
    """Whether a frame catches what is raised at its instruction, and may have its text: it gives it a name, or does
    more in all cases."""
    code: Any = dis.Bytecode(frame.f_code)
    found, entries = list(code), code.exception_entries
    handlers = {each.target for each in entries if each.start <= frame.f_lasti < each.end}
    for at in (i for i, each in enumerate(found) if each.offset in handlers):
        caught = takewhile(lambda each: not each.opname.startswith(("POP_EXCEPT", "RERAISE")), found[at:])
        if any(each.opname.startswith("STORE_") or each.argval in ERRORS for each in caught):
            return True
    return False


ERRORS = ("exc_info", "exception", "format_exc", "print_exc", "last_value")
"""By which an error that was caught is got at without a name."""


def decides_nothing(following: Sequence[dis.Instruction]) -> bool:
    """Whether instructions decide nothing by what is on top of the stack before them, nor by what that is put into:
    two operands above it, `x.shape[0]` behind it among the arguments of a call, are something else."""
    depth = lowest = 0
    for each in following:
        apart = each.opname in OF_TWO and depth - lowest >= 2
        if not apart and each.opname not in PLAIN and not each.opname.startswith(MAKING):
            return False
        depth += dis.stack_effect(each.opcode, each.arg, jump=False)
        lowest = min(lowest, depth)
    return True


@lru_cache(maxsize=256)
def statement_around(code: types.CodeType, offset: int) -> tuple[tuple[dis.Instruction, ...], int]:
    """(the instructions of the statement around one, the last of which ends it; the place of that one among them)."""
    found = list(dis.get_instructions(code))
    at = next((i for i, each in enumerate(found) if each.offset == offset), 0)
    first = next((i + 1 for i in range(at - 1, -1, -1) if found[i].opname.startswith(ENDING)), 0)
    last = next((i for i in range(at + 1, len(found)) if found[i].opname.startswith(ENDING)), at)
    return tuple(found[first : last + 1]), at - first


def path_called(statement: tuple[dis.Instruction, ...]) -> list[str] | None:
    """The names of the function that a statement calls with all that it makes, `logging`, `info`; none where it has
    none, None where the statement began before: it takes more from the stack than it has put there."""
    depth, path = 0, list[str]()
    for each in statement:
        attribute = each.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if attribute and depth <= 2:
            path = [*path, str(each.argval)]
        elif depth <= 1 and each.opname.startswith(NAMES):
            path = [str(each.argval)]
        depth += dis.stack_effect(each.opcode, each.arg, jump=False)
        if depth < 0:
            return None
    return path
