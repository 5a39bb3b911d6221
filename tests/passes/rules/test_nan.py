"""NaN where numbers are put in order: said by default, kept where it is asked for, kept where the model writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._higher_order_ops import while_loop
from torch.nn import functional as F
from typer.testing import CliRunner

import irkit
import passes
from irkit.contract.as_json import contract_of
from irkit.doors.cli import app
from irkit.onnx.sessions import session
from lowering import lower
from passes import optimize
from passes.legal.legalize import legalize
from passes.preparing.prepare import prepare
from passes.rules.nan import may_be_nan, nan_assumptions
from passes.targets import target_of

NANS, INF = float("nan"), float("inf")


class Net(torch.nn.Module):
    """A convolution, a Relu, a pooling and what is largest."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y = F.max_pool2d(F.relu(self.conv(x)), 2)
        return y, y.mean((2, 3)).argmax(1)


IMAGE = torch.randn(1, 2, 8, 8)
BROKEN = IMAGE.clone()
BROKEN[0, 1, 2, 2] = NANS


def ops(program: irkit.Program) -> set[str]:
    return {value.op for value in program.ready.order}


def test_nothing_is_added_and_what_is_assumed_is_said() -> None:
    program = irkit.to_onnx(Net(), (IMAGE,), dynamic_shapes=({0: "n"},))
    assert not ops(program) & {"IsNaN", "Where", "AveragePool"}
    assert [text for text, _ in program.report.assumed] == ["finite numbers in MaxPool", "finite numbers in ArgMax"]
    assert all("test_nan.py" in line for _, line in program.report.assumed)
    assert "finite numbers in MaxPool" in str(program.report)
    contract = program.contract()
    assert [entry["text"] for entry in contract["assumptions"]] == [text for text, _ in program.report.assumed]
    assert not any("finite" in entry["text"] for entry in contract["unchecked"])


def test_a_program_refuses_nan_where_it_is_asked_to(tmp_path: Any) -> None:
    plain = irkit.to_onnx(Net(), (IMAGE,))
    program = plain.refusing_nan()
    assert program.refusing_nan() is program and len(program.checks) == 2 and not plain.checks
    torch.testing.assert_close(program(IMAGE), plain(IMAGE))
    with pytest.raises(irkit.ContractError, match="assumes: finite numbers in MaxPool") as error:
        program(BROKEN)
    assert "max_pool2d" in error.value.source and "default+nan" in error.value.hint
    plain(BROKEN)
    checks = contract_of(irkit.load(program.save(tmp_path / "model.onnx", conditions=True)))["checks"]
    assert [check["text"] for check in checks] == [text for text, _ in plain.report.assumed]


def test_a_program_refuses_windows_of_minus_infinity_alone() -> None:
    program = irkit.to_onnx(lambda x: F.max_pool1d(x, 2), (torch.randn(1, 1, 4),)).refusing_nan()
    x = torch.tensor([[[-INF, 1.0, 2.0, -INF]]])
    assert torch.equal(program(x), F.max_pool1d(x, 2))
    with pytest.raises(irkit.ContractError, match="finite numbers in MaxPool"):
        program(torch.tensor([[[-INF, -INF, 2.0, 3.0]]]))


def test_nan_is_kept_where_it_is_asked_for() -> None:
    model = Net()
    program = irkit.to_onnx(model, (IMAGE,), rules="default+nan")
    assert not program.report.assumed and program.refusing_nan() is program
    torch.testing.assert_close(program(BROKEN), model(BROKEN), equal_nan=True)
    assert not torch.equal(torch.isnan(program(BROKEN)[0]), torch.isnan(irkit.to_onnx(model, (IMAGE,))(BROKEN)[0]))


def test_the_graph_itself_means_what_torch_means() -> None:
    """By the evaluator, without anything added."""
    model = Net()
    (found, place) = irkit.evaluate(optimize(lower(model, (IMAGE,))), [BROKEN.numpy()])
    torch.testing.assert_close((torch.tensor(found), torch.tensor(place)), model(BROKEN), equal_nan=True)


