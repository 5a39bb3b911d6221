"""Types of values as a file declares them. One name is one symbol; what is not declared is unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable

import sympy
from onnx import TensorShapeProto, TypeProto

from irkit import dims
from irkit.core.types import Optional, Sequence, Tensor, Type
from irkit.dims import Dim, notation
from irkit.errors import DimensionError, LoadError
from irkit.onnx.reading.scope import readable
from irkit.onnx.reading.tensors import MAX_RANK, element_type
from irkit.support.counts import count_text

_TERMS = 16
"""A dimension that would have more terms when expanded is taken for a plain name."""
_LONG = 200
_NESTED = 16

Missing = Callable[[int], Dim]
"""The dimension for an axis whose size a type leaves open."""


class Types:
    """Reads the types of one model. Texts of dimensions are read once each."""

    def __init__(self) -> None:
        self._dims: dict[str, Dim] = {}

    def type(self, proto: TypeProto, where: str, missing: Missing = lambda axis: dims.fresh(), depth: int = 0) -> Type:
        """The type that a message declares. Raises LoadError for a tensor without a rank, a map, a sparse tensor."""
        kind = proto.WhichOneof("value")
        if depth > _NESTED:
            raise LoadError(f"the type of {where} is nested too deep")
        if kind == "tensor_type":
            dtype = element_type(proto.tensor_type.elem_type, where)
            if not proto.tensor_type.HasField("shape"):
                raise LoadError(
                    f"{where} has no shape, and irkit must know the rank of every tensor",
                    hint="declare the shape, with names for sizes that vary: onnx.shape_inference can find inner ones",
                )
            if len(proto.tensor_type.shape.dim) > MAX_RANK:
                raise LoadError(f"{where} has {count_text(len(proto.tensor_type.shape.dim), 'axis', 'axes')}")
            return Tensor(
                dtype, tuple(self._dim(d, axis, missing) for axis, d in enumerate(proto.tensor_type.shape.dim))
            )
        if kind == "sequence_type":
            return Sequence(self.type(proto.sequence_type.elem_type, where, missing, depth + 1))
        if kind == "optional_type":
            return Optional(self.type(proto.optional_type.elem_type, where, missing, depth + 1))
        raise LoadError(f"{where} is a {kind or 'value without a type'}, which irkit does not have")

    def declared(self, proto: TypeProto) -> Type | None:
        """The type that a message declares; None where it leaves out what a type needs."""
        try:
            return self.type(proto, "a value")
        except LoadError:
            return None

    def _dim(self, proto: TensorShapeProto.Dimension, axis: int, missing: Missing) -> Dim:
        kind = proto.WhichOneof("value")
        if kind == "dim_value" and proto.dim_value >= 0:
            return proto.dim_value
        if kind == "dim_param" and proto.dim_param:
            return self.dim(readable(proto.dim_param))
        return missing(axis)

    def dim(self, text: str) -> Dim:
        """The symbol of that name, or the expression where the text is one of moderate size."""
        found = self._dims.get(text)
        if found is None:
            found = self._dims[text] = read_dim(text)
        return found


def read_dim(text: str) -> Dim:
    """`batch` -> the symbol, `2*batch + 1` -> the expression, anything else -> the symbol of that odd name."""
    if text.isidentifier() or len(text) > _LONG:
        return dims.symbol(text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if terms(tree) > _TERMS:
            return dims.symbol(text)
        found = notation.parse(text)
    except (DimensionError, SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError, OverflowError):
        return dims.symbol(text)
    whole = isinstance(found, sympy.Expr) and found.is_integer and dims.symbols_of(found)
    return found if whole else dims.symbol(text)


def terms(node: ast.AST) -> int:
    """A bound on the terms of an expression once it is multiplied out."""
    if isinstance(node, ast.BinOp):
        left, right = terms(node.left), terms(node.right)
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Pow):
            power = node.right.value if isinstance(node.right, ast.Constant) else None
            small = isinstance(power, int) and 0 <= power <= 8
            return left ** int(power) if small else _TERMS + 1  # type: ignore[arg-type]
        return left + right
    return sum(terms(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)) or 1
