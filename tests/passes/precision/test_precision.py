"""Mixed precision: types that hold by construction, results near those of float32, and what is kept in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from typer.testing import CliRunner

import irkit
from irkit.build import const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor, tensor
from irkit.doors.cli import app
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.sessions import session
from irkit.testing import typed_graphs
from irkit.verification.laws import verify
from lowering.program.demo import EXAMPLES
from lowering.program.program import Program
from passes import optimize
from passes.precision import Mixed, Precision, mixed_precision, to_precision
from passes.precision.risks import overflowing
from passes.preparing.prepare import prepare
from tests.support.retargeted import retargeted

HALVES = (DType.FLOAT16, DType.BFLOAT16)


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def ops(graph: Graph) -> list[str]:
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(0).normal(size=shape) * scale).astype(np.float32)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, as a part of the largest number."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)) if a.size else 0.0


def reasons(mixed: Mixed) -> dict[str, str]:
    return {k.value.op: k.why for k in mixed.kept}


# ---------------------------------------------------------------------------------------------- models


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return GPT2LMHeadModel(config), (), {"input_ids": torch.randint(0, 100, (2, 9))}, {"input_ids": {0: "b", 1: "s"}}


def whisper() -> Any:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        vocab_size=100,
        num_mel_bins=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        d_model=32,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=40,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    inputs = {"input_features": torch.randn(1, 16, 80), "decoder_input_ids": torch.randint(3, 99, (1, 5))}
    return WhisperModel(config), (), inputs, {"decoder_input_ids": {1: "t"}}


CHOSEN = ("BERT", "Llama with cache", "ViT")
MODELS: dict[str, Callable[[], Any]] = {**{n: EXAMPLES[n] for n in CHOSEN}, "GPT-2": gpt2, "Whisper": whisper}


@pytest.fixture(scope="module")
def programs() -> Callable[[str], Program]:
    """The program of each model, captured where it is first asked for."""

    @cache
    def program(name: str) -> Program:
        torch.manual_seed(0)
        model, args, kwargs, shapes = MODELS[name]()
        return irkit.to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes)

    return program


@pytest.fixture(scope="module")
def exported(programs: Callable[[str], Program]) -> Callable[[str], tuple[Graph, list[np.ndarray]]]:
    """The optimized graph of each model, with random inputs."""
    return cache(lambda name: (optimize(programs(name).graph), random_inputs(programs(name).graph)))


def random_inputs(graph: Graph) -> list[np.ndarray]:
    sizes = {"batch": 2, "seq": 6, "past": 4, "b": 2, "s": 6, "t": 6}
    rng = np.random.default_rng(0)
    feeds: list[np.ndarray] = []
    for p in graph.params:
        shape = [d if isinstance(d, int) else int(d.subs({s: sizes[s.name] for s in d.free_symbols})) for d in p.shape]
        floats = p.dtype.is_float
        feeds.append((rng.normal(size=shape) if floats else rng.integers(1, 2, shape)).astype(p.dtype.numpy))
    return feeds


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.short)
@pytest.mark.parametrize("name", MODELS)
def test_models_are_near_their_float32_results(exported: Callable[[str], Any], name: str, dtype: DType) -> None:
    graph, feeds = exported(name)
    expected = session(prepare(graph)).run(feeds)
    mixed = mixed_precision(graph, dtype)
    verify(mixed.graph)
    assert [r.type for r in mixed.graph.results] == [r.type for r in graph.results]
    low = [v for v in mixed.graph.order if isinstance(v.type, Tensor) and v.dtype is dtype]
    assert any(v.op in ("MatMul", "Gemm") for v in low)
    bound = 2e-2 if dtype is DType.FLOAT16 else 1.2e-1
    got = session(prepare(mixed.graph)).run(feeds)
    for a, b in zip(expected, got, strict=True):
        assert b.dtype == a.dtype and distance(a, b) < bound
    weights = [v.blob for v in mixed.graph.order if v.blob is not None and v.blob.is_weight and v.blob.size > 2000]
    assert weights and all(w.dtype is dtype for w in weights)


@pytest.mark.parametrize("name", ["BERT", "Llama with cache", "ViT"])
def test_inputs_and_outputs_become_16_bits_on_request(exported: Callable[[str], Any], name: str) -> None:
    graph, feeds = exported(name)
    made = to_precision(graph, "f16", keep_io=False)
    verify(made)
    assert not any(v.dtype is DType.FLOAT for v in (*made.params, *made.results))
    expected = session(prepare(graph)).run(feeds)
    got = session(prepare(made)).run([f.astype(np.float16) if f.dtype == np.float32 else f for f in feeds])
    assert all(distance(a, b) < 2e-2 for a, b in zip(expected, got, strict=True))


@given(typed_graphs(max_ops=8))
def test_types_hold_in_any_graph(graph: Graph) -> None:
    for dtype in HALVES:
        made = to_precision(graph, dtype)
        verify(made)
        assert [r.type for r in made.results] == [r.type for r in graph.results]
        verify(to_precision(graph, dtype, keep_io=False))


@pytest.mark.parametrize("name", ["Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike"])
def test_what_takes_the_type_of_its_operand_stays(name: str) -> None:
    x = value(2, 3)
    graph = Graph((x,), (op.Relu(getattr(op, name)(op.Sigmoid(x))),))
    for keep_io in (True, False):
        verify(to_precision(graph, keep_io=keep_io))


@pytest.mark.parametrize("opset", [13, 15, 17, 22])
@pytest.mark.parametrize("name", MODELS)
def test_models_run_at_older_opsets(exported: Callable[[str], Any], name: str, opset: int) -> None:
    graph, feeds = exported(name)
    expected = session(prepare(graph)).run(feeds)
    legal = prepare(graph, opset=opset)
    onnx.checker.check_model(irkit.to_proto(legal, opset=opset), full_check=True)
    for a, b in zip(expected, session(legal, opset=opset).run(feeds), strict=True):
        assert b.dtype == a.dtype and distance(a, b) < 1e-5


# ---------------------------------------------------------------------------------------------- what is kept


def test_sums_powers_and_exponentials_stay() -> None:
    x = value("b", 512)
    y = op.MatMul(x, const(normal(512, 512)))
    graph = Graph((x,), (op.ReduceMean(op.Pow(y, 2.0), [1]), op.Softmax(y), op.Exp(y), op.Tanh(y)))
    mixed = mixed_precision(graph)
    assert reasons(mixed) == {
        "Pow": "Pow overflows soon",
        "ReduceMean": "ReduceMean adds up many numbers",
        "Exp": "Exp overflows soon",
        "Softmax": "Softmax adds up, or multiplies, many numbers",
    }
    assert set(reasons(mixed_precision(graph, "bf16"))) == {"ReduceMean", "Softmax"}
    assert mixed.casts == ops(mixed.graph).count("Cast") == 3  # of x, of the product, of what Tanh gives
    large = normal(3, 512, scale=30)
    for a, b in zip(evaluate(graph, [large]), evaluate(mixed.graph, [large]), strict=True):
        assert np.isfinite(b[np.isfinite(a)]).all()


def test_a_norm_with_a_tiny_epsilon_is_right() -> None:
    x = value("b", 256)
    y = op.MatMul(x, const(np.eye(256, dtype=np.float32)))
    spread = op.ReduceMean(op.Mul(y, y), [1])
    graph = Graph((x,), (op.Mul(y, op.Reciprocal(op.Sqrt(op.Add(spread, 1e-12)))),))
    mixed = mixed_precision(graph)
    assert "below what f16 holds well" in reasons(mixed)["Add"]
    (got,) = evaluate(mixed.graph, [np.zeros((2, 256), np.float32)])
    assert np.array_equal(got, np.zeros((2, 256)))
    small = normal(2, 256)
    assert distance(evaluate(graph, [small])[0], evaluate(mixed.graph, [small])[0]) < 3e-3


@pytest.mark.parametrize("low", [-1e9, -3.4028235e38])
def test_masks_become_the_lowest_number_that_fits(low: float) -> None:
    x, mask = value("b", 8), value("b", 8, dtype="i64")
    scores = op.MatMul(x, const(np.eye(8, dtype=np.float32)))
    added = op.Add(scores, op.Mul(op.Sub(1.0, op.Cast(mask, to=1)), low))
    chosen = op.Where(op.Equal(mask, 0), const(np.float32(low)), scores)
    graph = Graph((x, mask), (op.Softmax(added), op.Softmax(chosen)))
    mixed = mixed_precision(graph)
    assert any("65504" in note for note in mixed.notes) and "65504" in str(mixed)
    keys = np.array([[1, 0, 1, 1, 0, 1, 1, 1], [0] * 8])
    for a, b in zip(evaluate(graph, [normal(2, 8), keys]), evaluate(mixed.graph, [normal(2, 8), keys]), strict=True):
        assert np.isfinite(b).all() and distance(a[:1], b[:1]) < 2e-3


def test_positions_stay_exact() -> None:
    x, at = value("b", 16), value("b", dtype="i64")
    angles = op.Mul(op.Unsqueeze(op.Cast(at, to=1), [1]), const((0.9 ** np.arange(16)).astype(np.float32)))
    turned = op.Mul(op.MatMul(x, const(np.eye(16, dtype=np.float32))), op.Cos(angles))
    graph = Graph((x, at), (turned,))
    mixed = mixed_precision(graph)
    assert {k.value.op for k in mixed.kept if "positions" in k.why} == {"Mul", "Cos", "Unsqueeze"}
    feeds = [normal(3, 16), np.array([4096, 30001, 99999])]
    assert distance(evaluate(graph, feeds)[0], evaluate(mixed.graph, feeds)[0]) < 3e-3


def test_what_overflows_in_a_sample_is_kept() -> None:
    x = value("b", 8)
    y = op.MatMul(x, const(normal(8, 8, scale=100)))
    graph = Graph((x,), (op.Relu(op.MatMul(op.MatMul(y, const(normal(8, 8))), const(normal(8, 8)))),))
    feeds = [normal(4, 8, scale=60)]
    assert not mixed_precision(graph).kept
    assert not np.isfinite(evaluate(to_precision(graph), feeds)[0]).all()
    seen = overflowing(graph, feeds)
    assert y not in seen or seen[y].largest > 65504 / 4
    mixed = mixed_precision(graph, feeds=feeds)
    assert mixed.kept and all("reaches" in k.why for k in mixed.kept)
    (expected,), (got,) = evaluate(graph, feeds), evaluate(mixed.graph, feeds)
    assert distance(expected, got) < 1e-2
    assert not mixed_precision(graph, "bfloat16", feeds=[feeds, feeds]).kept
    tiny = mixed_precision(graph, feeds=[normal(4, 8, scale=1e-9)])
    assert tiny.kept and all("loses" in k.why for k in tiny.kept)


def test_the_keep_list_names_operators_modules_nodes_and_results() -> None:
    x = value("b", 8)
    origin = Origin(node="linear_3", module="model.layers.1.mlp")
    first = op.MatMul(x, const(normal(8, 8)))
    second = op.MatMul(first, const(normal(8, 8))).with_origin(origin)
    signature = irkit.Signature((irkit.Port("x"),), (irkit.Port("logits", "output"),))
    graph = Graph((x,), (op.Tanh(second),), signature=signature)
    for pattern, kept in {
        "Tanh": ["Tanh"],
        "model.layers.1": ["MatMul"],
        "model.layers.*": ["MatMul"],
        "linear_3": ["MatMul"],
        "logits": ["Tanh"],
        "MatMul": ["MatMul", "MatMul"],
        "layers": [],
        "*": ["MatMul", "MatMul", "Tanh"],
    }.items():
        mixed = mixed_precision(graph, keep=[pattern])
        assert [k.value.op for k in mixed.kept] == kept, pattern
    assert to_precision(graph, keep=["*"]) is graph


def test_bodies_are_converted_and_their_types_stay() -> None:
    x, condition = value(4, 8), value(dtype="bool")
    weight = const(normal(8, 8))
    (made,) = op.If(condition, then_branch=lambda: op.MatMul(x, weight), else_branch=lambda: op.Relu(x))
    graph = Graph((x, condition), (made,))
    mixed = mixed_precision(graph)
    verify(mixed.graph)
    (chosen,) = [v for v in mixed.graph.order if v.op == "If"]
    assert any(v.op == "MatMul" and v.dtype is DType.FLOAT16 for v in chosen.bodies[0].order)
    for flag in (True, False):
        feeds = [normal(4, 8), np.array(flag)]
        assert distance(evaluate(graph, feeds)[0], evaluate(mixed.graph, feeds)[0]) < 2e-3


def test_operators_of_onnx_runtime_and_of_others() -> None:
    x = value("b", 64)
    fused = irkit.call("com.microsoft::FusedMatMul", [x, const(normal(64, 64))], {"alpha": 0.5})
    normed = irkit.call("com.microsoft::SkipLayerNormalization", [fused, fused, const(normal(64))], {"epsilon": 1e-5})
    own = irkit.custom("mine::Own", normed, type=tensor("f32", "b", 64))
    graph = Graph((x,), (normed, own))
    mixed = mixed_precision(graph)
    verify(mixed.graph)
    kinds = {v.op: v.dtype.short for v in mixed.graph.order if "::" in v.op}
    assert kinds == {
        "com.microsoft::FusedMatMul": "f16",
        "com.microsoft::SkipLayerNormalization": "f16",
        "mine::Own": "f32",
    }
    assert reasons(mixed) == {"mine::Own": "its element types are not known"}
    feeds = [normal(3, 64)]
    whole, half = (Graph(g.params, g.results[:1]) for g in (graph, mixed.graph))
    assert distance(evaluate(whole, feeds)[0], evaluate(half, feeds)[0]) < 3e-3


def test_weights_are_shared_and_keep_their_names() -> None:
    x = value("b", 64)
    blob = irkit.blob(normal(64, 64), name="tied.weight")
    one, two = irkit.constant(blob), irkit.constant(blob)
    graph = Graph((x,), (op.MatMul(op.MatMul(x, one), two),))
    made = to_precision(graph)
    weights = [v.blob for v in made.order if v.blob is not None]
    assert {w.name for w in weights if w is not None} == {"tied.weight"}
    assert len({w.key for w in weights if w is not None}) == 1
    assert sum(len(i.raw_data) for i in irkit.to_proto(made).graph.initializer) == 64 * 64 * 2


def test_nothing_to_convert_and_nothing_known() -> None:
    at = value("b", dtype="i64")
    graph = Graph((at,), (op.Add(at, 1),))
    assert to_precision(graph) is graph
    with pytest.raises(RewriteError, match="no precision 'float8'"):
        to_precision(graph, "float8")
    with pytest.raises(RewriteError, match="float16 or bfloat16"):
        to_precision(graph, DType.DOUBLE)


# ---------------------------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(("dtype", "keep_io"), [("float16", True), ("float16", False), ("bfloat16", True)])
@pytest.mark.parametrize("name", CHOSEN)
def test_to_onnx_takes_a_precision(programs: Callable[[str], Program], name: str, dtype: str, keep_io: bool) -> None:
    asked: Any = Precision(dtype, keep_io=keep_io) if not keep_io else dtype
    if (name, dtype, keep_io) == ("ViT", "float16", True):  # the whole way, once
        model, args, kwargs, shapes = MODELS[name]()
        program = irkit.to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes, precision=asked)
    else:
        program = retargeted(programs(name), precision=asked)
    made = DType[dtype.upper()]
    assert program.precision is made and made.short in program.report.precision
    given = {v.dtype for v in (*program.ready.params, *program.ready.results) if v.dtype.is_float}
    assert given == {DType.FLOAT if keep_io else made}
    report = program.check(1)  # against the torch model in float32, at its own sizes and at others
    assert report, report
    errors = [relative for run in report.runs for _, _, relative in run.errors]
    assert 1e-5 < max(errors) < (2e-2 if dtype == "float16" else 6e-2), "it is near, and not float32"


def test_a_precision_is_checked_before_anything_is_exported() -> None:
    model = torch.nn.Linear(3, 3)
    with pytest.raises(RewriteError, match="no precision 'float15'"):
        irkit.to_onnx(model, (torch.randn(2, 3),), precision="float15")
    with pytest.raises(RewriteError, match="not to double"):
        irkit.to_onnx(model, (torch.randn(2, 3),), precision=DType.DOUBLE)


def test_what_the_keep_list_names_in_vain_is_said() -> None:
    x = value("b", 8)
    graph = Graph((x,), (op.Softmax(op.MatMul(x, const(normal(8, 8)))),))
    mixed = mixed_precision(graph, keep=["Softmax", "lm_head.*"])
    assert mixed.notes == ("'lm_head.*' of the keep-list names nothing that is converted",)


def test_export_takes_a_precision(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    torch.export.save(torch.export.export(model, (torch.randn(2, 8),)), tmp_path / "model.pt2")
    arguments = ["export", str(tmp_path / "model.pt2"), "-o", str(tmp_path / "made.onnx")]
    for options, kind in (([], 1), (["--no-keep-io"], 10)):
        said = CliRunner().invoke(app, [*arguments, "--precision", "float16", "--keep", "2", "--check", *options])
        assert said.exit_code == 0, said.output
        assert "f16" in said.output and "precision" in said.output
        model_ = onnx.load(tmp_path / "made.onnx")
        assert [v.type.tensor_type.elem_type for v in (*model_.graph.input, *model_.graph.output)] == [kind, kind]
        feed = normal(2, 8).astype(np.float32 if kind == 1 else np.float16)
        expected = model(torch.from_numpy(feed.astype(np.float32))).detach().numpy()
        assert distance(expected, session(model_).run([feed])[0]) < 5e-3
    said = CliRunner().invoke(app, [*arguments, "--keep", "2"])
    assert said.exit_code == 1 and "--precision" in said.output


@pytest.mark.parametrize(("options", "kind"), [([], 1), (["--no-keep-io"], 10)])
def test_optimize_takes_a_precision(tmp_path: Path, options: list[str], kind: int) -> None:
    x = value("b", 8)
    graph = Graph((x,), (op.Softmax(op.MatMul(x, const(normal(8, 8)))),))
    irkit.save(prepare(graph), tmp_path / "given.onnx")
    arguments = ["optimize", str(tmp_path / "given.onnx"), "-o", str(tmp_path / "made.onnx")]
    said = CliRunner().invoke(app, [*arguments, "--precision", "float16", "--keep", "Softmax", *options])
    assert said.exit_code == 0, said.output
    assert "'Softmax' is on the keep-list" in said.output
    model = onnx.load(tmp_path / "made.onnx")
    sample: dict[str, Any] = {model.graph.input[0].name: normal(3, 8, scale=1e6)}
    np.savez(tmp_path / "inputs.npz", **sample)
    said = CliRunner().invoke(app, [*arguments, "--precision", "f16", "--sample", str(tmp_path / "inputs.npz")])
    assert said.exit_code == 0 and "it reaches" in said.output, said.output
    assert [v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)] == [kind, kind]
    feed = normal(3, 8).astype(np.float32 if kind == 1 else np.float16)
    assert distance(evaluate(graph, [feed.astype(np.float32)])[0], session(model).run([feed])[0]) < 2e-3
