"""A module whose calls are answered by programs: the first that takes the call, or one that is captured for it."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from irkit.errors import ContractError
from lowering.capture.inputs.contents import Contents, containers_of, held_again
from lowering.decoding.steps import in_own_caches, named_arguments, shapes_of
from lowering.program.bound import Bound
from lowering.program.program import Program
from lowering.program.to_onnx import export_model
from lowering.records.options import ExportOptions


@attrs.frozen(eq=False)
class Stage:
    """A module, and the programs that answer its calls. `options` are those of the exports. Where `grows` is False, a
    call that no program takes is an error. `first` is what the module held when this was made: programs are captured
    of that, whatever else the module has remembered since, in eager calls."""

    name: str
    module: Any
    options: ExportOptions
    grows: bool = True
    bounds: list[Bound] = attrs.field(factory=list[Bound])
    lock: threading.Lock = attrs.field(factory=threading.Lock, repr=False)
    first: Contents = attrs.field(
        init=False, repr=False, default=attrs.Factory(lambda self: Contents.of(containers_of(self.module)), True)
    )

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs so far, in the order in which they were captured."""
        return tuple(bound.program for bound in self.bounds)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives. Raises ContractError where no program takes the call, and none may be captured."""
        call = named_arguments(self.module, args, kwargs)
        return in_own_caches(call, self.answered(call)[1])

    def answered(self, call: Mapping[str, Any]) -> tuple[Bound, Any]:
        """(program, result): which program answers, and what."""
        found = self.by_some(call)
        if found is not None:
            return found
        with self.lock:  # one thread captures, the others find what it made
            found = self.by_some(call)
            if found is None:
                if not self.grows:
                    raise self.refusal(call)
                bound = self.captured(call)
                found = bound, bound(**call)
                self.bounds.append(bound)
        return found

    def by_some(self, call: Mapping[str, Any]) -> tuple[Bound, Any] | None:
        """What the first program gives that takes the call; None where none does."""
        bounds: Sequence[Bound] = tuple(self.bounds)
        for bound in bounds:
            given = bound.plainly_given(call)
            if given is not None:
                try:
                    return bound, bound.computed(*given, False)[0]
                except ContractError:  # the data is not what this one was captured for
                    continue
        for bound in bounds:
            try:
                return bound, bound(**call)
            except ContractError:
                continue
        return None

    def captured(self, call: Mapping[str, Any]) -> Bound:
        """A program for calls like this one, whose sizes vary where the loop of transformers makes them vary."""
        options = attrs.evolve(self.options, dynamic_shapes=shapes_of(call), specialization="report")
        with torch.no_grad(), held_again(self.first):
            return export_model(self.module, (), copy.deepcopy(dict(call)), options).bound()

    def refusal(self, call: Mapping[str, Any]) -> ContractError:
        """The error of a call that no program takes: what the last of them says."""
        for bound in reversed(self.bounds):
            try:
                bound(**call)
            except ContractError as error:
                return ContractError(
                    f"no program of the {self.name} takes this call: {error.what}", source=error.source, hint=error.hint
                )
        return ContractError(f"the {self.name} has no program", hint="make the generation anew with an example")

    def served(self) -> Any:
        """A copy of the module, sharing its weights, whose calls the programs answer."""
        return answered_by(self.module, self)


def answered_by(module: Any, answer: Callable[..., Any]) -> Any:
    """A copy of a module, sharing its weights, whose calls are answered by something else."""
    made = copy.copy(module)

    @functools.wraps(module.forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return answer(*args, **kwargs)

    made.forward = forward
    return made
