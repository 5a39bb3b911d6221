"""A file run by a runtime in a process of its own: what crashes there, crashes alone."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from irkit.runtimes.exchange import Answer, is_answered, is_second, mark_second, read_answers, write_request
from irkit.runtimes.known import Runtime, runtime_named

TAIL = 600
"""So many characters of what a process said last are told."""


def run_file(
    path: str | Path,
    feeds: Sequence[Mapping[str, np.ndarray]],
    runtime: str | Runtime = "onnxruntime",
    *,
    seconds: float = 600.0,
) -> tuple[Answer, ...]:
    """What a runtime gives for each of some calls of an ONNX file: the arrays of its outputs in order, or the problem.

    The runtime works in a process of its own, with one thread, and loads the file once. Arrays are given by input name.
    An answer is false where the file was not loaded, a call failed, or the process ended or took longer than `seconds`.
    Raises IrkitError for a name of no runtime, and for one that is not installed, with what to install.
    """
    return next(run_files([(path, feeds)], runtime, seconds=seconds))


Job = tuple[str | Path, Sequence[Mapping[str, np.ndarray]]]
"""A file, and the arrays of each call of it by input name."""


def run_files(
    jobs: Sequence[Job], runtime: str | Runtime = "onnxruntime", *, seconds: float = 600.0
) -> Iterator[tuple[Answer, ...]]:
    """The answers of `run_file` for each of some files, in order, which one process runs; where it ends early, what it
    was at has the problem, and another process goes on: from there, where the runtime has a second way to load a file.
    `seconds` are for each process."""
    chosen = runtime_named(runtime) if isinstance(runtime, str) else runtime
    chosen.require()
    with tempfile.TemporaryDirectory(prefix="irkit-") as folder:
        requests: list[Path] = []
        for at, (path, feeds) in enumerate(jobs):
            place = Path(folder) / str(at)
            place.mkdir()
            requests.append(write_request(place, Path(path), feeds))
        pending = requests
        while pending:
            problem = process_of(chosen, pending, seconds)
            done = next((at for at, each in enumerate(pending) if not is_answered(each)), len(pending))
            yield from (read_answers(each, "") for each in pending[:done])
            pending = pending[done:]
            if pending and chosen.tries_again and not is_second(pending[0]):
                mark_second(pending[0])
                continue
            yield from (read_answers(each, problem) for each in pending[:1])
            pending = pending[1:]


def process_of(runtime: Runtime, requests: Sequence[Path], seconds: float) -> str:
    """Runs the process that answers requests; returns what is wrong with the first call that it left unanswered."""
    here = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
    told = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    try:
        done = subprocess.run(
            runtime.command(requests),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env=told,
        )
    except subprocess.TimeoutExpired:
        return f"{runtime.name} took more than {seconds:g} seconds"
    said = done.stderr.partition("stack backtrace:")[0]  # Rust says why before it, and paths of its build in it
    last = " ".join(said[-TAIL:].split())
    if done.returncode < 0:
        return f"the process of {runtime.name} was ended by signal {-done.returncode}: {last}"
    return last or f"the process of {runtime.name} ended with {done.returncode}"
