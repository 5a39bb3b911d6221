"""Direct capture: programs that are run once on traced tensors give what eager gives, or are refused with the line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import sympy
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.utils.checkpoint import checkpoint

import irkit
from irkit import dims
from lowering import lower
from lowering.capture.guards.comparisons import as_one_comparison, in_lowest_terms
from lowering.errors import CaptureError, LoweringError
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_direct_refuses_sizes_at_which_a_transposed_convolution_gives_nothing(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv_transpose1d(x, weight, None, 2, 1, 1, 1, 2)

    def given(size: int, kernel: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(1, 1, size).to(dtype), torch.randn(1, 1, kernel).to(dtype)

    program = exported(function, *given(4, 4), dynamic_shapes=({2: "n"}, {2: "k"}))
    for sizes in ((2, 1), (1, 2), (3, 5)):
        torch.testing.assert_close(program(*given(*sizes)).shape, function(*given(*sizes)).shape)
    with pytest.raises(irkit.ContractError, match=r"2\*k \+ 2\*n - 4 >= 1"):
        program(*given(1, 1))


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


def test_auto_goes_by_torch_export_where_direct_capture_does_not_meet_something() -> None:
    def product(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(a, x)

    args = torch.eye(3).to_sparse(), torch.randn(3, 2)
    program = irkit.to_onnx(product, args, capture="auto")
    torch.testing.assert_close(program(*args), product(*args))
    assert program.report.capture == "torch.export, non-strict"
    (note,) = program.report.notes
    assert "torch.sparse_coo is not met by direct capture" in note
    assert irkit.to_onnx(torch.sin, (torch.ones(3),), capture="auto").report.capture == "traced directly"


def test_auto_tells_at_once_what_the_model_or_the_call_is_wrong_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: Any, **__: Any) -> Any:
        raise AssertionError("torch.export was tried")

    def raising(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] == 4:
            raise ValueError("not four")
        return x

    def fixing(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 3 else x - 1

    monkeypatch.setattr(torch.export, "export", refusing)
    for function, said in ((raising, "raising raises ValueError: not four"), (fixing, "the model works for 3 only")):
        with pytest.raises(CaptureError, match=said):
            irkit.to_onnx(function, (torch.randn(3, 4),), dynamic_shapes=N, capture="auto")
    with pytest.raises(CaptureError, match="do not fit"):
        irkit.to_onnx(fixing, (torch.randn(3, 4), 2), capture="auto")


def test_direct_checks_what_a_body_asserts_of_its_own_numbers() -> None:
    def limited(x: torch.Tensor, limit: int) -> Any:
        def step(i: Any, x: Any) -> Any:
            torch._check(i < limit)
            return i + 1, x * 2

        return while_loop(lambda i, x: i < 3, step, (0, x))

    x = torch.ones(4)
    assert irkit.to_onnx(limited, (x, 3), capture="direct")(x, 3)[1].tolist() == [8, 8, 8, 8]
    with pytest.raises(LoweringError, match=r"would refuse the very example .* in every round: u\d <= 1"):
        irkit.to_onnx(limited, (x, 2), capture="direct")

    def branching(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def asserting(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            torch._check(mask.sum().item() % 2 == 0)
            return x * 2

        return torch.cond(x.sum() > 0, asserting, lambda x, mask: x - 1, (x, mask))

    even, odd = torch.tensor([True, True, False, False]), torch.tensor([True, False, False, False])
    program = irkit.to_onnx(branching, (x, even), capture="direct")
    assert program(-x, odd).tolist() == [-2] * 4
    with pytest.raises(irkit.ContractError, match=r"in the branch that is taken: u\d % 2 == 0"):
        program(x, odd)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[2:-2].max(),
        lambda x: x[-4:4].amax((0, 1)),
        lambda x: x[3:].mode(0).values,
        lambda x: torch.nn.functional.interpolate(x.T[None], scale_factor=0.4),
    ],
)
def test_direct_refuses_what_is_empty_where_eager_does(function: Any) -> None:
    program = exported(function, torch.randn(6, 4))
    for size in range(10):
        x = torch.randn(size, 4)
        try:
            expected = function(x)
        except (IndexError, RuntimeError):
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        try:
            torch.testing.assert_close(program(x), expected)
        except irkit.ContractError:
            assert size < 5


def test_direct_computes_with_floats_out_of_data_and_with_what_they_are_rounded_to() -> None:
    def scaled(x: torch.Tensor) -> Any:
        value = x.max().item()
        return x * value, x.double() + value, x * int(value * 2)

    x = torch.tensor([0.5, 1.25, 2.75])
    program = irkit.to_onnx(scaled, (x,), capture="direct")
    torch.testing.assert_close(program(x * 3), scaled(x * 3))


def test_direct_refuses_to_make_one_tensor_another() -> None:
    def swapped(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        first = y[:1]
        y.data = x
        return y + first

    with pytest.raises(CaptureError, match=r"an assignment to Tensor.data"):
        exported(swapped, torch.randn(3, 4))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.scaled_dot_product_attention(*[x[None, :, : x.shape[1] - 2]] * 3),
        lambda x: torch.nn.functional.scaled_dot_product_attention(x[None, :, :0], x[None, :, :0], x[None]),
        lambda x: torch.cat([x[:, :0], x.new_zeros(1, 0)]).index_put_((torch.tensor([9]),), x.new_ones(())),
        lambda x: x[:0].chunk(3),
        lambda x: x[:, :0].split(0, 1),
        lambda x: (x * 1).chunk(2),
    ],
)
def test_direct_computes_with_nothing_as_eager_does(function: Any) -> None:
    program = irkit.to_onnx(function, (torch.randn(4, 4),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    for size in (4, 2, 0):
        x = torch.randn(size, 4)
        torch.testing.assert_close([*program(x)], [*function(x)])


@pytest.mark.parametrize("capture", ["auto", "direct"])
def test_what_eager_refuses_is_refused_in_its_words_and_logs_nothing(
    capture: str, capfd: pytest.CaptureFixture[str]
) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    with pytest.raises(CaptureError) as caught:
        irkit.to_onnx(Model(), (torch.randn(2, 5),), capture=capture)
    assert caught.value.what == "Model raises RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x5 and 3x4)"
    assert "return self.inner(x)" in caught.value.source
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (lambda x: x.diagonal(), lambda x: x),
        (lambda x: x[:, :1], lambda x: x),
        (lambda x: x[:, :-1], lambda x: x[:, 1:]),
        (lambda x: x.t(), lambda x: x),
    ],
)
def test_direct_refuses_to_read_at_other_places_what_it_writes(read: Any, written: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        written(y).add_(read(y))
        return y

    # where torch refuses it, too, its own words say so
    said = "reads a part of the tensor that it writes|raises RuntimeError: unsupported operation: some elements"
    with pytest.raises(irkit.IrkitError, match=said):
        irkit.to_onnx(function, (torch.randn(4, 4),), capture="direct")


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (lambda x: x, lambda x: x),
        (lambda x: x[:, 1::2], lambda x: x[:, ::2]),
        (lambda x: x[:, :1], lambda x: x[:, 1:]),
        (lambda x: x[x.shape[0] - x.shape[0] // 2 :], lambda x: x[: x.shape[0] // 2]),
    ],
)
def test_direct_reads_at_the_same_places_or_beside_what_it_writes(read: Any, written: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        written(y).add_(read(y))
        return y

    program = exported(function, torch.randn(4, 4))
    for size in (4, 5, 1, 0):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), function(x))


def test_direct_tells_how_many_bags_there_are_by_no_example() -> None:
    bag = torch.nn.EmbeddingBag(20, 8, mode="max")
    program = irkit.to_onnx(
        bag, (torch.randint(0, 20, (3, 8)),), dynamic_shapes=({0: "bags", 1: "seq"},), capture="direct"
    )
    for shape in ((3, 8), (0, 4), (1, 1), (8, 3)):
        rows = torch.randint(0, 20, shape)
        torch.testing.assert_close(program(rows), bag(rows))


def test_sizes_are_read_as_later_conditions_leave_them() -> None:
    """A slice of one row is met before an operator asks that there is one; in bodies, too."""

    def model(x: torch.Tensor) -> torch.Tensor:
        first = torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x[:1],))
        return first + x.amax(0)

    program = irkit.to_onnx(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    bodies = [inner for value in program.graph.order for body in value.bodies for inner in body.order]
    assert not [value for value in (*program.graph.order, *bodies) if "min" in repr(value.type)]
    assert program.check(3) and str(program.graph.symbols["n"]) == "[1, inf]"


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_written_input_that_shares_memory_with_another_is_refused(capture: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    whole = torch.arange(12.0).reshape(4, 3)
    program = irkit.to_onnx(function, (whole[:2].clone(), whole[2:].clone()), capture=capture)
    for x, y in ((whole[:2], whole[1:3]), (whole[:2], whole[:2]), (whole[1:3], whole[:2])):
        with pytest.raises(irkit.ContractError, match=r"writes into x, which shares memory with y.*\n.*y.clone"):
            program(x, y)
    for x, y in ((whole[:2], whole[2:]), (whole[::2], whole[1::2]), (whole[:2], whole[:2].clone())):
        torch.testing.assert_close(program(x.clone(), y), y * 2)
        torch.testing.assert_close(program(x, y), y * 2)


@pytest.mark.parametrize("asked", [(False, False), (True, False), (False, True), (True, True)])
def test_runs_of_a_vector_along_its_axis_are_those_of_its_elements(asked: tuple[bool, bool]) -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.ops.aten.unique_consecutive(x, *asked, 0)

    program = exported(function, torch.tensor([3, 3, 1, 1, 3]))
    for numbers in ([2, 2, 2, 5], [1, 1, 1, 1, 1, 1, 1]):
        given = torch.tensor(numbers)
        for found, expected in zip(program(given), function(given), strict=True):
            torch.testing.assert_close(found, expected)


def test_sizes_are_asked_what_is_known_of_them_without_a_question() -> None:
    """By the gradient of unfold, of which istft is made, where it looks whether its windows overlap."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.istft(x, 10, window=torch.ones(10), center=True, normalized=True)

    x = torch.randn(2, 6, 8, dtype=torch.complex64)
    program = exported(function, x, dynamic_shapes=({2: "frames"},))
    longer = torch.randn(2, 6, 11, dtype=torch.complex64)
    torch.testing.assert_close(program(longer), function(longer))


