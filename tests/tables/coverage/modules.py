"""torch's database of modules: every nn.Module with the inputs that torch tests it with, in training and evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing._internal.common_modules import module_db

from tests.tables.coverage.subjects import Subject, described

MODULES = {info.name: info for info in module_db}
PHASES = ("eval", "train")
WHERE = (("float32", "static"), ("float32", "dynamic"), ("float64", "static"), ("float16", "static"),
         ("bfloat16", "static"))  # fmt: skip
"""Element types and modes: sizes are varied in float32 only, other element types take evaluation only."""


def cells() -> Iterator[tuple[str, str, str]]:
    """(name, element type, mode) of each cell."""
    for name, info in MODULES.items():
        for phase in PHASES:
            for dtype, mode in WHERE:
                if getattr(torch, dtype) in info.dtypes and (dtype == "float32" or phase == "eval"):
                    yield f"{name}.{phase}", dtype, mode


def subjects(name: str, dtype: str, mode: str) -> Iterator[Subject]:
    """The calls of one cell."""
    title, _, phase = name.rpartition(".")
    info, training = MODULES[title], phase == "train"
    kind = getattr(torch, dtype)
    every = info.module_inputs_func(info, device="cpu", dtype=kind, requires_grad=False, training=training)
    for given in every:
        build, call = given.constructor_input, given.forward_input
        kind_of_module: Any = info.module_cls
        model = kind_of_module(*build.args, **build.kwargs).to(kind).train(training)
        if issubclass(kind_of_module, LazyModuleMixin):
            model(*call.args, **call.kwargs)  # which gives it its weights
        words = f"{title}({described(build.args, build.kwargs)})({described(call.args, call.kwargs)})"
        shapes: Any = "every" if mode == "dynamic" else None
        yield Subject(model, tuple(call.args), dict(call.kwargs), words, shapes)
