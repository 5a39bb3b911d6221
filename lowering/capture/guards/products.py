"""What products of matrices, and losses that begin with one, require of sizes where there is nothing to multiply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sympy

SCALED = frozenset(f"aten::{name}" for name in "addmm baddbmm addbmm".split())
"""Products that are added to a tensor, as much of it as beta says."""
CHUNKED = "torch_nn::_linear_cross_entropy_batch_chunked"
"""How the names begin of the cross entropy of a linear layer that torch takes in chunks."""


def integers_scaled(name: str, beta: Any, a: Sequence[Any], b: Sequence[Any]) -> Iterator[Any]:
    """The conditions under which integers are added to a product of matrices (*, n, m) and (*, m, p): where there is
    nothing to multiply, eager scales them by themselves, and refuses a beta that is no integer then."""
    if isinstance(beta, int) or beta in (0, 1):
        return
    *batch, n, m = map(sympy.sympify, a)
    if name == "aten::addbmm":
        yield sympy.Ge(batch[0], 1)
    nothing: list[Any] = [sympy.Eq(size, 0) for size in (*batch, n, sympy.sympify(b[-1]))]
    yield sympy.Or(sympy.Ge(m, 1), *nothing)


def classes_there(items: Sequence[Any], classes: Any) -> Any:
    """The condition that there is a class, or no item that would need one."""
    nothing: list[Any] = [sympy.Eq(sympy.sympify(size), 0) for size in items]
    return sympy.Or(sympy.Ge(sympy.sympify(classes), 1), *nothing)
