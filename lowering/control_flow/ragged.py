"""Lists that grow in a loop on data. Where they gain tensors of unequal lengths, the tensors are joined round by round,
in a variable that the loop carries, and the list gains their lengths."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch

from irkit import dims
from lowering.control_flow.pieces import Blocks, Pieces
from lowering.control_flow.rows import Element, GrownList, Open, Rows, elements_of, gained_rows, row, same_number
from lowering.control_flow.values import Leaf, Maybe, Moved, OpenList, Slot, as_tensor, dynamic, outputs, user_line
from lowering.direct.sizes import SizeNode, size_of
from lowering.direct.tensors import Traced
from lowering.errors import CaptureError
from lowering.records.torch_internals import pytree


class GrowingList(OpenList):
    """A list in a round of a loop on data: what the round appends is noted. Of what was there before only the last
    element is at hand, which `last` gives, and how many there were, which `count` gives. Where it gains all elements of
    another list whose length varies, `spliced` says what these are, and one tensor of them is what is gained. `joined`
    has what was appended and is joined. What one way of a branch appends, and the other not, is gained as a `Maybe`."""

    def __init__(self, name: str, last: Callable[[], Any], count: Callable[[], Any]) -> None:
        super().__init__()
        self.name, self.last, self.count_before = name, last, count
        self.gained: list[Any] = []
        self.joined: list[Any] = []
        self.at_front = False
        self.spliced: Element | None = None

    @classmethod
    def of(cls, name: str, held: list[Any]) -> GrowingList:
        """The same in a branch, of a list that holds this before it."""
        return cls(name, lambda: held[-1], lambda: open_len(held))

    def append(self, element: Any) -> None:
        self.extend([element])

    def extend(self, elements: Iterable[Any]) -> None:
        if self.at_front:
            self.refused()
        if isinstance(elements, GrownList):
            (whole, *rest), self.spliced = elements.wholes(), elements.element
            if rest or self.gained or not isinstance(whole, torch.Tensor) or whole.dim() != 1:
                self.refused()
            self.gained.append(whole)
        elif self.spliced is not None:
            self.refused()
        else:
            self.gained.extend(elements)

    def insert(self, place: Any, element: Any) -> None:
        if type(place) is not int or place != 0 or (self.gained and not self.at_front):
            self.refused()
        self.at_front = True
        self.gained.append(element)

    def __iadd__(self, elements: Iterable[Any]) -> GrowingList:
        self.extend(elements)
        return self

    def copy(self) -> GrowingList:
        return self

    def begun(self) -> GrowingList:
        """The list as a branch in the round finds it, which notes what the branch appends."""
        return GrowingList(self.name, lambda: self[-1], lambda: self.length)

    @property
    def length(self) -> Any:
        """How many elements it has."""
        return self.count_before() + self.gain

    @property
    def gain(self) -> Any:
        """How many of them the round appended."""
        if self.spliced is not None:
            return self.gained[0].shape[0]
        flags = [as_tensor(each.flag).to(torch.int64) for each in self.gained if isinstance(each, Maybe)]
        own = len(self.gained) - len(flags)
        return own + torch.stack(flags).sum().item() if flags else own

    @property
    def is_flagged(self) -> bool:
        """Whether the round appended something on some ways only."""
        return any(isinstance(each, Maybe) for each in self.gained)

    @property
    def given(self) -> list[Any]:
        """What the round gives for what it appended: elements; with what says whether each was appended, where that is
        not always so."""
        return [with_flag(each) for each in self.gained] if self.is_flagged else self.gained

    def told(self) -> list[Any]:
        """What a branch appended. Raises CaptureError where it did so at the front, or all elements of another list."""
        if self.at_front or self.spliced is not None:
            self.refused()
        return self.gained

    def __len__(self) -> int:
        self.length.__index__()  # which has it rewritten where that can be
        return self.refused()

    def __bool__(self) -> bool:
        bool(self.length != 0)
        return self.refused()

    def __getitem__(self, place: Any) -> Any:
        if type(place) is not int or place != -1 or self.at_front:
            self.refused()
        if self.spliced is not None:
            self.refused()
        if self.gained and isinstance(self.gained[-1], Maybe):
            self.refused()
        return self.gained[-1] if self.gained else self.last()

    def refused(self, *_: Any, **__: Any) -> Any:
        """Raises CaptureError: nobody knows yet what is in it."""
        raise CaptureError(
            f"the list {self.name!r} grows in a loop on data, and is read in it",
            source=user_line(),
            hint="carry what is read in a variable of its own",
        )

    __setitem__ = __delitem__ = __iter__ = __contains__ = __add__ = __radd__ = refused
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __mul__ = __rmul__ = __imul__ = __reversed__ = refused
    pop = remove = clear = sort = reverse = index = count = refused  # type: ignore[assignment]


def with_flag(element: Any) -> Maybe:
    """An element, and whether it was appended."""
    return (
        Maybe(element.value, as_tensor(element.flag))
        if isinstance(element, Maybe)
        else Maybe(element, torch.full((), True))
    )


def appended_rows(rows: Rows) -> Rows:
    """Of elements with flags those that were appended; others as they are."""
    held = pytree.tree_unflatten(list(range(len(rows.element.leaves))), rows.element.spec)
    if not isinstance(held, Maybe):
        return rows
    *parts, flags = rows.parts
    places, spec = pytree.tree_flatten(held.value)
    element = Element(spec, tuple(rows.element.leaves[place] for place in places))
    return Rows([part[flags] for part in parts or [flags]], element)


def followed_lists(names: Iterable[str], values: Iterable[Any], written: Container[str]) -> list[Any]:
    """Values, but for a list that is written the one that it became, where a loop or branch made it grow."""
    return [Moved.followed(v) if name in written else v for name, v in zip(names, values, strict=True)]


@contextmanager
def others_refused(lists: Iterable[GrownList]) -> Iterator[None]:
    """A block in which lists that a loop made refuse to be used by another name than the one that a body writes."""
    held = [*lists]
    try:
        for each in held:
            each.is_changing = True
        yield
    finally:
        for each in held:
            each.is_changing = False


def twin_of(value: Any) -> Any:
    """A list or dict that holds the same, for bodies to begin with; anything else as it is."""
    if isinstance(value, GrownList):
        return value.twin()
    return value.copy() if type(value) in (list, dict) else value


def longer_list(name: str, held: list[Any], gained: Sequence[Any]) -> GrownList:
    """A list behind a branch that appended elements, some of them on one way only."""
    if isinstance(held, GrownList) and not any(isinstance(each, Maybe) for each in gained):
        for each in gained:
            held.append(each)
        return held
    given = list(map(with_flag, gained))
    slot = dynamic(given)
    rows = appended_rows(gained_rows(slot, [each.unsqueeze(0) for each in outputs(given, slot)], name))
    found = GrownList.grown(held, rows, name)
    if isinstance(held, GrownList):
        return held.become(found)
    found.left_in(held)
    return found


def open_len(given: Any, plain: Callable[[Any], Any] = len) -> Any:
    """len(...), by a function that gives it of what is not open."""
    if isinstance(given, OpenList):
        return given.length
    elements = elements_of(given)
    return elements.length if isinstance(elements, Open) else plain(given)


# ---------------------------------------------------------------------------------------------- unequal lengths


@attrs.frozen(eq=False)
class Column:
    """What one part of each element that a list gains is: tensors of a type that differ along some axes; the axis along
    which they are joined, and the sizes of what is empty there; how long all are together, where that is known."""

    axes: tuple[int, ...]
    axis: int
    dtype: torch.dtype
    empty: tuple[Any, ...]
    total: Any = None

    def joined(self, whole: torch.Tensor, part: torch.Tensor, at_front: bool) -> torch.Tensor:
        """All of them so far, and one more."""
        part = part if len(self.axes) == 1 else Blocks.flattened(part, self.axes)
        return torch.cat([part, whole] if at_front else [whole, part], self.axis)

    def sizes(self, part: torch.Tensor) -> Any:
        """What tells a tensor apart from the others: its length, or its sizes as a tensor."""
        if len(self.axes) == 1:
            return part.shape[self.axis]
        return torch.stack([as_tensor(part.shape[axis], torch.int64) for axis in self.axes])

    @property
    def leaf(self) -> Leaf:
        """The same as a part of an element."""
        return Leaf("int") if len(self.axes) == 1 else Leaf("tensor", torch.int64, 1, shape=(len(self.axes),))

    def pieces(self, whole: torch.Tensor, sizes: torch.Tensor) -> Pieces:
        """The tensors of these sizes, where all are joined."""
        return Pieces(whole, sizes, self.axis) if len(self.axes) == 1 else Blocks.of_sizes(whole, sizes, self.axes)


class Counted(Exception):
    """A round, or the test of a loop, asks how many elements a list has that grows in it: the list's place, and the
    loop."""

    def __init__(self, place: int, of: object) -> None:
        super().__init__("the length of a list")
        self.place, self.of = place, of


class Ragged(Exception):
    """A list gains tensors of unequal lengths in a round: its place, what it gains, and the parts that are such;
    `spliced` says what the elements of the tensor are where the list gains these, and not the tensor."""

    def __init__(self, place: int, slot: Slot, columns: dict[int, Column], spliced: Element | None = None) -> None:
        super().__init__("unequal lengths")
        self.place, self.slot, self.columns, self.spliced = place, slot, columns, spliced


def spliced_elements(place: int, grown: GrowingList) -> Ragged:
    """What is raised of a list that gains all elements of others, which are joined behind those that it has."""
    (whole,) = grown.gained
    return Ragged(place, dynamic([whole]), {0: Column((0,), 0, whole.dtype, (0,))}, grown.spliced)


def begun_with(held: Sequence[Any], column: Column, element: Element) -> torch.Tensor:
    """The elements that a list has before it gains others, as a tensor."""
    parts = [part for each in held for part in element.parts_of(each)]
    return torch.stack(parts).to(column.dtype) if parts else torch.zeros(0, dtype=column.dtype)


def unequal_columns(name: str, gained: Sequence[Any], operands: Iterable[tuple[Any, Any]]) -> dict[int, Column]:
    """The parts of the elements that a list gains which are tensors of sizes that a round tells; `operands` are what a
    round sees of numbers around the loop, with these. Raises CaptureError where several of one round differ."""
    columns: dict[int, Column] = {}
    numbers = {one.node.expr: other.node.expr for one, other in operands if isinstance(one, torch.SymInt)}
    for element in gained:
        for column, leaf in enumerate(pytree.tree_leaves(element)):
            axes = own_axes(leaf, numbers) if type(leaf) is Traced else ()
            known = columns.get(column)
            if axes and known is not None and axes != known.axes:
                raise CaptureError(
                    f"the list {name!r} gains tensors in a loop on data of which several sizes change",
                    source=user_line(),
                    hint="use a list for each",
                )
            if axes:
                shape = [0 if i in axes else size_outside(leaf, size, numbers) for i, size in enumerate(leaf.shape)]
                shape = shape if len(axes) == 1 else [0, *(size for i, size in enumerate(shape) if i not in axes)]
                columns[column] = Column(axes, axes[0] if len(axes) == 1 else 0, leaf.dtype, tuple(shape))
    return columns


def with_totals(
    columns: Mapping[int, Column], gained: Sequence[Any], pieces: Sequence[Pieces], number: Any
) -> dict[int, Column]:
    """The same, with how long all tensors are together where each round's has the length of a piece; `number` is that
    of the round."""
    found = dict(columns)
    if len(gained) == 1:
        leaves = pytree.tree_leaves(gained[0])
        for piece in (each for each in pieces if not isinstance(each, Blocks)):
            length = torch.sym_max(row(piece.lengths, number).item(), 0)
            for column, each in columns.items():
                if same_number(leaves[column].shape[each.axis], length):
                    found[column] = attrs.evolve(each, total=piece.joined.shape[piece.axis])
    return found


def own_axes(tensor: Any, numbers: Mapping[Any, Any]) -> tuple[int, ...]:
    """The axes of a tensor of which the round that is being traced tells the size."""
    frame = tensor.tracer.frames[-1] if tensor.tracer.frames else None
    nodes = [getattr(size, "node", None) for size in tensor.shape]
    found = [dims.symbols_of(node.expr) if isinstance(node, SizeNode) else () for node in nodes]
    own = [[s for s in symbols if frame is not None and frame.owns(s) and s not in numbers] for symbols in found]
    return tuple(axis for axis, symbols in enumerate(own) if symbols)


def size_outside(tensor: Any, size: Any, numbers: Mapping[Any, Any]) -> Any:
    """A size in a round as it is known around the loop."""
    node = getattr(size, "node", None)
    return size_of(tensor.tracer.asked, dims.substitute(node.expr, numbers)) if isinstance(node, SizeNode) else size


def joining_step(
    step: Callable[..., Any], place: int, columns: Mapping[int, Column], count: int, spliced: Element | None = None
) -> Callable[..., Any]:
    """A step that joins tensors which a list gains to what it carries behind `count` variables; the list gains their
    lengths. Where it gains their elements, `spliced`, its last one is the last of what is joined."""

    def joined(*given: Any) -> Any:
        if spliced is not None and isinstance(given[place], GrowingList):
            last = spliced.of
            given[place].last = lambda: last([given[count][-1]])
        found = list(step(*given[:count]))
        wholes = dict(zip(columns, given[count:], strict=True))
        grown = found[place]
        if not isinstance(grown, GrowingList):
            return (*found, *wholes.values())  # which is refused
        for number, element in enumerate(grown.gained):
            leaves, spec = pytree.tree_flatten(element)
            grown.joined += [leaves[column] for column in columns]
            for column, each in columns.items():
                wholes[column] = each.joined(wholes[column], leaves[column], grown.at_front)
                leaves[column] = each.sizes(leaves[column])
            grown.gained[number] = pytree.tree_unflatten(leaves, spec)
        return (*found, *wholes.values())

    return joined


def counting_step(step: Callable[..., Any], place: int, count: int) -> Callable[..., Any]:
    """A step that carries the length of a list behind `count` variables."""

    def counted(*given: Any) -> Any:
        found = step(*given[:count])
        grown = found[place]
        gain = grown.gain if isinstance(grown, GrowingList) else 0  # what it is then is refused
        return (*found, given[count] + gain)

    return counted


def among_first(test: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A test of the first so many variables."""

    def tested(*given: Any) -> Any:
        return test(*given[:count])

    return tested


