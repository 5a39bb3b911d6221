"""A loop on data: one round is traced, and becomes the body of a while_loop that carries what rounds change."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import torch

from lowering.capture.inputs.side_effects import refuse_side_effects
from lowering.control_flow.bodies import Again, Carrier, Operands, Written, attributes_kept, is_copied, undone
from lowering.control_flow.branches import (
    Attributes,
    begin_attributes,
    end_attributes,
    set_attribute,
    written_attributes,
)
from lowering.control_flow.pieces import Pieces
from lowering.control_flow.ragged import (
    Column,
    Counted,
    GrowingList,
    Ragged,
    among_first,
    appended_rows,
    begun_with,
    counting_step,
    followed_lists,
    in_pieces,
    joining_step,
    open_len,
    others_refused,
    spliced_elements,
    twin_of,
    unequal_columns,
    with_lengths,
    with_totals,
)
from lowering.control_flow.rows import Element, GrownList, Rows, gained_rows
from lowering.control_flow.shared_memory import (
    Left,
    forget,
    left_by_round,
    link_results,
    link_unrun,
    linked_alike,
    memories_of,
    origins_of,
    refuse_lost,
    refuse_twice,
    written_by_others,
)
from lowering.control_flow.truths import and_, not_
from lowering.control_flow.values import (
    Grows,
    Maybe,
    Slot,
    Undefined,
    as_tensor,
    dynamic,
    merged_slot,
    mismatch,
    outputs,
    rebuilt,
    set_aside,
    slot_of,
    truth,
    user_line,
)
from lowering.direct.control import Growing, Unsettled
from lowering.direct.functions.round_gradients import Bounds
from lowering.direct.tensors import Traced
from lowering.errors import CaptureError
from lowering.records.torch_internals import pytree

WHERE = ("before the loop", "after a round of it")
TRIES = 9


@attrs.define(eq=False)
class Loop(Carrier):
    """A loop whose test, or what it goes over, data tells. `test` and `step` are functions of what is carried, `first`
    what that is before it, `names` its names; `stop` is the place of what says that the loop was left, or
    None; `length` says how many rounds there are, where that is known before, `pieces` of which a round has one. `rows`
    has what lists gain in a round, `ragged` where what they gain is joined, and how, `counts` where their lengths are
    carried, if these are asked for; `grew` has the lists that another loop made; `growing` says that sizes change.
    `around` is all that is carried, as it was before the loop, `left` what memories a round leaves, `wrote` the places
    of what it writes, `bounds` what is known where it asks for gradients.
    """

    test: Callable[..., Any]
    step: Callable[..., Any]
    first: list[Any]
    names: tuple[str, ...]
    written: frozenset[str]
    attributes: Attributes
    stop: int | None = None
    length: Any = None
    pieces: tuple[Pieces, ...] = ()
    operands: Operands = attrs.field(factory=Operands)
    places: dict[int, Written] = attrs.field(factory=dict)
    kept: list[Written | None] = attrs.field(factory=list)
    slots: list[Slot] = attrs.field(factory=list)
    rows: dict[int, Slot] = attrs.field(factory=dict)
    fronts: set[int] = attrs.field(factory=set)
    lasts: set[int] = attrs.field(factory=set)
    spliced: dict[int, Element] = attrs.field(factory=dict)
    growing: bool = False
    ragged: dict[int, tuple[int, dict[int, Column]]] = attrs.field(factory=dict)
    counts: dict[int, int] = attrs.field(factory=dict)
    grew: dict[int, GrownList] = attrs.field(factory=dict)
    around: list[Any] = attrs.field(factory=list)
    left: list[Left] = attrs.field(factory=list)
    wrote: set[int] = attrs.field(factory=set)
    bounds: Bounds = attrs.field(factory=Bounds)

    def begin(self) -> list[tuple[Any, str]]:
        """Finds out what rounds write; the lists and dicts among that, with their names."""
        self.first[:] = followed_lists(self.names, self.first, self.written)
        for place, (name, value) in enumerate(zip(self.names, self.first, strict=True)):
            if name in self.written and is_copied(value):
                self.places[place] = Written(value)
            elif name in self.written and isinstance(value, GrownList):
                self.grew[place], self.rows[place] = value, dynamic([])
        self.kept = written_attributes(self.attributes)
        refuse_twice([(self.name(i), self.first[i]) for i in (*self.places, *self.grew)])
        self.operands.gather_from(self.test, self.step)
        aside = [
            (each.original, self.name(i)) for i, each in self.places.items() if isinstance(each.original, list | dict)
        ]
        for place in (*self.places, *self.grew):
            self.first[place] = twin_of(self.first[place])
        every = self.around = self.every()
        self.slots = [self.rows[i] if i in self.rows else loose(each) for i, each in enumerate(every)]
        return aside

    def run(self) -> tuple[Any, ...]:
        """What is carried in the end."""
        aside = self.begin()
        every = self.around
        for _ in range(TRIES):
            try:
                with undone([*self.operands.found, *tensors_in(every)]):
                    with set_aside(aside), others_refused(self.grew.values()):
                        tensors = self.traced(every)
                    self.bounds.settled = True
                    return self.results(tensors)
            except Again as asked:
                if asked.of is not self:
                    raise
                self.slots, self.rows = asked.slots
            except Growing:
                self.growing = True
            except Grows as told:
                self.follow_list(told)
            except Ragged as told:
                every = self.around = self.in_pieces(told)
            except Counted as told:
                if told.of is not self:
                    raise
                every = self.around = self.counting(told.place)
            except Unsettled as told:
                raise mismatch(self.name_of(told.place), told.before, told.after, WHERE) from None
        raise CaptureError(
            "what a loop on data carries is of another type after each round",
            source=user_line(),
            hint="give the variables the type before the loop that they have behind it",
        )

    def every(self) -> list[Any]:
        """What is carried, variables and attributes, before the loop."""
        return [*self.first, *(getattr(holder, name, Undefined(name)) for holder, name in self.attributes)]

    def follow_list(self, told: Grows) -> None:
        """Has the list followed of which a branch was traced as a plain one. Raises what was told where it is none of
        the loop's."""
        place = next((place for place, each in self.places.items() if each.copy is told.held), None)
        if place is None or place in self.rows:
            raise told
        self.slots[place] = self.rows[place] = dynamic([])

    def counting(self, place: int) -> list[Any]:
        """What is carried where the length of a list that grows is asked for: that, too."""
        length = as_tensor(open_len(self.first[place]), torch.int64)  # so that bodies in a round take it, too
        self.counts[place] = count = len(self.names)
        self.step, self.test = counting_step(self.step, place, count), among_first(self.test, count)
        self.first = [*self.first, length]
        self.names += (f"len({self.name(place)})",)
        self.slots = [*self.slots[:count], loose(length), *self.slots[count:]]
        return self.every()

    def length_of(self, place: int, values: Sequence[Any]) -> Any:
        """The length of a list as a round begins with these values. Raises Counted where that is not carried yet."""
        if place not in self.counts:
            raise Counted(place, self)
        return values[self.counts[place]].item()

    def in_pieces(self, told: Ragged) -> list[Any]:
        """What is carried where tensors that a list gains are joined, round by round, since their lengths differ: the
        list gains the lengths. The loop goes on with a step that does so."""
        place, columns, count = told.place, told.columns, len(self.names)
        if told.spliced is not None:
            self.spliced[place] = told.spliced
            self.lasts.discard(place)
        if place in self.lasts:
            raise CaptureError(
                f"the list {self.name(place)!r} gains tensors of unequal lengths, and is read in the loop",
                source=user_line(),
                hint="carry what is read in a variable of its own",
            )
        self.growing = True
        self.ragged[place] = count, columns
        self.step = joining_step(self.step, place, columns, count, told.spliced)
        self.test = among_first(self.test, count)
        whole = [torch.zeros(each.empty, dtype=each.dtype) for each in columns.values()]
        if told.spliced is not None:
            whole = [begun_with(self.first[place], columns[0], told.spliced)]
        self.first = [*self.first, *whole]
        self.names += tuple(f"{self.name(place)} joined" for _ in whole)
        self.slots = [*self.slots[:count], *map(loose, whole), *self.slots[count:]]
        self.slots[place] = self.rows[place] = with_lengths(told.slot, columns)
        return self.every()

    def traced(self, every: Sequence[Any]) -> list[torch.Tensor]:
        """The results of the loop as tensors: what is carried in the end, then what lists gain in all rounds."""
        carried = [
            each
            for place, (value, slot) in enumerate(zip(every, self.slots, strict=True))
            for each in outputs(value if place not in self.rows else self.row_before(place, value, slot), slot)
        ]
        given, extra = [each.clone() for each in carried], self.operands.passed
        self.bounds.begin(given)
        given = given or [torch.zeros((), dtype=torch.int64)]
        operators = torch.ops.higher_order
        counted = self.length is not None and self.stop is None
        if (self.rows or torch.is_grad_enabled()) and counted and not self.growing:
            return self.scanned(given, extra)
        bodies = self.tested(len(given)), self.round(len(given))
        if self.length is not None:
            bodies[1].counts = as_number(self.length)  # type: ignore[attr-defined]
        if not self.rows or any(type(each) is Traced for each in given):
            bodies[1].rows = sorted(self.numbers_of_rows())  # type: ignore[attr-defined]
            if counted:
                bodies[0].rounds = as_number(self.length)  # type: ignore[attr-defined]
                bodies[1].totals = self.totals()  # type: ignore[attr-defined]
            return list(operators.while_loop(*bodies, tuple(given), extra))
        stacked = operators.while_loop_stack_output(*bodies, tuple(given), extra)
        numbers = self.numbers_of_rows()
        return [
            each if place in numbers else torch.cat([first.unsqueeze(0), each])[-1]
            for place, (first, each) in enumerate(zip(given, stacked, strict=True))
        ]

    def row_before(self, place: int, held: Any, slot: Slot) -> Any:
        """What stands for a round before the first one: the last element of a list that a round reads. Raises Mismatch
        where there is none."""
        if place not in self.lasts:
            return Undefined("")
        parts = list.__len__(held) if isinstance(held, list) else 0
        if not parts:
            raise mismatch(self.name(place), "an empty list", "a list of which a round reads the last element", WHERE)
        return [held[-1]] * len(pytree.tree_unflatten(list(slot.leaves), slot.spec))

    def last_of(self, place: int, gained: Any) -> Any:
        """The last element of a list as a round begins. Raises Again where that is not carried yet."""
        if place not in self.lasts:
            self.lasts.add(place)
            raise Again((self.slots, self.rows), self)
        return gained[-1] if gained else self.first[place][-1]  # where nobody knows yet what it gains

    def scanned(self, given: Sequence[torch.Tensor], extra: tuple[Any, ...]) -> list[torch.Tensor]:
        """The results of the loop as a scan, which goes over as many elements as there are rounds."""
        numbers, step = self.numbers_of_rows(), self.round(len(given))
        gone = numbers - self.numbers_of_rows(self.lasts)  # what a round gives, and the next one does not read
        state = [each for place, each in enumerate(given) if place not in gone]

        def combine(*inside: Any) -> Any:
            left = iter(inside)
            every = [given[place] if place in gone else next(left) for place in range(len(given))]
            made = step(*every, *inside[len(state) + 1 :])
            kept = [each for place, each in enumerate(made) if place not in gone]
            return (*kept, *(each.clone() for place, each in enumerate(made) if place in numbers))

        length = as_number(self.length)
        combine.counts = length  # type: ignore[attr-defined]
        found = torch.ops.higher_order.scan(combine, tuple(state), (torch.arange(length),), extra)
        kept = [place for place in range(len(given)) if place not in gone]
        results = dict(zip(kept, found[: len(state)], strict=True))
        results |= dict(zip(sorted(numbers), found[len(state) :], strict=True))
        return [results[place] for place in range(len(given))]

    def tested(self, count: int) -> Callable[..., Any]:
        """The test of the loop as a while_loop takes it: tensors in, a tensor out."""

        def test(*inside: Any) -> Any:
            outer = self.operands.received(inside[count:])
            values = self.begun(inside[:count])
            more = self.within(values, lambda given: self.operands.rebound(self.test, outer)(*given))
            if self.stop is not None:
                more = and_(not_(values[self.stop]), lambda: more)
            return as_tensor(truth(more))

        return test

    def round(self, count: int) -> Callable[..., Any]:
        """One round as a while_loop takes it: tensors in, tensors out."""

        def step(*inside: Any) -> Any:
            others = self.operands.received(inside[count:])

            def run(begun: Sequence[Any]) -> tuple[Any, ...]:
                return tuple(self.emitted(self.after(self.begun(begun), others)))

            outside, again = self.operands.found, partial(Again, (self.slots, self.rows), self)
            made = self.bounds.round_of(run, inside[:count], outside, again)
            return made or tuple(inside[:1])  # a loop carries something

        return step

    def numbers_of_rows(self, places: Container[int] | None = None) -> set[int]:
        """Which of the tensors that are carried are what a list gains in a round, or the lists at some places."""
        places = self.rows if places is None else places
        found, place = set(), 0
        for number, slot in enumerate(self.slots):
            count = len(slot.dynamic) if slot.spec is not None else 0
            if number in places:
                found |= set(range(place, place + count))
            place += count
        return found

    def totals(self) -> dict[int, dict[int, Any]]:
        """The sizes at the end of what lists gain that is joined, where they are known: by the number of the tensor
        among those that are carried, and by axis."""
        numbers = self.numbers_by_place()
        found = {}
        for first, columns in self.ragged.values():
            for place, each in enumerate(columns.values(), first):
                if each.total is not None:
                    found[numbers[place]] = {each.axis: each.total}
        return found

    def numbers_by_place(self) -> dict[int, int]:
        """The number of the first tensor of each variable and attribute among those that are carried."""
        found, number = {}, 0
        for place, slot in enumerate(self.slots):
            found[place] = number
            number += len(slot.dynamic) if slot.spec is not None else 0
        return found

    def name_of(self, number: int) -> str:
        """The name of the variable or attribute that one of the tensors belongs to that are carried."""
        places = [place for place, slot in enumerate(self.slots) if slot.spec is not None for _ in slot.dynamic]
        return self.name(places[number])

    # ---------------------------------------------------------------------------------------------- one round

    def begun(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """What variables and attributes hold as a round begins."""
        left = iter(tensors)
        found: list[Any] = []
        for place, slot in enumerate(self.slots):
            name = self.name(place)
            if place in self.rows:
                gained = rebuilt(slot, left, partial(self.first_of, place))
                last, count = partial(self.last_of, place, gained), partial(self.length_of, place, found)
                found.append(GrowingList(name, last, count))
            else:
                found.append(rebuilt(slot, left, partial(self.first_of, place)))
        return found

    def name(self, place: int) -> str:
        """The name of a variable or attribute."""
        return self.names[place] if place < len(self.names) else self.attributes[place - len(self.names)][1]

    def within(self, values: Sequence[Any], call: Callable[[Sequence[Any]], Any]) -> Any:
        """What a function of the variables gives where attributes hold what they do in a round."""
        with refuse_side_effects(self.test), attributes_kept(self.attributes):
            count = len(self.names)
            for (holder, name), value in zip(self.attributes, values[count:], strict=True):
                if not isinstance(value, Undefined):
                    setattr(holder, name, value)
            return call(values[:count])

    def after(self, values: list[Any], inside: Sequence[Any]) -> list[Any]:
        """What variables and attributes hold after a round. Raises Again where their types are others than before."""
        given = list(values)
        for place, each in self.places.items():
            if place not in self.rows:
                given[place] = each.begin(values[place])
        count, step = len(self.names), self.operands.rebound(self.step, inside)
        own = [each for place, each in enumerate(given[:count]) if place not in self.places]
        with refuse_side_effects(self.step, step, own), attributes_kept(self.attributes):
            for (holder, name), value in zip(self.attributes, values[count:], strict=True):
                if not isinstance(value, Undefined):
                    setattr(holder, name, value)
            begin_attributes(self.attributes, self.kept, Operands(), ())
            held = [self.copies.get(i, each) for i, each in enumerate(values) if i not in self.rows]
            first = [each for i, each in enumerate(self.around) if i not in self.rows]
            with linked_alike([*inside, *held], [*self.operands.found, *first]):
                found = list(step(*given[:count]))
            found += end_attributes(self.attributes, self.kept)
        if written_by_others(inside, self.operands.found):
            refuse_lost()
        for place, each in self.places.items():
            if place not in self.rows:
                each.same.append(found[place] is each.copy)
                each.changed = each.changed or found[place] is each.copy
        found = [self.operands.outside(each, inside) if i not in self.rows else each for i, each in enumerate(found)]
        self.left = self.left_by(values, found, inside)
        slots, rows = [], dict(self.rows)
        for place, (before, after) in enumerate(zip(values, found, strict=True)):
            if place in rows:
                rows[place] = self.grown(place, after)
                if after.spliced is not None and place not in self.spliced:
                    raise spliced_elements(place, after)
                self.refuse_unequal(place, rows[place], after.gained, values[0], inside)
                slots.append(rows[place])
            elif self.grows(place, before, after):
                gained = list(after)[len(before) :]
                rows[place] = dynamic(gained)
                self.refuse_unequal(place, rows[place], gained, values[0], inside)
                slots.append(rows[place])
            else:
                slots.append(self.widened(place, before, after))
        if slots != self.slots or set(rows) != set(self.rows):
            raise Again((slots, rows), self)
        return found

    @property
    def copies(self) -> dict[int, Any]:
        """What a round writes in the stead of variables and attributes, by their places."""
        count, kept = len(self.names), [(i, each) for i, each in enumerate(self.kept) if each is not None]
        own = {place: each.copy for place, each in self.places.items() if place not in self.rows}
        return own | {count + number: each.copy for number, each in kept}

    def left_by(self, values: Sequence[Any], found: Sequence[Any], inside: Sequence[Any]) -> list[Left]:
        """What memories a round leaves, that began with these values and stand-ins. Raises CaptureError where a later
        round would write what another result has."""
        gained = {}
        for place, (before, after) in enumerate(zip(values, found, strict=True)):
            if isinstance(after, GrowingList):
                gained[place] = [*after.gained, *after.joined]
            elif self.grows(place, before, after):
                gained[place] = list(after)[len(before) :]
        copies, own = self.copies, [(i, each) for i, each in enumerate(values) if i not in self.rows]
        origins = origins_of(inside, self.operands.found, values, copies)
        tensors = [(i, each) for i, each in copies.items() if isinstance(each, torch.Tensor)]
        self.wrote = {i for i, each in (*own, *tensors) if any(m.version for m in memories_of([each]))}
        return left_by_round([self.name(i) for i in range(len(found))], found, gained, origins, self.wrote)

    def refuse_unequal(self, place: int, slot: Slot, gained: Sequence[Any], number: Any, inside: Sequence[Any]) -> None:
        """Raises Ragged where a list gains tensors whose sizes a round tells; `number` is that of the round."""
        pairs = zip(inside, self.operands.found, strict=False)
        columns = unequal_columns(self.name(place), gained, pairs)
        if any(isinstance(each, Maybe) for each in gained) and (columns or place in self.lasts):
            also = "gains tensors of unequal lengths" if columns else "is read in the loop"
            raise CaptureError(
                f"the list {self.name(place)!r} grows on one way of a branch only, and {also}",
                source=user_line(),
                hint="carry what is read in a variable of its own",
            )
        if columns:
            raise Ragged(place, slot, with_totals(columns, gained, self.pieces, number))

    def grows(self, place: int, before: Any, after: Any) -> bool:
        """Whether a list has more elements after a round, behind those that it had."""
        return place in self.places and type(before) is list and len(after) > len(before)

    def grown(self, place: int, after: Any) -> Slot:
        """What a list gains in a round."""
        if not isinstance(after, GrowingList):
            raise CaptureError(
                f"the list {self.name(place)!r} grows in a loop on data, and is another list after a round",
                source=user_line(),
                hint="append to it, and do nothing else with it in the loop",
            )
        if after.at_front:
            self.fronts.add(place)
        return dynamic(after.given)

    def widened(self, place: int, before: Any, after: Any) -> Slot:
        """What a variable is that was this before a round, and that after it."""
        known, name = self.slots[place], self.name(place)
        if isinstance(before, Undefined):
            return known if isinstance(after, Undefined) else merged_slot(name, self.first_of(place), after, WHERE)
        slot = merged_slot(name, before, after, WHERE)
        if slot.spec != known.spec:
            raise CaptureError(
                f"{name!r} holds a list or dict that grows in a loop on data",
                source=user_line(),
                hint="let a list that is a variable or an attribute grow, and put it there behind the loop",
            )
        leaves = [
            old
            if new.kind == "constant" and old.kind != "constant"
            else (attrs.evolve(new, kind="float") if {new.kind, old.kind} == {"int", "float"} else new)
            for new, old in zip(slot.leaves, known.leaves, strict=True)
        ]
        return attrs.evolve(slot, leaves=tuple(leaves))

    def first_of(self, place: int) -> Any:
        """What a variable or attribute holds before the loop."""
        return self.first[place] if place < len(self.names) else Undefined(self.name(place))

    def emitted(self, after: Sequence[Any]) -> Iterator[torch.Tensor]:
        """The tensors that a round gives."""
        for place, (value, slot) in enumerate(zip(after, self.slots, strict=True)):
            yield from outputs(value.given if place in self.rows else value, slot)

    # ---------------------------------------------------------------------------------------------- results

    def rounds(self) -> Any:
        """How many rounds there are; None where only the loop tells."""
        return as_number(self.length) if self.length is not None and self.stop is None else None

    def results(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """What is carried in the end, with written objects and attributes set."""
        left, found = iter(tensors), []
        gained: dict[int, Rows] = {}
        for place, slot in enumerate(self.slots):
            name = self.name(place)
            if place in self.grew and not slot.leaves:  # it gained nothing
                found.append(self.grew[place])
                continue
            if place in self.rows:
                taken = [next(left) for _ in slot.dynamic]
                gained[place] = appended_rows(gained_rows(slot, taken, name, self.rounds()))
                found.append(None)
                continue
            value = rebuilt(slot, left, partial(self.first_of, place))
            if place in self.places:
                written = self.places[place]
                if all(written.same[-1:]):
                    value = written.end(value)
                elif place in self.wrote:
                    forget(written.original, name)
            elif place in self.wrote and place < len(self.names):
                forget(self.around[place], name)
            found.append(value)
        self.grow_lists(gained, found)
        count = len(self.names)
        kept = zip(self.attributes, self.kept, found[count:], strict=True)
        for number, ((holder, name), each, value) in enumerate(kept, count):
            if each is not None:
                each.changed = True
                if number in self.wrote and not all(each.same[-2:]):
                    forget(each.original, name)
            set_attribute(holder, name, each, value)
        after = [*found[:count], *(getattr(holder, name, None) for holder, name in self.attributes)]
        link_results(self.left, after, self.around)
        rounds = self.rounds()
        if not (type(rounds) is int and rounds > 0):
            own = [place for place in range(len(after)) if place not in self.rows]
            link_unrun([self.name(i) for i in own], [self.around[i] for i in own], [after[i] for i in own])
        own = min((*(first for first, _ in self.ragged.values()), *self.counts.values()), default=count)
        return tuple(found[:own])

    def grow_lists(self, gained: Mapping[int, Rows], found: list[Any]) -> None:
        """Puts the lists that gained something into what is carried in the end."""
        for place, rows in gained.items():
            front, name = place in self.fronts, self.name(place)
            if place in self.ragged:
                first, columns = self.ragged[place]
                wholes = found[first : first + len(columns)]
                if place in self.spliced:
                    found[place] = GrownList([Rows(wholes, self.spliced[place])], self.spliced[place], name)
                    continue
                rows = in_pieces(rows, columns, wholes, front)
            found[place] = GrownList.grown(self.first[place], rows, name, at_front=front)
        for place in gained:
            if place in self.grew:
                found[place] = self.grew[place].become(found[place])
            else:
                found[place].left_in(self.places[place].original)


def as_number(length: Any) -> Any:
    """A length as a number."""
    return length.item() if isinstance(length, torch.Tensor) else length


def loose(value: Any) -> Slot:
    """What a variable is that a loop carries: its numbers vary."""
    if isinstance(value, Undefined):
        return Slot(None)
    return slot_of(value) if isinstance(value, Maybe) else dynamic(value)


def tensors_in(values: Sequence[Any]) -> list[Any]:
    """The tensors among values, at any depth."""
    return [each for value in values for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]
