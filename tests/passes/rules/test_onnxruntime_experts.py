"""Mixtures of experts of transformers against eager: as models compute them, in MoE, and written out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers

import irkit
from irkit.core.ir import Graph, Value
from lowering import lower
from passes import optimize, prepare
from passes.preparing.fuse import fuse, fusions
from passes.rules.onnxruntime.experts import mixture_of_experts
from passes.targets import target_of
from passes.targets.costs import pays
from tests.zoo.transformers_text import decoder_options

CONTRIB = target_of("onnxruntime-cpu+com.microsoft")
ANY = target_of("onnx+com.microsoft")
MOE = "com.microsoft::MoE"

MODELS: dict[str, dict[str, Any]] = {
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "Qwen2Moe": {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40
    },
    "Qwen3Moe": {
        "num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "norm_topk_prob": True, "head_dim": 16
    },
    "GptOss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
    "Olmoe": {"num_experts": 4, "num_experts_per_tok": 3},
}  # fmt: skip


def block(model: str, experts: str) -> torch.nn.Module:
    """The mixture of the first layer of a model, with random weights that are large enough to matter."""
    options = MODELS[model]
    config = getattr(transformers, f"{model}Config")(**decoder_options(num_hidden_layers=1, **options))
    made = getattr(transformers, f"{model}ForCausalLM")._from_config(config, experts_implementation=experts).eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for weight in made.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
    return made.model.layers[0].mlp


def lowered(module: torch.nn.Module) -> Graph:
    """The mixture of (batch, seq, 64), simplified."""
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    return optimize(lower(module, (x,), dynamic_shapes=({0: "batch", 1: "seq"},)))


def mixtures(graph: Graph) -> list[Value]:
    return [v for v in graph.order if v.op == MOE]


def session(graph: Graph) -> Callable[[np.ndarray], np.ndarray]:
    data = irkit.to_proto(graph, ir_version=11).SerializeToString()
    run = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return lambda x: np.asarray(run.run(None, {run.get_inputs()[0].name: x})[0])


def largest(wanted: np.ndarray, found: np.ndarray) -> float:
    """The largest error by the largest number."""
    assert wanted.shape == found.shape and wanted.dtype == found.dtype
    return float(np.abs(wanted - found).max() / np.abs(wanted).max())


@pytest.mark.parametrize("experts", ["grouped_mm", "batched_mm"])
@pytest.mark.parametrize("model", list(MODELS))
def test_mixtures_of_models_are_found(model: str, experts: str) -> None:
    module = block(model, experts)
    graph = lowered(module)
    fused = fuse(graph, ANY)
    assert len(mixtures(fused)) == 1 and len(fused.order) < len(graph.order) / 2
    irkit.verify(fused)
    written_out = prepare(fused)
    assert not mixtures(written_out)
    runs = [session(g) for g in (fused, written_out, prepare(graph))]
    for rows in ((2, 5), (1, 1), (3, 4)):
        x = torch.randn(*rows, 64, generator=torch.Generator().manual_seed(sum(rows)))
        with torch.no_grad():
            found = module(x)
        wanted = (found[0] if isinstance(found, tuple) else found).numpy()
        for run in runs:
            assert largest(wanted, run(x.numpy())) < 2e-5
        assert largest(wanted, irkit.evaluate(fused, [x.numpy()])[0]) < 2e-5


def test_the_table_of_costs_decides_and_says_why() -> None:
    graph = lowered(block("Mixtral", "grouped_mm"))
    good, why = pays("MoE[swiglu]", irkit.DType.FLOAT, CONTRIB.provider)
    assert bool(mixtures(fuse(graph, CONTRIB))) is good
    rule = next(r for r in fusions(CONTRIB) if r.name == mixture_of_experts.name)
    sums = [v for v in graph.order if v.op == "ReduceSum" and v.inputs[0] is not None and v.inputs[0].rank == 3]
    assert good or why in str(irkit.explain(rule, sums[-1]))


def test_what_moe_cannot_do_is_left_alone() -> None:
    """Experts with another activation between gates: the rule says so."""
    config = transformers.MixtralConfig(
        **decoder_options(num_hidden_layers=1, num_local_experts=4, num_experts_per_tok=2, hidden_act="gelu")
    )
    module: Any = transformers.MixtralForCausalLM(config).eval().model.layers[0]
    graph = lowered(module.mlp)
    assert not mixtures(fuse(graph, ANY))
    sums = [v for v in graph.order if v.op == "ReduceSum" and v.inputs[0] is not None and v.inputs[0].rank == 3]
    assert "MoE has no such activation as Mul" in str(irkit.explain(mixture_of_experts, sums[-1]))
