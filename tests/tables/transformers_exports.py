"""`make transformers-exports`: which models transformers' own exporters hand to irkit and get back right, as a page.

`python -m tests.tables.transformers_exports [NAME ...]` tries those of that name only, and writes no page.
"""

from __future__ import annotations

import copy
import inspect
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
import torch
from torch.utils import _pytree as pytree
from transformers.exporters.auto import AutoHfExporter
from transformers.exporters.base import ExportedModel
from transformers.exporters.utils import decompose_for_generation

import irkit.transformers
from irkit.errors import ContractError
from tests.zoo.case import Case
from tests.zoo.cases import TRANSFORMERS
from tests.zoo.generating import GENERATORS, Generator

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "transformers_exports.md"
CACHES = ("past_key_values", "cache_params")
"""The arguments by which steps are given a cache."""

HEAD = """# Models by transformers' exporters

Written by `make transformers-exports`: tiny models of transformers {version} with random weights, exported by
`AutoHfExporter` and `export_for_generation` with `IrkitConfig(dynamic=True)`, saved by `save_pretrained` and read by
`from_pretrained`. Each component is compared with eager on the inputs that transformers decomposed, as exported and as
read from the file; where there are a prefill and a decode, tokens are generated greedily through the runners too.

{count} of {total} models that generate agree throughout.

| model | components | tokens | seconds |
| --- | --- | --- | --- |
"""
ONCE = """
## One forward

What transformers' own tests of its exporters do with every class of a model, of the models of
[docs/measured/models.md](models.md): one forward is exported at its sizes, and with `dynamic=True`, saved and read, and
compared with eager; the dynamic one at other sizes too, each of which it gives right or refuses. The batch, tokens and
caches vary, not the sizes of images and sounds, and not the lengths of two texts in one forward.
transformers' OnnxExporter lists no architectures: it takes any, and patches what torch.export or torch.onnx stop at.

{count} of {total} agree throughout.

| model | fixed | dynamic | other sizes: right, refused | seconds |
| --- | --- | --- | --- | --- |
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


@attrs.frozen
class OnceRow:
    """What became of one forward of a model: at its sizes, with sizes that vary, and how many others were right and
    refused."""

    name: str
    fixed: str
    dynamic: str = ""
    right: int = 0
    refused: int = 0
    seconds: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether nothing is wrong."""
        return self.fixed == self.dynamic == "agrees"

    def __str__(self) -> str:
        return f"| {self.name} | {self.fixed} | {self.dynamic} | {self.right}, {self.refused} | {self.seconds:.1f} |"


def by_name(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, as transformers' exporters take them."""
    names = list(inspect.signature(model.forward).parameters)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def require_equal(found: Any, expected: Any) -> None:
    """Raises AssertionError for results that are not close."""
    for a, b in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def exported_once(case: Case, dynamic: bool) -> tuple[Any, Any]:
    """(the export of one forward as it is read from files, the model), compared at its own sizes."""
    irkit.transformers.register()
    model, args, kwargs = case.build()
    asked = by_name(model, args, kwargs)
    config = irkit.transformers.IrkitConfig(dynamic=dynamic)
    with torch.no_grad():
        expected = model(**copy.deepcopy(asked))
    made = AutoHfExporter.from_config(config).export(cast(Any, model), copy.deepcopy(asked), config)
    require_equal(made(**copy.deepcopy(asked)), expected)
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        read = ExportedModel.from_pretrained(folder)
        require_equal(read(**copy.deepcopy(asked)), expected)
    return made, model


def once_row(case: Case) -> OnceRow:
    """What becomes of one forward of a model."""
    start, said, right, refused = time.process_time(), list[str](), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dynamic in (False, True):
            try:
                made, model = exported_once(case, dynamic)
                for sizes in case.assignments if dynamic else ():
                    asked = by_name(model, *case.inputs(sizes))
                    with torch.no_grad():
                        expected = model(**copy.deepcopy(asked))
                    try:
                        require_equal(made(**copy.deepcopy(asked)), expected)
                        right += 1
                    except ContractError:
                        refused += 1
                said.append("agrees")
            except Exception as error:
                text = f"{type(error).__name__}: {error}" + (f": {error.__cause__}" if error.__cause__ else "")
                said.append(" ".join(text.split())[:300].replace("|", "/"))
    return OnceRow(case.name, said[0], said[1], right, refused, time.process_time() - start)


def main() -> None:
    """Tries the models, prints a row each, and writes the page where all were tried."""
    import transformers

    names, rows, once = sys.argv[1:], list[Row](), list[OnceRow]()
    for generator in GENERATORS:
        if not names or generator.name in names:
            rows.append(row_of(generator))
            print(rows[-1], flush=True)
    for case in TRANSFORMERS:
        if not names or case.name in names:
            once.append(once_row(case))
            print(once[-1], flush=True)
    good = sum(not row.problem and row.tokens != "other tokens" for row in rows)
    if not names:
        head = HEAD.format(version=transformers.__version__, count=good, total=len(rows))
        other = ONCE.format(count=sum(row.agrees for row in once), total=len(once))
        page = head + "\n".join(map(str, rows)) + "\n" + other + "\n".join(map(str, once)) + "\n"
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
