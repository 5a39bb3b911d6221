"""Every operator of two operands, on pairs of element types: what torch promotes to, ONNX Runtime computes in.

Which pairs is drawn for each operator, and each pair is drawn for some; `make sweep` takes all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from irkit.checking.comparison import compare
from tests.lowering.aten.harness import eager, lowered, run_onnx
from tests.support.draws import drawn

KINDS = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
    torch.float64,
)  # fmt: skip
PAIRS = 40
"""How many pairs are drawn for each operator, of 243."""
NUMBERS: tuple[Any, ...] = (True, 2, 2.5)
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(torch, name) for name in (
        "add sub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot copysign "
        "logaddexp xlogy eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
        "bitwise_left_shift bitwise_right_shift heaviside nextafter gcd lcm isclose float_power ldexp"
    ).split()},
    "where": lambda a, b: torch.where(torch.as_tensor(a) > 2, a, b),
    "divided and rounded down": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "divided and cut off": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "addcmul": lambda a, b: torch.addcmul(a, a, b), "subtracted twice": lambda a, b: torch.sub(a, b, alpha=2),
    "subtracted from": lambda a, b: torch.rsub(a, b), "concatenated": lambda a, b: torch.cat([a, b]),
    "clamped": lambda a, b: torch.clamp(a, max=b), "lerp": lambda a, b: torch.lerp(a, b, 0.25),
}  # fmt: skip


def tensor(kind: torch.dtype, rank: int, first: bool) -> torch.Tensor:
    """Small numbers that every type holds; a divisor or a shift is never 0 or negative."""
    numbers = [5, 7, 3] if first else [2, 1, 3]
    made = torch.tensor(numbers).to(kind)
    return made if rank else made[0].clone()


def pairs() -> Iterator[tuple[Any, Any]]:
    """Tensors of every two types, of tensors without dimensions too, and numbers on either side."""
    for a, b in product(KINDS, KINDS):
        yield tensor(a, 1, True), tensor(b, 1, False)
        yield (tensor(a, 1, True), tensor(b, 0, False)) if a.itemsize > 2 else (tensor(b, 0, True), tensor(a, 1, False))
    for kind, number in product(KINDS, NUMBERS):
        yield tensor(kind, 1, True), number
        yield number, tensor(kind, 1, False)
        yield tensor(kind, 0, True), number


@pytest.mark.filterwarnings("ignore")  # torch's ldexp resizes its result
@pytest.mark.parametrize("name", FUNCTIONS)
def test_pairs_of_types(name: str) -> None:
    """The pairs in one graph: each pair is what torch makes of it, in type and in numbers."""
    function = FUNCTIONS[name]
    taken = [pair for pair in drawn(f"pairs for {name}", list(pairs()), PAIRS, key=words) if is_taken(function, pair)]
    assert taken
    tensors = [v for pair in taken for v in pair if isinstance(v, torch.Tensor)]

    def every(*given: torch.Tensor) -> list[torch.Tensor]:
        parts = iter(given)
        return [function(*(next(parts) if isinstance(v, torch.Tensor) else v for v in pair)) for pair in taken]

    expected = eager(every, *tensors)
    found = run_onnx(lowered(every, *tensors).graph, tensors)
    wrong = [
        f"{words(pair)}: {difference}"
        for pair, e, g in zip(taken, expected, found, strict=True)
        if (difference := compare([e], [np.asarray(g)])) is not None
    ]
    assert not wrong, "\n".join(wrong)


def is_taken(function: Callable[[Any, Any], Any], pair: tuple[Any, Any]) -> bool:
    """Whether torch takes the pair, and tells its own tracer the type that it computes: of bool ** True it does not."""
    try:
        made = function(*pair)
        traced = function(*(v.to("meta") if isinstance(v, torch.Tensor) else v for v in pair))
    except (RuntimeError, TypeError):
        return False
    return isinstance(made, torch.Tensor) and made.dtype is traced.dtype


def words(pair: tuple[Any, Any]) -> str:
    """What a pair is, in a few words."""
    return ", ".join(f"{v.dtype} of rank {v.ndim}" if isinstance(v, torch.Tensor) else repr(v) for v in pair)
