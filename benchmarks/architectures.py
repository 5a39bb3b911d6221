"""Module to file beside torch.export alone, over the models of docs/measured/architectures.md.

    python -m benchmarks.architectures --every 12
    python -m benchmarks.architectures torchvision vgg16_bn transformers.gpt2.GPT2Model

Each model has a process of its own, in which both ways capture the same model with the same example and dynamic axes in
turns, once something else has been captured by either; of each the least CPU seconds of a few runs count, or those of
the first where irkit takes less than half of torch.export's. irkit writes the file, weights too; a model that needs
`rewrite=True` has that. Prints a line for each model, and writes docs/measured/architectures_time.md of those lines and
what earlier runs gave, one for each model (build/architectures_time.jsonl, and docs/measured/architectures_time.jsonl).
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import itertools
import logging
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import irkit
from benchmarks.whole import seconds
from benchmarks.zoo import load_once, shapes_of
from lowering.architectures.inputs import Sets
from lowering.records.programs import register_caches
from lowering.records.pytrees import register_classes
from tests.support.rows import append, rewrite, rows_in
from tests.support.workers import Lost, worked
from tests.tables.architectures.__main__ import PRELOAD, key_of, subjects_here
from tests.tables.architectures.__main__ import TABLE as VERDICTS
from tests.tables.architectures.measure import (
    GOOD,
    PREPARED,
    REWRITTEN,
    bound_memory,
    copied,
    said,
)
from tests.tables.architectures.sources import subjects_of

ROOT = Path(__file__).parents[1]
PAGE, TABLE = (ROOT / "docs" / "measured" / f"architectures_time.{kind}" for kind in ("md", "jsonl"))
RESULTS = ROOT / "build" / "architectures_time.jsonl"
Row = dict[str, Any]
"""source, name, irkit and torch_export (seconds, or why it has none), and rewrite: whether irkit rewrote the model."""
Job = tuple[str, str, bool, bool, int, bool]
"""Source, name, whether to rewrite, whether to prepare, how many runs, and whether torch.export is timed."""


def measured(job: Job) -> Row:
    """The row of a model."""
    source, name, rewritten, prepared, runs, both = job
    bound_memory()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    load_once()
    torch.manual_seed(0)
    subject = subjects_of(source)[name]
    row: Row = {"source": source, "name": name, "rewrite": rewritten}
    try:
        model = subject.build().eval()
        sets = subject.sets(model)
    except Exception as error:  # models raise anything
        return row | {"irkit": f"not built: {said(error)}", "torch_export": None}
    ready = subject.prepared(model, sets) if prepared else None
    if ready is None:
        return row | spent(model, sets, rewritten, runs, both)
    with ready[1]():
        found = spent(model, ready[0], False, runs, both)
        return row | (found if isinstance(found["irkit"], float) else spent(model, ready[0], True, runs, both))


def spent(model: torch.nn.Module, sets: Sets, rewritten: bool, runs: int, both: bool) -> Row:
    """What either way takes, the least of some runs, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        files = (Path(folder) / f"{number}.onnx" for number in itertools.count())

        def ours(given: dict[str, Any]) -> None:
            program = irkit.to_onnx(model, (), given, dynamic_shapes=sets.dynamic_shapes, rewrite=rewritten)
            program.save(next(files))
            captures.add(program.report.capture)

        def theirs(given: dict[str, Any], shapes: Any) -> None:
            whole: tuple[Any, ...] = (Called(model), (given,)) if takes_any(model) else (model, (), given)
            torch.export.export(*whole, dynamic_shapes=shapes, strict=False)

        captures: set[str] = set()
        least: Row = {"irkit": math.inf, "torch_export": math.inf if both else None}
        for _ in range(runs):
            for each in Path(folder).iterdir():  # its pages serve again: those not used yet cost a virtual machine more
                each.unlink()
            given = copied(dict(sets.example))
            note(least, "irkit", partial(ours, given))
            given = copied(dict(sets.example))
            if both:
                with register_classes(given) as known:
                    register_caches(known)  # those that a model returns
                    shapes = shapes_of(model, (), given, sets.dynamic_shapes)
                    note(least, "torch_export", partial(theirs, given, shapes))
            if (ratio_of(least) or 1.0) < CLEAR:
                break
    return least | {"capture": ", ".join(sorted(captures))}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A block in which nothing is printed: torch.export prints the graph of what it fails at."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


CLEAR = 0.5
"""A ratio that further runs need not tell better."""


class Called(torch.nn.Module):
    """A model called with a dict of its arguments: torch.export takes no shapes of those that a model takes by any
    name."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: dict[str, Any]) -> Any:
        """What the model gives."""
        return self.model(**given)


def takes_any(model: torch.nn.Module) -> bool:
    """Whether a model takes arguments of any name, or any number."""
    some = inspect.signature(model.forward).parameters.values()
    return any(each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in some)


def note(least: Row, way: str, work: Callable[[], None]) -> None:
    """Notes what a way takes, if that is less than before, or why it gives nothing."""
    if isinstance(least[way], str):
        return
    try:
        with quiet():
            least[way] = min(least[way], round(seconds(work)[0], 3))
    except Exception as error:  # either way raises anything
        least[way] = said(error)


def ratio_of(row: Mapping[str, Any]) -> float | None:
    """How many times the seconds of torch.export alone a model takes; None where either has none."""
    ours, theirs = row["irkit"], row["torch_export"]
    return ours / theirs if isinstance(ours, float) and isinstance(theirs, float) else None


def mean_of(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many models, the geometric mean of their ratios, and the greatest, for each source and for all."""
    lines = ["| source | models | geometric mean | greatest | above 1 |", "|---|---:|---:|---:|---:|"]
    sources = [*dict.fromkeys(row["source"] for row in rows)]
    for source in [*sources, "all"]:
        of_it = [row for row in rows if source in (row["source"], "all")]
        ratios = [ratio for row in of_it if (ratio := ratio_of(row)) is not None]
        if ratios:
            above = sum(ratio > 1 for ratio in ratios)
            lines.append(f"| {source} | {len(ratios)} | {mean_of(ratios):.3f} | {max(ratios):.2f} | {above} |")
    return lines


