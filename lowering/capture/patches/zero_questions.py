"""What was asked of sizes while torch traced, by whom, and which answers size 0 would have changed.

torch takes every size of an example for positive: `x.shape[0] == 0` is False before anything could record it. A model
that asks so goes another way for 0 than the one that was traced. Here the comparisons themselves are overheard. What
torch's own kernels ask, about strides and memory formats, is left out: their operators are in the graph as a whole.
"""

from __future__ import annotations

import math
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import sympy
import torch

from lowering.capture.guards.guards import line_at
from lowering.errors import CaptureError
from lowering.records.torch_internals import ShapeEnv, SLoc, SymNode, torch_functions

TORCH = f"{Path(torch.__file__).parent}{os.sep}"
HERE = f"{Path(__file__).parents[2]}{os.sep}"
END = str(Path(HERE, "capture", "torch_export.py"))
LIBRARIES = tuple({sysconfig.get_paths()[key] for key in ("purelib", "platlib", "stdlib", "platstdlib")})
ZERO = sympy.Integer(0)
RELATIONS: Mapping[str, Callable[..., Any]] = {
    "eq": sympy.Eq, "ne": sympy.Ne, "lt": sympy.Lt, "le": sympy.Le, "gt": sympy.Gt, "ge": sympy.Ge,
    "sym_max": torch_functions.Max, "sym_min": torch_functions.Min,
}  # fmt: skip
DIVISIONS = ("int_floordiv", "mod", "int_truediv", "float_truediv")
ANSWERS = ("guard_int", "guard_bool", "guard_float")
LAYOUTS = ("stride", "is_contiguous")
POWERS = ("pow_by_natural", "float_pow")
"""What divides by the size itself where the exponent is below 0."""
BETWEEN = (
    "/fx/experimental/sym_node.py", "/fx/experimental/symbolic_shapes.py", "/__init__.py", "/utils/_config_module.py",
    "/_utils.py", "/_dynamo/eval_frame.py",
)  # fmt: skip
"""Files of torch that hand a question on."""
HANDED = (
    "__torch_function__", "handle_torch_function", "_tensor_min_max", "greatest", "smallest", "extreme", "of_one_kind",
    "handed_on", "as_number", "unlike", "item_told",
)  # fmt: skip
"""Functions that hand a question on: of torch, among them what stands for Python's min and max while it exports, and
those of `lowering.capture.patches.kept_sizes` and `functions_of_numbers`."""
DIVIDING = str(Path(__file__).with_name("functions_of_numbers.py"))
"""The file of irkit that divides for the model: `divmod(n, m)`, `math.fmod(n, m)`."""
TEXTS = ("number", "plain_number", "text", "formatted")
"""Functions of irkit that hand on what asks for a number itself, of `lowering.capture.patches.asked_texts`."""
KERNELS = (
    "/_prims", "/_subclasses", "/_meta_registrations", "/_refs", "/_decomp", "/_ops", "/fx", "/_export", "/export",
    "/_dispatch", "/_functorch", "/_higher_order_ops", "/_library", "/utils", "/overrides", "/_guards",
)  # fmt: skip
"""Files and folders of torch that compute shapes and strides of operators, and trace."""


@attrs.frozen
class Question:
    """A comparison of sizes (or a greatest or least one) whose answer size 0 would change.

    `symbols` are the names of torch's symbols of which one alone at 0 changes it; where none does, `together` are those
    that change it all at 0. `frame` is the line that asked. Of strides torch itself tells others than a CPU has where
    there is nothing: no trace at 0 shows that, so that the question is `lasting`; so is it that the sizes `apart` are
    not 1, at which torch may tell others, too.
    """

    symbols: frozenset[str]
    together: frozenset[str]
    frame: traceback.FrameSummary | None
    lasting: bool = False
    apart: tuple[Any, ...] = ()


@attrs.frozen
class Heard:
    """What a model asked of sizes while it was traced, what it divided by, with the line that did, the line of each
    condition that was left to run time, by torch's expression, and what torch refused to answer the model, which may
    have caught that, with its line, and what the model `changed` of itself and what it has `drawn`, in words."""

    questions: list[Question] = attrs.field(factory=list)
    divisors: dict[Any, traceback.FrameSummary | None] = attrs.field(factory=dict)
    deferred: dict[Any, traceback.FrameSummary | None] = attrs.field(factory=dict)
    raised: list[tuple[Exception, traceback.FrameSummary | None]] = attrs.field(factory=list)
    changed: list[str] = attrs.field(factory=list)
    drawn: list[str] = attrs.field(factory=list)


