"""Random models with conditions on their sizes and data: an export that succeeds takes the example of its capture.

A model asserts, checks, compares and looks up in lists what it computes of sizes and of data, in loops, too. Conditions
may be false for the example, and the model may catch that. It is captured by every way; where that succeeds, and the
model itself runs on the example, the program must take it and give eager's numbers; where the model raises, it refuses.

    python -m tests.fuzz.own_examples 200 --seed 7
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import irkit
from irkit.errors import IrkitError
from tests.support.draws import captures_swept, seeds_asked
from tests.support.written_functions import function_of

SIZES = (
    "x.shape[0]",
    "x.shape[1]",
    "len(y)",
    "x.numel()",
    "y.size(0) + 1",
    "x.shape[0] * y.shape[0]",
    "x[1:].shape[0]",
)
DATA = ("int(y[0])", "y.sum().item()", "int(y.max())", "y.argmax().item()", "y[y > 2].shape[0]")
COMPUTED = (
    "{n} + {k}", "{n} - {k}", "{n} * {k}", "{n} // {k}", "{n} % {k}", "max({n}, {k})", "min({n}, {m})", "{n} - {m}",
    "2 ** min(abs({n}), 9)", "abs({n} - {m})", "{n} / {k}", "{n} * 0.5", "int({n} / {k})", "math.sqrt(abs({n}))",
)  # fmt: skip
TRUTHS = (
    "{n} > {k}", "{n} < {k}", "{n} == {k}", "{n} != {m}", "{n} >= {m}", "{n} % {k} == 0", "{n} in ({k}, {m})",
    "{k} < {n} <= 9", "not {n} > {k}", "{n} > {k} or {m} > {k}", "{n} > {k} and {m} < {k}", "x.shape == (3, 4)",
    "y.sum() > {k}", "(y > {k}).any()", "bool((x[0] < {k}).all())", "x[0, 0].item() < {k}", "y[0] == {k}",
)  # fmt: skip
ASKED = (
    "torch._check({t})", "assert {t}, 'no'", "if {t}: out = out + {k}", "out = out * ({k} if {t} else 2)",
    "torch._check({t}, lambda: 'no')", "if not ({t}): raise ValueError('no')", "torch._assert({t}, 'no')",
    "out = out + rows[{n} % 3]", "out = out + rows[min(abs({n}), 2)]", "out = out + [1, 2, 3, 4, 5][abs({n}) % 5]",
    "out = out + x[min(abs({n}), 2)].sum()", "out = out + {n}", "out = out + torch.ones(abs({n})).sum()",
    "torch._check({n} >= 0); out = out + x[:abs({n})].sum()", "out = out + dict(a=1, b=2)['ab'[{n} % 2]]",
)  # fmt: skip
ROUND = (
    "out = out + rows[j % 3] * {k}", "out = out + 2 ** j", "out = out + j * {n}", "assert j < {k} + 9, 'no'",
    "torch._check(j + {k} < 7)", "out = out + x[j % 3].sum()", "if j > {k}: out = out + 1", "j = (j + {k}) % 3",
    "out = out + y[j % 2]", "out = out + 0.5 ** j", "if out.sum() > {k}: out = out - 1", "out = out + table[j % 4]",
    "torch._check(j < x.shape[0])", "out = out + rows[j % len(rows)]", "out = out + 1 / 2 ** j",
)  # fmt: skip
LOOPS = (
    "for j in range({n}):",
    "for j, each in enumerate(x):",
    "for j in range(1, abs({n}) + 1):",
    "for j in range(3):",
)
WAYS: dict[str, dict[str, Any]] = {
    "direct": {"capture": "direct"}, "rewritten": {"capture": "direct", "rewrite": True},
    "torch.export": {"capture": "torch.export"}, "torch.export, one size": {"capture": "torch.export"},
    "direct, one size": {"capture": "direct"}, "reported": {"capture": "torch.export", "specialization": "report"},
}  # fmt: skip
EXAMPLE = (torch.arange(12.0).reshape(3, 4) / 4, torch.tensor([3, 1]))


def drawn_number(rng: random.Random, depth: int = 2) -> str:
    """A number that sizes or data tell."""
    if depth == 0 or rng.random() < 0.4:
        return rng.choice(SIZES if rng.random() < 0.7 else DATA)
    form = rng.choice(COMPUTED)
    return (
        f"({form.format(n=drawn_number(rng, depth - 1), m=drawn_number(rng, depth - 1), k=rng.choice((1, 2, 3, 5)))})"
    )


def drawn_line(rng: random.Random, forms: Sequence[str]) -> str:
    """A line of a model."""
    n, m, k = drawn_number(rng), drawn_number(rng), rng.choice((0, 1, 2, 3, 4, 8))
    truth = rng.choice(TRUTHS).format(n=n, m=m, k=k)
    return rng.choice(forms).format(n=n, m=m, k=k or 1, t=truth)


def drawn_lines(rng: random.Random) -> Iterator[str]:
    """The lines of a model."""
    yield from ("import math, torch", "def model(x, y):", "    out = x * 2", "    rows = [x[0], x[1] * 2, x[-1] + 1]")
    yield "    table = torch.arange(4.0)"
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.3:
            yield f"    {rng.choice(LOOPS).format(n=rng.choice(SIZES))}"
            yield from (f"        {drawn_line(rng, ROUND)}" for _ in range(rng.choice((1, 2))))
        elif rng.random() < 0.2:
            yield from (
                "    try:",
                f"        {drawn_line(rng, ASKED)}",
                "    except (ValueError, RuntimeError, IndexError):",
            )
            yield "        out = out - 1"
        else:
            yield f"    {drawn_line(rng, ASKED)}"
    yield "    return out"


def text_of(seed: int) -> str:
    """The text of a model."""
    return "\n".join(drawn_lines(random.Random(seed))) + "\n"


def copies() -> tuple[torch.Tensor, ...]:
    """The example."""
    return tuple(each.clone() for each in EXAMPLE)


def eager(model: Callable[..., Any]) -> torch.Tensor | None:
    """What the model gives for the example; None where it raises."""
    try:
        return model(*copies())
    except Exception:
        return None


def faults(seed: int, way: str, tally: Callable[[str], Any] = str) -> Iterator[str]:
    """What is wrong with the program of a model, by one way of capture, at the example of its capture."""
    model = function_of(text_of(seed), f"own_examples_{seed}.py", "model")
    expected = eager(model)
    shapes = None if way.endswith("one size") else ({0: "a", 1: "b"}, {0: "c"})
    try:
        program = irkit.to_onnx(model, copies(), dynamic_shapes=shapes, widen=False, **WAYS[way])
    except IrkitError as error:
        own = "the very example" in str(error)
        tally(f"{way}: refused{', for its example' if own else ''}{'' if expected is None else ' though eager runs'}")
        return
    tally(f"{way}: captured")
    try:
        found = program(*copies())
    except IrkitError as error:
        yield f"{way}: captured, and refuses its example: {error}"
        return
    if expected is None:
        yield f"{way}: answers {found.tolist()}, where eager raises"
    elif found.shape != expected.shape or not torch.allclose(found.double(), expected.double(), 1e-4, 1e-4):
        yield f"{way}: gives {found.tolist()}, where eager gives {expected.tolist()}"


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    seeds = seeds_asked(arguments)
    warnings.simplefilter("ignore")
    bad, seen = captures_swept(seeds, WAYS, faults, text_of)
    print(
        f"{len(seeds)} models, {bad} captures with faults",
        *(f"{n} {what}" for what, n in sorted(seen.items())),
        sep="\n",
    )
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