FREE: dict[str, Callable[[torch.Tensor], Any]] = {
    "integers": lambda x: x.long().amax(1), "integers made floats": lambda x: x.long().float().argmax(1),
    "bools": lambda x: (x > 0).int().max(), "the largest shares": lambda x: x.softmax(1).topk(2, 1)[0],
    "numbers in place of nan": lambda x: torch.where(torch.isnan(x), 0.0, x).amax(1),
    "nan_to_num": lambda x: x.nan_to_num(0.0).argmax(1), "drawn": lambda x: torch.rand_like(x).amax(1),
    "joined": lambda x: torch.cat([x.long().float(), torch.zeros(4, 1)], 1).amax(1),
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_nothing_is_assumed_where_no_nan_can_be(name: str) -> None:
    assert not irkit.to_onnx(FREE[name], (torch.randn(4, 5),)).report.assumed


WRITTEN: dict[str, Callable[[torch.Tensor], Any]] = {
    "masked by nan": lambda x: x.masked_fill(x > 1, NANS).amax(1),
    "padded by nan": lambda x: F.pad(x, (1, 1), value=NANS).argmax(1),
    "the nearest by a mask": lambda x: torch.where(x > 0, x, NANS).topk(2, 1)[0],
    "pooled behind a mask": lambda x: F.max_pool1d(x.masked_fill(x > -9, -INF)[None], 2),
    "pooled within -inf": lambda x: F.max_pool1d(F.pad(x, (2, 2), value=-INF)[None], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_model_writes_itself_is_kept(name: str) -> None:
    program, x = irkit.to_onnx(WRITTEN[name], (torch.zeros(4, 6),)), torch.linspace(-3, 3, 24).reshape(4, 6)
    assert not program.report.assumed
    torch.testing.assert_close(program(x), WRITTEN[name](x), equal_nan=True)


def test_the_largest_of_a_whole_image_keeps_nan_as_any_other() -> None:
    x = irkit.param(irkit.tensor("f32", 1, 2, 3, 3))
    image = np.full((1, 2, 3, 3), -INF, np.float32)
    image[0, 1, 1, 1:] = NANS, 5
    graph = irkit.Graph((x,), (irkit.op.GlobalMaxPool(x),))
    assert [value.op for value in nan_assumptions(graph)] == ["GlobalMaxPool"]
    kept = prepare(optimize(graph, rules="default+nan"), "onnxruntime-cpu")
    masked = irkit.Graph((x,), (irkit.op.GlobalMaxPool(irkit.op.Where(irkit.op.Less(x, 4.0), -INF, x)),))
    for given in (kept, prepare(masked, "onnxruntime-cpu")):
        assert not list(nan_assumptions(given))
        np.testing.assert_array_equal(session(given).run((image,))[0].ravel(), np.array([-INF, NANS], np.float32))


def test_nan_is_kept_in_bodies() -> None:
    """What a body compares, nothing outside can check."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x[0, 0] > 0, lambda x: x.amax(1), lambda x: x.amin(1), (x,))

    program = irkit.to_onnx(model, (torch.ones(3, 4),))
    assert not program.report.assumed
    for sign in (1, -1):
        x = torch.arange(1.0, 13.0).reshape(3, 4) * sign
        x[1, 1] = NANS
        torch.testing.assert_close(program(x), model(x), equal_nan=True)


def test_the_rules_come_last_and_once() -> None:
    model = Net()
    graph = lower(model, (IMAGE,))
    kept = optimize(graph, rules="default+nan")
    assert not list(nan_assumptions(kept)) and list(nan_assumptions(optimize(graph)))
    assert optimize(kept, rules="default+nan") is kept and optimize(kept) is kept
    assert {value.op for value in optimize(graph, level=1, rules="exact+nan").order} >= {"IsNaN"}
    found = session(legalize(kept, target_of("onnxruntime-cpu"))).run({"x": BROKEN.numpy()})
    torch.testing.assert_close(tuple(map(torch.tensor, found)), model(BROKEN), equal_nan=True)


def test_a_sort_of_long_rows_keeps_nan() -> None:
    """There it costs nothing."""
    x = torch.randn(2, 600)
    x[1, 5] = NANS
    program = irkit.to_onnx(lambda x: x.sort(1)[0], (torch.randn(2, 600),))
    assert not program.report.assumed
    torch.testing.assert_close(program(x), x.sort(1)[0], equal_nan=True)
    assert irkit.to_onnx(lambda x: x.sort(1)[0], (torch.randn(2, 60),)).report.assumed


def test_constants_and_operators_tell_where_nan_can_be() -> None:
    x = irkit.param(irkit.tensor("f32", 3))
    assert may_be_nan(x) and may_be_nan(irkit.op.Log(x)) and not may_be_nan(irkit.const([1.0, INF]))
    assert may_be_nan(irkit.op.Where(irkit.op.IsNaN(x), x, x))
    assert not may_be_nan(irkit.op.Where(irkit.op.IsNaN(x), 0.0, irkit.op.Abs(x)))
    assert may_be_nan(irkit.op.Where(irkit.op.IsNaN(x), 0.0, irkit.op.Sqrt(x)))


def test_a_shell_asks_for_outputs_that_tell(tmp_path: Any) -> None:
    source, output = tmp_path / "model.pt2", tmp_path / "model.onnx"
    torch.export.save(torch.export.export(Net(), (IMAGE,)), source)
    found = CliRunner().invoke(app, ["export", str(source), "-o", str(output), "--finite"])
    assert found.exit_code == 0 and "finite numbers in MaxPool" in found.output
    assert len(contract_of(irkit.load(output))["checks"]) == 2


# ---------------------------------------------------------------------------------------------- where(x > 0, x, 0)


class Chosen(torch.nn.Module):
    """A convolution, and what makes 0 of NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(2, 3, 3), torch.nn.Conv2d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y = torch.where(y > 0, y, 0)
        return self.second(y).relu()


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnxruntime-cpu+com.microsoft"])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_choice_behind_a_convolution_is_a_relu_and_said(capture: Any, target: str, tmp_path: Any) -> None:
    model = Chosen().eval()
    program = irkit.to_onnx(model, (IMAGE,), dynamic_shapes=({0: "n"},), capture=capture, target=target)
    assert not ops(program) & {"ThresholdedRelu", "Where"}
    ((text, line),) = program.report.assumed
    assert text == "finite numbers in Relu" and "torch.where(y > 0, y, 0)" in line
    assert [entry["text"] for entry in program.contract()["assumptions"]] == [text]
    torch.testing.assert_close(program(IMAGE), model(IMAGE))
    refusing = program.refusing_nan()
    torch.testing.assert_close(refusing(IMAGE), model(IMAGE))
    with pytest.raises(irkit.ContractError, match="assumes: finite numbers in Relu") as error:
        refusing(BROKEN)
    assert "torch.where(y > 0, y, 0)" in error.value.source
    assert [fact.text for fact in irkit.load(program.save(tmp_path / "model.onnx")).signature.facts] == [text]


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_choice_is_kept_where_it_is_asked_for(capture: Any) -> None:
    model = Chosen().eval()
    program = irkit.to_onnx(model, (IMAGE,), rules="default+nan", capture=capture)
    assert program.report.assumed == () and "ThresholdedRelu" in ops(program)
    for x in (IMAGE, BROKEN):
        torch.testing.assert_close(program(x), model(x), equal_nan=True)
    assert not model(BROKEN).isnan().any()
    assert "ThresholdedRelu" not in ops(irkit.to_onnx(model, (IMAGE,), rules="default+finite", capture=capture))


def test_a_choice_stays_where_it_costs_nothing_or_nothing_could_check_it() -> None:
    """Without a convolution before it; in the body of a loop; in a graph that is prepared without a report."""
    conv = torch.nn.Conv1d(2, 2, 1).eval()

    def alone(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, 0)

    def looped(x: torch.Tensor) -> torch.Tensor:
        def step(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = conv(y)
            return i + 1, torch.where(y > 0, y, 0)

        return while_loop(lambda i, y: i < 2, step, (torch.tensor(0), x))[1]

    x = torch.tensor([[[1.0, NANS, -2.0], [0.5, 1.0, -0.0]]])
    for model in (alone, looped):
        program = irkit.to_onnx(model, (x,))
        assert program.report.assumed == ()
        torch.testing.assert_close(program(x), model(x), equal_nan=True)
    graph = passes.prepare(optimize(lower(Chosen().eval(), (IMAGE,))))
    assert "ThresholdedRelu" in {value.op for value in graph.order}


RECURRENT: dict[str, torch.nn.Module] = {
    "LSTM": torch.nn.LSTM(3, 4), "GRU": torch.nn.GRU(3, 4, bidirectional=True),
    "RNN": torch.nn.RNN(3, 4, nonlinearity="relu"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrence_that_makes_numbers_of_nan_says_so(name: str) -> None:
    program = irkit.to_onnx(RECURRENT[name], (torch.randn(4, 2, 3),))
    assert [text for text, _ in program.report.assumed] == [f"finite numbers in {name}"]
    x = torch.randn(4, 2, 3)
    program.refusing_nan()(x)
    x[1, 0, 0] = NANS
    with pytest.raises(irkit.ContractError, match=f"finite numbers in {name}"):
        program.refusing_nan()(x)


def test_a_recurrence_of_tanhs_keeps_nan() -> None:
    model, x = torch.nn.RNN(3, 4), torch.randn(4, 2, 3)
    x[1, 0, 0] = NANS
    program = irkit.to_onnx(model, (torch.randn(4, 2, 3),))
    assert not program.report.assumed
    torch.testing.assert_close(program(x), model(x), equal_nan=True)
