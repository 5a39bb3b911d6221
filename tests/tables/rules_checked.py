"""docs/measured/rules_checked.md: every rule of the project under `check_rule`, at 200 instances and ten seeds, and
what of the wrong rules of tests/support/wrong_rules.py is caught on five.

`make check-rules` makes it, rule by rule and seed by seed: about two hours of one processor. It can be ended and taken
up again; the page is written where every piece was done on the code as it is. tests/passes/rules/test_rules.py takes a
few instances of each rule. Needs no torch.

tests/irkit/checking/test_rules_page.py looks for rules that stand in no table: each rule that a module of `passes`
holds is `CHECKED`, an expansion of legalization (`make expansions`), or `ELSEWHERE`, with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from irkit.checking.counterexamples import Counterexample
from irkit.checking.rules import check_rule
from irkit.errors import RewriteError
from irkit.rewriting.face import Rule
from passes.legal.all_expansions import all_expansions
from passes.legal.runtime.biases import LARGE_BIASES
from passes.legal.runtime.integers import INTEGERS
from passes.rules.nan import KEPT_BY_DEFAULT
from passes.saturation import KNOWN, SUMS
from tests.support.sweeps import ROOT, Found, Piece, code_digest, options, resumed, summary
from tests.support.wrong_rules import WRONG
from tests.tables.rules import RULES

PAGE = ROOT / "docs" / "measured" / "rules_checked.md"
SEEDS_OF_WRONG = 5

CHECKED: tuple[Rule, ...] = tuple(
    {id(r): r for r in (*RULES, *KNOWN, *INTEGERS, *LARGE_BIASES, *KEPT_BY_DEFAULT)}.values()
)
"""The rules on the page: those of docs/measured/rules.md, those of saturation, and those by which legalization goes
around kernels that compute otherwise."""

WITHIN_TOLERANCES = frozenset(each.name for found in SUMS for each in found.rules)
"""Sums grouped in another way, which lose what they cancel: they are held to the tolerances of `irkit.compare`."""

ELSEWHERE: Mapping[str, str] = {
    "linear_of_nothing": "both sides are empty, so that there is nothing to compare; tests/passes/legal",
    "expansion_to_nothing": "both sides are empty, so that there is nothing to compare; tests/passes/legal",
    "sum_in_steps": "it begins at sums of 2**24 numbers, more than an instance may hold; tests/passes/legal",
    "bias_of_integers": "it rounds a bias to whole steps: quantization, and no equation; tests/passes/quantization",
    "written_out": "it puts the definition of an operator in its place: each is compared by `irkit.check_operator`",
    "write out for gradients": "it takes expansions of legalization, before gradients",
    **dict.fromkeys(
        (
            "unsigned_matrix unsigned_kernels signed_kernels unsigned_weights float_weights_of_bytes "
            "float_kernels_of_bytes"
        ).split(),
        "the runtime computes one side wrongly on some processors; tests/passes/legal/test_byte_products.py",
    ),
    "choice_freed": "it is right where no NaN comes, which a program states as a condition; tests/lowering/program",
}  # fmt: skip
"""Rules that are not on the page, and why."""

HEAD = """# Rules under check

Written by `make check-rules`: `check_rule` of every rule of the project, {states}. {good} of
{count} rules agree wherever they fired: {fired} instances and {near} near misses ({made} were made), {there} of them
compared on ONNX Runtime, too. An instance counts where there is something to compare: those with empty results only are
made anew.

`at` is how many instances were asked for, on how many seeds: {n} on {seeds} seeds here, where `make check-rules` takes
200 on ten unless it is told otherwise; `fired` counts instances over all seeds, `near` near
misses on which the rule fired, of those made; `types` and `ranks` how many there were of them; `sizes` whether 0, 1 and
symbols were among them; `not reached` the returns of the rule's function that never ran: conditions that no instance,
and no near miss, met.

`within tolerances` are sums grouped in another way, which lose what they cancel: `passes.saturate` takes them only
where it is told to, and they are compared within the tolerances of `irkit.compare`.

Of {wrong} wrong rules (tests/support/wrong_rules.py), `check_rule` at its default settings finds {caught} on the seeds
0 to {last}.
"""

OTHERS = """
## Rules that are not here

The {expansions} expansions of legalization, each of an operator that a target lacks or computes otherwise, are rules
for `make expansions`, which compares them in the same way (tests/passes/legal/test_expansions.py). Beside them:

