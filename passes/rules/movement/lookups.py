"""Lookups that always give one number or one row: token types that are all 0, and tables read at one place."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attr, attribute_of, either, hole, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import is_known, same_shape

LARGEST = 1 << 16
"""Constants of more elements are not looked through for their one number."""


def _is_integral(value: Value) -> bool:
    return value.dtype.is_integer or value.dtype is DType.BOOL


def _sample(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.INT64, (batch, length)))
    table = const(np.full((1, 6), rng.integers(3), np.int64))
    kind = int(rng.integers(4))
    if kind == 3:
        places = param(Tensor(DType.INT64, (batch, 1)))
        wide = op.Expand(table, shape_vector((batch, 6), places))
        return op.GatherElements(wide, op.Mod(places, np.array(6)), axis=1)
    if kind == 0:
        return op.Slice(table, np.array([0]), shape_vector((length,), x), np.array([1]))
    places = const(rng.integers(0, 6, (1, 5)))
    if kind == 1:
        return op.GatherElements(table, places, axis=1)
    return op.Gather(table, places, axis=1)


_numbers = constant("data", where=_is_integral)
_data = either(_numbers, p.Expand(_numbers, hole("wide")))


@rule(one_of("Slice", "GatherElements", "Gather")(_data, *rest("more")), sample=_sample)
def look_up_number(m: Match) -> Made:
    """lookups and slices of integers that are one number throughout -> Expand(number)"""
    data = m.data
    if data.blob.size > LARGEST or data.blob.size == 0 or uniform(data) is None:
        return decline("the integers differ")
    shape = m.root.shape
    sources = [each for each in (sizes_held(v) for v in m.more) if each is not None]
    sources.append(bound_by(*(v for v in m.more if v is not None)))
    if not is_known(shape) or not is_bound(m, shape, *sources):
        return decline("a dimension is not bound")
    number = const(data.blob.array.reshape(-1)[0])
    return number if not shape else op.Expand(number, sizes_value(m, shape, 1, *sources))


def _rows(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    table = param(Tensor(DType.FLOAT, (3, 4)))
    x = param(Tensor(DType.FLOAT, (batch, length)))
    return op.Gather(table, op.Expand(np.int64(rng.integers(3)), shape_vector((batch, length), x)))


@rule(one_of("Gather")(hole("table"), p.Expand(constant("place", rank=0), hole("shape")).named("places")), sample=_rows)
def row_for_all(m: Match) -> Made:
    """Gather(x, Expand(number)) -> Expand(Gather(x, number))"""
    axis = attribute_of(m.root, "axis")
    shape, sources = m.root.shape, bound_by(m.table)
    found = sizes_held(m.shape)
    if axis % m.table.rank or found is None or not is_known(shape) or not is_bound(m, shape, sources, found):
        return decline("not along the first axis, or a dimension is not bound")
    size, place = m.table.shape[0], int(m.place.blob.array)
    if type(size) is not int or not -size <= place < size:
        return decline("there may be no such row")
    row = call("Gather", [m.table, m.place], {"axis": axis})
    return op.Expand(row, sizes_value(m, shape, 1, sources, found))


def _by_elements(rng: np.random.Generator) -> Value:
    length = dims.symbol("length")
    batch = dims.symbol("batch") if rng.random() < 0.5 else 1
    table: Value = param(Tensor(DType.FLOAT, (1, 6, 4)))
    places = op.Unsqueeze(op.Mod(param(Tensor(DType.INT64, (batch, length))), np.array(6)), [2])
    if batch != 1:
        table = op.Expand(table, shape_vector((batch, 6, 4), places))
    wide = op.Tile(places, [1, 1, 4]) if rng.random() < 0.5 else op.Expand(places, shape_vector((batch, length, 4)))
    return op.GatherElements(table, wide, axis=1)


_column = hole("column", rank=3)
_wide = either(p.Tile(_column, hole("times")).named("wide"), p.Expand(_column, hole("times")).named("wide"))


@rule(p.GatherElements(hole("tables"), _wide, axis=attr("axis")), sample=_by_elements)
def rows_of_table(m: Match) -> Made:
    """GatherElements(table, Expand(places)) -> Gather(table, places), for whole rows"""
    if m.tables.rank != 3 or m.wide.rank != 3 or m.axis % 3 != 1:
        return decline("not along the second of three axes")
    table: Value = m.tables.inputs[0] if m.tables.op in ("Expand", "Tile") else m.tables
    if table.rank != 3 or table.shape[0] != 1 or not same_shape(table.shape[1:], m.tables.shape[1:]):
        return decline("not one table for all")
    if m.column.shape[2] != 1 or not same_shape(m.wide.shape, (*m.column.shape[:2], table.shape[2])):
        return decline("not whole rows")
    return op.Gather(op.Squeeze(table, [0]), op.Squeeze(m.column, [2]))


NUMBERS: tuple[Rule, ...] = (look_up_number, row_for_all, rows_of_table)
"""Lookups of what is known to be one number, at one place, or of whole rows."""
