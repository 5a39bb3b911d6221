"""The architectures by name: the model types of transformers of which a tiny configuration is made."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import attrs
import torch

from irkit.errors import IrkitError
from lowering.architectures.configurations import tiny_configuration
from lowering.architectures.inputs import SETS, Sets

DECODERS = """
afmoe apertus arcee aria_text bart beam bert bert-generation big_bird bigbird_pegasus biogpt bitnet blenderbot
blenderbot-small bloom camembert codegen cohere cohere2 cohere2_moe ctrl cwm data2vec-text deepseek_v4
diffllama doge electra ernie ernie4_5 ernie4_5_moe exaone4 exaone_moe falcon_mamba flex_olmo flint gemma
gemma2 gemma3_text glm glm4 glm4_moe gpt-sw3 gpt2 gpt_bigcode gpt_neox gpt_neox_japanese gpt_oss gptj granite
granite_swa granitemoe granitemoe_swa granitemoeshared helium hrm_text hy_v3 hy_v4 hyperclovax inkling2_text
inkling_text internlm3 iquestcoder jais2 jetmoe kolibri1 laguna lfm2 llama llama4_text mamba marian mbart
megatron-bert mellum mimo_v2_flash minimax minimax_m2 minimax_m3_vl_text ministral3 mistral mixtral
modernbert-decoder moshi mpt mvp nanochat nemotron nemotron_h olmo olmo2 olmo3 olmo_hybrid olmoe openai-gpt
opt pegasus persimmon phi phi3 phimoe plbart qwen2 qwen2_moe qwen3 qwen3_moe rembert roberta
roberta-prelayernorm roformer rwkv seed_oss smollm3 solar_open stablelm starcoder2 trocr vaultgemma whisper
xglm xlm xlm-roberta xlm-roberta-xl
"""
ENCODERS = """
albert bart bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra ernie esm
eurobert flaubert fnet gte ibert jina_embeddings_v3 layoutlm longformer mbart megatron-bert mobilebert
modernbert mpnet mra mvp nomic_bert nystromformer rembert roberta roberta-prelayernorm roformer squeezebert
tapas ultrabert xlm xlm-roberta xlm-roberta-xl yoso
"""
SEQUENCES = """
bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 m2m_100 marian mbart mt5 mvp nllb-moe pegasus
pegasus_x plbart seamless_m4t seamless_m4t_v2 switch_transformers t5 umt5
"""
IMAGES = """
beit data2vec-vision deit dinov2 dinov2_with_registers ijepa pp_lcnet segformer vit vit_msn
"""

MAPPINGS = {
    "decoder": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "encoder": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "image": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
}
"""Where transformers says which class a model type has for a task."""


@attrs.frozen
class Architecture:
    """One architecture: its name, the task that it is built for, the model type of transformers, and what its tiny
    configuration says otherwise than others."""

    name: str
    task: str
    kind: str
    options: Mapping[str, Any] = MappingProxyType({})

    def configuration(self) -> Any:
        """The tiny configuration. Raises IrkitError where transformers has no such model."""
        return tiny_configuration(self.kind, self.options)

    def model(self) -> torch.nn.Module:
        """The model in eval mode, with the same random weights at each call. Raises IrkitError where transformers is
        missing, or has no such model."""
        try:
            import transformers
            from transformers.models.auto import modeling_auto
        except ModuleNotFoundError as error:
            raise IrkitError("transformers is not installed", hint="pip install transformers") from error
        known = getattr(modeling_auto, MAPPINGS[self.task])
        configuration = self.configuration()
        if self.kind not in known:
            raise IrkitError(
                f"the installed transformers has no {self.task} of {self.kind!r}", hint="install a newer one"
            )
        name = known[self.kind]
        made = getattr(transformers, name if isinstance(name, str) else name[0])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = made(configuration).eval()
            for weight in model.parameters():
                if weight.ndim > 1 and not weight.any():  # a router of zeros says nothing about which expert is taken
                    torch.nn.init.normal_(weight, std=0.02)
            return model

    def sets(self, model: torch.nn.Module) -> Sets:
        """What the model is exported with, and called with."""
        return SETS[self.task](model)


def all_architectures() -> Mapping[str, Architecture]:
    """Each architecture by name: the model type, with the task behind it where a type stands in several lists."""
    found: dict[str, Architecture] = {}
    lists = {"decoder": DECODERS, "encoder": ENCODERS, "seq2seq": SEQUENCES, "image": IMAGES}
    for task, text in lists.items():
        for kind in text.split():
            name = kind if kind not in found else f"{kind}-{task}"
            found[name] = Architecture(name, task, kind)
    return MappingProxyType(found)


ARCHITECTURES = all_architectures()
"""The architectures by name."""


def architecture(name: str) -> Architecture:
    """The architecture of that name. Raises IrkitError for none, with the nearest names."""
    if name not in ARCHITECTURES:
        near = ", ".join(get_close_matches(name, ARCHITECTURES, 3))
        hint = f"near it: {near}" if near else "`irkit validate --list` shows all"
        raise IrkitError(f"there is no architecture {name!r}", hint=hint)
    return ARCHITECTURES[name]
