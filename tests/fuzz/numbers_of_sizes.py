"""torch's database of operators with a number computed of a size, each against eager: what eager refuses is refused.

A sample of an operator is drawn, and one of its integers or floats becomes a number of a size, equal for the example.
What it gives is used or not. At sizes where that number is below 0, 0, or large the program must do as eager does, or
refuse.

    python -m tests.fuzz.numbers_of_sizes 1000 --seed 7
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import attrs
import torch
from torch.utils import _pytree as pytree

import irkit
from irkit.checking.comparison import compare
from irkit.errors import IrkitError
from lowering.records.types import array_of
from tests.lowering.aten.oracle import OPS
from tests.support.draws import seeds_asked
from tests.support.optimized_torch import NAMES
from tests.tables.coverage.measure import DTYPES

EXAMPLE = 5
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 40)
KINDS = ("float32", "int64", "bool")
RANDOM = ("rand", "normal", "multinomial", "bernoulli", "dropout", "exponential", "cauchy", "geometric", "uniform")
RANDOM += ("empty", "rrelu", "topk", "sort", "mode", "kthvalue", "median", "attention", "_aa")
"""Parts of the names of operators whose numbers are drawn, undefined, or places of equal ones, or that torch computes
wrongly of one column (`_aa`): of these only refusals are compared."""


@attrs.frozen
class Drawn:
    """A call with its arguments as leaves, and the leaf that a size tells."""

    name: str
    text: str
    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec
    place: int
    used: bool

    def model(self, sized: torch.Tensor, *tensors: torch.Tensor) -> Any:
        """What the operator gives where its number is one of the size of the first tensor."""
        rest, given = iter(tensors), list(self.leaves)
        given = [next(rest).clone() if isinstance(each, torch.Tensor) else each for each in given]
        given[self.place] = given[self.place] + (sized.shape[0] - EXAMPLE)
        args, kwargs = pytree.tree_unflatten(given, self.spec)
        found = OPS[self.name].op(*args, **kwargs)
        return found if self.used else torch.ones(2)


def drawn(seed: int) -> Drawn | None:
    """What a seed draws; None where the operator has no sample with a number."""
    rng = random.Random(seed)
    name = rng.choice(NAMES)
    kinds = [kind for kind in KINDS if DTYPES[kind] in OPS[name].dtypes]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(islice(OPS[name].sample_inputs("cpu", DTYPES[kind], requires_grad=False), 30))
    sample = rng.choice(found)
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [place for place, each in enumerate(leaves) if type(each) in (int, float) and abs(each) < 1000]
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    if not places or any(each.layout is not torch.strided for each in tensors):
        return None
    place = rng.choice(places)
    leaves = tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in leaves)
    shown = [tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in leaves]
    return Drawn(name, f"{name} {kind} of {shown}, number {place}", leaves, spec, place, rng.random() < 0.6)


def answer(function: Any, given: Sequence[Any]) -> tuple[Any, str]:
    """(what a function gives, why it refuses)"""
    torch.manual_seed(0)
    try:
        return function(*(each.clone() for each in given)), ""
    except (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError, AssertionError, IrkitError) as error:
        return None, f"{type(error).__name__}: {error}"


def faults(found: Drawn, tally: Counter[str]) -> Iterator[str]:
    """What is wrong with a draw."""
    tensors = [each for each in found.leaves if isinstance(each, torch.Tensor)]
    if answer(found.model, (torch.zeros(EXAMPLE, 0), *tensors))[1]:
        tally["eager refuses the example"] += 1
        return
    try:
        given = (torch.zeros(EXAMPLE, 0), *(each.clone() for each in tensors))
        varying = {"sized": {0: "n"}, "tensors": tuple(None for _ in tensors)}
        program = irkit.to_onnx(found.model, given, dynamic_shapes=varying, capture="direct")
    except IrkitError as error:
        tally["not exported"] += 1
        if "report" in str(error):
            yield f"own error: {error}"
        return
    for size in SIZES:
        call = (torch.zeros(size, 0), *tensors)
        (expected, refusal), (actual, declined) = answer(found.model, call), answer(program, call)
        if refusal or declined:
            tally["both refuse" if refusal and declined else "the program refuses" if declined else "WRONG"] += 1
            if not declined:
                yield f"at {size} eager refuses: {refusal.splitlines()[0][:150]}"
            continue
        tally["both answer"] += 1
        if any(part in found.name for part in RANDOM):
            continue
        pairs = [pytree.tree_leaves(each) for each in (expected, actual)]
        for one, other in zip(*pairs, strict=True):
            if isinstance(one, torch.Tensor) and (wrong := different(one, other)):
                yield f"at {size} {wrong}"


def different(expected: torch.Tensor, actual: Any) -> str | None:
    """How two tensors differ; None where they do not."""
    if not isinstance(actual, torch.Tensor) or (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return f"{array_of(expected.detach())!r} became {actual!r}"
    wrong = compare(array_of(expected.detach()), array_of(actual.detach()), rtol=1e-3, atol=1e-4)
    return None if wrong is None else str(wrong)


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    warnings.simplefilter("ignore")
    seeds, tally, bad = seeds_asked(arguments), Counter[str](), 0
    for seed in seeds:
        found = drawn(seed)
        if found is None:
            tally["nothing drawn"] += 1
            continue
        try:
            wrong = list(dict.fromkeys(faults(found, tally)))
        except Exception as error:
            wrong = [f"fails: {type(error).__name__}: {error}"]
        bad += bool(wrong)
        if wrong:
            print(seed, found.text, "used" if found.used else "unused", *wrong, sep="\n  ", flush=True)
    print(f"{len(seeds)} calls, {bad} with faults", *(f"{n} {what}" for what, n in tally.most_common()), sep="\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
