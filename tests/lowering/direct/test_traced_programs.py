"""Random programs that are captured directly answer as eager does, or refuse; `make fuzz-traced` runs many more."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import irkit
from tests.fuzz import traced_programs
from tests.fuzz.further_steps import FURTHER
from tests.support.draws import drawn

FAILED = (0, 2, 7, 10, 30, 37, 44, 55, 61, 68, 72, 103, 105, 114, 119, 144, 1002, 1011, 1023, 1094, 1220,
          2219, 2235, 2286, 2292, 5013, 5109, 20686, 30003, 30497, 30531, 30947,
          31115, 31345, 31351, 31446, 31457, 31590, 31668, 31700, 210129, 5200252)  # fmt: skip
"""Seeds that once found a fault."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", drawn("traced programs", range(6000), 30, FAILED))
def test_random_programs_answer_as_eager_or_refuse(seed: int) -> None:
    tally: Counter[str] = Counter()
    assert list(traced_programs.faults(seed, tally, 8)) == []


WIDE_FAILED = (1017, 1053, 1178, 1241, 1303, 1374, 1430, 20005, 200177)
"""Seeds of wider programs that once found a fault."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", drawn("wider traced programs", range(6000), 16, WIDE_FAILED))
def test_random_programs_of_more_kinds_answer_as_eager_or_refuse(seed: int) -> None:
    tally: Counter[str] = Counter()
    assert list(traced_programs.faults(seed, tally, 6, wide=True)) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", drawn("further traced programs", range(6000), 8))
def test_random_programs_of_further_kinds_answer_as_eager_or_refuse(seed: int) -> None:
    tally: Counter[str] = Counter()
    assert list(traced_programs.faults(seed, tally, 6, kinds=FURTHER)) == []


REQUIRED = {
    "multiples": (lambda x: torch.nn.functional.pixel_unshuffle(x[None], 2), (4, 6), "n % 2 == 0", (5, 6)),
    "windows": (lambda x: x.unfold(0, 4, 1), (9, 3), "n >= 4", (3, 3)),
    "the greatest two": (lambda x: x.topk(2, 0).values, (9, 3), "n >= 2", (1, 3)),
    "a kernel": (lambda x: torch.nn.functional.conv1d(x.t()[:, None], torch.ones(1, 1, 3)), (7, 2), "n >= 3", (2, 2)),
    "a greatest element": (lambda x: x.amax(0), (7, 2), "n >= 1", (0, 2)),
    "parts": (lambda x: torch.split(x, [2, x.shape[0] - 2])[0], (4, 4), "n >= 2", (1, 4)),
    "a letter of size 1": (
        lambda x: torch.einsum("ij,jk->ik", torch.ones(2, 3), x[2 * (x.shape[0] // 3) :]),
        (3, 2), "max(0, n - 2*(n // 3)) == 1", (4, 2),
    ),
    "a length out of sizes": (lambda x: x.narrow(1, 0, x.shape[0]), (3, 4), "n <= 4", (5, 4)),
    "a width that is cut": (lambda x: torch.nn.functional.linear(x.t()[..., :3], torch.ones(2, 3)), (4, 2),
                            "min(3, n) >= 3", (2, 2)),
    "rows": (lambda x: x[2] + x[5], (6, 4), "n >= 6", (5, 4)),
    "a narrowed width": (lambda x: torch.ones(5).narrow(0, 0, x.shape[0]), (3, 2), "n <= 5", (6, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUIRED)
def test_what_torch_requires_of_a_size_is_enforced(name: str) -> None:
    function, shape, condition, other = REQUIRED[name]
    program = irkit.to_onnx(function, (torch.randn(shape),), dynamic_shapes=({0: "n"},), capture="direct")
    assert condition in [text for text, _ in program.report.guards]
    assert program.check(3)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(other))


def test_the_order_of_two_sizes_is_not_taken_for_that_of_others() -> None:
    program = irkit.to_onnx(
        lambda x, count: x.narrow(1, 0, count.item()),
        (torch.randn(4, 2), torch.tensor(2)), dynamic_shapes=({0: "n", 1: "m"}, None), capture="direct",
    )  # fmt: skip
    assert {"u0 <= m", "u0 >= 0"} <= {text for text, _ in program.report.guards}
    assert program(torch.randn(1, 5), torch.tensor(4)).shape == (1, 4)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(6, 2), torch.tensor(3))
