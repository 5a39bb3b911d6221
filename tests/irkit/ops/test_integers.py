"""Small integer tensors read as dimensions: one interpreter, whose answers hold, and where it gives none."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

import irkit
from irkit import dims
from irkit.core.types import DType
from irkit.onnx.reading.sizes import Content, Known
from irkit.onnx.sessions import session
from irkit.ops.types.integers import LIMIT, RULES, Integers, follow, sliced_places
from tests.support.onnx_models import make, model_of

n, free = dims.symbol("n"), dims.fresh()


def vector(*elements: Any) -> Integers:
    return Integers(elements, 1)


def scalar(element: Any) -> Integers:
    return Integers((element,), 0)


def answer(op: str, *operands: Integers | None, dtype: DType = DType.INT64, **attributes: Any) -> Any:
    found = follow(op, dtype, operands, attributes)
    return None if found is None else found.elements


UNKNOWN: dict[str, Any] = {
    "a quotient of a negative number": answer("Div", scalar(-7), scalar(2)),
    "a quotient by a negative number": answer("Div", scalar(7), scalar(-2)),
    "a quotient by zero": answer("Div", scalar(7), scalar(0)),
    "a quotient by what may be zero": answer("Div", scalar(7), scalar(free)),
    "a quotient of what may be negative": answer("Div", scalar(dims.sub(free, 3)), scalar(2)),
    "a remainder of a negative number": answer("Mod", scalar(-7), scalar(2)),
    "a remainder by a size": answer("Mod", scalar(7), scalar(n)),
    "an Expand of two elements": answer("Expand", vector(1, 2), vector(2)),
    "an Expand to a size": answer("Expand", scalar(1), vector(n)),
    "a size as a bool": answer("Cast", scalar(n), dtype=DType.BOOL),
    "a large number in 32 bits": answer("Cast", scalar(1 << 31), dtype=DType.INT32),
    "a product of sizes in 32 bits": answer("Mul", scalar(n), scalar(n), dtype=DType.INT32),
    "a sum that wraps around": answer("Add", scalar((1 << 63) - 1), scalar(1)),
    "a sum of nothing": answer("ReduceSum", vector()),
    "a sum over no axes": answer("ReduceSum", vector(1, 2), noop_with_empty_axes=1),
    "a maximum of nothing": answer("ReduceMax", vector()),
    "a product along an axis that is not there": answer("ReduceProd", vector(1, 2), vector(1)),
    "a product of a scalar": answer("ReduceProd", scalar(2)),
    "a vector that is too long": answer("Identity", vector(*range(LIMIT + 1))),
    "a Concat that is too long": answer("Concat", vector(*range(LIMIT)), vector(1)),
    "a Range that is too long": answer("Range", scalar(0), scalar(LIMIT + 1), scalar(1)),
    "a Range longer than any list": answer("Range", scalar(-(1 << 62)), scalar((1 << 63) - 1), scalar(1)),
    "a Range that goes nowhere": answer("Range", scalar(0), scalar(3), scalar(0)),
    "a filling of a length below zero": answer("ConstantOfShape", vector(-1), value=irkit.const(np.array([1])).blob),
    "a filling of floats": answer("ConstantOfShape", vector(2)),
    "a place that is not there": answer("Gather", vector(1, 2), scalar(2)),
    "a place that is a size": answer("Gather", vector(1, 2), scalar(n)),
    "a slice without a step": answer("Slice", vector(1, 2), vector(0), vector(2), vector(0), vector(0)),
    "a Reshape to a size": answer("Reshape", vector(1, 2), vector(n)),
    "a Squeeze of two elements": answer("Squeeze", vector(1, 2)),
    "an Unsqueeze of a vector": answer("Unsqueeze", vector(1), vector(0)),
    "sizes that may be equal": answer("Equal", scalar(n), scalar(3), dtype=DType.BOOL),
    "a choice by a size": answer("Where", scalar(n), scalar(1), scalar(2)),
    "lengths that do not fit": answer("Add", vector(1, 2), vector(1, 2, 3)),
    "an operator that is not followed": answer("TopK", vector(1, 2), vector(1)),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_nothing_is_said_where_an_element_is_not_certain(case: str) -> None:
    assert UNKNOWN[case] is None


KNOWN: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "a quotient of a size": (answer("Div", scalar(dims.mul(n, 4)), scalar(4)), (n,)),
    "a quotient by a size": (answer("Div", scalar(7), scalar(dims.add(n, 1))), (dims.floordiv(7, dims.add(n, 1)),)),
    "a remainder": (answer("Mod", scalar(7), scalar(4), fmod=1), (3,)),
    "an Expand of one element": (answer("Expand", scalar(n), vector(2)), (n, n)),
    "an Expand to a scalar": (answer("Expand", scalar(n), vector()), (n,)),
    "an Expand to nothing": (answer("Expand", vector(n), vector(0)), ()),
    "a number as a bool": (answer("Cast", vector(5, 0, -1), dtype=DType.BOOL), (1, 0, 1)),
    "a size in 32 bits": (answer("Cast", scalar(n), dtype=DType.INT32), (n,)),
    "a sum": (answer("ReduceSum", vector(n, 2, 3), None, keepdims=0), (dims.add(n, 5),)),
    "a maximum of a vector": (answer("ReduceMax", vector(4, 2, 3)), (4,)),
    "a slice backwards": (answer("Slice", vector(1, n, 3), vector(-1), vector(-99), None, vector(-1)), (3, n, 1)),
    "a slice from before the start": (answer("Slice", vector(n), vector(-2), vector(-2), None, vector(-1)), (n,)),
    "a slice up from before the start": (answer("Slice", vector(n, 2), vector(-5), vector(1), None, vector(1)), (n,)),
    "a slice of nothing": (answer("Slice", vector(), vector(-1), vector(-9), None, vector(-1)), ()),
    "a Range that is empty": (answer("Range", scalar(3), scalar(0), scalar(2)), ()),
    "as many as there may be": (answer("Concat", vector(*range(LIMIT - 1)), vector(1)), (*range(LIMIT - 1), 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_certain_is_said(case: str) -> None:
    found, expected = KNOWN[case]
    assert found == expected


NUMBERS = st.integers(-9, 9) | st.sampled_from([(1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63)])
BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal")
UNARY = ("Neg", "Identity", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Squeeze")


@given(st.data())
def test_numbers_are_what_onnx_computes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from((*BINARY, *UNARY)))
    dtype = data.draw(st.sampled_from((np.int64, np.int32)))
    numbers = st.lists(NUMBERS.map(lambda i: int(np.array(i).astype(dtype))), min_size=1, max_size=3)
    arrays = [np.array(data.draw(numbers), dtype) for _ in range(2 if name in BINARY else 1)]
    made = DType.BOOL if name == "Equal" else DType.of(np.dtype(dtype))
    found = follow(name, made, [vector(*a.tolist()) for a in arrays], {})
    if found is None:
        return
    inputs = [f"x{i}" for i in range(len(arrays))]
    node = helper.make_node(name, inputs, ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(i, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None) for i in inputs],
        [onnx.ValueInfoProto(name="y")],
    )
    with np.errstate(all="ignore"):
        (result,) = ReferenceEvaluator(helper.make_model(graph)).run(None, dict(zip(inputs, arrays, strict=True)))
    assert np.shape(result) == (len(found.elements),) * found.rank
    assert np.ravel(result).astype(object).tolist() == list(found.elements)


BOUNDS = st.integers(-6, 6) | st.sampled_from([(1 << 63) - 1, -(1 << 63)])


@given(st.integers(0, 4), BOUNDS, BOUNDS, st.sampled_from((-3, -2, -1, 1, 2, 3)))
def test_slices_are_those_of_onnx_runtime_and_of_the_evaluator(count: int, start: int, end: int, step: int) -> None:
    if step < 0 and end == (1 << 63) - 1:
        end -= 1  # ONNX Runtime takes just this number, and 2**31 - 1, for the far end in both directions
    data = irkit.param(irkit.tensor("i64", count))
    cut = irkit.op.Slice(data, [start], [end], [0], [step])
    expected = list(sliced_places(count, start, end, step))
    assert cut.shape == (len(expected),)
    graph, fed = irkit.Graph((data,), (cut,)), np.arange(count)
    assert irkit.evaluate(graph, [fed])[0].tolist() == expected == session(graph).run([fed])[0].tolist()


def test_a_cast_to_bool_is_read_as_a_bool() -> None:
    nodes = [make("Cast", ["five"], ["flag"], to=9), make("Cast", ["flag"], ["one"], to=7),
             make("Add", ["one", "five"], ["size"]), make("Reshape", ["x", "size"], ["y"])]  # fmt: skip
    graph = irkit.load(model_of(nodes, [("x", [2, 3])], ["y"], initializers={"five": np.array([5])}))
    assert graph.results[0].shape == (6,)


def test_sizes_computed_in_32_bits_are_followed_while_a_model_is_read() -> None:
    nodes = [make("Shape", ["x"], ["s"]), make("Cast", ["s"], ["narrow"], to=6),
             make("Gather", ["narrow", "zero"], ["first"]), make("Cast", ["first"], ["wide"], to=7),
             make("Concat", ["wide", "minus"], ["target"], axis=0),
             make("Reshape", ["x", "target"], ["y"])]  # fmt: skip
    given_ = {"zero": np.array([0]), "minus": np.array([6])}
    graph = irkit.load(model_of(nodes, [("x", ["n", 2, 3])], ["y"], initializers=given_))
    assert graph.results[0].shape == (dims.symbol("n"), 6)
    assert {v.op for v in graph.order} == {"Param", "ShapeVector", "Reshape"}


def test_what_a_reader_folds_is_what_the_one_interpreter_says() -> None:
    known = Known(frozenset((n,)))
    made = known.value(Content((n, 4), 1))
    assert made is not None
    total = known.fold("ReduceSum", [made, None], {"keepdims": 0})
    assert total is not None and known.content(total) == Content((dims.add(n, 4),), 0)
    assert known.fold("Div", [known.value(Content((-7,), 0)), known.value(Content((2,), 0))], {}) is None
    assert set(RULES) >= {"Expand", "ReduceSum", "Cast", "Not"}
