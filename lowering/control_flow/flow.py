"""What rewritten functions call: each call does what Python does where no tensor decides, else it computes that.

A rewritten function is ordinary Python, and gives in eager what it gave before. While its model is captured, a decision
on what a tensor holds becomes torch.cond or a while_loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import torch

from irkit.errors import EvaluateError
from lowering.capture.patches.kept_sizes import PLAIN_OF
from lowering.control_flow.branches import Attributes, branch_results
from lowering.control_flow.elements import element_at
from lowering.control_flow.loops import Loop
from lowering.control_flow.ragged import GrowingList
from lowering.control_flow.rows import GrownList, Open, different_numbers, elements_of, varies
from lowering.control_flow.truths import and_, assert_, chain, choose, is_kept, not_, or_, traceable
from lowering.control_flow.values import (
    Maybe,
    Mismatch,
    OpenList,
    Undefined,
    Unset,
    as_tensor,
    decider,
    is_of_data,
    is_open,
    truth,
)
from lowering.direct.sizes import SizeNode
from lowering.errors import CaptureError

__all__ = [
    "and_",
    "assert_",
    "beginning",
    "branch",
    "chain",
    "choose",
    "defined",
    "element_at",
    "for_",
    "listed",
    "nested",
    "not_",
    "or_",
    "reduced",
    "repeated",
    "traceable",
    "undefined",
    "unset",
    "while_",
    "within",
]  # fmt: skip

PEELED = 2
"""How many rounds of a loop run before it, until its variables keep their types."""


def branch(
    test: Any,
    then: Callable[..., Any],
    otherwise: Callable[..., Any],
    given: tuple[Any, ...] = (),
    *,
    names: str = "",
    written: str = "",
    attributes: Attributes = (),
) -> Any:
    """then(*given) if test else otherwise(*given)

    Args:
        test: what decides.
        then, otherwise: the branches, which return the variables that they assign, or the result of the function.
        given: the variables that they read and assign.
        names: the names of the variables that they return, none where they return the function's result.
        written: the names of those whose objects they write in place.
        attributes: the attributes that they set, as (object, name).

    Returns what the branch returns. Raises CaptureError where data tells the test, and the branches give what is of two
    structures, element types or ranks; where one gives None, or the test is of a size, its answer for the example is a
    condition.
    """
    test = decider(test)
    if not is_open(test):
        return then(*given) if test else otherwise(*given)
    sides = (then, otherwise)
    try:
        return branch_results(test, sides, given, tuple(names.split()), frozenset(written.split()), attributes)
    except Mismatch as told:
        if not is_kept(test, told):
            raise
        return then(*given) if test else otherwise(*given)


def while_(
    test: Callable[..., Any],
    step: Callable[..., Any],
    given: tuple[Any, ...] = (),
    *,
    names: str = "",
    written: str = "",
    attributes: Attributes = (),
    stop: str = "",
) -> tuple[Any, ...]:
    """The variables behind `while test(*given): given = step(*given)`, which ends, too, when the one that is called
    `stop` is true. The other arguments are those of `branch`."""
    every = tuple(names.split())
    place = every.index(stop) if stop else None
    peeled = 0
    while True:
        left = given[place] if place is not None else False
        more: Any = None
        if not is_open(left):
            if left:
                return given
            more = decider(test(*given))
            if not is_open(more):
                if not more:
                    return given
                given = step(*given)
                continue
        try:
            return Loop(test, step, list(given), every, frozenset(written.split()), attributes, place).run()
        except Mismatch:
            peeled += 1
            if peeled > PEELED or more is None or not truth(more):  # the last is kept as a condition
                raise
            given = step(*given)


def for_(
    elements: Any,
    step: Callable[..., Any],
    given: tuple[Any, ...] = (),
    *,
    names: str = "",
    written: str = "",
    attributes: Attributes = (),
    stop: str = "",
) -> tuple[Any, ...]:
    """The variables behind `for element in elements: given = step(element, *given)`, which ends, too, when the one that
    is called `stop` is true. The other arguments are those of `branch`."""
    found = elements_of(elements)
    if isinstance(found, Open):
        return over_open(found, step, given, names, written, attributes, stop)
    params = tuple(names.split())
    place = params.index(stop) if stop else None
    for element in elements:
        left = given[place] if place is not None else False
        if is_open(left):
            sides = keep, stepping(step, element)
            given = branch_results(left, sides, given, params, frozenset(written.split()), attributes, params=params)
        elif left:
            break
        else:
            given = step(element, *given)
    return given


def keep(*given: Any) -> Any:
    """The branch of a loop that was left: its variables stay what they are."""
    return given


def stepping(step: Callable[..., Any], element: Any) -> Callable[..., Any]:
    """The branch of a loop that goes on: a round with this element."""
    return lambda *given: step(element, *given)


def over_open(
    elements: Open,
    step: Callable[..., Any],
    given: tuple[Any, ...],
    names: str,
    written: str,
    attributes: Attributes,
    stop: str,
    peeled: int = 0,
) -> tuple[Any, ...]:
    """`for_` over what only data tells the length of. Where a round makes another type of a variable, as of None or of
    0, the first one runs before the loop; `peeled` says how many did so."""

    length, at = elements.length, elements.at

    def test(number: Any, *_: Any) -> Any:
        return number < length

    def stepped(number: Any, *given: Any) -> Any:
        return (number + 1, *step(at(number), *given))

    every = ("number of the round", *names.split())
    place = every.index(stop) if stop else None
    first = [torch.zeros((), dtype=torch.int64), *given]
    asked = getattr(getattr(length, "node", None), "asked", None)
    raised = asked.raised if asked is not None else None
    try:
        loop = Loop(test, stepped, first, every, frozenset(written.split()), attributes, place, length, elements.pieces)
        return loop.run()[1:]
    except Exception as error:
        none = has_no_round(length)
        empty = not none and getattr(getattr(length, "node", None), "hint", 1) == 0
        if empty and isinstance(error, IndexError | Mismatch | EvaluateError):
            raise CaptureError(
                "a loop over what data takes has no round for the example, of which one could be traced",
                hint="give an example of which something is taken",
            ) from error
        if (none and not length < 1) or (
            not none and (not isinstance(error, Mismatch) or peeled == PEELED or length < 1)
        ):
            raise
        if asked is not None:  # nobody but this block has caught it
            asked.raised = raised
        if none:  # which is kept as a condition
            return given
    given = step(at(torch.zeros((), dtype=torch.int64)), *given)
    rest = Open(length - 1, lambda number: at(number + 1))
    return over_open(rest, step, given, names, written, attributes, stop, peeled + 1)


def has_no_round(length: Any) -> bool:
    """Whether a loop over sizes has no round for the example, of which a round could be traced."""
    node = getattr(length, "node", None)
    return isinstance(node, SizeNode) and node.hint == 0 and not is_of_data(length)


@attrs.frozen(eq=False)
class Beginning:
    """sum(elements, start), or what else the function is there."""

    function: Any
    start: Any
    by_name: bool = False

    def __call__(self, elements: Any) -> Any:
        return self.function(elements, start=self.start) if self.by_name else self.function(elements, self.start)


def beginning(function: Any, *more: Any, **named: Any) -> Beginning:
    """function(elements, *more, **named), of the elements that are still to come"""
    return Beginning(function, *more) if more else Beginning(function, named["start"], True)


@attrs.frozen(eq=False)
class Within:
    """What an element becomes where a comprehension has another `for`: several, one for each of these elements that
    passes the tests."""

    elements: Any
    each: Callable[[Any], Any]
    tests: tuple[Callable[[Any], Any], ...]


def within(elements: Any, each: Callable[[Any], Any], *tests: Callable[[Any], Any]) -> Within:
    """`each(element) for element in elements if test(element) ...`, inside another `for` of a comprehension"""
    return Within(elements, each, tests)


def listed(
    elements: Any, each: Callable[[Any], Any] | None = None, make: Any = list, *tests: Callable[[Any], Any]
) -> Any:
    """make([each(element) for element in elements]), where `make` is list, tuple, sum, len, max, min, any or all;
    without `each` make(elements). Of elements that pass some tests, where there are any."""
    if tests and each is not None:
        return listed_where(elements, each, make, tests)
    first = make.start if isinstance(make, Beginning) else 0
    if make is set and each is None and (numbers := different_numbers(elements)) is not None:
        return numbers
    given, make = make, plain_of(make)
    known = make in (list, tuple, sum, len, max, min, any, all)
    found = elements_of(elements) if known else elements
    if make is len and each is None and isinstance(found, OpenList):
        return found.length
    if not known or not isinstance(found, Open):
        given = traceable(given) if make in (max, min, any, all) else given
        if each is None:
            return given(elements)
        made = (each(element) for element in elements)
        return given(made if make in (any, all) else [*made])  # of which the first ones may tell

    def value(element: Any) -> Any:
        found = element if each is None else each(element)
        return as_tensor(truth(found), torch.bool) if make in (any, all) else found

    def longer(element: Any, list_: Any) -> Any:
        list_.append(value(element))
        return (list_,)

    if make is len:
        return found.length
    if make is sum:
        return for_(found, lambda element, total: (total + value(element),), (first,), names="sum")[0]
    if each is None and found.stacked is not None:
        return GrownList.of(found.stacked(), make.__name__, make)
    made = for_(found, longer, ([],), names="list", written="list")[0]
    if make in (max, min, any, all):
        return traceable(given)(made)
    if not isinstance(made, GrownList):
        return make(made)
    made.made = make
    return made


def plain_of(make: Any) -> Any:
    """What makes something of elements, as Python's own function."""
    made = make.function if isinstance(make, Beginning) else make
    return PLAIN_OF.get(made, made)


