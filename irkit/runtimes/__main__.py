"""`python -m irkit.runtimes NAME REQUEST ...`: answers the calls of requests, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from irkit.runtimes import onnx_reference, onnxruntime, openvino, tract
from irkit.runtimes.exchange import Answer, is_second, read_request, write_answer

Load = Callable[[Path], Callable[[Mapping[str, np.ndarray]], Answer]]

LOADERS: Mapping[str, Load] = {
    "openvino": openvino.load, "tract": tract.load, "onnx-reference": onnx_reference.load,
    "onnxruntime": onnxruntime.load,
}  # fmt: skip
"""How each runtime loads a file."""

SECOND: Mapping[str, Load] = {"tract": tract.load_fixed}
"""How runtimes load a file at which their process ended, where that is not what they did before."""

SAID = 500
"""So many characters of an error are told."""


def told(error: Exception) -> str:
    """An error in one line."""
    text = str(error).partition("Stack backtrace")[0]
    return " ".join(f"{type(error).__name__}: {text}".split())[:SAID]


def main(name: str, request: Path) -> None:
    """Writes the answers to a request."""
    path, calls = read_request(request)
    try:
        run = SECOND[name](path) if is_second(request) and name in SECOND else LOADERS[name](path)
    except Exception as error:  # each runtime raises classes of its own
        for _, output in calls:
            write_answer(output, Answer(problem=told(error)))
        return
    for feeds, output in calls:
        try:
            answer = run(feeds)
        except Exception as error:  # each runtime raises classes of its own
            answer = Answer(problem=told(error))
        write_answer(output, answer)


if __name__ == "__main__":
    for each in sys.argv[2:]:
        main(sys.argv[1], Path(each))
