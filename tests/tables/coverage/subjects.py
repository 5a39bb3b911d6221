"""One cell of a database of whole modules: each of its calls exported, run at several sizes and compared with eager."""

from __future__ import annotations

import copy
import inspect
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

import attrs
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from irkit.checking.comparison import compare
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering.program.check import assignments, resized, run
from lowering.program.program import Program
from tests.lowering.aten.oracle import array, rules_for, tensors_of
from tests.tables.coverage.measure import (
    OF_DATA,
    Failed,
    Found,
    NotCaptured,
    Undetermined,
    clean,
    made,
    reason_of,
    since,
)
from tests.tables.coverage.verdicts import doubled, shown_by

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

OTHER_SIZES = 2
"""Assignments of the dimensions that a dynamic program is run at besides the one it was traced with."""


@attrs.frozen(eq=False)
class Subject:
    """A module, a call of it, and a few words that say which.

    `dynamic_shapes` is None for fixed sizes, "every" for all dimensions that torch.export can make dynamic, or what
    torch.export takes. `others` are further calls that the same program must serve, `converters` what a user
    would hand in.
    """

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    words: str
    dynamic_shapes: Any = None
    others: tuple[Arguments, ...] = ()
    converters: Mapping[Any, Any] = MappingProxyType({})


def outcome_of(subjects: Iterable[Subject], samples: int | None, capture: str) -> Found:
    """The outcome over the first `samples` subjects (all of them where None); the first failure ends it."""
    start, compared, left_out, lacking, shown = time.perf_counter(), 0, Found("no samples"), 0, ("", "")
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for subject in islice(subjects, samples):
            try:
                found = check(subject, capture)
                compared += 1
                shown = shown if shown[0] else (found[0], f"{clean(found[1])} [{clean(subject.words)[:120]}]")
            except Failed as failed:
                reason, detail = failed.args
                return Found("fail", reason, f"{clean(detail)} [{clean(subject.words)[:120]}]", compared, since(start))
            except NotCaptured as refused:
                lacking += 1
                left_out = Found("not captured", "torch", clean(str(refused)))
            except Undetermined as undetermined:
                if left_out.outcome != "not captured":
                    left_out = Found("random", "random", clean(str(undetermined)))
    if not compared:
        return attrs.evolve(left_out, seconds=since(start))
    apart = f"torch.export captures {compared} of {compared + lacking} samples" if lacking else ""
    return Found("pass", shown[0], shown[1] if shown[0] else apart, compared, since(start))


def check(subject: Subject, capture: str) -> tuple[str, str]:
    """(why, difference) where a result differs from eager and is shown to be right, else two empty texts.

    Raises Failed where the program differs, NotCaptured or Undetermined where nothing can be compared.
    """
    determined(subject, (subject.args, subject.kwargs))
    program = exported(subject, capture)
    shown = ("", "")
    for number, (args, kwargs) in enumerate(calls_of(subject, program)):
        problem = run(program, args, kwargs).problem
        drawn = number > 0 and problem.startswith(OF_DATA)  # of the sample itself the data are as the module wants them
        if problem and not drawn:
            sizes = [list(t.shape) for t in tensors_of((args, kwargs))]
            why = verdict_of(subject, program, (args, kwargs)) if reason_of(problem) == "value" else ""
            if not why:
                raise Failed(reason_of(problem), f"at {sizes}: {problem}")
            shown = shown if shown[0] else (why, f"at {sizes}: {problem}")
    return shown


def verdict_of(subject: Subject, program: Program, arguments: Arguments) -> str:
    """What the module in float64 shows of results that differ (`verdicts.shown_by`); empty where that is nothing."""

    def results(call: Any, arguments: Arguments) -> list[Any]:
        args, kwargs = copy.deepcopy(arguments)
        with torch.no_grad():
            return [array(t) for t in tensors_of(call(*args, **kwargs))]

    theirs, ours = results(copy.deepcopy(subject.model), arguments), results(program, arguments)
    if [(a.dtype, a.shape) for a in theirs] != [(a.dtype, a.shape) for a in ours]:
        return ""
    try:
        exact = results(copy.deepcopy(subject.model).double(), pytree.tree_map(doubled, arguments))
    except Exception:  # torch has no such kernel in float64
        return ""
    return shown_by(exact, theirs, ours)


def determined(subject: Subject, arguments: Arguments) -> None:
    """Raises Undetermined where eager refuses the call, or gives another result for another seed."""
    found = []
    for seed in (1, 2, 3):
        model = copy.deepcopy(subject.model)
        args, kwargs = copy.deepcopy(arguments)
        torch.manual_seed(seed)
        try:
            with torch.no_grad():
                found.append([array(t) for t in tensors_of(model(*args, **kwargs))])
        except Exception as error:
            raise Undetermined(f"eager refuses it: {type(error).__name__}: {error}") from error
    if any(compare(found[0], other) is not None for other in found[1:]):
        raise Undetermined("eager gives two results for two seeds")


def exported(subject: Subject, capture: str) -> Program:
    """The subject as an ONNX program with a session."""
    shapes = subject.dynamic_shapes
    if isinstance(shapes, str):
        shapes = every_dimension(subject)
    return made(
        lambda: to_onnx(
            copy.deepcopy(subject.model),
            copy.deepcopy(subject.args),
            copy.deepcopy(subject.kwargs),
            dynamic_shapes=shapes,
            converters=subject.converters,
            rules=rules_for((subject.args, subject.kwargs)),
            capture=capture,
        )
    )


def every_dimension(subject: Subject) -> Any:
    """`Dim.AUTO` for every dimension above 1 (torch.export makes 0 and 1 static whatever one asks for)."""
    bound = inspect.signature(subject.model.forward).bind(*subject.args, **subject.kwargs)

    def said(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.numel():
            return None  # of what holds nothing torch asks too little for the sizes to mean much
        return {axis: Dim.AUTO for axis, size in enumerate(leaf.shape) if size > 1} or None

    found = {name: pytree.tree_map(said, each) for name, each in bound.arguments.items()}
    return found or None


def calls_of(subject: Subject, program: Program) -> Iterator[Arguments]:
    """The call itself, the others that are given, and calls at other sizes that contract and eager allow."""
    yield subject.args, subject.kwargs
    for arguments in subject.others:
        if taken(subject, program, arguments):
            yield arguments
    if subject.dynamic_shapes is None:
        return
    for sizes in assignments(program, OTHER_SIZES, 0):
        arguments = resized(program, sizes, 0)
        if taken(subject, program, arguments):
            yield arguments


def taken(subject: Subject, program: Program, arguments: Arguments) -> bool:
    """True where both the program's contract and eager take the call, and its result is determined."""
    try:
        program.feeds(*copy.deepcopy(arguments))
        determined(subject, arguments)
    except (ContractError, Undetermined):
        return False
    return True


def described(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Arguments in words, tensors by their shapes."""

    def short(leaf: Any) -> Any:
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else leaf

    parts = [str(pytree.tree_map(short, a)) for a in args]
    return ", ".join([*parts, *(f"{k}={pytree.tree_map(short, a)}" for k, a in kwargs.items())])
