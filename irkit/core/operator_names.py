"""The name of an operator that somebody defined: a text that knows its operator, and all that a value holds of it.

A value's `op` is a text. That of an operator of one's own is an `OperatorName`, so whatever takes a value apart and
builds it again (passes, rules, pickles) keeps the operator with it, and nothing is looked up by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NoReturn, Protocol, cast

from irkit.errors import GraphError, TypeRuleError
from irkit.support.arguments import brief


class OperatorName(str):
    """The name of an operator, with the operator. It equals the text that it is; two of them are equal where their
    operators are one, so that two versions of one name are kept apart.

    Where names are remembered for other graphs too, they are remembered as plain text (`plain_name`), which equals
    each of them, and told apart again where a value is at hand.
    """

    __slots__ = ("key", "operator")

    key: str
    """The name, and a digest of what the operator is: what the digest of a graph holds."""
    operator: object

    def __new__(cls, text: str, key: str, operator: object) -> OperatorName:
        made = str.__new__(cls, text)
        object.__setattr__(made, "key", key)
        object.__setattr__(made, "operator", operator)
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is OperatorName:
            return self.operator is other.operator
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"the name {self!s} does not change")

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[object, ...]]:
        return attrgetter("name"), (self.operator,)


def plain_name(op: str) -> str:
    """The text of a name, which knows of no operator."""
    return op if type(op) is str else str(op)


def name_key(op: str) -> str:
    """The text of a name, with what tells its operator from others of that name."""
    return op.key if type(op) is OperatorName else op


class Named(Protocol):
    """What a dialect holds: something that has the name that values of it have."""

    @property
    def name(self) -> str:
        """The name, which knows the operator."""
        ...


Dialects = Iterable[Mapping[str, Named]] | Mapping[str, Named] | None
"""What is passed for the names in texts and files: a dialect, a mapping from names to operators, or several."""


def named_in(dialects: Dialects) -> Mapping[str, Named]:
    """The operators of some dialects, by name. Raises GraphError where two of them have one of a name, TypeRuleError
    for what is no dialect."""
    if dialects is None:
        return MappingProxyType({})
    if isinstance(dialects, Mapping):
        return cast("Mapping[str, Named]", dialects)
    found: dict[str, Named] = {}
    given: tuple[Mapping[str, Named], ...] = tuple(dialects) if isinstance(dialects, Iterable) else (dialects,)  # pyright: ignore[reportUnnecessaryIsInstance]
    for each in given:
        if not isinstance(each, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeRuleError(f"{brief(each)} is not a dialect", hint='irkit.dialect("mylib", silu) makes one')
        for text, operator in each.items():
            if found.setdefault(plain_name(text), operator) is not operator:
                raise GraphError(
                    f"two dialects have an operator {plain_name(text)}",
                    hint="give one of them; two versions of an operator are read one at a time",
                )
    return found
