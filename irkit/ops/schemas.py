"""The rows of ONNX's operator table, read from `onnx.defs` at one opset, and the traits that ONNX leaves unsaid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import attrs
import onnx
import onnx.defs

from irkit.core.attributes import freeze_attribute
from irkit.core.blobs import blob
from irkit.core.operator_names import OperatorName
from irkit.core.types import DType
from irkit.errors import TypeRuleError
from irkit.ops.runtime_table import CONTRIB, contrib_names, is_contrib, runtime_schema

if TYPE_CHECKING:
    from onnxruntime.capi.onnxruntime_pybind11_state import OpSchema as RuntimeSchema

OPSET = 26
"""The opset of the IR: the newest that onnx 1.23 defines and ONNX Runtime 1.31 runs."""

COMMUTATIVE = frozenset(
    ("Add", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Min", "Mean", "Sum")
)
"""Operators whose first two operands may change places."""


def keeps_bits_in_any_order(op: str, dtype: DType, operands: int) -> bool:
    """Whether all operands of an operator may change places, and every bit of the result stays.

    A sum of more than two floats is rounded after each step, and of 0.0 and -0.0 Max and Min take the one that comes
    first on one runtime, the other on another.
    """
    exact = not dtype.is_float or (operands <= 2 and op not in ("Max", "Min"))
    return exact and op in COMMUTATIVE


NONDETERMINISTIC = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"]
)
"""Operators two of whose applications are never one."""

BODIES: Mapping[str, tuple[str, ...]] = {
    "If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",), "SequenceMap": ("body",),
}  # fmt: skip
"""The graph attributes of control flow, in the order in which `Value.bodies` holds them."""


@attrs.frozen
class Formal:
    """One formal operand or result: its name, type variable, and whether it is single, optional or variadic."""

    name: str
    type: str
    option: str
    homogeneous: bool = True


@attrs.frozen
class AttributeSpec:
    """One attribute: its ONNX kind ("INT", "FLOATS", ...), whether it must be given, and its default."""

    name: str
    kind: str
    required: bool
    default: Any


@attrs.frozen(eq=False)
class OpSpec:
    """One operator: formals, attributes, and what each type variable may be."""

    name: str
    domain: str
    since: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: Mapping[str, AttributeSpec]
    types: Mapping[str, frozenset[str]]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int

    def formal(self, index: int) -> Formal:
        """The formal of operand number `index`; the last one repeats where it is variadic."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def allowed(self, formal: Formal) -> frozenset[str]:
        """The ONNX type strings that a formal accepts, as `tensor(float)`."""
        return self.types.get(formal.type) or frozenset((formal.type,))


def split_domain(op: str) -> tuple[str, str]:
    """(domain, name) of an op: `com.microsoft::Gelu` is ("com.microsoft", "Gelu"), `Gemm` is ("", "Gemm")."""
    domain, _, name = op.rpartition("::")
    return domain, name


class Rowed(Protocol):
    """What names of operators of one's own know: something with a row."""

    @property
    def row(self) -> OpSpec:
        """The row of the operator."""
        ...


def own_row(op: str) -> OpSpec | None:
    """The row of an operator that somebody defined, which its name knows; None for all other names."""
    return cast("Rowed", op.operator).row if type(op) is OperatorName else None


def spec(op: str) -> OpSpec:
    """The row of an operator: of ONNX's own at opset `OPSET`, of another domain as ONNX has it, or ONNX Runtime, or
    that of an operator of one's own, which its name knows.

    Raises TypeRuleError for a name that nobody has.
    """
    return known_row(op) if type(op) is not OperatorName else cast("Rowed", op.operator).row


