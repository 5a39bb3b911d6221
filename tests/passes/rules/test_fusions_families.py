"""Families of transformers whose attention and projections are written in ways of their own: what is left of them, in
ONNX's operators and with those of ONNX Runtime, and that the numbers stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnxruntime
import pytest
import torch
import transformers as t

import irkit
from irkit.checking.comparison import compare
from irkit.core.ir import Graph
from irkit.doors.to_onnx import save
from irkit.evaluation.interpreter import evaluate
from lowering import lower
from passes import optimize, prepare
from passes.preparing.fuse import fuse
from passes.targets import target_of

PLAIN, CONTRIB = target_of("onnxruntime-cpu"), target_of("onnxruntime-cpu+com.microsoft")
TOKENS = {0: "batch", 1: "seq"}
SMALL: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
}  # fmt: skip
DECODER: dict[str, Any] = {
    **SMALL, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False,
}  # fmt: skip
GPT: dict[str, Any] = {
    "vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2,
    "use_cache": False,
}  # fmt: skip
BY_HEAD: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 32, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False,
}  # fmt: skip
SWIN: dict[str, Any] = {
    "image_size": 32, "patch_size": 4, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
}  # fmt: skip


@attrs.frozen
class Family:
    """A model, how its attention is written, and what is left: nodes in ONNX's operators and with ONNX Runtime's."""

    make: Callable[[], Any]
    written: str
    nodes: tuple[int, int]
    left: dict[str, int]


def t5() -> Any:
    return t.T5Model(t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False))


FAMILIES: dict[str, Family] = {
    "bert": Family(
        lambda: t.BertModel(t.BertConfig(**SMALL)), "sdpa", (48, 37),
        {"Attention": 2, "GatherElements": 0, "com.microsoft::Attention": 2},
    ),
    "roberta": Family(
        lambda: t.RobertaModel(t.RobertaConfig(**SMALL)), "sdpa", (56, 45),
        {"Attention": 2, "GatherElements": 0, "com.microsoft::Attention": 2},
    ),
    "mpnet": Family(
        lambda: t.MPNetModel(t.MPNetConfig(**SMALL)), "eager", (79, 64),
        {"Attention": 2, "com.microsoft::Attention": 2},
    ),
    "bloom": Family(
        lambda: t.BloomForCausalLM(t.BloomConfig(**BY_HEAD, n_layer=2, n_head=4)), "eager", (52, 44),
        {"Attention": 2, "Split": 2, "Gather": 1, "Reshape": 0, "com.microsoft::Attention": 2},
    ),
    "gpt_neox": Family(
        lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**{**DECODER, "rotary_pct": 0.5})), "sdpa", (49, 47),
        {"Attention": 2, "RotaryEmbedding": 4, "Split": 2, "Reshape": 0, "Transpose": 0},
    ),
    "persimmon": Family(
        lambda: t.PersimmonForCausalLM(t.PersimmonConfig(**DECODER)), "sdpa", (63, 63),
        {"Attention": 2, "RotaryEmbedding": 4, "Split": 2, "Gather": 1, "Transpose": 0},
    ),
    "falcon": Family(
        lambda: t.FalconForCausalLM(t.FalconConfig(**BY_HEAD, num_hidden_layers=2, num_attention_heads=4)), "sdpa",
        (40, 40), {"Attention": 2, "RotaryEmbedding": 4, "Split": 2, "Gather": 1, "Slice": 0, "Reshape": 0},
    ),
    "gptj": Family(
        lambda: t.GPTJForCausalLM(t.GPTJConfig(**GPT, rotary_dim=4)), "eager", (52, 50),
        {"Attention": 2, "RotaryEmbedding": 4, "GatherElements": 0, "Concat": 0, "Reshape": 0, "Transpose": 0},
    ),
    "codegen": Family(
        lambda: t.CodeGenForCausalLM(t.CodeGenConfig(**GPT, rotary_dim=4)), "eager", (50, 48),
        {"Attention": 2, "RotaryEmbedding": 4, "Concat": 0, "Reshape": 0, "Transpose": 0},
    ),
    "gemma2": Family(
        lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**DECODER, num_key_value_heads=2, head_dim=8, sliding_window=8)),
        "eager", (65, 64), {"Attention": 2, "Tanh": 1, "RMSNormalization": 9, "RotaryEmbedding": 4},
    ),
    "swinv2": Family(
        lambda: t.Swinv2Model(t.Swinv2Config(**SWIN)), "eager", (170, 166), {"Attention": 4, "Softmax": 0},
    ),
    "t5_sdpa": Family(t5, "sdpa", (114, 102), {"Attention": 6, "com.microsoft::Attention": 4}),
    "t5": Family(t5, "eager", (109, 97), {"Attention": 6, "com.microsoft::Attention": 4}),
}  # fmt: skip


def inputs(name: str, batch: int, length: int) -> dict[str, torch.Tensor]:
    if name == "swinv2":
        return {"pixel_values": torch.randn(batch, 3, 32, 32)}
    ids = torch.randint(5, 99, (batch, length))
    if name.startswith("t5"):
        return {"input_ids": ids, "decoder_input_ids": ids[:, 1:]}
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, :2] = 0
    return {"input_ids": ids, "attention_mask": mask}


def sizes(name: str) -> dict[str, Any]:
    if name == "swinv2":
        return {"pixel_values": {0: "batch"}}
    if name.startswith("t5"):
        return {"input_ids": {0: "batch", 1: "source"}, "decoder_input_ids": {0: "batch", 1: "target"}}
    return {"input_ids": TOKENS, "attention_mask": TOKENS}


def nodes(graph: Graph) -> Counter[str]:
    return Counter(v.op for v in graph.order if v.op not in ("Param", "Constant", "Item", "ShapeVector"))


def on_runtime(graph: Graph, target: Any, feeds: list[np.ndarray], path: Path) -> list[Any]:
    """What ONNX Runtime computes of an optimized graph."""
    save(prepare(graph, target), path, opset=target.opset)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {i.name: x for i, x in zip(session.get_inputs(), feeds, strict=True)}))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_fused_and_its_numbers_stay(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    torch.manual_seed(0)
    model = family.make().eval()
    if name != "swinv2":
        model.set_attn_implementation(family.written)
    graph = lower(model, (), inputs(name, 2, 7), dynamic_shapes=sizes(name), widen=False)
    after = optimize(graph)
    fused = fuse(after, CONTRIB)
    assert (sum(nodes(after).values()), sum(nodes(fused).values())) == family.nodes, (nodes(after), nodes(fused))
    for op, count in family.left.items():
        assert nodes(fused if op.startswith("com.") else after)[op] == count, op
    assert not nodes(after)["Softmax"]
    for batch, length in ((2, 7), (3, 5)):
        feeds = [x.numpy() for x in inputs(name, batch, length).values()]
        expected = evaluate(graph, feeds)
        for target in (PLAIN, CONTRIB):
            found = on_runtime(after, target, feeds, tmp_path / "model.onnx")
            difference = compare(expected, found)
            assert difference is None, (str(target), difference)


def test_without_a_runtime_every_norm_takes_the_sum_before_it(tmp_path: Path) -> None:
    """Which ONNX Runtime computes slower than a sum and a norm, so that its own target has those."""
    torch.manual_seed(0)
    config = t.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
    )
    model = t.ViTModel(config, add_pooling_layer=False).eval()
    images = torch.randn(2, 3, 32, 32)
    graph = lower(model, (), {"pixel_values": images}, dynamic_shapes={"pixel_values": {0: "batch"}})
    for name, count, norms in (("onnx+com.microsoft", 20, 4), ("onnxruntime-cpu+com.microsoft", 24, 0)):
        target = target_of(name)
        after = prepare(optimize(graph), target)
        assert nodes(after)["com.microsoft::SkipLayerNormalization"] == norms
        assert sum(nodes(after).values()) == count, nodes(after)
        (found,) = on_runtime(after, target, [images.numpy()], tmp_path / "model.onnx")
        assert compare(evaluate(graph, [images.numpy()])[:1], [found]) is None


class Penalized(torch.nn.Module):
    """Causal attention with a further mask, which may hide every key of a query."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Attention written out."""
        places = torch.arange(q.shape[2])
        scores = q @ k.transpose(-1, -2) * 0.5 + mask
        scores = scores + torch.where(places[None, :] <= places[:, None], 0.0, -1e9)
        return torch.softmax(scores, -1) @ v


def test_a_mask_that_hides_all_keys_of_a_query_stays_a_number() -> None:
    """The scores that are left are those of eager, which -inf in place of a low number would change."""
    q, k, v = (torch.randn(2, 2, 3, 4) for _ in range(3))
    mask = torch.zeros(1, 1, 3, 3)
    mask[0, 0, 0, 0] = -1e9
    lead = {0: "b", 2: "s"}
    program = irkit.to_onnx(Penalized().eval(), (q, k, v, mask), dynamic_shapes=(lead, lead, lead, {2: "s", 3: "s"}))
    torch.testing.assert_close(program(q, k, v, mask), Penalized()(q, k, v, mask), rtol=1e-5, atol=1e-5)
