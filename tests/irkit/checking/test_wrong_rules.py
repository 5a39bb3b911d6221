"""Wrong rules, at the default settings of `check_rule`: each is found, and what is said of it can be pasted and run.

`make check-rules` takes five seeds.
"""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import numpy as np
import pytest

import irkit
from irkit.checking.counterexamples import Counterexample, source
from irkit.checking.draws import numbers
from irkit.core.types import DType
from irkit.rewriting.face import Rule
from tests.support.wrong_rules import WRONG


def counterexample(rule: Rule, seed: int = 0) -> Counterexample:
    """The error of a wrong rule."""
    with pytest.raises(Counterexample) as error:
        irkit.check_rule(rule, seed=seed)
    return error.value


def printed(program: str) -> str:
    """What a program prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), np.errstate(all="ignore"):
        exec(program, {})
    return out.getvalue()


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.name)
def test_a_wrong_rule_is_found_and_the_program_that_is_printed_shows_it(rule: Rule) -> None:
    error = counterexample(rule)
    assert rule.name in error.what and error.python.splitlines()[0] in str(error)
    case = error.case
    assert case is not None and len(case.left) == 1
    said = printed(error.python).splitlines()
    if case.kind == "numbers":
        left, right = said[0].removeprefix("left: "), said[-1].removeprefix("right:")
        assert left.strip() != right.strip() or "bits differ" in error.what, said
        told = "cannot be computed" in error.what or "expected the shape" in error.what
        assert told or ("they differ first" in error.source and case.index is not None)
    elif case.kind == "types":
        assert said[0].split()[1:] != said[1].split()[1:]


def test_every_wrong_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in WRONG}) == len(WRONG) >= 40


def test_a_counterexample_is_small_and_in_the_words_of_the_pattern() -> None:
    by_name = {rule.name: rule for rule in WRONG}
    error = counterexample(by_name["sub_itself"])
    assert error.case is not None and error.case.arrays is not None
    (x,) = error.case.arrays
    assert x.size == 1 and not np.isfinite(x).any()
    assert "%0: f32[] = Sub(%x, %x)\nleft:  %0\n" in error.ir
    assert error.source.splitlines()[1] == "the left side gives  nan"
    error = counterexample(by_name["neg_sub"])
    assert "Sub(%y, %x)" in error.ir and "-0.0 and 0.0" in error.source
    assert error.case is not None and error.case.arrays is not None
    assert sum(a.size for a in error.case.arrays) == 2


@pytest.mark.parametrize("kind", DType, ids=lambda kind: kind.short)
def test_arrays_of_every_element_type_are_written_as_python(kind: DType) -> None:
    rng = np.random.default_rng(0)
    for shape in ((), (3, 2), (0, 2)):
        array = np.asarray(numbers(rng, kind, shape, special=True))
        made = eval(source(array), {"np": np, "irkit": irkit})
        assert made.dtype == array.dtype and made.shape == array.shape
        if kind is DType.STRING:
            assert made.tolist() == array.tolist()
        else:
            parts = (np.real, np.imag) if kind.is_complex else (np.asarray,)
            for part in parts:
                a, b = (part(each).astype(np.float64) for each in (array, made))
                assert np.array_equal(a, b, equal_nan=True) and np.array_equal(
                    np.signbit(a[a == 0]), np.signbit(b[b == 0])
                )


RETURNED: dict[str, tuple[Any, Any, str]] = {
    "an array": (lambda m: np.ones(3), None, r"the rule <lambda> returned array\(\[1"),
    "two values": (lambda m: (m.x, m.x), None, "the rule <lambda> returned 2 values for 1 result"),
    "a tuple of one": (lambda m: (m.x,), None, "the rule <lambda> returned a tuple of one value, and replaces one"),
    "nothing": (lambda m: None, None, "the rule <lambda> returned None"),
    "a list": (lambda m: [m.x], None, r"the rule <lambda> returned \[<"),
    "a pattern": (lambda m: irkit.p.Neg(irkit.hole("x")), None, r"the rule <lambda> returned the pattern Neg\(x\)$"),
    "a sample of no value": (lambda m: m.x, lambda rng: 3, "the sample of the rule <lambda> returned 3"),
}


def lone(x: Any) -> irkit.Graph:
    """A graph that the wrong rules fire on."""
    return irkit.Graph((x,), (irkit.op.Relu(x),))


@pytest.mark.parametrize("name", RETURNED)
def test_what_is_no_replacement_is_named_by_the_check_and_by_rewrite(name: str) -> None:
    function, sample, message = RETURNED[name]
    wrong = irkit.rule(irkit.p.Relu(irkit.hole("x")), sample=sample)(function)
    with pytest.raises(irkit.RewriteError) as error:
        irkit.check_rule(wrong)
    assert re.match(message, error.value.what) and error.value.hint and len(error.value.what) < 140
    if sample is None:
        with pytest.raises(irkit.RewriteError) as error:
            irkit.rewrite(lone(irkit.param(irkit.tensor("f32", 3))), wrong)
        assert re.match(message, error.value.what) and error.value.hint


def test_rules_of_several_results_must_return_as_many() -> None:
    x, split = irkit.hole("x"), irkit.p.Split(irkit.hole("x"), num_outputs=2)
    pair = irkit.rule(irkit.p.Relu(x), irkit.p.Neg(x))
    data = irkit.param(irkit.tensor("f32", 4))
    graph = irkit.Graph((data,), (irkit.op.Relu(data), irkit.op.Neg(data), *irkit.op.Split(data, num_outputs=2)))
    strange: Any = lambda m: (m.x, x)  # noqa: E731
    for wrong, told in (
        (pair(lambda m: m.x), "returned 1 value for 2 results"),
        (pair(lambda m: (m.x,)), "returned 1 value for 2 results"),
        (pair(strange), r"returned \(<.*>, the pattern x\)"),
        (irkit.rule(split)(lambda m: (m.x,)), "returned 1 value for 2 results"),
    ):
        for way in (irkit.check_rule, lambda rule: irkit.rewrite(graph, rule)):
            with pytest.raises(irkit.RewriteError, match=f"the rule <lambda> {told}"):
                way(wrong)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_what_differs_on_the_evaluator_is_not_said_to_differ_on_a_runtime(exact: bool, seed: int) -> None:
    doubled = irkit.rule(irkit.p.Relu(irkit.p.Relu(irkit.hole("x"))), exact=exact)(lambda m: m.x * 2)
    error = counterexample(doubled, seed)
    assert error.case is not None and error.case.kind == "numbers" and "ONNX Runtime" not in str(error)
    assert error.source.splitlines()[1] == "the left side gives  1.0"


def test_a_rule_that_fails_is_shown_with_its_line_and_what_to_try() -> None:
    def none(m: Any) -> Any:
        return m.x.blob.uniform + 1

    def refused(m: Any) -> Any:
        return irkit.op.MatMul(m.x, irkit.const(np.ones((2, 3), np.int8)))

    def library(m: Any) -> Any:
        return np.concatenate([m.x], axis=7)

    wrong = {each.__name__: irkit.rule(irkit.p.Relu(irkit.hole("x")))(each) for each in (none, refused, library)}
    error = counterexample(wrong["none"])
    assert "fails with AttributeError" in error.what and "blob is None for what is no constant" in error.hint
    assert re.search(r", at checking/test_wrong_rules.py:\d+: return m.x.blob.uniform \+ 1$", error.what)
    error = counterexample(wrong["refused"])
    assert re.search(r"refused: .*, at checking/test_wrong_rules.py:\d+: return irkit.op.MatMul\(", error.what)
    assert "the pattern lets this left side through" in error.hint
    assert "at checking/test_wrong_rules.py" in counterexample(wrong["library"]).what
    with pytest.raises(irkit.RewriteError, match=r"refused: .*, at checking/test_wrong_rules.py:\d+: return irkit.op"):
        irkit.rewrite(lone(irkit.param(irkit.tensor("f32", 3))), wrong["refused"])


def test_another_element_type_and_another_shape_have_hints_of_their_own() -> None:
    relu = irkit.rule(irkit.p.Relu(irkit.hole("x")))
    error = counterexample(relu(lambda m: irkit.op.Equal(m.x, m.x)))
    assert "into a bool" in error.what and error.hint.startswith("give a value of the same element type and shape")
    error = counterexample(relu(lambda m: irkit.op.Unsqueeze(m.root, irkit.const(np.array([0])))))
    assert error.hint.startswith("where something broadcasts")


def test_a_number_of_64_bits_in_an_attribute_has_a_hint_of_its_own() -> None:
    x = irkit.hole("x", dtype="f64")
    leaky = irkit.p.Where(irkit.p.Less(x, 0.0), irkit.p.Mul(x, irkit.pattern.const("k", rank=0)), x)

    def by_attribute(m: Any) -> Any:
        k = irkit.pattern.uniform(m.k)
        fits = k is not None and abs(k) < 3e38 and m.root.type == m.x.type
        return irkit.op.LeakyRelu(m.x, alpha=k) if fits else irkit.decline("no number, or one of no float32")

    error = counterexample(irkit.rule(leaky, exact=False)(by_attribute))
    assert error.hint.startswith("an attribute of ONNX holds a float32")


def test_constants_are_ends_of_ranges_and_nan_where_a_rule_holds_of_all_numbers() -> None:
    scaled = irkit.p.Mul(irkit.hole("x", dtype="float"), irkit.pattern.const("k"))
    for exact in (True, False):
        seen: list[float] = []

        def noted(m: Any, seen: list[float] = seen) -> Any:
            seen += m.k.blob.array.astype(np.float64).reshape(-1).tolist()
            return irkit.op.Mul(m.k, m.x)

        report = irkit.check_rule(irkit.rule(scaled, exact=exact)(noted), 60)
        kinds = dict(report.near_kinds)
        assert kinds["extreme constant" if exact else "extreme scalar"][1] > 0 and ("no number" in kinds) is exact
        assert max(n for n in seen if np.isfinite(n)) > 3e38 and any(n == 0 and np.signbit(n) for n in seen)
        assert any(0 < abs(n) < 1e-37 for n in seen)
        assert any(np.isnan(n) for n in seen) is exact


def test_overflow_on_the_way_is_no_fault_of_a_rule_of_real_numbers() -> None:
    x, y, k = irkit.hole("x", dtype="f32"), irkit.hole("y", dtype="f32"), irkit.pattern.const("k")
    moved = irkit.rule(irkit.p.Mul(irkit.p.Mul(x, y), k), exact=False)(
        lambda m: irkit.op.Mul(irkit.op.Mul(m.x, m.k), m.y)
    )
    for seed in range(3):
        assert dict(irkit.check_rule(moved, 60, seed=seed).near_kinds)["extreme scalar"][0] > 0


def test_numbers_that_say_where_are_drawn_as_their_places_want_them() -> None:
    x, k, axis = irkit.hole("x"), irkit.pattern.const("k"), irkit.pattern.const("axis")
    far = 2**63 - 1
    halves = irkit.p.Slice(x, 0, k, axis), irkit.p.Slice(x, k, far, axis)

    @irkit.rule(irkit.p.Concat(*halves, axis=irkit.pattern.attr("a")))
    def joined(m: Any) -> Any:
        """Concat(x[:k], x[k:]) -> x"""
        sliced = m.axis.blob.array.reshape(-1) % m.x.rank
        whole = sliced.tolist() == [m.a % m.x.rank] and m.root.type == m.x.type
        return m.x if whole else irkit.decline("along another axis, or what is between the halves is not known")

    assert irkit.check_rule(joined, 10).fired == 10
    last = irkit.const(np.array([far]))
    ends = irkit.rule(irkit.p.Slice(x, 1, far, axis))(lambda m: irkit.op.Slice(m.x, [1], [far - 1], m.axis))
    found = irkit.op.Slice(irkit.param(irkit.tensor("f32", 9)), [1], last, [0])
    assert irkit.explain(ends, found).applies  # an integer beyond 2**53 is no float64, and stays what it is
