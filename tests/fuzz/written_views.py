"""Operators of torch's database that write a view in place whose length is a size, each against eager: what is written
may be read or not, and what eager refuses is refused all the same.

A seed draws an operator, one of its samples, a size above 1 of it, a kind of view, and whether what is written is read.
The operator is exported at the sample with that size as a dimension which varies, by each way of capture, and called
at sizes 0, 1, 2 and the sample's. Where both answer, the numbers of the whole memory behind the view are compared.

    python -m tests.fuzz.written_views 500 --seed 7
"""

from __future__ import annotations

import logging
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import torch

import irkit
from irkit.checking.comparison import compare
from irkit.errors import EvaluateError, IrkitError
from lowering.records.types import array_of
from tests.fuzz.small_sizes import ENDING, WRITING, leaves
from tests.lowering.aten.oracle import OPS
from tests.support.draws import seeds_asked
from tests.tables.coverage.measure import DTYPES, clones

WAYS = ("direct", "torch.export")
KINDS = ("float32", "float32", "int64", "bool")
RANDOM = frozenset("bernoulli cauchy exponential geometric log_normal normal uniform nn.functional.rrelu".split())
"""Operators that draw random numbers."""

VIEWS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "all": lambda base, axis: base.view_as(base),
    "but the first": lambda base, axis: base.narrow(axis, 1, base.shape[axis] - 1),
    "but the last": lambda base, axis: base.narrow(axis, 0, base.shape[axis] - 1),
    "every other": lambda base, axis: base.transpose(0, axis)[::2].transpose(0, axis),
    "turned": lambda base, axis: base.transpose(0, -1),
    "a row": lambda base, axis: base.select(0, 1),
}
"""The views of memory, by name: along the axis of what is written whose size varies."""


def memory_of(x: torch.Tensor, kind: str, axis: int) -> torch.Tensor:
    """Memory of which such a view has the elements of a tensor."""
    if kind == "a row":
        return torch.stack([x, x])
    if kind == "turned":
        return x.transpose(0, -1).contiguous()
    first = x.narrow(axis, 0, min(1, x.shape[axis]))
    if not first.numel():
        first = torch.ones([1 if at == axis else n for at, n in enumerate(x.shape)], dtype=x.dtype)
    if kind == "but the first":
        return torch.cat([first, x], axis)
    if kind == "but the last":
        return torch.cat([x, first], axis)
    return x.repeat_interleave(2, axis) if kind == "every other" else x.clone()


@attrs.frozen
class Drawn:
    """An operator on a view: its sample, the size that varies, and the axes of that size of each argument."""

    text: str
    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    size: int
    axes: tuple[tuple[int, ...], ...]
    kind: str
    read: bool

    def __call__(self, base: torch.Tensor, *args: Any) -> Any:
        """What is in the memory afterwards, or what was before."""
        target = base.clone()
        self.operator(VIEWS[self.kind](target, self.axes[0][0]), *args, **self.kwargs)
        return target if self.read else base * 1

    def given(self, size: int) -> tuple[Any, ...]:
        """The arguments at another size: as far as the sample has such, and its last elements once more."""
        found = [resized(arg, axes, size) if axes else arg for arg, axes in zip(self.args, self.axes, strict=True)]
        return (memory_of(found[0], self.kind, self.axes[0][0]), *clones(tuple(found[1:])))

    def names(self) -> tuple[Any, ...]:
        """What varies of each argument."""
        (axis, *others), *rest = self.axes
        length = {"but the first": "n + 1", "but the last": "n + 1", "every other": "2*n"}.get(self.kind, "n")
        own = {axis: length, **dict.fromkeys(others, "n")}
        last = self.args[0].ndim - 1
        if self.kind == "a row":
            own = {at + 1: name for at, name in own.items()}
        if self.kind == "turned":
            own = {{0: last, last: 0}.get(at, at): name for at, name in own.items()}
        return (own, *(dict.fromkeys(axes, "n") for axes in rest))


def resized(x: torch.Tensor, axes: Sequence[int], size: int) -> torch.Tensor:
    """A tensor with as many elements along some axes."""
    for axis in axes:
        x = x.index_select(axis, torch.arange(size).clamp(max=x.shape[axis] - 1))
    return x


