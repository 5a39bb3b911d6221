"""Types, attributes and metadata as ONNX messages, checked against the operator table at the opset that is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import onnx
import onnx.defs
import sympy
from onnx import AttributeProto, TypeProto

from irkit import dims
from irkit.core.blobs import Blob
from irkit.core.ir import Value
from irkit.core.types import Optional, Sequence, Tensor, Tuple, Type
from irkit.dims import Dim, notation, symbols_of
from irkit.errors import SerializeError
from irkit.onnx.writing.tensors import tensor_proto
from irkit.ops.runtime_table import is_contrib, runtime_schema
from irkit.ops.schemas import OPSET, OpSpec, row, split_domain
from irkit.support.arguments import type_text

KINDS: Mapping[str, Any] = {kind: number for kind, number in AttributeProto.AttributeType.items() if number}
"""The number of each kind of attribute: "INT" is 2."""

_FIELDS = {
    "INT": "i", "FLOAT": "f", "STRING": "s", "TENSOR": "t", "TYPE_PROTO": "tp",
    "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings", "TENSORS": "tensors", "TYPE_PROTOS": "type_protos",
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- types


class Types:
    """TypeProtos of one model, made once for each type. Fresh symbols get the names `unknown_0`, `unknown_1`, ...

    `taken` gives the names of the model's other symbols; it is asked where the first fresh symbol is met.
    """

    def __init__(self, taken: Callable[[], frozenset[str]]) -> None:
        self._taken = taken
        self._names: dict[sympy.Symbol, str] = {}
        self._by_id: dict[int, TypeProto] = {}
        self._by_type: dict[Type, TypeProto] = {}
        self._texts: dict[Dim, str] = {}
        self._count = 0
        self._names_taken: frozenset[str] | None = None

    def proto(self, type_: Type) -> TypeProto:
        """The message for a type that is no Tuple. The graph must stay alive: types are remembered by identity."""
        found = self._by_id.get(id(type_))
        if found is None:
            found = self._by_type.get(type_)
            if found is None:
                found = self._by_type[type_] = self._make(type_)
            self._by_id[id(type_)] = found
        return found

    def _make(self, type_: Type) -> TypeProto:
        made = TypeProto()
        if isinstance(type_, Tensor):
            made.tensor_type.elem_type = int(type_.dtype)
            shape = made.tensor_type.shape
            shape.SetInParent()
            for size in type_.shape:
                if type(size) is int:
                    if not 0 <= size < 1 << 63:
                        raise SerializeError(f"no tensor has the size {size}")
                    shape.dim.add(dim_value=size)
                else:
                    shape.dim.add(dim_param=self.text(size))
        elif isinstance(type_, Sequence):
            made.sequence_type.elem_type.CopyFrom(self.proto(type_.element))
        elif isinstance(type_, Optional):
            made.optional_type.elem_type.CopyFrom(self.proto(type_.element))
        else:
            raise SerializeError(f"ONNX has no value of type {type_!r}")
        return made

    def text(self, size: Dim) -> str:
        """The `dim_param` of a dimension: its expression, with fresh symbols named."""
        found = self._texts.get(size)
        if found is None:
            for symbol in symbols_of(size):
                if dims.is_fresh(symbol) and symbol not in self._names:
                    self._names[symbol] = self._fresh()
            bare = size.name if isinstance(size, sympy.Symbol) and not dims.is_fresh(size) else None
            found = self._texts[size] = bare or notation.text(size, self._names)
        return found

    def _fresh(self) -> str:
        taken = self._names_taken = self._taken() if self._names_taken is None else self._names_taken
        while (name := f"unknown_{self._count}") in taken:
            self._count += 1
        self._count += 1
        return name


# ---------------------------------------------------------------------------------------------- attributes


def attribute_proto(name: str, kind: str, value: Any, types: Types) -> AttributeProto:
    """One attribute of a kind that is not a graph. Raises SerializeError where the value does not fit."""
    number, field = KINDS.get(kind), _FIELDS.get(kind)
    if number is None or field is None:
        raise SerializeError(f"attribute {name}: irkit writes no attributes of kind {kind}")
    try:
        if kind == "STRING":
            return AttributeProto(name=name, type=number, s=as_bytes(value))
        if kind == "STRINGS":
            return AttributeProto(name=name, type=number, strings=[as_bytes(part) for part in value])
        if kind == "TENSOR":
            return AttributeProto(name=name, type=number, t=tensor_proto(value))
        if kind == "TENSORS":
            return AttributeProto(name=name, type=number, tensors=[tensor_proto(part) for part in value])
        if kind == "TYPE_PROTO":
            return AttributeProto(name=name, type=number, tp=types.proto(value))
        return AttributeProto(name=name, type=number, **{field: value})
    except (TypeError, ValueError) as error:
        raise SerializeError(f"attribute {name} cannot be written as {kind}: {value!r}") from error


def as_bytes(text: str | bytes) -> bytes:
    """A string attribute as the bytes that ONNX holds."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def kind_of(value: object) -> str:
    """The kind of attribute that a frozen value is by itself: what an operator without a row goes by."""
    if type(value) is tuple:
        return (kind_of(cast("tuple[object, ...]", value)[0]) if value else "INT") + "S"
    for kind, name in ((int, "INT"), (float, "FLOAT"), ((str, bytes), "STRING"), (Blob, "TENSOR")):
        if isinstance(value, kind):
            return name
    if isinstance(value, Tensor | Sequence | Optional | Tuple):
        return "TYPE_PROTO"
    raise SerializeError(f"{type_text(value)} cannot be written as an ONNX attribute")


