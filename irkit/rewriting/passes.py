"""Passes as values: a name, options, and a function from graph to graph; and the combinators on them.

tidy = in_sequence(shapes, fixpoint(in_sequence(algebra, fold)), when(has_convolutions, fuse_convolutions))
graph = tidy(graph)
trace = record(tidy, graph)            # every version, with the pass that made it
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from irkit.core import walk
from irkit.core.ir import Graph
from irkit.errors import RewriteError
from irkit.rewriting.driver import Plan
from irkit.rewriting.firings import heard
from irkit.rewriting.numbering import Bodies, with_bodies
from irkit.rewriting.rules import Rule, Rules, rule_set


@attrs.frozen(eq=False)
class Step:
    """One application of a pass, as an observer is told of it. `depth` is how many combinators stand around it."""

    name: str
    before: Graph
    after: Graph
    seconds: float
    depth: int = 0

    @property
    def changed(self) -> bool:
        """True where the pass did something."""
        return self.after is not self.before


Observer = Callable[[Step], None]
"""Told of each application of each pass, inner ones first. Passes themselves never print, log or time. One that has a
method `fired` is told by it of each firing of a rule (`irkit.rewriting.Firing`), before the step that it belongs to."""

Body = Callable[[Graph, Observer, int], Graph]
"""How a pass works: the graph, whom to tell of inner passes, and how deep it stands."""


def nobody(step: Step) -> None:
    """The observer that takes no notice."""


def unchanged(graph: Graph, observe: Observer, depth: int) -> Graph:
    """The body of the pass that does nothing."""
    return graph


@attrs.frozen
class Pass:
    """A function from graph to graph, with a name and options that can be printed and compared.

    It returns the very same object where it changes nothing. `pass_(graph, observe=f)` tells `f` of each step. Called
    with options only, it is the same pass with those options: `merge_slices(at_least=3)`.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    body: Body = attrs.field(default=unchanged, eq=False, repr=False)
    maker: Callable[..., Pass] | None = attrs.field(default=None, eq=False, repr=False)

    def __call__(self, graph: Graph | None = None, /, observe: Observer = nobody, **options: Any) -> Any:
        """The graph after the pass; or, without a graph, the pass with other options."""
        if graph is None:
            if self.maker is None:
                raise TypeError(f"the pass {self.name} takes no options")
            return self.maker(**{**dict(self.options), **options})
        if options:
            return self(**options)(graph, observe=observe)
        return self.run(graph, observe)

    def run(self, graph: Graph, observe: Observer = nobody, depth: int = 0) -> Graph:
        """The graph after the pass; `observe` is told of it and of every pass inside it."""
        if observe is nobody:
            return self.body(graph, observe, depth + 1)
        start = time.perf_counter()
        after = self.body(graph, observe, depth + 1)
        observe(Step(str(self), graph, after, time.perf_counter() - start, depth))
        return after

    def __str__(self) -> str:
        if not self.options:
            return self.name
        given = ", ".join(f"{k}={v}" for k, v in self.options)
        return f"{self.name}{{{given}}}"


