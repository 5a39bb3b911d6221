"""`x[...]`: what numpy takes, at sizes that are known and that vary, 0 and 1 among them; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import irkit
from irkit import Graph, TypeRuleError, evaluate, op, param, symbol, tensor, verify

SIZES = st.sampled_from([0, 1, 2, 3, 5])
BOUNDS = st.one_of(st.none(), st.integers(-7, 7))
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.sampled_from([None, 1, 2, 3, -1, -2, -3]))


@st.composite
def keys(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """(shape, key) that numpy takes."""
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
    places = draw(st.sampled_from([(), (2,), (1, 2), (2, 1), (0,)]))
    found: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from("ssiat" if size else "s"))
        if kind == "s":
            found.append(draw(SLICES))
        elif kind == "i":
            found.append(draw(st.integers(-size, size - 1)))
        else:
            each = places if kind == "a" else draw(st.sampled_from([places[-1:], (1,), ()]))
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            found.append(rng.integers(-size, size, each))
        if draw(st.integers(0, 4)) == 0:
            found.append(None)
    if len([k for k in found if k is not None]) < len(shape) and draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), ...)
    if ... in [k for k in found if not isinstance(k, np.ndarray)]:
        at = next(i for i, k in enumerate(found) if k is ...)
        gap = len(shape) - len([k for k in found if k is not None and k is not ...])
        axes = [0] * len(found)
        axis = 0
        for i, k in enumerate(found):
            axes[i] = axis
            axis += gap if i == at else k is not None
        for i, k in enumerate(found):  # what stands behind `...` is of another axis
            size = shape[axes[i]] if k is not None and k is not ... else 1
            if isinstance(k, int) or (isinstance(k, np.ndarray) and k.size):
                if size == 0:
                    found[i] = slice(None)
                else:
                    found[i] = k % size
    return shape, tuple(found)


@given(keys(), st.booleans(), st.booleans())
@example(((3, 4, 5), (0, slice(None), np.array([1, 2]))), True, False)
@example(((3, 4, 5), (np.array([0, 1]), None, np.array([1, 2]))), True, True)
@example(((2, 3), (slice(-5, None, -1),)), True, False)
@example(((1, 3), (slice(-2, -1, -1),)), True, False)
@example(((0, 3), (slice(None, None, -2), np.array(1))), True, False)
def test_parts_are_those_of_numpy(drawn: tuple[tuple[int, ...], tuple[Any, ...]], names: bool, values: bool) -> None:
    shape, key = drawn
    array = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
    try:
        wanted = array[key]
    except IndexError:  # places that do not broadcast
        return
    x = param(tensor("f32", *(f"n{i}" for i in range(len(shape))) if names else shape))
    params, feeds, written = [x], [array], list(key)
    for i, each in enumerate(key):
        if values and isinstance(each, np.ndarray):
            written[i] = param(tensor("i64", *each.shape))
            params.append(written[i])
            feeds.append(each)
    graph = verify(Graph(tuple(params), (x[tuple(written)],)))
    (found,) = evaluate(graph, feeds)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_bounds_are_sizes_and_scalars() -> None:
    n = symbol("n")
    x, i = param(tensor("f32", "n", "2*n")), param(tensor("i64"))
    array = np.arange(18, dtype=np.float32).reshape(3, 6)
    cases: tuple[tuple[Any, Any], ...] = (
        (x[:, :n], array[:, :3]), (x[:, "n":], array[:, 3:]), (x[n - 1], array[2]), (x[:, -n:], array[:, -3:]),
        (x[:, i:], array[:, 2:]), (x[i], array[2]), (x[:i, 1:n:2], array[:2, 1:3:2]),
        (x[..., i : i + 1], array[:, 2:3]), (x[i, :i], array[2, :2]),
        (x[:, n - 1 : i : 1], array[:, 2:2]), (x[0, n], array[0, 3]), (x[:n], array),
    )  # fmt: skip
    for value, wanted in cases:
        (found,) = evaluate(verify(Graph((x, i), (value,))), [array, np.array(2)])
        np.testing.assert_array_equal(found, wanted)
    assert x[:, :n].type == tensor("f32", "n", "n") and x[:n] is x[:] is x[...] is x
    found = op.NonZero(x)  # of a size that the data tells
    (last,) = evaluate(verify(Graph((x,), (x[0][: op.Shape(found)[1]],))), [np.eye(3, 6, dtype=np.float32)])
    np.testing.assert_array_equal(last, [1, 0, 0])


def test_slices_are_one_operator() -> None:
    x = param(tensor("f32", "a", "b", "c"))
    value = x[1:, ::-1, :-2]
    assert value.op == "Slice" and value.inputs[0] is x
    assert x[0].op == "Gather" and x[:, None].op == "Unsqueeze" and x[[0, 2]].op == "Gather"


X = param(tensor("f32", 3, "n"))
REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "outside of a known size": (lambda: X[3], "axis 0 of <f32[3, n] Param> has no element 3", "it has 3"),
    "a place of a list outside": (lambda: X[[0, -4]], "has no element -4", "it has 3"),
    "too many": (lambda: X[0, 0, 0], "has 2 axes, and 3 are indexed", "x[None]"),
    "two ellipses": (lambda: X[..., 0, ...], "two `...`", "one stands for"),
    "a boolean": (lambda: X[True], "True is no place", "x[0]"),
    "a mask": (lambda: X[X.less(0)], "is no index", "op.Compress"),
    "an array of booleans": (lambda: X[np.ones(3, bool)], "is no index", "op.Compress"),
    "a float": (lambda: X[1.5], "1.5 is no index", "give numbers"),
    "floats": (lambda: X[X], "is no index", "give numbers"),
    "small integers": (lambda: X[X[0].cast("u8")], "is no index", 'cast("i64")'),
    "no step": (lambda: X[::0], "the step of a slice is 0", "x[::1]"),
    "a step that varies": (lambda: X[:: symbol("n")], "is no number", "x[::2]"),
    "backwards between sizes": (lambda: X[:, symbol("n") : 0 : -1], "bounds that are not known", "[::-1]"),
    "backwards to a size": (lambda: X[:, : symbol("n") - 1 : -1], "bounds that vary", "[::-1]"),
    "a bound of several": (lambda: X[: [1, 2]], "is no bound of a slice", "irkit.symbol"),
    "a bound of i32": (lambda: X[: X[0, 0].cast("i32")], "is no bound of a slice", "a scalar of i64"),
    "an item of a sequence": (lambda: op.SequenceConstruct(X)[0], "has no elements to index", "op.SequenceAt"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_says_what_to_write(name: str) -> None:
    function, what, hint = REFUSED[name]
    with pytest.raises(TypeRuleError) as caught:
        function()
    assert what in caught.value.what and hint in caught.value.hint, str(caught.value)


def test_a_part_is_not_assigned() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        X[0] = 1  # type: ignore[index]
    assert irkit.Value.__setattr__ is not object.__setattr__
