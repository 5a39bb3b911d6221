"""torch's database of operators at sizes 0 and 1, each against eager: what eager refuses is refused, the rest is equal.

A sample of an operator is drawn, one of its sizes, and 0 or 1 in its place: all dimensions of that size are cut. The
operator is exported at the small size itself, or at the sample's with that size as a dimension which varies, by one of
the ways of capture. What eager refuses must be refused, at export or at the call; what it answers must be answered
alike, or nearer to what it gives in float64, or refused by a condition of the contract; ONNX Runtime is never what
refuses. `make fuzz-sizes` draws thousands.

    python -m tests.fuzz.small_sizes 2000 --seed 7

Seeds from 5,000,000 on draw operators that write their first operand in place.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any
from unittest import mock

import attrs
import torch
from torch.utils import _pytree as pytree

import irkit
from irkit.checking.comparison import compare
from irkit.errors import EvaluateError, IrkitError
from lowering.records.types import array_of
from tests.lowering.aten.oracle import OPS
from tests.support.optimized_torch import NAMES, samples
from tests.support.sweeps import CODE, Found, Piece, options, resumed, summary
from tests.tables.coverage.measure import DTYPES, Called, Key, clones
from tests.tables.coverage.verdicts import sampled, verdict

BACKEND = "MKL FFT error"
"""What oneMKL says of transforms of no rows, which torch's own shapes and its other backends allow: no refusal."""
RANDOM = frozenset(("nn.functional.scaled_dot_product_attention",))
"""Operators some of whose samples draw random numbers; of size 0 this one loses a dimension in eager, too."""

ENDING = frozenset(("nn.functional.embedding_bag", "_segment_reduce"))
"""Operators with which torch 2.13 ends the process: embedding_bag(weight, indices, offsets[0]) where bags are none, and
segment_reduce where stretches end beyond the rows, at which `unsafe` does not look (pytorch/pytorch#141481 is akin)."""

IN_PLACE = 5_000_000
"""The first of the seeds that draw operators which write in place."""
WRITING = tuple(name for name in NAMES if OPS[name].inplace_variant is not None)
KINDS = ("float32", "float32", "int64", "bool")
WAYS = ("direct", "torch.export")


@attrs.frozen
class Drawn:
    """A sample, its arguments at the small size, and the axes of each argument that were cut."""

    text: str
    case: Any
    small: tuple[Any, ...]
    axes: tuple[tuple[int, ...], ...]
    varies: bool
    capture: Any


def drawn(seed: int) -> Drawn | None:
    """What a seed draws; None where the operator has no sample with a size above 1."""
    rng = random.Random(seed)
    writes = seed >= IN_PLACE
    name = rng.choice(WRITING if writes else NAMES)
    kinds = [k for k in KINDS if k in DTYPES and DTYPES[k] in OPS[name].dtypes]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    torch.manual_seed(0)
    key = Key(name, kind, "static")
    found = writing_samples(key) if writes else samples(key)
    if not found:
        return None
    case = rng.choice(found)
    if name in RANDOM or any(isinstance(arg, torch.Tensor) and arg.layout != torch.strided for arg in case.args):
        return None
    sizes = sorted({size for arg in case.args if isinstance(arg, torch.Tensor) for size in arg.shape if size > 1})
    if not sizes:
        return None
    size, new, varies = rng.choice(sizes), rng.randrange(2), rng.random() < 0.5
    axes = tuple(
        tuple(i for i, n in enumerate(arg.shape) if n == size) if isinstance(arg, torch.Tensor) else ()
        for arg in case.args
    )
    small = tuple(cut(arg, each, new) for arg, each in zip(case.args, axes, strict=True))
    how, capture = "as a dimension" if varies else "fixed", rng.choice(WAYS)
    return Drawn(f"seed {seed}: {name} {kind}, {size} -> {new} {how}", case, small, axes, varies, capture)


