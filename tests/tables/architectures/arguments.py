"""The arguments of models of transformers by name: token ids, masks, images, sound, series."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import torch

from tests.tables.architectures.subject import Sizes

LOWEST, HIGHEST = 5, 55
"""Token ids that no tiny configuration calls special."""


@attrs.frozen(eq=False)
class Asked:
    """How a model is asked: the names of its arguments, how images or sound are laid out ("video": with an axis of
    frames; "turned": frames before features), the side of images where it is not the configuration's (0), and how many
    tokens of a text stand for one image or sound."""

    model: Any
    names: tuple[str, ...]
    layout: str = ""
    side: int = 0
    held: int = 0
    token: int = 0

    @property
    def config(self) -> Any:
        """The configuration."""
        return self.model.config

    def without(self, *names: str) -> Asked:
        """The same without these arguments."""
        return attrs.evolve(self, names=tuple(name for name in self.names if name not in names))

    def laid(self, layout: str) -> Asked:
        """The same, laid out otherwise."""
        return attrs.evolve(self, layout=layout)

    def of_side(self, side: int) -> Asked:
        """The same with images of that side."""
        return attrs.evolve(self, side=side)


def part(config: Any, *names: str) -> Any:
    """The first nested configuration of these names; the configuration itself where there is none."""
    for name in names:
        found = getattr(config, name, None)
        if found is not None and not isinstance(found, (dict, list, int, str)):
            return found
    return config


def number(config: Any, *names: str, usual: int) -> int:
    """The first of these sizes that a configuration names."""
    for name in names:
        found = getattr(config, name, None)
        if isinstance(found, (list, tuple)) and found and isinstance(found[0], int):
            return found[0]
        if type(found) is int and found > 0:
            return found
    return usual


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers, the same for the same shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def placeholders(asked: Asked, sizes: Sizes) -> Iterator[Asked]:
    """The same with tokens that stand for images or sound, as many as eager says that it wants; first with none."""
    token = next((v for n in TOKENS if type(v := getattr(asked.config, n, None)) is int), 0)
    yield asked
    for side in (0, 64, 224):
        sided = attrs.evolve(asked, side=side, token=token)
        held = wanted(sided, sizes)
        width = number(text_of(asked.config), "hidden_size", usual=0)
        for count in (held, held // width if width and held % width == 0 else 0):  # some models count numbers
            if count:
                yield attrs.evolve(sided, held=count)


TOKENS = "image_token_id image_token_index audio_token_id audio_token_index video_token_id media_token_id".split()
COUNTS = (
    re.compile(r"tokens: \d+, features:? (\d+)"),
    re.compile(r"features[^\d]*(\d+)$"),
)


def wanted(asked: Asked, sizes: Sizes) -> int:
    """How many tokens of a text an image or a sound takes, as the error of a call without them says, or by what the
    model makes of it."""
    call = {name: MAKERS[name](asked, sizes) for name in asked.names}
    try:
        with torch.no_grad():
            asked.model(**call)
    except Exception as error:  # models raise anything
        for pattern in COUNTS:
            if found := pattern.search(str(error)):
                return int(found[1]) // sizes["batch"]
    return 0


# ---------------------------------------------------------------------------------------------- text


def text_of(config: Any) -> Any:
    """The configuration of what reads text; the whole where transformers finds several."""
    try:
        return config.get_text_config()
    except (AttributeError, ValueError):
        return config


def tokens(asked: Asked, sizes: Sizes, key: str = "seq") -> torch.Tensor:
    """int64[batch, seq]: token ids, those for an image after the first."""
    generator = torch.Generator().manual_seed(sizes["batch"] * 31 + sizes[key])
    vocabulary = number(text_of(asked.config), "vocab_size", usual=HIGHEST)
    shape = (sizes["batch"], sizes[key])
    ids = torch.randint(min(LOWEST, vocabulary - 1), min(vocabulary, HIGHEST), shape, generator=generator)
    if asked.layout == "codebooks":
        return ids.repeat(number(asked.config, "num_codebooks", usual=1), 1)
    if not asked.held or key != "seq":
        return ids
    images = torch.full((sizes["batch"], asked.held), asked.token)
    return torch.cat([ids[:, :1], images, ids[:, 1:]], 1)


def mask(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """int64[batch, seq]: the last token of the second text is padding."""
    found = torch.ones(sizes["batch"], sizes["seq"] + asked.held, dtype=torch.int64)
    found[1:, -1] = 0
    return found


def kinds_of_tokens(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """int64[batch, seq]: 1 where a token stands for an image, else 0."""
    found = torch.zeros(sizes["batch"], sizes["seq"] + asked.held, dtype=torch.int64)
    found[:, 1 : 1 + asked.held] = 1
    return found


def boxes(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """int64[batch, seq, 4]: boxes around words."""
    low = torch.arange(sizes["seq"] + asked.held)[None, :, None] % 20
    corners = torch.cat([low, low + 1, low + 9, low + 12], -1)
    return corners.expand(sizes["batch"], -1, -1).clone()


def states(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, seq, width]: hidden states."""
    if "grid_thw" in asked.names:
        return images(asked, sizes)
    if hasattr(asked.model, "input_linear"):
        return drawn(sizes["batch"], sizes["seq"], number(asked.config, "input_dim", usual=32))
    width = number(asked.config, "hidden_size", "d_model", "embed_dim", "input_dim", "dim", usual=32)
    return drawn(sizes["batch"], sizes["seq"], width)


