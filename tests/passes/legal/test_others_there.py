"""The quirks of other runtimes, seen there: what is written for them agrees, and what they are about does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import irkit
from irkit.evaluation.interpreter import evaluate
from irkit.runtimes import RUNTIMES, Answer, run_files
from passes import prepare
from passes.legal.others.quirks import OTHERS
from passes.targets.measured import measured_version
from tests.passes.legal.test_others import GRAPHS, NAMED, arrays

ROWS = {
    NAMED[provider]: [row.quirk.name for row in rows if row.quirk.name in GRAPHS] for provider, rows in OTHERS.items()
}
VERSIONS = {NAMED[provider]: measured_version(provider) for provider in OTHERS}


def problems(target: str, prepared_for: str, folder: Path) -> dict[str, list[str]]:
    """What a runtime gets wrong of the examples of each of its rows, prepared for it or for any; empty words where
    nothing."""
    jobs, expected = [], []
    examples = [(name, graph) for name in ROWS[target] for graph in GRAPHS[name]]
    for at, (_, graph) in enumerate(examples):
        fed, path = arrays(graph), folder / f"{at}.onnx"
        irkit.save(prepare(graph, prepared_for), path)
        ports = [port.name for port in onnx.load(path).graph.input]
        jobs.append((path, [dict(zip(ports, fed, strict=True))]))
        expected.append([np.asarray(each) for each in evaluate(graph, fed)])
    found: dict[str, list[str]] = {name: [] for name in ROWS[target]}
    for (name, _), wanted, (answer,) in zip(examples, expected, run_files(jobs, RUNTIMES[target]), strict=True):
        found[name].append(problem_of(wanted, answer))
    return found


def problem_of(wanted: Sequence[np.ndarray], answer: Answer) -> str:
    """What is wrong with an answer; empty where it agrees."""
    if answer.problem:
        return answer.problem
    for array, result in zip(wanted, answer.results, strict=True):
        if (result.dtype, result.shape) != (array.dtype, array.shape):
            return f"{result.dtype}{result.shape} instead of {array.dtype}{array.shape}"
        exact = array.dtype.kind in "biu"  # of which an off-by-one beyond 2^24 is as wrong as any
        if not (np.array_equal(result, array) if exact else np.allclose(result, array, 1e-4, 1e-5, equal_nan=True)):
            return f"{result} instead of {array}"
    return ""


@pytest.mark.parametrize("target", ROWS)
def test_what_is_written_for_a_runtime_agrees_there(target: str, tmp_path: Path) -> None:
    if not RUNTIMES[target].version():
        pytest.skip(f"{target} is an extra, and is not installed: {RUNTIMES[target].install}")
    assert {name: "".join(each) for name, each in problems(target, target, tmp_path).items()} == dict.fromkeys(
        ROWS[target], ""
    )


@pytest.mark.parametrize("target", ROWS)
def test_each_row_is_about_what_its_runtime_gets_wrong(target: str, tmp_path: Path) -> None:
    if RUNTIMES[target].version() != VERSIONS[target]:
        pytest.skip(f"rows are of {target} {VERSIONS[target]}: {RUNTIMES[target].install}")
    found = problems(target, "onnx", tmp_path)
    assert not [name for name, each in found.items() if not any(each)], "rows that nothing needs"
