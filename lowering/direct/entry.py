"""`directly`: a model and example arguments in, a lowered graph out, by running the model on traced tensors."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs
import sympy
import torch
from torch.utils import _pytree as pytree

from irkit import dims
from irkit.dims import notation
from irkit.errors import EvaluateError, IrkitError
from irkit.support.uncollected import without_collector
from lowering.capture.capture import fixed_error
from lowering.capture.guards.guards import Fixed
from lowering.capture.guards.questions import Taken
from lowering.capture.inputs.calls import as_module, name_of
from lowering.capture.inputs.contents import keep_unchanged
from lowering.capture.inputs.drawing import generator_kept
from lowering.capture.inputs.training import Training, asks_for_gradients, contents_kept, training_state_kept
from lowering.capture.patches.arrays_of_sizes import OF_NUMPY
from lowering.capture.patches.table import Deed, Occasion, patch_torch
from lowering.capture.torch_errors import STDLIB
from lowering.capture.torch_export import Attempt, copy_leaf
from lowering.direct.request import Request, request_of
from lowering.direct.run import HOW, lowered_run
from lowering.direct.tracer import HERE, TORCH
from lowering.direct.trials import Found, trace_model
from lowering.errors import CaptureError, FailsForExports, LoweringError, WrongConverter
from lowering.fold.lower import Lowered
from lowering.fold.size_branches import with_size_branches
from lowering.records.options import DEFAULTS, ExportOptions
from lowering.records.programs import first_line
from lowering.records.pytrees import register_classes
from lowering.records.source_lines import short_path


@without_collector
def directly(
    model: Any,
    args: Sequence[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None,
    options: ExportOptions = DEFAULTS,
    trace: Callable[..., Found] = trace_model,
    as_eager: bool = False,
) -> Lowered:
    """A module or function as a graph, by one run of it on traced tensors, which `trace` makes; by the ways that it has
    for exports, or `as_eager`.

    Raises CaptureError where the arguments do not fit, where the model itself raises, and where it fixes a dimension
    that was to vary; LoweringError for what direct capture does not meet, which another way may.
    """
    start = time.perf_counter()
    specialization, rewrites = options.specialization, bool(options.rewrite)
    module = as_module(model, branches=rewrites)
    with register_classes(args, kwargs) as known:
        request = request_of(module, name_of(model), args, kwargs, options, as_eager)
        try:
            with explaining(request, rewrites), patch_torch(Occasion("trials", module)):
                found = trace(request, known, options.widen, rewrites)
        except Taken as told:
            raise taken_error(request, told, rewrites) from None
        refuse_what_is_empty(request)
        fixed = fixed_names(request, found)
        bound = {name: each for name, each in fixed.items() if specialization == "error" or name not in request.free}
        if bound and specialization != "report":
            refuse_unexplained(found, bound)
            raise (
                fixed_error(all_fixed(request, fixed))
                if specialization == "error"
                else frozen_error(request, *next(iter(bound.items())), rewrites)
            )
        if fixed:
            sizes = {name: request.hints[name] for name in fixed}
            with explaining(request, rewrites), patch_torch(Occasion("trials", module)):
                found = trace(request.with_numbers(sizes), known, options.widen, rewrites)
        fixes = all_fixed(request, fixed)
        low = lowered_run(found.run, found.guards, found.ranges, options.output_names, fixes, settle=True)
        low = with_size_branches(low, found.ways)
    seconds = time.perf_counter() - start
    notes = (*low.captured.notes, *found.notes)
    captured = attrs.evolve(low.captured, attempts=(Attempt(HOW, seconds),), notes=notes)
    return attrs.evolve(low, captured=captured, seconds=seconds)


@contextmanager
def explaining(request: Request, rewrites: bool = False) -> Iterator[None]:
    """A block whose errors say whether the model itself is wrong, or direct capture does not meet it, with the line;
    `rewrites` says that its Python is rewritten."""
    try:
        yield
    except IrkitError as error:
        line = line_of_error(error)
        own = None if isinstance(error, CaptureError | WrongConverter) else eager_error(request)
        if own is None and rewrites and isinstance(error, EvaluateError):
            what = f"what {request.name} is rewritten to fails for the example, which eager takes: {error.what}"
            raise CaptureError(what, source=line, hint=EACH_ROUND) from error
        if own is None:
            raise error.located(source=line) from error.__cause__
        raise raised_error(request, own, line_of_error(own) or line) from own
    except Exception as error:
        line = line_of_error(error)
        own = eager_error(request)
        if own is None and OF_NUMPY.search(str(error)):
            what = f"{request.name} hands a size that varies to NumPy, which takes plain numbers"
            raise CaptureError(what, source=line, hint=PLAIN_NUMBERS) from error
        if own is None:
            what = f"direct capture of {request.name} fails with {type(error).__name__}: {first_line(error)}"
            kind = FailsForExports if fails_for_exports(request) else LoweringError
            raise kind(what, source=line, hint="use capture='torch.export'") from error
        raise raised_error(request, own, line) from own


EACH_ROUND = (
    "a comprehension is computed for all that it goes over, also where any() or all() knows before: let what it "
    "computes work for each element"
)
PLAIN = re.compile(r"\b(math|np|numpy)\.")
"""Functions in a line of the model that take plain numbers only."""
PLAIN_NUMBERS = (
    "math and NumPy take plain numbers: write n ** 0.5, n // 2, -(-n // 2), x.numel(), torch.arange(n), or torch.log "
    "and others of torch.tensor(n), which all vary with n; or leave the dimension out of dynamic_shapes"
)


def raised_error(request: Request, own: Exception, line: str = "") -> CaptureError:
    """The error for a model that itself raises for the example."""
    what = f"{request.name} raises {type(own).__name__}: {first_line(own)}"
    return CaptureError(what, source=line, hint="the model must run on the example arguments")


def refuse_what_is_empty(request: Request) -> None:
    """Raises CaptureError where the model raises for an example in which there is nothing: kernels refuse that, which
    traced tensors have none of."""
    if any(isinstance(leaf.value, torch.Tensor) and not leaf.value.numel() for leaf in request.leaves):
        own = eager_error(request)
        if own is not None:
            raise raised_error(request, own, line_of_error(own)) from own


def eager_error(request: Request, deed: Deed = "example") -> Exception | None:
    """What the model itself raises for the example; None where it runs. What it writes is put back."""
    error = eager_error_of(request, Training(), deed)
    if error is None or not (torch.is_grad_enabled() and asks_for_gradients(error)):
        return error
    return eager_error_of(request, Training.of(request.module, request.parts).recording(), deed)


def fails_for_exports(request: Request) -> bool:
    """Whether the model itself raises for the example by the ways that it has for exports."""
    return not request.as_eager and eager_error(request, "example for exports") is not None


def eager_error_of(request: Request, training: Training, deed: Deed) -> Exception | None:
    """The same, with gradients recorded or not."""
    module, parts, present = request.module, request.parts, Training.present(request.module, request.parts)
    outside = [each for each in parts.around.tensors if each.layout is torch.strided]
    held = [(each, each._version, each.detach().clone()) for each in (*module.buffers(), *outside)]
    leaves = [copy_leaf(leaf.value) for leaf in request.leaves]
    args, kwargs = pytree.tree_unflatten(leaves, request.spec)
    with ExitStack() as blocks:
        blocks.enter_context(patch_torch(Occasion(deed)))  # a module that converts itself shall have what it had
        if training.records or present.optimizers:
            blocks.enter_context(contents_kept(module, present))
        blocks.enter_context(torch.set_grad_enabled(training.records))
        blocks.enter_context(generator_kept())
        blocks.enter_context(keep_unchanged(module, parts))
        blocks.enter_context(training_state_kept(module, parts=parts))
        try:
            module(*args, **kwargs)
        except Exception as error:
            return error
        finally:
            for tensor, version, content in held:
                # batch norms write on the quiet
                if tensor._version != version or not torch.equal(dense(tensor), dense(content)):
                    with torch.no_grad():
                        tensor.copy_(content)
    return None


def dense(buffer: torch.Tensor) -> torch.Tensor:
    """A tensor that can be compared: torch compares no sparse ones."""
    return buffer if buffer.layout is torch.strided else buffer.to_dense()


def line_of_error(error: BaseException) -> str:
    """The innermost line of the model that an error went through, `folder/model.py:12 x = f(y)`; empty for none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        of_python = frame.filename.startswith(STDLIB) and "site-packages" not in frame.filename
        if not of_python and not frame.filename.startswith((TORCH, HERE, "<")):
            return f"{short_path(frame.filename)}:{frame.lineno} {frame.line}"
    return ""


