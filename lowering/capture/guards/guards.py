"""What torch relied on while it traced, and the user's names for its symbols.

A guard is a relation over torch's symbols that must hold for the graph to be right: `s72 <= 8` after an
`if x.shape[0] > 8`. A program captured in this process still has its ShapeEnv, whose guards are expressions and know
the line that raised them; a program read from a file has only their text, which is parsed.
"""

from __future__ import annotations

import ast
import linecache
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import sympy
import torch
from torch.export import Dim

from irkit import dims
from irkit.dims import notation
from irkit.dims.ranges import LEAST
from irkit.dims.syntax import Conditions, Reader, tree_of
from lowering.capture.guards.comparisons import closed
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import Leaf, Place, free_name, value_of
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import line_of, short_path, trace_of
from lowering.records.torch_internals import torch_functions

TORCH = f"{Path(torch.__file__).parent}{os.sep}"
HERE = f"{Path(__file__).parents[2]}{os.sep}"
CONTENT = "(asserted of the content of a tensor)"
TRUTH = "a truth value that the model computes is True"
FALSEHOOD = "a truth value that the model computes is False"
Metas = Sequence[Any]  # for each leaf what torch recorded: a FakeTensor, a SymInt, a number


@attrs.frozen
class Guard:
    """A condition on the inputs that the graph relies on.

    `expr` is a sympy relation over torch's symbols, None where torch's text could not be read. `text` is torch's own
    rendering, `source` the line that asked, where known. `kind` is "guard" for what torch found while tracing,
    "assertion" for what the model itself asserts, "promise" for what the user said about names and torch did not need.
    """

    expr: Any
    text: str
    source: str = ""
    kind: str = "guard"

    @cached_property
    def is_of_data(self) -> bool:
        """Whether it hangs on a number that only data tells."""
        return any(is_unbacked(symbol.name) for symbol in getattr(self.expr, "free_symbols", ()))

    @property
    def is_before_a_run(self) -> bool:
        """Whether sizes and arguments alone decide it."""
        return self.expr is not None and not self.is_of_data


def size_of(meta: Any, axis: int) -> Any:
    """The size recorded for an axis of a leaf: an int, or torch's expression."""
    size = meta.shape[axis] if axis >= 0 else meta
    if not isinstance(size, torch.SymInt):
        return size
    expr = size.node.expr
    return int(expr) if expr.is_Integer else expr


