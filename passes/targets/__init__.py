"""What runs a model: opset, domains, provider, kernels, costs."""

from irkit.ops.schemas import (
    OPSET,
)
from passes.targets.measured import Bound, Kernel
from passes.targets.operator_costs import microseconds
from passes.targets.targets import (
    NAMES,
    Kind,
    Target,
    has_kernel,
    kernels,
    runtime_schemas,
    runtime_version,
    target_of,
)

__all__ = [
    "NAMES",
    "OPSET",
    "Bound",
    "Kernel",
    "Kind",
    "Target",
    "has_kernel",
    "kernels",
    "microseconds",
    "runtime_schemas",
    "runtime_version",
    "target_of",
]
