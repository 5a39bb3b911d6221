"""Integers by irkit, onnxruntime.quantization and neural compressor, of the same files: bytes, error, time.

`python benchmarks/quantization.py [--neural-compressor PYTHON]` writes small models in float32, has each quantize each
file in several ways, and runs all on ONNX Runtime on one thread. The error is the norm of the difference from the
float32 file's result, as a part of that result's norm; times are the least CPU times of some rounds, in turns, as a
part of the float32 file's. Neural compressor wants older versions of what irkit needs, and so an environment of its
own, whose Python is named, with two packages that it imports and does not ask for: `python3 -m venv nc`,
`nc/bin/pip install onnx-neural-compressor==1.0 onnx==1.16.2 onnxruntime==1.20.1 prettytable scipy 'numpy<2'
'setuptools<70'`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import numpy as np
import onnx
import onnxruntime
import torch
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import irkit  # noqa: E402
import passes  # noqa: E402
from passes import Quantization  # noqa: E402

ROUNDS, SAMPLES = 30, 4
OPSET = 20
"""Of the files that neural compressor is given: its ONNX Runtime knows none above 21."""
CONTRIB = "onnxruntime-cpu+com.microsoft"


@attrs.frozen(eq=False)
class Subject:
    """A float32 model with what makes inputs for it."""

    name: str
    model: torch.nn.Module
    draw: Callable[[], torch.Tensor]


def subjects() -> list[Subject]:
    """A transformer encoder, a convolutional net with a residual, and a wide perceptron whose inputs have outliers."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu")
    encoder = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 100),
    )
    wide = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
    outliers = torch.where(torch.arange(512) % 64 == 0, 30.0, 1.0)
    return [
        Subject("encoder", encoder, lambda: torch.randn(4, 32, 256)),
        Subject("convolutions", net, lambda: torch.randn(4, 3, 64, 64)),
        Subject("outliers", wide, lambda: torch.randn(16, 512) * outliers),
    ]


class Reader:
    """Sample inputs, as ONNX Runtime's calibration takes them."""

    def __init__(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        self.left = iter([{name: each} for each in arrays])

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        """The next inputs; None after the last."""
        return next(self.left, None)


def by_runtime(way: str, source: Path, output: Path, name: str, arrays: Sequence[np.ndarray]) -> None:
    """What onnxruntime.quantization makes of a file."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    if way == "int4":
        made: Any = MatMulNBitsQuantizer(onnx.load(source), bits=4, block_size=32, is_symmetric=False)
        made.process()
        cast(Any, made.model).save_model_to_file(str(output))
    elif way == "dynamic":
        quantize_dynamic(
            source, output, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"]
        )
    elif way == "gptq":
        raise ValueError("onnxruntime's needs neural-compressor")
    else:
        quantize_static(
            source,
            output,
            cast(Any, Reader(name, arrays)),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            extra_options={"SmoothQuant": True} if way == "smooth" else {},
        )


def by_irkit(way: str, source: Path, output: Path, name: str, arrays: Sequence[np.ndarray]) -> None:
    """What irkit makes of a file."""
    feeds = [{name: each} for each in arrays]
    wanted: Any = way
    if way == "static":
        wanted = Quantization(activations="static", feeds=feeds)
    elif way == "smooth":
        wanted = Quantization(activations="static", smooth=0.5, feeds=feeds)
    elif way == "gptq":
        wanted = Quantization(weights="uint4", block=32, rounding="gptq", feeds=feeds)
    target = CONTRIB if way in ("int4", "gptq") else "onnxruntime-cpu"
    made = passes.quantize(passes.optimize(irkit.load(source)), wanted, target=target)
    irkit.save(passes.prepare(made.graph, target), output)


def by_neural_compressor(
    python: str, older: Path, way: str, _: Path, output: Path, name: str, arrays: Sequence[np.ndarray]
) -> None:
    """What neural compressor makes of the file of an older opset. Raises RuntimeError with what it says last."""
    samples = output.with_suffix(".npz")
    np.savez(samples, allow_pickle=False, **{f"{name}.{at}": each for at, each in enumerate(arrays)})
    script = Path(__file__).with_name("neural_compressor_files.py")
    done = subprocess.run(
        [python, str(script), way, str(older), str(output), str(samples)], capture_output=True, text=True, check=False
    )
    if done.returncode or not output.exists():
        raise RuntimeError((done.stderr.strip().splitlines() or ["it wrote no file"])[-1])


def size_of(path: Path) -> int:
    """How many bytes a model takes, with the weights that lie beside it."""
    model = onnx.load(path, load_external_data=False)
    beside = {
        entry.value for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == "location"
    }
    return path.stat().st_size + sum((path.parent / name).stat().st_size for name in beside)


def session(path: Path) -> onnxruntime.InferenceSession:
    """A session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def measured(paths: Mapping[str, Path], name: str, x: np.ndarray) -> dict[str, tuple[int, float, float]]:
    """(bytes, error, seconds) of each file; the first is what the others are compared with."""
    sessions = {key: session(path) for key, path in paths.items()}
    results = {key: each.run(None, {name: x})[0] for key, each in sessions.items()}
    exact = next(iter(results.values()))
    least = dict.fromkeys(paths, float("inf"))
    for _ in range(ROUNDS):
        for key, each in sessions.items():
            start = time.thread_time()
            each.run(None, {name: x})
            least[key] = min(least[key], time.thread_time() - start)
    size = float(np.linalg.norm(exact))
    return {
        key: (size_of(path), float(np.linalg.norm(results[key] - exact)) / size, least[key])
        for key, path in paths.items()
    }


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neural-compressor", metavar="PYTHON", help="of an environment with onnx-neural-compressor")
    python = parser.parse_args().neural_compressor
    if python is None:
        print("neural compressor is left out: name the Python that has it, --neural-compressor PYTHON", file=sys.stderr)
    table = Table("model", "way", "by", "bytes", "error", "time", title="beside float32")
    for subject in subjects():
        with tempfile.TemporaryDirectory() as folder:
            x = subject.draw()
            program = irkit.to_onnx(subject.model.eval(), (x,))
            paths = {"float32": Path(folder) / "float32.onnx"}
            program.save(paths["float32"])
            name = next(iter(program.feeds((x,), {})))
            arrays = [subject.draw().numpy() for _ in range(SAMPLES)]
            makers: dict[str, Callable[..., None]] = {"irkit": by_irkit, "onnxruntime": by_runtime}
            if python is not None:
                older = Path(folder) / "older.onnx"
                irkit.to_onnx(subject.model.eval(), (x,), opset=OPSET).save(older)
                makers["neural-compressor"] = partial(by_neural_compressor, python, older)
            for way in ("int4", "gptq", "dynamic", "static", "smooth"):
                for by, make in makers.items():
                    path = Path(folder) / f"{way}-{by}.onnx"
                    try:
                        make(way, paths["float32"], path, name, arrays)
                        paths[f"{way} {by}"] = path
                    except Exception as error:  # a peer may raise anything
                        table.add_row(subject.name, way, by, "", f"{type(error).__name__}: {error}"[:50], "")
            found = measured(paths, name, x.numpy())
        whole, _, slowest = found.pop("float32")
        for key, (count, error, seconds) in found.items():
            way, by = key.split()
            table.add_row(subject.name, way, by, f"{count / whole:.3f}", f"{error:.4f}", f"{seconds / slowest:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
