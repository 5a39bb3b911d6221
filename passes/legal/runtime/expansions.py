"""Operators by others, where ONNX has no definition by others, or a longer one: what legalization takes first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType, Tensor, Tuple, types_of
from irkit.dims import Dim
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from irkit.support.results import as_tuple
from passes.analysis.known_sizes import Sizes, bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import axes_of, is_known, number, operand, vector
from passes.analysis.reach import LEAST, may_be_blind
from passes.legal.runtime import activations, draws, int64, texts
from passes.legal.runtime.images import affine_grid, global_lp_pool, mean_variance_normalization
from passes.legal.runtime.int64 import is_confused
from passes.legal.runtime.neighbours import max_unpool
from passes.legal.runtime.refusals import (
    PLACES,
    REDUCTIONS,
    counts_back,
    has_many,
    is_least,
    is_rough,
    lacks_bound,
    least_in_mask,
    linear_of_halves,
    names_no_axis,
    one_mask_for_all,
    reduced_axes,
    scaled_roughly,
    spectrum,
    spelled_least,
)

Expansion = Callable[[Match, Value], Any]


def reshape_if_bound(m: Match, x: Value, shape: tuple[Dim, ...], *binders: Value) -> Value | None:
    """x under other dimensions; None where one of them is not bound."""
    sources = bound_by(x, *binders)
    if not is_known(shape) or not is_bound(m, shape, sources):
        return None
    empty = any(type(d) is int and d == 0 for d in shape)  # a 0 would copy a size otherwise
    return op.Reshape(x, sizes_value(m, shape, 1, sources), allowzero=int(empty))


# ---------------------------------------------------------------------------------------------- attention


RAISED = 0.9 * LEAST
"""What a mask holds in place of the least float32, which ONNX Runtime takes for a mark: it hides as well, is below
every number that is not near the least one, and a score that is added to it does not overflow."""

WINDOWS = ("left_window_size", "right_window_size")
"""Attributes of Attention that say which keys a query sees."""


def attention(m: Match, value: Value) -> Any:
    """The same without what ONNX Runtime takes for something else, or written out"""
    if one_mask_for_all(value):
        return attention_with_rows(m, value)
    if least_in_mask(value):
        return attention_with_numbers(value)
    if any(v is not None and v.dtype in HALVES for v in value.inputs[:3]):
        return attention_in_float(value)
    found = attention_with_past(m, value) if isinstance(value.type, Tuple) else attention_written_out(m, value)
    return attention_of_scaled(m, value) if found is None else found


def attention_written_out(m: Match, value: Value) -> Value | None:
    """softmax(scale * q @ k^T + mask) @ v, query heads that share a key head beside one another"""
    extra = ("softcap", "qk_matmul_output_mode", "softmax_precision")
    windows = any(value.attribute(name, -1) != -1 for name in WINDOWS)
    if not isinstance(value.type, Tensor) or windows or any(value.attribute(name) for name in extra):
        return None
    if any(operand(value, i) is not None for i in (4, 5, 6)) or any(v is None for v in value.inputs[:3]):
        return None
    given: list[Any] = list(value.inputs[:3])
    counts = (value.attribute("q_num_heads"), *(value.attribute("kv_num_heads"),) * 2)
    q, k, v = (heads_of(m, x, count) for x, count in zip(given, counts, strict=True))
    if q is None or k is None or v is None:
        return None
    found = attention_of_heads(m, value, q, k, v)
    if found is None or given[0].rank == 4:
        return found
    return reshape_if_bound(m, op.Transpose(found, perm=(0, 2, 1, 3)), value.shape, *given)


def attention_of_scaled(m: Match, value: Value) -> Any:
    """Attention(q * scale, k, v, scale=1), where ONNX's definition would take the root of a negative scale, or round"""
    q, scale = value.inputs[0], attribute_of(value, "scale")
    if q is None or scale == 1 or not (q.dtype is DType.DOUBLE or (scale is not None and scale <= 0)):
        return None
    heads = heads_of(m, q, value.attribute("q_num_heads")) if scale is None else q
    factor = None if heads is None else root_of_size(m, heads) if scale is None else number(q, scale)
    if factor is None:
        return None
    count = len(value.type.items) if isinstance(value.type, Tuple) else None
    given = {**dict(value.attributes), "scale": 1.0}
    return call("Attention", [op.Mul(q, factor), *value.inputs[1:]], given, outputs=count)