def encoded(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, 6, width]: what an encoder gave."""
    width = number(asked.config, "encoder_hidden_size", "cross_attention_hidden_size", "hidden_size", usual=32)
    return drawn(sizes["batch"], 6, width)


# ---------------------------------------------------------------------------------------------- images


def vision(asked: Asked) -> Any:
    """The configuration of what sees."""
    found = part(asked.config, "vision_config", "vision_encoder_config", "image_config")
    return part(found, "backbone_config") if getattr(found, "image_size", None) is None else found


def image_shape(asked: Asked, sizes: Sizes) -> tuple[int, int, int]:
    """Channels, height and width of an image."""
    config = vision(asked)
    side = asked.side or getattr(config, "image_size", None) or 64
    side = (side["height"], side["width"]) if isinstance(side, dict) else side
    high, wide = (side, side) if isinstance(side, int) else tuple(side)[-2:]
    channels = number(config, "num_channels", "in_channels", "in_chans", "num_input_channels", usual=3)
    return channels, high + sizes["height"], wide + sizes["width"]


def patches(asked: Asked) -> tuple[int, int]:
    """How many patches an image has that is given as a list of them, along one side; and numbers in one."""
    config = vision(asked)
    size, merge = number(config, "patch_size", usual=14), number(config, "spatial_merge_size", "merge_size", usual=2)
    channels = number(config, "in_channels", "in_chans", "num_channels", usual=3)
    return 2 * merge, channels * number(config, "temporal_patch_size", usual=1) * size * size


def images(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, channels, height, width]; with frames before the channels for videos; patches in rows where a grid
    says how they lie."""
    if {"image_grid_thw", "grid_thw"} & set(asked.names):
        side, width = patches(asked)
        return drawn(sizes["batch"] * side * side, width)
    channels, high, wide = image_shape(asked, sizes)
    frames = number(vision(asked), "num_frames", "max_num_frames", usual=2)
    if asked.layout == "video":
        return drawn(sizes["batch"], frames, channels, high, wide)
    if asked.layout == "turned":
        return drawn(sizes["batch"], high, wide, channels).mT.contiguous()
    return drawn(sizes["batch"], channels, high, wide)


