"""Tiny configurations of any class of transformers: every size in them made small by its name, nested ones too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lowering.architectures.configurations import OPTIONAL, SIZES

Sizes = Mapping[str, Any]
WIDTH = 32
SCALE = 16
"""By how much widths are divided where they must keep their ratios."""

SPECIAL = re.compile(r"(^|_)(token_id|token_index|token_ids|tok_id|id)$|_start_id$|_end_id$")
VOCABULARY = re.compile(r"(^|_)vocab(ulary)?_size(_|$)|^vocab_size|^n_tokens$|^n_vocab$|_vocab$")
POWERS = re.compile(r"codebook_size$")
LAYERS = re.compile(
    r"(^|_)(n_)?(layers?|blocks)$|^(num|n)_\w*(layers|blocks)$|^depth$|^n_layer$|^num_layers|_depth$|_layers$"
)
HEADS = re.compile(r"(heads|n_head|num_head)$")
KEYS = re.compile(r"(key_value|kv|k_v)_heads$")
EXPERTS = re.compile(r"^(num|n)_\w*experts$|^num_experts$|^moe_num_experts$")
WIDTHS = re.compile(
    r"(hidden_size|hidden_dim|embed_dim|embedding_size|d_model|n_embd|embedding_dim|hidden_dimension|projection_dim|(^|_)dim|_width|^width"
    r"|d_embed|hidden_channels|out_hidden_size|decoder_hidden_size|embed_size|proj_dim|output_dim|_channels|d_hidden|adapter_input_size)$"
)
INNER = re.compile(r"(intermediate_size|ffn_dim|d_ff|n_inner|mlp_dim|ffn_size|ff_dim|feedforward_dim|dim_feedforward)$")
HEAD_SIZE = re.compile(r"(head_dim|d_kv|rotary_dim|state_size|d_state|head_size|attention_head_size)$")
LENGTH = re.compile(
    r"(max_position_embeddings|n_positions|n_ctx|max_\w*_positions|max_seq_len\w*|max_sequence_length)$"
)
QUERIES = re.compile(r"^(num_queries|num_query_tokens|num_latents|num_object_queries|num_proposals)$")
CHUNKS = re.compile(r"chunk_size$")
KEPT = re.compile(
    r"^(num_channels|in_channels|in_chans|num_feat_extract_layers|num_labels|hidden_act|pad_token_id|num_input_channels"
    r"|num_stages|num_encoder_blocks)$"
)


NAMED = (
    (VOCABULARY, 99), (KEYS, 2), (HEADS, 4), (EXPERTS, 4), (HEAD_SIZE, 8), (INNER, 48), (WIDTHS, WIDTH),
    (LAYERS, 2), (LENGTH, 64), (QUERIES, 6), (POWERS, 64), (CHUNKS, 8),
)  # fmt: skip
"""What a size of such a name is in a tiny model."""


def tiny_configurations(kind: str) -> Iterator[Callable[[], Any]]:
    """Makers of configurations of a model type, each with smaller sizes: by names, narrow and wider; with all widths
    in their ratios; in layers and vocabulary alone."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    made = CONFIG_MAPPING[kind]
    for way in (by_name, wider, in_ratio, in_layers):
        yield lambda way=way: shrunk(made(), way)


def shrunk(usual: Any, way: Callable[[str, Any], Any], nested: bool = False) -> Any:
    """A configuration with each of its sizes as `way(name, value)` gives them, nested ones too; what is nested in
    another keeps what that set, the others have the defaults of their class."""
    from transformers import PreTrainedConfig

    changes: dict[str, Any] = {}
    ids = iter(range(95, 60, -1))
    aliases: dict[str, list[str]] = {}
    for alias, name in (getattr(usual, "attribute_map", None) or {}).items():
        aliases.setdefault(name, []).append(alias)
    for name, value in vars(usual).items():
        if name.startswith("_") or name in SKIPPED:
            continue
        if isinstance(value, PreTrainedConfig):
            changes[name] = RESNET if value.model_type in BACKBONES else shrunk(value, way, nested=True).to_dict()
            continue
        found = special(name, value, ids) if SPECIAL.search(name) else way(name, value)
        kept = KEPT.search(name) is not None or (found is not value and found != value)
        for alias in () if kept else aliases.get(name, ()):
            found = way(alias, value)
        if found is not value and found != value:
            changes[name] = found
    known = {**vars(usual), "model_type": usual.model_type}
    if nested and "per_layer_config" in (whole := usual.to_dict()):  # which is kept as configurations of layers
        known["per_layer_config"] = whole["per_layer_config"]
    changes |= consistent(known, changes)
    changes |= OVERRIDES.get(usual.model_type, {})
    if "use_timm_backbone" in vars(usual) and "backbone_config" in changes:
        changes["use_timm_backbone"] = False
    return type(usual).from_dict({**usual.to_dict(), **changes}) if nested else type(usual)(**changes)


