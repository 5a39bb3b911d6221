"""Sequences of known length: their elements become values of the graph, and the sequence goes away."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, dtype_complaint, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.ops.schemas import spec
from irkit.pattern import attr, attribute_of, hole, p, rest
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import axes_of, vector

x = hole("x")

_built = p.SequenceConstruct(*rest("parts"))


def number_in(value: Value | None, absent: int) -> int:
    """The number that a constant holds: `absent` where there is no value, NOWHERE where it is not one known number."""
    if value is None:
        return absent
    return int(value.blob.array.reshape(-1)[0]) if value.blob is not None and value.blob.size == 1 else NOWHERE


NOWHERE = 1 << 40
"""No place in any sequence."""


def _part(sampler_size: int) -> Value:
    return param(Tensor(DType.FLOAT, (dims.symbol("n"), sampler_size)))


def _list(rng: np.random.Generator) -> Value:
    return op.SequenceConstruct(*(_part(3) for _ in range(3)))


@rule(p.SequenceAt(_built, constant("place")), sample=lambda rng: op.SequenceAt(_list(rng), int(rng.integers(-3, 3))))
def at_of_construct(m: Match) -> Made:
    """SequenceAt(SequenceConstruct(a, b), 1) -> b"""
    place = number_in(m.place, 0)
    if not -len(m.parts) <= place < len(m.parts):
        return decline("there is no such element")
    return m.parts[place]


@rule(p.SequenceLength(_built), sample=lambda rng: op.SequenceLength(_list(rng)))
def length_of_construct(m: Match) -> Made:
    """SequenceLength(SequenceConstruct(a, b)) -> 2"""
    return const(np.array(len(m.parts), dtype=np.int64))


def _joined(rng: np.random.Generator) -> Value:
    new = int(rng.random() < 0.5)
    return op.ConcatFromSequence(_list(rng), axis=int(rng.integers(-2, 2)), new_axis=new)


@rule(p.ConcatFromSequence(_built, axis=attr("axis"), new_axis=attr("new_axis")), sample=_joined)
def concat_of_construct(m: Match) -> Made:
    """ConcatFromSequence(SequenceConstruct(a, b)) -> Concat(a, b), of unsqueezed ones for a new axis"""
    if not m.new_axis:
        return op.Concat(*m.parts, axis=m.axis)
    rank = m.parts[0].rank + 1
    axis = m.axis % rank
    return op.Concat(*(op.Unsqueeze(v, vector([axis])) for v in m.parts), axis=axis)


def _inserted(rng: np.random.Generator) -> Value:
    place = int(rng.integers(-3, 4))
    return op.SequenceInsert(_list(rng), _part(3), *([] if rng.random() < 0.4 else [place]))


@rule(p.SequenceInsert(_built, x, constant("place", optional=True)), sample=_inserted)
def insert_into_construct(m: Match) -> Made:
    """SequenceInsert(SequenceConstruct(a, b), x, 1) -> SequenceConstruct(a, x, b)"""
    count = len(m.parts)
    place = number_in(m.place, count)
    place += count if place < 0 else 0
    if not 0 <= place <= count:
        return decline("there is no such place")
    return op.SequenceConstruct(*m.parts[:place], m.x, *m.parts[place:])


@rule(
    p.SequenceInsert(p.SequenceEmpty(dtype=attr("dtype")), x, constant("place", optional=True)),
    sample=lambda rng: op.SequenceInsert(op.SequenceEmpty(dtype=1), _part(3)),
)
def insert_into_empty(m: Match) -> Made:
    """SequenceInsert(SequenceEmpty(), x) -> SequenceConstruct(x)"""
    return op.SequenceConstruct(m.x)


def _erased(rng: np.random.Generator) -> Value:
    return op.SequenceErase(_list(rng), *([] if rng.random() < 0.4 else [int(rng.integers(-3, 3))]))


@rule(p.SequenceErase(_built, constant("place", optional=True)), sample=_erased)
def erase_from_construct(m: Match) -> Made:
    """SequenceErase(SequenceConstruct(a, b), 0) -> SequenceConstruct(b)"""
    count = len(m.parts)
    place = number_in(m.place, count - 1)
    place += count if place < 0 else 0
    if not 0 <= place < count or count < 2:
        return decline("there is no such place, or nothing would be left")
    return op.SequenceConstruct(*m.parts[:place], *m.parts[place + 1 :])


# ---------------------------------------------------------------------------------------------- cut into a sequence


def _split(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (dims.symbol("n"), 6)))
    kind = int(rng.integers(3))
    sizes = (2, [1, 2, 3], None)[kind]
    keep = int(rng.random() < 0.5) if sizes is None else 1
    return op.SplitToSequence(x, *([] if sizes is None else [np.array(sizes)]), axis=1, keepdims=keep)


def sizes_of(split: Value) -> tuple[int, ...] | None:
    """The sizes of the pieces that a SplitToSequence cuts; None where they are not known."""
    source = split.inputs[0]
    if source is None or not source.rank:
        return None
    size = source.shape[attribute_of(split, "axis") % source.rank]
    given = split.inputs[1] if len(split.inputs) > 1 else None
    if given is None:
        return (1,) * size if type(size) is int and size <= 64 else None
    found = axes_of(given)
    if found is None:
        return None
    if given.rank:
        return found if type(size) is int and sum(found) == size else None
    if type(size) is not int or found[0] < 1:
        return None
    whole, left = divmod(size, found[0])
    return (found[0],) * whole + ((left,) if left else ())


@rule(p.SplitToSequence(x, hole("sizes", optional=True), axis=attr("axis"), keepdims=attr("keep")), sample=_split)
def split_to_construct(m: Match) -> Made:
    """SplitToSequence(x, sizes) -> SequenceConstruct of the parts of a Split"""
    sizes = sizes_of(m.root)
    if not sizes or len(sizes) > 64:
        return decline("the number of parts is not known")
    if dtype_complaint(spec("SequenceConstruct"), (m.x.dtype,)):
        return decline("ONNX constructs no sequence of these elements")
    axis = m.axis % m.x.rank
    if len(sizes) == 1:
        parts: tuple[Value, ...] = (m.x,)
    else:
        parts = call("Split", [m.x, vector(sizes)], {"axis": axis}, outputs=len(sizes))
    if m.sizes is None and not m.keep:
        parts = tuple(op.Squeeze(v, vector([axis])) for v in parts)
    return op.SequenceConstruct(*parts)


SEQUENCES: tuple[Rule, ...] = (
    at_of_construct, length_of_construct, concat_of_construct, insert_into_construct, insert_into_empty,
    erase_from_construct, split_to_construct,
)  # fmt: skip
"""Sequences of a known length, without the sequence."""
