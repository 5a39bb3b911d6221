"""What a rule gives back: values, as many as it replaces, of the types of those at all sizes that the graph allows; and
the line of its own code where it fails."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice, product
from pathlib import Path, PurePath
from typing import cast

from irkit import dims
from irkit.contract.sizes import check_sizes
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.origins import Origin
from irkit.core.types import Tensor, Tuple, Type, dims_of, map_dims, same_types, types_of
from irkit.core.vocabulary import PARAM
from irkit.dims import Dim
from irkit.dims.validation import apart
from irkit.errors import ContractError, DimensionError, RewriteError, TypeRuleError
from irkit.pattern import Pattern
from irkit.pattern.heads import describe
from irkit.rewriting.rules import Decline, Rule
from irkit.support.results import as_tuple
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

BELOW = 400
"""How many values below the one that is replaced are looked at for what their operators ask of sizes."""

IRKIT = str(Path(__file__).parents[1])
PYTHON = sysconfig.get_path("stdlib")
"""Where the files of irkit and of Python lie."""

SAME_TYPE = "give a value of the same element type and shape, or decline where it would be another"
"""What to try where a rule changes a type."""

LONGEST = 80
"""How many characters of what a rule returned are told."""

BROADCASTING = frozenset(
    ("Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater",
     "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "PRelu")
)  # fmt: skip
"""Operators of two operands, which broadcast."""


def contract_error(rule: Rule, value: Value, what: str, ir: str = "", hint: str = "") -> RewriteError:
    """The error for a rule that breaks its contract."""
    return RewriteError(f"the rule {rule.name} {what}", ir=ir or repr(value), source=str(value.origin), hint=hint)


def refuse_no_values(rule: Rule, roots: tuple[Value, ...], found: object, ir: str = "") -> None:
    """Raises RewriteError for what a rule returned that is neither a value for its root, nor a tuple of values where
    that has several results or where there are several `roots`."""
    root, several = roots[0], bool(rule.others)
    wanted = len(roots) if several else len(types_of(root.type))
    tupled = type(found) is tuple
    given: tuple[object, ...] = cast("tuple[object, ...]", found) if tupled else (found,)
    strange = [each for each in given if type(each) is not Value]
    takes_tuple = several or isinstance(root.type, Tuple)
    fits = takes_tuple and len(given) == wanted if tupled else not several
    hint = "return one value for each result, or decline('why')"
    if strange:
        what = f"returned {returned_text(given if tupled else given[0])}"
        if any(isinstance(each, Pattern) for each in strange):
            hint = "p.Relu(x) is a pattern, what is looked for: build values of the match by op.Relu(m.x)"
        elif wanted == 1:
            hint = "return a Value, or decline('why')"
    elif fits:
        return
    elif len(given) == wanted == 1:
        what, hint = "returned a tuple of one value, and replaces one", "return the value itself, without the comma"
    else:
        what = f"returned {len(given)} value{'s' * (len(given) != 1)} for {wanted} result{'s' * (wanted != 1)}"
    raise contract_error(rule, root, what, ir, hint)


def values_given(rule: Rule, roots: tuple[Value, ...], found: object, ir: str = "") -> tuple[Value, ...] | None:
    """What a rule returned for its roots, one value for each, or for each result of one that has several; None where it
    declined, or gave the roots themselves. Raises RewriteError as `refuse_no_values`."""
    if isinstance(found, Decline) or found is roots[0] or (rule.others and found == roots):
        return None
    refuse_no_values(rule, roots, found, ir)
    return as_tuple(cast("Value | tuple[Value, ...]", found))


def result_types(roots: tuple[Value, ...], made: tuple[Value, ...] | None) -> tuple[Type, ...]:
    """The types that what a rule made for its roots must have: theirs, or those of the results of one with several that
    it gives one by one."""
    types = tuple(root.type for root in roots)
    return types if made is None or len(made) == len(roots) else types_of(types[0])


def refuse_foreign_parameter(rule: Rule, root: Value, made: Iterable[Value], is_known: Callable[[Value], bool]) -> None:
    """Raises RewriteError where a rule built on a parameter that is not known."""
    if any(value.op == PARAM for value in walk.post_order(made, stop=is_known)):
        raise foreign_error(rule.name, root.origin)


def foreign_error(rule: str, origin: Origin) -> RewriteError:
    """The error for a rule that builds on a parameter of no graph, or of another."""
    return RewriteError(
        f"the rule {rule} built on a parameter that is not the graph's",
        source=str(origin),
        hint="build on what the match holds: m.x, and constants",
    )


def returned_text(found: object) -> str:
    """What a rule returned, in a few words."""
    if isinstance(found, Pattern):
        return f"the pattern {short_text(describe(found))}"
    if isinstance(found, tuple):
        return f"({', '.join(map(returned_text, cast('tuple[object, ...]', found)))})"
    return short_text(repr(found))


def short_text(text: str, longest: int = LONGEST) -> str:
    """A text, of which little enough is left to stand in a message."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def at_line(what: str, error: Exception, rule: Rule) -> str:
    """What went wrong, and the line of the rule's own code where it did."""
    line = failed_line(error, rule.function)
    return f"{what}, at {line}" if line else what


