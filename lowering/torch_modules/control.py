"""Branches and loops over modules that are the bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lowering.torch_modules.common import number


def tupled(found: Any) -> tuple[Any, ...]:
    """What a body gives, as a tuple; a list is one result, a sequence."""
    return found if isinstance(found, tuple) else (found,)


def run_call(body: Any, *operands: Any) -> Any:
    """What a body gives: a value, or a tuple."""
    return body(*operands)


def run_if(condition: Any, then: Any, otherwise: Any, *captures: Any) -> Any:
    """What the chosen branch gives. While torch traces, the condition is data, and both branches are kept."""
    if torch.compiler.is_compiling() and isinstance(condition, torch.Tensor):
        flag = condition.reshape(())
        return tuple(torch.cond(flag, wrapped(then), wrapped(otherwise), captures))
    return tupled((then if bool(number(condition)) else otherwise)(*captures))


def wrapped(body: Any) -> Any:
    """A branch as torch.cond takes it: its results are tensors of their own."""

    def branch(*captures: Any) -> tuple[Any, ...]:
        return tuple(each.clone() for each in tupled(body(*captures)))

    return branch


def run_loop(
    trip: Any, condition: Any, body: Any, *operands: Any, carried: int, index_rank: int, empties: Sequence[Any]
) -> Any:
    """(what is carried at the end, what each step gave, stacked)."""
    held, captures = list(operands[:carried]), operands[carried:]
    limit = None if trip is None else int(number(trip))
    going = condition is None or bool(number(condition))
    stacks: list[list[Any]] = [[] for _ in empties]
    step = 0
    while going and (limit is None or step < limit):
        index = torch.tensor(step).reshape([1] * index_rank)
        again, *found = tupled(body(index, torch.tensor(going).reshape([1] * index_rank), *held, *captures))
        held = found[:carried]
        for stack, each in zip(stacks, found[carried:], strict=True):
            stack.append(each)
        going = bool(number(again))
        step += 1
    return (*held, *(stacked(s, e, 0) for s, e in zip(stacks, empties, strict=True)))


def stacked(parts: Sequence[Any], empty: Any, axis: int) -> torch.Tensor:
    """Parts along a new axis; of none, a tensor of these sizes and element type."""
    if parts:
        return torch.stack(list(parts), axis)
    shape, dtype = empty
    return torch.zeros(list(shape), dtype=dtype)


def run_scan(
    body: Any,
    *operands: Any,
    states: int,
    scanned: int,
    axes: Sequence[int],
    backward: Sequence[int],
    out_axes: Sequence[int],
    reverse: Sequence[int],
    empties: Sequence[Any],
) -> Any:
    """(the last states, what each step gave, stacked along its axis)."""
    held, captures = list(operands[:states]), operands[states + scanned :]
    lines = [x.movedim(axis, 0) for x, axis in zip(operands[states : states + scanned], axes, strict=True)]
    lines = [x.flip(0) if back else x for x, back in zip(lines, backward, strict=True)]
    stacks: list[list[Any]] = [[] for _ in empties]
    for step in range(lines[0].shape[0]):
        found = tupled(body(*held, *(x[step] for x in lines), *captures))
        held = list(found[:states])
        for stack, each in zip(stacks, found[states:], strict=True):
            stack.append(each)
    parts = [s[::-1] if back else s for s, back in zip(stacks, reverse, strict=True)]
    made = [stacked(s, e, axis) for s, e, axis in zip(parts, empties, out_axes, strict=True)]
    return (*held, *made)


def run_sequence_map(body: Any, *operands: Any, sequences: int, results: int) -> Any:
    """The results of the body for each element, as sequences; tensors go to each step whole."""
    proper, captures = operands[:sequences], operands[sequences:]
    steps = [
        tupled(body(*(x[i] if isinstance(x, list) else x for x in proper), *captures)) for i in range(len(proper[0]))
    ]
    return tuple([step[i] for step in steps] for i in range(results))
