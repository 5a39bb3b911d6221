"""Generators of random numbers of Python and NumPy, and counters, that a model holds, and those of all."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

DRAWING = (random.Random, np.random.Generator, np.random.RandomState, itertools.count)
"""Types of what gives another number each time, which torch cannot see."""


def state_of(each: Any) -> Any:
    """Where a generator of random numbers stands, or what a counter counts next."""
    if isinstance(each, random.Random):
        return each.getstate()
    if isinstance(each, np.random.Generator):
        return copy.deepcopy(each.bit_generator.state)
    return each.get_state(legacy=False) if isinstance(each, np.random.RandomState) else repr(each)


def restore_state(each: Any, state: Any) -> None:
    """Has a generator stand there again. A counter cannot be put back."""
    if isinstance(each, random.Random):
        each.setstate(state)
    elif isinstance(each, np.random.Generator):
        each.bit_generator.state = state
    elif isinstance(each, np.random.RandomState):
        each.set_state(state)


def comparable(state: Any) -> Any:
    """A state in a form that can be compared."""
    if isinstance(state, dict):
        return {name: comparable(each) for name, each in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


# ---------------------------------------------------------------------------------------------- generators of all


SEED = 0x5EED_0F_1DE4
"""What torch's generator is seeded with while a model is run, which tells whether the model seeds it."""

DRAWN = "random numbers are drawn anew in each call, not from the seed of the model, at {}"
"""The note of draws that hang on a seed that the model sets, or on a generator of its own."""


OUTSIDE = "numbers of {} are those that were drawn at the export: draw by torch for other ones in each call"
"""The note of draws by Python's or NumPy's generator of all, which torch cannot see."""


@contextmanager
def generator_kept(torch_alone: bool = False) -> Iterator[list[str]]:
    """A block in which torch's generator of random numbers is seeded with SEED; afterwards it is as it was before, and
    so are those of Python and NumPy, which what runs `torch_alone` does not ask. It is
    given the list of those two that were asked for numbers, which is empty before."""
    drawn: list[str] = []
    python, numpy = (None, None) if torch_alone else (random.getstate(), np.random.get_state(legacy=False))
    held = None if numpy is None else held_numbers(numpy)
    begun = torch.get_rng_state()
    torch.default_generator.manual_seed(SEED)
    try:
        yield drawn
    finally:
        if python is not None and random.getstate() != python:
            random.setstate(python)
            drawn.append("random")
        if numpy is not None and held_numbers(np.random.get_state(legacy=False)) != held:
            np.random.set_state(numpy)
            drawn.append("numpy.random")
        torch.set_rng_state(begun)


def held_numbers(state: Any) -> tuple[Any, ...]:
    """The state of NumPy's generator of all in a form that can be compared."""
    inner = {key: value.tobytes() if isinstance(value, np.ndarray) else value for key, value in state["state"].items()}
    return state["bit_generator"], inner, state.get("has_gauss"), state.get("gauss")
