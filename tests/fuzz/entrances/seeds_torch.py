"""What is damaged: a program of torch's."""

from __future__ import annotations

import io
from functools import cache

import torch


class Small(torch.nn.Module):
    """Weights, a buffer that is written, a size that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Some of everything."""
        y = torch.nn.functional.gelu(self.linear(x))
        self.get_buffer("count").add_(1)
        return {"y": y + self.get_buffer("count"), "z": more["b"].reshape(-1)[: x.shape[0]]}


def example() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Arguments for `Small`."""
    return torch.arange(12.0).reshape(3, 4), {"b": torch.arange(10.0).reshape(5, 2)}


@cache
def program() -> bytes:
    """The `.pt2` file of `Small`."""
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", max=9)
    made = torch.export.export(Small(), example(), dynamic_shapes=({0: batch}, {"b": {0: None}}))
    buffer = io.BytesIO()
    torch.export.save(made, buffer)
    return buffer.getvalue()
