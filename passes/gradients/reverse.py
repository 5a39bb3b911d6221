"""Reverse mode on graphs: a graph that computes results, and the gradients for its parameters or weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs

from irkit.build import op
from irkit.build.runtime import DEFINITIONS
from irkit.core import walk
from irkit.core.ir import Graph, Port, Value, item, param, require_graph
from irkit.core.types import Tensor, Tuple, same_types
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.errors import GraphError
from irkit.pattern import Hole
from irkit.rewriting.face import Made, Match, Rule, decline, rewrite
from irkit.support.uncollected import without_collector
from passes.gradients import activations, elementwise, images, indexing, linear_algebra, movement, network, reduction
from passes.gradients.bodies import LOOPS, through_if, through_loop, with_saved_trips
from passes.gradients.node import Node, is_float, num, zeros
from passes.legal.definitions import by_definition, own_written_out
from passes.legal.opsets.onnx_functions import by_function, operators_with_body
from passes.legal.opsets.operators import OLDER
from passes.legal.runtime.expansions import EXPANSIONS
from passes.whole_graph.outline import inline

RULES: Mapping[str, Callable[[Node], Any]] = MappingProxyType(
    {
        name.removeprefix("grad_"): rule
        for module in (activations, elementwise, images, indexing, linear_algebra, movement, network, reduction)
        for name, rule in vars(module).items()
        if name.startswith("grad_")
    }
)
"""The rule of each operator: a function from the node and the gradients for its results to those for its operands."""

FLAT = frozenset((
    PARAM, CONSTANT, SHAPE_VECTOR, "Shape", "Size", "ArgMax", "ArgMin", "Equal", "Less", "LessOrEqual", "Greater",
    "GreaterOrEqual", "And", "Or", "Not", "Xor", "IsNaN", "IsInf", "NonZero", "Range", "ConstantOfShape", "EyeLike",
    "RandomNormalLike", "RandomUniformLike", "RandomNormal", "RandomUniform", "Bernoulli", "Hardmax",
    "QuantizeLinear", "NonMaxSuppression",
))  # fmt: skip
"""Operators whose results do not hang on floats, or not smoothly: they pass no gradient on."""


@without_collector
def grad(graph: Graph, wrt: Iterable[str | Value] | None = None, *, of: str | int = 0, results: bool = True) -> Graph:
    """A graph that computes what `graph` does, and behind it the gradient of one of its results for each of `wrt`.

    Args:
        graph: any graph, loaded from a file too.
        wrt: parameters and weights (constants that have a name), by name or as values; None for all weights of floats,
            and for all parameters of floats where there is no weight. A weight becomes a parameter of that name, so
            that training can change it.
        of: the result, by name or position. Where it is no scalar the graph has a parameter more, `<name>.grad`: what
            the gradient for that result is.
        results: False leaves the results of `graph` out.

    The gradient of `x` is the result `x.grad`, of the type of `x`; zeros where the result does not hang on it.
    Operators without a rule of their own are written in others first, as ONNX or irkit define them. A Loop or Scan is
    run backwards, from what it carried into each trip, which it also gives then. Raises GraphError for operators that
    are neither, for a loop that carries values whose sizes change, for names that the graph does not have, and for what
    is no float.
    """
    require_graph(graph)
    plain = with_saved_trips(written_out(inline(with_ports(graph))))
    plain, chosen = with_parameters(plain, wrt)
    for value in chosen.values():
        if not is_float(value):
            raise GraphError(
                f"there is no gradient for a {value.type!r}", hint="ask for parameters and weights of floats"
            )
    names = [port.name for port in plain.signature.results]
    if isinstance(of, str) and of not in names:
        raise GraphError(f"the graph has no result {of!r}", hint=f"it has: {', '.join(names)}")
    place = names.index(of) if isinstance(of, str) else of
    target = plain.results[place]
    if not is_float(target):
        raise GraphError(
            f"the result {names[place]} is a {target.type!r}, which has no gradient",
            hint="ask for the gradient of a result of floats",
        )
    ports, params = list(plain.signature.params), list(plain.params)
    if target.shape:
        seed = param(target.type)
        ports.append(Port(f"{names[place]}.grad"))
        params.append(seed)
    else:
        seed = num(target, 1)
    found = gradients([target], [seed], list(chosen.values()))
    made = [zeros(x) if g is None else g for x, g in zip(chosen.values(), found, strict=True)]
    kept = list(zip(plain.signature.results, plain.results, strict=True)) if results else []
    return attrs.evolve(
        plain,
        params=tuple(params),
        results=(*(value for _, value in kept), *made),
        signature=attrs.evolve(
            plain.signature,
            params=tuple(ports),
            results=(*(port for port, _ in kept), *(Port(f"{name}.grad", "output") for name in chosen)),
        ),
    )


def with_ports(graph: Graph) -> Graph:
    """The graph with a name for each parameter and result, where it has none."""
    signature = graph.signature
    params = signature.params or tuple(Port(f"parameter_{i}") for i in range(len(graph.params)))
    results = signature.results or tuple(Port(f"result_{i}", "output") for i in range(len(graph.results)))
    return attrs.evolve(graph, signature=attrs.evolve(signature, params=params, results=results))


def with_parameters(graph: Graph, wrt: Iterable[str | Value] | None) -> tuple[Graph, dict[str, Value]]:
    """(the graph with asked-for weights as parameters, what is asked for by name)."""
    ports = zip(graph.signature.params, graph.params, strict=True)
    given = {port.name: value for port, value in ports}
    weights = {v.blob.name: v for v in graph.order if v.op == CONSTANT and v.blob is not None and v.blob.name}
    floats = {name: v for name, v in weights.items() if is_float(v)}
    if wrt is None:
        wrt = list(floats) or [name for name, value in given.items() if is_float(value)]
    elif isinstance(wrt, str | Value):
        raise GraphError(f"wrt is {wrt!r}", hint="give a list of names or values")
    by_value = {value: name for name, value in (*weights.items(), *given.items())}
    asked = [by_value.get(each, "") if isinstance(each, Value) else each for each in wrt]
    unknown = [name for name in asked if name not in given and name not in weights]
    if unknown:
        known = ", ".join([*given, *weights]) or "none"
        raise GraphError(f"the graph has no parameter or weight {unknown[0]!r}", hint=f"it has: {known}")
    fresh = {name: param(weights[name].type) for name in dict.fromkeys(asked) if name not in given}
    swaps = {weights[name]: value for name, value in fresh.items()}
    built = walk.rebuild(graph.results, swaps) if swaps else {}
    signature = graph.signature
    made = attrs.evolve(
        graph,
        params=(*graph.params, *fresh.values()),
        results=tuple(built.get(v, v) for v in graph.results),
        signature=attrs.evolve(signature, params=(*signature.params, *map(Port, fresh))),
    )
    return made, {name: fresh.get(name, given.get(name)) for name in dict.fromkeys(asked)}  # type: ignore[misc]


# ---------------------------------------------------------------------------------------------- the way back


def gradients(results: Sequence[Value], seeds: Sequence[Value], wrt: Sequence[Value]) -> list[Value | None]:
    """The gradients for values, given those for results; None where nothing flows to one."""
    order = walk.post_order(results)
    depends = set(wrt)
    for value in order:
        if value not in depends and value.op not in FLAT and any(v in depends for v in value.inputs):
            depends.add(value)
    flows: dict[Value, list[Value]] = {}
    for value, seed in zip(results, seeds, strict=True):
        flows.setdefault(value, []).append(seed)
    items: dict[Value, dict[int, list[Value]]] = {}
    found: dict[Value, Value] = {}
    for value in reversed(order):
        if value not in depends:
            continue
        arrived = flows.pop(value, [])
        several = items.pop(value, None)
        if not arrived and several is None:
            continue
        if value.op == ITEM:
            items.setdefault(value.inputs[0], {}).setdefault(value.attributes[0][1], []).extend(arrived)  # type: ignore[arg-type]
            continue
        slopes = slopes_of(value, arrived, several)
        if value in wrt:
            found[value] = slopes[0]
        if value.op == PARAM or value.op == CONSTANT:
            continue
        wanted = [v is not None and v in depends and carries(v) for v in value.inputs]
        for operand, wants, slope in zip(value.inputs, wanted, passed_back(value, slopes, wanted), strict=True):
            if wants and slope is not None:
                flows.setdefault(operand, []).append(conformed(value, operand, slope))  # type: ignore[arg-type]
    return [found.get(value) for value in wrt]


def carries(value: Value) -> bool:
    """Whether a gradient for a value is one: of a float, or of several results."""
    return isinstance(value.type, Tuple) or is_float(value)


def slopes_of(
    value: Value, arrived: Sequence[Value], several: Mapping[int, Sequence[Value]] | None
) -> tuple[Value, ...]:
    """The gradient for each result of a value: the sum of what arrived, zeros where nothing did."""
    if not isinstance(value.type, Tuple):
        return (summed(arrived),)
    given = several or {}
    last = max(given)
    made: list[Any] = []
    for index, type_ in enumerate(value.type.items):
        if index in given:
            made.append(summed(given[index]))
        elif isinstance(type_, Tensor) and type_.dtype.is_float and (index <= last or value.op in WHOLE):
            made.append(zeros(result_of(value, index)))
        else:
            made.append(None)
    if value.op not in WHOLE and value.op != "Dropout":
        made = made[: last + 1]
    return tuple(made)


WHOLE = frozenset(("Split", "If", *LOOPS))
"""Operators whose rules want a gradient for each result."""


def result_of(value: Value, index: int) -> Value:
    """Result number `index` of a value."""
    return item(value, index)


def summed(values: Sequence[Value]) -> Value:
    """The sum of gradients, in order."""
    total = values[0]
    for each in values[1:]:
        total = op.Add(total, each)
    return total


def passed_back(value: Value, slopes: tuple[Value, ...], wanted: Sequence[bool]) -> Sequence[Value | None]:
    """The gradients for the operands of a value. Raises GraphError for an operator without a rule."""
    node = Node(value, slopes)
    rule = RULES.get(value.op)
    if rule is not None:
        found = rule(node)
        return [*found, *[None] * (len(value.inputs) - len(found))]
    if value.op == "If":
        return through_if(node, wanted, gradients)
    if value.op in LOOPS:
        return through_loop(node, wanted, gradients)
    raise node.refuse(
        "there is no rule for it, nor a definition of it in operators that have one",
        hint="ask for gradients of what does not go through it, or write it in others (converters, irkit.rewrite)",
    )


def conformed(value: Value, operand: Value, slope: Value) -> Value:
    """A gradient as it is, with the type of its operand. Raises GraphError where it has another."""
    if same_types(slope.type, operand.type) is False:
        what = f"the gradient rule of {value.op} gives a {slope.type!r} for a {operand.type!r}"
        raise GraphError(
            what, ir=repr(value), source=str(value.origin), hint=f"report the graph: the rule of {value.op} is wrong"
        )
    return slope


# ---------------------------------------------------------------------------------------------- written in others


def written_out(graph: Graph) -> Graph:
    """The graph with operators that have no rule in others: as irkit defines ONNX Runtime's own, as ONNX defines its
    own, or as legalization writes them for runtimes that lack them."""
    names = sorted({*DEFINITIONS, *operators_with_body(), *EXPANSIONS, *OLDER} - {*RULES, *FLAT, CALL, "If", *LOOPS})

    def replaced(m: Match) -> Made:
        older = (function for _, function in OLDER.get(m.root.op, ()))
        for way in (by_definition, by_function, EXPANSIONS.get(m.root.op), *older):
            found = None if way is None else way(m, m.root)
            if found is not None:
                return found
        return decline("there is no definition of it")

    graph = own_written_out(graph)
    return rewrite(graph, Rule("write out for gradients", Hole("value", (), tuple(names)), replaced, False, ""))


__all__ = ["RULES", "grad", "gradients"]
