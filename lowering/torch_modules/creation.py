"""Tensors of nothing but sizes."""

from __future__ import annotations

from typing import Any

import torch

from lowering.torch_modules.common import Ints, ints, number, torch_dtype


def constant_of_shape(shape: Ints, *, value: torch.Tensor | None = None) -> torch.Tensor:
    """One number everywhere; 0 of float32 where none is given."""
    return torch.zeros(ints(shape)) if value is None else value.reshape(()).expand(ints(shape)).clone()


def arange(start: Any, limit: Any, step: Any, *, dtype: int) -> torch.Tensor:
    """The numbers from start to before limit. `dtype` is the element type of the operands."""
    return torch.arange(number(start), number(limit), number(step), dtype=torch_dtype(dtype))


def eye_like(x: torch.Tensor, *, dtype: int = 0, k: int = 0) -> torch.Tensor:
    """Ones on a diagonal of the size of a matrix."""
    rows, columns = x.shape
    kind = torch_dtype(dtype) if dtype else x.dtype
    places = torch.arange(columns) - torch.arange(rows).unsqueeze(1)
    return (places == k).to(kind)


def dropout(
    x: torch.Tensor, ratio: Any = None, training: Any = None, *, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """(x with some elements 0 where it is training, which ones stay)."""
    share = 0.5 if ratio is None else float(number(ratio))
    if training is None or not bool(number(training)) or share == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = torch.rand_like(x, dtype=torch.float32) >= share
    return torch.where(kept, x / (1 - share), torch.zeros_like(x)), kept


TABLE = {"ConstantOfShape": constant_of_shape, "Dropout": dropout, "EyeLike": eye_like, "Range": arange}
