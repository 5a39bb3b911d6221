"""Random whole numbers computed of sizes by what Python has for integers, against eager.

A model returns a number that is drawn as text: divisors, bits, powers, roots, logarithms that are rounded, extremes,
answers as numbers, one inside another. It is captured at an example, and called at other sizes, 0 and 1 among them, and
large ones. What the program answers is eager's number to the last bit; elsewhere its contract refuses.

    python -m tests.fuzz.functions_of_sizes 200 --seed 7
"""

from __future__ import annotations

import math
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import irkit
from lowering.errors import CaptureError
from tests.support.draws import seeds_asked
from tests.support.written_functions import function_of

Sizes = tuple[int, int]
Model = Callable[[torch.Tensor], torch.Tensor]
OF_ONE = (
    "math.gcd({a}, {k})", "math.gcd({a}, {k}, 6)", "math.lcm({a}, {k})", "({a}).bit_length()", "({a} & {k})",
    "({k} & {a})", "({a} & -{k})", "({a} | {k})", "({a} ^ {k})", "({a} >> {i})", "({a} << {i})", "(~{a})",
    "round({a}, -1)", "round({a}, -2)", "2 ** min(abs({a}), 9)", "(-3) ** min(abs({a}), 9)", "(1 << min(abs({a}), 7))",
    "int(math.log2(abs({a}) + 1))", "math.ceil(math.log2(abs({a}) + 1))", "math.floor(math.log(abs({a}) + 1, 3))",
    "round(math.log10(abs({a}) + 1))", "int(math.log(abs({a}) + 1) / math.log(2))", "math.comb(abs({a}), 2)",
    "math.perm(abs({a}), {i})", "math.isqrt(abs({a}))", "divmod({a}, {k})[0]", "divmod({a}, {k})[1]",
    "-(-({a}) // {k})", "int({a} / {k})", "round({a} / {k})", "math.ceil({a} / {k})", "math.floor({a} * 0.5)",
    "abs({a} - {k})", "min({a}, {k})", "max({k}, {a})", "({a} > {k}) * {k}", "int({a} > {k})", "sum(({a}, {k}))",
    "math.prod(({a}, {k}))", "int(math.fmod({a}, {k}))", "int(np.round({a} / {k}))",
    "sorted(({a}, {k}))[0]", "({a} + {k})", "{a} * {i}", "int(math.remainder({a}, {k}))", "int(math.hypot({a}, {k}))",
    "math.factorial(min(abs({a}), 20)) % 1009", "int(math.copysign({a}, -1))", "int(math.isclose({a}, {k}))",
    "int(math.dist(({a}, 1), ({k}, {i})))", "int(math.modf({a} / {k})[1])", "int(float({a} / {k}) * {i})",
    "int(math.ldexp({a}, {i}))", "int(math.isfinite({a} / {k}))", "int(math.degrees({a}))",
    "x.shape.count({k})", "({k} in x.shape) * {k}", "sum(x.shape[:{i}])", "len(x.shape * {i})",
    "({a} in range({k})) * {k}", "sum((*x.shape, {k})[::{i}])", "math.prod(x.shape + ({k},))",
    "(x.shape[:1] + ({k},))[0]", "(x.shape == ({k}, {a})) * {k}", "{{j: {a} * j for j in (1, {k})}}[{k}]",
)  # fmt: skip
OF_TWO = (
    "math.gcd({a}, {b}, 12)", "math.gcd({a}, {b})", "({a} & {b})", "({a} | {b})", "({a} ^ {b})", "max({a}, {b})",
    "min({a}, {b})", "({a} + {b})", "({a} - {b})", "({a} >> min(abs({b}), 5))", "sum(x.shape)", "max(x.shape)",
    "sorted(({a}, {b}))[0]", "sorted([{a}, {k}, {b}])[1]", "sorted(x.shape, reverse=True)[0]", "sorted(x.shape)[0]",
)  # fmt: skip
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 25, 35, 63, 64, 65, 1000, 1023, 1024, 4096)


def draw_number(rng: random.Random, depth: int = 2) -> str:
    """The text of a number."""
    if depth == 0:
        return rng.choice(("n", "m"))
    a, b = (draw_number(rng, rng.randrange(depth)) for _ in range(2))
    form = rng.choice(OF_ONE if rng.random() < 0.75 else OF_TWO)
    return form.format(a=a, b=b, k=rng.choice((1, 2, 3, 4, 7, 8, 12, 16)), i=rng.choice((1, 2, 3)))


def write_model(text: str) -> Model:
    """A model that returns the number, with lines: irkit reads the one that asks."""
    lines = ("def model(x):", "    n, m = x.shape", f"    number = {text}", "    return torch.full((2,), number)", "")
    space = {"math": math, "np": np, "torch": torch}
    return function_of("\n".join(lines), "functions_of_sizes.py", "model", space)


def tensor(sizes: Sizes) -> torch.Tensor:
    """A tensor of sizes, which takes no room."""
    return torch.zeros(()).expand(sizes)


def eager_answer(model: Model, sizes: Sizes) -> torch.Tensor | None:
    """What eager gives; None where Python, or 64 bits, refuse."""
    try:
        return model(tensor(sizes))
    except (ArithmeticError, ValueError, RuntimeError):
        return None


def compare_at(model: Model, example: Sizes, calls: Sequence[Sizes]) -> tuple[list[str], list[Sizes]]:
    """(what is wrong with the program of a model, the sizes that its contract refuses). Raises CaptureError."""
    program = irkit.to_onnx(model, (tensor(example),), dynamic_shapes=({0: "n", 1: "m"},))
    wrong, refused = [], []
    for sizes in calls:
        expected = eager_answer(model, sizes)
        try:
            found = program(tensor(sizes))
        except irkit.ContractError:
            refused += [sizes] if expected is not None else []
            continue
        if expected is None or found.dtype != expected.dtype or not torch.equal(found, expected):
            wrong.append(f"{sizes}: {found} where eager gives {expected}")
    return wrong, refused


def case_of(seed: int) -> tuple[str, Sizes, list[Sizes]]:
    """(the text of a number, an example, other sizes)"""
    rng = random.Random(seed)
    text = draw_number(rng)
    example = (rng.choice((2, 3, 4, 5, 6, 9)), rng.choice((2, 3, 5, 8)))
    return text, example, [example, *((rng.choice(SIZES), rng.choice(SIZES)) for _ in range(16))]


def faults(seed: int) -> list[str]:
    """What is wrong with a random program; nothing where the capture is refused in words."""
    text, example, calls = case_of(seed)
    model = write_model(text)
    if eager_answer(model, example) is None:
        return []
    try:
        wrong, refused = compare_at(model, example, calls)
    except CaptureError:
        return []
    return [*wrong, *([f"refuses its example {example}"] if example in refused else [])]


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    seeds = seeds_asked(arguments)
    warnings.simplefilter("ignore")
    bad = 0
    for seed in seeds:
        try:
            found: Any = faults(seed)
        except Exception as error:  # said, with the model
            found = [f"{type(error).__name__}: {error}"]
        if found:
            bad += 1
            print(seed, *case_of(seed)[:2], *found, sep="\n    ", flush=True)
    print(f"{len(seeds)} numbers, {bad} with faults")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
