"""Converters traced with symbolic sizes, and run on other sizes than they were traced on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.aten.harness import check_sizes, lowered

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": lambda x: x.mean(-1, keepdim=True), "var": lambda x: x.var(1),
    "var_0": lambda x: x.var((0, 2), correction=0),
    "std_mean": lambda x: torch.std_mean(x, dim=2), "norm": lambda x: x.norm(dim=1),
    "view": lambda x: x.view(x.shape[0], -1), "flatten": lambda x: x.flatten(1),
    "reshape": lambda x: x.reshape(-1, x.shape[-1]), "transpose": lambda x: x.transpose(1, 2).reshape(x.shape[0], -1),
    "unflatten": lambda x: x.unsqueeze(-1).expand(-1, -1, -1, 2).flatten(2).unflatten(2, (-1, 2)),
    "slice_from_the_end": lambda x: x[:, -2:], "slice_half": lambda x: x[..., : x.shape[-1] // 2],
    "slice_step": lambda x: x[:, ::2], "slice_both": lambda x: x[:, 1:-1], "select_last": lambda x: x[:, -1],
    "rotate_half": lambda x: torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1),
    "chunk": lambda x: x.chunk(2, -1)[1], "split": lambda x: torch.split(x, x.shape[1] - 1, 1)[0],
    "roll": lambda x: x.roll((1, -2), (1, 2)), "roll_far": lambda x: x.roll(5, 1), "roll_flat": lambda x: x.roll(2),
    "flip": lambda x: x.flip(1, 2), "repeat": lambda x: x.repeat(2, 1, 3), "tile": lambda x: x.tile(2, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(3, dim=1), "expand": lambda x: x[:, :1].expand(-1, 5, -1),
    "pad": lambda x: F.pad(x, (1, 2)), "pad_negative": lambda x: F.pad(x, (-1, 2, 1, -1)),
    "pad_to_twice": lambda x: F.pad(x, (0, x.shape[-1])), "reflect": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 1), mode="replicate"), "circular": lambda x: F.pad(x, (1, 2), mode="circular"),
    "diagonal": lambda x: x.diagonal(1, 1, 2), "diagonal_below": lambda x: x.diagonal(-1, 2, 1),
    "diag_embed": lambda x: torch.diag_embed(x, 1), "unfold": lambda x: x.unfold(1, 2, 1),
    "tril": lambda x: x.tril(), "triu": lambda x: x.triu(1), "cumsum": lambda x: x.cumsum(1),
    "cummax": lambda x: x.cummax(1), "logcumsumexp": lambda x: x.logcumsumexp(2), "logsumexp": lambda x: x.logsumexp(1),
    "arange": lambda x: torch.arange(x.shape[1]), "arange_float": lambda x: torch.arange(0, x.shape[1], 0.5),
    "arange_step": lambda x: torch.arange(1, 2 * x.shape[1], 2),
    "positions": lambda x: (torch.arange(x.shape[1])[None] + x.shape[0]).expand(x.shape[0], -1),
    "causal": lambda x: torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1),
    "eye": lambda x: torch.eye(x.shape[1]), "zeros": lambda x: x.new_zeros(x.shape[0], x.shape[1] + 1),
    "ones_like": lambda x: torch.ones_like(x), "scaled_by_size": lambda x: x * x.shape[-1] ** -0.5,
    "size_divided": lambda x: x / x.shape[1], "size_added": lambda x: x + x.shape[1],
    "meshgrid": lambda x: torch.meshgrid(torch.arange(x.shape[1]), torch.arange(x.shape[2]), indexing="ij"),
    "slice_scatter": lambda x: x.slice_scatter(x[:, 1:] * 2, 1, 1),
    "select_scatter": lambda x: x.select_scatter(x[:, 0], 1, -1),
    "slice_scatter_step": lambda x: x.slice_scatter(x[:, ::2] * 2, 1, 0, None, 2),
    "topk": lambda x: x.topk(2, 1), "sort": lambda x: x.sort(1, descending=True), "median": lambda x: x.median(2),
    "kthvalue": lambda x: x.kthvalue(2, 1), "quantile": lambda x: x.quantile(0.3, 1),
    "stack": lambda x: torch.stack([x, x + 1], 1), "pixel_unshuffle": lambda x: F.pixel_unshuffle(x.repeat(1, 2, 2), 2),
    "narrow": lambda x: x.narrow(1, 1, x.shape[1] - 1), "argmax": lambda x: x.argmax(), "any": lambda x: (x > 0).any(1),
    "nonzero": lambda x: x.flatten().bool().float().sum(), "one_hot_positions": lambda x: x.argmax(1),
    "index_range": lambda x: x[:, torch.arange(x.shape[1] - 1)], "mask_fill": lambda x: x.masked_fill(x > 0.5, 0.0),
    "two_indices": lambda x: x[torch.arange(x.shape[0]), torch.arange(x.shape[0])],
    "apart_indices": lambda x: x[torch.arange(2)[:, None], :, torch.arange(2)],
    "index_put": lambda x: x.index_put((torch.arange(2),), torch.zeros(())),
    "index_add": lambda x: x.index_add(1, torch.tensor([1, 0, 1]), x[:, :3]),
    "hsplit": lambda x: torch.hsplit(x, [1, 2]), "dsplit": lambda x: torch.dsplit(x, [1, 5]),
    "vsplit": lambda x: torch.vsplit(x, [1]),
    "gather": lambda x: x.gather(1, x.argsort(1)), "scatter": lambda x: x.scatter(2, x.argsort(2), x),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), "movedim": lambda x: x.movedim(0, -1),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_sizes(name: str) -> None:
    small = (torch.randn(4, 5, 3),) if name in ("reflect", "circular", "replicate") else (torch.randn(2, 3, 2),)
    check_sizes(FUNCTIONS[name], (torch.randn(3, 5, 4),), (torch.randn(5, 7, 6),), small)


MASKED: dict[str, Callable[..., Any]] = {
    "masked_select": lambda x, m: x[m].sum(), "mask_of_rows": lambda x, m: x[m[:, 0]].sum(0),
    "masked_scatter": lambda x, m: x.masked_scatter(m, x.flatten() * 2),
    "mask_put": lambda x, m: x.index_put((m,), torch.tensor(7.0)),
    "mask_and_index": lambda x, m: x[m[:, 0], torch.tensor([1])].sum(), "nonzero": lambda x, m: m.nonzero().sum(0),
    "where": lambda x, m: torch.where(m)[1].sum(), "mask_assign": lambda x, m: assigned(x, m),
    "bool_where": lambda x, m: torch.where(m, x > 0, m), "cumsum_of_mask": lambda x, m: m.cumsum(-1),
}  # fmt: skip


def assigned(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """x with x[mask] = 0."""
    copy = x.clone()
    copy[mask] = 0
    return copy


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MASKED)
def test_masks_on_other_sizes(name: str) -> None:
    sizes = [(3, 4), (5, 6), (2, 2)]
    made = [(torch.randn(s), torch.rand(s) > 0.4) for s in sizes]
    check_sizes(MASKED[name], *made)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, d: x.sum(d), "prod": lambda x, d: x.prod(d), "mean": lambda x, d: x.mean(d),
    "mean_kept": lambda x, d: x.mean(d, keepdim=True), "mean_of_all": lambda x, d: x.mean(),
    "mean_f16": lambda x, d: (x.half() * 0 + 6e4).mean(d), "nansum": lambda x, d: x.nansum(d),
    "nanmean": lambda x, d: x.nanmean(d), "var": lambda x, d: x.var(d), "var_mean": lambda x, d: torch.var_mean(x, d),
    "var_0": lambda x, d: x.var(d, correction=0), "var_half": lambda x, d: torch.var(x, d, correction=2.5),
    "std_mean": lambda x, d: torch.std_mean(x, d, correction=2, keepdim=True), "std_of_all": lambda x, d: x.std(),
    "amax": lambda x, d: x.amax(d), "argmax": lambda x, d: x.argmax(d), "max": lambda x, d: x.max(d),
    "aminmax": lambda x, d: torch.aminmax(x, dim=d), "logsumexp": lambda x, d: x.logsumexp(d),
    "all": lambda x, d: (x > 0).all(d), "any": lambda x, d: (x > 0).any(d, keepdim=True),
    "all_bytes": lambda x, d: (x > 0).byte().all(d), "any_of_all": lambda x, d: (x > 0).any(),
    "sum_of_bools": lambda x, d: (x > 0).sum(d, dtype=torch.bool), "count": lambda x, d: x.count_nonzero(d),
    "norm": lambda x, d: x.norm(dim=d), "norm_0": lambda x, d: x.norm(0, d), "norm_3": lambda x, d: x.norm(3, d),
    "median": lambda x, d: x.median(d), "mode": lambda x, d: x.mode(d), "kthvalue": lambda x, d: x.kthvalue(1, d),
    "quantile": lambda x, d: x.quantile(0.5, d), "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d), "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d), "sort": lambda x, d: x.sort(d),
    "normalize": lambda x, d: F.normalize(x, dim=d),
    "mse_loss": lambda x, d: F.mse_loss(x, x + 1), "l1_loss": lambda x, d: F.l1_loss(x, x + 1),
    "circular": lambda x, d: F.pad(x[None, None], (1, 1, 1, 1), mode="circular"),
    "bce": lambda x, d: F.binary_cross_entropy_with_logits(x, x), "kl_div": lambda x, d: F.kl_div(x, x),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_of_nothing(name: str, dim: int) -> None:
    function = REDUCTIONS[name]
    others = [(torch.randn(s), dim) for s in ((0, 4), (5, 0), (0, 0), (1, 4), (5, 1))]
    check_sizes(function, (torch.randn(5, 4), dim), *(args for args in others if takes(function, *args)))


def takes(function: Callable[..., Any], *args: Any) -> bool:
    """True where eager torch computes it; of an empty dimension it takes no extreme."""
    try:
        function(*args)
    except (IndexError, RuntimeError):
        return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_a_mean_over_a_size_above_0_is_one_operator() -> None:
    case = lowered(lambda x: torch.cat((x, x.new_zeros(1, 4))).mean(0), torch.randn(3, 4), symbolic=True)
    assert [v.op for v in case.graph.order].count("ReduceMean") == 1


def test_what_pads_shift_keeps_its_size() -> None:
    """ZeroPad2d((0, 0, 1, -1)), as RWKV shifts its tokens: the result has the size of the operand, by name."""
    case = lowered(lambda x: F.pad(x, (0, 0, 1, -1)), torch.randn(2, 7, 4), symbolic=True)
    assert [v.shape for v in case.graph.results] == [case.graph.params[0].shape]
    assert [v.op for v in case.graph.order].count("Pad") == 1 and all(v.op != "Slice" for v in case.graph.order)
