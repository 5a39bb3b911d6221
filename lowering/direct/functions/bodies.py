"""Branches and loops whose gradients are recorded: their gradient is a branch or a loop of the gradients of their
bodies.

A body is traced without autograd knowing what comes of it: what a branch or a loop gives would have no gradient, and a
step would train as if it were a constant. The tensors of the model that a body uses are found as it is traced: the
gradient needs them as operands.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from lowering.errors import LoweringError

Perform = Callable[..., Any]
"""(a higher-order operator, its arguments) -> what it gives, without gradients."""
HIGHER = torch.ops.higher_order
Reach = Mapping[int, set[int]]
"""The leaves that a body makes each of some results of, by their places."""


def with_gradients(
    perform: Perform, depth: int, version_of: Callable[[Any], Any], func: Any, args: Sequence[Any]
) -> Any:
    """What a higher-order operator gives, with gradients, inside so many bodies."""
    rule, seen = {"cond": branch, "scan": scan, "map_impl": mapped}.get(func._name), Seen(depth, version_of)
    if rule is not None:
        return rule(perform, seen, func, *args)
    if func._name not in ("while_loop", "while_loop_stack_output"):  # a region, which runs where it stands
        return perform(func, *args)
    watched = [seen.watching(each) if is_body(each) else each for each in args]
    made = perform(func, *watched)
    return joined(made, tensors_with_gradients([*args, *seen.outer]), Refusing(func._name))


def branch(perform: Perform, seen: Seen, func: Any, pred: Any, yes: Any, no: Any, operands: Sequence[Any] = ()) -> Any:
    """torch.cond"""
    given, bodies = list(operands), (yes, no)
    made = perform(func, pred, *map(seen.watching, bodies), tuple(given))
    seen.read(given)
    flat, _ = pytree.tree_flatten(made)
    wanted = [place for place, each in enumerate(given) if has_gradient(each)]

    def back(slopes: Mapping[int, Any]) -> Sequence[Any]:
        seen.refuse_written()
        ends = len(given), len(seen.outer), len(slopes)

        def turned(body: Callable[..., Any]) -> Callable[..., Any]:
            def slope(*inside: Any) -> Any:
                own, others, behind = in_parts(inside, ends)
                found, lacked = slopes_of(body, own, wanted, seen.outer, others, dict(zip(slopes, behind, strict=True)))
                seen.lacking = [*seen.lacking, lacked]
                return found

            return slope

        told = each_detached([*given, *seen.outer, *slopes.values()])
        found = perform(func, pred, *map(turned, bodies), tuple(told))
        one, other = seen.lacking[-2:]
        if one != other and hasattr(yes, "one_way"):
            raise LoweringError(
                "one way of a branch gives a tensor a gradient, and the other none: data would tell whether it has one",
                hint="use the tensor on both ways, by + 0 * x.sum() on one, or write torch.where",
            )
        return without(found, one & other)

    return joined(made, [*(given[place] for place in wanted), *seen.outer], Back(back, real_places(flat)))


def mapped(perform: Perform, seen: Seen, func: Any, function: Any, xs: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    """torch._higher_order_ops.map, a scan that carries nothing."""
    return scan(perform, seen, HIGHER.scan, function, [], xs, extra)


def scan(
    perform: Perform, seen: Seen, func: Any, function: Any, init: Sequence[Any], xs: Sequence[Any],
    extra: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """torch._higher_order_ops.scan, which gives what is carried before each step besides; the gradient goes over these
    from the last on, and carries the gradients of the state, of the further operands and of the model's tensors."""
    count, steps = len(init), len(xs)
    watched = seen.watching(function)

    def forward(*given: Any) -> Any:
        flat, seen.spec = pytree.tree_flatten(watched(*given))
        return (*flat, *(each.clone() for each in given[:count]))

    if hasattr(function, "counts"):
        forward.counts = function.counts  # type: ignore[attr-defined]
    operands = (tuple(each_detached(each)) for each in (init, xs, extra))
    found = list(perform(func, forward, *operands))
    seen.read([*xs, *extra])
    made, before = found[: len(found) - count], found[len(found) - count :]
    elements, others = real_places(xs), [place for place, each in enumerate(extra) if has_gradient(each)]
    carried = real_places(init)
    wanted = [*carried, *(count + i for i in elements), *(count + steps + i for i in others)]
    sums = [*(extra[i] for i in others), *seen.outer]

    def back(slopes: Mapping[int, Any]) -> Sequence[Any]:
        seen.refuse_written()
        outs = tuple(place for place in slopes if place >= count)
        turns: Sequence[Container[int]] = ()

        def step(*given: Any) -> Any:
            ends = [len(carried), len(sums), 1 if turns else 0, len(outs), count, steps, len(extra), len(seen.outer)]
            held, total, turn, after, own, element, more, outer = in_parts(given, ends)
            known = dict(zip((*carried, *outs), (*held, *after), strict=True))
            through = partial(reached_in_rounds, seen, carried, [i for i in carried if i in slopes], outs)
            whole = (*own, *element, *more)
            turned, lacked = slopes_of(function, whole, wanted, seen.outer, outer, known, through, turns, *turn)
            seen.lacking = [lacked]
            of_state, of_elements, of_sums = in_parts(turned, [len(carried), len(elements), len(sums)])
            added = [a + b for a, b in zip(total, of_sums, strict=True)]
            return (*of_state, *added, *(each.clone() for each in of_elements))

        if xs:
            torch._check(xs[0].shape[0] >= 1, lambda: "the gradient of a loop of no rounds is asked for")
        first = [slopes[i] if i in slopes else torch.zeros_like(made[i]) for i in carried]
        first += [torch.zeros_like(each) for each in sums]
        over = [each.flip(0) for each in (*(slopes[i] for i in outs), *before, *each_detached(xs))]
        more = tuple(each_detached([*extra, *seen.outer]))
        turned = list(perform(func, step, tuple(first), tuple(over), more))
        if len(seen.turns) > 1:  # what earlier rounds gave to states that later ones overwrite has no gradient at all
            turns = seen.turns
            turned = list(perform(func, step, tuple(first), (torch.arange(before[0].shape[0]), *over), more))
        of_state, of_sums, of_elements = in_parts(turned, [len(carried), len(sums), len(elements)])
        for least in seen.rounds[-1:]:
            many = not xs or xs[0].shape[0] >= least
            torch._check(many, lambda: "a gradient goes through a state that only more rounds of the loop read")
        return without([*of_state, *(each.flip(0) for each in of_elements), *of_sums], seen.lacking[-1])

    inputs = [*(init[i] for i in carried), *(xs[i] for i in elements), *sums]
    places = [*carried, *(count + i for i in real_places(made[count:]))]
    return joined(pytree.tree_unflatten(made, seen.spec), inputs, Back(back, places))