def attention_with_rows(m: Match, value: Value) -> Any:
    """The attention with a row of its mask for each query"""
    q, mask = value.inputs[0], value.inputs[3]
    rows = (*(1,) * (mask.rank - 2), q.shape[-2], 1)  # type: ignore[union-attr]
    if q is None or mask is None or not m.is_bound(rows, q):
        return None
    inputs = list(value.inputs)
    inputs[3] = op.Expand(mask, sizes_value(m, rows, 1, bound_by(q)))
    count = len(value.type.items) if isinstance(value.type, Tuple) else None
    return call("Attention", inputs, dict(value.attributes), outputs=count)


def attention_with_numbers(value: Value) -> Any:
    """The attention with a mask that holds another low number for the least one, which makes for the same shares: below
    all others that the mask holds, for a row may be made of low numbers only"""
    given = operand(value, 3)
    if given is None:
        return None
    spelled = spelled_least(given)
    if spelled:
        *chain, found = spelled
        numbers = [const(np.full(v.shape, RAISED, np.float32)) if is_least(v) else v for v in found.inputs]  # type: ignore
        mask = call(found.op, numbers, dict(found.attributes))
        for each in reversed(chain):
            mask = call(each.op, [mask, *each.inputs[1:]], dict(each.attributes))
    else:
        mask = op.Where(op.Equal(given, number(given, LEAST)), number(given, RAISED), given)
    inputs = list(value.inputs)
    inputs[3] = mask
    count = len(value.type.items) if isinstance(value.type, Tuple) else None
    return call("Attention", inputs, dict(value.attributes), outputs=count)


def attention_in_float(value: Value) -> Any:
    """The attention in float32, rounded once, where there is no kernel for a half type"""
    inputs = [v if v is None or v.dtype not in HALVES else op.Cast(v, to=DType.FLOAT) for v in value.inputs]
    types = types_of(value.type)
    count = len(types) if isinstance(value.type, Tuple) else None
    parts = as_tuple(call("Attention", inputs, dict(value.attributes), outputs=count))
    back = tuple(op.Cast(v, to=t.dtype) if isinstance(t, Tensor) and v.dtype is not t.dtype else v
                 for v, t in zip(parts, types, strict=True))  # fmt: skip
    return back if isinstance(value.type, Tuple) else back[0]


def attention_with_past(m: Match, value: Value) -> Any:
    """(y, present_key, present_value) -> the attention over the past and new keys and values, which are joined first"""
    past = (operand(value, 4), operand(value, 5))
    placed = value.attribute("is_causal") or any(value.attribute(name, -1) != -1 for name in WINDOWS)
    if len(value.type.items) != 3 or None in past or operand(value, 6) is not None or placed:  # type: ignore[union-attr]
        return None  # what depends on places counts the past, and would not where it is joined
    q, k, v = value.inputs[:3]
    kv_heads = value.attribute("kv_num_heads")
    parts = [heads_of(m, x, kv_heads) for x in (k, v) if x is not None]
    if q is None or len(parts) != 2 or None in parts:
        return None
    present = [op.Concat(old, new, axis=2) for old, new in zip(past, parts, strict=True)]
    given = {k: a for k, a in value.attributes if k not in ("q_num_heads", "kv_num_heads")}
    heads = heads_of(m, q, value.attribute("q_num_heads"))
    if heads is None:
        return None
    found = call("Attention", [heads, *present, operand(value, 3)], given)
    if q.rank == 3:
        found = reshape_if_bound(m, op.Transpose(found, perm=(0, 2, 1, 3)), value.type.items[0].shape, q)  # type: ignore[union-attr]
    return None if found is None else (found, *present)


def heads_of(m: Match, x: Value, count: int | None) -> Value | None:
    """x as (batch, heads, sequence, size)."""
    if x.rank == 4:
        return x
    batch, length, width = x.shape
    split = reshape_if_bound(m, x, (batch, length, count, dims.floordiv(width, count)))  # type: ignore[arg-type]
    return None if split is None else op.Transpose(split, perm=(0, 2, 1, 3))


