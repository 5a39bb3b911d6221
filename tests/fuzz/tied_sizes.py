"""Random conditions that tie two sizes, before operators that torch refuses at small ones, each against eager.

    python -m tests.fuzz.tied_sizes 200 --seed 7

A program takes two vectors. Where a condition on their lengths holds, one of them, or what is made of both, goes to an
operator that wants a few elements. At each pair of small lengths the program must do as eager does, or refuse.
"""

from __future__ import annotations

import itertools
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

import irkit
from tests.support.draws import seeds_asked

Test = Callable[[int, int], bool]
Make = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CONDITIONS: dict[str, Test] = {
    "n == m": lambda n, m: n == m, "n == m + 1": lambda n, m: n == m + 1, "n == 2 * m": lambda n, m: n == 2 * m,
    "n > m": lambda n, m: n > m, "n >= m": lambda n, m: n >= m, "n < m": lambda n, m: n < m,
    "n > 2 * m": lambda n, m: n > 2 * m, "n != m": lambda n, m: n != m, "n + m > 6": lambda n, m: n + m > 6,
    "n % m == 0": lambda n, m: m > 0 and n % m == 0, "n - m in (1, 2)": lambda n, m: n - m in (1, 2),
    "n > m > 1": lambda n, m: n > m > 1, "True": lambda n, m: True,
}  # fmt: skip
MADE: dict[str, Make] = {
    "x": lambda x, y: x, "y": lambda x, y: y, "x[m:]": lambda x, y: x[y.shape[0] :],
    "x[:m]": lambda x, y: x[: y.shape[0]],
    "cat": lambda x, y: torch.cat([x, y]), "x[1:]": lambda x, y: x[1:], "x[::2]": lambda x, y: x[::2],
    "outer": lambda x, y: (x[:, None] * y).flatten(), "rows of outer": lambda x, y: (x[:, None] * y).sum(1),
}  # fmt: skip
OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "max_pool1d(3)": lambda t: F.max_pool1d(t[None, None], 3), "unfold(3)": lambda t: t.unfold(0, 3, 1),
    "avg_pool1d(2)": lambda t: F.avg_pool1d(t[None, None], 2), "argmax": lambda t: t.argmax(),
    "conv1d": lambda t: F.conv1d(t[None, None], torch.ones(1, 1, 2)), "[2]": lambda t: t[2] * 2,
    "[-2]": lambda t: t[-2] * 2, "topk(2)": lambda t: t.topk(2).values, "max": lambda t: t.max(),
    "reflect": lambda t: F.pad(t[None], (2, 1), mode="reflect"), "kthvalue(2)": lambda t: t.kthvalue(2).values,
    "narrow": lambda t: t.narrow(0, 1, 2) + 1, "median": lambda t: t.median(), "amin": lambda t: t.amin(),
    "irfft": lambda t: torch.fft.rfft(t).abs(), "upsample": lambda t: F.interpolate(t[None, None], scale_factor=0.5),
    "view": lambda t: t.view(-1, 2) + 1,
}  # fmt: skip


def case_of(seed: int) -> tuple[str, Make, tuple[int, ...]]:
    """(words, a program, the lengths of its example) of a seed."""
    rng = random.Random(seed)
    names = [rng.choice(tuple(each)) for each in (CONDITIONS, MADE, OPERATORS)]
    test, make, apply = CONDITIONS[names[0]], MADE[names[1]], OPERATORS[names[2]]

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return apply(make(x, y)) if test(x.shape[0], y.shape[0]) else x.sum()

    some = [
        pair for pair in itertools.product(range(2, 9), repeat=2) if test(*pair) and answer(model, pair)[0] is not None
    ]
    return f"{names[2]} of {names[1]} where {names[0]}", model, rng.choice(some or [(3, 3)])


def vectors(lengths: Sequence[int]) -> tuple[Any, ...]:
    """Vectors of these lengths, of different numbers."""
    return tuple(torch.randperm(n).float() + 1 for n in lengths)


def answer(model: Callable[..., Any], lengths: Sequence[int]) -> tuple[Any, tuple[Any, ...]]:
    """(what a model gives, its arguments) at some lengths; None where it raises."""
    given = vectors(lengths)
    try:
        return model(*given), given
    except (RuntimeError, IndexError, ValueError):
        return None, given


def faults(seed: int) -> list[str]:
    """What is wrong with the program of a seed."""
    torch.manual_seed(seed)
    words, model, lengths = case_of(seed)
    if answer(model, lengths)[0] is None:
        return []
    try:
        shapes = ({0: "n"}, {0: "m"})
        program = irkit.to_onnx(model, vectors(lengths), dynamic_shapes=shapes, capture="direct")
    except irkit.errors.IrkitError:
        return []
    found: list[str] = []
    for pair in itertools.product(range(8), repeat=2):
        expected, given = answer(model, pair)
        try:
            made = program(*given)
        except irkit.errors.IrkitError:
            continue
        if expected is None:
            found.append(f"answers at {pair}, where eager raises")
        elif made.shape != expected.shape or not torch.allclose(made, expected, rtol=1e-4, atol=1e-4, equal_nan=True):
            found.append(f"gives something else at {pair}")
    return [f"{words}, at {lengths}: {each}; {[text for text, _ in program.report.guards]}" for each in found]


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    warnings.simplefilter("ignore")
    seeds, wrong = seeds_asked(arguments), 0
    for seed in seeds:
        found = faults(seed)
        wrong += bool(found)
        print(*(f"{seed} {each}" for each in found[:1]), sep="\n", end="\n" * bool(found), flush=True)
    print(f"{len(seeds)} programs, {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
