"""The methods of values and graphs that build new ones: arithmetic, indexing, calls, lookups, cuts.

A class stands at the bottom of the house, and what builds values at its top: so this is a door. What each method does
stands in `irkit/hand`, which is looked up when one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from irkit.core.ir import Graph, Value

HAND: Final = "irkit.hand"


@cache
def _arithmetic() -> Any:
    return import_module(f"{HAND}.arithmetic")


@cache
def _indexing() -> Any:
    return import_module(f"{HAND}.indexing")


@cache
def _surgery() -> Any:
    return import_module(f"{HAND}.surgery")


@cache
def _sizes() -> Any:
    return import_module(f"{HAND}.sizes")


class ValueMethods:
    """What is written with values. Each operator builds one of ONNX's, with the result's type inferred.

    Nothing is cast: both sides have one element type, or it is an error that says what to write. Numbers of Python and
    numpy, and lists of them, take the element type of the value beside them; arrays keep theirs. Sizes
    (`irkit.symbol("n")`) are numbers too. `==` asks whether two values are the same one; `x.equal(y)` compares.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy's arrays and numbers leave arithmetic with values to values
    if not TYPE_CHECKING:
        __iter__ = __contains__ = None  # Python would try x[0], x[1], ... without end

    def __bool__(self) -> bool:
        """True: a value is something, where None may stand in its place. Raises TypeRuleError for booleans, of which it
        would be taken for what they hold."""
        return _arithmetic().truth(self)

    def __add__(self, other: object) -> Value:
        return _arithmetic().binary("Add", self, other)

    def __radd__(self, other: object) -> Value:
        return _arithmetic().reflected("Add", self, other)

    def __sub__(self, other: object) -> Value:
        return _arithmetic().binary("Sub", self, other)

    def __rsub__(self, other: object) -> Value:
        return _arithmetic().reflected("Sub", self, other)

    def __mul__(self, other: object) -> Value:
        return _arithmetic().binary("Mul", self, other)

    def __rmul__(self, other: object) -> Value:
        return _arithmetic().reflected("Mul", self, other)

    def __matmul__(self, other: object) -> Value:
        return _arithmetic().binary("MatMul", self, other)

    def __rmatmul__(self, other: object) -> Value:
        return _arithmetic().reflected("MatMul", self, other)

    def __truediv__(self, other: object) -> Value:
        """The quotient of floats. Raises TypeRuleError for integers, of which it would be a float."""
        return _arithmetic().binary("Div", self, other)

    def __rtruediv__(self, other: object) -> Value:
        return _arithmetic().reflected("Div", self, other)

    def __floordiv__(self, other: object) -> Value:
        """The quotient of integers, rounded down. Raises TypeRuleError for floats."""
        return _arithmetic().binary("//", self, other)

    def __rfloordiv__(self, other: object) -> Value:
        return _arithmetic().reflected("//", self, other)

    def __mod__(self, other: object) -> Value:
        """What is left of integers, with the sign of the divisor. Raises TypeRuleError for floats."""
        return _arithmetic().binary("Mod", self, other)

    def __rmod__(self, other: object) -> Value:
        return _arithmetic().reflected("Mod", self, other)

    def __pow__(self, other: object) -> Value:
        return _arithmetic().binary("Pow", self, other)

    def __rpow__(self, other: object) -> Value:
        return _arithmetic().reflected("Pow", self, other)

    def __and__(self, other: object) -> Value:
        """And of booleans, BitwiseAnd of integers."""
        return _arithmetic().binary("And", self, other)

    def __rand__(self, other: object) -> Value:
        return _arithmetic().reflected("And", self, other)

    def __or__(self, other: object) -> Value:
        """Or of booleans, BitwiseOr of integers."""
        return _arithmetic().binary("Or", self, other)

    def __ror__(self, other: object) -> Value:
        return _arithmetic().reflected("Or", self, other)

    def __xor__(self, other: object) -> Value:
        """Xor of booleans, BitwiseXor of integers."""
        return _arithmetic().binary("Xor", self, other)

    def __rxor__(self, other: object) -> Value:
        return _arithmetic().reflected("Xor", self, other)

    def __lshift__(self, other: object) -> Value:
        """The bits of unsigned integers moved left."""
        return _arithmetic().binary("<<", self, other)

    def __rlshift__(self, other: object) -> Value:
        return _arithmetic().reflected("<<", self, other)

    def __rshift__(self, other: object) -> Value:
        """The bits of unsigned integers moved right."""
        return _arithmetic().binary(">>", self, other)

    def __rrshift__(self, other: object) -> Value:
        return _arithmetic().reflected(">>", self, other)

    def __neg__(self) -> Value:
        return _arithmetic().unary("Neg", self)

    def __pos__(self) -> Value:
        return _arithmetic().unary("+", self)

    def __abs__(self) -> Value:
        return _arithmetic().unary("Abs", self)

    def __invert__(self) -> Value:
        """Not of booleans, BitwiseNot of integers."""
        return _arithmetic().unary("Not", self)

    def __lt__(self, other: object) -> Value:
        return _arithmetic().refuse_comparison("less", other)

    def __le__(self, other: object) -> Value:
        return _arithmetic().refuse_comparison("less_equal", other)

    def __gt__(self, other: object) -> Value:
        return _arithmetic().refuse_comparison("greater", other)

    def __ge__(self, other: object) -> Value:
        return _arithmetic().refuse_comparison("greater_equal", other)

    def __getitem__(self, key: object) -> Value:
        """Parts of a tensor, as numpy takes them: numbers, slices, None, `...`, and tensors of integers.

        A bound of a slice is a number, a size (`x[:, :irkit.symbol("n")]`, or its name) or a scalar of int64; its step
        is a number. Raises TypeRuleError for anything else, masks among it, and for a place outside of a known size.
        """
        return _indexing().indexed(self, key)

    def equal(self, other: object) -> Value:
        """Where the elements are equal: a tensor of booleans."""
        return _arithmetic().comparison("Equal", self, other)

    def not_equal(self, other: object) -> Value:
        """Where the elements differ: a tensor of booleans."""
        return ~self.equal(other)

    def less(self, other: object) -> Value:
        """Where the elements are less: a tensor of booleans."""
        return _arithmetic().comparison("Less", self, other)

    def less_equal(self, other: object) -> Value:
        """Where the elements are less or equal: a tensor of booleans."""
        return _arithmetic().comparison("LessOrEqual", self, other)

    def greater(self, other: object) -> Value:
        """Where the elements are greater: a tensor of booleans."""
        return _arithmetic().comparison("Greater", self, other)

    def greater_equal(self, other: object) -> Value:
        """Where the elements are greater or equal: a tensor of booleans."""
        return _arithmetic().comparison("GreaterOrEqual", self, other)

    def cast(self, dtype: object) -> Value:
        """The same numbers in another element type, `x.cast("f32")`, as ONNX's Cast has them; the value itself where
        it is of that type. Raises TypeRuleError for what is not an element type."""
        return _arithmetic().cast(self, dtype)