def failed_line(error: BaseException, function: Callable[..., object]) -> str:
    """`folder/rules.py:12: return op.Relu(m.x)`: the innermost line of the caller's own code that an error went
    through, neither irkit's nor a library's; without one, of the function's file; "" where none is known."""
    frames = traceback.extract_tb(error.__traceback__)
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    own = [f for f in frames if is_own(f.filename)] or [f for f in frames if f.filename == file]
    if not own:
        return ""
    found = own[-1]
    place = f"{'/'.join(PurePath(found.filename).parts[-2:])}:{found.lineno}"
    return f"{place}: {found.line}" if found.line else place


def is_own(file: str) -> bool:
    """Whether a file is neither irkit's, nor Python's, nor of an installed package."""
    return not file.startswith((IRKIT, PYTHON, "<frozen", "<attrs")) and "site-packages" not in PurePath(file).parts


def refused_error(rule: Rule, value: Value, error: TypeRuleError) -> RewriteError:
    """The error for a rule that builds what a type rule refuses."""
    what = at_line(f"builds a value that is refused: {error.what}", error, rule)
    return contract_error(
        rule, value, what, error.ir, hint="see the operands that the rule gives it, or decline where they do not fit"
    )


def refuse_other_type(rule: Rule, value: Value, new: Value, old: Type, graph: Graph) -> None:
    """Raises RewriteError where a rule gives a value that has another type than `old`, at some sizes that the graph,
    and the operators of what is replaced, allow."""
    same = same_types(new.type, old)
    if same is True:
        return
    if same is False:
        raise contract_error(rule, value, f"turns a {old!r} into a {new.type!r}", hint=SAME_TYPE)
    sizes = apart(dims_of(new.type), dims_of(old), graph.symbols, lambda at: is_allowed(graph, value, at))
    if sizes is not None:
        at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise contract_error(
            rule,
            value,
            f"turns a {old!r} into a {new.type!r}, which differ at {at}: {valued(old, sizes)!r} and "
            f"{valued(new.type, sizes)!r}",
            hint="decline unless the shapes are the same: hole('x', shape=('n', 'n')), or a predicate",
        )


def valued(type: Type, sizes: Mapping[str, int]) -> Type:
    """The type with numbers for its symbols, where they have one."""

    def number(dim: Dim) -> Dim:
        return dim if any(dims.label(s) not in sizes for s in dims.symbols_of(dim)) else dims.evaluate(dim, sizes)

    return map_dims(type, number)


