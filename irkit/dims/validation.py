"""What a dimension must be for a tensor to have it: an integer of irkit's symbols and functions, and not below 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice, product
from typing import Any

import sympy

from irkit import dims
from irkit.dims import Dim, Range, notation
from irkit.dims.functions import FUNCTIONS
from irkit.dims.symbols import CACHE, foreign, is_own
from irkit.dims.syntax import WRITTEN
from irkit.errors import DimensionError

HINT = 'give an int, a name such as "batch", an expression such as "2*batch + 1", or one over irkit.symbol("batch")'

INSTEAD: Mapping[str, str] = {
    "floor": "irkit.dims.floordiv(a, b)", "ceiling": "irkit.dims.ceildiv(a, b)", "Mod": "irkit.dims.mod(a, b)",
    "Max": "irkit.dims.maximum(a, b)", "Min": "irkit.dims.minimum(a, b)", "Abs": "irkit.dims.maximum(a, -a)",
}  # fmt: skip
"""What stands for functions of sympy's own."""

MOST = (1 << 63) - 1
"""The largest size that an ONNX file can say."""
TRIED = 512
"""At how many sizes an expression is computed to see whether it is an integer."""
PROBED = 10
"""At how many sizes two expressions are compared."""


def size_of(value: Any) -> Dim:
    """The canonical dimension that an int, a text or a sympy expression stands for.

    Raises DimensionError, with what to write, for what is not a dimension, has symbols or functions of sympy's own, is
    no integer at some size, or is below 0 at every size."""
    if type(value) is not int:
        if isinstance(value, str):
            value = symbol_or_expression(value)
        elif not isinstance(value, sympy.Basic) and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise DimensionError(f"{value!r} is not a dimension", hint=instead_of(value))
        value = checked(value) if isinstance(value, sympy.Basic) else int(value)
    if type(value) is int and not 0 <= value <= MOST:
        raise DimensionError(f"a size cannot be {value}", hint='name it: "n"')
    return value


def instead_of(value: Any) -> str:
    """What to write for something that is not a dimension."""
    if isinstance(value, list | tuple):
        return "give each dimension by itself: *shape"
    if isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    return 'name a size that is not known: "n"' if value is None else HINT


def symbol_or_expression(text: str) -> Dim | None:
    """The dimension that a text stands for. Raises DimensionError for what is neither a name nor an expression."""
    try:
        return notation.parse(text)
    except DimensionError as error:
        odd = f"for a symbol of that odd name, irkit.symbol({text!r})" if text.strip() else HINT
        raise DimensionError(error.what, hint=odd if error.hint == WRITTEN else error.hint) from error


@lru_cache(maxsize=CACHE)
def checked(expr: sympy.Basic) -> Dim:
    """The canonical form of an expression that may be a size. Raises DimensionError for any other."""
    found: Any = whole(expr)
    if type(found) is not int and found.is_nonpositive:
        raise DimensionError(f"the size {notation.text(found)} is never above 0", hint="turn its sign around")
    return found


@lru_cache(maxsize=CACHE)
def whole(expr: sympy.Basic) -> Dim:
    """The canonical form of an expression that is an integer, also below 0. Raises DimensionError for any other."""
    refuse_foreign(expr)
    found = dims.dim(expr)
    if type(found) is not int:
        refuse_fractions(found)
    return found


def number_of(value: Any) -> Dim:
    """The canonical dimension that an int, a text or a sympy expression stands for, also below 0: a place in a tensor.

    Raises DimensionError as `size_of` does.
    """
    if type(value) is int:
        return value
    found = symbol_or_expression(value) if isinstance(value, str) else value
    return whole(found) if isinstance(found, sympy.Basic) else dims.dim(found)


def refuse_foreign(expr: sympy.Basic) -> None:
    """Raises DimensionError for symbols and functions that irkit's algebra does not have."""
    for node in sympy.preorder_traversal(expr):
        if isinstance(node, sympy.Symbol):
            if not is_own(node):
                raise foreign(node)
        elif not isinstance(node, _OWN) or node in _ENDLESS:
            name = type(node).__name__
            hint = f"write {INSTEAD[name]}" if name in INSTEAD else HINT
            raise DimensionError(f"{node} is not a dimension: {name} is not a function of dimensions", hint=hint)


_FUNCTIONS = tuple(f for f in FUNCTIONS.values() if isinstance(f, type))
_OWN = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Number, dims.FloorDiv, dims.Mod, *_FUNCTIONS)
_ENDLESS = frozenset((sympy.oo, -sympy.oo, sympy.nan, sympy.zoo))


