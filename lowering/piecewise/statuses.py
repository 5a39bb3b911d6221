"""What can become of a piece, and how pieces that fail are gone about."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, StrEnum, auto
from typing import Any

from lowering.errors import CaptureError


class Status(Flag):
    """What became of a piece; several may hold. `Status.OK | Status.CHILDREN` is a piece that is exported with some of
    its children as opaque operators, `status & ~Status.ALIKE` one without that flag."""

    OK = auto()
    """it is exported, and agrees with eager on every call that was compared"""
    FAIL = auto()
    """it cannot be exported"""
    DIFFERS = auto()
    """it is exported, and its numbers are not those of eager"""
    CHILDREN = auto()
    """it was exported with children as opaque operators"""
    CUSTOM = auto()
    """it stands as an opaque operator in what is around it"""
    COVERED = auto()
    """it was exported as a part of what is around it, and not by itself"""
    ALIKE = auto()
    """it was not tried, for a piece like it was"""

    def __str__(self) -> str:
        return "+".join(flag.name.lower() for flag in Status if flag in self and flag.name) or "untried"


class Strategy(StrEnum):
    """What is done about a piece."""

    NONE = "none"
    """it is tried as it is, and where it fails, its children are; nothing is replaced"""
    ONLY_IF_FAILING = "only_if_failing"
    """where it fails, its children are tried, and it is tried once more with those that fail as opaque operators"""
    ALWAYS = "always"
    """it is an opaque operator in what is around it, and is not tried; of the model itself: its children are so"""
    LOCAL = "local"
    """its children are opaque operators, and are tried by themselves: what is tried is its own code alone"""


def strategies_of(asked: Any) -> Mapping[Any, Strategy]:
    """The strategy for each name and class of modules; "" is that of all others. Raises CaptureError for others than
    there are."""
    if isinstance(asked, Mapping):
        return {"": Strategy.ONLY_IF_FAILING} | {key: strategy_of(each) for key, each in asked.items()}
    return {"": strategy_of(asked)}


def strategy_of(asked: Any) -> Strategy:
    """The strategy of that name; True and False stand for `only_if_failing` and `none`. Raises CaptureError for
    others."""
    if isinstance(asked, bool):
        return Strategy.ONLY_IF_FAILING if asked else Strategy.NONE
    try:
        return Strategy(asked)
    except ValueError:
        known = ", ".join(Strategy)
        raise CaptureError(f"there is no strategy {asked!r}", hint=f"take one of {known}") from None
