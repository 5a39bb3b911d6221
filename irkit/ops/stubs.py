"""The stub `opset.pyi`, made from onnx.defs: `python -m irkit.ops.stubs` writes it anew for another onnx."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from irkit.core.attributes import ELEMENT_TYPES
from irkit.ops.schemas import AttributeSpec, OpSpec, names, spec

PATH = Path(__file__).with_name("opset.pyi")

HEAD = '''"""Generated from onnx.defs by `python -m irkit.ops.stubs`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import ElementType, Type

Operand = Value | Blob | np.ndarray | np.generic | complex | str | bytes | Sequence[Any] | None
Body = Graph | Callable[..., Any]
Tensor = Blob | np.ndarray

class Operators:
    com_microsoft: Any
    def __init__(self, construct: Callable[..., Any], domain: str = "") -> None: ...
'''

KINDS = {
    "INT": "int", "FLOAT": "float", "STRING": "str", "TENSOR": "Tensor", "GRAPH": "Body", "TYPE_PROTO": "Type",
    "INTS": "Sequence[int]", "FLOATS": "Sequence[float]", "STRINGS": "Sequence[str]", "TENSORS": "Sequence[Tensor]",
}  # fmt: skip
"""How each kind of attribute is annotated."""


def stub() -> str:
    """The text of `opset.pyi` for the installed onnx."""
    return HEAD + "".join(f"    {signature(spec(name))}\n" for name in names())


def signature(row: OpSpec) -> str:
    """The line of one operator."""
    parts = ["self"]
    for formal in row.inputs:
        if formal.option == "variadic":
            parts.append(f"*{formal.name}: Operand")
        else:
            parts.append(f"{formal.name}: Operand" + (" = None" if formal.option == "optional" else ""))
    if not row.inputs or row.inputs[-1].option != "variadic":
        parts += ["/", "*"] if row.inputs else ["*"]
    attributes = sorted(row.attributes.values(), key=lambda a: (not a.required, a.name))
    parts += [keyword(a) for a in attributes]
    if row.max_outputs > 1:
        parts.append("outputs: int | None = None")
    if parts[-1] == "*":
        parts = parts[:-1]
    return f"def {row.name}({', '.join(parts)}) -> {result(row)}: ..."


def keyword(attribute: AttributeSpec) -> str:
    """One attribute as a keyword argument."""
    kind = KINDS.get(attribute.kind, "Any")
    kind = "ElementType" if kind == "int" and attribute.name in ELEMENT_TYPES else kind
    if attribute.required:
        return f"{attribute.name}: {kind}"
    default = attribute.default if isinstance(attribute.default, int | float | str) else None
    shown = str(np.float32(default)) if isinstance(default, float) else repr(default)
    return f"{attribute.name}: {kind} | None = {shown}"


def result(row: OpSpec) -> str:
    """What the constructor returns: a value; several where there are always several; either where that is open."""
    if row.max_outputs == 1:
        return "Value"
    several = row.min_outputs > 1 or row.outputs[-1].option == "variadic"
    return "tuple[Value, ...]" if several else "Any"


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
