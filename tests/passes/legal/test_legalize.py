"""Legalization against ONNX Runtime: what is legalized loads, and gives what the evaluator gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, Type, tensor
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.sessions import session
from irkit.testing import typed_graphs
from irkit.verification.laws import verify
from passes import optimize
from passes.legal.legalize import legalize, newest_for, problems
from passes.legal.runtime.int64 import is_confused
from passes.targets import Target, target_of
from tests.support.node_cases import Case, built, cases, fed

OPSETS = (13, 15, 17, 18, 20, 21, 23, 26)
SIZES: dict[str, Any] = {"b": 2, "s": 3, "t": 5}


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def feed(v: Value, rng: np.random.Generator) -> np.ndarray:
    shape: tuple[int, ...] = tuple(d if isinstance(d, int) else SIZES[str(d)] for d in v.shape)
    if v.dtype is DType.BOOL:
        return rng.random(shape) < 0.6
    if v.dtype.is_integer:
        return rng.integers(0, 4, shape).astype(v.dtype.numpy)
    return rng.normal(size=shape).astype(v.dtype.numpy)


def check_runs(params: Sequence[Value], results: Sequence[Value], opset: int, loose: bool = False) -> Graph:
    """The legalized graph, after ONNX Runtime gave for it what the evaluator gives for the graph."""
    graph = Graph(tuple(params), tuple(results))
    target = target_of("onnxruntime-cpu", opset)
    legal = legalize(graph, target)
    verify_if_current(legal)
    assert not list(problems(legal, target))
    assert legalize(legal, target) is legal
    rng = np.random.default_rng(0)
    feeds = [feed(p, rng) for p in params]
    expected = evaluate(graph, feeds)
    got = tuple(session(legal, opset=opset).run(feeds))
    difference = compare(expected, got, rtol=1e-4, atol=1e-5) if loose else compare(expected, got)
    assert difference is None, difference
    return legal


def verify_if_current(graph: Graph) -> None:
    """Laws hold for what is still in the IR's own words: a restated operator is in those of an older opset."""
    if not any(v.op in ("DFT", "GridSample") for v in graph.order):
        verify(graph)


def ops(graph: Graph) -> list[str]:
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


# ---------------------------------------------------------------------------------------------- opsets


def attention(**more: Any) -> tuple[list[Value], list[Value]]:
    q, k, v = value("b", 4, "s", 8), value("b", 2, "t", 8), value("b", 2, "t", 6)
    return [q, k, v], [op.Attention(q, k, v, **more)]


def masked_attention() -> tuple[list[Value], list[Value]]:
    q, k, v = value("b", 4, "s", 8), value("b", 4, "t", 8), value("b", 4, "t", 8)
    mask = value("b", 1, "s", "t", dtype="bool")
    return [q, k, v, mask], [op.Attention(q, k, v, mask, scale=0.3)]


def joined_attention() -> tuple[list[Value], list[Value]]:
    q, k, v = value("b", "s", 32), value("b", "t", 16), value("b", "t", 16)
    return [q, k, v], [op.Attention(q, k, v, q_num_heads=4, kv_num_heads=2, is_causal=1)]


def cached_attention() -> tuple[list[Value], list[Value]]:
    q, k, v = (value("b", 2, "s", 8) for _ in range(3))
    past = [value("b", 2, "t", 8) for _ in range(2)]
    return [q, k, v, *past], list(op.Attention(q, k, v, None, *past, outputs=3))


def rotary(rank: int) -> tuple[list[Value], list[Value]]:
    x, table = value("b", 4, "s", 8) if rank == 4 else value("b", "s", 32), value("b", "s", 4)
    more = {} if rank == 4 else {"num_heads": 4}
    return [x, table], [op.RotaryEmbedding(x, table, table, **more)]


def unary(name: str, **more: Any) -> tuple[list[Value], list[Value]]:
    x = value("b", 3, "s")
    return [x], [getattr(op, name)(x, **more)]


