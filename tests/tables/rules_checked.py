"""docs/measured/rules_checked.md: every rule of the project under `check_rule`, at 200 instances and ten seeds, and
what of the wrong rules of tests/support/wrong_rules.py is caught on five.

`make check-rules` writes it: about an hour on two cores. tests/passes/rules/test_rules.py takes a few instances of each
rule.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import attrs

from irkit.checking.counterexamples import Counterexample
from irkit.checking.coverage import Checked
from irkit.checking.rules import check_rule
from irkit.errors import RewriteError
from irkit.rewriting.face import Rule
from tests.support.wrong_rules import WRONG
from tests.tables.rules import RULES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "measured" / "rules_checked.md"
SEEDS_OF_WRONG = 5

HEAD = """# Rules under check

Written by `make check-rules` ({n} instances, {seeds} seeds): `irkit.check_rule` of every rule of the project. {good} of
{count} rules agree wherever they fired: {fired} instances and {near} near misses ({made} were made), {there} of them
compared on ONNX Runtime, too. An instance counts where there is something to compare: {empty} had empty results only.

`fired` counts instances over all seeds, `near` near misses on which the rule fired, of those made; `types` and `ranks`
how many there were of them; `sizes` whether 0, 1 and symbols were among them; `not reached` the returns of
the rule's function that never ran: conditions that no instance, and no near miss, met.

Of {wrong} wrong rules (tests/support/wrong_rules.py), `check_rule` at its default settings finds {caught} on the seeds
0 to {last}.
"""


@attrs.frozen
class Row:
    """What came of one rule: the reports of the seeds, the first error if there is one, and seconds."""

    name: str
    reports: tuple[Checked, ...]
    error: str = ""
    seconds: float = 0.0


def checked_at(index: int, n: int, seeds: Sequence[int]) -> Row:
    """The row of rule number `index`."""
    rule, found, start = RULES[index], [], time.process_time()
    for seed in seeds:
        try:
            found.append(check_rule(rule, n, seed=seed))
        except RewriteError as error:
            return Row(rule.name, tuple(found), f"seed {seed}: {error}", time.process_time() - start)
    return Row(rule.name, tuple(found), "", time.process_time() - start)


def is_caught(rule: Rule, seed: int) -> bool:
    """True where the check shows a wrong rule to be wrong, at default settings."""
    try:
        check_rule(rule, seed=seed)
    except Counterexample:
        return True
    return False


def caught(seed: int) -> tuple[str, ...]:
    """The names of the wrong rules that pass for right on a seed."""
    return tuple(rule.name for rule in WRONG if not is_caught(rule, seed))


# ---------------------------------------------------------------------------------------------- the page


def page(rows: Sequence[Row], missed: Sequence[Sequence[str]], n: int, seeds: int) -> str:
    """The text of docs/measured/rules_checked.md."""
    reports = [report for row in rows for report in row.reports]
    head = HEAD.format(
        n=n, seeds=seeds, count=len(rows), good=sum(not row.error for row in rows), wrong=len(WRONG),
        fired=sum(r.fired for r in reports), near=sum(r.near_fired for r in reports),
        made=sum(r.near_misses for r in reports), there=sum(r.on_runtime for r in reports),
        empty=sum(r.empty for r in reports), last=max(len(missed) - 1, 0),
        caught=", ".join(str(len(WRONG) - len(each)) for each in missed) or "(not run)",
    )  # fmt: skip
    lines = [head, "| rule | bits | fired | near | types | ranks | sizes | on ONNX Runtime | not reached |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |", *map(line, rows)]
    for row in rows:
        if row.error:
            lines += [f"\n## {row.name}\n", "```text", row.error, "```"]
    return "\n".join(lines) + "\n"


def line(row: Row) -> str:
    """The line of one rule."""
    reports = row.reports
    if row.error or not reports:
        return f"| `{row.name}` | | **differs, see below** | | | | | | |"
    sizes = [size for size in ("0", "1", "symbol") if any(size in dict(r.sizes) for r in reports)]
    never = set.intersection(*({text for _, text in r.lines} for r in reports))
    return " | ".join(
        (
            f"| `{row.name}`",
            "all" if reports[0].exact else "real",
            str(sum(r.fired for r in reports)),
            f"{sum(r.near_fired for r in reports)} of {sum(r.near_misses for r in reports)}",
            str(len(union(dict(r.types) for r in reports))),
            ", ".join(map(str, sorted(union(dict(r.ranks) for r in reports)))),
            ", ".join(sizes),
            str(sum(r.on_runtime for r in reports)),
            f"{len(never)} |",
        )
    )


def union(sets: Iterable[Iterable[object]]) -> set:
    """All that is in one of the sets."""
    return {each for one in sets for each in one}


def rows_of(names: Sequence[str], n: int, seeds: int, jobs: int) -> Iterator[Row]:
    """The rows of the rules of those names, or of all; each is told on stderr as it comes."""
    chosen = [i for i, rule in enumerate(RULES) if not names or rule.name in names]
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(checked_at, chosen, [n] * len(chosen), [range(seeds)] * len(chosen)):
            print(f"{row.name}: {row.error or 'agrees'} ({row.seconds:.0f} s)", file=sys.stderr, flush=True)
            yield row


def main() -> int:
    """1 where a rule differs, or more than one wrong rule passes for right on a seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="instances of each rule, for each seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--only", nargs="*", default=[], help="names of rules; no page is written then")
    given = parser.parse_args()
    rows = list(rows_of(given.only, given.n, given.seeds, given.jobs))
    if given.only:
        return int(any(row.error for row in rows))
    with ProcessPoolExecutor(given.jobs) as pool:
        missed = list(pool.map(caught, range(SEEDS_OF_WRONG)))
    PAGE.write_text(page(rows, missed, given.n, given.seeds), encoding="utf-8")
    return int(any(row.error for row in rows) or any(len(each) > 1 for each in missed))


if __name__ == "__main__":
    raise SystemExit(main())
