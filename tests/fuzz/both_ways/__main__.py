"""Every program of the suite's collections captured by both ways: the same types, the same numbers, the same contract.

The collections are the zoo of models, and torch's databases of operators, modules, higher-order operators and export's
features, with sizes that vary. Each program is exported directly and by torch.export, and both are called at the sizes
of the example, at others that one of them allows, and with 0 and 1 for each size. What a program takes it must answer
as eager does; where one takes sizes that the other refuses, that is told. What differs for a reason that
`tests.fuzz.both_ways.reasons` names is counted, and not told again. `make both-ways` goes through all of them, and
writes docs/measured/both_ways.md.

    python -m tests.fuzz.both_ways --jobs 16 zoo hops
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs

from tests.fuzz.both_ways.page import page
from tests.fuzz.both_ways.programs import COLLECTIONS, PLAIN, names_of
from tests.fuzz.both_ways.reasons import reason_for
from tests.fuzz.both_ways.verdicts import Verdict, within
from tests.support.rows import append, rewrite, rows_in
from tests.support.workers import Lost, worked

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "build" / "both_ways.jsonl"
PAGE = ROOT / "docs" / "measured" / "both_ways.md"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.both_ways", description=__doc__)
    parser.add_argument("collections", nargs="*", default=COLLECTIONS, help=f"of {', '.join(COLLECTIONS)}; all without")
    parser.add_argument("--dtypes", default=PLAIN, help="element types of the databases, with commas between")
    parser.add_argument("--samples", type=int, default=1, help="how many calls of each program of a database")
    parser.add_argument("--names", default="", help="only these programs, with commas between")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes compare side by side")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one program")
    parser.add_argument("--memory", type=float, default=16.0, help="gigabytes for one program")
    parser.add_argument("--resume", action="store_true", help="leave out what the file of results has")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results there are")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results, a line for each program")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Compares the programs that are asked for, tells what differs for no known reason, and writes the page of these
    results and those that the file has; 1 where there is such."""
    given = options(arguments)
    names = names_of(given.collections, given.dtypes.split(","), given.samples)
    if given.names:
        names = given.names.split(",")
    rows = rows_in(given.results, lambda row: row["name"])
    again = set() if given.resume or given.page_only else set(names)
    rows = [row for row in rows if row["name"] not in again]
    rewrite(given.results, rows)
    done = {row["name"] for row in rows}
    todo = [] if given.page_only else [name for name in names if name not in done]
    os.environ.setdefault("MALLOC_PERTURB_", "85")  # what nobody writes holds no zeros then, where glibc gives memory
    work = partial(within, memory=int(given.memory * 1e9))
    for name, found in worked(todo, work, given.jobs, given.limit, ["tests.fuzz.both_ways.verdicts"]):
        verdict = Verdict(found.reason, found.detail) if isinstance(found, Lost) else found
        append(given.results, {"name": name, **attrs.asdict(verdict)})
        if verdict.outcome != "same" and reason_for(name, verdict) is None:
            print(f"{name}: {verdict.outcome}: {verdict.detail}", flush=True)
    rows = rows_in(given.results, lambda row: row["name"])
    PAGE.write_text(page(rows), encoding="utf-8")
    found = [Verdict(row["outcome"], row["detail"]) for row in rows]
    print(dict(Counter(verdict.outcome for verdict in found).most_common()))
    named = [row["name"] for row, verdict in zip(rows, found, strict=True) if reason_for(row["name"], verdict)]
    new = [row for row in rows if row["outcome"] != "same" and row["name"] not in named]
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
