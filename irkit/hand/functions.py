"""Python functions over values as graphs, with the names of their parameters and results."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias, cast, overload

from pyrsistent import pmap

from irkit import dims
from irkit.contract.as_json import names_of_condition
from irkit.contract.sizes import ENFORCED
from irkit.core import ir
from irkit.core.ir import Fact, Graph, Port, Signature, Value
from irkit.core.types import ELEMENT_NAMES, Type, dims_of
from irkit.dims import Range
from irkit.dims.conditions import holds
from irkit.errors import GraphError, TypeRuleError
from irkit.nodes.bodies import as_value
from irkit.support.arguments import brief
from irkit.support.counts import count_text
from irkit.text.types import type_of

Traceable: TypeAlias = Callable[..., Any]
"""A function of values that returns a value, or several in a tuple, a named tuple or a dictionary."""


def param(type: Type | str) -> Value:
    """A new parameter: a fresh identity of that type, which may be text: `param("f32[batch, 4]")`. Raises TypeRuleError
    for what is not a type of a value."""
    return ir.param(type_of(type))


@overload
def function(
    of: None = None,
    /,
    *,
    results: Iterable[str] = (),
    ranges: Mapping[str, Range] | None = None,
    facts: Iterable[str | Fact] = (),
    name: str = "",
    **types: Type | str,
) -> Callable[[Traceable], Graph]: ...
@overload
def function(
    of: Traceable,
    /,
    *,
    results: Iterable[str] = (),
    ranges: Mapping[str, Range] | None = None,
    facts: Iterable[str | Fact] = (),
    name: str = "",
    **types: Type | str,
) -> Graph: ...
def function(
    of: Traceable | None = None,
    /,
    *,
    results: Iterable[str] = (),
    ranges: Mapping[str, Range] | None = None,
    facts: Iterable[str | Fact] = (),
    name: str = "",
    **types: Type | str,
) -> Graph | Callable[[Traceable], Graph]:
    """The graph of what a Python function computes of values: `irkit.function(f, x="f32[n, 4]")`. It is called once,
    with a parameter for each of its own, of that name. Numbers and arrays that it returns become constants.

    Args:
        of: the function; without one, what turns one into a graph: `@irkit.function(x="f32[n, 4]")`, or
            `@irkit.function` where all types stand as annotations, `def f(x: "f32[n, 4]")`.
        results: names of the results; else those of a dictionary or named tuple that the function returns, or `output`
            for one, and `output_0`, `output_1` for several.
        ranges: what is known of sizes: `{"n": irkit.Range(1, 64)}`.
        facts: conditions on sizes that are kept: `("n % 8 == 0",)`; or those of another graph, `graph.signature.facts`.
        name: of the graph; that of the function, if not given.
        types: of the parameters, by name, as text or as an irkit type; they go before annotations. A parameter that has
            a default and no type stays what it is. One called as an argument here has its type as an annotation.

    Raises TypeRuleError for a parameter without a type and for what is no type; GraphError for what is no value among
    the results, for names that are not as many, and for values of elsewhere.
    """
    if of is None:
        return lambda f: traced(f, tuple(results), ranges or {}, tuple(facts), name, types)
    return traced(of, tuple(results), ranges or {}, tuple(facts), name, types)


def traced(
    of: Traceable,
    names: tuple[str, ...],
    ranges: Mapping[str, Range],
    facts: tuple[str | Fact, ...],
    name: str,
    types: Mapping[str, Type | str],
) -> Graph:
    """The graph of one call."""
    if not callable(of):
        raise TypeRuleError(f"{brief(of)} is no function", hint="write irkit.function(f, x='f32[n, 4]')")
    if isinstance(of, Graph):
        raise TypeRuleError("a graph is none to be traced", hint="call it, graph(x, y), in a function of values")
    wanted = parameter_types(of, types)
    params = {each: ir.param(type_) for each, type_ in wanted.items()}
    given: Any = called(of, params)
    found = results_of(given, names)
    ports = tuple(map(Port, params)), tuple(Port(each, "output") for each in found)
    known = {s.name for type_ in wanted.values() for d in dims_of(type_) for s in dims.symbols_of(d)}
    signature = Signature(*ports, conditions(facts, ranges, known))
    title = name or getattr(of, "__name__", "graph").strip("<>")
    return Graph(tuple(params.values()), tuple(found.values()), pmap(dict(ranges)), signature, title)


def conditions(facts: Iterable[str | Fact], ranges: Mapping[str, Range], sizes: Collection[str]) -> tuple[Fact, ...]:
    """The conditions on sizes among facts; what capture found of arguments says nothing of another graph. Raises
    GraphError for one about a size that there is none of, DimensionError for what is no condition."""
    found = tuple(each if isinstance(each, Fact) else Fact("relation", each) for each in facts)
    kept = tuple(fact for fact in found if fact.kind in ENFORCED)
    named = [(name, f"the range of {name}") for name in ranges]
    for fact in kept:
        holds(fact.text, {})  # which says what is wrong with it
        named += [(name, f"the condition {fact.text}") for name in names_of_condition(fact.text)]
    for name, what in named:
        if name not in sizes:
            raise GraphError(
                f"{what} is about {name!r}, which is no size of the parameters",
                hint=f"their sizes are {', '.join(sorted(sizes)) or 'numbers'}",
            )
    return kept


def called(of: Traceable, params: Mapping[str, Value]) -> Any:
    """What the function gives of its parameters, those that have no keyword by position."""
    kinds = inspect.signature(of).parameters
    plain = [value for name, value in params.items() if kinds[name].kind is inspect.Parameter.POSITIONAL_ONLY]
    return of(*plain, **{n: v for n, v in params.items() if kinds[n].kind is not inspect.Parameter.POSITIONAL_ONLY})


# ---------------------------------------------------------------------------------------------- types


def parameter_types(of: Traceable, given: Mapping[str, Type | str]) -> dict[str, Type]:
    """The type of each parameter that is a value. Raises TypeRuleError for one that has none, and for a type of a
    parameter that there is none of."""
    shown = getattr(of, "__name__", "the function")
    parameters = inspect.signature(of).parameters
    found: dict[str, Type] = {}
    for name, each in parameters.items():
        if each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise TypeRuleError(f"{shown} takes any number of values", hint="name each: lambda x, y: f(x, y)")
        type_ = given[name] if name in given else annotated_type(of, each.annotation)
        if type_ is not None:
            found[name] = type_of(type_)
        elif each.default is inspect.Parameter.empty:
            raise TypeRuleError(
                f"{shown} has a parameter {name} of no type",
                hint=f'write irkit.function({shown}, {name}="f32[n, 4]"), or an annotation: {name}: "f32[n, 4]"',
            )
    unknown = [name for name in given if name not in parameters]
    if unknown:
        raise TypeRuleError(
            f"{shown} has no parameter {unknown[0]!r}", hint=f"it has {', '.join(parameters) or 'none'}"
        )
    return found


def annotated_type(of: Traceable, annotation: object) -> Type | str | None:
    """What an annotation says of the type; None where it is not about one, as `irkit.Value` or `int`.

    With `from __future__ import annotations` an annotation is the text of what was written, and so quoted twice.
    """
    if isinstance(annotation, str):
        text = annotation
        if text[:1] in ("'", '"'):
            text = str(ast.literal_eval(text))
        if "[" not in text and "(" not in text:
            return None
        word = re.split(r"[\[(]", text, maxsplit=1)[0]
        return text if word in ELEMENT_NAMES or word in ("seq", "opt") else evaluated(of, text)
    is_type = hasattr(annotation, "__attrs_attrs__") and not isinstance(annotation, type)
    return cast("Type", annotation) if is_type else None


def evaluated(of: Traceable, text: str) -> Type | None:
    """The type that an expression stands for, `irkit.tensor("f32", "n")`, where the function was written; else None."""
    try:
        found = eval(text, dict(getattr(of, "__globals__", {})))
    except Exception:  # an annotation of something else, which nobody evaluates
        return None
    return found if hasattr(found, "__attrs_attrs__") else None


# ---------------------------------------------------------------------------------------------- results


def results_of(given: Any, names: tuple[str, ...]) -> dict[str, Value]:
    """The results by name. Raises GraphError for what is no value, and for names that are not as many."""
    if isinstance(given, Mapping):
        table = cast("Mapping[str, Any]", given)
        own, several = tuple(table), tuple(table.values())
    elif isinstance(given, tuple | list):
        several = tuple(cast("Iterable[Any]", given))
        own = tuple(getattr(cast("Any", given), "_fields", ())) or tuple(f"output_{i}" for i in range(len(several)))
    else:
        own, several = ("output",), (given,)
    chosen = names or own
    if len(chosen) != len(several) or len(set(chosen)) != len(chosen):
        raise GraphError(
            f"the function returns {count_text(len(several), 'value')}, and their names are "
            f"{', '.join(map(repr, chosen))}",
            hint='give each a name of its own: results=("mean", "variance")',
        )
    return {str(name): result_of(str(name), each) for name, each in zip(chosen, several, strict=True)}


def result_of(name: str, given: object) -> Value:
    """A result as a value. Raises GraphError for what is none."""
    if given is None or type(given) in (dict, Graph):
        raise GraphError(
            f"the function returns {brief(given)} as {name}, and no value", hint="return values, numbers or arrays"
        )
    return as_value(given)
