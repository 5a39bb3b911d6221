"""Places that are an input as it is: none of them is below 0, which a call looks at, and no operator of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from irkit.contract.least import least_fact
from irkit.core.ir import Fact, Port, Value
from passes.analysis.spans import LOOKED_UP, WHOLE_VIEWS, is_from_front


def places_of_inputs(
    params: Sequence[tuple[Port, Value]], roots: Sequence[Value], order: Sequence[Value]
) -> tuple[dict[Value, Value], tuple[Fact, ...]]:
    """(the input's own numbers for each value that `from_front` made of all of them to look something up; the facts
    that these inputs hold nothing below 0), of what some roots reach, in order"""
    inputs = {value: port.name for port, value in params if port.role == "input"}
    masked = [value for value in order if value.op == "BitwiseAnd" and is_from_front(value)]
    if not masked:
        return {}, ()
    using, swaps, facts = users_through_views(masked, order), dict[Value, Value](), dict[str, Fact]()
    for value in masked:
        given = value.inputs[0]
        name = None if given is None else inputs.get(viewed(given))
        if (
            given is not None
            and name is not None
            and not any(value is root for root in roots)
            and is_place(value, using)
        ):
            swaps[value] = given
            facts.setdefault(name, least_fact(name, 0, value.origin.source))
    return swaps, tuple(facts.values())


def users_through_views(values: Sequence[Value], order: Sequence[Value]) -> dict[Value, list[Value]]:
    """The users of some values, and of what holds all of their elements, among values in order."""
    found: dict[Value | None, list[Value]] = {value: [] for value in values}
    for user in order:
        if not found.keys().isdisjoint(user.inputs):
            for each in dict.fromkeys(each for each in user.inputs if each in found):
                found[each].append(user)
            if user.op in WHOLE_VIEWS and user.inputs[0] in found:
                found[user] = []
    return cast("dict[Value, list[Value]]", found)


def viewed(value: Value) -> Value:
    """What all elements of a value are those of."""
    while value.op in WHOLE_VIEWS and value.inputs[0] is not None and value.inputs[0].dtype.is_integer:
        value = value.inputs[0]
    return value


def is_place(value: Value, using: Mapping[Value, Sequence[Value]]) -> bool:
    """Whether a value serves as places only."""
    users = using.get(value, ())
    return bool(users) and all(
        [i for i, given in enumerate(user.inputs) if given is value] == [1]
        if user.op in LOOKED_UP
        else user.op in WHOLE_VIEWS
        and user.inputs[0] is value
        and user.inputs[1:].count(value) == 0
        and is_place(user, using)
        for user in users
    )
