"""Layers of architectures that are taken over give the graph that each of them gives by itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from transformers.cache_utils import EncoderDecoderCache

from lowering import lower
from lowering.capture.inputs.alike import Likes
from lowering.direct import equal_modules
from lowering.direct import run as runs
from passes import optimize

WORDS: dict[str, Any] = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IDS = {0: "batch", 1: "seq"}


def moe(config: type) -> Callable[[], Any]:
    """What makes a decoder whose layers choose among experts."""
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 2,
    }
    made = config(
        num_hidden_layers=5,
        head_dim=16,
        num_key_value_heads=1,
        num_local_experts=3,
        num_experts_per_tok=2,
        **sizes,
        **WORDS,
    )
    return lambda: transformers.AutoModelForCausalLM.from_config(made)


def bart() -> Any:
    sizes: dict[str, Any] = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in SIDES.items()}
    config = transformers.BartConfig(d_model=32, decoder_start_token_id=2, forced_eos_token_id=2, **sizes, **WORDS)
    return transformers.BartForConditionalGeneration(config)


START: dict[str, Any] = {"decoder_start_token_id": 0}
SIDES: dict[str, Any] = {"layers": 7, "ffn_dim": 48, "attention_heads": 2}


def t5() -> Any:
    sizes: dict[str, Any] = {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 7, "num_heads": 2}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **WORDS, **START))


def gpt2() -> Any:
    config = transformers.GPT2Config(n_layer=7, n_embd=32, n_head=2, **WORDS)
    return transformers.GPT2LMHeadModel(config)


def mamba() -> Any:
    config = transformers.MambaConfig(num_hidden_layers=5, hidden_size=16, state_size=4, **WORDS)
    return transformers.MambaForCausalLM(config)


class Step(torch.nn.Module):
    """One further step of the decoder of BART, which reads what the encoder gave from its cache."""

    def __init__(self) -> None:
        super().__init__()
        self.model = bart()

    def forward(self, ids: Any, encoded: Any, cache: EncoderDecoderCache) -> Any:
        made = self.model(decoder_input_ids=ids, encoder_outputs=(encoded,), past_key_values=cache, use_cache=True)
        return made.logits, made.past_key_values


def step_arguments(model: Any) -> tuple[Any, ...]:
    encoded = torch.randn(2, 7, 32)
    with torch.no_grad():
        before = model.model(decoder_input_ids=tokens(2, 3), encoder_outputs=(encoded,), use_cache=True)
    return tokens(2, 1), encoded, before.past_key_values


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(3, 60, shape)


def of_tokens(_: Any) -> tuple[Any, ...]:
    return (tokens(2, 5),)


def of_both(_: Any) -> dict[str, Any]:
    return {"input_ids": tokens(2, 5), "decoder_input_ids": tokens(2, 4)}


ONE: Any = {"input_ids": IDS}
BOTH: Any = {"input_ids": IDS, "decoder_input_ids": {0: "batch", 1: "len"}}
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any, str]] = {
    "bart": (bart, of_both, BOTH, "BartDecoderLayer"),
    "t5": (t5, of_both, BOTH, "T5Block"),
    "step of bart": (Step, step_arguments, None, "BartDecoderLayer"),
    "gpt2": (gpt2, of_tokens, ONE, "GPT2Block"),
    "mixtral": (moe(transformers.MixtralConfig), of_tokens, ONE, "MixtralDecoderLayer"),
    "gpt_oss": (moe(transformers.GptOssConfig), of_tokens, ONE, "GptOssDecoderLayer"),
    "mamba": (mamba, of_tokens, ONE, "MambaBlock"),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_that_are_taken_over_give_the_graph_of_the_plain_trace(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, arguments, shapes, layer = CASES[name]
    torch.manual_seed(0)
    model = make().eval()
    given = arguments(model)
    args, kwargs = ((), given) if isinstance(given, dict) else (given, {})
    taken, take = list[str](), equal_modules.Calls.taken

    def noted(calls: Any, found: Any, own: Any, *rest: Any) -> Any:
        taken.append(type(own[0]).__name__)
        return take(calls, found, own, *rest)

    monkeypatch.setattr(equal_modules.Calls, "taken", noted)
    made = []
    for likes in (runs.likes_of, lambda *_: Likes()):
        monkeypatch.setattr(runs, "likes_of", likes)
        low = lower(model, *copy.deepcopy((args, kwargs)), dynamic_shapes=shapes, capture="direct")
        made.append(str(optimize(low, 0)))
    assert layer in taken
    assert made[0] == made[1]
