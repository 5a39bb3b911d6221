"""The fold: mutation as values, nested structures, sizes, control flow, names, errors; checked on ONNX Runtime."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.doors.to_onnx import to_onnx
from irkit.verification.laws import verify
from lowering import lower
from lowering.errors import LoweringError, MissingConverters
from lowering.program.check import run
from lowering.program.program import Program


class Plain(torch.nn.Module):
    """A function as a module, so that a check can run it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def agrees(model: Any, args: tuple[Any, ...], *others: tuple[Any, ...], **options: Any) -> Program:
    """The program of a model, which gives what eager gives on the example and on other inputs."""
    module = model if isinstance(model, torch.nn.Module) else Plain(model)
    program = to_onnx(module.eval(), args, **options)
    verify(program.graph)
    verify(program.ready)
    for inputs in (args, *others):
        report = run(program, inputs, {}, rtol=1e-5)
        assert not report.problem, report.problem
    return program


# ---------------------------------------------------------------------------------------------- writes through views


def write_slice(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:3] = 0
    return y


def write_row(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1].mul_(2)
    return y + 1


def write_negative_row(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[-1] = y[0]
    return y


def write_step(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[::2, 1::3] += 5
    return y


def write_transposed(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.t()[2].relu_()
    return y


def write_diagonal(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.diagonal().fill_(7)
    return y


def write_reshaped(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.view(-1)[3:5].neg_()
    return y


def write_chain(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    view = y.transpose(0, 1)[1:4]
    view[:, 0] = -1
    y.add_(1)
    return y + view.sum()


def write_chunk(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    first, second = y.chunk(2, dim=1)
    second.add_(first)
    return y * 2


def write_unsqueezed(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.unsqueeze(0).squeeze(0).expand(x.shape[0], 6).copy_(torch.ones(6))
    return y


def write_index_put(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[torch.tensor([0, 2]), torch.tensor([1, 3])] = 9.0
    y.index_put_((torch.tensor([0, 0]),), torch.ones(2, 6), accumulate=True)
    return y


def write_mask(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[y > 0] = 0.5
    y.masked_fill_(y < -1, 3.0)
    return y


def read_before_and_after(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    before = y * 1
    y.mul_(3)
    return before, y


def write_region(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    with torch.no_grad():
        y[0] = 1
        z = y * 2
    y.sub_(1)
    return y + z


WRITES = [
    write_slice, write_row, write_negative_row, write_step, write_transposed, write_diagonal, write_reshaped,
    write_chain, write_chunk, write_unsqueezed, write_index_put, write_mask, read_before_and_after, write_region,
]  # fmt: skip


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_a_write_through_a_view_reaches_what_it_views(function: Callable[..., Any]) -> None:
    agrees(function, (torch.randn(4, 6),))


@pytest.mark.parametrize("function", [f for f in WRITES if f is not write_diagonal], ids=lambda f: f.__name__)
def test_a_write_through_a_view_with_a_dynamic_dimension(function: Callable[..., Any]) -> None:
    agrees(function, (torch.randn(5, 6),), (torch.randn(9, 6),), (torch.randn(3, 6),), dynamic_shapes=(({0: "rows"},),))


# ---------------------------------------------------------------------------------------------- state


class Counter(torch.nn.Module):
    count: torch.Tensor
    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.scale + self.count


def test_a_written_buffer_is_a_parameter_and_a_result() -> None:
    program = to_onnx(Counter(), (torch.ones(2, 3),))
    ports = program.graph.signature
    assert [(p.name, p.role) for p in ports.params] == [("count", "state"), ("x", "input")]
    assert [(p.name, p.role, p.binds) for p in ports.results][1:] == [("count_out", "state", "count")]
    first, state = program.run((torch.ones(2, 3),))
    second, state = program.run((torch.ones(2, 3),), state=state)
    eager = Counter()
    torch.testing.assert_close(first, eager(torch.ones(2, 3)))
    torch.testing.assert_close(second, eager(torch.ones(2, 3)))
    torch.testing.assert_close(state["count"], eager.count)


def test_a_written_input_is_a_result_too() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.sum()

    program = to_onnx(Plain(double), (torch.ones(2, 3),))
    assert [p.role for p in program.graph.signature.results] == ["output", "state"]
    result, state = program.run((torch.ones(2, 3),))
    assert float(result) == 12.0
    torch.testing.assert_close(next(iter(state.values())), torch.full((2, 3), 2.0))


# ---------------------------------------------------------------------------------------------- control flow


def test_cond_becomes_if() -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))

    program = agrees(
        choose, (torch.ones(3, 4),), (-torch.ones(3, 4),), (torch.ones(5, 4),), dynamic_shapes=(({0: "n"},),)
    )
    assert "If" in {v.op for v in program.graph.order}


def test_nested_cond_with_captured_tensors() -> None:
    def choose(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        def positive(t: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
            return torch.cond(t.sum() > 10, lambda a, b: a @ b, lambda a, b: a - b.sum(), (t, u))

        return torch.cond(x.sum() > 0, positive, lambda a, b: a * 3, (x, w))

    big, small, negative = torch.full((4, 4), 2.0), torch.full((4, 4), 0.1), -torch.ones(4, 4)
    w = torch.randn(4, 4)
    agrees(choose, (big, w), (small, w), (negative, w))


def test_scan_becomes_scan() -> None:
    from torch._higher_order_ops.scan import scan

    def running(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scan(lambda carry, row: (carry + row, (carry * row).clone()), torch.zeros(3), x)

    program = agrees(running, (torch.randn(5, 3),))
    assert "Scan" in {v.op for v in program.graph.order}


def test_while_loop_becomes_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def grow(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return while_loop(lambda n, v: n < 5, lambda n, v: (n + 1, v * 2 + n), (i, x))

    program = agrees(grow, (torch.tensor(0), torch.randn(3)), (torch.tensor(7), torch.randn(3)))
    assert "Loop" in {v.op for v in program.graph.order}


# ---------------------------------------------------------------------------------------------- sizes


def test_data_dependent_sizes_reach_the_result() -> None:
    def positive(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = x.nonzero()
        return found, torch.zeros(found.shape[0], 2)

    agrees(positive, (torch.tensor([1.0, 0.0, 2.0]),), (torch.tensor([0.0, 0.0, 0.0]),), (torch.ones(3),))


def test_a_number_read_from_a_tensor_is_a_size() -> None:
    def repeated(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        count: Any = n.item()
        torch._check(count >= 0)
        torch._check(count < 100)
        return x.new_ones(count, 2)

    agrees(repeated, (torch.randn(2), torch.tensor(3)), (torch.randn(2), torch.tensor(7)))


def test_size_arithmetic_emits_no_nodes() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0] // 2 * 2
        return x[:n].reshape(n // 2, 2, x.shape[1]).sum(1)

    program = agrees(
        halves, (torch.randn(6, 3),), (torch.randn(7, 3),), (torch.randn(11, 3),), dynamic_shapes=(({0: "n"},),)
    )
    assert not {v.op for v in program.graph.order} & {"Shape", "Gather", "Div", "Mul"}


def test_a_size_is_a_result() -> None:
    def size(x: torch.Tensor) -> dict[str, Any]:
        return {"rows": x.shape[0] * 2, "x": x + 1}

    agrees(size, (torch.randn(3, 2),), (torch.randn(8, 2),), dynamic_shapes=(({0: "n"},),))


# ---------------------------------------------------------------------------------------------- names


def test_names_of_parameters_inputs_and_dimensions_reach_the_file() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    program = to_onnx(model, (torch.randn(2, 3),), dynamic_shapes=({0: "batch"},), output_names=["y"])
    proto = program.proto
    assert {"0.weight", "0.bias", "1.weight", "1.bias"} <= {i.name for i in proto.graph.initializer}
    assert [i.name for i in proto.graph.input] == ["input"]
    assert [o.name for o in proto.graph.output] == ["y"]
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.parametrize("name", ["relu", "weight", "linear", "add", "x_1"])
def test_an_output_may_have_the_name_of_anything_inside(name: str) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, self.weight).relu() + x.relu()

    program = agrees(Model(), (torch.randn(2, 3),), output_names=[name])
    assert [o.name for o in program.proto.graph.output] == [name]


def test_an_output_name_that_an_input_has_is_refused() -> None:
    with pytest.raises(LoweringError, match="taken by an input"):
        to_onnx(torch.nn.ReLU(), (torch.randn(2),), output_names=["input"])


def test_tied_weights_are_one_constant() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(7, 4)
            self.head = torch.nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids))

    program = agrees(Tied(), (torch.tensor([1, 2]),))
    assert sum(i.dims == [7, 4] for i in program.proto.graph.initializer) == 1


def test_every_value_knows_where_it_came_from() -> None:
    graph = lower(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU()), (torch.randn(2, 3),))
    for value in graph.order:
        if value.op not in ("Param", "Constant"):
            assert value.origin.node
            assert value.origin.source


# ---------------------------------------------------------------------------------------------- errors


@torch.library.custom_op("irkit_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("irkit_test::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@thrice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_all_missing_operators_are_listed_at_once() -> None:
    with pytest.raises(MissingConverters) as caught:
        lower(Plain(lambda x: twice(thrice(x)) + twice(x)), (torch.randn(3),))
    assert caught.value.missing == (("irkit_test.twice.default", 2), ("irkit_test.thrice.default", 1))
    assert "converters=" in str(caught.value)


def test_a_converter_of_the_users_own() -> None:
    def convert(x: irkit.Value) -> irkit.Value:
        return irkit.op.Mul(x, 2.0)

    agrees(Plain(lambda x: twice(x) + 1), (torch.randn(3),), converters={torch.ops.irkit_test.twice.default: convert})


def test_a_wrong_converter_is_caught_where_it_errs() -> None:
    def convert(x: irkit.Value) -> irkit.Value:
        return irkit.op.Cast(irkit.op.Transpose(x, perm=[1, 0]), to=irkit.DType.DOUBLE)

    with pytest.raises(LoweringError) as caught:
        lower(
            Plain(lambda x: twice(x) + 1),
            (torch.randn(3, 4),),
            converters={torch.ops.irkit_test.twice.default: convert},
        )
    assert "f64[4, 3]" in str(caught.value)
    assert "f32[3, 4]" in str(caught.value)
    assert "test_lower.py" in str(caught.value)


def test_strict_refuses_decompositions() -> None:
    model = Plain(lambda x: torch.special.entr(x))
    program = to_onnx(model, (torch.rand(3),))
    if program.report.decomposed:
        with pytest.raises(MissingConverters, match="strict"):
            lower(model, (torch.rand(3),), strict=True)


# ---------------------------------------------------------------------------------------------- the contract


def branching(x: torch.Tensor, n: int = 3) -> torch.Tensor:
    if x.shape[0] > 8:
        return x * n
    return x + n


def test_a_guard_is_a_fact_and_is_enforced() -> None:
    program = to_onnx(branching, (torch.randn(4, 2),), dynamic_shapes={"x": {0: "b"}})
    torch.testing.assert_close(program(torch.ones(8, 2)), torch.full((8, 2), 4.0))
    with pytest.raises(irkit.errors.ContractError, match="b"):
        program(torch.ones(9, 2))


def test_a_baked_scalar_is_a_fact_and_is_enforced() -> None:
    program = to_onnx(branching, (torch.randn(4, 2), 3))
    assert "n == 3" in str(program.report)
    with pytest.raises(irkit.errors.ContractError, match="baked"):
        program(torch.ones(4, 2), 5)


def test_a_relation_between_dimensions_is_enforced() -> None:
    def halves(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y[::2]

    program = to_onnx(halves, (torch.randn(3), torch.randn(6)), dynamic_shapes={"x": {0: "a"}, "y": {0: "b"}})
    torch.testing.assert_close(program(torch.ones(4), torch.ones(8)), torch.full((4,), 2.0))
    with pytest.raises(irkit.errors.ContractError):
        program(torch.ones(1), torch.ones(12))


def test_a_wrong_dtype_rank_or_structure_is_refused() -> None:
    program = to_onnx(torch.nn.ReLU(), (torch.randn(2, 3),))
    for wrong in (torch.randn(2, 3).double(), torch.randn(2, 3, 1), torch.randn(5, 3)):
        with pytest.raises(irkit.errors.ContractError):
            program(wrong)
    with pytest.raises(irkit.errors.IrkitError):
        program([torch.randn(2, 3)])


def test_a_converter_of_the_user_s_is_let_go_after_use() -> None:
    def converter(self: irkit.Value) -> irkit.Value:
        return irkit.op.Neg(self)

    graph = lower(torch.nn.ReLU(), (torch.randn(3),), converters={torch.ops.aten.relu: converter}, widen=False)
    assert [value.op for value in graph.order] == ["Param", "Neg"]
    known = weakref.ref(converter)
    del converter, graph
    gc.collect()
    assert known() is None
