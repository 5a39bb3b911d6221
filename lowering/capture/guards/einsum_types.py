"""Guards for `einsum` of small integers, whose element type hangs on sizes: torch sums as int64, and squeezes a 1.

torch asks no question about these sizes while it traces, and so keeps no guard of its own. A graph's result has one
element type; sizes for which torch's would be another must be refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch
from torch.fx import GraphModule

from lowering.capture.guards.guards import Guard, over_sizes
from lowering.records.source_lines import line_of, trace_of

MOST_SIZES = 6
"""How many sizes are taken as 1 in every combination; where more are summed, none may be 1."""


def guards_of_element_types(module: GraphModule) -> Iterator[Guard]:
    """The conditions on sizes under which each `einsum` of a graph has the element type that torch recorded."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.einsum.default:
            line = line_of(trace_of(node))
            given: Any = node.args[1]
            operands = [each.meta["val"] for each in given]
            for expr in conditions(str(node.args[0]), operands, node.meta["val"].dtype):
                yield Guard(expr, str(expr), line)


def conditions(equation: str, operands: Sequence[Any], recorded: torch.dtype) -> Iterator[Any]:
    """Relations of sizes that hold where an einsum of tensors has the element type that was recorded."""
    if recorded.is_floating_point or recorded.is_complex or all(each.dtype is torch.int64 for each in operands):
        return
    letters = summed(equation, [each.dim() for each in operands])
    sizes = [[each.shape[i] for i in axes] for each, axes in zip(operands, letters, strict=True)]
    varying = list(dict.fromkeys(s.node.expr for each in sizes for s in each if is_symbolic(s)))
    if len(varying) > MOST_SIZES:
        yield from (sympy.Ne(over_sizes(expr), 1) for expr in varying)
        return
    for ones in itertools.product((True, False), repeat=len(varying)):
        at = dict(zip(varying, (1 if one else 2 for one in ones), strict=True))
        if dtype_at(equation, operands, letters, at) not in (None, recorded):
            parts: list[Any] = [
                sympy.Ne(over_sizes(expr), 1) if one else sympy.Eq(over_sizes(expr), 1)
                for expr, one in zip(varying, ones, strict=True)
            ]
            yield sympy.Or(*parts)


def is_symbolic(size: Any) -> bool:
    """True for a size that is not a number."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_Integer


def summed(equation: str, ranks: Sequence[int]) -> list[list[int]]:
    """For each operand, the axes that are summed: those whose letters the result lacks."""
    sources, arrow, target = equation.replace(" ", "").partition("->")
    if not arrow:
        named = sources.replace("...", "").replace(",", "")
        target = "..." + "".join(c for c in named if named.count(c) == 1)
    found = []
    for source, rank in zip(sources.split(","), ranks, strict=True):
        before, dots, after = source.partition("...")
        rest = rank - len(before) - len(after)
        axes = [*before, *(["..."] * rest if dots else []), *after]
        found.append([i for i, letter in enumerate(axes) if letter not in target])
    return found


def dtype_at(equation: str, operands: Sequence[Any], letters: Sequence[Sequence[int]], at: Any) -> torch.dtype | None:
    """The element type that torch gives where the summed sizes are these numbers; None where torch raises. The sizes
    that the result keeps do not matter here, and are taken as 1."""
    made = [
        torch.empty(
            [1 if i not in axes else at[s.node.expr] if is_symbolic(s) else int(s) for i, s in enumerate(each.shape)],
            dtype=each.dtype, device="meta",
        )
        for each, axes in zip(operands, letters, strict=True)
    ]  # fmt: skip
    try:
        return torch.einsum(equation, *made).dtype
    except RuntimeError:
        return None
