"""A dialect: operators of one domain by name, as a value that is passed to whatever reads names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import attrs

from irkit.errors import GraphError, TypeRuleError
from irkit.nodes.operators import Operator
from irkit.ops.schemas import split_domain
from irkit.pattern import Op, p
from irkit.support.arguments import brief


@attrs.frozen(eq=False, repr=False)
class Dialect(Mapping[str, Operator]):
    """Operators by name, with the domain: `mylib["mylib::Silu"]`. Immutable.

    `mylib.op.Silu(x)` builds values and `mylib.p.Silu(hole("x"))` patterns, as `irkit.op` and `irkit.p` do for ONNX's
    operators. `irkit.parse`, `load_text`, `load` and `evaluate` take dialects, one or several, for the names in texts
    and files; values know their operators by themselves. `a + b` is a dialect with the operators of both.
    """

    name: str
    operators: Mapping[str, Operator]

    @property
    def op(self) -> Makers:
        """What builds values: `mylib.op.Silu(x, alpha=2.0)`."""
        return Makers(self, lambda each: each)

    @property
    def p(self) -> Makers:
        """What builds patterns: `mylib.p.Silu(hole("x"))`."""
        return Makers(self, pattern_maker)

    def __getitem__(self, name: str) -> Operator:
        found = self.operators.get(name)
        if found is None:  # a KeyError, as every mapping raises
            raise KeyError(f"the dialect {self.name} has no operator {name!r}; it has {', '.join(self.operators)}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    def __add__(self, other: Dialect) -> Dialect:
        if not isinstance(other, Dialect):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        name = self.name if other.name == self.name else f"{self.name}+{other.name}"
        more = [each for text, each in other.items() if self.get(text) is not each]
        return Dialect(name, table_of(name, (*self.values(), *more)))

    def replacing(self, *operators: Operator) -> Dialect:
        """The dialect with other operators in the place of those of their names, and with those that it has none of."""
        others = {each.text: each for each in operators}
        return Dialect(self.name, MappingProxyType({**self.operators, **others}))

    def __repr__(self) -> str:
        return f"<Dialect {self.name}: {', '.join(map(repr, self.values()))}>"


def pattern_maker(operator: Operator) -> Callable[..., Op]:
    """What makes patterns of an operator."""
    return p.op(operator.name)


class Makers:
    """The operators of a dialect as attributes, by their names without the domain."""

    __slots__ = ("_dialect", "_make")

    def __init__(self, dialect: Dialect, make: Callable[[Operator], Callable[..., Any]]) -> None:
        self._dialect, self._make = dialect, make

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        found = [each for text, each in self._dialect.items() if split_domain(text)[1] == name]
        if len(found) == 1:
            return self._make(found[0])
        if found:
            texts = ", ".join(each.text for each in found)
            raise AttributeError(f"several operators are called {name}: {texts}; take one by dialect[name]")
        near = get_close_matches(name, dir(self), 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise AttributeError(f"the dialect {self._dialect.name} has no operator {name!r}{meant}")

    def __dir__(self) -> list[str]:
        return sorted({split_domain(text)[1] for text in self._dialect})


def dialect(name: str, *operators: Operator) -> Dialect:
    """The dialect of some operators, all of the domain `name`: `irkit.dialect("mylib", silu, gated)`.

    Raises TypeRuleError for what is not an operator, GraphError for one of another domain, and for two of one name.
    """
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeRuleError(
            f"the name of a dialect is {brief(name)}",
            hint='it is the domain of its operators: irkit.dialect("mylib", silu)',
        )
    for each in operators:
        if isinstance(each, Operator) and each.domain != name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(
                f"{each.text} does not belong to the dialect {name}",
                hint=f"call it {name}::{split_domain(each.text)[1]}, or add its dialect: a + b",
            )
    return Dialect(name, table_of(name, operators))


def table_of(name: str, operators: tuple[Operator, ...]) -> Mapping[str, Operator]:
    """The operators by name. Raises TypeRuleError for what is none, GraphError for two of one name."""
    found: dict[str, Operator] = {}
    for each in operators:
        if not isinstance(each, Operator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeRuleError(f"{brief(each)} is not an operator", hint='@irkit.operator("mylib::Silu") makes one')
        if each.text in found:
            raise GraphError(
                f"two operators of the dialect {name} are called {each.text}",
                hint="give one another name; two versions stand in two dialects, or one takes the place of the other: "
                "dialect.replacing(new)",
            )
        found[each.text] = each
    return MappingProxyType(found)
