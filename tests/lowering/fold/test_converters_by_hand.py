"""Converters that users hand in: what the fold refuses, and what its errors say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import irkit
from irkit import op
from irkit.core.ir import Graph
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from lowering import lower
from lowering.errors import LoweringError, MissingConverters, Unsupported


@torch.library.custom_op("irkit_tests::turn", mutates_args=())
def turn(x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
    """by * x, transposed."""
    return (by * x.transpose(0, 1)).clone()


@turn.register_fake
def _(x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
    return x.new_empty((x.shape[1], x.shape[0]))


def lowered(converter: Callable[..., Any] | None, by: float = 2.0) -> Graph:
    """The graph of a model that calls the operator on f32[a, b], a = 3 and b = 5 while traced."""
    converters = {torch.ops.irkit_tests.turn.default: converter} if converter else {}
    shapes = {"x": {0: "a", 1: "b"}}
    return lower(lambda x: turn(x, by), (torch.randn(3, 5),), dynamic_shapes=shapes, converters=converters)


def test_a_converter_serves_an_operator_or_one_overload_of_it() -> None:
    def right(x: Any, by: float = 1.0) -> Any:
        return op.Mul(op.Transpose(x, perm=[1, 0]), by)

    graph = lowered(right)
    assert [v.op for v in graph.order if v.origin.target == "irkit_tests::turn"] == ["Transpose", "Constant", "Mul"]
    every = {torch.ops.irkit_tests.turn: right}
    shapes = {"x": {0: "a", 1: "b"}}
    assert lower(lambda x: turn(x, 2.0), (torch.randn(3, 5),), dynamic_shapes=shapes, converters=every) == graph


def test_a_converter_may_be_given_for_what_custom_op_made() -> None:
    converters = {turn: lambda x, by=1.0: op.Mul(op.Transpose(x, perm=[1, 0]), by)}
    assert "Transpose" in {v.op for v in lower(lambda x: turn(x), (torch.randn(3, 5),), converters=converters).order}


@pytest.mark.parametrize("key", ["aten::gelu", "aten.gelu.default", torch.nn.functional.gelu, torch.nn.GELU])
def test_a_key_that_is_no_operator_is_refused(key: Any) -> None:
    with pytest.raises(LoweringError, match="which is not a torch operator"):
        lower(torch.nn.GELU(), (torch.randn(3),), converters={key: lambda self: self})


def test_a_converter_that_cannot_be_called_is_refused() -> None:
    converters: Any = {torch.ops.aten.gelu: "Gelu"}
    with pytest.raises(LoweringError, match="cannot be called"):
        lower(torch.nn.GELU(), (torch.randn(3),), converters=converters)


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "another element type": (lambda x, by=1.0: op.Transpose(op.Cast(x, to=11), perm=[1, 0]), "gave f64[b, a]"),
    "another rank": (lambda x, by=1.0: op.Unsqueeze(x, [0]), "gave f32[1, a, b]"),
    "sizes changed over": (lambda x, by=1.0: op.Mul(x, by), "gave f32[a, b], where torch gives [5, 3]"),
    "a size that is always 1": (lambda x, by=1.0: op.ReduceSum(op.Transpose(x, perm=[1, 0]), [0]), "gave f32[1, a]"),
    "no value": (lambda x, by=1.0: 3, "gave 3, where torch gives a tensor"),
    "nothing": (lambda x, by=1.0: None, "gave None, where torch gives a tensor"),
    "two results": (lambda x, by=1.0: (x, x), "gave a tuple of 2, where torch gives one"),
    "an argument ignored": (lambda x: op.Transpose(x, perm=[1, 0]), "knows no argument by=2.0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_converter_is_refused_where_it_is_wrong(case: str) -> None:
    converter, said = WRONG[case]
    with pytest.raises(LoweringError) as caught:
        lowered(converter)
    assert said in caught.value.what
    assert "irkit_tests.turn.default" in caught.value.ir
    assert "lambda x: turn(x, by)" in caught.value.source


@pytest.mark.parametrize(
    "converter",
    [lambda *x: op.Gemm(*x, transB=1), lambda **k: op.Gemm(k["input"], k["weight"], k["bias"], transB=1),
     lambda input, *more, **k: op.Gemm(input, *more, transB=1)],
)  # fmt: skip
def test_a_converter_may_take_all_arguments_at_once(converter: Callable[..., Any]) -> None:
    program = irkit.to_onnx(torch.nn.Linear(4, 3), (torch.randn(2, 4),), converters={torch.ops.aten.linear: converter})
    assert program.report.decomposed == {} and program.check()


def test_a_converter_of_other_names_is_refused_rather_than_left_out() -> None:
    """torch could decompose the operator, and the converter that was handed in would do nothing."""
    with pytest.raises(LoweringError, match="knows no argument self=") as caught:
        lower(torch.nn.GELU(), (torch.randn(3),), converters={torch.ops.aten.gelu: lambda x: op.Gelu(x)})
    assert "gelu(Tensor self" in caught.value.hint


@torch.library.custom_op("irkit_tests::twofold", mutates_args=())
def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * 2, x * 3


@both.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def test_a_converter_gives_as_many_results_as_the_operator_has() -> None:
    for converter, said in (
        (lambda x: op.Mul(x, 2.0), "gave one result, where torch gives 2 results"),
        (lambda x: [x, x, x], "gave a list of 3, where torch gives 2 results"),
    ):
        with pytest.raises(LoweringError, match=said):
            lower(lambda x: both(x), (torch.randn(3),), converters={both: converter})


def test_a_result_that_a_converter_leaves_out_is_not_returned_as_none() -> None:
    def second(x: Any) -> Any:
        return None, op.Mul(x, 3.0)

    assert len(lower(lambda x: both(x)[1], (torch.randn(3),), converters={both: second}).results) == 1
    with pytest.raises(LoweringError, match="the converter left it out"):
        lower(lambda x: both(x), (torch.randn(3),), converters={both: second})


def test_an_error_of_the_type_rules_names_the_line_of_the_model() -> None:
    with pytest.raises(IrkitError, match="where f32 is needed") as caught:
        lowered(lambda x, by=1.0: op.Add(x, op.Cast(x, to=7)))
    assert "lambda x: turn(x, by)" in caught.value.source


def test_any_other_exception_goes_through_with_a_note() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        lowered(lambda x, by=1.0: 1 / 0)
    assert "irkit_tests.turn.default" in caught.value.__notes__[0]


def test_a_converter_that_declines_leads_to_an_error_where_torch_cannot_decompose() -> None:
    def declining(x: Any, by: float = 1.0) -> Any:
        raise Unsupported("turns have no ONNX form")

    with pytest.raises(LoweringError, match=r"turns have no ONNX form.*torch cannot decompose it"):
        lowered(declining)


def test_an_operator_without_a_converter_is_listed_with_its_count() -> None:
    with pytest.raises(MissingConverters) as caught:
        lowered(None)
    assert caught.value.missing == (("irkit_tests.turn.default", 1),)


def test_operators_that_torch_holds_in_order_by_a_token() -> None:
    """`run_decompositions` puts a token through them; the file has no input and no output for it."""

    @torch.library.custom_op("irkit_tests::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @noted.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return noted(x) * 2 + noted(x + 1)

    library: Any = torch.library
    library._register_effectful_op(torch.ops.irkit_tests.noted.default, library.EffectType.ORDERED)
    x = torch.randn(3)
    program = torch.export.export(Model(), (x,)).run_decompositions({})
    assert "with_effects" in {node.name for node in program.graph.nodes}
    graph = lower(program, converters={torch.ops.irkit_tests.noted.default: lambda x: op.Mul(x, 3.0)})
    assert [p.name for p in graph.signature.params] == ["x"] and len(graph.results) == 1
    np.testing.assert_allclose(evaluate(graph, [x.numpy()])[0], Model()(x).numpy(), rtol=1e-6)