class GraphMethods:
    """What is done with graphs. Each gives values, or another graph; the graph itself never changes."""

    __slots__ = ()

    def __call__(self, *operands: object, **named: object) -> Any:
        """The graph applied to values: its own values, built anew over them. A Value, or a tuple of Values where the
        graph has several results.

        Operands are given by position, or by the names of the parameters; numbers and arrays become constants. Sizes
        that vary take those of the operands. `irkit.call_graph` makes a Call instead, which keeps the graph as one.

        Raises TypeRuleError for operands that the graph does not take, ContractError for sizes that its conditions
        exclude, and GraphError where the operands leave a condition open, which nobody would keep then.
        """
        return _sizes().grafted(self, operands, named)

    def __getitem__(self, key: str) -> Value:
        """The value that a key tells of, as `find` has it; of a module, a line or an operator the one that is used
        outside of it. Raises GraphError, with names near it, for none, and with those to choose from for several."""
        return _surgery().value_at(self, key)

    if not TYPE_CHECKING:
        __iter__ = __contains__ = None

    def cut(self, inputs: Iterable[Value | str] | None = None, outputs: Iterable[Value | str] | None = None) -> Graph:
        """The part of the graph between values, as a graph of its own: `inputs` become its parameters, in that order,
        and `outputs` its results, under the names that they have. Each is a value, or a key as `graph[key]` takes it.

        What else the outputs need of the graph's own parameters stays a parameter. Without inputs the part begins where
        the graph does, without outputs it ends where the graph does. Conditions on sizes that are left are kept.

        Raises GraphError for what is not in the graph, and for an input that no output needs; VerifyError where a size
        would be bound by nothing: take a value as input in whose type it stands.
        """
        return _surgery().cut(self, inputs, outputs)

    def inline(self, *names: str) -> Graph:
        """The graph with its Calls written out, or those of the bodies of these names; itself where there is none.
        Raises GraphError for a name that no body has."""
        return _surgery().inline(self, names)

    def with_sizes(self, **sizes: object) -> Graph:
        """The graph at given sizes: `graph.with_sizes(batch=3)`. A size is a number, or an expression over others (text
        as in `irkit.tensor`, `irkit.symbol(...)`): `batch="b"` names it anew, `batch="2*b"` says that it is even.

        Types are inferred again. Conditions that the sizes decide are left out, and the others are kept. Raises
        GraphError for a size that the graph does not have, ContractError for one that its conditions exclude.
        """
        return _sizes().with_sizes(self, sizes)

    def without_conditions(self) -> Graph:
        """The graph without its ranges of sizes and the conditions on them, which somebody else sees to then."""
        return _sizes().without_conditions(self)

    def rename(self, *mappings: dict[str, str], **names: str) -> Graph:
        """The graph with other names of parameters, results and weights: `graph.rename(x="tokens")`, or a mapping where
        a name is no word of Python's. `with_sizes` names sizes anew.

        Raises GraphError for a name that the graph does not have, and for one that it would have twice.
        """
        return _surgery().rename(self, {k: v for each in (*mappings, names) for k, v in each.items()})

    def matches(self, pattern: object) -> tuple[Any, ...]:
        """Where a pattern matches, in the order of the graph: `m.root` is the value, `m.x` what the hole x holds.
        `graph.matches(p.MatMul(hole("x"), const("w")))` are the products by a constant; bodies are graphs of their own.

        Why it does not match elsewhere is a question to `irkit.explain`. Raises TypeRuleError for what is no pattern.
        """
        return _surgery().matches(self, pattern)

    def replace(self, pattern: object, function: Callable[[Any], Any]) -> Graph:
        """The graph with what matches a pattern replaced by what a function of the match gives, until nothing matches:
        `graph.replace(p.Sub(x, y), lambda m: m.x + -m.y)`. It is `irkit.rewrite` with a rule of these two, which
        `irkit.rule` names for good and `irkit.check_rule` checks. Itself where nothing matches.

        Raises RewriteError for a replacement of another type.
        """
        return _surgery().replace(self, pattern, function)
