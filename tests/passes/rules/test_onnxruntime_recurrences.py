"""States that go from token to token: decoding steps of models of transformers against eager, and what is declined."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import irkit
from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.core.walk import post_order
from passes import prepare
from passes.preparing.fuse import fuse
from passes.rules.onnxruntime.recurrences import attended_state, causal_convolution
from passes.targets import target_of
from passes.targets.costs import fusion_of, pays
from tests.zoo.transformers_text import decoder_options, token_ids

CONTRIB = target_of("onnxruntime-cpu+com.microsoft")
ANY = target_of("onnx+com.microsoft")
ATTENTION, CONVOLUTION = "com.microsoft::LinearAttention", "com.microsoft::CausalConvWithState"

HEADS = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
MODELS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "Qwen3Next": ({**HEADS, "num_experts": 0, "head_dim": 16}, {ATTENTION: 1, CONVOLUTION: 1}),
    "OlmoHybrid": ({"layer_types": HEADS["layer_types"]}, {ATTENTION: 1, CONVOLUTION: 1}),
    "Lfm2": ({"layer_types": ["conv", "full_attention"], "conv_L_cache": 3}, {CONVOLUTION: 1}),
}
MAMBA2 = {"vocab_size": 99, "hidden_size": 32, "state_size": 8, "num_heads": 4, "head_dim": 16, "n_groups": 2}


def step(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model of two layers, and one token behind five others."""
    options = MODELS[name][0] if name in MODELS else {}
    made = MAMBA2 if name == "Mamba2" else decoder_options(num_hidden_layers=2, **options)
    config = getattr(transformers, f"{name}Config")(**{**made, "num_hidden_layers": 2})
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.copy_(torch.randn_like(weight) * 0.2)
        cache, key = transformers.DynamicCache(config=config), "cache_params" if name == "Mamba2" else "past_key_values"
        model(input_ids=token_ids(99, 2, 5), use_cache=True, **{key: cache})
        return model, {"input_ids": token_ids(99, 2, 1), key: cache}


def found(program: Any) -> Counter[str]:
    return Counter(v.op for v in program.ready.order if v.op in (ATTENTION, CONVOLUTION))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [*((n, w) for n, (_, w) in MODELS.items()), ("Mamba2", {CONVOLUTION: 2})],
    ids=lambda v: str(v)[:9],
)
def test_a_step_of_a_model_agrees_with_eager(name: str, wanted: dict[str, int]) -> None:
    model, kwargs = step(name)
    shapes = {key: {0: "batch"} for key in kwargs}
    program = irkit.to_onnx(model, (), kwargs, dynamic_shapes=shapes, target=CONTRIB)
    assert found(program) == wanted
    report = program.check(n=2)
    assert report, str(report)


