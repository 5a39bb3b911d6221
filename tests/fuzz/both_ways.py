"""Every program of the suite's collections captured by both ways: the same types, the same numbers, the same contract.

The collections are the zoo of models, and torch's databases of operators, modules, higher-order operators and export's
features, with sizes that vary. Each program is exported directly and by torch.export, and both are called at the sizes
of the example, at others that one of them allows, and with 0 and 1 for each size. What a program takes it must answer
as eager does; where one takes sizes that the other refuses, that is told. `make both-ways` goes through all of them.

    python -m tests.fuzz.both_ways --jobs 16 zoo hops
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import torch

from irkit.core.ir import Value
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, IrkitError
from lowering.program.check import allowed, assignments, raised, resized, run, traced_sizes
from lowering.program.program import Program
from lowering.records.options import DIRECT, TORCH_EXPORT
from tests.lowering.aten.oracle import rules_for
from tests.support.rows import append, rewrite, rows_in
from tests.support.workers import Lost, worked
from tests.tables.coverage import databases, measure
from tests.tables.coverage.measure import Key, Undetermined, cases_of, clones, determined, dynamic_axes
from tests.tables.coverage.subjects import Subject, every_dimension
from tests.zoo.cases import CASES, case_named

RESULTS = Path(__file__).parents[2] / "build" / "both_ways.jsonl"
COLLECTIONS = ("zoo", *databases.EVERY)
OTHERS = 2
"""Assignments of sizes of each program at which both are called, besides the example and 0 and 1."""
MOST_SIZES = 4
"""How many sizes of a program are tried at 0 and 1."""
FAULTS = ("differs", "types")


@attrs.frozen
class Verdict:
    """What became of a program.

    It is "same"; "weaker" or "narrower" where direct capture takes more or fewer sizes; "late" where a contract takes
    sizes that eager refuses, and ONNX Runtime refuses them; "direct alone", "torch.export alone" or "neither" where
    that captures it, with what the other says; or a fault: it "differs" from eager, or has other "types".
    """

    outcome: str
    detail: str = ""


def names_of(collections: Sequence[str] = COLLECTIONS) -> list[str]:
    """The names of the programs, `collection:name`."""
    found = [f"zoo:{case.name}" for case in CASES if case.dynamic_shapes is not None]
    for space in databases.EVERY:
        cells = databases.DATABASES.get(space, measure).cells()
        kept = [name for name, dtype, mode in cells if mode == "dynamic" and dtype in ("float32", "mixed")]
        found += [f"{space}:{name}" for name in kept if space != "operators" or is_determined(name)]
    return [name for name in found if name.partition(":")[0] in collections]


def is_determined(operator: str) -> bool:
    """Whether there is something to compare of an operator."""
    return measure.OPS[operator].name not in measure.NOT_DETERMINED


def subject_of(name: str) -> Subject | None:
    """The program of a name, of a database its first sample with a size that varies; None where there is none."""
    space, _, own = name.partition(":")
    if space == "zoo":
        case = case_named(own)
        model, args, kwargs = case.build()
        return Subject(model, args, kwargs, name, case.dynamic_shapes)
    if space in databases.DATABASES:
        dtype = "mixed" if space == "exportdb" else "float32"
        every = databases.DATABASES[space].subjects(own, dtype, "dynamic")
        sized = (attrs.evolve(s, dynamic_shapes=shapes_of(s)) for s in every)
        return next((s for s in sized if s.dynamic_shapes), None)
    for case in cases_of(Key(own, "float32", "dynamic")):
        try:
            determined(case)
        except Undetermined:
            continue
        shapes = dynamic_axes(case)
        if shapes and any(map(bool, shapes["tensors"])):
            return Subject(case.model.eval(), clones(case.args), {}, name, shapes)
    return None


def shapes_of(subject: Subject) -> Any:
    """The dynamic shapes of a subject, every dimension of it written out."""
    return every_dimension(subject) if isinstance(subject.dynamic_shapes, str) else subject.dynamic_shapes


def compared(name: str) -> Verdict:
    """What both ways make of a program."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject = subject_of(name)
        if subject is None:
            return Verdict("same", "no size varies")
        direct, exported = captured(subject, DIRECT), captured(subject, TORCH_EXPORT)
        if isinstance(direct, str):
            return (
                Verdict("neither", f"{direct}; {exported}")
                if isinstance(exported, str)
                else Verdict("torch.export alone", direct)
            )
        if isinstance(exported, str):
            return Verdict("direct alone", exported)
        if types_of(direct) != types_of(exported):
            return Verdict("types", f"{types_of(direct)} by direct capture, {types_of(exported)} by torch.export")
        return of_contracts(direct, exported)


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
        return f"{way}: {measure.clean(f'{type(error).__name__}: {error}')}"