BACKBONES = frozenset({"timm_backbone", "timm_wrapper"})
RESNET: Sizes = {
    "model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1],
    "layer_type": "basic", "out_features": ["stage1", "stage2", "stage3", "stage4"],
}  # fmt: skip
"""What a tiny model takes in place of a backbone of timm."""

OVERRIDES: Mapping[str, Sizes] = {
    "dbrx": {"attn_config": {"clip_qkv": 8.0, "kv_n_heads": 2, "rope_theta": 10000.0}},
    "dots1": {"n_shared_experts": 1},
    "esm": {"pad_token_id": 1, "mask_token_id": 4},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "hunyuan_vl": {"head_dim": 8},
    "hunyuan_vl_text": {"head_dim": 8},
    "efficientnet": {"hidden_dim": 320},
    "align_vision_model": {"hidden_dim": 320},
    "align": {"projection_dim": 80},
    "dpt": {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3]},
    "llama4_vision_model": {"intermediate_size": 128},
    "kosmos_2_5_vision_model": {"patch_embed_hidden_size": 768},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "ministral": {"head_dim": 8},
    "edgetam_prompt_encoder": {"image_size": 64},
    "edgetam_video_prompt_encoder": {"image_size": 64},
    "edgetam_vision_model": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "sam2_hiera_det_model": {"image_size": [64, 64]},
    "sam2_prompt_encoder": {"image_size": 64},
    "sam2_video_prompt_encoder": {"image_size": 64},
    "sam2_vision_model": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "sam_hq_prompt_encoder": {"image_size": 64, "image_embedding_size": 4},
    "sam_hq_vision_model": {"image_size": 64},
    "perceiver": {"d_latents": 32, "d_model": 32, "num_latents": 6, "num_self_attends_per_block": 2},
}  # fmt: skip
"""What configurations of a model type need beside."""


def consistent(usual: Sizes, changes: Sizes) -> dict[str, Any]:
    """What other sizes and lists have to be, given what was made smaller."""
    found: dict[str, Any] = {}
    heads, keys = "num_attention_heads", "num_key_value_heads"
    if keys in usual and usual.get(keys) == usual.get(heads):
        found[keys] = changes.get(heads, usual[heads])
    layers = next((changes[n] for n in ("num_hidden_layers", "n_layer", "num_layers") if n in changes), None)
    found |= staged(usual, changes)
    if {"qk_head_dim", "qk_nope_head_dim", "qk_rope_head_dim"} <= usual.keys():
        found["qk_head_dim"] = sum(changes.get(n, usual[n]) for n in ("qk_nope_head_dim", "qk_rope_head_dim"))
    for name, value in usual.items():
        kinds = isinstance(value, list) and name.endswith(("_types", "layers_type")) and isinstance(value[:1], list)
        if kinds and isinstance(layers, int) and len(value) > layers and isinstance(value[0], str):
            found[name] = shortened(value, layers)
        sections = "mrope_section" in str(value) or (
            name == "rope_parameters" and MROPE.match(str(usual.get("model_type")))
        )
        if isinstance(value, dict) and name == "per_layer_config" and isinstance(layers, int):
            kept = {key: each for key, each in value.items() if int(key) < layers}
            found[name] = kept or dict(zip(("0",), value.values(), strict=False))
        elif isinstance(value, dict) and value and sections:
            width = changes.get("head_dim") or usual.get("head_dim") or 8
            found[name] = sectioned(value, int(width))
    return found


STAGES = 4


def staged(usual: Sizes, changes: Sizes) -> dict[str, Any]:
    """As many layers as a backbone gives out, each a stage of its own, where it has no depths of stages."""
    names = usual.get("_out_features") or usual.get("out_features")
    layers = next((n for n in ("num_hidden_layers", "num_layers") if n in changes), None)
    if layers is None or not isinstance(names, list) or len(names) < 2 or "depths" in usual:
        return {}
    given = range(STAGES + 1)[-len(names) :]
    return {layers: STAGES, "out_features": [f"stage{i}" for i in given], "out_indices": [*given]}


MROPE = re.compile(r"cohere_compass|cosmos3|ernie4_5_vl|glm4v|glm46v|glm_|hunyuan_vl|paddleocr_vl|qwen.*_(vl|omni)")
"""Model types that rotate by sections for time, height and width, with a default for them that is not of this width."""


