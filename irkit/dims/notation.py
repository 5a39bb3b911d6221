"""Dimensions as text, in Python's syntax, and back: `2*batch + 1`, `seq // 2`, `max(a, b)`, `"odd name"`."""

from __future__ import annotations

import ast
import json
import keyword
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy

from irkit import dims
from irkit.dims import Dim, reals
from irkit.dims.algebra import moderate
from irkit.dims.functions import FUNCTIONS
from irkit.dims.syntax import Reader, tree_of
from irkit.errors import DimensionError

_CALLS = {cls: name for name, cls in FUNCTIONS.items() if isinstance(cls, type)}
LIMIT = 1_000
"""An expression may expand to this many terms, of numbers of this many bits."""

_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 3, 4  # how tightly each form binds


def text(dim: Dim, names: Mapping[sympy.Symbol, str] | None = None) -> str:
    """The dimension in Python syntax; `parse` reads it back.

    `names` gives the names to print for some symbols; one that begins with `?` stands for an unknown dimension.
    """
    if type(dim) is int:
        return str(dim)
    if names is None and isinstance(dim, sympy.Symbol) and not dims.is_fresh(dim):
        return _symbol(dim.name)
    return _print(dim, names or {})[0]


def quoted_text(text: str) -> str:
    """The text in double quotes with JSON's escapes: one line, whatever it holds."""
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no file can hold as it is
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _symbol(name: str) -> str:
    # Python reads identifiers beyond ASCII in a normal form, which may be another name.
    plain = name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name not in FUNCTIONS
    return name if plain else quoted_text(name)


def _print(expr: Any, names: Mapping[sympy.Symbol, str]) -> tuple[str, int]:
    if expr in names:
        name = names[expr]
        return name if name.startswith("?") else _symbol(name), _ATOM
    if dims.is_fresh(expr):
        return "?", _ATOM
    if expr.is_Symbol:
        return _symbol(expr.name), _ATOM
    if expr.is_Integer:
        return str(int(expr)), _ATOM if expr >= 0 else _PRODUCT
    if expr.is_Rational:
        return f"{expr.p}/{expr.q}", _PRODUCT
    if expr.is_Number:
        return repr(float(expr)), _ATOM
    if isinstance(expr, sympy.Add | sympy.Mul | sympy.Pow):
        return _arithmetic(expr, names)
    if isinstance(expr, (dims.FloorDiv, dims.Mod)):
        sign = " // " if isinstance(expr, dims.FloorDiv) else " % "
        return _within(expr.args[0], names, _PRODUCT) + sign + _within(expr.args[1], names, _POWER), _PRODUCT
    if type(expr) in _CALLS:
        arguments = [_print(a, names)[0] for a in expr.args]
        # As the symbols may have been renamed, the order is that of the text: equal up to names, equal in text.
        arguments = sorted(arguments) if isinstance(expr, dims.Max | dims.Min) else arguments
        return f"{_CALLS[type(expr)]}({', '.join(arguments)})", _ATOM
    raise DimensionError(f"the expression {expr} has no text form", hint="use the functions of irkit.dims")


def _within(expr: Any, names: Mapping[sympy.Symbol, str], tight: int) -> str:
    body, level = _print(expr, names)
    return f"({body})" if level < tight else body


def _arithmetic(expr: Any, names: Mapping[sympy.Symbol, str]) -> tuple[str, int]:
    quotient = _quotient(expr, names)
    if quotient is not None:
        return quotient, _PRODUCT
    if isinstance(expr, sympy.Add):
        return _sum(expr, names), _SUM
    if isinstance(expr, sympy.Mul):
        return _product(expr, names), _PRODUCT
    if expr.exp == sympy.S.Half:
        return f"sqrt({_print(expr.base, names)[0]})", _ATOM
    return f"{_within(expr.base, names, _ATOM)}**{_within(expr.exp, names, _ATOM)}", _POWER


def _quotient(expr: Any, names: Mapping[sympy.Symbol, str]) -> str | None:
    """The text of what is divided, once and last, as all readers compute it exactly; None where nothing is."""
    top, bottom = reals.ratio(expr) or (expr, sympy.S.One)
    if bottom == 1 and not isinstance(expr, sympy.Add):
        top, bottom = reals.fraction(expr)
    if bottom == 1:
        return None
    return f"{_within(top, names, _PRODUCT)}/{_within(bottom, names, _POWER)}"


def _sum(expr: Any, names: Mapping[sympy.Symbol, str]) -> str:
    terms: list[tuple[bool, bool, str, bool]] = []
    for term in expr.args:
        negative = term.could_extract_minus_sign()
        part = -term if negative else term
        divides = isinstance(part, dims.FloorDiv | dims.Mod)  # -a // 2 would be (-a) // 2
        terms.append((term.is_number, negative, _within(part, names, _PRODUCT), divides))
    out = ""
    for _, negative, body, divides in sorted(terms):
        if out:
            out += (" - " if negative else " + ") + body
        else:
            out = (f"-({body})" if divides else f"-{body}") if negative else body
    return out


