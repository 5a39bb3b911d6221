"""The kernels against two others that compute the same: the data of ONNX's own node cases, and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.backend.test.case.node import collect_testcases

from irkit.build import call
from irkit.checking.comparison import Difference, compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, Type
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from irkit.evaluation.kernels.common import Kernel
from irkit.evaluation.kernels.reduction import accumulated
from irkit.evaluation.kernels.table import KERNELS
from irkit.onnx.load import load
from irkit.ops.schemas import OPSET
from tests.support.kernel_samples import Draw, Sample
from tests.support.kernel_samples_table import SAMPLES
from tests.support.node_cases import SIZES, Case, built, cases, data_of, fed
from tests.support.onnxruntime_node import run, schema_dtypes

REFUSED = "refused"
"""What `differ` answers where ONNX Runtime has no kernel for the element types."""


def differ(op: str, sample: Sample, kernels: Mapping[str, Kernel] = KERNELS) -> Difference | str | None:
    """How ONNX Runtime's results differ from the evaluator's; "refused" where it has no kernel for the types."""
    operands, feeds, params = [], [], []
    for index, x in enumerate(sample.inputs):
        if x is None or index in SIZES.get(op, ()):
            operands.append(x)
        else:
            params.append(param(Tensor(DType.of(x.dtype), x.shape)))
            operands.append(params[-1])
            feeds.append(x)
    made = call(op, operands, sample.attributes, outputs=sample.outputs)
    results = made if isinstance(made, tuple) else (made,)
    expected = run(op, sample.inputs, sample.attributes, [r.type for r in results])
    if expected is None:
        return REFUSED
    actual = evaluate(Graph(tuple(params), results), feeds, kernels=kernels)
    tight: dict[str, Any] = {} if sample.rtol is None else {"rtol": sample.rtol}
    if all(np.asarray(e).dtype == np.float32 for e in expected):
        tight = {"rtol": sample.rtol or 1e-5, "atol": sample.atol or 1e-5}
    return compare(expected, list(actual), **tight)


# ---------------------------------------------------------------------------------------------- ONNX Runtime

WITHOUT_KERNEL = frozenset(["Swish"])
"""Operators that ONNX Runtime cannot run at this opset; the node cases test them."""


@pytest.mark.parametrize("name", SAMPLES)
def test_agrees_with_onnx_runtime(name: str) -> None:
    op = name.partition(":")[0]
    compared = []

    @settings(max_examples=max(20, settings().max_examples // 2))
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        sample = SAMPLES[name](Draw(data.draw))
        found = differ(op, sample)
        if found != REFUSED:
            compared.append(sample)
            assert found is None, f"{op}{sample}: {found}"

    agree()
    assert compared or op in WITHOUT_KERNEL, "ONNX Runtime ran none of the samples"


def scaled(kernel: Kernel) -> Kernel:
    """The kernel made wrong: its first result is off by one part in a thousand, and never right where it is 0."""

    def wrong(*operands: Any, **options: Any) -> Any:
        found = kernel(*operands, **options)
        first, *rest = found if isinstance(found, tuple) else (found,)
        first = np.asarray(first)
        return ((first.astype(np.float64) * 1.001 + 0.001).astype(first.dtype), *rest)

    return wrong


@pytest.mark.parametrize("op", ["Add", "Exp", "Softmax", "ReduceSum", "Gemm", "Conv", "LayerNormalization", "LSTM"])
def test_a_wrong_kernel_is_found(op: str, rng: np.random.Generator) -> None:
    """The comparison can fail: one kernel broken on purpose, everything else as it is."""
    x = rng.uniform(0.5, 1, (2, 3, 4)).astype(np.float32)
    samples = {
        "Add": Sample((x, x)),
        "Exp": Sample((x,)),
        "Softmax": Sample((x,), {"axis": -1}),
        "ReduceSum": Sample((x, np.array([1]))),
        "Gemm": Sample((x[0], x[1]), {"transB": 1}),
        "Conv": Sample((x, x[:, :, :2])),
        "LayerNormalization": Sample((x, x[0, 0])),
        "LSTM": Sample((x, np.ones((1, 8, 4), np.float32), np.ones((1, 8, 2), np.float32)), {"hidden_size": 2}, 3),
    }
    assert differ(op, samples[op]) is None
    found = differ(op, samples[op], {**KERNELS, op: scaled(KERNELS[op])})
    assert isinstance(found, Difference) and found.max_abs > 1e-4


# ---------------------------------------------------------------------------------------------- node cases

RANDOM = ("test_bernoulli",)
"""Cases whose data are one draw of a generator that ONNX does not say."""
PILLOW = ("test_image_decoder",)
"""Cases of an operator that only onnx's reference has, by means of a package that irkit does not depend on."""
ROUNDED = (
    "test_averagepool_2d_ceil_last_window_starts_on_pad", "test_gridsample_bicubic", "test_roialign_aligned_",
)  # fmt: skip
"""Cases whose data were written down with four decimals."""


