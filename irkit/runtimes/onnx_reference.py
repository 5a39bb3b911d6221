"""Files on the reference evaluator of the package onnx."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator

from irkit.runtimes.exchange import Answer


def load(path: Path) -> Callable[[Mapping[str, np.ndarray]], Answer]:
    """What runs the file on arrays by name. Raises what the evaluator raises for a file that it does not take."""
    evaluator: Any = ReferenceEvaluator(str(path))

    def run(feeds: Mapping[str, np.ndarray]) -> Answer:
        with np.errstate(all="ignore"):
            found = evaluator.run(None, dict(feeds))
        return Answer(tuple(np.asarray(each) for each in found))

    return run
