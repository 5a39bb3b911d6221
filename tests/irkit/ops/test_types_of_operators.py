"""Type rules against ONNX's node cases: as the cases are, and with symbols for their sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx.defs
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Optional, Tensor, Type, tensor
from irkit.errors import TypeRuleError
from irkit.nodes.type_rules import RULES
from irkit.ops.schemas import OPSET
from tests.support.node_cases import Case, built, cases, complaints, constant_of, unknowns

NO_RULE: Mapping[str, str] = {
    "Scatter": "deprecated since opset 11; ScatterElements took its place",
    "Upsample": "deprecated since opset 10; Resize took its place",
}
"""Operators of the default domain without a type rule, and why."""

DATA_DEPENDENT = frozenset(
    ["NonMaxSuppression", "NonZero", "ImageDecoder", "StringSplit", "StringNormalizer", "Unique", "Loop", "SequenceAt"]
)
"""Operators whose sizes follow from their data, so that a type may not know them even where all operands are static."""

RANK_FROM_SIZES = frozenset(
    ["GatherND", "ScatterND", "Squeeze", "SplitToSequence", "ConcatFromSequence", "SequenceMap"]
)
"""Operators whose rank follows from a size or a number, which therefore cannot be symbolic."""


def test_every_operator_has_a_rule_or_a_reason() -> None:
    names = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    known = {name for name in names if exists(name)}
    assert known - set(RULES) == set(NO_RULE)
    assert set(RULES) <= known


def exists(name: str) -> bool:
    """True where the IR's opset has the operator."""
    try:
        onnx.defs.get_schema(name, OPSET, "")
    except onnx.defs.SchemaError:
        return False
    return True


# ---------------------------------------------------------------------------------------------- node cases


def check(case: Case, results: tuple[Value | None, ...], sizes: Mapping[str, int] | None = None) -> list[str]:
    """What is wrong with the types of results."""
    pairs = zip(results, case.outputs, strict=True)
    return [f"{case.name}: {w}" for v, data in pairs for w in complaints(None if v is None else v.type, data, sizes)]


BY_HAND: Mapping[str, tuple[Callable[[], Any], Tensor | Optional]] = {
    "Optional": (lambda: op.Optional(x("f32", "n")), Optional(tensor("f32", "n"))),
    "RandomNormal": (lambda: op.RandomNormal(shape=[2, 3], dtype=11), tensor("f64", 2, 3)),
    "RandomUniform": (lambda: op.RandomUniform(shape=[2, 3]), tensor("f32", 2, 3)),
    "RandomNormalLike": (lambda: op.RandomNormalLike(x("f64", "n", 3)), tensor("f64", "n", 3)),
    "Multinomial": (lambda: op.Multinomial(x("f32", "n", 3), sample_size=7, dtype=7), tensor("i64", "n", 7)),
    "GlobalLpPool": (lambda: op.GlobalLpPool(x("f32", "n", "c", "h", 4)), tensor("f32", "n", "c", 1, 1)),
    "MaxRoiPool": (
        lambda: op.MaxRoiPool(x("f32", "n", "c", "h", "w"), x("f32", "r", 5), pooled_shape=[2, 3]),
        tensor("f32", "r", "c", 2, 3),
    ),
}
"""Operators without a node case: an application, and the type that it has."""


def x(dtype: str, *shape: Any) -> Value:
    """A parameter of that type."""
    return param(tensor(dtype, *shape))


@pytest.mark.parametrize("name", BY_HAND)
def test_types_of_operators_without_node_cases(name: str) -> None:
    make, expected = BY_HAND[name]
    assert make().type == expected


def test_the_cases_cover_the_operators() -> None:
    covered = {node.op_type for case in cases() for node in case.model.graph.node}
    assert len(cases()) > 1500
    assert set(RULES) - covered == set(BY_HAND)


def test_types_describe_the_results_of_node_cases() -> None:
    wrong = [w for case in cases() for w in check(case, built(case))]
    assert not wrong


def test_types_with_equal_sizes_under_one_symbol_are_exact() -> None:
    vague = set()
    for case in cases():
        if len(case.model.graph.node) == 1 and case.op not in DATA_DEPENDENT:
            symbols = Symbols(by_size)
            results = attempt(lambda case=case, symbols=symbols: built(case, symbols.make)) or ()
            if unknowns(v.type for v in results if v is not None):
                vague.add(case.op)
    assert vague <= {"Resize"}, "scales that are no dyadic fractions round"


