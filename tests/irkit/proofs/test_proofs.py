"""Proofs for all sizes: rules that move elements, integers, logic; wrong rules are never proved."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import irkit
from irkit import check_rule, equation, hole, op, p, prove, rule
from irkit.errors import RewriteError
from irkit.pattern import Pattern, attr, rest
from irkit.pattern import const as constant
from irkit.pattern.predicates import Is
from irkit.proofs.contractions import Unprovable
from irkit.proofs.elements import are_equal
from irkit.rewriting.face import Made, Match, Rule
from passes.pipelines.standard import all_rules
from passes.saturation import EQUATIONS

x, y, z = hole("x"), hole("y"), hole("z")


def param(*shape: Any, dtype: str = "f32") -> irkit.Value:
    return irkit.param(irkit.tensor(dtype, *shape))


ABOVE_1 = Is("is_above_1", lambda value: value.blob is not None and float(value.blob.array.min()) > 1, (2.0,))

TRUE = {
    "a view of a view": (p.Squeeze(p.Unsqueeze(x, constant("axes")), constant("axes")), p.Identity(x)),
    "a Transpose behind": (p.Relu(p.Transpose(x, perm=attr("perm"))), p.Transpose(p.Relu(x), perm=attr("perm"))),
    "a Concat of Concats": (
        p.Concat(p.Concat(x, y, axis=attr("axis")), z, axis=attr("axis")),
        p.Concat(x, y, z, axis=attr("axis")),
    ),
    "integers": (p.Mul(x, p.Add(y, z)), p.Add(p.Mul(x, y), p.Mul(x, z))),
    "squares": (p.Sub(p.Mul(x, x), p.Mul(y, y)), p.Mul(p.Add(x, y), p.Sub(x, y))),
    "de Morgan": (p.Not(p.And(x, y)), p.Or(p.Not(x), p.Not(y))),
    "exclusive or": (p.Xor(x, y), p.And(p.Or(x, y), p.Not(p.And(x, y)))),
    "bits": (p.BitwiseXor(p.BitwiseXor(x, y), y), p.Identity(x)),
    "a choice": (p.Where(p.Not(x), y, z), p.Where(x, z, y)),
    "a reshaped view": (p.Reshape(p.Reshape(x, hole("s")), hole("t")), p.Reshape(x, hole("t"))),
}
RANKS = {"a Concat of Concats": 3, "integers": 1, "squares": 2, "exclusive or": 2, "a choice": 1, "a reshaped view": 2}


@pytest.mark.parametrize("name", TRUE)
def test_what_is_true_of_all_sizes_is_proved(name: str) -> None:
    left, right = TRUE[name]
    found = prove(equation(left, right, name="true").forward, RANKS.get(name, 2))
    assert found, str(found)
    assert found.cases > 0 and "is proved for all sizes up to rank" in str(found)


@rule(p.Transpose(p.Transpose(x, perm=attr("a")), perm=attr("b")))
def joined_backwards(m: Match) -> Made:
    """Transposes joined in the wrong order"""
    first, second = (tuple(each or reversed(range(m.x.rank))) for each in (m.a, m.b))
    return op.Transpose(m.x, perm=tuple(second[i] for i in first))


@rule(p.Concat(p.Relu(x), p.Relu(y), axis=attr("axis")))
def first_relu_only(m: Match) -> Made:
    """A Relu forgotten"""
    return op.Concat(op.Relu(m.x), m.y, axis=m.axis)


@rule(p.Unsqueeze(p.Squeeze(x, constant("axes")), constant("axes")))
def other_axis(m: Match) -> Made:
    """An axis that comes back at another place: two sizes of 1 apart from each other"""
    return op.Transpose(m.x, perm=tuple(reversed(range(m.x.rank))))


WRONG = [
    equation(p.MatMul(x, y), p.MatMul(y, x), exact=False, name="factors_swapped").forward,
    equation(p.Gemm(x, y, alpha=2.0), p.MatMul(x, y), exact=False, name="a_scale_lost").forward,
    equation(p.Div(p.Div(x, y), z), p.Div(x, p.Div(y, z)), exact=False, name="quotient_of_quotient").forward,
    equation(p.MatMul(p.Mul(x, y), z), p.Mul(x, p.MatMul(y, z)), exact=False, name="elements_and_rows").forward,
    equation(p.Sub(x, p.Sub(y, z)), p.Sub(p.Sub(x, y), z), exact=False, name="a_sign_lost").forward,
    joined_backwards,
    first_relu_only,
    other_axis,
    equation(p.Sub(x, y), p.Sub(y, x), name="swapped").forward,
    equation(p.And(x, y), p.Or(x, y), name="or_for_and").forward,
    equation(p.Mul(x, p.Add(x, y)), p.Add(p.Mul(x, x), y), name="a_factor_lost").forward,
    equation(p.Not(p.Xor(x, y)), p.Xor(p.Not(x), p.Not(y)), name="not_twice").forward,
    equation(p.BitwiseNot(p.BitwiseAnd(x, y)), p.BitwiseOr(x, y), name="bits_kept").forward,
    equation(p.Where(x, y, z), p.Where(x, z, y), name="other_choice").forward,
    equation(p.Concat(x, y, axis=attr("axis")), p.Concat(y, x, axis=attr("axis")), name="other_order").forward,
    equation(p.Relu(x), p.Identity(x), name="relu_lost").forward,
    equation(p.Expand(x, hole("s")), p.Expand(p.Relu(x), hole("s")), name="relu_added").forward,
]


@pytest.mark.parametrize("each", WRONG, ids=lambda each: each.name)
def test_a_wrong_rule_is_not_proved(each: Rule) -> None:
    found = prove(each, 3)
    assert not found and found.reason


def test_integers_are_calculated_modulo_their_width() -> None:
    a = param("n", dtype="u8")
    left = op.Add(op.Mul(op.Mul(a, 16), 16), a)
    are_equal(left, a)  # 256 * a is 0
    with pytest.raises(Unprovable, match="differ by"):
        are_equal(op.Add(op.Mul(op.Mul(b := param("n", dtype="i16"), 16), 16), b), b)


def test_places_are_followed_through_parts_and_lookups() -> None:
    a, b = param("n", 4), param("m", 4)
    both = op.Concat(a, b, axis=0)
    are_equal(
        op.Transpose(op.Concat(op.Transpose(a, perm=(1, 0)), op.Transpose(b, perm=(1, 0)), axis=1), perm=(1, 0)), both
    )
    first, second = op.Split(param(6, "n"), [2, 4], axis=0)
    are_equal(op.Concat(op.Relu(first), op.Relu(second), axis=0), op.Relu(first.inputs[0].inputs[0]))  # type: ignore[union-attr, arg-type]
    rows = op.Slice(a, [1], [3], [1])
    are_equal(op.Gather(rows, 1, axis=1), op.Gather(a, 2, axis=1))
    with pytest.raises(Unprovable):
        are_equal(op.Gather(rows, 1, axis=1), op.Gather(a, 1, axis=1))
    with pytest.raises(Unprovable, match="neither moves"):
        are_equal(op.Softmax(a), a)


def equal_over_the_reals(dtype: str | None) -> list[list[Pattern]]:
    """Groups of terms that are equal over the reals, of which rounding, signs of 0 and NaN make some differ."""
    a, b, c = (hole(name, dtype=dtype) for name in "abc")
    return [
        [p.Sum(a, b, c), p.Sum(b, a, c), p.Sum(c, b, a), p.Add(p.Add(a, b), c), p.Add(a, p.Add(b, c))],
        [p.Max(a, b, c), p.Max(b, c, a), p.Max(p.Max(a, b), c), p.Max(a, p.Max(b, c))],
        [p.Max(a, b), p.Max(b, a), p.Max(p.Max(a, b), a)],
        [p.Min(a, b), p.Min(b, a), p.Neg(p.Max(p.Neg(a), p.Neg(b)))],
        [p.Mean(a, b, c), p.Mean(c, a, b)],
        [p.Mul(p.Mul(a, b), c), p.Mul(a, p.Mul(b, c)), p.Mul(c, p.Mul(b, a))],
        [p.Mul(a, b), p.Mul(b, a), p.Mul(p.Neg(a), p.Neg(b)), p.Neg(p.Mul(p.Neg(a), b))],
        [p.Sub(a, b), p.Neg(p.Sub(b, a)), p.Add(a, p.Neg(b)), p.Sub(p.Neg(b), p.Neg(a))],
        [p.Where(p.Equal(a, b), a, b), p.Identity(b), p.Where(p.Equal(b, a), b, b)],
        [p.Less(a, b), p.Not(p.GreaterOrEqual(a, b)), p.Not(p.LessOrEqual(b, a))],
    ]


def test_what_is_proved_holds_to_the_last_bit() -> None:
    proved = 0
    groups = zip(equal_over_the_reals(None), equal_over_the_reals("integer"), strict=True)
    for any_type, integers in groups:
        for i, j in permutations(range(len(any_type)), 2):
            both = equation(any_type[i], any_type[j])
            if both.impossible[0] or not (found := prove(both.forward, 1)):
                continue
            sides = integers if "of integers" in found.about else any_type
            check_rule(equation(sides[i], sides[j]).forward, 10)
            proved += 1
    assert proved > 30


# ---------------------------------------------------------------------------------------------- real numbers

rows, columns = hole("x", rank=2), hole("y", rank=2)
OVER_REALS = {
    "a difference": (p.Sub(x, p.Neg(y)), p.Add(x, y)),
    "quotients": (p.Div(p.Div(hole("x", dtype="float"), y), z), p.Div(x, p.Mul(y, z))),
    "a common divisor": (p.Add(p.Div(hole("x", dtype="float"), z), p.Div(y, z)), p.Div(p.Add(x, y), z)),
    "a reciprocal": (p.Mul(hole("x", dtype="float"), p.Reciprocal(y)), p.Div(x, y)),
    "rows and columns": (p.MatMul(p.MatMul(rows, columns), z), p.MatMul(rows, p.MatMul(columns, z))),
    "a sum of products": (
        p.Add(p.MatMul(x, hole("y", rank=2)), p.MatMul(x, hole("z", rank=2))),
        p.MatMul(x, p.Add(hole("y", rank=2), hole("z", rank=2))),
    ),
    "a Gemm": (p.Gemm(x, y, z), p.Add(p.MatMul(x, y), z)),
    "a Gemm turned": (
        p.Gemm(x, y, transA=1, transB=1, alpha=0.5),
        p.Mul(p.Transpose(p.MatMul(y, x), perm=(1, 0)), 0.5),
    ),
    "a stack": (p.MatMul(p.Neg(hole("x", rank=3)), hole("y", rank=3)), p.Neg(p.MatMul(x, y))),
}


@pytest.mark.parametrize("name", OVER_REALS)
def test_what_is_true_of_real_numbers_is_proved_of_them(name: str) -> None:
    left, right = OVER_REALS[name]
    found = prove(equation(left, right, exact=False, where=same_ranks, name="true").forward, 3)
    assert found and "real numbers" in found.about, str(found)


def same_ranks(m: Match) -> bool:
    """y and z have one shape, where both are there"""
    y, z = m.get("y"), m.get("z")
    return y is None or z is None or y.shape == z.shape or y.rank != 2 or z.rank != 2 or m.root.op != "Add"


def test_products_are_equal_where_numbers_say_so_and_nowhere_else() -> None:
    """All pairs of terms over square matrices of whole numbers, which floats hold."""
    a, b, c = (param("n", "n", dtype="f64") for _ in range(3))

    def turned(v: irkit.Value) -> irkit.Value:
        return op.Transpose(v, perm=(1, 0))

    less = op.Less(a, b)
    terms = [
        op.MatMul(a, b), op.MatMul(b, a), op.MatMul(op.MatMul(a, b), c), op.MatMul(a, op.MatMul(b, c)),
        op.MatMul(op.MatMul(a, c), b), op.MatMul(a, op.Add(b, c)), op.Add(op.MatMul(a, c), op.MatMul(a, b)),
        op.Add(op.MatMul(a, b), op.MatMul(c, a)), op.Neg(op.MatMul(op.Neg(a), b)), op.MatMul(op.Mul(a, b), c),
        op.Mul(op.MatMul(a, c), b), op.MatMul(op.Mul(a, a), b), op.MatMul(a, op.MatMul(a, b)),
        op.MatMul(op.MatMul(a, a), b), op.Mul(op.MatMul(a, b), op.MatMul(a, b)), op.Gemm(a, b, op.MatMul(a, c)),
        turned(op.MatMul(turned(b), turned(a))), op.Gemm(b, a, transA=1, transB=1), turned(op.MatMul(a, b)),
        op.MatMul(op.MatMul(op.MatMul(a, b), c), a), op.MatMul(op.MatMul(a, b), op.MatMul(c, a)),
        op.MatMul(op.MatMul(a, c), op.MatMul(b, a)), op.MatMul(op.Mul(op.MatMul(a, b), c), a),
        op.MatMul(op.Where(less, a, b), c), op.MatMul(op.Where(less, b, a), c), op.MatMul(op.Relu(op.MatMul(a, b)), c),
        op.Relu(op.MatMul(a, op.MatMul(b, c))), op.Relu(op.MatMul(op.MatMul(a, b), c)),
        op.Mul(op.MatMul(a, b), 2.0), op.MatMul(a, op.Add(b, b)), op.MatMul(op.Mul(a, 2.0), b),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, (3, 3)).astype(np.float64) for _ in range(3)]
    numbers = irkit.evaluate(irkit.Graph((a, b, c), tuple(terms)), arrays)
    found = 0
    for (one, left), (other, right) in permutations(zip(terms, numbers, strict=True), 2):
        try:
            are_equal(one, other, of_reals=True)
        except Unprovable:
            assert not np.array_equal(left, right), f"{one!r} {other!r}"
            continue
        assert np.array_equal(left, right), f"{one!r} {other!r}"
        found += 1
    assert found > 25


def test_terms_of_a_sum_may_lie_in_several_parts() -> None:
    """No decision about a place is one for all terms of a sum."""
    a, b = param("n", "k"), param("n", "m")
    v, w = param("k", 3), param("m", 3)
    both = op.MatMul(op.Concat(a, b, axis=1), op.Concat(v, w, axis=0))
    with pytest.raises(Unprovable, match="differ in where they lie"):
        are_equal(both, op.MatMul(a, v), of_reals=True)


def test_products_of_integers_are_proved_modulo_their_width_and_floats_only_as_real_numbers() -> None:
    grouped = equation(p.MatMul(p.MatMul(x, y), hole("z", rank=2)), p.MatMul(x, p.MatMul(y, hole("z", rank=2))))
    found = prove(grouped.forward, 2)
    assert not found or found.about == "of integers"
    assert not prove(equation(p.Add(p.Add(x, y), z), p.Add(x, p.Add(y, z)), dtype_of_floats).forward, 1)


def dtype_of_floats(m: Match) -> bool:
    """x is a float"""
    return m.x.dtype.is_float


@pytest.mark.parametrize(
    ("each", "why"),
    [
        (equation(p.Softmax(x), p.Softmax(p.Identity(x))).forward, "neither moves"),
        (
            equation(p.Mul(x, constant("c", rank=0)), p.Mul(p.Identity(x), constant("c"))).forward,
            "may hold any numbers",
        ),
        (equation(p.Concat(*rest("xs"), axis=0), p.Identity(p.Concat(*rest("xs"), axis=0))).forward, "any count"),
        (equation(p.Exp(p.Add(x, y)), p.Mul(p.Exp(x), p.Exp(y)), exact=False).forward, "the elements differ"),
        (equation(p.Div(x, p.Add(x, y)), p.Mul(x, p.Reciprocal(p.Add(x, y))), exact=False).forward, "divides by a sum"),
        (equation(p.Mul(x, constant("c", where=ABOVE_1)), p.Mul(constant("c"), x)).forward, "may hold any numbers"),
        (equation(p.Relu(hole("x", where=lambda v: v.rank == 2)), p.Relu(p.Relu(x))).forward, "by a predicate"),
        (equation(p.Relu(hole("x", rank=7)), p.Relu(p.Relu(x))).forward, "fires on none"),
    ],
)
def test_what_does_not_qualify_says_why(each: Rule, why: str) -> None:
    found = prove(each, 2)
    assert not found and why in found.reason and "is not proved" in str(found)


def test_only_rules_are_proved() -> None:
    with pytest.raises(RewriteError, match="is not a rule"):
        prove((p.Relu(x),))  # type: ignore[arg-type]


PROVED = {
    "same_expand", "squeeze_axes", "plain_reshape", "identity", "mul_one", "sub_zero", "add_negative_zero",
    "of_one_operand", "idempotent_binary", "involution", "excluded_middle", "transpose_nothing", "transpose_ones",
    "relu_of_transpose", "relu_of_transpose_backward", "tanh_of_concat_2", "neg_of_concat_3", "transpose_of_nothing",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PROVED))
def test_rules_of_the_project_that_move_elements_or_calculate_with_integers_are_proved(name: str) -> None:
    each = next(r for r in (*all_rules(2), *EQUATIONS) if r.name == name)
    assert prove(each, 3)


def test_an_equation_is_proved_in_its_directions() -> None:
    there, back = equation(p.Sub(x, y), p.Add(x, p.Neg(y))).prove(1)
    assert there and back and (there.rank, back.rank) == (1, 1) and there.about == "of integers"
    for rank in ("2", -1, 1.5, True):
        with pytest.raises(RewriteError, match="rank is"):
            prove(equation(p.Relu(x), p.Relu(p.Identity(x))).forward, rank)  # type: ignore[arg-type]


def test_the_report_of_a_check_has_the_proof() -> None:
    moved = equation(p.Relu(p.Transpose(x, perm=attr("perm"))), p.Transpose(p.Relu(x), perm=attr("perm")), name="moved")
    report = check_rule(moved.forward, 3, onnxruntime=False)
    assert report.proof and "proved for all sizes up to rank 2" in str(report)
    real = equation(p.Mul(p.Add(x, y), p.Add(x, y)), p.Mul(p.Add(y, x), p.Add(x, y)), exact=False, name="real")
    report = check_rule(real.forward, 3, onnxruntime=False)
    assert report.proof and report.proof.about == "of integers and real numbers"
    other = equation(p.Softmax(p.Identity(x)), p.Softmax(x), exact=False, name="other")
    report = check_rule(other.forward, 3, onnxruntime=False)
    assert report.proof is not None and not report.proof
    assert "compared by numbers alone, as there is no proof for all sizes: Softmax neither moves" in str(report)
    assert check_rule(moved.forward, 3, onnxruntime=False, proof=0).proof is None


def test_a_rule_with_a_number_is_asked_of_every_element_type() -> None:
    """Of texts, too, which hold none."""

    @rule(p.Add(x, 0.0))
    def without_zero(m: Match) -> Made:
        """x + 0 -> x"""
        return m.x

    assert str(prove(without_zero, 1)).startswith("without_zero is ")
