"""What a type rule is told, and the questions that most of them ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from irkit import dims
from irkit.blobs import Blob
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.onnx.schemas import OpSpec
from irkit.types import DType, Tensor, Type
from irkit.vocabulary import CONSTANT, SHAPE_VECTOR

LIMIT = 4096
"""Constants of more elements than this are not read by a type rule."""


@attrs.define(eq=False)
class Context:
    """One application of an operator, before it has a type. `outputs` is how many results are asked for."""

    spec: OpSpec
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any]
    bodies: tuple[Any, ...]
    outputs: int

    def attr(self, name: str) -> Any:
        """The attribute, or the schema's default, or None."""
        value = self.attributes.get(name)
        return self.spec.attributes[name].default if value is None and name in self.spec.attributes else value

    def has(self, index: int) -> bool:
        """True where operand number `index` was given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def type(self, index: int) -> Type:
        """The type of an operand that must be there."""
        if not self.has(index):
            raise self.fail(f"operand {index} ({self.spec.formal(index).name}) is missing")
        return self.inputs[index].type

    def tensor(self, index: int) -> Tensor:
        """The type of an operand that must be a tensor."""
        found = self.type(index)
        if not isinstance(found, Tensor):
            raise self.fail(f"operand {index} is a {found!r}, where a tensor is needed")
        return found

    def shape(self, index: int) -> tuple[Dim, ...]:
        """The dimensions of a tensor operand."""
        return self.tensor(index).shape

    def dtype(self, index: int) -> DType:
        """The element type of a tensor operand."""
        return self.tensor(index).dtype

    def rank(self, index: int) -> int:
        """The rank of a tensor operand."""
        return len(self.tensor(index).shape)

    def contents(self, index: int) -> tuple[Dim, ...] | None:
        """The elements of an integer operand that is a constant or a ShapeVector, flat; None where they are unknown."""
        return contents(self.inputs[index]) if self.has(index) else None

    def blob(self, index: int) -> Blob | None:
        """The blob of a constant operand; None where it is no constant or was not given."""
        return self.inputs[index].blob if self.has(index) else None

    def axis(self, axis: int, rank: int, *, end: bool = False) -> int:
        """`axis` counted from the front. `end` also allows `axis == rank`. Raises TypeRuleError out of range."""
        top = rank + 1 if end else rank
        if not -top <= axis < top and not (rank == 0 and axis in (0, -1)):
            raise self.fail(f"axis {axis} is out of range for rank {rank}")
        return axis + top if axis < 0 else axis

    def fail(self, what: str, hint: str = "") -> TypeRuleError:
        """The error to raise: it names the operator and the types of its operands."""
        types = ", ".join("-" if v is None else repr(v.type) for v in self.inputs)
        given = "".join(f" {k}={v!r}" for k, v in self.attributes.items())
        name = f"{self.spec.domain}::{self.spec.name}" if self.spec.domain else self.spec.name
        return TypeRuleError(f"{name}: {what}", ir=f"{name}({types}){given}", hint=hint)


def contents(value: Any) -> tuple[Dim, ...] | None:
    """The elements of an integer tensor that is known, flat, as dimensions; None where it is unknown or large."""
    if value is None:
        return None
    if value.op == SHAPE_VECTOR:
        return value.attributes[0][1]
    if value.op == CONSTANT:
        blob = value.blob
        if blob.size <= LIMIT and (blob.dtype.is_integer or blob.dtype is DType.BOOL):
            return tuple(int(x) for x in blob.array.ravel())
    return None


def broadcast(c: Context, *shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape that numpy's rules give; raises where two numbers clash.

    Of a number above 1 and an unknown dimension the number is taken; of two dimensions that may or may not be equal
    nothing is known, since either could be 1: the result is a fresh symbol.
    """
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for i in range(rank):
        dim: Dim = 1
        for shape in shapes:
            at = i - rank + len(shape)
            if at >= 0:
                dim = broadcast_dim(c, dim, shape[at], shapes)
        result.append(dim)
    return tuple(result)


def broadcast_dim(c: Context, a: Dim, b: Dim, shapes: tuple[Any, ...] = ()) -> Dim:
    """What two dimensions broadcast to."""
    if a is b or (type(b) is int and b == 1):
        return a
    if type(a) is int and a == 1:
        return b
    answer = dims.same(a, b)
    if answer is True:
        return a
    if type(a) is int and type(b) is int:
        raise c.fail(f"{a} and {b} do not broadcast", hint="sizes must be equal, or one of them 1")
    if type(a) is int or type(b) is int:
        return a if type(a) is int else b
    return dims.fresh()
