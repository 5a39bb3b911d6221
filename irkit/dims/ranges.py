"""What is known of a symbol: between which numbers it lies."""

from __future__ import annotations

import attrs

from irkit.errors import DimensionError

LEAST = -(1 << 63)
"""The lower end of a range that has none: of a number that depends on data and may be negative."""


@attrs.frozen
class Range:
    """What is known of a symbol: lo <= symbol <= hi; `hi` None means unbounded. Both are counts of elements."""

    lo: int = 0
    hi: int | None = None

    def __attrs_post_init__(self) -> None:
        if type(self.lo) is not int or not (self.hi is None or (type(self.hi) is int and self.lo <= self.hi)):
            raise DimensionError(
                f"there is no size from {self.lo!r} up to {self.hi!r}",
                hint="write Range(1, 64), or Range(1) without an end",
            )

    def __contains__(self, value: int) -> bool:
        return self.lo <= value and (self.hi is None or value <= self.hi)

    def __str__(self) -> str:
        return f"[{'-inf' if self.lo <= LEAST else self.lo}, {'inf' if self.hi is None else self.hi}]"
