"""The contract of a graph as plain data: what another runtime must check before it runs the model.

Conditions and sizes are text: Python's syntax over the names of dimensions, with max, min, ceil, floor, trunc, round,
sqrt and double. docs/understand/contract.md describes the format.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from irkit import dims
from irkit.contract.least import LEAST, least_numbers
from irkit.contract.sizes import ENFORCED, names_of
from irkit.core.ir import Fact, Graph, Port, require_graph
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim, notation
from irkit.dims.algebra import line_of
from irkit.dims.syntax import names_in, tree_of
from irkit.errors import DimensionError

_LENGTH = re.compile(r"len\(.*\) == [0-9]{1,18}")
VERSION = 1
"""Of the format. A reader refuses a greater one."""


Json = dict[str, Any]
"""What JSON has of an object."""


def contract_of(graph: Graph) -> Json:
    """The contract of a graph, ready for `json.dumps`: inputs, outputs, dimensions, conditions, constants, state,
    and the outputs that tell whether conditions on the data held."""
    require_graph(graph)
    bound = bindings(graph)
    facts = graph.signature.facts
    checkable = [fact for fact in facts if fact.kind in ENFORCED and names_of_condition(fact.text) <= bound.keys()]
    results = graph.signature.results
    checks = [{"output": port.name, **checked(port, facts)} for port in results if port.role == "check"]
    seen = {check["text"] for check in checks}
    return {
        "format": "irkit.contract",
        "version": VERSION,
        "model": graph.name,
        "inputs": [
            {"name": name, "role": role_of(graph, i), **described(param.type)}
            for i, (name, param) in enumerate(zip(names_of(graph), graph.params, strict=True))
        ],
        "outputs": [
            {"name": port.name, "role": port.role, **described(value.type)}
            for port, value in zip(results, graph.results, strict=True)
        ]
        if len(results) == len(graph.results)
        else [described(value.type) for value in graph.results],
        "bind": bound,
        "ranges": {name: [allowed.lo, allowed.hi] for name, allowed in sorted(graph.symbols.items())},
        "guards": [condition(fact) for fact in checkable if fact.kind in ("guard", "runtime")],
        "relations": [condition(fact) for fact in checkable if fact.kind == "relation"],
        "least": [
            {"input": name, "least": number, "source": source}
            for name, (number, source) in least_numbers(graph).items()
        ],
        "baked": [baked(fact) for fact in facts if fact.kind == "baked"],
        "lengths": [length(fact) for fact in facts if is_length(fact)],
        "state": [{"input": port.binds, "output": port.name} for port in results if port.role == "state"],
        "checks": checks,
        "assumptions": [condition(fact) for fact in facts if fact.kind == "finite"],
        "unchecked": [
            condition(fact)
            for fact in facts
            if fact.kind not in ("baked", "finite", LEAST)
            and not is_length(fact)
            and fact not in checkable
            and fact.text not in seen
        ],
    }


def role_of(graph: Graph, index: int) -> str:
    """Whether a parameter is an input or state."""
    ports: tuple[Port, ...] = graph.signature.params
    return ports[index].role if index < len(ports) else "input"


def described(type_: Type | None) -> Json:
    """The element type, by numpy's name, and the shape of a tensor; the text of any other type."""
    if not isinstance(type_, Tensor):
        return {"type": repr(type_)}
    return {"dtype": dtype_name(type_.dtype), "shape": [size(dim) for dim in type_.shape]}


def dtype_name(dtype: DType) -> str:
    """numpy's name of an element type; `string` for strings."""
    return "string" if dtype is DType.STRING else str(dtype.numpy.name)


def size(dim: Dim) -> int | str | None:
    """A dimension as a number or as text; None where nothing is known of it."""
    if type(dim) is int:
        return dim
    return None if any(dims.is_fresh(symbol) for symbol in dims.symbols_of(dim)) else notation.text(dim)


def bindings(graph: Graph) -> dict[str, Json]:
    """For each dimension that inputs tell: the input, the axis (None: its number), and the value in terms of `size`."""
    found: dict[str, Json] = {}
    for port in graph.signature.params:
        if port.role == "input" and port.binds:
            found[port.binds] = {"input": port.name, "axis": None, "value": "size"}
    for name, axis, dim in axes_of(graph):
        solution = solved_symbol(dim)
        if solution is not None:
            found.setdefault(solution[0], {"input": name, "axis": axis, "value": solution[1]})
    return found


def axes_of(graph: Graph) -> Iterator[tuple[str, int, Dim]]:
    """(name, axis, dimension) of every axis of the tensor parameters."""
    for name, param in zip(names_of(graph), graph.params, strict=True):
        if isinstance(param.type, Tensor):
            for axis, dim in enumerate(param.type.shape):
                yield name, axis, dim


def solved_symbol(dim: Dim) -> tuple[str, str] | None:
    """(name, its value in terms of `size`) where a dimension is linear in one symbol; else None."""
    line = line_of(dim)
    if line is None or dims.is_fresh(line[0]):
        return None
    symbol, slope, offset = line
    value = "size" if not offset else f"(size {'-' if offset > 0 else '+'} {abs(offset)})"
    value = value.strip("()") if slope == 1 else f"{value} // {slope}"
    return symbol.name, value


def names_of_condition(text: str) -> frozenset[str]:
    """The names of the dimensions in a condition; the whole text where it is none."""
    try:
        return names_in(tree_of(text, "condition"))
    except DimensionError:
        return frozenset((text,))


def condition(fact: Fact) -> dict[str, str]:
    """A fact as its text and the user's line."""
    return {"text": fact.text, "source": fact.source}


def checked(port: Port, facts: Sequence[Fact]) -> dict[str, str]:
    """The condition that a boolean output tells of, with the user's line."""
    return next((condition(fact) for fact in facts if fact.text == port.binds), {"text": port.binds, "source": ""})


def baked(fact: Fact) -> Json:
    """A constant of the model: its name, and its value where JSON has it (else None); `text` is Python's form of it."""
    name, _, text = fact.text.partition(" == ")
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    plain = value if isinstance(value, bool | int | float | str) else None
    return {"name": name, "value": plain, "text": text}


def is_length(fact: Fact) -> bool:
    """True for a fact that says how long a list or tuple among the arguments is."""
    return fact.kind == "length" and _LENGTH.fullmatch(fact.text) is not None


def length(fact: Fact) -> Json:
    """How long a list or tuple among the arguments is."""
    name, _, count = fact.text.removeprefix("len(").partition(") == ")
    return {"name": name, "length": int(count)}