def sectioned(parameters: Sizes, width: int) -> dict[str, Any]:
    """Parameters of a rotary embedding whose sections add up to half of the width that is rotated."""
    half = max(1, int(width * parameters.get("partial_rotary_factor", 1.0)) // 2)
    if any(isinstance(each, dict) for each in parameters.values()):
        return {k: sectioned(v, width) if isinstance(v, dict) else v for k, v in parameters.items()}
    return {**parameters, "mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}


SKIPPED = frozenset({"model_type", "transformers_version", "architectures", "id2label", "label2id", "dtype"})


def shortened(kinds: list[str], count: int) -> list[str]:
    """So many of the kinds of layers, each kind among them where there is room."""
    return [*dict.fromkeys(kinds), *kinds][:count]


PLACES = frozenset({"image_token_id", "image_token_index", "audio_token_id", "audio_token_index", "video_token_id"})
"""Tokens that a model needs although its configuration may leave them out."""


def special(name: str, value: Any, ids: Iterator[int]) -> Any:
    """A token id within the small vocabulary, each with one of its own."""
    usual = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    if value is None and name in PLACES:
        return next(ids)
    if type(value) is not int or value < 4:
        return value
    return usual[name] if name in usual else next(ids)


def by_name(name: str, value: Any) -> Any:
    """The size of that name in a tiny model; other values as they are."""
    if value is None and name in SIZES and name not in OPTIONAL:
        return SIZES[name]
    if name in COEFFICIENTS:
        return COEFFICIENTS[name]
    if isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
        return [smaller(name, v, i) for i, v in enumerate(value)]
    if type(value) is not int or value < 2 or KEPT.search(name):
        return value
    if name in SIZES:
        return SIZES[name]
    return next((min(value, small) for pattern, small in NAMED if pattern.search(name)), value)


MISSING = (
    (re.compile(r"(dropout|_rate|_prob)(_|$)"), 0.0), (re.compile(r"rope_theta"), 10000.0), (KEYS, 2), (HEADS, 4),
    (HEAD_SIZE, 8), (INNER, 48), (WIDTHS, WIDTH), (LAYERS, 2),
)  # fmt: skip


def missing(name: str) -> Any:
    """What an attribute of that name may be that a configuration leaves out and a model reads; None for a token."""
    return SIZES.get(name, next((small for pattern, small in MISSING if pattern.search(name)), None))


COEFFICIENTS = {
    "width_coefficient": 0.25, "depth_coefficient": 0.25, "prediction_length": 4, "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0, "vocabulary_map": {"<image>": 90}, "top_k_experts": 2,
    "mlp_layer_types": ["dense", "sparse"], "upsample_groups": 8,
}  # fmt: skip
"""Numbers that are set whatever they were."""


def wider(name: str, value: Any) -> Any:
    """As by name, with wider layers, for models that have one head for each 64."""
    found = by_name(name, value)
    return 64 if found == WIDTH and type(value) is int and value > WIDTH else found


def smaller(name: str, value: int, position: int) -> int:
    """A number of a list of widths, depths or heads, one for each stage."""
    if name.endswith(("depths", "repeats")) or name in ("num_blocks", "stage_num_blocks", "layers"):
        return 1
    if name.endswith("heads"):
        return min(value, 2)
    if name.endswith(("hidden_sizes", "embed_dims", "widths", "neck_hidden_sizes", "hidden_dims")) and value >= 16:
        return 16 * (position + 1)
    return value // 16 if name.endswith(("conv_dim", "conv_channels")) and value % 16 == 0 else value


def in_ratio(name: str, value: Any) -> Any:
    """Widths divided by the same number, so that what has to be equal stays so; layers and vocabulary small."""
    wide = INNER.search(name) or WIDTHS.search(name) or HEAD_SIZE.search(name)
    if type(value) is int and wide and not KEPT.search(name):
        return value // SCALE if value % SCALE == 0 else value
    if isinstance(value, (list, tuple)) and name.endswith(("sizes", "dims", "dim", "channels")):
        return [v // SCALE if type(v) is int and v % SCALE == 0 else v for v in value]
    return in_layers(name, value)


def in_layers(name: str, value: Any) -> Any:
    """Fewer layers, tokens, experts and positions."""
    if isinstance(value, (list, tuple)) and name.endswith("depths"):
        return [1 for _ in value]
    if type(value) is not int or value < 2:
        return value
    for pattern, small in ((VOCABULARY, 99), (EXPERTS, 4), (LAYERS, 2), (LENGTH, 64), (QUERIES, 6), (POWERS, 64)):
        if pattern.search(name):
            return min(value, small)
    return value
