"""Definitions of ONNX Runtime's operators that carry a state from token to token."""

from __future__ import annotations

import math

import numpy as np

from irkit import dims
from irkit.build.runtime.application import Application, narrow, number, op, vector, wide
from irkit.core.ir import Value


def causal_conv_with_state(
    a: Application, x: Value, weight: Value, bias: Value | None, past: Value | None
) -> tuple[Value, Value]:
    """(activation(the convolution of each channel with the positions up to each one, + bias), the last positions)

    x: (batch, channels, length), weight: (channels, 1, taps), past: (batch, channels, (taps - 1) * dilation), zeros
    where it is left out. With channels_last x is (batch, length, channels...), and the state likewise.
    """
    a.refuse("state_window")
    if a.attr("ndim") != 1 or weight.rank != 3:
        raise a.fail("only convolutions along one axis are defined")
    apart = a.flag("channels_last")
    channels, _, taps = weight.shape
    dilation = a.attr("dilation")
    if type(channels) is not int or type(taps) is not int:
        raise a.fail("the size of the weight is not known")
    seen = turned(a, x, channels) if apart else x
    if seen.rank != 3 or (past is not None and past.rank != x.rank):
        raise a.fail("input or past_state has another rank")
    before = (taps - 1) * dilation
    if past is None:
        whole = op.Pad(seen, vector(0, 0, before, 0, 0, 0))
    else:
        whole = op.Concat(turned(a, past, channels) if apart else past, seen, axis=2)
    found = op.Conv(whole, weight, bias, group=channels, dilations=[dilation])
    if a.attr("activation") in ("silu", "swish"):
        found = op.Swish(found)
    elif a.attr("activation") != "none":
        raise a.fail(f"the activation {a.attr('activation')} is not defined")
    end = np.iinfo(np.int64).max
    state = op.Slice(whole, a.sizes((seen.shape[2],)), vector(end), vector(2))
    if not apart:
        return found, state
    last = tuple(op.Transpose(v, perm=(0, 2, 1)) for v in (found, state))
    return tuple(v if x.rank == 3 else op.Reshape(v, a.sizes((*v.shape[:2], *x.shape[2:]))) for v in last)  # type: ignore[return-value]


def turned(a: Application, x: Value, channels: int) -> Value:
    """(batch, length, channels...) as (batch, channels, length)."""
    return op.Transpose(x if x.rank == 3 else op.Reshape(x, vector(0, 0, channels)), perm=(0, 2, 1))


def linear_attention(
    a: Application,
    query: Value,
    key: Value,
    value: Value,
    past: Value | None,
    decay: Value | None,
    beta: Value | None,
) -> tuple[Value, Value]:
    """(what each token reads from the state after it, the state after the last)

    A state is a matrix for each head. A token makes S * exp(decay) + k (x) u of it, with u = v, or, by the delta rule,
    u = beta * (v - k @ (S * exp(decay))); it reads scale * q @ S. query, key: (batch, length, heads * keys); value:
    (batch, length, heads * values); decay: (batch, length, heads) or (batch, length, heads * keys); beta: (batch,
    length, heads) or (batch, length, 1). Heads of queries and of states are repeated to the larger number of them.
    """
    a.refuse("state_window")
    step = Step(a, [query, key, value], past, {"decay": decay, "beta": beta})
    state = step.begin()
    if dims.same(query.shape[1], 1) is True:
        rows = [op.Squeeze(wide(v), vector(1)) for v in step.rows]
        ended, found = step.taken(state, *rows)
        return narrow(op.Unsqueeze(found, vector(1)), query), narrow(ended, query if past is None else past)
    count = len(step.rows)
    ended, found = op.Scan(
        state,
        *map(wide, step.rows),
        num_scan_inputs=count,
        scan_input_axes=[1] * count,
        scan_output_axes=[1],
        body=step.taken,
    )
    return narrow(found, query), narrow(ended, query if past is None else past)


NEEDED = {"decay": "gated", "beta": "delta"}
"""What must stand in the name of a rule that takes an operand."""


class Step:
    """One token after the other: `rows` are queries, keys and values, behind which come the operands of the rule."""

    def __init__(self, a: Application, rows: list[Value], past: Value | None, more: dict[str, Value | None]) -> None:
        self.a, self.past = a, past
        rule = a.attr("update_rule")
        if rule not in ("linear", "gated", "delta", "gated_delta"):
            raise a.fail(f"the rule {rule} is not defined")
        for name, given in more.items():
            if (given is not None) is not (NEEDED[name] in rule):
                raise a.fail(f"{name} goes with the rule {rule}, or does not")
        self.rows = [*rows, *(given for given in more.values() if given is not None)]
        if any(v.rank != 3 for v in self.rows) or (past is not None and past.rank != 4):
            raise a.fail("an operand has another rank")
        self.gated, self.delta = (NEEDED[name] in rule for name in ("decay", "beta"))
        self.queries, self.heads = a.attr("q_num_heads"), a.attr("kv_num_heads")
        self.keys, self.values = self.part(rows[0], self.queries), self.part(rows[2], self.heads)
        self.scale = a.attr("scale") or 1 / math.sqrt(max(self.keys, 1))

    def part(self, x: Value, count: int) -> int:
        """How much of the last axis each of so many parts has."""
        size = dims.floordiv(x.shape[-1], count)
        if type(size) is not int:
            raise self.a.fail("the size of a head is not known")
        return size

    def begin(self) -> Value:
        """The state before the first token."""
        if self.past is not None:
            return wide(self.past)
        first = self.rows[0]
        return op.Expand(number(wide(first), 0), self.a.sizes((first.shape[0], self.heads, self.keys, self.values)))

    def taken(self, state: Value, query: Value, key: Value, value: Value, *more: Value) -> tuple[Value, Value]:
        """The state after a token, and what the token reads; the operands are rows of one token."""
        count = self.part(key, self.keys)
        k = repeated(op.Reshape(key, vector(0, count, self.keys, 1)), 1, self.heads, count)
        v = op.Reshape(value, vector(0, self.heads, 1, self.values))
        left = list(more)
        if self.gated:
            decay = left.pop(0)
            each = self.part(decay, self.heads)
            state = op.Mul(state, op.Exp(op.Reshape(decay, vector(0, self.heads, each, 1))))
        if self.delta:
            seen = op.MatMul(op.Transpose(k, perm=(0, 1, 3, 2)), state)
            v = op.Mul(op.Sub(v, seen), op.Unsqueeze(left.pop(0), vector(2, 3)))
        state = op.Add(state, op.Mul(k, v))
        most = max(self.queries, self.heads)
        q = repeated(op.Reshape(query, vector(0, self.queries, 1, self.keys)), 1, most, self.queries)
        found = op.MatMul(q, repeated(state, 1, most, self.heads))
        if self.scale != 1:
            found = op.Mul(found, number(found, self.scale))
        return state, op.Reshape(found, vector(0, most * self.values))


def repeated(x: Value, axis: int, wanted: int, given: int) -> Value:
    """x with each slice of an axis there as often as it takes to have so many."""
    if given == wanted:
        return x
    ordinals = np.arange(wanted) // (wanted // given)
    return op.Gather(x, ordinals, axis=axis)
