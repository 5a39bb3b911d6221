"""Discovery: small terms that are equal are found, checked, and only those that nothing known gives are offered."""

from __future__ import annotations

from typing import Any

import pytest

from irkit import discover, hole, op, p, tensor
from irkit.errors import TypeRuleError
from passes.saturation import KNOWN

x, y = hole("x"), hole("y")
FLAGS = (tensor("bool", 4, 4),) * 2


def texts(found: object) -> list[str]:
    return [line.split(": ", 1)[1].split("  (")[0] for line in str(found).splitlines()[:-1]]


def test_laws_of_logic_are_found_and_true() -> None:
    found = discover(["Not", "And", "Or"], size=2, types=FLAGS, n=8, seconds=30)
    assert "Not(Not(x)) == x" in texts(found) and "And(x, x) == x" in texts(found)
    assert "And(x, Or(x, y)) == x" in texts(found)
    assert all(each.exact for each in found.equations)
    for each in found.equations:
        assert each.rules
    assert found.terms > 20 and "equations among" in str(found)


def test_what_known_rules_give_is_not_offered() -> None:
    before = discover(["Not", "And", "Or"], size=2, types=FLAGS, n=5, seconds=30)
    known = tuple(r for each in before.equations for r in each.rules)
    after = discover(["Not", "And", "Or"], size=2, types=FLAGS, rules=known, n=5, seconds=30)
    assert before.equations and after.equations == () and after.known > before.known
    fewer = tuple(r for r in known if "Or(x, x)" not in r.doc)
    some = discover(["Not", "And", "Or"], size=2, types=FLAGS, rules=fewer, n=5, seconds=30)
    assert set(texts(some)) <= set(texts(before)) and len(some.equations) < len(before.equations)


def test_no_equation_that_is_found_follows_from_the_others() -> None:
    """Where Neg(Neg(x)) == x is found, Neg(Neg(Neg(x))) == Neg(x) is none of its own."""
    found = discover(["Neg"], size=4, n=6, seconds=20)
    assert texts(found) == ["Neg(Neg(x)) == x"]


def test_what_looks_equal_and_is_not_is_left_out() -> None:
    """Abs and Relu of squares are the square in real numbers, and so of none that is a multiple of nothing."""
    found = discover(["Exp", "Log"], size=2, types=(tensor("f32", 4, 4),), n=6, seconds=20)
    assert texts(found) == ["Log(Exp(x)) == x"] and not found.equations[0].exact
    wrapped = discover(["Relu", "Abs"], size=2, types=(tensor("i64", 4, 4),), n=20, seconds=20)
    assert "Relu(Abs(x)) == Abs(x)" not in texts(wrapped) or wrapped.untrue == 0


def test_operators_are_names_patterns_or_functions() -> None:
    softmax = p.Softmax(x, axis=-1)
    one = (tensor("f32", 4, 4),)
    found = discover([softmax, lambda v: op.LogSoftmax(v, axis=-1)], size=2, types=one, n=6, seconds=20)
    assert "Softmax(LogSoftmax(x), axis=-1) == Softmax(x, axis=-1)" in texts(found)
    with pytest.raises(TypeRuleError, match="is no operator"):
        discover([3])
    with pytest.raises(TypeRuleError):
        discover(["NoSuchOperator"])


def test_constants_stand_in_terms_and_the_rules_of_passes_know_the_usual_laws() -> None:
    found = discover(["Mul", "Add"], size=1, constants=(0.0, 1.0), rules=KNOWN, n=6, seconds=20)
    assert found.equations == () and found.known > 0


def test_types_of_variables_are_values_or_text_and_of_known_sizes() -> None:
    found = discover(["Neg"], types=("f32[2]",), n=3)
    assert str(found.equations[0]) == "Neg(Neg(x)) == x"
    refused: tuple[tuple[str, dict[str, Any]], ...] = (
        ("are the text", {"operators": "Neg"}),
        ("size is -1", {"size": -1}),
        ("no type of a variable", {"types": ("f32[n]",)}),
        ("no type of a variable", {"types": (3,)}),
    )
    for wrong, given in refused:
        with pytest.raises(TypeRuleError, match=wrong):
            discover(**{"operators": ["Neg"], **given})