def with_lengths(slot: Slot, columns: Mapping[int, Column]) -> Slot:
    """What a list gains in a round with lengths in the place of the tensors that are joined."""
    trees = pytree.tree_unflatten(list(range(len(slot.leaves))), slot.spec)
    pairs = [(column, leaf) for tree in trees for column, leaf in enumerate(pytree.tree_leaves(tree))]
    joined = {leaf: columns[column].leaf for column, leaf in pairs if column in columns}
    leaves = [joined.get(number, leaf) for number, leaf in enumerate(slot.leaves)]
    return attrs.evolve(slot, leaves=tuple(leaves))


def in_pieces(rows: Rows, columns: Mapping[int, Column], wholes: Sequence[torch.Tensor], at_front: bool) -> Rows:
    """The rows that a list gained with pieces in the place of lengths."""
    parts, leaves = list(rows.parts), list(rows.element.leaves)
    places = [number for number, leaf in enumerate(leaves) if leaf.kind != "constant"]
    for (column, each), whole in zip(columns.items(), wholes, strict=True):
        sizes = parts[places.index(column)]
        parts[places.index(column)] = each.pieces(whole, sizes.flip(0) if at_front else sizes)
        leaves[column] = Leaf("tensor", each.dtype, whole.dim() + len(each.axes) - 1)
    return Rows(parts, Element(rows.element.spec, tuple(leaves)))
