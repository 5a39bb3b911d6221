"""ONNX Runtime's own domain as a dialect."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from irkit.build.runtime import OPERATORS
from irkit.dialects.dialect import Dialect
from irkit.ops.runtime_table import CONTRIB


@cache
def runtime_dialect() -> Dialect:
    """The operators of ONNX Runtime's own that irkit defines, as a dialect: schema, definition, and the type rule that
    follows from it. `runtime_dialect().op.FastGelu(x)` is `irkit.op.com_microsoft.FastGelu(x)`.

    Values of these are known by their names everywhere, so no dialect need be passed for them.
    """
    return Dialect(CONTRIB, MappingProxyType({op: each for op, each in OPERATORS.items() if each.domain == CONTRIB}))
