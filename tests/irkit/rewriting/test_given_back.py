"""What the function of a rule gives back is judged the same by all that call it: a rule that breaks its contract is
refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irkit
from irkit import op
from irkit.checking.rules import guarded
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.errors import RewriteError, TypeRuleError
from irkit.pattern import hole, p
from irkit.proofs import prove
from irkit.rewriting.face import Rule, decline, explain, rewrite
from irkit.rewriting.journal import with_journal
from irkit.saturation.rounds import saturation
from passes.preparing.fuse import wanted_only
from passes.saturation import saturate
from passes.targets import target_of

X, Y = hole("x"), hole("y")
N, M = param(tensor("f32", "n", 4)), param(tensor("f32", "n", 4))
GRAPH = Graph((N,), (op.Abs(op.Neg(N)),))

CALLERS: dict[str, Callable[[Rule], Any]] = {
    "rewrite": lambda wrong: rewrite(GRAPH, wrong),
    "saturation": lambda wrong: saturation(GRAPH, (wrong,)),
    "saturate": lambda wrong: saturate(GRAPH, (wrong,), lambda v: 1.0),
    "discover": lambda wrong: irkit.discover(["Neg", "Abs"], rules=(wrong,), n=2, seconds=20),
    "explain": lambda wrong: explain(wrong, GRAPH.results[0].inputs[0], GRAPH),  # type: ignore[arg-type]
    "explain without a graph": lambda wrong: explain(wrong, GRAPH.results[0].inputs[0]),  # type: ignore[arg-type]
    "check_rule": lambda wrong: irkit.check_rule(wrong, 3, onnxruntime=False, proof=0),
    "guarded": lambda wrong: rewrite(GRAPH, guarded((wrong,))),
    "prove": lambda wrong: prove(wrong, 2),
    "journal": lambda wrong: rewrite(GRAPH, with_journal(wrong, [])),
    "where it pays": lambda wrong: rewrite(GRAPH, wanted_only(wrong, target_of("onnxruntime-cpu"))),
}
"""All that call the function of a rule."""

NO_VALUES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nothing": (lambda m: None, "returned None"),
    "a number": (lambda m: 3.0, "returned 3.0"),
    "a pattern": (lambda m: p.Relu(X), r"returned the pattern Relu\(x\)"),
    "a tuple of one": (lambda m: (m.x,), "returned a tuple of one value, and replaces one"),
    "two values": (lambda m: (m.x, m.x), "returned 2 values for 1 result"),
    "a list": (lambda m: [m.x], r"returned \[<"),
}  # fmt: skip

OTHER_TYPES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another element type": (lambda m: op.IsNaN(m.x), "turns a .* into a bool"),
    "another shape": (lambda m: op.Unsqueeze(m.x, [0]), r"turns a .* into a \w*\[1"),
}


@pytest.mark.parametrize("what", [*NO_VALUES, *OTHER_TYPES])
@pytest.mark.parametrize("caller", CALLERS)
def test_a_wrong_return_is_refused_by_name(what: str, caller: str) -> None:
    function, complaint = {**NO_VALUES, **OTHER_TYPES}[what]
    wrong = Rule("wrong", p.Neg(X if what in NO_VALUES else hole("x", dtype="float")), function)
    if caller == "prove" and what in OTHER_TYPES:
        assert not prove(wrong, 2)
        return
    with pytest.raises(RewriteError, match=f"the rule wrong {complaint}"):
        CALLERS[caller](wrong)


@pytest.mark.parametrize("caller", ["rewrite", "saturation", "saturate", "explain", "journal"])
def test_types_that_differ_at_some_sizes_and_what_is_refused_are_named(caller: str) -> None:
    sized = Rule("sized", p.Neg(X), lambda m: op.Expand(op.Slice(m.x, [0], [1], [0]), irkit.shape_vector((5, 4))))
    with pytest.raises(RewriteError, match=r"the rule sized turns a .* which differ at n = "):
        CALLERS[caller](sized)
    product = Rule("product", p.Neg(X), lambda m: op.Transpose(m.x, perm=[0, 1, 2]))
    with pytest.raises(RewriteError, match=r"the rule product builds a value that is refused: .*test_given_back\.py:"):
        CALLERS[caller](product)


@pytest.mark.parametrize("caller", ["rewrite", "saturation", "saturate"])
def test_a_parameter_of_another_graph_is_named(caller: str) -> None:
    with pytest.raises(RewriteError, match="the rule stray built on a parameter that is not the graph's"):
        CALLERS[caller](Rule("stray", p.Neg(X), lambda m: op.Add(m.x, M)))


def test_rules_of_several_roots_are_judged_as_well() -> None:
    both = Graph((N, M), (op.Add(N, M), op.Sub(N, M)))
    pictures = p.Add(X, Y), p.Sub(X, Y)
    for function, complaint in (
        (lambda m: op.Add(m.x, m.y), "returned 1 value for 2 results"),
        (lambda m: (op.Add(m.x, m.y), None), "returned .*None"),
        (lambda m: (op.Add(m.x, m.y), op.Equal(m.x, m.y)), "turns a .* into a bool"),
    ):
        wrong = Rule("wrong", pictures[0], function, others=pictures[1:])  # type: ignore[arg-type]
        for call in (rewrite, saturation, lambda g, r: rewrite(g, guarded((r,)))):
            with pytest.raises(RewriteError, match=f"the rule wrong {complaint}"):
                call(both, (wrong,) if call is saturation else wrong)  # type: ignore[arg-type]
    swapped = Rule("swapped", pictures[0], lambda m: m.roots[::-1], others=pictures[1:])
    with pytest.raises(RewriteError, match="differ"):  # a wrong pair was once passed over by `guarded`
        rewrite(both, guarded((swapped,)))


def test_a_rule_of_several_roots_whose_sizes_would_be_vast_is_passed_over() -> None:
    def vast(m: Any) -> Any:
        raise irkit.errors.DimensionError("a size would be a vast expression")

    both = Graph((N, M), (op.Add(N, M), op.Sub(N, M)))
    assert rewrite(both, Rule("vast", p.Add(X, Y), vast, others=(p.Sub(X, Y),))) is both
    found = explain(Rule("vast", p.Neg(X), vast), op.Neg(N))
    assert found.matched and not found.applies and found.reason == "a size would be a vast expression"


# ---------------------------------------------------------------------------------------------- equations


@pytest.mark.parametrize("way", ["forward", "backward"])
def test_the_condition_of_an_equation_is_judged(way: str) -> None:
    graphs = {
        "forward": Graph((N, M), (op.Sub(N, M),)),
        "backward": Graph((N, M), (op.Add(N, op.Neg(M)),)),
    }
    answers: dict[Any, bool] = {True: True, np.True_: True, False: False, np.False_: False}
    for answer, fires in (*answers.items(), (decline("no"), False)):
        made = irkit.equation(p.Sub(X, Y), p.Add(X, p.Neg(Y)), where=lambda m, answer=answer: answer)
        assert (rewrite(graphs[way], getattr(made, way)) is not graphs[way]) is fires
    wrong: tuple[Any, ...] = (None, 1, "yes")
    for strange in wrong:
        made = irkit.equation(p.Sub(X, Y), p.Add(X, p.Neg(Y)), where=lambda m, strange=strange: strange)
        with pytest.raises(RewriteError, match="the condition of the equation returned"):
            rewrite(graphs[way], getattr(made, way))
        with pytest.raises(RewriteError, match="the condition of the equation returned"):
            saturation(graphs[way], made.rules)


def test_what_after_returns_is_judged() -> None:
    def before(x: Value) -> Value:
        return op.Neg(x)

    for after, complaint in (
        (lambda x: None, "returned None"),
        (lambda x: (op.Neg(x), x), "returned 2 values for 1 result"),
        (lambda x: "x", "returned 'x'"),
    ):
        wrong = irkit.replace_pattern(before, after, name="wrong")
        for call in (rewrite, saturation):
            with pytest.raises(RewriteError, match=f"the rule wrong {complaint}"):
                call(GRAPH, (wrong,))
    number = irkit.replace_pattern(lambda x: op.Sub(x, x), lambda x: np.float32(0), name="zero")
    four = param(tensor("f32"))
    graph = Graph((four,), (op.Sub(four, four),))
    assert rewrite(graph, number).results[0].op == "Constant"
    with pytest.raises(TypeRuleError):
        irkit.replace_pattern(before, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fact", "refused"),
    [("min(m, n) >= 3", False), ("m > n + 1", False), ("n + m >= 3", True), ("n == m + 4", True), ("n >= 3", True)],
)
def test_types_differ_at_no_sizes_that_a_fact_about_another_name_excludes(fact: str, refused: bool) -> None:
    """A fact that speaks of two names was left out where the types differ by one of them alone."""
    text = f"""graph g {{
      symbol m in [1, inf]
      symbol n in [1, inf]
      input %x: f32[m]
      input %y: f32[n]
      fact guard "{fact}"
      %0: f32[m] = Neg(%x)
      return %0, %y
    }}"""
    # [m] becomes [max(0, m - 2) + 2], which is another size where m is 1
    longer = Rule(
        "longer", p.Neg(X), lambda m: op.Concat(op.Slice(m.x, [2], [9999], [0]), np.ones(2, np.float32), axis=0)
    )
    graph = irkit.parse(text)
    if refused:
        with pytest.raises(RewriteError, match=r"the rule longer turns a .* which differ at m = 1"):
            rewrite(graph, longer)
    else:
        rewrite(graph, longer)
