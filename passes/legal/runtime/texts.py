"""What ONNX Runtime 1.31 gets wrong of strings, and the same by operators that it gets right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match


def drops_texts(value: Value) -> bool:
    """True for a Gather of strings that takes several at each place: it copies the first of them alone."""
    x = value.inputs[0]
    if x is None or x.dtype is not DType.STRING:
        return False
    axis = attribute_of(value, "axis") % max(x.rank, 1)
    return any(type(size) is not int or size != 1 for size in x.shape[axis + 1 :])


def gather(m: Match, value: Value) -> Value | None:
    """GatherND of the axis as the first one: of a Gather between Transposes ONNX Runtime makes this one again"""
    x, places = value.inputs
    if x is None or places is None or not drops_texts(value):
        return None
    axis, count = attribute_of(value, "axis") % x.rank, places.rank
    first = op.Transpose(x, perm=(axis, *(a for a in range(x.rank) if a != axis))) if axis else x
    taken = op.GatherND(first, op.Unsqueeze(places, [-1]))
    if not axis:
        return taken
    return op.Transpose(taken, perm=(*range(count, count + axis), *range(count), *range(count + axis, taken.rank)))


def splits_nothing(value: Value) -> bool:
    """True for a StringSplit by a delimiter of what may be empty: of that it gives no part, and ONNX one."""
    x, delimiter = value.inputs[0], attribute_of(value, "delimiter")
    return bool(delimiter) and x is not None and not is_filled(x, delimiter)


def is_filled(x: Value, delimiter: str) -> bool:
    """True where no string is empty: of a constant, and where `string_split` has put the delimiter in their place."""
    if x.blob is not None:
        return "" not in x.blob.array
    held = x.inputs[1].blob if x.op == "Where" and x.inputs[1] is not None else None
    tested = x.inputs[0] if x.op == "Where" else None
    if held is None or tested is None or tested.op != "Equal" or tested.inputs[0] != x.inputs[2]:
        return False
    text = None if tested.inputs[1] is None else tested.inputs[1].blob
    return text is not None and text.array.tolist() == "" and held.array.tolist() == delimiter


def string_split(m: Match, value: Value) -> tuple[Value, ...] | None:
    """The parts of the delimiter itself for empty strings, which are all empty, counted as one"""
    x, delimiter = value.inputs[0], attribute_of(value, "delimiter")
    if x is None or not splits_nothing(value):
        return None
    one, most = const(np.array(1)), attribute_of(value, "maxsplit")
    if most == 0:
        parts, found = op.Unsqueeze(x, [-1]), op.Expand(one, op.Shape(x))
    else:
        empty = op.Equal(x, const(np.array("", dtype=object)))
        filled = op.Where(empty, const(np.array(delimiter, dtype=object)), x)
        parts, counts = op.StringSplit(filled, delimiter=delimiter, maxsplit=most)
        found = op.Where(empty, one, counts)
    width = op.ReduceMax(op.Concat(op.Reshape(found, [-1]), const(np.array([0])), axis=0), [0])
    return op.Slice(parts, [0], width, [-1]), found


EXPANSIONS: Mapping[str, Callable[[Match, Value], Any]] = {"Gather": gather, "StringSplit": string_split}