def attention_of_heads(m: Match, value: Value, q: Value, k: Value, v: Value) -> Value | None:
    """The attention of (batch, heads, sequence, size) operands."""
    batch, heads, length, size = q.shape
    shared = k.shape[1]
    mask = operand(value, 3)
    scale = attribute_of(value, "scale")
    grouped = dims.same(heads, shared) is not True
    factor = root_of_size(m, q) if scale is None else number(q, scale)
    if factor is None or (grouped and (type(heads) is not int or type(shared) is not int)):
        return None
    if grouped:
        if mask is not None and mask.rank > 2 and not (mask.rank == 4 and mask.shape[1] == 1):
            return None
        split = reshape_if_bound(m, q, (batch, shared, dims.floordiv(heads, shared), length, size))
        if split is None:
            return None
        q, k, v = split, op.Unsqueeze(k, vector([2])), op.Unsqueeze(v, vector([2]))
        mask = op.Unsqueeze(mask, vector([2])) if mask is not None and mask.rank == 4 else mask
    if mask is not None and mask.dtype not in (DType.BOOL, q.dtype):
        mask = op.Cast(mask, to=q.dtype)
    whole = True if mask is None else dims.same(mask.shape[-1], k.shape[-2])
    if mask is not None and (whole is False or (whole is None and mask.shape[-1] == 1)):
        return None  # it hides the keys beyond its end
    last = q.rank - 2
    turned = op.Transpose(k, perm=(*range(last), last + 1, last))
    scores = op.MatMul(op.Mul(q, factor), turned)
    masks = [mask] if mask is not None else []
    if value.attribute("is_causal"):
        frontier = causal(m, q, k)
        if frontier is None:
            return None
        masks.append(frontier)
    low, total = number(scores, -np.inf), number(scores, 0)
    for each in masks:
        seen = each.dtype is DType.BOOL
        scores = op.Where(each, scores, low) if seen else op.Add(scores, each)
        total = op.Where(each, total, low) if seen else each
    found = op.MatMul(op.Softmax(scores, axis=-1), v)
    if may_be_blind(total):  # a query that sees no key attends to nothing
        found = op.Where(op.Equal(op.ReduceMax(total, vector([-1])), low), number(found, 0), found)
    return reshape_if_bound(m, found, (batch, heads, length, v.shape[-1]), q) if grouped else found


def root_of_size(m: Match, q: Value) -> Value | None:
    """1 / sqrt(size) of the last axis, in the element type of q; None where the size is not bound"""
    size = q.shape[-1]
    if type(size) is int:
        return number(q, 1 / math.sqrt(max(size, 1)))  # of no numbers the product is 0 anyway
    if not is_known((size,)) or not is_bound(m, (size,), bound_by(q)):
        return None
    return op.Reciprocal(op.Sqrt(op.Cast(sizes_value(m, (size,), 0, bound_by(q)), to=q.dtype)))


def causal(m: Match, q: Value, k: Value) -> Value | None:
    """Which keys a query sees: those not after it, as a matrix of bool."""
    rows, columns = ordinals(m, q.shape[-2], q), ordinals(m, k.shape[-2], k)
    if rows is None or columns is None:
        return None
    return op.GreaterOrEqual(op.Unsqueeze(rows, vector([1])), columns)


def ordinals(m: Match, size: Dim, binder: Value) -> Value | None:
    """0, 1, 2, ... up to a size."""
    if type(size) is int:
        return const(np.arange(size))
    if not is_known((size,)) or not is_bound(m, (size,), bound_by(binder)):
        return None
    return op.Range(0, sizes_value(m, (size,), 0, bound_by(binder)), 1)


# ---------------------------------------------------------------------------------------------- norms and pools


