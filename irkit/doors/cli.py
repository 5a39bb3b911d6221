"""The command line. What models are run, counted, cut and measured by stands in `toolbox`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from irkit.contract.as_json import contract_of
from irkit.core.ir import Graph
from irkit.doors import measure, rule_tools, toolbox
from irkit.doors.console import (
    STREAM,
    AsJson,
    Chosen,
    Commands,
    Half,
    Integers,
    Keep,
    KeepIO,
    Model,
    Opset,
    Output,
    Quiet,
    Samples,
    Target,
    arrays_in,
    as_text,
    chosen_rules,
    console_beside,
    node_count,
    print_report,
    read_graph,
    require_writable,
    stages,
    write,
    wrote,
)
from irkit.doors.export_hf import export_hf
from irkit.doors.to_onnx import to_onnx, upstairs
from irkit.doors.validate import validate
from irkit.doors.viewing import diff_files, viz_file
from irkit.errors import IrkitError
from irkit.onnx.reading.wire import nodes_in
from irkit.rewriting.history import Tally
from irkit.rewriting.passes import Step
from irkit.rewriting.rules import Rule
from irkit.support.stored_files import opened_file
from irkit.support.uncollected import without_collector
from irkit.toolbox.listing import graph_data

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
    help="PyTorch programs as immutable graphs, and as ONNX models.",
)


def show_version(asked: bool) -> None:
    """Prints the version and ends where it is asked for."""
    if asked:
        typer.echo(f"irkit {version('irkit')}")
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """PyTorch programs as immutable graphs, and as ONNX models."""


@app.command()
def export(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="an exported program, .pt2")],
    output: Output,
    opset: Opset = None,
    target: Target = "onnxruntime-cpu",
    check: Annotated[bool, typer.Option("--check", help="compare with torch at several sizes before writing")] = False,
    strict: Annotated[bool, typer.Option(help="refuse operators that only torch's decomposition can express")] = False,
    dim: Annotated[
        list[str] | None,
        typer.Option(help="a name for a dimension that varies, such as tokens.0=batch; may be repeated"),
    ] = None,
    specialization: Annotated[
        str | None,
        typer.Option(help="'error' refuses named dimensions that the program fixes, 'report' lists them and goes on"),
    ] = None,
    conditions: Annotated[
        bool, typer.Option("--conditions", help="an output more for each condition that only the data decides")
    ] = False,
    finite: Annotated[
        bool, typer.Option("--finite", help="an output more for each place that finite numbers are assumed of")
    ] = False,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="the file itself fails for sizes and data that its contract excludes")
    ] = False,
    rules: Chosen = "",
    precision: Half = None,
    quantize: Integers = None,
    keep: Keep = None,
    keep_io: KeepIO = True,
    sample: Samples = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write an exported PyTorch program as an ONNX model, and say what became of it.

    With --check, a model that differs from the program is not written, and the exit status is 1.
    """
    require_writable(output)
    if refuse and conditions:
        raise typer.BadParameter("--conditions tells of the data in outputs, --refuse lets them fail: give one of both")
    with stages(Console(stderr=True, quiet=quiet)) as show:
        program = to_onnx(
            model,
            opset=opset,
            target=target,
            strict=strict,
            progress=show,
            dynamic_shapes=named(dim or ()),
            specialization=specialization,
            rules=chosen_rules(rules),
            precision=half(precision, keep, keep_io, sample, quantize),
            quantize=integers(quantize, keep, sample),
        )
    report = program.check() if check else None
    if report is None or report:  # before anything is printed: a closed pipe shall not keep the file from being written
        program = program.refusing_nan() if finite else program
        write(program.written("all" if refuse else conditions or finite), output, program.opset)
    print_export(console_beside(output, quiet), program.report, report, output, as_json)


def print_export(console: Console, report: Any, checked: Any, output: Path, as_json: bool) -> None:
    """Prints what became of an export, and of its check. Raises typer.Exit, with status 1, where that found a
    difference."""
    if as_json:
        told = {"saved": str(output), "report": report.asdict()}
        console.print(as_text(told if checked is None else {**told, "check": measure.as_plain(checked)}))
        if checked is not None and not checked:
            raise typer.Exit(1)
        return
    console.print(report.render(), soft_wrap=False)
    if checked is not None:
        print_report(console, checked)
    console.print(f"wrote {output}")


