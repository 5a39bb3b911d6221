"""An `if` on data: both branches are traced, and become one torch.cond of what they make different."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import Any

import attrs
import torch

from lowering.capture.inputs.side_effects import refuse_side_effects
from lowering.control_flow.bodies import (
    MISSING,
    Again,
    Carrier,
    Operands,
    Written,
    attributes_kept,
    is_carried,
    is_copied,
    undone,
)
from lowering.control_flow.ragged import GrowingList, followed_lists, longer_list, others_refused, twin_of
from lowering.control_flow.rows import GrownList
from lowering.control_flow.shared_memory import (
    Left,
    forget_as,
    link_results,
    linked_alike,
    memories_around,
    refuse_lost,
    refuse_twice,
    written_by_others,
)
from lowering.control_flow.values import (
    Grows,
    Mismatch,
    Moved,
    Slot,
    Undefined,
    Unset,
    merged_slot,
    outputs,
    rebuilt,
    set_aside,
    slot_of,
    truth,
)
from lowering.direct.functions.round_gradients import GradientsOfRound
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import Traced

WHERE = ("where the condition holds", "where it does not")
ONE = "has a value in one branch only of a condition on data"
GROWN = "a list that grows"
"""What a branch gives for the list itself, which is the same behind it."""
TRIES = 4
Attributes = Sequence[tuple[Any, str]]


@attrs.define(eq=False)
class Branches(Carrier):
    """Two branches of one test. `given` are the operands of both, `params` their names; `names` those of the results,
    none where a branch gives the result of the function; `written` says which operands are written in place, `most`
    how many elements a branch appends at most to those that are lists which grow in a loop, or of which one way makes
    more than the other: the latter are `lists`."""

    test: Any
    sides: tuple[Callable[..., Any], Callable[..., Any]]
    given: tuple[Any, ...]
    names: tuple[str, ...]
    written: frozenset[str]
    attributes: Attributes
    operands: Operands = attrs.field(factory=Operands)
    places: dict[int, Written] = attrs.field(factory=dict)
    first: list[Any] = attrs.field(factory=list)
    slots: list[Slot] | None = None
    params: tuple[str, ...] = ()
    kept: list[Written | None] = attrs.field(factory=list)
    left: list[list[Left]] = attrs.field(factory=list)
    most: dict[int, int] = attrs.field(factory=dict)
    lost: list[Any] = attrs.field(factory=list)
    lists: Set[int] = frozenset()

    def run(self) -> Any:
        """The results, as the branch that is taken gives them."""
        test = truth(self.test)
        if not self.params:
            code = self.sides[0].__code__
            self.params = code.co_varnames[: code.co_argcount]
        self.given = tuple(followed_lists(self.params, self.given, self.written))
        for place, (name, value) in enumerate(zip(self.params, self.given, strict=True)):
            if name in self.written and is_copied(value):
                self.places[place] = Written(value)
            elif name in self.written and isinstance(value, GrownList):
                self.places[place], self.lists = Written(value), {*self.lists, place}
        self.kept = written_attributes(self.attributes)
        refuse_twice([(self.params[i], self.given[i]) for i in self.places])
        self.operands.gather(list(self.given))
        self.operands.gather([getattr(holder, name, None) for holder, name in self.attributes])
        self.operands.gather_from(*self.sides)
        found: list[Any] = []
        aside = [(e.original, self.params[i]) for i, e in self.places.items() if type(e.original) in (list, dict)]
        grown = [each.original for each in self.places.values() if isinstance(each.original, GrownList)]
        self.given = tuple(twin_of(each) if i in self.places else each for i, each in enumerate(self.given))
        for _ in range(TRIES):
            try:
                self.left.clear()
                self.lost.clear()
                with undone([test, *self.operands.found]), set_aside(aside), others_refused(grown):
                    bodies = [self.body(place) for place in (0, 1)]
                    found = torch.ops.higher_order.cond(test, *bodies, self.operands.passed)
                break
            except Again as asked:
                if asked.of is not self:
                    raise
                self.slots = asked.slots
            except Grows as told:
                own = next((each for each in self.places.values() if each.copy is told.held), None)
                raise told if own is None else Grows.of(told, own.original) from None
        return self.results(iter(found[1:]))

    def body(self, place: int) -> Callable[..., Any]:
        """A branch as torch.cond takes it: tensors in, tensors out."""

        def branch(*inside: Any) -> Any:
            given = self.operands.received(inside)
            with GradientsOfRound(given, self.operands.found, lambda: None):
                values = self.values(self.sides[place], given)
            slots = self.slots_of(place, values)
            made = [each for value, slot in zip(values, slots, strict=True) for each in outputs(value, slot)]
            return (torch.ones((), dtype=torch.bool), *made)

        branch.one_way = True  # type: ignore[attr-defined] - in eager the other one is not run, nor has gradients
        return branch

    def values(self, side: Callable[..., Any], inside: Sequence[Any]) -> list[Any]:
        """What a branch leaves: its results, what the objects hold that it may write, and the attributes."""
        given = [self.operands.swapped(value, inside) for value in self.given]
        for place, each in self.places.items():
            if place in self.lists:
                each.inside, each.copy = given[place], GrowingList.of(self.params[place], given[place])
                given[place] = each.copy
            else:
                given[place] = each.begin(given[place])
        bound = self.operands.rebound(side, inside)
        own = [each for place, each in enumerate(given) if place not in self.places]
        with refuse_side_effects(side, bound, self.given, own), attributes_kept(self.attributes):
            begin_attributes(self.attributes, self.kept, self.operands, inside)
            copied = [each for each in (*self.places.values(), *self.kept) if each is not None]
            both = [*inside, *(each.copy for each in copied)], [*self.operands.found, *(e.original for e in copied)]
            with linked_alike(*both):
                result = bound(*given)
            after = end_attributes(self.attributes, self.kept)
        found = list(result) if self.names else [result]
        by_name = {self.params[place]: each for place, each in self.places.items()}
        written = [each.copy for each in self.places.values()]
        for number, name in enumerate(self.names or [""]):
            held, own = found[number], copy_of(by_name.get(name))
            if isinstance(held, GrowingList) and held is not own and any(held is each for each in written):
                held.refused()
            if name in by_name:
                by_name[name].same.append(found[number] is by_name[name].copy)
        contents: list[Any] = []
        copies: dict[int, Any] = {}
        for place, each in self.places.items():
            content = each.content()
            if isinstance(each.copy, GrowingList):
                contents += self.appended(place, content)
                copies[id(each.copy)] = GROWN
            else:
                contents.append(content)
                copies[id(each.copy)] = content
        found = [copies.get(id(each), each) for each in found]
        every = [self.operands.outside(each, inside) for each in (*found, *contents, *after)]
        around = memories_around(*both)
        self.lost += written_by_others(inside, self.operands.found)
        self.left.append(Left.every(self.every(), every, around))
        return every

    def appended(self, place: int, elements: Sequence[Any]) -> list[Any]:
        """What a branch appends to a list, and nothing for what only the other one does. Raises Again where the other
        was traced as one that appends less."""
        known = self.most.get(place)
        self.most[place] = most = max(len(elements), known or 0)
        if known is not None and most > known:
            raise Again(None, self)
        return [*elements, *(Undefined(self.params[place], ONE) for _ in range(most - len(elements)))]

    def every(self) -> list[str]:
        """The names of what a branch leaves."""
        written = [self.params[place] for place in self.places for _ in range(self.most.get(place, 1))]
        return [*(self.names or [""]), *written, *(name for _, name in self.attributes)]

    def slots_of(self, place: int, values: Sequence[Any]) -> Sequence[Slot]:
        """The slots of what a branch leaves. Raises Again where the other branch was traced with others."""
        if place == 0:
            self.first[:] = values
            return [slot_of(each) for each in values] if self.slots is None else self.slots
        try:
            found = [merged_slot(n, a, b, WHERE) for n, a, b in zip(self.every(), self.first, values, strict=True)]
        except Mismatch as told:
            grown = next((each for each in self.places.values() if each.is_longer_on_one_way), None)
            raise told if grown is None else Grows.of(told, grown.original) from None
        before = [slot_of(each) for each in self.first] if self.slots is None else self.slots
        if found != before:
            raise Again(found, self)
        return found

    def results(self, tensors: Iterator[torch.Tensor]) -> Any:
        """What the model gets: results, with written objects and attributes set."""
        slots = iter(self.slots if self.slots is not None else [slot_of(each) for each in self.first])
        names = self.names or ("the result",)
        found = [
            rebuilt(next(slots), tensors, partial(nothing, name, value))
            for name, value in zip(names, self.first, strict=False)
        ]
        contents = []
        for place, each in self.places.items():
            unknown = partial(Undefined, self.params[place], ONE)
            parts = [rebuilt(next(slots), tensors, unknown) for _ in range(self.most.get(place, 1))]
            if place in self.lists:
                content: Any = longer_list(self.params[place], each.original, parts)
            else:
                content = each.end(parts if place in self.most else parts[0])
            if self.params[place] in self.names and all(each.same[-2:]):
                found[self.names.index(self.params[place])] = content
            elif self.params[place] in self.names and isinstance(each.copy, GrowingList):
                each.copy.refused()
            contents += parts if place in self.most and place not in self.lists else [content] * len(parts)
        for (holder, name), each in zip(self.attributes, self.kept, strict=True):
            set_attribute(holder, name, each, rebuilt(next(slots), tensors, partial(Undefined, name, ONE)))
        every = [*found, *contents, *(getattr(holder, name, None) for holder, name in self.attributes)]
        forget_as(self.lost, refuse_lost)
        for left in self.left:
            link_results(left, every)
        return tuple(found) if self.names else found[0]


def branch_results(
    test: Any,
    sides: tuple[Callable[..., Any], Callable[..., Any]],
    given: tuple[Any, ...],
    names: tuple[str, ...],
    written: frozenset[str],
    attributes: Attributes,
    **more: Any,
) -> Any:
    """The results of a branch on data. A list to which one way appends more than the other has as many elements behind
    it as data tells; in the round of a loop, which follows such a list itself, Grows is raised."""
    lists: frozenset[int] = frozenset()
    while True:
        try:
            return Branches(test, sides, given, names, written, attributes, lists=lists, **more).run()
        except Grows as told:
            place = next((i for i, each in enumerate(map(Moved.followed, given)) if each is told.held), None)
            if place is None or not is_direct(test) or is_carried(told.held):
                raise
            lists |= {place}


def is_direct(test: Any) -> bool:
    """Whether direct capture traces what decides, and not torch.export."""
    return type(test) is Traced or isinstance(getattr(test, "node", None), SizeNode)


def copy_of(written: Written | None) -> Any:
    """What a body writes in the stead of an object; None where it writes none."""
    return None if written is None else written.copy


def nothing(name: str, value: Any) -> Undefined:
    """What a variable holds that has no value on either way."""
    return value if isinstance(value, Unset) else Undefined(name, ONE)


# ---------------------------------------------------------------------------------------------- attributes


def written_attributes(attributes: Attributes) -> list[Written | None]:
    """For each attribute the object that bodies may write in place; None where it holds none."""
    values = [getattr(holder, name, None) for holder, name in attributes]
    return [Written(value) if is_copied(value) else None for value in values]


def begin_attributes(
    attributes: Attributes, kept: Sequence[Written | None], operands: Operands, inside: Sequence[Any]
) -> None:
    """Sets attributes to what a body finds in them: copies of what it may write, and stand-ins."""
    for (holder, name), each in zip(attributes, kept, strict=True):
        value = getattr(holder, name, MISSING)
        swapped = value if value is MISSING else operands.swapped(value, inside)
        made = swapped if each is None else each.begin(swapped)
        if made is not value:
            setattr(holder, name, made)


def end_attributes(attributes: Attributes, kept: Sequence[Written | None]) -> list[Any]:
    """What attributes hold at the end of a body."""
    found = []
    for (holder, name), each in zip(attributes, kept, strict=True):
        value = getattr(holder, name, MISSING)
        if each is not None:
            each.same.append(value is each.copy)
            value = each.content() if value is each.copy else value
        found.append(Undefined(name, ONE) if value is MISSING else value)
    return found


def set_attribute(holder: Any, name: str, kept: Written | None, new: Any) -> None:
    """Gives an attribute what the bodies made of it, in place where they wrote it so."""
    if kept is not None and all(kept.same[-2:]):
        kept.end(new)
    elif kept is not None and isinstance(kept.original, GrowingList):
        kept.original.refused()
    elif not isinstance(new, Undefined) and getattr(holder, name, MISSING) is not new:
        setattr(holder, name, new)