def refuse_unexplained(found: Found, fixed: Mapping[str, Fixed]) -> None:
    """Raises LoweringError for a size that the model does not ask for, but that nothing else was found to explain."""
    unexplained = found.run.tracer.unexplained
    name = next((name for name in fixed if name in unexplained), None)
    if name is not None:
        raise LoweringError(
            f"what {unexplained[name]} requires of {name} was not found", source=fixed[name].source,
            hint="use capture='torch.export'",
        )  # fmt: skip


def fixed_names(request: Request, found: Found) -> dict[str, Fixed]:
    """The names that were to vary and of which the model takes one size only, with the line that fixed each."""
    lines: dict[str, Fixed] = {}
    for guard in found.guards:
        sides: Any = guard.expr.args if isinstance(guard.expr, sympy.Eq) else ()
        name = next((s.name for s in sides if s.is_Symbol), "")
        if name in request.hints and any(s.is_number for s in sides):
            lines[name] = Fixed(request.place_of(name), request.hints[name], guard.source)
    return lines


def all_fixed(request: Request, fixed: Mapping[str, Fixed]) -> list[Fixed]:
    """What was to vary and does not: each dimension and number of a fixed name."""
    found = {}
    for leaf, shape in zip(request.leaves, request.shapes, strict=True) if fixed else ():
        for axis, dim in enumerate(shape if isinstance(shape, tuple) else (shape,)):
            names = [s.name for s in dims.symbols_of(dim)] if dim is not None and type(dim) is not int else []
            if names and all(name in fixed for name in names):
                what = f"dimension {axis} of {leaf.name!r}" if isinstance(shape, tuple) else f"the number {leaf.name!r}"
                said = "" if request.invented.issuperset(names) else f" as {notation.text(dim or 0)!r}"
                what = f"{what}, which was to vary{said},"
                source = next((fixed[name].source for name in names if fixed[name].source), "")
                found[what] = Fixed(what, dims.evaluate(dim or 0, request.hints), source)
    return list(found.values())


def taken_error(request: Request, taken: Taken, rewrites: bool) -> CaptureError:
    """The error for a model that takes the number of a name that was to vary, or that itself raises for the example."""
    own = eager_error(request)
    if own is not None:
        return raised_error(request, own, line_of_error(own))
    fixed = Fixed(request.place_of(taken.name), request.hints[taken.name], taken.source)
    return frozen_error(request, taken.name, fixed, rewrites)


def frozen_error(request: Request, name: str, fixed: Fixed, rewrites: bool) -> CaptureError:
    """The error for a name that the model lets have one size only; `rewrites` says that its Python is rewritten."""
    said = "" if name in request.invented else f" as {name!r}"
    advice = "leave the dimension out of dynamic_shapes, or write the line that asks for its value otherwise"
    if not rewrites:
        advice = f"rewrite=True, by which loops and decisions of the model's Python are computed; or {advice}"
    return CaptureError(
        f"{request.place_of(name)} was to vary{said}, and the model works for {request.hints[name]} only",
        source=fixed.source,
        hint=PLAIN_NUMBERS if PLAIN.search(fixed.source) else advice,
    )
