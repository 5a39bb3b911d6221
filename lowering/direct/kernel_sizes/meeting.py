"""Two dimensions that an operator holds against one another."""

from __future__ import annotations

from typing import Any

from lowering.direct.tracer import Alike, Tracer


def same_size(tracer: Tracer, one: Any, other: Any) -> None:
    """Keeps that two dimensions are equal. Raises Alike where both are names, LoweringError where the example's are
    not."""
    named = all(type(d) is not int and d.is_Symbol and d.name in tracer.named for d in (one, other))
    if named and one != other and tracer.asked.hint(one) == tracer.asked.hint(other):
        raise Alike({one: other}, tracer.line())
    tracer.asked.equal(one, other)


def met_size(tracer: Tracer, size: Any, other: Any, broadcast: bool) -> Any:
    """The size of a result that two of operands tell: equal ones or, of a batch, one of them 1 in the example."""
    if broadcast and tracer.asked.hint(size) != tracer.asked.hint(other):
        one, many = (size, other) if tracer.asked.hint(size) == 1 else (other, size)
        tracer.asked.equal(one, 1)
        return many
    tracer.asked.equal(size, other)
    return size
