"""Numbers and sizes that come out of data, where torch has put something else in their place.

`torch._check(mask.sum().item() == x.shape[0])` lets torch write the size wherever the number stood, and the comparison
itself becomes True. So do `draft_export`, which takes the number that the example has, and every operator that torch
lets pass only if two sizes are equal. Where a number is taken out of data, or a result gets its size from data, what
torch recorded is therefore looked at: unless it is a symbol of its own, that both are equal is a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx import Node

from irkit import dims
from irkit.build import op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT
from lowering.capture.deferred import line_of_stack
from lowering.capture.guards.guards import FALSEHOOD, TRUTH, source_of_guard
from lowering.errors import LoweringError
from lowering.fold.scope import Check, Scope, bind_symbols, settle_result
from lowering.records.sizes import is_unbacked, truth_symbol
from lowering.records.source_lines import line_of, trace_of
from lowering.records.torch_internals import HigherOrderOperator
from lowering.tensors.complex_pairs import is_complex, pair, parts
from lowering.tensors.promotion import cast, truth

BY_MASK = frozenset((torch.ops.aten.index.Tensor, torch.ops.aten.masked_select.default))
"""Operators whose result gets its size from their second operand."""


def number_is_own(scope: Scope, node: Node, value: Value, recorded: Any) -> bool:
    """Whether the number in a scalar has a symbol of its own, which it shall bind. Where torch recorded something else,
    the program gets the condition that the number is that."""
    raw, expr = written(recorded)
    if truth_symbol(expr) is not None or expr in (sympy.true, sympy.false):
        raw, expr = truth_symbol(raw), truth_symbol(expr) or sympy.Integer(expr == sympy.true)
    if is_own(scope, expr, (value,)):
        return True
    if is_known(scope, expr, (value,)) or value.op == CONSTANT:
        return False
    line = line_of_equality(node, recorded, raw)
    if isinstance(recorded, bool | torch.SymBool) and expr.is_Integer:
        flag = truth(value)
        flag = op.Reshape(flag, []) if flag.rank else flag
        check = Check(flag, TRUTH, line) if expr == 1 else Check(op.Not(flag), FALSEHOOD, line)
        scope.checks.append(check)
        return False
    symbol = raw if is_free(scope, raw, expr) else scope.sizes.symbol_of_data(whole=not isinstance(recorded, float))
    bind_number(scope, node, symbol, value)
    hold_equal(scope, symbol, expr, line)
    return False


def bind_number(scope: Scope, node: Node, symbol: Any, value: Value) -> None:
    """Makes a scalar the number that one of torch's symbols stands for."""
    ours = scope.sizes.symbol(symbol)
    if symbol.is_integer:
        bind(scope, node, ours, value)
    else:
        bind_float(scope, node, ours, value)


def bind_float(scope: Scope, node: Node, symbol: Any, value: Value) -> Value:
    """A scalar tensor as the float64 that a symbol stands for."""
    scope.numbers[symbol] = settle_result(scope, node, cast(value, DType.DOUBLE), None)
    return scope.numbers[symbol]


def bind_symbol(scope: Scope, node: Node, symbol: Any, value: Value) -> Any:
    """A symbol, whose binder a scalar tensor becomes: the symbol stands for its content."""
    bind(scope, node, symbol, value)
    return symbol


def bind(scope: Scope, node: Node, symbol: Any, value: Value) -> None:
    """Makes a scalar tensor the binder of the symbol that stands for its content."""
    if isinstance(symbol, sympy.Symbol) and symbol not in scope.binders:
        scalar = value if value.dtype is DType.INT64 else op.Cast(value, to=DType.INT64)
        scope.binders[symbol] = (
            settle_result(scope, node, op.Reshape(scalar, []) if value.rank else scalar, None),
            True,
        )


def sizes_of_data(scope: Scope, node: Node, result: Any, expected: Any) -> Any:
    """The type of a result, or of several, with a symbol for each size that data decides and for which torch recorded
    something else: that it is what torch recorded becomes a condition."""
    recorded = node.meta.get("val")
    if not is_sized_by_data(scope, node, recorded):
        return expected
    deciding = tuple(deciders(scope, node))
    own: dict[Any, Any] = {}

    def own_type(value: Any, known: Any, tensor: Any) -> Any:
        if not isinstance(value, Value) or not isinstance(value.type, Tensor) or not isinstance(known, Tensor):
            return known
        triples = zip(value.shape, known.shape, tensor.shape, strict=True)
        return Tensor(known.dtype, tuple(own_size(*each) for each in triples))

    def own_size(inferred: Any, known: Any, size: Any) -> Any:
        if not is_of_data(inferred) or inferred == known:
            return known
        raw, expr = written(size)
        if is_own(scope, expr, deciding) or is_known(scope, expr, deciding):
            return known
        if inferred not in own:
            own[inferred] = raw if is_free(scope, raw, expr) else scope.sizes.symbol_of_data()
        hold_equal(scope, own[inferred], expr, line_of_equality(node, size, raw))
        return scope.sizes.symbol(own[inferred])

    if isinstance(expected, tuple):
        return tuple(own_type(*each) for each in zip(result, expected, recorded, strict=True))  # type: ignore[arg-type]
    return own_type(result, expected, recorded)


