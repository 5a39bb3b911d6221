"""Rules from ONNX's operators into those of ONNX Runtime, as encoders and vision models need them.

Measured on ONNX Runtime's CPU provider: attention with its projections in one matrix is the fastest form that there
is, at every size; SkipLayerNormalization takes several times as long as the sum and the norm that it stands for, and
none of these rules makes it; convolutions and activations take as long either way, and are fewer nodes.
"""

from __future__ import annotations

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.attributes import Given
from irkit.core.blobs import beside, joined_blob
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, Tuple, tensor
from irkit.dims import Dim
from irkit.pattern import Either, Op, attr, attribute_of, either, hole, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import axes_of, holds_digits, joined_name, same_shape, same_type
from passes.analysis.reach import NOTHING, may_be_blind, reach
from passes.rules.constants import transposed_constant

x = hole("x", dtype="f32")


# ---------------------------------------------------------------------------------------------- convolutions

PARAMETERS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip
"""Activations that convolutions and matrix products of ONNX Runtime end with, and the attributes of each."""

_conv = one_of("Conv")(x, hole("w"), hole("b", optional=True)).named("conv").once()
_activations = one_of(*PARAMETERS)


def _convolved(rng: np.random.Generator) -> Value:
    channels = int(rng.integers(1, 4))
    image = param(tensor("f32", "batch", 2, 6, 7) if rng.random() < 0.7 else tensor("f32", "batch", 2, 9))
    kernel = (3,) * (image.rank - 2)
    weight = const(rng.standard_normal((channels, 2, *kernel)).astype(np.float32))
    bias = const(rng.standard_normal(channels).astype(np.float32)) if rng.random() < 0.5 else None
    return op.Conv(image, weight, bias, pads=[1] * (2 * len(kernel)), strides=[int(rng.integers(1, 3))] * len(kernel))


def _activated(rng: np.random.Generator, value: Value) -> Value:
    makers = (
        lambda: op.Relu(value), lambda: op.Sigmoid(value), lambda: op.Tanh(value),
        lambda: op.LeakyRelu(value, alpha=0.2), lambda: op.HardSigmoid(value, beta=0.3),
    )  # fmt: skip
    return makers[int(rng.integers(len(makers)))]()


def _summed(rng: np.random.Generator) -> Value:
    made = _convolved(rng)
    other = param(made.type)
    return op.Add(made, other) if rng.random() < 0.5 else op.Add(other, made)


def _ending(value: Value) -> Given:
    """The attributes of a FusedConv that ends in that activation."""
    numbers = [float(attribute_of(value, name)) for name in PARAMETERS[value.op]]
    return {"activation": value.op, **({"activation_params": numbers} if numbers else {})}


def _fused(m: Match, z: Value | None, ending: Given) -> Made:
    if not 3 <= m.x.rank <= 5:
        return decline("ONNX Runtime fuses convolutions of one to three dimensions")
    return call("com.microsoft::FusedConv", [m.x, m.w, m.b, z], {**dict(m.conv.attributes), **ending})


@rule(_activations(_conv), exact=False, sample=lambda rng: _activated(rng, _convolved(rng)))
def conv_activation(m: Match) -> Made:
    """activation(Conv(x, w, b)) -> FusedConv(x, w, b)"""
    return _fused(m, None, _ending(m.root))


_residual = p.Add(_conv, hole("z"))


@rule(_residual, exact=False, sample=_summed)
def conv_sum(m: Match) -> Made:
    """Conv(x, w, b) + z -> FusedConv(x, w, b, z)"""
    if not same_type(m.z, m.conv):
        return decline("z broadcasts")
    return _fused(m, m.z, {})


def _conv_then_sum(rng: np.random.Generator) -> Value:
    made = _convolved(rng)
    return op.com_microsoft.FusedConv(
        *made.inputs, *[None] * (3 - len(made.inputs)), param(made.type), **dict(made.attributes)
    )


