"""Rules into ONNX Runtime's operators that carry a state from token to token.

Measured on ONNX Runtime's CPU provider: one token of the delta rule takes a quarter of the time in LinearAttention, and
a causal convolution of one token a tenth of it in CausalConvWithState; over many tokens a convolution takes as long
either way, and longer with its activation inside. States whose decay is another for each element (as Mamba's) are
faster as they stand, and are left so.
"""

from __future__ import annotations

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.pattern import attr, attribute_of, either, hole, one_of, p, rest
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import axes_of, holds_digits, operand, same_shape, vector
from passes.rules.onnxruntime.reading import Other, bare, both_ways, factor, first, need

# ---------------------------------------------------------------------------------------------- convolutions


def _convolved(rng: np.random.Generator) -> Value:
    batch, length, taps = dims.symbol("batch"), dims.symbol("length"), int(rng.integers(1, 4))
    dilation, extra, one = int(rng.integers(1, 3)), int(rng.integers(2)), bool(rng.random() < 0.5)
    before = (taps - 1) * dilation + extra
    x = param(Tensor(DType.FLOAT, (batch, 3, 1 if one else length)))
    weight = const(rng.standard_normal((3, 1, taps)).astype(np.float32))
    bias = const(rng.standard_normal(3).astype(np.float32)) if rng.random() < 0.5 else None
    whole = op.Concat(param(Tensor(DType.FLOAT, (batch, 3, before))), x, axis=2)
    found = op.Conv(whole, weight, bias, group=3, dilations=[dilation])
    return op.Slice(found, [-1] if one else [extra], [2**63 - 1], [2]) if extra else found


_joined = p.Concat(hole("past", dtype="f32", rank=3), hole("x", rank=3), axis=2)
_conv = one_of("Conv")(_joined, hole("w"), hole("b", optional=True)).named("conv")
_cut = p.Slice(_conv.once(), hole("starts"), hole("ends"), constant("axes"))


@rule(either(_cut, _conv), sample=_convolved, exact=False)
def causal_convolution(m: Match) -> Made:
    """Conv(Concat(past, x), w, b) of each channel, at the positions of x -> CausalConvWithState(x, w, b, past)"""
    channels, taps = m.x.shape[1], m.w.shape[-1]
    apart = type(channels) is int and type(taps) is int and same_shape(m.w.shape, (channels, 1, taps))
    if not apart or attribute_of(m.conv, "group") != channels:
        return decline("the channels are not convolved one by one")
    names = ("strides", "pads", "dilations", "auto_pad")
    strides, pads, dilations, auto = (attribute_of(m.conv, name) for name in names)
    if any(pads or ()) or set(strides or ()) - {1} or auto not in (None, "NOTSET"):
        return decline("the convolution is padded, or has strides")
    dilation, there = (dilations or (1,))[0], m.past.shape[2]
    if not taps or (type(m.x.shape[2]) is int and not m.x.shape[2]):
        return decline("there is nothing to convolve")
    before = (taps - 1) * dilation
    if type(there) is not int or there < before or not same_shape(m.past.shape[:2], m.x.shape[:2]):
        return decline("there are fewer earlier positions than the convolution looks back")
    extra = there - before
    if m.root is not m.conv if extra == 0 else m.root is m.conv or not is_end(m, extra):
        return decline("other positions are wanted than those of x")
    past = op.Slice(m.past, vector([extra]), vector([there]), vector([2])) if extra else m.past
    made = call("com.microsoft::CausalConvWithState", [m.x, m.w, m.b, past], {"dilation": dilation}, outputs=2)
    return made[0]


def is_end(m: Match, extra: int) -> bool:
    """True where the first `extra` positions are left out and all others taken, which are as many as x has."""
    begin, end, length = sizes_held(m.starts), sizes_held(m.ends), m.x.shape[2]
    if begin is None or end is None or axes_of(m.axes) not in ((2,), (-1,)) or not same_shape(m.root.shape, m.x.shape):
        return False
    whole = dims.add(length, extra)
    far = end.dims[0] if type(end.dims[0]) is not int or end.dims[0] < FAR else whole
    starts: tuple[Dim, ...] = (extra, -length) if type(length) is int and length > 0 else (extra,)
    return dims.same(far, whole) is True and begin.dims[0] in starts


