"""The laws that every graph keeps, numbered, in prose and as functions.

1. Arity. An operator has as many operands, bodies and results as its ONNX schema allows, and each operand that is not
   optional is there. An operator that irkit has no schema for may have any.
2. Attributes. They are those that the schema names, of the kinds that it says, sorted, each once; the required ones are
   given.
3. Types. What the type rule infers from the operands agrees with the type that the value has: dimensions that the rule
   cannot know may be anything. Element types are those that the schema allows.
4. Parameters. Each Param that a result reaches is a parameter of this very graph; no parameter stands there twice.
5. Bodies. Each body keeps these laws by itself, and takes what it is given: the last `captures` operands of If, Loop
   and Scan are the last parameters of each body.
6. Dimensions. They are counts or integer expressions. A symbol in a type is bound: by a parameter, by an operand, by
   the graph's table of ranges, or here, where nothing else says what the size is. The symbols of a ShapeVector are
   bound by a parameter of its graph, by its own operands, or around the body that it stands in. One name is one symbol.
7. Signature. Where parameters (or results) have public names, all have (of a body, the first ones), no two the same;
   a state result binds a parameter by its name, and has its type.
8. Results. They are tensors, sequences or optionals; of an operator with several results, an Item each.
9. Vocabulary. At a stage that allows certain operators only, there are no others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, cast

import attrs
import sympy

from irkit import dims
from irkit.build import check_arity, check_dtypes, required_attributes
from irkit.build.retyping import inferred_type
from irkit.core.attributes import single
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Port, Value, require_graph
from irkit.core.printer import excerpt
from irkit.core.types import DType, Tensor, Tuple, Type, dims_of, same_types, types_of
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.dims import notation
from irkit.dims.ranges import LEAST
from irkit.errors import TypeRuleError, VerifyError
from irkit.nodes.calls import call_type
from irkit.ops.schemas import BODIES, OpSpec, names, split_domain
from irkit.pattern.language import row_of
from irkit.support.arguments import require_texts
from irkit.support.counts import count_text
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told


def _is_single(value: Any) -> bool:
    return type(value) is float and (value != value or single(value) == value)


def _all(values: Any, test: Callable[[Any], bool]) -> bool:
    return type(values) is tuple and all(map(test, cast("tuple[Any, ...]", values)))


OWN: Mapping[str, frozenset[str]] = {
    PARAM: frozenset(), CONSTANT: frozenset(("value",)), ITEM: frozenset(("index",)),
    SHAPE_VECTOR: frozenset(("dims", "scalars")), CALL: frozenset(),
}  # fmt: skip
"""The operators that irkit has beside ONNX's, with their attributes."""

KINDS: Mapping[str, Callable[[Any], bool]] = {
    "INT": lambda v: type(v) is int,
    "FLOAT": _is_single,
    "STRING": lambda v: type(v) is str,
    "TENSOR": lambda v: type(v) is Blob,
    "INTS": lambda v: _all(v, lambda x: type(x) is int),
    "FLOATS": lambda v: _all(v, _is_single),
    "STRINGS": lambda v: _all(v, lambda x: type(x) is str),
    "TENSORS": lambda v: _all(v, lambda x: type(x) is Blob),
    "TYPE_PROTO": lambda v: isinstance(v, Type),
}
"""What an attribute of each ONNX kind is in Python."""


def verify(graph: Graph, *, vocabulary: Collection[str] | None = None) -> Graph:
    """The very same graph, where it keeps the nine laws of this file.

    Args:
        graph: any graph, with its bodies.
        vocabulary: the operators that may stand in it at this stage; leaves and Items always may.

    Raises VerifyError for the first value that breaks a law: the law's number, the line, and what to try.
    """
    require_graph(graph)
    if vocabulary is not None:
        require_texts(vocabulary, "vocabulary", VerifyError)
    _Verifier(None if vocabulary is None else frozenset(vocabulary)).graph(graph, outermost=True)
    return graph


@attrs.define(eq=False)
class Scope:
    """A graph while its values are visited in order: what is bound so far."""

    graph: Graph
    vocabulary: frozenset[str] | None
    own: frozenset[Value]
    bound: set[sympy.Symbol]
    by_params: frozenset[sympy.Symbol]
    by_name: dict[str, Any]
    inferred: Any = None

    @classmethod
    def of(cls, graph: Graph, vocabulary: frozenset[str] | None) -> Scope:
        """The scope before the first value."""
        by_params = frozenset(s for p in graph.params for s in symbols_in(p.type))
        return cls(graph, vocabulary, frozenset(graph.params), set(by_params), by_params, {})


