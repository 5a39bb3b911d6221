"""What an operator gives: one result by itself, or several in a tuple."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def as_tuple(found: T | tuple[T, ...]) -> tuple[T, ...]:
    """The results one by one, where a single one may stand by itself."""
    # isinstance cannot tell a T that is a tuple from a tuple of T.
    return found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]
