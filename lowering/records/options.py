"""What a user may ask of an export, as one frozen record that goes from step to step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from irkit.core.types import DType
from irkit.rewriting.rules import Rule, Rules
from lowering.errors import CaptureError
from passes.precision import Precision
from passes.quantization import Quantization
from passes.targets import Target

AUTO, DIRECT, TORCH_EXPORT = "auto", "direct", "torch.export"
WAYS = (AUTO, DIRECT, TORCH_EXPORT)
"""The ways to capture a module: directly and, where that does not meet something, by torch.export; or one of both."""


def known_way(_: Any, __: Any, way: Any) -> None:
    """Raises CaptureError for a way of capture that there is none of."""
    if way not in WAYS:
        raise CaptureError(f"capture is {way!r}", hint="write 'auto', 'direct' or 'torch.export'")


def known_data(_: Any, __: Any, asked: Any) -> None:
    """Raises CaptureError for what says nothing of conditions on data."""
    if asked not in (None, "refuse"):
        raise CaptureError(f"data is {asked!r}", hint="write 'refuse' or None")


def known_specialization(_: Any, __: Any, asked: Any) -> None:
    """Raises CaptureError for what says nothing of dimensions that the model fixes."""
    if asked not in (None, "report", "error"):
        raise CaptureError(f"specialization is {asked!r}", hint="write 'report', 'error' or None")


def yes_or_no(_: Any, attribute: Any, asked: Any) -> None:
    """Raises CaptureError for what is neither True nor False: "no" would count as yes."""
    if type(asked) is not bool:
        raise CaptureError(f"{attribute.name} is {asked!r}", hint="write True or False")


def called_or_none(_: Any, attribute: Any, asked: Any) -> None:
    """Raises CaptureError for what cannot be called."""
    if asked is not None and not callable(asked):
        raise CaptureError(f"{attribute.name} is {asked!r}", hint="give a function, or None")


ARGUMENTS, INSIDE = "arguments", "inside"


def known_weights(_: Any, __: Any, asked: Any) -> None:
    """Raises CaptureError for what is no place of the weights of functions."""
    if asked not in (ARGUMENTS, INSIDE):
        raise CaptureError(f"weights is {asked!r}", hint="write 'arguments' or 'inside'")


@attrs.frozen(eq=False)
class Functions:
    """Which submodules become local functions of the ONNX model, and where their weights are.

    `modules` is True for all of them, classes (or names of classes, as of a program whose classes are not at hand) in
    any collection, or a predicate of the path of a module and the module. `weights` is "arguments", so that layers that
    are equal but for their weights share one body, or "inside". Raises CaptureError for anything else.
    """

    modules: Any = True
    weights: str = attrs.field(default=ARGUMENTS, validator=known_weights)

    @classmethod
    def of(cls, asked: Any) -> Functions | None:
        """What `to_onnx(functions=...)` asks for; None for no functions."""
        if asked is None or asked is False:
            return None
        return asked if isinstance(asked, cls) else cls(asked)


@attrs.frozen(kw_only=True, eq=False)
class ExportOptions:
    """What `irkit.to_onnx` takes beside the model and its arguments, each under the name and with the default that it
    has there, where it is described; `lowering.lower` and `capture` take some of them.

    `dynamo`, `live`, `gradients` and `kernels` are not options of an export: torch.export shall trace by TorchDynamo
    instead of Python itself; all that a direct capture meets from outside shall be state, weights among it, of which
    nothing is copied; so shall all gradients that it leaves, those too that the next call drops; and what computes
    operators of domains of their own, by name, where it asks for the example's numbers.

    Raises CaptureError for a way of capture that there is none of, for a `specialization` or `data` that says nothing,
    for a flag that is neither True nor False, and for a `progress` that cannot be called.
    """

    # how the model is captured
    dynamic_shapes: Any = None
    input_names: Sequence[str] | Mapping[str, str] | None = None
    scalar_inputs: Sequence[str] = ()
    specialization: str | None = attrs.field(default=None, validator=known_specialization)
    widen: bool = attrs.field(default=True, validator=yes_or_no)
    capture: str = attrs.field(default=AUTO, validator=known_way)
    data: str | None = attrs.field(default=None, validator=known_data)
    rewrite: Any = None
    dynamo: bool = attrs.field(default=False, validator=yes_or_no)
    # how it is lowered
    output_names: Sequence[str] | None = None
    converters: Mapping[Any, Any] | None = None
    kernels: Mapping[str, Callable[..., Any]] | None = None
    strict: bool = attrs.field(default=False, validator=yes_or_no)
    copy: bool = attrs.field(default=False, validator=yes_or_no)
    live: bool = attrs.field(default=False, validator=yes_or_no)
    gradients: bool = attrs.field(default=False, validator=yes_or_no)
    progress: Callable[[str, int, int], None] | None = attrs.field(default=None, validator=called_or_none)
    # what becomes of the graph
    opset: int | None = None
    target: str | Target = "onnxruntime-cpu"
    optimize: bool = attrs.field(default=True, validator=yes_or_no)
    rules: Rules | Rule | str | tuple[Rule | str, ...] = ()
    precision: Precision | DType | torch.dtype | str | None = None
    quantize: Quantization | str | None = None
    seed: int | None = None
    functions: Any = None


DEFAULTS = ExportOptions()
