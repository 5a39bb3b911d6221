"""torch.onnx's file of a model of the zoo, written once and kept: what each runtime is given, and what eager gives."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch

from lowering.capture.capture import capture
from lowering.program.check import copied
from lowering.records.torch_internals import pytree
from lowering.records.types import array_of
from tests.zoo.case import Case, Dims

PLACE = Path(__file__).parents[2] / "build" / "torch_onnx"
"""Where files are kept, for each version of torch and each case a folder."""

Feeds = Mapping[str, np.ndarray]


@attrs.frozen(eq=False)
class TorchFile:
    """The file of torch.onnx (`path`), the arrays of its inputs at each of `sizes`, and eager's results there;
    `problem` where there is no file."""

    path: Path
    sizes: tuple[Dims, ...] = ()
    feeds: tuple[Feeds, ...] = ()
    expected: tuple[tuple[np.ndarray, ...], ...] = ()
    problem: str = ""


def torch_file(case: Case, place: Path = PLACE) -> TorchFile:
    """The file that torch.onnx writes of a case, or the one that it wrote before."""
    folder = place / torch.__version__ / case.name
    told = folder / "calls.pickle"
    if not told.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            made = written(case, Path(fresh) / "model.onnx")
            if made.problem:
                return made
            with (Path(fresh) / told.name).open("wb") as file:
                pickle.dump((made.sizes, made.feeds, made.expected), file)
            shutil.copytree(fresh, folder, dirs_exist_ok=True)
    with told.open("rb") as file:
        return TorchFile(folder / "model.onnx", *pickle.load(file))


def written(case: Case, path: Path) -> TorchFile:
    """The file, newly exported from the ExportedProgram that irkit captures."""
    model, args, kwargs = case.build()
    sizes = (case.traced, *case.assignments)
    try:
        found = capture(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, widen=False)
        exported: Any = found.program
        with found.pytrees():
            made: Any = torch.onnx.export(exported, dynamo=True, verbose=False)
        made.save(str(path), external_data=False)
    except Exception as error:  # exporters raise anything
        return TorchFile(path, problem=f"no file: {in_one_line(error)}")
    names = [port.name for port in made.model.graph.inputs]
    feeds: list[Feeds] = []
    expected: list[tuple[np.ndarray, ...]] = []
    for dims in sizes:
        args, kwargs = case.inputs(dims)
        leaves = found.leaves_of(copied(args), copied(kwargs))
        feeds.append(dict(zip(names, arrays_of(leaves, len(names)), strict=True)))
        with torch.no_grad(), found.pytrees():
            results = pytree.tree_leaves(model(*copied(args), **copied(kwargs)))
        expected.append(arrays_of(results, len(made.model.graph.outputs)))
    return TorchFile(path, sizes, tuple(feeds), tuple(expected))


def arrays_of(leaves: Sequence[Any], count: int) -> tuple[np.ndarray, ...]:
    """The tensors of some leaves as arrays; the numbers among them, too, where a file with `count` ports has these."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(tensors) < count:
        tensors = [torch.as_tensor(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor | int | float)]
    return tuple(map(array_of, tensors))


def in_one_line(error: BaseException) -> str:
    """An error in one line: what it came of, where it says so."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
