"""Conditions on sizes that torch.export tries to solve when it has traced a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import sympy
from sympy.solvers import inequalities

from lowering.records.torch_internals import DimConstraints


@contextmanager
def conditions_left_open() -> Iterator[None]:
    """A block in which torch.export leaves an equation of one size as it is where it has not one solution.

    torch takes for granted that an equation says what the size is, and fails where sympy cannot solve it:
    that half of a size is even, say. It stays a condition, as inequalities do.
    """
    before = DimConstraints.solve

    def solve(self: Any) -> None:
        def add(condition: Any) -> bool:
            known = DimConstraints.add(self, condition)
            leave_open(self)
            return known

        leave_open(self)
        self.add = add  # what a solution makes of other conditions comes this way
        try:
            before(self)
        finally:
            del self.add

    DimConstraints.solve = solve
    try:
        yield
    finally:
        DimConstraints.solve = before


def leave_open(constraints: Any) -> None:
    """Takes the sizes that no equation settles from those that torch is about to solve for."""
    equations = constraints._symbols_with_equalities
    equations &= {s for s in equations if settles(constraints._univariate_inequalities[s], s)}


def settles(conditions: Iterable[Any], size: sympy.Symbol) -> bool:
    """Whether sympy finds the one number that the size must be."""
    try:
        solution = inequalities.reduce_inequalities(conditions, size)
    except Exception:  # sympy has many errors for what it cannot solve
        return False
    return any(isinstance(each, sympy.Eq) for each in sympy.And.make_args(solution))
