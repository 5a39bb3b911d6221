"""`irkit run`, `stats` and `extract`: what is done with an ONNX model in hand, without torch."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from irkit.core.ir import Graph, Value
from irkit.dims import notation
from irkit.doors.console import (
    STREAM,
    AsJson,
    Drawn,
    Model,
    Output,
    Quiet,
    Seed,
    Sizes,
    arrays_in,
    as_text,
    console_beside,
    node_count,
    read_graph,
    require_writable,
    stages,
    write,
    wrote,
)
from irkit.errors import IrkitError
from irkit.onnx.load import load
from irkit.support.files import atomic_write
from irkit.support.upstairs import upstairs
from irkit.toolbox import inputs as inputs_of
from irkit.toolbox.inputs import Arrays, NamedArrays
from irkit.toolbox.parts import extract_part
from irkit.toolbox.stats import By
from irkit.toolbox.stats import stats as stats_of

Runtime = Annotated[str, typer.Option(help="what computes: onnxruntime, or irkit, which is the evaluator")]


def run(
    model: Model,
    sizes: Sizes = None,
    inputs: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="inputs by name, .npz; those that it lacks are drawn"),
    ] = None,
    ranges: Drawn = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", dir_okay=False, allow_dash=True, help="where to write the outputs, .npz"),
    ] = None,
    save_inputs: Annotated[
        Path | None, typer.Option(dir_okay=False, help="where to write the inputs, .npz, to run again")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="intermediate values too, each operator by itself")] = False,
    runtime: Runtime = "onnxruntime",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a model on inputs of a file, or on random ones of the sizes given, and save what comes out.

    Sizes that are not given are 2 where the model allows it. Floats are normal numbers, integers 0 and 1, unless
    --range says otherwise. Conditions that the model carries are checked first.
    """
    from irkit.toolbox import running  # ONNX Runtime is loaded when it is asked for

    require_runtime(runtime)
    for path in (output, save_inputs):
        require_writable(path or STREAM)
    graph = read_graph(model) if not every or model.suffix != ".onnx" else load(model, inline=False)
    feeds, told = inputs_for(graph, sizes or [], inputs, ranges or [], seed)
    running.require_contract(graph, feeds)
    if save_inputs is not None:
        save_arrays(save_inputs, list(feeds.items()))
    kept: NamedArrays = []
    start = time.perf_counter()
    if every:
        results = run_every(graph, feeds, runtime, kept)
        seconds = time.perf_counter() - start
    else:
        file = model if model.suffix == ".onnx" else None
        results, seconds = running.run_whole(runnable(graph, file, runtime), feeds, runtime, file)
        kept = list(results.items())
    if output is not None:
        kept += [each for each in results.items() if each[0] not in dict(kept)]
        save_arrays(output, kept)
    show_run(told, kept, seconds, output, as_json, quiet)


def require_runtime(name: str) -> None:
    """Raises IrkitError for what is no runtime."""
    if name not in ("onnxruntime", "irkit"):
        raise IrkitError(f"there is no runtime {name!r}", hint="take onnxruntime or irkit")


def inputs_for(
    graph: Graph, sizes: list[str], file: Path | None, ranges: list[str], seed: int
) -> tuple[Arrays, dict[str, int]]:
    """(inputs by name, the sizes that were drawn for): those of a file where it has them, random ones otherwise."""
    given, ends = inputs_of.sizes_from(sizes), inputs_of.ranges_from(ranges)
    inputs_of.require_known([graph], given, ends)
    found: Arrays = {} if file is None else inputs_of.fitted_inputs(graph, arrays_in(file))
    known = inputs_of.sizes_fed(graph, found)
    for name, size in known.items():
        if given.get(name, size) != size:
            raise IrkitError(
                f"{name} is {size} in {file and file.name}, and {given[name]} was asked for",
                hint="leave the size out, or the file",
            )
    whole = inputs_of.sizes_for([graph], known | given)
    drawn = inputs_of.drawn_inputs(graph, whole, np.random.default_rng(seed), ends)
    return {name: found.get(name, each) for name, each in drawn.items()}, whole


def runnable(graph: Graph, file: Path | None, runtime: str) -> Graph:
    """The graph as ONNX Runtime takes it, where it does not come from a file that is run itself."""
    return graph if file is not None or runtime == "irkit" else upstairs("passes").prepare(graph, "onnxruntime-cpu")


