"""Models of the zoo, exported for plain ONNX and for ONNX Runtime's own operators, and compared with eager at several
sizes: most of transformers' captured directly, and by torch.export, which runs a large model up to eight times, a few
of these and of torch.nn's layers. `make models` runs all of them at every size by both ways."""

from __future__ import annotations

import pytest

from tests.support.draws import drawn
from tests.zoo.case import Case
from tests.zoo.cases import TORCH_NN, TRANSFORMERS, case_named
from tests.zoo.outcome import Outcome, outcomes_of

LAYERS = 6
"""How many of torch.nn's layers are drawn beside the pinned ones."""

PINNED = (
    "conv1d_same", "conv2d_grouped", "conv_transpose2d", "batch_norm2d", "layer_norm", "group_norm", "max_pool2d",
    "adaptive_avg_pool2d_one", "embedding_bag_offsets", "lstm_projected", "gru", "self_attention",
    "transformer_encoder", "linear", "upsample_bilinear", "gelu_tanh", "cross_entropy_loss", "ctc_loss",
)  # fmt: skip
"""Layers of each family, those with most operators of their own first; ModuleInfo has the others too."""

BY_TORCH_EXPORT, DIRECTLY = 3, 14
"""How many of transformers' models are drawn beside the pinned ones."""

PINNED_MODELS = (
    "gpt2_cache", "llama_prompt", "mixtral_cache", "mamba_step", "t5_step", "whisper_step", "vit_any_size", "clip",
    "wav2vec2", "lfm2_cache",
)  # fmt: skip
"""Models of each kind: decoders with and without a cache, experts, states, two stages, images, sound."""


def layers() -> list[Case]:
    """Layers of torch.nn."""
    return drawn("layers", TORCH_NN, LAYERS, pinned=map(case_named, PINNED), key=lambda case: case.name)


def models(count: int) -> list[Case]:
    """Models of transformers, so many beside the pinned ones."""
    pinned = map(case_named, PINNED_MODELS)
    return drawn("models", TRANSFORMERS, count, pinned=pinned, key=lambda case: case.name)


@pytest.mark.parametrize(
    ("case", "way"),
    [
        *((case, "direct") for case in models(DIRECTLY)),
        *((case, "torch.export") for case in (*models(BY_TORCH_EXPORT), *layers())),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_model_agrees_with_eager(case: Case, way: str) -> None:
    """Captured once, then for ONNX's operators and for ONNX Runtime's own too."""
    plain, fused = outcomes_of(case, ("onnxruntime-cpu+com.microsoft",), sizes=2, way=way)
    refuse_problems(plain, "in ONNX's operators")
    refuse_problems(fused, "in operators of ONNX Runtime")


def refuse_problems(outcome: Outcome, where: str) -> None:
    """Fails with all that went wrong."""
    problems = [outcome.problem, *(f"{sizes}: {problem}" for sizes, _, problem in outcome.runs if problem)]
    assert outcome.as_expected, f"{where}: " + "\n".join(filter(None, problems))
