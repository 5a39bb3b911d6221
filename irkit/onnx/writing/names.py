"""Names for a graph whose values have none: assigned once, at the border, by a total function.

The rule, in order of who wins:

1. parameters of the graph keep the names of their ports exactly, in order;
2. then results keep theirs;
3. then weights (named blobs) keep theirs, those of bodies included;
4. then every other value is called after its origin's FX node, or else after its operator.

A name that is taken gets the suffix `_1`, `_2`, ...: the first that is free in the whole model, so that no inner scope
shadows an outer one. A public name given to two ports stays with the first. A port without a name is called `input` or
`output`. A result that is a parameter, a constant, or a result before gets an Identity of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

import attrs

from irkit.build.runtime.limits import needs_all_results
from irkit.core.blobs import SMALL, Blob
from irkit.core.ir import Graph, Port, Value
from irkit.core.types import Tuple, types_of
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM
from irkit.errors import SerializeError, TypeRuleError
from irkit.ops.schemas import spec
from irkit.support.counts import count_text


class Names:
    """Hands out names, each once. Lives only while one model is named."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._next: dict[str, int] = {}

    def claim(self, hint: str) -> str:
        """`hint`, or `hint_1`, `hint_2`, ... where it is taken."""
        if hint not in self.taken:
            self.taken.add(hint)
            return hint
        number = self._next.get(hint, 1)
        while (name := f"{hint}_{number}") in self.taken:
            number += 1
        self._next[hint] = number + 1
        self.taken.add(name)
        return name


