"""What a type rule is told, and the questions that most of them ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from irkit import dims
from irkit.core.attributes import AttributeMap
from irkit.core.blobs import Blob
from irkit.core.ir import Graph
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.ops.schemas import TYPE_STRINGS, OpSpec
from irkit.ops.types.contents import FEW, contents

AXES = 1024
"""More than any runtime has."""


@attrs.define(eq=False)
class Context:
    """One application of an operator, before it has a type. `outputs` is how many results are asked for."""

    spec: OpSpec
    inputs: tuple[Any, ...]
    attributes: AttributeMap
    bodies: tuple[Graph, ...]
    outputs: int

    # ---- attributes

    def attr(self, name: str) -> Any:
        """The attribute, or the schema's default, or None."""
        value = self.attributes.get(name)
        return self.spec.attributes[name].default if value is None and name in self.spec.attributes else value

    def element(self, name: str, default: DType) -> DType:
        """The element type that an attribute names by its ONNX number; `default` where it is left out or 0."""
        number = self.attr(name)
        if not number:
            return default
        try:
            return DType(number)
        except ValueError as error:
            raise self.fail(f"attribute {name} is {number}, which is no ONNX element type") from error

    def allowed(self, dtype: DType, output: int = 0) -> DType:
        """`dtype`, which the schema must allow for that result. Raises TypeRuleError where it does not."""
        formal = self.spec.outputs[output]
        if TYPE_STRINGS[dtype] not in self.spec.allowed(formal):
            raise self.fail(f"the result cannot be {dtype.short}")
        return dtype

    # ---- operands

    def has(self, index: int) -> bool:
        """True where operand number `index` was given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def type(self, index: int) -> Type:
        """The type of an operand that must be there."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.fail(f"operand {index} ({self.spec.formal(index).name}) is missing")
        return value.type

    def tensor(self, index: int) -> Tensor:
        """The type of an operand that must be a tensor."""
        try:
            value = self.inputs[index]
        except IndexError:
            value = None
        if value is not None and type(value.type) is Tensor:
            return value.type
        raise self.fail(f"operand {index} is a {self.type(index)!r}, where a tensor is needed")

    def ranked(self, index: int, *ranks: int) -> Tensor:
        """The type of a tensor operand whose rank must be one of `ranks`."""
        found = self.tensor(index)
        if len(found.shape) not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise self.fail(f"operand {index} ({self.spec.formal(index).name}) must have rank {wanted}")
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

    # ---- contents

    def contents(self, index: int) -> tuple[Dim, ...] | None:
        """The elements of an integer operand, flat, where `irkit.ops.types.contents` can tell them; else None."""
        return contents(self.inputs[index]) if index < len(self.inputs) else None

    def numbers(self, index: int) -> tuple[int, ...] | None:
        """The elements of an operand as numbers, flat; None where one of them is unknown or symbolic."""
        found = self.contents(index)
        for d in found or ():
            if type(d) is not int:
                return None
        return found  # type: ignore[return-value]

    def scalar(self, index: int) -> Dim | None:
        """The only element of an integer operand; None where it is unknown."""
        found = self.contents(index)
        return found[0] if found is not None and len(found) == 1 else None

    def blob(self, index: int) -> Blob | None:
        """The blob of a constant operand of few elements; None where it is none or was not given."""
        found = self.inputs[index].blob if self.has(index) else None
        return None if found is None or found.size > FEW else found

    def length(self, index: int) -> int:
        """How many elements an operand of rank 1 (or 0) has. Raises TypeRuleError where that is not a number."""
        shape = self.shape(index)
        if len(shape) == 0:
            return 1
        if len(shape) != 1 or type(shape[0]) is not int:
            name = self.spec.formal(index).name
            raise self.fail(
                f"operand {index} ({name}) must be a vector of known length",
                hint="the rank of every tensor must be known: give a constant, or build the sizes with shape_vector",
            )
        return shape[0]

    def axes_in(self, index: int) -> int:
        """`length` of an operand that holds a number for each axis. Raises TypeRuleError for more than there can be."""
        found = self.length(index)
        if found > AXES:
            raise self.fail(f"operand {index} ({self.spec.formal(index).name}) would be for {found} axes")
        return found

    # ---- axes

    def axis(self, axis: int, rank: int, *, end: bool = False) -> int:
        """`axis` counted from the front. `end` also allows `axis == rank`. Raises TypeRuleError out of range."""
        top = rank + 1 if end else rank
        if not -top <= axis < top:
            raise self.fail(f"axis {axis} is out of range for rank {rank}")
        return axis + top if axis < 0 else axis

    def axes(self, given: Iterable[int], rank: int) -> tuple[int, ...]:
        """Several axes counted from the front. Raises TypeRuleError where one is out of range or stands twice."""
        found = tuple(self.axis(int(a), rank) for a in given)
        if len(set(found)) != len(found):
            raise self.fail(f"an axis stands twice in {found}")
        return found

    # ---- dimensions

    def unify(self, a: Dim, b: Dim, what: str) -> Dim:
        """The better known of two dimensions that must be equal; raises TypeRuleError where they cannot be."""
        if a is b:
            return a
        if dims.same(a, b) is False:
            raise self.fail(f"{what} must be equal, and are {a} and {b}")
        if type(a) is int or (dims.is_fresh(b) and type(b) is not int):
            return a
        return b if type(b) is int or dims.is_fresh(a) else a

    def unify_shapes(self, a: tuple[Dim, ...], b: tuple[Dim, ...], what: str) -> tuple[Dim, ...]:
        """The better known dimensions of two shapes that must be equal."""
        if a == b:
            return a
        if len(a) != len(b):
            raise self.fail(f"{what} must have one rank, and have {len(a)} and {len(b)}")
        pairs = enumerate(zip(a, b, strict=True))
        return tuple(self.unify(x, y, f"{what}: the sizes of axis {i}") for i, (x, y) in pairs)

    # ---- results

    def several(self, *types: Type) -> tuple[Type, ...]:
        """The types of the results that are asked for, out of all that the operator has."""
        return types[: self.outputs]

    def fail(self, what: str, hint: str = "") -> TypeRuleError:
        """The error to raise: it names the operator and the types of its operands, and says where to read of it."""
        types = ", ".join("-" if v is None else repr(v.type) for v in self.inputs)
        given = "".join(f" {k}={v!r}" for k, v in self.attributes.items())
        name = f"{self.spec.domain}::{self.spec.name}" if self.spec.domain else self.spec.name
        known = f"help(irkit.op.{name}) says what it takes" if not self.spec.domain else ""
        return TypeRuleError(f"{name}: {what}", ir=f"{name}({types}){given}", hint=hint or known)


