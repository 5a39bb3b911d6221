"""Graphs as ONNX files: bytes, weights, opsets, bodies, metadata, and what ONNX Runtime makes of them."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from pyrsistent import pmap

import irkit
from irkit import op
from irkit.build import call_graph
from irkit.core.blobs import blob, joined_blob
from irkit.core.ir import Fact, Graph, Port, Signature, Value, constant, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor, tensor
from irkit.dims import Range
from irkit.errors import RewriteError, SerializeError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx import sessions
from irkit.onnx.writing.identities import MARK
from irkit.onnx.writing.tensors import chunks, is_turned, packed_bits, tensor_proto, unpacked_bits
from irkit.rewriting.numbering import share
from irkit.support.files import write_together
from irkit.testing import feeds, typed_graphs
from passes import prepare
from tests.support.common_operators import COMMON

ROOT = Path(__file__).resolve().parents[3]


def runs(model: Any) -> Any:
    """A session without rewrites, or None where ONNX Runtime has no kernel for some operator at some element type.

    Rewrites are off because they are the runtime's own: 1.31 fuses Transpose and MatMul wrongly where the right operand
    is a vector.
    """
    options = sessions.quiet_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return sessions.session(model, options=options)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "rank >= 1" in str(error):
            return None
        raise


# ---------------------------------------------------------------------------------------------- random graphs


@given(typed_graphs(max_ops=6, wide=False, ops=COMMON), st.data())
def test_the_runtime_gives_what_the_graph_means(graph: Graph, data: Any) -> None:
    model = irkit.to_proto(graph)
    session = runs(model)
    if session is None:
        return
    arguments = data.draw(feeds(graph))
    empty: list[Any] = []
    expected = evaluate(graph, arguments, every=lambda _, found: empty.append(is_empty(found)))
    try:
        actual = session.run(arguments)
    except Exception as error:
        assert any(empty), error  # ONNX Runtime refuses to scan, and to multiply, some matrices without elements
        return
    # Of a tensor without elements ONNX Runtime may not know the sizes: those of a Loop that took no trip, say.
    kept = [(a, b) for a, b in zip(expected, actual, strict=True) if not is_empty(a) and not is_empty(b)]
    assert irkit.compare(tuple(a for a, _ in kept), tuple(b for _, b in kept)) is None
    assert len(kept) == len(expected) or any(empty)


def is_empty(found: Any) -> bool:
    """True for a result in which some array has no element."""
    return any(map(is_empty, found)) if isinstance(found, (tuple, list)) else np.size(found) == 0


def is_folded(value: Value) -> bool:
    """True for what the loader may read as something else: Calls are written out, a branch that is certain is taken,
    and small integers that are known become dimensions."""
    small = isinstance(value.type, Tensor) and value.dtype is DType.INT64 and value.rank <= 1
    bodies = value.op in ("Call", "If", "Loop", "Scan", "SequenceMap")
    return bodies or (small and value.op not in ("Param", "Constant"))


@given(typed_graphs(max_ops=6, symbolic=False))
def test_a_model_loads_as_the_graph_it_was_written_from(graph: Graph) -> None:
    again = irkit.load(irkit.to_proto(graph))
    assert again.signature == graph.signature
    assert [p.type for p in again.params] == [p.type for p in graph.params]
    assert share(irkit.load(irkit.to_proto(again))) == share(again)
    if not any(map(is_folded, graph.order)):
        assert share(again) == share(graph)


# ---------------------------------------------------------------------------------------------- bytes

SCRIPT = """
import hashlib, numpy as np, irkit
from irkit.testing import random_graph
digest = hashlib.sha256()
for seed in range(12):
    graph = random_graph(np.random.default_rng(seed), 12)
    digest.update(irkit.to_proto(graph).SerializeToString())
