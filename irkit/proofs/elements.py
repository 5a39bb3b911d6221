"""What each element of a value is, as an expression over the elements of parameters: for all sizes at once.

Places are polynomials over the sizes; a view is seen by the place of an element in the order of the whole; a Concat
asks where a place lies, and the answers are tried one after the other, as are those to the condition of a Where.
Operators that work element by element stay what they are, but for sums, differences and products of integers, which
are polynomials, and for logic, which is arithmetic of 0 and 1 whose squares are themselves. Floats are calculated with
where they are to stand for real numbers. An element of a product of matrices is a sum (`irkit.proofs.contractions`).
Two values are equal where every element is the same expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, cast

import attrs
import sympy

from irkit import dims
from irkit.core import attributes
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor, Tuple
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.core.walk import post_order
from irkit.ops.schemas import keeps_bits_in_any_order
from irkit.pattern import attribute_of, uniform
from irkit.proofs.contractions import BOUND, Unprovable, flat_sum, sum_over

Place = tuple[sympy.Expr, ...]

VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"))
EACH = frozenset(
    ("Abs", "Add", "And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Clip",
     "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid",
     "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod",
     "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin",
     "Softplus", "Sqrt", "Sub", "Sum", "Tanh", "Where", "Xor")
)  # fmt: skip
"""Operators each element of whose result hangs on the elements at its place alone."""

BITWISE = frozenset(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
"""Logic of each bit, where no other operator has a part in it."""

CONTRACTED = frozenset(("MatMul", "Gemm"))
"""Operators each element of whose result is a sum of products."""

MOVED = VIEWS | {"Transpose", "Expand", "Concat", "Split", "Gather", "Slice", ITEM}
"""Operators that only move elements."""


class Undecided(Exception):
    """Where a place lies hangs on a condition that neither the sizes nor what was decided before say."""


def number(dim: Any) -> sympy.Expr:
    """A dimension as an expression."""
    return sympy.Integer(dim) if isinstance(dim, int) else dim


@attrs.define(eq=False)
class Elements:
    """Says elements, under decisions about places: each an expression that is below 0, or not."""

    decided: list[tuple[sympy.Expr, bool]] = attrs.field(factory=list[tuple[sympy.Expr, bool]])
    names: dict[Any, str] = attrs.field(factory=dict[Any, str])
    asked: sympy.Expr | None = None
    by_bits: bool = False
    """Whether an element stands for any of its bits."""
    of_reals: bool = False
    """Whether floats stand for real numbers."""
    sums: int = 0
    """How many sums there are so far: each has a place of its own that it is over."""

    def name(self, key: Any, word: str) -> Any:
        """A function symbol for a key, always the same."""
        return sympy.Function(self.names.setdefault(key, f"{word}_{len(self.names)}"))

    def is_below(self, expression: sympy.Expr) -> bool:
        """Whether an expression is below 0. Raises Undecided where nothing says."""
        given = sympy.expand(expression)
        if given.is_Integer:
            return bool(given < 0)
        for known, below in self.decided:
            if below and is_natural(known - given):
                return True
            if not below and is_natural(given - known):
                return False
        if any(symbol.name.startswith(BOUND) for symbol in given.free_symbols):
            raise Unprovable("terms of a sum differ in where they lie")
        self.asked = given
        raise Undecided

    def is_true(self, condition: sympy.Expr) -> bool:
        """Whether a flag is set: a polynomial over flags, each of which is decided. Raises Undecided as `is_below`."""
        flags = sorted(condition.atoms(sympy.core.function.AppliedUndef), key=sympy.default_sort_key)
        known = {flag: sympy.Integer(1 if self.is_below(-flag) else 0) for flag in flags}
        return str(condition.subs(known)) != "0"

    def at(self, value: Value | None, place: Place) -> sympy.Expr:
        """The element of a value at a place. Raises Unprovable for a value of another kind."""
        if value is None or not isinstance(value.type, Tensor):
            raise Unprovable("an operand is no tensor")
        op = value.op
        if op == PARAM:
            return self.name(value, "x")(*place)
        if op == CONSTANT:
            return self.constant(value, place)
        if op in VIEWS and value.inputs[0] is not None:
            return self.at(value.inputs[0], self.viewed(value, value.inputs[0], place))
        if op == "Transpose":
            perm = attribute_of(value, "perm") or tuple(reversed(range(len(place))))
            back = [perm.index(i) for i in range(len(perm))]
            return self.at(value.inputs[0], tuple(place[i] for i in back))
        if op == "Expand":
            return self.spread(value.inputs[0], place, value)
        if op in self.ways:
            return self.ways[op](value, place)
        if op == "Where" and not self.by_bits:
            condition = self.spread(value.inputs[0], place, value)
            return self.spread(value.inputs[1 if self.is_true(condition) else 2], place, value)
        if op in EACH:
            return self.applied(value, [self.spread(v, place, value) for v in value.inputs])
        raise Unprovable(f"{op} neither moves elements nor works on each")

    @property
    def ways(self) -> Mapping[str, Callable[[Value, Place], sympy.Expr]]:
        """What says the element of an operator's result."""
        moved = {"Concat": self.joined, ITEM: self.part, "Gather": self.gathered, "Slice": self.sliced}
        return {**moved, **dict.fromkeys(CONTRACTED, self.product)}

    # ------------------------------------------------------------------------------------------ movement

    def constant(self, value: Value, place: Place) -> sympy.Expr:
        """An element of a constant: its number where it has one number."""
        found = uniform(value)
        if self.by_bits and found not in (0, -1):
            raise Unprovable("a constant has bits of both kinds")
        if self.by_bits:
            return sympy.Integer(-int(found))
        if isinstance(found, bool | int) and (value.dtype.is_integer or value.dtype is DType.BOOL):
            return sympy.Integer(int(found))
        if self.of_reals and isinstance(found, float) and found == found and abs(found) != float("inf"):
            return sympy.Rational(found)
        key = value.attributes[0][1].key
        return (
            self.name(("uniform", value.dtype, repr(found)), "c")()
            if found is not None
            else self.name(key, "c")(*place)
        )

    def spread(self, value: Value | None, place: Place, whole: Value) -> sympy.Expr:
        """The element of an operand that is broadcast to the shape of a result."""
        if value is None:
            return self.name("absent", "absent")()
        cut = len(place) - value.rank
        if cut < 0:
            raise Unprovable("an operand has a higher rank than the result")
        own: list[sympy.Expr] = []
        for size, wanted, index in zip(value.shape, whole.shape[cut:], place[cut:], strict=True):
            if isinstance(size, int) and size == 1:
                own.append(sympy.Integer(0))
            elif dims.same(size, wanted) is True:
                own.append(index)
            else:
                raise Unprovable("a size may be 1, or another one")
        return self.at(value, tuple(own))

    def viewed(self, value: Value, source: Value, place: Place) -> Place:
        """The place in the source of a view: axes of size 1 set aside, axes that are the same in front and behind kept,
        those between by the place in their order."""
        if not isinstance(source.type, Tensor) or not isinstance(value.type, Tensor):
            raise Unprovable("a view of no tensor")
        new = [(number(d), i) for d, i in zip(value.shape, place, strict=True) if not is_one(d)]
        old = [number(d) for d in source.shape if not is_one(d)]
        front = behind = 0
        while front < min(len(new), len(old)) and same(new[front][0], old[front]):
            front += 1
        while behind < min(len(new), len(old)) - front and same(new[-1 - behind][0], old[-1 - behind]):
            behind += 1
        middle = new[front : len(new) - behind]
        inner = unflattened(flat_place(middle), old[front : len(old) - behind])
        places = iter([*(i for _, i in new[:front]), *inner, *(i for _, i in new[len(new) - behind :])])
        return tuple(sympy.Integer(0) if is_one(d) else next(places) for d in source.shape)

    def joined(self, value: Value, place: Place) -> sympy.Expr:
        """The element of a Concat: of the part in which the place lies."""
        axis: int = attribute_of(value, "axis") % len(place)
        start = plus(sympy.Integer(0), sympy.Integer(0))
        for index, part in enumerate(value.inputs):
            if part is None:
                raise Unprovable("a part is absent")
            end = plus(start, number(part.shape[axis]))
            if index == len(value.inputs) - 1 or self.is_below(minus(place[axis], end)):
                inside = sympy.expand(minus(place[axis], start))
                return self.at(part, (*place[:axis], inside, *place[axis + 1 :]))
            start = end
        raise Unprovable("a Concat of nothing")

    def part(self, value: Value, place: Place) -> sympy.Expr:
        """The element of a result of Split."""
        split = value.inputs[0]
        if split is None or split.op != "Split" or not isinstance(split.type, Tuple):
            raise Unprovable(f"a result of {split.op if split is not None else 'nothing'}")
        axis = attribute_of(split, "axis") % len(place)
        before = split.type.items[: value.attributes[0][1]]
        offset = sum((number(t.shape[axis]) for t in before if isinstance(t, Tensor)), sympy.Integer(0))
        return self.at(split.inputs[0], (*place[:axis], sympy.expand(place[axis] + offset), *place[axis + 1 :]))

    def gathered(self, value: Value, place: Place) -> sympy.Expr:
        """The element of a Gather, by its indices: constants, or elements themselves."""
        source, indices = value.inputs[0], value.inputs[1]
        if source is None or indices is None:
            raise Unprovable("Gather without operands")
        axis, rank = attribute_of(value, "axis") % source.rank, indices.rank
        found = uniform(indices)
        if isinstance(found, int):
            index = number(source.shape[axis]) + found if found < 0 else sympy.Integer(found)
        else:  # whatever number it is, counted from the end or not
            index = self.name(("index", source.shape[axis]), "index")(self.at(indices, place[axis : axis + rank]))
        return self.at(source, (*place[:axis], index, *place[axis + rank :]))

    def sliced(self, value: Value, place: Place) -> sympy.Expr:
        """The element of a Slice with constant bounds, forwards, from places that are surely there."""
        source, starts = value.inputs[0], value.inputs[1]
        given = [*value.inputs[3:], None, None]
        if source is None or starts is None or any(v is not None and v.blob is None for v in (starts, *given)):
            raise Unprovable("the bounds of a Slice are not constant")
        first = numbers_of(starts)
        axes = numbers_of(given[0]) if given[0] is not None else list(range(len(first)))
        steps = numbers_of(given[1]) if given[1] is not None else [1] * len(first)
        own = list(place)
        for start, axis, step in zip(first, axes, steps, strict=True):
            size = source.shape[axis % source.rank]
            if step < 0 or (start < 0 and not isinstance(size, int)):
                raise Unprovable("a Slice counts from an end that is not known")
            begin = max(0, start + size) if start < 0 and isinstance(size, int) else start
            own[axis % source.rank] = sympy.expand(own[axis % source.rank] * step + begin)
        return self.at(source, tuple(own))

    # ------------------------------------------------------------------------------------------ arithmetic

    def calculates(self, dtype: DType) -> bool:
        """Whether numbers of an element type are calculated with."""
        return dtype.is_integer or (self.of_reals and dtype.is_float)

    def product(self, value: Value, place: Place) -> sympy.Expr:
        """The element of a product of matrices: a sum over the rows of the second."""
        a, b = value.inputs[:2]
        if a is None or b is None or not self.calculates(value.dtype):
            raise Unprovable(f"{value.op} rounds, and sums in an order of its own")
        of_gemm = value.op == "Gemm"
        turns = (attribute_of(value, "transA"), attribute_of(value, "transB")) if of_gemm else (0, 0)
        size = a.shape[-2 if turns[0] else -1]
        if is_one(size):
            term, at = sympy.Integer(0), sympy.Integer(0)
        else:
            self.sums += 1
            term = at = sympy.Symbol(f"{BOUND}{self.sums}", integer=True, nonnegative=True)
            self.decided.append((minus(at, number(size)), True))
        rows = place if b.rank == 1 else place[:-1]
        left = (*rows[: len(rows) - (a.rank > 1)], *((rows[-1], at) if a.rank > 1 else (at,)))
        batch = place[: len(place) - (a.rank > 1) - (b.rank > 1)]
        right = (*batch, at, place[-1]) if b.rank > 1 else (at,)
        first, second = self.factor(a, left, turns[0]), self.factor(b, right, turns[1])
        found = sum_over(first * second, term, number(size))
        if not of_gemm:
            return found
        found = sympy.Rational(attribute_of(value, "alpha")) * found
        more = value.inputs[2] if len(value.inputs) > 2 else None
        if more is None:
            return sympy.expand(found)
        return sympy.expand(found + sympy.Rational(attribute_of(value, "beta")) * self.spread(more, place, value))

    def factor(self, value: Value, place: Place, turned: int) -> sympy.Expr:
        """The element of a factor, whose stacks of matrices broadcast."""
        place = (*place[:-2], place[-1], place[-2]) if turned else place
        own, cut = place[len(place) - value.rank :], len(place) - value.rank
        if cut < 0:
            raise Unprovable("a factor has a higher rank than the product")
        stacked = range(max(0, value.rank - 2))
        return self.at(
            value,
            tuple(sympy.Integer(0) if i in stacked and is_one(value.shape[i]) else own[i] for i in range(value.rank)),
        )

    def applied(self, value: Value, parts: list[sympy.Expr]) -> sympy.Expr:
        """An operator on elements."""
        op, dtype = value.op, value.dtype
        if self.calculates(dtype) and op in ("Add", "Sum", "Sub", "Mul", "Neg") and value.inputs[0] is not None:
            if op in ("Add", "Sum"):
                return sympy.expand(sum(parts, sympy.Integer(0)))
            if op == "Neg":
                return sympy.expand(-parts[0])
            return flat_sum(parts[0] - parts[1] if op == "Sub" else parts[0] * parts[1])
        if self.of_reals and dtype.is_float and op in ("Div", "Reciprocal"):
            if parts[-1].is_Add or parts[-1].is_zero:
                raise Unprovable("it divides by a sum, or by 0")
            return flat_sum(parts[0] / parts[1] if op == "Div" else 1 / parts[0])
        if self.by_bits:
            return logical(op.removeprefix("Bitwise"), parts)
        first = value.inputs[0]
        logic = dtype is DType.BOOL and first is not None and first.dtype is DType.BOOL
        if logic and op in ("Not", "And", "Or", "Xor", "Equal"):
            return logical(op, parts)
        if op == "Identity":
            return parts[0]
        if keeps_bits_in_any_order(op, dtype, len(parts)) or (self.of_reals and op in ("Max", "Min")):
            parts = sorted(parts, key=sympy.default_sort_key)
        kind = tuple(v.dtype for v in value.inputs if v is not None and isinstance(v.type, Tensor))
        return self.name((op, attributes.key(value.attributes), kind), op)(*parts)


