"""With rewrite=True, sizes 0 and 1 at which a model computes something else are branches of the graph."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import irkit


class Masked(torch.nn.Module):
    """Leaves out the mask for one token, as hybrid decoders do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 512)
        self.outer = torch.nn.Linear(512, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.inner(x)
        if x.shape[1] != 1:
            hidden = hidden * mask[:, -x.shape[1] :, None]
        return self.outer(hidden.relu()), hidden.sum(1)


class Empty(torch.nn.Module):
    """Gives something else where there is nothing."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 0:
            return torch.full_like(y, 7.0)
        return y + x.sum(0)


def masks(batch: int, seq: int) -> torch.Tensor:
    mask = torch.ones(batch, seq)
    mask[:1] = 0
    return mask


def test_a_mask_left_out_for_one_token_is_a_branch() -> None:
    torch.manual_seed(0)
    model, given = Masked().eval(), (torch.randn(2, 3, 4), masks(2, 5))
    shapes = ({0: "batch", 1: "seq"}, {0: "batch", 1: "all"})
    program = irkit.to_onnx(model, given, dynamic_shapes=shapes, rewrite=True)
    assert any("seq = 1 is allowed" in note and "branch" in note for note in program.report.notes)
    for batch, seq, whole in ((2, 3, 5), (2, 1, 4), (1, 1, 1), (1, 4, 4), (3, 1, 2), (2, 2, 2)):
        call = torch.randn(batch, seq, 4), masks(batch, whole)
        for ours, theirs in zip(program(*call), model(*call), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert program.check()
    plain = irkit.to_onnx(model, given, dynamic_shapes=shapes)
    with pytest.raises(irkit.ContractError):
        plain(torch.randn(2, 1, 4), masks(2, 4))


def test_large_weights_stand_outside_of_the_branches_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, given = Masked().eval(), (torch.randn(2, 3, 4), masks(2, 5))
    shapes = ({0: "batch", 1: "seq"}, {0: "batch", 1: "all"})
    sizes = []
    for rewrite in (None, True):
        path = tmp_path / f"model_{rewrite}.onnx"
        irkit.to_onnx(model, given, dynamic_shapes=shapes, rewrite=rewrite).save(str(path))
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] + 8192


def test_nothing_is_a_branch_where_its_results_are_of_other_sizes_or_none() -> None:
    shapes = ({0: "rows"}, {0: "n"})
    program = irkit.to_onnx(
        Empty(), (torch.randn(3, 4), torch.randn(4)), dynamic_shapes=({0: "rows"}, {}), rewrite=True
    )
    for rows in (3, 0, 1):
        call = torch.randn(rows, 4), torch.randn(4)
        torch.testing.assert_close(program(*call), Empty()(*call))

    def listed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x] if x.shape[0] == 1 else [x, y]

    program = irkit.to_onnx(listed, (torch.randn(3, 4), torch.randn(4)), dynamic_shapes=shapes, rewrite=True)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(1, 4), torch.randn(4))


def test_what_is_checked_of_more_than_one_row_alone_does_not_keep_one_row_out() -> None:
    def model(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 1:
            torch._check(n.item() > 2)
        return x * 2

    given = torch.randn(3, 4), torch.tensor(5)
    program = irkit.to_onnx(model, given, dynamic_shapes=({0: "rows"}, {}), capture="direct")
    for rows, n in ((3, 5), (1, 5), (2, 3)):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x, torch.tensor(n)), x * 2)
    assert not any("zip()" in note for note in program.report.notes)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(3, 4), torch.tensor(1))
