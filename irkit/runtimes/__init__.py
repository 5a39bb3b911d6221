"""Files run by other runtimes than ONNX Runtime's Python package: OpenVINO, tract, onnxruntime-web, the reference."""

from irkit.runtimes.apart import run_file, run_files
from irkit.runtimes.exchange import Answer
from irkit.runtimes.known import RUNTIMES, Runtime, runtime_named

__all__ = [
    "RUNTIMES",
    "Answer",
    "Runtime",
    "run_file",
    "run_files",
    "runtime_named",
]