@contextmanager
def hear_questions(heard: Heard) -> Iterator[None]:
    """A block in which models may be traced; `heard` is filled with what they ask.

    In it, torch notes the model's own line for guards, not its own.
    """
    known: set[Any] = set()
    layouts = {name: getattr(torch.Tensor, name) for name in LAYOUTS}
    before = {name: getattr(SymNode, name) for name in (*RELATIONS, *DIVISIONS, *POWERS, *ANSWERS)}
    located, deferred = ShapeEnv._get_sloc, ShapeEnv.guard_or_defer_runtime_assert

    def with_line(env: Any, framework_loc: Any = None) -> Any:
        sloc = located(env, framework_loc)
        if sloc.maybe_user_loc is not None:
            return sloc
        frame = sys._getframe(1)
        where = sloc.framework_loc if framework_loc is not None else torch_frame(frame)
        return SLoc(where, user_frame(frame))  # type: ignore[arg-type]

    def noted(env: Any, expr: Any, *args: Any, **kwargs: Any) -> bool:
        if expr not in heard.deferred:
            heard.deferred[expr] = user_frame(sys._getframe(1))
        return deferred(env, expr, *args, **kwargs)

    try:
        for name, method in before.items():
            asks = overheard(name, method, heard.questions, known) if name in RELATIONS else None
            asks = answered(method, heard.raised) if name in ANSWERS else asks
            method = whole_remainder(method, heard.raised) if name == "mod" else method
            setattr(SymNode, name, asks or divided(name in POWERS, method, heard.divisors))
        for name, method in layouts.items():
            setattr(torch.Tensor, name, layout_asked(method, heard, name == "stride"))
        ShapeEnv._get_sloc = with_line  # type: ignore[method-assign]
        ShapeEnv.guard_or_defer_runtime_assert = noted  # type: ignore[method-assign]
        yield
    finally:
        ShapeEnv._get_sloc, ShapeEnv.guard_or_defer_runtime_assert = located, deferred
        for name in LAYOUTS:
            delattr(torch.Tensor, name)
        for name, method in before.items():
            setattr(SymNode, name, method)


def overheard(name: str, method: Any, found: list[Question], known: set[Any]) -> Any:
    """A comparison of SymNode that notes what 0 would have changed."""

    def compare(self: Any, other: Any) -> Any:
        answer = method(self, other)
        found_exprs: list[Any] = [getattr(each, "expr", None) for each in (answer, self, other)]
        said, ours, theirs = found_exprs
        if said is None or theirs is None or not (ours.free_symbols or theirs.free_symbols):
            return answer
        if name in ("sym_max", "sym_min") or said in (sympy.true, sympy.false):
            frame = sys._getframe(1)
            asker = asking(frame)
            key = (name, ours, theirs, said, asker and (asker.f_code.co_filename, asker.f_lineno))
            if asker is not None and key not in known:
                known.add(key)
                note(RELATIONS[name], ours, theirs, said, user_frame(frame), found)
        return answer

    return compare