# ---------------------------------------------------------------------------------------------- operator rows


@lru_cache(maxsize=1 << 12)
def row_at(op: str, opset: int) -> OpSpec | None:
    """The row of an operator at a version of its domain; None for one that neither ONNX nor ONNX Runtime has.

    Raises SerializeError for an ONNX operator that the opset lacks.
    """
    domain, name = split_domain(op)
    if is_contrib(op):
        schema = runtime_schema(op)
        return None if schema is None else row(schema)
    try:
        schema = onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        if domain == "":
            raise SerializeError(
                f"opset {opset} has no operator {name}",
                hint="run passes.legalize for that opset, or ask for a newer one",
            ) from None
        return None
    if schema.deprecated:
        raise SerializeError(
            f"{name} is deprecated at opset {opset}", hint="ask for an older opset, or build it of other operators"
        )
    return row(schema)


SPELLED = frozenset(("STFT",))
"""Operators whose default ONNX's own shape inference forgets at some opset."""


@lru_cache(maxsize=1 << 12)
def explicit_defaults(op: str, opset: int) -> tuple[tuple[str, str, Any], ...]:
    """(name, kind, value) for attributes that are written even where they have the IR's default: those whose default is
    another at `opset`, and those of operators that a runtime without a kernel may expand by ONNX's own function, which
    names its attributes (ONNX Runtime cannot expand Swish without `alpha`)."""
    old, new = row_at(op, opset), row_at(op, OPSET)
    if old is None or new is None or is_contrib(op):
        return ()
    schema: Any = onnx.defs.get_schema(op, opset, "")
    found: list[tuple[str, str, Any]] = []
    for name, attribute in old.attributes.items():
        default = new.attributes[name].default if name in new.attributes else None
        spelled = schema.has_function or op in SPELLED
        if default is not None and attribute.kind in _FIELDS and (spelled or default != attribute.default):
            found.append((name, attribute.kind, default))
    return tuple(found)


def domain_version(op: str, opset: int) -> int:
    """The version of an operator's domain that a model at `opset` imports for it."""
    domain, name = split_domain(op)
    if domain == "":
        return opset
    try:
        return onnx.defs.get_schema(name, 1_000, domain).since_version
    except onnx.defs.SchemaError:
        return 1


def place(value: Value) -> dict[str, str]:
    """Where a value came from, for an error."""
    return {"ir": repr(value), "source": str(value.origin)}
