"""Random programs that ask how a result lies in memory, or view and write it, at sizes 0, 1 and others, against eager.

    python -m tests.fuzz.asked_layouts 200 --seed 7

A tensor of one to three axes, of which some vary, goes through views and operators; then its strides are asked, whether
it lies in order, or what reshape(-1) makes of it is written. The example may have sizes of 1. At each of some sizes the
program must do as eager does, or refuse.
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
from irkit.errors import IrkitError
from tests.support.draws import seeds_asked

Step = Callable[[torch.Tensor], torch.Tensor]
STEPS: dict[str, Step] = {
    "x.transpose(0, -1)": lambda x: x.transpose(0, -1), "x.movedim(0, -1)": lambda x: x.movedim(0, -1),
    "x[:1]": lambda x: x[:1], "x[..., 1:]": lambda x: x[..., 1:], "x.unsqueeze(0)": lambda x: x.unsqueeze(0),
    "x.unsqueeze(-1)": lambda x: x.unsqueeze(-1), "x.relu()": lambda x: x.relu(), "x * 2": lambda x: x * 2,
    "x + x[:1]": lambda x: x + x[:1], "x + x.sum(-1, keepdim=True)": lambda x: x + x.sum(-1, keepdim=True),
    "x.clone()": lambda x: x.clone(), "x.contiguous()": lambda x: x.contiguous(), "x.double()": lambda x: x.double(),
    "torch.cat([x, x])": lambda x: torch.cat([x, x]), "torch.stack([x, x], -1)": lambda x: torch.stack([x, x], -1),
    "x.flip(0)": lambda x: x.flip(0), "x.softmax(0)": lambda x: x.softmax(0), "x.cumsum(0)": lambda x: x.cumsum(0),
    "x.sum(0, keepdim=True)": lambda x: x.sum(0, keepdim=True), "x.amax(-1)": lambda x: x.sum(-1),
    "torch.zeros_like(x)": torch.zeros_like, "x.roll(1, 0)": lambda x: x.roll(1, 0),
    "x.masked_fill(x > 1, 0)": lambda x: x.masked_fill(x > 1, 0),
    "torch.where(x > 1, x, -x)": lambda x: torch.where(x > 1, x, -x),
    "x @ x.mT": lambda x: x @ x.mT, "F.pad(x, (1, 0))": lambda x: F.pad(x, (1, 0)),
    "x.reshape(-1, 1)": lambda x: x.reshape(-1, 1),
    "x.expand(2, ...)": lambda x: x.expand(2, *x.shape), "x.flatten()": lambda x: x.flatten(),
    "x // 2": lambda x: x // 2,
    "x[..., :2]": lambda x: x[..., :2], "torch.ones_like(x)": torch.ones_like, "x.isnan()": lambda x: x.isnan() * 1,
    "x.narrow(0, 0, 1)": lambda x: x.narrow(0, 0, 1), "x.unfold(0, 1, 1)": lambda x: x.unfold(0, 1, 1),
    "F.layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "x.sort(0)": lambda x: x.sort(0).values,
}  # fmt: skip


def written(x: torch.Tensor) -> torch.Tensor:
    """What a write into its elements in order leaves of a result."""
    x = x + 0
    x.reshape(-1).add_(1)
    return x


ENDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "x.stride()": lambda x: x.stride(), "x.stride(0)": lambda x: x.stride(0),
    "x.is_contiguous()": lambda x: x.is_contiguous(),
    "written": written, "x.view(-1)": lambda x: x.view(-1) + 1, "as_strided": lambda x: x.as_strided((2,), (1,)) + 1,
}  # fmt: skip
SIZES = (0, 1, 2, 3, 5)


class Drawn:
    """A program that a seed draws: `text` is what it does, `example` its sizes, `vary` the axes that have names."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        names = [draw.choice(list(STEPS)) for _ in range(draw.randint(1, 4))]
        end, rank = draw.choice(list(ENDS)), draw.randint(1, 3)
        self.example = tuple(draw.choice((1, 2, 3, 4)) for _ in range(rank))
        self.vary = tuple(sorted(draw.sample(range(rank), draw.randint(1, rank))))
        self.text = f"{'; '.join(names)}; {end} of {self.example}, where {self.vary} vary"

        def model(x: torch.Tensor) -> Any:
            y = x * 1
            for name in names:
                y = STEPS[name](y)
            return x * 3, ENDS[end](y)

        self.model = model

    def points(self) -> list[tuple[int, ...]]:
        """The sizes at which programs are compared."""
        places = [SIZES if axis in self.vary else (size,) for axis, size in enumerate(self.example)]
        return list(itertools.product(*places))


def tensor_of(sizes: Sequence[int]) -> torch.Tensor:
    """A tensor of sizes, laid out in order."""
    made = torch.empty(tuple(sizes))
    return made.copy_(torch.arange(float(made.numel())).reshape(made.shape) % 5)


def answer(model: Callable[..., Any], sizes: Sequence[int]) -> Any:
    """What eager gives; None where it raises."""
    try:
        return model(tensor_of(sizes))
    except (RuntimeError, IndexError, ValueError):
        return None


def differs(mine: Any, eager: Any) -> bool:
    """Whether a part of a result is another one."""
    if isinstance(eager, torch.Tensor):
        return mine.shape != eager.shape or not torch.allclose(mine, eager, 1e-3, 1e-3, True)
    return mine != eager


def faults(seed: int, ways: Sequence[str] = ("direct",)) -> list[str]:
    """What is wrong with the programs of a seed."""
    case, found = Drawn(seed), list[str]()
    if answer(case.model, case.example) is None:
        return []
    for way in ways:
        shapes = ({axis: "nmk"[axis] for axis in case.vary},)
        try:
            program = irkit.to_onnx(case.model, (tensor_of(case.example),), dynamic_shapes=shapes, capture=way)
        except IrkitError:
            continue
        for sizes in case.points():
            try:
                mine = program(tensor_of(sizes))
            except IrkitError:
                continue
            eager = answer(case.model, sizes)
            if eager is None or any(map(differs, mine, eager)):
                said = "where eager raises" if eager is None else f"for {eager[1]}"
                found.append(f"{way}: {mine[1]} {said} at {sizes}: {case.text}")
    return found


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