PREAMBLE = """# Time from module to file, over architectures

Generated by `python -m benchmarks.architectures`; never edited. CPU seconds of irkit from the module to the file,
weights written, and of `torch.export.export` alone, of the same model with the same example and the same dynamic axes,
in one process that has captured something else before, in turns, the least of a few runs, or of one where irkit takes
less than half. The models are a sample of those of
[architectures.md](architectures.md); one that needs `rewrite=True` there has it here, which torch.export has not.
"""


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page of these rows, the greatest ratio first."""
    timed = sorted((row for row in rows if ratio_of(row) is not None), key=lambda row: -(ratio_of(row) or 0))
    lines = [PREAMBLE, *summary(rows), "", "| model | irkit | torch.export | ratio | |", "|---|---:|---:|---:|---|"]
    for row in timed:
        rewritten = "rewritten" if row["rewrite"] else ""
        told = f"{row['irkit']:.3f} | {row['torch_export']:.3f} | {ratio_of(row):.2f} | {rewritten}"
        lines.append(f"| {row['source']} {row['name']} | {told} |")
    rest = [row for row in rows if ratio_of(row) is None]
    lines += ["", "Of these either way gives no program, or the time of torch.export was not asked:", ""]
    for row in rest:
        ways = (f"{way.replace('_', '.')}: {str(row[way])[:90]}" for way in ("irkit", "torch_export"))
        lines.append(f"- {row['source']} {row['name']}: {'; '.join(ways)}".replace("|", "\\|").replace("<", "\\<"))
    return "\n".join(lines) + "\n"


def jobs_of(given: argparse.Namespace) -> list[Job]:
    """What is to be timed: the models that are asked for and right, and of them each so-manieth."""
    verdicts = {key_of(row): row["verdict"] for row in rows_in(VERDICTS, key_of)}
    known, _ = subjects_here()
    done = {key_of(row) for row in rows_in(given.results, key_of)} if given.resume else set[Any]()
    jobs: list[Job] = []
    for key in (key for key in known if verdicts.get(key) in GOOD):
        if given.names and not {key[0], key[1], ".".join(key)} & set(given.names):
            continue
        way = verdicts[key]
        jobs.append((*key, way == REWRITTEN, way == PREPARED, given.runs, not given.alone))
    return [job for job in jobs[given.first :: given.every] if job[:2] not in done]


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architectures", description=__doc__)
    parser.add_argument("names", nargs="*", help="sources or models; all without")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth model")
    parser.add_argument("--first", type=int, default=0, help="which is the first of those")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes measure side by side")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one model by the clock")
    parser.add_argument("--alone", action="store_true", help="irkit alone, without torch.export; no page is written")
    parser.add_argument("--resume", action="store_true", help="leave out what the file of results has")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results, a line for each model")
    return parser.parse_args(arguments)


def told_in_a_line(row: Mapping[str, Any]) -> str:
    """A row, to print."""
    ratio = ratio_of(row)
    ways = (row["irkit"], row["torch_export"])
    texts = (f"{way:8.3f}" if isinstance(way, float) else str(way)[:160] for way in ways)
    return f"{row['source'] + ' ' + row['name']:70} {' '.join(texts)}" + (f"  {ratio:.3f}" if ratio else "")


def found_without(job: Job, lost: Lost, limit: float) -> Row:
    """The row of a model that was lost: what irkit takes by itself, where torch.export was timed beside it and irkit is
    not what was lost."""
    told = f"{lost.reason}: {lost.detail}"
    row = {"source": job[0], "name": job[1], "rewrite": job[2], "irkit": told, "torch_export": None}
    if not job[-1]:
        return row
    for _, found in worked([(*job[:-2], 1, False)], measured, 1, limit, PRELOAD):
        return row if isinstance(found, Lost) else found | {"torch_export": told}
    return row


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each model, writes the page; returns 1 where a model takes longer than torch.export alone."""
    given = options(arguments)
    for job, found in worked(jobs_of(given), measured, given.jobs, given.limit, PRELOAD):
        row = found_without(job, found, given.limit) if isinstance(found, Lost) else found
        append(given.results, row)
        print(told_in_a_line(row), flush=True)
    if given.alone:
        return 0
    rows = list({key_of(row): row for row in [*rows_in(TABLE, key_of), *rows_in(given.results, key_of)]}.values())
    rewrite(TABLE, rows)
    PAGE.write_text(page(rows), encoding="utf-8")
    print(*summary(rows), sep="\n")
    return 1 if any((ratio_of(row) or 0) > 1 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