def attempt(make: Callable[[], Any]) -> Any:
    """What `make` gives; None where a rule refuses."""
    try:
        return make()
    except TypeRuleError:
        return None


def test_types_of_static_node_cases_are_static() -> None:
    vague = {
        case.name
        for case in cases()
        if len(case.model.graph.node) == 1 and case.op not in DATA_DEPENDENT
        if unknowns(v.type for v in built(case) if v is not None)
    }
    assert not vague


class Symbols:
    """Inputs whose sizes are symbols, and what the symbols stand for."""

    def __init__(self, name_of: Callable[[str, int, int], str]) -> None:
        self.name_of = name_of
        self.sizes: dict[str, int] = {}

    def symbol(self, name: str, value: int) -> Any:
        """A symbol that stands for a number."""
        self.sizes[name] = value
        return dims.symbol(name)

    def make(self, name: str, type_: Type) -> Value:
        """A parameter with a symbol for each size but 1."""
        if not isinstance(type_, Tensor):
            return param(type_)
        shape = tuple(
            self.symbol(self.name_of(name, axis, size), size) if type(size) is int and size != 1 else size
            for axis, size in enumerate(type_.shape)
        )
        return param(Tensor(type_.dtype, shape))

    def fixed(self, name: str, data: np.ndarray) -> Value:
        """A vector or scalar of sizes, with a symbol for each number above 1."""
        if data.dtype != np.int64 or data.ndim > 1 or data.size == 0:
            return const(data)
        parts = [self.symbol(f"{name}_c{i}", int(n)) if n > 1 else int(n) for i, n in enumerate(data.ravel())]
        return dim_scalar(parts[0]) if data.ndim == 0 else shape_vector(parts)


def by_place(name: str, axis: int, size: int) -> str:
    """Each size its own symbol."""
    return f"{name}_{axis}"


def by_size(name: str, axis: int, size: int) -> str:
    """Equal sizes one symbol."""
    return f"s{size}"


def symbolic_run(case: Case, symbols: Symbols, *, contents: bool) -> list[str] | None:
    """What is wrong with a case under symbols; None where a rule refuses since a rank hangs on them."""
    try:
        results = built(case, symbols.make, symbols.fixed if contents else constant_of)
    except TypeRuleError as error:
        if re.search(r"rank|must be a vector of known length|last size of the indices", str(error)):
            return None
        return [f"{case.name}: {error}"]
    return check(case, results, symbols.sizes)


@pytest.mark.parametrize("contents", [False, True], ids=["sizes", "sizes_and_operands"])
@pytest.mark.parametrize("name_of", [by_place, by_size])
def test_types_with_symbols_hold_for_their_sizes(name_of: Any, contents: bool) -> None:
    wrong: list[str] = []
    refused: set[str] = set()
    for case in cases():
        found = symbolic_run(case, Symbols(name_of), contents=contents)
        if found is None:
            refused.add(case.op if "_expanded" not in case.name else "a function")
        else:
            wrong += found
    assert not wrong
    assert not refused - RANK_FROM_SIZES - {"a function"}, refused


# ---------------------------------------------------------------------------------------------- drawn sizes


