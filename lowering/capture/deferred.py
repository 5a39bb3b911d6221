"""Conditions on data that torch defers to run time: the lines that asked for them, and those that no node asserts.

torch.export writes them into the graph, without their lines; `make_fx` leaves them in the ShapeEnv; a program that was
exported in strict mode can lack even what they are about. `torch.export.draft_export` keeps a report beside the graph
of what it took from the example.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.fx import GraphModule

from lowering.capture.guards.answers import words
from lowering.capture.guards.comparisons import closed
from lowering.capture.guards.guards import HERE, TORCH, Guard, line_at, normal
from lowering.capture.transforms import nodes_within
from lowering.errors import CaptureError
from lowering.records.sizes import is_unbacked
from lowering.records.torch_internals import pytree, torch_functions

_SYMBOL = re.compile(r"\b(u|zuf)\d+\b")


def symbols_recorded(module: GraphModule) -> set[str]:
    """The names of torch's symbols in all that is recorded of a program, those among them that torch replaced."""
    found: set[str] = set()
    for node in nodes_within(module):
        for each in pytree.tree_leaves(node.meta.get("val")):
            sizes = each.shape if isinstance(each, torch.Tensor) else (each,)
            held = (size.node for size in sizes if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool))
            found |= {symbol.name for each in held for expr in (each._expr, each.expr) for symbol in expr.free_symbols}
    return found


def lines_of_assertions(env: Any) -> dict[str, str]:
    """The user's line, where torch still knows it, of each condition that it deferred, by `normal` of the condition."""
    return {said: line for said, (_, line) in deferred_by(env).items()}


def deferred_by(env: Any) -> dict[str, tuple[Any, str]]:
    """`normal` of each condition that torch deferred -> (the condition, the user's line where torch still knows it)."""
    deferred = getattr(env, "deferred_runtime_asserts", None) or {}
    return {
        normal(each.expr): (closed(each.expr), line_of_stack(each.stack))
        for each in itertools.chain.from_iterable(deferred.values())
    }


def line_of_stack(stack: Any) -> str:
    """The innermost line outside torch and irkit of a captured stack; empty where there is none."""
    for frame in reversed(stack.summary() if stack is not None else ()):
        if not frame.filename.startswith((TORCH, HERE, "<")):
            return line_at(frame)
    return ""


def without_node(env: Any, module: GraphModule, asserted: Sequence[Guard]) -> Iterator[Guard]:
    """The conditions that torch deferred and that no node of the graph asserts, nor a condition like it of what torch
    made anew of the same number."""
    deferred = deferred_by(env)
    if not deferred:
        return
    known = {normal(guard.expr) for guard in asserted if guard.expr is not None}
    forms = {form(said) for said in known}
    recorded = symbols_recorded(module)
    equals = {env.replace(sympy.Symbol(name, integer=True)) for name in recorded if _SYMBOL.fullmatch(name)}
    for said, (expr, line) in deferred.items():
        lost = [symbol for symbol in expr.free_symbols if symbol.name not in recorded]
        now = env.replace(expr)  # what stands for its numbers is held to be equal to them
        if not lost and (now == sympy.true or normal(now) in known):
            continue
        if said in known or (lost and (form(said) in forms or all(env.replace(s) in equals for s in lost))):
            continue
        yield Guard(expr, str(expr), line, "assertion")


def lost_conditions(guards: Sequence[Guard], module: GraphModule) -> list[Guard]:
    """The conditions on numbers out of data of which a program computes none, so that it cannot check them: torch makes
    no nodes of a comparison with a float, and drops a number that nothing else uses."""
    of_data = [guard for guard in guards if guard.expr is not None and guard.is_of_data]
    recorded = symbols_recorded(module) if of_data else set()
    return [g for g in of_data if any(is_unbacked(s.name) and s.name not in recorded for s in g.expr.free_symbols)]


def refuse_lost(guards: Sequence[Guard], module: GraphModule) -> None:
    """Raises CaptureError where a model asserts something of its data that its program could not check."""
    for guard in lost_conditions(guards, module):
        said = f"the model asserts {said_in_words(guard)} of its data"
        what = f"{said}, of which torch.export keeps no number in its program"
        raise CaptureError(what, source=guard.source, hint="use capture='direct', or compare whole numbers")


def said_in_words(guard: Guard) -> str:
    """A condition of torch's as text."""
    return words(guard.expr.replace(torch_functions.ToFloat, lambda number: number))


def form(said: str) -> str:
    """A condition, whatever the numbers of its symbols of data."""
    return _SYMBOL.sub("_", said)


def notes_of_draft(program: Any, names: Mapping[str, str]) -> Iterator[str]:
    """What `torch.export.draft_export` reports of a program, a line each, with the user's names for torch's symbols."""
    for failure in getattr(getattr(program, "_report", None), "failures", ()):
        data, kind = failure.data, failure.failure_type.name
        frames = data.get("user_stack") or ()
        where = f" ({frames[-1]['loc']})" if frames and frames[-1].get("loc") else ""
        said = re.sub(r"\b[a-z]+\d+\b", lambda found: names.get(found[0], found[0]), str(data.get("expr", "")))
        yield "draft_export: " + {
            "DATA_DEPENDENT_ERROR": f"{said} is {data.get('result')}, as it was for the example{where}",
            "GUARD_ADDED": f"{said} was relied on{where}",
            "MISSING_FAKE_KERNEL": f"{data.get('op')} has no fake kernel: ran on the example to see what it gives",
            "MISMATCHED_FAKE_KERNEL": f"the fake kernel of {data.get('op')} is wrong: {data.get('reason')}",
        }.get(kind, f"{kind} {data}")