# ---------------------------------------------------------------------------------------------- bodies


def slopes_of(
    body: Callable[..., Any], operands: Sequence[Any], wanted: Sequence[int], outer: Sequence[Any],
    stand_ins: Sequence[Any], slopes: Mapping[int, Any],
    through: Callable[[Reach], tuple[Container[int], Container[int]]] | None = None,
    turns: Sequence[Container[int]] = (), turn: Any = None,
) -> tuple[list[Any], set[int]]:  # fmt: skip
    """(the gradients of some operands of a body, and of the model's tensors that it uses, in whose place others stand;
    which of them have none), of the gradients of its results by their places. Of a body that is gone through again,
    `through` tells which of them have one at all, of those that each result is made of, and which results give one; in
    each round only those of `turns` at the place that the tensor `turn` says, from the last one on always the same."""
    with torch.enable_grad():
        own = [each.detach() if isinstance(each, torch.Tensor) else each for each in operands]
        leaves = [own[place].requires_grad_() for place in wanted]
        others = [each.detach().requires_grad_() for each in stand_ins]
        replacing = Replacing({id(old): new for old, new in zip(outer, others, strict=True)}, [*leaves, *others])
        with replacing:
            flat, _ = pytree.tree_flatten(body(*own))
        leaves += others
        made_here = {id(each) for each in replacing.born}
        if any(id(each) not in made_here for each in leaves_behind(flat, ())):
            what = "a branch or a loop uses a tensor by what is no operator of torch, and a gradient of it is asked for"
            raise LoweringError(what, hint="give the tensor to the function by an operator of torch, x * 1 for one")
        met: Container[int] = range(len(leaves))
        used: Container[int] = slopes
        if through is not None:
            met, used = through({place: behind(flat[place], leaves) for place in slopes})
        found = gradients_through(flat, slopes, used, leaves, bool(turns))
        each_turn = [gradients_through(flat, slopes, places, leaves, True) for places in turns]
    lacking = {place for place, each in enumerate(found) if each is None or place not in met}
    shown = [with_zeros(each, leaves) for each in each_turn or [found]]
    result = shown[-1]
    for number, other in reversed(list(enumerate(shown[:-1]))):
        result = [torch.where(turn == number, one, rest) for one, rest in zip(other, result, strict=True)]
    return result, lacking


def gradients_through(
    flat: Sequence[Any], slopes: Mapping[int, Any], used: Container[int], leaves: Sequence[Any], again: bool
) -> Sequence[Any]:
    """The gradients of leaves by those of some results, None for what these are not made of; they may be asked `again`
    by others."""
    pairs = [(flat[place], slope) for place, slope in slopes.items() if place in used and flat[place].requires_grad]
    if not pairs or not leaves:
        return [None] * len(leaves)
    ends, begun = zip(*pairs, strict=True)
    return torch.autograd.grad(ends, leaves, begun, retain_graph=again, allow_unused=True)


