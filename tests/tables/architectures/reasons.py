"""Why a model is not exported, or not right, in a few words, and whose it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.tables.architectures.measure import NOT_EAGER

REASONS: tuple[tuple[str, str, str], ...] = (
    (r"was to vary", "the model", "a dimension is fixed by a loop over it, or by a comparison"),
    (
        r"under the condition|ContractError",
        "the model",
        "it takes another way at other sizes, which the program refuses",
    ),
    (r"^(time-out|TimeoutError)", "nobody", "it takes too long here"),
    (r"^crash", "nobody", "its process ended"),
)
"""What a problem matches, whose it is, and why; the first that matches holds."""


KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"aimv2",
        "transformers",
        "masking_utils.py:307 leaves out a mask where nothing is padded and relies on is_causal, which "
        "modeling_aimv2.py:283 says is False: eager then looks ahead, the program does not",
    ),
)
"""Models whose reason was found, by name: whose it is, and why."""


def reason_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Whose a problem is, and why; "irkit" where nothing else is known."""
    if row["verdict"] == NOT_EAGER:
        return "eager", "it does not run here"
    for name, whose, why in KNOWN:
        if re.match(name, row["name"]):
            return whose, why
    for pattern, whose, why in REASONS:
        if re.search(pattern, row["problem"]):
            return whose, why
    return "irkit", ""