def scaled(name: str, **more: Any) -> tuple[list[Value], list[Value]]:
    x, scale = value("b", 6, "s", "t"), value(6)
    return [x, scale], [getattr(op, name)(x, scale, scale, **more)]


def rms() -> tuple[list[Value], list[Value]]:
    x, scale = value("b", "s", 8), value(8)
    return [x, scale], [op.RMSNormalization(x, scale, epsilon=1e-6)]


def scatter(**more: Any) -> tuple[list[Value], list[Value]]:
    past, update, at = value("b", 2, 9, 4), value("b", 2, 3, 4), value("b", dtype="i64")
    return [past, update, at], [op.TensorScatter(past, update, at, **more)]


def grid(rank: int, mode: str) -> tuple[list[Value], list[Value]]:
    x, places = value("b", 2, *(4,) * (rank - 2)), value("b", *(3,) * (rank - 2), rank - 2)
    return [x, places], [op.GridSample(x, places, mode=mode)]


def cumulated(**more: Any) -> tuple[list[Value], list[Value]]:
    x = value("b", "s")
    return [x], [op.CumProd(x, np.array(1), **more)]


def binary(name: str, kind: str) -> tuple[list[Value], list[Value]]:
    x, y = value("b", "s", dtype=kind), value("s", dtype=kind)
    return [x, y], [getattr(op, name)(x, y)]


def scattered(name: str, reduction: str) -> tuple[list[Value], list[Value]]:
    data, update = value("b", 6), value("b", 4)
    at = const(np.array([[0, 1, 1, 5], [2, 2, 2, -1]]))
    if name == "ScatterElements":
        return [data, update], [op.ScatterElements(data, op.Expand(at, [2, 4]), update, axis=1, reduction=reduction)]
    rows = value("t", 6)
    return [data, rows], [op.ScatterND(data, np.array([[0], [1], [1], [0], [1]]), rows, reduction=reduction)]


def trained() -> tuple[list[Value], list[Value]]:
    x, scale, mean = value("b", 3, "s"), value(3), value(3)
    variance = op.Abs(scale)
    return [x, scale, mean], list(op.BatchNormalization(x, scale, mean, mean, variance, training_mode=1, outputs=3))


def quantized(kind: str, **more: Any) -> tuple[list[Value], list[Value]]:
    x, scale = value("b", 4, "s"), const(np.array([0.5, 0.25, 0.125, 2], np.float32))
    zero = const(np.array([1, 2, 3, 4], dtype=kind))
    made = op.QuantizeLinear(x, scale, zero, axis=1, **more)
    return [x], [made, op.DequantizeLinear(made, scale, zero, axis=1)]


def transformed(**more: Any) -> tuple[list[Value], list[Value]]:
    x = value("b", 12, 1)
    return [x], [
        op.STFT(x, 3, const(np.hanning(6).astype(np.float32)), 6, **more),
        op.DFT(x, None, np.array(1), **more),
    ]


def waves() -> tuple[list[Value], list[Value]]:
    """Transforms of which no length is a number."""
    x, y = value("b", "t", 2), value("t", 3, 1)
    t = x.shape[1]
    lengths = [op.Squeeze(shape_vector((d,)), [0]) for d in (dims.floordiv(t, 2), dims.add(t, 3))]
    results = [op.DFT(x, length, np.array(1), inverse=i) for length in (None, *lengths) for i in (0, 1)]
    results += [op.DFT(y, length, np.array(0), onesided=1) for length in (None, *lengths)]
    results += [op.DFT(x, length, np.array(1), inverse=1, onesided=1) for length in lengths]
    return [x, y], [*results, op.DFT(x, np.array(5), np.array(1))]


