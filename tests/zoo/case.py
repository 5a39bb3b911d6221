"""The record of one model of the zoo: how to build it, which dimensions vary, and at which sizes to check it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
import transformers

Dims = Mapping[str, int]
Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@attrs.frozen(eq=False)
class Case:
    """One model with everything needed to export it and to compare it with eager at several sizes.

    `dynamic_shapes` is None where the model has no dimension that may vary. `traced` are the sizes it is captured at,
    `assignments` the others to check. `note` says why a dimension is not dynamic, or why an option is set;
    `refused`, where torch.export cannot capture the model in any form, says why.
    """

    name: str
    family: str
    make_model: Callable[[], torch.nn.Module] = attrs.field(repr=False)
    make_inputs: Callable[[Dims], Inputs] = attrs.field(repr=False)
    dynamic_shapes: Any = attrs.field(repr=False)
    traced: Dims
    assignments: tuple[Dims, ...]
    note: str = ""
    refused: str = ""

    def build(self) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        """The model in eval mode and the example inputs that it is captured with; the same numbers at each call."""
        args, kwargs = self.inputs(self.traced)
        return self.model(), args, kwargs

    def model(self) -> torch.nn.Module:
        """The model in eval mode, with the same random weights at each call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.make_model().eval()

    def inputs(self, dims: Dims) -> Inputs:
        """Inputs of these sizes, the same numbers at each call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1 + sum(dims.values()))
            return self.make_inputs(dims)


def config_of(name: str, **options: Any) -> Any:
    """A configuration of transformers by the name of its class, which takes more options than it declares."""
    return getattr(transformers, name)(**options)


def token_ids(vocabulary: int, *shape: int) -> torch.Tensor:
    """Random token ids that are neither padding nor a special token."""
    return torch.randint(5, vocabulary, shape)


def padding_mask(batch: int, length: int) -> torch.Tensor:
    """An attention mask of ones, but for padding at the left of every second row."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1::2, : length // 3] = 0
    return mask


def sizes(**dims: tuple[int, ...]) -> tuple[dict[str, int], ...]:
    """`sizes(batch=(1, 2), seq=(3, 4))` -> `({"batch": 1, "seq": 3}, {"batch": 2, "seq": 4})`."""
    columns = zip(*dims.values(), strict=True)
    return tuple(dict(zip(dims, column, strict=True)) for column in columns)
