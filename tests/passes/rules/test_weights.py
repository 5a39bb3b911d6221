"""What becomes part of weights; attention as others write it out: one operator, the same numbers on ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import irkit
import passes
from irkit import const, dims, op, param, tensor
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.core.walk import post_order
from tests.tables.rules import RULES

LEAVES = ("Param", "Constant", "Item", "ShapeVector")


def named(name: str, *shape: int) -> Value:
    """A weight."""
    return const((np.random.default_rng(len(name)).standard_normal(shape) * 0.5).astype(np.float32), name=name)


def after(*results: Value) -> Graph:
    params = tuple(v for v in post_order(results) if v.op == "Param")
    graph = passes.optimize(Graph(params, results))
    irkit.verify(graph)
    assert passes.optimize(graph) is graph
    return graph


def ops(graph: Graph) -> list[str]:
    return [v.op for v in graph.order if v.op not in LEAVES]


def weights(graph: Graph) -> dict[str, tuple[Any, ...]]:
    return {v.blob.name: v.blob.shape for v in graph.order if v.blob is not None and v.blob.is_weight}


def same_on_ort(result: Value, *shapes: list[tuple[int, ...]]) -> Graph:
    """The optimized graph; it, the graph, and ONNX Runtime agree at all those sizes."""
    params = tuple(v for v in post_order((result,)) if v.op == "Param")
    graph = Graph(params, (result,))
    found = after(result)
    data = irkit.to_proto(passes.prepare(found)).SerializeToString()
    run = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for seed, each in enumerate(shapes):
        rng = np.random.default_rng(seed)
        arrays = [rng.standard_normal(s).astype(p.dtype.numpy) for s, p in zip(each, params, strict=True)]
        (expected,) = irkit.evaluate(graph, arrays)
        (mine,) = irkit.evaluate(found, arrays)
        theirs: Any = run.run(None, {i.name: a for i, a in zip(run.get_inputs(), arrays, strict=True)})[0]
        np.testing.assert_allclose(mine, expected, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(theirs, expected, atol=1e-5, rtol=1e-5)
    return found


# ---------------------------------------------------------------------------------------------- weights


def test_scales_of_layers_become_part_of_products() -> None:
    x = param(tensor("f32", "batch", "n", 6))
    made = op.Mul(op.Add(op.MatMul(x, named("fc.weight", 6, 4)), named("fc.bias", 4)), named("gamma", 4))
    graph = same_on_ort(made, [(2, 3, 6)], [(1, 1, 6)])
    assert ops(graph) == ["MatMul", "Add"] and weights(graph) == {"fc.weight": (6, 4), "fc.bias": (4,)}


def test_scales_stay_where_weights_are_shared_or_narrow() -> None:
    x, w = param(tensor("f32", "batch", "n", 6)), named("fc.weight", 6, 4)
    assert ops(after(op.Mul(op.MatMul(x, w), named("gamma", 4)), op.Gather(w, param(tensor("i64", "k"))))) == [
        "MatMul",
        "Mul",
        "Gather",
    ]
    half = param(tensor("f16", "batch", "n", 6))
    narrow = op.MatMul(half, const(np.ones((6, 4), np.float16), name="fc.weight"))
    assert ops(after(op.Mul(narrow, const(np.full(4, 3, np.float16), name="gamma")))) == ["MatMul", "Mul"]
    assert ops(after(op.Mul(op.MatMul(x, named("fc.weight", 6, 1)), named("gamma", 4)))) == ["MatMul", "Mul"]


def test_class_tokens_become_part_of_position_embeddings() -> None:
    x = param(tensor("f32", "batch", 5, 4))
    token, more = named("cls", 1, 1, 4), named("detection", 1, 2, 4)
    first = op.Expand(token, irkit.shape_vector(("batch", 1, 4)))
    last = op.Expand(more, irkit.shape_vector(("batch", 2, 4)))
    graph = same_on_ort(
        op.Add(op.Concat(first, x, last, axis=1), named("positions", 1, 8, 4)), [(2, 5, 4)], [(1, 5, 4)]
    )
    assert ops(graph) == ["Pad", "Add"] and weights(graph) == {"positions": (1, 8, 4)}
    joined = op.Concat(first, x, axis=1)
    assert "Concat" in ops(after(op.Add(joined, named("positions", 1, 6, 4)), joined)), "used once more"
    by_row = op.Add(op.Concat(param(tensor("f32", "batch", 1, 4)), x, axis=1), named("positions", 1, 6, 4))
    assert ops(after(by_row)) == ["Concat", "Add"]


def test_what_weights_alone_make_is_a_weight_read_when_it_is_asked_for() -> None:
    reads = []

    def load() -> np.ndarray:
        reads.append(1)
        return np.arange(24, dtype=np.float32).reshape(6, 4)

    table = const(Blob(DType.FLOAT, (6, 4), load, "table"))
    x = param(tensor("f32", "batch", 3, 4))
    graph = after(op.Add(x, op.Gather(table, np.array([4, 0, 2]))))
    assert ops(graph) == ["Add"] and not reads
    (found,) = irkit.evaluate(graph, [np.zeros((1, 3, 4), np.float32)])
    assert found[0, :, 0].tolist() == [16.0, 0.0, 8.0] and reads


def test_narrow_weights_stay_narrow() -> None:
    scales = named("scales", 4)
    wide = op.DequantizeLinear(const(np.ones((6, 4), np.int8)), scales, np.zeros(4, np.int8), axis=1)
    x = param(tensor("f32", "batch", 6))
    assert "DequantizeLinear" in ops(after(op.MatMul(x, wide)))
    half = const(np.ones((6, 4), np.float16), name="w")
    assert "Cast" in ops(after(op.MatMul(x, op.Cast(half, to=DType.FLOAT))))


# ---------------------------------------------------------------------------------------------- attention written out


def written(mask: Any = None, factor: float = 0.7) -> Value:
    """Attention as torch.onnx writes it: both sides scaled, shares guarded against NaN."""
    batch, length = dims.symbol("batch"), dims.symbol("length")
    q, k, v = (param(tensor("f32", batch, length, 6)) for _ in range(3))
    heads = [
        op.Transpose(op.Reshape(x, irkit.shape_vector((batch, length, 2, 3))), perm=(0, 2, 1, 3)) for x in (q, k, v)
    ]
    scores = op.MatMul(op.Mul(heads[0], factor), op.Mul(op.Transpose(heads[1], perm=(0, 1, 3, 2)), factor))
    scores = scores if mask is None else op.Add(scores, mask(batch, length))
    shares = op.Softmax(scores, axis=-1)
    found = op.MatMul(op.Where(op.IsNaN(shares), 0.0, shares), heads[2])
    return op.Reshape(op.Transpose(found, perm=(0, 2, 1, 3)), irkit.shape_vector((batch, length, 6)))


SIZES = ((2, 5), (1, 1), (3, 2))


def test_written_out_attention_is_one_operator() -> None:
    graph = same_on_ort(written(), *([(b, n, 6)] * 3 for b, n in SIZES))
    (found,) = [v for v in graph.order if v.op not in LEAVES]
    assert found.op == "Attention" and found.attribute("scale") == pytest.approx(0.49)


def everything(batch: Any, length: Any) -> Value:
    wide = op.Expand(const(np.ones((1, 1, 1, 1), np.bool_)), irkit.shape_vector((batch, 1, length, length)))
    return op.Where(wide, 0.0, float(np.finfo(np.float32).min))


def keys_seen(batch: Any, length: Any) -> Value:
    seen = op.Unsqueeze(op.Greater(param(tensor("f32", batch, length)), -0.5), [1, 2])
    rows = op.Expand(const(True), irkit.shape_vector((1, 1, length, 1)))
    return op.Where(op.And(rows, seen), 0.0, float(np.finfo(np.float32).min))


def test_a_mask_that_hides_nothing_goes() -> None:
    graph = same_on_ort(written(everything), *([(b, n, 6)] * 3 for b, n in SIZES))
    assert ops(graph) == ["Attention"]


def test_a_mask_of_keys_is_made_once_for_all_queries() -> None:
    """ONNX Runtime takes a mask only with a row for each query: it gets one."""
    graph = same_on_ort(written(keys_seen), *([(b, n, 6), (b, n, 6), (b, n), (b, n, 6)] for b, n in SIZES))
    (found,) = [v for v in graph.order if v.op == "Attention"]
    assert found.inputs[3].shape[2] == 1 and "Expand" not in ops(graph)  # type: ignore[union-attr]
    assert "Expand" in ops(passes.prepare(graph))


@pytest.mark.parametrize("name", ["scaled_weights", "gemm_factors", "channel_factor", "factor_conv"])
def test_factors_that_weights_leave_their_range_by_stay_outside(name: str) -> None:
    x, image = param(tensor("f32", "n", 4)), param(tensor("f32", "n", 4, 5, 5))
    w, kernel = const(np.full((4, 3), 2, np.float32)), const(np.full((2, 4, 3, 3), 2, np.float32))

    def made(c: Any) -> Value:
        if name == "factor_conv":
            return op.Conv(op.Mul(image, c), kernel)
        return op.Mul(
            op.MatMul(x, w)
            if name == "scaled_weights"
            else op.Gemm(x, w)
            if name[0] == "g"
            else op.Conv(image, kernel),
            c,
        )

    rule = next(each for each in RULES if each.name == name)
    for number, folds in ((3.0, True), (3e38, False), (-3e38, False), (1e-38, False)):
        graph = Graph((x, image), (made(np.float32(number)),))
        assert (irkit.rewrite(graph, rule) is not graph) is folds


def test_vectors_and_matrices_that_weights_leave_their_range_by_stay_outside() -> None:
    """As above, of weights that are folded into weights; large ones are looked at where they are computed."""
    rows, image = param(tensor("f32", "n", 4)), param(tensor("f32", "n", 4, 5, 5))

    def full(shape: tuple[int, ...], number: float, at: float | None = None) -> Value:
        array = np.full(shape, number, np.float32)
        array.flat[0] = number if at is None else at
        return const(array)

    def normed(x: Value, scale: float, variance: float, shift: float = 1.0) -> Value:
        count = x.shape[1]
        assert isinstance(count, int)
        numbers = full((count,), 1, scale), full((count,), 1, shift), full((count,), 1), full((count,), 1, variance)
        return op.BatchNormalization(x, *numbers, epsilon=0.0)

    kernel, matrix = (2, 4, 3, 3), (4, 3)
    cases: dict[str, Any] = {
        "product_of_product": lambda n: op.MatMul(op.MatMul(rows, full((4, 2), 2, n)), full((2, 3), 2, 3e30)),
        "gemm_batch_norm": lambda n: normed(op.Gemm(rows, full(matrix, 2, n), full((3,), 1)), n, 1.0),
        "conv_batch_norm": lambda n: normed(op.Conv(image, full(kernel, 2)), 1.0, 1 / n if n < 1e30 else 0.0),
        "conv_transpose_batch_norm": lambda n: normed(op.ConvTranspose(image, full((4, 2, 3, 3), 2)), n, 1.0),
        "channel_factor": lambda n: op.Mul(op.Conv(image, full(kernel, 2)), full((2, 1, 1), 2, n)),
        "factor_conv": lambda n: op.Conv(op.Mul(image, full((4, 1, 1), 2, n)), full(kernel, 2)),
        "shift_conv": lambda n: op.Conv(op.Add(image, full((4, 1, 1), 2, n)), full(kernel, 2, n)),
        "gemm_factors": lambda n: op.Mul(op.Gemm(rows, full(matrix, 2), full((3,), 1, n)), full((3,), 2)),
        "scaled_weights": lambda n: op.Mul(op.MatMul(rows, full(matrix, 2)), full((3,), 2, n)),
    }
    rules = {each.name: each for each in RULES}
    for name, made in cases.items():
        for number, folds in ((2.0, name != "product_of_product"), (3e38, False), (-3e38, False)):
            graph = Graph((rows, image), (made(number),))
            assert irkit.explain(rules[name], graph.results[0], graph).applies is folds, (name, number)
    plain = Graph((rows,), (op.MatMul(op.MatMul(rows, full((4, 2), 2)), full((2, 3), 2)),))
    assert irkit.explain(rules["product_of_product"], plain.results[0], plain).applies
    for divisor in (1e-30, 0.0):
        graph = Graph((image,), (op.Div(op.Conv(image, full(kernel, 2)), full((2, 1, 1), 2, divisor)),))
        assert not irkit.explain(rules["channel_factor"], graph.results[0], graph).applies


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_large_weights_that_leave_their_range_are_declined_or_refused_where_they_are_computed(dtype: str) -> None:
    """One number among 70,000 that a factor takes out of its range, the last in memory. No weight is read before."""
    kind = DType.of(dtype)
    top = float(ml_dtypes.finfo(kind.numpy).max)
    rows, image = param(tensor(dtype, "n", 4)), param(tensor(dtype, "n", 4, 5, 5))
    many, columns = 1950, 17_500
    loads: list[tuple[int, ...]] = []

    def large(at: float, *shape: int) -> Value:
        def load() -> np.ndarray:
            loads.append(shape)
            array = np.full(shape, 0.5).astype(kind.numpy)
            array.flat[-1] = at
            return array

        return irkit.constant(Blob(kind, shape, load, name="w"))

    def full(number: float, *shape: int) -> Value:
        return const(np.full(shape, number).astype(kind.numpy))

    def normed(x: Value) -> Value:
        count: Any = x.shape[1]
        return op.BatchNormalization(x, *(full(n, count) for n in (2, 1, 1, 1)), epsilon=0.0)

    kernel, turned, matrix = (many, 4, 3, 3), (4, many, 3, 3), (4, columns)
    cases: dict[str, Any] = {
        "gemm_batch_norm": lambda w: normed(op.Gemm(rows, large(w, *matrix))),
        "conv_batch_norm": lambda w: normed(op.Conv(image, large(w, *kernel))),
        "conv_transpose_batch_norm": lambda w: normed(op.ConvTranspose(image, large(w, *turned))),
        "channel_factor": lambda w: op.Mul(op.Conv(image, large(w, *kernel)), full(2, many, 1, 1)),
        "factor_conv": lambda w: op.Conv(op.Mul(image, full(2, 4, 1, 1)), large(w, *kernel)),
        "gemm_factors": lambda w: op.Div(op.Gemm(rows, large(w, *matrix)), full(0.5, columns)),
    }
    if dtype in ("f32", "f64"):
        cases["scaled_weights"] = lambda w: op.Mul(op.MatMul(rows, large(w, *matrix)), full(2, columns))
    rules = {each.name: each for each in RULES}
    for name, made in cases.items():
        for number, fits in ((1.0, True), (np.inf, True), (0.9 * top, False), (-0.9 * top, False)):
            loads.clear()
            after = irkit.rewrite(Graph((rows, image), (made(number),)), rules[name])
            blobs = [v.blob for v in after.order if v.blob is not None and v.blob.of]
            assert blobs and not loads, name
            if fits:
                assert all(each.read() is not None for each in blobs), name
                continue
            for look in (Blob.read, lambda blob: list(blob.rows())):  # whole, and as large ones are written
                with pytest.raises(irkit.RewriteError, match=name) as raised:
                    for each in blobs:
                        look(each)
                assert f'rules="-{name}"' in str(raised.value.hint), name
    declined = {
        "shift_conv": lambda w: op.Conv(op.Add(image, full(2, 4, 1, 1)), large(w, *kernel)),
        "product_of_product": lambda w: op.MatMul(op.MatMul(rows, large(w, *matrix)), full(2, columns, 2)),
    }
    for name, made in declined.items():
        for number in (1.0, np.inf, np.nan, 0.9 * top, -0.9 * top):
            found = irkit.explain(rules[name], made(number))
            assert found.applies is (number == 1) and (found.applies or "out of range" in found.reason), name
    graph = Graph((rows, image), (cases["factor_conv"](0.9 * top),))
    kept = passes.optimize(graph, rules="-factor_conv")
    assert [v.blob.name for v in kept.order if v.blob is not None and v.blob.size > 4] == ["w"]


def test_weights_that_are_not_there_are_folded() -> None:
    """A graph of a model without memory becomes the graph that it would be with numbers of common size."""

    def absent(*shape: int) -> Value:
        def load() -> np.ndarray:
            raise irkit.errors.AbsentError("no numbers yet")

        return irkit.constant(Blob(DType.FLOAT, shape, load, name=f"w{shape}"))

    image = param(tensor("f32", "n", 4, 5, 5))
    norm = op.BatchNormalization(op.Conv(image, absent(2, 4, 3, 3)), *(absent(2) for _ in range(4)))
    assert "BatchNormalization" not in ops(passes.optimize(Graph((image,), (norm,))))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_a_large_convolution_takes_its_norm_a_few_rows_at_a_time(dtype: str, tmp_path: Any) -> None:
    """What is written, from memory and from a file, is to the bit what the evaluator makes of the whole weight."""
    rng = np.random.default_rng(0)
    kind = DType.of(dtype).numpy
    x = param(tensor(dtype, "batch", 96, "height", "width"))
    weight = const(rng.standard_normal((700, 96, 3, 3)).astype(kind), name="c.weight")
    scale, shift, mean = (const(rng.standard_normal(700).astype(kind)) for _ in range(3))
    variance = const(rng.uniform(0.5, 2.0, 700).astype(kind))
    normed = op.BatchNormalization(op.Conv(x, weight), scale, shift, mean, variance, epsilon=1e-3)
    irkit.save(Graph((x,), (normed,)), tmp_path / "before.onnx")
    for graph in (Graph((x,), (normed,)), irkit.load(tmp_path / "before.onnx")):
        found = passes.optimize(graph)
        assert ops(found) == ["Conv"]
        irkit.save(found, tmp_path / "after.onnx")
        written = irkit.load(tmp_path / "after.onnx")
        made, read = (blob for g in (found, written) for v in g.order if (blob := v.blob) and len(blob.shape) == 4)
        assert made.by_rows is not None
        assert read.array.tobytes() == made.array.tobytes()


@pytest.mark.parametrize("turned", [False, True])
def test_a_constant_whose_size_is_a_name_stays_below_its_view(turned: bool) -> None:
    """As torch.export types a list of nothing that data tells the length of."""
    held = irkit.const(np.zeros((0, 1, 1), np.bool_)).with_type(irkit.tensor("bool", "u1", 1, 1))
    made = op.Transpose(held, perm=[2, 0, 1]) if turned else op.Squeeze(held, [1])
    graph = Graph((), (made,))
    assert passes.optimize(graph).results[0].type == made.type
