"""The command line. What models are run, counted, cut and measured by stands in `toolbox`."""

from __future__ import annotations

import json
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
from irkit.doors import measure, toolbox
from irkit.doors.console import (
    STREAM,
    Chosen,
    Commands,
    Half,
    Integers,
    Keep,
    KeepIO,
    Model,
    Opset,
    Output,
    Samples,
    Target,
    arrays_in,
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
from irkit.support.stored_files import opened_file
from irkit.support.uncollected import without_collector

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
    rules: Chosen = "",
    precision: Half = None,
    quantize: Integers = None,
    keep: Keep = None,
    keep_io: KeepIO = True,
    sample: Samples = None,
) -> None:
    """Write an exported PyTorch program as an ONNX model, and say what became of it.

    With --check, a model that differs from the program is not written, and the exit status is 1.
    """
    require_writable(output)
    with stages(Console(stderr=True)) as show:
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
        write(program.watched if conditions or finite else program.ready, output, program.opset)
    console = console_beside(output)
    console.print(program.report.render(), soft_wrap=False)
    if report is not None:
        print_report(console, report)
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
) -> None:
    """Simplify an ONNX model, whoever exported it, and write one that the target runs."""
    require_writable(output)
    graph, done = read_graph(model), list[Any]()
    ready = upstairs("passes.files").optimized_for(
        graph,
        target,
        opset,
        level,
        rules=chosen_rules(rules),
        fold=fold,
        share_weights=share_weights,
        precision=half(precision, keep, keep_io, sample, quantize),
        quantization=integers(quantize, keep, sample),
        observe=done.append,
    )
    lines = changes_of(done) + [str(each) for each in (ready.quantized, ready.mixed) if each]
    before = nodes_of(model, graph)
    write(ready.graph, output, ready.target.opset)
    console = console_beside(output)
    for line in (*lines, f"{before} to {len(ready.graph)}{wrote(output)}"):
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


def changes_of(done: Sequence[Any]) -> list[str]:
    """A line for each pass that changed a graph: what there was before and after, and in how many turns."""
    found: dict[str, list[Any]] = {}
    for step in done:
        if step.changed and not step.name.startswith(COMBINED):
            first = found.setdefault(step.name.partition("{")[0], [0, step.before, None])
            first[0], first[2] = first[0] + 1, step.after
    return [
        f"{name}: {changed(old, new)}" + (f", in {n} turns" if n > 1 else "") for name, (n, old, new) in found.items()
    ]


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


def nodes_of(path: Path, graph: Graph) -> str:
    """How many nodes a file has, in words; those of its graph where it is no ONNX model. A size that a model computes
    is no node in a graph."""
    if path == STREAM or path.suffix in (".irkit", ".pt2"):
        return node_count(graph)
    number = nodes_in(opened_file(path.resolve(), "the model"))
    return "1 ONNX node" if number == 1 else f"{number} ONNX nodes"


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
) -> None:
    """List the rules that --rules chooses among, and their families."""
    standard, sets = upstairs("passes.pipelines.standard"), upstairs("passes.pipelines.rule_sets")
    console = Console(highlight=False, markup=False)
    if families:
        table = Table("family", "rules", "among them")
        for name, rules in sets.families(standard.all_rules(2) + standard.CONTRIB).items():
            table.add_row(name, str(len(rules)), Text(", ".join(r.name for r in rules)))
        console.print(table)
        return
    table = Table("rule", "families", "keeps", "equation")
    for rule in standard.selected(2, names, None) + standard.selected_fusions(names):
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
) -> None:
    """Bring an ONNX model to another opset, up or down, and change nothing else.

    What the opset lacks is expressed by what it has, or refused by name.
    """
    require_writable(output)
    graph = read_graph(model)
    ready, before = upstairs("passes").prepare(graph, target, opset), nodes_of(model, graph)
    write(ready, output, opset)
    console = console_beside(output)
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
) -> None:
    """Print a model, .onnx, .pt2 or .irkit, as irkit text."""
    typer.echo(str(read_graph(model)))


app.command("viz")(viz_file)
app.command("diff")(diff_files)
app.command("export-hf")(export_hf)
app.command("new-rule")(toolbox.new_rule)
TOOLS = (toolbox.run, toolbox.stats, toolbox.extract, measure.check, measure.explain, measure.bind, measure.profile)
for command in (validate, *TOOLS):
    app.command()(command)


@app.command()
def contract(
    model: Model,
) -> None:
    """Print what a model relies on, as JSON: inputs, ranges, conditions, constants, state."""
    typer.echo(json.dumps(contract_of(read_graph(model)), indent=2, ensure_ascii=False))


def app_main() -> None:
    """Runs the command line."""
    app()


if __name__ == "__main__":
    app_main()
