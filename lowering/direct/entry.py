"""`directly`: a model and example arguments in, a lowered graph out, by running the model on traced tensors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import sympy
import torch

from irkit.support.uncollected import without_collector
from lowering.capture.capture import fixed_error
from lowering.capture.guards.guards import Fixed
from lowering.capture.inputs.calls import as_module, name_of
from lowering.capture.torch_export import Attempt
from lowering.direct.request import Request, request_of
from lowering.direct.run import HOW, lowered_run
from lowering.direct.trials import Found, traced
from lowering.errors import CaptureError
from lowering.fold.lower import Lowered
from lowering.records.options import DEFAULTS, ExportOptions
from lowering.records.pytrees import register_classes


@without_collector
def directly(
    model: Any, args: Sequence[Any] | torch.Tensor, kwargs: Mapping[str, Any] | None, options: ExportOptions = DEFAULTS
) -> Lowered:
    """A module or function as a graph, by one run of it on traced tensors.

    Raises CaptureError where the arguments do not fit, LoweringError for what direct capture does not meet.
    """
    start = time.perf_counter()
    module = as_module(model)
    specialization = options.specialization
    with register_classes(args, kwargs) as known:
        request = request_of(module, name_of(model), args, kwargs, options)
        found = traced(request, known, options.widen)
        fixed = fixed_names(request, found)
        bound = {name: each for name, each in fixed.items() if specialization == "error" or name not in request.free}
        if bound and specialization != "report":
            raise (
                fixed_error(list(fixed.values()))
                if specialization == "error"
                else frozen_error(request, *fixed.popitem())
            )
        if fixed:
            sizes = {name: request.hints[name] for name in fixed}
            found = traced(request.with_numbers(sizes), known, options.widen)
        low = lowered_run(found.run, found.guards, found.ranges, options.output_names, list(fixed.values()))
    seconds = time.perf_counter() - start
    captured = attrs.evolve(low.captured, attempts=(Attempt(HOW, seconds),))
    return attrs.evolve(low, captured=captured, seconds=seconds)


def fixed_names(request: Request, found: Found) -> dict[str, Fixed]:
    """The names that were to vary and of which the model takes one size only, with the line that fixed each."""
    lines: dict[str, Fixed] = {}
    for guard in found.guards:
        sides: Any = guard.expr.args if isinstance(guard.expr, sympy.Eq) else ()
        name = next((s.name for s in sides if s.is_Symbol), "")
        if name in request.hints and any(s.is_Integer for s in sides):
            lines[name] = Fixed(request.place_of(name), request.hints[name], guard.source)
    return lines


def frozen_error(request: Request, name: str, fixed: Fixed) -> CaptureError:
    """The error for a name that the model lets have one size only."""
    return CaptureError(
        f"{request.place_of(name)} was to vary as {name!r}, and the model works for {request.hints[name]} only",
        source=fixed.source,
        hint="leave the dimension out of dynamic_shapes, or rewrite the line that asks for its value",
    )