def layout_asked(method: Any, heard: Heard, strides: bool) -> Any:
    """A question of a model about how a tensor lies, which notes that nothing lies otherwise: torch answers it, and
    tells strides, by sizes that it takes for positive, and for more than 1."""

    def asks(x: Any, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if type(x) is not torch.nn.Parameter and asking(frame) is frame:
            line = user_frame(frame)
            symbols = frozenset(each.name for size in symbolic_sizes(x) for each in size.free_symbols)
            apart = computed_sizes(x, heard, line) if strides else ()
            if symbols or apart:
                heard.questions.append(Question(symbols, frozenset(), line, strides, tuple(apart)))
        return method(x, *args, **kwargs)

    return asks


def symbolic_sizes(x: torch.Tensor) -> list[Any]:
    """torch's expressions for the sizes of a tensor that vary."""
    return [size.node.expr for size in x.shape if isinstance(size, torch.SymInt)]


def computed_sizes(x: torch.Tensor, heard: Heard, line: Any) -> list[Any]:
    """The sizes that vary of what the model has computed, of which a tensor is, or is a view: torch tells strides of it
    as a CPU lays it out where none is 1. Raises CaptureError, which is noted, where they are in another order than that
    of its axes, as a CPU need not lay it out."""
    whole = x if x._base is None else x._base
    converter = getattr(getattr(whole, "fake_mode", None), "fake_tensor_converter", None)
    if converter is None or any(each is whole for each in converter.meta_converter.tensor_memo.values()):
        return []
    wanted: Any = 1
    for size, step in zip(reversed(whole.shape), reversed(whole.stride()), strict=True):
        told = [each.node.expr if isinstance(each, torch.SymInt) else sympy.Integer(each) for each in (size, step)]
        if told[0] != 1 and sympy.expand(told[1] - wanted) != 0:
            what = "the model asks for the strides of what lies in another order than a CPU need lay it out"
            error = CaptureError(what, source=line_at(line), hint="use capture='direct'")
            heard.raised.append((error, line))
            raise error
        wanted = wanted * told[0]
    return symbolic_sizes(whole)


def answered(method: Any, found: list[tuple[Exception, traceback.FrameSummary | None]]) -> Any:
    """A number or an answer that Python asks of SymNode, which notes the error where a model gets one instead."""

    def answer(self: Any, *args: Any) -> Any:
        try:
            return method(self, *args)
        except Exception as error:
            frame = sys._getframe(1)
            if asking(frame, (*HANDED, *TEXTS)) is not None:
                found.append((error, user_frame(frame)))
            raise

    return answer


def divided(power: bool, method: Any, found: dict[Any, traceback.FrameSummary | None]) -> Any:
    """A division of SymNode, or a power, that notes by what it divides: the quotient may not tell it any more."""

    def divide(self: Any, other: Any) -> Any:
        divisor: Any = getattr(self if power else other, "expr", None)
        below = not power or bool(getattr(getattr(other, "expr", None), "is_negative", False))
        if below and divisor is not None and not divisor.is_number and divisor not in found:
            frame = sys._getframe(1)
            if asking(frame, through=DIVIDING) is not None:
                found[divisor] = user_frame(frame)
        return method(self, other)

    return divide


def whole_remainder(method: Any, found: list[tuple[Exception, traceback.FrameSummary | None]]) -> Any:
    """The remainder of SymNode, which torch takes for a whole number, that of 3 / 2, too. Of numbers that need not be
    whole it is computed by what is exact in doubles, where it is by a power of two, and else refused, which is noted.
    """

    def remainder(self: Any, other: Any) -> Any:
        if self.is_int() and other.is_int():
            return method(self, other)
        by = other.maybe_as_float()
        if by is None or math.frexp(by)[0] != 0.5:
            frame = user_frame(sys._getframe(1))
            error = CaptureError(
                "torch.export takes the remainder of a number that need not be whole for a whole one",
                source=line_at(frame),
                hint="compute it of whole numbers, n % 4 in place of n / 2 % 2, or use capture='direct'",
            )
            found.append((error, frame))
            raise error
        return self.sub(self.float_truediv(other).floor().sym_float().mul(other))

    return remainder


def note(relation: Any, ours: Any, theirs: Any, said: Any, frame: Any, found: list[Question]) -> None:
    """Adds the question to `found` if 0 changes its answer."""
    symbols = ours.free_symbols | theirs.free_symbols
    alone = {each for each in symbols if changed(relation, ours, theirs, said, {each: ZERO})}
    together = frozenset()
    if not alone and len(symbols) > 1 and changed(relation, ours, theirs, said, dict.fromkeys(symbols, ZERO)):
        together = frozenset(each.name for each in symbols)
    if alone or together:
        found.append(Question(frozenset(each.name for each in alone), together, frame))


def changed(relation: Any, ours: Any, theirs: Any, said: Any, sizes: Mapping[Any, Any]) -> bool:
    """Whether the answer would be another one at these sizes."""
    try:
        then = relation(sympy.sympify(ours).xreplace(dict(sizes)), sympy.sympify(theirs).xreplace(dict(sizes)))
        return bool(then != said.xreplace(dict(sizes)))
    except (ArithmeticError, TypeError, ValueError):
        return True


def asking(frame: FrameType | None, handed: tuple[str, ...] = HANDED, through: str = "") -> FrameType | None:
    """The frame of the model (or of torch.nn) that asked; None where a kernel of torch or irkit itself did, but for
    what stands in a file that is looked `through`."""
    called = False  # by torch.sym_max and its like, which torch hands on to itself first
    while frame is not None:
        name, function = frame.f_code.co_filename, frame.f_code.co_name
        called = called or function in ("sym_max", "sym_min", "sym_ite")
        if name.startswith(HERE) and function not in handed and name != through:
            return None
        if name.startswith(TORCH):
            rest = name[len(TORCH) - 1 :]
            if rest not in BETWEEN and not (called and function in HANDED):
                return None if rest.startswith(KERNELS) else frame
        elif not name.startswith(("<", HERE)) and not name.endswith(("functools.py", "contextlib.py")):
            return frame
        frame = frame.f_back
    return None


def user_frame(frame: FrameType | None) -> traceback.FrameSummary | None:
    """The innermost line of the user's own code on the way to `frame`, or else of a library; None where all is torch's.

    The way begins where irkit calls torch.export.
    """
    library: FrameType | None = None
    while frame is not None and frame.f_code.co_filename != END:
        name = frame.f_code.co_filename
        if not name.startswith((TORCH, HERE, "<")):
            if not name.startswith(LIBRARIES):
                return summary(frame)
            if library is None and "site-packages" in name:
                library = frame
        frame = frame.f_back
    return summary(library) if library is not None else None


def torch_frame(frame: FrameType | None) -> traceback.FrameSummary | None:
    """The innermost line of torch that neither traces nor computes shapes on the way to `frame`; else any."""
    first: FrameType | None = None
    while frame is not None and frame.f_code.co_filename != END:
        name = frame.f_code.co_filename
        if name.startswith(TORCH) and name[len(TORCH) - 1 :] not in BETWEEN:
            if not name[len(TORCH) - 1 :].startswith((*KERNELS, "/_dynamo", "/_compile")):
                return summary(frame)
            first = first or (None if name.endswith("recording.py") else frame)
        frame = frame.f_back
    return summary(first) if first is not None else None


def summary(frame: FrameType) -> traceback.FrameSummary:
    """File, line and function of a frame."""
    return traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, lookup_line=False)
