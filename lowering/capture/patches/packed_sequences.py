"""Packed sequences while torch traces: what nn.LSTM, nn.GRU and nn.RNN ask of the numbers in a batch's sizes.

They make their first state as wide as the first number says, and check the state that is given against it. Tracing
cannot look at numbers: the width is that of the permutation that sorts the batch, or a symbol, and the check is left
out, since the state is as wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.modules import rnn
from torch.nn.utils.rnn import PackedSequence

from lowering.records.torch_internals import _VF, DynamicOutputShapeException, constrain_range_for_size, fake_impls

Forward = Callable[..., Any]
KINDS = (rnn.RNN, rnn.LSTM, rnn.GRU)
PACK = torch.ops.aten._pack_padded_sequence.default
CHECKED = (rnn.RNNBase, rnn.LSTM)


@contextmanager
def packed_sequences() -> Iterator[None]:
    """A block in which the recurrent modules of torch can be traced over packed sequences."""
    known, own = fake_impls.op_implementations_dict, _VF._pad_packed_sequence
    packing = known[PACK]
    forwards = [(kind, kind.forward) for kind in KINDS]
    checks = [(kind, kind.check_forward_args) for kind in CHECKED]
    try:
        for kind, forward in forwards:
            setattr(kind, "forward", with_state(forward))  # noqa: B010  (a method of torch's, for a while)
        for kind, check in checks:
            setattr(kind, "check_forward_args", of_padded_only(check))  # noqa: B010
        known[PACK], _VF._pad_packed_sequence = packed_shapes, padded(own)
        yield
    finally:
        known[PACK], _VF._pad_packed_sequence = packing, own
        for kind, forward in forwards:
            setattr(kind, "forward", forward)  # noqa: B010
        for kind, check in checks:
            setattr(kind, "check_forward_args", check)  # noqa: B010


def packed_shapes(mode: Any, operator: Any, x: Any, lengths: Any, batch_first: bool) -> tuple[Any, Any]:
    """(data, batch_sizes) of a batch that is packed, of sizes that nobody knows; torch's own record of them is wrong"""
    if mode.shape_env is None or not mode.shape_env.allow_dynamic_output_shape_ops:
        raise DynamicOutputShapeException(operator)
    sizes = [mode.shape_env.create_unbacked_symint() for _ in range(2)]
    longest = x.shape[1 if batch_first else 0]
    for size, most in zip(sizes, (x.shape[0] * x.shape[1], longest), strict=True):
        constrain_range_for_size(size, min=1, max=most if isinstance(most, int) else None)
    return x.new_empty((sizes[0], *x.shape[2:])), lengths.new_empty((sizes[1],))


def padded(before: Forward) -> Forward:
    """`_VF._pad_packed_sequence`, which takes a plain number for a length: of a size it takes none, and what is padded
    as far as the longest sequence is padded once more."""

    def pad(data: Any, sizes: Any, batch_first: bool, value: float, length: Any) -> Any:
        if isinstance(length, int):
            return before(data, sizes, batch_first, value, length)
        made, lengths = before(data, sizes, batch_first, value, 0)
        if statically_known_true(length == sizes.shape[0]):
            return made, lengths
        axis = 1 if batch_first else 0
        behind = [0, 0] * (made.dim() - axis - 1)
        return torch.nn.functional.pad(made, (*behind, 0, length - made.shape[axis]), value=value), lengths

    return pad


def with_state(before: Forward) -> Forward:
    """`forward`, which is given a state of zeros where it would make one for a packed sequence."""

    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence) and hx is None:
            hx = first_state(self, input)
        return before(self, input, hx)

    return forward


def first_state(module: Any, packed: PackedSequence) -> Any:
    """Zeros, (layers * directions, batch, size): the hidden state, and for an LSTM the cell's too"""
    order = packed.sorted_indices
    batch: Any = packed.batch_sizes[0].item() if order is None else order.shape[0]
    layers = module.num_layers * (2 if module.bidirectional else 1)
    sizes = (module.proj_size or module.hidden_size, *([module.hidden_size] if isinstance(module, rnn.LSTM) else []))
    like = packed.data
    states = [torch.zeros(layers, batch, size, dtype=like.dtype, device=like.device) for size in sizes]
    return tuple(states) if isinstance(module, rnn.LSTM) else states[0]


def of_padded_only(before: Forward) -> Forward:
    """`check_forward_args`, which asks nothing of a packed sequence."""

    def check_forward_args(self: Any, input: Any, hidden: Any, batch_sizes: Any) -> None:
        if batch_sizes is None:
            before(self, input, hidden, batch_sizes)

    return check_forward_args
