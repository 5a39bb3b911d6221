"""Lists that a model returns whose length only data tells: a program gives their elements joined, and a call of it
takes them apart again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import torch

from lowering.control_flow.pieces import Blocks, Pieces
from lowering.control_flow.values import PLAIN, Leaf
from lowering.errors import CaptureError
from lowering.records.pytrees import opened_class
from lowering.records.torch_internals import pytree


@attrs.frozen
class Layout:
    """How a list stands in tensors: whether it is a list, a tuple or a set, the structure of an element, what its
    leaves are, and for each of these that varies along which axes elements differ, none where they are stacked."""

    made: type
    spec: Any
    leaves: tuple[Leaf, ...]
    axes: tuple[tuple[int, ...], ...]

    def elements(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The list, out of its tensors."""
        left, columns = iter(tensors), list[Sequence[Any]]()
        for axes in self.axes:
            whole = next(left)
            columns.append(whole.unbind(0) if not axes else taken_apart(whole, next(left), axes))
        varying = iter(columns)
        leaves = [None if leaf.kind == "constant" else next(varying) for leaf in self.leaves]
        found = []
        for place in range(len(columns[0])):
            pairs = zip(self.leaves, leaves, strict=True)
            own = [leaf.value if column is None else plain_leaf(column[place], leaf) for leaf, column in pairs]
            found.append(pytree.tree_unflatten(own, self.spec))
        return self.made(found)


def taken_apart(whole: torch.Tensor, sizes: torch.Tensor, axes: Sequence[int]) -> list[torch.Tensor]:
    """Tensors that were joined: along their only axis that differs, of these lengths, or of several sizes."""
    if sizes.dim() == 1:
        return list(whole.split(sizes.tolist(), axes[0]))
    parts = whole.split(sizes.prod(1).tolist())
    shapes = [[*own, *whole.shape[1:]] for own in sizes.tolist()]
    return [p.reshape(s).movedim([*range(len(axes))], [*axes]) for p, s in zip(parts, shapes, strict=True)]


def plain_leaf(tensor: torch.Tensor, leaf: Leaf) -> Any:
    """A tensor, or the number in it."""
    return tensor if leaf.kind == "tensor" else tensor.item()


def flatten(value: Returned) -> tuple[list[Any], Layout]:
    """The tensors of a list, and how it stands in them."""
    return [*value.tensors], value.layout


def unflatten(tensors: Iterable[Any], layout: Layout) -> Any:
    """The list itself."""
    return layout.elements([*tensors])


@opened_class(flatten, unflatten)
@attrs.frozen(eq=False)
class Returned:
    """What a program returns for a list: torch's pytree sees its tensors, and makes the list of them."""

    tensors: tuple[torch.Tensor, ...]
    layout: Layout

    @classmethod
    def of(cls, made: type, spec: Any, leaves: Sequence[Leaf], wholes: Sequence[Any]) -> Returned:
        """The list whose elements have this structure. Raises CaptureError where they hold objects that a program
        cannot make."""
        for leaf in leaves:
            if leaf.kind == "constant" and type(leaf.value) not in (*PLAIN, bool, int, float):
                raise CaptureError(
                    f"the model returns a list, of a length that data tells, of {type(leaf.value).__name__}",
                    hint="return tensors and numbers",
                )
        tensors, axes = list[torch.Tensor](), list[tuple[int, ...]]()
        for whole in wholes:
            if isinstance(whole, Pieces):
                several = isinstance(whole, Blocks)
                tensors += [whole.joined, whole.sizes if several else whole.lengths]
                axes.append(whole.axes if several else (whole.axis,))
            else:
                tensors.append(whole)
                axes.append(())
        return cls(tuple(tensors), Layout(made, spec, tuple(leaves), tuple(axes)))
