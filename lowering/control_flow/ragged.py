"""Lists that gain tensors of unequal lengths in a loop on data: the tensors are joined round by round, in a variable
that the loop carries, and the list gains their lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import torch

from irkit import dims
from lowering.control_flow.pieces import Pieces
from lowering.control_flow.rows import Element, GrowingList, Rows, row, same_number
from lowering.control_flow.values import Leaf, Slot, user_line
from lowering.direct.sizes import SizeNode, size_of
from lowering.direct.tensors import Traced
from lowering.errors import CaptureError
from lowering.records.torch_internals import pytree


@attrs.frozen(eq=False)
class Column:
    """What one part of each element that a list gains is: tensors of a type that differ along an axis, and the sizes of
    one that is empty there; how long all are together, where that is known."""

    axis: int
    dtype: torch.dtype
    empty: tuple[Any, ...]
    total: Any = None


class Ragged(Exception):
    """A list gains tensors of unequal lengths in a round: its place, what it gains, and the parts that are such."""

    def __init__(self, place: int, slot: Slot, columns: dict[int, Column]) -> None:
        super().__init__("unequal lengths")
        self.place, self.slot, self.columns = place, slot, columns


def unequal_columns(name: str, gained: Sequence[Any], operands: Iterable[tuple[Any, Any]]) -> dict[int, Column]:
    """The parts of the elements that a list gains which are tensors of sizes that a round tells; `operands` are what a
    round sees of numbers around the loop, with these. Raises CaptureError where it tells several sizes of a tensor."""
    columns: dict[int, Column] = {}
    numbers = {one.node.expr: other.node.expr for one, other in operands if isinstance(one, torch.SymInt)}
    for element in gained:
        for column, leaf in enumerate(pytree.tree_leaves(element)):
            axes = own_axes(leaf, numbers) if type(leaf) is Traced else []
            known = columns.get(column)
            if len(axes) > 1 or (axes and known is not None and axes != [known.axis]):
                raise CaptureError(
                    f"the list {name!r} gains tensors in a loop on data of which several sizes change from round to round",
                    source=user_line(),
                    hint="flatten them, and keep their sizes in another list",
                )
            if axes:
                shape = [size_outside(leaf, size, numbers) if i not in axes else 0 for i, size in enumerate(leaf.shape)]
                columns[column] = Column(axes[0], leaf.dtype, tuple(shape))
    return columns


def with_totals(
    columns: Mapping[int, Column], gained: Sequence[Any], pieces: Sequence[Pieces], number: Any
) -> dict[int, Column]:
    """The same, with how long all tensors are together where each round's has the length of a piece; `number` is that
    of the round."""
    found = dict(columns)
    if len(gained) == 1:
        leaves = pytree.tree_leaves(gained[0])
        for piece in pieces:
            length = torch.sym_max(row(piece.lengths, number).item(), 0)
            for column, each in columns.items():
                if same_number(leaves[column].shape[each.axis], length):
                    found[column] = attrs.evolve(each, total=piece.joined.shape[piece.axis])
    return found


def own_axes(tensor: Any, numbers: Mapping[Any, Any]) -> list[int]:
    """The axes of a tensor of which the round that is being traced tells the size."""
    frame = tensor.tracer.frames[-1] if tensor.tracer.frames else None
    nodes = [getattr(size, "node", None) for size in tensor.shape]
    found = [dims.symbols_of(node.expr) if isinstance(node, SizeNode) else () for node in nodes]
    own = [[s for s in symbols if frame is not None and frame.owns(s) and s not in numbers] for symbols in found]
    return [axis for axis, symbols in enumerate(own) if symbols]


def size_outside(tensor: Any, size: Any, numbers: Mapping[Any, Any]) -> Any:
    """A size in a round as it is known around the loop."""
    node = getattr(size, "node", None)
    return size_of(tensor.tracer.asked, dims.substitute(node.expr, numbers)) if isinstance(node, SizeNode) else size


def joining(step: Callable[..., Any], place: int, columns: Mapping[int, Column], count: int) -> Callable[..., Any]:
    """A step that joins tensors which a list gains to what it carries behind `count` variables; the list gains their
    lengths."""

    def joined(*given: Any) -> Any:
        found = list(step(*given[:count]))
        wholes = dict(zip(columns, given[count:], strict=True))
        grown = found[place]
        if not isinstance(grown, GrowingList):
            return (*found, *wholes.values())  # which is refused
        for number, element in enumerate(grown.gained):
            leaves, spec = pytree.tree_flatten(element)
            for column, each in columns.items():
                pair = [wholes[column], leaves[column]]
                wholes[column] = torch.cat(pair[::-1] if grown.at_front else pair, each.axis)
                leaves[column] = leaves[column].shape[each.axis]
            grown.gained[number] = pytree.tree_unflatten(leaves, spec)
        return (*found, *wholes.values())

    return joined


def among_first(test: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A test of the first so many variables."""

    def tested(*given: Any) -> Any:
        return test(*given[:count])

    return tested


def with_lengths(slot: Slot, columns: Mapping[int, Column]) -> Slot:
    """What a list gains in a round with lengths in the place of the tensors that are joined."""
    trees = pytree.tree_unflatten(list(range(len(slot.leaves))), slot.spec)
    joined = {leaf for tree in trees for column, leaf in enumerate(pytree.tree_leaves(tree)) if column in columns}
    leaves = [Leaf("int") if number in joined else leaf for number, leaf in enumerate(slot.leaves)]
    return attrs.evolve(slot, leaves=tuple(leaves))


def in_pieces(rows: Rows, columns: Mapping[int, Column], wholes: Sequence[torch.Tensor], at_front: bool) -> Rows:
    """The rows that a list gained with pieces in the place of lengths."""
    parts, leaves = list(rows.parts), list(rows.element.leaves)
    places = [number for number, leaf in enumerate(leaves) if leaf.kind != "constant"]
    for (column, each), whole in zip(columns.items(), wholes, strict=True):
        lengths = parts[places.index(column)]
        parts[places.index(column)] = Pieces(whole, lengths.flip(0) if at_front else lengths, each.axis)
        leaves[column] = Leaf("tensor", each.dtype, whole.dim())
    return Rows(parts, Element(rows.element.spec, tuple(leaves)))
