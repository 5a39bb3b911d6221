"""A rule's left side written down from an instance of it: Python code, to be edited."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Sequence

from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.core.walk import post_order
from irkit.errors import RewriteError
from irkit.ops.schemas import BODIES
from irkit.pattern.predicates import uniform

MOST = 60
"""Of how many operators a pattern is written at most."""


def pattern_of(value: Value, inputs: Sequence[Value] = (), name: str = "mine") -> str:
    """The code of a rule whose pattern matches `value`: parameters and `inputs` become holes, constants constants.

    What is used more than once is one pattern; numbers are those of the instance, up to rounding; attributes are
    written as they are. The right side is left to be written: the rule declines.

    Raises RewriteError for more than `MOST` operators (name `inputs` to cut the graph there), and for bodies.
    """
    ends = frozenset(inputs)
    order = [v for v in post_order([value], stop=ends.__contains__) if v not in ends]
    spanned = [v for v in order if v.inputs and v.op != ITEM]
    if len(spanned) > MOST:
        raise RewriteError(
            f"{len(spanned)} operators are too many for a pattern", hint="inputs=(...) says where the pattern ends"
        )
    for v in spanned:
        if v.op in BODIES or v.op == CALL:
            raise RewriteError(f"no pattern can be written for {v.op}", ir=repr(v), hint="name its results as inputs")
    writer = _Writer(ends, Counter(i for v in order for i in v.inputs if i is not None))
    root = ""
    for v in order:
        root = writer.write(v)
    kinds = ["decline", "op", "rule"]
    lines = [f"from irkit import {', '.join(kinds)}", "from irkit.pattern import const, hole, p", "", *writer.lines]
    return "\n".join(
        [
            *lines,
            "",
            "",
            f"@rule({root}, exact=False)",
            f"def {name}(m):",
            f'    """{_equation(value)} -> ..."""',
            '    return decline("write the right side")',
            "",
        ]
    )


def _equation(value: Value) -> str:
    return f"{value.op}(...)"


class _Writer:
    """The lines that name holes, constants and what is used more than once, and how each value is written."""

    def __init__(self, ends: frozenset[Value], uses: Counter[Value]) -> None:
        self.ends, self.uses = ends, uses
        self.lines: list[str] = []
        self.written: dict[Value, str] = {}
        self.taken: Counter[str] = Counter()

    def write(self, value: Value) -> str:
        """How a value is written; its operands are written already, but for holes."""
        if value in self.written:
            return self.written[value]
        if value in self.ends or value.op in (PARAM, SHAPE_VECTOR):
            found = self.line(_word(value, "x"), lambda name: f"hole({name!r}{_typed(value)})")
        elif value.op == CONSTANT:
            found = self.constant(value)
        elif value.op == ITEM and value.inputs[0] is not None:
            found = f"{self.write(value.inputs[0])}[{value.attributes[0][1]}]"
        else:
            found = self.operator(value)
        self.written[value] = found
        return found

    def operator(self, value: Value) -> str:
        """The pattern of an operator; a line of its own where it is used more than once."""
        given = ["None" if v is None else self.write(v) for v in value.inputs]
        given += [f"{n}={a!r}" for n, a in value.attributes]
        maker = f"p.{value.op}" if value.op.isidentifier() else f"p.op({value.op!r})"
        code = f"{maker}({', '.join(given)})"
        if self.uses[value] > 1:
            return self.line(value.op.rpartition("::")[2].lower(), lambda name: f"{code}.named({name!r})")
        return code

    def constant(self, value: Value) -> str:
        """The pattern of a constant: its number, or a constant of its rank."""
        number = uniform(value)
        if isinstance(number, int | float) and not isinstance(number, bool) and isinstance(value.type, Tensor):
            if value.dtype.is_float:
                return f"const(value={number!r})"
            return repr(number)
        return self.line(_word(value, "c"), lambda name: f"const({name!r}, rank={value.rank})")

    def line(self, word: str, code: Callable[[str], str]) -> str:
        """A line that gives something a name."""
        self.taken[word] += 1
        name = word if self.taken[word] == 1 else f"{word}_{self.taken[word]}"
        self.lines.append(f"{name} = {code(name)}")
        return name


def _word(value: Value, otherwise: str) -> str:
    """A name for a hole: the end of a weight's name, where it has one."""
    name = value.blob.name.rpartition(".")[2] if value.blob is not None and value.blob.name else ""
    word = re.sub(r"\W", "_", name).strip("_").lower()
    return word if word.isidentifier() and not keyword.iskeyword(word) else otherwise


def _typed(value: Value) -> str:
    if not isinstance(value.type, Tensor):
        return ""
    kind = '"float"' if value.dtype.is_float else f'"{value.dtype.short}"'
    return f", dtype={kind}, rank={value.rank}"
