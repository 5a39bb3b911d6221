"""What pytest shows of a failed test."""

from __future__ import annotations

from typing import Protocol

from irkit.errors import IrkitError


class Caught(Protocol):
    """What pytest says of an exception (`pytest.ExceptionInfo`)."""

    @property
    def value(self) -> BaseException:
        """The exception."""
        ...


def is_told(caught: Caught) -> bool:
    """Whether an error was raised on purpose, and says all that there is to know: frames of irkit beside it say nothing
    of the user's.

    A module whose `__tracebackhide__` it is has no frame in what pytest shows of such an error; `--full-trace` shows
    them. Of any other exception, which is a fault of irkit's or of a function that it calls, all frames are shown.
    """
    return isinstance(caught.value, IrkitError)