def types_of(program: Program) -> list[tuple[str, str, str, int]]:
    """The role, name, element type and rank of each input, and of each output without its name."""
    graph = program.graph
    given = zip(graph.signature.params, graph.params, strict=True)
    made = zip(graph.signature.results, graph.results, strict=True)
    found = sorted((port.role, port.name, *kind_of(value)) for port, value in given)
    return found + [(port.role, "", *kind_of(value)) for port, value in made]


def kind_of(value: Value) -> tuple[str, int]:
    """The element type and the rank of a value."""
    return repr(value.type).partition("[")[0], len(getattr(value.type, "shape", ()))


def of_contracts(direct: Program, exported: Program) -> Verdict:
    """What two programs of one model take and answer."""
    more: list[str] = []
    less: list[str] = []
    late: list[str] = []
    for args, kwargs in calls_of(direct, exported):
        sizes = str([list(t.shape) for t in measure.tensors_of((args, kwargs))])
        takes = [accepts(program, args, kwargs) for program in (direct, exported)]
        for program, taken, way in zip((direct, exported), takes, (DIRECT, TORCH_EXPORT), strict=True):
            problem = run(program, *copy.deepcopy((args, kwargs))).problem if taken else ""
            if problem and not both_refuse(program, args, kwargs):
                return Verdict("differs", f"{way} at {sizes}: {measure.clean(problem)}")
            late += [f"{way} at {sizes}: {measure.clean(problem)}"] if problem else []
        if takes[0] != takes[1]:
            (more if takes[0] else less).append(sizes)
    if late:
        return Verdict("late", late[0])
    if less:
        return Verdict("narrower", f"torch.export alone takes {', '.join(less)}")
    return Verdict("weaker", f"direct capture alone takes {', '.join(more)}") if more else Verdict("same")


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


def calls_of(direct: Program, exported: Program) -> Iterator[tuple[Any, Any]]:
    """The call of the example, others that the contracts allow, and those with 0 or 1 in place of one size."""
    for program in (direct, exported):
        traced = traced_sizes(program)
        points: list[dict[str, int]] = list(assignments(program, OTHERS, 0))
        names = [n for n in traced if n in program.graph.symbols][:MOST_SIZES]
        points += [{**traced, name: size} for name in names for size in (0, 1)]
        for sizes in points:
            if allowed(program.graph, sizes):
                yield resized(program, sizes, 0)


def main(arguments: Sequence[str]) -> int:
    """Compares the programs of the collections that are named, and tells of all that are not the same; 1 for faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.both_ways", description=__doc__)
    parser.add_argument("collections", nargs="*", default=COLLECTIONS, help=f"of {', '.join(COLLECTIONS)}; all without")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes compare side by side")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one program")
    parser.add_argument("--resume", action="store_true", help="leave out what the file of results has")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results, a line for each program")
    given = parser.parse_args(arguments)
    names = names_of(given.collections)
    rows = rows_in(given.results, lambda row: row["name"]) if given.resume else []
    rewrite(given.results, rows)
    done = {row["name"] for row in rows}
    todo = [name for name in names if name not in done]
    for name, found in worked(todo, compared, given.jobs, given.limit, ["tests.fuzz.both_ways"]):
        verdict = Verdict(found.reason, found.detail) if isinstance(found, Lost) else found
        append(given.results, {"name": name, **attrs.asdict(verdict)})
        if verdict.outcome != "same":
            print(f"{name}: {verdict.outcome}: {verdict.detail}", flush=True)
    rows = rows_in(given.results, lambda row: row["name"])
    counts = Counter(row["outcome"] for row in rows)
    print(dict(counts.most_common()))
    return 1 if any(counts[fault] for fault in FAULTS) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
