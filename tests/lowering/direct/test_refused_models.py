"""Models that torch.export refuses are captured directly: general, or under a condition that says what for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as tf

import irkit
from tests.support.draws import drawn

pytestmark = pytest.mark.filterwarnings("ignore")
TEXT: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def tokens(rows: int, columns: int) -> torch.Tensor:
    """Random tokens."""
    return torch.randint(2, 48, (rows, columns))


def exported(model: torch.nn.Module, kwargs: dict[str, Any], dynamic_shapes: dict[str, Any]) -> Any:
    """The program of a model, captured directly."""
    return irkit.to_onnx(
        model.eval(),
        (),
        kwargs,
        dynamic_shapes={name: dynamic_shapes.get(name) for name in kwargs},
        capture="direct",
        widen=False,
    )


def agrees(program: Any, model: torch.nn.Module, kwargs: dict[str, Any], part: int = 0) -> None:
    """Asserts that a result is eager's."""
    with torch.no_grad():
        expected = model(**kwargs)
    torch.testing.assert_close(program(**kwargs)[part], expected[part], rtol=1e-4, atol=1e-4)


def longformer_pads_to_its_window_for_lengths_that_need_it() -> None:
    torch.manual_seed(0)
    config = tf.LongformerConfig(
        **TEXT, vocab_size=50, attention_window=[4], max_position_embeddings=64, pad_token_id=1
    )
    model = tf.LongformerModel(config)
    program = exported(model, {"input_ids": tokens(2, 6)}, {"input_ids": {1: "s"}})
    agrees(program, model, {"input_ids": tokens(2, 7)})
    agrees(program, model, {"input_ids": tokens(2, 9)})
    with pytest.raises(irkit.ContractError, match="padding_len > 0"):
        program(input_ids=tokens(2, 8))


def funnel_takes_any_batch() -> None:
    torch.manual_seed(0)
    config = tf.FunnelConfig(vocab_size=50, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=32)
    model = tf.FunnelBaseModel(config)
    program = exported(model, {"input_ids": tokens(2, 8)}, {"input_ids": {0: "b"}})
    agrees(program, model, {"input_ids": tokens(3, 8)})
    agrees(program, model, {"input_ids": tokens(1, 8)})


def llava_merges_its_image_tokens() -> None:
    torch.manual_seed(0)
    vision = tf.CLIPVisionConfig(**TEXT, image_size=8, patch_size=4)
    text = tf.LlamaConfig(**TEXT, vocab_size=50, num_key_value_heads=2)
    options: dict[str, Any] = {"vision_config": vision, "text_config": text, "image_token_id": 49}
    model = tf.LlavaForConditionalGeneration(tf.LlavaConfig(**options)).eval()

    def given(columns: int, images: int = 4) -> dict[str, Any]:
        ids = tokens(2, columns)
        ids[:, 1 : 1 + images] = 49
        return {"input_ids": ids, "pixel_values": torch.randn(2, 3, 8, 8), "use_cache": False}

    program = exported(model, given(8), {"input_ids": {1: "s"}})
    agrees(program, model, given(9))
    agrees(program, model, given(12))
    with pytest.raises(irkit.IrkitError):  # as many image tokens as there are features
        program(**given(9, images=3))


def vilt_chooses_the_patches_of_its_images() -> None:
    torch.manual_seed(0)
    config = tf.ViltConfig(**TEXT, vocab_size=50, image_size=16, patch_size=4, max_position_embeddings=20)
    model = tf.ViltModel(config)

    def given(columns: int) -> dict[str, Any]:
        mask = torch.ones(2, 16, 16, dtype=torch.long)
        return {"input_ids": tokens(2, columns), "pixel_values": torch.randn(2, 3, 16, 16), "pixel_mask": mask}

    program = exported(model, given(6), {"input_ids": {1: "s"}})
    agrees(program, model, given(6), part=1)  # patches are drawn in any order: what is pooled does not hang on it
    agrees(program, model, given(7), part=1)


MODELS = {
    each.__name__: each
    for each in (
        longformer_pads_to_its_window_for_lengths_that_need_it,
        funnel_takes_any_batch,
        llava_merges_its_image_tokens,
        vilt_chooses_the_patches_of_its_images,
    )
}
"""What is asserted of each model; what costs is the import and the first capture of each, so that some are drawn."""


@pytest.mark.parametrize("name", drawn("refused models", sorted(MODELS), 2))
def test_what_torch_export_refuses_is_captured_directly(name: str) -> None:
    MODELS[name]()
