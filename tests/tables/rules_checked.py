"""docs/measured/rules_checked.md: every rule of the project under `check_rule`, at 200 instances and ten seeds, and
what of the wrong rules of tests/support/wrong_rules.py is caught on five.

`make check-rules` writes it: about an hour on two cores. `--resume` keeps the rows that stand on the page for rules
that are not named by `--only`, and those that agree at these settings where none is named; it writes the page after
each rule, so that a run may be ended and taken up again. tests/passes/rules/test_rules.py takes a few instances of each
rule.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
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

Written by `make check-rules`: `check_rule` of every rule of the project. {good} of {count} rules agree wherever they
fired: {fired} instances and {near} near misses ({made} were made), {there} of them compared on ONNX Runtime, too. An
instance counts where there is something to compare: those with empty results only are made anew.

`at` is how many instances were asked for, on how many seeds; `fired` counts instances over all seeds, `near` near
misses on which the rule fired, of those made; `types` and `ranks` how many there were of them; `sizes` whether 0, 1 and
symbols were among them; `not reached` the returns of the rule's function that never ran: conditions that no instance,
and no near miss, met.

Of {wrong} wrong rules (tests/support/wrong_rules.py), `check_rule` at its default settings finds {caught} on the seeds
0 to {last}.
"""

COLUMNS = ("rule", "at", "bits", "fired", "near", "types", "ranks", "sizes", "on ONNX Runtime", "not reached")
DIFFERS = "**differs, see below**"


@attrs.frozen
class Row:
    """What came of one rule, as it stands in the table: a cell for each of `COLUMNS`; and the first error if there is
    one."""

    cells: tuple[str, ...]
    error: str = ""

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.cells[0].strip("`")

    @property
    def at(self) -> str:
        """The settings that it was made at."""
        return self.cells[1]

    def number(self, column: str, which: int = 0) -> int:
        """A number in one of the cells: in `3 of 5` the first or the second one."""
        found = self.cells[COLUMNS.index(column)].split(" of ")
        return int(found[which]) if len(found) > which and found[which].isdigit() else 0


def settings(n: int, seeds: int) -> str:
    """What the table says of them."""
    return f"{n} x {seeds}"


def row_of(name: str, at: str, reports: Sequence[Checked], error: str = "") -> Row:
    """The row of the reports of a rule."""
    if error or not reports:
        return Row((f"`{name}`", at, "", DIFFERS, *[""] * (len(COLUMNS) - 4)), error)
    sizes = [size for size in ("0", "1", "symbol") if any(size in dict(r.sizes) for r in reports)]
    never = set.intersection(*({text for _, text in r.lines} for r in reports))
    return Row(
        (
            f"`{name}`",
            at,
            "all" if reports[0].exact else "real",
            str(sum(r.fired for r in reports)),
            f"{sum(r.near_fired for r in reports)} of {sum(r.near_misses for r in reports)}",
            str(len(union(dict(r.types) for r in reports))),
            ", ".join(map(str, sorted(union(dict(r.ranks) for r in reports)))),
            ", ".join(sizes),
            str(sum(r.on_runtime for r in reports)),
            str(len(never)),
        )
    )


def checked_at(index: int, n: int, seeds: int) -> tuple[Row, float]:
    """(the row of rule number `index`, how many seconds of the processor it took)"""
    rule, found, start, error = RULES[index], [], time.process_time(), ""
    for seed in range(seeds):
        try:
            found.append(check_rule(rule, n, seed=seed))
        except RewriteError as raised:
            error = f"seed {seed}: {raised}"
            break
    return row_of(rule.name, settings(n, seeds), found, error), time.process_time() - start


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


def page(rows: Sequence[Row], missed: Sequence[Sequence[str]]) -> str:
    """The text of docs/measured/rules_checked.md."""
    head = HEAD.format(
        count=len(rows),
        good=sum(DIFFERS not in row.cells for row in rows),
        wrong=len(WRONG),
        fired=sum(row.number("fired") for row in rows),
        near=sum(row.number("near") for row in rows),
        made=sum(row.number("near", 1) for row in rows),
        there=sum(row.number("on ONNX Runtime") for row in rows),
        last=max(len(missed) - 1, 0),
        caught=", ".join(str(len(WRONG) - len(each)) for each in missed) or "(not run)",
    )
    lines = [head, line(COLUMNS), line(["---"] * len(COLUMNS)), *(line(row.cells) for row in rows)]
    for row in rows:
        if row.error:
            lines += [f"\n## {row.name}\n", "```text", row.error, "```"]
    return "\n".join(lines) + "\n"


def line(cells: Sequence[str]) -> str:
    """A line of the table."""
    return f"| {' | '.join(cells)} |"


def rows_on(text: str) -> dict[str, Row]:
    """The rows that stand on a page, by the names of the rules."""
    lines = [each for each in text.splitlines() if each.startswith("| `")]
    rows = [Row(tuple(cell.strip() for cell in each.strip("|").split("|"))) for each in lines]
    errors = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    found = {}
    for row in (row for row in rows if len(row.cells) == len(COLUMNS)):
        error = errors.get(row.name, "").strip().removeprefix("```text\n").removesuffix("\n```")
        found[row.name] = attrs.evolve(row, error=error)
    return found


def union(sets: Iterable[Iterable[object]]) -> set:
    """All that is in one of the sets."""
    return {each for one in sets for each in one}


def made(names: Sequence[str], n: int, seeds: int, jobs: int) -> Iterator[Row]:
    """The rows of the rules of those names; each is told on stderr as it comes."""
    chosen = [i for i, rule in enumerate(RULES) if rule.name in names]
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(checked_at, i, n, seeds) for i in chosen]
        for each in as_completed(waiting):
            row, seconds = each.result()
            print(f"{row.name}: {row.error or 'agrees'} ({seconds:.0f} s)", file=sys.stderr, flush=True)
            yield row


def main() -> int:
    """1 where a rule differs, or more than one wrong rule passes for right on a seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="instances of each rule, for each seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--only", nargs="*", default=[], help="names of rules; no page is written without --resume")
    parser.add_argument("--resume", action="store_true", help="keep the other rows of the page that stands there")
    given = parser.parse_args()
    known = rows_on(PAGE.read_text(encoding="utf-8")) if given.resume else {}
    names = given.only or [
        rule.name
        for rule in RULES
        if (row := known.get(rule.name)) is None or row.at != settings(given.n, given.seeds) or row.error
    ]
    with ProcessPoolExecutor(given.jobs) as pool:
        missed = [] if given.only and not given.resume else list(pool.map(caught, range(SEEDS_OF_WRONG)))
    for row in made(names, given.n, given.seeds, given.jobs):
        known[row.name] = row
        if given.resume:
            write(known, missed)
    if not given.only:
        write(known, missed)
    return int(any(DIFFERS in row.cells for row in known.values()) or any(len(each) > 1 for each in missed))


def write(known: Mapping[str, Row], missed: Sequence[Sequence[str]]) -> None:
    """Writes the page of the rules that are known, in the order of the rules of the project."""
    rows = [known[rule.name] for rule in RULES if rule.name in known]
    PAGE.write_text(page(rows, missed), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
