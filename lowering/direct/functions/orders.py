"""Functions that list what a vector of a varying length gives: its combinations, and its powers."""

from __future__ import annotations

import itertools
from typing import Any

import torch


def combinations_of(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor | None:
    """torch.combinations(input, r, with_replacement): `[n] -> [count, r]`; None where the length does not vary, or
    torch refuses the call."""
    if input.dim() != 1 or r < 1 or not isinstance(input.shape[0], torch.SymInt):
        return None
    count = input.shape[0]
    grids = torch.meshgrid([torch.arange(count)] * r, indexing="ij")
    taken = torch.ones_like(grids[0], dtype=torch.bool)
    for one, other in itertools.pairwise(grids):
        taken = taken & ((one <= other) if with_replacement else (one < other))
    return input[torch.stack([grid[taken] for grid in grids], 1)]


def powers(x: torch.Tensor, N: Any = None, increasing: bool = False) -> torch.Tensor | None:
    """torch.vander(x, N, increasing): `[n] -> [n, N]`, powers of 0 to N - 1, as torch multiplies them; None where no
    size varies, or torch refuses the call."""
    count: Any = x.shape[0] if N is None and x.dim() == 1 else N
    if x.dim() != 1 or not any(isinstance(each, torch.SymInt) for each in (x.shape[0], count)):
        return None
    base = x if x.is_floating_point() or x.is_complex() else x.long()
    rising = base[:, None].expand(-1, count).cumprod(1)
    found = torch.cat([torch.ones_like(base)[:, None], rising], 1)[:, :count]
    return found if increasing else found.flip(1)