def of_case(case: Case, kernels: Mapping[str, Kernel] = KERNELS) -> Difference | None:
    """How the evaluator's results differ from a case's data."""
    params: dict[str, Value] = {}

    def make(name: str, type_: Type) -> Value:
        params[name] = param(type_)
        return params[name]

    results = tuple(r for r in built(case, make) if r is not None)
    feeds = [x for info, x in zip(fed(case.model.graph), case.inputs, strict=True) if info.name in params]
    actual = list(evaluate(Graph(tuple(params.values()), results), feeds, kernels=kernels))
    tight: dict[str, Any] = {}
    if all(getattr(y, "dtype", None) == np.float32 for y in case.outputs):
        tight = {"rtol": 1e-5, "atol": 1e-4 if case.name.startswith(ROUNDED) else 1e-6}
    return compare(list(case.outputs), actual, **tight)


def test_node_cases() -> None:
    """Every node case of ONNX whose operators are those of the IR's opset."""
    failures, passed = [], 0
    for case in cases():
        if case.name.startswith((*RANDOM, *PILLOW)):
            continue
        try:
            found: Any = of_case(case)
        except IrkitError as error:
            found = error
        passed += found is None
        if found is not None:
            failures.append(f"{case.name}: {found}")
    assert not failures, "\n".join(failures)
    assert passed >= 1650


UNTYPED = (
    "test_affine_grid_2d_expanded", "test_affine_grid_2d_align_corners_expanded",
    "test_affine_grid_3d_expanded", "test_affine_grid_3d_align_corners_expanded",
    "test_loop13_seq", "test_loop16_seq_none", "test_scan_sum",
)  # fmt: skip
"""Cases of older forms that are no irkit graph: a rank that depends on data, sequences of several ranks, the Scan of
opset 8 with its batch axis."""


def test_node_cases_of_older_forms() -> None:
    """Cases of opsets up to the IR's that `irkit.load` has to bring to the IR's opset first."""
    new, failures, passed = {case.name for case in cases()}, [], 0
    for case in collect_testcases(None):
        if case.model is None or not case.data_sets:
            continue
        versions = {o.domain: o.version for o in case.model.opset_import}
        if case.name in new or case.name in UNTYPED or set(versions) != {""} or versions[""] > OPSET:
            continue
        inputs, outputs = case.data_sets[0]
        actual = evaluate(load(case.model), [data_of(x) for x in inputs])
        found = compare([data_of(y) for y in outputs], list(actual))
        passed += found is None
        if found is not None:
            failures.append(f"{case.name}: {found}")
    assert not failures, "\n".join(failures)
    assert passed >= 40


def test_node_cases_find_a_wrong_kernel() -> None:
    case = next(case for case in cases() if case.name == "test_gemm_all_attributes")
    assert of_case(case) is None
    assert of_case(case, {**KERNELS, "Gemm": scaled(KERNELS["Gemm"])}) is not None


