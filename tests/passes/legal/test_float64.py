"""float64 where ONNX Runtime has kernels for float32 only: what takes their place keeps the precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from irkit import dims
from irkit.build import const, op
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.sessions import session
from irkit.ops.schemas import spec
from passes.legal.float64.functions import DOUBLES, erfc
from passes.legal.float64.recurrent import ACTIVATIONS, USUAL
from passes.legal.legalize import legalize
from passes.legal.runtime.neighbours import DOUBLE_WINDOWS
from passes.targets import target_of

F = torch.nn.functional
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-300, -1e-20, 1e20, math.inf, -math.inf, math.nan]
REFERENCES: dict[str, Any] = {
    "Sinh": torch.sinh, "Cosh": torch.cosh, "Asinh": torch.asinh, "Acosh": torch.acosh, "Atanh": torch.atanh,
    "Tan": torch.tan, "Atan": torch.atan, "Asin": torch.asin, "Acos": torch.acos, "Erf": torch.erf,
    "Softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)), "Mish": F.mish, "HardSwish": F.hardswish,
    "Elu": F.elu, "Gelu": F.gelu,
}  # fmt: skip


def legalized(params: list[Value], results: list[Value], opset: int = 26) -> Graph:
    """The graph for ONNX Runtime, in which nothing is computed in float32."""
    legal = legalize(Graph(tuple(params), tuple(results)), target_of("onnxruntime-cpu", opset))
    assert not any("downcast" in str(v.origin.rules) for v in legal.order)
    return legal


def check(params: list[Value], root: Value, feeds: list[np.ndarray], opset: int = 26) -> None:
    """ONNX Runtime gives what the evaluator gives, in float64."""
    expected = evaluate(Graph(tuple(params), (root,)), feeds)
    got = tuple(session(legalized(params, [root], opset), opset=opset).run(feeds))
    difference = compare(expected, got, rtol=1e-11, atol=1e-11)
    assert difference is None, difference


@pytest.mark.parametrize("name", REFERENCES)
def test_functions_keep_their_digits(name: str) -> None:
    rng = np.random.default_rng(0)
    spread = [rng.uniform(-1, 1, 200), rng.normal(size=200) * 8, 10.0 ** rng.uniform(-15, 2, 100)]
    data = np.concatenate([*spread, -spread[2], np.array([v for v in SPECIAL if name != "Tan" or abs(v) < 1e5])])
    x = param(tensor("f64", len(data)))
    (got,) = session(legalized([x], [getattr(op, name)(x)])).run([data])
    expected = REFERENCES[name](torch.from_numpy(data)).numpy()
    # Eager itself cancels: 1 + erf(x) far to the left, x + 3 near -3.
    difference = compare(
        (expected,),
        (got,),
        rtol=1e-12 if name == "Tan" else 3e-14,
        atol=1e-14 if name in ("Gelu", "HardSwish") else 0.0,
    )
    assert difference is None, difference


def test_the_tail_of_the_error_function() -> None:
    data = np.concatenate([np.linspace(-6, 26, 500), np.array(SPECIAL)])
    x = param(tensor("f64", len(data)))
    (got,) = session(legalized([x], [erfc(x)])).run([data])
    expected = torch.special.erfc(torch.from_numpy(data)).numpy()
    assert compare((expected,), (got,), rtol=3e-13, atol=0) is None


OTHERS = {
    "InstanceNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MeanVarianceNormalization",
    *DOUBLE_WINDOWS,
}


@pytest.mark.parametrize("name", sorted(set(DOUBLES) - OTHERS))
@given(shape=st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3))
@settings(max_examples=5)
def test_functions_take_any_shape(name: str, shape: list[int]) -> None:
    if not shape and "axis" in spec(name).attributes:
        shape = [1]  # a scalar has no axis
    data = np.random.default_rng(1).uniform(0.1, 0.9, shape) + (1 if name == "Acosh" else 0)
    x = param(tensor("f64", *shape))
    check([x], getattr(op, name)(x), [np.asarray(data)])


def image(sizes: list[int], symbolic: bool) -> Value:
    """A parameter (n, c, *sizes), whose batch and sizes are symbols or numbers."""
    shape = ["n", sizes[1], *(f"s{i}" for i in range(len(sizes) - 2))] if symbolic else sizes
    return param(tensor("f64", *shape))


counts = st.sampled_from([0, 1, 2])
spans = st.sampled_from([1, 2, 3, 5])
Drawn = Any


@given(data=st.data(), rank=st.sampled_from([1, 2]), symbolic=st.booleans())
@settings(max_examples=40)
def test_convolutions(data: Drawn, rank: int, symbolic: bool) -> None:
    groups, each, outputs = data.draw(
        st.tuples(st.sampled_from([1, 2]), st.sampled_from([1, 2]), st.sampled_from([1, 3]))
    )
    kernel, strides, dilations = (
        data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=rank, max_size=rank)) for _ in range(3)
    )
    pads = data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=2 * rank, max_size=2 * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [data.draw(st.sampled_from([0, 1, 2]).map(lambda n, r=r: n + r)) for r in reach]
    rng = np.random.default_rng(0)
    x = image([data.draw(counts), groups * each, *sizes], symbolic)
    given_x = rng.normal(size=(data.draw(counts) if symbolic else int(x.shape[0]), groups * each, *sizes))
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    w = const(rng.normal(size=(groups * outputs, each, *kernel)))
    check([x], op.Conv(x, w, const(rng.normal(size=groups * outputs)), **attributes), [given_x])
    turned = const(rng.normal(size=(groups * each, outputs, *kernel)))
    attributes["pads"] = [min(p, k - 1) for p, k in zip(pads, kernel * 2, strict=True)]
    more = [data.draw(st.integers(0, s - 1)) for s in strides]
    check([x], op.ConvTranspose(x, turned, **attributes, output_padding=more), [given_x])


@given(data=st.data(), rank=st.sampled_from([1, 2, 3]), symbolic=st.booleans())
@settings(max_examples=30)
def test_average_pools(data: Drawn, rank: int, symbolic: bool) -> None:
    kernel, strides = (data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=rank, max_size=rank)) for _ in range(2))
    pads = [data.draw(st.integers(0, k // 2)) for k in kernel] * 2
    sizes = [k + data.draw(st.sampled_from([0, 1, 2])) for k in kernel]
    x = image([2, 3, *sizes], symbolic)
    root = op.AveragePool(
        x,
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        ceil_mode=data.draw(st.sampled_from([0, 1])),
        count_include_pad=data.draw(st.sampled_from([0, 1])),
    )
    check([x], root, [np.random.default_rng(0).normal(size=(2, 3, *sizes))])


@given(data=st.data(), rank=st.sampled_from([1, 2]), symbolic=st.booleans())
@settings(max_examples=20)
def test_columns_back_to_images(data: Drawn, rank: int, symbolic: bool) -> None:
    kernel, strides, dilations = (
        data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=rank, max_size=rank)) for _ in range(3)
    )
    pads = data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=2 * rank, max_size=2 * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [r + data.draw(st.sampled_from([0, 1, 3])) for r in reach]
    windows = [
        (n + pads[i] + pads[rank + i] - r) // s + 1
        for i, (n, r, s) in enumerate(zip(sizes, reach, strides, strict=True))
    ]
    batch = data.draw(counts)
    x = param(tensor("f64", "n" if symbolic else batch, 2 * math.prod(kernel), math.prod(windows)))
    root = op.Col2Im(
        x, const(np.array(sizes)), const(np.array(kernel)), strides=strides, dilations=dilations, pads=pads
    )
    check([x], root, [np.random.default_rng(0).normal(size=(batch, *map(int, x.shape[1:])))])


@given(data=st.data(), symbolic=st.booleans(), mode=st.sampled_from(["linear", "cubic", "antialias"]))
@settings(max_examples=30)
def test_other_sizes(data: Drawn, symbolic: bool, mode: str) -> None:
    sizes, wanted = (
        data.draw(st.lists(spans, min_size=2, max_size=2)),
        data.draw(st.lists(spans, min_size=2, max_size=2)),
    )
    way = (
        "half_pixel"
        if mode == "antialias"
        else data.draw(st.sampled_from(["half_pixel", "align_corners", "asymmetric"]))
    )
    x = image([1, 2, *sizes], symbolic)
    more: dict[str, Any] = {"antialias": 1, "exclude_outside": 1} if mode == "antialias" else {}
    more |= {"mode": "linear" if mode == "antialias" else mode, "coordinate_transformation_mode": way}
    if mode == "cubic":
        more["exclude_outside"] = data.draw(st.sampled_from([0, 1]))
    root = op.Resize(x, None, None, const(np.array(wanted)), axes=[2, 3], **more)
    check([x], root, [np.random.default_rng(0).normal(size=(1, 2, *sizes))])


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("way", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_the_nearest_element(rounding: str, way: str, symbolic: bool) -> None:
    data = np.random.default_rng(0).normal(size=(1, 2, 3, 5))
    x = image([1, 2, 3, 5], symbolic)
    more: dict[str, Any] = {"coordinate_transformation_mode": way, "nearest_mode": rounding}
    for sizes in ([6, 3], [2, 7], [1, 5]):
        check([x], op.Resize(x, None, None, const(np.array(sizes)), axes=[2, 3], **more), [data])
    region = const(np.zeros(0))
    check([x], op.Resize(x, region, const(np.array([2, 0.5], np.float32)), axes=[2, 3], **more), [data])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_regions_of_images(mode: str, symbolic: bool) -> None:
    """The region is an operand or a constant, reaches beyond the image, and is cut out by sizes or by scales."""
    data = np.random.default_rng(0).normal(size=(1, 2, 4, 5))
    x, region = image([1, 2, 4, 5], symbolic), param(tensor("f32", 4))
    more: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "axes": [2, 3]}
    corners = np.array([0.21, -0.13, 0.93, 1.2], np.float32)
    for sizes in ([7, 3], [1, 5]):
        root = op.Resize(x, region, None, const(np.array(sizes)), extrapolation_value=7.5, **more)
        check([x, region], root, [data, corners])
    check([x], op.Resize(x, const(corners), const(np.array([1.5, 0.5], np.float32)), **more), [data])


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("way", ["half_pixel", "half_pixel_symmetric", "asymmetric", "tf_crop_and_resize"])
def test_images_that_keep_their_ratio(policy: str, way: str) -> None:
    data = np.random.default_rng(0).normal(size=(1, 2, 4, 5))
    x, sizes = image([1, 2, 4, 5], False), const(np.array([7, 3]))
    more: dict[str, Any] = {"coordinate_transformation_mode": way, "keep_aspect_ratio_policy": policy, "mode": "cubic"}
    check([x], op.Resize(x, None, None, sizes, axes=[2, 3], **more), [data])
    scales = const(np.array([1.7, 0.8], np.float32))
    check([x], op.Resize(x, None, scales, axes=[2, 3], mode="linear", coordinate_transformation_mode=way), [data])


@pytest.mark.parametrize("symbolic", [False, True])
def test_norms_and_pools_over_all(symbolic: bool) -> None:
    x = image([2, 4, 3, 5], symbolic)
    feeds = [np.random.default_rng(0).normal(size=(2, 4, 3, 5)) + 1000]
    scale, bias = const(np.arange(1.0, 5.0)), const(np.arange(4.0))
    check([x], op.InstanceNormalization(x, scale, bias), feeds)
    check([x], op.GroupNormalization(x, scale, bias, num_groups=2), feeds)
    check([x], op.GlobalAveragePool(x), feeds)
    check([x], op.GlobalMaxPool(x), feeds)


@pytest.mark.parametrize("place", ["left", "turned", "result", "divided"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_factors_of_products_keep_their_digits(place: str, rank: int) -> None:
    """ONNX Runtime would merge the factor into the product, as float32."""
    x, y = param(tensor("f64", 3, 4)), param(tensor("f64", *[2, 4, 5][3 - rank :] if rank > 1 else [4]))
    scaled = op.Mul(x, 0.1)
    made = {
        "left": lambda: op.MatMul(scaled, y),
        "turned": lambda: op.MatMul(op.Transpose(op.Mul(op.Transpose(x, perm=(1, 0)), 0.1), perm=(1, 0)), y),
        "result": lambda: op.Mul(op.MatMul(x, y), 0.1),
        "divided": lambda: op.Div(op.MatMul(x, y), 0.3),
    }[place]()
    rng = np.random.default_rng(0)
    check([x, y], made, [rng.normal(size=tuple(v.shape)) for v in (x, y)])


@given(data=st.data(), symbolic=st.booleans(), name=st.sampled_from(["LSTM", "GRU", "RNN"]))
@settings(max_examples=25)
def test_recurrent_layers(data: Drawn, symbolic: bool, name: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    way = data.draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    d, hidden, features = 2 if way == "bidirectional" else 1, 3, 2
    t, b = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from([1, 2]))
    rng = np.random.default_rng(0)
    x = param(tensor("f64", "t" if symbolic else t, "b" if symbolic else b, features))
    w, r = (const(rng.normal(size=(d, gates * hidden, n))) for n in (features, hidden))
    bias = const(rng.normal(size=(d, 2 * gates * hidden))) if data.draw(st.booleans()) else None
    states = [
        param(tensor("f64", d, x.shape[1], hidden)) for _ in range((1 + (name == "LSTM")) * data.draw(st.booleans()))
    ]
    more: dict[str, Any] = {"linear_before_reset": data.draw(st.integers(0, 1))} if name == "GRU" else {}
    if data.draw(st.booleans()):
        drawn = [data.draw(st.sampled_from(sorted(ACTIVATIONS))) for _ in range(d * len(USUAL[name]))]
        more["activations"] = [each.title() if data.draw(st.booleans()) else each for each in drawn]
        for at, each in enumerate(("activation_alpha", "activation_beta")):
            if data.draw(st.booleans()):
                more[each] = [0.5 + 0.25 * i for i, n in enumerate(drawn) if len(ACTIVATIONS[n][1]) > at]
    if data.draw(st.booleans()):
        more["clip"] = 0.5
    if name == "LSTM" and data.draw(st.booleans()):
        more["input_forget"] = 1
    lengths = param(Tensor(DType.INT32, (x.shape[1],))) if data.draw(st.booleans()) else None
    outputs = data.draw(st.sampled_from([2, 3 if name == "LSTM" else 2]))
    last: list[Any] = [*states]
    if name == "LSTM" and data.draw(st.booleans()):  # peepholes
        last = [*(states or (None, None)), const(rng.normal(size=(d, 3 * hidden)))]
    made = getattr(op, name)(x, w, r, bias, lengths, *last, hidden_size=hidden, direction=way, outputs=outputs, **more)
    feeds: list[Any] = [rng.normal(size=(t, b, features)), *(rng.normal(size=(d, b, hidden)) for _ in states)]
    if lengths is not None:
        states.append(lengths)
        feeds.append(np.array([data.draw(st.integers(0, t)) for _ in range(b)], np.int32))
    for root in made:
        check([x, *states], root, feeds)


def test_what_has_no_other_way_is_noted() -> None:
    x = param(tensor("f64", 1, 1, 3, 3))
    sizes = const(np.array([1, 1, 2, 5]))
    root = op.Resize(x, None, None, sizes, mode="linear", antialias=1)  # elements outside counted in
    legal = legalize(Graph((x,), (root,)), target_of("onnxruntime-cpu"))
    assert [v.origin.rules for v in legal.order if v.op == "Resize"] == [("downcast[f64->f32]",)]


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 0, 3, 3), (2, 3, 0, 0)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_determinants(shape: tuple[int, ...], symbolic: bool) -> None:
    """Those of singular matrices, of permutations, and of what is not a number too."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"][: len(shape) - 2]
    x = param(tensor("f64", *names, "n", "n") if symbolic else tensor("f64", *shape))
    (run,) = (session(legalized([x], [op.Det(x)])).run,)
    size = shape[-1]
    kinds = [rng.normal(size=shape), np.broadcast_to(np.eye(size)[rng.permutation(size)], shape), np.ones(shape)]
    kinds += [np.triu(rng.normal(size=shape)), np.where(rng.random(shape) < 0.5, 0, rng.normal(size=shape))]
    for data in kinds:
        expected, (got,) = np.linalg.det(data), run([np.ascontiguousarray(data)])
        assert got.dtype == np.float64 and got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    if min(shape) > 1:
        (got,) = run([np.full(shape, np.nan)])
        assert np.isnan(got).all()
        (got,) = run([np.where(np.arange(size) == size - 1, np.nan, kinds[0])])
        assert np.isnan(got).all()


