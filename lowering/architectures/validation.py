"""One architecture from its configuration to numbers: captured, exported, compared with eager at several input sets."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch

from irkit.errors import IrkitError
from irkit.runtimes import RUNTIMES as ELSEWHERE
from lowering.architectures.catalogue import Architecture, architecture
from lowering.capture.patched import patch_named, patched, replacements_of
from lowering.piecewise.trials import PieceProgram
from lowering.program.check import run
from lowering.program.elsewhere import run_elsewhere
from lowering.program.program import Program
from lowering.program.to_onnx import export_model
from lowering.records.options import ExportOptions


@attrs.frozen
class SetResult:
    """One call of the exported model beside eager: the sizes, the largest absolute error, and what is wrong."""

    name: str
    sizes: tuple[tuple[str, int], ...]
    error: float
    problem: str = ""


@attrs.frozen
class Validation:
    """What became of an architecture. True where it was exported and agrees with eager on every set of inputs.

    `seconds` are those of building the model, of the export, of capture in it, and of all comparisons; `nodes` are
    those of the ONNX model, `size` its bytes; `problem` is why there is none, `line` the line of the model.
    """

    name: str
    task: str
    capture: str = ""
    sets: tuple[SetResult, ...] = ()
    nodes: int = 0
    size: int = 0
    seconds: Mapping[str, float] = attrs.field(factory=dict)
    problem: str = ""
    line: str = ""

    def __bool__(self) -> bool:
        return not self.problem and bool(self.sets) and not any(each.problem for each in self.sets)

    @property
    def error(self) -> float:
        """The largest absolute error of all sets."""
        return max((each.error for each in self.sets), default=0.0)

    @property
    def said(self) -> str:
        """What is wrong, in one line; "ok" where nothing is."""
        wrong = [f"{each.name}: {each.problem}" for each in self.sets if each.problem]
        return " ".join((self.problem or "; ".join(wrong) or "ok").split())

    def asdict(self) -> dict[str, Any]:
        """The outcome as plain data, ready for JSON."""
        return {**attrs.asdict(self), "passed": bool(self)}

    def json(self) -> str:
        """`asdict` in one line of JSON."""
        return json.dumps(self.asdict())

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Validation:
        """What `asdict` gave."""
        told = {key: value for key, value in row.items() if key not in ("passed", "sets")}
        sets = tuple(SetResult(**{**s, "sizes": tuple(map(tuple, s["sizes"]))}) for s in row.get("sets", ()))
        return cls(**told, sets=sets)


def validate(
    name: str | Architecture,
    *,
    dtype: str = "float32",
    runtime: str = "onnxruntime",
    patch: Sequence[Any] = (),
    **options: Any,
) -> Validation:
    """An architecture built from its tiny configuration, exported, and compared with eager on each of its input sets:
    for a decoder prefill, an empty cache, decoding and batches of 1.

    `dtype` is "float32", "float64", or "float16" and "bfloat16", for the precision that is computed in; `runtime` is
    "onnxruntime", "irkit", which is the evaluator, or one of `irkit.runtimes.RUNTIMES`, which is then the target, too,
    unless another is given; `patch` are patches in place while it is captured, as
    `lowering.patched` takes them, or texts that name them (`package.module:name`, `file.py:name`). Other options are
    those of `irkit.to_onnx`: `opset`, `target`, `capture`, `quantize`, `rewrite`.

    Returns the outcome; what fails is part of it. Raises IrkitError for a name, dtype, runtime or
    patch that there is none of.
    """
    if dtype not in DTYPES:
        raise IrkitError(f"there is no dtype {dtype!r} to validate in", hint=f"take one of {', '.join(DTYPES)}")
    if runtime not in RUNTIMES:
        raise IrkitError(f"there is no runtime {runtime!r}", hint=f"take one of {', '.join(RUNTIMES)}")
    if runtime in ELSEWHERE and runtime != "onnxruntime":
        ELSEWHERE[runtime].require()
        options = {**options, "target": options.get("target") or ELSEWHERE[runtime].target}
    chosen = architecture(name) if isinstance(name, str) else name
    patches = [each if not isinstance(each, str) else patch_named(each) for each in patch]
    for each in patches:
        replacements_of(each)
    seconds: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given = {k: v for k, v in options.items() if v is not None}
            return validated(chosen, dtype, runtime, given, seconds, patches)
        except Exception as error:  # models raise anything
            line = error.source if isinstance(error, IrkitError) else last_line(error)
            what = f"{type(error).__name__}: {error.what if isinstance(error, IrkitError) else error}"
            return Validation(chosen.name, chosen.task, seconds=seconds, problem=what, line=line)


DTYPES = ("float32", "float64", "float16", "bfloat16")
RUNTIMES = ("onnxruntime", "irkit", *(name for name in ELSEWHERE if name != "onnxruntime"))
"""What may run a program: ONNX Runtime, irkit's evaluator, or one of `irkit.runtimes`, in a process of its own."""


def validated(
    chosen: Architecture,
    dtype: str,
    runtime: str,
    options: dict[str, Any],
    seconds: dict[str, float],
    patches: Sequence[Any] = (),
) -> Validation:
    """The outcome of an architecture. Raises what fails before the first comparison."""
    start = time.perf_counter()
    model = chosen.model()
    model = model.double() if dtype == "float64" else model
    sets = chosen.sets(model)
    seconds["build"] = time.perf_counter() - start
    asked = {"dynamic_shapes": sets.dynamic_shapes, **options}
    if dtype in ("float16", "bfloat16"):
        asked["precision"] = dtype
    with patched(*patches, classes=False):
        program = export_model(model, (), in_dtype(sets.example, dtype), ExportOptions(**asked))
    seconds["export"] = time.perf_counter() - start - seconds["build"]
    seconds["capture"] = program.report.seconds.get("capture", 0.0)
    if runtime == "irkit":
        held = {field.name: getattr(program, field.name) for field in attrs.fields(Program)}
        program = PieceProgram(**held, kernels={})
    elif runtime != "onnxruntime":
        program = run_elsewhere(program, runtime)
    found = tuple(
        compared(program, name, in_dtype(call, dtype))
        for name, call in {"example": sets.example, **sets.others}.items()
    )
    seconds["compare"] = time.perf_counter() - start - seconds["build"] - seconds["export"]
    size = program.proto.ByteSize()
    nodes = program.report.nodes.get("ONNX", 0)
    rounded = {key: round(value, 3) for key, value in seconds.items()}
    return Validation(chosen.name, chosen.task, program.report.capture, found, nodes, size, rounded)


def in_dtype(call: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The arguments of a call, floats in float64 where that is asked for."""

    def converted(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return {k: converted(v) for k, v in call.items()} if dtype == "float64" else dict(call)


def compared(program: Program, name: str, call: Mapping[str, Any]) -> SetResult:
    """One call of the program beside eager."""
    report = run(program, (), call)
    return SetResult(name, report.sizes, max((e[1] for e in report.errors), default=0.0), report.problem)


def last_line(error: Exception) -> str:
    """The innermost line that an error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno} {frames[-1].line}" if frames else ""
