"""Modules that decide by sizes, each run once for each of its ways, which become branches of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import sympy
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from irkit.core.ir import Value
from irkit.dims.choice import negation
from irkit.errors import IrkitError
from lowering.capture.guards.answers import words
from lowering.capture.guards.comparisons import as_said
from lowering.capture.guards.guards import Guard
from lowering.capture.inputs.containers import by_key, restore
from lowering.capture.inputs.contents import Contents
from lowering.capture.inputs.side_effects import reached_from
from lowering.direct.caches import Unequal, Unmet
from lowering.direct.control import as_value, inside, stand_in
from lowering.direct.data import conditions_within
from lowering.direct.request import Request
from lowering.direct.tensors import Memory, Traced
from lowering.direct.tracer import Tracer
from lowering.fold.assertions import settled_checks, wide_checks
from lowering.records.torch_internals import pytree
from lowering.size_branches.decisions import MOST, Decisions, GivenUp, Path
from lowering.size_branches.elsewhere import sizes_where
from lowering.size_branches.joins import Apart, Given, Way, join_leaves
from lowering.tensors.complex_pairs import is_complex

Place = tuple[int, Any]
"""A place in a dict or list around: the number of that, and the key."""


@attrs.frozen(eq=False)
class Left:
    """What a run of a module left: its way, the structure of its result, the changed places around, and what was asked
    that need hold where it is taken."""

    way: Way
    spec: pytree.TreeSpec
    places: Sequence[Place]
    kept: dict[Any, Guard]


@attrs.define(eq=False)
class Region:
    """One call of a module whose ways become branches."""

    tracer: Tracer
    decisions: Decisions
    module: torch.nn.Module
    forward: Callable[..., Any]
    args: Any
    operands: list[Traced] = attrs.field(factory=list)
    before: list[tuple[Any, Any]] = attrs.field(factory=list)

    def run(self) -> Any:
        """What the module gives. Raises GivenUp where its ways cannot be branches."""
        self.operands = [*{id(each): each for each in pytree.tree_leaves(self.args) if type(each) is Traced}.values()]
        reached = reached_from([self.module, self.forward, self.args])
        self.before, variables = [*Contents.of(reached.containers).before()], reached.variables()
        found: list[Left] = []
        refused: list[Path] = []
        pending, running = [Path(self.module, [])], [*self.decisions.running]
        while pending:
            path = pending.pop()
            path.left = MOST - len(found) - len(refused) - len(pending)
            path.elsewhere = bool(path.said) or any(each.elsewhere for each in self.decisions.paths)
            said, raised, noted = bool(path.said), self.tracer.asked.raised, set(self.decisions.noted)
            try:
                found.insert(0, self.left(path))
                if any(each.is_other() for each in variables):
                    raise GivenUp(self.module, "it changes a variable of a function around it, or a global one")
            except Unequal:
                raise
            except Exception as error:  # models raise anything
                if not said:
                    if path.elsewhere or self.tracer.before is not None:
                        raise
                    what = error.what if isinstance(error, IrkitError) else f"{type(error).__name__}: {error}"
                    raise GivenUp(self.module, what) from error
                refused.append(path)
                self.tracer.asked.raised, self.decisions.noted = raised, noted
            finally:
                self.decisions.running[:] = running
                for each, known in self.before:
                    restore(each, known)
                for variable in variables:
                    variable.restore()
            pending += path.forks
        return self.as_one(found, refused)

    def as_one(self, found: Sequence[Left], refused: Sequence[Path]) -> Any:
        """What the ways leave, as one."""
        if len(found) == 1:
            self.decisions.one_way(self.module)
            args, kwargs = self.args
            return self.forward(*args, **kwargs)
        first = found[-1]
        if any(each.spec != first.spec for each in found):
            raise GivenUp(self.module, "its results are of several structures")
        try:
            places = [*dict.fromkeys(place for each in found for place in each.places)]
            with Unmet():
                ways = [self.with_places(each, places) for each in found]
                leaves = join_leaves(self.tracer, self.module, ways, self.operands)
        except (Apart, IrkitError) as error:
            raise GivenUp(self.module, str(error)) from error
        for (number, key), value in zip(places, leaves[first.spec.num_leaves :], strict=True):
            self.before[number][0][key] = value
        self.keep(found, refused)
        self.decisions.joined = True
        return pytree.tree_unflatten(leaves[: first.spec.num_leaves], first.spec)

    def keep(self, found: Sequence[Left], refused: Sequence[Path]) -> None:
        """Keeps what each way needs where it is taken, and that those are not taken which cannot be."""
        for told in dict.fromkeys(told for each in found for told in each.kept):
            those = [each for each in found if told in each.kept]
            guard = those[0].kept[told]
            if len(those) == len(found) or guard.expr is None:
                self.keep_one(told, guard)
                continue
            for each in those:
                either = sympy.Or(negation(each.way.where), guard.expr)
                self.keep_one(either, attrs.evolve(guard, expr=either, text=words(either)))
        for path in refused:
            told = as_said(negation(path.where))
            self.keep_one(told, Guard(told, words(told), path.line))

    def keep_one(self, told: Any, guard: Guard) -> None:
        """Keeps a condition, with the line that asked it."""
        tracer = self.tracer
        if told != sympy.true and told not in tracer.asked.kept:
            tracer.asked.kept[told] = guard
            if guard.expr is not None:
                tracer.heard(guard.expr)

    # ------------------------------------------------------------------------------------------ one way

    def left(self, path: Path) -> Left:
        """What one run of the module leaves."""
        tracer = self.tracer
        with sizes_where(tracer, path.where, path.point) as kept, inside(tracer) as frame:
            before = set(tracer.asked.kept)
            params: list[Value] = []
            with Unmet():
                own = {id(each): stand_in(tracer, params, each, None) for each in self.operands}
            args, kwargs = pytree.tree_map(lambda each: own.get(id(each), each), self.args)
            self.decisions.paths.append(path)
            tracer.asked.inside += 1
            try:
                returned = self.forward(*args, **kwargs)
            finally:
                tracer.asked.inside -= 1
                self.decisions.paths.pop()
            given = [*own.values()]
            if any(each.handle.memory.version for each in given):
                raise GivenUp(self.module, "it writes into a tensor that it was given")
            flat, spec = pytree.tree_flatten(returned)
            changed = self.changes()
            with Unmet():
                values, shared = self.tensors_of([*flat, *changed.values()], given)
                tracer.scope.checks.extend(conditions_within(tracer, before))
                said = [each.condition for each in tracer.scope.checks]
                checks = settled_checks(tracer.scope, tracer.scope.checks)
                roots = [*values.values(), *(each.condition for each in checks)]
                checks += wide_checks(tracer.scope, roots, known=tracer.asked.ranges, guards=said, inside=True)
        numbers = {id(each): Given(index) for index, each in enumerate(given)}
        leaves = [numbers.get(id(each), each) for each in (*flat, *changed.values())]
        way = Way(tuple(path.said), leaves, values, shared, checks, frame, params)
        return Left(way, spec, list(changed), kept)

    def tensors_of(self, leaves: Sequence[Any], given: Sequence[Traced]) -> tuple[dict[int, Value], dict[int, Memory]]:
        """The values of tensors among results, by their places, and the memories of those that share one."""
        tracer = self.tracer
        values: dict[int, Value] = {}
        shared: dict[int, Memory] = {}
        outer = {id(each.handle.memory): own.handle.memory for each, own in zip(given, self.operands, strict=True)}
        times: dict[int, int] = {}
        for place, each in enumerate(leaves):
            if isinstance(each, torch.Tensor):
                handle = tracer.handle(each)
                memory = handle.memory
                times[id(memory)] = times.get(id(memory), 0) + 1
                values[place] = as_value(tracer, each)
                if is_complex(values[place]):
                    raise Apart("complex tensors are not met in branches")
                around = memory.depth < len(tracer.frames) or id(memory) in outer
                if around or handle.lenses or not handle.twin.is_contiguous() or times[id(memory)] > 1:
                    shared[place] = outer.get(id(memory), memory)
        for place, each in enumerate(leaves):
            if place in values and times[id(tracer.handle(each).memory)] > 1:
                shared.setdefault(place, tracer.handle(each).memory)
        return values, shared

    def changes(self) -> dict[Place, Any]:
        """What is other in the dicts and lists around than before the module ran. Raises GivenUp where one has more or
        less in it."""
        found: dict[Place, Any] = {}
        for number, (held, known) in enumerate(self.before):
            now, then = by_key(held), by_key(known)
            others = [key for key in {**then, **now} if key not in now or key not in then or now[key] is not then[key]]
            if others and (isinstance(held, set) or now.keys() != then.keys()):
                raise GivenUp(self.module, f"it changes {', '.join(map(repr, others))}")
            found.update({(number, key): now[key] for key in others})
        return found

    def with_places(self, left: Left, places: Sequence[Place]) -> Way:
        """A way with what all changed places around hold behind it. Raises Apart where that is a tensor that it leaves
        as it was."""
        way, count = left.way, left.spec.num_leaves
        where = {place: count + number for number, place in enumerate(left.places)}
        leaves, values, shared = list(way.leaves[:count]), dict(way.values), dict(way.shared)
        for each in range(count, count + len(places)):
            values.pop(each, None)
            shared.pop(each, None)
        for number, place in enumerate(places, count):
            if place in where:
                leaves.append(way.leaves[where[place]])
                if where[place] in way.values:
                    values[number] = way.values[where[place]]
                if where[place] in way.shared:
                    shared[number] = way.shared[where[place]]
                continue
            known = by_key(self.before[place[0]][1])[place[1]]
            if isinstance(known, torch.Tensor):
                raise Apart("it leaves a tensor that it changes otherwise")
            leaves.append(known)
        return attrs.evolve(way, leaves=leaves, values=values, shared=shared)


# ---------------------------------------------------------------------------------------------- while a model runs


@contextmanager
def branch_at_decisions(tracer: Tracer, request: Request) -> Iterator[None]:
    """A block in which modules that decide by sizes are run for each of their ways; nothing is other where no code is
    to be rewritten."""
    deciding, decides = request.deciding, request.options.decides
    if decides is None:
        yield
        return
    chosen = [module for _, module in request.parts.modules if id(module) in deciding.modules]
    decisions = Decisions(tracer, deciding, decides, chosen)
    tracer.decisions, tracer.asked.decide = decisions, decisions.answer

    def before(module: Any, _: Any) -> None:
        decisions.running.append(module)
        if not decisions.paths:
            decisions.calls[id(module)] += 1

    def after(module: Any, _: Any, __: Any) -> None:
        while decisions.running and decisions.running.pop() is not module:
            pass  # one that raised has no hooks called behind it, while torch compiles

    hooks = [register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)]
    had = {id(module): module.__dict__.get("forward") for module in chosen}
    try:
        for module in chosen:
            module.__dict__["forward"] = with_ways(tracer, decisions, module)
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for module in chosen:
            module.__dict__.pop("forward", None)
            if had[id(module)] is not None:
                module.__dict__["forward"] = had[id(module)]
        tracer.asked.decide = None


def with_ways(tracer: Tracer, decisions: Decisions, module: torch.nn.Module) -> Callable[..., Any]:
    """The forward of a module that is run for each of its ways."""
    own = module.forward

    @functools.wraps(own)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            return own(*args, **kwargs)
        return Region(tracer, decisions, module, own, (args, kwargs)).run()

    return forward
