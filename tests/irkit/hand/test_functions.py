"""Python functions over values as graphs; types as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import irkit
from irkit import (
    DType,
    Fact,
    Graph,
    GraphError,
    Optional,
    Port,
    Range,
    Sequence,
    Tensor,
    TypeRuleError,
    Value,
    function,
    op,
    param,
    tensor,
    type_of,
    verify,
)

PLAIN: dict[str, Any] = {}
exec(
    "def annotated(x: 'f32[n, 4]', y: tensor('f32', 4), times: int = 2):\n    return x * y * times\n",
    {"tensor": tensor},
    PLAIN,
)  # where annotations are no texts


class Moments(NamedTuple):
    """Results with names."""

    mean: Value
    square: Value


def test_types_stand_as_annotations_or_arguments() -> None:
    def scaled(x: "f32[n, 4]", y: tensor("f32", 4), times: int = 2) -> Value:  # type: ignore[valid-type]  # noqa: F821, UP037
        return x * y * times

    by_hand = function(lambda x, y: x * y * 2, x="f32[n, 4]", y=tensor("f32", 4))
    plain: Callable[..., Any] = PLAIN["annotated"]
    for graph in (function(scaled), function()(scaled), function(plain), by_hand):
        assert verify(graph) == by_hand and [port.name for port in graph.signature.params] == ["x", "y"]
        assert graph.signature.results == (Port("output", "output"),)
    assert function(scaled, x="f64[n, 4]", y="f64[4]").results[0].dtype is DType.DOUBLE  # arguments go first
    assert function(scaled, times="f32[]").signature.params[2] == Port("times") and function(scaled).name == "scaled"


def test_results_have_names() -> None:
    cases: tuple[tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...]], ...] = (
        (lambda x: x, (), ("output",)), (lambda x: (x, -x), (), ("output_0", "output_1")),
        (lambda x: {"low": x, "high": 2}, (), ("low", "high")), (lambda x: Moments(x, x * x), (), ("mean", "square")),
        (lambda x: [x, np.ones(2)], ("a", "b"), ("a", "b")), (lambda x: {"low": x}, ("a",), ("a",)),
        (lambda x: op.TopK(x, [1]), ("values", "indices"), ("values", "indices")),
    )  # fmt: skip
    for made, given_names, wanted in cases:
        graph = verify(function(made, x="f32[3]", results=given_names, name="g"))
        assert tuple(port.name for port in graph.signature.results) == wanted and graph.name == "g"


def test_conditions_are_kept() -> None:
    facts = ("n % 2 == 0", Fact("guard", "n > 2", "model.py:3"), Fact("baked", "k == 3"))
    graph = function(lambda x: x, x="f32[n]", ranges={"n": Range(2, 8)}, facts=facts)
    assert graph.symbols == {"n": Range(2, 8)}
    assert [(f.kind, f.text) for f in graph.signature.facts] == [("relation", "n % 2 == 0"), ("guard", "n > 2")]
    again = function(lambda x: x + 1, x="f32[n]", facts=graph.signature.facts)
    assert again.signature.facts == graph.signature.facts


outside = param("f32[3]")
REFUSED: dict[str, tuple[Callable[[], object], type[irkit.IrkitError], str]] = {
    "a parameter of no type": (lambda: function(lambda x, y: x, x="f32"), TypeRuleError, "'f32' is not a type"),
    "no types": (lambda: function(lambda x: x), TypeRuleError, "a parameter x of no type"),
    "an unknown parameter": (lambda: function(lambda: 1, x="f32[]"), TypeRuleError, "no parameter 'x'"),
    "any number": (lambda: function(lambda *xs: xs[0], xs="f32[]"), TypeRuleError, "any number of values"),
    "no function": (lambda: function(3, x="f32[]"), TypeRuleError, "3 is no function"),  # type: ignore[call-overload]
    "a graph": (lambda: function(function(op.Relu, X="f32[]")), TypeRuleError, "a graph is none"),
    "no value": (lambda: function(lambda x: None, x="f32[]"), GraphError, "returns None as output"),
    "a thing": (lambda: function(lambda x: object(), x="f32[]"), TypeRuleError, "cannot give back an object"),
    "too few names": (lambda: function(lambda x: (x, x), x="f32[]", results=("a",)), GraphError, "returns 2 values"),
    "one name twice": (lambda: function(lambda x: (x, x), x="f32[]", results="aa"), GraphError, "returns 2 values"),
    "a value of elsewhere": (lambda: function(lambda x: x + outside, x="f32[3]"), GraphError, "not among its param"),
    "a range of nothing": (lambda: function(op.Relu, X="f32[n]", ranges={"m": Range(1)}), GraphError, "about 'm'"),
    "a condition on nothing": (lambda: function(op.Relu, X="f32[n]", facts=("m > 1",)), GraphError, "about 'm'"),
    "no condition": (lambda: function(op.Relu, X="f32[n]", facts=("n %",)), irkit.DimensionError, "condition"),
    "text that is no type": (lambda: type_of("f32[n"), TypeRuleError, "'f32[n' is not a type"),
    "a type with something behind": (lambda: type_of("f32[n] x"), TypeRuleError, "is not a type"),
    "an element type of two meanings": (lambda: type_of("float[n]"), TypeRuleError, "'float[n]' is not a type"),
    "a tuple": (lambda: param("(f32[2], f32[3])"), TypeRuleError, "is not a type"),
    "a number for a type": (lambda: type_of(3), TypeRuleError, "3 is not a type"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_function_of_values_is_refused(name: str) -> None:
    made, kind, what = REFUSED[name]
    with pytest.raises(kind) as caught:
        made()
    assert what in caught.value.what and (caught.value.hint or caught.value.advice), str(caught.value)


KINDS = st.sampled_from(list(DType))
SIZES = st.one_of(st.integers(0, 99), st.sampled_from(["n", "batch", "2*n", "n // 2 + 1", "max(n, 3)"]))
TENSORS = st.builds(lambda dtype, shape: tensor(dtype, *shape), KINDS, st.lists(SIZES, max_size=4))
TYPES = st.one_of(TENSORS, st.builds(Sequence, TENSORS), st.builds(Optional, st.builds(Sequence, TENSORS)))


@given(TYPES)
def test_a_type_is_what_its_text_says(wanted: irkit.Type) -> None:
    assert type_of(repr(wanted)) == wanted and type_of(wanted) is wanted and param(repr(wanted)).type == wanted
    if isinstance(wanted, Tensor) and wanted.dtype is not DType.STRING:
        assert type_of(repr(wanted).replace(wanted.dtype.short, wanted.dtype.numpy.name, 1)) == wanted


def test_a_function_is_a_graph_and_no_more() -> None:
    graph = function(lambda x: x @ np.eye(2, dtype=np.float32), x="f32[n, 2]")
    assert isinstance(graph, Graph) and irkit.parse(graph.text()) == graph
    (found,) = irkit.evaluate(graph, {"x": np.ones((1, 2), np.float32)})
    assert found.tolist() == [[1, 1]]
