"""Converters of `lowering.aten.attention.attention` against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.lowering.aten.oracle import check, check_all, module_cases, op_cases

OPS = ["nn.functional.multi_head_attention_forward"]


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 4))


MODULES = [
    "nn.MultiheadAttention", "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 4))


sdpa = torch.nn.functional.scaled_dot_product_attention
Q, K, V = (2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)


def drawn(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """One random tensor for each shape."""
    return [torch.randn(*shape) for shape in shapes]


def holes(*shape: int) -> torch.Tensor:
    """A mask with one row that may look nowhere."""
    mask = torch.rand(*shape) > 0.4
    mask[..., 0, :] = False
    return mask


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_any_batch_and_lengths(options: dict[str, Any]) -> None:
    """Batch and both lengths are symbols; one operator."""
    batch, rows, columns = "batch", "rows", "columns"
    check(
        lambda q, k, v: sdpa(q, k, v, **options),
        *drawn(Q, K, V),
        operators=["Attention"],
        dynamic_shapes=[{0: batch, 2: rows}, {0: batch, 2: columns}, {0: batch, 2: columns}],
        others=[tuple(drawn((3, 4, 6, 8), (3, 4, 2, 8), (3, 4, 2, 6)))],
    )


MASKS = {
    "all axes": holes(2, 4, 5, 7),
    "no heads": holes(2, 1, 5, 7),
    "one row for all": holes(2, 1, 1, 7),
    "one column for all": holes(2, 1, 5, 1),
    "two axes": holes(5, 7),
    "three axes": holes(4, 5, 7),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks(mask: torch.Tensor) -> None:
    """bool masks, masks of -inf, of the lowest number, and of numbers; a row that may look nowhere gives zeros, and a
    row of lowest numbers looks at all alike."""
    numbers = torch.randn(mask.shape)
    low = torch.finfo(torch.float32).min
    for given in (mask, torch.where(mask, 0.0, -torch.inf), torch.where(mask, 0.0, low), numbers):
        check(lambda q, k, v, m: sdpa(q, k, v, m), *drawn(Q, K, V), given)
    constant = torch.where(mask, numbers, low)
    check(lambda q, k, v: sdpa(q, k, v, constant), *drawn(Q, K, V))


def test_a_mask_over_symbolic_columns() -> None:
    """One row for all, as padding masks have it."""
    batch, columns = "batch", "columns"
    other = (*drawn((3, 4, 5, 8), (3, 4, 9, 8), (3, 4, 9, 6)), holes(3, 1, 1, 9))
    check(
        lambda q, k, v, m: sdpa(q, k, v, m),
        *drawn(Q, K, V),
        holes(2, 1, 1, 7),
        others=[other],
        dynamic_shapes=[{0: batch}, {0: batch, 2: columns}, {0: batch, 2: columns}, {0: batch, 3: columns}],
    )


SHAPES = {
    "fewer heads": (Q, (2, 2, 7, 8), (2, 2, 7, 6)),
    "fewer heads of another number": (Q, (2, 2, 7, 8), (2, 1, 7, 6)),
    "three axes": ((4, 5, 8), (4, 7, 8), (4, 7, 6)),
    "two axes": ((5, 8), (7, 8), (7, 6)),
    "five axes": ((1, *Q), (1, *K), (1, *V)),
    "batches that broadcast": (Q, (1, *K[1:]), (1, *V[1:])),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_shapes(shapes: tuple[tuple[int, ...], ...]) -> None:
    """What torch takes beside four axes of equal heads."""
    grouped = len(shapes[0]) == 4 and shapes[1][1] != 4
    check(lambda q, k, v: sdpa(q, k, v, enable_gqa=grouped), *drawn(*shapes))
    if not grouped:
        check(lambda q, k, v, m: sdpa(q, k, v, m), *drawn(*shapes), holes(5, 7))


def test_operators_beneath() -> None:
    """What torch turns attention into on this machine and on others."""
    check(lambda q, k, v: torch.ops.aten._scaled_dot_product_attention_math(q, k, v, None, 0.0, True), *drawn(Q, K, V))
    same = drawn((2, 4, 5, 8), (2, 4, 5, 8), (2, 4, 5, 8))
    check(lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True), *same)
    check(lambda x: torch.ops.aten._safe_softmax(x, -1), torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]]))
    layer = drawn((2, 5, 16), (48, 16), (48,), (16, 16), (16,))
    check(lambda x, *weights: torch.ops.aten._native_multi_head_attention(x, x, x, 16, 2, *weights), *layer)


class Masked(torch.nn.Module):
    """Self-attention with both masks of MultiheadAttention."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: torch.Tensor, padding: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=False)[0]


def test_masks_of_the_module() -> None:
    """Causal, with padding at the right. (At the left eager's own two ways differ: one gives NaN, the other 0.)"""
    padding = torch.tensor([[False, False, False, True, True], [False] * 5])
    check(Masked(), torch.randn(2, 5, 16), padding, torch.triu(torch.ones(5, 5), 1).bool())
