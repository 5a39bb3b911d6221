"""What one process asks of another that runs a model, and what it is told: a file of JSON, and a file for each array.

A request names the model and the calls, each with its inputs and the file that its answer goes to. An answer is the
results in the order of the model's outputs, or the text of what went wrong. It says nothing of Python, so that a script
for node reads the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from irkit.core.types import DType


@attrs.frozen(eq=False)
class Answer:
    """What became of a call: the results in the order of the model's outputs, or the problem; `note` says what the
    runtime needed, such as sizes that are fixed when the model is loaded."""

    results: tuple[np.ndarray, ...] = ()
    problem: str = ""
    note: str = ""

    def __bool__(self) -> bool:
        return not self.problem


def write_array(path: Path, array: np.ndarray) -> dict[str, Any]:
    """Writes the elements of an array; returns its element type, shape and file, as the JSON has them."""
    path.write_bytes(np.ascontiguousarray(array).tobytes())
    return {"dtype": str(array.dtype), "shape": list(array.shape), "file": str(path)}


def read_array(told: Mapping[str, Any]) -> np.ndarray:
    """The array that `write_array` told of."""
    dtype = DType[ELEMENTS[told["dtype"]]].numpy if told["dtype"] in ELEMENTS else np.dtype(told["dtype"])
    return np.frombuffer(Path(told["file"]).read_bytes(), dtype).reshape(told["shape"]).copy()


ELEMENTS: Mapping[str, str] = {"bfloat16": "BFLOAT16"}
"""Element types that numpy has no name of its own for."""


def write_request(folder: Path, model: Path, feeds: Sequence[Mapping[str, np.ndarray]]) -> Path:
    """Writes what is asked; returns the file that says it."""
    calls: list[dict[str, Any]] = []
    for at, given in enumerate(feeds):
        told = ((name, write_array(folder / f"{at}.in.{i}", array)) for i, (name, array) in enumerate(given.items()))
        inputs = [{"name": name, **each} for name, each in told]
        calls.append({"inputs": inputs, "output": str(folder / f"{at}.out")})
    path = folder / "request.json"
    path.write_text(json.dumps({"model": str(model.resolve()), "calls": calls}), encoding="utf-8")
    return path


def read_request(path: Path) -> tuple[Path, list[tuple[dict[str, np.ndarray], Path]]]:
    """(model, calls): for each call the arrays by name, and where its answer goes."""
    asked = json.loads(path.read_text(encoding="utf-8"))
    calls = [
        ({each["name"]: read_array(each) for each in call["inputs"]}, Path(call["output"])) for call in asked["calls"]
    ]
    return Path(asked["model"]), calls


def write_answer(path: Path, answer: Answer) -> None:
    """Writes an answer."""
    told = [write_array(path.with_name(f"{path.name}.{i}"), each) for i, each in enumerate(answer.results)]
    found = {"results": told, "problem": answer.problem, "note": answer.note}
    path.write_text(json.dumps(found), encoding="utf-8")


def read_answer(path: Path) -> Answer:
    """The answer that was written there."""
    told = json.loads(path.read_text(encoding="utf-8"))
    return Answer(tuple(map(read_array, told["results"])), told["problem"], told.get("note", ""))


def read_answers(request: Path, otherwise: str) -> tuple[Answer, ...]:
    """The answers to a request, in order; `otherwise` is the problem of those that were not given."""
    return tuple(read_answer(path) if path.exists() else Answer(problem=otherwise) for path in outputs_of(request))


def is_answered(request: Path) -> bool:
    """True where each call of a request has its answer."""
    return all(path.exists() for path in outputs_of(request))


def outputs_of(request: Path) -> list[Path]:
    """The files that the answers to a request go to."""
    return [Path(call["output"]) for call in json.loads(request.read_text(encoding="utf-8"))["calls"]]


def mark_second(request: Path) -> None:
    """Says of a request that the process ended at it, and that this is the second time."""
    request.with_name("second").touch()


def is_second(request: Path) -> bool:
    """True where a process ended at the request before."""
    return request.with_name("second").exists()
