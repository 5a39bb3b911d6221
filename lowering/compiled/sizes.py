"""Which sizes of arguments vary: those that were seen to, under one name where they were always equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from torch.export import ShapesCollection

Shapes = tuple[tuple[int, ...] | None, ...]
"""The sizes of each leaf of a call; None for one that is no tensor."""


@attrs.frozen
class Seen:
    """The sizes that calls of one structure came with, first to last, each once."""

    shapes: tuple[Shapes, ...] = ()

    def with_shapes(self, shapes: Shapes) -> Seen:
        """The same with those of one call more."""
        return self if shapes in self.shapes else Seen((*self.shapes, shapes))

    def varying(self) -> Mapping[tuple[int, int], str]:
        """A name for each dimension, by leaf and axis, that was not always the same."""
        columns: dict[tuple[int, int], tuple[int, ...]] = {}
        for leaf, first in enumerate(self.shapes[0] if self.shapes else ()):
            others = [shapes[leaf] for shapes in self.shapes]
            if first is not None and all(each is not None and len(each) == len(first) for each in others):
                for axis in range(len(first)):
                    columns[leaf, axis] = tuple(each[axis] for each in others if each is not None)
        names = dict.fromkeys(sizes for sizes in columns.values() if len(set(sizes)) > 1)
        numbered = {sizes: f"size_{number}" for number, sizes in enumerate(names)}
        return {place: numbered[sizes] for place, sizes in columns.items() if sizes in numbered}


@attrs.frozen(eq=False)
class Varying:
    """Dimensions by leaf and axis, in the form that torch.export asks for: by the tensors of a call."""

    names: Mapping[tuple[int, int], str]
    leaves: Sequence[Any]

    def dynamic_shapes(self, model: Any, args: Any, kwargs: Any) -> Any:
        """What varies of a call whose tensors are `leaves`."""
        found = ShapesCollection()
        for number, leaf in enumerate(self.leaves):
            axes = {axis: name for (which, axis), name in self.names.items() if which == number}
            if axes and isinstance(leaf, torch.Tensor):
                found[leaf] = axes
        return found.dynamic_shapes(model, args, kwargs)
