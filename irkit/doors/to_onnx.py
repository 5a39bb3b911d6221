"""A door on the roof: `irkit.to_onnx` and the command line reach the packages above through here, when called."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from irkit.onnx.save import Form, write_model
from irkit.support.upstairs import upstairs

if TYPE_CHECKING:
    import torch

    from irkit.core.ir import Graph
    from irkit.core.types import DType
    from irkit.rewriting.rules import Rule, Rules
    from lowering.program.program import Program
    from passes.precision import Precision
    from passes.quantization import Quantization
    from passes.targets import Target


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    external: bool | Literal["auto"] = "auto",
    size_threshold: int = 1024,
    opset: int | None = None,
    ir_version: int | None = None,
    functions: bool = False,
    target: str | Target | None = None,
) -> None:
    """Writes the graph as an ONNX model.

    Args:
        graph: any graph; ShapeVectors and Calls that are left in it are written out.
        path: the model's file. The weights beside it go to `<path>.data`.
        external: True puts weights beside the model, False inside, "auto" beside it from 1.5 GB on.
        size_threshold: tensors of fewer bytes stay in the model.
        opset: the opset to write, 26 where it is not given; for an older one the graph must have been legalized.
        ir_version: the lowest that fits the opset where it is not given.
        functions: the bodies of Calls become local functions, each once, rather than being written out at each Call.
        target: what will run the file, as `passes.prepare` takes it. Where it is not given, the graph is written as it
            is, be there a runtime for it or not.

    The model appears only when all is written: a save that fails or is killed leaves the old model and its weights,
    and the next one removes what it left. Weights of the old model are removed when the new one stands, unless another
    model in the folder names them.
    Raises SerializeError for what the opset cannot say or one message cannot hold, and where no file can be written;
    StaleError where a weight has changed since the graph was made; RewriteError, with all of them, for operators that
    the target does not run, which `passes.prepare` writes in others.
    """
    if target is not None:
        chosen = upstairs("passes.targets").target_of(target, opset)
        upstairs("passes.legal.legalize").require_runnable(graph, chosen)
        opset = chosen.opset
    write_model(graph, path, Form(external, size_threshold, opset, ir_version, functions))


def to_onnx(
    model: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    opset: int | None = None,
    target: str | Target = "onnxruntime-cpu",
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    output_names: Sequence[str] | None = None,
    converters: Mapping[Any, Any] | None = None,
    strict: bool = False,
    optimize: bool = True,
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
    precision: Precision | DType | torch.dtype | str | None = None,
    quantize: Quantization | str | None = None,
    seed: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    scalar_inputs: Sequence[str] = (),
    specialization: str | None = None,
    widen: bool = True,
    capture: str = "auto",
    data: str | None = None,
    rewrite: Any = None,
    copy: bool = False,
    functions: Any = None,
) -> Program:
    """An ONNX program for a torch model; docs/guide/export_a_model.md has an example of each argument.

    Args:
        model: a module, function or method; or an `ExportedProgram`, FX `GraphModule` or `Graph`, or path of a `.pt2`.
        args, kwargs: example arguments, by place and by name; nested structures and caches as the model takes them.
        dynamic_shapes: any form that torch.export takes, or strings that name dimensions: `{"x": {0: "batch"}}`.
        opset: the ONNX opset, 13 to 26, honoured exactly or refused; the newest that the target runs if not given.
        target: what will run it: a name of `passes.targets.NAMES`, with "+com.microsoft" for instance, or a `Target`.
        input_names, output_names: names in order; for inputs also a mapping from names to new ones.
        converters: converters of your own by torch operator, which win over irkit's: functions from values to values,
            functions of ONNX or onnxscript, or graphs.
        strict: refuse operators that only torch's decomposition can express.
        optimize: False leaves the graph as it was lowered, but for what the target needs.
        rules: rules of your own, which go first, or a text that chooses among irkit's: "default-attention".
        precision: "float16", "bfloat16" or a `passes.precision.Precision`: compute in it as far as that is safe.
        quantize: "int4", "int8", "dynamic" or a `passes.Quantization`: keep weights as integers, and compute on them.
        seed: makes random draws repeatable (see `passes.seeded`); without it each session draws other numbers.
        progress: called with (stage, done, in all) as long stages go on.
        scalar_inputs: names of Python ints and floats among the arguments that shall be inputs, not constants.
        specialization: "report" makes dimensions that the model fixes static, "error" lists all, None raises for one.
        widen: False does not look whether sizes 0 and 1, where torch refuses them, give the same graph.
        capture: "direct", "torch.export", or "auto": the first, then the second (docs/understand/capture.md).
        data: "refuse" refuses a model that is right for some data only: one that asks for numbers in tensors.
        rewrite: True computes branches and loops on data (docs/guide/control_flow.md); or the functions, where to.
        copy: True copies weights; otherwise large ones stay the model's, and raise StaleError once written into.
        functions: True, a set of classes, or a predicate of path and module: submodules that stay local functions.

    Returns the program, called as the model is and computed by ONNX Runtime. Raises CaptureError where it cannot be
    captured, MissingConverters and LoweringError where not lowered, RewriteError or SerializeError for opset or target.
    """
    options = {name: given for name, given in locals().items() if name not in ("model", "args", "kwargs")}
    chosen = upstairs("lowering.records.options").ExportOptions(**options)
    return upstairs("lowering.program.to_onnx").export_model(model, args, kwargs, chosen)