def test_what_a_reshape_fixes_is_listed_as_torch_export_lists_it() -> None:
    def stubborn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.reshape(4, 6) + y.reshape(5).sum()

    given, said = (torch.randn(6, 4), torch.randn(5)), {"x": {0: "rows"}, "y": {0: Dim.AUTO}}
    reports = [
        irkit.to_onnx(stubborn, given, dynamic_shapes=said, specialization="report", capture=way).report
        for way in ("direct", "torch.export")
    ]
    assert reports[0].fixed == reports[1].fixed and len(reports[0].fixed) == 2
    with pytest.raises(CaptureError, match="dimension 0 of 'x' was to vary as 'rows', and the model works for 6 only"):
        irkit.to_onnx(stubborn, given, dynamic_shapes=said, capture="direct")


def test_a_strided_row_may_be_missing_with_those_that_it_is_added_to() -> None:
    program = irkit.to_onnx(
        lambda x, y: x + y[::2], (torch.randn(3, 4), torch.randn(5, 4)), dynamic_shapes=({0: "n"}, {0: "m"}),
        capture="direct",
    )  # fmt: skip
    assert [text for text, _ in program.report.guards] == ["(m == 1) or (n == (m + 1) // 2)"]
    assert program(torch.randn(0, 4), torch.randn(0, 4)).shape == (0, 4)


