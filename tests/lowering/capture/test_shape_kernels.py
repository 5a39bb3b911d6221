"""Kernels that are lent to torch while a model is traced: used at each export, and gone after it."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import irkit
from lowering.capture.patches.shape_kernels import KERNELS, KEY


class Pool(torch.nn.Module):
    """Max pooling over one axis, which torch's own kernel traces for one size only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What is pooled."""
        return torch.nn.functional.max_pool1d(x, 2)


def test_what_torch_traced_before_does_not_matter() -> None:
    """torch remembers the kernel of an operator that it has called: irkit's is used nevertheless, and torch's again
    after it."""
    own = {operator: operator.py_kernels.get(KEY) for operator in KERNELS}
    x = torch.randn(1, 2, 6)
    before = torch.export.export(Pool(), (x,))
    program = irkit.to_onnx(Pool(), (x,), dynamic_shapes=({2: Dim("n", min=2)},), capture="torch.export")
    wide = torch.randn(1, 2, 9)
    torch.testing.assert_close(program(wide), Pool()(wide))
    assert {operator: operator.py_kernels.get(KEY) for operator in KERNELS} == own
    after = torch.export.export(Pool(), (x,))
    assert [str(n.target) for n in after.graph.nodes] == [str(n.target) for n in before.graph.nodes]


def test_a_mask_that_is_larger_than_what_it_chooses_from_may_choose_more() -> None:
    """torch's own kernel takes 4 for the most that can be chosen."""
    x, mask = torch.arange(4.0), torch.tensor([[True, False, True, True]] * 3)
    program = irkit.to_onnx(torch.masked_select, (x, mask), capture="torch.export")
    assert program.report.dims == (("u0", "[0, 12]"),)
    torch.testing.assert_close(program(x, mask), torch.masked_select(x, mask))


# ---------------------------------------------------------------------------------------- arange by numbers of the data


def test_arange_by_a_step_of_the_data() -> None:
    def model(step: torch.Tensor) -> torch.Tensor:
        return torch.arange(0.0, 1.0, step.item())

    program = irkit.to_onnx(model, (torch.tensor(0.25),), capture="torch.export")
    for step in (0.1, 0.3, 1 / 3, 0.25, 1.0, 2.0, 1e-3, torch.inf):
        torch.testing.assert_close(program(torch.tensor(step)), model(torch.tensor(step)))
    for step in (-0.1, 0.0, torch.nan):  # eager raises
        with pytest.raises(irkit.ContractError, match="the step of arange leads from its start to its end"):
            program(torch.tensor(step))


def test_arange_between_numbers_of_the_data() -> None:
    def model(low: torch.Tensor, high: torch.Tensor) -> tuple[torch.Tensor, ...]:
        last = high.item()
        return torch.arange(low.item(), last, 0.5, dtype=torch.float64), torch.arange(last)

    program = irkit.to_onnx(model, (torch.tensor(0.25), torch.tensor(3.0)), capture="torch.export")
    for low, high in ((0.1, 5.0), (1.0, 1.0), (-3.0, 2.7)):
        torch.testing.assert_close(program(*map(torch.tensor, (low, high))), model(*map(torch.tensor, (low, high))))
    with pytest.raises(irkit.ContractError, match="the step of arange"):
        program(torch.tensor(2.0), torch.tensor(1.0))
