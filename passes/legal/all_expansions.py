"""Every expansion of legalization as a rule, so that it can be checked, explained and listed as rules are.

Legalization calls the functions themselves (`passes.legal.legalize.expanded`); nothing else is stated here.
"""

from __future__ import annotations

import inspect

import attrs
from pyrsistent import pmap

from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.pattern import Hole
from irkit.rewriting.face import Made, Match, Rule, decline
from passes.analysis.expansions import Expansion
from passes.legal.legalize import FLOAT64, is_double
from passes.legal.opsets.onnx_functions import by_function, operators_with_body
from passes.legal.opsets.operators import OLDER, plain_reshapes
from passes.legal.runtime import draws, int64
from passes.legal.runtime.division import OVERFLOWS
from passes.legal.runtime.eighths import EIGHTHS
from passes.legal.runtime.empty import empty_rules
from passes.legal.runtime.expansions import EXPANSIONS
from passes.legal.runtime.misfused import fusion_rules
from passes.legal.runtime.slices import SLICES

Function = Expansion

COVERED = frozenset((
    "CastLike", "GroupNormalization", "SequenceMap", "SoftmaxCrossEntropyLoss", "Softplus",
    "MeanVarianceNormalization", "Swish",
))  # fmt: skip
"""Operators of which ONNX's definition is never taken."""


@attrs.frozen
class Expanded:
    """An expansion: its rule, and below which opset it is taken (0 for any that needs it)."""

    rule: Rule
    below: int = 0


EXACT = frozenset((
    "Shape", "Reshape", "Split", "Pad", "Relu", "Trilu", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot",
    "MaxPool", "Squeeze", "OptionalHasElement", "OptionalGetElement", "SequenceMap", "Where", "NonZero", "CastLike",
    "ConstantOfShape", "TensorScatter", "BitCast", *int64.EXPANSIONS,
))  # fmt: skip
"""Operators whose expansions keep every bit."""


def expansion(label: str, name: str, function: Function, below: int = 0, double: bool = False) -> Expanded:
    """The rule of one expansion, which declines where the function gives none. `double` leaves other element types
    to others."""

    def replaced(m: Match) -> Made:
        first = m.root.inputs[0] if m.root.inputs else None
        if double and not (first is not None and isinstance(first.type, Tensor) and first.dtype is DType.DOUBLE):
            return decline("it is not of float64")
        found = function(m, m.root)
        return decline("there is no expansion of it") if found is None else found

    doc = (inspect.getdoc(function) or "the same by other operators").partition("\n")[0]
    exact = name in EXACT and label != "define" and not double
    return Expanded(Rule(f"{label} {name}", Hole("value", (), (name,)), replaced, exact, f"{name} -> {doc}"), below)


def defined(m: Match, value: Value) -> Value | None:
    """ONNX's own definition, where legalization has no expansion of its own"""
    own = (FLOAT64.get(value.op) if is_double(value) else None, EXPANSIONS.get(value.op))
    return None if any(f is not None and f(m, value) is not None for f in own) else by_function(m, value)


def all_expansions() -> tuple[Expanded, ...]:
    """Those that legalization takes, by name, each under one of its own: `expand X` at any opset, `older X` below one,
    `double X` in float64, `define X` by ONNX's own definition, and the rules for what may be empty, or is fused
    wrongly."""
    drawn = frozenset(draws.EXPANSIONS)
    found = [expansion("expand", name, f) for name, f in EXPANSIONS.items() if name not in drawn]
    for name, rows in OLDER.items():
        found += [expansion("older", name, f, below) for below, f in rows]
    found += [expansion("double", name, f, double=True) for name, f in FLOAT64.items()]
    found += [expansion("define", name, defined) for name in operators_with_body() if name not in COVERED]
    plain = (*empty_rules(pmap()), *EIGHTHS, *OVERFLOWS, *fusion_rules(pmap()), *SLICES, plain_reshapes(pmap()))
    return tuple(sorted((*found, *map(Expanded, plain)), key=lambda each: each.rule.name))