FAR = 1 << 31
"""No axis is so long."""


def _activated(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (dims.symbol("batch"), 3, 1)))
    weight, past = (
        const(rng.standard_normal((3, 1, 4)).astype(np.float32)),
        param(Tensor(DType.FLOAT, (x.shape[0], 3, 3))),
    )
    given = [x, weight, const(rng.standard_normal(3).astype(np.float32)), past]
    return op.Swish(call("com.microsoft::CausalConvWithState", given[: int(rng.integers(2, 5))], {}, outputs=2)[0])


_causal = one_of("com.microsoft::CausalConvWithState")(*rest("operands")).named("conv").once()


@rule(p.Swish(_causal[0].once()), sample=_activated, exact=False)
def activated_convolution(m: Match) -> Made:
    """Swish(CausalConvWithState(x, w, b, past)) -> CausalConvWithState(x, w, b, past, activation="silu")"""
    given = dict(m.conv.attributes)
    if given.get("activation", "none") != "none":
        return decline("it has an activation")
    return call(m.conv.op, m.operands, {**given, "activation": "silu"}, outputs=2)[0]


# ---------------------------------------------------------------------------------------------- states


@attrs.frozen(eq=False)
class Token:
    """One token of linear attention over states of (batch, heads, keys, values), with `decays` numbers of decay."""

    past: Value
    key: Value
    value: Value
    decay: Value | None
    decays: int
    beta: Value | None


def _stepped(rng: np.random.Generator) -> tuple[Value, ...]:
    batch = dims.symbol("batch")
    past, key, value, query = (param(Tensor(DType.FLOAT, (batch, 2, *s))) for s in ((3, 4), (3,), (4,), (3,)))
    state, column = past, op.Unsqueeze(key, [3])
    kind = int(rng.integers(3))
    if kind == 1:
        state = op.Mul(state, op.Unsqueeze(op.Exp(param(Tensor(DType.FLOAT, (batch, 2)))), [2, 3]))
    if kind == 2:
        state = op.Mul(state, op.Exp(op.Unsqueeze(param(Tensor(DType.FLOAT, (batch, 2, 3))), [3])))
    if rng.random() < 0.7:
        seen = op.ReduceSum(op.Mul(state, column), np.array([2]), keepdims=0)
        value = op.Mul(op.Sub(value, seen), op.Unsqueeze(param(Tensor(DType.FLOAT, (batch, 2))), [2]))
    state = op.Add(state, op.Mul(column, op.Unsqueeze(value, [2])))
    if rng.random() < 0.5:
        query = op.Div(query, 1.7) if rng.random() < 0.5 else op.Mul(query, 0.3)
    return op.ReduceSum(op.Mul(state, op.Unsqueeze(query, [3])), np.array([2]), keepdims=int(rng.integers(2))), state


_state = p.Add(hole("a", dtype="f32", rank=4), hole("b", rank=4)).named("state")


@rule(
    p.ReduceSum(p.Mul(_state, hole("query", rank=4)), constant("axes"), keepdims=attr("keep")),
    hole("state"),
    sample=_stepped,
    exact=False,
)
def attended_state(m: Match) -> Made:
    """s = past * Exp(decay) + key (x) (value - key @ ...) * beta, query @ s -> the results of LinearAttention"""
    batch, heads, keys, values = m.state.shape
    if any(type(d) is not int or d < 1 for d in (heads, keys, values)) or axes_of(m.axes) not in ((2,), (-2,)):
        return decline("the size of a head is not known, or the state is read along another axis")
    try:
        token = token_of(m.state)
    except Other as other:
        return decline(str(other))
    if not same_shape(m.query.shape, (batch, heads, keys, 1)):
        return decline("the query is not one for each head")
    source, scale = scaled(bare(m.query))
    widths = ((source, heads * keys), (token.key, heads * keys), (token.value, heads * values))
    sources = bound_by(m.state, m.query)
    if not is_bound(m, (batch,), sources):
        return decline("nothing binds the size of the batch")
    rows = [op.Reshape(v, sizes_value(m, (batch, 1, width), 1, sources)) for v, width in widths]
    gates = [
        None if gate is None else op.Reshape(gate, sizes_value(m, (batch, 1, width), 1, sources))
        for gate, width in ((token.decay, token.decays), (token.beta, heads))
    ]
    parts = (("gated", token.decay), ("delta", token.beta))
    kind = "_".join(name for name, operand in parts if operand is not None)
    given = {"q_num_heads": heads, "kv_num_heads": heads, "scale": scale, "update_rule": kind or "linear"}
    found, state = call("com.microsoft::LinearAttention", [*rows, token.past, *gates], given, outputs=2)
    return op.Reshape(found, sizes_value(m, m.root.shape, 1, sources)), state


