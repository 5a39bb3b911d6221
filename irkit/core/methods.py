"""The methods of values and graphs that build new ones: arithmetic, indexing, calls, lookups, cuts.

A class stands at the bottom of the house, and what builds values at its top: so this is a door. What each method does
stands in `irkit/hand`, which is looked up when one is used.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from irkit.core.ir import Value

HAND: Final = "irkit.hand"


@cache
def _arithmetic() -> Any:
    return import_module(f"{HAND}.arithmetic")


@cache
def _indexing() -> Any:
    return import_module(f"{HAND}.indexing")


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