@attrs.define(eq=False)
class _Verifier:
    """Visits each graph of the nest once."""

    vocabulary: frozenset[str] | None
    free: dict[int, frozenset[sympy.Symbol]] = attrs.field(factory=dict[int, frozenset[sympy.Symbol]])

    def graph(self, graph: Graph, outermost: bool = False) -> frozenset[sympy.Symbol]:
        """The symbols that the graph's ShapeVectors take from outside, after all laws were found kept."""
        if id(graph) in self.free:
            return self.free[id(graph)]
        for number, title, whole in GRAPH_LAWS:
            complaint = whole(graph, outermost)
            if complaint:
                what = f"law {number} ({title}) is broken by graph {graph.name}: {complaint}"
                raise VerifyError(what, hint=HINTS[number])
        scope = Scope.of(graph, self.vocabulary)
        free: set[sympy.Symbol] = set()
        for value in graph.order:
            for number, title, law in VALUE_LAWS:
                complaint = law(scope, value)
                if complaint:
                    fail(graph, value, number, title, complaint)
            if value.bodies or value.op == SHAPE_VECTOR:
                loose = unbound(scope, value, [self.graph(body) for body in value.bodies])
                if loose and outermost:
                    names = ", ".join(sorted(str(s) for s in loose))
                    fail(graph, value, 6, "dimensions", f"no parameter and no operand binds {names}")
                free |= loose
        self.free[id(graph)] = frozenset(free)
        return self.free[id(graph)]


def fail(graph: Graph, value: Value, number: int, title: str, complaint: str) -> None:
    """Raises the VerifyError that shows the value in its graph."""
    raise VerifyError(
        f"law {number} ({title}) is broken: {complaint}",
        ir=excerpt(graph, value),
        source=str(value.origin),
        hint=HINTS[number],
    )


# ---------------------------------------------------------------------------------------------- laws of a value


def law_1_arity(scope: Scope, value: Value) -> str:
    """Operands, bodies and results are as many as the schema allows."""
    op, operands = value.op, len(value.inputs)
    if op in OWN:
        wanted = {PARAM: 0, CONSTANT: 0, ITEM: 1, CALL: None, SHAPE_VECTOR: None}[op]
        if wanted is not None and operands != wanted:
            return f"{op} has {operands} operands, and takes {wanted}"
        if any(v is None for v in value.inputs):
            return f"{op} has no optional operands"
        return (
            "" if len(value.bodies) == (op == CALL) else f"{op} has {count_text(len(value.bodies), 'body', 'bodies')}"
        )
    known = known_spec(op)
    if known is None:
        near = [] if "::" in op else get_close_matches(op, names(), 1)
        return "" if "::" in op else f"ONNX has no operator {op}" + (f": did you mean {near[0]}?" if near else "")
    if value.inputs and value.inputs[-1] is None:
        return "an operand left out at the end is not written as _"
    if len(value.bodies) != len(BODIES.get(op, ())):
        return f"{op} has {count_text(len(value.bodies), 'body', 'bodies')}, and takes {len(BODIES.get(op, ()))}"
    try:
        check_arity(op, known, value.inputs, value.bodies)
    except TypeRuleError as error:
        return error.what
    results = len(types_of(value.type))
    if not known.min_outputs <= results <= known.max_outputs:
        return (
            f"{op} has {count_text(results, 'result')}, where {known.min_outputs} to {known.max_outputs} are possible"
        )
    return ""


def law_2_attributes(scope: Scope, value: Value) -> str:
    """Attributes are those of the schema, of its kinds."""
    given = value.attributes
    if len(given) > 1 and any(a[0] >= b[0] for a, b in pairwise(given)):
        return "attributes are not sorted, or one stands there twice"
    names = [name for name, _ in given]
    if value.op in OWN:
        wrong = set(names) - OWN[value.op]
        missing = OWN[value.op] - {"scalars"} - set(names)
        if wrong or missing:
            return f"{value.op} has the attributes {names}"
        return own_attributes(value)
    known = known_spec(value.op)
    if known is None:
        return ""
    for name, found in given:
        if name == "captures" and value.op in BODIES:
            kind = "INT"
        elif name not in known.attributes:
            return f"{value.op} has no attribute {name}"
        else:
            kind = known.attributes[name].kind
        if not KINDS.get(kind, lambda v: True)(found):
            return f"attribute {name} must be of kind {kind}, and is {found!r}"
    missing = [name for name in required_attributes(known) if name not in names]
    return f"attribute {missing[0]} must be given" if missing else ""


def own_attributes(value: Value) -> str:
    """What is wrong with the attributes of one of irkit's own operators."""
    if value.op == CONSTANT and type(value.attributes[0][1]) is not Blob:
        return "the value of a Constant is a blob"
    if value.op == ITEM and type(value.attributes[0][1]) is not int:
        return "the index of an Item is an int"
    if value.op == SHAPE_VECTOR:
        found = dict(value.attributes)
        if type(found["dims"]) is not tuple:
            return "the dims of a ShapeVector are a tuple"
        if len(found.get("scalars", ())) > len(value.inputs):
            return "a ShapeVector has more scalars than operands"
    return ""