def deformed() -> tuple[list[Value], list[Value]]:
    x, weight, offset, mask = value("b", 4, 6, 5), value(6, 2, 3, 2), value("b", 24, 3, 3), value("b", 12, 3, 3)
    made = op.DeformConv(
        x,
        weight,
        offset,
        np.ones(6, np.float32),
        mask,
        group=2,
        offset_group=2,
        strides=(2, 2),
        pads=(1, 1, 1, 1),
        dilations=(1, 1),
    )
    return [x, weight, offset, mask], [made]


def columns() -> tuple[list[Value], list[Value]]:
    x = value("b", 8, 9)
    return [x], [op.Col2Im(x, [4, 4], [2, 2])]


OLD: dict[str, Callable[[], tuple[list[Value], list[Value]]]] = {
    "trilu": lambda: ([x := value("b", "s", "t")], [op.Trilu(x, 1), op.Trilu(x, -1, upper=0)]),
    "trilu of bool": lambda: ([x := value("s", "t", dtype="bool")], [op.Trilu(x)]),
    "relu of integers": lambda: ([x := value("b", dtype="i32")], [op.Relu(op.Sub(x, 2))]),
    **{f"{name} {kind}": lambda name=name, kind=kind: binary(name, kind)
       for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for kind in ("i8", "u8", "i64", "u64", "u32")},
    "not": lambda: ([x := value("b", dtype="u16"), y := value("b", dtype="i64")], [op.BitwiseNot(x), op.BitwiseNot(y)]),
    **{f"{name} {how}": lambda name=name, how=how: scattered(name, how)
       for name in ("ScatterND", "ScatterElements") for how in ("add", "mul", "max", "min")},
    "training": trained, "quantized": lambda: quantized("int8"), "quantized to 16 bits": lambda: quantized("uint16"),
    "fourier": transformed, "half of fourier": lambda: transformed(onesided=1), "waves": waves,
    "columns": columns, "bits": lambda: ([x := value("b", dtype="i64"), y := value("s", dtype="u8")], [
        op.BitCast(op.Sub(x, 2), to=13), op.BitCast(op.Sub(y, np.uint8(2)), to=3)]),
    "pad some": lambda: ([x := value("b", "s", "t")], [op.Pad(x, [1, 2], 5.0, [-1])]),
    "uneven split": lambda: ([x := value("b", "s")], list(op.Split(x, None, axis=1, num_outputs=2, outputs=2))),
    "part of a shape": lambda: ([x := value("b", "s", "t")], [op.Add(op.Shape(x, start=1, end=-1), 1)]),
    "over no axes": lambda: ([x := value("b", "s")], [op.ReduceL1(x, None, noop_with_empty_axes=1)]),
    "reduced": lambda: ([x := value("b", "s")], [op.ReduceMax(x, [-1], keepdims=0), op.ReduceLogSumExp(x, [0])]),
    "dilated pools": lambda: ([x := value("b", 2, 7, 7)], [
        op.AveragePool(x, kernel_shape=(2, 2), dilations=(2, 2)), op.LpPool(x, kernel_shape=(3, 3), dilations=(2, 1))]),
    "resized some": lambda: ([x := value("b", "s", 4)], [
        op.Resize(x, None, None, [8], axes=[2], mode="linear"),
        op.Resize(x, None, None, [2], axes=[2], mode="linear", antialias=1)]),
    "deformed": deformed, "space": lambda: grid(5, "linear"), "nearest space": lambda: grid(5, "nearest"),
    "nearest grid": lambda: grid(4, "nearest"),
    "reflected grid": lambda: (given := grid(4, "linear")[0], [
        op.GridSample(*given, padding_mode="reflection"),
        op.GridSample(*given, padding_mode="border", align_corners=1)]),
}  # fmt: skip