def broadcast(c: Context, *shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape that numpy's rules give; raises where two numbers clash.

    Of a number above 1 and an unknown dimension the number is taken; of two dimensions that may or may not be equal
    nothing is known, since either could be 1: the result is a fresh symbol.
    """
    found = shapes[0]
    for shape in shapes[1:]:
        if shape is not found:
            found = broadcast_pair(c, found, shape)
    return found


def broadcast_pair(c: Context, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """`broadcast` of two shapes; one of them itself where it is the result."""
    if len(a) < len(b):
        a, b = b, a
    gap = len(a) - len(b)
    tail = a[gap:] if gap else a
    if tail == b:
        return a
    joined = tuple(
        x if x is y or (type(y) is int and (y == 1 or (type(x) is int and x == y))) else broadcast_dim(c, x, y)
        for x, y in zip(tail, b, strict=True)
    )
    return a[:gap] + joined if gap else joined


def broadcast_dim(c: Context, a: Dim, b: Dim) -> Dim:
    """What two dimensions broadcast to."""
    if a is b or (type(b) is int and b == 1):
        return a
    if type(a) is int and a == 1:
        return b
    answer = dims.same(a, b)
    if answer is True:
        return a
    a_wide, b_wide = dims.same(a, 1) is False, dims.same(b, 1) is False
    if answer is False and a_wide and b_wide:
        raise c.fail(f"{a} and {b} do not broadcast", hint="sizes must be equal, or one of them 1")
    if type(a) is int or type(b) is int:
        return a if type(a) is int else b
    if a_wide or b_wide:
        return a if a_wide else b  # what is never 1 is what the other broadcasts to
    return dims.fresh()


def broadcast_to(c: Context, shape: tuple[Dim, ...], target: tuple[Dim, ...], what: str) -> None:
    """Raises TypeRuleError where `shape` certainly does not broadcast to `target` without changing it."""
    if len(shape) > len(target):
        raise c.fail(f"{what} of rank {len(shape)} does not broadcast to rank {len(target)}")
    for a, b in zip(reversed(shape), reversed(target), strict=False):
        if dims.same(a, b) is False and dims.same(a, 1) is False:
            raise c.fail(f"{what} of size {a} does not broadcast to {b}", hint="sizes must be equal, or 1")
