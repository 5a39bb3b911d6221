"""What the example's inputs hold at other sizes: as torch would stretch them, also of those that lie alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import irkit
from irkit.errors import IrkitError
from lowering.capture.torch_export import repeated_rows
from lowering.direct.request import stretched, stretched_numbers

SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=4)


@given(SIZES, st.sampled_from([torch.float32, torch.int64, torch.bool]))
def test_numbers_at_other_sizes_are_those_of_the_tensor_there(sizes: list[tuple[int, int]], dtype: torch.dtype) -> None:
    there, wanted = [a for a, _ in sizes], [b for _, b in sizes]
    tensor = torch.arange(int(np.prod(there)), dtype=torch.float32).reshape(there).to(dtype)
    expected = stretched(tensor, wanted, repeated_rows).numpy()
    found = stretched_numbers(tensor.numpy(), wanted)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape == tuple(wanted)
    assert np.array_equal(found, expected)


def test_pairs_of_numbers_are_stretched_along_the_axes_of_the_tensor() -> None:
    tensor = torch.arange(6, dtype=torch.float32).reshape(3, 2) * (1 + 2j)
    pairs = torch.view_as_real(tensor).numpy()
    for wanted in ((2, 2), (5, 1), (0, 3), (3, 2)):
        expected = torch.view_as_real(stretched(tensor, wanted, repeated_rows)).numpy()
        assert np.array_equal(stretched_numbers(pairs, wanted), expected)


class Alike(torch.nn.Module):
    """Two inputs that lie alike, of which the second decides, and a size whose smallest values are tried apart."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        several = x.shape[0] > 1
        if y[-1, 0].item() > 0:
            return torch.cat([x, y], 0 if several else -2)
        return x - y


class Graded(Alike):
    """The same where the data decides in a function whose gradient is taken."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def loss(z: torch.Tensor) -> torch.Tensor:
            return (z * y).sum() * (2 if y[-1, 0].item() > 0 else 3)

        return torch.func.grad(loss)(x)


@pytest.mark.parametrize("made", [Alike, Graded])
@pytest.mark.parametrize("turned", [False, True])
def test_the_second_of_two_inputs_that_lie_alike_tells_its_own_numbers(made: type, turned: bool) -> None:
    model = made()
    x, y = -torch.ones(3, 2), torch.full((3, 2), 5.0)
    if turned:
        x, y = x.t().contiguous().t(), y.t().contiguous().t()
    rows = torch.export.Dim("rows")
    program = irkit.to_onnx(model, (x, y), dynamic_shapes=({0: rows}, {0: rows}), capture="direct")
    for count in (1, 2, 3, 7):
        a, b = torch.randn(count, 2), torch.randn(count, 2)
        b[-1, 0] = 2.0
        torch.testing.assert_close(program(a, b), model(a, b))
        b[-1, 0] = -2.0
        with pytest.raises(IrkitError):
            program(a, b)