def numbers_of(value: Value | None) -> list[int]:
    """The integers of a constant."""
    return [] if value is None or value.blob is None else [int(i) for i in value.blob.array.reshape(-1)]


def is_one(dim: Any) -> bool:
    """True for the number 1."""
    return isinstance(dim, int) and dim == 1


def plus(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """The sum."""
    return a + b


def minus(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """The difference."""
    return a - b


def same(a: sympy.Expr, b: sympy.Expr) -> bool:
    """True where two sizes are surely equal."""
    return str(sympy.expand(minus(a, b))) == "0"


def is_natural(expression: sympy.Expr) -> bool:
    """True for an expression that is surely not below 0: a sum of products of sizes and places."""
    return all(each.is_nonnegative is True for each in coefficients(expression))


def flat_place(axes: Sequence[tuple[sympy.Expr, sympy.Expr]]) -> sympy.Expr:
    """The place in the order of all elements of (size, place) pairs; what was taken apart to these, if it was."""
    if not axes:
        return sympy.Integer(0)
    sizes, places = [s for s, _ in axes], [i for _, i in axes]
    whole = next(iter(cast("tuple[sympy.Expr, ...]", places[0].args)), None)
    if whole is not None and places == unflattened(whole, sizes):
        return whole
    found: sympy.Expr = sympy.Integer(0)
    for size, index in axes:
        found = cast("sympy.Expr", found * size + index)
    return sympy.expand(found)


def unflattened(place: sympy.Expr, sizes: Sequence[sympy.Expr]) -> list[sympy.Expr]:
    """The place in the order of all elements, taken apart into one for each axis."""
    if len(sizes) < 2:
        return [place] * len(sizes)
    return [sympy.Function("apart")(place, n, *sizes) for n in range(len(sizes))]


def logical(op: str, parts: Sequence[sympy.Expr]) -> sympy.Expr:
    """Logic as arithmetic of 0 and 1."""
    a, b = parts[0], parts[-1]
    found = {"Not": 1 - a, "And": a * b, "Or": a + b - a * b, "Xor": a + b - 2 * a * b, "Equal": 1 - a - b + 2 * a * b}
    return squared_off(found[op])


def coefficients(expression: sympy.Expr) -> Iterable[sympy.Expr]:
    """The coefficients of a sum."""
    terms = cast("Mapping[object, sympy.Expr]", sympy.expand(expression).as_coefficients_dict())
    return terms.values()


def squared_off(expression: sympy.Expr) -> sympy.Expr:
    """A polynomial over 0 and 1, whose powers are themselves."""
    return sympy.expand(expression).replace(sympy.Pow, lambda base, _power: base)  # pyright: ignore[reportUnknownLambdaType]


def are_equal(left: Value, right: Value, of_reals: bool = False) -> None:
    """Nothing, where two values of one type have the same elements at all sizes, floats taken for real numbers if
    `of_reals`. Raises Unprovable where that is not shown."""
    if not isinstance(left.type, Tensor) or not isinstance(right.type, Tensor):
        raise Unprovable("a result is no tensor")
    place: Place = tuple(
        sympy.Integer(0) if is_one(d) else sympy.Symbol(f"place_{i}", integer=True, nonnegative=True)
        for i, d in enumerate(left.shape)
    )
    facts = [(i - number(d), True) for i, d in zip(place, left.shape, strict=True)]
    facts += [(i, False) for i in place]
    names: dict[Any, str] = {}
    worked = {v.op for v in post_order((left, right))} & EACH
    pending: list[list[tuple[sympy.Expr, bool]]] = [[]]
    for tried in count():
        if not pending:
            return
        if tried > 64:
            raise Unprovable("there are too many cases of where a place lies")
        decided = pending.pop()
        elements = Elements([*facts, *decided], names, by_bits=bool(worked) and worked <= BITWISE, of_reals=of_reals)
        try:
            difference = sympy.expand(elements.at(left, place) - elements.at(right, place))
        except Undecided:
            if elements.asked is not None:
                pending += [[*decided, (elements.asked, below)] for below in (True, False)]
            continue
        if not is_zero(difference, left.dtype):
            raise Unprovable(f"the elements differ by {difference}")


def is_zero(difference: sympy.Expr, dtype: DType) -> bool:
    """True for 0, modulo what the integers of an element type are modulo."""
    if difference == 0 or not dtype.is_integer:
        return str(difference) == "0"
    return all(each.is_Integer and int(each) % (1 << dtype.bits) == 0 for each in coefficients(difference))
