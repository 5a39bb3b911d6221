"""A pipeline of Stable Diffusion's shape, driven by diffusers, with irkit's programs in place of its modules."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

import irkit
import lowering

diffusers = pytest.importorskip("diffusers", reason="diffusers is of the extra `architectures`")

pytestmark = pytest.mark.filterwarnings(  # of schedulers of diffusers, to NumPy 2
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
)

PROMPTS = (["a cat"], ["a cat", "a red cat on a mat"])
SIZES = ((16, 24), (24, 16))
CONFIGURATION = {"steps_offset": 1, "clip_sample": False}
SCHEDULERS = ("DDIMScheduler", "EulerDiscreteScheduler", "PNDMScheduler", "DPMSolverMultistepScheduler")


def tokenizer(folder: Path) -> CLIPTokenizer:
    """A tokenizer whose words are letters."""
    letters = [chr(each) for each in range(97, 123)]
    words = [*letters, *(f"{each}</w>" for each in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=24)


def pipeline(folder: Path) -> Any:
    """The pipeline with tiny modules of random weights."""
    torch.manual_seed(0)
    words: Any = tokenizer(folder)
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=12,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=24,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=2,
        cross_attention_dim=12,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    made = diffusers.StableDiffusionPipeline(
        vae=vae.eval(),
        text_encoder=CLIPTextModel(text).eval(),
        tokenizer=words,
        unet=unet.eval(),
        scheduler=diffusers.EulerDiscreteScheduler(steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    return made


def images(pipe: Any, prompts: list[str], height: int, width: int, steps: int = 3) -> np.ndarray:
    """What the pipeline draws, as numbers in [0, 1]."""
    noise = torch.Generator().manual_seed(5)
    return pipe(
        prompts, height=height, width=width, num_inference_steps=steps, generator=noise, output_type="np"
    ).images


def served(model: Any, method: str, program: Callable[..., Any]) -> Any:
    """A copy of a model that shares its weights and has a program in place of a method."""
    found = copy.copy(model)
    setattr(found, method, program)
    return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """(the pipeline, the same with programs in place of text encoder, unet and decoder): what they are called with is
    observed as the pipeline draws at two sizes. Time steps are floats by some schedulers, and integers by others, of
    which the unet makes floats."""
    eager = pipeline(tmp_path_factory.mktemp("words"))
    with lowering.observe(eager.text_encoder) as text, lowering.observe(eager.unet) as unet:
        for prompts, size in zip(PROMPTS, SIZES, strict=True):
            images(eager, prompts, *size)
    programs = text.to_onnx(), unet.to_onnx()
    assert text.check(programs[0]) and unet.check(programs[1])

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vae = eager.vae

        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            return self.vae.decode(latents, return_dict=False)[0]

    axes = {0: "batch", 2: "height", 3: "width"}
    decoder = irkit.to_onnx(Decoder().eval(), (torch.randn(2, 4, 8, 12),), dynamic_shapes=(axes,))
    assert decoder.check(3)
    fast = copy.copy(eager)
    fast.text_encoder = served(eager.text_encoder, "forward", programs[0])
    fast.unet = served(eager.unet, "forward", lambda sample, step, **more: programs[1](sample, step.float(), **more))
    fast.vae = served(eager.vae, "decode", lambda latents, **_: (decoder(latents),))
    return eager, fast


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_images_of_programs_are_those_of_eager(pair: tuple[Any, Any], scheduler: str) -> None:
    """Also of sizes, batches and numbers of steps that were not observed."""
    for pipe in pair:
        pipe.scheduler = getattr(importlib.import_module("diffusers"), scheduler).from_config(CONFIGURATION)
    for prompts, size, steps in ((PROMPTS[0], (16, 16), 4), (PROMPTS[1] * 2, (32, 24), 5)):
        expected, found = (images(pipe, prompts, *size, steps=steps) for pipe in pair)
        assert expected.shape == found.shape == (len(prompts), *size, 3)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        assert expected.std() > 0.01