def videos(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, frames, channels, height, width]."""
    return images(asked.laid("video"), sizes)


def rows_of_patches(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, 16, 2 + channels * side ** 2]: row and column of a patch, from 1 on, and its numbers."""
    config = vision(asked)
    side = number(config, "patch_size", usual=16)
    places = torch.arange(16.0)[None, :, None].expand(sizes["batch"], -1, -1)
    numbers = drawn(sizes["batch"], 16, number(config, "num_channels", usual=3) * side * side)
    return torch.cat([places // 4 + 1, places % 4 + 1, numbers], -1)


def trajectory(name: str) -> Callable[[Asked, Sizes], torch.Tensor]:
    """float32[batch, seq, numbers]: states, actions or rewards; the configuration may name how many numbers."""
    return lambda asked, sizes: drawn(sizes["batch"], sizes["seq"], number(asked.config, name, usual=1))


def grid(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """int64[batch, 3]: frames, rows and columns of patches."""
    side, _ = patches(asked)
    return torch.tensor([[1, side, side]]).expand(sizes["batch"], -1).clone()


# ---------------------------------------------------------------------------------------------- sound and series


def sound(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, samples], with an axis of one channel where the configuration names one, or a spectrum."""
    config = asked.config
    if hasattr(config, "num_mel_bins") and not hasattr(config, "conv_kernel"):
        return spectrum(asked.laid("" if asked.layout == "turned" else "turned"), sizes)
    channels = number(config, "audio_channels", usual=0) if asked.layout == "" else int(asked.layout == "turned")
    return drawn(sizes["batch"], *([channels] if channels else []), sizes["samples"])


def spectrum(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, features, frames], or turned."""
    config = part(asked.config, "audio_config", "encoder_config", "speech_config", "audio_encoder_config")
    bins = number(
        config, "num_mel_bins", "n_mels", "feature_size", "input_dim", "input_feat_per_channel", "feat_dim", usual=80
    )
    if hasattr(config, "spec_size"):
        return drawn(sizes["batch"], 1, 4 * config.spec_size, bins)
    fixed = number(config, "max_source_positions", usual=0)
    frames = 2 * fixed if fixed and asked.layout == "" else number(config, "max_length", usual=0) or sizes["frames"]
    return drawn(sizes["batch"], frames, bins) if asked.layout == "turned" else drawn(sizes["batch"], bins, frames)


def series_length(config: Any) -> int:
    """How many steps of the past a model of series reads."""
    lags = getattr(config, "lags_sequence", None)
    length = number(config, "context_length", "prediction_length", usual=16)
    return length + (max(lags) if isinstance(lags, (list, tuple)) and lags else 0)


def series(asked: Asked, sizes: Sizes) -> torch.Tensor:
    """float32[batch, steps], with an axis of channels where there are several."""
    config = asked.config
    channels = number(config, "num_input_channels", "input_size", usual=1)
    shape = (sizes["batch"], series_length(config))
    return drawn(*shape, channels) if channels > 1 or hasattr(config, "num_input_channels") else drawn(*shape)


MAKERS: Mapping[str, Callable[[Asked, Sizes], Any]] = {
    "input_ids": tokens,
    "decoder_input_ids": lambda asked, sizes: tokens(asked, sizes, "target"),
    "attention_mask": mask,
    "bbox": boxes,
    "mm_token_type_ids": kinds_of_tokens,
    "inputs_embeds": states,
    "hidden_states": states,
    "encoder_hidden_states": encoded,
    "visual_feats": lambda asked, sizes: drawn(sizes["batch"], 6, number(asked.config, "visual_feat_dim", usual=32)),
    "visual_pos": lambda asked, sizes: drawn(sizes["batch"], 6, number(asked.config, "visual_pos_dim", usual=4)),
    "spectrogram": lambda asked, sizes: drawn(
        sizes["batch"], sizes["frames"] // 4, number(asked.config, "model_in_dim", "num_mel_bins", "n_mels", usual=80)
    ),
    "pixel_values": images,
    "pixel_values_videos": videos,
    "image_grid_thw": grid,
    "grid_thw": grid,
    "input_values": sound,
    "input_features": spectrum,
    "input_features_mask": lambda asked, sizes: torch.ones(
        spectrum(asked, sizes).shape[0], max(spectrum(asked, sizes).shape[1:]), dtype=torch.int64
    ),
    "audio_mel": lambda asked, sizes: spectrum(asked.laid("turned"), sizes),
    "audio_mel_mask": lambda asked, sizes: torch.zeros(spectrum(asked.laid("turned"), sizes).shape[:2]).bool(),
    "qformer_input_ids": tokens,
    "task_inputs": lambda asked, sizes: tokens(asked, {**sizes, "seq": number(asked.config, "task_seq_len", usual=7)}),
    "prompt_pixel_values": images,
    "prompt_masks": images,
    "merge_sizes": lambda _, sizes: torch.ones(sizes["batch"], dtype=torch.int64),
    "latents": lambda asked, sizes: drawn(sizes["batch"], number(asked.config, "hidden_size", usual=32), sizes["seq"]),
    "image_sizes": lambda asked, sizes: torch.tensor([image_shape(asked, sizes)[1:]] * sizes["batch"]),
    "flattened_patches": rows_of_patches,
    "states": trajectory("state_dim"),
    "actions": trajectory("act_dim"),
    "rewards": trajectory(""),
    "returns_to_go": trajectory(""),
    "timesteps": lambda _, sizes: torch.arange(sizes["seq"])[None].expand(sizes["batch"], -1).clone(),
    "query_embeds": lambda asked, sizes: drawn(sizes["batch"], 6, number(asked.config, "hidden_size", usual=32)),
    "past_values": series,
    "past_observed_mask": lambda asked, sizes: torch.ones_like(series(asked, sizes)),
    "past_time_features": lambda asked, sizes: drawn(
        sizes["batch"], series_length(asked.config), int(getattr(asked.config, "num_time_features", 1))
    ),
}
"""What makes each argument."""