def group_normalization(m: Match, value: Value) -> Value | None:
    """x normalized in each group of channels, times scale, plus bias: an InstanceNormalization of the groups"""
    x, scale, bias = value.inputs
    groups = value.attribute("num_groups")
    if x is None or scale is None or bias is None or not x.dtype.is_float:
        return None
    grouped = reshape_if_bound(m, x, (x.shape[0], groups, dims.floordiv(dims.product(x.shape[1:]), groups)))
    if grouped is None:
        return None
    ones, zeros = (const(np.full(groups, n).astype(x.dtype.numpy)) for n in (1, 0))
    normed = op.InstanceNormalization(grouped, ones, zeros, epsilon=attribute_of(value, "epsilon"))
    flat = reshape_if_bound(m, normed, x.shape, x)
    if flat is None:
        return None
    axes = vector(range(1, x.rank - 1))
    return op.Add(op.Mul(flat, op.Unsqueeze(scale, axes)), op.Unsqueeze(bias, axes))


def mean(m: Match, value: Value) -> Value:
    """(x + y + ...) / n"""
    return op.Div(op.Sum(*value.inputs), number(value, len(value.inputs)))


def gemm(m: Match, value: Value) -> Value | None:
    """alpha * a @ b + beta * c, for integers, of which ONNX Runtime multiplies only matrices"""
    alpha, beta = attribute_of(value, "alpha"), attribute_of(value, "beta")
    if value.dtype.is_float or alpha != int(alpha) or beta != int(beta):
        return None
    a, b, c = value.inputs[0], value.inputs[1], operand(value, 2)
    a = op.Transpose(a, perm=(1, 0)) if value.attribute("transA") else a
    b = op.Transpose(b, perm=(1, 0)) if value.attribute("transB") else b
    found = op.MatMul(a, b)
    found = found if alpha == 1 else op.Mul(found, number(found, int(alpha)))
    if c is None or beta == 0:
        return found
    return op.Add(found, c if beta == 1 else op.Mul(c, number(c, int(beta))))


def mat_mul(m: Match, value: Value) -> Value | None:
    """The product with a vector as one with a matrix of one row or column (ONNX Runtime 1.31 fuses a Transpose into
    a product with a vector, and computes something else)"""
    a, b = value.inputs
    if a is not None and b is not None and scaled_roughly(value):
        return op.MatMul(*(kept_apart(v) if is_rough(v) else v for v in (a, b)))
    if a is None or b is None or (a.rank > 1) == (b.rank > 1):
        return None
    if b.rank == 1:
        return op.Squeeze(op.MatMul(a, op.Unsqueeze(b, np.array([1]))), np.array([-1]))
    return op.Squeeze(op.MatMul(op.Unsqueeze(a, np.array([0])), b), np.array([-2]))


def kept_apart(x: Value) -> Value:
    """x, in a way that keeps ONNX Runtime from merging what makes it into what takes it: the larger of x and -inf"""
    return op.Max(x, number(x, -np.inf))


def factor(m: Match, value: Value) -> Any:
    """A product of float64 matrices times a number, kept apart"""
    if not scaled_roughly(value):
        return None
    return call(value.op, [kept_apart(v) if v is not None and v.op == "MatMul" else v for v in value.inputs])


def linear(m: Match, value: Value) -> Value | None:
    """A product of matrices of 16 bits and a vector, added in float32 and rounded once"""
    found = linear_of_halves(value)
    if found is None:
        return None
    wide = [
        op.Cast(v, to=DType.FLOAT) if v.dtype in HALVES else v for v in (*found[0].inputs, found[1]) if v is not None
    ]
    product = op.MatMul(*wide[:2]).with_origin(found[0].origin)
    return op.Cast(op.Add(product, wide[2]), to=value.dtype)


def reduction(m: Match, value: Value) -> Value | None:
    """The same reduction with axes counted from the front"""
    if is_confused(value):
        return int64.EXPANSIONS[value.op](m, value)
    x, axes = value.inputs[0], reduced_axes(value)
    if x is None or axes is None or not counts_back(value):
        return None
    if value.op in PLACES:
        return call(value.op, [x], {**dict(value.attributes), "axis": axes[0] % x.rank})
    return call(value.op, [x, vector(a % x.rank for a in axes)], dict(value.attributes))