def shape_env_of(metas: Iterable[Any]) -> Any:
    """The ShapeEnv that these values were recorded in; None where there is none."""
    for meta in metas:
        if isinstance(meta, torch.SymInt):
            return meta.node.shape_env
        mode = getattr(meta, "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            return mode.shape_env
    return None


def line_at(location: Any, inside_torch: bool = False) -> str:
    """`file.py:12 code` of a stack frame; empty for torch's own and for generated code.

    Where torch's own are asked for, they are said to be so: `in torch: file.py:12 code`.
    """
    if isinstance(location, str):  # dynamo has put it in words: `code  # file.py:12 in forward`
        code, _, place = location.rpartition("#")
        return f"{place.strip().partition(' in ')[0]} {code.strip()}"
    if location is None or location.filename.startswith(("<", HERE)):
        return ""
    own = location.filename.startswith(TORCH)
    if own and not inside_torch:
        return ""
    code = linecache.getline(location.filename, location.lineno or 0).strip()
    where = "in torch: " if own else ""
    return f"{where}{short_path(location.filename)}:{location.lineno} {code}"


def source_of_guard(sloc: Any, inside_torch: bool = False) -> str:
    """The user's line that a guard comes from; empty where all is torch's own, unless that will do."""
    found = [getattr(sloc, name, None) for name in ("maybe_user_loc", "framework_loc")]
    lines = [line_at(each) for each in found] + [line_at(each, True) for each in found if inside_torch]
    return next((line for line in lines if line), "")


# ---------------------------------------------------------------------------------------------------------------------
# Guards
# ---------------------------------------------------------------------------------------------------------------------


def guards_of(env: Any, code: Sequence[str], leaves: Sequence[Leaf], metas: Metas) -> list[Guard]:
    """The conditions on inputs that their types do not say already: in the types, equal sizes share a symbol, and fixed
    sizes are numbers."""
    own = bool(getattr(env, "guards", None)) and (getattr(env, "frozen", False) or not code)
    found = guards_of_env(env) if own else guards_of_code(code, leaves, metas)  # one of a file has those of its reading
    unique: dict[Any, Guard] = {}
    for guard in found:
        guard = attrs.evolve(guard, expr=over_sizes(guard.expr))
        if guard.expr not in (sympy.true, True):
            unique.setdefault(guard.text if guard.expr is None else guard.expr, guard)
    return list(unique.values())


def over_sizes(expr: Any) -> Any:
    """The relation over symbols that may be 0. sympy takes those of torch for positive."""
    found = getattr(expr, "free_symbols", ())
    return expr.xreplace({s: number(s.name) for s in found if s.is_positive and s.is_integer}) if found else expr


def number(name: str) -> Any:
    """A symbol for a size that may be 0."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def guards_of_env(env: Any) -> list[Guard]:
    """The guards of a ShapeEnv over the symbols of inputs, simplified by all that torch has learnt since."""
    sources = getattr(env, "var_to_sources", None) or env.source_to_var
    guards = []
    for guard in env.guards:
        if guard.expr.free_symbols <= set(sources):
            expr = env.replace(guard.expr)
            guards.append(Guard(expr, str(expr), source_of_guard(getattr(guard, "sloc", None))))
    return guards


def guards_of_code(code: Sequence[str], leaves: Sequence[Leaf], metas: Metas) -> list[Guard]:
    """The guards in torch's text, as in `L['x'].size()[0] <= 8`, with the sizes that were recorded for those dimensions
    put in."""
    sizes: dict[str, Any] = {}
    for i, (leaf, meta) in enumerate(zip(leaves, metas, strict=True)):
        for source in (leaf.source, f"L['flat_args'][{i}]"):  # the latter in strict mode
            if isinstance(meta, torch.Tensor):
                sizes |= {f"{source}.size()[{axis}]": size_of(meta, axis) for axis in range(meta.dim())}
            elif isinstance(meta, torch.SymInt):
                sizes[source] = size_of(meta, -1)
    # Longer names first: L['x'][1] begins like L['x'][1][0].
    named = {name: f"size_{i}" for i, name in enumerate(sorted(sizes, key=len, reverse=True))}
    values = {short: sympy.sympify(sizes[name]) for name, short in named.items()}
    guards = []
    for text in code:
        short = text.replace("\n", "")
        for name, each in named.items():
            short = short.replace(name, each)
        try:
            expr = read(short, values)
        except (LookupError, TypeError, ValueError):
            expr = None
        guards.append(Guard(expr, str(text if expr is None else expr)))
    return guards


OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.FloorDiv: torch_functions.FloorDiv, ast.Mod: torch_functions.Mod,
}  # fmt: skip
RELATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: sympy.Eq, ast.NotEq: sympy.Ne, ast.Lt: sympy.Lt, ast.LtE: sympy.Le, ast.Gt: sympy.Gt, ast.GtE: sympy.Ge,
}  # fmt: skip


def read(text: str, values: Mapping[str, Any]) -> Any:
    """torch's text of a guard as sympy. Raises LookupError, TypeError or ValueError for what is not known here."""
    sizes: Reader[Any] = Reader(
        number=sympy.sympify,
        name=values.__getitem__,
        operators=OPERATORS,
        functions={"max": lambda v: torch_functions.Max(*v), "min": lambda v: torch_functions.Min(*v)},
        negative=operator.neg,
    )
    relations: Conditions[Any] = Conditions(
        sides=sizes.read,
        compared=lambda kinds, sides: sympy.And(
            *(RELATIONS[k](a, b) for k, (a, b) in zip(kinds, pairwise(sides), strict=True))
        ),
        joined=lambda parts, either: (sympy.Or if either else sympy.And)(*parts),
        negated=sympy.Not,
        known=lambda flag: sympy.true if flag else sympy.false,
    )
    return relations.read(tree_of(text, "condition"), text)


def assertions_of(module: torch.fx.GraphModule, lines: Mapping[str, str]) -> list[Guard]:
    """What the graph asserts at run time: of sizes and numbers as relations, each with its line in `lines` or else
    the one that the number comes from; of whole tensors by the message alone."""
    found = []
    for node in module.graph.nodes:
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        line = line_of(trace_of(node))
        if name in ("_assert_async.default", "_assert_async.msg"):
            message = node.args[1] if len(node.args) > 1 else "all is true"
            found.append(Guard(None, f"{message} {CONTENT}", line, "assertion"))
        elif name == "_assert_scalar.default" and is_truth(node.args[0]):
            found.append(Guard(None, TRUTH, line, "assertion"))
        elif name == "_assert_scalar.default":
            asserted = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else node.args[0]
            expr = closed(asserted.node.expr if isinstance(asserted, torch.SymBool) else sympy.sympify(asserted))
            told = str(node.args[1] if len(node.args) > 1 else expr)
            found.append(Guard(expr, told, lines.get(normal(expr)) or line, "assertion"))
    return found


def is_truth(node: Any) -> bool:
    """True for the comparison of a computed truth value with 1, which torch records simply as True."""
    if not isinstance(node, torch.fx.Node) or node.target is not operator.eq or node.args[1] != 1:
        return False
    number = node.args[0]
    return isinstance(number, torch.fx.Node) and number.target is torch.sym_ite and number.args[1:] == (1, 0)


def normal(expr: Any) -> str:
    """A condition as text, the same for each of the ways in which torch can say it."""
    expr = closed(expr)
    if not isinstance(expr, sympy.core.relational.Relational):
        return str(expr)
    said: Any = expr.canonical
    sides = (int(a) if a.is_Float and float(a).is_integer() else a for a in said.args)
    return " ".join(map(str, (type(said).__name__, *sides)))


def ranges_of(constraints: Mapping[Any, Any], env: Any) -> dict[str, tuple[int, int | None]]:
    """torch symbol -> (least, greatest) size, or number; None where unbounded above, `LEAST` where below.

    Symbols that torch replaced are left out.
    """
    replaced = getattr(env, "replacements", {})
    return {
        symbol.name: (LEAST if (low := bound(span.lower)) is None else low, bound(span.upper))
        for symbol, span in constraints.items()
        if isinstance(symbol, sympy.Symbol) and symbol not in replaced
    }


def bound(value: Any) -> int | None:
    """An end of torch's range as an int; None for infinity."""
    return int(value) if getattr(value, "is_Integer", False) or isinstance(value, int) else None


# ---------------------------------------------------------------------------------------------------------------------
# Names
# ---------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Names:
    """The user's names for torch's symbols.

    `symbols` maps every symbol of the inputs to a name, made up where the user gave none. `equal` maps a name that
    torch found to be equal to something else to that: another name, or an expression. `promises` are the relations
    between torch's symbols that follow from the user's names and that torch did not find itself.
    """

    symbols: Mapping[str, str]
    equal: Mapping[str, str]
    promises: tuple[Guard, ...]


def names_of(places: Sequence[Place], leaves: Sequence[Leaf], metas: Metas, defaults: Mapping[str, str]) -> Names:
    """Names for the symbols of the inputs. A symbol's first name stays, in the order of the inputs."""
    symbols: dict[str, str] = {}
    equal: dict[str, str] = {}
    promises: list[Guard] = []
    first: dict[str, Any] = {}
    plain = [place for place in places if place.is_plain]
    sizes = [(place, size_of(metas[place.leaf], place.axis)) for place in plain]
    for place, size in sizes:
        if isinstance(size, sympy.Symbol):
            symbols.setdefault(size.name, place.expr.name)
    for place in places:
        if not place.is_plain:
            name_root(place, size_of(metas[place.leaf], place.axis), symbols)
    name_others(leaves, metas, symbols, defaults)
    for place, size in sizes:
        name = place.expr.name
        known = first.setdefault(name, size)
        if known != size:
            promises.append(Guard(sympy.Eq(known, size), f"{name} is one size", kind="promise"))
        shown = printed(size, symbols)
        if shown != name:
            equal.setdefault(name, shown)
    for place in places:
        size, values = (
            size_of(metas[place.leaf], place.axis),
            {n: s for n, s in first.items() if isinstance(s, sympy.Expr)},
        )
        if not place.is_plain and all(symbol.name in values for symbol in dims.symbols_of(place.expr)):
            said = value_of(place.expr, values)
            if said != size and sympy.expand(said - size) != 0:
                promises.append(Guard(sympy.Eq(said, size), place.text, kind="promise"))
        elif not place.is_plain and isinstance(size, sympy.Symbol):
            promises += [Guard(expr, place.text, kind="promise") for expr in multiples(place, size, values)]
        promises += limits(place, size)
    return Names(symbols, equal, tuple(promises))


def limits(place: Place, size: Any) -> list[Guard]:
    """What the range of a `Dim` says of the size that its dimension has in the program."""
    size = over_sizes(size)
    ends = [(sympy.Ge(size, place.least), f"{place.text} >= {place.least}")] if place.least else []
    ends += [(sympy.Le(size, place.most), f"{place.text} <= {place.most}")] if place.most is not None else []
    return [Guard(end, text, kind="promise") for end, text in ends if getattr(end, "free_symbols", ())]


def news(promises: Sequence[Guard], ranges: Mapping[str, tuple[int, int | None]]) -> list[Guard]:
    """The promises that add something to the ranges of torch's symbols."""
    return [guard for guard in promises if not follows(guard.expr, ranges)]


def follows(relation: Any, ranges: Mapping[str, tuple[int, int | None]]) -> bool:
    """True where `a*s + b <= c`, or `>=`, holds for every size that its one symbol may have."""
    if not isinstance(relation, sympy.Le | sympy.Ge) or len(relation.free_symbols) != 1:
        return False
    symbol: Any = next(iter(relation.free_symbols))
    slope: Any = sympy.diff(relation.lhs, symbol)
    if not slope.is_number or symbol.name not in ranges:
        return False
    low, high = ranges[symbol.name]
    worst = low if (slope > 0) is isinstance(relation, sympy.Ge) else high
    return worst is not None and relation.xreplace({symbol: sympy.Integer(worst)}) == sympy.true


def multiples(place: Place, size: Any, values: Mapping[str, Any]) -> list[Any]:
    """What `2*k + n` says of a size, where the name k is a whole size nowhere: it is n, or n + 2, or n + 4."""
    (unknown, *more) = [symbol for symbol in dims.symbols_of(place.expr) if symbol.name not in values]
    expr: Any = place.expr
    slope, start = expr.coeff(unknown, 1), expr.xreplace({unknown: sympy.Integer(0)})
    linear = slope.is_Integer and dims.same(expr, dims.add(dims.mul(unknown, int(slope)), start)) is True
    if more or not linear or slope < 1:
        return []
    least = value_of(start, values)
    found = [sympy.Eq(torch_functions.Mod(size - least, slope), 0)] if slope > 1 else []
    return found if least == 0 else [*found, sympy.Ge(size, least)]


def name_root(place: Place, size: Any, symbols: dict[str, str]) -> None:
    """Names the symbol behind a dimension such as `2*k`, where k is a whole size nowhere: `k` is s5 where torch has
    `2*s5`."""
    roots = dims.symbols_of(place.expr)
    unnamed = [s for s in getattr(size, "free_symbols", ()) if s.name not in symbols]
    if len(roots) == len(unnamed) == 1 and roots[0].name not in symbols.values():
        if isinstance(size, sympy.Symbol):
            symbols[size.name] = free_name(place.text, ())
        elif value_of(place.expr, {roots[0].name: unnamed[0]}) == size:
            symbols[unnamed[0].name] = roots[0].name


def name_others(leaves: Sequence[Leaf], metas: Metas, symbols: dict[str, str], defaults: Mapping[str, str]) -> None:
    """Names every other symbol after the first dimension that it is: `x_dim_0`."""
    taken = set(symbols.values())
    for leaf, meta in zip(leaves, metas, strict=True):
        axes = range(meta.dim()) if isinstance(meta, torch.Tensor) else (-1,) if isinstance(meta, torch.SymInt) else ()
        for axis in axes:
            size = size_of(meta, axis)
            if isinstance(size, sympy.Symbol) and size.name not in symbols:
                label = "".join(c if c.isalnum() else "_" for c in leaf.name)
                name = defaults.get(size.name) or (f"{label}_dim_{axis}" if axis >= 0 else label)
                while name in taken:
                    name += "_"
                taken.add(name)
                symbols[size.name] = name


def printed(size: Any, symbols: Mapping[str, str]) -> str:
    """A recorded size in the user's names."""
    if isinstance(size, int):
        return str(size)
    named = size.xreplace({s: dims.symbol(symbols.get(s.name, s.name)) for s in size.free_symbols})
    try:
        return notation.text(named)
    except ValueError:
        return str(named)


def names_in_env(env: Any) -> dict[str, str]:
    """The names that torch itself still knows of a program's symbols: those of `torch.export.Dim`."""
    known = getattr(env, "source_name_to_debug_name", None) or {}
    sources = getattr(env, "var_to_sources", None) or {}
    return {
        symbol.name: known[source.name]
        for symbol, found in sources.items()
        for source in found
        if isinstance(source.name, str) and known.get(source.name, "").isidentifier()
    }


# ---------------------------------------------------------------------------------------------------------------------
# Dimensions that did not stay dynamic
# ---------------------------------------------------------------------------------------------------------------------


def frozen_places(
    places: Sequence[Place], leaves: Sequence[Leaf], metas: Metas, guards: Sequence[Guard]
) -> list[Place]:
    """The named dimensions that are one number in the program, or that its guards allow no size but 0 and 1."""
    frozen = []
    for place in places:
        size = size_of(metas[place.leaf], place.axis)
        if isinstance(size, int) or (is_small(leaves[place.leaf], place.axis) and not allows_more(size, guards)):
            frozen.append(place)
    return frozen


def settled_by(guards: Sequence[Guard]) -> dict[str, int]:
    """{symbol: number} for each of torch's symbols that the guards leave one number only.

    With one row in an example torch may go on as if there could be more, and find out only later that a 1 broadcasts.
    """
    found: dict[str, int] = {}
    for guard in guards:
        if isinstance(guard.expr, sympy.Eq) and guard.kind == "guard":
            sides: tuple[Any, ...] = guard.expr.args
            found |= {a.name: int(b) for a, b in (sides, sides[::-1]) if a.is_Symbol and b.is_Integer}
    return found


def is_small(leaf: Leaf, axis: int) -> bool:
    """True where the example has size 0 or 1 in this dimension."""
    size = leaf.value.shape[axis] if axis >= 0 else leaf.value
    return isinstance(size, int) and size <= 1


def allows_more(size: Any, guards: Sequence[Guard]) -> bool:
    """True where the guards about this one symbol hold for at least one of many sizes above 1."""
    own = {size, number(getattr(size, "name", ""))}
    conditions = [guard.expr for guard in guards if guard.expr is not None and len(guard.expr.free_symbols) == 1
                  and guard.expr.free_symbols <= own]  # fmt: skip
    return any(all(holds_for(expr, dict.fromkeys(own, sympy.Integer(n))) for expr in conditions) for n in range(2, 66))


def holds_for(expr: Any, sizes: Mapping[Any, Any]) -> bool:
    """True where a relation holds with these sizes for its symbols; False where it has no value for them."""
    try:
        return bool(at_sizes(expr, sizes) == sympy.true)
    except ArithmeticError:
        return False


def at_sizes(expr: Any, sizes: Mapping[Any, Any]) -> Any:
    """A relation or size with these sizes in place of symbols. Raises ArithmeticError where it is undefined for them:
    it divides by 0, or torch's `Mod` meets a negative number."""
    try:
        return expr.xreplace(dict(sizes))
    except AssertionError as error:
        raise ArithmeticError(f"{expr} is undefined for {dict(sizes)}") from error


def example_of_symbols(leaves: Sequence[Leaf], metas: Metas) -> dict[Any, Any]:
    """torch symbol -> its size in the example inputs."""
    found: dict[Any, Any] = {}
    for leaf, meta in zip(leaves, metas, strict=True):
        axes = range(meta.dim()) if isinstance(meta, torch.Tensor) else (-1,) if isinstance(meta, torch.SymInt) else ()
        for axis in axes:
            size = size_of(meta, axis)
            if isinstance(size, sympy.Symbol):
                found[size] = sympy.Integer(leaf.value.shape[axis] if axis >= 0 else leaf.value)
    return found


def broken_by(
    sizes: Mapping[Any, Any], guards: Sequence[Guard], ranges: Mapping[str, tuple[int, int | None]]
) -> Guard | None:
    """The first guard that does not hold for these sizes of torch's symbols; a range counts as one."""
    by_name = {symbol.name: size for symbol, size in sizes.items()}
    for guard in guards:
        expr: Any = sympy.true if guard.expr is None else guard.expr
        if expr.xreplace({s: by_name[s.name] for s in expr.free_symbols if s.name in by_name}) == sympy.false:
            return guard
    for symbol, size in sizes.items():
        low, high = ranges.get(symbol.name, (0, None))
        if size < low or (high is not None and size > high):
            return Guard(sympy.Ge(symbol, low), f"{symbol} is from {low} to {high}")
    return None


def frozen_error(place: Place, leaves: Sequence[Leaf], metas: Metas, env: Any) -> CaptureError:
    """The error for a dimension that was named, and for which the model has one size only; it shows the line that fixed
    it."""
    leaf = leaves[place.leaf]
    source = f"{leaf.source}.size()[{place.axis}]" if place.axis >= 0 else leaf.source
    where = f"dimension {place.axis} of {leaf.name!r}" if place.axis >= 0 else f"the number {leaf.name!r}"
    only = only_size(place, leaves, metas)
    line = line_that_fixed(source, env)
    inside = line.startswith("in torch: ")
    return CaptureError(
        f"{where} was to vary as {place.text!r}, and the model works for {only} only",
        source=line,
        hint="leave the dimension out of dynamic_shapes"
        + (
            ": an operator or module of torch takes this size only"
            if inside
            else ", or rewrite the line that asks for its value"
        ),
    )


def only_size(place: Place, leaves: Sequence[Leaf], metas: Metas) -> int:
    """The one size that the model works with at a place."""
    size = size_of(metas[place.leaf], place.axis)
    value = leaves[place.leaf].value
    return size if isinstance(size, int) else int(value.shape[place.axis] if place.axis >= 0 else value)


def fixed_places(
    said: Sequence[Any], places: Sequence[Place], leaves: Sequence[Leaf], metas: Metas, guards: Sequence[Guard]
) -> tuple[Fixed, ...]:
    """Every dimension and number that should vary, by its name or by a hint, and that does not: what it is, its size,
    and the line."""
    env = shape_env_of(metas)
    hints = [
        Place(i, axis, "", None)
        for i, leaf in enumerate(said)
        for axis, each in (leaf if isinstance(leaf, dict) else {-1: leaf}).items()
        if each in (Dim.AUTO, Dim.DYNAMIC) or (isinstance(each, type(Dim.AUTO)) and each.type != Dim.STATIC.type)
    ]
    found = []
    for place in [*frozen_places(places, leaves, metas, guards), *hints]:
        size = size_of(metas[place.leaf], place.axis)
        if place.text == "" and not isinstance(size, int) and getattr(size, "name", "") not in settled_by(guards):
            continue
        leaf = leaves[place.leaf]
        where = f"dimension {place.axis} of {leaf.name!r}" if place.axis >= 0 else f"the number {leaf.name!r}"
        what = f"{where}, which was to vary" + (f" as {place.text!r}," if place.text else ",")
        line = line_that_fixed(f"{leaf.source}.size()[{place.axis}]" if place.axis >= 0 else leaf.source, env)
        found.append(Fixed(what, only_size(place, leaves, metas), line))
    return tuple(found)


@attrs.frozen
class Fixed:
    """A dimension or a number that should vary and is one number in the program, with the line that fixed it."""

    what: str
    only: int
    source: str

    def __str__(self) -> str:
        return f"{self.what} is {self.only}"


def line_that_fixed(source: str, env: Any) -> str:
    """The line at which torch gave up on the symbol of this dimension, the user's if known; empty where none is."""
    for symbol, found in (getattr(env, "var_to_sources", None) or {}).items():
        if any(each.name == source for each in found):
            symbols = equal_symbols(symbol, env)
            known = getattr(env, "replacements_slocs", None) or {}
            places = [known.get(each) for each in symbols]
            places += [guard.sloc for guard in env.guards if not guard.expr.free_symbols.isdisjoint(symbols)]
            lines = [source_of_guard(each) for each in places]
            lines += [source_of_guard(each, inside_torch=True) for each in places[: len(symbols)]]
            return next((line for line in lines if line), "")
    return ""


def equal_symbols(symbol: Any, env: Any) -> list[Any]:
    """The symbol, and those that the user's names made equal to it, for which the model has no line."""
    found = [symbol]
    for each in found:
        pairs: list[Any] = [guard.expr.args for guard in env.guards if isinstance(guard.expr, sympy.Eq)]
        pairs.append((each, (getattr(env, "replacements", None) or {}).get(each)))
        for pair in pairs:
            if each in pair:
                found += [side for side in pair if isinstance(side, sympy.Symbol) and side not in found]
    return found
