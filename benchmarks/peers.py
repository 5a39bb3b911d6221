"""The files that torch.onnx writes of the benchmarks' models, and the tools that optimize ONNX files.

Every tool is a function from a file to a file. The files are kept in build/benchmark-files between runs.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "build" / "benchmark-files"


def irkit_tool(target: str) -> Callable[[Path, Path], None]:
    """irkit: load, the standard level, made ready for a target, saved."""

    def run(source: Path, output: Path) -> None:
        from passes import optimize_file

        optimize_file(source, output, target)

    return run


def onnxscript_tool(source: Path, output: Path) -> None:
    """onnxscript's optimizer, and its rules for ONNX Runtime."""
    import onnx_ir
    from onnxscript import optimizer
    from onnxscript.rewriter import ort_fusions

    model = onnx_ir.load(source)
    optimizer.optimize(model)
    ort_fusions.optimize_for_ort(model)
    onnx_ir.save(model, output)


def onnxslim_tool(source: Path, output: Path) -> None:
    """onnxslim with its defaults."""
    importlib.import_module("onnxslim").slim(str(source), str(output))


def onnxsim_tool(source: Path, output: Path) -> None:
    """onnxsim with its defaults."""
    import onnx

    simplified, _ = importlib.import_module("onnxsim").simplify(onnx.load(str(source)))
    onnx.save(simplified, str(output))


def ort(level: str) -> Callable[[Path, Path], None]:
    """ONNX Runtime's own optimizer at a level, which writes the model that it would run."""

    def run(source: Path, output: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = str(output)
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return run


TOOLS: dict[str, Callable[[Path, Path], None]] = {
    "irkit": irkit_tool("onnxruntime-cpu"), "irkit ort": irkit_tool("onnxruntime-cpu+com.microsoft"),
    "onnxscript": onnxscript_tool, "onnxslim": onnxslim_tool, "onnxsim": onnxsim_tool,
    "ort basic": ort("BASIC"), "ort extended": ort("EXTENDED"),
}  # fmt: skip
"""What is compared. Only the C++ tools run beside several threads of their own; all are held to one."""


def place(name: str, tool: str) -> Path:
    """Where the file that a tool makes of a model is kept."""
    return FOLDER / name / f"{tool.replace(' ', '-')}.onnx"


def captured(name: str, *, dynamic: bool = True) -> Any:
    """A model of the benchmarks, as irkit captures it."""
    import torch

    from benchmarks.models import EVERY
    from lowering.capture.capture import capture

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, args, kwargs, shapes = EVERY[name]()
    with torch.no_grad():  # fresh biases are zeros, which a trained model's are not, and some tools drop such an Add
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    return capture(model.eval(), args, kwargs, dynamic_shapes=shapes if dynamic else None, widen=False)


def write_by_torch(name: str, path: Path, *, optimize: bool = False) -> None:
    """Has torch.onnx write one file, with fixed sizes where it cannot do otherwise, and keeps example inputs beside it.

    A file that is there already stays.
    """
    import torch

    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    for dynamic in (True, False):  # torch.onnx cannot view some tensors of symbolic size
        found = captured(name, dynamic=dynamic)
        try:
            with found.pytrees():
                program: Any = torch.onnx.export(found.program, dynamo=True, optimize=optimize, verbose=False)
        except Exception as error:
            sizes = "dynamic" if dynamic else "fixed"
            print(f"torch.onnx cannot write {name} with {sizes} sizes: {type(error).__name__}", file=sys.stderr)
            continue
        program.save(str(path), external_data=False)
        keep_inputs(name, found)
        return


def write_by_irkit(name: str, path: Path, target: str) -> None:
    """irkit's export of a model for a target, and example inputs beside it."""
    from irkit.doors.to_onnx import save
    from lowering.fold.lower import lower_captured
    from passes import optimize, prepare
    from passes.targets import target_of

    path.parent.mkdir(parents=True, exist_ok=True)
    found, chosen = captured(name), target_of(target, None)
    save(prepare(optimize(lower_captured(found).graph), chosen), path, opset=chosen.opset)
    keep_inputs(name, found)


def keep_inputs(name: str, found: Any) -> None:
    """Keeps the inputs that a model's files are run on: its example, or one decoding step of it."""
    import torch

    from benchmarks.models import DECODE, step

    leaves = [leaf for leaf in found.examples() if isinstance(leaf, torch.Tensor)]
    np.savez(FOLDER / name / "inputs.npz", *[leaf.numpy() for leaf in (step(leaves) if name in DECODE else leaves)])


def count(path: Path) -> int:
    """The nodes of an ONNX file, with those of functions and of bodies."""
    import onnx

    def nodes(graph: Any) -> int:
        inner = (a.g for n in graph.node for a in n.attribute if a.HasField("g"))
        return len(graph.node) + sum(nodes(g) for g in inner)

    model = onnx.load(str(path), load_external_data=False)
    return nodes(model.graph) + sum(len(f.node) for f in model.functions)


def session(path: Path) -> Any:
    """A session on ONNX Runtime's CPU provider with its default options but one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def results(run: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results for inputs in order."""
    return run.run(None, {i.name: x for i, x in zip(run.get_inputs(), inputs, strict=True)})


def inputs_of(name: str) -> list[np.ndarray]:
    """The example inputs of a model, in order."""
    return list(np.load(FOLDER / name / "inputs.npz").values())


def largest_difference(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
    """Over all elements of all results."""
    pairs = [(a.astype(np.float64), b) for a, b in zip(expected, found, strict=True) if a.size]
    return max((float(np.max(np.abs(a - b))) for a, b in pairs), default=0.0)
