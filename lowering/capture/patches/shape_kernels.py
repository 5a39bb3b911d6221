"""Kernels that tell torch the shapes of operators whose own kernels would fix sizes while they are traced.

torch traces the recurrent operators by running their loop over time, which makes the length a number, and max_pool1d
by a kernel that knows no symbolic sizes; ctc_loss, linalg_lstsq, geqrf and fake_quantize it does not trace at all, nor
arange by a step that only the data tells; unique_consecutive with another rank where the dimension is counted from the
end, and masked_select with too few elements where the mask has more than what it chooses from. The graph records these
operators whole, so that all tracing needs is the shape of their results. torch.export's
`register_lstm_while_loop_decomposition` swaps kernels in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch

from lowering.capture.patches.shape_decompositions import WRITTEN
from lowering.records.torch_internals import MADE_OF_OTHERS, constrain_range_for_size, fake_impls

KEY = MADE_OF_OTHERS
Kernel = Callable[..., Any]


def recurrent(
    x: torch.Tensor, hidden: torch.Tensor, layers: int, bidirectional: bool, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """(output, last hidden state) of a recurrent operator, without their numbers. The output lies step by step."""
    directions = 2 if bidirectional else 1
    width = hidden.shape[2]
    time, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    made = x.new_empty((time, batch, directions * width))
    return made.transpose(0, 1) if batch_first else made, x.new_empty((layers * directions, batch, width))


def lstm(
    x: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[torch.Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(output, last hidden state, last cell state) of aten.lstm.input."""
    output, hidden = recurrent(x, hx[0], num_layers, bidirectional, batch_first)
    return output, hidden, x.new_empty((hidden.shape[0], hidden.shape[1], hx[1].shape[2]))


