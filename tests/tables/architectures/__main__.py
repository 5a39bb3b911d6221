"""`make architectures`: the models of whole libraries, tiny, exported and compared with eager at several sizes.

Writes docs/measured/architectures.md. What each model gave is a line of build/architectures.jsonl, and the page is of
these and of docs/measured/architectures.jsonl, the lines of earlier runs, which are then written there: libraries that
do not go together are measured in environments of their own.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tests.support.rows import append, rewrite, rows_in
from tests.support.workers import Lost, worked
from tests.tables.architectures.measure import FAILS, GOOD, NOT_EAGER, PARTLY, Job, Row, measured
from tests.tables.architectures.page import page, summary
from tests.tables.architectures.places import line_at_work, places_in
from tests.tables.architectures.sources import SOURCES, subjects_of
from tests.tables.architectures.subject import Subject
from tests.tables.models import commit_of

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "docs" / "measured" / "architectures.jsonl"
PAGE, RESULTS = ROOT / "docs" / "measured" / "architectures.md", ROOT / "build" / "architectures.jsonl"


PRELOAD = ("tests.tables.architectures.measure", "transformers.modeling_utils", "transformers.masking_utils")
"""What workers have imported when they start, where it is installed."""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tables.architectures", description=__doc__)
    parser.add_argument("names", nargs="*", help="sources, kinds or models; all without")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes measure side by side")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one model by the clock")
    parser.add_argument("--seconds", type=float, default=100.0, help="CPU seconds for one model")
    parser.add_argument(
        "--every", type=int, default=10, help="torch.export alone is timed of every so many; 0 for none"
    )
    parser.add_argument("--resume", action="store_true", help="leave out what was measured, but what took too long")
    parser.add_argument("--failed", action="store_true", help="only what was measured and is not right")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results there are")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results, a line for each model")
    return parser.parse_args(arguments)


def key_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """The source and the name of a line of the file of results."""
    return row["source"], row["name"]


def known_rows(results: Path) -> list[dict[str, Any]]:
    """The rows of earlier runs: those of the published table, and what the file of results has beside or instead."""
    return list({key_of(row): row for row in [*rows_in(TABLE, key_of), *rows_in(results, key_of)]}.values())


def subjects_here() -> tuple[dict[tuple[str, str], Subject], dict[str, str]]:
    """The subjects of all sources by source and name, and why a source has none."""
    found: dict[tuple[str, str], Subject] = {}
    missing: dict[str, str] = {}
    for source in SOURCES:
        try:
            found |= {(source, name): subject for name, subject in subjects_of(source).items()}
        except ImportError as error:
            missing[source] = f"{type(error).__name__}: {error}"
    return found, missing


def lost_row(job: Job, kind: str, lost: Lost) -> Row:
    """The row of a model whose process gave no answer."""
    problem, line = f"{lost.reason}: {lost.detail}", line_at_work(places_in(lost.stack))
    return Row(job[0], job[1], kind, FAILS, problem=problem, seconds=lost.seconds, line=line)


def took_longer(row: Mapping[str, Any], seconds: float) -> bool:
    """Whether a row says that its model was ended before as many CPU seconds."""
    told = TOO_LONG.search(row["problem"])
    return told is not None and float(told[1]) < seconds


TOO_LONG = re.compile(r"more than ([\d.]+) CPU seconds")


def jobs_of(given: argparse.Namespace, known: Mapping[tuple[str, str], Subject], rows: Sequence[Any]) -> list[Job]:
    """What is to be measured."""
    done = {key_of(row) for row in rows if not took_longer(row, given.seconds)}
    wrong = {key_of(row) for row in rows if row["verdict"] not in GOOD}
    jobs: list[Job] = []
    for index, (key, subject) in enumerate(known.items()):
        asked = not given.names or {subject.source, subject.name, subject.kind} & set(given.names)
        left = key in wrong if given.failed else not (given.resume and key in done)
        if asked and left and not given.page_only:
            jobs.append((*key, bool(given.every) and index % given.every == 0, given.seconds))
    asked = [*dict.fromkeys(name for name in given.names if name in SOURCES)]
    costs = sibling_costs(rows)
    place = {source: position for position, source in enumerate(asked)}
    return sorted(jobs, key=lambda job: (place.get(job[0], len(place)), costs.get(family_of(job), UNKNOWN)))


UNKNOWN = 2.0
"""The seconds that a model is thought to take of whose family nothing is known."""


def family_of(key: Sequence[Any]) -> tuple[str, str]:
    """The source of a model, and what it is called there without its class."""
    return key[0], key[1].partition(".")[0]


def sibling_costs(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """The seconds that the least lucky model of each family took; infinite where it is not right. What is cheap and
    likely right is measured first, so that a run that is ended has measured most."""
    costs: dict[tuple[str, str], float] = {}
    for row in rows:
        key = family_of(key_of(row))
        taken = row["seconds"] if row["verdict"] in GOOD else math.inf
        costs[key] = max(costs.get(key, 0.0), taken)
    return costs


def main(arguments: Sequence[str]) -> int:
    """Measures the named models, writes the page of all that was measured; returns 1 where one is not right."""
    given, commit = options(arguments), commit_of()
    known, missing = subjects_here()
    jobs = jobs_of(given, known, known_rows(given.results))
    if not (given.resume or given.failed or given.names or given.page_only):
        rewrite(given.results, [])
    for job, found in worked(jobs, measured, given.jobs, given.limit, PRELOAD):
        row = lost_row(job, known[job[0], job[1]].kind, found) if isinstance(found, Lost) else found
        append(given.results, {**attrs.asdict(row), "commit": commit})
        print(f"{row.source} {row.name}: {row.verdict} {row.seconds:.2f} s {row.problem[:200]}", flush=True)
    order = {key: index for index, key in enumerate(known)}
    rows = sorted(known_rows(given.results), key=lambda row: order.get(key_of(row), len(order)))
    unmeasured = {
        source: sum(key[0] == source for key in known)
        - sum(key_of(row) in known for row in rows if row["source"] == source)
        for source in SOURCES
    }
    missing = {source: why for source, why in missing.items() if not any(row["source"] == source for row in rows)}
    rewrite(TABLE, rows)
    PAGE.write_text(page(rows, missing, unmeasured), encoding="utf-8")
    print(*summary(rows, unmeasured), sep="\n")
    return 0 if all(row["verdict"] in (*GOOD, *PARTLY, NOT_EAGER) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
