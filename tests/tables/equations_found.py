"""docs/measured/equations_found.md: equations that `irkit.discover` finds, and that the rules of `passes` lack.

`make equations` writes it. Each run is of some operators; what is found in one is known in the next. Rules that were
adopted from an earlier run are left out of what is known, so that they are found again, and marked.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from irkit import Discovery, Equation, Rule, discover, hole, p, prove, tensor
from irkit.pattern.heads import describe
from passes.rules.arithmetic.algebra import log_of_exp, neg_of_sub, softmax_of_log_softmax
from passes.saturation import KNOWN

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "measured" / "equations_found.md"

ADOPTED: tuple[Rule, ...] = (neg_of_sub, log_of_exp, softmax_of_log_softmax)
"""Rules of `passes.optimize` that such a run offered."""

FLOATS, LOGIC, WHOLE = (tensor(each, 4, 4) for each in ("f32", "bool", "i64"))
x = hole("x")


@attrs.frozen
class Run:
    """One discovery: of these operators, over so many variables of a type, in terms of up to `size` operators."""

    title: str
    operators: tuple[Any, ...]
    types: tuple[Any, ...]
    size: int = 2
    constants: tuple[float, ...] = ()


RUNS = (
    Run("signs", ("Neg", "Abs", "Relu", "Sign"), (FLOATS,), 3),
    Run("exponentials", ("Exp", "Log", "Neg", "Sqrt", "Reciprocal", "Abs"), (FLOATS,), 3),
    Run("sums and differences", ("Add", "Sub", "Neg", "Abs"), (FLOATS,) * 2),
    Run("products", ("Mul", "Div", "Reciprocal", "Neg", "Sqrt"), (FLOATS,) * 2),
    Run("the larger and the smaller", ("Max", "Min", "Neg", "Relu", "Abs"), (FLOATS,) * 2),
    Run("trigonometry", ("Sin", "Cos", "Tanh", "Sigmoid", "Neg", "Abs"), (FLOATS,), 2, (1.0,)),
    Run("rows", (*(p.op(name)(x, axis=-1) for name in ("Softmax", "LogSoftmax")), "Exp", "Log", "Neg"), (FLOATS,), 2),
    Run("matrices", (p.Transpose(x, perm=(1, 0)), "MatMul", "Neg", "Add"), (FLOATS,) * 2),
    Run("logic", ("And", "Or", "Xor", "Not"), (LOGIC,) * 2),
    Run("bits", ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Neg"), (WHOLE,) * 2),
    Run("whole numbers", ("Add", "Sub", "Mul", "Neg", "Abs", "Sign"), (WHOLE,) * 2),
)  # fmt: skip

HEAD = """# Equations that nobody wrote

Equations between small terms, by `make equations`: `irkit.discover` enumerates terms over the operators of a run, and
offers what is equal on numbers, passes the check of rules in each direction, and follows neither from the {known} rules
of `passes.optimize` and `passes.saturate`, nor from what was found before. {count} were found in {runs} runs; {exact}
keep every bit, {proved} are proved for all sizes, and those of real numbers differ in roundings, or where something
overflows. {adopted} of the rules were adopted from such a run; they are left out of what is known here, and so found
again.

Most are of no use as rules: no model computes `Xor(x, Xor(x, y))`. What is, is for a reader to choose.
"""


def known_rules() -> tuple[Rule, ...]:
    """The rules that are known, without those that a run once offered."""
    return tuple(each for each in KNOWN if each not in ADOPTED)


def adopted_as(found: Equation) -> str:
    """The rule that was made of an equation, or nothing."""
    again = {
        "Neg(Sub(x, y)) == Sub(y, x)": neg_of_sub,
        "Neg(Sub(y, x)) == Sub(x, y)": neg_of_sub,
        "Log(Exp(x)) == x": log_of_exp,
        "Softmax(LogSoftmax(x, axis=-1), axis=-1) == Softmax(x, axis=-1)": softmax_of_log_softmax,
        "LogSoftmax(LogSoftmax(x, axis=-1), axis=-1) == LogSoftmax(x, axis=-1)": softmax_of_log_softmax,
    }
    rule = again.get(str(found).split(", where")[0])
    return rule.name if rule else ""


def is_proved(found: Equation) -> bool:
    """True where both directions that there are hold for all sizes up to rank 2."""
    return all(prove(each, 2) for each in found.rules)


def name_of(operator: Any) -> str:
    """An operator of a run, by its name or as its pattern is written."""
    return operator if isinstance(operator, str) else describe(operator)


def table(run: Run, found: Discovery) -> list[str]:
    """The section of one run."""
    head = [
        f"\n## {run.title[0].upper()}{run.title[1:]}\n",
        f"{len(found.equations)} among {found.terms} terms of up to {run.size} operators, "
        f"{', '.join(map(name_of, run.operators))}; "
        f"{found.known} pairs were known to be equal, {found.untrue} only look so.\n",
    ]
    lines = [*head, "| equation | bits | proved | adopted |", "| --- | --- | --- | --- |"] if found.equations else head
    for each in found.equations:
        text = str(each).replace("|", "\\|")
        bits, proved = "all" if each.exact else "real", "yes" if is_proved(each) else ""
        lines.append(f"| `{text}` | {bits} | {proved} | {adopted_as(each)} |")
    return lines


def page(chosen: Sequence[Run], n: int, seconds: float) -> str:
    """The text of the page; each run prints what it finds."""
    known, lines, all_found = known_rules(), list[str](), list[Equation]()
    for run in chosen:
        rules = (*known, *(rule for each in all_found for rule in each.rules))
        found = discover(
            run.operators, size=run.size, types=run.types, constants=run.constants, rules=rules, n=n, seconds=seconds
        )
        print(f"{run.title}:\n{found}\n", flush=True)
        all_found += found.equations
        lines += table(run, found)
    counts = {
        "known": len(KNOWN),
        "count": len(all_found),
        "runs": len(chosen),
        "exact": sum(each.exact for each in all_found),
        "proved": sum(map(is_proved, all_found)),
        "adopted": len({adopted_as(each) for each in all_found} - {""}),
    }
    return "\n".join([HEAD.format(**counts), *lines]) + "\n"


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="titles of runs; the page is printed, not written")
    parser.add_argument("--instances", type=int, default=20, help="on how many each equation is checked")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each run, at most")
    arguments = parser.parse_args()
    chosen = [run for run in RUNS if run.title in arguments.only or not arguments.only]
    text = page(chosen, arguments.instances, arguments.seconds)
    if arguments.only:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