def law_3_types(scope: Scope, value: Value) -> str:
    """Inference agrees with the type."""
    found = own_type(value)
    if found is None:
        try:
            known = known_spec(value.op)
            if known is not None:
                own = len(value.inputs) - (value.attribute("captures") or 0 if value.op in BODIES else 0)
                check_dtypes(value.op, known, value.inputs[:own])
            found = inferred_type(value, value.inputs)
        except TypeRuleError as error:
            if not split_domain(value.op)[0]:
                return error.what
            found = value.type  # irkit's rule is narrower than the runtime that defines it: the file's type stands
        except IndexError:
            return f"the operator does not have the {value.type!r} that the value is"
    scope.inferred = found
    if found is value.type or same_types(value.type, found) is not False:
        return ""
    return f"the type is {value.type!r}, and inference says {found!r}"


def own_type(value: Value) -> Type | None:
    """The type of one of irkit's own operators; None for the others."""
    if value.op == PARAM:
        return value.type
    if value.op == CONSTANT:
        return value.attributes[0][1].type
    if value.op == SHAPE_VECTOR:
        return Tensor(DType.INT64, (len(value.attributes[0][1]),))
    if value.op == CALL:
        operands = [v.type for v in value.inputs if v is not None]
        return call_type(value.bodies[0], operands) if len(operands) == len(value.bodies[0].params) else value.type
    return None


def law_4_params(scope: Scope, value: Value) -> str:
    """A Param is a parameter of this graph."""
    if value.op == PARAM and value not in scope.own:
        return "this parameter belongs to another graph"
    return ""


def law_5_bodies(scope: Scope, value: Value) -> str:
    """Bodies take what they are given."""
    if not value.bodies:
        return ""
    if value.op == CALL:
        given = value.inputs
    elif known_spec(value.op) is None:
        return ""
    else:
        captures = value.attribute("captures")
        if captures is None or not 0 <= captures <= len(value.inputs):
            return f"captures is {captures}, for {count_text(len(value.inputs), 'operand')}"
        given = value.inputs[len(value.inputs) - captures :]
    for body in value.bodies:
        if len(body.params) < len(given) or (value.op == CALL and len(body.params) != len(given)):
            return f"{body.name} takes {count_text(len(body.params), 'parameter')}, and is given {len(given)}"
        for wanted, operand in zip(body.params[len(body.params) - len(given) :], given, strict=True):
            if operand is None or same_types(wanted.type, operand.type) is False:
                shown = "nothing" if operand is None else f"a {operand.type!r}"
                return f"{body.name} takes a {wanted.type!r}, and is given {shown}"
    return ""


def law_6_dimensions(scope: Scope, value: Value) -> str:
    """Dimensions are counts or integer expressions over bound symbols."""
    for dim in dims_of(value.type):
        if type(dim) is int:
            if dim < 0:
                return f"the size {dim} is below zero"
            if dim >= -LEAST:
                return f"no tensor has the size {dim}"
            continue
        if not isinstance(dim, sympy.Expr):
            return f"{dim!r} is not a dimension"
        for symbol in dims.symbols_of(dim):
            if not dims.is_fresh(symbol) and scope.by_name.setdefault(symbol.name, symbol) != symbol:
                return f"there are two symbols called {symbol.name}: one of them is signed"
    return ""


def law_6_symbols(scope: Scope, value: Value) -> str:
    """A symbol that nothing has bound before stands only where inference leaves the size open."""
    new = [s for s in symbols_in(value.type) if s not in scope.bound and not dims.is_fresh(s)]
    if not new:
        return ""
    table = scope.graph.symbols
    for declared, known in zip(dims_of(value.type), dims_of(scope.inferred), strict=True):
        said = dims.symbols_of(known)
        for s in dims.symbols_of(declared):
            open_here = s in said or any(dims.is_fresh(k) for k in said)
            if s in new and s.name not in table and not open_here:
                return f"{s.name} is bound by nothing, and the size is {notation.text(known)}"
    scope.bound.update(new)
    return ""


def law_8_results(scope: Scope, value: Value) -> str:
    """No result is several values."""
    if isinstance(value.type, Tuple) and any(value is r for r in scope.graph.results):
        return "a result is several values at once"
    return ""


def law_9_vocabulary(scope: Scope, value: Value) -> str:
    """The operator is one that this stage allows."""
    if scope.vocabulary is not None and value.op not in scope.vocabulary and value.op not in (PARAM, CONSTANT, ITEM):
        return f"{value.op} does not belong to this stage"
    return ""


# ---------------------------------------------------------------------------------------------- laws of a graph


