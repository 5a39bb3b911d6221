"""Results that are written as an Identity, of element types of which a runtime copies none.

A result that is a parameter, a constant or a result before gets an Identity of its own in a file. ONNX Runtime has no
kernel of Identity for integers of fewer than 8 bits, but casts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
import numpy as np

from irkit.build import const, op
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, PARAM

COPIED = frozenset((
    DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16, DType.BOOL, DType.INT8, DType.INT16, DType.INT32,
    DType.INT64, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64, DType.STRING,
))  # fmt: skip
"""Element types of which every runtime copies tensors."""


def with_cast_copies(graph: Graph, trouble: Callable[[Value], str]) -> tuple[Graph, Value | None]:
    """(graph, None) with each result cast there and back that is written as an Identity and has `trouble` as one; the
    same graph where there is none. (graph, the Identity) where a cast has trouble, too."""
    results, seen = list(graph.results), Counter[Value]()
    for index, value in enumerate(graph.results):
        if (value.op in (PARAM, CONSTANT) or value in seen) and is_rare(value):
            copy = op.Identity(value).with_origin(value.origin)
            if trouble(copy):
                cast = cast_copy(value, seen[value])
                if cast is None or any(v.op == "Cast" and trouble(v) for v in (cast, *cast.inputs) if v is not None):
                    return graph, copy
                results[index] = cast.with_origin(value.origin)
        seen[value] += 1
    same = all(a is b for a, b in zip(results, graph.results, strict=True))
    return (graph if same else attrs.evolve(graph, results=tuple(results))), None


def is_rare(value: Value) -> bool:
    """Whether a value is a tensor of an element type that not every runtime copies."""
    return isinstance(value.type, Tensor) and value.dtype not in COPIED


WIDER = DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT, DType.DOUBLE


def cast_copy(value: Value, number: int) -> Value | None:
    """A value cast to an element type that holds all its numbers, and back: to another one for each copy, for equal
    values are shared; None where there are no more."""
    kinds = WIDER if value.dtype.is_integer else WIDER[4:]
    if number >= len(kinds):
        return None
    wide = kinds[number]
    if value.blob is not None:
        return op.Cast(const(np.asarray(value.blob.array).astype(wide.numpy)), to=value.dtype)
    return op.Cast(op.Cast(value, to=wide), to=value.dtype)
