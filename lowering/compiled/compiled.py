"""`irkit.compile`: a model that is captured as it is called, directly, and run on ONNX Runtime."""

from __future__ import annotations

import functools
import logging
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch

from irkit.errors import ContractError, EvaluateError, IrkitError, StaleError
from irkit.support.counts import count_text
from lowering.capture.inputs.calls import name_of
from lowering.compiled.capture import Capture, asks_for_gradients
from lowering.compiled.gradients import later_gradients
from lowering.compiled.sizes import Seen, Shapes, Varying
from lowering.dynamo.backend import tell_assumptions
from lowering.program.to_onnx import export_model
from lowering.records.options import DIRECT, ExportOptions
from lowering.records.pytrees import register_classes
from lowering.records.torch_internals import pytree

LOG = logging.getLogger("irkit.compile")
SAID = ("the program does not", "drawn anew in each call", "drawn at the export")
"""Of what a capture notes, what makes later calls other than those of eager."""
FIRSTS = 3
"""So many calls may be the first step of an optimizer: it may have several groups, for which the steps begin apart."""
KINDS = 64
"""So many kinds of calls are remembered."""


@attrs.frozen(kw_only=True, eq=False)
class Options:
    """What `irkit.compile` may be told; it has the descriptions."""

    export: ExportOptions
    dynamic: bool | None = None
    fallback: bool = True
    captures: int = 8
    threads: int = 0


@attrs.frozen(eq=False)
class Kind:
    """What is known of calls of one structure: the sizes that they came with, why they run in torch, empty where they
    do not, and how many so far were the first step of an optimizer."""

    seen: Seen = attrs.field(factory=Seen)
    refused: str = ""
    begun: int = 0


class FirstStep(Exception):
    """What a call is, of an optimizer that is named so: it begins with what hangs on its gradients."""