def listed_where(elements: Any, each: Callable[[Any], Any], make: Any, tests: tuple[Callable[[Any], Any], ...]) -> Any:
    """make([each(element) for element in elements if test(element) ...])"""
    plain = plain_of(make)
    if plain not in (list, tuple, sum, len, max, min, any, all):
        return make([each(element) for element in elements if all(test(element) for test in tests)])
    found = elements_of(elements)
    if plain in (any, all) and not isinstance(found, Open):  # of which the first ones may tell
        return traceable(make)(each(element) for element in elements if all(test(element) for test in tests))

    def told(element: Any) -> Any:
        return as_tensor(truth(each(element)), torch.bool)

    made = gathered(Within(found, told if plain in (any, all) else each, tests), [])
    if plain in (max, min, any, all):
        return traceable(make)(made)
    return made if plain is list else listed(made, None, make)


def nested(elements: Any, each: Callable[[Any], Within], make: Any, *tests: Callable[[Any], Any]) -> Any:
    """make([... for element in elements if test(element) ... for ... in each(element)])"""
    made = gathered(Within(elements, each, tests), [])
    return made if make is list else listed(made, None, make)


def gathered(level: Within, made: Any) -> Any:
    """A list with what some elements become at its end: what passes the tests, and of several in the place of one, each
    of them."""

    def longer(element: Any, made: Any) -> Any:
        def appended(made: Any) -> Any:
            value = level.each(element)
            if not isinstance(value, Within):
                made.append(value)
            elif isinstance(made, GrowingList) and isinstance(elements_of(value.elements), Open):
                made.extend(gathered(value, []))  # a round has no loop that adds to what the rounds add to
            else:
                made = gathered(value, made)
            return (made,)

        def left(made: Any) -> Any:
            return (made,)

        if not level.tests:
            return appended(made)
        first, *rest = (partial(test, element) for test in level.tests)
        return branch(and_(first(), *rest, lazy=True), appended, left, (made,), names="made", written="made")

    return for_(level.elements, longer, (made,), names="made", written="made")[0]


