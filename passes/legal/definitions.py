"""Operators of ONNX Runtime's own, and of the user's, by their definitions, put in place of a value."""

from __future__ import annotations

from operator import attrgetter

from irkit.build.runtime import DEFINITIONS, defined_operator
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.types import Tuple, types_of
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.nodes.operators import defined_results, operator_of
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

    None where it has no definition, or none for such operands, and where sizes in it are bound by nothing.
    """
    known = defined_operator(value.op)
    if known is None or known.definition is None:
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
        found = defined_results(known, value.inputs, value.attributes, count, sizes)
    except TypeRuleError:
        return None
    return found if several else found[0]


def holds_defined(graph: Graph) -> bool:
    """True for a graph that has, itself or in a body, an operator that is defined by others, and none of ONNX's."""
    here = not DEFINITIONS.keys().isdisjoint(map(attrgetter("op"), graph.order))
    return here or holds_own(graph) or any(map(holds_defined, walk.bodies(graph.order)))


def holds_own(graph: Graph) -> bool:
    """True for a graph that has, itself or in a body, an operator of the user's own that has a definition."""
    plain = set(map(type, map(attrgetter("op"), graph.order))) == {str}
    here = not plain and any(type(v.op) is not str and is_own(v) for v in graph.order)
    return here or any(map(holds_own, walk.bodies(graph.order)))


def is_own(value: Value) -> bool:
    """True for a value of an operator of the user's own that has a definition."""
    known = operator_of(value.op)
    return known is not None and known.definition is not None


def own_written_out(graph: Graph) -> Graph:
    """The graph with operators of the user's own, so far as they have definitions, in others; the very same object
    where it has none."""
    return rewrite(graph, OWN) if holds_own(graph) else graph


@without_collector
def written_out(graph: Graph, target: Target) -> Graph:
    """The graph with operators of ONNX Runtime's own, and of the user's, whose domain the target does not allow, in
    ONNX's words; the very same object where it has none.

    `legalize` does so too. Before `optimize` it lets rules see what an optimizer hid in such operators.
    """

    if not holds_defined(graph):
        return graph

    def function(m: Match) -> Made:
        if domain_of(m.root.op) in target.domains:
            return decline("the target has it")
        return out_of_others(m)

    doc = "an operator of ONNX Runtime's own -> its definition"
    own = (Hole("value", (is_own,)),) if holds_own(graph) else ()
    patterns = (Hole("value", (), tuple(DEFINITIONS)), *own)
    return rewrite(graph, tuple(Rule("written_out", each, function, False, doc) for each in patterns))


def out_of_others(m: Match) -> Made:
    """An operator -> its definition"""
    found = by_definition(m, m.root)
    return decline("irkit has no definition of it for such operands") if found is None else found


OWN = Rule("written_out", Hole("value", (is_own,)), out_of_others, True, "an operator of one's own -> its definition")
"""Writes operators of the user's own in others."""
