"""`irkit check`, `explain`, `bind` and `profile`: models compared, asked, filled with weights, and timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from irkit.contract.as_json import Json
from irkit.core.ir import Graph
from irkit.doors.console import (
    STREAM,
    AsJson,
    Chosen,
    Drawn,
    Model,
    Output,
    Quiet,
    Seed,
    Sizes,
    as_text,
    chosen_rules,
    console_beside,
    node_count,
    print_report,
    read_graph,
    require_file,
    require_writable,
    stages,
    write,
    wrote,
)
from irkit.doors.toolbox import Runtime, inputs_for, require_runtime, runnable
from irkit.errors import IrkitError
from irkit.rewriting.explanations import Explanation, line_of
from irkit.rewriting.face import explain as explain_rules
from irkit.support.upstairs import upstairs
from irkit.toolbox import inputs as inputs_of
from irkit.toolbox.rule_files import names_file, rules_in

if TYPE_CHECKING:
    from irkit.toolbox.profile import Profile

Against = Annotated[Path, typer.Option(callback=require_file, help="the other model: .onnx or .irkit; or .pt2")]


def check(
    model: Model,
    against: Against,
    sizes: Sizes = None,
    runs: Annotated[int, typer.Option(min=0, help="how many other assignments of the dimensions to try")] = 3,
    ranges: Drawn = None,
    seed: Seed = 0,
    rtol: Annotated[float | None, typer.Option(help="relative tolerance, of the element type if not given")] = None,
    atol: Annotated[float | None, typer.Option(help="absolute tolerance, of the element type if not given")] = None,
    runtime: Runtime = "onnxruntime",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare a model with another, or with the PyTorch program it came from, by numbers, at several sizes.

    Inputs are random: floats are normal numbers, integers 0 and 1, unless --range says otherwise. The exit status is 1
    where the models differ.
    """
    console = Console(highlight=False, markup=False, soft_wrap=True, quiet=quiet)
    if against.suffix == ".pt2":
        if sizes or ranges or rtol is not None or atol is not None or runtime != "onnxruntime":
            raise IrkitError(
                "sizes, --range, --rtol, --atol and --runtime go with another model, not with a program",
                hint="leave them out, or compare with an ONNX file",
            )
        report = upstairs("lowering.program.files").check_file(model, against, runs, seed=seed)
    else:
        report = compared(model, against, sizes or [], ranges or [], runs, seed, rtol, atol, runtime)
    if as_json:
        console.print(as_text(report.as_json() if hasattr(report, "as_json") else as_plain(report)))
        if not report:
            raise typer.Exit(1)
    else:
        print_report(console, report)


def compared(
    model: Path,
    against: Path,
    sizes: list[str],
    ranges: list[str],
    runs: int,
    seed: int,
    rtol: float | None,
    atol: float | None,
    runtime: str,
) -> Any:
    """The comparison of two models."""
    from irkit.toolbox.against import compare_models, side_of  # ONNX Runtime is loaded when it is asked for

    require_runtime(runtime)
    given, ends = inputs_of.sizes_from(sizes), inputs_of.ranges_from(ranges)
    graphs = [read_graph(path) for path in (model, against)]
    inputs_of.require_known(graphs[:1], given, ends)
    files = [path if path.suffix == ".onnx" else None for path in (model, against)]
    one, other = (
        side_of(path.name, runnable(graph, file, runtime), runtime, file)
        for path, graph, file in zip((model, against), graphs, files, strict=True)
    )
    with stages(Console(stderr=True)) as show:
        return compare_models(
            one, other, count=runs + 1, given=given, ranges=ends, seed=seed, rtol=rtol, atol=atol, progress=show
        )


def as_plain(report: Any) -> Json:
    """A report of a check against torch as plain data."""
    runs = [
        {
            "sizes": dict(run.sizes),
            "errors": {name: error for name, error, _ in run.errors},
            "problem": run.problem,
            "refusal": run.refusal or run.untaken,
        }
        for run in (*report.runs, *report.refused)
    ]
    return {"agrees": bool(report), "runs": runs}


# ---------------------------------------------------------------------------------------------- explain


def explain(
    model: Model,
    rules: Annotated[
        str, typer.Option("--rules", help="a file of rules, mine.py or mine.py:name, or rules of irkit by name")
    ],
    optimized: Annotated[
        bool, typer.Option("--optimized", help="ask of the graph as the standard rules leave it")
    ] = False,
    top: Annotated[int, typer.Option(min=0, help="so many places; 0 for all")] = 10,
    as_json: AsJson = False,
) -> None:
    """Say where rules apply to a model, where they decline, and how near they come elsewhere, the nearest first."""
    standard = upstairs("passes.pipelines.standard")
    chosen = rules_in(rules) if names_file(rules) else standard.selected(2, rules, None)
    graph = read_graph(model)
    graph = standard.optimize(graph) if optimized else graph
    explained = explain_rules(tuple(chosen), graph)
    found = list(explained)
    shown = found[: top or None]
    if as_json:
        typer.echo(as_text([facts_of(each) for each in shown]))
        return
    if not found:
        typer.echo(str(explained))
        return
    applied = sum(each.applies for each in found)
    declined = sum(each.matched and not each.applies for each in found)
    typer.echo(f"applies at {applied}, declines at {declined}, does not match at {len(found) - applied - declined}")
    for each in shown:
        typer.echo(str(each))
    if len(found) > len(shown):
        typer.echo(f"and {len(found) - len(shown)} more, less near")