def run_every(graph: Graph, feeds: Arrays, runtime: str, kept: NamedArrays) -> Arrays:
    """The results by name; `kept` gets what each operator gave, by name and in order, while a bar goes on."""
    from irkit.toolbox.running import run_all

    count = len(graph)
    with stages(Console(stderr=True)) as show:

        def keep(name: str, value: Value, result: Any) -> None:
            kept.append((name, result))
            show("running", len(kept), count)

        return run_all(graph, feeds, runtime, keep)


def save_arrays(path: Path, arrays: NamedArrays) -> None:
    """Writes an .npz file, or standard output for `-`."""
    from irkit.toolbox.running import write_arrays

    if path == STREAM:
        write_arrays(sys.stdout.buffer, arrays)
        sys.stdout.buffer.flush()
        return
    with atomic_write(path) as file:
        write_arrays(file, arrays)


def show_run(
    sizes: dict[str, int],
    values: NamedArrays,
    seconds: float,
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Prints what came out: a line for each value, or JSON."""
    from irkit.toolbox import running

    console = console_beside(output, quiet)
    if as_json:
        told = {name: running.result_facts(each) for name, each in values}
        console.print(as_text({"sizes": sizes, "values": told, "seconds": seconds, "saved": output and str(output)}))
        return
    for name, each in values:
        console.print(f"{name}: {running.result_line(each)}")
    at = ", ".join(f"{name}={size}" for name, size in sizes.items()) or "static sizes"
    console.print(f"{at}: {1000 * seconds:.3g} ms{wrote(output)}")


# ---------------------------------------------------------------------------------------------- stats


def stats(
    model: Model,
    sizes: Sizes = None,
    by: Annotated[str, typer.Option(help="what to add up by: op, module, source or name")] = "op",
    top: Annotated[int, typer.Option(min=0, help="so many rows; 0 for all")] = 0,
    as_json: AsJson = False,
) -> None:
    """Count operators, parameters, operations on numbers (FLOPs) and bytes moved, as formulas over the model's sizes.

    Sizes that are given, n=3, are put into the formulas. No weight is read.
    """
    found = stats_of(read_graph(model))
    given = inputs_of.sizes_from(sizes or [])
    found = found.at(given) if given else found
    if as_json:
        typer.echo(as_text(found.as_json(cast("By", by))))
        return
    rows = found.by(cast("By", by))
    typer.echo(str(found))
    table = Table(by, "nodes", "parameters", "FLOPs", "bytes read", "bytes written")
    for each in rows[: top or None]:
        cells = (str(each.nodes), str(each.parameters), *map(notation.text, (each.flops, each.read, each.written)))
        table.add_row(Text(each.key or "(none)"), *cells)
    console = Console(highlight=False, markup=False)
    console.print(table)
    if top and len(rows) > top:
        console.print(f"and {len(rows) - top} more")


# ---------------------------------------------------------------------------------------------- extract


def extract(
    model: Model,
    output: Output,
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help="a value that becomes an input, by name; may be repeated"),
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("-y", "--result", help="a value that becomes an output; may be repeated")
    ] = None,
    opset: Annotated[int | None, typer.Option(help="the ONNX opset to write, 13 to 26")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Cut a part out of a model, by the names of the values where it begins and ends.

    Names are those of the file, or as `irkit show` prints them. Without --input it begins where the model does, without
    --result it ends where the model does.
    """
    require_writable(output)
    part = extract_part(read_graph(model), split(inputs), split(outputs))
    target = upstairs("passes.targets").target_of("onnx", opset)
    part = part if output.suffix == ".irkit" else upstairs("passes").legalize(part, target)
    write(part, output, target.opset)
    console = console_beside(output, quiet)
    ports = part.signature
    taken = [f"{port.name}: {value.type!r}" for port, value in zip(ports.params, part.params, strict=True)]
    given = [f"{port.name}: {value.type!r}" for port, value in zip(ports.results, part.results, strict=True)]
    if as_json:
        console.print(as_text({"inputs": taken, "outputs": given, "nodes": len(part), "saved": str(output)}))
        return
    for line in (*(f"input {each}" for each in taken), *(f"output {each}" for each in given)):
        console.print(line)
    console.print(f"{node_count(part)}{wrote(output)}")


def split(names: list[str] | None) -> list[str]:
    """The names, of which several may stand between commas."""
    return [each for name in names or () for each in name.split(",") if each]
