"""`make transformers-exports`: which models transformers' own exporters hand to irkit and get back right, as a page.

`python -m tests.tables.transformers_exports [NAME ...]` tries those of that name only, and writes no page.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import attrs
import torch
from torch.utils import _pytree as pytree
from transformers.exporters.auto import AutoHfExporter
from transformers.exporters.base import ExportedModel
from transformers.exporters.utils import decompose_for_generation

import irkit.transformers
from tests.zoo.generating import GENERATORS, Generator

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "transformers_exports.md"
CACHES = ("past_key_values", "cache_params")
"""The arguments by which steps are given a cache."""

HEAD = """# Models by transformers' exporters

Written by `make transformers-exports`: tiny models of transformers {version} with random weights, exported by
`AutoHfExporter` and `export_for_generation` with `IrkitConfig(dynamic=True)`, saved by `save_pretrained` and read by
`from_pretrained`. Each component is compared with eager on the inputs that transformers decomposed, as exported and as
read from the file; where there are a prefill and a decode, tokens are generated greedily through the runners too.

{count} of {total} agree throughout.

| model | components | tokens | seconds |
| --- | --- | --- | --- |
"""


@attrs.frozen
class Row:
    """What became of a model."""

    name: str
    components: tuple[str, ...]
    tokens: str
    seconds: float
    problem: str = ""

    def __str__(self) -> str:
        said = self.problem or ", ".join(self.components)
        return f"| {self.name} | {said} | {self.tokens} | {self.seconds:.1f} |"


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors in a result."""
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def greedy(prefill: Any, decode: Any, first: dict[str, Any], step: dict[str, Any], count: int) -> list[list[int]]:
    """Tokens chosen greedily by what answers prompts and what answers steps; `first` and `step` are examples. A step
    that has no cache is given all tokens again."""
    result, found = prefill(**first), list[list[int]]()
    name = "decoder_input_ids" if "decoder_input_ids" in step else "input_ids"
    mask, places = step.get("attention_mask"), step.get("position_ids")
    whole = None if any(cache in step for cache in CACHES) else first[name]
    for i in range(count):
        chosen = result.logits[:, -1:].argmax(-1)
        found.append(chosen.flatten().tolist())
        whole = None if whole is None else torch.cat([whole, chosen], 1)
        asked = {**step, name: chosen if whole is None else whole}
        for cache in CACHES:
            if cache in step:
                asked[cache] = getattr(result, cache)
        if name == "input_ids" and isinstance(mask, torch.Tensor) and i:
            asked["attention_mask"] = torch.cat([mask, mask.new_ones(mask.shape[0], i)], 1)
        if isinstance(places, torch.Tensor):
            asked["position_ids"] = places + i
        result = decode(**asked)
    return found


def row_of(generator: Generator) -> Row:
    """What becomes of a model."""
    irkit.transformers.register()
    start, names, tokens, problem = time.process_time(), tuple[str, ...](), "", ""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        model, asked = generator.model(), generator.prompts()[0]
        try:
            config = irkit.transformers.IrkitConfig(dynamic=True)
            exported = AutoHfExporter.from_config(config).export_for_generation(model, asked, config)
            names = tuple(exported.components)
            exported.save_pretrained(folder)
            read = ExportedModel.from_pretrained(folder)
            parts = decompose_for_generation(model, asked)
            for name, (module, inputs) in parts.items():
                with torch.no_grad():
                    expected = tensors(module(**copy.deepcopy(inputs)))
                for each in (exported, read):
                    for a, b in zip(tensors(each.runners[name](**inputs)), expected, strict=True):
                        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
            if "prefill" in parts:
                first, step = parts["prefill"][1], parts["decode"][1]
                with torch.no_grad():
                    eager = greedy(model, model, copy.deepcopy(first), copy.deepcopy(step), 4)
                same = [greedy(e.runners["prefill"], e.runners["decode"], first, step, 4) for e in (exported, read)]
                tokens = "equal" if same == [eager, eager] else "other tokens"
        except Exception as error:
            text = f"{type(error).__name__}: {error}" + (f": {error.__cause__}" if error.__cause__ else "")
            problem = " ".join(text.split())[:400].replace("|", "/")
    return Row(generator.name, names, tokens, time.process_time() - start, problem)


def main() -> None:
    """Tries the models, prints a row each, and writes the page where all were tried."""
    import transformers

    names, rows = sys.argv[1:], list[Row]()
    for generator in GENERATORS:
        if not names or generator.name in names:
            rows.append(row_of(generator))
            print(rows[-1], flush=True)
    good = sum(not row.problem and row.tokens != "other tokens" for row in rows)
    if not names:
        head = HEAD.format(version=transformers.__version__, count=good, total=len(rows))
        PAGE.write_text(head + "\n".join(map(str, rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
