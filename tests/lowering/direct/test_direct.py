"""Direct capture: programs that are run once on traced tensors give what eager gives, or are refused with the line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.utils.checkpoint import checkpoint

import irkit
from lowering import lower
from lowering.errors import CaptureError
from tests.tables.coverage import hop_programs as higher_order_programs
from tests.zoo.cases import CASES
from tests.zoo.outcome import measured

N = ({0: "n"},)


def exported(function: Any, *args: Any, dynamic_shapes: Any = N, **options: Any) -> Any:
    """The program of a function, captured directly."""
    return irkit.to_onnx(function, args, dynamic_shapes=dynamic_shapes, capture="direct", **options)


def transposed_in_place(x: torch.Tensor) -> Any:
    y = x.clone()
    y.t_()
    z = y.unsqueeze_(0)
    z[0, 1] += 5
    return y, x


def written_through_views(x: torch.Tensor) -> Any:
    y = x * 1
    v = y[:, 1:3]
    w = v.t()
    w.mul_(2)
    y[0] = 7
    return y, v, w


def written_input(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        y = x.detach().requires_grad_(True)
        return torch.autograd.grad((y**3).sum(), y)[0]


def halved(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.t()


class Remembering(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))  # type: ignore[operator]
        self.total[1] = 3  # type: ignore[index]
        self.calls += 1
        return x + self.total  # type: ignore[operator]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "transposed_in_place": transposed_in_place,
    "written_through_views": written_through_views,
    "written_input": written_input,
    "buffer": Remembering(),
    "batch_norm_in_training": torch.nn.BatchNorm1d(4).train(),
    "chunk": lambda x: x.chunk(2, 1),
    "nonzero": lambda x: x[x > 0].sum() + (x > 0).nonzero().shape[0],
    "least_of_sizes": lambda x: x[: min(64, x.shape[0])] + x,
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "arange": lambda x: torch.arange(x.shape[0]) * 2 + x[:, 0],
    "int_of_a_size": lambda x: x.new_zeros(int(x.shape[0] * 1.5)),
    "unbind": lambda x: sum(x.unbind(1)),
    "rfft": lambda x: torch.fft.rfft(x).abs(),
    "view_as_complex": lambda x: torch.view_as_complex(x.view(-1, 2, 2)) * 2j,
    "interpolate": lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=2.0),
    "vmap": lambda x: torch.vmap(lambda row: row * row.sum())(x),
    "func_grad": lambda x: torch.func.grad(lambda each: (each**3).sum())(x),
    "autograd_grad": gradient,
    "checkpoint": lambda x: checkpoint(torch.sin, x, use_reentrant=False),
    "autocast": halved,
    "sort": lambda x: x.sort(0),
    "cond": lambda x: torch.cond(x.sum() > 0, lambda a: a.sin() + x, lambda a: a.cos(), (x,)),
    "cond_on_a_size": lambda x: torch.cond(x.shape[0] > 4, torch.sin, torch.cos, (x,)),
    "while_loop": lambda x: while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x)),
    "map": lambda x: map_over(lambda row, *_: row.sin(), x),
    "scan": lambda x: scan(lambda c, a: (c + a, c * a), torch.zeros(4), x, dim=0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_direct_agrees_with_eager_at_several_sizes(name: str) -> None:
    program = exported(PROGRAMS[name], torch.randn(3, 4))
    report = program.check(2)
    assert report, str(report)
    assert program.report.capture == "traced directly"


@pytest.mark.parametrize(
    "name",
    ["cond.nested", "invoke_subgraph.twice", "while_loop.closure", "associative_scan.sum", "flex_attention.score_mod",
     "flex_attention.captured_bias", "flex_attention.block_mask", "print", "jvp"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own, where jvp begins
def test_direct_meets_higher_order_operators(name: str) -> None:
    module, args = higher_order_programs.PROGRAMS[name]()
    program = exported(module, *args, dynamic_shapes={"tensors": tuple({0: Dim.AUTO} for _ in args)})
    report = program.check(1)
    assert report, str(report)


def test_direct_lstm_and_two_dimensions() -> None:
    program = exported(
        torch.nn.LSTM(4, 5, batch_first=True), torch.randn(2, 3, 4), dynamic_shapes=({0: "n", 1: "steps"},)
    )
    assert program.check(2)


def test_direct_keeps_an_answer_about_a_size_with_its_line() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 8 else x - 1

    program = exported(branching, torch.randn(3, 4))
    assert torch.equal(program(torch.ones(8, 4)), torch.zeros(8, 4))
    with pytest.raises(irkit.ContractError, match=r"n in .0, 8.(.|\n)*x \+ 1 if x.shape\[0\] > 8"):
        program(torch.ones(9, 4))


def test_direct_keeps_an_answer_about_data_with_its_line() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 100:
            return x + 1
        return x - 1

    program = exported(branching, torch.zeros(3, 4))
    assert torch.equal(program(torch.zeros(5, 4)), -torch.ones(5, 4))
    with pytest.raises(irkit.ContractError, match=r"if x.sum\(\) > 100"):
        program(torch.full((3, 4), 100.0))


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_direct_writes_files_that_refuse_other_data_by_themselves(level: str, tmp_path: Path) -> None:
    def branching(x: torch.Tensor) -> Any:
        y = x * 2
        return (y + 1, y.sum()) if x.sum() > 0 else (y - 1, y.sum())

    program = exported(branching, torch.ones(3, 4))
    path = program.save(tmp_path / "branching.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    (name,) = [port.name for port in session.get_inputs()]
    for size in (1, 5):
        found: Any = session.run(None, {name: np.ones((size, 4), np.float32)})
        assert found[0].shape == (size, 4) and found[1] == size * 8
        for asked in session.get_outputs():
            with pytest.raises(Exception, match="Gather"):
                session.run([asked.name], {name: -np.ones((size, 4), np.float32)})


def test_direct_refuses_data_at_export_where_asked_to() -> None:
    with pytest.raises(CaptureError, match=r"for some data only(.|\n)*if x.sum\(\) > 100"):

        def branching(x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 100:
                return x + 1
            return x - 1

        exported(branching, torch.zeros(3, 4), data="refuse")
    assert exported(torch.sin, torch.zeros(3, 4), data="refuse").check(1)
    with pytest.raises(CaptureError, match="data is 'keep'"):
        exported(torch.sin, torch.zeros(3, 4), data="keep")


def test_direct_keeps_what_broadcasting_needs_of_two_names() -> None:
    program = exported(lambda x, y: x + y, torch.randn(3, 4), torch.randn(3, 4), dynamic_shapes=({0: "a"}, {0: "b"}))
    assert program(torch.ones(5, 4), torch.ones(1, 4)).shape == (5, 4)
    with pytest.raises(irkit.ContractError):
        program(torch.ones(5, 4), torch.ones(2, 4))


def test_direct_finds_what_an_operator_requires_of_sizes() -> None:
    program = exported(
        lambda x, y: x @ y, torch.randn(2, 3), torch.randn(3, 4), dynamic_shapes=({1: "inner"}, {0: "also"})
    )
    assert [str(p.type) for p in program.graph.params] == ["f32[2, inner]", "f32[inner, 4]"]
    with pytest.raises(irkit.ContractError):
        program(torch.randn(2, 5), torch.randn(6, 4))
    even = exported(lambda x: x.reshape(2, -1), torch.randn(4, 3), dynamic_shapes=({0: "n", 1: "m"},))
    assert even(torch.randn(6, 5)).shape == (2, 15)
    with pytest.raises(irkit.ContractError, match="% 2"):
        even(torch.randn(3, 3))


def test_direct_enforces_what_torch_requires() -> None:
    program = exported(
        lambda x: torch.nn.functional.pixel_unshuffle(x, 2), torch.randn(1, 1, 4, 6), dynamic_shapes=({2: "rows"},)
    )
    assert program(torch.randn(1, 1, 8, 6)).shape == (1, 4, 4, 3)
    with pytest.raises(irkit.ContractError, match="rows % 2"):
        program(torch.randn(1, 1, 7, 6))
    plain = exported(lambda x: torch.relu(x.to(x.device)), torch.randn(3, 4))
    assert plain.report.guards == ()


def test_direct_allows_size_1_where_the_graph_is_the_same() -> None:
    def asking(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 1 else x.mul(2)

    assert exported(asking, torch.randn(3, 4))(torch.ones(1, 4)).shape == (1, 4)


def test_direct_refuses_a_name_that_the_model_fixes() -> None:
    def fixing(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 3 else x - 1

    with pytest.raises(CaptureError, match=r"'n', and the model works for 3 only(.|\n)*x.shape\[0\] == 3"):
        exported(fixing, torch.randn(3, 4))
    program = exported(fixing, torch.randn(3, 4), specialization="report")
    assert program.report.fixed and program.graph.params[0].shape == (3, 4)


def test_direct_leaves_the_model_as_it_was() -> None:
    model = Remembering()
    exported(model, torch.randn(3, 4))
    assert model.calls == 0 and not model.total.any()  # type: ignore[operator]

    def raising(x: torch.Tensor) -> torch.Tensor:
        model.calls += 1
        model.total.add_(x.sum(0))  # type: ignore[operator]
        raise ValueError("the model's own")

    with pytest.raises(ValueError, match="the model's own"):
        exported(raising, torch.randn(3, 4))
    assert not model.total.any()  # type: ignore[operator]


def test_direct_refuses_another_way_of_capture_by_name() -> None:
    with pytest.raises(CaptureError, match="capture is 'dynamo'"):
        irkit.to_onnx(torch.sin, (torch.randn(3),), capture="dynamo")


def test_direct_runs_in_threads_side_by_side() -> None:
    found: list[Any] = []

    def capture() -> None:
        found.append(lower(torch.nn.Linear(4, 4), (torch.randn(3, 4),), dynamic_shapes=N, capture="direct"))

    threads = [threading.Thread(target=capture) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(len(graph) == len(found[0]) for graph in found)


@pytest.mark.parametrize("name", ["llama_cache", "bert", "vit_any_size", "whisper_step"])
def test_direct_agrees_with_eager_on_models(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    model, args, kwargs = case.build()
    program = irkit.to_onnx(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, capture="direct")
    for sizes in (case.traced, *case.assignments[:2]):
        assert measured(program, case, sizes)[2] == ""