@lru_cache(maxsize=1 << 12)
def known_row(op: str) -> OpSpec:
    """`spec` of a plain name, of which nobody defined the operator."""
    if not isinstance(op, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may give anything
        raise TypeRuleError(f"{op!r} is not an operator's name", hint='write it as text: "Relu"')
    domain, name = split_domain(op)
    try:
        return row(onnx.defs.get_schema(name, OPSET if domain == "" else 1_000, domain))
    except onnx.defs.SchemaError as error:
        schema = runtime_schema(op)
        if schema is not None:
            return row(schema)
        who, when = ("the installed ONNX Runtime", "") if is_contrib(op) else ("ONNX", f" at opset {OPSET}")
        known = [f"{CONTRIB}::{n}" for n in contrib_names()] if is_contrib(op) else names()
        near = [n for n in known if n.lower() == op.lower()] or get_close_matches(op, known, 1)
        raise TypeRuleError(
            f"{who} has no operator {op!r}{when}",
            hint=(f"did you mean {near[0]}? " if near else "check the spelling; ")
            + "for an operator of your own, @irkit.operator(name), or irkit.custom(op, ..., type=...)",
        ) from error


def has_schema(op: str) -> bool:
    """True for an operator that the installed onnx has a schema for."""
    domain, name = split_domain(op)
    return onnx.defs.has(name, domain)


@cache
def names() -> tuple[str, ...]:
    """The operators that ONNX has at opset `OPSET`, sorted; deprecated ones left out."""
    known = onnx.defs.get_all_schemas_with_history()
    found = {s.name for s in known if s.domain == "" and s.since_version <= OPSET}
    return tuple(name for name in sorted(found) if not onnx.defs.get_schema(name, OPSET).deprecated)


def row(schema: onnx.defs.OpSchema | RuntimeSchema) -> OpSpec:
    """The row that a schema becomes: an onnx.defs.OpSchema, or one of ONNX Runtime, with other names for its fields."""
    formal_options = {0: "single", 1: "optional", 2: "variadic"}

    def formal(f: Any) -> Formal:
        option = f.option.value if hasattr(f.option, "value") else int(f.option)
        if hasattr(f, "typeStr"):
            return Formal(f.name, f.typeStr, formal_options[int(option)], bool(f.isHomogeneous))
        return Formal(f.name, f.type_str, formal_options[int(option)], bool(f.is_homogeneous))

    attributes = {
        name: AttributeSpec(name, str(a.type).rpartition(".")[2], bool(a.required), default_of(a))
        for name, a in schema.attributes.items()
    }
    types = {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints}
    return OpSpec(
        schema.name,
        schema.domain,
        schema.since_version,
        tuple(formal(f) for f in schema.inputs),
        tuple(formal(f) for f in schema.outputs),
        attributes,
        types,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
    )


def default_of(attribute: Any) -> Any:
    """The default of a schema attribute in frozen form; None where there is none."""
    if hasattr(attribute, "_default_value"):
        proto = onnx.AttributeProto.FromString(attribute._default_value)
    else:
        proto = attribute.default_value
    if not proto.name:
        return None
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return tuple(each.decode() for each in cast("list[bytes]", value))
    if isinstance(value, onnx.TensorProto):
        return blob(onnx.numpy_helper.to_array(value))
    return freeze_attribute(attribute.name, value)


_TENSOR = re.compile(r"tensor\((\w+)\)$")
_ELEMENTS = {
    "float": DType.FLOAT, "double": DType.DOUBLE, "float16": DType.FLOAT16, "bfloat16": DType.BFLOAT16,
    "bool": DType.BOOL, "string": DType.STRING, "complex64": DType.COMPLEX64, "complex128": DType.COMPLEX128,
    "float6e2m3": DType.FLOAT6E2M3, "float6e3m2": DType.FLOAT6E3M2,
    **{name: DType[name.upper()] for name in (
        "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64",
        "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float4e2m1",
    )},
}  # fmt: skip
TYPE_STRINGS: Mapping[DType, str] = {dtype: f"tensor({name})" for name, dtype in _ELEMENTS.items()}
"""How ONNX writes the tensor type of each element type: `tensor(float)`."""


@lru_cache(maxsize=1 << 12)
def dtype_of(type_string: str) -> DType | None:
    """The element type of `tensor(float)`; None for a string that names no single tensor type."""
    match = _TENSOR.match(type_string)
    return _ELEMENTS[match.group(1)] if match else None
