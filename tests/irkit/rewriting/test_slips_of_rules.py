"""Patterns that nothing matches, and rules that change a type, are refused; `explain` shows what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irkit
from irkit import op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.errors import RewriteError, TypeRuleError
from irkit.pattern import attr, const, either, hole, one_of, own, p, rest, through
from irkit.rewriting.face import explain, rewrite, rule

X, Y = hole("x"), hole("y")

IMPOSSIBLE: dict[str, tuple[Callable[[], Any], str, str]] = {
    "too many operands": (lambda: p.Relu(X, Y), "p.Relu: Relu takes 1 operand, and the pattern has 2", "*rest('xs')"),
    "too few operands": (lambda: p.Add(X), "p.Add: Add takes 2 operands, and the pattern has 1", ""),
    "no operands": (lambda: p.Concat(axis=0), "p.Concat: Concat takes 1 or more operands, and the pattern has 0", ""),
    "too many beside a rest": (
        lambda: p.Neg(X, Y, *rest("xs")), "p.Neg: Neg takes 1 operand, and the pattern has 2", "",
    ),
    "a needed operand left out": (lambda: p.Gemm(None, X), "p.Gemm: operand 0 (A) cannot be left out", ""),
    "two rests": (
        lambda: p.Concat(*rest("a"), *rest("b"), axis=0), "p.Concat: only one operand can be a `rest`", "",
    ),
    "an unknown attribute": (
        lambda: p.Relu(X, alpha=1.0), "p.Relu: there is no attribute 'alpha'", "Relu has no attributes",
    ),
    "an unknown attribute of a loop": (
        lambda: p.Loop(*rest("x"), bdy=X), "p.Loop: there is no attribute 'bdy'", "body",
    ),
    "an attribute of another type": (
        lambda: p.Gemm(X, Y, transB="a"), "p.Gemm: attribute transB is of kind INT and cannot be 'a'", "attr('transB')",
    ),
    "a fraction for an int": (
        lambda: p.Softmax(X, axis=0.5), "p.Softmax: attribute axis is of kind INT and cannot be 0.5", "",
    ),
    "a number for a list": (
        lambda: p.Transpose(X, perm=1), "p.Transpose: attribute perm is of kind INTS and cannot be 1", "",
    ),
    "text for a float": (
        lambda: p.LeakyRelu(X, alpha="a"), "p.LeakyRelu: attribute alpha is of kind FLOAT and cannot be 'a'", "",
    ),
    "an element type that there is none of": (
        lambda: p.Cast(X, to="f15"), "p.Cast: attribute to is of kind INT and cannot be 'f15'", "an element type",
    ),
    "a hole for an attribute": (
        lambda: p.Transpose(X, perm=hole("perm")), "p.Transpose: attribute perm is not an operand", "perm=attr('perm')",
    ),
    "a result out of range": (lambda: p.TopK(X, Y)[5], "p.TopK(...) has 2 results, and no result 5", ""),
    "a result below 0": (lambda: p.TopK(X, Y)[-1], "p.TopK(...) has no result -1", "from 0"),
    "a result of one": (lambda: p.Relu(X)[0], "p.Relu(...) has 1 result, and no result 0", "stands for it"),
    "a result of a result": (lambda: p.TopK(X, Y)[0][1], "p.TopK(...)[0] is one result, and has no result 1", ""),
    "all results as an operand": (
        lambda: p.Relu(p.TopK(X, Y)), "p.TopK(...) has several results, and an operand is one of them", "pattern[0]",
    ),
    "text": (lambda: p.Relu("x"), "'x' is not a pattern", "write hole('x')"),
    "an array": (lambda: p.Add(X, np.ones(3)), "array([1., 1., 1.]) is not a pattern", "use hole"),
    "an unknown operator among several": (
        lambda: one_of("Relu", "Rellu"), "one_of: ONNX has no operator 'Rellu'", "Relu",
    ),
    "no operator": (lambda: one_of(), "one_of() names no operator", ""),
    "operands that one of several never has": (
        lambda: one_of("Relu", "Add")(X, Y), "p.Relu: Relu takes 1 operand, and the pattern has 2", "",
    ),
    "an operator without a domain": (lambda: p.op("Own"), "p.op: ONNX has no operator 'Own'", '"mydomain::Own"'),
    "no choices": (either, "either() has no patterns to choose from", ""),
    "through text": (lambda: through("x"), "'x' is not a pattern", ""),  # type: ignore[arg-type]
    "a parameter below 0": (lambda: own(-1), "own(-1): a body has no such parameter", "own(0)"),
    "a hole without a name": (lambda: hole(""), "hole(''): a part of a pattern needs a name", 'hole("x")'),
    "a number for a name": (
        lambda: const(3.0), "const(3.0): a part of a pattern needs a name", "",  # type: ignore[arg-type]
    ),
    "operators as one text": (
        lambda: hole("x", ops="Relu"), "hole('x', ops='Relu'): ops are several", "('Relu',)",  # type: ignore[arg-type]
    ),
    "an operator that there is not": (
        lambda: hole("x", ops=("Rellu",)), "hole('x'): ONNX has no operator 'Rellu'", "Relu",
    ),
    "a condition that is none": (
        lambda: hole("x", where=3), "the condition 3 is not a function of a value", "",  # type: ignore[arg-type]
    ),
    "an unknown element type": (lambda: hole("x", dtype="floot"), "'floot' is not an element type", "float"),
    "a rank below 0": (lambda: hole("x", rank=-1), "-1 is not a rank", "rank=2"),
    "a shape in one text": (lambda: hole("x", shape="bn"), "shape='bn' is not a shape", "shape=('bn',)"),
    "a size below 0": (lambda: hole("x", shape=(-1,)), "-1 is not a dimension in a shape", ""),
    "a value that is not a number": (
        lambda: const(value="a"), "const(value='a'): 'a' is not a number", "",  # type: ignore[arg-type]
    ),
    "a pattern that is none": (lambda: rule("Relu"), "'Relu' is not a pattern", "p.Relu"),  # type: ignore[arg-type]
    "operands for a value": (lambda: rule(rest("xs")), "*xs stands for operands, and a rule is about a value", "hole"),
    "what is made of itself": (
        lambda: rule(p.Relu(X).named("x")), "Relu(x) never matches: no value 'x' is made of itself", "",
    ),
    "a parameter outside of bodies": (
        lambda: rule(p.Relu(own(0))),
        "Relu(own(0)) never matches: own(...) is a parameter of a body, and stands outside of bodies", "p.Loop",
    ),
    "a value and an attribute of one name": (
        lambda: rule(p.Softmax(X, axis=attr("x"))), "'x' names a value and an attribute", "",
    ),
    "a name that a match has": (
        lambda: rule(p.Relu(hole("root"))), "a match has something else called 'root'", "roots",
    ),
    "an exact that is a text": (
        lambda: rule(p.Relu(X), exact="no"), "exact is 'no'", "False",  # type: ignore[arg-type]
    ),
    "a sample that is none": (
        lambda: rule(p.Relu(X), sample=3), "the sample is 3", "generator",  # type: ignore[arg-type]
    ),
    "no function": (lambda: rule(p.Relu(X))(3), "3 is not a function of a match", "@rule"),  # type: ignore[arg-type]
    "a function of nothing": (
        lambda: rule(p.Relu(X))(lambda: None),  # type: ignore[arg-type, misc]
        "<lambda> cannot be called with a match: too many positional arguments", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", IMPOSSIBLE)
def test_a_pattern_that_nothing_matches_is_refused_where_it_is_written(slip: str) -> None:
    make, what, hint = IMPOSSIBLE[slip]
    with pytest.raises(TypeRuleError) as caught:
        make()
    assert caught.value.what == what and hint in caught.value.hint


def test_patterns_that_something_matches_are_taken() -> None:
    some = (
        p.Clip(X, None, Y), p.Gemm(X, Y), p.Gemm(X, Y, *rest("bias")), p.Where(X, *rest("both")),
        p.Sum(X, Y, hole("z")),
        one_of("Squeeze", "Flatten")(X, hole("axes", optional=True)), p.op("mine::Own")(X, Y, size=3)[2],
        p.Split(X, num_outputs=2).named("s")[1], p.BatchNormalization(*rest("xs"))[2], p.Transpose(X, perm=[1, 0]),
        p.Concat(X, Y, axis=True), p.Cast(X, to=irkit.DType.FLOAT),
        p.If(X, *rest("c"), then_branch=None, else_branch=2),
        p.Add(p.Relu(X).named("r"), hole("r")), p.Loop(None, None, X, body=(None, p.Neg(own(2)))),
    )  # fmt: skip
    assert all(rule(each)(lambda m: m.root).pattern is each for each in some)


# ---------------------------------------------------------------------------------------------- what is shown

ONE = const("one", where=lambda v: False)
N = param(tensor("f32", "n", 4))


def reason(pattern: Any, value: Value) -> str:
    return explain(rule(pattern)(lambda m: m.root), value).reason


def test_explain_shows_the_constant_that_failed() -> None:
    assert reason(p.Mul(X, 2.0), op.Mul(N, 3.0)) == "found f32[] Constant 3.0, expected 2"
    assert (
        reason(p.Mul(X, const("c", value=0.5)), op.Mul(N, 0.25)) == "c: found f32[] Constant 0.25, expected about 0.5"
    )
    row = np.array([1, 2, 3, 4], np.float32)
    shown = "one: found f32[4] Constant [1.0, 2.0, 3.0, 4.0], expected one that its `where` holds of"
    assert reason(p.Mul(X, ONE), op.Mul(N, row)) == shown
    many = np.full((8, 4), 7.0, np.float32)
    assert "found f32[8, 4] Constant, all 7.0, expected" in reason(
        p.Mul(X, ONE), op.Mul(param(tensor("f32", 8, 4)), many)
    )
    assert reason(p.Mul(X, ONE), op.Mul(N, op.Neg(N))) == "found operands Param and Neg, expected x and one"
    assert reason(p.Sub(X, ONE), op.Sub(N, op.Neg(N))) == "one: found Neg, expected a constant"
    assert reason(p.Sub(X, p.Exp(Y)), op.Sub(N, 2.5)) == "found f32[] Constant 2.5, expected Exp"
    assert reason(p.Mul(X, 2), op.Mul(param(tensor("bf16", 4)), irkit.const(3, "bf16"))) == (
        "found bf16[] Constant 3, expected 2"
    )


def test_explain_says_what_was_found_and_what_was_expected() -> None:
    assert reason(p.Mul(X, Y), op.Add(N, N)) == "found Add, expected Mul"
    assert reason(p.TopK(X, Y)[1], op.TopK(N, [1])[0]) == "found result 0 of TopK, expected result 1 of TopK"
    assert reason(p.TopK(X, Y)[1], op.Relu(N)) == "found Relu, expected result 1 of TopK"
    assert reason(p.Softmax(X, axis=0), op.Softmax(N, axis=1)) == "attribute axis: found 1, expected 0"
    assert reason(p.Gemm(X, Y), op.Gemm(N, op.Transpose(N, perm=[1, 0]), alpha=2.0)) == (
        "attribute alpha: found 2.0, expected the default, 1.0"
    )
    assert reason(p.Concat(X, Y, axis=0), op.Concat(N, N, N, axis=0)) == "found 3 operands, expected 2"
    assert reason(p.Relu(hole("x", dtype="integer")), op.Relu(N)) == "x: found f32, expected integer"
    assert reason(p.Sub(X, X), op.Sub(N, op.Neg(N))) == (
        "x: found f32[n, 4] Neg, expected another value, which it stands for already: f32[n, 4] Param"
    )


# ---------------------------------------------------------------------------------------------- types that change


@rule(p.Transpose(X, perm=(1, 0)))
def untransposed(m: Any) -> Value:
    return m.x


@rule(p.Add(X, Y))
def first(m: Any) -> Value:
    return m.x


def test_a_result_of_another_shape_at_some_sizes_is_refused() -> None:
    square = param(tensor("f32", "n", "n"))
    assert rewrite(Graph((square,), (op.Transpose(square, perm=[1, 0]),)), untransposed).results == (square,)
    x = param(tensor("f32", "n", "m"))
    with pytest.raises(RewriteError, match=r"turns a f32\[m, n\] into a f32\[n, m\], which differ at m = "):
        rewrite(Graph((x,), (op.Relu(op.Transpose(x, perm=[1, 0])),)), untransposed)


def test_a_result_that_would_broadcast_is_refused_where_the_graph_allows_it() -> None:
    x, y = param(tensor("f32", "n")), param(tensor("f32", 2))
    with pytest.raises(RewriteError, match=r"differ at n = 1: f32\[2\] and f32\[1\]"):
        rewrite(Graph((x, y), (op.Add(x, y),)), first)
    known = Graph((x, y), (op.Add(x, y),), {"n": irkit.Range(2, 2)})
    assert rewrite(known, first).results == (x,)


def test_sizes_that_an_operator_below_makes_equal_are_one() -> None:
    """The columns of a Concat: the second operand has the rows of the first, whatever their sizes are called."""
    x, y = param(tensor("f32", "n", 4)), param(tensor("f32", "m", 4))

    @rule(p.Slice(p.Concat(X, Y, axis=1), const("a"), const("b"), const("c")))
    def second(m: Any) -> Value:
        return m.y

    part = op.Slice(op.Concat(x, y, axis=1), [4], [8], [1])
    assert rewrite(Graph((x, y), (op.Relu(part),)), second).results[0].inputs == (y,)


def test_several_results_keep_their_types() -> None:
    x = param(tensor("f32", "n", "m"))
    values, places = op.TopK(x, [1])

    @rule(p.TopK(X, Y))
    def swapped(m: Any) -> Any:
        found = op.TopK(op.Transpose(m.x, perm=[1, 0]), m.y)
        return found[0], found[1]

    with pytest.raises(RewriteError, match=r"turns a f32\[n, 1\] into a f32\[m, 1\]"):
        rewrite(Graph((x,), (values, places)), swapped)


def test_rules_of_several_roots_keep_types() -> None:
    x, y = param(tensor("f32", "n", "m")), param(tensor("f32", "m", "n"))
    graph = Graph((x, y), (op.MatMul(x, y), op.Transpose(op.MatMul(x, y), perm=[1, 0]), op.Relu(x), op.Neg(x)))

    @rule(p.Relu(X), p.Neg(X))
    def turned(m: Any) -> Any:
        both = op.Transpose(m.x, perm=[1, 0])
        return both, both

    with pytest.raises(RewriteError, match=r"turns a f32\[n, m\] into a f32\[m, n\]"):
        rewrite(graph, turned)