def refuse_fractions(expr: Any) -> None:
    """Raises DimensionError for an expression that is not an integer, or has no value, at some size."""
    if is_plain(expr):
        return
    if expr.is_number:
        raise DimensionError(f"the size {expr} is not an integer", hint=f"write {round(float(expr))}")
    for sizes in assignments(expr):
        try:
            number = dims.number_of(expr, sizes)
        except ZeroDivisionError:
            number = None
        if number is None or isinstance(number, complex) or abs(number - round(number)) > 1e-9:
            raise fraction(expr, sizes, number)


def fraction(expr: sympy.Expr, sizes: Mapping[str, int], number: Any) -> DimensionError:
    """The error for an expression that is not an integer at some sizes."""
    at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    value = "has no value" if number is None or isinstance(number, complex) else f"is {float(number):.4g}"
    top, bottom = expr.as_numer_denom()
    rounded: Any = dims.Floor(expr) if bottom == 1 else dims.floordiv(dims.dim(top), dims.dim(bottom))
    hint = f'write "{notation.text(rounded)}", which rounds down'
    if type(dims.dim(bottom)) is int and bottom != 1:
        hint += f', or name the part, "h", and write "{bottom}*h" for the whole'
    return DimensionError(f"the size {notation.text(expr)} {value} for {at}, which is not an integer", hint=hint)


def is_plain(expr: sympy.Basic) -> bool:
    """True where the form of an expression shows that it is an integer."""
    if expr.is_Symbol or expr.is_Integer:
        return True
    if isinstance(expr, dims.FloorDiv | dims.Mod | dims.Max | dims.Min):
        return all(map(is_plain, expr.args))
    if isinstance(expr, dims.Trunc | dims.Floor | dims.Ceil | dims.Round):
        return True  # of any number
    if isinstance(expr, sympy.Pow):
        return is_plain(expr.base) and is_plain(expr.exp) and bool(expr.exp.is_nonnegative)
    return isinstance(expr, sympy.Add | sympy.Mul) and all(map(is_plain, expr.args))


def assignments(expr: sympy.Expr) -> Iterator[dict[str, int]]:
    """Sizes for the symbols of an expression, the small ones first."""
    names = [dims.label(s) for s in dims.symbols_of(expr)]
    most = max(2, math.floor(TRIED ** (1 / max(1, len(names)))))
    yield from islice(
        (dict(zip(names, sizes, strict=True)) for sizes in product(range(1, most), repeat=len(names))), TRIED
    )


# ---------------------------------------------------------------------------------------------- two sizes

STEPS = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
Pairs = tuple[tuple[Dim, Dim], ...]
Known = tuple[tuple[str, Range], ...]
"""The symbols of two shapes, with the range of each."""


def apart(
    a: tuple[Dim, ...],
    b: tuple[Dim, ...],
    ranges: Mapping[str, Range],
    allowed: Callable[[Mapping[str, int]], bool] = lambda sizes: True,
) -> Mapping[str, int] | None:
    """Sizes in the ranges, and allowed, at which two shapes differ; None where they agree at all that are tried.
    Dimensions of which nothing is known agree with any."""
    pairs = tuple((x, y) for x, y in zip(a, b, strict=True) if x is not y and not (unknown(x) or unknown(y)))
    names = sorted({dims.label(s) for pair in pairs for d in pair for s in dims.symbols_of(d)})
    found = apart_at(pairs, tuple((name, ranges.get(name, Range())) for name in names))
    return next((sizes for sizes in map(dict, found) if allowed(sizes)), None)


@lru_cache(maxsize=CACHE)
def apart_at(pairs: Pairs, known: Known) -> tuple[tuple[tuple[str, int], ...], ...]:
    """All sizes of a few at which some pair differs."""
    return tuple(tuple(sizes.items()) for sizes in probes(known) if differ(pairs, sizes))


def probes(known: Known) -> Iterator[dict[str, int]]:
    """Sizes within ranges: all small, all equal, all different."""
    for attempt in range(PROBED):
        found: dict[str, int] = {}
        for place, (name, allowed) in enumerate(known):
            alike = attempt if attempt < 4 else STEPS[(place * 5 + attempt) % len(STEPS)]
            size = max(allowed.lo, 0) + alike
            found[name] = size if allowed.hi is None else min(size, allowed.hi)
        yield found


def unknown(dim: Dim) -> bool:
    """True where a symbol that nothing is known of stands in a dimension."""
    return type(dim) is not int and any(map(dims.is_fresh, dims.symbols_of(dim)))


def differ(pairs: Pairs, sizes: Mapping[str, int]) -> bool:
    """True where two dimensions have different values; one that has none is like any."""
    try:
        return any(dims.evaluate(x, sizes) != dims.evaluate(y, sizes) for x, y in pairs)
    except (DimensionError, ArithmeticError, ValueError, TypeError):
        return False
