"""Numbers that torch.export dropped in strict mode, with what the model said of them.

After `torch._check(mask.sum().item() == 6)` dynamo writes 6 wherever the number stood. Where nothing but the check
needed it, the program has neither the number nor the check: what is left is the operator that the number was taken out
of, whose result nothing uses, and the range of a symbol that no node mentions. The example of the program tells which
belong together: there the operator gives that number. Where the operator is gone too, as is `ints[1]`, or where
another size stands for the number, the condition can only be told: torch keeps no lines.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from irkit.dims import Range
from lowering.capture.deferred import lost_conditions, said_in_words, symbols_recorded
from lowering.capture.guards.guards import LEAST, Guard, ranges_of
from lowering.records.programs import state_of_program
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import line_of, trace_of
from lowering.records.torch_internals import pytree

_MODELS = "models/"
_OLDER = "serialized_exported_program.json"


@attrs.frozen
class Dropped:
    """The FX nodes that numbers may have been taken out of, what the model said that `count` of them are, the line."""

    nodes: tuple[str, ...]
    text: str
    number: int
    source: str
    count: int = 1


def dropped_numbers(
    program: ExportedProgram, written: Mapping[str, tuple[int, int | None]]
) -> tuple[tuple[Dropped, ...], tuple[Guard, ...]]:
    """(what can be asserted again, what can only be told) of a program whose symbols have these ranges."""
    settled = {s: low for s, (low, high) in written.items() if low is not None and low == high and is_unbacked(s)}
    recorded = symbols_recorded(program.graph_module) if settled else set()  # it takes a look at each node
    settled = without_kept(program, {s: low for s, low in settled.items() if s not in recorded})
    if not settled:
        return (), ()
    unused = [node for node in program.graph.nodes if is_unused_number(node)]
    known = numbers_of_example(program, unused)
    found: list[Dropped] = []
    told: list[str] = []
    for number in dict.fromkeys(settled.values()):
        symbols = [s for s, n in settled.items() if n == number]
        nodes = [n for n in unused if known.get(n.name) == number] if known else alone(unused, settled)
        if len(nodes) == len(symbols):
            pairs = zip(nodes, symbols, strict=True)
            found += [Dropped((n.name,), f"{s} == {number}", number, line_of_node(n)) for n, s in pairs]
        elif len(nodes) > len(symbols):
            text = " and ".join(f"{s} == {number}" for s in symbols)
            names = tuple(node.name for node in nodes)
            found.append(Dropped(names, text, number, line_of_node(nodes[0]), len(symbols)))
        else:
            told += symbols
    # Only text: in a program that torch has read, a symbol of that name may stand for another number.
    return tuple(found), tuple(Guard(None, f"{s} == {settled[s]}", kind="assertion") for s in told)


def without_kept(program: ExportedProgram, settled: Mapping[str, int]) -> dict[str, int]:
    """The symbols less one for each number that the program still takes out of its data, and records as that: it is
    checked there."""
    found = dict(settled)
    for node in program.graph.nodes if settled else ():
        recorded = node.meta.get("val")
        if node.target in (torch.ops.aten.item.default, torch.sym_ite) and type(recorded) is int:
            found.pop(next((s for s, n in found.items() if n == recorded), ""), None)
    return found


def alone(unused: list[Node], settled: Mapping[str, int]) -> list[Node]:
    """The one node for the one number, where no example tells; else none."""
    return unused if len(unused) == len(settled) == 1 else []


def numbers_of_example(program: ExportedProgram, nodes: Sequence[Node]) -> dict[str, int]:
    """What these nodes give for the example of a program, by name; empty where it has none, or cannot be run."""
    if not nodes or program.example_inputs is None:
        return {}
    needed = set(nodes)
    for node in reversed(program.graph.nodes):
        needed |= set(node.all_input_nodes) if node in needed else set()
    given = iter(pytree.tree_leaves(program.example_inputs))
    state, made = state_of_program(program), dict[Node, Any]()
    inputs = {
        spec.arg.name: next(given, None) if spec.kind is InputKind.USER_INPUT else state.get(str(spec.target))
        for spec in program.graph_signature.input_specs
        if hasattr(spec.arg, "name")
    }
    try:
        with torch.no_grad():
            for node in (n for n in program.graph.nodes if n in needed):
                args, kwargs = map_arg((node.args, node.kwargs), made.__getitem__)
                made[node] = inputs[node.name] if node.op == "placeholder" else node.target(*args, **kwargs)
        return {node.name: int(made[node]) for node in nodes}
    except Exception:  # whatever an operator of the user's own may raise
        return {}


def line_of_node(node: Node) -> str:
    """The user's line that a node comes from."""
    return line_of(trace_of(node))


