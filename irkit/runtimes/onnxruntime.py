"""Files on ONNX Runtime's CPU provider, with its optimizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime

from irkit.runtimes.exchange import Answer


def load(path: Path) -> Callable[[Mapping[str, np.ndarray]], Answer]:
    """What runs the file on arrays by name. Raises what ONNX Runtime raises for a file that it does not take."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(feeds: Mapping[str, np.ndarray]) -> Answer:
        return Answer(tuple(np.asarray(each) for each in session.run(None, dict(feeds))))

    return run
