"""Conditions that only the data decides: a program computes them beside its results, and refuses what breaks them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnxruntime
import pytest
import torch
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.while_loop import while_loop
from torch.fx.experimental.proxy_tensor import make_fx

import irkit
from irkit.contract.as_json import contract_of
from lowering import lower
from lowering.errors import LoweringError
from lowering.fold.assertions import Watched

FOUR = torch.ones(4)


def at_least_four(x: Any, y: Any) -> Any:
    n = x.sum().item()
    torch._check(n > 3)
    torch._check(n < 100)
    return y * n


def not_negative(x: Any, y: Any) -> Any:
    n = x.sum().item()
    torch._check(n >= 0)
    return y * n


def two_numbers(x: Any, y: Any) -> Any:
    n, m = x.sum().item(), x.max().item()
    torch._check(n > m)
    torch._check(n * 2 < y.shape[0] * 10)
    return y * n


def three_places(x: Any, y: Any) -> Any:
    n = x.nonzero().shape[0]
    torch._check(n > 2)
    return y * n


def a_float(x: Any, y: Any) -> Any:
    v = x.max().item()
    torch._check(v * 2 > 0.5)
    return y * v


def content(x: Any, y: Any) -> Any:
    torch.ops.aten._assert_async.msg((x > 0).all(), "x must be positive")
    return y * x


def truth(x: Any, y: Any) -> Any:
    torch._check((x > 0).all().item())
    return y * x


def in_a_branch(x: Any, y: Any) -> Any:
    def positive(x: Any) -> Any:
        torch.ops.aten._assert_async.msg((x > 0).all(), "x must be positive")
        return x * 2

    return torch.cond(y.sum() > 0, positive, lambda x: x.clone(), (x,))


def number_in_a_branch(x: Any, y: Any) -> Any:
    n = x.sum().item()
    torch._check(n > 3)

    def scaled(y: Any) -> Any:
        m = x.max().item()
        torch._check(m > 4)
        return y * m

    return torch.cond(n > 5, scaled, lambda y: y.clone(), (y,))


def in_a_loop(x: Any, y: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        torch.ops.aten._assert_async.msg((y < 100).all(), "below 100")
        return i + 1, y * 2

    return while_loop(lambda i, y: i < 3, step, (x, y))[1]


def in_each_row(x: Any, y: Any) -> Any:
    def row(a: Any, y: Any) -> Any:
        torch.ops.aten._assert_async.msg(a.sum() < 10, "below 10")
        return a * y

    return mapped(row, x, y)


ints = torch.tensor
CASES: list[tuple[Callable[..., Any], str, list[tuple[Any, Any]], list[tuple[Any, Any]]]] = [
    (at_least_four, "u0 >= 4", [(ints([2, 3]), FOUR), (ints([2, 2]), FOUR)], [(ints([1, 2]), FOUR)]),
    (at_least_four, "u0 <= 99", [(ints([2, 97]), FOUR)], [(ints([50, 50]), FOUR)]),
    (not_negative, "u0 >= 0", [(ints([2, -2]), FOUR)], [(ints([-2, 1]), FOUR)]),
    (two_numbers, "u0 > u1", [(ints([2, 3]), FOUR)], [(ints([3, 0]), FOUR)]),
    (two_numbers, "u0 < 5*b", [(ints([9, 10]), FOUR)], [(ints([10, 10]), FOUR)]),
    (three_places, "u0 >= 3", [(ints([0, 1, 1, 1]), FOUR)], [(ints([0, 0, 1, 1]), FOUR)]),
    (a_float, "2.0*zuf0 > 0.5", [(FOUR, FOUR), (FOUR * 0.3, FOUR)], [(FOUR * 0.25, FOUR)]),
    (content, "x must be positive", [(FOUR, FOUR)], [(FOUR - 1, FOUR)]),
    (truth, "a truth value", [(FOUR, FOUR)], [(FOUR - 1, FOUR)]),
    (in_a_branch, "x must be positive", [(FOUR, FOUR), (-FOUR, -FOUR)], [(-FOUR, FOUR)]),
    (number_in_a_branch, "u1 >= 5", [(ints([2, 3]), FOUR), (ints([1, 5]), FOUR)], [(ints([3, 3]), FOUR)]),
    (in_a_loop, "below 100", [(ints(0), FOUR), (ints(3), FOUR * 200)], [(ints(0), FOUR * 60)]),
    (in_each_row, "below 10", [(torch.ones(3, 4), FOUR)], [(torch.ones(3, 4) * 5, FOUR)]),
]


@pytest.mark.parametrize(("function", "text", "good", "bad"), CASES, ids=[f"{c[0].__name__}-{c[1]}" for c in CASES])
def test_data_that_breaks_a_condition_is_refused(function: Any, text: str, good: Any, bad: Any) -> None:
    sizes = {"x": None, "y": {0: "b"}} if function is two_numbers else None
    program = irkit.to_onnx(function, good[0], dynamic_shapes=sizes)
    irkit.verify(program.graph)
    irkit.verify(program.watched)
    assert any(text in fact.text for fact in program.graph.signature.facts)
    for inputs in good:
        torch.testing.assert_close(program(*inputs), function(*inputs))
    for inputs in bad:
        with pytest.raises(irkit.ContractError, match="the data of this call breaks what the model asserts") as refusal:
            program(*inputs)
        assert text in refusal.value.what and Path(__file__).name in refusal.value.source
        if (
            function is not in_a_loop and function is not in_each_row
        ):  # torch compiles these anew, without the condition
            with pytest.raises(Exception, match=r"(?i)fail|expected|must|branch"):
                function(*inputs)


def test_files_have_the_outputs_of_the_model_unless_checks_are_asked_for(tmp_path: Path) -> None:
    program = irkit.to_onnx(two_numbers, (ints([2, 3]), FOUR), dynamic_shapes={"x": None, "y": {0: "b"}})
    plain = onnxruntime.InferenceSession(program.save(tmp_path / "plain.onnx"))
    assert [output.name for output in plain.get_outputs()] == [port.name for port in program.graph.signature.results]
    assert program.contract()["checks"] == [] and len(program.contract()["unchecked"]) == 2
    path = program.save(tmp_path / "checked.onnx", conditions=True)
    loaded = irkit.load(path)
    assert irkit.parse(loaded.text()) == loaded
    contract = contract_of(loaded)
    assert contract["unchecked"] == [] and len(contract["outputs"]) == 3
    session = onnxruntime.InferenceSession(path)
    for numbers, expected in (([2, 3], [True, True]), ([3, 0], [True, False]), ([10, 10], [False, True])):
        found = session.run([c["output"] for c in contract["checks"]], {"x": np.array(numbers), "y": np.ones(4, "f4")})
        told = {c["text"]: bool(f) for c, f in zip(contract["checks"], found, strict=True)}
        assert [told["u0 < 5*b"], told["u0 > u1"]] == expected


def test_what_results_tell_is_a_condition_all_the_same() -> None:
    """Who runs the file does not look at the sizes of its results."""

    def places(x: Any) -> Any:
        found = x.nonzero()
        torch._check(found.shape[0] > 2)
        return found

    program = irkit.to_onnx(places, (FOUR,))
    assert [check.text for check in program.checks] == ["u0 >= 3"]
    with pytest.raises(irkit.ContractError):
        program(torch.zeros(4))
    plain = irkit.to_onnx(lambda x: x.nonzero().shape[0] * x, (FOUR,))
    assert not any(">= 0" in check.text for check in plain.checks)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_that_no_more_is_found_than_there_is_goes_without_saying(capture: Any) -> None:
    def found(x: Any) -> Any:
        return x.nonzero(), torch.where(x > 0)[0], x[x > 0], torch.masked_select(x, x > 1), torch.unique(x)

    program = irkit.to_onnx(found, (FOUR,), capture=capture, data="refuse")
    assert program.checks == ()


def test_a_graph_has_the_results_of_the_model() -> None:
    graph = lower(at_least_four, (ints([2, 3]), FOUR))
    assert len(graph.results) == 1 and [fact.text for fact in graph.signature.facts] == ["u0 >= 4", "u0 <= 99"]


def test_the_element_type_of_an_einsum_hangs_on_a_size_of_the_data() -> None:
    def summed(x: Any, y: Any) -> Any:
        return torch.einsum("ij,k->ik", x[:, y.nonzero().squeeze(1)], x[0])

    x = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    program = irkit.to_onnx(summed, (x, FOUR))
    for y in (FOUR, torch.zeros(4)):
        torch.testing.assert_close(program(x, y), summed(x, y))
    with pytest.raises(irkit.ContractError, match="u0 != 1"):
        program(x, torch.tensor([0.0, 1, 0, 0]))


def test_a_check_agrees_where_torch_and_the_program_refuse_the_same_data() -> None:
    def above_one(x: Any, y: Any) -> Any:
        n = (x > -9).sum().item()
        torch._check(n > 1)
        return y * n + x.shape[0]

    report = irkit.to_onnx(above_one, (FOUR, FOUR), dynamic_shapes={"x": {0: "a"}, "y": None}).check(4)
    assert report and [run.sizes for run in report.runs if run.refusal] == [(("a", 1),)]
    assert "a=1: both refuse it: the data of this call breaks" in str(report)


def test_a_check_tells_of_data_that_only_one_side_refuses() -> None:
    def above_one(x: Any) -> Any:
        n = (x > -9).sum().item()
        torch._check(n > 1)
        return x * n

    program = irkit.to_onnx(above_one, (FOUR,), dynamic_shapes={"x": {0: "a"}})
    careless = attrs.evolve(program, made=Watched(program.ready))
    assert program.check(4) and "RuntimeError" in str(careless.check(4)) and not careless.check(4)


def test_two_tensors_are_checked_under_one_message() -> None:
    def positive(x: Any, y: Any) -> Any:
        for each in (x, y):
            torch.ops.aten._assert_async.msg((each > 0).all(), "positive")
        return x + y

    program = irkit.to_onnx(positive, (FOUR, FOUR))
    assert len(program.checks) == 1 and program(FOUR, FOUR).tolist() == [2, 2, 2, 2]
    for x, y in ((FOUR, -FOUR), (-FOUR, FOUR)):
        with pytest.raises(irkit.ContractError, match="positive"):
            program(x, y)


def test_a_number_that_a_loop_carries_is_checked_in_every_round() -> None:
    def limited(x: Any, limit: int) -> Any:
        def step(i: Any, x: Any) -> Any:
            torch._check(i < limit)
            return i + 1, x * 2

        return while_loop(lambda i, x: i < 3, step, (0, x))

    assert irkit.to_onnx(limited, (FOUR, 3))(FOUR, 3)[1].tolist() == [8, 8, 8, 8]
    with pytest.raises(LoweringError, match=r"refuse the very example of its capture: .* in every round: u\d <= 1"):
        irkit.to_onnx(limited, (FOUR, 2))


def test_the_broken_condition_is_told_where_the_runtime_fails_first() -> None:
    def taken(x: Any, i: Any) -> Any:
        torch._check_tensor_all(i < x.shape[0])
        return x[i]

    program = irkit.to_onnx(taken, (FOUR, ints([1, 2])))
    with pytest.raises(irkit.ContractError, match="breaks what the model asserts"):
        program(FOUR, ints([1, 5]))


def test_the_line_is_told_where_the_runtime_fails() -> None:
    def rows(i: Any, x: Any) -> Any:
        return torch.nn.functional.embedding(i, x)

    program = irkit.to_onnx(rows, (ints([1, 3]), torch.ones(4, 2)))
    with pytest.raises(irkit.EvaluateError, match="ONNX Runtime cannot run the model on these inputs") as failure:
        program(ints([1, 9]), torch.ones(4, 2))
    assert "torch.nn.functional.embedding(i, x)" in failure.value.source


def test_sizes_of_parts_that_are_not_the_whole_are_refused() -> None:
    def split(x: Any, sizes: Any) -> Any:
        return torch.split(x, sizes.tolist())

    program = irkit.to_onnx(split, (FOUR, ints([1, 3])))
    assert [part.tolist() for part in program(FOUR, ints([2, 2]))] == [[1, 1], [1, 1]]
    with pytest.raises(irkit.ContractError, match=r"u0 \+ u1 == 4") as failure:
        program(FOUR, ints([2, 3]))
    assert "torch.split(x, sizes.tolist())" in failure.value.source


@pytest.mark.parametrize("traced", [True, False])
def test_the_range_of_a_number_is_checked(traced: bool) -> None:
    def ranged(x: Any, i: Any) -> Any:
        n = i.sum().item()
        torch.sym_constrain_range(n, min=3, max=9)
        return x * n

    example = (FOUR, ints([2, 3]))
    program = irkit.to_onnx(make_fx(ranged, tracing_mode="symbolic")(*example) if traced else ranged, example)
    assert program(*example).tolist() == [5, 5, 5, 5]
    for broken in ([0, 1], [9, 1]):
        with pytest.raises(irkit.ContractError, match="breaks what the model asserts: u0"):
            program(FOUR, ints(broken))


def test_the_condition_of_a_loop_is_checked_with_the_numbers_after_a_round() -> None:
    def limited(x: Any) -> Any:
        def more(i: Any, x: Any) -> Any:
            torch._check(i < 3)  # does not hold when the loop asks for the last time
            return i < 3

        def step(i: Any, x: Any) -> Any:
            torch._check(i < 3)
            return i + 1, x * 2

        return while_loop(more, step, (0, x))

    with pytest.raises(LoweringError, match=r"refuse the very example of its capture: .* in every round: u\d <= 2"):
        irkit.to_onnx(limited, (FOUR,))
