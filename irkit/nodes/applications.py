"""One application of an operator that others define, as its definition sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.core.attributes import AttributeMap
from irkit.core.ir import Value
from irkit.core.types import dims_of
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.nodes import construct
from irkit.ops.schemas import OpSpec

Sizes = Callable[[tuple[Dim, ...]], Value]
"""What makes a vector of int64 of dimensions."""


LACKING = "irkit.custom states the type of an operator that irkit lacks"
"""What to try where irkit does not define an operator for such operands."""


@attrs.frozen(eq=False)
class Application:
    """The row, the operands, the attributes, and how many results are wanted. `sizes` makes a vector of dimensions."""

    row: OpSpec
    inputs: tuple[Value | None, ...]
    attributes: AttributeMap
    outputs: int
    sizes: Sizes
    hint: str = LACKING

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or the row's default, or `default`."""
        found = self.attributes.get(name)
        if found is None and name in self.row.attributes:
            found = self.row.attributes[name].default
        return default if found is None else found

    def flag(self, name: str) -> bool:
        """True where an integer attribute is given and not 0."""
        return bool(self.attr(name, 0))

    def wants(self, index: int) -> bool:
        """True where result number `index` is asked for."""
        return index < self.outputs

    def size(self, dim: Dim) -> Value:
        """A dimension as an int64 scalar."""
        if type(dim) is int:
            return construct.const(dim, "i64")
        return construct.call("Squeeze", [self.sizes((dim,)), np.array([0])])

    def ordinals(self, dim: Dim) -> Value:
        """0, 1, 2, ... below a dimension."""
        return construct.const(np.arange(dim)) if type(dim) is int else construct.call("Range", [0, self.size(dim), 1])

    def refuse(self, *names: str) -> None:
        """Raises TypeRuleError where one of those attributes, which the definition knows nothing of, is given."""
        for name in names:
            if self.attributes.get(name) not in (None, 0):
                raise self.fail(f"attribute {name} = {self.attributes[name]!r} is not defined")

    def refuse_operands(self, *names: str) -> None:
        """Raises TypeRuleError where one of those operands, which the definition knows nothing of, is given."""
        for index, value in enumerate(self.inputs):
            if value is not None and self.row.formal(index).name in names:
                raise self.fail(f"operand {self.row.formal(index).name} is not defined")

    def fail(self, what: str) -> TypeRuleError:
        """The error to raise."""
        name = f"{self.row.domain}::{self.row.name}" if self.row.domain else self.row.name
        types = ", ".join("-" if v is None else repr(v.type) for v in self.inputs)
        return TypeRuleError(f"{name}: {what}", ir=f"{name}({types})", hint=self.hint)


def bound_sizes(operands: Iterable[Value | None]) -> Sizes:
    """`Sizes` whose symbols the types of those operands bind."""
    given = tuple(v for v in operands if v is not None)

    def sizes(wanted: tuple[Dim, ...]) -> Value:
        left = {s for d in wanted for s in dims.symbols_of(d)}
        binders: list[Value] = []
        for value in given:
            mine = {s for d in dims_of(value.type) for s in dims.symbols_of(d)} & left
            if mine:
                binders.append(value)
                left -= mine
        return construct.shape_vector(wanted, *binders)

    return sizes