def reduced(reduce: Any, function: Callable[[Any, Any], Any], elements: Any, *first: Any) -> Any:
    """functools.reduce(function, elements, *first), or what else `reduce` is there"""
    found = elements_of(elements) if reduce is functools.reduce else elements
    if not isinstance(found, Open):
        return reduce(function, elements, *first)
    rest = found
    if not first:
        torch._check(found.length > 0)
        first = (found.at(torch.zeros((), dtype=torch.int64)),)
        rest = Open(found.length - 1, lambda number: found.at(number + 1))
    return for_(rest, lambda element, total: (function(total, element),), first, names="total")[0]


def repeated(elements: list[Any], times: Any) -> Any:
    """elements * times"""
    if not isinstance(times, torch.SymInt) or not varies(times) or len(elements) != 1:
        return elements * times
    return GrownList.repeating(elements[0], times)


def undefined(name: str) -> Undefined:
    """What a variable holds that has no value yet."""
    return Undefined(name)


def unset(name: str) -> Undefined:
    """What a variable of the rewriting holds before it has a value, which nobody reads."""
    return Unset(name)


def defined(value: Any) -> Any:
    """The same. Raises UnboundLocalError where a variable has no value; where only data tells whether it has one, that
    is a condition that the program keeps."""
    if isinstance(value, Undefined):
        raise value.error()
    if isinstance(value, Maybe):
        assert_(value.flag, lambda: "a variable that is read has a value")
        return value.value
    return value