_bare = {name: attr(name) for name in ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")}
_parts = (x, hole("w"), hole("b", optional=True), hole("z", optional=True))


@rule(
    _activations(p.op("com.microsoft::FusedConv")(*_parts, **_bare).named("conv").once()),
    exact=False,
    sample=lambda rng: _activated(rng, _conv_then_sum(rng)),
)
def conv_sum_activation(m: Match) -> Made:
    """activation(FusedConv(x, w, b, z)) -> FusedConv(x, w, b, z), with the activation"""
    return _fused(m, m.z, _ending(m.root))


# ---------------------------------------------------------------------------------------------- products

_gemm_attributes = {name: attr(name) for name in ("transA", "transB", "alpha", "beta")}


def _product(rng: np.random.Generator) -> Value:
    a, b = param(tensor("f32", "n", 3)), param(tensor("f32", 4, 3))
    return _activated(rng, op.Gemm(a, b, param(tensor("f32", 4)) if rng.random() < 0.5 else None, transB=1))


@rule(
    _activations(p.Gemm(x, hole("w"), hole("c", optional=True), **_gemm_attributes).named("gemm").once()),
    exact=False,
    sample=_product,
)
def gemm_activation(m: Match) -> Made:
    """activation(Gemm(x, w, c)) -> FusedGemm(x, w, c)"""
    given = {f"activation_{name}": float(attribute_of(m.root, name)) for name in PARAMETERS[m.root.op]}
    given = {**dict(m.gemm.attributes), **given, "activation": m.root.op}
    return call("com.microsoft::FusedGemm", [m.x, m.w, m.c], given)


def _turns_last_two(value: Value) -> bool:
    """True for a Transpose that swaps the last two axes and nothing else."""
    rank = value.rank
    return rank >= 2 and value.attribute("perm") == (*range(rank - 2), rank - 1, rank - 2)


def _turned(name: str) -> Op:
    return p.Transpose(hole(name, dtype="f32"), perm=attr(f"{name}_perm")).provided(_turns_last_two)


def _turned_product(rng: np.random.Generator) -> Value:
    a, b = param(tensor("f32", "n", 2, 3)), param(tensor("f32", "n", 4, 3))
    swapped = op.Transpose(b, perm=(0, 2, 1))
    if rng.random() < 0.5:
        return op.MatMul(a, swapped)
    return op.MatMul(op.Transpose(param(tensor("f32", "n", 3, 2)), perm=(0, 2, 1)), swapped)


@rule(
    either(p.MatMul(_turned("a"), _turned("b")), p.MatMul(_turned("a"), hole("y")), p.MatMul(hole("y"), _turned("b"))),
    exact=False,
    sample=_turned_product,
)
def turned_product(m: Match) -> Made:
    """a @ Transpose(b) -> FusedMatMul(a, b, transB=1), and so for a"""
    a, b = m.get("a"), m.get("b")
    left, right = (a if a is not None else m.y), (b if b is not None else m.y)
    if left.rank < 2 or right.rank < 2 or any(v.blob is not None for v in (left, right)):
        return decline("a vector, or a weight, which is turned once")
    given = {"transA": int(a is not None), "transB": int(b is not None)}
    return call("com.microsoft::FusedMatMul", [left, right], {k: v for k, v in given.items() if v})


_plain_product = either(
    p.MatMul(x, hole("y")).named("product").once(),
    one_of("com.microsoft::FusedMatMul")(x, hole("y")).named("product").once(),
)


@rule(
    either(p.Mul(_plain_product, constant("factor")), p.Div(_plain_product, constant("divisor"))),
    exact=False,
    sample=lambda rng: op.Mul(_turned_product(rng), 0.25) if rng.random() < 0.7 else op.Div(_turned_product(rng), 3.0),
)
def scaled_product(m: Match) -> Made:
    """(x @ y) * c -> FusedMatMul(x, y, alpha=c), for a number c"""
    number = uniform(m.factor if m.get("factor") is not None else m.divisor)
    if not number or not same_type(m.product, m.root) or m.x.rank < 2 or m.y.rank < 2:
        return decline("c is not a number, or it broadcasts the product")
    before = attribute_of(m.product, "alpha") if m.product.op != "MatMul" else 1.0
    alpha = before * (number if m.get("factor") is not None else 1 / number)
    if not holds_digits(m.x, alpha):
        return decline("more digits than the attribute has, or a number beyond its range")
    return call("com.microsoft::FusedMatMul", [m.x, m.y], {**dict(m.product.attributes), "alpha": float(alpha)})


LARGE = 1 << 16
"""Bytes of a weight from which on it takes longer to turn it than to say that it lies turned."""


def _linear(rng: np.random.Generator) -> Value:
    dtype = np.float32 if rng.random() < 0.7 else np.float64
    held = const(rng.standard_normal((140, 130)).astype(dtype), name="weight")
    return op.MatMul(param(tensor(held.dtype, "batch", "length", 130)), transposed_constant(held))


@rule(p.MatMul(hole("x"), constant("w", rank=2)), exact=False, sample=_linear)
def held_weight(m: Match) -> Made:
    """x @ w -> FusedMatMul(x, v, transB=1), for a weight w that is the transpose of what lies in memory, v"""
    held = m.w.blob.turned
    if held is None or held.nbytes < LARGE:
        return decline("the weight is small, or known as no transpose")
    if m.x.rank < 2 or m.w.dtype not in (DType.FLOAT, DType.DOUBLE):
        return decline("a vector, or of an element type that ONNX Runtime casts")
    return call("com.microsoft::FusedMatMul", [m.x, const(held).with_origin(m.w.origin)], {"transB": 1})


# ---------------------------------------------------------------------------------------------- activations


def _is_row(value: Value, like: Value) -> bool:
    return value.rank == 1 and dims.same(value.shape[0], like.shape[-1]) is True and value.shape[0] != 1


def _biased(rng: np.random.Generator) -> Value:
    total = op.Add(param(tensor("f32", "n", 4)), const(rng.standard_normal(4).astype(np.float32)))
    return op.Gelu(total, approximate="tanh" if rng.random() < 0.5 else "none")


@rule(p.Gelu(p.Add(x, constant("bias", rank=1)).once(), approximate=attr("how")), exact=False, sample=_biased)
def bias_gelu(m: Match) -> Made:
    """Gelu(x + bias) -> BiasGelu(x, bias), or FastGelu(x, bias) where the tanh of a polynomial stands for it"""
    if not same_type(m.x, m.root) or not _is_row(m.bias, m.x):
        return decline("the bias is not a vector along the last axis")
    return call(f"com.microsoft::{'FastGelu' if m.how == 'tanh' else 'BiasGelu'}", [m.x, m.bias], {})


@rule(p.Gelu(x, approximate="tanh"), exact=False)
def fast_gelu(m: Match) -> Made:
    """Gelu(x, approximate="tanh") -> FastGelu(x)"""
    return op.com_microsoft.FastGelu(m.x)


@rule(p.Swish(x, alpha=attr("alpha")), exact=False)
def quick_gelu(m: Match) -> Made:
    """Swish(x, alpha) -> QuickGelu(x, alpha)"""
    return op.com_microsoft.QuickGelu(m.x, alpha=m.alpha)


# ---------------------------------------------------------------------------------------------- attention


def _projection(name: str) -> Either:
    product = p.MatMul(hole("x", dtype="f32", rank=3), constant(f"w{name}", rank=2)).named(f"product_{name}").once()
    return either(p.Add(product, constant(f"b{name}", rank=1)).named(f"sum_{name}").once(), product)


_operands = tuple(_projection(name) for name in "qkv")


def _projected(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    source = param(Tensor(DType.FLOAT, (batch, length, 6)))
    parts: list[Value] = []
    for _ in range(3):
        made = op.MatMul(source, const(rng.standard_normal((6, 8)).astype(np.float32)))
        parts.append(op.Add(made, const(rng.standard_normal(8).astype(np.float32))) if rng.random() < 0.7 else made)
    given: Given = {"q_num_heads": 2, "kv_num_heads": 2}
    if rng.random() < 0.5:
        given["scale"] = 0.3
    return call("Attention", [*parts, *_mask_of(rng, batch, length, given)], given)


def _mask_of(rng: np.random.Generator, batch: Dim, length: Dim, given: Given) -> list[Value]:
    kind = int(rng.integers(5))
    if kind == 1:
        given["is_causal"] = 1
    if kind == 2:
        return [param(Tensor(DType.FLOAT, (batch if rng.random() < 0.5 else 1, 1, length, length)))]
    if kind == 3:
        seen = op.Unsqueeze(op.Greater(param(Tensor(DType.FLOAT, (batch, length))), float(rng.choice([-1, 1]))), [1, 2])
        if rng.random() < 0.3:
            seen = op.Or(seen, np.array(True))
            return [op.Expand(seen, shape_vector((batch, 1, length, length), seen))]
        return [op.Where(seen, 0.0, -1e30)]
    if kind == 4:
        return [param(Tensor(DType.FLOAT, (length, length)))]
    return []


@rule(one_of("Attention")(*_operands, hole("mask", optional=True)), exact=False, sample=_projected)
def packed_attention(m: Match) -> Made:
    """Attention(x @ wq + bq, x @ wk + bk, x @ wv + bv, mask) -> Attention of ONNX Runtime, with the three in one"""
    weights = [m.wq, m.wk, m.wv]
    biases = [_bias(m, name) for name in "qkv"]
    if any(b is not None and b.shape != w.shape[1:] for b, w in zip(biases, weights, strict=True)):
        return decline("a bias broadcasts")
    return _packed(m, _joined_weights(weights), _joined_biases(weights, biases), [w.shape[1] for w in weights])


@rule(one_of("Attention")(*_operands, *rest("more")), exact=False, sample=_projected)
def joined_projections(m: Match) -> Made:
    """Attention(x @ wq, x @ wk, x @ wv, ...) -> Attention(*Split(x @ w), ...), where packed_attention declines"""
    weights = [m.wq, m.wk, m.wv]
    biases = [_bias(m, name) for name in "qkv"]
    if any(b is not None and b.shape != w.shape[1:] for b, w in zip(biases, weights, strict=True)):
        return decline("a bias broadcasts")
    bias, sizes = _joined_biases(weights, biases), np.array([w.shape[1] for w in weights])
    made = op.MatMul(m.x, _joined_weights(weights))
    parts = op.Split(made if bias is None else op.Add(made, bias), sizes, axis=2, outputs=3)
    count = len(m.root.type.items) if isinstance(m.root.type, Tuple) else None
    return call("Attention", [*parts, *m.more], dict(m.root.attributes), outputs=count)


def _bias(m: Match, name: str) -> Value | None:
    return m.get(f"b{name}") if m.get(f"sum_{name}") is not None else None


def _joined_biases(weights: list[Value], biases: list[Value | None]) -> Value | None:
    """The biases joined, with zeros for one that is missing; None where all are missing."""
    if all(b is None for b in biases):
        return None
    zeros = (const(np.zeros(w.shape[1:], np.float32)) for w in weights)
    whole = [z if b is None else b for b, z in zip(biases, zeros, strict=True)]
    return const(joined_blob([v.blob for v in whole if v.blob is not None], joined_name(biases)))


def _joined_weights(weights: list[Value]) -> Value:
    """The matrices side by side."""
    return const(beside([v.blob for v in weights if v.blob is not None], joined_name(weights)))


def _packed(m: Match, weights: Value, bias: Value | None, sizes: list[int]) -> Made:
    """The attention whose operands are the parts of x @ weights + bias."""
    heads = attribute_of(m.root, "q_num_heads")
    if not heads or heads != attribute_of(m.root, "kv_num_heads") or not isinstance(m.root.type, Tensor):
        return decline("keys have other heads than queries, or there are further results")
    if sizes[0] != sizes[1] or any(size % heads for size in sizes) or attribute_of(m.root, "softcap"):
        return decline("the heads of queries and keys differ, or the scores are capped")
    if m.root.attribute("scale") == 0:  # by which ONNX Runtime means the usual scale
        return decline("the scale is 0")
    if any(m.root.attribute(name, -1) != -1 for name in ("left_window_size", "right_window_size")):
        return decline("queries see a window of the keys only")
    if attribute_of(m.root, "qk_matmul_output_mode") or m.root.attribute("softmax_precision") not in (None, 1):
        return decline("the scores are asked for, or the softmax is computed in another element type")
    given: Given = {"num_heads": heads}
    if m.root.attribute("scale"):
        given["scale"] = m.root.attribute("scale")
    if attribute_of(m.root, "is_causal"):
        given["unidirectional"] = 1
    if len(set(sizes)) > 1:
        given["qkv_hidden_sizes"] = sizes
    masks = _masks(m.x, m.mask, heads)
    if masks is None:
        return decline("the mask is none that ONNX Runtime takes")
    if m.mask is not None and "unidirectional" in given and not is_soft(m.mask):
        return decline("a query all of whose keys are hidden would see later ones")
    if bias is None:  # without one, ONNX Runtime crashes
        bias = const(np.zeros(sum(sizes), np.float32))
    operands = [m.x, weights, bias, masks.index, None, masks.bias]
    made = call("com.microsoft::Attention", operands, {**given, **masks.given})
    return made if masks.seen is None else op.Where(masks.seen, made, 0.0)


def is_soft(mask: Value) -> bool:
    """True for a mask that adds to scores and hides no key."""
    return mask.dtype is not DType.BOOL and reach(mask).down == NOTHING


@attrs.frozen
class Masks:
    """The mask operands of an attention, their attributes, and, where some query may see no key at all, which queries
    see one: for the others ONNX's Attention gives zeros, ONNX Runtime's own operators NaN or a mean."""

    index: Value | None = None
    bias: Value | None = None
    seen: Value | None = None
    given: Given = attrs.field(factory=Given)


def _masks(source: Value, mask: Value | None, heads: int) -> Masks | None:
    """The mask of ONNX's Attention in the form that ONNX Runtime's operator takes; None where it takes no such mask."""
    if mask is None:
        return Masks()
    padding = _padding(source, mask)
    if padding is not None:
        return padding
    batch, length = source.shape[:2]
    if mask.dtype is not DType.FLOAT or not same_shape(mask.shape[-2:], (length, length)):
        return None
    lead = zip(mask.shape[:-2], (batch, heads)[4 - mask.rank :], strict=True)
    if not all((type(d) is int and d == 1) or dims.same(d, whole) is True for d, whole in lead):
        return None
    missing = list(range(4 - mask.rank))
    bias, seen = op.Unsqueeze(mask, np.array(missing)) if missing else mask, None
    if may_be_blind(mask):
        if dims.same(bias.shape[1], 1) is not True:
            return None
        seen = op.Greater(op.Squeeze(op.ReduceMax(bias, np.array([-1])), np.array([1])), -np.inf)
    return Masks(bias=bias, seen=seen)


def _padding(source: Value, mask: Value) -> Masks | None:
    """The mask as one integer for each key, if it hides whole keys; None for every other mask."""
    seen, low = mask, float(np.finfo(np.float32).min)
    if mask.op == "Where":
        seen, zero, penalty = (v for v in mask.inputs if v is not None)
        number = uniform(penalty)
        if uniform(zero) != 0 or not isinstance(number, float) or not -np.inf < number <= -1e4:
            return None
        low = number
    if seen.op == "Expand" and seen.inputs[0] is not None and is_for_keys(seen.inputs[0], seen):
        seen = seen.inputs[0]
    if seen.dtype is not DType.BOOL or seen.op != "Unsqueeze" or axes_of(seen.inputs[1]) != (1, 2):
        return None
    flat = seen.inputs[0]
    if flat is None or not same_shape(flat.shape, source.shape[:2]):
        return None
    index, some = op.Cast(flat, to=DType.INT32), None
    if mask.dtype is DType.BOOL:
        some = op.Cast(op.Unsqueeze(op.ReduceMax(index, np.array([1])), np.array([2])), to=DType.BOOL)
    return Masks(index=index, seen=some, given={"mask_filter_value": low})


def is_for_keys(mask: Value, expanded: Value) -> bool:
    """True where an Expand repeats a mask of (batch, 1, 1, keys) only over heads and queries."""
    ends = ((mask.shape[i], expanded.shape[i]) for i in (0, 3)) if mask.rank == expanded.rank == 4 else ()
    return mask.rank == expanded.rank == 4 and all(dims.same(a, b) is True for a, b in ends)


_made = either(
    p.Add(p.MatMul(hole("x", dtype="f32", rank=3), hole("w", rank=2)).once(), hole("b", rank=1)).named("sum").once(),
    p.MatMul(hole("x", dtype="f32", rank=3), hole("w", rank=2)).once(),
)
_split = p.Split(_made, constant("sizes", optional=True), axis=attr("axis"), num_outputs=attr("count")).named("parts")


def _split_projection(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    source = param(Tensor(DType.FLOAT, (batch, length, 6)))
    made = op.MatMul(source, param(tensor("f32", 6, 24)))
    made = op.Add(made, param(tensor("f32", 24))) if rng.random() < 0.7 else made
    q, k, v = (
        op.Split(made, np.array([8, 8, 8]), axis=-1) if rng.random() < 0.5 else op.Split(made, axis=2, num_outputs=3)
    )
    given: Given = {"q_num_heads": 2, "kv_num_heads": 2}
    return call("Attention", [q, k, v, *_mask_of(rng, batch, length, given)], given)


@rule(
    one_of("Attention")(_split[0], _split[1], _split[2], hole("mask", optional=True)),
    exact=False,
    sample=_split_projection,
)
def split_attention(m: Match) -> Made:
    """Attention(*Split(x @ w + b), mask) -> Attention of ONNX Runtime"""
    sizes = [part.shape[-1] for part in m.root.inputs[:3] if part is not None]
    bias = m.b if m.get("sum") is not None else None
    if m.axis not in (2, -1) or any(type(s) is not int for s in sizes) or (bias is not None and bias.shape[0] == 1):
        return decline("not split along the last axis, or into parts of unknown size")
    if dims.same(m.w.shape[1], sum(sizes)) is not True:
        return decline("there are further parts")
    return _packed(m, m.w, bias, sizes)


ENCODERS: tuple[Rule, ...] = (
    conv_activation, conv_sum, conv_sum_activation, gemm_activation, turned_product, scaled_product, bias_gelu,
    fast_gelu, quick_gelu, packed_attention, split_attention, joined_projections,
)  # fmt: skip
"""Encoders and vision models in ONNX Runtime's own operators."""

HELD: tuple[Rule, ...] = (held_weight,)
"""Weights as torch holds them, which need not be turned when they are written: for what is still a plain product at the
end, as all other rules look for such. It takes as long to run, and to load."""
