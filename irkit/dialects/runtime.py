"""ONNX Runtime's own domain as a dialect."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import attrs

from irkit.build.runtime import OPERATORS
from irkit.dialects.dialect import Dialect
from irkit.dialects.runtime_samples import SAMPLES
from irkit.nodes.operators import Operator
from irkit.ops.runtime_table import CONTRIB
from irkit.ops.schemas import split_domain


def sampled_operators() -> dict[str, Operator]:
    """The operators by name, each with its sample."""
    own = {op: each for op, each in OPERATORS.items() if each.domain == CONTRIB}
    return {
        op: attrs.evolve(each, sample=SAMPLES[split_domain(op)[1]], place=(__name__, "MICROSOFT", op))
        for op, each in own.items()
    }


MICROSOFT: Final = Dialect(CONTRIB, MappingProxyType(sampled_operators()))


def runtime_dialect() -> Dialect:
    """The operators of ONNX Runtime's own that irkit defines, as a dialect: schema, definition, the type rule that
    follows from it, and a sample. `runtime_dialect().op.FastGelu(x)` is `irkit.op.com_microsoft.FastGelu(x)`; random
    graphs draw from it, and `irkit.check_operator` compares a definition with ONNX Runtime's kernel.

    Values of these are known by their names everywhere, so no dialect need be passed for them.
    """
    return MICROSOFT
