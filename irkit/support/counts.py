"""How many of something there are, in words."""

from __future__ import annotations


def count_text(number: int, word: str, several: str = "") -> str:
    """`1 operator`, `1,234 operators`, `2 axes`: a number and its noun, whose plural is `several` where an s does not
    make it."""
    return f"1 {word}" if number == 1 else f"{number:,} {several or word + 's'}"