def notes_of_lost(
    program: ExportedProgram,
    kept: Sequence[Dropped],
    written: Mapping[str, tuple[int, int | None]],
    guards: Sequence[Guard],
) -> tuple[str, ...]:
    """A note for each number of the data of which a program of strict mode, with these ranges of symbols, keeps nothing
    of what was said of it; of another one for each condition of which it computes no number."""
    if is_strict(program):
        return (*notes_of_unused(program, kept), *notes_of_replaced(program, written))
    return tuple(
        f"the program asserts {said_in_words(guard)} of a number that it does not compute, and it is not checked"
        for guard in lost_conditions(guards, program.graph_module)
    )


def notes_of_unused(program: ExportedProgram, kept: Sequence[Dropped]) -> tuple[str, ...]:
    """A note for each number that a program takes out of data and does not use."""
    stated = {name for each in kept for name in each.nodes}
    unused = [node for node in program.graph.nodes if is_unused_number(node) and node.name not in stated]
    return tuple(
        f"nothing uses what is computed at {line or 'a line that torch did not keep'}: what the model may say of this "
        "number by torch._check, the program of strict mode does not know, and it is not checked"
        for line in map(line_of_node, unused)
    )


def notes_of_replaced(program: ExportedProgram, written: Mapping[str, tuple[int, int | None]]) -> tuple[str, ...]:
    """A note for each number that a program knew when it was traced, and computes no more: dynamo writes x.shape[0] for
    one after `torch._check(number == x.shape[0])`, and drops both where nothing else needs the number.

    torch traces what dynamo left again, and so has two symbols of one range for each number that is left.
    """
    known = {name: span for name, span in written.items() if is_unbacked(name) and span != (LEAST, None)}
    known = {n: (low, high) for n, (low, high) in known.items() if low != high}  # these are asserted, or told
    counts = Counter(known.values())
    lost = {span: 1 for span, count in counts.items() if count % 2}
    if not any(is_of_data(node) for node in nodes_within(program.graph_module)):
        lost = dict(counts)
    return tuple(
        f"a number of the data in {Range(low, high)} was taken for another size, by torch._check, and the program of "
        "strict mode does not compute it: what was said of it is not known, and it is not checked"
        for (low, high), count in lost.items()
        for _ in range(count)
    )


def nodes_within(module: torch.nn.Module) -> Iterator[Node]:
    """The nodes of a graph, and of those of branches and loops in it."""
    for each in module.modules():
        if isinstance(each, GraphModule):
            yield from each.graph.nodes


def is_of_data(node: Node) -> bool:
    """Whether a node gives a number, or a size, that only data tells."""
    tags = getattr(node.target, "tags", ())
    return bool(node.meta.get("unbacked_bindings")) or any(tag in tags for tag in OF_DATA)


OF_DATA = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)


def is_strict(program: ExportedProgram) -> bool:
    """Whether dynamo traced a program: it notes which function of the source each node is of."""
    return any("source_fn_stack" in node.meta for node in program.graph.nodes)


def is_unused_number(node: Node) -> bool:
    """Whether a node computes an integer, as a tensor of one element, that no other node uses."""
    found = node.meta.get("val")
    if node.op != "call_function" or node.users or not isinstance(found, torch.Tensor):
        return False
    is_one = all(isinstance(size, int) and size == 1 for size in found.shape)
    return is_one and not found.is_floating_point() and not found.is_complex()


def ranges_of_program(program: ExportedProgram) -> dict[str, tuple[int, int | None]]:
    """The ranges that a program knows of its symbols, by name."""
    return ranges_of(program.range_constraints, None)


def ranges_in_file(path: Path) -> dict[str, tuple[int, int | None]]:
    """The ranges that a `.pt2` file states of symbols, those among them that torch leaves out when it reads it."""
    found: dict[str, tuple[int, int | None]] = {}
    for stated in stated_in(path):
        for symbol, ends in stated.items():
            low, high = (ends.get(key) if isinstance(ends, dict) else "" for key in ("min_val", "max_val"))
            if isinstance(low, int | None) and isinstance(high, int | None):  # None is infinity
                found[symbol] = (LEAST if low is None else low, high)
    return found


def stated_in(path: Path) -> Iterator[Mapping[str, Any]]:
    """What each program in a `.pt2` file says of ranges, as torch wrote it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith(_OLDER) or (_MODELS in n and n.endswith(".json"))]
            read = [json.loads(archive.read(name)) for name in names]
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile):
        return  # damaged; torch has read what it needs
    for each in read:
        stated = each.get("range_constraints") if isinstance(each, dict) else None
        if isinstance(stated, dict):
            yield stated
