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
    (r"^time-out", "nobody", "it takes too long here"),
    (r"^crash", "nobody", "its process ended"),
)
"""What a problem matches, whose it is, and why; the first that matches holds."""


def reason_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Whose a problem is, and why; "irkit" where nothing else is known."""
    if row["verdict"] == NOT_EAGER:
        return "eager", "it does not run here"
    for pattern, whose, why in REASONS:
        if re.search(pattern, row["problem"]):
            return whose, why
    return "irkit", ""
