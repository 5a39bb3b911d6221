"""What rewritten functions call: each call does what Python does where no tensor decides, else it computes that.

A rewritten function is ordinary Python, and gives in eager what it gave before. While its model is captured, a decision
on what a tensor holds becomes torch.cond or a while_loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowering.control_flow.branches import Attributes, Branches
from lowering.control_flow.loops import Loop
from lowering.control_flow.rows import Open, elements_of
from lowering.control_flow.truths import and_, assert_, chain, choose, not_, or_, traceable
from lowering.control_flow.values import Maybe, Undefined, Unset, is_open

__all__ = [
    "and_",
    "assert_",
    "branch",
    "chain",
    "choose",
    "defined",
    "for_",
    "not_",
    "or_",
    "traceable",
    "undefined",
    "unset",
    "while_",
]  # fmt: skip


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
    structures, element types or ranks.
    """
    if not is_open(test):
        return then(*given) if test else otherwise(*given)
    sides = (then, otherwise)
    return Branches(test, sides, given, tuple(names.split()), frozenset(written.split()), attributes).run()


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
    while True:
        left = given[place] if place is not None else False
        if not is_open(left):
            if left:
                return given
            more = test(*given)
            if not is_open(more):
                if not more:
                    return given
                given = step(*given)
                continue
            left = more
        loop = Loop(test, step, list(given), every, frozenset(written.split()), attributes, place)
        return loop.run()


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
            given = Branches(left, sides, given, params, frozenset(written.split()), attributes, params=params).run()
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
) -> tuple[Any, ...]:
    """`for_` over what only data tells the length of."""
    import torch

    length, at = elements.length, elements.at

    def test(number: Any, *_: Any) -> Any:
        return number < length

    def stepped(number: Any, *given: Any) -> Any:
        return (number + 1, *step(at(number), *given))

    every = ("number of the round", *names.split())
    place = every.index(stop) if stop else None
    first = [torch.zeros((), dtype=torch.int64), *given]
    loop = Loop(test, stepped, first, every, frozenset(written.split()), attributes, place, length)
    return loop.run()[1:]


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
