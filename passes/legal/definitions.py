"""Operators of ONNX Runtime's own by irkit's definitions of them, put in place of a value."""

from __future__ import annotations

from operator import attrgetter

from irkit.build.runtime import DEFINITIONS, defined_results
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.types import Tuple, types_of
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.pattern import Hole
from irkit.rewriting.face import Made, Match, Rule, decline, rewrite
from irkit.support.uncollected import without_collector
from passes.analysis.expansions import Expanded
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import is_known
from passes.targets import Target
from passes.targets.targets import domain_of


def by_definition(m: Match, value: Value) -> Expanded:
    """What the definition of an operator makes of its operands: a value, or a tuple of values.

    None where irkit has no definition, or none for such operands, and where sizes in it are bound by nothing.
    """
    if value.op not in DEFINITIONS:
        return None
    sources = bound_by(*(v for v in value.inputs if v is not None))

    def sizes(wanted: tuple[Dim, ...]) -> Value:
        if not is_known(wanted) or not is_bound(m, wanted, sources):
            raise TypeRuleError(
                f"nothing binds the sizes {wanted}",
                hint="name them in dynamic_shapes, so that they are read off an input",
            )
        return sizes_value(m, wanted, 1, sources)

    several = isinstance(value.type, Tuple)
    count = len(types_of(value.type))
    try:
        found = defined_results(value.op, value.inputs, value.attributes, count, sizes)
    except TypeRuleError:
        return None
    return found if several else found[0]


def holds_defined(graph: Graph) -> bool:
    """True for a graph that has, itself or in a body, an operator of which irkit has a definition."""
    here = not DEFINITIONS.keys().isdisjoint(map(attrgetter("op"), graph.order))
    return here or any(map(holds_defined, walk.bodies(graph.order)))


@without_collector
def written_out(graph: Graph, target: Target) -> Graph:
    """The graph with operators of ONNX Runtime's own, whose domain the target does not allow, in ONNX's words; the very
    same object where it has none.

    `legalize` does so too. Before `optimize` it lets rules see what an optimizer hid in such operators.
    """

    if not holds_defined(graph):
        return graph

    def function(m: Match) -> Made:
        if domain_of(m.root.op) in target.domains:
            return decline("the target has it")
        return by_definition(m, m.root) or decline("irkit has no definition of it for such operands")

    doc = "an operator of ONNX Runtime's own -> its definition"
    return rewrite(graph, Rule("written_out", Hole("value", (), tuple(DEFINITIONS)), function, False, doc))