def restate_sizes(scope: Scope, node: Node, result: Any, expected: Any) -> Any:
    """A result with the sizes that torch recorded for those that data decides: from here on they are these."""
    if isinstance(expected, tuple) and isinstance(result, tuple):
        return tuple(restate_sizes(scope, node, *each) for each in zip(result, expected, strict=True))
    if not isinstance(result, Value) or not isinstance(expected, Tensor) or result.type == expected:
        return result
    bind_symbols(scope, result)
    vector = shape_vector(expected.shape)
    new = pair(*(op.Reshape(each, vector) for each in parts(result))) if is_complex(result) else None
    return settle_result(scope, node, new or op.Reshape(result, vector), expected)


# ---------------------------------------------------------------------------------------------- what torch wrote


def written(recorded: Any) -> tuple[Any, Any]:
    """(the symbol or expression that torch made for a number or size, what it has put in its place since)"""
    node = getattr(recorded, "node", None)
    if node is None:
        found = sympy.sympify(recorded)
        return found, found
    return node._expr, node.expr


def is_own(scope: Scope, expr: Any, deciding: Sequence[Any]) -> bool:
    """Whether an expression is a symbol of data that nothing binds yet; what decides it is then remembered."""
    if not expr.is_Symbol or not is_unbacked(expr.name) or is_bound(scope, expr):
        return False
    scope.deciding.setdefault(expr, tuple(deciding))
    return True


def is_known(scope: Scope, expr: Any, deciding: Sequence[Any]) -> bool:
    """Whether an expression is a symbol that the very same operands bind: torch remembers what it took out of them."""
    return len(deciding) > 0 and scope.deciding.get(expr) == tuple(deciding)


def is_bound(scope: Scope, symbol: Any) -> bool:
    """Whether something binds one of torch's symbols already."""
    ours = scope.sizes.symbol(symbol)
    return ours in scope.binders or ours in scope.numbers


def is_free(scope: Scope, raw: Any, expr: Any) -> bool:
    """Whether torch's own symbol for a number can name it: it is one, torch replaced it, and nothing binds it yet."""
    return bool(
        raw is not None and raw.is_Symbol and raw != expr and is_unbacked(raw.name) and not is_bound(scope, raw)
    )


def is_of_data(size: Any) -> bool:
    """Whether a size is one that only data tells."""
    return isinstance(size, sympy.Symbol) and (dims.is_fresh(size) or is_unbacked(size.name))


def is_sized_by_data(scope: Scope, node: Node, recorded: Any) -> bool:
    """Whether the sizes of a node's results may come out of data."""
    target: Any = node.target
    if torch.Tag.dynamic_output_shape in getattr(target, "tags", ()):
        return True
    if isinstance(target, HigherOrderOperator):
        return True
    for each in recorded if isinstance(recorded, tuple | list) else (recorded,):
        for size in each.shape if isinstance(each, torch.Tensor) else ():
            raw = size.node._expr if isinstance(size, torch.SymInt) else None
            if raw is not None and raw.is_Symbol and is_unbacked(raw.name) and not is_bound(scope, raw):
                return True
    return False


def deciders(scope: Scope, node: Node) -> list[Any]:
    """The values of the operands that decide what sizes a result has."""
    position = 1 if node.target in BY_MASK else 0
    given = node.args[position] if len(node.args) > position else None
    nodes = given if isinstance(given, tuple | list) else [given]
    return [scope.read(each) for each in nodes if isinstance(each, Node)]


def line_of_equality(node: Node, recorded: Any, raw: Any) -> str:
    """The line by which torch learned what a number or size is; else the one that the number comes from."""
    env = getattr(getattr(recorded, "node", None), "shape_env", None)
    known = source_of_guard((getattr(env, "replacements_slocs", None) or {}).get(raw))
    if known:
        return known
    deferred = (getattr(env, "deferred_runtime_asserts", None) or {}).get(raw, ())
    lines = [line_of_stack(each.stack) for each in deferred if isinstance(each.expr, sympy.Eq)]
    return next(filter(None, lines), "") or line_of(trace_of(node))


def hold_equal(scope: Scope, symbol: Any, expr: Any, line: str) -> None:
    """Makes it a condition of the program that a number or size out of data is what torch recorded for it."""
    relation = sympy.Eq(symbol, expr, evaluate=False)
    try:
        text = scope.sizes.condition(relation)
    except LoweringError:
        text = str(relation)
    scope.checks.append(Check(relation, text, line))
    if not scope.closed:
        scope.guards.append((relation, line))
