"""The table of ONNX Runtime's quirks: no row without a mend, no mend without a row, and a page that is current."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from pyrsistent import pmap

from irkit.build import const, op
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, param
from irkit.core.types import DType, tensor
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.sessions import session
from passes.legal import legalize
from passes.legal.legalize import FLOAT64
from passes.legal.opsets.onnx_functions import operators_with_body
from passes.legal.opsets.operators import OLDER
from passes.legal.runtime import refusals
from passes.legal.runtime.biases import LARGE_BIASES
from passes.legal.runtime.byte_products import BYTES
from passes.legal.runtime.division import OVERFLOWS
from passes.legal.runtime.eighths import EIGHTHS
from passes.legal.runtime.empty import WITHOUT_ELEMENTS, empty_rules
from passes.legal.runtime.expansions import EXPANSIONS
from passes.legal.runtime.halves import half_rules
from passes.legal.runtime.integers import INTEGERS
from passes.legal.runtime.limits import ATTENTION, CONVOLUTIONS, FUSED_PRODUCT, IMAGES, PRODUCT, RECURRENT, SUMS
from passes.legal.runtime.long_sums import LONG_SUMS
from passes.legal.runtime.misfused import fusion_rules
from passes.legal.runtime.quirks import QUIRKS, REFUSED, ROUNDED_ATTENTION, refusal_of
from passes.legal.runtime.slices import SLICES
from passes.preparing.prepare import prepare
from passes.rules.nan import KEPT_BY_DEFAULT
from passes.targets import target_of
from tests.tables.quirks import PAGE, page

RULES = (
    *empty_rules(pmap()),
    *fusion_rules(pmap()),
    *LONG_SUMS,
    *half_rules(target_of("onnxruntime-cpu")),
    *BYTES,
    *OVERFLOWS,
    *SLICES,
    *WITHOUT_ELEMENTS,
    *KEPT_BY_DEFAULT,
    *INTEGERS,
    *LARGE_BIASES,
    *EIGHTHS,
)
WIDENED = frozenset(("ScatterND", "ScatterElements", "MelWeightMatrix"))
"""Operators that legalization computes in a wider element type."""


def test_rows_name_the_rules_that_there_are() -> None:
    named = [name for row in QUIRKS for name in row.rules]
    assert sorted(named) == sorted(rule.name for rule in RULES)


def test_rows_of_what_does_not_run_have_an_expansion() -> None:
    mended = {*EXPANSIONS, *FLOAT64, *OLDER, *operators_with_body(), *WIDENED}
    for row in QUIRKS:
        assert row.rules or row.contract or row.by or set(row.ops) <= mended, row.name
        assert row.reason and row.when and row.fix and row.version and row.ops
    assert len({row.name for row in QUIRKS}) == len(QUIRKS)
    assert all(row.condition is not None and not row.rules for row in (*REFUSED, ROUNDED_ATTENTION))


def test_rows_of_the_contract_are_the_operators_that_limits_asks_of() -> None:
    named = {op for row in QUIRKS if row.contract for op in row.ops}
    assert named == {PRODUCT, FUSED_PRODUCT, *CONVOLUTIONS, *IMAGES, *RECURRENT, *ATTENTION, *SUMS, "CumSum"}


def test_reasons_stand_in_the_table_alone() -> None:
    """No other module of legalization says what ONNX Runtime refuses."""
    assert '"ONNX Runtime' not in inspect.getsource(refusals) and '"ONNX Runtime' not in inspect.getsource(legalize)


def test_a_reason_names_operator_and_type() -> None:
    x, y = param(tensor("f32", "n")), param(tensor("f32", "n"))
    assert refusal_of(op.Mod(x, y)) == "ONNX Runtime computes Mod of floating-point numbers only with fmod=1"
    data, index = param(tensor("f16", 4)), const(np.array([[0]]))
    written = op.ScatterND(data, index, param(tensor("f16", 1)), reduction="add")
    assert refusal_of(written) == "ONNX Runtime has ScatterND with a reduction for no f16"
    assert refusal_of(op.ScatterND(data, index, param(tensor("f16", 1)))) == "" == refusal_of(op.Neg(x))


@pytest.mark.parametrize("varies", (False, True), ids=("constant", "computed"))
@pytest.mark.parametrize("end", (2**31 - 1, 2**63 - 1, 2**31 - 2, 0))
def test_a_slice_backward_to_an_end_beyond_the_axis_is_empty(end: int, varies: bool) -> None:
    x, ends = param(tensor("f32", 5)), param(tensor("i64", 1))
    given = np.arange(5, dtype=np.float32), np.array([end])
    sliced = op.Slice(x, np.array([3]), ends if varies else const(given[1]), np.array([0]), np.array([-1]))
    graph = Graph((x, ends), (sliced,))
    (found,) = session(prepare(graph, "onnxruntime-cpu")).run(given)
    assert found.tolist() == evaluate(graph, given)[0].tolist() == ([3.0, 2.0, 1.0] if end == 0 else [])
    prepared = prepare(graph, "onnxruntime-cpu")
    assert legalize.legalize(prepared, target_of("onnxruntime-cpu")) is prepared


@pytest.mark.parametrize("size", ((2, 1, 1, 3), (1, 2, 3, 1), (1, 1, 2, 1, 1), (1, 1, 1, 1)))
@pytest.mark.parametrize("varies", (False, True), ids=("constant", "computed"))
def test_the_only_place_of_an_axis_is_the_middle(size: tuple[int, ...], varies: bool) -> None:
    count = len(size) - 2
    theta, given = param(tensor("f32", size[0], count, count + 1)), param(tensor("i64", len(size)))
    grid = op.AffineGrid(theta, given if varies else const(np.array(size)), align_corners=1)
    agree(
        Graph((theta, given), (grid,)),
        np.linspace(-1, 2, count * (count + 1) * size[0]).reshape(theta.shape),
        np.array(size),
    )


def test_a_norm_of_equal_numbers_is_0() -> None:
    x = param(tensor("f32", "n", 2, 2, 2))
    agree(Graph((x,), (op.MeanVarianceNormalization(x),)), np.full((3, 2, 2, 2), 0.5))


@pytest.mark.parametrize("axis", (0, 1, 2, -1))
@pytest.mark.parametrize(
    "places", (np.array(-1), np.array([1, 0, 1]), np.array([[0], [1]]), np.zeros((0, 2), np.int64))
)
def test_strings_are_gathered_whole(axis: int, places: np.ndarray) -> None:
    x = param(tensor("str", 2, "n", 2))
    texts = np.array(["a", "b c", "", "d", "e", "ff", "g", "h"], dtype=object).reshape(2, 2, 2)
    agree(Graph((x,), (op.Gather(x, places, axis=axis),)), texts)


@pytest.mark.parametrize("texts", (["", ""], ["a b c", ""], ["cabcabc", "ab"], [" ", "  ", "a "], [], ["ab ab", "x"]))
@pytest.mark.parametrize("delimiter", (" ", "ab", ""))
def test_an_empty_string_has_one_part(texts: list[str], delimiter: str) -> None:
    x = param(tensor("str", "n"))
    splits = [op.StringSplit(x, delimiter=delimiter, **most) for most in ({}, {"maxsplit": 0}, {"maxsplit": 1})]
    for parts in splits[: 1 if not delimiter else 3]:
        agree(Graph((x,), parts), np.array(texts, dtype=object))


@pytest.mark.parametrize("number", (0, 3))
def test_a_scalar_has_no_coordinates(number: int) -> None:
    x, flag = param(tensor("i64")), param(tensor("bool"))
    graph = Graph((x, flag), (op.NonZero(x), op.NonZero(flag)))
    agree(graph, np.array(number), np.array(bool(number)))


@pytest.mark.parametrize("shape", ((0, 4), (2, 0, 4), (2, 0, 3, 4)))
def test_a_linear_layer_of_no_rows_runs(shape: tuple[int, ...]) -> None:
    x = param(tensor("f32", *shape))
    weight, bias = const(np.ones((4, 2), np.float32)), const(np.ones(2, np.float32))
    agree(Graph((x,), (op.Relu(op.Add(op.MatMul(x, weight), bias)),)), np.zeros(shape))


@pytest.mark.parametrize("kind", ("f32", "i8"))
@pytest.mark.parametrize("opset", (17, 18, None))
@pytest.mark.parametrize("axes", (None, [2, 3]), ids=("all", "some"))
def test_a_pool_of_a_pad_sees_the_zeros(kind: str, opset: int | None, axes: list[int] | None) -> None:
    x = param(tensor(kind, "n", 2, 5, 6))
    pads = np.array([1, 1, 1, 1]) if axes else np.array([0, 0, 1, 1, 0, 0, 1, 1])
    padded = op.Pad(x, const(pads), None, *([const(np.array(axes))] if axes else []))
    pools = [op.MaxPool(padded, kernel_shape=[3, 3], strides=[2, 2], pads=pads) for pads in ([0] * 4, [1] * 4)]
    graph, below = Graph((x,), (pools[0],)), -1 - np.arange(120).reshape(2, 2, 5, 6) % 7
    agree(graph, below, opset=opset)
    agree(Graph((x,), (pools[1],)), below, opset=opset)
    target = target_of("onnxruntime-cpu", opset)
    prepared = prepare(graph, target)
    assert legalize.legalize(prepared, target) is prepared


def test_a_pool_of_a_pad_with_other_numbers_is_left_alone() -> None:
    x = param(tensor("f32", 1, 2, 5, 6))
    pads = const(np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    for padded in (op.Pad(x, pads, const(np.float32(2))), op.Pad(x, pads, mode="reflect")):
        graph = Graph((x,), (op.MaxPool(padded, kernel_shape=[3, 3]),))
        assert len(prepare(graph, "onnxruntime-cpu").order) == len(graph.order)
        agree(graph, -1 - np.arange(60).reshape(1, 2, 5, 6))


def agree(graph: Graph, *arrays: np.ndarray, opset: int | None = None) -> None:
    """Raises where ONNX Runtime, with its optimizations on, gives something else than the evaluator."""
    given = [a.astype(p.dtype.numpy) for a, p in zip(arrays, graph.params, strict=True)]
    found = session(prepare(graph, target_of("onnxruntime-cpu", opset))).run(given)
    assert compare(evaluate(graph, given), found) is None


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make quirks`"


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_columns_keep_their_gaps(axes: int) -> None:
    """ONNX Runtime's Col2Im leaves out dilations of other than two axes."""
    x = param(tensor("f32", "n", 3 * 2**axes, 2**axes))
    graph = Graph((x,), (op.Col2Im(x, [5] * axes, [2] * axes, dilations=[3] * axes, strides=[1] * axes),))
    feeds = [np.random.default_rng(0).normal(size=(2, 3 * 2**axes, 2**axes)).astype(np.float32)]
    ready = prepare(graph)
    assert ("Col2Im" in str(ready)) == (axes == 2)
    assert compare(evaluate(graph, feeds), tuple(session(ready).run(feeds))) is None


