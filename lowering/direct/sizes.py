"""Sizes that a model computes with while it is traced, and what it asks of them.

A size that varies is a `torch.SymInt` over a `SizeNode`: an irkit dimension, and the number that it is for the example.
Arithmetic makes new dimensions and asks nothing. A question (`if n > 1`) is answered by the example, and kept as a
condition with the line that asked, unless the ranges of the symbols decide it for every size.
"""

# torch's own node, whose methods these stand in for, types them by itself.
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportAssignmentType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.fx.experimental.sym_node import SymNode

from irkit import dims
from irkit.dims import Dim, reals
from lowering.capture.guards.answers import holds
from lowering.capture.guards.questions import RELATIONS, Questions
from lowering.capture.patches.kept_sizes import CHOSEN, FLOATED
from lowering.direct.functions import bits
from lowering.errors import LoweringError
from lowering.records.members import members_asked
from lowering.records.sizes import is_unbacked

YES: Callable[[], bool] = True.__bool__
"""Says True, and is no function of Python's: torch asks each size of each tensor whether it is an integer."""


class SizeNode(SymNode):
    """What stands behind a `torch.SymInt`, `SymFloat` or `SymBool` of a traced model.

    `expr` is a dimension, a real sympy expression or a condition; `hint` its value for the example. The methods are
    those that torch calls on its own `SymNode`.
    """

    def __init__(self, asked: Questions, expr: Any, kind: type, hint: Any, parts: Any = None) -> None:
        self.asked, self.kind, self.parts = asked, kind, parts
        self._hint, self._at = hint, asked.moved
        self._made: Any = expr
        if kind is int:
            self.is_int = YES

    @property
    def hint(self) -> Any:
        """The number, or the answer, for the example, or at the sizes to which the block around moved."""
        if self._at != self.asked.moved:
            self._hint, self._at = self.hint_now(), self.asked.moved
        return self._hint

    def hint_now(self) -> Any:
        """The number, or the answer, at the sizes of now."""
        if self.kind is int:
            return self.asked.hint(self._made)
        if self.parts is None:
            made = self._made
            if type(made) in (bool, float):
                return made
            hints = self.asked.hints
            return bool(holds(made, hints)) if self.kind is bool else float(dims.number_of(made, hints))
        name, *rest = self.parts
        answers = [each.hint for each in rest]
        if name in RELATIONS:
            return RELATIONS[name][1](*answers)
        return not answers[0] if name == "not" else (all if name == "and" else any)(answers)

    @property
    def expr(self) -> Any:
        """The sympy expression; that of a condition is made when it is asked for, which is seldom."""
        if self._made is None:
            name, *rest = self.parts
            if name in RELATIONS and all(each.kind is bool for each in rest):
                a, b = (sympy.sympify(each.expr) for each in rest)
                self._made = alike(a, b) if name == "eq" else alike(a, sympy.Not(b))
            elif name in RELATIONS:
                a, b = (sympy.sympify(each.expr) for each in rest)
                self._made = RELATIONS[name][0](reals.side(a, b), reals.side(b, a))
            elif name == "not":
                self._made = sympy.Not(rest[0].expr)
            else:
                self._made = (sympy.And if name == "and" else sympy.Or)(*(each.expr for each in rest))
        return self._made

    @property
    def _expr(self) -> Any:
        return self.expr

    @property
    def dim(self) -> Dim:
        """The dimension of an integer."""
        return self._made

    @property
    def constant(self) -> Any:
        """The number or answer that this always is; None where it varies."""
        if self.kind is bool:
            known = self.known()
            return self.guard_bool() if known is None and self.asked.at_once else known
        return self._made if type(self._made) in (int, float) else None

    @property
    def pytype(self) -> type:
        return self.kind

    def is_int(self) -> bool:
        return self.kind is int

    def is_float(self) -> bool:
        return self.kind is float

    def is_bool(self) -> bool:
        return self.kind is bool

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return False

    def is_nested_int(self) -> bool:
        return False

    def has_hint(self) -> bool:
        return True

    def maybe_as_int(self) -> int | None:
        return self._made if type(self._made) is int else None

    def maybe_as_float(self) -> float | None:
        return self._made if type(self._made) is float else None

    def maybe_as_bool(self) -> bool | None:
        return self._made if type(self._made) is bool else None

    def constant_int(self) -> Any:
        return None

    constant_bool = nested_int = nested_int_coeff = constant_int

    def clone(self) -> SizeNode:
        return self

    def str(self) -> str:
        return str(self.expr)

    def _graph_repr(self) -> Any:
        text = str(self.expr)
        if self.kind is int:
            self.asked.written[text] = torch.SymInt(self)
        return text

    __str__ = __repr__ = str

    def wrap_int(self, number: int) -> SizeNode:
        return SizeNode(self.asked, int(number), int, int(number))

    def wrap_float(self, number: float) -> SizeNode:
        return SizeNode(self.asked, float(number), float, float(number))

    def wrap_bool(self, truth: bool) -> SizeNode:
        return SizeNode(self.asked, bool(truth), bool, bool(truth))

    # ---- questions

    def guard_int(self, file: Any = "", line: int = 0) -> int:
        """The number, which from now on is part of the graph."""
        if type(self._made) is not int:
            self.asked.number_taken(self._made, self.hint)
        return int(self.hint)

    def int_(self) -> int:
        return self.guard_int()

    def guard_float(self, file: Any = "", line: int = 0) -> float:
        if type(self._made) is not float:
            of_data = any(is_unbacked(symbol.name) for symbol in self._made.free_symbols)
            if not of_data or FLOATED.search(self.asked.line()):
                self.asked.choose(self._made)
            self.asked.condition(self.eq(self.wrap_float(self.hint)).expr, True)
        return float(self.hint)

    def guard_bool(self, file: Any = "", line: int = 0) -> bool:
        """The answer for the example, kept as a condition where sizes decide it."""
        if self.known() is not None:
            return bool(self.hint)
        if self.asked.unstripped and self.parts and self.parts[0] == "ne" and self.parts[2].maybe_as_int() == 1:
            return True
        if self.asked.decide is not None and not self.asked.silent:
            told = self.asked.decide(self)
            if told is not None:
                return told
        if self.among_several():
            return bool(self.hint)
        known = len(self.asked.kept)
        self.asked.condition(self.expr, bool(self.hint))
        if len(self.asked.kept) > known and CHOSEN.search(self.asked.line()):
            self.asked.choose(self.expr)
        return bool(self.hint)

    def among_several(self) -> bool:
        """Whether this is a question of `n in (1, 2, 4)`, of an `n` that is one of these for the example: that it is
        one is kept then, rather than which."""
        name, *rest = self.parts or ("",)
        if name != "eq" or rest[0].kind is not int or rest[1].maybe_as_int() is None:
            return False
        members = members_asked() if type(rest[0].dim) is not int else frozenset()
        if len(members) < 2 or rest[0].hint not in members:
            return False
        dim = sympy.sympify(rest[0].dim)
        self.asked.condition(sympy.Or(*(sympy.Eq(dim, each) for each in sorted(members))), True)
        return True

    def bool_(self) -> bool:
        return (self.ne(self.wrap_float(0.0)) if self.kind is float else self).guard_bool()

    def expect_true(self, file: Any = "", line: int = 0) -> bool:
        """What the model asserts: kept as a condition, in a body also where it does not hold for the example, which
        need not come there."""
        if self.asked.inside and not self.hint and self.known() is None:
            self.asked.condition(self.expr, True)
            return True
        return self.guard_bool(file, line)

    def guard_size_oblivious(self, file: Any = "", line: int = 0) -> bool:
        return self.guard_or_false(file, line)

    def guard_or_false(self, file: Any = "", line: int = 0) -> bool:
        """True where that is so for the example; False needs no condition, since it is the answer that fits all."""
        known = self.known()
        if known is not None:
            return known
        return self.guard_bool(file, line) if self.hint else False

    def guard_or_true(self, file: Any = "", line: int = 0) -> bool:
        known = self.known()
        if known is not None:
            return known
        return True if self.hint else self.guard_bool(file, line)

    def statically_known_true(self, file: Any = "", line: int = 0) -> bool:
        return self.known() is True

    def expect_size(self, file: Any = "", line: int = 0) -> bool:
        return self.ge(self.wrap_int(0)).expect_true(file, line)

    def known(self) -> bool | None:
        """The answer that holds for all sizes in range; None where sizes decide."""
        if type(self._made) is bool:
            return self._made
        if self._made in (sympy.true, sympy.false):
            return bool(self._made)
        if self.parts is None:
            return None
        name, *rest = self.parts
        if name in RELATIONS:
            return self.asked.decided(name, rest[0].expr, rest[1].expr) if all(r.kind is int for r in rest) else None
        answers = [each.known() for each in rest]
        if name == "not":
            return None if answers[0] is None else not answers[0]
        decisive = name == "or"
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive

    # ---- layouts: the example's own, which leave no trace

    def is_contiguous(self, sizes: Any, strides: Any) -> SizeNode:
        return self.wrap_bool(True)

    def is_channels_last_contiguous_2d(self, sizes: Any, strides: Any) -> SizeNode:
        return self.wrap_bool(False)

    is_channels_last_contiguous_3d = is_channels_last_contiguous_2d
    is_channels_last_strides_2d = is_channels_last_contiguous_2d
    is_channels_last_strides_3d = is_channels_last_contiguous_2d

    def is_non_overlapping_and_dense_indicator(self, sizes: Any, strides: Any) -> SizeNode:
        return self.wrap_int(1)

    def is_non_overlapping_and_dense(self, sizes: Any, strides: Any) -> SizeNode:
        return self.wrap_bool(True)

    # ---- arithmetic

    def whole(self, expr: Any, hint: Any) -> SizeNode:
        """An integer."""
        return SizeNode(self.asked, dims.dim(expr), int, int(hint))

    def real(self, expr: Any, hint: Any) -> SizeNode:
        """A number that need not be an integer."""
        return SizeNode(self.asked, float(hint) if expr.is_number else expr, float, float(hint))

    def computed(self, function: Any, other: SizeNode, hint: Any) -> SizeNode:
        """A real number of two, as it is rounded to a double."""
        return self.real(function(sympy.sympify(self.expr), sympy.sympify(other.expr)), hint)

    def add(self, other: SizeNode) -> SizeNode:
        if self.kind is int and other.kind is int:
            return self.whole(dims.add(self._made, other._made), self.hint + other.hint)
        return self.computed(reals.total, other, self.hint + other.hint)

    def sub(self, other: SizeNode) -> SizeNode:
        if self.kind is int and other.kind is int:
            return self.whole(dims.sub(self._made, other._made), self.hint - other.hint)
        return self.computed(reals.difference, other, self.hint - other.hint)

    def mul(self, other: SizeNode) -> SizeNode:
        if self.kind is int and other.kind is int:
            return self.whole(dims.mul(self._made, other._made), self.hint * other.hint)
        return self.computed(reals.product, other, self.hint * other.hint)

    def divided_by(self, other: SizeNode) -> None:
        """Keeps that a divisor is not 0, where Python ends with an error: the quotient may not tell it any more. Where
        it is 0 for the example, that is kept: the model may catch the error."""
        if other.constant is None and other.hint == 0:
            self.asked.condition(sympy.Eq(other.expr, 0), True)
            return
        if other.constant is None and other.ne(other.wrap_int(0)).known() is None:
            for factor in sympy.Mul.make_args(sympy.sympify(other.expr)):
                self.asked.condition(sympy.Ne(factor, 0), True)

    def int_floordiv(self, other: SizeNode) -> SizeNode:
        self.divided_by(other)
        return self.whole(dims.floordiv(self._made, other._made), self.hint // other.hint)

    floordiv = int_floordiv

    def mod(self, other: SizeNode) -> SizeNode:
        self, other = (each.wrap_int(each.guard_bool()) if each.kind is bool else each for each in (self, other))
        self.divided_by(other)
        if self.kind is int and other.kind is int:
            return self.whole(dims.mod(self._made, other._made), self.hint % other.hint)
        return self.computed(reals.remainder, other, self.hint % other.hint)

    def int_truediv(self, other: SizeNode) -> SizeNode:
        self.divided_by(other)
        made = self.computed(reals.quotient, other, self.hint / other.hint)
        known = self.asked.steps.get(self._made) if self.asked.steps else None
        if known is not None and type(other._made) in (int, float) and other._made > 0:
            (plain, number), by = known, other._made
            self.asked.steps[made.expr] = (lambda n: plain(n) / by, number)
        return made

    truediv = float_truediv = int_truediv

    def pow_by_natural(self, other: SizeNode) -> SizeNode:
        if type(self._made) is int and other.kind is int and other.constant is None:
            return self.node_of(bits.constant_power(self._made, torch.SymInt(other), int(other.hint)))
        if self.kind is int and other.kind is int:
            return self.whole(sympy.sympify(self.expr) ** sympy.sympify(other.expr), self.hint**other.hint)
        return self.float_pow(other)

    def float_pow(self, other: SizeNode) -> SizeNode:
        if other.hint < 0:
            other.divided_by(self)
        return self.computed(reals.power, other, self.hint**other.hint)

    pow = float_pow

    def neg(self) -> SizeNode:
        negative = dims.mul(self._made, -1) if self.kind is int else -self.expr
        return SizeNode(self.asked, negative, self.kind, -self.hint)

    def pos(self) -> SizeNode:
        return self

    def abs(self) -> SizeNode:
        if self.kind is int:
            return self.whole(dims.maximum(self._made, dims.mul(self._made, -1)), abs(self.hint))
        if not any(is_unbacked(symbol.name) for symbol in self.expr.free_symbols):  # Abs is none of dimensions
            return self.real(reals.root(reals.product(self.expr, self.expr)), abs(self.hint))
        return self.real(sympy.Abs(self.expr), abs(self.hint))

    def sym_min(self, other: SizeNode) -> SizeNode:
        return self.chosen(other, dims.Min, min)

    def sym_max(self, other: SizeNode) -> SizeNode:
        return self.chosen(other, dims.Max, max)

    def chosen(self, other: SizeNode, function: Any, plain: Callable[[Any, Any], Any]) -> SizeNode:
        """The smallest or greatest of two integers; of real numbers that of the example, under the condition that it is
        so for others: dimensions have no extremes of these. A truth value is 0 or 1."""
        self, other = (each.wrap_int(each.guard_bool()) if each.kind is bool else each for each in (self, other))
        if self.kind is int and other.kind is int:
            pair = (sympy.sympify(self.expr), sympy.sympify(other.expr))
            return self.whole(function(*pair), plain(self.hint, other.hint))
        first = self.le(other).guard_bool() == (plain is min)
        return (self if first else other).sym_float()

    def sym_sum(self, args: list[SizeNode]) -> SizeNode:
        total = args[0]
        for each in args[1:]:
            total = total.add(each)
        return total

    def sym_float(self) -> SizeNode:
        return self if self.kind is float else self.real(sympy.sympify(self.expr), self.hint)

    def rounded(self, function: Any, by: Callable[[Any], int]) -> SizeNode:
        """An integer by a way of rounding; of a number out of data a symbol of its own."""
        if self.kind is int:
            return self
        known = self.asked.steps.get(self.expr)
        if known is not None:
            plain, number = known
            return self.node_of(bits.counted_steps(lambda n: by(plain(n)), torch.SymInt(number)))
        if self.asked.inexact & self.expr.free_symbols:
            what = f"{function.__name__.lower()} of a logarithm or power of e, which runtimes round in their own ways"
            raise LoweringError(what, source=self.asked.line(), hint="compute the number with integers")
        own = self.asked.rounded(function, self.expr, by(self.hint))
        return self.whole(function(self.expr) if own is None else own, by(self.hint))

    def sym_int(self) -> SizeNode:
        return self.rounded(dims.Trunc, math.trunc)

    def trunc(self) -> SizeNode:
        return self.rounded(dims.Trunc, math.trunc)

    def floor(self) -> SizeNode:
        return self.rounded(dims.Floor, math.floor)

    def ceil(self) -> SizeNode:
        return self.rounded(dims.Ceil, math.ceil)

    def round(self, ndigits: int | None = None) -> SizeNode:
        """An integer; to decimal places only the number of the example, which then is fixed."""
        if ndigits is not None:
            return self.wrap_float(round(self.guard_float(), ndigits))
        return self.rounded(dims.Round, round)

    def is_integer(self) -> SizeNode:
        if self.kind is int:
            return self.wrap_bool(True)
        exact = sympy.sympify(self.expr)
        return SizeNode(self.asked, sympy.Eq(exact, dims.Floor(exact)), bool, float(self.hint).is_integer())

    def lshift(self, other: SizeNode) -> SizeNode:
        return self.mul(self.wrap_int(2).power_for_shift(other))

    def rshift(self, other: SizeNode) -> SizeNode:
        unit = self.wrap_int(2).power_for_shift(other)
        return self.whole(dims.floordiv(self._made, unit._made), self.hint >> other.hint)

    def power_for_shift(self, other: SizeNode) -> SizeNode:
        """This to the power of another, of which it is kept that it is not below 0."""
        if other.hint < 0:
            raise ValueError("negative shift count")
        other.ge(self.wrap_int(0)).expect_true()
        return self.pow_by_natural(other)

    def sqrt(self) -> SizeNode:
        self.ge(self.wrap_int(0)).expect_true()
        return self.real(reals.root(sympy.sympify(self.expr)), math.sqrt(self.hint))

    sym_sqrt = sqrt

    def computed_by(self, name: str) -> Any:
        """math.log(n), or another function that ONNX has, as a number that the graph computes."""
        getattr(math, name)(self.hint)  # which raises where the model does
        if name in bits.REACHES:
            self.le(self.wrap_int(bits.REACHES[name])).expect_true()
        elif name.startswith("log") or name == "lgamma":
            self.gt(self.wrap_int(-1 if name == "log1p" else 0)).expect_true()
        own: Any = (torch.SymInt if self.kind is int else torch.SymFloat)(self)
        made: Any = getattr(torch, name)(torch.full((), own, dtype=torch.float64)).item()
        if isinstance(made, torch.SymFloat):
            self.asked.inexact |= made.node.expr.free_symbols
            if self.kind is int and name in ("log", "log2", "log10"):
                self.asked.steps[made.node.expr] = (getattr(math, name), self)
        return made

    def node_of(self, number: Any) -> SizeNode:
        """The node of a whole number that the graph computes."""
        return number.node if isinstance(number, torch.SymInt) else self.wrap_int(number)

    def bit_length(self) -> Any:
        """The bits of a whole number, as the graph counts them."""
        return bits.bit_length(torch.SymInt(self))

    def bitwise(self, other: SizeNode, function: Callable[[Any, Any], torch.Tensor]) -> SizeNode:
        """The bits of two whole numbers put together. An answer is the number that it is for the example."""
        a, b = (each.wrap_int(each.guard_bool()) if each.kind is bool else each for each in (self, other))
        whole: Any = [each.constant if each.constant is not None else torch.SymInt(each) for each in (a, b)]
        whole = sorted(whole, key=lambda each: type(each) is int)
        made = bits.masked_number(*whole) if function is torch.bitwise_and and type(whole[1]) is int else None
        return self.node_of(bits.combined_bits(function, *whole) if made is None else made)

    def bitwise_and(self, other: SizeNode) -> SizeNode:
        both = self.kind is bool and other.kind is bool
        return self.and_(other) if both else self.bitwise(other, torch.bitwise_and)

    def bitwise_or(self, other: SizeNode) -> SizeNode:
        both = self.kind is bool and other.kind is bool
        return self.or_(other) if both else self.bitwise(other, torch.bitwise_or)

    def bitwise_xor(self, other: SizeNode) -> SizeNode:
        both = self.kind is bool and other.kind is bool
        return self.ne(other) if both else self.bitwise(other, torch.bitwise_xor)

    # ---- conditions

    def compared(self, name: str, other: SizeNode) -> SizeNode:
        """A relation with another node; an answer beside a number is the number that it is for the example."""
        if (self.kind is bool) != (other.kind is bool):
            self, other = (each.wrap_int(each.guard_bool()) if each.kind is bool else each for each in (self, other))
        return SizeNode(self.asked, None, bool, RELATIONS[name][1](self.hint, other.hint), (name, self, other))

    def eq(self, other: SizeNode) -> SizeNode:
        return self.compared("eq", other)

    def ne(self, other: SizeNode) -> SizeNode:
        return self.compared("ne", other)

    def lt(self, other: SizeNode) -> SizeNode:
        return self.compared("lt", other)

    def le(self, other: SizeNode) -> SizeNode:
        return self.compared("le", other)

    def gt(self, other: SizeNode) -> SizeNode:
        return self.compared("gt", other)

    def ge(self, other: SizeNode) -> SizeNode:
        return self.compared("ge", other)

    def and_(self, other: SizeNode) -> SizeNode:
        return SizeNode(self.asked, None, bool, bool(self.hint and other.hint), ("and", self, other))

    def or_(self, other: SizeNode) -> SizeNode:
        return SizeNode(self.asked, None, bool, bool(self.hint or other.hint), ("or", self, other))

    sym_and, sym_or = and_, or_

    def sym_not(self) -> SizeNode:
        return SizeNode(self.asked, None, bool, not self.hint, ("not", self))

    def sym_ite(self, yes: SizeNode, no: SizeNode) -> SizeNode:
        return yes if self.guard_bool() else no


class RoomNode(SizeNode):
    """How many bytes a storage has: seldom asked for, so that it is computed only then."""

    def __init__(self, asked: Questions, shape: Callable[[], tuple[Dim, ...]], each: int) -> None:
        self.asked, self.kind, self.parts, self.shape, self.each, self.is_int = asked, int, None, shape, each, YES

    @property
    def _made(self) -> Any:
        return dims.mul(dims.product(self.shape()), self.each)

    @property
    def hint(self) -> int:
        return self.asked.hint(self._made)

    def maybe_as_int(self) -> None:
        return None


def alike(a: Any, b: Any) -> Any:
    """The condition that two conditions hold, or neither."""
    return sympy.Or(sympy.And(a, b), sympy.And(sympy.Not(a), sympy.Not(b)))


def size_of(asked: Questions, dim: Dim) -> Any:
    """A dimension as a model sees it: an int, or a `torch.SymInt`, one for all tensors that have it."""
    if type(dim) is int:
        return dim
    found = asked.shown.get(dim)
    if found is None:
        found = asked.shown[dim] = torch.SymInt(SizeNode(asked, dim, int, asked.hint(dim)))
    return found


class Laid(torch.SymInt):
    """A size that torch lays a tensor out by, and asks for its `__class__`, of which the model's own sizes have
    another; the model itself gets none of these, and none is its first number."""

    __class__, __init__ = object.__dict__["__class__"], torch.SymInt.__init__


def laid_size(asked: Questions, dim: Dim) -> Any:
    """A dimension as torch takes it for a tensor: an int, or a `torch.SymInt`, one for all tensors that have it."""
    if type(dim) is int:
        return dim
    found = asked.laid.get(dim)
    if found is None:
        found = asked.laid[dim] = Laid(SizeNode(asked, dim, int, asked.hint(dim)))
    return found


def dim_of(size: Any) -> Dim:
    """The dimension behind a size that a model computed."""
    node = getattr(size, "node", None)
    return node.dim if isinstance(node, SizeNode) else int(size)