def law_4_unique(graph: Graph, outermost: bool) -> str:
    """Parameters are Params, each once."""
    if len(set(graph.params)) != len(graph.params):
        return "a parameter stands there twice"
    other = next((p for p in graph.params if p.op != PARAM), None)
    return f"{other.op} is listed as a parameter" if other is not None else ""


def law_7_signature(graph: Graph, outermost: bool) -> str:
    """Public names are complete and unique; states bind parameters of their type."""
    signature = graph.signature
    for what, ports, values, roles in (
        ("parameters", signature.params, graph.params, ("input", "state")),
        ("results", signature.results, graph.results, ("output", "state", "check")),
    ):
        if len(ports) > len(values) or (ports and outermost and len(ports) != len(values)):
            return f"there are {len(values)} {what}, and {len(ports)} public names"
        repeated = sorted({p.name for p in ports if sum(q.name == p.name for q in ports) > 1}) if twice(ports) else []
        if repeated:
            return f"two {what} are called {repeated[0]!r}"
        wrong = next((p for p in ports if p.role not in roles), None)
        if wrong is not None:
            return f"{wrong.name!r} among the {what} has the role {wrong.role!r}; it is one of {roles}"
    names = {port.name: param.type for port, param in zip(signature.params, graph.params, strict=False)}
    for port, result in zip(signature.results, graph.results, strict=False):
        if port.role == "check":
            if not port.binds or same_types(result.type, Tensor(DType.BOOL, ())) is False:
                return f"the check {port.name!r} is a {result.type!r} of {port.binds!r}, not a bool[] of a condition"
            continue
        if (port.role == "state") != bool(port.binds) or (port.binds and port.binds not in names):
            return f"the result {port.name!r} has the role {port.role!r} and binds {port.binds!r}"
        if port.binds and same_types(result.type, names[port.binds]) is False:
            return f"the state {port.name!r} is a {result.type!r}, and {port.binds!r} a {names[port.binds]!r}"
    return ""


def twice(ports: tuple[Port, ...]) -> bool:
    """True where two ports have one name."""
    return len({p.name for p in ports}) != len(ports)


# ---------------------------------------------------------------------------------------------- symbols


def symbols_in(type_: Type) -> tuple[sympy.Symbol, ...]:
    """The symbols of a type, fresh ones included."""
    return tuple(s for d in dims_of(type_) if type(d) is not int for s in dims.symbols_of(d))


def bound_by(value: Value) -> frozenset[sympy.Symbol]:
    """The symbols that a value's operands bind for it."""
    return frozenset(s for v in value.inputs if v is not None for s in symbols_in(v.type))


def unbound(scope: Scope, value: Value, inner: Iterable[frozenset[sympy.Symbol]]) -> frozenset[sympy.Symbol]:
    """The symbols of a ShapeVector, or of those in the bodies, that neither a parameter nor an operand binds."""
    wanted = {s for symbols in inner for s in symbols}
    scalars: set[sympy.Symbol] = set()
    if value.op == SHAPE_VECTOR:
        found = dict(value.attributes)
        scalars = {s for d in found.get("scalars", ()) for s in dims.symbols_of(d)}
        wanted = {s for d in found["dims"] for s in dims.symbols_of(d)}
    return frozenset(wanted - scalars - scope.by_params - bound_by(value))


def known_spec(op: str) -> OpSpec | None:
    """The schema of an operator; None where irkit has none."""
    return row_of(op)


GRAPH_LAWS: tuple[tuple[int, str, Callable[[Graph, bool], str]], ...] = (
    (4, "parameters", law_4_unique),
    (7, "signature", law_7_signature),
)

VALUE_LAWS: tuple[tuple[int, str, Callable[[Scope, Value], str]], ...] = (
    (1, "arity", law_1_arity),
    (2, "attributes", law_2_attributes),
    (4, "parameters", law_4_params),
    (6, "dimensions", law_6_dimensions),
    (3, "types", law_3_types),
    (6, "dimensions", law_6_symbols),
    (5, "bodies", law_5_bodies),
    (8, "results", law_8_results),
    (9, "vocabulary", law_9_vocabulary),
)
"""In the order in which they are asked: the later ones may rely on the earlier."""

HINTS: Mapping[int, str] = {
    1: "build values with irkit.op, which counts operands",
    2: "build values with irkit.op, which knows the attributes",
    3: "build values with irkit.op, which infers the type; a pass that changes operands uses irkit.build.retyping.over",
    4: "what a body takes from outside is an operand of its value: irkit.closed makes it one",
    5: "give Call, If, Loop and Scan what the parameters of their bodies say",
    6: "bind a size that depends on data by an operand: shape_vector(dims, value); or make it irkit.fresh()",
    7: "a pass keeps graph.signature: it changes values by Graph.with_results",
    8: "take the results of an operator apart with irkit.item",
    9: "run the pass that removes this operator first",
}
"""What to try where a law is broken."""
