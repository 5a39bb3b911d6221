"""Complex tensors inside a program: pairs of real ones, gone before the program ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from irkit.build import const
from lowering.errors import LoweringError, Unsupported
from lowering.tensors.complex_pairs import PAIR, componentwise
from tests.lowering.aten.harness import check, check_sizes, lowered

WAVES = torch.polar(torch.ones(5, 4), torch.linspace(0, 3, 20).reshape(5, 4))


def rotary(x: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding as the first Llama computed it: a product of complex numbers."""
    b, s, h, d = x.shape
    pairs = torch.view_as_complex(x.float().reshape(b, s, h, d // 2, 2))
    frequencies = torch.outer(torch.arange(s), 1.0 / (10000 ** (torch.arange(0, d, 2) / d)))
    turns = torch.polar(torch.ones_like(frequencies), frequencies)[None, :, None, :]
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def made(x: torch.Tensor) -> torch.Tensor:
    """A complex tensor out of a real one."""
    return torch.complex(x, x.flip(-1) + 0.5)


def shown(z: torch.Tensor) -> torch.Tensor:
    """A complex tensor as a real one."""
    return torch.view_as_real(z)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rotary": rotary,
    "constant": lambda x: shown(torch.view_as_complex(x.reshape(2, 5, 3, 4, 2)) * WAVES[None, :, None]),
    "abs": lambda x: made(x).abs(), "angle": lambda x: made(x).angle(), "real": lambda x: made(x).real,
    "imag_of_conj": lambda x: made(x).conj().sum((1, 2)).imag, "matmul": lambda x: shown(made(x) @ made(x).mT),
    "divide": lambda x: shown(made(x) / made(x * 2)), "by_real": lambda x: shown(made(x) * x / (x + 3)),
    "number": lambda x: shown((2 - 1j) * made(x) + 1j - 0.5 * made(x)), "exp": lambda x: shown(made(x).exp()),
    "log": lambda x: shown(made(x).log()), "sqrt": lambda x: shown(made(x).sqrt()),
    "sgn": lambda x: shown(made(x).sgn()),
    "powers": lambda x: shown(made(x) ** 3 + made(x) ** -2), "mean": lambda x: shown(made(x).mean(-1)),
    "cat": lambda x: shown(torch.cat([made(x), x.to(torch.complex64)], 1)),
    "zeros": lambda x: shown(made(x) + torch.zeros_like(made(x))),
    "where": lambda x: shown(torch.where(x > 0, made(x), 0)), "equal": lambda x: made(x) == made(x).conj(),
    "moved": lambda x: shown(made(x).transpose(1, 2)[:, :, 1:].unsqueeze(0).expand(3, -1, -1, -1, -1).reshape(-1, 4)),
    "polar": lambda x: shown(torch.polar(x.abs(), x)), "to_real": lambda x: made(x).abs().double().to(torch.float32),
    "bits": lambda x: (made(x).view(torch.float32) + 1).view(torch.complex64).abs(),
    "matmul_by_real": lambda x: (shown(made(x) @ x.mT.to(torch.complex64)), shown(torch.fft.fft(x) @ made(x).mT)),
    "conv": lambda x: shown(torch.conv1d(made(x)[0], made(x)[0, :3, :, :3].mT.contiguous(), made(x)[0, 0, 0, :3])),
    "pad": lambda x: shown(torch.nn.functional.pad(made(x), (1, 2), value=3.0)),
    "ones": lambda x: shown(torch.ones_like(made(x)) + torch.ones(8, dtype=torch.complex64).cumsum(0)),
    "full": lambda x: shown(torch.full_like(made(x), 2) + torch.full((8,), 1 + 2j)),
    "broadcast": lambda x: [shown(t) if t.is_complex() else t for t in torch.broadcast_tensors(made(x), x[:1])],
    "movedim": lambda x: shown(made(x).movedim((0, 1), (2, 3))), "to_other": lambda x: x.expand_as(made(x)).sin(),
    "truth": lambda x: (made(x) * (x > 0)).logical_not(),
    "diagonal": lambda x: shown(made(x).diagonal(dim1=-1, dim2=0)),
    "stack": lambda x: shown(torch.stack([made(x), made(x + 1)], -1)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_inside(name: str) -> None:
    check(FUNCTIONS[name], torch.randn(2, 5, 3, 8))


@pytest.mark.filterwarnings("ignore")
def test_rotary_embedding_on_other_sizes() -> None:
    check_sizes(rotary, (torch.randn(2, 5, 3, 8),), (torch.randn(3, 7, 2, 8),), (torch.randn(2, 2, 2, 4),))


@pytest.mark.filterwarnings("ignore")
def test_no_pair_is_left_below_a_real_result() -> None:
    case = lowered(rotary, torch.randn(2, 5, 3, 8))
    assert case.decomposed == {}
    assert [v for v in case.graph.order if v.op == PAIR] == []


@pytest.mark.filterwarnings("ignore")
def test_what_has_no_converter_for_complex_numbers_is_named() -> None:
    with pytest.raises(LoweringError, match="complex numbers scattered"):
        lowered(
            lambda x: shown(torch.ops.aten.scatter.reduce(made(x), 0, torch.tensor([0]), made(x), reduce="multiply")),
            torch.randn(3),
        )


@pytest.mark.filterwarnings("ignore")
def test_what_comes_as_pairs_and_goes_as_pairs_is_left_alone() -> None:
    case = lowered(lambda x: shown(torch.view_as_complex(x)), torch.randn(3, 2))
    assert case.graph.results == case.graph.params


def test_a_complex_argument_of_unknown_meaning_is_refused() -> None:
    z = const(np.ones(2, np.complex64))
    with pytest.raises(Unsupported, match="a complex weight"):
        componentwise(lambda self, weight: self, ("self", "weight"))(z, z)