@app.command()
@without_collector
def optimize(
    model: Model,
    output: Output,
    opset: Opset = None,
    target: Target = "onnxruntime-cpu",
    level: Annotated[
        int, typer.Option(help="0 merges equal values, 1 keeps every bit, 2 does all that holds for real numbers")
    ] = 2,
    rules: Chosen = "",
    fold: Annotated[
        int | None,
        typer.Option(help="the most elements of a constant computed from others, 16384 if not given; 0: none"),
    ] = None,
    share_weights: Annotated[bool, typer.Option(help="hold weights of equal content once, under one name")] = True,
    precision: Half = None,
    quantize: Integers = None,
    keep: Keep = None,
    keep_io: KeepIO = True,
    sample: Samples = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Simplify an ONNX model, whoever exported it, and write one that the target runs."""
    require_writable(output)
    chosen = chosen_rules(rules)
    graph, watch = read_graph(model), Watching(tuple(each.name for each in chosen if isinstance(each, Rule)))
    ready = upstairs("passes.files").optimized_for(
        graph,
        target,
        opset,
        level,
        rules=chosen,
        fold=fold,
        share_weights=share_weights,
        precision=half(precision, keep, keep_io, sample, quantize),
        quantization=integers(quantize, keep, sample),
        observe=watch,
    )
    changes, further = changes_of(watch.steps), [str(each) for each in (ready.quantized, ready.mixed) if each]
    further += watch.own_lines(ready.graph)
    before = nodes_of(model, graph)
    write(ready.graph, output, ready.target.opset)
    console = console_beside(output, quiet)
    if as_json:
        passes = [{"pass": name, "before": len(a), "after": len(b), "turns": n} for name, a, b, n in changes]
        told = {"before": before.number, "after": len(ready.graph), "opset": ready.target.opset, "saved": str(output)}
        console.print(as_text({**told, "passes": passes, "notes": further}))
        return
    for line in (*map(change_line, changes), *further, f"{before} to {len(ready.graph)}{wrote(output)}"):
        console.print(line)


def half(
    name: str | None, keep: Sequence[str] | None, keep_io: bool, sample: Path | None, quantize: str | None = None
) -> Any:
    """The precision that the options ask for; None for that of the model."""
    if name is None:
        if not keep_io or (quantize is None and (keep or sample)):
            raise IrkitError("--keep, --no-keep-io and --sample go with --precision", hint="add --precision float16")
        return None
    asked = upstairs("passes.precision").Precision
    return asked.of(asked(name, keep or (), keep_io, None if sample is None else arrays_in(sample)))


def integers(name: str | None, keep: Sequence[str] | None, sample: Path | None) -> Any:
    """The quantization that the options ask for; None for none."""
    if name is None:
        return None
    asked = upstairs("passes.quantization").Quantization
    feeds = None if sample is None else arrays_in(sample)
    if name == "static":
        return asked(activations="static", keep=keep or (), feeds=feeds)
    return attrs.evolve(asked.of(name), keep=keep or (), feeds=feeds)


Change = tuple[str, Graph, Graph, int]
"""A pass that changed a graph, what there was before its first turn and after its last, and how many turns it had."""


def changes_of(done: Sequence[Any]) -> list[Change]:
    """What each pass changed that changed a graph."""
    found: dict[str, list[Any]] = {}
    for step in done:
        if step.changed and not step.name.startswith(COMBINED):
            first = found.setdefault(step.name.partition("{")[0], [0, step.before, None])
            first[0], first[2] = first[0] + 1, step.after
    return [(name, old, new, turns) for name, (turns, old, new) in found.items()]


def change_line(change: Change) -> str:
    """What a pass changed, as a line."""
    name, old, new, turns = change
    return f"{name}: {changed(old, new)}" + (f", in {turns} turns" if turns > 1 else "")


class Watching(Tally):
    """An observer that keeps the steps that changed something, and counts what rules did."""

    def __init__(self, own: tuple[str, ...]) -> None:
        super().__init__(own)
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> None:
        """Notes a step."""
        super().__call__(step)
        self.steps.append(step)

    def own_lines(self, result: Graph) -> list[str]:
        """A line for each rule of the caller's: how often it fired, and what became of what it made."""
        found = {each.rule: str(each) for each in self.counts(result) if each.own}
        return [found.get(name, f"{name}: never; irkit explain says why") for name in self.own]


COMBINED = ("exact", "standard", "settled", "sequence", "when", "around_bodies", "own")
"""Passes that only run others."""


def changed(before: Graph, after: Graph) -> str:
    """What became of nodes and, where these are as many, of constants."""
    if len(before) != len(after):
        return f"{node_count(before)} to {len(after)}"
    old, new = (
        sum(blob.nbytes for blob in {id(v.blob): v.blob for v in values_of(g)}.values()) for g in (before, after)
    )
    return f"{node_count(after)}" + (f", {old} bytes of constants to {new}" if old != new else ", others than before")


@attrs.frozen
class NodeCount:
    """How many nodes a file has; `str` in words."""

    number: int
    words: str

    def __str__(self) -> str:
        return self.words


def nodes_of(path: Path, graph: Graph) -> NodeCount:
    """How many nodes a file has; those of its graph where it is no ONNX model. A size that a model computes is no node
    in a graph."""
    if path == STREAM or path.suffix in (".irkit", ".pt2"):
        return NodeCount(len(graph), node_count(graph))
    number = nodes_in(opened_file(path.resolve(), "the model"))
    return NodeCount(number, "1 ONNX node" if number == 1 else f"{number} ONNX nodes")


def values_of(graph: Graph) -> Iterator[Any]:
    """The constants of a graph and of the bodies in it."""
    for value in graph.order:
        if value.blob is not None:
            yield value
        for body in value.bodies:
            yield from values_of(body)


@app.command("rules")
def list_rules(
    names: Annotated[
        str, typer.Argument(help="the rules to list, such as norms or default-exact; all if not given")
    ] = "",
    families: Annotated[bool, typer.Option("--families", help="list the families only")] = False,
    as_json: AsJson = False,
) -> None:
    """List the rules that --rules chooses among, and their families."""
    standard, sets = upstairs("passes.pipelines.standard"), upstairs("passes.pipelines.rule_sets")
    console = Console(highlight=False, markup=False)
    if families:
        found = sets.families(standard.all_rules(2) + standard.CONTRIB)
        if as_json:
            console.print(as_text({name: [r.name for r in rules] for name, rules in found.items()}), soft_wrap=True)
            return
        table = Table("family", "rules", "among them")
        for name, rules in found.items():
            table.add_row(name, str(len(rules)), Text(", ".join(r.name for r in rules)))
        console.print(table)
        return
    chosen = standard.selected(2, names, None) + standard.selected_fusions(names)
    if as_json:
        told = [{"rule": r.name, "families": sets.families_of(r), "exact": r.exact, "equation": r.doc} for r in chosen]
        console.print(as_text(told), soft_wrap=True)
        return
    table = Table("rule", "families", "keeps", "equation")
    for rule in chosen:
        table.add_row(
            rule.name, ", ".join(sets.families_of(rule)), "all bits" if rule.exact else "real", Text(rule.doc)
        )
    console.print(table)


@app.command()
def convert(
    model: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="a model, .onnx of opset 7 or newer, .pt2 or .irkit")
    ],
    output: Output,
    opset: Annotated[int, typer.Option(help="the ONNX opset to write, 13 to 26")],
    target: Annotated[str, typer.Option(help="what will run the model; 'onnx' asks for no kernels")] = "onnx",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Bring an ONNX model to another opset, up or down, and change nothing else.

    What the opset lacks is expressed by what it has, or refused by name.
    """
    require_writable(output)
    graph = read_graph(model)
    ready, before = upstairs("passes").prepare(graph, target, opset), nodes_of(model, graph)
    write(ready, output, opset)
    console = console_beside(output, quiet)
    if as_json:
        console.print(as_text({"before": before.number, "after": len(ready), "opset": opset, "saved": str(output)}))
        return
    console.print(f"{before} to {len(ready)} at opset {opset}{wrote(output)}")


def named(given: Sequence[str]) -> dict[str, dict[int, str]] | None:
    """Names of dimensions by input and axis, from `input.axis=name`; None without any. Raises IrkitError for others."""
    found: dict[str, dict[int, str]] = {}
    for each in given:
        place, _, name = each.partition("=")
        leaf, _, axis = place.rpartition(".")
        if not (leaf and axis.isdigit() and name):
            raise IrkitError(f"--dim {each!r} names no dimension", hint="write --dim tokens.0=batch")
        found.setdefault(leaf, {})[int(axis)] = name
    return found or None


@app.command()
def show(
    model: Model,
    as_json: AsJson = False,
    full: Annotated[bool, typer.Option("--full", help="constants of up to 1 KiB whole, to be read again")] = False,
) -> None:
    """Print a model, .onnx, .pt2 or .irkit, as irkit text; or as JSON."""
    graph = read_graph(model)
    typer.echo(as_text(graph_data(graph)) if as_json else graph.text() if full else str(graph))


app.command("viz")(viz_file)
app.command("diff")(diff_files)
app.command("export-hf")(export_hf)
app.command("new-rule")(rule_tools.new_rule)
app.command("check-rule")(rule_tools.check_rule)
TOOLS = (toolbox.run, toolbox.stats, toolbox.extract, measure.check, measure.explain, measure.bind, measure.profile)
for command in (validate, *TOOLS):
    app.command()(command)


@app.command()
def contract(
    model: Model,
    _: Annotated[bool, typer.Option("--json", help="JSON is what it prints in any case")] = False,
) -> None:
    """Print what a model relies on, as JSON: inputs, ranges, conditions, constants, state."""
    typer.echo(as_text(contract_of(read_graph(model))))


def app_main() -> None:
    """Runs the command line."""
    app()


if __name__ == "__main__":
    app_main()
