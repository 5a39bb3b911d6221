"""Constant folding: an operator whose operands are constants is computed, where the result stays small.

Weights are never copied: a result with as many bytes as a weight is left to the runtime. A view of a weight (Reshape,
Transpose, ...) becomes a constant that reads the weight's storage, when it is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np

from irkit.build import const, op
from irkit.core.blobs import Blob, transposed_blob
from irkit.core.ir import Value
from irkit.core.types import Tensor, Tuple, Type
from irkit.dims import are_numbers
from irkit.errors import EvaluateError
from irkit.evaluation.interpreter import apply
from irkit.evaluation.kernels.common import Content
from irkit.evaluation.kernels.table import DRAWS
from irkit.pattern import const as constant
from irkit.pattern import one_of
from irkit.pattern.language import OfConstants
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.rules.control_flow import CONTROL

LIMIT = 1 << 14
"""Results of up to this many elements are computed; so are larger ones that are no larger than their operands."""

UNKNOWN = "a constant is typed by a name of data, as torch types what is empty"

OPERANDS = 1 << 16
"""Operators of operands with more elements than this, taken together, are left to the runtime."""

EXACT = frozenset((
    "Add", "Sub", "Mul", "Div", "Mod", "Sqrt", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Max", "Min", "Clip",
    "Relu", "Cast", "CastLike", "Where", "Identity", "Not", "And", "Or", "Xor", "Equal", "Less", "Greater",
    "LessOrEqual", "GreaterOrEqual", "IsNaN", "IsInf", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot",
    "BitShift",
    "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Tile", "Slice", "Split", "Concat", "Gather",
    "GatherElements", "GatherND", "Pad", "Range", "ScatterElements", "ScatterND", "ConstantOfShape", "EyeLike", "Trilu",
    "OneHot", "NonZero", "Shape", "Size", "ArgMax", "ArgMin", "TopK", "ReduceMax", "ReduceMin", "Compress",
    "DepthToSpace", "SpaceToDepth",
))  # fmt: skip
"""Operators that every implementation computes to the same bits."""


def folding_rule(name: str, limit: int, operands: int, ops: frozenset[str] | None = None) -> Rule:
    """The rule that computes operators of constants: those in `ops`, or all, of at most `limit` elements."""

    def fold(m: Match) -> Made:
        value = m.root
        if ops is not None and value.op not in ops:
            return decline("implementations may differ in the last bits")
        if value.op in DRAWS:
            return decline("it draws random numbers")
        if not all(v is None or not isinstance(v.type, Tensor) or are_numbers(v.type.shape) for v in value.inputs):
            return decline(UNKNOWN)
        if value.op == "DequantizeLinear":
            return decline("what is kept as integers stays so")
        if value.op == "Cast" and is_narrow_weight(value.inputs[0]):
            return decline("what is kept as integers stays so")
        if any(v is not None and v.blob is not None and v.blob.is_weight for v in value.inputs):
            return decline("what a weight holds is no property of the program")
        given = sum(v.blob.size for v in value.inputs if v is not None and v.blob is not None)
        if divides_by_zero(value):
            return decline("an integer is divided by 0, which the runtime refuses")
        if given > operands or not _is_small(value.type, max(limit, given)):
            return decline("the constant would be large")
        try:
            found = apply(value, [None if v is None else v.blob.array for v in value.inputs])  # type: ignore[union-attr]
        except EvaluateError as error:
            return decline(f"it cannot be computed: {error.what}")
        if isinstance(found, tuple):
            return tuple(const(np.asarray(each)) for each in cast("tuple[Content, ...]", found))
        made = const(np.asarray(found))
        return made if _is_small(made.type, max(limit, given)) else decline("the constant would be large")

    return Rule(name, OfConstants(), fold, True, "f(constants) -> constant", _sample)


def is_narrow_weight(value: Value | None) -> bool:
    """True for a named constant of several integers of at most 8 bits: a weight that somebody quantized."""
    blob = None if value is None else value.blob
    return blob is not None and bool(blob.name) and blob.dtype.is_integer and blob.dtype.bits <= 8 and blob.size > 1


def divides_by_zero(value: Value) -> bool:
    """True for a quotient or remainder of integers by a constant that holds a 0."""
    divisor = value.inputs[1] if value.op in ("Div", "Mod") and len(value.inputs) == 2 else None
    return (
        divisor is not None and divisor.blob is not None and divisor.dtype.is_integer and not divisor.blob.array.all()
    )


def _sample(rng: np.random.Generator) -> Value | None:
    """Some operator of some constants."""
    x, y = (const(rng.normal(size=(2, 3)).astype(np.float32)) for _ in range(2))
    makers = (
        lambda: op.Add(x, y), lambda: op.Transpose(x), lambda: op.Greater(x, y), lambda: op.Concat(x, y, axis=0),
        lambda: op.TopK(x, np.array([2]))[0].inputs[0], lambda: op.Cast(x, to=10), lambda: op.ReduceMax(x),
        lambda: op.Range(0, 7, 2), lambda: op.NonZero(x), lambda: op.Split(x, num_outputs=2)[0].inputs[0],
    )  # fmt: skip
    return makers[int(rng.integers(len(makers)))]()


def _is_small(type: Type, limit: int) -> bool:
    """False for a value that is not a tensor, or whose type says that it has more than `limit` elements."""
    if isinstance(type, Tuple):
        return all(_is_small(item, limit) for item in type.items)
    if not isinstance(type, Tensor):
        return False
    known = [d for d in type.shape if isinstance(d, int)]
    return math.prod(known) <= limit


fold_exact = folding_rule("fold_exact", LIMIT, OPERANDS, EXACT)
fold_constants = folding_rule("fold_constants", LIMIT, OPERANDS)


# ---------------------------------------------------------------------------------------------- views of weights


def viewed_constant(value: Value, shape: tuple[int, ...], view: Callable[[np.ndarray], np.ndarray]) -> Value:
    """A constant that reads another one through `view`, when it is loaded."""
    blob = value.blob
    if blob is None:
        raise EvaluateError(f"{value!r} is not a constant", hint="ask whether it has a blob first")
    return const(Blob(blob.dtype, shape, lambda: view(blob.read()), blob.name, of=(blob,)))


def transposed_constant(matrix: Value) -> Value:
    """A constant that reads a matrix transposed, and that knows of which matrix it is the transpose."""
    blob = matrix.blob
    if blob is None:
        raise EvaluateError(f"{matrix!r} is not a constant", hint="ask whether it has a blob first")
    return const(transposed_blob(blob))


@rule(one_of("Transpose")(constant("c").once()))
def turn_weight(m: Match) -> Made:
    """Transpose(weight) -> a constant that reads the weight transposed, if nothing else uses the weight"""
    perm = m.root.attribute("perm") or tuple(reversed(range(m.c.rank)))
    if tuple(perm) == (1, 0):
        return transposed_constant(m.c)
    if not are_numbers(m.root.shape):
        return decline(UNKNOWN)
    return viewed_constant(m.c, m.root.shape, lambda array: np.transpose(array, perm))


@rule(one_of("Reshape", "Squeeze", "Unsqueeze", "Flatten")(constant("c").once(), constant("axes", optional=True)))
def view_weight(m: Match) -> Made:
    """Reshape(weight) -> a constant that reads the weight in the other shape, if nothing else uses the weight"""
    shape = m.root.shape
    if not are_numbers(shape):
        return decline(UNKNOWN)
    return viewed_constant(m.c, shape, lambda array: array.reshape(shape))


EXACT_FOLDING: tuple[Rule, ...] = (*CONTROL, turn_weight, view_weight, fold_exact)
FOLDING: tuple[Rule, ...] = (*CONTROL, turn_weight, view_weight, fold_constants)
