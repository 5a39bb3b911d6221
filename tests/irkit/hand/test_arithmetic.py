"""Operators of Python on values: what numpy computes, over every element type that both have; what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import irkit
from benchmarks.core import operator_calls
from irkit import Graph, TypeRuleError, Value, const, op, param, tensor
from irkit.core.types import DType

INTEGERS = tuple(DType.of(n) for n in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"))
SIGNED = tuple(d for d in INTEGERS if not d.is_unsigned)
UNSIGNED = tuple(d for d in INTEGERS if d.is_unsigned)
FLOATS = tuple(DType.of(n) for n in ("f16", "f32", "f64", "bf16"))
WIDE = tuple(DType.of(n) for n in ("i32", "i64", "f16", "f32", "f64"))
BOOL = (DType.BOOL,)
NUMBERS = (*INTEGERS, *FLOATS)

Function = Callable[..., Any]
BINARY: dict[str, tuple[Function, tuple[DType, ...]]] = {
    "+": (operator.add, NUMBERS), "-": (operator.sub, NUMBERS), "*": (operator.mul, NUMBERS),
    "/": (operator.truediv, FLOATS), "//": (operator.floordiv, INTEGERS), "%": (operator.mod, INTEGERS),
    "&": (operator.and_, BOOL + INTEGERS), "|": (operator.or_, BOOL + INTEGERS), "^": (operator.xor, BOOL + INTEGERS),
    "<<": (operator.lshift, UNSIGNED), ">>": (operator.rshift, UNSIGNED), "**": (operator.pow, WIDE),
    "equal": (np.equal, BOOL + NUMBERS), "not_equal": (np.not_equal, BOOL + NUMBERS), "less": (np.less, NUMBERS),
    "less_equal": (np.less_equal, NUMBERS), "greater": (np.greater, NUMBERS),
    "greater_equal": (np.greater_equal, NUMBERS),
}  # fmt: skip
UNARY: dict[str, tuple[Function, tuple[DType, ...]]] = {
    "neg": (operator.neg, SIGNED + FLOATS), "abs": (abs, NUMBERS), "invert": (operator.invert, BOOL + INTEGERS),
    "pos": (operator.pos, NUMBERS),
}  # fmt: skip
SHAPES = ((), (1,), (0,), (3,), (2, 3), (1, 3), (2, 1), (4, 2, 3), (0, 3), (4, 1, 1))


def applied(sign: str, x: Any, y: Any) -> Any:
    """The operator, or for a value the method of that name."""
    function = BINARY[sign][0]
    if isinstance(function, np.ufunc) and isinstance(x, Value):
        return getattr(x, sign)(y)
    return function(x, y)


def numbers(draw: Any, dtype: DType, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    found = rng.integers(max(low, 0) if dtype.is_unsigned or dtype is DType.BOOL else low, high, size=shape)
    return np.asarray(found / 4 if dtype.is_float and low < 0 else found).astype(dtype.numpy)


def evaluated(x: np.ndarray, y: np.ndarray | None, function: Function, names: bool) -> tuple[np.ndarray, Value]:
    """What a function of values gives for arrays, over parameters of known or of named sizes; and the value."""
    arrays = [each for each in (x, y) if each is not None]
    types = [tensor(a.dtype, *(f"n{i}_{j}" for j in range(a.ndim)) if names else a.shape) for i, a in enumerate(arrays)]
    params = tuple(map(param, types))
    result = function(*params)
    graph = irkit.verify(Graph(params, (result,)))
    (found,) = irkit.evaluate(graph, arrays)
    return found, result


def require_same(found: np.ndarray, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-6)


@given(st.data(), st.sampled_from(sorted(BINARY)), st.booleans())
def test_binary_operators_are_those_of_numpy(data: st.DataObject, sign: str, names: bool) -> None:
    dtype = data.draw(st.sampled_from(BINARY[sign][1]))
    shape, other = data.draw(st.sampled_from(SHAPES)), data.draw(st.sampled_from(SHAPES))
    try:
        np.broadcast_shapes(shape, other)
    except ValueError:
        other = ()
    x = numbers(data.draw, dtype, shape, -100, 100)
    low, high = {"//": (1, 9), "%": (1, 9), "/": (1, 9), "**": (0, 4), "<<": (0, 8), ">>": (0, 8)}.get(sign, (-9, 9))
    y = numbers(data.draw, dtype, other, low, high)
    if sign in ("//", "%") and not dtype.is_unsigned:
        y = np.where(np.arange(y.size).reshape(y.shape) % 2 == 0, y, -y).astype(y.dtype)
    if sign == "**":
        x = np.abs(x) if dtype.is_float else x
    with np.errstate(all="ignore"):
        wanted = applied(sign, x, y)
    found, _ = evaluated(x, y, lambda a, b: applied(sign, a, b), names)
    require_same(found, wanted)
    beside, _ = evaluated(x, None, lambda a: applied(sign, a, y), names)  # an array beside a value
    require_same(beside, wanted)
    if not isinstance(BINARY[sign][0], np.ufunc):
        before, _ = evaluated(y, None, lambda b: applied(sign, x, b), names)
        require_same(before, wanted)


@given(st.data(), st.sampled_from(sorted(BINARY)))
def test_numbers_take_the_element_type_of_the_value(data: st.DataObject, sign: str) -> None:
    dtype = data.draw(st.sampled_from([d for d in BINARY[sign][1] if d is not DType.BFLOAT16]))
    x = numbers(data.draw, dtype, data.draw(st.sampled_from(SHAPES)), 1, 8)
    kinds: list[Any] = [bool, np.bool_] if dtype is DType.BOOL else [int, np.int64, np.uint8, dtype.numpy.type]
    kinds += [float, np.float32, np.float64] if dtype.is_float else []
    number = data.draw(st.sampled_from(kinds))(data.draw(st.integers(1, 3)))
    typed = np.array(number).astype(dtype.numpy)
    found, value = evaluated(x, None, lambda a: applied(sign, a, number), True)
    require_same(found, applied(sign, x, typed))
    assert value.op == "Not" or dtype in {v.dtype for v in value.inputs if v is not None}
    if not isinstance(BINARY[sign][0], np.ufunc):
        before, _ = evaluated(x, None, lambda a: applied(sign, number, a), True)
        require_same(before, applied(sign, typed, x))


@given(st.data(), st.sampled_from(sorted(UNARY)), st.sampled_from(SHAPES))
def test_unary_operators_are_those_of_numpy(data: st.DataObject, name: str, shape: tuple[int, ...]) -> None:
    function, dtypes = UNARY[name]
    x = numbers(data.draw, data.draw(st.sampled_from(dtypes)), shape, -100, 100)
    found, _ = evaluated(x, None, function, True)
    require_same(found, function(x))


@given(st.data())
def test_an_expression_gives_what_numpy_gives(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([DType.FLOAT, DType.DOUBLE, DType.INT32, DType.INT64]))
    kinds = ["+", "-", "*", "%" if dtype.is_integer else "/", "**"]
    steps = data.draw(st.lists(st.tuples(st.sampled_from(kinds), st.booleans()), min_size=1, max_size=6))
    x, w = numbers(data.draw, dtype, (2, 3), 1, 9), numbers(data.draw, dtype, (3,), 1, 4)

    def expression(a: Any, b: Any) -> Any:
        for sign, with_b in steps:
            a = applied(sign, a, 2 if sign == "**" else b if with_b else 3)
            a = a % 50 if dtype.is_integer else a / 4
        return -a @ (a + b)[0]

    found, _ = evaluated(x, w, expression, True)
    require_same(found, expression(x, w))


@pytest.mark.parametrize("dtype", SIGNED, ids=lambda d: d.short)
def test_the_floor_of_a_quotient_is_right_at_the_ends_of_the_range(dtype: DType) -> None:
    ends = np.iinfo(dtype.numpy)
    x = np.array([ends.min, ends.min, ends.min + 1, -1, 0, 1, ends.max, ends.max], dtype.numpy)
    for divisor in (3, -3, 1, 2, 7, -7, ends.max, ends.min):
        found, _ = evaluated(x, None, lambda a, by=divisor: a // by, False)
        np.testing.assert_array_equal(found, x // np.array(divisor, dtype.numpy))


def test_sizes_are_numbers() -> None:
    n = irkit.symbol("n")
    x = param(tensor("f32", "n", 2))
    cases: list[tuple[Any, float]] = [
        (x * n, 3.0),
        (n * x, 3.0),
        (x + n * n, 10.0),
        (n - x, 2.0),
        (x.cast("i64") // (n - 1), 0),
    ]
    for result, wanted in cases:
        (found,) = irkit.evaluate(irkit.verify(Graph((x,), (result,))), [np.ones((3, 2), np.float32)])
        assert found.dtype == result.dtype.numpy and (found == wanted).all()
    found = op.NonZero(x)  # how many there are is known when it runs
    share = found.cast("f32") / found.shape[1]
    (last,) = irkit.evaluate(irkit.verify(Graph((x,), (share,))), [np.ones((2, 2), np.float32)])
    np.testing.assert_allclose(last, [[0, 0, 0.25, 0.25], [0, 0.25, 0, 0.25]])
    with pytest.raises(TypeRuleError, match="a size is no bool"):
        x.less(0) & n  # pyright: ignore[reportUnusedExpression]


X = param(tensor("f32", "n", 4))
REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "element types": (lambda: X + X.cast("f64"), "casts nothing by itself", 'x.cast("f64") + y'),
    "a power of another type": (lambda: X ** X.cast("i32"), "casts nothing by itself", 'x ** y.cast("f32")'),
    "types of a comparison": (lambda: X.less(X.cast("f64")), "casts nothing", 'x.cast("f64").less(y)'),
    "an array of another type": (lambda: X * np.ones(4), "casts nothing by itself", 'x.cast("f64") * y'),
    "integers over integers": (lambda: X.cast("i64") / 2, "a quotient of floats", "x // y"),
    "floats rounded down": (lambda: X // 2, "x // y is one of integers", "op.Floor(x / y)"),
    "what is left of floats": (lambda: X % 2, "x % y is one of integers", "fmod=1"),
    "a float beside integers": (lambda: X.cast("i32") + 1.5, "1.5 is no i32", 'x.cast("f32")'),
    "a whole float beside integers": (lambda: X.cast("i32") * 2.0, "2.0 is no i32", 'x.cast("f32")'),
    "a boolean beside floats": (lambda: X + True, "True is no f32", "cast"),
    "a number beside booleans": (lambda: X.less(0) & 1, "1 is no bool", "cast"),
    "a complex number": (lambda: X * 1j, "is no f32", 'x.cast("c128")'),
    "a number beyond the range": (lambda: X.cast("u8") + 256, "256 is beyond u8", "cast"),
    "a number below the range": (lambda: X.cast("u8") - -1, "-1 is beyond u8", "cast"),
    "a float beyond the range": (lambda: X.cast("f16") * 1e6, "1000000.0 is beyond f16", "cast"),
    "an integer beyond all": (lambda: X.cast("i64") + 2**70, "is no operand of +", "give a value"),
    "an integer to a negative power": (lambda: X.cast("i64") ** -1, "an integer to a negative power", "cast"),
    "<": (lambda: X < 3, "compared by their methods", "x.less(y)"),
    ">=": (lambda: X >= X, "compared by their methods", "x.greater_equal(y)"),
    "a shift of signed integers": (lambda: X.cast("i32") << 1, "only unsigned integers are shifted", "x * 2**n"),
    "a shift beyond the width": (lambda: X.cast("u8") << 8, "u8 has 8 bits", "less"),
    "a comparison with a thing": (lambda: X.equal(object()), "cannot be compared with an object", "irkit.const"),
    "an unknown element type": (lambda: X.cast("float"), "no element type 'float'", "f32, to numpy f64"),
    "text": (lambda: X + "a", "is no operand of +", "give a value"),
    "a size of another value": (
        lambda: X * op.NonZero(X).shape[1], "a size that depends on data", "op.Shape(y)[axis]",
    ),
    "shapes": (lambda: X + np.ones(3, np.float32), "do not broadcast", "sizes must be equal"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_says_what_to_write(name: str) -> None:
    function, what, hint = REFUSED[name]
    with pytest.raises(TypeRuleError) as caught:
        function()
    assert what in caught.value.what and hint in caught.value.hint, str(caught.value)


def test_values_keep_their_identity_and_are_no_lists() -> None:
    assert (X == X) is True and (X != X) is False and X in (X,) and hash(X) == hash(X)
    functions: list[Function] = [list, tuple, lambda x: 1 in x, lambda x: [*x]]
    for function in functions:
        with pytest.raises(TypeError):
            function(X)
    with pytest.raises(TypeError, match="unsupported operand"):
        X + object()  # type: ignore[operator]
    assert +X is X and X.cast("f32") is X and (1 + X).op == "Add" and X.rank == 2
    assert (np.float32(2) * X).inputs[0] is not X and (np.ones(4, np.float32) @ X.cast("f32")[0]).shape == ()
    assert operator.add([1, 2, 3, 4], X).shape == X.shape and (X + const([1.0] * 4)).op == "Add"


def test_a_comparison_is_neither_true_nor_false() -> None:
    """What a comparison gives is known when the graph runs: a branch of Python's would take one side without a word."""
    x = irkit.param("f32[n]")
    for asked in (
        lambda: bool(x.less(1)),
        lambda: x.less(1) or None,
        lambda: not x.less(1),
        lambda: 1 if x.equal(x) else 0,
        lambda: any([x.greater(x)]),
    ):
        with pytest.raises(TypeRuleError) as caught:
            asked()
        assert "op.Where" in str(caught.value.hint) or "write x." in str(caught.value.hint)

    assert x and (None or x) is x  # as for any object: a value, and not None

    def clipped(x: Any) -> Any:
        return x if x.less(0) else op.Neg(x)

    with pytest.raises(TypeRuleError, match="neither true nor false while the graph is built"):
        irkit.function(clipped, x="f32[n]")


def test_operators_on_values_take_no_more_calls_than_constructors() -> None:
    assert {name: calls for name, calls in operator_calls().items() if calls[1] > calls[0]} == {}
