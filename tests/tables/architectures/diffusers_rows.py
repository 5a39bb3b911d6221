"""What a model of diffusers is built with and called with, as a row of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from tests.tables.architectures.listed import normal
from tests.tables.architectures.subject import Call, Sizes


@attrs.frozen
class Row:
    """A model: its name here, its class, the options of that, what it is called with at each size, and the sizes;
    `part` takes a part of it, or is None for the whole."""

    name: str
    made: str
    options: Mapping[str, Any]
    call: Callable[..., Call]
    sizes: Sequence[Sizes]
    part: Callable[[Any], Any] | None = None


row = Row


def steps(batch: int) -> torch.Tensor:
    """Time steps, another one for each of a batch."""
    return torch.arange(1, batch + 1) * 7


SMALL: Mapping[str, Any] = {
    "sample_size": 8,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "attention_head_dim": 2,
    "cross_attention_dim": 12,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}
"""A unet of two blocks, as that of Stable Diffusion is built."""


def text_and_image(batch: int, height: int, width: int, tokens: int) -> dict[str, Any]:
    """What a unet of images with a text is called with."""
    return {
        "sample": normal(batch, 4, height, width),
        "timestep": steps(batch),
        "encoder_hidden_states": normal(batch, tokens, 12),
    }