def facts_of(found: Explanation) -> Json:
    """An explanation as plain data."""
    return {
        "rule": found.rule,
        "applies": found.applies,
        "matched": found.matched,
        "reason": found.reason,
        "near": round(found.near, 3),
        "value": line_of(found.value),
        "at": None if found.at is None else line_of(found.at),
        "source": str(found.value.origin),
    }


# ---------------------------------------------------------------------------------------------- bind


def bind(
    model: Model,
    weights: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="weights: .safetensors, or the index of several")
    ],
    output: Output,
    strict: Annotated[bool, typer.Option(help="refuse weights that the model does not have")] = True,
    opset: Annotated[int | None, typer.Option(help="the ONNX opset to write, 13 to 26")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Put weights into a model, by name: into one that was made on the meta device, or in the place of others.

    A parameter of that name becomes a weight. No weight is read before it is written.
    """
    from irkit.onnx.bind import bind as bind_weights

    require_writable(output)
    given = read_graph(model)
    bound = bind_weights(given, weights, strict=strict)
    target = upstairs("passes.targets").target_of("onnx", opset)
    ready = bound if output.suffix == ".irkit" else upstairs("passes").legalize(bound, target)
    with stages(Console(stderr=True)) as show:
        show(f"writing {output}", 0, 1)
        write(ready, output, target.opset)
    console = console_beside(output, quiet)
    taken = len(given.params) - len(bound.params)
    became = "1 input became a weight" if taken == 1 else f"{taken} inputs became weights"
    if as_json:
        console.print(as_text({"nodes": len(ready), "parameters_bound": taken, "saved": str(output)}))
    else:
        console.print(node_count(ready) + (f", {became}" if taken else "") + wrote(output))


# ---------------------------------------------------------------------------------------------- profile


def profile(
    model: Model,
    sizes: Sizes = None,
    against: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="another model, measured in turns with it")
    ] = None,
    optimize: Annotated[bool, typer.Option("--optimize", help="beside it, what irkit optimize makes of it")] = False,
    rules: Chosen = "",
    inputs: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="inputs by name, .npz; others are drawn")
    ] = None,
    ranges: Drawn = None,
    seed: Seed = 0,
    runs: Annotated[int, typer.Option(min=1, help="so many runs are measured")] = 20,
    threads: Annotated[int, typer.Option(min=0, help="within an operator; 0 for one on each core")] = 0,
    by: Annotated[str, typer.Option(help="what to add up by: op, module, source or name")] = "op",
    top: Annotated[int, typer.Option(min=0, help="so many rows; 0 for all")] = 15,
    as_json: AsJson = False,
) -> None:
    """Say where the time goes on ONNX Runtime: by operator, module or line of your model, before and after.

    The time of a run is the median without a profiler; that of kernels is what ONNX Runtime's profiler says.
    """
    from irkit.toolbox.profile import profile_models

    if rules and not optimize:
        raise typer.BadParameter("rules are of what --optimize makes: give that, too", param_hint="'--rules'")
    graph = read_graph(model)
    feeds, told = inputs_for(graph, sizes or [], inputs, ranges or [], seed)
    models: list[tuple[str, Graph, Path | None]] = [prepared(model.name, model, graph)]
    if optimize:
        done = upstairs("passes.files").optimized_for(graph, "onnxruntime-cpu", None, 2, rules=chosen_rules(rules))
        models.append(("optimized", done.graph, None))
    if against is not None:
        models.append(prepared(against.name, against, read_graph(against)))
    with stages(Console(stderr=True)) as show:
        found = profile_models(models, feeds, runs, threads, show)
    if as_json:
        typer.echo(as_text({"sizes": told, "profiles": [each.as_json(by) for each in found]}))
    else:
        show_profiles(found, told, by, top)


def prepared(name: str, path: Path, graph: Graph) -> tuple[str, Graph, Path | None]:
    """A model for the profiler: the file itself where ONNX Runtime reads it."""
    file = path if path.suffix == ".onnx" and path != STREAM else None
    return name, runnable(graph, file, "onnxruntime"), file


def show_profiles(found: Sequence[Profile], sizes: dict[str, int], by: str, top: int) -> None:
    """Prints profiles beside one another, a row for each key of any."""
    rows = [{row.key: row for row in each.by(by)} for each in found]
    keys = sorted(
        dict.fromkeys(key for own in rows for key in own),
        key=lambda key: -max(own[key].milliseconds for own in rows if key in own),
    )
    table = Table(by, *(f"{each.name}: ms" for each in found), *(f"{each.name}: calls" for each in found))
    for key in keys[: top or None]:
        cells = [f"{own[key].milliseconds:.4f}" if key in own else "" for own in rows]
        calls = [f"{own[key].calls:g}" if key in own else "" for own in rows]
        table.add_row(Text(key or "(none)"), *cells, *calls)
    console = Console(highlight=False, markup=False)
    console.print(table)
    if top and len(keys) > top:
        console.print(f"and {len(keys) - top} more")
    at = ", ".join(f"{name}={size}" for name, size in sizes.items()) or "static sizes"
    first = found[0].milliseconds
    for each in found:
        share = "" if each is found[0] else f", {each.milliseconds / first:.2f} of {found[0].name}"
        console.print(f"{each.name}: {each.milliseconds:.4f} ms a run at {at}{share}")
