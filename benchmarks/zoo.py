"""Module to file by direct capture beside torch.export alone, over the models of docs/measured/models.md: CPU seconds.

    python -m benchmarks.zoo
    python -m benchmarks.zoo --every 4 --runs 2
    python -m benchmarks.zoo llama_cache bert

Each line has the seconds of both, the least of a few runs in turns, and their ratio; the last one the geometric mean of
the ratios and the greatest.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import irkit
from benchmarks.whole import seconds
from lowering.capture.inputs.calls import as_module, name_of
from lowering.direct.request import request_of
from lowering.records.options import ExportOptions
from lowering.records.programs import register_caches
from lowering.records.pytrees import register_classes
from tests.zoo.case import Case
from tests.zoo.cases import CASES, case_named


def shapes_of(model: Any, args: Any, kwargs: Any, names: Any) -> Any:
    """What torch.export is told of the dimensions that vary: by tensor, as that takes any structure of arguments."""
    found = torch.export.ShapesCollection()
    request = request_of(as_module(model), name_of(model), args, kwargs, ExportOptions(dynamic_shapes=names))
    for leaf, shape in zip(request.leaves, request.shapes, strict=True):
        if isinstance(leaf.value, torch.Tensor):
            varying = {axis: torch.export.Dim.AUTO for axis, dim in enumerate(shape) if type(dim) is not int}
            if varying:
                found[leaf.value] = varying
    return found


def spent(case: Case, runs: int) -> tuple[float, float]:
    """(seconds by direct capture, seconds of torch.export alone) for a model. Raises what either raises."""
    model, args, kwargs = case.build()
    least = [math.inf, math.inf]
    with tempfile.TemporaryDirectory() as folder:
        files = (Path(folder) / f"{number}.onnx" for number in itertools.count())

        def direct(given: tuple[Any, Any]) -> None:
            program = irkit.to_onnx(model, *given, dynamic_shapes=case.dynamic_shapes, capture="direct")
            program.save(next(files))  # a new one each time, as a user's first: to replace a file takes longer

        def alone(given: tuple[Any, Any], shapes: Any) -> None:
            torch.export.export(model, *given, dynamic_shapes=shapes, strict=False)

        for _ in range(runs):
            given = copy.deepcopy((args, kwargs))
            least[0] = min(least[0], seconds(lambda given=given: direct(given))[0])
            given = copy.deepcopy((args, kwargs))
            with register_classes(*given) as known:
                register_caches(known)  # those that a model returns
                shapes = shapes_of(model, *given, case.dynamic_shapes)
                took, _ = seconds(lambda given=given, shapes=shapes: alone(given, shapes))
            least[1] = min(least[1], took)
    return least[0], least[1]


def load_once() -> None:
    """Has either way load what a process loads once: sympy, say, loads its tensors with the first sum of sizes."""
    model, given = torch.nn.ZeroPad1d((1, 2)), (torch.ones(3, 5),)
    irkit.to_onnx(model, given, dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    dynamic: Any = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)
    torch.export.export(model, given, dynamic_shapes=dynamic, strict=False)


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each model, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[], metavar="MODEL")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth model")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cases = [case_named(name) for name in given.models] or CASES[:: given.every]
    load_once()
    ratios: dict[str, float] = {}
    for case in cases:
        torch.manual_seed(0)
        try:
            ours, theirs = spent(case, given.runs)
        except Exception as error:
            print(f"{case.name:32} {type(error).__name__}: {str(error).splitlines()[0][:80]}", flush=True)
            continue
        ratios[case.name] = ours / theirs
        print(f"{case.name:32} {ours:7.3f} {theirs:7.3f}  {ours / theirs:.3f}", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        worst = max(ratios, key=lambda name: ratios[name])
        print(f"{len(ratios)} models: geometric mean {mean:.3f}, the greatest {ratios[worst]:.3f} ({worst})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
