"""Tensors described by their dimensions, some of them by name: `floats("batch", 4, "length")`."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch

from tests.zoo.case import Case, Dims, Inputs

Shape = tuple[int | str, ...]


@attrs.frozen(eq=False)
class Input:
    """One tensor: its shape, whose names are the dynamic dimensions, and how to fill it."""

    shape: Shape
    fill: Callable[[tuple[int, ...]], torch.Tensor]

    def tensor(self, dims: Dims) -> torch.Tensor:
        """The tensor at these sizes."""
        return self.fill(tuple(dims[each] if isinstance(each, str) else each for each in self.shape))

    @property
    def dynamic(self) -> dict[int, str]:
        """Axis -> name of the dynamic dimensions."""
        return {axis: each for axis, each in enumerate(self.shape) if isinstance(each, str)}


def floats(*shape: int | str) -> Input:
    """Normal random numbers."""
    return Input(shape, lambda size: torch.randn(size))


def positives(*shape: int | str) -> Input:
    """Random numbers between 0.05 and 0.95: probabilities, variances."""
    return Input(shape, lambda size: torch.rand(size) * 0.9 + 0.05)


def integers(below: int, *shape: int | str) -> Input:
    """Random integers from 0 to `below`, without it: ids, classes."""
    return Input(shape, lambda size: torch.randint(0, below, size))


def signs(*shape: int | str) -> Input:
    """Random -1.0 and 1.0."""
    return Input(shape, lambda size: torch.randint(0, 2, size) * 2.0 - 1.0)


def log_probabilities(*shape: int | str) -> Input:
    """Logarithms of probabilities that sum to one along the last axis."""
    return Input(shape, lambda size: torch.randn(size).log_softmax(-1))


# At least three other assignments for each name, 1 among them where it is a length that may be 1.
SIZES: dict[str, tuple[int, ...]] = {
    "batch": (2, 1, 3, 5),
    "length": (16, 23, 12, 31),
    "height": (16, 19, 12, 24),
    "width": (20, 13, 12, 27),
    "depth": (12, 14, 11, 16),
    "seq": (7, 1, 4, 11),
    "target": (5, 6, 1, 9),
    "bags": (3, 1, 4, 6),
    "count": (10, 8, 17, 9),
}


def module_case(
    family: str, name: str, make_model: Callable[[], torch.nn.Module], *inputs: Input, note: str = "", refused: str = ""
) -> Case:
    """A case of one module of torch.nn called with these positional inputs, at the usual sizes of their dimensions."""
    names = tuple(dict.fromkeys(each for one in inputs for each in one.dynamic.values()))
    columns = [{each: SIZES[each][i] for each in names} for i in range(4)]

    def make_inputs(dims: Dims) -> Inputs:
        return tuple(each.tensor(dims) for each in inputs), {}

    dynamic_shapes = tuple(each.dynamic for each in inputs) if names else None
    others = tuple(columns[1:]) if names else ()
    return Case(name, family, make_model, make_inputs, dynamic_shapes, columns[0], others, note, refused)