NEW: dict[str, Callable[[], tuple[list[Value], list[Value]]]] = {
    "attention": attention, "causal attention": lambda: attention(is_causal=1),
    "capped": lambda: attention(softcap=2.0),
    "masked attention": masked_attention, "joined attention": joined_attention, "cached attention": cached_attention,
    "rotary": lambda: rotary(4), "joined rotary": lambda: rotary(3), "rms norm": rms,
    "group norm": lambda: scaled("GroupNormalization", num_groups=3), "gelu": lambda: unary("Gelu"),
    "tanh gelu": lambda: unary("Gelu", approximate="tanh"), "swish": lambda: unary("Swish", alpha=1.7),
    "mish": lambda: unary("Mish"), "hard swish": lambda: unary("HardSwish"), "scatter": scatter,
    "circular scatter": lambda: scatter(mode="circular"), "grid": lambda: grid(4, "linear"),
    "cubic grid": lambda: grid(4, "cubic"), "product": cumulated, "reverse product": lambda: cumulated(reverse=1),
    "exclusive product": lambda: cumulated(exclusive=1),
    "wrap": lambda: ([x := value("b", "s")], [op.Pad(x, np.array([1, 0, 0, 2]), mode="wrap")]),
    "dft": lambda: ([x := value("b", 6, 1)], [op.DFT(x, None, np.array(1), onesided=1)]),
    "any": lambda: ([x := value("b", "s", dtype="bool")], [op.ReduceMax(x, [1])]),
    "affine": lambda: ([x := value(2, 2, 3)], [op.AffineGrid(x, np.array([2, 3, 4, 5]))]),
    "cast like": lambda: ([x := value("b"), y := value(2, dtype="f64")], [op.CastLike(x, y)]),
    "infinite": lambda: ([x := value("b", dtype="f16")], [op.IsInf(x)]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "opset"), [(n, o) for n in NEW for o in OPSETS])
def test_what_is_new_runs_at_every_opset(name: str, opset: int) -> None:
    check_runs(*NEW[name](), opset)


@pytest.mark.parametrize(("name", "opset"), [(n, o) for n in OLD for o in (13, 15, 17, 18)])
def test_what_is_older_runs_at_every_opset(name: str, opset: int) -> None:
    check_runs(*OLD[name](), opset)


def test_rows_that_are_masked_throughout_attend_to_nothing() -> None:
    q, mask = value(1, 1, 2, 4), value(2, 2, dtype="bool")
    g = Graph((q, mask), (op.Attention(q, q, q, mask),))
    feeds = [np.ones((1, 1, 2, 4), np.float32), np.array([[False, False], [True, True]])]
    (found,) = session(legalize(g, target_of("onnxruntime-cpu", 20)), opset=20).run(feeds)
    assert np.array_equal(found[0, 0], [[0, 0, 0, 0], [1, 1, 1, 1]])


@pytest.mark.parametrize("how", ["constant", "sizes", "computed"])
def test_pads_of_some_axes_become_pads_of_all(how: str) -> None:
    """ONNX Runtime's optimizer takes a Transpose through a Pad as if its pads were for all axes."""
    x, more = value("b", "s", 3), value(2, dtype="i64")
    pads = {"constant": [1, 5], "sizes": shape_vector((0, dims.symbol("s")), x), "computed": more}[how]
    padded = op.Relu(op.Pad(op.Transpose(x, perm=[0, 2, 1]), pads, None, [2]))
    graph = Graph((x, more), (op.Transpose(padded, perm=[0, 2, 1]), more))
    feeds = [np.ones((2, 5, 3), np.float32), np.array([0, 5])]
    found, _ = session(legalize(graph, Target()), opset=Target().opset).run(feeds)
    assert np.array_equal(found[:, :, 0].sum(1), [5, 5]) and found.shape == (2, 11 if how == "constant" else 10, 3)


