"""What an export is for, and how a graph is brought there once more, to be watched."""

from __future__ import annotations

import attrs
import torch

from irkit.core.ir import Graph
from irkit.rewriting.history import History, record_history
from irkit.rewriting.passes import Observer, Pass
from irkit.rewriting.rules import Rule, Rules
from lowering.program.finite_numbers import free_choices
from lowering.records.options import ExportOptions
from lowering.records.types import DTYPES
from passes import optimize
from passes.pipelines.rule_sets import text_of
from passes.pipelines.standard import several
from passes.precision import Precision
from passes.preparing.finish import finish
from passes.quantization import Quantization
from passes.targets import Target, target_of
from passes.whole_graph.seeded import seeded


@attrs.frozen(eq=False)
class Goal:
    """What an export is for, made of its options before the work begins.

    `free` says that no opset was asked for, so that an older one than the target's newest may be taken.
    """

    target: Target
    free: bool = False
    optimize: bool = True
    rules: tuple[Rule | str, ...] = ()
    precision: Precision | None = None
    quantization: Quantization | None = None
    seed: int | None = None

    @property
    def own_rules(self) -> Rules:
        """The rules of the caller's own among `rules`."""
        return tuple(rule for rule in self.rules if isinstance(rule, Rule))

    @property
    def is_usual(self) -> bool:
        """Whether a graph is optimized as it was lowered, before all else, and by irkit's rules alone."""
        return self.optimize and self.seed is None and not self.own_rules

    @classmethod
    def of(cls, options: ExportOptions) -> Goal:
        """The goal that options name. Raises RewriteError for a target, rules or a precision that there are none of."""
        wanted = options.precision
        half = DTYPES.get(wanted, str(wanted)) if isinstance(wanted, torch.dtype) else wanted
        return cls(
            target_of(options.target, options.opset),
            free=options.opset is None and isinstance(options.target, str),
            optimize=options.optimize,
            rules=several(options.rules),
            precision=None if half is None else Precision.of(half),
            quantization=None if options.quantize is None else Quantization.of(options.quantize),
            seed=options.seed,
        )


def history_to(goal: Goal, start: Graph) -> History:
    """All that passes and rules do to a graph, conditions on its data among its results, on the way to a goal."""
    return record_history(way_to(goal), start)


def way_to(goal: Goal) -> Pass:
    """The pass that takes a graph to a goal."""

    def body(graph: Graph, observe: Observer, _depth: int) -> Graph:
        drawn = graph if goal.seed is None else seeded(graph, seed=goal.seed)
        better = optimize(drawn, rules=goal.rules, observe=observe) if goal.optimize else drawn
        freed = free_choices(better, target=goal.target, rules=goal.rules)
        return finish(
            freed,
            goal.target,
            free=goal.free,
            rules=text_of(goal.rules),
            precision=goal.precision,
            quantization=goal.quantization,
            observe=observe,
        ).graph

    return Pass("export", (), body)
