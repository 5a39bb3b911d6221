"""Models with pieces that no capture takes. They stand in a file of their own, so that scripts can import them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


class Halved(nn.Module):
    """Leaves torch on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(x)
        return torch.from_numpy(np.asarray(hidden.numpy()) / 2)


class Kept(nn.Module):
    """Rows whose first number is positive: how many hangs on the data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy()[np.asarray(x.numpy()[:, 0] > 0)])


class Block(nn.Module):
    """A residual block around what fails."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer_idx = number
        self.norm, self.halved, self.out = nn.LayerNorm(8), Halved(), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.out(self.halved(self.norm(x)))


class Chain(nn.Module):
    """Blocks that fail alike, another piece that fails, and a head that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(i) for i in range(3)])
        self.kept, self.head = Kept(), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(self.kept(x))


class Growing(nn.Module):
    """Appends to the list that it is given, as a cache grows, and fails."""

    def forward(self, x: torch.Tensor, known: list[torch.Tensor]) -> torch.Tensor:
        known[0] = torch.cat([known[0], torch.from_numpy(np.asarray(x.numpy()) * 2)], 1)
        return known[0].sum(1)


class Remembering(nn.Module):
    """Goes on from a list, by a child that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.growing = Growing()

    def forward(self, x: torch.Tensor, known: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        total = self.growing(x, known)
        return total + 1, known[0] * 3


def doubled(x: torch.Tensor, count: int = 2) -> torch.Tensor:
    """A function that fails."""
    return torch.from_numpy(np.asarray(x.numpy()) * count)


class Calling(nn.Module):
    """Calls a function that fails, by args and by name."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, *rows: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        return {"sum": doubled(self.inner(rows[0])) + rows[1], "scaled": doubled(rows[1], count=3) * scale}


class Strided(nn.Module):
    """Sizes that are sums, products, halves."""

    def forward(self, x: torch.Tensor, past: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        joined = torch.cat([past, x], 1) * mask[..., None]
        outside = torch.from_numpy(np.asarray(joined.numpy())[:, :-1])
        return joined, joined[:, ::2], joined.reshape(-1, joined.shape[-1]), outside