def clip(m: Match, value: Value) -> Value | None:
    """Clip by infinities where a bound is left out; of integers beyond 32 bits, by comparisons"""
    x, low, high = value.inputs[0], operand(value, 1), operand(value, 2)
    if x is None or not lacks_bound(value):
        return int64.clip(m, value)
    bounds = (number(x, end) if given is None else given for given, end in ((low, -np.inf), (high, np.inf)))
    return op.Clip(x, *bounds)


def conv_integer(m: Match, value: Value) -> Value | None:
    """With a zero point for each kernel: without it, less the zero point times the sums over windows"""
    x, kernels, shift, zeros = (operand(value, i) for i in range(4))
    if x is None or kernels is None or zeros is None or not has_many(value, 3) or value.attribute("group", 1) != 1:
        return None
    if zeros.rank != 1 or any(type(n) is not int for n in kernels.shape[1:]):
        return None
    ones = const(np.ones((1, *kernels.shape[1:]), kernels.dtype.numpy))
    plain, sums = (call("ConvInteger", [x, w, shift], dict(value.attributes)) for w in (kernels, ones))
    beside = op.Unsqueeze(op.Cast(zeros, to=value.dtype), vector(range(1, x.rank - 1)))
    return op.Sub(plain, op.Mul(sums, beside))


def mod(m: Match, value: Value) -> Value | None:
    """x - y * Floor(x / y), by way of fmod, which is exact"""
    x, y = value.inputs
    if not value.dtype.is_float or value.attribute("fmod"):
        return None
    left = op.Mod(x, y, fmod=1)
    zero = number(left, 0)
    astray = op.And(op.Not(op.Equal(left, zero)), op.Xor(op.Less(left, zero), op.Less(y, zero)))
    return op.Where(astray, op.Add(left, y), left)


def pow_(m: Match, value: Value) -> Value | None:
    """The exponent in the element type of the base"""
    x, y = value.inputs
    if x is None or y is None or x.dtype is y.dtype or not x.dtype.is_float:
        return None
    return op.Pow(x, op.Cast(y, to=x.dtype))


# ---------------------------------------------------------------------------------------------- recurrent networks


def recurrent(m: Match, value: Value) -> Any:
    """Batch and sequence turned before and after: layout 0"""
    given = dict(value.attributes)
    if not given.pop("layout", 0):
        return None
    inputs = [None if v is None else op.Transpose(v, perm=(1, 0, 2)) if i in (0, 5, 6) else v
              for i, v in enumerate(value.inputs)]  # fmt: skip
    count = len(types_of(value.type))
    parts = as_tuple(call(value.op, inputs, given, outputs=count))
    turned = tuple(op.Transpose(v, perm=(2, 0, 1, 3) if i == 0 else (1, 0, 2)) for i, v in enumerate(parts))
    return turned if isinstance(value.type, Tuple) else turned[0]


# ---------------------------------------------------------------------------------------------- choice and placement


def bit_cast(m: Match, value: Value) -> Value | None:
    """A bool seen as a number of 8 bits is 0 or 1; of integers a Cast keeps the bits"""
    x = value.inputs[0]
    if x is None or not value.dtype.is_integer or value.dtype.bits < 8:
        return None
    same = x.dtype.is_integer and x.dtype.bits == value.dtype.bits
    return op.Cast(x, to=value.dtype) if same or (x.dtype is DType.BOOL and value.dtype.bits == 8) else None


def cut_spectrum(m: Match, value: Value) -> Value | None:
    """The inverse to real numbers of as much as its length takes"""
    found, x = spectrum(value), value.inputs[0]
    if found is None or x is None:
        return None
    (axis, size), sources = found, (bound_by(x), sizes_held(operand(value, 1)) or bound_by())
    if not is_bound(m, (size,), *sources):
        return None
    taken = op.Slice(x, vector([0]), sizes_value(m, (size,), 1, *sources), vector([axis]))
    return value.with_inputs((taken, *value.inputs[1:]))


def squeeze(m: Match, value: Value) -> Value | None:
    """x, where no axis is dropped"""
    return op.Identity(value.inputs[0]) if names_no_axis(value) else None


def where(m: Match, value: Value) -> Value | None:
    """(c and x) or (not c and y), for bool"""
    c, x, y = value.inputs
    return op.Or(op.And(c, x), op.And(op.Not(c), y)) if value.dtype is DType.BOOL else None


