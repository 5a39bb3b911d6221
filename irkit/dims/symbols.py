"""Symbols: the names of sizes that vary, and those of sizes that nothing is known of."""

from __future__ import annotations

from functools import lru_cache

import sympy

from irkit.errors import DimensionError

CACHE = 1 << 16  # entries that a memo of sizes keeps; every memo is of a pure function


def symbol(name: str, signed: bool = False) -> sympy.Symbol:
    """The symbol called `name`: one non-negative integer (any integer where `signed`). The only maker of dimensions.

    Raises DimensionError for what is not text, or an empty one.
    """
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may give anything
        raise DimensionError(
            f"a dimension symbol needs a name, and {name!r} is not one", hint="leave it an int, or name it"
        )
    return _symbol(name, signed)


@lru_cache(maxsize=CACHE)
def _symbol(name: str, signed: bool) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=None if signed else True)


def fresh() -> sympy.Dummy:
    """A new symbol equal to no other: a dimension that nothing is known of."""
    return sympy.Dummy("unknown", integer=True, nonnegative=True)


def is_fresh(dim: int | sympy.Expr) -> bool:
    """True for a symbol made by `fresh`."""
    return isinstance(dim, sympy.Dummy)


def label(symbol: sympy.Symbol) -> str:
    """The name by which values and ranges of a symbol are looked up: its own, or a unique one for a fresh symbol."""
    return f"?{symbol.dummy_index}" if isinstance(symbol, sympy.Dummy) else symbol.name


def is_own(symbol: sympy.Symbol) -> bool:
    """True for a symbol that `irkit.symbol` or `irkit.fresh` made, or one that equals it."""
    if is_fresh(symbol):
        return bool(symbol.is_integer)
    return symbol.name != "" and symbol in (_symbol(symbol.name, False), _symbol(symbol.name, True))


def foreign(symbol: sympy.Symbol) -> DimensionError:
    """The error for a symbol that is not irkit's."""
    return DimensionError(
        f"{symbol} is a symbol of sympy's own, not the dimension {symbol}",
        hint=f'write irkit.symbol("{symbol.name}"), or the text "{symbol.name}"',
    )


@lru_cache(maxsize=64)
def text(expr: sympy.Basic) -> str:
    """An expression as it reads: sympy takes a while over a long one, which may fail at many sizes in a row."""
    return str(expr)
