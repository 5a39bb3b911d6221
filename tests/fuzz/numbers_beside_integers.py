"""Random numbers that sizes and data tell, beside a tensor of integers, by both captures: each against eager.

Of what kind a number is tells what becomes of the tensor: a float makes floats of it, a truth value leaves it, and some
operators refuse that. Each program is called with other sizes and numbers than the example's. What eager answers it
answers alike, element type included, or refuses; what eager refuses it refuses.

    python -m tests.fuzz.numbers_beside_integers 200 --seed 7
"""

from __future__ import annotations

import math
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

Given = tuple[torch.Tensor, ...]
LEAVES = ("x.shape[0]", "y.shape[0]", "len(x)", "x.shape.numel()", "k.item()", "r.item()", "int(k)", "3", "2.5", "0")
OF_ONE = (
    "abs({a})", "int({a})", "float({a})", "-{a}", "round({a})", "math.floor({a})", "math.ceil({a})", "({a} ** 2)",
    "math.sqrt(abs({a}))", "math.sqrt({a})", "math.pow({a}, 2)", "math.pow({a}, -1)", "math.fabs({a})", "({a} % 7)",
    "divmod({a}, 3)[0]", "math.fmod({a}, 3)", "(not {a} > 2)", "({a} / 2)", "({a} // 2)", "({a} * 0.5)", "max({a}, 1)",
    "max({a}, 1.5)", "min({a}, 4)", "math.copysign({a}, -1)", "bool({a} > 1)", "({a} if {a} > 2 else 1)",
)  # fmt: skip
OF_TWO = (
    "({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} / {b})", "({a} // {b})", "({a} % {b})", "max({a}, {b})",
    "min({a}, {b})", "({a} > {b})", "({a} == {b})", "(({a} > 2) & ({b} > 2))", "sum([{a}, {b}])", "max([{a}, {b}, 2])",
    "divmod({a}, {b})[1]", "math.hypot({a}, {b})", "({a} and {b})", "({a} or {b})",
)  # fmt: skip
OF_TRUTHS = (
    "(-({a} > 2))", "(~({a} > 2))", "(({a} > 2) // 2)", "round({a} > 2)", "abs({a} > 3)", "(({a} > 2) ** 2)",
    "(2 ** ({a} > 2))", "(({a} > 2) == 1)", "(({a} > 2) != 0)", "(({a} > 2) is True)", "(+({a} > 1))",
    "(({a} > 2) ^ True)", "(1 << ({a} > 2))", "divmod(7, 1 + ({a} > 2))[1]", "float({a} > 2)", "[1, 5][{a} > 2]",
    "(({a} > 2) / 2)", "(({a} > 2) < 1)", "(3 - ({a} > 2))", "math.floor({a} > 2)", "({a} // (1 + ({a} > 2)))",
)  # fmt: skip
"""What truths are as numbers, in programs of seeds from `TRUTHS` on: the programs of others stay as they are."""
TRUTHS = 1_000_000
TAKEN = (
    "x * 2 + {a}", "x - {a}", "{a} - x", "x * {a}", "x / ({a} + 9)", "x // 2 + {a}", "torch.where(x > 2, x, {a})",
    "torch.full((2,), {a})", "x.clamp(max={a})", "torch.tensor([{a}, 2]) + x[:1, :2]", "x.add(x, alpha={a})",
    "torch.tensor({a}) + x", "x.eq({a})", "x.masked_fill(x > 2, {a})",
)  # fmt: skip
WAYS = ("direct", "torch.export")


def number(draw: random.Random, depth: int, of_one: Sequence[str] = OF_ONE) -> str:
    """The text of a number."""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(LEAVES)
    if draw.random() < 0.5:
        return draw.choice(of_one).format(a=number(draw, depth - 1, of_one))
    return draw.choice(OF_TWO).format(a=number(draw, depth - 1, of_one), b=number(draw, depth - 1, of_one))


def text_of(seed: int) -> str:
    """The text of a model."""
    draw = random.Random(seed)
    of_one = OF_ONE if seed < TRUTHS else (*OF_ONE, *OF_TRUTHS)
    taken = draw.choice(TAKEN).format(a=number(draw, draw.choice((1, 2, 2, 3)), of_one))
    return f"def model(x, y, k, r):\n    return {taken}\n"


def inputs() -> Iterator[Given]:
    """The example, and others."""
    for n, m, k, r in (
        (5, 4, 3, 2.5),
        (7, 3, -4, -1.5),
        (6, 6, 6, 0.5),
        (3, 9, 0, 3.0),
        (2, 2, 11, -0.25),
        (1, 5, -1, 7.75),
    ):
        yield torch.arange(n * 3).reshape(n, 3), torch.ones(m), torch.tensor(k), torch.tensor(r)


def answer(model: Callable[..., Any], given: Given) -> Any:
    """What eager gives; None where it raises."""
    try:
        return model(*given)
    except (RuntimeError, ValueError, TypeError, ZeroDivisionError, OverflowError):
        return None


def faults(seed: int, way: Any, tally: Callable[[str], Any] = id) -> Iterator[str]:
    """What is wrong with one capture of a model, a line each."""
    names = {"torch": torch, "math": math}
    model = function_of(text_of(seed), f"/fuzz/numbers_{seed}.py", "model", names)
    example, *others = inputs()
    try:
        program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}, None, None), capture=way)
    except IrkitError:
        tally("not captured")
        return
    if answer(model, example) is None:
        yield f"{way}: is captured, and eager refuses the example"
        return
    tally("captured")
    for given in (example, *others):
        expected = answer(model, given)
        try:
            found = program(*given)
        except IrkitError:
            tally("refused" if expected is not None else "both refuse")
            continue
        at = [*(each.shape[0] for each in given[:2]), *(each.item() for each in given[2:])]
        if expected is None:
            yield f"{way}: gives {found} where eager raises, at {at}"
        elif expected.dtype is not found.dtype or expected.shape != found.shape:
            yield f"{way}: gives {found.dtype}{list(found.shape)} where eager gives {expected.dtype} at {at}"
        elif not torch.allclose(expected.double(), found.double(), rtol=1e-4, atol=1e-4, equal_nan=True):
            yield f"{way}: gives {found} where eager gives {expected} at {at}"
        else:
            tally("both answer")


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    warnings.simplefilter("ignore")
    seeds = seeds_asked(arguments)
    wrong, seen = captures_swept(seeds, WAYS, faults, text_of)
    print(f"{len(seeds)} numbers, {wrong} captures with faults; {dict(seen)}")
    return int(bool(wrong) or not seen["both answer"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
