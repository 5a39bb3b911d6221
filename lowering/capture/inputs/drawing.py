"""Generators of random numbers of Python and NumPy, and counters, that a model holds."""

from __future__ import annotations

import copy
import itertools
import random
from typing import Any

import numpy as np

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
