"""What ONNX Runtime's kernels refuse only when they run: an operator is put in only where none of that can happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from irkit import dims
from irkit.core.ir import Value


def limit(value: Value) -> str:
    """Why the kernel on the CPU may refuse a value when it runs; empty where it surely takes it."""
    check = LIMITS.get(value.op)
    return "" if check is None else check(value)


def of_group_query_attention(value: Value) -> str:
    """A batch of several rows with several queries behind earlier keys; rotated heads of odd sizes."""
    query, past = value.inputs[0], value.inputs[3]
    if query is None or query.rank != 3:
        return "the query has no three axes"
    batch, length, width = query.shape
    earlier = past is not None and dims.same(past.shape[2], 0) is not True
    if earlier and dims.same(batch, 1) is not True and dims.same(length, 1) is not True:
        return "its kernel takes several queries behind earlier keys for a batch of 1 only"
    heads = value.attribute("num_heads")
    if value.inputs[1] is None:
        heads += 2 * value.attribute("kv_num_heads")
    size = dims.floordiv(width, heads)
    if value.attribute("do_rotary") and (type(size) is not int or size % 16):
        return "its kernel rotates only heads whose size 16 divides"
    return "" if type(size) is not int or size % 8 == 0 else "its kernel takes only heads whose size 8 divides"


def of_attention(value: Value) -> str:
    """Projections without a bias."""
    return "its kernel breaks down without a bias" if len(value.inputs) < 3 or value.inputs[2] is None else ""


def of_fused_mat_mul(value: Value) -> str:
    """Batches of which one is repeated for the other, where something may be empty."""
    a, b = value.inputs[:2]
    if a is None or b is None or (b.rank == 2 and not value.attribute("transA")):
        return ""
    rank = max(a.rank, b.rank)
    wide = [(1,) * (rank - v.rank) + v.shape for v in (a, b)]
    if all(dims.same(one, other) is True for one, other in zip(wide[0][:-2], wide[1][:-2], strict=True)):
        return ""
    some = all(dims.same(size, 0) is False for shape in wide for size in shape)
    return "" if some else "its kernel repeats no batch where a size is 0"


def of_causal_conv_with_state(value: Value) -> str:
    """Windows of states, and convolutions along more than one axis."""
    if value.attribute("state_window") or value.attribute("ndim", 1) != 1:
        return "its kernel takes convolutions along one axis, with one state"
    return ""


def of_linear_attention(value: Value) -> str:
    """Windows of states."""
    return "its kernel takes one state" if value.attribute("state_window") else ""


def of_moe(value: Value) -> str:
    """Gates in matrices of their own, and in a half of the first matrix."""
    third = 6 if value.op == "com.microsoft::MoE" else 8
    if len(value.inputs) > third and value.inputs[third] is not None:
        return "its kernel takes no third matrix"
    if value.attribute("activation_type") == "swiglu" and value.attribute("swiglu_fusion") != 1:
        return "its kernel takes gates only between what they gate, row by row"
    return ""


PAST: Mapping[str, int] = MappingProxyType(
    {
        "com.microsoft::Attention": 4,
        "com.microsoft::GroupQueryAttention": 3,
        "com.microsoft::MultiHeadAttention": 6,
    }
)
"""Which operand holds earlier keys, of operators whose kernels compute in the memory of their further results."""


def needs_all_results(value: Value) -> bool:
    """True for an operator of which a file names results that nobody uses: without them its kernel computes with memory
    that nobody wrote, or refuses."""
    index = PAST.get(value.op)
    return index is not None and len(value.inputs) > index and value.inputs[index] is not None


LIMITS: Mapping[str, Callable[[Value], str]] = MappingProxyType(
    {
        "com.microsoft::Attention": of_attention,
        "com.microsoft::CausalConvWithState": of_causal_conv_with_state,
        "com.microsoft::FusedMatMul": of_fused_mat_mul,
        "com.microsoft::GroupQueryAttention": of_group_query_attention,
        "com.microsoft::LinearAttention": of_linear_attention,
        "com.microsoft::MoE": of_moe,
        "com.microsoft::QMoE": of_moe,
    }
)
"""What to ask of each operator."""
