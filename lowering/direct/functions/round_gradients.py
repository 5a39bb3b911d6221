"""Gradients that a branch, or a round of a loop, asks for. What it begins with comes from the model around it, or from
the rounds before, and so would a gradient that goes on through that: a body sees itself alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import torch
from torch.overrides import TorchFunctionMode

from lowering.capture.guards.guards import line_at
from lowering.capture.patches.zero_questions import user_frame
from lowering.direct.functions.bodies import bodies_under
from lowering.errors import CaptureError

Run = Callable[[list[Any]], Any]
"""What a round gives, of what it begins with."""
ASKING = (torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward)


class Bound(torch.autograd.Function):
    """A tensor as a body begins with it, behind which is what was before."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """The tensor."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        """The gradient, for whoever takes that of the whole round."""
        return slopes[0]


def refused() -> CaptureError:
    """The error for a gradient that goes back through earlier rounds."""
    return CaptureError(
        "a branch or a round of a loop on data asks for a gradient that goes back through what was before it",
        source=line_at(user_frame(sys._getframe(1))),
        hint="detach what it begins with, w = w.detach().requires_grad_(), or ask for the gradient behind the loop",
    )


def bound(x: Any) -> Any:
    """A tensor that the loop carries, where it has a gradient in eager."""
    return Bound.apply(x if x.requires_grad else x.detach().requires_grad_())


def with_gradient(tensors: Iterable[Any]) -> set[int]:
    """The places of the tensors whose gradient is recorded."""
    return {place for place, each in enumerate(tensors) if isinstance(each, torch.Tensor) and each.requires_grad}


@attrs.define(eq=False)
class Bounds:
    """What is known of what a loop carries where a round asks for gradients: the `places` of tensors that have
    one, `first` of those that have one before the loop; `settled` says that the loop was traced."""

    places: set[int] = attrs.field(factory=set)
    first: set[int] = attrs.field(factory=set)
    settled: bool = False

    def begin(self, carried: Sequence[Any]) -> None:
        """Notes what is carried before the loop, which is traced now."""
        self.first, self.settled = with_gradient(carried), False

    def round_of(self, run: Run, inside: Sequence[Any], outside: Sequence[Any], again: Callable[[], Exception]) -> Any:
        """What a round gives, of what is carried, where it uses tensors from `outside`. Raises `again` where that is to
        be traced anew, for more of it has a gradient."""
        begun = [bound(each) if place in self.places else each for place, each in enumerate(inside)]
        with GradientsOfRound(begun, outside, lambda: self.add(self.first, again)) as gradients:
            made = run(begun)
        if gradients.asked:
            self.add(with_gradient(made), again)
        return made

    def add(self, places: set[int], again: Callable[[], Exception]) -> None:
        """Adds places of tensors that have a gradient. Raises `again` where some are new."""
        if places - self.places and not self.settled:
            self.places |= places
            raise again()


class GradientsOfRound(TorchFunctionMode):
    """A block in which a branch, or a round, runs that begins with some tensors, and uses others from `outside`.
    `asked` says whether it asks for gradients; `begin_again` is called where it does so first."""

    def __init__(self, begun: Sequence[Any], outside: Sequence[Any], begin_again: Callable[[], None]) -> None:
        super().__init__()
        self.begin_again = begin_again
        self.asked = False
        self.is_used = bool(with_gradient(outside))
        self.bounds = {id(each.grad_fn): each for each in begun if isinstance(each, torch.Tensor) and each.grad_fn}
        tracer: Any = next((each.tracer for each in begun if is_traced(each)), None)
        self.tracer = tracer
        self.before = set[int]() if tracer is None else {id(each()) for each in tracer.alive if each() is not None}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the function gives. Raises CaptureError for a gradient that goes back through what was before."""
        if func in ASKING:
            self.ask()
            self.require_own(func, args, kwargs or {})
        return func(*bodies_under(lambda: Asking(self), func, args), **(kwargs or {}))

    def ask(self) -> None:
        """Notes that a gradient is asked for."""
        if not self.asked:
            self.asked = True
            self.begin_again()

    def require_own(self, func: Any, args: Sequence[Any], kwargs: Any) -> None:
        """Raises CaptureError where what is asked for might be reached through earlier rounds, or what is outside."""
        outputs = tensors_in(args[0] if args else kwargs.get("outputs", kwargs.get("tensors")))
        given = args[1] if len(args) > 1 and func is torch.autograd.grad else kwargs.get("inputs")
        inputs = tensors_in(given)
        ends = {id(each.grad_fn) for each in inputs if each.grad_fn is not None}
        if not self.is_used and not any(id(node) in self.bounds for node in behind(outputs, ends)):
            return
        if not inputs or not all(map(self.is_own, inputs)):
            error = refused()
            if self.tracer is not None and self.tracer.asked.raised is None:
                self.tracer.asked.raised = (error, error.source)  # the model may catch it
            raise error

    def is_own(self, each: torch.Tensor) -> bool:
        """Whether a tensor was made in this round."""
        return is_traced(each) and id(each) not in self.before and id(each.grad_fn) not in self.bounds


class Asking(TorchFunctionMode):
    """A block inside a round in which a gradient that is asked for is one of the round's."""

    def __init__(self, around: GradientsOfRound) -> None:
        super().__init__()
        self.around = around

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the function gives."""
        if func in ASKING:
            self.around.ask()
        return func(*bodies_under(lambda: Asking(self.around), func, args), **(kwargs or {}))


def is_traced(each: Any) -> bool:
    """Whether something is a tensor that the model computes."""
    return hasattr(type(each), "stands_for_tensor")


def tensors_in(given: Any) -> list[torch.Tensor]:
    """A tensor, or those in a list."""
    if isinstance(given, torch.Tensor):
        return [given]
    return [each for each in given or () if isinstance(each, torch.Tensor)]


def behind(outputs: Iterable[torch.Tensor], ends: set[int]) -> list[Any]:
    """The nodes of autograd's graph from which some tensors come, as far as nodes at which it ends."""
    pending, found = [each.grad_fn for each in outputs if each.grad_fn is not None], dict[int, Any]()
    while pending:
        node = pending.pop()
        if id(node) not in found and id(node) not in ends:
            found[id(node)] = node
            pending += [each for each, _ in node.next_functions if each is not None]
    return [*found.values()]