@lru_cache(maxsize=64)
def writing_samples(key: Key) -> tuple[Any, ...]:
    """The samples of an operator that writes a copy of its first operand in place."""
    info = OPS[key.op]

    def written(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return info.inplace_variant(x.clone(), *args, **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = list(islice(info.sample_inputs("cpu", DTYPES[key.dtype], requires_grad=False), 40))
    plain = (each.transform(lambda x: x.detach() if isinstance(x, torch.Tensor) else x) for each in given)
    return tuple(sampled(Called(info.name, written), each) for each in plain)


def cut(arg: Any, axes: Sequence[int], size: int) -> Any:
    """An argument of which some axes keep their first element, or none."""
    for axis in axes:
        arg = arg.narrow(axis, 0, size)
    return arg.clone() if axes else arg


def fault(found: Drawn, tally: Counter[str]) -> str:
    """What is wrong with a draw; empty where nothing is."""
    model = found.case.model.eval()
    if found.case.name in ENDING and any(isinstance(each, torch.Tensor) and not each.numel() for each in found.small):
        tally["torch ends the process"] += 1
        return ""
    said: Any = None
    try:
        torch.manual_seed(0)
        said = model(*clones(found.small))
        expected = [array_of(part) for part in leaves(said)]
    except Exception as error:  # torch refuses in every class of errors
        if str(error).startswith(BACKEND):
            return ""
        expected, refused = None, error
    else:
        refused = None
    names = tuple(dict.fromkeys(axes, "size") for axes in found.axes) if found.varies else None
    try:
        given = clones(found.case.args if found.varies else found.small)
        program = irkit.to_onnx(model, given, dynamic_shapes=names, capture=found.capture)
    except IrkitError:
        tally["both refuse" if refused else "not exported"] += 1
        return ""
    try:
        answer = program(*clones(found.small))
        ours = [array_of(part) for part in leaves(answer)]
    except EvaluateError as error:
        tally["refused by the runtime"] += 1
        return "" if refused else f"ONNX Runtime refuses what eager takes: {str(error)[:300]}"
    except IrkitError:
        tally["both refuse" if refused else "refused by the contract"] += 1
        return ""
    if expected is None:
        tally["eager alone refuses"] += 1
        return f"answers {[part.shape for part in ours]} where eager says: {str(refused)[:200]}"
    tally["both answer"] += 1
    wrong = compare(expected, ours, rtol=1e-4, atol=1e-5)
    if wrong is None or verdict(found.case, found.small, said, answer):
        return ""
    if is_random(model, found.small, expected):
        tally["random"] += 1
        return ""
    if contradicted(model, found.small, expected, ours):
        tally["torch contradicts its own shapes"] += 1
        return ""
    return f"answers something else: {wrong}"


def is_random(model: Any, small: tuple[Any, ...], expected: Sequence[Any]) -> bool:
    """Whether eager answers otherwise from other seeds: dropout, and slopes that are drawn."""
    for seed in range(1, 9):
        torch.manual_seed(seed)
        with mock.patch.object(torch, "manual_seed", lambda seed: None):  # OpInfo seeds some operators itself
            found = [array_of(part) for part in leaves(model(*clones(small)))]
        if compare(expected, found) is not None:
            return True
    return False


def contradicted(model: Any, small: tuple[Any, ...], expected: Sequence[Any], ours: Sequence[Any]) -> bool:
    """Whether eager gives empty tensors, or such made of them, in other shapes than torch tells on the meta device, and
    we give the latter: pixel_unshuffle of nothing is a copy, addmv without columns has the shape of what is added."""
    try:
        told = leaves(model(*(each.to("meta") if isinstance(each, torch.Tensor) else each for each in clones(small))))
    except Exception:  # torch refuses in every class of errors
        return False
    shapes = [tuple(each.shape) for each in told]
    return shapes == [each.shape for each in ours] != [each.shape for each in expected]


def leaves(result: Any) -> list[torch.Tensor]:
    """The tensors of a result; a number as one."""
    return [torch.as_tensor(part) for part in pytree.tree_leaves(result)]


def faults(seeds: Sequence[int], tally: Counter[str], ways: Sequence[str] = ()) -> Iterator[str]:
    """What is wrong at each seed, by the way of capture that it draws or by these."""
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = drawn(seed)
            each = [attrs.evolve(found, capture=way) for way in ways or (found.capture,)] if found is not None else []
            for one in each:
                wrong = fault(one, tally)
                if wrong:
                    yield f"{one.text}, by {one.capture}: {wrong}"


LOT = 20
"""Seeds of one piece of the sweep."""


def lot(piece: Piece, tell: Callable[[str], None]) -> Found:
    """What came of some seeds: how often what happened, and what is wrong."""
    logging.disable(logging.CRITICAL)
    tally: Counter[str] = Counter()
    what: list[str] = []
    for seed in range(int(piece[0]), int(piece[0]) + int(piece[1])):
        tell(f"at seed {seed}")
        what += faults([seed], tally)
    return {**tally, "draws": piece[1], "wrong": len(what), "what": what}


def main(arguments: Sequence[str]) -> int:
    """Draws as many as asked for, and prints what is wrong; 1 where something is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options("small_sizes", parser)
    given = parser.parse_args(arguments)
    end = given.seed + given.count
    pieces: list[Piece] = [(first, min(LOT, end - first)) for first in range(given.seed, end, LOT)]
    rows = resumed(given.results, lot, pieces, given.jobs, given.seconds, (*CODE, "lowering"))
    done = [rows[piece] for piece in pieces if piece in rows]
    for row in done:
        print(*row.get("what", (row.get("ended"),)), sep="\n", end="\n" * bool(row.get("what", True)))
    names = dict.fromkeys(name for row in done for name in row if isinstance(row[name], int))
    print(summary(rows, pieces, *names))
    return int(any(row.get("wrong", 1) for row in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
