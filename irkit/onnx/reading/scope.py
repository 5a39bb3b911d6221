"""What is known while one graph of an ONNX model is read: names, opsets, the attributes of a function's call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from onnx import AttributeProto, TypeProto, ValueInfoProto

from irkit.core.ir import Value
from irkit.dims import Dim
from irkit.dims.ranges import LEAST
from irkit.errors import LoadError
from irkit.support.counts import count_text

AXES = 1 << 16
"""Of all results of a node together."""


@attrs.define(eq=False)
class Scope:
    """The names of one graph while it is read.

    In a body, `outer` is where other names are looked up, and `captures` holds what was found there: name -> (outer
    value, the body's own parameter). A branch that is certainly taken is no
    body: it is `open`, and uses outer values as they are."""

    outer: Scope | None = None
    values: dict[str, Value | None] = attrs.field(factory=dict[str, Value | None])
    declarations: tuple[Sequence[ValueInfoProto], ...] = ()
    captures: dict[str, tuple[Value, Value]] = attrs.field(factory=dict[str, tuple[Value, Value]])
    open: bool = False
    _infos: dict[str, ValueInfoProto] | None = None

    def info(self, name: str) -> TypeProto | None:
        """The type that the graph declares for a name; the declarations are read when one is asked for."""
        if self._infos is None:
            self._infos = {info.name: info for infos in self.declarations for info in infos}
        found = self._infos.get(name)
        return None if found is None else found.type


@attrs.frozen(eq=False)
class Frame:
    """What holds inside one function or the main graph: opsets by domain, and the attributes of a function's call."""

    opsets: Mapping[str, int]
    attributes: Mapping[str, AttributeProto] | None = None
    depth: int = 0


def define(scope: Scope, name: str, value: Value | None) -> None:
    """Gives a value its name. Raises LoadError for a name that another value of the graph has."""
    values = scope.values
    if not name or name in values or type(name) is not str:
        if not name:
            raise LoadError("a parameter, an initializer or a result has no name")
        raise LoadError(f"the name {name!r} is {'not valid UTF-8' if type(name) is not str else 'defined twice'}")
    values[name] = value


def require_sizes(sizes: Sequence[Dim]) -> None:
    """Raises LoadError for a result with a size that no tensor has, or with far more axes."""
    if len(sizes) > AXES:
        raise LoadError(f"a result would have {count_text(len(sizes), 'axis', 'axes')}")
    for size in sizes:
        if type(size) is int and not 0 <= size < -LEAST:
            raise LoadError(f"a result would have the size {size}")


def readable(text: str | bytes) -> str:
    """A text of the file; what is not valid UTF-8 in it, which protobuf hands over as bytes, is replaced."""
    return text if isinstance(text, str) else text.decode("utf-8", "replace")