def non_zero(m: Match, value: Value) -> Value | None:
    """The places of what is True as a bool; of a scalar as many as a vector of it has, without coordinates"""
    x = value.inputs[0]
    if x is not None and not x.rank:
        return op.Slice(op.NonZero(op.Reshape(x, [1])), [0], [0], [0])
    if x is None or x.dtype in (DType.BOOL, DType.STRING) or x.dtype.is_complex:
        return None
    return op.NonZero(op.Cast(x, to=DType.BOOL))


def cast_like(m: Match, value: Value) -> Value:
    """Cast to the element type of the second operand"""
    return op.Cast(value.inputs[0], to=value.dtype, saturate=attribute_of(value, "saturate"))


def constant_of_shape(m: Match, value: Value) -> Value | None:
    """The constant, expanded"""
    fill = value.attribute("value")
    return None if fill is None else op.Expand(const(fill.array.reshape(())), value.inputs[0])


def tensor_scatter(m: Match, value: Value) -> Value | None:
    """A slice of each batch's cache replaced from where `write_indices` says: ScatterElements"""
    past, update, starts = value.inputs[0], value.inputs[1], operand(value, 2)
    if past is None or update is None:
        return None
    rank = past.rank
    axis = attribute_of(value, "axis") % rank
    places = ordinals(m, update.shape[axis], update)
    if places is None:
        return None
    places = op.Unsqueeze(places, vector(i for i in range(rank) if i != axis))
    if starts is not None:
        places = op.Add(places, op.Unsqueeze(starts, vector(range(1, rank))))
    if attribute_of(value, "mode") == "circular":
        size = (
            sizes_value(m, (past.shape[axis],), 0, bound_by(past)) if is_bound(m, past.shape, bound_by(past)) else None
        )
        if size is None:
            return None
        places = op.Mod(places, size)
    if not is_known(update.shape) or not is_bound(m, update.shape, bound_by(update)):
        return None
    return op.ScatterElements(
        past, op.Expand(places, sizes_value(m, update.shape, 1, bound_by(update))), update, axis=axis
    )


def one_hot(m: Match, value: Value) -> Value | None:
    """Numbers of 0 and 1, and in the place of each the value that it stands for"""
    places, depth, pair = value.inputs
    if pair is None or value.dtype is DType.FLOAT or pair.rank != 1:
        return None
    hot = op.OneHot(places, depth, np.array([0, 1], np.float32), axis=attribute_of(value, "axis"))
    off, on = (op.Squeeze(op.Slice(pair, vector([i]), vector([i + 1])), vector([0])) for i in (0, 1))
    return op.Where(op.Cast(hot, to=DType.BOOL), on, off)


def cum_prod(m: Match, value: Value) -> Value | None:
    """A Scan that multiplies as it goes"""
    x, axes = value.inputs[0], axes_of(value.inputs[1])
    if x is None or axes is None:
        return None
    axis = axes[0] % x.rank
    rest = tuple(d for i, d in enumerate(x.shape) if i != axis)
    if not is_known(rest) or not is_bound(m, rest, bound_by(x)):
        return None
    start = op.Expand(number(x, 1), sizes_value(m, rest, 1, bound_by(x)))
    before = bool(value.attribute("exclusive"))

    def step(state: Value, part: Value) -> tuple[Value, Value]:
        after = op.Mul(state, part)
        return after, op.Identity(state if before else after)

    backward = int(bool(value.attribute("reverse")))
    _, found = op.Scan(
        start, x, body=step, num_scan_inputs=1, scan_input_axes=[axis], scan_output_axes=[axis],
        scan_input_directions=[backward], scan_output_directions=[backward],
    )  # fmt: skip
    return found


def softmax_cross_entropy(m: Match, value: Value) -> Any:
    """NegativeLogLikelihoodLoss(LogSoftmax(x), labels, weight), of nothing too"""
    x, labels, weight = value.inputs[0], value.inputs[1], operand(value, 2)
    if x is None:
        return None
    logs = op.LogSoftmax(x, axis=1)
    given = {name: attribute_of(value, name) for name in ("ignore_index", "reduction")}
    loss = op.NegativeLogLikelihoodLoss(logs, labels, weight, **{k: v for k, v in given.items() if v is not None})
    return (loss, logs) if isinstance(value.type, Tuple) else loss


