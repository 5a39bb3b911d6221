"""What a model iterates over where only data or a size that varies tells how often, and lists that grow so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import attrs
import torch

from irkit.support.arguments import type_text
from lowering.control_flow.pieces import SOME, Blocks, Pieces, even_pieces, joined_parts, split_pieces
from lowering.control_flow.returned import Returned
from lowering.control_flow.shared_memory import Holder, link_element, tensors_of
from lowering.control_flow.values import (
    LEAF,
    NUMBERS,
    Leaf,
    Moved,
    Slot,
    dynamic,
    grown_elsewhere,
    is_open,
    is_symbolic,
    known_element,
    number_of,
    outputs,
    unwritten,
    user_line,
    whole_of,
)
from lowering.direct.functions.arrays import Array, element
from lowering.direct.functions.numbers import Gathered, has_symbols, lists_of_shape, tensor_of, tensor_of_lists
from lowering.direct.sizes import SizeNode
from lowering.errors import CaptureError
from lowering.records.disguised_lists import undisguise
from lowering.records.torch_internals import pytree


@attrs.frozen(eq=False)
class Open:
    """Elements by their number: `length` says how many there are, `at` gives the one of a number, a tensor; `stacked`
    all of them as one tensor, where that is at hand. `pieces` are those of which an element has one."""

    length: Any
    at: Callable[[Any], Any]
    stacked: Callable[[], torch.Tensor] | None = None
    pieces: tuple[Pieces, ...] = ()


def open_range(*given: Any) -> Any:
    """range(...), of which the length may be a number of data; of a step that varies, one that is above 0"""
    if not any(isinstance(each, torch.Tensor | torch.SymInt) for each in given):
        return range(*given)
    numbers: list[Any] = [each.item() if isinstance(each, torch.Tensor) else each for each in given]
    if not any(map(varies, numbers)):
        return range(*numbers)
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if varies(step) and not varies(stop - start - step) and stop - start == step:
        return [start]  # one round over all of it
    if not step > 0 if varies(step) else step == 0:
        raise CaptureError(
            "the step of a range is 0, or varies and may be less", source=user_line(), hint="step by a number"
        )
    span = stop - start if step > 0 else start - stop
    if varies(step):
        return Open(torch.sym_max((span + step - 1) // step, 0), lambda i: start + i.item() * step)
    length = torch.sym_max((span + abs(step) - 1) // abs(step), 0) if abs(step) != 1 else torch.sym_max(span, 0)
    return Open(length, lambda i: start + i.item() * step, lambda: start + torch.arange(length) * step)


def varies(number: Any) -> bool:
    """Whether a number is a symbolic one that is not always the same."""
    return isinstance(number, NUMBERS) and is_symbolic(number)


def elements_of(given: Any) -> Any:
    """What is iterated over, as `Open` where its length varies; anything else as it is."""
    given = Moved.followed(given)
    if isinstance(given, torch.Tensor) and given.dim() and varies(given.shape[0]):
        return Open(given.shape[0], lambda i: row(given, i), lambda: given)
    if isinstance(given, Array) and given.ndim and varies(given.shape[0]):
        return Open(given.shape[0], lambda i: element(row(given.tensor, i)))
    if isinstance(given, GrownList):
        return given.elements()
    return given


def row(of: Any, number: Any) -> torch.Tensor:
    """The row of a tensor that has this number, which is one of its; that one of its pieces."""
    if isinstance(of, Pieces):
        return of.at(number)
    number = number if isinstance(number, torch.Tensor) else torch.scalar_tensor(number, dtype=torch.int64)
    return unwritten(link_element(torch.ops.aten.index.Tensor(of, [number]), of))


def open_enumerate(given: Iterable[Any], start: int = 0) -> Any:
    """enumerate(...)"""
    elements = elements_of(given)
    if isinstance(elements, Open):
        return Open(elements.length, lambda i: (i.item() + start, elements.at(i)), pieces=elements.pieces)
    return enumerate(given, start)


def open_zip(*given: Any, strict: bool = False) -> Any:
    """zip(...)"""
    every = [elements_of(each) for each in given]
    first = next((each for each in every if isinstance(each, Open)), None)
    if first is None:
        return zip(*given, strict=strict)
    length, parts = first.length, []
    for each, own in zip(every, given, strict=True):
        if isinstance(each, Open):
            length = length if same_number(each.length, length) else torch.sym_min(length, each.length)
            parts.append(each.at)
        elif isinstance(own, torch.Tensor):
            length = torch.sym_min(length, own.shape[0])
            parts.append(partial(row, own))
        else:
            raise CaptureError(
                f"zip goes over a tensor of a length that varies, and over {type_text(own)}",
                source=user_line(),
                hint="zip tensors, or stack what is zipped with them",
            )
    gone = [each for each in every if isinstance(each, Open) and same_number(each.length, length)]
    pieces = tuple(piece for each in gone for piece in each.pieces)
    return Open(length, lambda i: tuple(part(i) for part in parts), pieces=pieces)


def same_number(one: Any, other: Any) -> bool:
    """Whether two numbers are one, or one expression."""
    a, b = getattr(one, "node", None), getattr(other, "node", None)
    if type(one) is int and type(other) is int:
        return one == other
    return one is other or (isinstance(a, SizeNode) and isinstance(b, SizeNode) and a.expr == b.expr)


def open_reversed(given: Any) -> Any:
    """reversed(...)"""
    elements = elements_of(given)
    if isinstance(elements, Open):
        return Open(elements.length, lambda i: elements.at(elements.length - 1 - i))
    return reversed(given)


def open_pairwise(given: Any) -> Any:
    """itertools.pairwise(...)"""
    elements = elements_of(given)
    if isinstance(elements, Open):
        return Open(torch.sym_max(elements.length - 1, 0), lambda i: (elements.at(i), elements.at(i + 1)))
    return pairwise(given)


def open_unbind(given: torch.Tensor, dim: int = 0) -> Any:
    """torch.unbind(given, dim): the tuple of its rows, where their number varies."""
    return GrownList.of(given.movedim(dim, 0), "tuple", tuple) if varies(given.shape[dim]) else given.unbind(dim)


def open_tolist(given: torch.Tensor) -> Any:
    """given.tolist()"""
    if not given.dim() or any(map(varies, given.shape[1:])) or 0 in given.shape[1:]:
        return given.tolist()
    if not varies(given.shape[0]):
        return [open_tolist(each) for each in given.unbind(0)] if any(map(varies, given.shape)) else given.tolist()
    return GrownList.of_numbers(given)


def open_split(given: torch.Tensor, split_size: Any, dim: int = 0) -> Any:
    """torch.split(given, split_size, dim), to be iterated over."""
    if isinstance(split_size, list | tuple) or not varies(given.shape[dim]):
        return given.split(split_size, dim)
    return GrownList.of_pieces(even_pieces(given, split_size, dim))


def split_by_list(given: torch.Tensor, lengths: Any, dim: int = 0) -> Any:
    """torch.split(given, lengths, dim), by a list of numbers whose length varies"""
    return GrownList.of_pieces(split_pieces(given, GrownList.wholes(lengths)[0], dim))


def different_numbers(given: Any) -> GrownList | None:
    """set(given), of integers of which some vary, from the smallest on; None for anything else."""
    if not isinstance(given, list) or not has_symbols(given):
        return None
    if isinstance(given, GrownList):
        whole = given.gathered(None) if all(leaf.kind == "int" for leaf in given.element.leaves) else None
    else:
        whole = tensor_of(given, None) if all(isinstance(each, int | torch.SymInt) for each in given) else None
    return None if whole is None or whole.dim() != 1 else GrownList.of(whole.unique(), "set", set)


# ---------------------------------------------------------------------------------------------- lists


class Rows(Holder):
    """Elements of a list that a loop on data made, of which only data tells how many there are: the parts of each,
    stacked, or as pieces, and the structure that they have in an element; `same` has the one that all of them are,
    where there is one. `torch.stack` and `torch.cat` take it among tensors."""

    def __init__(self, parts: Sequence[Any], element: Element, same: list[Any] | None = None) -> None:
        self.parts, self.element, self.same = tuple(parts), element, same

    @property
    def held(self) -> Sequence[Any]:
        """The parts."""
        return self.parts

    @property
    def stacked(self) -> torch.Tensor:
        """The elements, stacked. Raises CaptureError where they are no tensors or numbers."""
        part = self.part
        return part.even() if isinstance(part, Pieces) else part

    @property
    def part(self) -> Any:
        """The elements, stacked or as pieces. Raises CaptureError where they are no tensors or numbers."""
        if len(self.parts) != 1 or self.element.spec.num_nodes != 1 or self.element.is_constant:
            raise CaptureError(
                "a list of lists, tuples or what is no tensor, which a loop on data made, is joined",
                source=user_line(),
                hint="use a list for each of their elements",
            )
        return self.parts[0]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        joined = {torch.stack: stack, torch.cat: cat, torch.concat: cat, torch.concatenate: cat}
        if func in joined:
            return joined[func](*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "split_with_sizes":
            return split_by_list(*args, **(kwargs or {}))
        raise CaptureError(
            f"{getattr(func, '__name__', func)} is given what a loop on data appended to a list",
            source=user_line(),
            hint="join the list with torch.stack or torch.cat",
        )


@attrs.frozen(eq=False)
class Element:
    """What each element of a list is: its structure, and what its leaves are."""

    spec: Any
    leaves: tuple[Leaf, ...]

    def of(self, parts: Sequence[torch.Tensor]) -> Any:
        """The element of these parts, numbers among them as numbers."""
        left = iter(parts)
        found = [each.value if each.kind == "constant" else number_of(next(left), each) for each in self.leaves]
        return pytree.tree_unflatten(found, self.spec)

    def of_all(self, wholes: Sequence[torch.Tensor]) -> Any:
        """The structure of an element with the parts of all elements in its leaves."""
        left = iter(wholes)
        found = [each.value if each.kind == "constant" else next(left) for each in self.leaves]
        real = torch.get_default_dtype()
        pairs = zip(found, self.leaves, strict=True)
        found = [one.to(real) if each.kind == "float" else one for one, each in pairs]
        return pytree.tree_unflatten(found, self.spec)

    def parts_of(self, element: Any) -> list[torch.Tensor]:
        """The parts of an element that was in the list before."""
        parts = outputs(element, Slot(self.spec, self.leaves))
        varying = [each for each in self.leaves if each.kind != "constant"]
        return [whole_of(part, each) for part, each in zip(parts, varying, strict=True)] or [torch.zeros(())]

    @classmethod
    def like(cls, element: Any) -> Element:
        """What one that is given is."""
        slot = dynamic(element)
        return cls(slot.spec, slot.leaves)

    def is_like(self, other: Element) -> bool:
        """Whether elements of both kinds have one structure, and types that torch.tensor and torch.stack do not tell
        apart: where there are none of one kind, the other must not give another type than both."""
        pairs = zip(self.leaves, other.leaves, strict=False)
        return self.spec == other.spec and all(dtype_of(one) is dtype_of(two) for one, two in pairs)

    @property
    def is_constant(self) -> bool:
        """Whether it holds neither tensors nor numbers."""
        return all(each.kind == "constant" for each in self.leaves)


def dtype_of(leaf: Leaf) -> Any:
    """The element type that torch.tensor gives a leaf; None for one that is no number."""
    real = torch.get_default_dtype()
    return {"int": torch.int64, "bool": torch.bool, "float": real, "constant": None}.get(leaf.kind, leaf.dtype)


def gained_rows(slot: Slot, gained: Sequence[torch.Tensor], name: str, rounds: Any = None) -> Rows:
    """The rows that a list gains: `slot` says what elements one round appends, `gained` are their parts after all
    `rounds`, None where nobody knows how many there are. Raises CaptureError where elements are of several types, or no
    tensors, in so many rounds."""
    left = iter(gained)
    pairs = [(leaf, None if leaf.kind == "constant" else whole_of(next(left), leaf)) for leaf in slot.leaves]
    trees = pytree.tree_unflatten(list(range(len(pairs))), slot.spec)
    flat = [pytree.tree_flatten(tree) for tree in trees]
    columns = list(zip(*[[pairs[place] for place in places] for places, _ in flat], strict=False))
    specs, leaves = [spec for _, spec in flat], [[leaf for leaf, _ in column] for column in columns]
    stacks = [[each for _, each in column if each is not None] for column in columns]
    if any(spec != specs[0] for spec in specs) or not all(map(is_uniform, leaves, stacks)):
        raise CaptureError(
            f"the list {name!r} gains tensors of several types in a round of a loop on data",
            source=user_line(),
            hint="use a list for each",
        )
    joined = [each[0] if len(each) == 1 else torch.stack(each, 1).flatten(0, 1) for each in stacks if each]
    if not gained and rounds is not None:
        count: Any = torch.sym_max(rounds, 0) * len(trees)
        joined = [torch.zeros(count)]  # which only counts
    return Rows(joined, Element(specs[0], tuple(column[0] for column in leaves)))


def is_uniform(leaves: Sequence[Leaf], stacked: Sequence[torch.Tensor]) -> bool:
    """Whether the same part of several elements has one type."""
    same = all(each.kind == leaves[0].kind and each.value is leaves[0].value for each in leaves)
    return same and all(each.shape[1:] == stacked[0].shape[1:] and each.dtype is stacked[0].dtype for each in stacked)


def items_of(tensors: Iterable[Any]) -> list[Any]:
    """What a list holds: tensors, and rows among them."""
    if isinstance(tensors, GrownList):
        tensors.refuse_changed()
    return [*list.__iter__(tensors)] if isinstance(tensors, list) else [*tensors]


def some_of(tensors: Iterable[Any]) -> list[Any]:
    """What a list holds that is joined; that it holds something is kept as a condition."""
    items = items_of(tensors)
    if items and all(isinstance(each, Rows) for each in items):
        count = sum(each.parts[0].shape[0] for each in items)
        torch._check(count > 0, lambda: SOME)
    return items


def stack(tensors: Sequence[Any], dim: int = 0) -> torch.Tensor:
    """torch.stack(tensors, dim)"""
    parts = [each.stacked if isinstance(each, Rows) else each.unsqueeze(0) for each in some_of(tensors)]
    whole = torch.cat(parts) if len(parts) > 1 else parts[0]
    return whole.movedim(0, dim)


def cat(tensors: Sequence[Any], dim: int = 0, axis: int | None = None) -> torch.Tensor:
    """torch.cat(tensors, dim)"""
    dim = dim if axis is None else axis
    parts = []
    for each in some_of(tensors):
        part = each.part if isinstance(each, Rows) else None
        if isinstance(part, Pieces) and not isinstance(part, Blocks) and dim % part.joined.dim() == part.axis:
            each = part.joined
        elif isinstance(part, Blocks) and dim % (part.joined.dim() + len(part.axes) - 1) == part.axes[0]:
            each = part.along_first()
        elif isinstance(each, Rows):
            place = dim % (each.stacked.dim() - 1)
            each = each.stacked.movedim(0, place).flatten(place, place + 1)
        parts.append(each)
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]


NO_ELEMENTS = "torch.tensor is given a list that data leaves empty, and would be of another kind otherwise"


def refuse_empty(count: Any) -> None:
    """Keeps that a list which torch.tensor is given holds something. Raises CaptureError where the example's does not:
    eager goes on, with a tensor of floats."""
    try:
        torch._check(count > 0, lambda: NO_ELEMENTS)
    except RuntimeError as error:
        hint = "say what is meant, torch.tensor(numbers, dtype=...), or give an example in which the list holds some"
        raise CaptureError(NO_ELEMENTS, source=user_line(), hint=hint) from error


class GrownList(Gathered, Holder):
    """A list to which a loop on data added: what it held before, and `Rows`. It is read by number, in parts, by a loop,
    by torch.stack, torch.cat and torch.tensor. `made` is what it is in eager: a list, a tuple or a set."""

    def __init__(self, held: Iterable[Any], element: Element, name: str, made: type = list) -> None:
        every = [*held]
        kinds = [each.element if isinstance(each, Rows) else Element.like(each) for each in every]
        if not all(map(element.is_like, kinds)):
            raise CaptureError(
                f"the list {name!r} gains elements of several structures or types in loops or branches on data",
                source=user_line(),
                hint="use a list for each, or give them one type",
            )
        super().__init__(every)
        self.name, self.element, self.made = name, element, made
        self.moved: Moved | None = None
        self.is_changing = False

    def twin(self) -> GrownList:
        """Another list that holds the same."""
        return GrownList(list.__iter__(self), self.element, self.name, self.made)

    def become(self, other: GrownList) -> GrownList:
        """The list itself, which holds what another one holds."""
        list.__setitem__(self, slice(None), [*list.__iter__(other)])
        self.element = other.element
        return self

    def left_in(self, holder: list[Any]) -> None:
        """Notes that a list which a loop made grow became this one: it is to be found by that one's other names."""
        tracer = next((each.tracer for each in tensors_of(self)), None)
        self.moved = Moved.leave(holder, self.name)
        if self.moved is not None:
            self.moved.__dict__["became"] = self
        if tracer is None:
            undisguise(holder)
        else:
            tracer.disguised.append(holder)

    def refuse_changed(self) -> None:
        """Raises CaptureError where the list that it was before was changed by another name, or it is by another."""
        if self.is_changing:
            raise grown_elsewhere("list", "grows", self.name)
        if self.moved is not None and not self.moved.is_alone:
            self.moved.refused()

    @property
    def held(self) -> Sequence[Any]:
        """What it held before, and the rows."""
        return [*list.__iter__(self)]

    @classmethod
    def grown(cls, own: Iterable[Any], rows: Rows, name: str, *, at_front: bool = False) -> GrownList:
        """A list after a loop that added rows at its end, or each of them at its front."""
        held = items_of(own)
        if at_front:
            rows = Rows([p if isinstance(p, Pieces) else p.flip(0) for p in rows.parts], rows.element)
        return cls([rows, *held] if at_front else [*held, rows], rows.element, name)

    @classmethod
    def of(cls, stacked: torch.Tensor, name: str, made: type = list) -> GrownList:
        """The list of the rows of a tensor; of numbers where it has one dimension of integers."""
        number = stacked.dim() == 1 and stacked.dtype is torch.int64
        element = Element(LEAF, (Leaf("int" if number else "tensor"),))
        return cls([Rows([stacked], element)], element, name, made)

    @classmethod
    def of_numbers(cls, stacked: torch.Tensor) -> GrownList:
        """The list of the numbers in the rows of a tensor."""
        kind = "bool" if stacked.dtype is torch.bool else "float" if stacked.dtype.is_floating_point else "int"
        whole = stacked.long() if kind == "int" else stacked
        leaves, spec = pytree.tree_flatten(lists_of_shape(stacked.shape[1:]))
        parts = whole.reshape(whole.shape[0], len(leaves)).unbind(1)
        element = Element(spec, tuple(Leaf(kind) for _ in leaves))
        return cls([Rows(parts, element, known_element(stacked))], element, "list")

    @classmethod
    def repeating(cls, element: Any, times: Any) -> GrownList:
        """The list that has one element so many times, of tensors and numbers."""
        made = Element.like(element)
        count: Any = torch.sym_max(times, 0)
        parts = [each.unsqueeze(0).expand(count, *each.shape) for each in made.parts_of(element)]
        return cls([Rows(parts, made, [element])], made, "list")

    def __add__(self, other: Any) -> Any:
        return GrownList([*items_of(self), *items_of(other)], self.element, self.name, self.made)

    def __radd__(self, other: Any) -> Any:
        return GrownList([*items_of(other), *items_of(self)], self.element, self.name, self.made)

    @classmethod
    def of_pieces(cls, pieces: Pieces) -> GrownList:
        """The tuple of pieces of unequal lengths."""
        element = Element(LEAF, (Leaf("tensor"),))
        return cls([Rows([pieces], element)], element, "tuple", tuple)

    def returned(self) -> Returned:
        """What a program returns for it."""
        return Returned.of(self.made, self.element.spec, self.element.leaves, self.wholes())

    def wholes(self) -> list[Any]:
        """The parts of all elements, stacked or as pieces."""
        self.refuse_changed()
        found: list[list[torch.Tensor]] = []
        for each in list.__iter__(self):
            found.append(
                [*each.parts] if isinstance(each, Rows) else [p.unsqueeze(0) for p in self.element.parts_of(each)]
            )
        columns = [joined_parts(column) for column in zip(*found, strict=True)]
        if not columns:
            raise CaptureError(
                f"the list {self.name!r} grew in a loop on data by what is no tensor, and is read",
                source=user_line(),
                hint="append tensors or numbers",
            )
        return columns

    def linked(self, part: torch.Tensor) -> torch.Tensor:
        """A part of an element, which is a copy where several parts of the list were joined."""
        for each in tensors_of(self) if list.__len__(self) > 1 else ():
            link_element(part, each)
        return part

    def extreme(self, greatest: bool) -> Any:
        """max(self), or min. Raises CaptureError where its elements are no numbers."""
        (whole, *rest), (leaf, *_) = self.wholes(), self.element.leaves
        if rest or self.element.spec.num_nodes != 1 or self.element.is_constant or whole.dim() != 1:
            raise CaptureError(
                f"max or min goes over the list {self.name!r}, whose elements are no numbers",
                source=user_line(),
                hint="make a list of numbers first",
            )
        torch._check(whole.shape[0] > 0)
        return number_of(whole.max() if greatest else whole.min(), leaf)

    def gathered(self, dtype: torch.dtype | None) -> torch.Tensor:
        """torch.tensor(self, dtype=dtype)"""
        wholes = self.wholes()
        scalars, usual = [each for each in wholes if each.dim() == 1], torch.get_default_dtype()
        real = len(scalars) == len(wholes) and (dtype is not None or all(each.dtype == usual for each in wholes))
        kept = real or (dtype is not None or all(each.kind == "float" for each in self.element.leaves))
        if not kept or self.element.spec.num_nodes > 1:  # torch makes float32[0] of no elements, whatever they would be
            refuse_empty(wholes[0].shape[0])
        return tensor_of_lists(self.element.of_all(wholes), wholes[0].shape[0], dtype).clone()

    def places(self) -> torch.Tensor:
        """All elements as an index."""
        wholes = self.wholes()
        return tensor_of_lists(self.element.of_all(wholes), wholes[0].shape[0], None).clone()

    def elements(self) -> Open:
        """The elements by number."""
        wholes = self.wholes()
        single, parts = self.element.spec.num_nodes == 1, [*list.__iter__(self)]
        same = parts[0].same if len(parts) == 1 and isinstance(parts[0], Rows) else None
        return Open(
            wholes[0].shape[0],
            (lambda i: self.element.of([row(each, i) for each in wholes])) if same is None else lambda _: same[0],
            (lambda: wholes[0]) if single and isinstance(wholes[0], torch.Tensor) else None,
            tuple(each for each in wholes if isinstance(each, Pieces)),
        )

    def __getitem__(self, place: Any) -> Any:
        wholes = self.wholes()
        if not isinstance(place, slice):
            return self.element.of([self.linked(each[place]) for each in wholes])
        backwards = place.step is not None and place.step < 0
        if backwards and (place.step, place.start, place.stop) != (-1, None, None):
            raise CaptureError(
                f"the list {self.name!r} that a loop on data made is read backwards in part",
                source=user_line(),
                hint="reverse all of it, or take the part first",
            )
        taken = [each.flip(0) if backwards else each[place] for each in wholes]
        return GrownList([Rows(taken, self.element)], self.element, self.name, self.made)

    def __iter__(self) -> Any:
        columns = [each.unbind(0) for each in self.wholes()]
        return iter([self.element.of(parts) for parts in zip(*columns, strict=True)])

    def __reversed__(self) -> Any:
        return iter(self[::-1])

    def copy(self) -> Any:
        """self[:]"""
        return self[:]

    def append(self, element: Any) -> None:
        super().append(element)

    def __len__(self) -> int:
        return self.wholes()[0].shape[0].__index__()  # which fixes a size, unless the call is rewritten

    def __bool__(self) -> bool:
        return bool(self.wholes()[0].shape[0] > 0)

    def refused(self, *_: Any) -> Any:
        """Raises CaptureError: how many there are only data tells."""
        raise CaptureError(
            f"the list {self.name!r}, whose length varies, is searched or changed in another way than by append",
            source=user_line(),
            hint="stack the list, and work on the tensor",
        )

    __contains__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __mul__ = __rmul__ = __imul__ = refused
    insert = pop = remove = clear = sort = reverse = index = count = refused  # type: ignore[assignment]


def is_endless(given: Any) -> bool:
    """Whether what is iterated over is told by data."""
    return isinstance(given, Open) or is_open(given)