def state(batch: Any, *, by_key: bool = False, gated: bool = True, delta: bool = True, by: float = 0.5) -> Graph:
    """One token of linear attention, as a model writes it."""
    past, key, value, query = (param(tensor("f32", batch, 2, *s)) for s in ((3, 4), (3,), (4,), (3,)))
    decay, beta = param(tensor("f32", batch, 2, *([3] if by_key else []))), param(tensor("f32", batch, 2))
    left = op.Mul(past, op.Exp(op.Unsqueeze(decay, [3] if by_key else [2, 3]))) if gated else past
    column, change = op.Unsqueeze(key, [3]), value
    if delta:
        seen = op.ReduceSum(op.Mul(left, column), np.array([2]), keepdims=0)
        change = op.Mul(op.Sub(value, seen), op.Unsqueeze(beta, [2]))
    after = op.Add(left, op.Mul(column, op.Unsqueeze(change, [2])))
    read = op.ReduceSum(op.Mul(after, op.Unsqueeze(op.Div(query, by), [3])), np.array([2]), keepdims=0)
    return Graph((past, key, value, query, decay, beta), (read, after))


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize(("gated", "delta"), [(True, True), (True, False), (False, True), (False, False)])
def test_all_rules_of_linear_attention_are_read(gated: bool, delta: bool, by_key: bool) -> None:
    graph = state(dims.symbol("batch"), gated=gated, delta=delta, by_key=by_key)
    fused = fuse(graph, ANY)
    (made,) = [v for v in fused.order if v.op == ATTENTION]
    rule = ("gated" if gated else "") + ("_" if gated and delta else "") + ("delta" if delta else "")
    assert made.attribute("update_rule", "gated_delta") == (rule or "linear") and made.attribute("scale") == 2.0
    rng = np.random.default_rng(0)
    for batch in (2, 1):
        feeds = [rng.standard_normal([batch, *p.shape[1:]]).astype(np.float32) for p in graph.params]
        wanted = irkit.evaluate(graph, feeds)
        for other in (fused, prepare(fused)):
            for a, b in zip(wanted, irkit.evaluate(other, feeds), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


def test_a_factor_that_keeps_sums_from_overflowing_stays_with_the_query() -> None:
    graph = state(2, gated=False, delta=False, by=8.0)
    fused = fuse(graph, ANY)
    (made,) = [v for v in fused.order if v.op == ATTENTION]
    assert made.attribute("scale") == 1.0 and "Div" in {v.op for v in fused.order}
    large = np.finfo(np.float32).max / 16
    feeds = [np.ones(p.shape, np.float32) for p in graph.params]
    feeds[0], feeds[3] = np.full(graph.params[0].shape, large, np.float32), feeds[3] * 8
    for a, b in zip(irkit.evaluate(graph, feeds), irkit.evaluate(fused, feeds), strict=True):
        assert np.isfinite(a).all() and np.isfinite(b).all()


def test_states_whose_decay_is_another_for_each_element_are_left_as_they_are() -> None:
    past, decay, key = (param(tensor("f32", "batch", 2, 3, 4)) for _ in range(3))
    query = param(tensor("f32", "batch", 2, 3, 1))
    after = op.Add(op.Mul(past, op.Exp(decay)), key)
    graph = Graph((past, decay, key, query), (op.ReduceSum(op.Mul(after, query), np.array([2])), after))
    assert fuse(graph, ANY) is graph
    assert "the state is not a sum of an earlier one" in str(irkit.explain(attended_state, graph.results[0]))


def convolution(there: int, length: Any, **more: Any) -> Value:
    """Four taps behind so many earlier positions."""
    past, x = param(tensor("f32", "batch", 6, there)), param(tensor("f32", "batch", 6, length))
    weight = const(np.random.default_rng(0).standard_normal((6, 1, 4)).astype(np.float32))
    return op.Conv(op.Concat(past, x, axis=2), weight, group=6, **more)


def test_convolutions_of_other_kinds_are_left_as_they_are() -> None:
    for made, reason in (
        (convolution(2, 3), "fewer earlier positions"),
        (convolution(4, 1), "other positions are wanted"),
        (convolution(3, "length", pads=[1, 0]), "padded"),
        (convolution(3, 5, strides=[2]), "has strides"),
        (op.Slice(convolution(4, "length"), [0], [1], [2]), "other positions are wanted"),
    ):
        assert reason in str(irkit.explain(causal_convolution, made)), reason


def test_one_token_is_convolved_with_its_activation_and_several_as_they_were() -> None:
    """The kernel reads long rows, and computes activations of many elements, more slowly."""
    for length, name in ((1, "CausalConvWithState[silu,past,step]"), ("length", "CausalConvWithState[past]")):
        found = convolution(3, length)
        graph = fuse(Graph(tuple(v for v in post_order([found]) if v.op == "Param"), (op.Swish(found),)), CONTRIB)
        names = [fusion_of(v) for v in graph.order if v.op == CONVOLUTION]
        assert names == ([name] if pays(name, DType.FLOAT, CONTRIB.provider)[0] else [])
