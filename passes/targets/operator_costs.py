"""What plain operators cost on ONNX Runtime's CPU provider, as measured: how equality saturation chooses among forms.

`operator_costs.json` holds for each operator the microseconds of a call, and the nanoseconds of each element or of each
multiplication; `benchmarks/operator_costs.py` writes it. What was not measured costs what the middle of those costs
that are computed element by element.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from functools import cache
from importlib import resources
from math import prod

import numpy as np

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor, Type, types_of
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.dims import Dim

USUAL = 32
"""What a size counts that is not known."""

FREE = frozenset((PARAM, CONSTANT, ITEM, SHAPE_VECTOR, "Identity"))
"""What takes no time of its own."""

PRODUCTS = frozenset(("MatMul", "Gemm", "Conv"))


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """A dimension as a number, with `sizes` for symbols, and the usual one for others."""
    if isinstance(dim, int):
        return dim
    given = {dims.label(s): sizes.get(dims.label(s), USUAL) for s in dims.symbols_of(dim)}
    return max(0, int(dims.evaluate(dim, given)))


def elements(type_: Type, sizes: Mapping[str, int]) -> int:
    """How many elements a tensor has, or the tensors of a tuple together."""
    return sum(prod(size_of(d, sizes) for d in each.shape) for each in types_of(type_) if isinstance(each, Tensor))


def places(value: Value, sizes: Mapping[str, int] | None = None) -> int:
    """How many elements the results have, or the first operand, whichever are more."""
    known = sizes or {}
    first = value.inputs[0] if value.inputs else None
    return max(elements(value.type, known), 0 if first is None else elements(first.type, known))


def multiplications(value: Value, sizes: Mapping[str, int] | None = None) -> int:
    """How many multiplications a product or a convolution takes; 0 for other operators."""
    if value.op not in PRODUCTS or value.inputs[0] is None or value.inputs[1] is None:
        return 0
    known, x, w = sizes or {}, value.inputs[0], value.inputs[1]
    results = elements(value.type, known)
    if value.op == "Conv":
        return results * prod(size_of(d, known) for d in w.shape[1:])
    axis = 0 if value.op == "Gemm" and value.attribute("transA", 0) else -1
    return results * size_of(x.shape[axis], known)


@cache
def table() -> Mapping[str, Mapping[str, float]]:
    """The measured lines by operator."""
    text = resources.files("passes.targets").joinpath("operator_costs.json").read_text(encoding="utf-8")
    return json.loads(text)["operators"]


@cache
def middle() -> tuple[float, float]:
    """The median call and element of the operators that are measured by elements."""
    rows = [row for row in table().values() if "element" in row]
    return statistics.median(r["call"] for r in rows), statistics.median(r["element"] for r in rows)


def microseconds(value: Value, sizes: Mapping[str, int] | None = None) -> float:
    """What one operator takes, by its types: a product by its multiplications, any other by its elements.

    `sizes` are numbers for symbols; one that is not named counts 32. Element types of other widths than f32 count by
    their bytes.
    """
    if value.op in FREE:
        return 0.0
    row = table().get(value.op, {})
    call, each = middle()
    call = row.get("call", call) + row.get("result", 0.0) * len(types_of(value.type))
    work = multiplications(value, sizes)
    if work and "multiplication" in row:
        return call + 1e-3 * row["multiplication"] * work * width(value)
    return call + 1e-3 * row.get("element", each) * places(value, sizes) * width(value)


def width(value: Value) -> float:
    """The bytes of an element by those of f32."""
    first = next((t for t in types_of(value.type) if isinstance(t, Tensor)), None)
    return 1.0 if first is None else float(np.clip(first.dtype.bits / 32, 0.25, 4))
