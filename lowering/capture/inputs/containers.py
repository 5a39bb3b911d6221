"""Dicts, lists and sets: those inside others, whether they hold other numbers than before, and having them hold the
same again."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import torch

DICTS = frozenset((dict, OrderedDict, defaultdict, Counter))
CONTAINERS = DICTS | {list, set, deque}
"""Containers whose contents come back after a model was traced."""
EVERY = tuple(torch.nn.Module().__dict__)
OWN = frozenset(EVERY)
"""The attributes of any module, which most have first, and in this order."""


def names_beside(held: Mapping[str, Any]) -> list[str]:
    """The names of the attributes of a module, all of which are `held`, that not every module has."""
    names = list(held)
    return names[len(EVERY) :] if tuple(names[: len(EVERY)]) == EVERY else [name for name in names if name not in OWN]


def differs(held: Any, before: Any, words: bool = False) -> bool:
    """Whether a dict, list or set has other tensors or numbers in it than before, or, with `words`, other truth values,
    texts or Nones."""
    known = by_key(before)
    return any(is_other(value, known.get(key), words) for key, value in by_key(held).items())


def is_other(value: Any, before: Any, words: bool = False) -> bool:
    """Whether something is a tensor or a number, or holds one, and is not what it was before; with `words` the same of
    truth values, texts and Nones."""
    if same_number(before, value):
        return False
    return counts(value) or (
        words and isinstance(value, WORDS) and not (type(value) is type(before) and value == before)
    )


def by_key(held: Any) -> Mapping[Any, Any]:
    """What a dict, list or set holds, by its key, its place, or itself."""
    return (
        held
        if isinstance(held, dict)
        else {each: each for each in held}
        if isinstance(held, set)
        else dict(enumerate(held))
    )


def same_number(one: Any, other: Any) -> bool:
    """Whether two values are the same object, or equal numbers."""
    return one is other or (type(one) is type(other) and isinstance(one, int | float | complex) and one == other)


def counts(value: Any) -> bool:
    """Whether a value is a tensor or a number, or holds one."""
    if type(value) in CONTAINERS:
        return any(map(counts, by_key(value).values()))
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


NUMBERS = (torch.Tensor, torch.SymInt, torch.SymFloat, int, float, complex)
WORDS = (bool, str, Enum, type(None))


def containers(value: Any) -> Iterator[Any]:
    """A dict, list or set, and all that are in it, at any depth."""
    pending, seen = [value], set()
    while pending:
        each = pending.pop()
        if type(each) not in CONTAINERS or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inside = each.values() if isinstance(each, dict) else () if isinstance(each, set) else each
        pending += [held for held in inside if type(held) in CONTAINERS]


def copy_of(held: Any) -> Any:
    """What a dict or list holds, in another one."""
    return dict(held) if isinstance(held, dict) else set(held) if isinstance(held, set) else list(held)


def restore(current: Any, before: Any) -> None:
    """Makes a dict, list or set hold what it held before, touching it only where it differs."""
    if isinstance(current, dict):
        if list(current) != list(before) or any(current[key] is not before[key] for key in before):
            current.clear()
            current.update(before)
    elif isinstance(current, set):
        if current != before:
            current.clear()
            current.update(before)
    elif len(current) != len(before) or any(a is not b for a, b in zip(current, before, strict=True)):
        current.clear()
        current.extend(before)
