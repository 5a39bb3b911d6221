"""A program that another runtime runs: the file that is saved, in a process of the runtime's own."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from irkit.errors import EvaluateError
from irkit.runtimes import Answer, Runtime, run_file, runtime_named
from lowering.program.program import Program


@attrs.frozen(eq=False, repr=False)
class ElsewhereProgram(Program):
    """A program whose calls a runtime answers: those of `answers` it has answered already, by what is fed.

    The file is the one that `save` writes; where data break a condition, it fails there.
    """

    runtime: Runtime = attrs.field(kw_only=True)
    answers: Mapping[str, Answer] = attrs.field(kw_only=True, factory=dict)

    def found(self, feeds: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """What the runtime gives. Raises EvaluateError with what it says where it cannot run the file."""
        answer = self.answers.get(digest(feeds)) or run_saved(self, [feeds], self.runtime)[0]
        if answer.problem:
            raise EvaluateError(f"{self.runtime.name} fails: {answer.problem}", hint="export for it: target=...")
        return answer.results

    def kept(self, found: Sequence[Any]) -> Sequence[Any]:
        """The results as they are: the file holds its conditions itself."""
        return found


def run_elsewhere(
    program: Program, runtime: str | Runtime, feeds: Sequence[Mapping[str, np.ndarray]] = ()
) -> ElsewhereProgram:
    """The program, whose calls a runtime answers; those of `feeds` at once, by one process. Raises IrkitError for a
    name of no runtime, and for one that is not installed, with what to install."""
    chosen = runtime_named(runtime) if isinstance(runtime, str) else runtime
    chosen.require()
    narrow = [program.narrowed(each) for each in feeds]
    return answered_program(program, chosen, narrow, run_saved(program, narrow, chosen) if narrow else ())


def answered_program(
    program: Program, runtime: Runtime, feeds: Sequence[Mapping[str, np.ndarray]], answers: Sequence[Answer]
) -> ElsewhereProgram:
    """The program, whose calls with `feeds` have `answers`, and whose other calls the runtime answers."""
    known = {digest(each): answer for each, answer in zip(feeds, answers, strict=True)}
    held = {field.name: getattr(program, field.name) for field in attrs.fields(Program)}
    return ElsewhereProgram(**held, runtime=runtime, answers=known)


def run_saved(program: Program, feeds: Sequence[Mapping[str, np.ndarray]], runtime: Runtime) -> tuple[Answer, ...]:
    """The answers of a runtime to some calls of the file of a program."""
    with tempfile.TemporaryDirectory(prefix="irkit-") as folder:
        return run_file(program.save(Path(folder) / "model.onnx"), feeds, runtime)


def digest(feeds: Mapping[str, np.ndarray]) -> str:
    """What tells arrays from others."""
    found = hashlib.blake2b()
    for name, array in sorted(feeds.items()):
        found.update(f"{name}{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
