"""torch's symbolic sizes as irkit dimensions, and its boolean expressions as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.dims import Dim, notation, reals, signs
from lowering.errors import LoweringError
from lowering.records.parts_in_order import parts_in_order, where_defined

_CALLS: Mapping[str, Any] = {
    "FloorDiv": dims.FloorDiv, "CleanDiv": dims.FloorDiv, "Mod": reals.remainder, "PythonMod": reals.remainder,
    "ModularIndexing": lambda x, y, z: dims.Mod(dims.FloorDiv(x, y), z),
    "Max": dims.Max, "Min": dims.Min, "CeilToInt": dims.Ceil, "FloorToInt": dims.Floor, "TruncToInt": dims.Trunc,
    "TruncToFloat": dims.Trunc, "RoundToInt": dims.Round, "ceiling": dims.Ceil, "floor": dims.Floor,
    "IntTrueDiv": reals.quotient, "FloatTrueDiv": reals.quotient, "ToFloat": lambda x: x,
    "PowByNatural": lambda a, b: a**b, "FloatPow": reals.power, "Identity": lambda x: x,
    "OpaqueUnaryFn_sqrt": reals.root, "LShift": lambda a, b: a * 2**b, "RShift": lambda a, b: dims.FloorDiv(a, 2**b),
    "Abs": lambda x: dims.Max(x, -x) if signs.is_whole(x) else sympy.Abs(x),
}  # fmt: skip
"""torch.utils._sympy.functions by name."""

_REALS: Mapping[Any, Any] = {sympy.Add: reals.total, sympy.Mul: reals.product}

_UNBACKED = re.compile(r"u\d+$|zu[fi]\d+$")

_ROUNDED = {"CeilToInt": "Ceil", "FloorToInt": "Floor", "TruncToInt": "", "RoundToInt": "Round"}
"""torch's ways from a number to an integer, as ONNX operators; a cast cuts off what is behind the point."""

_RELATIONS = {"Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
              "StrictGreaterThan": ">", "GreaterThan": ">="}  # fmt: skip


def is_unbacked(name: str) -> bool:
    """True for the names that torch gives to symbols that depend on data, `u0` and `zuf3`, and for `zui3`, which is
    rounded of one."""
    return _UNBACKED.match(name) is not None


def as_it_is(size: Any) -> Any:
    """The size."""
    return size


