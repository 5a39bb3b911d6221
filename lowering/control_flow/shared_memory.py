"""What leaves a branch or a loop may share its memory with tensors around it, or with what leaves it beside: eager
writes both where it writes one. A program has copies; so what is written then and read by another name is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, product
from typing import Any

import attrs
import torch

from lowering.control_flow.values import Outer, user_line
from lowering.direct.functions.arrays import Array
from lowering.direct.tensors import Group, Memory, Traced, nothing_to_settle
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


def forget(value: Any, name: str) -> None:
    """Says of a variable that a loop wrote in place, and then gave another tensor, that its own must not be read: how
    often it was written before that, only the rounds tell."""
    forget_as(value, refusal(name))


def forget_as(value: Any, own: Callable[[], None]) -> None:
    """Says of tensors that they must not be read, nor what may share their memory; `own` is what refuses that."""
    found = dict.fromkeys(memories_of([value]), own)
    met: set[tuple[Group, bool]] = set()
    for memory in tuple(found):
        for group, mutual in memory.roles:
            if (group, mutual) not in met:
                met.add((group, mutual))
                found |= {other: settle for other, settle in group.others(memory) if other not in found}
    for memory, settle in found.items():
        if memory.name:
            settle()
        memory.stale.append(settle)


@contextmanager
def linked_alike(inside: Sequence[Any], around: Sequence[Any]) -> Iterator[None]:
    """A block, a body, in which stand-ins and copies of what shares its memory around it are linked: what one is
    written, the other would be. What is taken in it of a tensor around it may be one of these, too."""
    settle, stand_ins = refusal("a tensor"), defaultdict[Memory, dict[Memory, None]](dict)
    for each, own in zip(inside, around, strict=True):
        for one, other in zip(tensors_of(each), tensors_of(own), strict=False):
            stand_ins[other.handle.memory][one.handle.memory] = None
    alike = defaultdict[Group, Group](Group)
    for first, ones in stand_ins.items():
        for group, mutual in first.roles:
            for one in ones:
                alike[group].add(one, settle, mutual)
    held = [(first, Group()) for first in stand_ins]
    for first, group in held:
        for one in stand_ins[first]:
            group.add(one, settle)
        first.groups.append(group)
    try:
        yield
    finally:
        for first, group in held:
            first.groups.remove(group)
        for first, ones in stand_ins.items():  # what a body in this one left and this one wrote was so around it
            first.stale += dict.fromkeys(each for one in ones for each in one.stale if each is not settle)


def written_by_others(inside: Sequence[Any], around: Sequence[Any]) -> list[Any]:
    """The tensors around a body whose stand-ins it wrote: by another name, since it writes copies of what it names."""
    pairs = zip(inside, around, strict=True)
    return [own for one, own in pairs if any(m.version or refuse_lost in m.stale for m in memories_of([one]))]


def refuse_lost() -> None:
    """Raises CaptureError where memory is read that a body wrote by another name than it has around that."""
    raise CaptureError(
        "a branch or a loop on data writes a tensor around it by another name or through a view, and it is read after "
        "that",
        source=user_line(),
        hint="write it by its own name, y[:1] = y[:1] + 1 say, or write a copy: y.clone()",
    )


def link_element(element: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """An element of a list, of which the same is said with the tensor that holds them all, and what that has links
    to."""
    if type(element) is Traced and type(whole) is Traced:
        element.handle.memory.join(whole.handle.memory, refusal("an element of a list"))
    return element


# ---------------------------------------------------------------------------------------------- what a body leaves


@attrs.frozen(eq=False)
class Leaf:
    """What memories a tensor of a result may have: its `own`, and for each of its groups those `beside`, which is one
    object for all tensors of the group. `known` says whether its own is one around the body, or that of a variable."""

    own: Place
    beside: tuple[tuple[Place, ...], ...]
    known: bool

    @property
    def origins(self) -> list[tuple[Any, tuple[Place, ...]]]:
        """The places where its memory may come from, by keys. What is linked with what is known around a body, is so
        around it."""
        own = ((True, self.own), (self.own,))
        return [own] if self.known else [own, *(((False, id(places)), places) for places in self.beside)]


@attrs.frozen(eq=False)
class Left:
    """What memories each tensor of one result of a body may have, its own and those that this is linked to: those of
    the body, or around it where that is known, or of a variable that a loop carries."""

    name: str
    leaves: tuple[Leaf, ...]

    @classmethod
    def every(cls, names: Sequence[str], values: Sequence[Any], known: Mapping[int, Place]) -> list[Left]:
        """Of all results; `known` has what memories of the body stand for, by their identity."""
        made: dict[tuple[Group, bool], tuple[Place, ...]] = {}

        def leaf(memory: Memory) -> Leaf:
            for role in memory.roles:
                if role not in made:
                    every = [*((memory,) if role[1] else ()), *(each for each, _ in role[0].others(memory))]
                    made[role] = tuple(dict.fromkeys(known.get(id(each), each) for each in every))
            own = known.get(id(memory), memory)
            return Leaf(own, tuple(made[role] for role in memory.roles), id(memory) in known)

        return [cls(name, tuple(map(leaf, memories_of([value])))) for name, value in zip(names, values, strict=True)]

    @property
    def places(self) -> list[Place]:
        """Those of all tensors."""
        groups = {id(places): places for each in self.leaves for places in each.beside}
        return [*dict.fromkeys([each.own for each in self.leaves] + [p for places in groups.values() for p in places])]

    @property
    def memories(self) -> set[Memory]:
        """The memories among them."""
        return {each for each in self.places if isinstance(each, Memory)}

    @property
    def origins(self) -> list[Place]:
        """The places where the memory of its tensors may come from."""
        found = dict(each for leaf in self.leaves for each in leaf.origins)
        return [*dict.fromkeys(place for places in found.values() for place in places)]

    def made(self, result: Any) -> Iterator[tuple[Leaf, Memory]]:
        """(what memories a tensor of the body may have, that of the result) for each tensor."""
        tensors = memories_of([result])
        level = len(tensors) == len(self.leaves)
        yield from zip(self.leaves, tensors, strict=True) if level else product(self.leaves, tensors)


@attrs.define(eq=False)
class Arrivals:
    """The results whose memory may come from the same `places`, each with what refuses it."""

    places: Sequence[Place]
    results: dict[Memory, Callable[[], None]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, left: Sequence[Left], results: Sequence[Any]) -> list[Arrivals]:
        """Those of the results of bodies."""
        found: dict[Any, Arrivals] = {}
        for each, result in zip(left, results, strict=True):
            settle = refusal(each.name)
            for leaf, own in each.made(result):
                for key, places in leaf.origins:
                    found.setdefault(key, cls(places)).results[own] = settle
        return [*found.values()]

    def join(self, around: Sequence[Memory]) -> None:
        """Says of the results that they may be each memory of these around the body."""
        alone = [memory for memory in around if not any(mutual for _, mutual in memory.roles)]
        if len(alone) == 1:
            alone[0].opened()
        elif alone:
            group = Group()
            for memory in alone:
                group.add(memory, nothing_to_settle, mutual=False)
            self.enter(group)
        roles: dict[Group, bool] = {}
        for memory in around:
            for group, mutual in memory.roles:
                roles[group] = mutual or roles.get(group, False)
        for group, mutual in roles.items():
            self.enter(group, mutual)

    def enter(self, group: Group, mutual: bool = True) -> None:
        """Puts the results into a group."""
        for own, settle in self.results.items():
            group.add(own, settle, mutual)


def link_results(left: Sequence[Left], results: Sequence[Any], first: Sequence[Any] = ()) -> None:
    """Links the results of bodies with the memory around these that they may share, and with one another where they
    shared memory within; `first` is what a loop carried before it."""
    depth = next((len(each.tracer.frames) for result in results for each in tensors_of(result)), 0)
    carried = origins_of_carried(left) if first else {}
    outer: dict[Place, list[Memory]] = {}
    within = defaultdict[Place, list[Arrivals]](list)
    for each in Arrivals.of(left, results):
        around: dict[Memory, None] = {}
        for place in dict.fromkeys(origin for own in each.places for origin in carried.get(own, (own,))):
            if place not in outer:
                memories = [place] if isinstance(place, Memory) else memories_of([first[place]])
                outer[place] = [memory for memory in memories if memory.depth <= depth]
            around |= dict.fromkeys(outer[place])
            if not outer[place]:
                within[place].append(each)
        each.join([*around])
    link_within(within.values())


def origins_of_carried(left: Sequence[Left]) -> dict[Place, tuple[Place, ...]]:
    """Where the memory may come from that a variable holds before a round, by its number: rounds before that may have
    given it what other variables held. `left` is what a round leaves in each."""
    before = [each.origins for each in left]
    found: dict[Place, tuple[Place, ...]] = {}
    for number in range(len(left)):
        reached: dict[Place, None] = {number: None}
        waiting = [number]
        while waiting:
            more = [place for place in before[waiting.pop()] if place not in reached]
            reached |= dict.fromkeys(more)
            waiting += [place for place in more if isinstance(place, int)]
        found[number] = tuple(reached)
    return found


def link_within(arrivals: Iterable[Sequence[Arrivals]]) -> None:
    """Links results that may have the same memory of a body; each entry has those of one such memory."""
    linked: set[frozenset[Arrivals]] = set()
    for every in arrivals:
        kept: list[Arrivals] = []
        for each in sorted(every, key=lambda each: -len(each.results)):
            if not any(each.results.keys() <= more.results.keys() for more in kept):
                kept.append(each)
        if frozenset(kept) not in linked and len({own for each in kept for own in each.results}) > 1:
            linked.add(frozenset(kept))
            group = Group()
            for each in kept:
                for own, settle in each.results.items():
                    group.add(own, settle)


# ---------------------------------------------------------------------------------------------- loops


def link_unrun(names: Sequence[str], before: Sequence[Any], after: Sequence[Any]) -> None:
    """Links what a loop leaves with what its variables held before it, and with one another as that is: where it makes
    no round, it leaves just that."""
    for name, old, new in zip(names, before, after, strict=True):
        settle = refusal(name)
        for one, other in zip(tensors_of(old), tensors_of(new), strict=False):
            other.handle.memory.join(one.handle.memory, settle)


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
    left = Left.every(names, [gained.get(i, value) for i, value in enumerate(found)], origins)
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
