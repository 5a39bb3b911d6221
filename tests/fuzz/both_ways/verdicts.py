"""What both ways of capture make of a program: the same types, the same numbers, the same contract, or what differs."""

from __future__ import annotations

import copy
import resource
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import torch

from irkit.core.ir import Value
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, IrkitError
from lowering.program.check import allowed, assignments, is_asserted, raised, resized, run, traced_sizes
from lowering.program.program import Program
from lowering.records.options import DIRECT, TORCH_EXPORT
from tests.fuzz.both_ways.programs import meant_of, subject_of
from tests.lowering.aten.oracle import rules_for, tensors_of
from tests.tables.coverage.measure import clean, reason_of
from tests.tables.coverage.subjects import Arguments, Subject, verdict_of

OTHERS = 2
"""Assignments of sizes of each program at which both are called, besides the example and 0 and 1."""
MOST_SIZES = 4
"""How many sizes of a program are tried at 0 and 1."""
OUTCOMES = {
    "same": "both take the same sizes, and answer as eager does",
    "more": "direct capture takes more sizes, and answers there as eager does",
    "narrower": "torch.export takes more sizes, and answers there as eager does",
    "direct alone": "torch.export does not capture it",
    "torch.export alone": "direct capture refuses it",
    "neither": "neither captures it",
    "late": "direct capture alone takes sizes that eager refuses, at which ONNX Runtime refuses them",
    "both late": "both take such sizes",
    "torch.export late": "torch.export alone takes such sizes",
    "differs": "an answer is not eager's",
    "types": "inputs or results have other types",
    "crash": "the process ended",
    "time-out": "it took too long",
    "harness": "the comparison itself failed",
}


NO_SIZE = "no size varies"
"""What is said of a program that there is nothing to compare of."""
Meant = Callable[..., bool] | None


@attrs.frozen
class Verdict:
    """What became of a program, one of OUTCOMES, and what is to be said of it."""

    outcome: str
    detail: str = ""


def within(name: str, memory: int) -> Verdict:
    """What both ways make of a program, within so many bytes of address space."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return compared(name)


def compared(name: str) -> Verdict:
    """What both ways make of a program."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject = subject_of(name)
        if subject is None:
            return Verdict("same", NO_SIZE)
        direct, exported = captured(subject, DIRECT), captured(subject, TORCH_EXPORT)
        if isinstance(direct, str):
            neither = isinstance(exported, str)
            return Verdict("neither", f"{direct}; {exported}") if neither else Verdict("torch.export alone", direct)
        if isinstance(exported, str):
            return Verdict("direct alone", exported)
        if types_of(direct) != types_of(exported):
            return Verdict("types", f"{types_of(direct)} by direct capture, {types_of(exported)} by torch.export")
        return of_contracts(subject, direct, exported, meant_of(name))


def captured(subject: Subject, way: str) -> Program | str:
    """The program of a subject, or what its export says."""
    model, args, kwargs = copy.deepcopy((subject.model, subject.args, subject.kwargs))
    try:
        return to_onnx(
            model,
            args,
            kwargs,
            dynamic_shapes=subject.dynamic_shapes,
            converters=subject.converters,
            rules=rules_for((args, kwargs)),
            capture=way,
        )
    except Exception as error:
        return f"{way}: {clean(f'{type(error).__name__}: {error}')}"


def types_of(program: Program) -> list[tuple[str, str, str, int]]:
    """The role, name, element type and rank of each input, and of each result without its name; state in any order."""
    graph = program.graph
    given = zip(graph.signature.params, graph.params, strict=True)
    made = zip(graph.signature.results, graph.results, strict=True)
    found = [(port.role, "", *kind_of(value)) for port, value in made]
    results = [each for each in found if each[0] == "output"]
    states = sorted(each for each in found if each[0] != "output")
    return [*sorted((port.role, port.name, *kind_of(value)) for port, value in given), *results, *states]


def kind_of(value: Value) -> tuple[str, int]:
    """The element type and the rank of a value."""
    return repr(value.type).partition("[")[0], len(getattr(value.type, "shape", ()))


def of_contracts(subject: Subject, direct: Program, exported: Program, meant: Meant = None) -> Verdict:
    """What two programs of one model take and answer; `meant` says which tensors torch may be called with."""
    programs = {DIRECT: direct, TORCH_EXPORT: exported}
    alone: dict[str, list[str]] = {DIRECT: [], TORCH_EXPORT: []}
    late: dict[str, str] = {}
    for call in calls_of(direct, exported, meant):
        sizes = str([list(t.shape) for t in tensors_of(call)])
        taking = [way for way, program in programs.items() if accepts(program, *call)]
        for way in taking:
            problem = problem_of(subject, programs[way], call)
            if problem and not both_refuse(programs[way], *call):
                return Verdict("differs", f"{way} at {sizes}: {clean(problem)}")
            if problem:
                late.setdefault(way, f"at {sizes}: {clean(problem)}")
        if len(taking) == 1:
            alone[taking[0]].append(sizes)
    if late:
        outcome = "both late" if len(late) > 1 else "late" if DIRECT in late else "torch.export late"
        return Verdict(outcome, next(iter(late.values())))
    if alone[TORCH_EXPORT]:
        return Verdict("narrower", f"torch.export alone takes {', '.join(alone[TORCH_EXPORT])}")
    return (
        Verdict("more", f"direct capture alone takes {', '.join(alone[DIRECT])}") if alone[DIRECT] else Verdict("same")
    )


def problem_of(subject: Subject, program: Program, call: Arguments) -> str:
    """What is wrong with the answer to a call; empty where nothing is, or where torch is the one that is off."""
    problem = run(program, *copy.deepcopy(call)).problem
    if problem and reason_of(problem) == "value" and verdict_of(subject, program, call):
        return ""
    return problem


def both_refuse(program: Program, args: Any, kwargs: Any) -> bool:
    """Whether eager raises for a call, and the program does."""
    if raised(program, *copy.deepcopy((args, kwargs))) is None:
        return False
    try:
        program(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    except IrkitError:
        return True
    return False


def accepts(program: Program, args: Any, kwargs: Any) -> bool:
    """Whether the contract of a program allows a call."""
    try:
        program.feeds(*copy.deepcopy((args, kwargs)))
    except ContractError:
        return False
    return True


def calls_of(direct: Program, exported: Program, meant: Meant = None) -> Iterator[Arguments]:
    """The call of the example, others that the contracts allow, and those with 0 or 1 in place of one size."""
    told: list[str] = []
    for program in (direct, exported):
        traced = traced_sizes(program)
        points: list[dict[str, int]] = [traced, *assignments(program, OTHERS, 0)]
        names = [n for n in traced if n in program.graph.symbols][:MOST_SIZES]
        points += [{**traced, name: size} for name in names for size in (0, 1)]
        for sizes in points:
            call = call_at(program, sizes, meant) if allowed(program.graph, sizes) else None
            if call is not None and (shapes := str([t.shape for t in tensors_of(call)])) not in told:
                told.append(shapes)
                yield call


def call_at(program: Program, sizes: dict[str, int], meant: Meant) -> Arguments | None:
    """A call at some sizes: with random numbers, or with elements of the example where eager takes these alone; None
    where neither is `meant` to be called."""
    calls = [resized(program, sizes, seed) for seed in (0, None)]
    calls = [call for call in calls if meant is None or meant(*tensors_of(call))]
    for call in calls:
        refusal = raised(program, *copy.deepcopy(call))
        if refusal is None or is_asserted(refusal):
            return call
    return next(iter(calls), None)