@pytest.mark.parametrize("how", ["scales", "sizes", "computed"])
def test_images_with_channels_last_are_resized(how: str) -> None:
    """ONNX Runtime's optimizer takes a Transpose through a Resize as if its sizes were those of all axes."""
    x, sizes = value("b", "h", 5, 3), value(2, dtype="i64")
    given: Any = {"scales": np.array([2, 3], np.float32), "sizes": np.array([8, 15]), "computed": sizes}[how]
    operands = (given,) if how == "scales" else (None, given)
    resized = op.Resize(op.Transpose(op.Relu(x), perm=[0, 3, 1, 2]), None, *operands, axes=[2, 3], mode="linear")
    graph = Graph((x, sizes), (op.Relu(op.Transpose(resized, perm=[0, 2, 3, 1])), sizes))
    feeds = [np.random.default_rng(0).random((2, 4, 5, 3), np.float32), np.array([8, 15])]
    found = session(legalize(graph, Target()), opset=Target().opset).run(feeds)
    assert compare(evaluate(graph, feeds), tuple(found)) is None


def test_an_opset_is_honoured_or_refused() -> None:
    x = value("b", 3)
    assert ops(legalize(Graph((x,), (op.Gelu(x),)), target_of("onnx", 19))) == ["Mul", "Div", "Erf", "Add", "Mul"]
    assert ops(legalize(Graph((x,), (op.Gelu(x),)), target_of("onnx", 20))) == ["Gelu"]
    with pytest.raises(RewriteError, match="13 to 26"):
        target_of("onnxruntime-cpu", 12)
    with pytest.raises(RewriteError, match="no target"):
        target_of("onnxruntim")
    places = op.BitCast(x, to=6)
    with pytest.raises(RewriteError, match="BitCast") as error:
        legalize(Graph((x,), (places, op.StringConcat(const("a"), const("b")))), target_of("onnxruntime-cpu", 18))
    assert "ask for opset 26" in str(error.value) and "opset 18 has no BitCast" in str(error.value)


def test_kernels_that_end_make_for_an_older_opset() -> None:
    x, boxes, batches = value(1, 2, 8, 8), value("b", 4), value("b", dtype="i64")
    g = Graph((x, boxes, batches), (op.RoiAlign(x, boxes, batches), op.Gelu(x)))
    with pytest.raises(RewriteError, match="RoiAlign") as error:
        legalize(g, Target())
    assert "ask for opset 21" in str(error.value)
    chosen = newest_for(g, Target())
    assert chosen.opset == 21
    legalize(g, chosen)
    assert newest_for(Graph((x,), (op.Gelu(x),)), Target()) == Target()


# ---------------------------------------------------------------------------------------------- element types

INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
FLOATS = ("bf16", "f16", "f32", "f64")
ARITHMETIC = ("Add", "Sub", "Mul", "Max", "Min", "Where", "Equal", "Less", "Mod", "MatMul", "Pow")
SINGLE = ("Abs", "Neg", "Sign", "Relu", "Transpose", "NonZero", "ArgMax", "ReduceSum", "ReduceMax", "CumSum", "Tile",
          "Pad", "Trilu", "TopK", "Clip", "Expand")  # fmt: skip
SMOOTH = ("Exp", "Tanh", "Sigmoid", "Erf", "Softmax", "LayerNormalization", "Gelu", "Softplus", "Elu", "Round",
          "ReduceMean", "Attention", "Conv", "Gemm", "Swish")  # fmt: skip


def applied(name: str, x: Value, y: Value) -> Any:
    """One operator of one or two 3 x 3 matrices."""
    special: dict[str, Callable[[], Any]] = {
        "Where": lambda: op.Where(op.Equal(x, y), x, y), "CumSum": lambda: op.CumSum(x, np.array(0)),
        "Tile": lambda: op.Tile(x, [1, 2]), "Pad": lambda: op.Pad(x, [1, 0, 0, 1]),
        "TopK": lambda: op.TopK(x, [2])[0], "Clip": lambda: op.Clip(x, const(np.array(1).astype(x.dtype.numpy))),
        "Expand": lambda: op.Expand(x, [2, 3, 3]), "Attention": lambda: op.Attention(*[op.Unsqueeze(x, [0, 1])] * 3),
        "Conv": lambda: op.Conv(op.Unsqueeze(x, [0, 1]), op.Unsqueeze(y, [0, 1])),
        "LayerNormalization": lambda: op.LayerNormalization(x, op.Squeeze(op.Slice(y, [0], [1]), [0])),
    }  # fmt: skip
    make = special.get(name)
    binary = name in ARITHMETIC or name == "Gemm"
    return make() if make else getattr(op, name)(x, y) if binary else getattr(op, name)(x)