def is_allowed(graph: Graph, value: Value, sizes: Mapping[str, int]) -> bool:
    """True where neither the graph's facts nor an operator below the value exclude the sizes, some of the graph's."""
    try:
        check_sizes(graph, sizes)
        if not any(map(partial(takes_sizes, graph), completions(graph, sizes))):
            return False
        below = islice(reversed(walk.post_order((value,))), BELOW)
        return all(takes(each, sizes) and exists(each, sizes) for each in below)
    except (ContractError, DimensionError):
        return False


def takes_sizes(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether the graph's facts take sizes."""
    try:
        check_sizes(graph, sizes)
    except (ContractError, DimensionError):
        return False
    return True


def completions(graph: Graph, sizes: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """The sizes with some for the names of which a fact speaks together with theirs, `min(m, n) >= 3` say."""
    texts = [fact.text for fact in graph.signature.facts]
    tied = [text for text in texts if any(name in text for name in sizes)]
    others = [name for name in graph.symbols if name not in sizes and any(name in text for text in tied)]
    for found in islice(product(OTHERS, repeat=len(others)), TRIED):
        yield {**sizes, **dict(zip(others, found, strict=True))}


OTHERS = (2, 1, 3, 40, *range(4, 13), 0, 16, 64)
"""Sizes that are tried for the names beside those at which two types differ."""
TRIED = 1000
"""How many combinations of these are tried."""


def exists(value: Value, sizes: Mapping[str, int]) -> bool:
    """False for a value with a dimension below 0 at these sizes: windows larger than what they are moved over."""
    known = (d for d in dims_of(value.type) if all(dims.label(s) in sizes for s in dims.symbols_of(d)))
    return all(dims.evaluate(d, sizes) >= 0 for d in known)


def takes(value: Value, sizes: Mapping[str, int]) -> bool:
    """False where an operator does not take operands of these sizes: those of a product, of a Concat, of a Pad.

    A Pad that cuts off more than there is gives another size than the one stated for it, and torch refuses it.
    """
    types = [v.type for v in value.inputs if v is not None and isinstance(v.type, Tensor)]
    if value.op == "Concat":
        axis = value.attribute("axis", 0) % max(1, len(types[0].shape))
        rows = [t.shape[:axis] + t.shape[axis + 1 :] for t in types]
        return all(equal(a, b, sizes) for row in rows[1:] for a, b in zip(rows[0], row, strict=False))
    if value.op == "Pad":
        return all(equal(given, stated, sizes) for given, stated in padded(value))
    if value.op in BROADCASTING and len(types) == 2:
        pairs = zip(reversed(types[0].shape), reversed(types[1].shape), strict=False)
        return all(equal(a, b, sizes) or equal(a, 1, sizes) or equal(b, 1, sizes) for a, b in pairs)
    if value.op in ("MatMul", "Gemm") and len(types) > 1 and types[0].shape and types[1].shape:
        a, b = types[0].shape, types[1].shape
        inner = a[0 if value.attribute("transA", 0) else -1]
        return equal(inner, b[-1 if value.attribute("transB", 0) else max(-2, -len(b))], sizes)
    return True


def padded(value: Value) -> Iterator[tuple[Dim, Dim]]:
    """(dimension by its operands, dimension of the result) for each axis that a Pad with constant numbers changes."""
    x, pads, *more = value.inputs
    axes = more[1] if len(more) > 1 else None
    if x is None or pads is None or pads.blob is None or (axes is not None and axes.blob is None):
        return
    named = range(x.rank) if axes is None or axes.blob is None else axes.blob.array.reshape(-1).tolist()
    for axis, added in zip(named, pads.blob.array.reshape(2, -1).sum(0).tolist(), strict=True):
        yield dims.add(x.shape[axis], added), value.shape[axis]


def equal(a: Dim, b: Dim, sizes: Mapping[str, int]) -> bool:
    """False where two dimensions, both of which have a value, have different ones."""
    if any(dims.label(s) not in sizes for d in (a, b) for s in dims.symbols_of(d)):
        return True
    return dims.evaluate(a, sizes) == dims.evaluate(b, sizes)