NEIGHBOURS: dict[str, Any] = {
    "Hardmax": lambda x: op.Hardmax(x), "Hardmax along 1": lambda x: op.Hardmax(x, axis=1),
    "LRN": lambda x: op.LRN(x, size=3), "LRN of 4": lambda x: op.LRN(x, size=4, alpha=0.3, beta=0.5, bias=2.0),
    "LRN of 1": lambda x: op.LRN(x, size=1), "LpPool": lambda x: op.LpPool(x, kernel_shape=(2, 2)),
    "LpPool 3": lambda x: op.LpPool(x, kernel_shape=(3, 2), p=3, strides=(2, 1), pads=(1, 0, 1, 1)),
    "LpPool up": lambda x: op.LpPool(x, kernel_shape=(2, 3), strides=(3, 2), dilations=(2, 1), ceil_mode=1),
    "MeanVarianceNormalization": lambda x: op.MeanVarianceNormalization(x),
    "MeanVarianceNormalization along 1": lambda x: op.MeanVarianceNormalization(x, axes=[1, -1]),
    "OneHot": lambda x: op.OneHot(op.Cast(x, to=DType.INT64), 3, np.array([1e-20, 0.1]), axis=1),
}  # fmt: skip


@pytest.mark.parametrize("symbolic", (False, True))
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_keep_their_digits(name: str, symbolic: bool) -> None:
    data = np.random.default_rng(0).normal(size=(2, 5, 6, 7))
    x = param(
        Tensor(DType.DOUBLE, (dims.symbol("n"), dims.symbol("c"), 6, 7)) if symbolic else tensor("f64", 2, 5, 6, 7)
    )
    check([x], NEIGHBOURS[name](x), [data])