def test_the_element_type_of_an_einsum_is_that_of_the_example() -> None:
    given = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    program = irkit.to_onnx(
        lambda x, y: torch.einsum("ij,k->ik", x, y[0]), (given, given), dynamic_shapes=({1: "n"}, {}), capture="direct"
    )
    assert [text for text, _ in program.report.guards] == ["n != 1"] and program.check(2)


SIZE = dims.symbol("n")
ALTERNATIVES: list[tuple[list[Any], Any]] = [
    ([sympy.Eq(SIZE, 0), sympy.Eq(SIZE, 1), in_lowest_terms(sympy.Ge(2 * SIZE, 4))], sympy.true),
    ([sympy.Eq(SIZE, 1), sympy.Gt(SIZE, 1)], sympy.Ge(SIZE, 1)),
    ([sympy.Eq(SIZE, 0), sympy.Ge(SIZE, 3)], sympy.Or(sympy.Eq(SIZE, 0), sympy.Ge(SIZE, 3))),
    ([sympy.Eq(SIZE, 0), sympy.Ne(SIZE, 0)], sympy.true),
]


@pytest.mark.parametrize(("parts", "simple"), ALTERNATIVES, ids=str)
def test_alternatives_are_said_as_one_comparison_where_they_are(parts: list[Any], simple: Any) -> None:
    assert as_one_comparison(sympy.Or(*parts)) == simple
