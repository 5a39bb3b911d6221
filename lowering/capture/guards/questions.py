"""What a traced model asks of sizes and of data, and the conditions that its answers leave."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFunction

from irkit import dims
from irkit.dims import Dim, Range
from irkit.dims.ranges import LEAST
from irkit.errors import DimensionError
from lowering.capture.guards.answers import holds, words
from lowering.capture.guards.comparisons import as_said
from lowering.capture.guards.guards import Guard
from lowering.errors import LoweringError
from lowering.records.source_lines import calling_files

RELATIONS: Mapping[str, tuple[Any, Callable[[Any, Any], bool], Any]] = {
    "eq": (sympy.Eq, operator.eq, sympy.Ne), "ne": (sympy.Ne, operator.ne, sympy.Eq),
    "lt": (sympy.Lt, operator.lt, sympy.Ge), "le": (sympy.Le, operator.le, sympy.Gt),
    "gt": (sympy.Gt, operator.gt, sympy.Le), "ge": (sympy.Ge, operator.ge, sympy.Lt),
}  # fmt: skip


class Taken(BaseException):
    """The model takes the number of a size that was to vary: its name, the line, and the globals of the code. No
    `except Exception` of the model's keeps it."""

    def __init__(self, name: str, source: str, code: Any) -> None:
        super().__init__(name)
        self.name, self.source, self.code = name, source, code


class Chosen(BaseException):
    """The model takes the number of a size, or one of two, in code that does not keep sizes: the globals of that, and
    the size, or the condition."""

    def __init__(self, code: Any, size: Any) -> None:
        super().__init__()
        self.code, self.size = code, size


class Required(LoweringError):
    """What torch requires of sizes does not hold for the example."""


