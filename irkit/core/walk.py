"""The only traversals: iterative, over anything with `.inputs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from irkit.errors import GraphError
from irkit.support.uncollected import without_collector

if TYPE_CHECKING:
    from irkit.core.ir import Graph, Value
    from irkit.core.types import Type

    Path = tuple[Value | None, Iterator[Value | None], "Path | None"]


@without_collector
def post_order(
    roots: Iterable[Value], stop: Callable[[Value], bool] | None = None, first: tuple[Value, ...] = ()
) -> tuple[Value, ...]:
    """Every value that `roots` reach, operands before users, each once; values for which `stop` holds, and what
    only they reach, are left out. Values without operands that are `first` stand before all others.

    Recursively: order(v) = order(v.inputs) + (v,).  Written with a stack because depth is decided by the input; the
    stack is a chain of tuples, and what was seen a dict in order, so that a value costs no call of a method.
    """
    order: dict[Value | None, None] = dict.fromkeys((None, *first))
    path: Path | None = None
    value: Value | None = None
    rest: Iterator[Value | None] = iter(tuple(roots))
    while True:
        for operand in rest:
            if operand in order or operand is None or (stop is not None and stop(operand)):
                continue
            if operand.inputs:
                path = (value, rest, path)  # pyright: ignore[reportUnknownVariableType]
                value, rest = operand, iter(operand.inputs)
                break
            order[operand] = None
        else:
            if path is None:
                del order[None]
                return tuple(cast("dict[Value, None]", order))
            order[value] = None
            value, rest, path = path  # pyright: ignore[reportUnknownVariableType]


def bodies(order: Iterable[Value]) -> Iterator[Graph]:
    """The bodies that values of `order` hold themselves."""
    return chain.from_iterable(map(attrgetter("bodies"), order))


def types(values: Iterable[Value]) -> Iterable[Type]:
    """The types of some values, each object once: the parts of a cache, and layers that are alike, share theirs."""
    return {id(value.type): value.type for value in values}.values()


def users(order: Iterable[Value]) -> dict[Value, tuple[Value, ...]]:
    """Each value of `order` with the values that use it, in order; a value that uses another twice is listed once."""
    found: dict[Value, list[Value]] = {value: [] for value in order}
    for value in tuple(found):
        for operand in value.inputs:
            if operand is not None:
                try:
                    using = found[operand]
                except KeyError:  # of an operand that is not in `order`
                    found[operand] = [value]
                    continue
                if not using or using[-1] is not value:
                    using.append(value)
    return dict(zip(found, map(tuple, found.values()), strict=True))


def rebuild(roots: Iterable[Value], swaps: Mapping[Value, Value]) -> dict[Value, Value]:
    """`swaps` grown to every value that the roots reach: each mapped to itself, or to a copy over new operands.

    Types are kept: `swaps` must map values to values of the same type.
    """
    new = dict(swaps)
    for value in post_order(roots, stop=swaps.__contains__):
        inputs = tuple([None if v is None else new[v] for v in value.inputs])
        new[value] = value if inputs == value.inputs else value.with_inputs(inputs)
    return new


def rebuild_over_leaves(order: Iterable[Value], swaps: Mapping[Value, Value]) -> dict[Value | None, Value]:
    """As `rebuild_through`, of values in order, for replacements that have no operands and are not replaced themselves:
    `swaps` grown to the values that are copies over new operands."""
    new: dict[Value | None, Value] = {**swaps}
    for value in order:
        if value not in new and not new.keys().isdisjoint(value.inputs):
            new[value] = value.with_inputs(tuple([new.get(v, v) for v in value.inputs]))
    return new


@without_collector
def rebuild_through(roots: Iterable[Value], swaps: Mapping[Value, Value]) -> dict[Value, Value]:
    """As `rebuild`, where replacements are made of the same values as what they replace: they are rebuilt too, so that
    one that lies above another key is over what stands for that key. A replacement may use the value that it replaces,
    and means the old one by it. Raises GraphError for replacements that lie above one another's keys in a circle.
    """
    new: dict[Value, Value] = {}
    within: list[tuple[Value, dict[Value, Value]]] = []  # keys whose replacement is being rebuilt, with what uses them
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(tuple(roots))]
    while stack:
        value, ends = stack.pop()
        key, own = within[-1] if within else (None, new)
        if ends:
            within.pop()
            stands = swaps[value]
            new[value] = own[stands] if stands in own else new[stands]
        elif value in new or value in own:
            continue
        elif value not in swaps or value is key:
            pending = [v for v in value.inputs if v is not None and v not in new and v not in own]
            if pending:
                stack.append((value, False))
                stack.extend((v, False) for v in reversed(pending))
                continue
            uses_key = value is key or any(v in own for v in value.inputs)
            inputs = tuple(None if v is None else own[v] if v in own else new[v] for v in value.inputs)
            same = all(a is b for a, b in zip(inputs, value.inputs, strict=True))
            (own if uses_key else new)[value] = value if same else value.with_inputs(inputs)
        elif any(value is each for each, _ in within):
            raise GraphError(
                "replacements refer to one another in a circle",
                ir="\n".join(f"{each!r} -> {swaps[each]!r}" for each, _ in within),
                hint="replace them one after the other, or by values that are made of parameters of their own",
            )
        else:
            within.append((value, {}))
            stack.append((value, True))
            stack.append((swaps[value], False))
    return new


def exchanged_keys(swaps: Mapping[Value, Value]) -> list[Value]:
    """The keys that only change places: each is replaced by one of the others, and replaces one."""
    found: list[Value] = []
    seen: set[Value] = set()
    for start in swaps:
        path: dict[Value, None] = {}
        at = start
        while at in swaps and at not in seen:
            seen.add(at)
            path[at] = None
            at = swaps[at]
        if at in path:
            circle = list(path)[list(path).index(at) :]
            found += circle if len(circle) > 1 else []
    return found
