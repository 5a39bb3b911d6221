"""Variables that functions have in common with others, and the names in their code."""

from __future__ import annotations

import types
from functools import lru_cache
from typing import Any

import attrs

ABSENT = object()
"""What a variable holds that is not there."""


@attrs.frozen(eq=False)
class Variable:
    """A variable of a function around, a global one, or an attribute of an object or a class: where it is, and what it
    held."""

    name: str
    where: Any
    held: Any

    @property
    def now(self) -> Any:
        """What it holds now."""
        if isinstance(self.where, types.CellType):
            return self.where.cell_contents if is_filled(self.where) else ABSENT
        if isinstance(self.where, dict):
            return self.where.get(self.name, ABSENT)
        inside = vars(self.where) if isinstance(self.where, type) else None
        return getattr(self.where, self.name, ABSENT) if inside is None else inside.get(self.name, ABSENT)

    def is_other(self) -> bool:
        """Whether it holds something else now."""
        return self.now is not self.held

    def restore(self) -> None:
        """Has it hold that again."""
        if not self.is_other():
            return
        if isinstance(self.where, types.CellType):
            self.where.cell_contents = self.held
        elif not isinstance(self.where, dict):
            setattr(self.where, self.name, self.held)
        elif self.held is ABSENT:
            del self.where[self.name]
        else:
            self.where[self.name] = self.held


@lru_cache(maxsize=1 << 10)
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """The names in a code and those inside it, global ones among them."""
    inner = (name for each in code.co_consts if isinstance(each, types.CodeType) for name in names_in(each))
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def is_filled(cell: Any) -> bool:
    """Whether a variable of a function around has a value."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
