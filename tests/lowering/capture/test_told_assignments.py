"""What a model sets of itself when it is called, and no program keeps, is told in a note by either way of capture."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import irkit


class Setting(torch.nn.Module):
    """A model that sets one of its attributes in a way of several."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.known, self.count, self.begun = way, None, 0, False
        self.kept: list[Tensor] = []
        self.table: dict[int, Any] = {}

    def forward(self, x: Tensor) -> Tensor:
        held: Any = self
        match self.way:
            case "known":
                held.known = torch.zeros(3)
            case "count":
                self.count += 1
            case "begun":
                self.begun = True
            case "kept":
                self.kept.append(x)
            case "table":
                self.table[1] = x
            case "fresh":
                held.fresh = x.shape[0]
        return x + self.count


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("way", ["known", "count", "begun", "kept", "table", "fresh", "nothing"])
def test_what_a_model_sets_is_told(way: str, capture: Any) -> None:
    model = Setting(way)
    program = irkit.to_onnx(model, (torch.randn(2, 3),), dynamic_shapes=({0: "n"},), capture=capture)
    told = [note for note in program.report.notes if note.startswith(f"the model, when it is called, sets {way}")]
    assert len(told) == (way != "nothing")
    assert (model.known, model.count, model.begun, model.kept, model.table) == (None, 0, False, [], {})
