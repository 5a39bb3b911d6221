"""Random writes in place into parts of one tensor that sizes place, each against eager: what eager refuses is refused.

A tensor of constants, or one that the model computes, is seen by two or three views whose beginnings, steps and ends
are numbers of a size. One is written by what another holds, or by itself. At other sizes they may overlap.

    python -m tests.fuzz.places_of_writes 1000 --seed 7
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError
from tests.support.draws import seeds_asked

EXAMPLES, SIZES, LONG = (2, 3, 4), (0, 1, 2, 3, 4, 5, 6, 8, 11), 12
NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "n": lambda n: n, "n - 1": lambda n: n - 1, "n + 1": lambda n: n + 1, "6 - n": lambda n: 6 - n,
    "2 * n": lambda n: 2 * n, "n // 2": lambda n: n // 2, "1": lambda n: 1, "3": lambda n: 3,
    "max(n - 2, 0)": lambda n: max(n - 2, 0),
}  # fmt: skip
VIEWS: Mapping[str, Callable[[Tensor, Any, Any], Tensor]] = {
    "x[a:a + 3]": lambda x, a, b: x[a : a + 3], "x[:3]": lambda x, a, b: x[:3], "x[a:][:3]": lambda x, a, b: x[a:][:3],
    "x[-3:]": lambda x, a, b: x[-3:], "x[a:a + b]": lambda x, a, b: x[a : a + b], "x[b:]": lambda x, a, b: x[b:],
    "narrow": lambda x, a, b: x.narrow(0, a, 3), "as_strided": lambda x, a, b: x.as_strided((3,), (a,)),
    "as_strided of two": lambda x, a, b: x.as_strided((2, 3), (a, 1)), "x[::a]": lambda x, a, b: x[::a][:3],
    "as_strided from": lambda x, a, b: x.as_strided((3,), (2,), a), "select": lambda x, a, b: x.unfold(0, 3, 1)[a],
    "windows": lambda x, a, b: x.unfold(0, 2, a), "flipped": lambda x, a, b: x[: 2 * a].view(2, a).t(),
    "diagonal": lambda x, a, b: x.view(3, 4).diagonal(a - 2), "column": lambda x, a, b: x.view(3, 4)[:, a],
    "chunk": lambda x, a, b: x.split(3)[1], "whole": lambda x, a, b: x,
}  # fmt: skip
WRITES: Mapping[str, Callable[[Tensor, Tensor], Any]] = {
    "add_": lambda y, z: y.add_(z), "mul_": lambda y, z: y.mul_(z), "copy_": lambda y, z: y.copy_(z),
    "by itself": lambda y, z: y.mul_(3), "filled": lambda y, z: y.fill_(7.0), "sub_": lambda y, z: y.sub_(z, alpha=2),
    "part": lambda y, z: y[:2].add_(z[:2]), "out": lambda y, z: torch.add(z, 1, out=y),
    "addcmul_": lambda y, z: y.addcmul_(z, z), "where": lambda y, z: y.copy_(torch.where(y > 3, y, z)),
    "cumsum_": lambda y, z: y.cumsum_(0), "index": lambda y, z: y.__setitem__(slice(0, 2), z[:2]),
}  # fmt: skip


@attrs.frozen
class Drawn:
    """A model, in words, and the size of the example."""

    base: str
    views: tuple[tuple[str, str, str], ...]
    writes: tuple[tuple[str, int, int], ...]
    example: int

    def __str__(self) -> str:
        seen = ", ".join(f"{view} of ({a}, {b})" for view, a, b in self.views)
        return f"{self.base}: {seen}; {', '.join(f'{name} {one} {two}' for name, one, two in self.writes)}"

    def model(self, x: Tensor) -> Any:
        """The tensor that is written, and what its views hold then."""
        n = x.shape[0]
        base = torch.arange(float(LONG)) if self.base == "constant" else torch.arange(float(LONG)) + x.sum() * 0
        seen = [VIEWS[view](base, NUMBERS[a](n), NUMBERS[b](n)) for view, a, b in self.views]
        for name, one, two in self.writes:
            WRITES[name](seen[one], seen[two])
        return base, *(each * 1 for each in seen)


def drawn(seed: int) -> Drawn:
    """What a seed draws."""
    rng = random.Random(seed)
    names = list(NUMBERS)
    views = tuple((rng.choice(list(VIEWS)), rng.choice(names), rng.choice(names)) for _ in range(rng.choice((2, 2, 3))))
    places = range(len(views))
    writes = tuple(
        (rng.choice(list(WRITES)), rng.choice(places), rng.choice(places)) for _ in range(rng.choice((1, 1, 2)))
    )
    return Drawn(rng.choice(("constant", "computed")), views, writes, rng.choice(EXAMPLES))


def answer(function: Any, x: Tensor) -> tuple[Any, str]:
    """(what a function gives, why it refuses)"""
    try:
        return function(x.clone()), ""
    except (RuntimeError, IndexError, ValueError, TypeError, IrkitError) as error:
        return None, f"{type(error).__name__}: {error}"


def faults(found: Drawn, tally: Counter[str]) -> Iterator[str]:
    """What is wrong with a draw."""
    if answer(found.model, torch.ones(found.example, 2))[1]:
        tally["eager refuses the example"] += 1
        return
    try:
        given = (torch.ones(found.example, 2),)
        program = irkit.to_onnx(found.model, given, dynamic_shapes=({0: "n"},), capture="direct")
    except IrkitError as error:
        tally["not exported"] += 1
        if "report" in str(error):
            yield f"own error: {error}"
        return
    for size in SIZES:
        x = torch.ones(size, 2)
        (expected, refusal), (actual, declined) = answer(found.model, x), answer(program, x)
        if refusal or declined:
            tally["both refuse" if refusal and declined else "the program refuses" if declined else "WRONG"] += 1
            if not declined:
                yield f"at {size} eager refuses: {refusal.splitlines()[0][:150]}"
            continue
        tally["both answer"] += 1
        for one, other in zip(expected, actual, strict=True):
            if one.shape != other.shape or not torch.allclose(one, other):
                yield f"at {size} {one.tolist()} became {other.tolist()}"


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    warnings.simplefilter("ignore")
    seeds, tally, bad = seeds_asked(arguments), Counter[str](), 0
    for seed in seeds:
        found = drawn(seed)
        try:
            wrong = list(dict.fromkeys(faults(found, tally)))
        except Exception as error:
            wrong = [f"fails: {type(error).__name__}: {error}"]
        bad += bool(wrong)
        if wrong:
            print(seed, found, f"example {found.example}", *wrong, sep="\n  ", flush=True)
    print(f"{len(seeds)} programs, {bad} with faults", *(f"{n} {what}" for what, n in tally.most_common()), sep="\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
