"""torch.export's database of programs: the language features that it says it supports, in whole small models."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from torch._export.db.case import SupportLevel
from torch._export.db.examples import filter_examples_by_support_level

from tests.tables.coverage.subjects import Subject, described

EXAMPLES = dict(filter_examples_by_support_level(SupportLevel.SUPPORTED))
LEFT_OUT = frozenset([("scalar_output", "static")])
"""Where sizes are fixed it returns a number, and no tensor that an ONNX model could have as its result."""


def cells() -> Iterator[tuple[str, str, str]]:
    """(name, "mixed", mode) of each cell: the element types are those of the example."""
    for name in EXAMPLES:
        for mode in ("static", "dynamic"):
            if (name, mode) not in LEFT_OUT:
                yield name, "mixed", mode


def subjects(name: str, dtype: str, mode: str) -> Iterator[Subject]:
    """The example; in dynamic mode with the dimensions that torch makes dynamic in it, and with all of them."""
    example = EXAMPLES[name]
    args, kwargs = copy.deepcopy(example.example_args), dict(example.example_kwargs)
    words = f"{name}({described(args, kwargs)})"
    others = ((tuple(example.extra_args), {}),) if example.extra_args else ()
    if mode == "static":
        yield Subject(example.model, args, kwargs, words, None)
        return
    if example.dynamic_shapes is not None:
        yield Subject(example.model, args, kwargs, f"{words}, torch's own dimensions", example.dynamic_shapes, others)
    yield Subject(example.model, args, kwargs, words, "every", others)
