"""Why a model is not exported, or not right, in a few words, and whose it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.tables.architectures.measure import DIFFERS, NOT_EAGER

REASONS: tuple[tuple[str, str, str], ...] = (
    (r"^time-out|^more than [\d.]+ CPU seconds", "nobody", "it takes too long here"),
    (r"\.numpy\(\) is not supported", "the model", "it leaves torch, for SciPy or NumPy"),
    (r"\] \* batch_size", "the model", "Python repeats a list as often as a size says, which fixes it"),
    (r"grid_thw|vision_utils.py", "the model", "Python loops over the grids of the images, which are data"),
    (
        r"modeling_udop.py:219",
        "the model",
        "modeling_udop.py:218 loops in Python over the boxes of the text, which are data",
    ),
    (r"in expert_hit", "the model", "Python loops over the experts that were asked, which are data"),
    (r"range\(|\bfor (?!\w+ in \[).* in ", "the model", "Python loops over a size, which fixes it"),
    (r"^CaptureError: .*was to vary", "the model", "Python asks for a size, which fixes it"),
    (r"unhashable type: non-nested SymInt", "the model", "Python puts numbers out of data into a set"),
    (r"sparse_compressed_tensor", "irkit", "sparse tensors are not met, and torch.export asks what data holds"),
    (
        r"size would be an expression of \d+ parts",
        "irkit",
        "each padded convolution makes the expression of a size longer, and irkit does not make it shorter "
        "(modeling_encodec.py:232)",
    ),
    (r"ContractError", "the model", "it takes another way at such a size, and the program refuses it"),
    (r"^time-out|more than \d+ CPU seconds", "nobody", "it takes too long here"),
    (r"^crash", "nobody", "its process ended"),
)
"""What a problem with its line matches, whose it is, and why; the first that matches holds."""


LOOKS_AHEAD = (
    "masking_utils.py:307 leaves out the causal mask where nothing is padded and relies on is_causal, which is False "
    "({}): eager then looks ahead, the program does not"
)
LOOKS_BACK = (
    "masking_utils.py:368 makes a mask whenever it is traced, and leaves it out in eager where nothing is padded. That "
    "relies on is_causal: modeling_phi4_multimodal.py:97 says it is, and eager then sees no later patches; the program "
    "sees them, as eager does with padding"
)
KNOWN: tuple[tuple[str, str, str, str], ...] = (
    (
        r"pp_doclayout_v3",
        "differ by more",
        "nobody",
        "modeling_pp_doclayout_v3.py:1853 chooses the largest of scores that are equal but for roundings: eager in "
        "float64 chooses others than in float32, too",
    ),
    (r"phi4_multimodal_vision", "differ by more", "transformers", LOOKS_BACK),
    (r"aimv2", "differ by more", "transformers", LOOKS_AHEAD.format("modeling_aimv2.py:283")),
    (r"(colpali|paligemma)\b", "differ by more", "transformers", LOOKS_AHEAD.format("modeling_gemma.py:228")),
    (
        r"phaser$",
        r"CPU seconds|in every round|was to vary",
        "irkit",
        "filtering.py:1285 loops over the samples, and reads lists of 16,000 tensors of one memory at places that hang "
        "on the round (filtering.py:1286). Unrolled that takes too long; with rewrite=True it is a loop, which writes "
        "a list at a place that hangs on the round (filtering.py:1290), and so keeps a condition that no call meets",
    ),
    (
        r"Vad$",
        "CPU seconds|was to vary",
        "irkit",
        "filtering.py:1647 loops over the waveform, decides by data in each round (filtering.py:1670) and ends by that "
        "(filtering.py:1693); to rewrite it takes too long here",
    ),
    (
        r"lightglue\.",
        "was to vary",
        "the model",
        "modeling_superpoint.py:423 loops over the images of the batch, each with as many keypoints as its data tells",
    ),
    (
        r"udop\.",
        "was to vary|data is not allocated",
        "the model",
        "modeling_udop.py:218 loops in Python over the boxes of the text, which are data, and fixes their number",
    ),
    (
        r"qwen3_5_moe\.Qwen3_5MoeModel$",
        "CPU seconds|data is not allocated",
        "irkit",
        "modeling_qwen3_5_moe.py:1509 loops over runs of equal tokens, which are data; prepared for exports and with "
        "rewrite=True it takes too long here",
    ),
    (
        r"maskrcnn_",
        r"x_1 = min\(",
        "irkit",
        "roi_heads.py:432 takes the lesser of a number of data and a size, which is kept as a condition. rewrite=True "
        "computes it, of a smaller Mask R-CNN; of this one it takes too long here",
    ),
    (
        r"quantized_resnext101_64x4d$",
        "differ by more than",
        "irkit",
        "resnet.py:86 adds integers and rounds what they stand for: in one of three calls one of 30 results is 0.0018 "
        "off, as where an integer before it is one step other than by torch's kernel; which one was not found",
    ),
    (
        r"ASAPooling$",
        "sparse_compressed_tensor",
        "irkit",
        "asap.py:147 makes a sparse tensor of the edges, and asap.py:150 multiplies two: irkit meets no such tensors",
    ),
    (
        r"model_GraphUNet$",
        "sparse_compressed_tensor",
        "irkit",
        "graph_unet.py:143 makes a sparse tensor of the edges, and graph_unet.py:145 multiplies it with itself: irkit "
        "meets no such tensors",
    ),
    (
        r"ClusterPooling$",
        r"\.numpy\(\) is not supported",
        "the model",
        "cluster_pool.py:120 leaves torch: SciPy finds the parts of the graph that hang together",
    ),
)
"""Models whose reason was found: the name and the problem that it has, whose it is, and why."""


def reason_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Whose a problem is, and why; "irkit" where nothing else is known."""
    if row["verdict"] == NOT_EAGER:
        return "eager", "it does not run here"
    for name, pattern, whose, why in KNOWN:
        if re.match(name, row["name"]) and re.search(pattern, row["problem"]):
            return whose, why
    if row["verdict"] == DIFFERS and "differ by more" in row["problem"]:
        return "irkit", "why is not known yet"
    for pattern, whose, why in REASONS:
        if re.search(pattern, f"{row['problem']} {row['line']}"):
            return whose, why
    return "irkit", ""
