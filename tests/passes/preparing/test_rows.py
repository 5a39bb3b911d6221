"""Linear layers on rows: the numbers stay, nodes do not grow, and weights are written as they are held."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.checking.comparison import compare
from irkit.core.blobs import Blob, beside, blob, joined_blob
from irkit.core.ir import Graph, Value, constant, param
from irkit.core.types import DType, Tensor, tensor
from irkit.doors.to_onnx import save
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.writing.materialize import materialize_dims
from irkit.onnx.writing.models import to_proto
from irkit.onnx.writing.tensors import chunks
from irkit.verification.laws import verify
from passes import optimize, prepare
from passes.legal.legalize import legalize
from passes.preparing.linear_rows import Region, joined_name, rows
from passes.preparing.steer import steer
from passes.rules.constants import transposed_constant
from passes.targets import target_of

CPU = target_of("onnxruntime-cpu")
WIDTH = 4


def weight(rng: np.random.Generator, held: tuple[int, ...], name: str) -> Value:
    """A weight that is held as [out, in] and seen as [in, out]."""
    return transposed_constant(const(rng.standard_normal(held).astype(np.float32), name=name))


def linear(rng: np.random.Generator, x: Value, name: str, *, width: int = WIDTH, bias: bool = True) -> Value:
    made = op.MatMul(x, weight(rng, (width, x.shape[-1]), f"{name}.weight"))
    return op.Add(made, const(rng.standard_normal(width).astype(np.float32), name=f"{name}.bias")) if bias else made


def norm(rng: np.random.Generator, x: Value) -> Value:
    return op.LayerNormalization(x, *(const(rng.standard_normal(x.shape[-1]).astype(np.float32)) for _ in range(2)))


def encoder(rng: np.random.Generator, x: Value, index: int, *, first: bool) -> Value:
    """A layer of a transformer that norms first, or last."""
    given = norm(rng, x) if first else x
    q, k, v = (linear(rng, given, f"layer.{index}.self.{n}_proj", width=8) for n in "qkv")
    found = op.Attention(q, k, v, q_num_heads=2, kv_num_heads=2)
    found = op.Add(linear(rng, found, f"layer.{index}.out"), x)
    x = found if first else norm(rng, found)
    given = norm(rng, x) if first else x
    found = linear(rng, op.Gelu(linear(rng, given, f"layer.{index}.up", width=12)), f"layer.{index}.down")
    return op.Add(found, x) if first else norm(rng, op.Add(found, x))


def transformer(*, first: bool, shape: tuple[Any, ...] = ("batch", "seq", WIDTH), layers: int = 2) -> Graph:
    rng = np.random.default_rng(0)
    x = param(tensor("f32", *shape))
    y = op.Add(x, 1.0)
    for index in range(layers):
        y = encoder(rng, y, index, first=first)
    return Graph((x,), (y,))


def ready(graph: Graph) -> Graph:
    return steer(legalize(graph, CPU), CPU)


def count(graph: Graph) -> Counter[str]:
    hidden = ("Param", "Constant", "Item")
    return Counter(v.op for v in materialize_dims(graph).order if v.op not in hidden)


def run(graph: Graph, *arrays: np.ndarray) -> list[Any]:
    import onnxruntime

    data = to_proto(materialize_dims(graph)).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return list(session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)}))


def feeds(graph: Graph, sizes: dict[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = [[dims.evaluate(d, sizes) for d in p.shape] for p in graph.params]
    return [rng.standard_normal(shape).astype(p.dtype.numpy) for p, shape in zip(graph.params, shapes, strict=True)]


def assert_same(before: Graph, after: Graph, sizes: dict[str, int], *, on_runtime: bool = True) -> None:
    """The evaluator agrees with itself, and ONNX Runtime with it: dtype, shape and values."""
    arrays = feeds(before, sizes)
    expected = evaluate(before, arrays)
    found = [evaluate(after, arrays), evaluate(materialize_dims(after), arrays)]
    for actual in [*found, run(after, *arrays)] if on_runtime else found:
        for one, other in zip(expected, actual, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert compare(one, other, rtol=1e-4, atol=1e-5) is None


# ---------------------------------------------------------------------------------------------- whole layers


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shape", [("batch", "seq", WIDTH), ("batch", 5, WIDTH), (2, 5, WIDTH)])
def test_a_transformer_goes_to_rows_with_fewer_nodes(first: bool, shape: tuple[Any, ...]) -> None:
    before = ready(transformer(first=first, shape=shape))
    after = verify(rows(before, CPU))
    found = count(after)
    assert found.total() < count(before).total()
    assert found["MatMul"] == 0 and found["Gemm"] == 8 and found["Split"] == 2
    # where rows begin, where they end, into and out of each attention; and the dimensions of two widths
    assert found["Reshape"] == 2 + 2 * 2
    assert found["Concat"] <= 2
    for sizes in ({"batch": 2, "seq": 5}, {"batch": 1, "seq": 1}):
        assert_same(before, after, sizes)


def test_no_batch_at_all() -> None:
    rng = np.random.default_rng(0)
    x = param(tensor("f32", "batch", "seq", WIDTH))
    inner = op.Add(op.Relu(linear(rng, x, "a", width=6)), linear(rng, x, "b", width=6))
    before = Graph((x,), (norm(rng, linear(rng, op.Tanh(inner), "c")),))
    after = rows(before, CPU)
    assert count(after)["Gemm"] == 3
    for sizes in ({"batch": 0, "seq": 3}, {"batch": 2, "seq": 0}, {"batch": 0, "seq": 0}, {"batch": 1, "seq": 1}):
        assert_same(before, after, sizes)


def test_done_once_and_the_very_same_object_after_that() -> None:
    after = rows(ready(transformer(first=False)), CPU)
    assert rows(after, CPU) is after


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cuda"])
def test_other_targets_are_left_alone(target: str) -> None:
    graph = transformer(first=False)
    assert rows(graph, target_of(target)) is graph


def test_layers_without_biases_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    x = param(tensor("f32", "batch", "seq", WIDTH))
    hidden = op.Tanh(linear(rng, x, "a", bias=False))
    graph = Graph((x,), (op.Add(linear(rng, hidden, "b", bias=False), x),))
    assert rows(graph, CPU) is graph


def test_a_weight_that_is_held_as_it_is_used_is_left_alone() -> None:
    rng = np.random.default_rng(0)
    x = param(tensor("f32", "batch", "seq", WIDTH))
    given, bias = (const(rng.standard_normal(shape).astype(np.float32)) for shape in ((WIDTH, WIDTH), (WIDTH,)))
    graph = Graph((x,), (op.Add(op.MatMul(x, given), bias),))
    assert rows(graph, CPU) is graph


def test_integers_and_half_types_are_left_alone() -> None:
    x = param(tensor("f16", "batch", "seq", WIDTH))
    held = transposed_constant(const(np.ones((WIDTH, WIDTH), np.float16), name="w"))
    graph = Graph((x,), (op.Relu(op.Add(op.MatMul(x, held), const(np.ones(WIDTH, np.float16)))),))
    assert rows(graph, CPU) is graph


def test_a_product_of_matrices_takes_the_weight_as_it_is_held() -> None:
    rng = np.random.default_rng(0)
    x = param(tensor("f32", "batch", WIDTH))
    before = optimize(Graph((x,), (linear(rng, op.Tanh(linear(rng, x, "a", bias=False)), "b"),)))
    after = rows(before, CPU)
    assert [v.attribute("transB", 0) for v in after.order if v.op == "Gemm"] == [1, 1]
    assert_same(before, after, {"batch": 3})
    assert_same(before, after, {"batch": 0})


# ---------------------------------------------------------------------------------------------- any graph


UNARY = (op.Relu, op.Gelu, op.Tanh, op.Neg)


@st.composite
def graphs(draw: Any) -> Graph:
    """Layers, norms, sums and elementwise operators over one or two inputs, used any number of times."""
    integer = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    rng = np.random.default_rng(integer(0, 1 << 16))
    lead = tuple(draw(st.sampled_from(("a", "b", 1, 2, 3))) for _ in range(integer(1, 3)))
    params = [param(tensor("f32", *lead, WIDTH)) for _ in range(integer(1, 2))]
    pool: list[Value] = list(params)
    tied = const(rng.standard_normal((WIDTH, WIDTH)).astype(np.float32), name="tied.weight")
    for index in range(integer(1, 12)):
        x, y = (pool[integer(0, len(pool) - 1)] for _ in range(2))
        kind = integer(0, 8)
        if kind <= 3:
            pool.append(linear(rng, x, f"layer.{index}", bias=kind > 0))
        elif kind == 4:
            product = op.MatMul(x, op.Transpose(tied, perm=(1, 0)))
            pool.append(op.Sum(product, const(rng.standard_normal(WIDTH).astype(np.float32)), y))
        elif kind == 5:
            pool.append(op.Add(x, y))
        elif kind == 6:
            pool.append(norm(rng, x))
        elif kind == 7:
            pool.append(UNARY[integer(0, 3)](x))
        else:
            named = [d if type(d) is int else dims.symbol(str(d)) for d in lead]
            apart = op.Reshape(x, shape_vector([*named, 2, WIDTH // 2]))
            pool.append(op.Reshape(op.Relu(apart), shape_vector([*named, WIDTH])))
    results = tuple(pool[integer(0, len(pool) - 1)] for _ in range(integer(1, 3)))
    return Graph(tuple(params), (*results, pool[-1]))


@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from((0, 1, 2, 5)), st.sampled_from((0, 1, 3)))
def test_the_numbers_stay_wherever_it_is_done(graph: Graph, a: int, b: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Region, "pays", lambda self: bool(self.inside))
        after = rows(verify(graph), CPU)
    assert_same(graph, verify(after), {"a": a, "b": b}, on_runtime=a > 0 and b > 0)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_nodes_do_not_grow(graph: Graph) -> None:
    before = ready(graph)
    after = rows(before, CPU)
    shapes = len({v.shape for v in before.order if isinstance(v.type, Tensor)})  # each may have to be computed
    assert count(after).total() <= count(before).total() + shapes


# ---------------------------------------------------------------------------------------------- weights


def test_weights_are_written_as_they_are_held(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = param(tensor("f32", "batch", 7, 64))
    hidden = op.Gelu(linear(rng, x, "up", width=96))
    graph = rows(Graph((x,), (norm(rng, linear(rng, hidden, "down", width=64)),)), CPU)
    save(materialize_dims(graph), tmp_path / "m.onnx")
    found = {i.name: i for i in onnx.load(str(tmp_path / "m.onnx")).graph.initializer}
    assert tuple(found["up.weight"].dims) == (96, 64) and tuple(found["down.weight"].dims) == (64, 96)


def test_joined_weights_hold_each_other_in_turn_under_all_their_names() -> None:
    graph = rows(ready(transformer(first=True, shape=("batch", 5, WIDTH))), CPU)
    made = {i.name: onnx.numpy_helper.to_array(i) for i in to_proto(graph).graph.initializer}
    name = "layer.0.self.q_proj+k_proj+v_proj"
    parts = {
        v.blob.turned.name: v.blob.turned.array
        for v in transformer(first=True).order
        if v.blob is not None and v.blob.turned is not None
    }
    expected = np.concatenate([parts[f"layer.0.self.{n}_proj.weight"] for n in "qkv"])
    np.testing.assert_array_equal(made[f"{name}.weight"], expected)
    assert made[f"{name}.bias"].shape == (24,)


def test_layers_with_and_without_biases_are_joined_by_zeros() -> None:
    rng = np.random.default_rng(0)
    x = param(tensor("f32", 2, 3, WIDTH))
    q, k, v = (linear(rng, x, n, width=8, bias=n != "k") for n in "qkv")
    graph = Graph((x,), (op.Attention(q, k, v, q_num_heads=2, kv_num_heads=2),))
    after = rows(graph, CPU)
    assert count(after) == Counter({"Reshape": 2, "Gemm": 1, "Split": 1, "Attention": 1})
    assert_same(graph, after, {})


def test_joined_blobs_are_written_part_by_part() -> None:
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((1, 3), np.float32)]
    made = joined_blob([blob(a) for a in arrays], "both")
    assert made.shape == (3, 3) and made.name == "both"
    np.testing.assert_array_equal(made.array, np.concatenate(arrays))
    pieces = [bytes(piece) for piece in chunks(made)]
    assert len(pieces) == 2 and b"".join(pieces) == np.concatenate(arrays).tobytes()
    with pytest.raises(ValueError, match="one after the other"):
        joined_blob([blob(arrays[0]), Blob(DType.FLOAT, (2, 4), lambda: np.zeros((2, 4), np.float32))])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("sizes", [(300, 70, 256), (64, 3), (1, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_blobs_side_by_side_are_written_in_order(dtype: type, sizes: tuple[int, ...], known: bool) -> None:
    rng = np.random.default_rng(0)
    lying = [rng.integers(-100, 100, size=(size, 200)).astype(dtype) for size in sizes]
    parts = [transposed_constant(constant(blob(a))).blob if known else blob(a.T.copy()) for a in lying]
    made, expected = beside([each for each in parts if each is not None], "all"), np.concatenate(lying).T
    assert made.name == "all" and made.shape == expected.shape and (made.turned is not None) is known
    assert b"".join(bytes(piece) for piece in chunks(made)) == expected.tobytes()
    np.testing.assert_array_equal(made.array, expected)
    with pytest.raises(ValueError, match="side by side"):
        beside([made, blob(np.zeros((3, 4), dtype))])


def test_elements_narrower_than_a_byte_side_by_side_are_packed() -> None:
    numbers = np.random.default_rng(0).integers(-8, 8, size=(128, 200)).astype(DType.INT4.numpy)
    made = beside(
        [held for v in (numbers, numbers) if (held := transposed_constant(constant(blob(v))).blob) is not None]
    )
    whole = blob(np.concatenate([numbers, numbers]).T.copy())
    assert b"".join(bytes(piece) for piece in chunks(made)) == b"".join(bytes(piece) for piece in chunks(whole))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a.q.weight", "a.k.weight"), "a.q+k.weight"),
        (("a.q.weight", "k.weight"), "a.q.weight+k.weight"),
        (("a.weight",), "a.weight"),
        ((), ""),
    ],
)
def test_names_of_joined_weights(names: tuple[str, ...], expected: str) -> None:
    assert joined_name([const(np.zeros(2, np.float32), name=name) for name in names]) == expected


def test_a_weight_that_a_table_shares_is_written_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = const(rng.standard_normal((50, 64)).astype(np.float32), name="embedding.weight")
    ids = param(tensor("i64", "batch", 3))
    hidden = linear(rng, op.Gather(table, ids), "dense", width=64)
    logits = op.MatMul(op.Gelu(hidden), op.Transpose(table, perm=(1, 0)))
    logits = op.Add(logits, const(rng.standard_normal(50).astype(np.float32), name="head.bias"))
    before = Graph((ids,), (logits,))
    after = rows(before, CPU)
    assert count(after)["Gemm"] == 2 and count(after)["Transpose"] == 0
    names = [i.name for i in to_proto(after).graph.initializer if i.dims == [50, 64]]
    assert names == ["embedding.weight"]
    arrays = [np.array([[1, 2, 49], [0, 3, 4]])]
    for one, other in zip(evaluate(before, arrays), run(after, *arrays), strict=True):
        assert compare(one, other, rtol=1e-4, atol=1e-5) is None


# ---------------------------------------------------------------------------------------------- models


def nodes_of(model: Any, inputs: dict[str, Any], shapes: Any) -> tuple[Counter[str], Counter[str]]:
    """The nodes of a model of transformers before and after."""
    from lowering import lower

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = ready(optimize(lower(model.eval(), (), inputs, dynamic_shapes=shapes)))
    after = verify(rows(before, CPU))
    return count(before), count(after)


def test_bert_and_whisper() -> None:
    torch = pytest.importorskip("torch")
    from transformers import BertConfig, BertModel, WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    bert = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    inputs = {"input_ids": torch.randint(5, 50, (2, 8)), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
    before, after = nodes_of(BertModel(bert), inputs, {name: {0: "batch", 1: "seq"} for name in inputs})
    assert (before["MatMul"], before["Gemm"], after["MatMul"], after["Gemm"], after["Split"]) == (12, 1, 0, 9, 2)
    assert after.total() == before.total() - 3 * 2 + 4
    whisper = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=20,
    )
    features = {"input_features": torch.randn(1, 8, 40)}
    before, after = nodes_of(WhisperEncoder(whisper), features, {"input_features": {0: "batch"}})
    assert (before["MatMul"], after["MatMul"], after["Gemm"], after["Split"]) == (12, 0, 8, 2)
    assert after.total() == before.total() - 2 * 2 + 2


def test_prepare_puts_layers_on_rows() -> None:
    graph = optimize(transformer(first=False))
    assert {v.op for v in prepare(graph).order} >= {"Gemm", "Split"}
    assert "MatMul" in {v.op for v in prepare(graph, "onnx").order}