def with_zeros(found: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Gradients of leaves, zeros where there is none."""
    every = zip(found, leaves, strict=True)
    return [torch.zeros_like(leaf) if each is None else each.clone() for each, leaf in every]


def behind(result: Any, leaves: Sequence[Any]) -> set[int]:
    """The places of the leaves that a result is made of."""
    found = {id(each) for each in (result, *leaves_behind([result], ()))}
    return {place for place, leaf in enumerate(leaves) if id(leaf) in found}


def reached_in_rounds(
    seen: Seen, carried: Sequence[int], ends: Sequence[int], outs: Sequence[int], reach: Reach
) -> tuple[set[int], set[int]]:
    """(the leaves that have a gradient after all rounds of a loop, from the last on, the results that give one).

    `carried` are the places of the states that the first leaves are, `ends` those whose last value is used, `outs`
    those of results of each round that are.

    Keeps of how many rounds on that is so. Raises LoweringError where it is never the same.
    """
    now, met, count, grown, used = set(ends), set[int](), len(carried), 1, {*ends, *outs}
    turns: list[Container[int]] = []
    for rounds in range(1, count + 3):
        turns.append({*now, *outs})
        leaves = {leaf for place in (*now, *outs) for leaf in reach[place]}
        further = {leaf for leaf in leaves if leaf >= count}
        met, grown = met | further, grown if further <= met else rounds
        then = {carried[leaf] for leaf in leaves if leaf < count}
        if then == now:
            seen.rounds, seen.turns = [max(rounds - 1, grown)], turns
            return met | {leaf for leaf in leaves if leaf < count}, used
        now, used = then, used | then
    raise LoweringError(
        "the states of a loop change their places, so that the number of its rounds tells which has a gradient",
        hint="use all states that the loop gives, by + 0 * state.sum()",
    )


def leaves_behind(results: Sequence[Any], ends: Sequence[Any]) -> Iterator[Any]:
    """The leaves of autograd by which some results have gradients, but for those behind certain tensors."""
    seen = {each.grad_fn for each in ends if each.grad_fn is not None}
    left = [each.grad_fn for each in tensors_in(results) if each.grad_fn is not None]
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            left += [each for each, _ in node.next_functions if each is not None]
            if (leaf := getattr(node, "variable", None)) is not None:
                yield leaf


@attrs.define(eq=False)
class Seen:
    """The tensors with gradients that bodies use, and do not make: `outer`. Those that are `born` inside so many bodies
    are none. `versions` has what was read, `spec` is the structure of the results, and `lacking` has for each body that
    gave gradients which of them it had not; `rounds` how many a loop must have for that, and `turns` has the results
    that give one in each round, from the last on, until these are always the same."""

    depth: int
    version_of: Callable[[Any], Any]
    outer: list[Any] = attrs.Factory(list)
    born: list[Any] = attrs.Factory(list)
    known: set[int] = attrs.Factory(set)
    versions: dict[int, tuple[Any, Any]] = attrs.Factory(dict)
    spec: Any = None
    lacking: list[set[int]] = attrs.Factory(list)
    rounds: list[int] = attrs.Factory(list)
    turns: Sequence[Container[int]] = ()

    def watching(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """A body whose tensors are looked at as it runs."""

        def watched(*given: Any) -> Any:
            self.bear(given)
            with Watching(self):
                made = body(*given)
            for each in leaves_behind(made, self.outer):
                self.use(each)
            return made

        return like(watched, body)

    def bear(self, values: Any) -> None:
        """Notes tensors that a body is given, or makes."""
        for each in tensors_in(values):
            if id(each) not in self.known:
                self.known.add(id(each))
                self.born.append(each)

    def use(self, each: Any) -> None:
        """Notes a tensor that a body uses."""
        memory = getattr(getattr(each, "handle", None), "memory", None)
        if id(each) in self.known or (memory is not None and memory.depth > self.depth):
            return
        self.read([each])
        if has_gradient(each):
            self.known.add(id(each))
            self.outer.append(each)

    def read(self, values: Sequence[Any]) -> None:
        """Notes how often tensors that the gradient reads once more have been written."""
        for each in tensors_in(values):
            self.versions.setdefault(id(each), (each, self.version_of(each)))

    def refuse_written(self) -> None:
        """Raises LoweringError where one of them was written since."""
        if any(self.version_of(each) != version for each, version in self.versions.values()):
            what = "a tensor that a branch or a loop uses is written before the gradient of that is computed"
            raise LoweringError(what, hint="write a copy of it, x.clone(), or write it behind the gradient")


class Watching(TorchFunctionMode):
    """Notes what calls are given that none of them made."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for each in tensors_in((args, kwargs or {})):
            self.seen.use(each)
        made = func(*bodies_under(lambda: Watching(self.seen), func, args), **(kwargs or {}))
        self.seen.bear(made)
        return made


class Replacing(TorchFunctionMode):
    """Gives calls other tensors in the place of some, by their identities."""

    def __init__(self, others: Mapping[int, Any], born: list[Any]) -> None:
        super().__init__()
        self.others, self.born = others, born

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, lambda each: self.others.get(id(each), each), (args, kwargs or {})
        )
        made = func(*bodies_under(lambda: Replacing(self.others, self.born), func, args), **kwargs)
        self.born += tensors_with_gradients(made)
        return made


