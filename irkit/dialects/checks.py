"""`irkit.check_operator`: an operator held against its own definition, its type rule, texts and files."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from irkit.checking.accuracy import MOST_ELEMENTS
from irkit.checking.agreement import Unrunnable, plain_options, refusals
from irkit.checking.comparison import compare
from irkit.checking.coverage import Checked
from irkit.checking.instances import Instance, Retry
from irkit.checking.rules import check_rule
from irkit.checking.samples.own import sample_of
from irkit.checking.samples.sampler import Sampler
from irkit.checking.strategies import choices, random_feeds
from irkit.core.ir import Graph, Port, Signature, Value, item
from irkit.core.types import Tuple
from irkit.dims import symbol
from irkit.errors import IrkitError, RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.evaluation.kernels.common import Content
from irkit.nodes.operators import Operator, defined_results
from irkit.onnx.load import load
from irkit.onnx.writing.models import to_proto
from irkit.pattern import Hole
from irkit.rewriting.face import Made, Match, Rule
from irkit.rewriting.numbering import share
from irkit.support.counts import count_text
from irkit.support.results import as_tuple
from irkit.support.tracebacks import is_told
from irkit.support.upstairs import upstairs
from irkit.text.parser import parse
from irkit.verification.laws import verify

__tracebackhide__ = is_told

ROUND_TRIPS = 10
"""On how many instances texts, files and ONNX Runtime are tried."""


@attrs.frozen
class CheckedOperator:
    """What `check_operator` covered. `by_definition` is the report of the rule that the operator is its definition,
    None where it has no definition; `instances` went through text and ONNX and back, of which ONNX Runtime ran
    `on_runtime` with the definition as a local function, or by the `library` that computes it."""

    operator: str
    instances: int
    on_runtime: int
    by_definition: Checked | None
    library: str = ""

    def __str__(self) -> str:
        means = "by its library" if self.library else "with the definition as a local function"
        keep = "keeps the laws, and comes" if self.instances == 1 else "keep the laws, and come"
        first = (
            f"{self.operator}: {count_text(self.instances, 'instance')} {keep} back from text and ONNX; "
            f"{self.on_runtime} agree on ONNX Runtime, {means}"
        )
        found = self.by_definition
        if found is None:
            return first
        how = "to the bit" if found.exact else "within the tolerance"
        agreed = f"on {count_text(found.fired, 'instance')} the evaluator gives what its definition says, {how}"
        return "\n".join([first, agreed, *found.details()])


def check_operator(
    operator: Operator,
    n: int = 50,
    *,
    seed: int = 0,
    onnxruntime: bool = True,
    exact: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> CheckedOperator:
    """Checks an operator on random instances of it, which its sample makes, or its schema.

    That it is its definition is checked as a rule is (see `irkit.check_rule`): its kernel on one side, its definition
    on the other, over the element types that it takes, sizes 0 and 1, symbols, near misses. They may differ by `rtol`
    and `atol`, by default those of `irkit.compare`; an `exact` operator is its definition bit for bit. On some
    instances: the graph keeps the laws of `irkit.verify`; its text and its ONNX model, read with the operator, are the
    graph again; and ONNX Runtime, which sees the definition as a local function where it runs as it stands, computes
    what the evaluator does (sizes of 0 left out, of which the two differ here and there).

    Returns what was covered. Raises RewriteError, with the instance, where something of it is not so, and where no
    instance is found (give the operator a `sample`).
    """
    if not isinstance(operator, Operator):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RewriteError(f"{operator!r} is not an operator", hint="check one operator of a dialect at a time")
    rng = np.random.default_rng(seed)
    on_runtime = 0
    for _ in range(ROUND_TRIPS):
        graph = instance_graph(operator, rng)
        require_round_trips(operator, graph)
        on_runtime += runs_alike(operator, graph, rng) if onnxruntime else 0
    if operator.definition is None:
        return CheckedOperator(operator.text, ROUND_TRIPS, on_runtime, None, operator.library)
    rule = definition_rule(operator, exact)
    report = check_rule(rule, n, seed=seed, onnxruntime=onnxruntime, rtol=rtol, atol=atol, measured=False, proof=0)
    return CheckedOperator(operator.text, ROUND_TRIPS, on_runtime, report, operator.library)


def definition_rule(operator: Operator, exact: bool = False) -> Rule:
    """The rule that an operator is its definition."""

    def defined(m: Match) -> Made:
        value = m.root
        several = isinstance(value.type, Tuple)
        found = defined_results(operator, value.inputs, value.attributes, len(as_tuple(operator.row.outputs)))
        return found if several else found[0]

    def sample(rng: np.random.Generator) -> Instance:
        value = drawn(operator, rng)[0]
        return Instance((value,))

    doc = f"{operator.text} -> its definition"
    return Rule(f"define {operator.text}", Hole("value", (), (operator.name,)), defined, exact, doc, sample=sample)


def drawn(operator: Operator, rng: np.random.Generator) -> tuple[Value, Sampler]:
    """An instance of an operator, as the value that it is (of several results the tuple), and what drew it."""
    s = Sampler(lambda low, high: int(rng.integers(low, high + 1)), (2, symbol("n"), 1, 3, symbol("m"), 0))
    found = as_tuple(sample_of(operator)(s))[0]
    if found.op == "Item":
        found = found.inputs[0]
    if found is None or found.op != operator.name:
        raise Retry("the sample makes another operator")
    return found, s


def instance_graph(operator: Operator, rng: np.random.Generator) -> Graph:
    """A graph of one instance of an operator."""
    value, s = drawn(operator, rng)
    results = tuple(item(value, i) for i in range(len(value.type.items))) if isinstance(value.type, Tuple) else (value,)
    ports = tuple(Port(f"x{i}") for i in range(len(s.params)))
    ends = tuple(Port(f"y{i}", "output") for i in range(len(results)))
    return Graph(tuple(s.params), results, signature=Signature(ports, ends))


def require_round_trips(operator: Operator, graph: Graph) -> None:
    """Raises RewriteError where a graph breaks a law, or does not come back from its text or its ONNX model."""
    dialect = {operator.text: operator}
    ways: tuple[tuple[str, Callable[[], Graph]], ...] = (
        ("it breaks a law", lambda: verify(graph)),
        ("its text is read as another graph", lambda: parse(str(graph), blobs=graph, dialects=dialect)),
        ("its ONNX model is read as another graph", lambda: load(to_proto(graph), dialects=dialect)),
    )
    for what, way in ways:
        try:
            found = way()
        except IrkitError as error:
            raise RewriteError(f"{operator.text}: {what}: {error.what}", ir=str(graph), hint=error.hint) from error
        if share(found) != share(graph) and own_keys(operator, found) != own_keys(operator, graph):
            raise RewriteError(
                f"{operator.text}: {what}", ir=f"{graph}\n\nis read as\n\n{found}", hint="please report this"
            )


def own_keys(operator: Operator, graph: Graph) -> list[object]:
    """What a file keeps of the values of an operator."""
    return [(v.attributes, v.type) for v in graph.order if v.op == operator.name]


def runs_alike(operator: Operator, graph: Graph, rng: np.random.Generator) -> bool:
    """True where ONNX Runtime, with the definition as a local function or by its library, computes what the evaluator
    does; False where it does not run it. Raises RewriteError where the numbers differ."""
    if operator.definition is None and not operator.library:
        return False
    binding = {name: int(rng.choice([n for n in sizes if n])) for name, sizes in choices(graph).items()}
    arrays = random_feeds(graph, binding, rng)
    seen: list[Content] = []
    try:
        expected = evaluate(graph, arrays, every=lambda _, found: seen.append(found), most=MOST_ELEMENTS)
        if any(0 in np.shape(found) for found in seen if not isinstance(found, tuple)):
            return False
        found = there(upstairs("passes").prepare(graph, f"onnxruntime-cpu+{operator.domain}"), arrays)
    except (Unrunnable, IrkitError):
        return False
    difference = compare(expected, found)
    if difference is not None:
        given = ", ".join(map(repr, arrays))
        means = "by its library" if operator.library else "with the definition as a local function"
        raise RewriteError(
            f"{operator.text}: ONNX Runtime, {means}, differs: {difference}",
            ir=f"{graph}\n\non {given}",
            hint="compare the kernel with the definition: irkit.check_rule says more",
        )
    return True


def there(graph: Graph, arrays: tuple[Content, ...]) -> tuple[Content, ...]:
    """The results of a graph on ONNX Runtime, as it stands. Raises Unrunnable."""
    from irkit.onnx.sessions import session  # brings in onnxruntime

    try:
        return session(graph, options=plain_options()).run(list(arrays))
    except refusals() as error:
        raise Unrunnable(str(error)) from error