class Compiled:
    """A model that is captured as it is called; called as the model is.

    `captures` are those that there are, the one that was used last first. A call goes through the first one that is
    right for it. Where none is, one more is made, in which the sizes vary that did; once there are `options.captures`,
    the one that was not used for the longest time goes.
    """

    def __init__(self, model: Any, options: Options) -> None:
        functools.update_wrapper(self, model.forward if isinstance(model, torch.nn.Module) else model, updated=())
        self.model, self.options = model, options
        self.captures: tuple[Capture, ...] = ()
        self.kinds: dict[str, Kind] = {}
        self.count = 0
        self.lock = threading.RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives for these arguments."""
        with self.lock:
            found = self.with_captures(args, kwargs)
            if found is None:
                found = self.with_new_capture(args, kwargs)
        return self.model(*args, **kwargs) if found is None else found[0]

    def reset(self) -> None:
        """Forgets all captures, and what runs in torch."""
        with self.lock:
            self.captures, self.kinds, self.count = (), {}, 0

    def __repr__(self) -> str:
        return f"<irkit.compile of {name_of(self.model)}: {count_text(len(self.captures), 'capture')}>"

    # ------------------------------------------------------------------------------------------ calls

    def with_captures(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any] | None:
        """(the result,) of the first capture that is right for a call; None where there is none."""
        for capture in self.captures:
            if not capture.holds():
                continue
            try:
                found = self.run(capture, args, kwargs)
            except (ContractError, EvaluateError, StaleError):
                continue
            if capture is not self.captures[0]:
                self.captures = (capture, *(each for each in self.captures if each is not capture))
            return found
        return None

    def run(self, capture: Capture, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any] | None:
        """(the result,) of a capture; None where gradients are asked for that it cannot have."""
        records = capture.program.lowered.captured.records
        if records and self.goes_beyond(capture, args, kwargs):
            return (self.model(*args, **kwargs),)
        if records or not torch.is_grad_enabled():
            return (self.stepped(capture, args, kwargs),)
        with register_classes(args, kwargs):
            given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        if not given and not capture.trained:
            return (capture(args, kwargs),)
        if capture.writes or capture.is_random:
            what = "writes state" if capture.writes else "draws random numbers"
            why = f"gradients are asked for, and it {what}: compile the whole step, or call it under torch.no_grad()"
            self.tell(why)
            return (self.model(*args, **kwargs),)
        return (later_gradients(self.model, capture, args, kwargs),)

    def goes_beyond(self, capture: Capture, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call that computes gradients leaves some at its arguments, or at what these were computed from,
        which is said. Raises ContractError where the capture was made for arguments that ask for others."""
        with register_classes(args, kwargs):
            leaves = pytree.tree_leaves((args, kwargs))
        asking = tuple(map(asks_for_gradients, leaves))
        if not any(asking) and not any(capture.asking):
            return False
        if asking != capture.asking:
            raise ContractError(
                "gradients are asked for other arguments than those of the capture",
                hint="call it with arguments of which as many require gradients",
            )
        left = capture.program.lowered.training.arguments
        if left:
            self.tell(f"it leaves a gradient at {left[0]}")
        return bool(left)

    def stepped(self, capture: Capture, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a capture, after which the schedulers themselves, and what other captures know of them, are as
        many steps on as the call made."""
        before = [int(each.count) for each in capture.schedules]
        result = capture(args, kwargs)
        for each, count in zip(capture.schedules, before, strict=True):
            for _ in range(int(each.count) - count):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the optimizer made its step in another place
                    each.scheduler.step()
                for other in self.captures:
                    for schedule in other.schedules if other is not capture else ():
                        schedule.count.add_(int(schedule.scheduler is each.scheduler))
        return result

    def with_new_capture(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any] | None:
        """(the result,) of a capture that is made for a call; None where torch is to run it."""
        with register_classes(args, kwargs):
            leaves, spec = pytree.tree_flatten((args, kwargs))
            shapes: Shapes = tuple(tuple(x.shape) if isinstance(x, torch.Tensor) else None for x in leaves)
        key = f"{spec} {[said_of(leaf) for leaf in leaves]}"
        kind = self.kinds.get(key, Kind())
        if kind.refused or any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in leaves):
            return None if kind.refused else self.left(key, kind, "it is not on the CPU", None)
        if self.count >= self.options.captures * 8:
            return self.left(
                key, kind, f"it was captured {count_text(self.count, 'time')}, and no capture lasted", None
            )
        seen = kind.seen.with_shapes(shapes)
        try:
            capture = self.captured(args, kwargs, leaves, spec, seen)
        except IrkitError as error:
            return self.left(key, kind, error.what, error)
        except FirstStep as told:
            return self.first_step(key, attrs.evolve(kind, begun=kind.begun + 1), str(told))
        self.remember(key, Kind(seen))
        self.captures = (capture, *self.captures)[: self.options.captures]
        try:
            return self.run(capture, args, kwargs)
        except IrkitError as error:
            return self.left(key, kind, error.what, error)

    def captured(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], leaves: Sequence[Any], spec: Any, seen: Seen
    ) -> Capture:
        """A capture for a call, by one run of the model. Weights that were written since an earlier capture are inputs
        of this one. Raises IrkitError where the model cannot be captured or lowered, and FirstStep where each call of
        the program would be the first step of an optimizer."""
        start, self.count = time.perf_counter(), self.count + 1
        options = attrs.evolve(self.options.export, gradients=True)
        distinct = [x.view_as(x) if isinstance(x, torch.Tensor) and not x.is_leaf else x for x in leaves]
        names = {} if self.options.dynamic is False else seen.varying()
        if self.options.dynamic and not names:
            names = all_sizes(distinct)
        if options.dynamic_shapes is None and names:
            options = attrs.evolve(options, dynamic_shapes=Varying(names, leaves), specialization="report")
        if any(not capture.standing.weights.hold() for capture in self.captures):
            options = attrs.evolve(options, live=True)
            self.captures = tuple(capture for capture in self.captures if capture.standing.weights.hold())
        program = export_model(self.model, tuple(args), dict(kwargs), options)
        if program.lowered.training.begins:
            raise FirstStep(program.lowered.training.begins[0])
        made = Capture.of(self.model, program, self.options.threads, leaves)
        tell_assumptions(program.watched)
        LOG.info(
            "captured %s, %d operators, in %.3f s", name_of(self.model), len(program.ready), time.perf_counter() - start
        )
        for note in program.report.notes:
            if any(text in note for text in SAID):
                LOG.warning("%s: %s", name_of(self.model), note)
        return made

    # ------------------------------------------------------------------------------------------ what runs in torch

    def left(self, key: str, kind: Kind, why: str, error: IrkitError | None) -> None:
        """Notes that calls of a kind run in torch. Raises the error where that is not wanted."""
        if not self.options.fallback:
            raise error or ContractError(f"{name_of(self.model)} cannot be compiled: {why}")
        self.remember(key, attrs.evolve(kind, refused=why))
        self.tell(why)

    def first_step(self, key: str, kind: Kind, name: str) -> None:
        """Has torch make the first step of an optimizer, which begins with what its captures go on from. One that
        begins at each call, as far as a capture can tell, is left to torch."""
        why = f"it is the first step of {name}, which begins with what hangs on its gradients"
        if kind.begun >= FIRSTS:
            return self.left(key, kind, f"each call is, to a capture, the first step of {name}", None)
        self.remember(key, kind)
        return self.tell(why)

    def remember(self, key: str, kind: Kind) -> None:
        """Keeps what is known of calls of a kind, of the last kinds."""
        kept = list({**self.kinds, key: kind}.items())
        self.kinds = dict(kept[-KINDS:])

    def tell(self, why: str) -> None:
        """Says that a call runs in torch."""
        LOG.warning("%s runs in torch: %s", name_of(self.model), why)


def said_of(leaf: Any) -> str:
    """What tells arguments apart that one capture cannot be right for, beside sizes."""
    if isinstance(leaf, torch.Tensor):
        return f"{leaf.dtype} {leaf.dim()} {leaf.device.type}"
    return repr(leaf) if isinstance(leaf, bool | int | float | str | None) else type(leaf).__name__


def all_sizes(leaves: Sequence[Any]) -> dict[tuple[int, int], str]:
    """A name for each dimension of the tensors among some leaves, one for those that are equal."""
    return {
        (number, axis): f"size_{size}"
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor)
        for axis, size in enumerate(leaf.shape)
    }


def compile_model(model: Any, options: Mapping[str, Any], **told: Any) -> Compiled:
    """What `irkit.compile` returns. Raises CaptureError or RewriteError for options that say nothing."""
    export = ExportOptions(**{"capture": DIRECT, **options})
    return Compiled(model, Options(export=export, **told))
