"""`make generation`: which models generate on ONNX Runtime the tokens that they generate in torch, as a page.

`python -m tests.tables.generation [NAME ...]` tries those of that name only, and writes no page.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import attrs
import torch

import lowering
from tests.zoo.generating import GENERATORS, Generator

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "generation.md"
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False}, "beams": {"do_sample": False, "num_beams": 2}, "sampled": {"do_sample": True},
}  # fmt: skip
HEAD = """# Models that generate

Written by `make generation`: tiny models of transformers {version} with random weights, generating eight tokens by
`lowering.generation(model).generate` and by the model itself, for two prompts one of which is padded on the left, one
shorter and three longer, greedy, by two beams and sampled after the same seed. Programs are all that these calls
needed; "model" alone reads prompts and goes on from caches of any length.

{count} of {total} give eager's tokens throughout.

| model | tokens equal | programs | seconds |
| --- | --- | --- | --- |
"""


@attrs.frozen
class Row:
    """What became of a model."""

    name: str
    equal: int
    tried: int
    programs: tuple[str, ...]
    seconds: float
    problem: str = ""

    def __str__(self) -> str:
        said = self.problem or ", ".join(self.programs)
        return f"| {self.name} | {self.equal} of {self.tried} | {said} | {self.seconds:.1f} |"


def row_of(generator: Generator, ways: dict[str, dict[str, Any]] = WAYS, prompts: int | None = None) -> Row:
    """What becomes of a model, asked these ways for the first `prompts` of its prompts."""
    start, equal, tried, problem = time.process_time(), 0, 0, ""
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "pad_token_id": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = generator.model()
        made = None
        try:
            made = lowering.generation(model, generator.example())
            for asked in generator.prompts()[:prompts]:
                for way in ways.values():
                    tried += 1
                    found = []
                    for each in (model, made):
                        torch.manual_seed(1)
                        found.append(each.generate(**asked, **options, **way))
                    equal += torch.equal(*found)
        except Exception as error:
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    names = () if made is None else tuple(made.programs)
    return Row(generator.name, equal, tried, names, time.process_time() - start, problem)


def main() -> None:
    """Tries the models, prints a row each, and writes the page where all were tried."""
    import transformers

    names, rows = sys.argv[1:], list[Row]()
    for generator in GENERATORS:
        if not names or generator.name in names:
            rows.append(row_of(generator))
            print(rows[-1], flush=True)
    good = sum(row.equal == row.tried > 0 and not row.problem for row in rows)
    if not names:
        head = HEAD.format(version=transformers.__version__, count=good, total=len(rows))
        PAGE.write_text(head + "\n".join(map(str, rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
