"""How values are built: `op`, constants, parameters, calls, shapes as values, closed bodies."""

from irkit.build.constructors import (
    call,
    call_graph,
    custom,
    op,
    require_kinds,
)
from irkit.nodes.bodies import (
    closed,
)
from irkit.nodes.construct import (
    check_arity,
    check_dtypes,
    const,
    dim_scalar,
    dtype_complaint,
    required_attributes,
    shape_vector,
)

__all__ = [
    "call",
    "call_graph",
    "check_arity",
    "check_dtypes",
    "closed",
    "const",
    "custom",
    "dim_scalar",
    "dtype_complaint",
    "op",
    "require_kinds",
    "required_attributes",
    "shape_vector",
]
