"""torch's databases of operators and modules, on operands that lie in any order: how results lie, against eager.

    python -m tests.fuzz.layouts_of_results 2000 --seed 7
    python -m tests.fuzz.layouts_of_results --all

A sample is drawn, and how each of its operands lies: its axes in some order, its channels last, between
other elements, or stretched. What it gives is set to zero; then a number is added to what reshape(-1) makes
of it, once for each of some orders of its axes: a view in some, a copy in others, as it lies in memory. By each way of
capture the program must give what eager gives, or refuse.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import torch
from torch.utils import _pytree as pytree

import irkit
from irkit.errors import IrkitError
from tests.lowering.aten.oracle import MODULES, OPS, Case, module_cases, op_cases

WAYS = ("direct", "torch.export")
KINDS = (torch.float32, torch.float32, torch.float64, torch.int64, torch.complex64)
LEFT_OUT = (
    "jiterator", "empty", "new_empty", "chalf", "_segment_reduce", "nn.functional.embedding_bag", "as_strided", "ormqr",
)  # fmt: skip
"""Operators for GPUs alone, such as give what memory holds, or what torch cannot compare, and such as end the process
at odd operands."""
MOST = 1 << 16
"""How many elements an operand has at most."""
NAMES = (*sorted(OPS), *sorted(MODULES))
ORDERS = 6
"""In how many orders of its axes a result is looked at."""


def samples(name: str, kind: torch.dtype, count: int) -> list[Case]:
    """Some samples of an operator, or of a module."""
    if name.startswith(LEFT_OUT) or (kind is not torch.float32 if name in MODULES else kind not in OPS[name].dtypes):
        return []
    torch.manual_seed(0)
    try:
        if name in MODULES:
            return [attrs.evolve(each, model=each.model.eval()) for each in module_cases(name, count) if is_plain(each)]
        return [each for each in op_cases(name, kind, count) if is_plain(each)]
    except Exception:  # torch's own samples are at odds with its own checks in errors of every class
        return []


def is_plain(case: Case) -> bool:
    """Whether all operands are dense tensors that are not large, one at least of several axes."""
    tensors = [each for each in pytree.tree_leaves(case.args) if isinstance(each, torch.Tensor)]
    plain = not case.kwargs and all(each.layout is torch.strided and each.numel() <= MOST for each in tensors)
    return plain and any(each.dim() > 1 for each in tensors)


def laid(draw: random.Random, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """What gives the same numbers in another layout; a stretched tensor has fewer of them."""
    rank, how = x.dim(), draw.choice(("as it is", "order", "order", "last", "apart", "stretched"))
    if rank < 2 or how == "as it is" or x.numel() == 0:
        return lambda x: x * 1 if x.dtype is not torch.bool else x.clone()
    order = (0, *range(2, rank), 1) if how == "last" else tuple(draw.sample(range(rank), rank))
    back, axis = [order.index(a) for a in range(rank)], draw.randrange(rank)
    if how == "apart":
        return lambda x: torch.stack([x, x], -1).select(-1, 0)
    if how == "stretched":
        return lambda x: x.narrow(axis, 0, 1).expand_as(x)
    return lambda x: x.permute(order).contiguous().permute(back)


def orders(draw: random.Random, rank: int) -> list[tuple[int, ...]]:
    """Some orders of axes: as they are, reversed, the second last, and others."""
    given = tuple(range(rank))
    some = [given, given[::-1], (*given[:1], *given[2:], *given[1:2])]
    some += [tuple(draw.sample(given, rank)) for _ in range(3 * rank)] if rank > 2 else []
    return list(dict.fromkeys(some))[:ORDERS]


def written(y: torch.Tensor, some: Sequence[tuple[int, ...]]) -> torch.Tensor:
    """A tensor of zeros, to which a number of its own was added for each order of axes that has a view."""
    y.zero_()
    for place, order in enumerate(some):
        y.permute(order).reshape(-1).add_(1 << place)
    return y


def function_of(case: Case, seed: int) -> tuple[Callable[..., Any], list[str]]:
    """(a function of the operands of a sample that gives how results lie, the texts of how these lie)"""
    draw = random.Random(seed)
    ways = [laid(draw, each) if isinstance(each, torch.Tensor) else None for each in case.args]
    texts = [str(way(x).stride()) if way is not None else "" for way, x in zip(ways, case.args, strict=True)]

    def function(*args: Any) -> Any:
        given = [x if way is None else way(x) for way, x in zip(ways, args, strict=True)]
        made = [each for each in pytree.tree_leaves(case.model(*given)) if isinstance(each, torch.Tensor)]
        made = [each for each in made if each.dtype is not torch.bool and each.dim() > 1 and each.numel()]
        return [written(y, orders(random.Random(seed + y.dim()), y.dim())) for y in made]

    return function, texts


def outcome(case: Case, seed: int, way: Any) -> str:
    """What came of a sample laid out by a seed, by a way of capture. Raises AssertionError where a program answers
    otherwise than eager."""
    function, texts = function_of(case, seed)
    try:
        torch.manual_seed(0)
        expected = function(*case.args)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return "eager refuses"
    if not expected:
        return "gives no tensor of several axes"
    try:
        found = irkit.to_onnx(function, case.args, capture=way)(*case.args)
    except IrkitError as error:
        return f"{way}, none: {type(error).__name__} {str(error).splitlines()[0][:90]}"
    for mine, eager in zip(found, expected, strict=True):
        told = f"{way}, seed {seed}: {case.words} of operands at {texts}, a result at {eager.stride()}"
        assert mine.shape == eager.shape, f"{list(mine.shape)} for {list(eager.shape)}, {told}"
        assert torch.equal(mine, eager), f"{mine.flatten()[0]} for {eager.flatten()[0]}, {told}"
    return f"{way}, right"


def drawn(seed: int) -> Case | None:
    """A sample that a seed draws, each tenth of a module; None where there is none."""
    draw = random.Random(seed)
    if seed % 10 == 4:
        found = samples(draw.choice(sorted(MODULES)), torch.float32, 1 << 10)
    else:
        found = samples(draw.choice(sorted(OPS)), draw.choice(KINDS), 1 << 10)
    return draw.choice(found) if found else None


def whole(count: int) -> Iterator[tuple[int, Case]]:
    """(seed, sample) for some samples of each operator."""
    for name, kind in itertools.product(NAMES, dict.fromkeys(KINDS)):
        yield from enumerate(samples(name, kind, count if kind is torch.float32 else 2), 7)


def main(arguments: Sequence[str]) -> int:
    """Prints what is wrong with the samples asked for; 1 where something is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--all", action="store_true", help="a count of samples of each operator")
    parser.add_argument("--ways", nargs="+", default=WAYS)
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.count)
    cases = whole(given.count) if given.all else ((each, drawn(each)) for each in seeds)
    tally, wrong = Counter[str](), 0
    for (seed, case), way in itertools.product(cases, given.ways):
        if case is None:
            continue
        try:
            tally[outcome(case, seed, way)] += 1
        except AssertionError as error:
            wrong += 1
            print("WRONG", error, flush=True)
        except Exception as error:  # said, with the sample
            wrong += 1
            print("RAISES", way, seed, case.words, type(error).__name__, str(error)[:200], flush=True)
    print(*(f"{count} {what}" for what, count in tally.most_common()), f"{wrong} wrong", sep="\n")
    return int(wrong > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
