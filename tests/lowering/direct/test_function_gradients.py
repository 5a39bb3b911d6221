"""Gradients of torch's functions at sizes that the example does not have, beside eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import irkit
from lowering.records.torch_internals import pytree

Given = tuple[tuple[int, ...], dict[int, str], list[tuple[int, ...]]]
IMAGES: Given = ((2, 4, 6, 6), {0: "b", 2: "h", 3: "w"}, [(1, 4, 7, 9), (3, 4, 12, 6), (1, 4, 8, 5), (2, 4, 1, 1)])
MATRICES: Given = ((3, 4), {0: "n", 1: "m"}, [(1, 4), (7, 2), (2, 1), (4, 4)])
ROWS: Given = ((3, 4), {0: "n"}, [(1, 4), (7, 4), (2, 4)])
torch.manual_seed(0)
KERNEL, BACK, GRID = torch.randn(6, 4, 3, 3), torch.randn(4, 3, 3, 3), torch.rand(1, 3, 5, 2) * 2 - 1
UNITS = torch.eye(4)

OF_IMAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "pad": lambda x: F.pad(x, (1, -1, 0, 1)),
    "pad_edge": lambda x: F.pad(x, (1, 2, 3, 1), mode="replicate"),
    "pad_around": lambda x: F.pad(x, (1, 1, 0, 1), mode="circular"),
    "conv": lambda x: F.conv2d(x, KERNEL, stride=2, padding=1),
    "conv_transpose": lambda x: F.conv_transpose2d(x, BACK, stride=2, padding=1, output_padding=1),
    "unfold": lambda x: F.unfold(x, 3, padding=1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "grid_sample": lambda x: F.grid_sample(x, GRID.expand(x.shape[0], -1, -1, -1), align_corners=False),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "instance_norm": lambda x: F.instance_norm(x),
    "group_norm": lambda x: F.group_norm(x, 2),
    "local_response_norm": lambda x: F.local_response_norm(x, 3),
}
OF_MATRICES: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "cumsum": lambda x: x.cumsum(0),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "sort": lambda x: x.sort(0)[0],
    "median": lambda x: x.median(0)[0],
    "amax": lambda x: x.amax(0),
    "prod": lambda x: x.prod(0),
    "std": lambda x: x.std(1, correction=0),
    "norm": lambda x: x.norm(p=3),
    "flip": lambda x: x.flip(0),
    "gather": lambda x: x.gather(0, x.argsort(0)),
    "index_add": lambda x: torch.zeros(2, x.shape[1]).index_add(0, torch.arange(x.shape[0]) % 2, x),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "cdist": lambda x: torch.cdist(x, x + 1),
    "kl_div": lambda x: F.kl_div(F.log_softmax(x, 1), F.softmax(x.detach().flip(1), 1), reduction="batchmean")[None],
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.t() + torch.eye(x.shape[0])),
    "solve": lambda x: torch.linalg.solve(x @ x.t() + torch.eye(x.shape[0]), x),
    "embedding": lambda x: F.embedding(torch.arange(x.shape[0]).flip(0), x),
    "quantile": lambda x: x.quantile(0.3, dim=0),
}
OF_ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(x.shape[0]) % 4)[None],
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, torch.arange(x.shape[0]) % 4)[None],
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, x.flip(1), UNITS[torch.arange(x.shape[0]) % 4])[None],
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(1), dim=1),
    "outer": lambda x: torch.outer(x[:, 0], x[:, 1]),
}
TABLES = ((OF_IMAGES, IMAGES), (OF_MATRICES, MATRICES), (OF_ROWS, ROWS))
CASES = [(name, function, given) for table, given in TABLES for name, function in table.items()]


@pytest.mark.parametrize(("name", "function", "given"), CASES, ids=[name for name, *_ in CASES])
def test_gradients_are_those_of_eager(name: str, function: Callable[[Tensor], Tensor], given: Given) -> None:
    sizes, names, others = given
    torch.manual_seed(1)

    def model(x: Tensor) -> Any:
        x = x.detach().requires_grad_()
        y = function(x)
        return y.detach(), torch.autograd.grad((y * y.detach().sin()).sum(), x)[0]

    program = irkit.to_onnx(model, (torch.randn(sizes),), dynamic_shapes=(names,))
    answered = 0
    for each in (sizes, *others):
        x = torch.randn(each)
        try:
            expected = model(x)
        except (RuntimeError, ValueError):  # torch refuses the sizes, and so does the program
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        for one, other in zip(pytree.tree_leaves(expected), pytree.tree_leaves(program(x)), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
        answered += 1
    assert answered >= 3, name
