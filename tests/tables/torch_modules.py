"""docs/measured/torch_modules.md: ONNX's node cases and the models of the zoo, as torch modules.

`python -m tests.tables.torch_modules [--models N]` compares all of them, N-th models only, and writes the page.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import irkit
from lowering import as_module
from lowering.records.types import tensor_of
from lowering.torch_modules.kernel_calls import as_array, as_held, by_kernel
from tests.support.node_cases import Case, cases
from tests.zoo.case import Case as Model
from tests.zoo.cases import CASES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "measured" / "torch_modules.md"
DRAWING = frozenset(("Bernoulli", "ImageDecoder", "RandomNormalLike", "RandomUniformLike"))
"""Operators whose cases say nothing of their numbers, or need a library that is not there."""
WITHOUT_SHAPES = ("test_identity_sequence", "test_sequence_insert_at_back", "test_sequence_insert_at_front")
"""Cases that irkit does not load: a sequence of tensors of no rank that the file tells."""
DRAWN = ("test_training_dropout",)


def chosen_cases() -> list[Case]:
    """The cases that are compared."""
    return [case for case in cases() if case.op not in DRAWING and case.name not in WITHOUT_SHAPES]


def kernels_in(module: Any) -> list[str]:
    """The operators of a module that irkit's kernels compute."""
    texts = [node.kwargs["text"] for node in module.graph.nodes if node.target is by_kernel]
    return [text.split(" = ")[1].split("(")[0] for text in texts]


def differences(case: Case) -> str:
    """What a node case as a module gives otherwise than irkit's evaluator; empty where nothing is."""
    graph = irkit.load(case.model)
    module = as_module(graph)
    found = module(*(as_held(each, p.type) for each, p in zip(case.inputs, graph.params, strict=True)))
    arrays = [as_array(each) for each in (found if isinstance(found, tuple) else (found,))]
    if case.name.startswith(DRAWN):
        return ""
    return str(irkit.compare(arrays, list(irkit.evaluate(graph, case.inputs))) or "")


def model_line(case: Model) -> str:
    """What a model gives that went to irkit and back: agreement with ONNX Runtime, or what differs."""
    model, args, kwargs = case.build()
    program = irkit.to_onnx(model, args, kwargs, dynamic_shapes=case.dynamic_shapes)
    feeds = program.feeds(args, kwargs)
    module = as_module(program.graph)
    found = module(*(tensor_of(np.array(feeds[port.name])) for port in program.graph.signature.params))
    arrays = [as_array(each) for each in (found if isinstance(found, tuple) else (found,))]
    difference = irkit.compare(arrays, list(program.kept(program.found(program.narrowed(feeds)))))
    by = ", ".join(f"{op} {n}" for op, n in sorted(Counter(kernels_in(module)).items()))
    return f"| {case.name} | {'agrees' if difference is None else difference} | {by} |"


def case_lines() -> Iterator[str]:
    """How many node cases agree, how many of them by torch's functions alone, and what differs."""
    agree, own, kernels, wrong = 0, 0, Counter[str](), list[str]()
    chosen = chosen_cases()
    for case in chosen:
        try:
            different = differences(case)
            used = kernels_in(as_module(case.model))
        except (irkit.IrkitError, RuntimeError, TypeError, ValueError) as error:
            different, used = f"{type(error).__name__}: {str(error).splitlines()[0]}", []
        if different:
            wrong.append(f"- {case.name}: {different.splitlines()[0]}")
            continue
        agree, own = agree + 1, own + (not used)
        kernels.update(set(used))
    yield f"{agree} of {len(chosen)} node cases agree, {own} of them by functions of torch alone."
    yield ""
    yield from wrong
    yield ""
    yield "Cases with an operator that irkit's kernel computes: "
    yield ", ".join(f"{op} {n}" for op, n in sorted(kernels.items())) + "."


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=1, help="each which model is looked at")
    warnings.simplefilter("ignore")
    rows = list[str]()
    for case in CASES[:: parser.parse_args().models]:
        try:
            rows.append(model_line(case))
        except (irkit.IrkitError, RuntimeError) as error:
            rows.append(f"| {case.name} | {type(error).__name__}: {str(error).splitlines()[0]} | |")
        print(rows[-1], flush=True)
    agree = sum("| agrees |" in row for row in rows)
    head = ["# Graphs as torch modules", "", "Written by `make torch-modules`.", "", "## ONNX's node cases", ""]
    models = [
        "",
        "## Models",
        "",
        f"{agree} of {len(rows)} agree.",
        "",
        "| model | numbers | by irkit's kernels |",
        "| --- | --- | --- |",
    ]
    PAGE.write_text("\n".join([*head, *case_lines(), *models, *rows, ""]))


if __name__ == "__main__":
    main()
