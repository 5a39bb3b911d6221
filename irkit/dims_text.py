"""Dimensions as text, in Python's syntax, and back: `2*batch + 1`, `seq // 2`, `max(a, b)`, `"odd name"`."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from typing import Any

import sympy

from irkit import dims
from irkit.dims import Dim
from irkit.errors import DimensionError

_CALLS = {cls: name for name, cls in dims.FUNCTIONS.items() if isinstance(cls, type)}
_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 3, 4  # how tightly each form binds


def text(dim: Dim, names: Mapping[Any, str] | None = None) -> str:
    """The dimension in Python syntax; `parse` reads it back. `names` gives the names to print for some symbols."""
    if type(dim) is int:
        return str(dim)
    if names is None and isinstance(dim, sympy.Symbol) and not dims.is_fresh(dim):
        return _symbol(dim.name)
    return _print(dim, names or {})[0]


def _symbol(name: str) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name) and name not in dims.FUNCTIONS
    return name if plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _print(expr: Any, names: Mapping[Any, str]) -> tuple[str, int]:
    if expr in names:
        return _symbol(names[expr]), _ATOM
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
    if isinstance(expr, sympy.Add):
        return _sum(expr, names), _SUM
    if isinstance(expr, sympy.Mul):
        return _product(expr, names), _PRODUCT
    if isinstance(expr, sympy.Pow):
        return f"{_within(expr.base, names, _ATOM)}**{_within(expr.exp, names, _ATOM)}", _POWER
    if isinstance(expr, (dims.FloorDiv, dims.Mod)):
        sign = " // " if isinstance(expr, dims.FloorDiv) else " % "
        return _within(expr.args[0], names, _PRODUCT) + sign + _within(expr.args[1], names, _POWER), _PRODUCT
    if type(expr) in _CALLS:
        return f"{_CALLS[type(expr)]}({', '.join(_print(a, names)[0] for a in expr.args)})", _ATOM
    raise DimensionError(f"the expression {expr} has no text form", hint="use the functions of irkit.dims")


def _within(expr: Any, names: Mapping[Any, str], tight: int) -> str:
    body, level = _print(expr, names)
    return f"({body})" if level < tight else body


def _sum(expr: Any, names: Mapping[Any, str]) -> str:
    terms = sorted(expr.args, key=lambda t: (t.is_number, t.could_extract_minus_sign(), str(t)))
    out = ""
    for term in terms:
        negative = term.could_extract_minus_sign()
        body = _within(-term if negative else term, names, _PRODUCT)
        out += (" - " if negative else " + ") + body if out else ("-" if negative else "") + body
    return out


def _product(expr: Any, names: Mapping[Any, str]) -> str:
    coefficient, factors = expr.as_coeff_Mul()
    parts = [_within(f, names, _POWER) for f in sorted(sympy.Mul.make_args(factors), key=str)]
    body = "*".join(parts)
    if coefficient == 1:
        return body
    if coefficient == -1:
        return f"-{body}"
    head = f"({coefficient.p}/{coefficient.q})" if coefficient.is_Rational and not coefficient.is_Integer else None
    return f"{head or text(dims.dim(int(coefficient)) if coefficient.is_Integer else coefficient)}*{body}"


def parse(source: str, symbols: Mapping[str, Any] | None = None) -> Dim:
    """The dimension that `text` printed; `symbols` gives the symbol for some names (signed ones, say).

    Raises DimensionError for what is no dimension expression.
    """
    if len(source) > 10_000:
        raise DimensionError("a dimension of more than 10,000 characters is refused")
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DimensionError(f"{source!r} is no dimension expression") from error
    return dims.dim(sympy.sympify(_read(tree, source, symbols or {})))


_BINARY: dict[type, Any] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: dims.FloorDiv, ast.Mod: dims.Mod, ast.Div: lambda a, b: a / b, ast.Pow: lambda a, b: a**b,
}  # fmt: skip


def _read(node: ast.AST, source: str, symbols: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return sympy.Integer(node.value) if type(node.value) is int else sympy.Float(node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return symbols.get(node.value) or dims.symbol(node.value)
    if isinstance(node, ast.Name):
        return symbols.get(node.id) or dims.symbol(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _read(node.left, source, symbols), _read(node.right, source, symbols)
        if isinstance(node.op, ast.Pow) and right.is_number and abs(right) > 64:
            raise DimensionError(f"the power in {source!r} is too large for a dimension")
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand, source, symbols)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in dims.FUNCTIONS:
        return dims.FUNCTIONS[node.func.id](*(_read(a, source, symbols) for a in node.args))
    raise DimensionError(f"{source!r} is no dimension expression", hint="write it like `2*batch + seq // 2`")