def scaled(query: Value) -> tuple[Value, float]:
    """(the query without its factor, the factor), for a factor of at least 1: the operator multiplies after it has
    summed, where a smaller factor would no longer keep the sum from overflowing."""
    for x, by in both_ways(query) if query.op in ("Mul", "Div") else ():
        number = factor(by)
        number = 1 / number if number and query.op == "Div" else number
        over = query.op == "Mul" or x is first(query)
        if over and number and abs(number) >= 1 and holds_digits(query, number) and same_shape(x.shape, query.shape):
            return x, number
    return query, 1.0


def token_of(state: Value) -> Token:
    """The token that computes a state. Raises Other where there is none."""
    why = Other("the state is not a sum of an earlier one and a product of a key and a value")
    for before, more in both_ways(state):
        if more.op == "Mul" and same_shape(before.shape, state.shape):
            for column, row in both_ways(more):
                try:
                    return added(state, before, column, row)
                except Other as other:
                    why = other
    raise why


def added(state: Value, before: Value, column: Value, row: Value) -> Token:
    """The token that adds column (x) row to the decayed earlier state."""
    batch, heads, keys, values = state.shape
    fits = same_shape(column.shape, (batch, heads, keys, 1)) and same_shape(row.shape, (batch, heads, 1, values))
    need(fits, "the state is not a sum of an earlier one and a product of a key and a value")
    past, decay, count = decayed(before)
    made, beta = bare(row), None
    if made.op == "Mul":
        for error, rate in both_ways(made):
            if error.op == "Sub" and same_shape(error.shape, (batch, heads, values)):
                made, beta = corrected(error, before, column), bare(rate)
                need(same_shape(rate.shape, (batch, heads, 1)), "the rate is not one for each head")
                break
    return Token(past, bare(column), made, decay, count, beta)


def corrected(error: Value, before: Value, column: Value) -> Value:
    """The value, where what is added is the value minus what the state holds for the key."""
    seen = operand(error, 1)
    read_ = seen is not None and seen.op == "ReduceSum" and not attribute_of(seen, "keepdims") and seen
    seen = need(read_, "the value is corrected otherwise")
    need(axes_of(operand(seen, 1)) in ((2,), (-2,)), "the value is corrected otherwise")
    product = first(seen)
    same = product.op == "Mul" and any(a is before and b is column for a, b in both_ways(product))
    need(same and same_shape(first(error).shape, error.shape), "the value is corrected by another key or state")
    return bare(first(error))


def decayed(before: Value) -> tuple[Value, Value | None, int]:
    """(the earlier state, the logarithm of its decay, how many numbers that has in a row): one for each head, or one
    for each of its keys."""
    batch, heads, keys, _ = before.shape
    if before.op == "Mul":
        for past, left in both_ways(before):
            power = bare(left)
            if same_shape(past.shape, before.shape) and power.op == "Exp":
                for each in (1, keys):
                    if same_shape(left.shape, (batch, heads, each, 1)):
                        return past, bare(first(power)), heads * each
    return before, None, 0


RECURRENCES: tuple[Rule, ...] = (causal_convolution, activated_convolution, attended_state)
"""What carries a state from token to token in ONNX Runtime's own operators."""