class Drawn:
    """Sizes drawn as numbers, of which some are given to the rules as symbols."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.sizes: dict[str, int] = {}

    def number(self, low: int, high: int) -> int:
        """A number in that range, ends included."""
        return self.draw(st.integers(low, high))

    def dim(self, size: int) -> Any:
        """The size itself, a symbol for it, or a sum or product of a symbol and a number that is the size."""
        kind = self.draw(st.integers(0, 3))
        name = f"d{len(self.sizes)}"
        if kind == 0:
            return size
        if kind == 2 and size > 0:
            self.sizes[name] = size - 1
            return dims.add(dims.symbol(name), 1)
        if kind == 3 and size % 2 == 0:
            self.sizes[name] = size // 2
            return dims.mul(dims.symbol(name), 2)
        self.sizes[name] = size
        return dims.symbol(name)

    def shape(self, rank: int, low: int = 0, high: int = 4) -> tuple[int, ...]:
        """The numbers of a shape."""
        return tuple(self.number(low, high) for _ in range(rank))

    def given(self, shape: Sequence[int], dtype: str = "f32") -> Value:
        """A parameter of that shape, some sizes of which are symbols."""
        return param(tensor(dtype, *map(self.dim, shape)))

    def vector(self, numbers: Sequence[int]) -> Value:
        """Those numbers as an operand: some as symbols, where they are not negative."""
        return shape_vector([self.dim(n) if n >= 0 else n for n in numbers])

    def check(self, value: Value, shape: Sequence[int], *, exact: bool = True) -> None:
        """The type must be that shape under the symbols' sizes; unless `exact`, unknown sizes will do."""
        assert value.rank == len(shape), f"{value!r} for {tuple(shape)}"
        for d, n in zip(value.shape, shape, strict=True):
            free = any(map(dims.is_fresh, dims.symbols_of(d)))
            assert exact is False or not free, f"{value!r} for {tuple(shape)}: {d} is not exact"
            assert free or dims.evaluate(d, self.sizes) == n, f"{value!r} for {tuple(shape)} under {self.sizes}"


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """A source of sizes."""
    return Drawn(draw)


@given(drawn())
def test_broadcast_agrees_with_numpy(d: Drawn) -> None:
    whole = d.shape(3)
    parts = [tuple(1 if d.number(0, 2) == 0 else n for n in whole)[d.number(0, 3) :] for _ in range(2)]
    value = op.Add(d.given(parts[0]), d.given(parts[1]))
    d.check(value, np.broadcast_shapes(*parts), exact=False)
    expanded = op.Expand(d.given(parts[0]), d.vector(parts[1]))
    d.check(expanded, np.broadcast_shapes(*parts), exact=False)


