"""Numbers that torch.export dropped in strict mode, with what the model said of them.

After `torch._check(mask.sum().item() == 6)` dynamo writes 6 wherever the number stood. Where nothing but the check
needed it, the program has neither the number nor the check: what is left is the operator that the number was taken out
of, whose result nothing uses, and the range of a symbol that no node mentions. Where there is one of each
they belong together, and the condition is kept; where there are more, it can only be told: torch keeps no lines.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lowering.capture.deferred import symbols_recorded
from lowering.capture.guards.guards import Guard, ranges_of
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import line_of

_MODELS = "models/"
_OLDER = "serialized_exported_program.json"


@attrs.frozen
class Dropped:
    """The FX node that a number was taken out of, what the model said that it is, and the line."""

    node: str
    text: str
    number: int
    source: str


def dropped_numbers(
    program: ExportedProgram, written: Mapping[str, tuple[int, int | None]]
) -> tuple[tuple[Dropped, ...], tuple[Guard, ...]]:
    """(what can be asserted again, what can only be told) of a program whose symbols have these ranges."""
    settled = {s: low for s, (low, high) in written.items() if low == high and is_unbacked(s)}
    recorded = symbols_recorded(program.graph_module) if settled else set()  # it takes a look at each node
    settled = {s: low for s, low in settled.items() if s not in recorded}
    if not settled:
        return (), ()
    dead = [node for node in program.graph.nodes if is_unused_number(node)]
    if len(settled) == len(dead) == 1:
        ((symbol, number),) = settled.items()
        return (Dropped(dead[0].name, f"{symbol} == {number}", number, line_of_node(dead[0])),), ()
    # A number that something still needs is asserted of the symbol that it has by now.
    equal = [(s, sympy.Eq(sympy.Symbol(s, integer=True), n)) for s, n in settled.items() if dead]
    return (), tuple(Guard(expr, f"{s} == {settled[s]}", kind="assertion") for s, expr in equal)


def line_of_node(node: Node) -> str:
    """The user's line that a node comes from."""
    return line_of(node.meta.get("stack_trace") or "")


def notes_of_lost(program: ExportedProgram) -> tuple[str, ...]:
    """A note for each number that a program takes out of data and does not use, where torch kept nothing of what was
    said of it: so it is with a program that was saved and that torch has read."""
    lines = [line_of_node(node) for node in program.graph.nodes if is_unused_number(node)]
    unbacked = [symbol for symbol in ranges_of_program(program) if is_unbacked(symbol)] if lines else []
    if unbacked and not symbols_recorded(program.graph_module).issuperset(unbacked):
        return ()
    return tuple(
        f"nothing uses what is computed at {line or 'a line that torch did not keep'}: if the model was exported in "
        "strict mode, and says by torch._check what this number is, that is not checked; give the path of the file"
        for line in lines
    )


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
            low, high = (ends.get(key) if isinstance(ends, dict) else None for key in ("min_val", "max_val"))
            if isinstance(low, int) and isinstance(high, int):
                found[symbol] = (low, high)
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
