"""Operators of ONNX Runtime's own by irkit's definitions of them, put in place of a value."""

from __future__ import annotations

from typing import Any

from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.ir import Value
from irkit.onnx.contrib import DEFINITIONS, defined
from irkit.rewrite import Match
from irkit.types import Tuple
from passes.rules.common import is_known
from passes.rules.sizes import bound_by, built, is_bound


def by_definition(m: Match, value: Value) -> Any:
    """What the definition of an operator makes of its operands: a value, or a tuple of values.

    None where irkit has no definition, or none for such operands, and where sizes in it are bound by nothing.
    """
    if value.op not in DEFINITIONS:
        return None
    sources = bound_by(*(v for v in value.inputs if v is not None))

    def sizes(wanted: tuple[Dim, ...]) -> Value:
        if not is_known(wanted) or not is_bound(m, wanted, sources):
            raise TypeRuleError(f"nothing binds the sizes {wanted}")
        return built(m, wanted, 1, sources)

    several = isinstance(value.type, Tuple)
    count = len(value.type.items) if isinstance(value.type, Tuple) else 1
    try:
        found = defined(value.op, value.inputs, value.attributes, count, sizes)
    except TypeRuleError:
        return None
    return found if several else found[0]