def graph_pass(function: Callable[..., Graph]) -> Pass:
    """`@graph_pass` turns a function of a graph and keyword options into a pass of its name and default options."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }

    def made(**options: Any) -> Pass:
        unknown = sorted(set(options) - set(defaults))
        if unknown:
            raise TypeError(f"the pass {function.__name__} has no option {unknown[0]!r}; it has {sorted(defaults)}")
        given = {**defaults, **options}

        def body(graph: Graph, observe: Observer, depth: int) -> Graph:
            return function(graph, **given)

        def again(**more: Any) -> Pass:
            return made(**{**given, **more})

        changed = tuple(sorted((k, v) for k, v in given.items() if v != defaults[k]))
        return Pass(function.__name__, changed, body, again)

    return made()


def rules_pass(name: str, rules: Rules | Rule) -> Pass:
    """The pass that applies rules, or one rule (see `irkit.rewrite`). Raises RewriteError for what is not a rule."""
    chosen = rule_set(rules)
    return Pass(name, (), lambda graph, observe, depth: Plan(chosen, told=heard(observe)).rewrite(graph))


# ---------------------------------------------------------------------------------------------- combinators

Passes = Pass | Callable[..., Graph]
"""What combinators take: a pass, or a function of a graph."""


def as_pass(function: Passes) -> Pass:
    """The pass that a function of a graph is; a pass itself. Observers are told of its steps where it has a parameter
    `observe`. Raises TypeError for what cannot be called."""
    if isinstance(function, Pass):
        return function
    if not callable(function):
        raise TypeError(f"{function!r} is neither a pass nor a function of a graph")
    if "observe" in inspect.signature(function).parameters:
        return Pass(function.__name__, (), lambda graph, observe, depth: function(graph, observe=observe))
    return Pass(getattr(function, "__name__", "function"), (), lambda graph, observe, depth: function(graph))


def in_sequence(*passes: Passes, name: str = "sequence") -> Pass:
    """The passes one after the other, as one pass of that name. Raises TypeError for what is not a pass."""
    steps = tuple(map(as_pass, passes))

    def body(graph: Graph, observe: Observer, depth: int) -> Graph:
        for each in steps:
            graph = each.run(graph, observe, depth)
        return graph

    return Pass(name, (("passes", tuple(str(each) for each in steps)),), body)


def fixpoint(inner: Passes, *, limit: int = 10) -> Pass:
    """The pass applied until it changes nothing. Raises RewriteError where that takes more than `limit` rounds."""
    step = as_pass(inner)

    def body(graph: Graph, observe: Observer, depth: int) -> Graph:
        for _ in range(limit):
            after = step.run(graph, observe, depth)
            if after is graph:
                return graph
            graph = after
        raise RewriteError(
            f"{step} still changes the graph after {limit} rounds",
            hint="a pass must return the very same graph once it has nothing to do",
        )

    return Pass("fixpoint", (("inner", str(step)), ("limit", limit)), body)


def when(condition: Callable[[Graph], bool], inner: Passes) -> Pass:
    """The pass, for graphs that the condition holds of; others come back as they are."""
    step = as_pass(inner)

    def body(graph: Graph, observe: Observer, depth: int) -> Graph:
        return step.run(graph, observe, depth) if condition(graph) else graph

    return Pass("when", (("condition", condition.__name__), ("inner", str(step))), body)


def in_bodies(inner: Passes) -> Pass:
    """The pass applied to the graph and to every body in it, innermost first; each distinct body once.

    Observers are told of the whole as one step.
    """
    step = as_pass(inner)

    def body(graph: Graph, observe: Observer, depth: int) -> Graph:
        return _everywhere(graph, step.run, Bodies())

    return Pass("in_bodies", (("inner", str(step)),), body)


def _everywhere(graph: Graph, function: Callable[[Graph], Graph], bodies: Bodies) -> Graph:
    if next(walk.bodies(graph.order), None) is None:
        return function(graph)
    built: dict[Any, Any] = {}
    for value in graph.order:
        new = value
        if built and not built.keys().isdisjoint(value.inputs):
            new = value.with_inputs(tuple(built.get(v, v) for v in value.inputs))
        if value.bodies:
            new = with_bodies(new, tuple(_body(each, function, bodies) for each in value.bodies))
        if new is not value:
            built[value] = new
    return function(graph.with_results(built.get(r, r) for r in graph.results))


def _body(body: Graph, function: Callable[[Graph], Graph], bodies: Bodies) -> Graph:
    key = bodies.key(body)
    if key not in bodies.known:
        bodies.known[key] = body, _everywhere(body, function, bodies)
    first, found = bodies.known[key]
    return body if found is first else found  # equal bodies that are two objects stay two where nothing changes


Check = Callable[[Graph, Graph], None]
"""A check of a pass: told the graph before and after, it raises where they may not follow one another."""


def verified(inner: Passes, *checks: Check) -> Pass:
    """The pass, with every check made after each step that changed the graph, inside it and at its end.

    Raises RewriteError that names the step, from the error of the check.
    """
    watched = as_pass(inner)

    def body(graph: Graph, observe: Observer, depth: int) -> Graph:
        def watch(step: Step) -> None:
            if step.changed:
                _check(step, checks)
            observe(step)

        return watched.run(graph, watch, depth)

    return Pass("verified", (("inner", str(watched)), ("checks", tuple(c.__name__ for c in checks))), body)


def _check(step: Step, checks: tuple[Check, ...]) -> None:
    for check in checks:
        try:
            check(step.before, step.after)
        except Exception as error:
            raise RewriteError(
                f"{step.name} broke {check.__name__}: {error}",
                hint="irkit.check_rule(rule), for each rule of that pass, finds the one that is wrong",
            ) from error


# ---------------------------------------------------------------------------------------------- versions


@attrs.frozen(eq=False)
class Version:
    """A graph, and the pass that made it ("" for the first)."""

    made_by: str
    graph: Graph


@attrs.frozen(eq=False)
class Trace:
    """Every version of a graph that a pass went through, in order."""

    versions: tuple[Version, ...]

    @property
    def result(self) -> Graph:
        """The last version."""
        return self.versions[-1].graph

    def __iter__(self) -> Iterator[Version]:
        return iter(self.versions)

    def bisect(self, good: Callable[[Graph], bool]) -> Version | None:
        """The first version that `good` does not hold of, found in log2(n) questions; None where it holds of the last.

        Takes for granted that what once went bad stays bad. Raises ValueError where the first version is bad already.
        """
        if not good(self.versions[0].graph):
            raise ValueError("the version before every pass is bad already")
        if good(self.result):
            return None
        low, high = 0, len(self.versions) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if good(self.versions[middle].graph) else (low, middle)
        return self.versions[high]


def record(inner: Passes, graph: Graph) -> Trace:
    """Every version that `graph` goes through under the pass: one for each innermost step that changed it.

    Each has `graph` and `made_by`, the name of the step, empty for the first; `record(...).bisect(is_good)` finds the
    first bad one.
    """
    versions = [Version("", graph)]

    def keep(step: Step) -> None:
        if step.changed and step.after is not versions[-1].graph:
            versions.append(Version(step.name, step.after))

    as_pass(inner).run(graph, keep)
    return Trace(tuple(versions))
