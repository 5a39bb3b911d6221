"""A function that a model of another module calls, which takes a number out of data by `int`."""

from __future__ import annotations

import torch


def in_groups(x: torch.Tensor, group: torch.Tensor, count: int) -> torch.Tensor:
    """The rows of each group, behind one another; as many places for each as the largest group has, 0 where none is."""
    sizes = torch.zeros(count, dtype=torch.int64).scatter_add_(0, group, torch.ones_like(group))
    begins = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    most = int(sizes.max())
    place = torch.arange(len(group)) - begins[group] + group * most
    found = torch.zeros(1, dtype=x.dtype).repeat([count * most, *x.shape[1:]])
    found[place] = x
    return found.view([count, most, *x.shape[1:]])