def gru(
    x: torch.Tensor, hx: torch.Tensor, params: Sequence[torch.Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(output, last hidden state) of aten.gru.input, aten.rnn_tanh.input and aten.rnn_relu.input."""
    return recurrent(x, hx, num_layers, bidirectional, batch_first)


def lstm_packed(
    data: torch.Tensor, batch_sizes: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[torch.Tensor],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(output, last hidden state, last cell state) of aten.lstm.data."""
    width = hx[0].shape[2] * (2 if bidirectional else 1)
    return data.new_empty((data.shape[0], width)), data.new_empty(hx[0].shape), data.new_empty(hx[1].shape)


def gru_packed(
    data: torch.Tensor, batch_sizes: torch.Tensor, hx: torch.Tensor, params: Sequence[torch.Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(output, last hidden state) of aten.gru.data, aten.rnn_tanh.data and aten.rnn_relu.data."""
    width = hx.shape[2] * (2 if bidirectional else 1)
    return data.new_empty((data.shape[0], width)), data.new_empty(hx.shape)


def pad_packed_sequence(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: Any, total_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(padded, lengths) of aten._pad_packed_sequence, of as many sequences as the first of the sizes says."""
    length: Any = total_length if total_length > 0 else batch_sizes.shape[0]
    batch: Any = batch_sizes[0].item()
    lead = (batch, length) if batch_first else (length, batch)
    return data.new_empty((*lead, *data.shape[1:])), batch_sizes.new_empty((batch,))


def max_pool1d(
    x: torch.Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> torch.Tensor:
    """The result of aten.max_pool1d, by the operator of two dimensions."""
    one = [1 if default else 0 for default in (True, True, False, True)]
    given = [each[0] if isinstance(each, list | tuple) else each for each in (kernel_size, stride or kernel_size)]
    given += [each[0] if isinstance(each, list | tuple) else each for each in (padding, dilation)]
    pairs = [[first, second] for first, second in zip(one, given, strict=True)]
    return torch.ops.aten.max_pool2d_with_indices(x.unsqueeze(-2), *pairs, ceil_mode)[0].squeeze(-2)


def ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 1, zero_infinity: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The result of aten.ctc_loss, whose own kernel asks how long the longest target is."""
    single = log_probs.dim() == 2
    torch._check(log_probs.shape[0] >= 1)
    if not single and targets.dim() == 2:
        torch._check(targets.shape[0] == log_probs.shape[1])
    for lengths in () if single else (input_lengths, target_lengths):
        torch._check((lengths.shape[0] if isinstance(lengths, torch.Tensor) else len(lengths)) == log_probs.shape[1])
    return log_probs.new_empty(() if reduction or single else (log_probs.shape[1],))


def multilabel_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """The result of aten.multilabel_margin_loss, which torch records as (1,) where its kernel gives ()."""
    for own, asked in zip(x.shape, target.shape, strict=False):
        torch._check(own == asked)
    return x.new_empty(() if reduction or target.dim() < 2 else (target.shape[0],))


def linalg_lstsq(
    a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The results of aten.linalg_lstsq for matrices of full rank; of others torch gives no residuals."""
    kind, batch, (m, n) = driver or "gelsy", a.shape[:-2], a.shape[-2:]
    vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    count = 1 if vector else b.shape[-1]
    torch._check(b.shape[-1 if vector else -2] == m)
    whole = batch if vector or b.dim() < a.dim() else torch.broadcast_shapes(batch, b.shape[:-2])
    x = a.new_empty((*whole, n) if vector else (*whole, n, count))
    real = a.real if a.is_complex() else a
    residuals = real.new_empty((*whole, count) if kind != "gelsy" and m > n else (0,))
    ranks = a.new_empty(batch if kind != "gels" else (0,), dtype=torch.int64)
    values = real.new_empty((*batch, min(m, n)) if kind in ("gelsd", "gelss") else (0,))
    return x, residuals, ranks, values


def geqrf(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The results of aten.geqrf, which torch does not trace."""
    torch._check(a.dim() >= 2, lambda: "geqrf: a matrix is wanted")
    steps: Any = torch.sym_min(a.shape[-2], a.shape[-1])
    return torch.empty_like(a), a.new_empty((*a.shape[:-2], steps))


def fake_quantize(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    """The result of aten.fake_quantize_per_tensor_affine and its like, of which torch knows no shape."""
    return torch.empty_like(x)


KERNELS: Mapping[Any, Kernel] = MappingProxyType(
    {
        torch.ops.aten.fake_quantize_per_tensor_affine.default: fake_quantize,
        torch.ops.aten.fake_quantize_per_tensor_affine.tensor_qparams: fake_quantize,
        torch.ops.aten.fake_quantize_per_channel_affine.default: fake_quantize,
        torch.ops.aten.fused_moving_avg_obs_fake_quant.default: fake_quantize,
        torch.ops.aten.ctc_loss.IntList: ctc_loss,
        torch.ops.aten.ctc_loss.Tensor: ctc_loss,
        torch.ops.aten.multilabel_margin_loss.default: multilabel_margin_loss,
        torch.ops.aten.linalg_lstsq.default: linalg_lstsq,
        torch.ops.aten.geqrf.default: geqrf,
        torch.ops.aten.lstm.input: lstm,
        torch.ops.aten.gru.input: gru,
        torch.ops.aten.rnn_tanh.input: gru,
        torch.ops.aten.rnn_relu.input: gru,
        torch.ops.aten.lstm.data: lstm_packed,
        torch.ops.aten.gru.data: gru_packed,
        torch.ops.aten.rnn_tanh.data: gru_packed,
        torch.ops.aten.rnn_relu.data: gru_packed,
        torch.ops.aten._pad_packed_sequence.default: pad_packed_sequence,
        torch.ops.aten.max_pool1d.default: max_pool1d,
        **WRITTEN,
    }
)


def unique_consecutive(of_fake: Kernel) -> Kernel:
    """torch's kernel for tensors without numbers, where the dimension that it is given is not negative."""

    def kernel(
        mode: Any, operator: Any, x: torch.Tensor, return_inverse: bool = False, return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:  # fmt: skip
        axis = dim if dim is None or dim >= 0 else dim + max(x.dim(), 1)
        return of_fake(mode, operator, x, return_inverse, return_counts, axis)

    return kernel


def masked_select(of_fake: Kernel) -> Kernel:
    """torch's kernel for tensors without numbers, which takes at most as many elements as there are before the mask
    makes them more: here these are counted too."""

    def kernel(mode: Any, operator: Any, x: torch.Tensor, mask: torch.Tensor) -> Any:
        return of_fake(mode, operator, x.expand(torch.broadcast_shapes(x.shape, mask.shape)), mask)

    return kernel


def arange(of_fake: Kernel) -> Kernel:
    """torch's kernel for tensors without numbers, which asks for the sign of a step: of one that only the data tells,
    the length is a new number of the data."""

    def kernel(mode: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(each, torch.SymFloat) and not each.node.has_hint() for each in args):
            return of_fake(mode, operator, *args, **kwargs)
        length = mode.shape_env.create_unbacked_symint()
        constrain_range_for_size(length)
        with mode:
            return torch.empty((length,), dtype=kwargs.get("dtype") or torch.get_default_dtype())

    return kernel


FAKE_KERNELS: Mapping[Any, Callable[[Kernel], Kernel]] = MappingProxyType(
    {
        torch.ops.aten.unique_consecutive.default: unique_consecutive,
        torch.ops.aten.masked_select.default: masked_select,
        torch.ops.aten.arange.default: arange,
        torch.ops.aten.arange.start: arange,
        torch.ops.aten.arange.start_step: arange,
    }
)


@contextmanager
def shape_kernels() -> Iterator[None]:
    """A block in which the operators above are traced by their shapes alone."""
    before = {operator: operator.py_kernels.get(KEY) for operator in KERNELS}
    fakes = {operator: fake_impls.op_implementations_dict.get(operator) for operator in FAKE_KERNELS}
    try:
        for operator, made in FAKE_KERNELS.items():
            fake_impls.op_implementations_dict[operator] = made(fakes[operator] or fake_impls.constructors)
        for operator, kernel in KERNELS.items():
            place(operator, kernel)
        yield
    finally:
        for operator, kernel in fakes.items():
            if kernel is None:
                del fake_impls.op_implementations_dict[operator]
            else:
                fake_impls.op_implementations_dict[operator] = kernel
        for operator, kernel in before.items():
            place(operator, kernel)


def place(operator: Any, kernel: Kernel | None) -> None:
    """Gives an operator of torch this kernel, or none of its own, and lets it forget the one that it called last."""
    if kernel is None:
        operator.py_kernels.pop(KEY, None)
    else:
        operator.py_kernels[KEY] = kernel
    operator._dispatch_cache.clear()