def _product(expr: Any, names: Mapping[sympy.Symbol, str]) -> str:
    coefficient, factors = expr.as_coeff_Mul()
    body = "*".join(sorted(_within(f, names, _POWER) for f in sympy.Mul.make_args(factors)))
    if coefficient == 1:
        return body
    if coefficient == -1:
        return f"-{body}"
    head = f"({coefficient.p}/{coefficient.q})" if coefficient.is_Rational and not coefficient.is_Integer else None
    return f"{head or text(dims.dim(int(coefficient)) if coefficient.is_Integer else coefficient)}*{body}"


def parse(source: str, symbols: Mapping[str, sympy.Symbol] | None = None) -> Dim:
    """The dimension that `text` printed; `symbols` gives the symbol for some names (signed ones, say).

    Raises DimensionError for what is not a dimension expression.
    """
    if len(source) > 10_000:
        raise DimensionError(
            "a dimension of more than 10,000 characters is refused", hint="use a symbol of its own for the size"
        )
    if source.isascii() and source.isidentifier() and not keyword.iskeyword(source):  # most are one name
        return moderate(dims.dim((symbols or {}).get(source) or dims.symbol(source)))
    try:
        tree = tree_of(source, "dimension expression")
        _cost(tree)
        found = sympy.sympify(_reader(symbols or {}).read(tree, source))
    except (TypeError, ValueError, RecursionError, MemoryError, ArithmeticError) as error:
        if isinstance(error, DimensionError):
            raise
        raise DimensionError(
            f"{source!r} is not a dimension expression",
            hint="write a name, a number, or both joined by + - * // %, max(...), min(...): 2*n + 1",
        ) from error
    if found.is_finite is False or found.is_integer is False or found.has(sympy.zoo, sympy.nan, sympy.oo):
        raise DimensionError(f"{source!r} is not an integer", hint="write whole numbers and names: 2*n + 1")
    return moderate(dims.dim(found))


def _cost(node: ast.AST) -> tuple[int, int]:
    """(terms, bits): bounds of how many terms the expanded expression has, and of how long its numbers are: the sum of
    their absolute values is at most 2**bits.

    Raises DimensionError where one is beyond the limit, in a part too.
    """
    found = _bounds(node)
    if max(found) > LIMIT:
        raise DimensionError(
            "a dimension expression that would expand to more than 1,000 terms or bits is refused",
            hint="use a symbol of its own for the size",
        )
    return found


def _bounds(node: ast.AST) -> tuple[int, int]:
    parts = [_cost(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    if isinstance(node, ast.Constant):
        return 1, node.value.bit_length() if type(node.value) is int else 64
    if not isinstance(node, ast.BinOp):
        return max([1, *(p[0] for p in parts)]), max([0, *(p[1] for p in parts)])
    (left, left_bits), (right, right_bits) = parts
    if isinstance(node.op, ast.Pow):
        power = node.right.value if isinstance(node.right, ast.Constant) and type(node.right.value) is int else 1
        times = min(abs(power), LIMIT)
        return math.comb(left + times - 1, times), max(left_bits, 1) * max(times, 1)
    if isinstance(node.op, ast.Add | ast.Sub):
        return left + right, max(left_bits, right_bits) + 1
    if isinstance(node.op, ast.Mult):
        return left * right, left_bits + right_bits
    # A remainder is one factor; what a quotient is divided by is multiplied where quotients stand in one another.
    return (1, right_bits) if isinstance(node.op, ast.Mod) else (left, left_bits + right_bits)


def _power(base: Any, exponent: Any) -> sympy.Expr:
    if exponent.is_number and abs(exponent) > 64:
        raise DimensionError(
            f"the power {exponent} is too large for a dimension",
            hint="use a smaller power, or a symbol of its own for the size",
        )
    return base**exponent


_BINARY: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: dims.FloorDiv, ast.Mod: dims.Mod, ast.Pow: _power,
    ast.Div: operator.truediv,  # pyright: ignore[reportUnknownMemberType]  # typeshed has none
}  # fmt: skip


def _of_parts(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda parts: function(*parts)


_FUNCTIONS = {name: _of_parts(function) for name, function in FUNCTIONS.items()}


def _reader(symbols: Mapping[str, sympy.Symbol]) -> Reader[Any]:
    """What makes expressions of sympy, with those symbols for some names."""
    return Reader(
        number=lambda number: sympy.Integer(number) if type(number) is int else sympy.Float(number),
        name=lambda name: symbols.get(name) or dims.symbol(name),
        operators=_BINARY,
        functions=_FUNCTIONS,
        negative=lambda operand: -operand,
    )