@attrs.frozen(eq=False)
class Scope:
    """The names in one graph.

    Attributes:
        names: the name of each value (captures by their outer name; several results: that of the node).
        inputs: names of the graph's own parameters, captures left out.
        outputs: names of the results.
        copies: (from, to) for each Identity that a result needs.
        several: for a value with several results the name of each, "" for an optional one that nobody uses.
        bodies: the scopes of each value's bodies.
        weights: the blobs that this graph writes as initializers, by name.
    """

    names: Mapping[Value, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    copies: tuple[tuple[str, str], ...]
    several: Mapping[Value, tuple[str, ...]]
    bodies: Mapping[Value, tuple[Scope, ...]]
    weights: Mapping[str, Blob]


def assign(graph: Graph) -> Scope:
    """The names of a whole model. Raises SerializeError where a public name is not text that a file can hold."""
    pool = Names()
    inputs = [pool.claim(public(name, "input")) for name in port_names(graph, graph.signature.params, graph.params)]
    outputs = [pool.claim(public(name, "output")) for name in port_names(graph, graph.signature.results, graph.results)]
    shared: dict[Hashable, str] = {}
    weights: dict[str, Blob] = {}
    for blob in hoisted(graph):
        key = weight_key(blob)
        if key not in shared:
            shared[key] = pool.claim(encodable(blob.name) or CONSTANT)
            weights[shared[key]] = blob
    names = dict(zip(graph.params, inputs, strict=True))
    return Naming(pool, shared).scope(graph, names, tuple(inputs), outputs, weights)


def port_names(graph: Graph, ports: tuple[Port, ...], values: tuple[Value, ...]) -> list[str]:
    """The public name of each value, "" where it has no port. Raises SerializeError for more ports than values."""
    if len(ports) > len(values):
        raise SerializeError(
            f"the signature of {graph.name} names {count_text(len(ports), 'port')}, where there are {len(values)}",
            hint="give a signature with a port for each parameter and each result, or none",
        )
    return [port.name for port in ports] + [""] * (len(values) - len(ports))


def public(name: str, default: str) -> str:
    """A public name as it stands, or `default` for none. Raises SerializeError for what UTF-8 cannot hold."""
    if encodable(name) != name:
        raise SerializeError(f"the public name {name!r} cannot be written as UTF-8", hint="rename the input or output")
    return name or default


def encodable(hint: str) -> str:
    """`hint` with what UTF-8 cannot hold replaced."""
    return hint if hint.isascii() else hint.encode("utf-8", "replace").decode()


def weight_key(blob: Blob) -> Hashable:
    """Equal for blobs that are written once: one storage under any names, or one content under one name."""
    if blob.source is not None:
        return (blob.dtype, blob.shape, id(blob.source))
    return (blob.name, blob.key) if blob.nbytes <= SMALL else blob.key


def is_hoisted(blob: Blob) -> bool:
    """True for what the main graph holds wherever it is used: named weights, and all that is not small."""
    return bool(blob.name) or blob.nbytes > SMALL


def hoisted(graph: Graph) -> Iterator[Blob]:
    """The weights of a graph and of its bodies, in order: bodies before the value that holds them."""
    for value in graph.order:
        for body in value.bodies if value.op != CALL else ():
            yield from hoisted(body)
        blob = value.blob
        if blob is not None and is_hoisted(blob):
            yield blob


@attrs.frozen(eq=False)
class Naming:
    """What naming one model needs everywhere: the pool of names, and the names of weights of the main graph."""

    pool: Names
    shared: Mapping[Hashable, str]

    def scope(
        self,
        graph: Graph,
        names: dict[Value, str],
        inputs: tuple[str, ...],
        outputs: list[str],
        weights: dict[str, Blob],
    ) -> Scope:
        """Names every value of `graph`; `names` holds those of its parameters and grows, as `weights` does."""
        claim = self.pool.claim
        wanted = self.results(graph, outputs)
        several: dict[Value, tuple[str, ...]] = {}
        bodies: dict[Value, tuple[Scope, ...]] = {}
        items = items_of(graph)
        local: dict[Hashable, str] = {}
        for value in graph.order:
            op = value.op
            if op == CONSTANT:
                names[value] = self.constant(value, local, weights)
            elif op == ITEM:
                names[value] = several[value.inputs[0]][value.attributes[0][1]]  # type: ignore[index]
            elif op != PARAM:
                name = wanted.get(value) or claim(hint(value))
                names[value] = name
                if type(value.type) is Tuple:
                    several[value] = self.several(value, name, items.get(value, {}), wanted)
                if value.bodies and op != CALL:
                    bodies[value] = tuple(self.body(value, body, names) for body in value.bodies)
            elif value not in names:
                raise SerializeError(
                    "the graph uses a parameter that is not its own",
                    ir=repr(value),
                    hint="list it in the parameters of the graph",
                )
        finals = outputs or [""] * len(graph.results)
        produced = [wanted.get(r) for r in graph.results]
        copies, public_names = list[tuple[str, str]](), list[str]()
        seen: set[str] = set()
        for result, own, final in zip(graph.results, produced, finals, strict=True):
            kept = names[result] if own is not None else ""
            if own is None or kept in seen or (final and kept != final):
                kept = final or claim(encodable(result.origin.node) or "output")
                copies.append((names[result], kept))
            seen.add(kept)
            public_names.append(kept)
        return Scope(names, inputs, tuple(public_names), tuple(copies), several, bodies, weights)

    def results(self, graph: Graph, outputs: list[str]) -> dict[Value, str]:
        """The name that each value which may itself be a result is to have, "" where any will do."""
        wanted: dict[Value, str] = {}
        for index, result in enumerate(graph.results):
            if type(result.type) is Tuple:
                raise SerializeError("a result of the graph is a tuple", ir=repr(result), hint="take its items")
            if result.op not in (PARAM, CONSTANT):
                wanted.setdefault(result, outputs[index] if outputs else "")
        return wanted

    def several(
        self, value: Value, base: str, items: Mapping[int, list[Value]], wanted: Mapping[Value, str]
    ) -> tuple[str, ...]:
        """The name of each result of a value that has several; the first one is the node's own where it fits."""
        optional = () if needs_all_results(value) else optional_results(value.op)
        parts = types_of(value.type)
        found: list[str] = []
        spare = base
        for index in range(len(parts)):
            users = items.get(index, [])
            name = next((wanted[v] for v in users if wanted.get(v)), "")
            if not name and not users and index < len(optional) and optional[index]:
                found.append("")
                continue
            own = next((v.origin.node for v in users if v.origin.node), "")
            if not name:
                fits = spare and (not own or encodable(own) == spare or own == value.origin.node)
                name = spare if fits else self.pool.claim(encodable(own) or hint(value))
            spare = "" if name == spare else spare
            found.append(name)
        return tuple(found)

    def constant(self, value: Value, local: dict[Hashable, str], weights: dict[str, Blob]) -> str:
        """The name of the initializer that holds a constant."""
        blob: Blob = value.attributes[0][1]
        if is_hoisted(blob):
            return self.shared[weight_key(blob)]
        key = weight_key(blob)
        if key not in local:
            local[key] = self.pool.claim(hint(value))
            weights[local[key]] = blob
        return local[key]

    def body(self, value: Value, body: Graph, outer: Mapping[Value, str]) -> Scope:
        """The names in one body: captures are called as outside, everything else is new."""
        count = value.attribute("captures", 0)
        own = len(body.params) - count
        if own < 0 or count > len(value.inputs):
            raise SerializeError(
                f"{value.op}: the body has {count_text(len(body.params), 'parameter')} and "
                f"{count_text(count, 'capture')}"
            )
        names: dict[Value, str] = {}
        for param, operand in zip(body.params[own:], value.inputs[len(value.inputs) - count :], strict=True):
            names[param] = outer[operand]  # type: ignore[index]
        ports = port_names(body, body.signature.params, body.params)
        for param, port in zip(body.params[:own], ports, strict=False):
            names[param] = self.pool.claim(encodable(port or param.origin.node) or "input")
        return self.scope(body, names, tuple(names[p] for p in body.params[:own]), [], {})


def hint(value: Value) -> str:
    """What a value would be called if it were alone."""
    return encodable(value.origin.node) or value.op.rpartition("::")[2]


def items_of(graph: Graph) -> dict[Value, dict[int, list[Value]]]:
    """For each value with several results, the Items that take each."""
    found: dict[Value, dict[int, list[Value]]] = {}
    for value in graph.order:
        if value.op == ITEM:
            parts = found.setdefault(value.inputs[0], {})  # type: ignore[arg-type]
            parts.setdefault(value.attributes[0][1], []).append(value)
    return found


KEPT = frozenset(("com.microsoft::EmbedLayerNormalization", "Attention"))
"""Operators whose results ONNX Runtime wants named, be they unused, though its table calls them optional: it
computes no Attention to a past without the present."""


def optional_results(op: str) -> tuple[bool, ...]:
    """Whether each formal result may be left out; empty for an operator without a row."""
    if op in KEPT:
        return ()
    try:
        return tuple(formal.option == "optional" for formal in spec(op).outputs)
    except TypeRuleError:
        return ()


def all_names(scope: Scope) -> Iterable[str]:
    """Every name that a model under `scope` defines, once for each definition."""
    yield from scope.inputs
    yield from scope.weights
    yield from (n for v, n in scope.names.items() if v.op not in (PARAM, CONSTANT, ITEM) and v not in scope.several)
    for parts in scope.several.values():
        yield from (p for p in parts if p)
    yield from (to for _, to in scope.copies)
    for scopes in scope.bodies.values():
        for inner in scopes:
            yield from all_names(inner)
