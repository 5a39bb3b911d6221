"""Files on OpenVINO, on its CPU device, in the precision of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from irkit.runtimes.exchange import Answer
from irkit.runtimes.known import library

EXACT: Mapping[str, object] = {
    "INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_NUM_THREADS": 1,
}  # fmt: skip
"""OpenVINO computes in 16 bits on processors that have them, unless it is told not to."""


def load(path: Path) -> Callable[[Mapping[str, np.ndarray]], Answer]:
    """What runs the file on arrays by name. Raises what OpenVINO raises for a file that it does not take."""
    core = library("openvino").Core()
    compiled = core.compile_model(core.read_model(str(path)), "CPU", EXACT)

    def run(feeds: Mapping[str, np.ndarray]) -> Answer:
        found = compiled.create_infer_request().infer(dict(feeds), share_inputs=False)
        return Answer(tuple(np.array(found[port]) for port in compiled.outputs))

    return run
