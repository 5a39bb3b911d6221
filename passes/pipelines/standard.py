"""The pipelines, as data."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

from irkit.core.ir import Graph, require_graph
from irkit.errors import RewriteError
from irkit.rewriting.driver import Plan
from irkit.rewriting.firings import Told, counts_only, heard
from irkit.rewriting.passes import Observer, Pass, in_sequence, nobody, rules_pass, when
from irkit.rewriting.rules import Rule, Rules
from irkit.support.uncollected import without_collector
from passes.pipelines.rule_sets import choose_rules, require_limit, with_limit
from passes.rules.arithmetic.activations import ACTIVATIONS
from passes.rules.arithmetic.algebra import ALGEBRA, REAL_ALGEBRA
from passes.rules.arithmetic.casts import AROUND, CASTS
from passes.rules.arithmetic.clips import CLIPS, REAL_CLIPS
from passes.rules.arithmetic.finite import FINITE
from passes.rules.arithmetic.fusions import FUSIONS
from passes.rules.arithmetic.norms import NORMS
from passes.rules.arithmetic.reductions import REAL_REDUCED, REDUCED
from passes.rules.attention.attention import ATTENTION, DOUBLED
from passes.rules.attention.interleaved import INTERLEAVED
from passes.rules.attention.masks import LOOKUPS, MASKS
from passes.rules.attention.penalties import PENALTIES
from passes.rules.attention.rotary import ROTARY
from passes.rules.attention.scores import FACTORED, SPREAD
from passes.rules.attention.written_out import WRITTEN_OUT
from passes.rules.constants import EXACT_FOLDING, FOLDING
from passes.rules.control_flow import has_bodies
from passes.rules.movement.counting import CAUSAL, ORDINALS
from passes.rules.movement.lookups import NUMBERS
from passes.rules.movement.parts import PARTS
from passes.rules.movement.repeated import REAL_REPEATED, REPEATED
from passes.rules.movement.scatters import SCATTERS
from passes.rules.movement.sequences import SEQUENCES
from passes.rules.movement.sizes import SIZES
from passes.rules.movement.transposes import MOVEMENT, REAL_MOVEMENT
from passes.rules.movement.views import SHAPES
from passes.rules.nan import NAN
from passes.rules.onnxruntime import CONTRIB
from passes.rules.weights.affine import AFFINE
from passes.rules.weights.convolution import CONVOLUTION
from passes.rules.weights.products import PRODUCTS
from passes.rules.weights.quantized import QUANTIZED, REAL_QUANTIZED
from passes.rules.weights.weights import WEIGHTS
from passes.whole_graph.cancel_transposes import cancel_transposes
from passes.whole_graph.decide import decide
from passes.whole_graph.equal_layers import rewrite_layers
from passes.whole_graph.fuse_caches import fuse_caches
from passes.whole_graph.hoist import hoist
from passes.whole_graph.layer_calls import rewritten_layers, written_out
from passes.whole_graph.merge_slices import merge_slices
from passes.whole_graph.share_contents import share_contents
from passes.whole_graph.trim import trim

SHARED = (
    SIZES
    + SHAPES
    + PARTS
    + ORDINALS
    + LOOKUPS
    + NUMBERS
    + SPREAD
    + ALGEBRA
    + CLIPS
    + CASTS
    + AROUND
    + MOVEMENT
    + QUANTIZED
    + REDUCED
    + SCATTERS
    + SEQUENCES
    + DOUBLED
    + REPEATED
)
"""Rules of both levels."""

EXACT = SHARED + EXACT_FOLDING
"""Rules that keep every bit of every result."""

REAL = (
    SHARED
    + FOLDING
    + REAL_ALGEBRA
    + REAL_CLIPS
    + REAL_MOVEMENT
    + REAL_QUANTIZED
    + PRODUCTS
    + FUSIONS
    + NORMS
    + ACTIVATIONS
    + REAL_REDUCED
    + WRITTEN_OUT
    + ATTENTION
    + ROTARY
    + CAUSAL
    + MASKS
    + CONVOLUTION
    + AFFINE
    + WEIGHTS
    + FACTORED
    + INTERLEAVED
    + PENALTIES
    + REAL_REPEATED
)
"""Those, and rules that are true of real numbers: results may differ in the last bits."""


def settled(name: str, rules: Rules, *after: Pass, alike: bool = True) -> Pass:
    """The rules, what moves values about, and the passes that see whole graphs, until none of them changes anything.

    With `alike`, layers that are alike are rewritten as one first, unless an observer wants to see each step.

    The graph that this returns knows that it is settled, so that another run returns it at once: a graph that had
    nothing to gain comes back as an equal one, for its own sake unchanged, that knows.
    """
    key = (name, rules, after)

    def body(graph: Graph, observe: Observer, depth: int) -> Graph:
        if key in graph.settled:
            return graph
        seen = alike and (observe is nobody or counts_only(observe))
        called = rewritten_layers(graph, by_itself, heard(observe)) if seen else None
        graph = written_out(graph) if called is None else called
        if share_contents not in graph.settled:
            graph = share_contents.run(graph, observe, depth)
        graph = EARLY.run(graph, observe, depth)
        if seen and called is None:
            graph = rewrite_layers(graph, by_itself, heard(observe))
        return rounds(graph, observe, depth, Plan(rules, told=heard(observe)))

    def by_itself(layer: Graph, told: Told | None) -> Graph:
        return rounds(layer, nobody, 0, Plan(rules, told=told))

    def rounds(graph: Graph, observe: Observer, depth: int, plan: Plan) -> Graph:
        simplify = Pass(name, (), lambda before, _observe, _depth: plan.rewrite(before))
        for _ in range(ROUNDS):
            simplified = graph = simplify.run(graph, observe, depth)
            for each in MOVES:
                graph = each.run(graph, observe, depth)
            if graph is not simplified:
                continue
            for each in after:
                graph = each.run(graph, observe, depth)
            if graph is simplified:
                return graph.settled_by(key)
        return graph

    return Pass("settled", (("rules", name),), body)


ROUNDS = 8
"""How often values are moved and the rules applied to what that leaves."""

EARLY = when(has_bodies, hoist)
"""What goes first: a product of what never changes, once it is fused with what does, cannot leave its loop."""

MOVES: tuple[Pass, ...] = (cancel_transposes, when(has_bodies, in_sequence(decide, trim, hoist, name="around_bodies")))
"""What moves values about: Transposes that meet, and what bodies compute without need."""


def pipeline(level: int, rules: Rules, alike: bool = True) -> Pass:
    """What a level does, with these rules; `alike` as `settled` takes it."""
    if level == 0:
        return rules_pass("share", rules)
    if level == 1:
        return in_sequence(settled("simplify_exactly", rules, merge_slices, alike=alike), name="exact")
    return in_sequence(settled("simplify", rules, merge_slices, fuse_caches, alike=alike), name="standard")


RULES: tuple[Rules, ...] = ((), EXACT, REAL)
"""The rules of each level."""

LEVELS: tuple[Pass, ...] = tuple(pipeline(level, rules) for level, rules in enumerate(RULES))
"""By level: 0 merges equal values, 1 keeps every bit, 2 may change the last bits of floating-point results."""


def all_rules(level: int) -> Rules:
    """The rules of a level, and those that it could have."""
    asked = (*NAN, *(FINITE if level == 2 else ()))
    return tuple(dict.fromkeys((*RULES[level], *EXACT, *asked))) if level else ()


@lru_cache(maxsize=64)
def selected(level: int, text: str, fold: int | None) -> Rules:
    """The rules of a level that a text names (`passes.pipelines.rule_sets`), which compute constants of up to `fold`
    elements. Raises RewriteError for a name of nothing."""
    known = RULES[level]
    if text:
        named = choose_rules(text, RULES[level] + CONTRIB, all_rules(level) + CONTRIB)
        known = tuple(r for r in named if r not in CONTRIB)
    return known if fold is None else with_limit(known, fold)


def rules_named(text: str, level: int = 2) -> Rules:
    """The rules of a level that a text names: `layer_norm`, `*_norm`, `attention`, `default-attention+gelu`.

    Raises RewriteError for a name of nothing, with names that are near it.
    """
    return selected(level, text, None)


@lru_cache(maxsize=64)
def selected_fusions(text: str) -> Rules:
    """The rules into ONNX Runtime's own operators that a text names, all of them where it is empty. Raises RewriteError
    for a name of nothing."""
    named = choose_rules(text, REAL + CONTRIB, all_rules(2) + CONTRIB) if text else CONTRIB
    return tuple(r for r in named if r in CONTRIB)


def several(rules: Any) -> tuple[Rule | str, ...]:
    """Rules and texts as a tuple, of one too. Raises RewriteError for what is neither."""
    found: tuple[Any, ...] = (
        tuple(cast("Iterable[Any]", rules)) if isinstance(rules, Iterable) and not isinstance(rules, str) else (rules,)
    )
    wrong = [each for each in found if not isinstance(each, Rule | str)]
    if wrong:
        raise RewriteError(
            f"{wrong[0]!r} is not a rule",
            hint="make one by @irkit.rule(pattern), take .forward or .rules of an equation, or choose among irkit's by "
            'a text: rules="default-attention"',
        )
    return found


@without_collector
def optimize(
    graph: Graph,
    level: int = 2,
    *,
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
    fold: int | None = None,
    check: bool = False,
    observe: Observer = nobody,
) -> Graph:
    """The graph with the standard pipeline of that level applied. What this returned, it returns again at once.

    A graph that had nothing to gain comes back equal, as an object that knows so; the argument itself never changes.

    Level 0 merges equal values. Level 1 also applies the rules that keep every bit. Level 2, the default, also those
    that hold in real arithmetic only, so that results may differ in their last bits. `observe` is told of each step.

    `rules` are the caller's own. They see the graph as it is first, and then stand before those of the level: of two
    that match, theirs is taken. A text among them, or in their place, chooses among the rules of the level by name:
    "default-attention" is all but those of attention, "norms+casts" only these (see `passes.pipelines.rule_sets` and
    the command `irkit rules`).

    `fold` is how many elements a constant may have that is computed of others; 2**14 where it is not given. What takes
    no more room than its operands is computed in any case, unless `fold` is 0; weights are no constants.

    `check` compares both sides of every application of every rule by numbers, on random content of what it fired on:
    a wrong one raises RewriteError, which names it. That is for finding what broke a graph, and slow.
    """
    require_graph(graph)
    if type(level) is not int or level not in range(len(LEVELS)):
        raise RewriteError(f"there is no level {level!r}", hint="levels are 0, 1 and 2")
    if fold is not None:
        require_limit(fold)
    given = several(rules)
    own = tuple(r for r in given if isinstance(r, Rule))
    if own or check or level == 0:
        graph = written_out(graph)
    known, last = parted(selected(level, "+".join(r for r in given if isinstance(r, str)), fold))
    if own or check:
        from irkit.checking.rules import guarded  # which most exports do without

        first, both, last = (own, own + known, last) if not check else map(guarded, (own, own + known, last))
        step = in_sequence(rules_pass("own rules", first), pipeline(level, both, alike=False), name="own")
    else:
        step = LEVELS[level] if known is RULES[level] else pipeline(level, known)
    step = in_sequence(step, rules_pass("keep_nan", last), step, name="keep_nan") if last else step
    return step.run(graph, observe)


_KEEPS_NAN = frozenset(NAN)


def parted(rules: Rules) -> tuple[Rules, Rules]:
    """(rules, those among them by which NaN is kept): these come last, when nothing is to be recognized any more."""
    if _KEEPS_NAN.isdisjoint(rules):  # as all default rules are: it is asked for each graph
        return rules, ()
    return tuple(r for r in rules if r not in _KEEPS_NAN), tuple(r for r in rules if r in _KEEPS_NAN)