def combinations() -> list[tuple[str, str]]:
    found = [(name, kind) for name in ARITHMETIC + SINGLE for kind in (*INTEGERS, *FLOATS, "bool")]
    found += [(name, kind) for name in SMOOTH for kind in FLOATS]
    return [(name, kind) for name, kind in found if allowed(name, kind)]


def allowed(name: str, kind: str) -> bool:
    """Whether ONNX has the operator for that element type."""
    try:
        applied(name, value(3, 3, dtype=kind), value(3, 3, dtype=kind))
    except TypeError:
        return False
    return (name, kind) not in tuple((n, "u64") for n in ("TopK", "ArgMax", "Pow", "Mod", "ReduceMax"))


@pytest.mark.parametrize(("name", "kind"), combinations())
def test_every_element_type_runs(name: str, kind: str) -> None:
    x, y = value(3, 3, dtype=kind), value(3, 3, dtype=kind)
    root = applied(name, x, op.Add(y, const(np.array(1).astype(y.dtype.numpy))) if name == "Mod" else y)
    check_runs([x, y], [root], 26, loose=kind == "f64")
    if name in ("Add", "Where", "Exp", "Gelu", "ReduceMax"):
        check_runs([x, y], [root], 18, loose=kind == "f64")


def test_upcasts_are_noted_on_the_operator() -> None:
    x = value(3, dtype="bf16")
    legal = legalize(Graph((x,), (op.Exp(x),)), Target())
    assert ops(legal) == ["Cast", "Exp", "Cast"]
    assert [v.origin.rules for v in legal.order if v.op == "Exp"] == [("upcast[bf16->f32]",)]
    narrow = value(1, 1, 3, 3, dtype="f64")
    smoothed = op.Resize(narrow, None, None, [1, 1, 2, 2], mode="linear", antialias=1)
    legal = legalize(Graph((narrow,), (smoothed,)), Target())
    assert [v.origin.rules for v in legal.order if v.op == "Resize"] == [("downcast[f64->f32]",)]


def test_integers_wrap_as_they_did() -> None:
    x = value(4, dtype="i8")
    g = Graph((x,), (op.Where(op.Equal(x, x), op.Mul(x, x), x), op.Relu(x), op.CumSum(op.Cast(x, to=12), np.array(0))))
    feeds = [np.array([-128, 100, 127, -3], np.int8)]
    got = session(legalize(g, Target())).run(feeds)
    assert compare(evaluate(g, feeds), tuple(got)) is None


# ---------------------------------------------------------------------------------------------- whole graphs


def test_the_same_graph_comes_back_where_all_runs() -> None:
    x = value("b", 3)
    g = Graph((x,), (op.Relu(x),))
    assert legalize(g, Target()) is g


def test_bodies_are_legalized() -> None:
    x, condition = value(3), value(dtype="bool")
    (r,) = op.If(condition, then_branch=lambda: op.Swish(x), else_branch=lambda: op.Relu(x))
    check_runs([x, condition], [r], 20)


SAMPLE = [case for index, case in enumerate(cases()) if index % 23 == 0]
LEFT_OUT = (
    "sequence", "optional", "string", "strnorm", "image", "bernoulli", "dropout", "FLOAT8", "FLOAT4", "INT4", "INT2",
    "e4m3", "e5m2", "float4", "bitcast", "resize_downsample", "convinteger", "maxunpool", "int2", "int4", "uint4",
    "uint2", "if_seq", "if_opt", "loop16", "roialign", "identity_opt", "padded_kv", "deform", "dilations",
    "half_pixel_symmetric", "regex", "top_k_uint64", "blocked", "qk_matmul", "multinomial", "random",
)  # fmt: skip