def bodies_under(mode: Callable[[], Any], func: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments of a call, in which bodies run under a mode, as what is called otherwise does not."""

    def under(body: Callable[..., Any]) -> Callable[..., Any]:
        def inside(*given: Any) -> Any:
            with mode():
                return body(*given)

        return like(inside, body)

    if not isinstance(func, torch._ops.HigherOrderOperator):
        return args
    return [under(each) if is_body(each) else each for each in args]


def is_body(given: Any) -> bool:
    """Whether an argument of a higher-order operator is a function."""
    return callable(given) and not isinstance(given, torch.Tensor)


def like(made: Any, body: Any) -> Any:
    """A body that tells what another one does of rounds."""
    for name in ("counts", "rows", "rounds", "totals", "one_way"):
        if hasattr(body, name):
            setattr(made, name, getattr(body, name))
    return made


# ---------------------------------------------------------------------------------------------- results


@attrs.frozen(eq=False)
class Back:
    """The gradients of what went in, by those of the results at some places."""

    slopes: Callable[[Mapping[int, Any]], Sequence[Any]]
    places: Sequence[int]


@attrs.frozen(eq=False)
class Refusing:
    """A loop that has no gradient here."""

    name: str


def joined(made: Any, inputs: Sequence[Any], back: Back | Refusing) -> Any:
    """What was computed without gradients as what comes of the inputs."""
    flat, spec = pytree.tree_flatten(made)
    places = [place for place, each in enumerate(flat) if isinstance(each, torch.Tensor)]
    if not inputs or not places:
        return made
    found = Joined.apply(back, [flat[place] for place in places], places, *inputs)
    for place, each in zip(places, found, strict=True):
        flat[place] = each
    return pytree.tree_unflatten(flat, spec)


class Joined(torch.autograd.Function):
    """Results as what comes of the inputs."""

    @staticmethod
    def forward(ctx: Any, back: Any, results: Sequence[torch.Tensor], places: Sequence[int], *inputs: Any) -> Any:
        """The results as they are."""
        ctx.back, ctx.places = back, places
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        """The gradients of the inputs. Raises LoweringError where there are none here."""
        if isinstance(ctx.back, Refusing):
            raise LoweringError(
                "the gradient of a loop is asked for, of which data tells how many rounds there are, or that grows",
                hint="let sizes tell the rounds, keep what is done by torch.where, and append to a list what is joined",
            )
        if torch.is_grad_enabled():
            what = "the gradient of a branch or a loop is asked for a gradient of its own"
            raise LoweringError(
                what, hint="write it without the branch, by torch.where, or with a length that is fixed"
            )
        slopes = dict(zip(ctx.places, given, strict=True))
        known = {place: slopes[place] for place in ctx.back.places if slopes[place] is not None}
        return (None, None, None, *ctx.back.slopes(known))


def in_parts(values: Sequence[Any], counts: Sequence[int]) -> Iterator[Sequence[Any]]:
    """As many of the values as each count says, one after the other."""
    start = 0
    for count in counts:
        yield values[start : start + count]
        start += count


def without(values: Sequence[Any], places: Container[int]) -> list[Any]:
    """The values, and None at some places."""
    return [None if place in places else each for place, each in enumerate(values)]


def each_detached(values: Sequence[Any]) -> list[Any]:
    """The values without their gradients."""
    return [each.detach() if isinstance(each, torch.Tensor) else each for each in values]


def real_places(values: Sequence[Any]) -> list[int]:
    """Where tensors are that may have gradients."""
    return [i for i, each in enumerate(values) if isinstance(each, torch.Tensor) and is_real(each)]


def is_real(x: torch.Tensor) -> bool:
    """Whether a tensor may have a gradient."""
    return x.is_floating_point() or x.is_complex()


def has_gradient(value: Any) -> bool:
    """Whether something is a tensor whose gradient is recorded."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested structures."""
    return (each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor))


def tensors_with_gradients(values: Any) -> list[Any]:
    """Those of them whose gradients are recorded."""
    return [each for each in tensors_in(values) if each.requires_grad]
