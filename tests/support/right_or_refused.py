"""What an export must be: right for each input, or refused for it, or as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

import irkit
from irkit.errors import IrkitError


def first_wrong(function: Any, example: torch.Tensor, way: str, inputs: Iterable[torch.Tensor]) -> torch.Tensor | None:
    """The first of some inputs for which an export of f(x), with any number of rows, answers otherwise than f itself;
    None where there is none such, and where the export is refused."""
    try:
        program = irkit.to_onnx(function, (example,), dynamic_shapes=({0: "n"},), capture=way)
    except IrkitError:
        return None
    for x in inputs:
        try:
            found = program(x)
        except IrkitError:
            continue
        if not torch.equal(found, function(x)):
            return x
    return None
