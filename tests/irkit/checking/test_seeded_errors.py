"""Rules with a deliberate error, one for each kind of slip, and the right rule beside it: `check` tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from irkit import dims
from irkit.build import call, op, shape_vector
from irkit.build import const as number
from irkit.checking.rules import check_rule
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, same_types
from irkit.dims import Dim
from irkit.errors import RewriteError
from irkit.pattern import attr, const, hole, is_all_ones, is_all_zeros, one_of, p, rest, uniform
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Match, Rule, decline

x, y = hole("x"), hole("y")
N = 40
"""On how many instances a rule shall fire."""

Function = Callable[[Match], Any]


def same(a: Value, b: Value) -> bool:
    return same_types(a.type, b.type) is True


def unless(condition: bool, build: Callable[[], Any]) -> Any:
    return decline("the condition") if condition else build()


def axes_of(value: Value) -> tuple[int, ...]:
    return () if value.blob is None else tuple(int(a) for a in value.blob.array.ravel())


def symbol_value(*shape: Any) -> Value:
    return param(Tensor(DType.FLOAT, tuple(dims.symbol(d) if isinstance(d, str) else d for d in shape)))


# --------------------------------------------------------------------------------------------- what several cases share


def permuted(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(first[i] for i in second)


def perms(m: Match) -> tuple[tuple[int, ...], tuple[int, ...]]:
    turned = tuple(reversed(range(m.x.rank)))
    return m.inner or turned, m.outer or turned


def like(value: Value, data: Any) -> Value:
    return number(np.asarray(data).astype(value.dtype.numpy))


def halves(rng: np.random.Generator) -> Value:
    a = symbol_value("n", 6)
    start, stop, cut = 1, 5, int(rng.integers(1, 4))
    inner = op.Slice(a, np.array([start]), np.array([stop]), np.array([1]))
    return op.Slice(inner, np.array([0]), np.array([cut]), np.array([1]))


_bounds = (const("start"), const("stop"), const("axis"))


def cut_twice(m: Match, shift: int) -> Any:
    """x[:, a:b][:, c:d] as one slice, its end moved by `shift`."""
    (a,), (b,), (c,), (d,) = (axes_of(m[n])[:1] or (0,) for n in ("inner_start", "inner_stop", "start", "stop"))
    if axes_of(m.axis) != (1,) or axes_of(m.inner_axis) != (1,) or m.x.shape[1:] != (6,):
        return decline("another axis")
    if not (0 <= a <= b <= 6 and 0 <= c <= d <= b - a):
        return decline("out of bounds")
    return op.Slice(m.x, np.array([a + c]), np.array([a + d + shift]), np.array([1]))


def masked(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    q, k, v = (param(Tensor(DType.FLOAT, (batch, 2, length, 4))) for _ in range(3))
    scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=(0, 1, 3, 2))), float(rng.choice([0.5, 0.3])))
    if rng.random() < 0.6:
        scores = op.Add(scores, param(Tensor(DType.FLOAT, (batch, 1, length, length))))
    return op.MatMul(op.Softmax(scores, axis=-1), v)


_raw = p.MatMul(hole("q"), p.Transpose(hole("k"), perm=(0, 1, 3, 2)))
_scaled = p.Mul(_raw, const("scale"))


def attention(m: Match, scaled: bool = True, with_mask: bool = True) -> Any:
    if any(v.rank != 4 or v.dtype is not DType.FLOAT for v in (m.q, m.k, m.v)) or m.axis % 4 != 3:
        return decline("another form")
    batch, heads = m.q.shape[:2]
    if any(v.shape[:2] != (batch, heads) for v in (m.k, m.v)) or type(heads) is not int:
        return decline("heads broadcast")
    scale, mask = uniform(m.scale), m.get("mask")
    if scale is None or not scale or (mask is not None and not covers(mask, m)):
        return decline("the scale or the mask")
    return op.Attention(m.q, m.k, m.v, mask if with_mask else None, scale=float(scale) if scaled else None)


def covers(mask: Value, m: Match) -> bool:
    wanted = (m.q.shape[0], 1, m.q.shape[2], m.k.shape[2])
    return (
        mask.dtype is m.q.dtype
        and mask.rank == 4
        and all(dims.same(a, b) is True for a, b in zip(mask.shape, wanted, strict=True))
    )


def _is_near_two(slack: float) -> Any:
    def holds(value: Value) -> bool:
        found = uniform(value)
        return found is not None and not isinstance(found, complex) and abs(found - 2.0) <= slack

    return const("c", where=Is("is about 2", holds, (2.0,)))


_epsilon = const("epsilon", where=Is("is small", lambda v: 0 < (uniform(v) or 0) < 1, (0.1, 0.01)))
_mean_of_squares = p.ReduceMean(p.Mul(x, x), const("axes"), keepdims=1)


def rms(m: Match, epsilon: float | None = None) -> Any:
    size = m.x.shape[-1] if m.x.rank else None
    last = m.x.rank and tuple(a % m.x.rank for a in axes_of(m.axes)) == (m.x.rank - 1,)
    if not last or type(size) is not int or not size or m.x.dtype is not DType.FLOAT or not same(m.x, m.root):
        return decline("not the last axis")
    ones = number(np.ones(size, np.float32))
    return op.RMSNormalization(m.x, ones, axis=-1, epsilon=uniform(m.epsilon) if epsilon is None else epsilon)


def one_axis(m: Match, axes: Value) -> int | None:
    found = axes_of(axes)
    return found[0] % m.x.rank if len(found) == 1 and m.x.rank else None


def reductions(rng: np.random.Generator) -> Value:
    a = symbol_value("n", 3, 4)
    axis = int(rng.choice([-1, -2, 1, 2]))
    return op.Squeeze(op.ReduceSum(a, np.array([axis]), keepdims=1), np.array([axis % 3]))


def first_row(m: Match, certain: bool) -> Any:
    """x[0:1] as the row that is looked up."""
    if [axes_of(v) for v in (m.start, m.stop, m.axis)] != [(0,), (1,), (0,)] or not m.x.rank:
        return decline("not the first row")
    size = m.x.shape[0]
    return unless(certain and not (type(size) is int and size > 0), lambda: op.Gather(m.x, np.array([0]), axis=0))


_clip = (const("low"), const("high"))
_inner_clip = (const("a"), const("b"))


def clips(rng: np.random.Generator) -> Value:
    a, b, c, d = (np.float32(v) for v in rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0], 4))
    return op.Clip(op.Clip(symbol_value("n", 3), min(a, b), max(a, b)), min(c, d), max(c, d))


def clipped(m: Match, sound: bool) -> Any:
    a, b, low, high = (uniform(v) for v in (m.a, m.b, m.low, m.high))
    if None in (a, b, low, high) or (sound and (b < low or a > high or a > b or low > high)):
        return decline("the bounds do not meet")
    return op.Clip(m.x, like(m.x, max(a, low)), like(m.x, min(b, high)))


def rows(rng: np.random.Generator) -> Value:
    n, k = dims.symbol("n"), dims.symbol("k")
    other: Dim = n if rng.random() < 0.5 else k
    a, b = param(Tensor(DType.FLOAT, (n, 3))), param(Tensor(DType.FLOAT, (other, 3)))
    flat = [op.Reshape(v, shape_vector((dims.mul(v.shape[0], 3),))) for v in (a, b)]
    return op.Concat(*flat, axis=0)


def interleaved(m: Match, certain: bool) -> Any:
    """Concat(flat x, flat y) as flat Concat(x, y): for rows of one width."""
    if m.x.rank != 2 or m.y.rank != 2 or dims.same(m.x.shape[1], m.y.shape[1]) is not True:
        return decline("no matrices of one width")
    answer = dims.same(m.x.shape[0], m.y.shape[0])
    if answer is False or (certain and answer is None):
        return decline("other sizes")
    # Both lie one after the other, so they may be stacked first; that needs equal numbers of rows.
    stacked = op.Concat(op.Unsqueeze(m.x, [0]), op.Unsqueeze(m.y, [0]), axis=0)
    return op.Reshape(stacked, np.array([-1]))


# ------------------------------- the cases: a pattern, the right function, the wrong one, and whether the rule is exact

CASES: dict[str, tuple[Rule, Rule]] = {}


def case(
    name: str,
    pattern: Any,
    right: Function,
    wrong: Function,
    *,
    exact: bool = True,
    sample: Any = None,
    wrong_pattern: Any = None,
    wrong_exact: bool | None = None,
) -> None:
    CASES[name] = (
        Rule(name, pattern, right, exact, "", sample),
        Rule(name, wrong_pattern or pattern, wrong, exact if wrong_exact is None else wrong_exact, "", sample),
    )


case(
    "wrong axis",
    p.Squeeze(p.ReduceSum(x, const("axes"), keepdims=1), const("moved")),
    lambda m: unless(
        one_axis(m, m.axes) is None or one_axis(m, m.axes) != one_axis(m, m.moved),
        lambda: op.ReduceSum(m.x, m.axes, keepdims=0),
    ),
    lambda m: unless(
        one_axis(m, m.axes) is None or one_axis(m, m.moved) is None, lambda: op.ReduceSum(m.x, m.axes, keepdims=0)
    ),
    sample=reductions,
)
case(
    "lost broadcast",
    p.Mul(x, const("one", where=is_all_ones)),
    lambda m: unless(not same(m.x, m.root), lambda: m.x),
    lambda m: m.x,
)
case(
    "missing dtype condition",
    p.Div(x, const("one", where=is_all_ones)),
    lambda m: unless(not m.x.dtype.is_float or not same(m.x, m.root), lambda: op.Reciprocal(op.Reciprocal(m.x))),
    lambda m: unless(not same(m.x, m.root), lambda: op.Reciprocal(op.Reciprocal(m.x))),
    exact=False,
)
case("swapped operands", p.Sub(x, p.Neg(y)), lambda m: op.Add(m.x, m.y), lambda m: op.Sub(m.y, m.x))
case(
    "constant tolerance too wide",
    p.Pow(hole("x", dtype="float"), _is_near_two(1e-6)),
    lambda m: unless(not same(m.x, m.root), lambda: op.Mul(m.x, m.x)),
    lambda m: unless(not same(m.x, m.root), lambda: op.Mul(m.x, m.x)),
    exact=False,
    wrong_pattern=p.Pow(hole("x", dtype="float"), _is_near_two(0.5)),
)
case(
    "integers overflow",
    p.Div(p.Mul(x, const("a")), const("b")),
    lambda m: unless(
        not m.x.dtype.is_float
        or uniform(m.a) is None
        or uniform(m.a) != uniform(m.b)
        or not uniform(m.a)
        or not same(m.x, m.root),
        lambda: m.x,
    ),
    lambda m: unless(
        uniform(m.a) is None or uniform(m.a) != uniform(m.b) or not uniform(m.a) or not same(m.x, m.root), lambda: m.x
    ),
    exact=False,
    sample=lambda rng: (lambda a, c: op.Div(op.Mul(a, c), c))(
        param(Tensor(DType.FLOAT if rng.random() < 0.6 else DType.INT8, (3, dims.symbol("n")))), 100
    ),
)
case(
    "sign of zero",
    p.Add(x, const("zero", where=is_all_zeros)),
    lambda m: unless(
        not same(m.x, m.root) or (m.x.dtype.is_float and not np.signbit(np.float64(uniform(m.zero)))), lambda: m.x
    ),
    lambda m: unless(not same(m.x, m.root), lambda: m.x),
)
case(
    "NaN dropped",
    p.Not(p.Greater(x, y)),
    lambda m: unless(m.x.dtype.is_float, lambda: op.LessOrEqual(m.x, m.y)),
    lambda m: op.LessOrEqual(m.x, m.y),
)
case(
    "permutations composed the wrong way round",
    p.Transpose(p.Transpose(x, perm=attr("inner")), perm=attr("outer")),
    lambda m: op.Transpose(m.x, perm=permuted(*perms(m))),
    lambda m: op.Transpose(m.x, perm=permuted(*reversed(perms(m)))),
)
case(
    "keepdims lost",
    one_of("ReduceSum")(p.Neg(hole("x", dtype="float")), const("axes")).named("sum"),
    lambda m: op.Neg(call("ReduceSum", [m.x, m.axes], dict(m.root.attributes))),
    lambda m: op.Neg(op.ReduceSum(m.x, m.axes)),
    exact=False,
)
case(
    "negative axis",
    p.Relu(p.Concat(x, y, axis=attr("axis"))),
    lambda m: unless(m.axis % m.x.rank != 1, lambda: op.Concat(op.Relu(m.x), op.Relu(m.y), axis=1)),
    lambda m: unless(m.axis not in (1, -1), lambda: op.Concat(op.Relu(m.x), op.Relu(m.y), axis=1)),
)
case(
    "symbols taken for equal",
    p.Concat(p.Reshape(x, hole("s")), p.Reshape(y, hole("t")), axis=0),
    lambda m: interleaved(m, True),
    lambda m: interleaved(m, False),
    sample=rows,
)
case("epsilon ignored", p.Div(x, p.Sqrt(p.Add(_mean_of_squares, _epsilon))), rms, lambda m: rms(m, 1e-5), exact=False)
case(
    "mask dropped",
    p.MatMul(p.Softmax(p.Add(_scaled, hole("mask")), axis=attr("axis")), hole("v")),
    attention,
    lambda m: attention(m, with_mask=False),
    exact=False,
    sample=masked,
)
case(
    "scale dropped",
    p.MatMul(p.Softmax(_scaled, axis=attr("axis")), hole("v")),
    attention,
    lambda m: attention(m, scaled=False),
    exact=False,
    sample=masked,
)
case(
    "empty tensors forgotten",
    p.Slice(x, *_bounds),
    lambda m: first_row(m, True),
    lambda m: first_row(m, False),
    sample=lambda rng: op.Slice(symbol_value("n" if rng.random() < 0.5 else 2, 3), [0], [1], [0]),
)
case(
    "an operator taken for commutative",
    one_of("Sub", "Div")(const("c"), hole("x", dtype="float")),
    lambda m: call(m.root.op, [m.c, op.Identity(m.x)], {}),
    lambda m: call(m.root.op, [op.Identity(m.x), m.c], {}),
    exact=False,
)
case(
    "said to be exact, and is not",
    p.Div(p.Div(hole("x", dtype="float"), y), hole("z")),
    lambda m: op.Div(m.x, op.Mul(m.y, m.z)),
    lambda m: op.Div(m.x, op.Mul(m.y, m.z)),
    exact=False,
    wrong_exact=True,
)
case(
    "a slice that ends one too late",
    p.Slice(p.Slice(x, *(const(f"inner_{b.name}") for b in _bounds)), *_bounds),
    lambda m: cut_twice(m, 0),
    lambda m: cut_twice(m, 1),
    sample=halves,
)
case(
    "attribute taken for its default",
    p.Gemm(x, y, transB=attr("transB"), alpha=attr("alpha")),
    lambda m: unless(m.transB != 0 or m.alpha != 1.0 or not m.x.dtype.is_float, lambda: op.MatMul(m.x, m.y)),
    lambda m: unless(m.transB != 0 or not m.x.dtype.is_float, lambda: op.MatMul(m.x, m.y)),
    exact=False,
)
case(
    "optional operand ignored",
    p.Gemm(hole("x", dtype="float"), y, hole("c", optional=True)),
    lambda m: unless(m.c is not None, lambda: op.MatMul(m.x, m.y)),
    lambda m: op.MatMul(m.x, m.y),
    exact=False,
)
case(
    "another element type",
    p.Cast(p.Cast(x, to=attr("first")), to=attr("second")),
    lambda m: unless(
        m.x.dtype is not m.root.dtype or m.x.dtype is not DType.FLOAT16 or DType(m.first) is not DType.FLOAT,
        lambda: m.x,
    ),
    lambda m: unless(m.x.dtype is not m.root.dtype, lambda: m.x),
)
case(
    "bounds that do not meet",
    p.Clip(p.Clip(x, *_inner_clip), *_clip),
    lambda m: clipped(m, True),
    lambda m: clipped(m, False),
    sample=clips,
)
case(
    "parts left out",
    p.Concat(*rest("parts"), axis=attr("axis")),
    lambda m: unless(len(m.parts) != 1, lambda: m.parts[0]),
    lambda m: unless(len(m.parts) > 2, lambda: m.parts[-1]),
)
case(
    "zero times something",
    p.Mul(x, const("zero", where=is_all_zeros)),
    lambda m: unless(m.x.dtype.is_float or not same(m.x, m.root), lambda: op.Sub(m.x, m.x)),
    lambda m: unless(not same(m.x, m.root), lambda: op.Sub(m.x, m.x)),
)


@pytest.mark.parametrize("name", CASES)
def test_check_finds_the_error_and_passes_the_right_rule(name: str) -> None:
    right, wrong = CASES[name]
    assert check_rule(right, N // 2).fired >= 3
    with pytest.raises(RewriteError, match=r"differ|turns a|refused|fails with") as error:
        check_rule(wrong, N)
    assert wrong.name in str(error.value)


def test_there_are_more_than_twenty() -> None:
    assert len(CASES) > 20