@attrs.define(eq=False)
class Questions:
    """What a traced model asked of sizes and of data, and what each symbol is for the example.

    `hints` has the number of each symbol by its label, `ranges` what is known of it for every call; `line` gives the
    user's line that is being run, `code` the globals of that code, `heard` is told of each condition, `rounded` gives a
    symbol for a number out of data that is rounded. `kept` are the conditions, in the order in which they were asked,
    `fixed` the sizes of which the model took the number, or one of two by min or max, with the globals of the code that
    did; `keeps` are those of code whose `int`, `min` and the like keep sizes, beside the model's own, None where none
    do, `at_once` says that comparisons are answered at once, also where nobody branches on them, `for_tracer` that the
    model takes the ways that it has for TorchScript's tracer, `asked_for_tracer` in which files it asked for that.
    `passed_on` says that a comparison became part of the graph, `silent` that torch asks for itself, as it lays a
    tensor out: the answers of the example leave no trace; `unstripped` says that torch asks which axes of length 1 it
    may leave out, of what it broadcasts all the same if it leaves none out; `inside` counts the bodies of control flow
    around. `shown` has the `torch.SymInt` of each dimension, `laid` one by which torch lays tensors out, `refused`
    those conditions below whose least size torch was seen to refuse an operator, `beyond` those of its own that others
    of its sizes break, a greatest or a factor, `own` those that something else than
    an operator asked, `told` all since it was emptied, kept already or not. `reached` hears of each.
    `assumed` are the conditions that hold in the block around, of which nothing is kept; where the example's sizes
    break them, `hints` are others meanwhile, and `moved` is a number of that block's own, among `moves`; else it is 0.
    `decide` answers a question of sizes in another way than the example does, or not at all. `written` has the numbers
    of which the model asked the text, `inexact` the symbols of those whose last digit is a runtime's own,
    `steps` which function of which whole number a logarithm is. `varying` are
    the names of which the first number that the model takes ends the run, since it would fix them; `stops` says that
    the first number or choice of any sizes does, in code that does not keep them. `operators` says how many operators
    are being met, one inside another, `raised` the first error of one that the model called, and where; `ended` is what
    was raised to end the run, of which code of torch's in C++ makes an error of its own.
    """

    line: Callable[[], str]
    heard: Callable[[Any], None]
    rounded: Callable[[Any, Any, int], Any]
    hints: dict[str, Any] = attrs.field(factory=dict)
    ranges: dict[str, Range] = attrs.field(factory=dict)
    kept: dict[Any, Guard] = attrs.field(factory=dict)
    fixed: dict[Any, Any] = attrs.field(factory=dict)
    keeps: Sequence[Any] | None = None
    at_once: bool = False
    for_tracer: bool = False
    asked_for_tracer: set[str] = attrs.field(factory=set)
    passed_on: bool = False
    shown: dict[Dim, Any] = attrs.field(factory=dict)
    laid: dict[Dim, Any] = attrs.field(factory=dict)
    refused: set[Any] = attrs.field(factory=set)
    ended: BaseException | None = None
    beyond: set[Any] = attrs.field(factory=set)
    own: set[Any] = attrs.field(factory=set)
    told: list[Any] = attrs.field(factory=list)
    silent: bool = False
    inside: int = 0
    reached: Callable[[Any], Any] = id
    code: Callable[[], Any] = dict
    written: dict[str, Any] = attrs.field(factory=dict)
    inexact: set[Any] = attrs.field(factory=set)
    steps: dict[Any, tuple[Callable[[int], float], Any]] = attrs.field(factory=dict)
    unstripped: bool = False
    operators: int = 0
    raised: tuple[Exception, str] | None = None
    assumed: tuple[Any, ...] = ()
    moved: int = 0
    moves: int = 0
    decide: Callable[[Any], bool | None] | None = None
    varying: frozenset[str] = frozenset()
    stops: bool = False

    @property
    def taken(self) -> tuple[int, int]:
        """(of how many sizes the model took the number, how many numbers and choices it took)"""
        return sum(not isinstance(each, Relational | BooleanFunction) for each in self.fixed), len(self.fixed)

    def traces(self) -> bool:
        """What the model hears where it asks whether TorchScript's tracer is at work."""
        self.asked_for_tracer |= calling_files()
        return self.for_tracer

    def hint(self, dim: Dim) -> int:
        """The number that a dimension is for the example."""
        return dim if type(dim) is int else dims.evaluate(dim, self.hints)

    def condition(self, expr: Any, holds: bool, own: bool = True) -> None:
        """Keeps that a condition is what it is for the example, unless that always is so; `own` where no operator of
        torch's requires it."""
        told = as_said(expr if holds else sympy.Not(expr))
        if self.silent or told in self.assumed:
            return
        if own:
            self.own.add(told)
        self.reached(told)
        self.told.append(told)
        if told not in (sympy.true, True) and told not in self.kept:
            self.kept[told] = Guard(told, words(told), self.line())
            self.heard(told)

    def number_taken(self, size: Any, number: int) -> None:
        """Keeps that a size is a number, of which the model took it. Raises Taken where that ends the run; ways for
        TorchScript's tracer may take none."""
        told = sympy.Eq(size, number)
        self.condition(told, True)
        within = self.inside or self.moved or self.assumed or self.asked_for_tracer
        if not within and getattr(size, "name", "") in self.varying and told in self.kept:
            self.ended = Taken(size.name, self.line(), self.code())
            raise self.ended
        self.choose(size)

    def choose(self, size: Any) -> None:
        """Keeps that the model takes the number of a size, or one of two by a condition. Raises Chosen where that ends
        the run."""
        place = self.fixed[size] = self.code()
        ends = self.stops and not (self.inside or self.moved or self.assumed)
        if ends and all(place is not each for each in self.keeps or ()):
            self.ended = Chosen(place, size)
            raise self.ended

    def forget_errors(self) -> None:
        """Lets go of errors once a run has ended. Their frames hold its tensors, and the sizes of these hold the
        questions, where Python's collector does not look: all of the run would live on."""
        self.ended = self.raised = None

    def untold(self, text: str) -> None:
        """Keeps in words what nothing can check: a note in report and contract, with the user's line."""
        self.kept.setdefault(text, Guard(None, text, self.line()))

    def required(self, expr: Any) -> None:
        """Keeps a condition that torch requires. Raises LoweringError where it does not hold for the example."""
        if holds(expr, self.hints) is False:
            said = f"torch requires {expr}, which does not hold for the example"
            raise Required(said, source=self.line(), hint="give an example for which it holds")
        self.condition(expr, True, own=False)

    def equal(self, a: Dim, b: Dim) -> None:
        """Keeps that two dimensions are equal. Raises LoweringError where they are not for the example."""
        if dims.same(a, b) is not True:
            self.required(sympy.Eq(sympy.sympify(a), sympy.sympify(b)))

    def decided(self, name: str, a: Any, b: Any) -> bool | None:
        """The answer to a relation of two dimensions that holds for all sizes in range; None where sizes differ."""
        try:
            gap = dims.sub(a, b)
        except (DimensionError, TypeError):
            return None
        if type(gap) is int:
            return RELATIONS[name][1](gap, 0)
        span = dims.bounds(gap, self.ranges)
        low, high = (-math.inf if span.lo <= LEAST else span.lo), (math.inf if span.hi is None else span.hi)
        if name in ("eq", "ne"):
            return (name == "ne") if low > 0 or high < 0 else None
        ends = {RELATIONS[name][1](end, 0) for end in (low, high)}
        return ends.pop() if len(ends) == 1 else None