@given(drawn())
def test_reshape_agrees_with_numpy(d: Drawn) -> None:
    sizes = d.shape(4, 1, 4)
    a, b, c, e = sizes
    names = [d.dim(n) for n in sizes]
    source = param(tensor("f32", *names))
    m, n, p, q = names
    both = dims.mul
    targets: list[tuple[list[Any], tuple[int, ...]]] = [
        ([both(m, n), -1], (a * b, c * e)),
        ([-1, q], (a * b * c, e)),
        ([0, -1, 0, 1], (a, b * e, c, 1)),
        ([0, 0, both(p, q)], (a, b, c * e)),
        ([-1], (a * b * c * e,)),
        ([q, p, n, m], (e, c, b, a)),
        ([p, both(n, q), -1], (c, b * e, a)),
        ([2, -1, q, n], (2, a * c // 2, e, b)),
    ]
    for target, expected in targets:
        if np.prod(expected) == np.prod(sizes):
            d.check(op.Reshape(source, shape_vector(target)), expected)


def test_reshape_with_nothing_to_copy() -> None:
    value = op.Reshape(x("f32", 0, "n"), const([0, 0]), allowzero=1)
    assert value.shape == (0, 0)
    assert op.Reshape(x("f32", "n", 0), const([0, 0, 5])).shape[1:] == (0, 5)


@given(drawn())
def test_slice_agrees_with_the_spec(d: Drawn) -> None:
    size = d.number(0, 7)
    step = d.number(1, 3) * (1 if d.number(0, 1) else -1)
    start, end = d.number(-9, 9), d.number(-9, 9)
    far = d.number(0, 5)
    start = {0: 2**63 - 1, 1: -(2**63)}.get(far, start)
    end = {2: 2**63 - 1, 3: -(2**63)}.get(far, end)
    value = op.Slice(d.given((size, 3)), [start], [end], [0], [step])
    d.check(value, (sliced(size, start, end, step), 3))
    symbolic = op.Slice(d.given((3, size)), d.vector([start]), d.vector([end]), [1], [step])
    d.check(symbolic, (3, sliced(size, start, end, step)))


def sliced(size: int, start: int, end: int, step: int) -> int:
    """How many elements a Slice takes, as its text says."""
    if size == 0:
        return 0
    start, end = (n + size if n < 0 else n for n in (start, end))
    if step > 0:
        start, end = np.clip(start, 0, size), np.clip(end, 0, size)
    else:
        start, end = np.clip(start, 0, size - 1), np.clip(end, -1, size - 1)
    return len(range(int(start), int(end), step))


@given(drawn())
def test_concat_and_split_agree_with_numpy(d: Drawn) -> None:
    shape, axis = d.shape(3), d.number(-3, 2)
    sizes = [d.number(0, 3) for _ in range(d.number(1, 3))]
    parts = [tuple(size if i == axis % 3 else n for i, n in enumerate(shape)) for size in sizes]
    whole = np.concatenate([np.zeros(p) for p in parts], axis=axis).shape
    d.check(op.Concat(*map(d.given, parts), axis=axis), whole)
    for value, part in zip(op.Split(d.given(whole), d.vector(sizes), axis=axis), parts, strict=True):
        d.check(value, part)


@given(drawn())
def test_equal_split_agrees_with_the_spec(d: Drawn) -> None:
    count, size = d.number(1, 4), d.number(0, 12)
    part = -(-size // count)
    assume(part * (count - 1) <= size)
    values = op.Split(d.given((size, 2)), num_outputs=count)
    for i, value in enumerate(values):
        d.check(value, (min(part, size - i * part), 2))


@given(drawn())
def test_tile_pad_gather_transpose_agree_with_numpy(d: Drawn) -> None:
    shape = d.shape(3)
    data = np.zeros(shape)
    repeats = d.shape(3, 0, 3)
    d.check(op.Tile(d.given(shape), d.vector(repeats)), np.tile(data, repeats).shape)
    before, after = d.shape(2, 0, 3), d.shape(2, 0, 3)
    padded = np.pad(data, ((before[0], after[0]), (0, 0), (before[1], after[1]))).shape
    d.check(op.Pad(d.given(shape), d.vector((*before, *after)), None, [0, 2]), padded)
    wide = d.shape(3, 3, 5)
    d.check(
        op.Gather(d.given(wide), d.given((2, 0), "i64"), axis=1), np.zeros(wide).take(np.zeros((2, 0), int), 1).shape
    )
    d.check(op.Transpose(d.given(shape), perm=[2, 0, 1]), data.transpose(2, 0, 1).shape)


@given(drawn())
def test_range_agrees_with_numpy(d: Drawn) -> None:
    start, limit, delta = d.number(-3, 9), d.number(0, 9), d.number(1, 3) * (1 if d.number(0, 1) else -1)
    low = dim_scalar(d.dim(start)) if start >= 0 else const(start)
    d.check(op.Range(low, dim_scalar(d.dim(limit)), const(delta)), np.arange(start, limit, delta).shape)


@given(drawn())
def test_matmul_agrees_with_numpy(d: Drawn) -> None:
    n, k, m, batch = d.shape(4, 0, 3)
    for a, b in [((k,), (k,)), ((n, k), (k,)), ((k,), (k, m)), ((batch, n, k), (k, m)), ((batch, n, k), (1, k, m))]:
        exact = len(b) < 3  # a symbol that is 1 broadcasts, and nobody knows
        d.check(op.MatMul(d.given(a), d.given(b)), np.matmul(np.zeros(a), np.zeros(b)).shape, exact=exact)


@given(drawn())
def test_convolutions_agree_with_torch(d: Drawn) -> None:
    group, kernel, stride, dilation, pad = (
        d.number(1, 2),
        d.number(1, 3),
        d.number(1, 3),
        d.number(1, 2),
        d.number(0, 2),
    )
    batch, c, m = d.number(1, 2), 2 * group, 2 * group
    extent = dilation * (kernel - 1) + 1
    size = max(1, extent - 2 * pad) + d.number(0, 6)
    same = {"strides": [stride], "dilations": [dilation], "pads": [pad, pad], "group": group}
    data, weight = torch.zeros(batch, c, size), torch.zeros(m, c // group, kernel)
    result = torch.conv1d(data, weight, None, stride, pad, dilation, group)
    d.check(op.Conv(d.given(data.shape), d.given(weight.shape), **same), result.shape)
    if (size - 1) * stride + extent - 2 * pad < 1:
        return
    weight = torch.zeros(c, m // group, kernel)
    extra = d.number(0, min(stride, dilation) - 1) if min(stride, dilation) > 1 else 0
    result = torch.conv_transpose1d(data, weight, None, stride, pad, extra, group, dilation)
    d.check(op.ConvTranspose(d.given(data.shape), d.given(weight.shape), output_padding=[extra], **same), result.shape)


@given(drawn())
def test_pools_agree_with_torch(d: Drawn) -> None:
    kernel, stride, ceil = d.number(1, 4), d.number(1, 4), d.number(0, 1)
    pad = d.number(0, kernel // 2)
    size = max(1, kernel - 2 * pad) + d.number(0, 7)
    expected = torch.max_pool1d(torch.zeros(2, 3, size), kernel, stride, pad, ceil_mode=bool(ceil)).shape
    shape = {"kernel_shape": [kernel], "strides": [stride], "pads": [pad, pad], "ceil_mode": ceil}
    for value in op.MaxPool(d.given((2, 3, size)), outputs=2, **shape):
        d.check(value, expected)
    d.check(op.AveragePool(d.given((2, 3, size)), **shape), expected)


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "bij,bjk", "...ij,...jk->...ik", "ii->i", "ij->", "i...->...", "a,b->ab"]
)
def test_einsum_agrees_with_numpy(equation: str) -> None:
    terms = equation.partition("->")[0].split(",")
    sizes = dict(zip("abijk", (2, 3, 4, 4, 5), strict=True)) | ({"j": 6} if "ii" not in equation else {})
    shapes = [tuple(sizes[c] for c in term.replace("...", "ab")) for term in terms]
    symbols = [[dims.symbol(c) for c in term.replace("...", "ab")] for term in terms]
    value = op.Einsum(*(param(Tensor(DType.FLOAT, tuple(s))) for s in symbols), equation=equation)
    expected = np.einsum(equation, *map(np.zeros, shapes)).shape
    assert tuple(dims.evaluate(d, sizes) for d in value.shape) == expected


# ---------------------------------------------------------------------------------------------- chains of sizes


def test_sizes_computed_by_operators_are_followed() -> None:
    v = x("f32", "batch", "seq", 64)
    shape = op.Shape(v)
    batch, seq = op.Gather(shape, 0), op.Gather(shape, [1])
    target = op.Concat(op.Unsqueeze(batch, [0]), op.Mul(seq, 2), const([-1]), axis=0)
    assert op.Reshape(v, target).type == tensor("f32", "batch", "2*seq", 32)
    flags = op.Equal(target, const([-1]))
    assert op.Expand(const(1.0), op.Where(flags, const([5]), target)).type == tensor("f32", "batch", "2*seq", 5)
    assert op.Range(0, op.Squeeze(seq, [0]), 1).type == tensor("i64", "seq")
    assert op.ConstantOfShape(op.Slice(shape, [1], [2**63 - 1])).type == tensor("f32", "seq", 64)
    half = op.Div(op.Cast(op.Size(v), to=7), 2)
    assert op.Reshape(v, op.Unsqueeze(half, [0])).shape  # a rank that is known, a size that is not provably right


def test_long_chains_are_given_up() -> None:
    value = op.Gather(op.Shape(x("f32", "n")), 0)
    for _ in range(1000):
        value = op.Add(value, 1)
    assert op.Range(0, value, 1).rank == 1


# ---------------------------------------------------------------------------------------------- refusals

CONFLICTS: Mapping[str, Callable[[], Any]] = {
    "Add": lambda: op.Add(x("f32", 3), x("f32", 5)),
    "Mul": lambda: op.Mul(x("f32", "n + 2"), x("f32", "n + 3")),
    "Where": lambda: op.Where(x("bool", 3), x("f32", 4), x("f32", 1)),
    "MatMul": lambda: op.MatMul(x("f32", 2, 3), x("f32", 4, 5)),
    "Gemm": lambda: op.Gemm(x("f32", 2, 3), x("f32", 5, 3)),
    "Concat": lambda: op.Concat(x("f32", 2, 3), x("f32", 2, 4), axis=0),
    "Reshape": lambda: op.Reshape(x("f32", 2, 3), [4, 2]),
    "Expand": lambda: op.Expand(x("f32", 3), [2]),
    "Squeeze": lambda: op.Squeeze(x("f32", 3), [0]),
    "Transpose": lambda: op.Transpose(x("f32", 3, 4), perm=[0, 0]),
    "Split": lambda: op.Split(x("f32", 5), [2, 2]),
    "Tile": lambda: op.Tile(x("f32", 5), [2, 2]),
    "Pad": lambda: op.Pad(x("f32", 5), [1, 1, 1, 1]),
    "Slice": lambda: op.Slice(x("f32", 5), [0], [1], [1]),
    "Gather": lambda: op.Gather(x("f32", 5), 5),
    "TopK": lambda: op.TopK(x("f32", 5), [6]),
    "ReduceSum": lambda: op.ReduceSum(x("f32", 5), [1]),
    "Softmax": lambda: op.Softmax(x("f32", 5), axis=1),
    "Conv": lambda: op.Conv(x("f32", 1, 3, 8), x("f32", 4, 2, 3)),
    "MaxPool": lambda: op.MaxPool(x("f32", 1, 3, 2), kernel_shape=[3]),
    "ConvTranspose": lambda: op.ConvTranspose(x("f32", 1, 3, 8), x("f32", 4, 2, 3)),
    "BatchNormalization": lambda: op.BatchNormalization(x("f32", 1, 3), *(x("f32", 4) for _ in range(4))),
    "LayerNormalization": lambda: op.LayerNormalization(x("f32", 1, 3), x("f32", 4)),
    "Attention": lambda: op.Attention(*(x("f32", 1, 2, 3, n) for n in (4, 5, 5))),
    "LSTM": lambda: op.LSTM(x("f32", 3, 2, 4), x("f32", 1, 20, 4), x("f32", 1, 20, 6)),
    "SequenceInsert": lambda: op.SequenceInsert(op.SequenceConstruct(x("f32", 3)), x("f32", 3, 3)),
    "SequenceAt": lambda: op.SequenceAt(x("f32", 3), 0),
    "Cast": lambda: op.Cast(x("f32", 3), to=77),
    "BitCast": lambda: op.BitCast(x("f32", 3), to=10),
    "Einsum": lambda: op.Einsum(x("f32", 3, 4), equation="ijk->i"),
    "Range": lambda: op.Range(0, 5, 0),
    "DepthToSpace": lambda: op.DepthToSpace(x("f32", 1, 6, 2, 2), blocksize=2),
    "Resize": lambda: op.Resize(x("f32", 1, 2)),
    "GridSample": lambda: op.GridSample(x("f32", 1, 2, 3, 3), x("f32", 1, 4, 4, 3)),
    "ScatterElements": lambda: op.ScatterElements(x("f32", 3), x("i64", 2), x("f32", 4)),
    "QuantizeLinear": lambda: op.QuantizeLinear(x("f32", 2, 3), x("f32", 4)),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_certain_conflicts_are_refused_by_name(name: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        CONFLICTS[name]()
    assert str(caught.value).startswith(f"{name}: ")
    assert name in caught.value.ir or not caught.value.ir


@pytest.mark.parametrize(
    "make",
    [
        lambda: op.Add(x("f32", "n"), x("f32", "m")),
        lambda: op.Add(x("f32", "n"), x("f32", 5)),
        lambda: op.MatMul(x("f32", "n", "k"), x("f32", 7, 3)),
        lambda: op.Concat(x("f32", "n", 3), x("f32", 2, "m"), axis=0),
        lambda: op.Reshape(x("f32", "n", 3), [4, 6]),
        lambda: op.Squeeze(x("f32", "n"), [0]),
        lambda: op.Conv(x("f32", 1, "c", "h"), x("f32", 4, 2, 3)),
        lambda: op.Split(x("f32", "n"), [2, 2]),
    ],
)
def test_what_cannot_be_told_is_accepted(make: Callable[[], Any]) -> None:
    make()


def test_sizes_that_must_be_equal_take_the_better_known() -> None:
    assert op.Concat(x("f32", "n", "k"), x("f32", 2, 3), axis=0).type == tensor("f32", "n + 2", 3)
    assert op.Add(x("f32", "n"), x("f32", 5)).shape == (5,)
    assert op.Add(x("f32", "n + 2"), x("f32", "m")).type == tensor("f32", "n + 2")
    assert dims.is_fresh(op.Add(x("f32", "n"), x("f32", "m")).shape[0])


def test_slice_refuses_steps_for_other_axes() -> None:
    x = param(tensor("f32", 2, 9))
    with pytest.raises(TypeRuleError, match="0 starts and 1 steps"):
        op.Slice(x, [], [], [], [1])
