"""A door on the roof: `irkit.compile` reaches the packages above through here, when called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from irkit.doors.to_onnx import upstairs

if TYPE_CHECKING:
    import torch

    from irkit.core.types import DType
    from irkit.rewriting.rules import Rule, Rules
    from lowering.compiled.compiled import Compiled
    from passes.precision import Precision
    from passes.targets import Target


def compile(
    model: Any,
    *,
    dynamic: bool | None = None,
    dynamic_shapes: Any = None,
    opset: int | None = None,
    target: str | Target = "onnxruntime-cpu",
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
    precision: Precision | DType | torch.dtype | str | None = None,
    converters: Mapping[Any, Callable[..., Any]] | None = None,
    fallback: bool = True,
    captures: int = 8,
    threads: int = 0,
) -> Compiled:
    """A callable that captures a model as it is called, and runs it on ONNX Runtime; docs/guide/compile_a_model.md.

    Args:
        model: a module, function or method; a training step too, which writes weights and state where they are.
        dynamic: None lets the sizes vary that were seen to, from the second capture on; True all from the first on,
            False none.
        dynamic_shapes: what varies, as `irkit.to_onnx` takes it, for all captures.
        opset, target, rules, precision, converters: as in `irkit.to_onnx`.
        fallback: what cannot be lowered runs in torch, and the logger "irkit.compile" says so; False raises.
        captures: so many are kept at most.
        threads: of ONNX Runtime within an operator, 0 for one on each core.

    Each call goes through the first capture whose contract admits it. Weights are shared, not copied; a model whose
    weights are written between calls is captured once more, with its weights as inputs. What the model writes is
    written where it is. Raises what the model raises; with `fallback=False` also what `irkit.to_onnx` does.
    """
    options = {
        "dynamic_shapes": dynamic_shapes, "opset": opset, "target": target, "rules": rules, "precision": precision,
        "converters": converters,
    }  # fmt: skip
    made = upstairs("lowering.compiled.compiled").compile_model
    return made(model, options, dynamic=dynamic, fallback=fallback, captures=captures, threads=threads)