def takes_and_gives_tensors(case: Case) -> bool:
    """Whether a case has inputs that are tensors and results that are: others are no business of these sessions."""
    params: list[Type] = []
    results = [v for v in built(case, lambda name, type_: (params.append(type_), param(type_))[1]) if v is not None]
    return bool(params) and all(isinstance(t, Tensor) for t in (*params, *(v.type for v in results)))


NODE_CASES = [c for c in SAMPLE if not any(w in c.name for w in LEFT_OUT) and takes_and_gives_tensors(c)]


@pytest.mark.parametrize("case", NODE_CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("opset", [18, 26])
def test_node_cases_run(case: Case, opset: int) -> None:
    params: list[Value] = []

    def make(name: str, type_: Any) -> Value:
        params.append(param(type_))
        return params[-1]

    results = [v for v in built(case, make) if v is not None]
    graph = Graph(tuple(params), tuple(results))
    arrays = [a for a, used in zip(case.inputs, used_inputs(case), strict=True) if used]
    legal = legalize(optimize(graph), target_of("onnxruntime-cpu", opset))
    got = session(legal, opset=opset).run(arrays)
    wide = any(np.asarray(a).dtype.itemsize == 2 for a in case.outputs)
    difference = compare(tuple(case.outputs), tuple(got), rtol=2e-2 if wide else 1e-3, atol=1e-2 if wide else 1e-4)
    assert difference is None, difference


def used_inputs(case: Case) -> list[bool]:
    """Which inputs of a case are parameters of the graph that `built` makes."""
    taken: list[str] = []
    built(case, lambda name, type_: (taken.append(name), param(type_))[1])
    return [info.name in taken for info in fed(case.model.graph)]


@given(typed_graphs(max_ops=5, bodies=False))
def test_random_graphs_are_legalized_or_refused_by_name(graph: Graph) -> None:
    for opset in (18, 26):
        target = target_of("onnxruntime-cpu", opset)
        try:
            legal = legalize(graph, target)
        except RewriteError as error:
            assert "cannot run at" in str(error)
            continue
        assert not list(problems(legal, target))
        verify_if_current(legal)


def test_sizes_and_narrow_numbers_are_compared_as_they_are() -> None:
    """Only 64-bit integers of which nothing is known are compared by operators that ONNX Runtime gets right."""
    x, narrow, wide = value("b", 7), value(7, dtype="i32"), value(7, dtype="i64")
    small = op.Max(op.Squeeze(shape_vector(("b",)), [0]), op.Add(op.ArgMax(x, axis=1, keepdims=0), 3))
    flags = op.Min(op.Cast(op.Greater(x, 0.0), to=int(DType.INT64)), op.Cast(narrow, to=int(DType.INT64)))
    assert not any(map(is_confused, (small, flags, op.Max(narrow, 3), op.Clip(x, 0.0, 1.0))))
    assert is_confused(op.Max(wide, 3)) and is_confused(op.ReduceMin(wide, [0]))
    for made in (op.Max(wide, 3), op.ReduceMin(wide, [0], keepdims=0), op.Sign(wide), op.Clip(wide, 1, 2)):
        assert check_runs([wide], [made], 26).results[0].op != made.op


def test_a_target_is_given_by_name_too() -> None:
    x = param(tensor("f32", 2))
    graph = Graph((x,), (op.Gelu(x),))
    assert legalize(graph, "onnx") is graph == legalize(graph, target_of("onnx"))
    with pytest.raises(RewriteError, match="there is no target 'onnxruntime-gpuu'"):
        legalize(graph, "onnxruntime-gpuu")