@attrs.frozen(eq=False)
class Sizes:
    """Translates torch's expressions, with the user's name for each of torch's symbols.

    `names` maps a torch symbol's name (`s77`) to the user's (`batch`); others keep torch's. `signed` holds the names of
    torch symbols that may be negative; `traced` says which size the symbols of inputs, by the user's names, had while
    torch traced; `settled` which of torch's symbols are one number; `relied` simplifies a size by what torch relied on;
    `in_use` gives the names of all of torch's symbols in the program. One expression gives one object every time it is
    asked for.
    """

    names: Mapping[str, str]
    signed: frozenset[str] = frozenset()
    traced: Mapping[str, int] = MappingProxyType({})
    relied: Callable[[Any], Any] = as_it_is
    in_use: Callable[[], Iterable[str]] = tuple
    settled: Mapping[str, int] = MappingProxyType({})
    _known: dict[Any, Any] = attrs.field(factory=dict, init=False, repr=False)
    _sizes: dict[Any, Any] = attrs.field(factory=dict, init=False, repr=False)  # by what torch may have replaced since
    _told: dict[Any, Any] = attrs.field(factory=dict, init=False, repr=False)
    _rounded: dict[Any, tuple[str, Any]] = attrs.field(factory=dict, init=False, repr=False)
    _made: list[Any] = attrs.field(factory=list, init=False, repr=False)

    def dim(self, size: Any) -> Dim:
        """The dimension that an int or a torch.SymInt stands for. Raises LoweringError for an unknown function."""
        if type(size) is int:
            return size
        node = getattr(size, "node", None)
        if node is None:
            return int(size)
        raw = node._expr
        if raw in self._sizes:
            return self._sizes[raw]
        found = self.number(node.expr)
        self._sizes[raw] = found
        return found

    def number(self, expr: Any) -> Any:
        """The int, dimension or real sympy expression that a torch sympy expression stands for."""
        if expr not in self._known:
            self._known[expr] = self.relied(dims.canonical(self._translate(expr)))
        return self._known[expr]

    def shape(self, sizes: Any) -> tuple[Dim, ...]:
        """The dimensions of a torch shape."""
        return tuple(self.dim(s) for s in sizes)

    def at_trace(self, dim: Dim) -> int | None:
        """The size that a dimension had while torch traced; None where it depends on data."""
        if any(s.name not in self.traced for s in dims.symbols_of(dim)):
            return None
        return dims.evaluate(dim, self.traced)

    def symbol(self, expr: Any) -> Any:
        """The irkit symbol for a torch symbol; one of a number that is not an integer is not a dimension."""
        if not expr.is_integer:
            return sympy.Symbol(self.names.get(expr.name, expr.name), real=True)
        return dims.symbol(self.names.get(expr.name, expr.name), signed=expr.name in self.signed)

    def tell(self, expr: Any, number: Any) -> None:
        """Takes a real number for one of torch's expressions, of which torch has lost where it is rounded. Raises
        LoweringError where it has put one expression for two numbers."""
        if self._told.setdefault(expr, number) != number:
            raise LoweringError(
                f"torch takes {notation.text(number)} and {notation.text(self._told[expr])} for one number",
                hint="compute them in the same order in the model",
            )
        self._known.clear()
        self._sizes.clear()

    def _translate(self, expr: Any) -> Any:
        if expr in self._told:
            return self._told[expr]
        if expr.is_Symbol:
            return sympy.Integer(self.settled[expr.name]) if expr.name in self.settled else self.symbol(expr)
        if expr.is_Number or expr.is_NumberSymbol:
            return expr
        if is_number_of_truth(expr):
            return self._translate(expr.args[0].cond.args[0])
        args = [self._translate(arg) for arg in expr.args]
        kind = type(expr)
        if kind in _REALS and not all(map(reals.is_exact, args)):
            return reduce(_REALS[kind], args)
        if kind in (sympy.Add, sympy.Mul, sympy.Pow):
            return kind(*args)
        if kind.__name__ in _ROUNDED and any(not s.is_integer for s in args[0].free_symbols):
            return self._integer(_ROUNDED[kind.__name__], args[0])
        call = _CALLS.get(kind.__name__)
        if call is None:
            raise LoweringError(
                f"the size expression {expr} uses {kind.__name__}, which irkit cannot express",
                hint="compute the size otherwise in the model, or fix it: leave it out of dynamic_shapes",
            )
        return call(*args)

    def _integer(self, how: str, number: Any) -> Any:
        """A symbol for a rounded number of the data."""
        known = {made: symbol for symbol, made in self._rounded.items()}
        symbol = known.get((how, number), dims.symbol(f"zui{len(known)}", signed=True))
        self._rounded.setdefault(symbol, (how, number))
        return symbol

    def rounded(self, symbol: Any) -> tuple[str, Any] | None:
        """(ONNX operator, number) of a symbol that stands for a rounded number of the data; the operator is empty for
        one that is cut off. None for every other symbol."""
        return self._rounded.get(symbol)

    def symbol_of_data(self, *, whole: bool = True) -> Any:
        """A symbol such as torch makes for a number out of data, that stands nowhere in the program."""
        taken = {*self.in_use(), *self.names.values(), *(symbol.name for symbol in self._made)}
        kind = "u" if whole else "zuf"
        name = next(name for name in (f"{kind}{i}" for i in range(len(taken) + 1)) if name not in taken)
        self._made.append(sympy.Symbol(name, integer=True) if whole else sympy.Symbol(name, real=True))
        return self._made[-1]

    def condition(self, expr: Any) -> str:
        """A torch boolean expression as Python text over the user's symbols: `batch >= 4 and seq % 8 == 0`."""
        if expr in (sympy.true, sympy.false, True, False):
            return str(bool(expr))
        name = type(expr).__name__
        if name in _RELATIONS:
            a, b = (sympy.sympify(self.number(each)) for each in expr.args)
            left, right = notation.text(reals.side(a, b)), notation.text(reals.side(b, a))
            return f"{left} {_RELATIONS[name]} {right}"
        if name == "Or":
            *rest, last = parts_in_order(expr)
            return " or ".join(f"({self.condition(each)})" for each in (*map(where_defined, rest), last))
        if name == "And":
            return " and ".join(f"({self.condition(each)})" for each in parts_in_order(expr))
        if name == "Not":
            return f"not ({self.condition(expr.args[0])})"
        raise LoweringError(
            f"the condition {expr} uses {name}, which irkit cannot express",
            hint="compute the size otherwise in the model, or fix it: leave it out of dynamic_shapes",
        )


def inexact(number: Any) -> Any:
    """A number that torch holds as a float, in a form that is none of an integer: 1.0 for what `n / n` has become."""
    if isinstance(number, int) or getattr(number, "is_Integer", False):
        return float(number)
    return sympy.Float(1) * number if getattr(number, "is_integer", False) else number


def truth_symbol(expr: Any) -> Any:
    """The symbol s of `s == 1`, which is how torch writes the content of a scalar of bool; None for anything else."""
    if isinstance(expr, sympy.Eq) and expr.args[0].is_Symbol and expr.args[1] == 1:
        return expr.args[0]
    return None


def is_number_of_truth(expr: Any) -> bool:
    """True for 1 where `s == 1` holds and else 0: the content of a scalar of bool as a number, which is s."""
    if not isinstance(expr, sympy.Piecewise) or len(expr.args) != 2:
        return False
    (one, holds), (zero, otherwise) = ((part.expr, part.cond) for part in expr.args)
    return one == 1 and zero == 0 and otherwise == sympy.true and truth_symbol(holds) is not None