@pytest.mark.parametrize("perm", ([1, 0, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], None))
@pytest.mark.parametrize("kind", ("bf16", "f16", "f64", "i32"))
def test_a_product_of_what_is_turned_and_cast_does_not_end_the_process(kind: str, perm: list[int] | None) -> None:
    x = param(tensor(kind, 3, 3, 3))
    cast = op.Cast(op.Transpose(x, perm=perm), to=1)
    weight = np.arange(15, dtype=np.float32).reshape(3, 5)
    results = op.MatMul(cast, const(weight)), op.MatMul(const(weight.T), cast)
    ready = prepare(Graph((x,), results), "onnxruntime-cpu")
    turned = [v for v in ready.order if v.op == "Transpose" and v.dtype is not x.dtype]
    assert bool(turned) == (perm is not None and perm[0] != 0)  # a session of the other order is a segmentation fault
    agree(Graph((x,), results), np.arange(27).reshape(3, 3, 3))


@pytest.mark.parametrize("kind", ("f32", "f16", "f64", "bf16"))
def test_numbers_near_the_end_of_float8_e5m2_are_rounded(kind: str) -> None:
    x = param(tensor(kind, "n"))
    numbers = [57344.0, 59000.0, 61439.0, 61440.0, 63000.0, 65504.0, np.inf, np.nan, 1.0, 0.0, -0.0, 2.6e-5]
    given = np.array([*numbers, *(-n for n in numbers)]).astype(x.dtype.numpy)
    agree(Graph((x,), (op.Cast(op.Cast(x, to="f8e5m2", saturate=0), to=1),)), given)


@pytest.mark.parametrize("perm", ([1, 0, 2], [1, 2, 0], [0, 2, 1], None))
def test_a_product_of_turned_halves_does_not_end_the_process(perm: list[int] | None) -> None:
    x = param(tensor("f16", 3, 3, 3))
    turned, weight = op.Transpose(x, perm=perm), np.arange(15, dtype=np.float16).reshape(3, 5)
    graph = Graph((x,), (op.MatMul(turned, const(weight)), op.MatMul(const(weight.T), turned)))
    products = [v for v in prepare(graph, "onnxruntime-cpu").order if v.op == "MatMul"]
    assert {v.dtype for v in products} == {DType.FLOAT if perm and perm[0] else DType.FLOAT16}
    agree(graph, np.arange(27).reshape(3, 3, 3))