def drawn(seed: int) -> Drawn | None:
    """What a seed draws; None where the operator has no such sample."""
    rng = random.Random(seed)
    name = rng.choice(WRITING)
    kinds = [k for k in KINDS if k in DTYPES and DTYPES[k] in OPS[name].dtypes]
    if not kinds or name in RANDOM or name in ENDING:
        return None
    kind, view, read = rng.choice(kinds), rng.choice([*VIEWS]), rng.random() < 0.5
    torch.manual_seed(0)
    found = [each for each in OPS[name].sample_inputs("cpu", DTYPES[kind], requires_grad=False) if fits(each)]
    if not found:
        return None
    sample = rng.choice(found[:40])
    first = sample.input.detach()
    size = rng.choice([n for n in first.shape if n > 1])
    args = (first, *(arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in sample.args))
    axes = tuple(
        tuple(i for i, n in enumerate(arg.shape) if n == size) if isinstance(arg, torch.Tensor) else () for arg in args
    )
    operator = OPS[name].inplace_variant
    text = f"seed {seed}: {name} {kind} {[*first.shape]} of {view}, {'read' if read else 'not read'}, n = {size}"
    return Drawn(text, operator, args, sample.kwargs, size, axes, view, read)


def fits(sample: Any) -> bool:
    """Whether a sample is of plain tensors, and of a size above 1."""
    x = sample.input
    plain = all(not isinstance(arg, torch.Tensor) or arg.layout == torch.strided for arg in sample.args)
    alone = not any(isinstance(arg, torch.Tensor | list | tuple) for arg in sample.kwargs.values())
    return plain and alone and isinstance(x, torch.Tensor) and x.layout == torch.strided and max(x.shape, default=0) > 1


def faults(seed: int, tally: Counter[str], ways: Sequence[str] = WAYS) -> Iterator[str]:
    """What is wrong at a seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = drawn(seed)
        if found is None:
            return
        try:
            found(*found.given(found.size))
        except Exception:  # torch refuses the sample in this view, in every class of errors
            return
        for way in ways:
            try:
                program = irkit.to_onnx(found, found.given(found.size), dynamic_shapes=found.names(), capture=way)
            except IrkitError as error:
                tally[f"{way} does not export"] += 1
                tally[f"{way}: {str(error).splitlines()[0][:90]}"] += 1
                continue
            for size in (0, 1, 2, found.size, 3 * found.size):
                wrong = fault(found, program, size, tally)
                if wrong:
                    yield f"{found.text}, by {way} at {size}: {wrong}"


def fault(found: Drawn, program: Any, size: int, tally: Counter[str]) -> str:
    """What is wrong at a size; empty where nothing is."""
    try:
        expected, refused = [array_of(part) for part in leaves(found(*found.given(size)))], None
    except Exception as error:  # torch refuses in every class of errors
        expected, refused = None, error
    try:
        ours = [array_of(part) for part in leaves(program(*found.given(size)))]
    except IrkitError as error:
        by_runtime = isinstance(error, EvaluateError) and refused is None
        tally["both refuse" if refused else "refused by the contract"] += 1
        return f"ONNX Runtime refuses what eager takes: {str(error)[:300]}" if by_runtime else ""
    if expected is None:
        tally["eager alone refuses"] += 1
        return f"answers where eager says: {str(refused)[:200]}"
    tally["both answer"] += 1
    wrong = compare(expected, ours, rtol=1e-4, atol=1e-5)
    return "" if wrong is None else f"answers something else: {wrong}"


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    logging.disable(logging.CRITICAL)
    seeds, wrong, tally = seeds_asked(arguments), 0, Counter[str]()
    for seed in seeds:
        try:
            found = [*faults(seed, tally)]
        except Exception as error:  # said, with the seed
            found = [f"seed {seed}: {type(error).__name__}: {error}"]
        wrong += bool(found)
        print(*found[:2], sep="\n", end="\n" * bool(found), flush=True)
    print(f"{len(seeds)} views, {wrong} wrong", *(f"{n} {what}" for what, n in tally.most_common()), sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