def pad(m: Match, value: Value) -> Value | None:
    """The amounts for all axes, or the elements of mode wrap looked up"""
    found = pad_all_axes(m, value)
    return pad_wrap(m, value) if found is None else found


def pad_all_axes(m: Match, value: Value) -> Value | None:
    """The amounts for all axes: 0 for those that are not named"""
    x, pads, axes = value.inputs[0], value.inputs[1], axes_of(operand(value, 3))
    if x is None or pads is None or axes is None:
        return None
    places = [len(axes) * 2] * (2 * x.rank)
    for i, axis in enumerate(axes):
        places[axis % x.rank], places[axis % x.rank + x.rank] = i, i + len(axes)
    fixed = sizes_held(pads)
    if fixed is None:
        given: Value = op.Gather(op.Concat(pads, vector([0]), axis=0), vector(places))
    else:
        given = sizes_value(m, [(*fixed.dims, 0)[i] for i in places], 1, fixed)
    return op.Pad(x, given, operand(value, 2), mode=attribute_of(value, "mode"))


def pad_wrap(m: Match, value: Value) -> Value | None:
    """The elements at the places of the result, counted around, for mode wrap"""
    x, pads, axes = value.inputs[0], sizes_held(value.inputs[1]), operand(value, 3)
    if attribute_of(value, "mode") != "wrap" or x is None or pads is None or (axes is not None and axes.blob is None):
        return None
    chosen = [a % x.rank for a in ((axes_of(axes) or ()) if axes is not None else range(x.rank))]
    for i, axis in enumerate(chosen):
        before, after = pads.dims[i], pads.dims[i + len(chosen)]
        if any(type(each) is int and each < 0 for each in (before, after)):
            return None
        if before != 0 or after != 0:
            places = around(m, value.inputs[0], axis, before, after, pads)  # type: ignore[arg-type]
            if places is None:
                return None
            x = op.Gather(x, places, axis=axis)
    return x


def around(m: Match, x: Value, axis: int, before: Dim, after: Dim, amounts: Sizes) -> Value | None:
    """-before, ..., size + after - 1, counted around the size of an axis; None where that is not bound."""
    size = x.shape[axis]
    if type(size) is int and type(before) is int and type(after) is int:
        return const(np.arange(-before, size + after) % size) if size else None
    sources = (bound_by(x), amounts)
    if not is_known((size, before, after)) or not is_bound(m, (size, before, after), *sources):
        return None
    first, end, least = (
        sizes_value(m, (each,), 0, *sources)
        for each in (dims.mul(before, -1), dims.add(size, after), dims.maximum(size, 1))
    )
    return op.Mod(op.Range(first, end, 1), least)


EXPANSIONS: Mapping[str, Expansion] = MappingProxyType({
    "Attention": attention, "GroupNormalization": group_normalization, "GlobalLpPool": global_lp_pool, "Mean": mean,
    "Gemm": gemm, "MatMul": mat_mul, "Mul": factor, "Div": factor, "Add": linear, "Where": where, "NonZero": non_zero,
    "Squeeze": squeeze, "ConvInteger": conv_integer, "MaxUnpool": max_unpool,
    **int64.EXPANSIONS, **texts.EXPANSIONS, "Clip": clip, "CastLike": cast_like, "ConstantOfShape": constant_of_shape,
    "TensorScatter": tensor_scatter, "CumProd": cum_prod, "Pad": pad, "Mod": mod, "Pow": pow_, "RNN": recurrent,
    "GRU": recurrent, "LSTM": recurrent, "BitCast": bit_cast, "DFT": cut_spectrum, "OneHot": one_hot,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy, "AffineGrid": affine_grid,
    "MeanVarianceNormalization": mean_variance_normalization,
    **dict.fromkeys((*REDUCTIONS, *PLACES), reduction), **draws.EXPANSIONS, **activations.EXPANSIONS,
})  # fmt: skip
"""The expansion of each operator: a value, a tuple of values, or None where it does not apply."""
