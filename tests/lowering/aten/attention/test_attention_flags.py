"""scaled_dot_product_attention and nn.MultiheadAttention with every flag, against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from irkit.doors.to_onnx import to_onnx
from lowering.program.check import run

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))


class Attending(nn.Module):
    """The operator with some flags."""

    def __init__(self, **flags: Any) -> None:
        super().__init__()
        self.flags = flags

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, **self.flags)


def agrees(model: nn.Module, args: tuple[Any, ...], kwargs: Any = None, shapes: Any = None, others: Any = ()) -> None:
    """Fails where the program differs from eager on the arguments, or on the others."""
    program = to_onnx(model, args, kwargs or {}, dynamic_shapes=shapes)
    for each in (args, *others):
        report = run(program, each, kwargs or {})
        assert not report.problem, report.problem


MASKS = ("none", "bool", "float", "infinite", "row", "heads", "causal")


def mask_of(kind: str, rows: int, columns: int, heads: int, dtype: torch.dtype) -> Tensor | None:
    """A mask; one of its rows lets nothing be looked at, where it is boolean or adds infinities."""
    allowed = torch.rand(rows, columns) > 0.3
    allowed[rows // 2] = False
    if kind == "bool":
        return allowed
    if kind == "infinite":
        return torch.zeros(rows, columns, dtype=dtype).masked_fill(~allowed, float("-inf"))
    made = {"float": (rows, columns), "row": (1, columns), "heads": (1, heads, rows, columns)}.get(kind)
    return None if made is None else torch.randn(made, dtype=dtype)


@QUICK
@given(
    mask=st.sampled_from(MASKS),
    rank=st.sampled_from([2, 3, 4]),
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    width=st.integers(1, 6),
    scale=st.sampled_from([None, 0.5, 2.0]),
    shared=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    dynamic=st.booleans(),
)
def test_scaled_dot_product_attention(
    mask: str,
    rank: int,
    rows: int,
    columns: int,
    width: int,
    scale: float | None,
    shared: bool,
    dtype: torch.dtype,
    dynamic: bool,
) -> None:
    """Rows and columns of any number, the mask of every form, heads shared or not, values of another width."""
    shared = shared and rank == 4
    heads = 4 if rank == 4 else 1
    if mask == "heads" and rank != 4:
        mask = "float"

    def arguments(rows: int, columns: int) -> tuple[Any, ...]:
        lead = {2: (), 3: (2,), 4: (2, 4)}[rank]
        few = (2, 2) if shared else lead
        sizes = ((*lead, rows, width), (*few, columns, width), (*few, columns, width if shared else width + 1))
        q, k, v = (torch.randn(size, dtype=dtype) for size in sizes)
        given = mask_of(mask, rows, columns, heads, dtype)
        return (q, k, v) if given is None else (q, k, v, given)

    model = Attending(scale=scale, enable_gqa=shared, is_causal=mask == "causal", dropout_p=0.0)
    shapes, others = None, ()
    if dynamic and rows > 1 and columns > 1:
        axis = rank - 2
        shapes = {"q": {axis: "rows"}, "k": {axis: "columns"}, "v": {axis: "columns"}}
        if mask not in ("none", "causal"):
            last = {"heads": 3}.get(mask, 1)
            shapes["mask"] = {last: "columns"} if mask == "row" else {last - 1: "rows", last: "columns"}
        others = (arguments(rows + 1, columns + 2), arguments(columns, rows))
    agrees(model, arguments(rows, columns), shapes=shapes, others=others)


@QUICK
@given(
    batch_first=st.booleans(),
    bias=st.booleans(),
    bias_kv=st.booleans(),
    zeros=st.booleans(),
    other=st.booleans(),
    padding=st.sampled_from(["none", "bool", "float"]),
    mask=st.sampled_from(["none", "bool", "float", "heads", "causal"]),
    weights=st.booleans(),
    average=st.booleans(),
    lone=st.booleans(),
    training=st.booleans(),
)
def test_multihead_attention(
    batch_first: bool,
    bias: bool,
    bias_kv: bool,
    zeros: bool,
    other: bool,
    padding: str,
    mask: str,
    weights: bool,
    average: bool,
    lone: bool,
    training: bool,
) -> None:
    """Keys and values of other widths, biases and zeros that are added to them, masks of both kinds, the weights."""
    sizes = {"kdim": 5, "vdim": 3} if other else {}
    model = nn.MultiheadAttention(
        8, 2, bias=bias, add_bias_kv=bias_kv, add_zero_attn=zeros, batch_first=batch_first, **sizes
    ).train(training)
    rows, columns, batch = 4, (4 if mask == "causal" else 3), 2

    def sequence(length: int, width: int) -> Tensor:
        shape = (length, width) if lone else (batch, length, width) if batch_first else (length, batch, width)
        return torch.randn(shape)

    kwargs: dict[str, Any] = {"need_weights": weights, "average_attn_weights": average}
    if padding != "none":
        hidden = torch.zeros((columns,) if lone else (batch, columns), dtype=torch.bool)
        hidden[..., -1] = True
        kwargs["key_padding_mask"] = hidden if padding == "bool" else torch.randn(hidden.shape)
    if mask == "causal":
        kwargs |= {"attn_mask": nn.Transformer.generate_square_subsequent_mask(rows), "is_causal": True}
    elif mask != "none":
        shape = (2 * (1 if lone else batch), rows, columns) if mask == "heads" else (rows, columns)
        kwargs["attn_mask"] = torch.randn(shape) if mask != "bool" else torch.rand(shape) > 0.8
    agrees(
        model, (sequence(rows, 8), sequence(columns, 5 if other else 8), sequence(columns, 3 if other else 8)), kwargs
    )