def test_every_operator_has_a_kernel() -> None:
    """All of the default domain at the IR's opset, but those that have bodies and irkit's Constant."""
    known = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    at_opset = {op for op in known if is_defined(op)}
    assert at_opset - set(KERNELS) == {"Constant", "If", "Loop", "Scan", "SequenceMap"}
    assert set(KERNELS) <= at_opset


def is_defined(op: str) -> bool:
    """True where the operator is there, and not deprecated, at the IR's opset."""
    try:
        return not onnx.defs.get_schema(op, OPSET, "").deprecated
    except onnx.defs.SchemaError:
        return False


# ---------------------------------------------------------------------------------------------- element types


def one(op: str, *inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
    """The result of one operator on arrays."""
    params = [None if x is None else param(Tensor(DType.of(x.dtype), x.shape)) for x in inputs]
    operands = [x if i in SIZES.get(op, ()) else p for i, (x, p) in enumerate(zip(inputs, params, strict=True))]
    made = call(op, operands, attributes, outputs=outputs)
    used = [(p, x) for i, (p, x) in enumerate(zip(params, inputs, strict=True)) if operands[i] is p and p is not None]
    results = made if isinstance(made, tuple) else (made,)
    found = evaluate(Graph(tuple(p for p, _ in used), results), [x for _, x in used])
    return found if outputs else found[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_element_type_of_the_schema_has_a_result(name: str) -> None:
    """bfloat16, float8, int4, strings and all: the evaluator itself holds each result against its type."""
    op = name.partition(":")[0]

    @settings(max_examples=max(10, settings().max_examples // 5))
    @given(st.data())
    def computes(data: st.DataObject) -> None:
        sample = SAMPLES[name](Draw(data.draw, schema_dtypes))
        one(op, *sample.inputs, outputs=sample.outputs, **sample.attributes)

    computes()


@pytest.mark.parametrize("op", ["Exp", "Tanh", "Erf", "Sqrt", "Sigmoid", "Gelu", "Softmax", "Neg", "ReduceMean"])
@pytest.mark.parametrize("kind", [DType.FLOAT16, DType.BFLOAT16])
def test_narrow_floats_are_rounded_once(op: str, kind: DType, rng: np.random.Generator) -> None:
    x = rng.uniform(0, 4, (3, 5)).astype(kind.numpy)
    exact = one(op, x.astype(np.float32))
    found = one(op, x)
    assert found.dtype == kind.numpy
    assert np.array_equal(found, exact.astype(kind.numpy))


def test_integers_wrap_and_division_truncates() -> None:
    i8 = np.array([127, -128, -7, 7], np.int8)
    assert one("Add", i8, np.ones(4, np.int8)).tolist() == [-128, -127, -6, 8]
    assert one("Neg", i8).tolist() == [-127, -128, 7, -7]
    assert one("Div", i8, np.array([2, -1, 2, -2], np.int8)).tolist() == [63, -128, -3, -3]
    assert one("Mod", i8, np.array([5, 5, 3, -3], np.int8)).tolist() == [2, 2, 2, -2]
    assert one("Mod", i8, np.array([5, 5, 3, -3], np.int8), fmod=1).tolist() == [2, -3, -1, 1]
    assert one("Pow", np.array([2, -2, 1, -1]), np.array([63, 63, -5, -5])).tolist() == [-(2**63), -(2**63), 1, -1]


def test_reductions_of_nothing() -> None:
    x = np.zeros((0, 2), np.float32)
    axes = np.array([0])
    found = {op: one(f"Reduce{op}", x, axes, keepdims=0)[0] for op in ("Sum", "Prod", "Max", "Min", "LogSum")}
    assert found == {"Sum": 0, "Prod": 1, "Max": -np.inf, "Min": np.inf, "LogSum": -np.inf}
    assert one("ReduceMax", np.zeros((0,), np.int8), np.array([0]), keepdims=0) == -128
    assert one("ReduceMin", np.zeros((0,), np.bool_), np.array([0]), keepdims=0) == np.True_


@pytest.mark.parametrize(("start", "end", "step"), [(-9, -9, -1), (2, -9, -1), (9, 0, -2), (-2, 9, 1), (1, 1, 1)])
def test_slices_are_bounded_as_onnx_says(start: int, end: int, step: int) -> None:
    x = np.arange(3)
    operands = [np.array([v]) for v in (start, end, 0, step)]
    sample = Sample((x, *operands))
    assert differ("Slice", sample) is None


def test_float8_conversion_rounds_saturates_and_keeps_nan() -> None:
    x = np.array([1e9, -1e9, np.inf, np.nan, 1.0625, 0.0], np.float32)
    found = one("Cast", x, to=DType.FLOAT8E4M3FN).astype(np.float32)
    assert found[:3].tolist() == [448, -448, 448] and np.isnan(found[3]) and found[4:].tolist() == [1.0, 0.0]
    found = one("Cast", x, to=DType.FLOAT8E5M2, saturate=0).astype(np.float32)
    assert found[:3].tolist() == [np.inf, -np.inf, np.inf]


def test_bits_are_reinterpreted() -> None:
    assert one("BitCast", np.array([-1, 7], ml_dtypes.int4), to=DType.UINT4).astype(int).tolist() == [15, 7]
    assert one("BitCast", np.array([1.0], np.float32), to=DType.INT32).tolist() == [0x3F800000]


def test_signaling_values_reach_the_losses_only_where_they_count() -> None:
    """An ignored target's score may be anything: it takes no part, not as 0 * inf either."""
    x = np.array([[np.inf, 1.0], [0.5, 2.0]], np.float32)
    target = np.array([0, 1])
    assert one("NegativeLogLikelihoodLoss", x, target, ignore_index=0) == np.float32(-2.0)


# ---------------------------------------------------------------------------------------------- random draws


def test_random_draws_follow_the_seed_and_the_distribution() -> None:
    made = call("RandomNormal", [], {"shape": (20000,), "mean": 2.0, "scale": 3.0})
    graph = Graph((), (made,))
    (first,), (again,), (other,) = evaluate(graph, []), evaluate(graph, []), evaluate(graph, [], seed=1)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert abs(first.mean() - 2) < 0.1 and abs(first.std() - 3) < 0.1
    seeded = Graph((), (call("RandomUniform", [], {"shape": (5,), "seed": 4.0}),))
    assert np.array_equal(evaluate(seeded, [], seed=1)[0], evaluate(seeded, [], seed=2)[0])


def test_bernoulli_and_multinomial_draw_by_their_probabilities() -> None:
    share = one("Bernoulli", np.full(20000, 0.3, np.float32)).mean()
    assert abs(share - 0.3) < 0.02
    drawn = one("Multinomial", np.log(np.array([[0.2, 0.8]], np.float32)), sample_size=20000, dtype=7)
    assert drawn.shape == (1, 20000) and abs(drawn.mean() - 0.8) < 0.02


def test_dropout_keeps_the_mean_in_training() -> None:
    x = np.ones(20000, np.float32)
    y, mask = one("Dropout", x, np.array(0.25, np.float32), np.array(True), outputs=2)
    assert abs(y.mean() - 1) < 0.05 and np.array_equal(y != 0, mask)


@pytest.mark.parametrize("shape", [(3, 5, 64, 32), (40, 2048), (7,), (0, 2048), (1, 2048)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_running_sums_are_those_of_numpy_to_the_last_bit(shape: tuple[int, ...], dtype: type) -> None:
    """Also where they are taken plane by plane, along any axis."""
    made = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    for axis in range(made.ndim):
        value = np.moveaxis(made, axis, 0)
        for function, whole in ((np.add, np.cumsum), (np.multiply, np.cumprod)):
            with np.errstate(over="ignore", under="ignore"):
                found, expected = accumulated(function, value), whole(value, axis=0, dtype=dtype)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
