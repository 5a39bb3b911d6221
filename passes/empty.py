"""Operators that ONNX Runtime fails on where a tensor has no elements, made right wherever a size may be 0.

Whether it may is read off the dimensions and off what the graph knows of its symbols: where every size is positive,
nothing changes. The size that is proved positive then stands in the types as `max(1, n)`, so that a graph is treated
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irkit import dims
from irkit.build import call, const, op
from irkit.dims import Dim, Range
from irkit.ir import Value
from irkit.pattern import hole, p
from irkit.rewrite import Match, Rule, Rules, decline
from irkit.types import Tensor, Tuple
from passes.rules.sizes import Sizes, bound_by, built, is_bound

Ranges = Mapping[str, Range]


def empty_rules(ranges: Ranges) -> Rules:
    """The rules for a graph, given what it knows of its symbols."""
    return (
        Rule("scan_of_nothing", hole("scan", ops=("Scan",)), lambda m: scanned(m, ranges), True,
             "Scan -> If(n > 0, Scan, start)"),
        Rule("product_of_no_batch", p.MatMul(hole("a", ops=("Transpose",)), hole("b")), lambda m: product(m, ranges),
             True, "MatMul(Transpose(x), y) -> Reshape(MatMul(Reshape(Transpose(x)), y))"),
    )  # fmt: skip


def is_positive(size: Dim, ranges: Ranges) -> bool:
    """True for a size that is certainly not 0."""
    return dims.bounds(size, ranges).lo > 0


# ---------------------------------------------------------------------------------------------- scans


def scanned(m: Match, ranges: Ranges) -> Any:
    """The Scan where there is something to scan; else the states as they began, and no rows"""
    value = m.root
    operands, captures = parted(value)
    taken = value.attribute("num_scan_inputs")
    states, sequences = operands[: len(operands) - taken], operands[len(operands) - taken :]
    given = value.attribute("scan_input_axes") or (0,) * taken
    axes = [axis % v.rank for v, axis in zip(sequences, given, strict=True)]
    size = sequences[0].shape[axes[0]]
    if is_positive(size, ranges):
        return decline("there is something to scan")
    types = [t for t in (value.type.items if isinstance(value.type, Tuple) else (value.type,)) if isinstance(t, Tensor)]
    sources = bound_by(*sequences, *states)
    if not is_bound(m, (size,), sources):
        return decline("nothing tells the size")

    def begin() -> tuple[Value, ...]:
        """Rows of a size that nothing tells are none either"""
        shapes = ([d if is_bound(m, (d,), sources) else 0 for d in t.shape] for t in types[len(states) :])
        rows = zip(types[len(states) :], shapes, strict=True)
        return (*map(op.Identity, states), *(op.Expand(const(0, t.dtype), built(m, s, 1, sources)) for t, s in rows))

    def steps() -> tuple[Value, ...]:
        some = [filled(m, v, axis) for v, axis in zip(sequences, axes, strict=True)]
        found = call("Scan", [*states, *some, *captures], {**dict(value.attributes), "body": value.bodies[0]})
        parts = found if isinstance(found, tuple) else (found,)
        ends = value.attribute("scan_output_axes") or (0,) * (len(parts) - len(states))
        rows = zip(parts[len(states) :], ends, strict=True)
        return (*parts[: len(states)], *(sized(m, v, size, axis % v.rank, sources) for v, axis in rows))

    if type(size) is int:
        made = begin()
        return made if isinstance(value.type, Tuple) else made[0]
    return op.If(op.Greater(built(m, (size,), 0, sources), const(0)), then_branch=steps, else_branch=begin)


def parted(value: Value) -> tuple[list[Value], list[Value]]:
    """(operands, captures) of a value with bodies"""
    inputs = [v for v in value.inputs if v is not None]
    count = len(inputs) - value.attribute("captures", 0)
    return inputs[:count], inputs[count:]


def filled(m: Match, x: Value, axis: int) -> Value:
    """x, whose axis is known not to be empty where this is computed, with a type that says so"""
    return sized(m, x, dims.maximum(x.shape[axis], 1), axis, bound_by(x))


def sized(m: Match, x: Value, size: Dim, axis: int, sources: Sizes) -> Value:
    """x with another expression for the size of one axis, which is not 0 (a 0 keeps the size of an axis)"""
    return op.Reshape(x, built(m, [size if i == axis else 0 for i in range(x.rank)], 1, sources))


# ---------------------------------------------------------------------------------------------- products


def product(m: Match, ranges: Ranges) -> Any:
    """One matrix of all rows times y: ONNX Runtime fuses the Transpose otherwise, and fails on batches of size 0"""
    a, b = m.a, m.b
    if b.rank != 2 or a.rank < 3 or all(is_positive(d, ranges) for d in a.shape[:-2]):
        return decline("there is a batch")
    flat, whole = (dims.product(a.shape[:-1]), a.shape[-1]), (*a.shape[:-1], b.shape[-1])
    if not is_bound(m, (*flat, *whole), bound_by(a, b)):
        return decline("nothing tells the sizes")
    rows = op.Reshape(a, built(m, flat, 1, bound_by(a)), allowzero=1)
    return op.Reshape(op.MatMul(rows, b), built(m, whole, 1, bound_by(a, b)), allowzero=1)