| rule | why it is not here, and where it is tested |
| --- | --- |
"""

COLUMNS = ("rule", "at", "bits", "fired", "near", "types", "ranks", "sizes", "on ONNX Runtime", "not reached")
DIFFERS = "**differs, see below**"
ONE_STATE = "all on one state of the code"
SEVERAL_STATES = "on {n} states of the code: the rules that a later one changed were checked again on that"


@cache
def rules_by_name(kind: str) -> Mapping[str, Rule]:
    """The rules of the project, or the wrong ones, by name."""
    return {rule.name: rule for rule in (WRONG if kind == "wrong" else CHECKED)}


def checked(piece: Piece, tell: Callable[[str], None]) -> Found:
    """What came of a rule on one seed, or whether a wrong one is caught on it."""
    kind, name, seed, n = str(piece[0]), str(piece[1]), int(piece[2]), int(piece[3])
    rule = rules_by_name(kind)[name]
    if kind == "wrong":
        return {"caught": int(is_caught(rule, seed))}
    try:
        found = check_rule(rule, n, seed=seed, measured=name not in WITHIN_TOLERANCES, proof=0)
    except RewriteError as raised:
        return {"error": f"seed {seed}: {raised}"}
    return {
        "fired": found.fired,
        "near_fired": found.near_fired,
        "near_misses": found.near_misses,
        "on_runtime": found.on_runtime,
        "types": [each for each, _ in found.types],
        "ranks": [each for each, _ in found.ranks],
        "sizes": [each for each, _ in found.sizes],
        "lines": [text for _, text in found.lines],
    }


def is_caught(rule: Rule, seed: int) -> bool:
    """True where the check shows a wrong rule to be wrong, at default settings."""
    try:
        check_rule(rule, seed=seed)
    except Counterexample:
        return True
    return False


# ---------------------------------------------------------------------------------------------- the page


def error_of(found: Sequence[Found]) -> str:
    """What the first seed on which a rule differs says; empty where none does."""
    return next((str(row.get("error", row.get("ended"))) for row in found if "error" in row or "ended" in row), "")


def row_of(rule: Rule, at: str, found: Sequence[Found]) -> tuple[str, ...]:
    """The cells of a rule, of what came of it on each seed."""
    if error_of(found):
        return f"`{rule.name}`", at, "", DIFFERS, *[""] * (len(COLUMNS) - 4)
    tried = {name: {each for row in found for each in row[name]} for name in ("types", "ranks", "sizes")}
    sums = {name: sum(row[name] for row in found) for name in ("fired", "near_fired", "near_misses", "on_runtime")}
    return (
        f"`{rule.name}`",
        at,
        "within tolerances" if rule.name in WITHIN_TOLERANCES else "all" if rule.exact else "real",
        str(sums["fired"]),
        f"{sums['near_fired']} of {sums['near_misses']}",
        str(len(tried["types"])),
        ", ".join(map(str, sorted(tried["ranks"]))),
        ", ".join(size for size in ("0", "1", "symbol") if size in tried["sizes"]),
        str(sums["on_runtime"]),
        str(len(set.intersection(*(set(row["lines"]) for row in found)))),
    )


def page(rows: Mapping[Piece, Found], n: int, seeds: int) -> str:
    """The text of docs/measured/rules_checked.md, of all that came of the pieces."""
    by_rule = {rule: [rows["rule", rule.name, seed, n] for seed in range(seeds)] for rule in CHECKED}
    codes = {row.get("code") for found in by_rule.values() for row in found}
    good = [row for found in by_rule.values() if not error_of(found) for row in found]
    caught = [
        sum(rows["wrong", rule.name, seed, 0].get("caught", 0) for rule in WRONG) for seed in range(SEEDS_OF_WRONG)
    ]
    head = HEAD.format(
        states=ONE_STATE if len(codes) == 1 else SEVERAL_STATES.format(n=len(codes)),
        count=len(by_rule),
        good=sum(not error_of(found) for found in by_rule.values()),
        wrong=len(WRONG),
        fired=sum(row["fired"] for row in good),
        near=sum(row["near_fired"] for row in good),
        made=sum(row["near_misses"] for row in good),
        there=sum(row["on_runtime"] for row in good),
        last=SEEDS_OF_WRONG - 1,
        n=n,
        seeds=seeds,
        caught=", ".join(map(str, caught)),
    )
    lines = [head, line(COLUMNS), line(["---"] * len(COLUMNS))]
    lines += [line(row_of(rule, f"{n} x {seeds}", found)) for rule, found in by_rule.items()]
    for rule, found in by_rule.items():
        if error_of(found):
            lines += [f"\n## {rule.name}\n", "```text", error_of(found), "```"]
    lines += [OTHERS.format(expansions=len(all_expansions())).rstrip()]
    lines += [line((f"`{name}`", why)) for name, why in ELSEWHERE.items()]
    return "\n".join(lines) + "\n"


def line(cells: Sequence[str]) -> str:
    """A line of the table."""
    return f"| {' | '.join(cells)} |"


def pieces_of(names: Sequence[str], n: int, seeds: int) -> list[Piece]:
    """Every rule, or those that are named, on every seed; with all of them the wrong ones."""
    chosen = [rule.name for rule in CHECKED if not names or rule.name in names]
    wrong: list[Piece] = [("wrong", rule.name, seed, 0) for seed in range(SEEDS_OF_WRONG) for rule in WRONG]
    return [("rule", name, seed, n) for seed in range(seeds) for name in chosen] + (wrong if not names else [])


def main() -> int:
    """1 where a rule differs, more than one wrong rule passes for right on a seed, or the time was over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="instances of each rule, for each seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--only", nargs="*", default=[], help="names of rules; no page is written then")
    parser.add_argument("--page-only", action="store_true", help="writes the page of what was done, and runs nothing")
    options("rules_checked", parser)
    given = parser.parse_args()
    pieces = pieces_of(given.only, given.n, given.seeds)
    rows = resumed(given.results, checked, [] if given.page_only else pieces, given.jobs, given.seconds)
    for piece in pieces:
        if piece in rows and error_of([rows[piece]]):
            print(f"{piece[1]}: {error_of([rows[piece]])}", flush=True)
    print(summary(rows, pieces, "fired", "near_fired", "caught"), flush=True)
    if not given.only and all(piece in rows for piece in pieces):
        PAGE.write_text(page(rows, given.n, given.seeds), encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)} is written, of code {code_digest()}")
    missed = [[p for p in pieces if p[2] == seed and rows.get(p, {}).get("caught") == 0] for seed in range(given.seeds)]
    unsound = any(piece not in rows or error_of([rows[piece]]) for piece in pieces)
    return int(unsound or any(len(each) > 1 for each in missed))


if __name__ == "__main__":
    sys.exit(main())
