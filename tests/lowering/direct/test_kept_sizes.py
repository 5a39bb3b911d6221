"""Sizes that a program keeps as they are, where a type rule alone would not tell them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
import torch
from torch import Tensor

import irkit
from irkit import dims
from lowering.capture.guards.guards import Guard
from lowering.capture.guards.small_sizes import bits_allowed, bits_by_size, others_of, points_of, size_at
from lowering.fold.simplified_sizes import relying_on
from lowering.records.sizes import Sizes
from lowering.tensors.shaping import slice_bounds

N, M = dims.symbol("n"), dims.symbol("m")


def rolled(x: Tensor) -> Tensor:
    x = torch.nn.functional.avg_pool1d(x[None], 2)[0]
    x = torch.nn.functional.pad(x, (0, (7 - x.shape[0] % 7) % 7))
    return torch.roll(x, (-3,), (0,))


def blocks(x: Tensor) -> Tensor:
    count = (x.shape[0] + 3) // 4
    rows = []
    for i in range(count):
        rows.append(torch.cat([torch.zeros(1, i), torch.ones(1, 1), torch.full((1, count - i - 1), 2.0)], 1))
    return torch.cat(rows) + x.sum()


@pytest.mark.parametrize("function", [rolled, blocks])
def test_what_is_made_of_sizes_is_as_in_eager(function: Callable[[Tensor], Tensor]) -> None:
    program = irkit.to_onnx(function, (torch.rand(9),), dynamic_shapes=({0: "n"},), rewrite=True)
    for size in (2, 3, 4, 7, 8, 14, 40):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), function(x))


def test_a_rolled_tensor_has_the_sizes_that_it_had() -> None:
    program = irkit.to_onnx(rolled, (torch.rand(9),), dynamic_shapes=({0: "n"},))
    assert str(program.graph.results[0].type) == "f32[7*((n // 2 + 6) // 7)]"


def test_a_tensor_of_less_than_nothing_is_refused() -> None:
    program = irkit.to_onnx(lambda x: torch.zeros(x.shape[0] - 3) + 1, (torch.rand(9),), dynamic_shapes=({0: "n"},))
    assert program(torch.rand(3)).shape == (0,)
    with pytest.raises(irkit.ContractError):
        program(torch.rand(2))


@pytest.mark.parametrize("less", [1, 2, 3])
@pytest.mark.parametrize("size", [N, dims.floordiv(N, 2), dims.add(N, M)], ids=str)
def test_a_slice_that_ends_or_begins_before_the_last_elements_is_as_in_python(size: dims.Dim, less: int) -> None:
    end = dims.sub(size, less)
    (_, high), (low, _) = slice_bounds(None, end, size), slice_bounds(end, None, size)
    if less < 3:
        assert high == low == dims.maximum(0, end)
    for n, m in points_of(2):
        every = list(range(dims.evaluate(size, {"n": n, "m": m})))
        at = len(every) - less
        assert every[: dims.evaluate(high, {"n": n, "m": m})] == every[:at]
        assert every[dims.evaluate(low, {"n": n, "m": m}) :] == every[at:]


def test_an_equation_brings_no_number_of_data_where_names_were() -> None:
    number, size = dims.symbol("u0"), dims.maximum(0, dims.sub(N, 5))
    sizes = Sizes({})
    for other, told in ((number, False), (M, True)):
        guard = Guard(sympy.Eq(size, other), "", "")
        relied = relying_on(sizes, [guard], {"n": dims.Range(0, None), "m": dims.Range(0, None)}).relied
        assert (relied(size) == other) is told


def test_bits_say_which_small_sizes_conditions_allow() -> None:
    hints = {"n": 20, "m": 30, "k": 2}
    conditions = [N >= 3, dims.mod(N, 2) * 1 < M, dims.symbol("k") < 3]
    ranges = {"n": dims.Range(0, 12), "m": dims.Range(1, None), "k": dims.Range(0, 5)}
    names = ("n", "m")
    found = bits_allowed(conditions, ranges, names, hints)
    sized = bits_by_size(dims.add(N, M), names, others_of(dims.add(N, M), names, hints))
    for number, (n, m) in enumerate(points_of(2)):
        assert size_at(number, names) == {"n": n, "m": m}
        assert bool(found >> number & 1) == (3 <= n <= 12 and m >= 1 and n % 2 < m)
        assert sized[n + m] >> number & 1
    assert bits_allowed(conditions, ranges, names, {**hints, "k": 4}) == 0
