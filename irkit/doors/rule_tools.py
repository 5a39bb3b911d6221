"""`irkit new-rule` and `check-rule`: a rule to begin with, and whether a rule is true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from irkit.checking.counterexamples import Counterexample
from irkit.checking.rules import check_rule as checked
from irkit.contract.as_json import Json
from irkit.doors.console import AsJson, Quiet, Seed, as_text, console_beside, stages
from irkit.errors import RewriteError
from irkit.rewriting.face import Rule, Rules
from irkit.support.upstairs import upstairs
from irkit.toolbox.new_rule import write_rule
from irkit.toolbox.rule_files import names_file, rules_in


def new_rule(
    name: Annotated[str, typer.Argument(help="the name of the rule, as of a function: unit_length")],
    folder: Annotated[Path, typer.Option(file_okay=False, help="where to write")] = Path(),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a rule to begin with, its test and its golden pair, as files to edit; they pass as they are written."""
    made = write_rule(name, folder)
    console = console_beside(None, quiet)
    if as_json:
        console.print(as_text({"rule": name, "files": [str(path) for path in made]}))
        return
    for path in made:
        console.print(f"wrote {path}")
    rule, test = made[:2]
    console.print(f"edit {rule}, then: irkit check-rule {rule}")
    console.print(f"its tests: pytest {test}")
    console.print(f"on a model: irkit explain model.onnx --rules {rule}")
    console.print(f"            irkit profile model.onnx --optimize --rules {rule}")


def check_rule(
    rules: Annotated[
        str, typer.Argument(help="a file of rules, mine.py or mine.py:name, or rules of irkit by name, such as norms")
    ],
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, help="on how many instances each rule shall have fired")
    ] = 50,
    seed: Seed = 0,
    runtime: Annotated[bool, typer.Option(help="compare both sides on ONNX Runtime, too")] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check that rules are true: both sides are compared by numbers on random instances and near misses of them.

    Of a rule that is wrong, the smallest instance found is printed, with the numbers and as a program to paste. The
    exit status is 1 where a rule is wrong, or never fired.
    """
    chosen = rules_to_check(rules)
    told: list[Json] = []
    with stages(Console(stderr=True, quiet=quiet)) as show:
        for done, rule in enumerate(chosen):
            show("rules", done, len(chosen))
            told.append(verdict(rule, count, seed, runtime))
    console = console_beside(None, quiet)
    if as_json:
        console.print(as_text(told))
    for each in () if as_json else told:
        console.print(str(each["report"]), style="green" if each["holds"] else "red")
    if not all(each["holds"] for each in told):
        raise typer.Exit(1)


def rules_to_check(text: str) -> Rules:
    """The rules of a file, or those of irkit that a text names. Raises RewriteError where there are none."""
    found = rules_in(text) if names_file(text) else upstairs("passes.pipelines.standard").selected(2, text, None)
    if not found:
        raise RewriteError(f"{text!r} names no rules", hint="give mine.py, mine.py:name, or names of `irkit rules`")
    return tuple(found)


def verdict(rule: Rule, count: int, seed: int, runtime: bool) -> Json:
    """Whether a rule holds, on how many instances it fired, and what there is to say of it."""
    try:
        report = checked(rule, count, seed=seed, onnxruntime=runtime)
    except RewriteError as error:
        program = error.python if isinstance(error, Counterexample) else ""
        return {"rule": rule.name, "holds": False, "fired": 0, "report": str(error), "program": program}
    return {"rule": rule.name, "holds": True, "fired": report.fired, "report": str(report), "program": ""}