print(digest.hexdigest())
"""


def test_bytes_do_not_depend_on_the_process() -> None:
    def digest(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout

    outputs = {digest(seed) for seed in ("0", "424242")}
    assert len(outputs) == 1


# ---------------------------------------------------------------------------------------------- tensors

NUMERIC = [d for d in DType if d is not DType.STRING]


@pytest.mark.parametrize("dtype", NUMERIC, ids=lambda d: d.short)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 5)])
def test_tensors_hold_what_onnx_reads(dtype: DType, shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    array = (np.arange(count) % 2).astype(np.float64).reshape(shape).astype(dtype.numpy)
    made = tensor_proto(irkit.blob(array))
    found = numpy_helper.to_array(made)
    assert found.dtype == array.dtype and found.shape == shape and found.tobytes() == array.tobytes()
    assert len(made.raw_data) == irkit.blob(array).nbytes


def test_strings_are_kept() -> None:
    array = np.array([["a", ""], ["größe", "b\udc80"]], dtype=object)
    x = param(tensor("f32", 1))
    graph = Graph((x,), (constant(irkit.blob(array)), x))
    again = irkit.load(irkit.to_proto(graph)).results[0].blob
    assert again is not None and (again.array == array).all()


@given(st.lists(st.integers(0, 63), max_size=40), st.sampled_from([DType.INT4, DType.UINT2, DType.FLOAT6E2M3]))
def test_narrow_elements_pack_and_unpack(values: list[int], dtype: DType) -> None:
    elements = np.array(values, dtype=np.uint8) & ((1 << dtype.bits) - 1)
    data = packed_bits(elements, dtype.bits)
    assert data.size == (len(values) * dtype.bits + 7) // 8
    assert (unpacked_bits(data, dtype, len(values)).view(np.uint8) == elements).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.complex64])
@pytest.mark.parametrize("shape", [(64, 64), (65, 700), (700, 65), (129, 257), (3, 200, 130), (2, 1, 64, 64)])
def test_turned_matrices_are_written_in_order(dtype: Any, shape: tuple[int, ...]) -> None:
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    lying = np.random.default_rng(0).integers(-100, 100, size=[shape[i] for i in order]).astype(dtype)
    weight = lying.transpose(order)
    sliced = lying[..., ::2, 1:].transpose(order)
    assert is_turned(weight)
    for array in (weight, sliced):
        held = irkit.blob(array)
        assert b"".join(bytes(chunk) for chunk in chunks(held)) == array.tobytes()
        assert tensor_proto(held).raw_data == array.tobytes()


def test_strided_weights_are_written_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irkit.onnx.writing.tensors.CHUNK", 64)  # so that pieces end inside of rows
    base = np.arange(2 * 7 * 30, dtype=np.float32).reshape(2, 7, 30)
    weights = {"turned": base.T, "stepped": base[:, ::2, ::-1], "narrow": (base.T % 2).astype(ml_dtypes.int4)}
    x = param(tensor("f32", 1))
    graph = Graph((x,), tuple(constant(irkit.blob(w, name=n)) for n, w in weights.items()))
    for external in (False, True):
        irkit.save(graph, tmp_path / "m.onnx", external=external, size_threshold=0)
        for initializer in onnx.load(tmp_path / "m.onnx").graph.initializer:
            found = numpy_helper.to_array(initializer)
            assert found.astype(np.float32).tolist() == weights[initializer.name].astype(np.float32).tolist()


# --------------------------------------------------------------------------------------------- weights beside the model


def weighty(size: int = 3000) -> Graph:
    """x @ a + b, with weights of that many columns."""
    x = param(tensor("f32", "batch", 8))
    a = constant(irkit.blob(np.arange(8 * size, dtype=np.float32).reshape(8, size), name="layer.weight"))
    b = constant(irkit.blob(np.full(size, 0.5, np.float32), name="layer.bias"))
    y = op.Add(op.MatMul(x, a), b)
    return Graph((x,), (y, op.Add(y, b)), signature=Signature((Port("x"),), (Port("y", "output"), Port("z", "output"))))


@pytest.mark.parametrize("external", [True, False, "auto"])
def test_saved_models_run(tmp_path: Path, external: Any) -> None:
    graph, path = weighty(), tmp_path / "model.onnx"
    irkit.save(graph, path, external=external)
    onnx.checker.check_model(str(path), full_check=True)
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    assert irkit.compare(evaluate(graph, (x,)), sessions.run(path, [x])) is None
    assert sorted(p.name for p in tmp_path.iterdir()) == (
        ["model.onnx"] if external is not True else ["model.onnx", "model.onnx.data"]
    )
    assert share(irkit.load(path)) == share(graph)


def test_external_is_one_of_three(tmp_path: Path) -> None:
    with pytest.raises(SerializeError, match="external is 'beside'"):
        irkit.save(weighty(), tmp_path / "m.onnx", external="beside")  # pyright: ignore[reportArgumentType]
    assert not list(tmp_path.iterdir())


def test_weights_beside_are_aligned_and_written_once(tmp_path: Path) -> None:
    array, storage = np.arange(2048, dtype=np.float32), object()
    tied = [irkit.Blob(DType.FLOAT, (2048,), lambda: array, name, storage) for name in ("embed", "head")]
    other = irkit.blob(np.ones(300, np.float32), name="small")
    x = param(tensor("f32", 2048))
    y = op.Add(op.Add(x, constant(tied[0])), constant(tied[1]))
    graph = Graph((x,), (y, constant(other), constant(irkit.blob(np.full(2048, 7.0, np.float32), name="last"))))
    irkit.save(graph, tmp_path / "m.onnx", external=True)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    places = {t.name: {e.key: e.value for e in t.external_data} for t in model.graph.initializer}
    assert list(places) == ["embed", "small", "last"]
    assert all(p["location"] == "m.onnx.data" for p in places.values())
    assert [int(places[n]["offset"]) % 4096 for n in ("embed", "last")] == [0, 0]
    assert (tmp_path / "m.onnx.data").stat().st_size == int(places["last"]["offset"]) + 8192
    assert (tmp_path / "m.onnx.data").read_bytes().startswith(MARK)


def test_large_weights_go_beside_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irkit.onnx.save.AUTO_LIMIT", 10_000)
    irkit.save(weighty(), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").exists()
    assert (tmp_path / "m.onnx").stat().st_size < 2000


def test_a_message_that_would_be_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("save", "writing.models"):
        monkeypatch.setattr(f"irkit.onnx.{module}.TOO_LARGE", 50_000)
    with pytest.raises(SerializeError, match="2 GiB"):
        irkit.save(weighty(), tmp_path / "m.onnx", external=False)
    with pytest.raises(SerializeError, match="2 GiB"):
        irkit.to_proto(weighty())
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_files(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    irkit.save(weighty(), path, external=True)
    before = {p.name: hashlib.sha256(p.read_bytes()).digest() for p in tmp_path.iterdir()}

    def broken() -> np.ndarray:
        raise OSError("the disk is gone")

    x = param(tensor("f32", 3000))
    bad = Graph((x,), (op.Add(x, constant(irkit.Blob(DType.FLOAT, (3000,), broken, "w"))),))
    for external in (True, False):
        with pytest.raises(OSError, match="gone"):
            irkit.save(bad, path, external=external)
    with pytest.raises(SerializeError):
        irkit.save(Graph((x,), (op.Gelu(x),)), path, opset=18)
    assert {p.name: hashlib.sha256(p.read_bytes()).digest() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("save", [irkit.save, irkit.save_text])
def test_a_full_disk_is_named(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(SerializeError, match="cannot be written: File too large") as caught:
            save(weighty(), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "m.onnx" in caught.value.what and caught.value.hint.startswith("make room")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"] and path.read_bytes() == b"old"


def test_a_model_may_be_saved_over_the_files_that_it_is_read_from(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    irkit.save(weighty(), path, external=True)
    lazy = irkit.load(path)
    irkit.save(lazy, path, external=True)
    assert irkit.load(path) == share(weighty()) or share(irkit.load(path)) == share(weighty())


def test_weights_are_not_kept_in_memory_by_saving(tmp_path: Path) -> None:
    count = {"loads": 0}

    def load() -> np.ndarray:
        count["loads"] += 1
        return np.ones(4096, np.float32)

    x = param(tensor("f32", 4096))
    weight = irkit.Blob(DType.FLOAT, (4096,), load, "w")
    graph = Graph((x,), (op.Add(x, constant(weight)),))
    irkit.save(graph, tmp_path / "a.onnx", external=True)
    irkit.save(graph, tmp_path / "b.onnx", external=True)
    assert count["loads"] == 2
    assert (tmp_path / "a.onnx.data").read_bytes() == (tmp_path / "b.onnx.data").read_bytes()


# ---------------------------------------------------------------------------------------------- opsets


@pytest.mark.parametrize("opset", [17, 18, 20, 21, 23, 24, 25, 26])
def test_the_opset_asked_for_is_the_one_written(opset: int) -> None:
    x = param(tensor("f32", "n", 4))
    graph = Graph((x,), (op.Softmax(op.Relu(x), axis=1),))
    model = irkit.to_proto(graph, opset=opset)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", opset)]
    assert model.ir_version == onnx.helper.OP_SET_ID_VERSION_MAP[("ai.onnx", opset)]
    onnx.checker.check_model(model, full_check=True)
    assert runs(model) is not None


def test_what_an_opset_lacks_is_refused() -> None:
    x, axes = param(tensor("f32", "n", 4)), param(tensor("i64", 1))
    cases: list[tuple[Value, int, str]] = [
        (op.Gelu(x), 18, "opset 18 has no operator Gelu"),
        (op.Cast(x, to=16, round_mode="down"), 23, "no attribute round_mode"),
        (op.ReduceMean(x, axes), 17, "takes 1 operand at opset 17"),
        (op.Pad(x, [0, 1, 0, 1], None, [0, 1]), 17, "takes 2 to 3 operands"),
        (op.Shape(op.Cast(x, to=int(DType.INT4))), 20, "cannot be i4"),
        (op.ScatterElements(x, op.Cast(x, to=7), x, reduction="max"), 15, "no attribute reduction"),
    ]
    for value, opset, words in cases:
        with pytest.raises(SerializeError, match=words):
            irkit.to_proto(Graph((x, axes), (value,)), opset=opset)
    for opset in (6, 27):
        with pytest.raises(SerializeError, match="opsets 7 to 26"):
            irkit.to_proto(Graph((x,), (x,)), opset=opset)


def test_defaults_that_changed_are_spelled_out() -> None:
    x = param(tensor("f32", 2, 4))
    model = irkit.to_proto(Graph((x,), (op.Hardmax(x),)), opset=12)
    assert [(a.name, a.i) for a in model.graph.node[0].attribute] == [("axis", -1)]


# --------------------------------------------------------------------------------------- several results, bodies, calls


def test_results_that_nobody_uses() -> None:
    x = param(tensor("f32", 1, 1, 4, 4))
    pooled, _ = op.MaxPool(x, kernel_shape=[2, 2], outputs=2)
    _, indices = op.TopK(op.Reshape(x, [16]), [3])
    _, _, third = op.Split(op.Reshape(x, [16]), [4, 4, 8])
    w, r = (op.Cast(op.ConstantOfShape([1, 12, 4]), to=1) for _ in range(2))
    hidden = op.LSTM(
        op.Reshape(x, [4, 1, 4]), op.Slice(w, [0], [12], [1]), op.Slice(r, [0], [3], [2]), hidden_size=3, outputs=3
    )[2]
    graph = Graph((x,), (pooled, indices, third, hidden))
    model = irkit.to_proto(graph)
    onnx.checker.check_model(model, full_check=True)
    outputs = {n.op_type: list(n.output) for n in model.graph.node}
    assert len(outputs["MaxPool"]) == 1 and all(outputs["TopK"]) and all(outputs["Split"])
    assert outputs["LSTM"][:2] == ["", ""]
    data = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    assert irkit.compare(evaluate(graph, (data,)), sessions.run(model, [data])) is None


def nested() -> Graph:
    """A Loop whose body holds an If, both using what is outside, a large weight among it."""
    x, trips, flag = param(tensor("f32", "n", 400)), param(tensor("i64")), param(tensor("bool"))
    big = irkit.const(np.full((400,), 0.25, np.float32), name="big")
    outer = op.Relu(x)
    i, go, c = param(tensor("i64")), param(tensor("bool")), param(x.type)
    kept, inner_flag = param(x.type), param(tensor("bool"))
    p, q = param(x.type), param(x.type)
    then = Graph((p, q), (op.Add(op.Add(p, q), big),))
    p2, q2 = param(x.type), param(x.type)
    other = Graph((p2, q2), (q2,))
    (chosen,) = irkit.call("If", [inner_flag, c, kept], {"then_branch": then, "else_branch": other, "captures": 2})
    body = Graph((i, go, c, kept, inner_flag), (go, chosen, op.ReduceSum(chosen, [0, 1], keepdims=0)))
    final, sums = irkit.call("Loop", [trips, True, x, outer, flag], {"body": body, "captures": 2})
    return Graph((x, trips, flag), (final, sums, op.Add(final, big)))


@pytest.mark.parametrize("opset", [18, 26])
def test_captures_become_outer_names(opset: int) -> None:
    graph = nested()
    model = irkit.to_proto(graph, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    loop = next(n for n in model.graph.node if n.op_type == "Loop")
    assert len(loop.input) == 3 and len(loop.attribute[0].g.input) == 3
    assert [i.name for i in model.graph.initializer if i.name == "big"] == ["big"]
    x = np.linspace(-1, 1, 1200, dtype=np.float32).reshape(3, 400)
    for trips in (1, 3):
        for flag in (True, False):
            arguments = (x, np.array(trips), np.array(flag))
            assert irkit.compare(evaluate(graph, arguments), sessions.run(model, arguments)) is None
    again = irkit.load(model)
    assert irkit.compare(evaluate(graph, arguments), evaluate(again, arguments)) is None


def test_scan_with_captures() -> None:
    x, scale = param(tensor("f32", "steps", 3)), param(tensor("f32"))
    state, row, s = param(tensor("f32", 3)), param(tensor("f32", 3)), param(tensor("f32"))
    total = op.Add(state, op.Mul(row, s))
    body = Graph((state, row, s), (total, op.Neg(total)))
    final, rows = irkit.call(
        "Scan", [np.zeros(3, np.float32), x, scale], {"body": body, "num_scan_inputs": 1, "captures": 1}
    )
    graph = Graph((x, scale), (final, rows))
    model = irkit.to_proto(graph)
    onnx.checker.check_model(model, full_check=True)
    arguments = (np.arange(12, dtype=np.float32).reshape(4, 3), np.array(0.5, np.float32))
    assert irkit.compare(evaluate(graph, arguments), sessions.run(model, arguments)) is None
    assert share(irkit.load(model)) == share(graph)


def test_calls_are_written_out_each_time() -> None:
    n, m = irkit.symbol("n"), irkit.symbol("m")
    p = param(tensor("f32", n, 4))
    body = Graph((p,), (op.Reshape(op.Relu(p), irkit.shape_vector((n * 4,))), op.Neg(p)))
    x = param(tensor("f32", m, 4))
    flat, turned = call_graph(body, x)
    again, _ = call_graph(body, op.Concat(turned, turned, axis=0))
    graph = Graph((x,), (flat, again))
    model = irkit.to_proto(graph)
    onnx.checker.check_model(model, full_check=True)
    assert sorted(node.op_type for node in model.graph.node) == ["Concat", "Neg", "Relu", "Relu", "Reshape", "Reshape"]
    data = np.arange(-4, 4, dtype=np.float32).reshape(2, 4)
    assert [a.shape for a in sessions.run(model, [data])] == [(8,), (16,)]
    assert [str(v.type) for v in model.graph.output] and model.graph.output[0].type.tensor_type.shape.dim[
        0
    ].dim_param == "4*m"


def test_calls_become_functions_where_they_are_asked_for(tmp_path: Path) -> None:
    n = irkit.symbol("n")
    inner_param = param(tensor("f32", n, 4))
    inner = Graph((inner_param,), (op.Add(op.Reshape(inner_param, irkit.shape_vector((4 * n,))), 0.5),), name="inner")
    p = param(tensor("f32", n, 4))
    big = irkit.const(np.linspace(0, 1, 400, dtype=np.float32).reshape(1, 400), name="big")
    body = Graph(
        (p,), (call_graph(inner, op.Relu(p)), op.Neg(p), op.MatMul(op.ReduceSum(p, [1]), big), p), name="block"
    )
    x = param(tensor("f32", n, 4))
    flat, turned, _, same = call_graph(body, x)
    again, _, wide, _ = call_graph(body, op.Sub(turned, same))
    graph = Graph((x,), (flat, again, wide, call_graph(inner, x)))
    model = irkit.to_proto(graph, functions=True)
    onnx.checker.check_model(model, full_check=True)
    assert [f.name for f in model.functions] == ["inner", "block"]
    assert [node.op_type for node in model.graph.node] == ["block", "Sub", "block", "inner"]
    data = np.arange(-4, 4, dtype=np.float32).reshape(2, 4)
    expected = evaluate(graph, (data,))
    assert irkit.compare(expected, sessions.run(model, [data])) is None
    assert irkit.compare(expected, sessions.run(irkit.to_proto(graph), [data])) is None
    assert irkit.compare(expected, evaluate(irkit.load(model), (data,))) is None
    irkit.save(graph, tmp_path / "m.onnx", functions=True)
    assert irkit.compare(expected, sessions.run(tmp_path / "m.onnx", [data])) is None


def test_random_draws_in_calls_are_drawn_each_time() -> None:
    p = param(tensor("f32", 4))
    body = Graph((p,), (op.Add(p, op.RandomNormal(shape=[4])),))
    x = param(tensor("f32", 4))
    graph = Graph((x,), (op.Sub(call_graph(body, x), call_graph(body, x)),))
    assert [n.op_type for n in irkit.to_proto(graph).graph.node].count("RandomNormal") == 2


# ---------------------------------------------------------------------------------------------- metadata


def test_facts_and_names_go_into_the_file_and_back() -> None:
    x = param(tensor("f32", "batch", 4)).with_origin(Origin(node="x"))
    made = Origin(
        node="linear", target="aten.linear.default", module="layers.0.mlp", source="model.py:12", rules=("a", "b")
    )
    facts = (Fact("guard", "batch >= 2", "m.py:3"), Fact("baked", "scale = 2.0"), Fact("relation", "batch % 2 == 0"))
    ports = Signature(
        (Port("x", "state"),),
        (Port("y", "output"), Port("x_out", "state", "x")),
        facts,
        (("author", "someone"), ("größe", "ß")),
    )
    graph = Graph((x,), (op.Relu(x).with_origin(made), x), pmap({"batch": Range(2, None)}), ports, "net")
    model = irkit.to_proto(graph)
    pairs = {p.key: p.value for p in model.metadata_props}
    assert pairs["author"] == "someone" and pairs["irkit.ranges"] == '{"batch":[2,null]}'
    assert '"batch >= 2"' in pairs["irkit.guards"] and "scale" in pairs["irkit.baked"]
    node = {p.key: p.value for p in model.graph.node[0].metadata_props}
    assert node == {
        "irkit.node": "linear",
        "irkit.target": "aten.linear.default",
        "irkit.module": "layers.0.mlp",
        "irkit.source": "model.py:12",
        "irkit.rules": "a,b",
    }
    again = irkit.load(model)
    assert again == graph
    assert again.signature == ports and again.symbols == graph.symbols and again.name == "net"
    assert again.results[0].origin == made


def test_every_result_has_a_declared_type() -> None:
    x = param(tensor("f32", "batch", "seq"))
    found = op.NonZero(x)
    b, s = irkit.symbol("batch"), irkit.symbol("seq")
    parts = op.Split(op.Concat(x, x, axis=1), irkit.shape_vector((s, s)), axis=1)
    graph = Graph((x,), (op.Neg(found), op.Reshape(parts[1], irkit.shape_vector((b * s,)))))
    model = irkit.to_proto(graph).graph
    declared = {i.name: i.type for i in (*model.value_info, *model.input, *model.output)}
    results = [name for node in model.node for name in node.output]
    assert all(name in declared for name in results)
    texts = [d.dim_param for d in model.output[1].type.tensor_type.shape.dim]
    assert texts == ["batch*seq"] and model.output[0].type.tensor_type.shape.dim[1].dim_param == "unknown_0"


def test_fresh_dimensions_never_take_a_name_that_is_used() -> None:
    x = param(tensor("f32", "unknown_0"))
    model = irkit.to_proto(Graph((x,), (op.NonZero(x), op.Unique(x)))).graph
    texts = [d.dim_param for o in model.output for d in o.type.tensor_type.shape.dim if d.dim_param]
    assert len(set(texts)) == len(texts) == 2 and "unknown_0" not in texts


def test_a_long_chain_is_written_and_read() -> None:
    x = param(tensor("f32", 2))
    value = x
    for _ in range(20_000):
        value = op.Relu(value)
    model = irkit.to_proto(Graph((x,), (value,)))
    assert len(model.graph.node) == 20_000
    assert len(irkit.load(model)) == 20_000


def test_writing_goes_on_where_the_system_wrote_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pieces = os.writev, [b"ab", b"", memoryview(b"cdefghijklm"), b"n" * 7, b"opq"]
    monkeypatch.setattr(os, "writev", lambda descriptor, rest: write(descriptor, [b"".join(rest)[:4]]))
    with (tmp_path / "file").open("wb") as file:
        file.write(b"before ")
        write_together(file, pieces)
    assert (tmp_path / "file").read_bytes() == b"before " + b"".join(pieces)


def test_weights_of_every_kind_are_written_as_they_are(tmp_path: Path) -> None:
    """Many, in memory, turned, joined, narrower than a byte, and small."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((300, 5)).astype(np.float32) for _ in range(1100)]
    arrays += [random.standard_normal((200, 300)).astype(np.float32).T, np.arange(4.0, dtype=np.float32)]
    constants = [constant(blob(array, name=f"w{i}")) for i, array in enumerate(arrays)]
    halves = joined_blob([blob(arrays[0]), blob(arrays[-2].T[:, :5].copy())], "halves")
    narrow = blob(np.arange(-8, 8).repeat(200).astype(DType.INT4.numpy), name="narrow")
    graph = Graph((), (*constants, constant(halves), constant(narrow)))
    irkit.save(graph, tmp_path / "m.onnx")
    found = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert len(found) == len(arrays) + 2
    assert all(np.array_equal(found[f"w{i}"], array) for i, array in enumerate(arrays))
    assert np.array_equal(found["halves"], halves.array)
    assert np.array_equal(found["narrow"].astype(np.int8), narrow.array.astype(np.int8))


def test_save_names_all_that_a_target_lacks(tmp_path: Path) -> None:
    x = param(tensor("f32", 4))
    graph = Graph((x,), (op.Swish(op.Gelu(x)), op.Swish(x)))
    irkit.save(graph, tmp_path / "any.onnx")  # no runtime was named, and none is asked
    with pytest.raises(RewriteError, match="Swish cannot run at opset 26 on ONNX Runtime") as caught:
        irkit.save(graph, tmp_path / "refused.onnx", target="onnxruntime-cpu")
    assert "passes.prepare" in caught.value.hint and not (tmp_path / "refused.onnx").exists()
    ready = prepare(graph, "onnxruntime-cpu", 20)
    irkit.save(ready, tmp_path / "runs.onnx", target="onnxruntime-cpu", opset=20)
    model = onnx.load(tmp_path / "runs.onnx")
    assert [each.version for each in model.opset_import if not each.domain] == [20]
    onnxruntime.InferenceSession(tmp_path / "runs.onnx")
    with pytest.raises(RewriteError, match="there is no target"):
        irkit.save(graph, tmp_path / "refused.onnx", target="onnxruntime-tpu")