@pytest.mark.parametrize("size", [1, 5, dims.symbol("n")])
def test_the_largest_element_of_a_vector(size: Any) -> None:
    x = param(Tensor(DType.DOUBLE, (size,)))
    data = np.random.default_rng(0).normal(size=size if type(size) is int else 3)
    check([x], op.Hardmax(x), [data])


def test_what_was_pooled_is_put_back() -> None:
    data = np.random.default_rng(0).normal(size=(2, 3, 4, 6))
    x = param(tensor("f64", 2, 3, 4, 6))
    values, places = op.MaxPool(x, kernel_shape=(2, 2), strides=(2, 2), outputs=2)
    check([x], op.MaxUnpool(values, places, kernel_shape=(2, 2), strides=(2, 2)), [data])


@pytest.mark.parametrize("axis", [0, 1, -1])
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([*SPECIAL[:6], math.inf, -math.inf, math.nan, 700.0, -700.0]), min_size=12, max_size=12)
)
def test_logarithms_of_shares(axis: int, numbers: list[float]) -> None:
    """NaN in a row with NaN or inf, or of -inf alone, as in torch."""
    data, x = np.array(numbers).reshape(3, 4), param(tensor("f64", 3, 4))
    (got,) = session(legalized([x], [op.LogSoftmax(x, axis=axis)])).run([data])
    difference = compare(torch.log_softmax(torch.from_numpy(data), axis).numpy(), got, rtol=1e-12, atol=1e-12)
    assert difference is None, difference
