"""What leaves a branch or a loop may share its memory with tensors around it, or with what leaves it beside: eager
writes both where it writes one. A program has copies; so what is written then and read by another name is refused."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import attrs
import torch

from lowering.control_flow.values import Outer, user_line
from lowering.direct.functions.arrays import Array
from lowering.direct.tensors import Memory, Traced
from lowering.errors import CaptureError
from lowering.records.torch_internals import pytree

COPY = "keep a copy where it is made: y.clone()"
Place = int | Memory
"""Where memory comes from that a body meets: the number of a variable that a loop carries, or the memory itself."""


class Holder:
    """What has tensors that are none of its leaves."""

    @property
    def held(self) -> Sequence[Any]:
        """These tensors, and what else has some."""
        return ()


def tensors_of(value: Any) -> list[Traced]:
    """The traced tensors in a value, those around a body in place of their stand-ins."""
    found: list[Traced] = []
    for leaf in pytree.tree_leaves(value, is_leaf=lambda each: isinstance(each, Outer | Holder)):
        plain = leaf.original if isinstance(leaf, Outer) else leaf
        plain = plain.tensor if isinstance(plain, Array) else plain
        if isinstance(plain, Holder):
            found += tensors_of([*plain.held])
        elif type(plain) is Traced:
            found.append(plain)
    return found


def memories_of(values: Iterable[Any]) -> list[Memory]:
    """The memories of the traced tensors in values."""
    return [each.handle.memory for value in values for each in tensors_of(value)]


def memories_around(inside: Sequence[Any], around: Sequence[Any]) -> dict[int, Memory]:
    """What the memories of stand-ins stand for, by their identity."""
    found: dict[int, Memory] = {}
    for one, other in zip(inside, around, strict=True):
        for stand_in, own in zip(tensors_of(one), tensors_of(other), strict=False):
            found[id(stand_in.handle.memory)] = own.handle.memory
    return found


def link(one: Memory, other: Memory, what: str) -> None:
    """Says of two memories that they may be one: where one is written, the other must not be read after that."""
    if one is not other:
        one.linked.append((other, refusal(what)))
        other.linked.append((one, refusal(what)))


def refusal(what: str) -> Callable[[], None]:
    """What raises CaptureError where memory is read that may have been written by another name."""

    def refuse() -> None:
        raise CaptureError(
            f"{what}, which a branch or a loop on data leaves, may share its memory with another tensor: one is "
            "written, and the other is read after that",
            source=user_line(),
            hint=COPY,
        )

    return refuse


def may_be_one(one: Memory, other: Memory) -> bool:
    """Whether two memories are one, or are linked."""
    return one is other or any(each is other for each, _ in one.linked)


def forget(value: Any, name: str) -> None:
    """Says of a variable that a loop wrote in place, and then gave another tensor, that its own must not be read: how
    often it was written before that, only the rounds tell."""
    for memory in memories_of([value]):
        for each, settle in ((memory, refusal(name)), *memory.linked):
            if each.name:
                settle()
            each.stale.append(settle)


def link_alike(inside: Sequence[Any], around: Sequence[Any]) -> None:
    """Links stand-ins and copies of what shares its memory around a body: what one is written, the other would be."""
    pairs = [
        (one.handle.memory, other.handle.memory)
        for each, own in zip(inside, around, strict=True)
        for one, other in zip(tensors_of(each), tensors_of(own), strict=False)
    ]
    for one, first in pairs:
        first.linked.append((one, refusal("a tensor")))  # for what is taken of that in the body
    for (one, first), (two, second) in combinations(pairs, 2):
        if may_be_one(first, second):
            link(one, two, "a tensor")


def link_element(element: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """An element of a list, of which the same is said with the tensor that holds them all, and what that has links
    to."""
    if type(element) is Traced and type(whole) is Traced:
        own, memory = element.handle.memory, whole.handle.memory
        for other in dict.fromkeys((memory, *(each for each, _ in memory.linked))):
            link(own, other, "an element of a list")
    return element


@attrs.frozen(eq=False)
class Left:
    """What memories each tensor of one result of a body may have, its own and those that this is linked to: those of
    the body, or around it where that is known, or of a variable that a loop carries."""

    name: str
    leaves: tuple[tuple[Place, ...], ...]

    @classmethod
    def of(cls, name: str, value: Any, known: Mapping[int, Place]) -> Left:
        """Of a result; `known` has what memories of the body stand for, by their identity."""
        found = ((each, *(other for other, _ in each.linked)) for each in memories_of([value]))
        return cls(name, tuple(tuple({id(m): known.get(id(m), m) for m in every}.values()) for every in found))

    @property
    def places(self) -> list[Place]:
        """Those of all tensors."""
        return [place for places in self.leaves for place in places]

    @property
    def memories(self) -> set[int]:
        """The memories among them, by identity."""
        return {id(each) for each in self.places if isinstance(each, Memory)}

    def made(self, result: Any) -> Iterator[tuple[str, tuple[Place, ...], Memory]]:
        """(name, memories that a tensor of the body may have, that of the result) for each tensor."""
        tensors = memories_of([result])
        level = len(tensors) == len(self.leaves)
        pairs = zip(self.leaves, tensors, strict=True) if level else product(self.leaves, tensors)
        yield from ((self.name, places, own) for places, own in pairs)


def link_results(left: Sequence[Left], results: Sequence[Any], first: Sequence[Any] = ()) -> None:
    """Links the results of bodies with the memory around these that they may share, and with one another where they
    shared memory within; `first` is what a loop carried before it."""
    made = [each for one, result in zip(left, results, strict=True) for each in one.made(result)]
    depth = next((len(each.tracer.frames) for result in results for each in tensors_of(result)), 0)
    for name, places, own in made:
        for place in places:
            around = [place] if isinstance(place, Memory) else memories_of([first[place], results[place]])
            for other in around:
                if other.depth <= depth:
                    link(own, other, name)
    for (name, one, own), (_, two, other) in combinations(made, 2):
        if {id(each) for each in one if isinstance(each, Memory)} & {*map(id, two)}:
            link(own, other, name)


# ---------------------------------------------------------------------------------------------- loops


def link_unrun(names: Sequence[str], before: Sequence[Any], after: Sequence[Any]) -> None:
    """Links what a loop leaves with what its variables held before it, and with one another as that is: where it makes
    no round, it leaves just that."""
    pairs = [
        (name, one.handle.memory, other.handle.memory)
        for name, old, new in zip(names, before, after, strict=True)
        for one, other in zip(tensors_of(old), tensors_of(new), strict=False)
    ]
    depth = next((len(each.tracer.frames) for value in after for each in tensors_of(value)), 0)
    for name, old, new in pairs:
        for other in dict.fromkeys((old, *(each for each, _ in old.linked))):
            if other.depth <= depth:
                link(new, other, name)
    for (name, one, own), (_, two, other) in combinations(pairs, 2):
        if may_be_one(one, two):
            link(own, other, name)


def origins_of(
    inside: Sequence[Any], around: Sequence[Any], carried: Sequence[Any], copies: Mapping[int, Any]
) -> dict[int, Place]:
    """What memories in a round stand for, by their identity: those of stand-ins, of what is carried, and of the copies
    that the round writes in the stead of that."""
    found: dict[int, Place] = dict(memories_around(inside, around))
    for number, value in (*enumerate(carried), *copies.items()):
        found |= {id(each): number for each in memories_of([value])}
    return found


def left_by_round(
    names: Sequence[str],
    found: Sequence[Any],
    gained: Mapping[int, Any],
    origins: Mapping[int, Place],
    written: Container[int],
) -> list[Left]:
    """What memories the results of a round have. `gained` has what lists gained, by their numbers, `written` has the
    numbers of variables that the round wrote. Raises CaptureError where a later round would write memory that another
    result has, or that lies around the loop."""
    tracer = next((each.tracer for value in (found, gained) for each in tensors_of(value)), None)
    depth = 0 if tracer is None else len(tracer.frames) - 1
    left = [Left.of(names[i], gained.get(i, value), origins) for i, value in enumerate(found)]
    carried = [i for i in range(len(found)) if i in written and i not in gained]
    for number, each in enumerate(left):
        for place in each.places:
            if isinstance(place, int) and place in written and (place != number or number in gained):
                refuse_shared(names[place], names[number])
            around = place.depth <= depth if isinstance(place, Memory) else place != number
            if number in carried and around:
                refuse_shared(names[number], "a tensor around it")
    for number in carried:
        for other, each in enumerate(left):
            if other != number and each.memories & left[number].memories:
                refuse_shared(names[number], names[other])
    return left


def refuse_shared(name: str, other: str) -> None:
    """Raises CaptureError where a loop writes what may be another tensor's memory."""
    raise CaptureError(
        f"a loop on data writes {name} in place, whose memory {other} shares", source=user_line(), hint=COPY
    )


# ---------------------------------------------------------------------------------------------- lists by two names


def refuse_twice(written: Sequence[tuple[str, Any]]) -> None:
    """Raises CaptureError where a body writes one list, dict or set by two names: each would be another one."""
    for (one, first), (two, second) in combinations(written, 2):
        if first is second and not isinstance(first, torch.Tensor):
            raise CaptureError(
                f"a branch or a loop on data writes a {type(first).__name__} by two names, {one} and {two}",
                source=user_line(),
                hint="use one of them",
            )
