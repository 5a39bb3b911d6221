"""`make layouts`: which models the libraries load from `lowering.export_hf`'s folders and answer right, as a page.

`python -m tests.tables.layouts [NAME ...]` tries those of that name only, and writes no page.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

import lowering
from irkit.errors import IrkitError
from tests.support.readers import READERS, Reader
from tests.zoo.generating import GENERATORS, Generator, prompt

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "layouts.md"
HEAD = """# Layouts that others read

Written by `make layouts`: tiny models of transformers {version} with random weights, written by `lowering.export_hf` in
each layout, loaded by the library that the layout is of, and asked for eight tokens, greedily, of two prompts one of
which is padded on the left, and of one shorter. "equal" is equal to eager's tokens. onnxruntime-genai 0.18 hides no
padding of a batch, so its prompts have none.

{summary}

| model | {layouts} |
| --- | {rules} |
"""
OPTIONS: dict[str, Any] = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
PROMPTS: Mapping[str, Any] = {"genai": lambda: [prompt(2, 5), prompt(1, 3)]}
"""Prompts of another kind than others get: onnxruntime-genai 0.18 hides no padding, whatever pads."""
CLASSES = {"causal": "ORTModelForCausalLM"}


@attrs.frozen
class Asked:
    """What a library is asked, and what eager gives."""

    name: str
    job: Mapping[str, Any]
    expected: Any


def asked_of(generator: Generator, layout: str, folder: Path, prompts: int = 2) -> list[Asked]:
    """The model written into a folder, and what is asked of it."""
    model = generator.model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowering.export_hf(model, folder, layout)
        found = list[Asked]()
        for inputs in PROMPTS.get(layout, generator.prompts)()[:prompts]:
            expected = model.generate(**inputs, **OPTIONS).tolist()
            plain = {name: each.tolist() for name, each in inputs.items()}
            job = {"folder": str(folder), "kind": "generate", "inputs": plain, "options": OPTIONS}
            found.append(Asked(generator.name, {**job, "class": CLASSES["causal"]}, expected))
    return found


def said(asked: Sequence[Asked], answers: Sequence[Mapping[str, Any]]) -> str:
    """What became of a model, in a cell of the table: "equal" where all is."""
    for each, answer in zip(asked, answers, strict=True):
        if "problem" in answer:
            return " ".join(answer["problem"].split())[:240].replace("|", "/")
        if answer["found"] != each.expected:
            return "other tokens"
    return "equal"


def cells(generators: Sequence[Generator], layout: str, reader: Reader) -> dict[str, str]:
    """What becomes of each model in a layout, read by its library."""
    found, asked = dict[str, str](), dict[str, list[Asked]]()
    with tempfile.TemporaryDirectory() as place:
        for generator in generators:
            try:
                asked[generator.name] = asked_of(generator, layout, Path(place, generator.name))
            except Exception as error:
                what = error.what if isinstance(error, IrkitError) else f"{type(error).__name__}: {error}"
                found[generator.name] = f"not written: {' '.join(what.split())[:240]}".replace("|", "/")
        answers = iter(reader.answers([each.job for every in asked.values() for each in every]))
        for name, every in asked.items():
            found[name] = said(every, [next(answers) for _ in every])
    return found


def main() -> None:
    """Tries the models, prints a row each, and writes the page where all were tried."""
    import transformers

    names = sys.argv[1:]
    chosen = [each for each in GENERATORS if not names or each.name in names]
    readers = {layout: make() for layout, make in READERS.items()}
    columns = {layout: cells(chosen, layout, reader) for layout, reader in readers.items() if not reader.missing}
    rows = [f"| {g.name} | {' | '.join(column[g.name] for column in columns.values())} |" for g in chosen]
    print("\n".join(rows))
    if not names and len(columns) == len(readers):
        counts = (f"{sum(c == 'equal' for c in column.values())} in {name}'s" for name, column in columns.items())
        summary = f"Of {len(chosen)} models the tokens are equal of {', '.join(counts)} layout."
        head = HEAD.format(
            version=transformers.__version__,
            summary=summary,
            layouts=" | ".join(columns),
            rules=" | ".join("---" for _ in columns),
        )
        PAGE.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
