"""torchaudio's operator for filters whose results come back, sample by sample."""

from __future__ import annotations

import numpy as np

from irkit.build import op
from irkit.core.ir import Value
from lowering.errors import Unsupported
from lowering.tensors.promotion import scalar
from lowering.tensors.shaping import ints, unsqueeze


def torchaudio__lfilter_core_loop(
    input_signal_windows: Value, a_coeff_flipped: Value, padded_output_waveform: Value
) -> Value:
    """What the output holds: (b, c, k - 1 + n), the k - 1 results before, then each sample of the input, (b, c, n),
    less the k results up to it times the coefficients, (c, k).

    The last of the k is what stood in the place of the result: 0 where torchaudio calls it.
    """
    x, weights, padded = input_signal_windows, a_coeff_flipped, padded_output_waveform
    order = weights.shape[1]
    if type(order) is not int:
        raise Unsupported("a filter needs a number of coefficients")
    begin = op.Slice(padded, ints(0), ints(order - 1), ints(2))
    places = op.Slice(padded, ints(order - 1), ints(np.iinfo(np.int64).max), ints(2))

    def step(past: Value, sample: Value, stood: Value) -> tuple[Value, Value]:
        """The results that the next sample is made of, and the result of this one"""
        window = op.Concat(past, unsqueeze(stood, 2), axis=2)
        made = op.Sub(sample, op.ReduceSum(op.Mul(window, weights), ints(2), keepdims=0))
        behind = op.Slice(op.Concat(past, unsqueeze(made, 2), axis=2), ints(1), ints(order), ints(2))
        return behind, made

    results = op.Scan(begin, x, places, body=step, num_scan_inputs=2, scan_input_axes=[2, 2], scan_output_axes=[2])[1]
    return op.Concat(begin, results, axis=2)


def torchaudio__overdrive_core_loop(
    waveform: Value, temp: Value, last_in: Value, last_out: Value, output_waveform: Value
) -> tuple[Value, ...]:
    """(the last driven samples, what they became, the sound): each driven sample of temp, (c, n), less the one before
    and with 0.995 of what that became; three quarters of it are added to half of the sound."""

    def step(before: Value, became: Value, driven: Value, sample: Value) -> tuple[Value, ...]:
        """What the next sample is made of, and the result of this one"""
        made = op.Add(op.Sub(driven, before), op.Mul(became, scalar(0.995, became.dtype)))
        heard = op.Mul(sample, scalar(0.5, made.dtype)), op.Mul(made, scalar(0.75, made.dtype))
        return driven, made, op.Add(*heard)

    return op.Scan(
        last_in, last_out, temp, waveform, body=step, num_scan_inputs=2, scan_input_axes=[1, 1], scan_output_axes=[1]
    )
