"""Wrong rules, at the default settings of `check_rule`: each is found, and what is said of it can be pasted and run.

`make check-rules` takes five seeds.
"""

from __future__ import annotations

import contextlib
import io
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
    "two values": (lambda m: (m.x, m.x), None, "the rule <lambda> returned 2 values for 1 results"),
    "a sample of no value": (lambda m: m.x, lambda rng: 3, "the sample of the rule <lambda> returned 3"),
}


@pytest.mark.parametrize("name", RETURNED)
def test_what_is_no_replacement_is_named_by_the_check(name: str) -> None:
    function, sample, message = RETURNED[name]
    wrong = irkit.rule(irkit.p.Relu(irkit.hole("x")), sample=sample)(function)
    with pytest.raises(irkit.RewriteError, match=message):
        irkit.check_rule(wrong)
