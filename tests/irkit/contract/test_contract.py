"""The contract as JSON: what it says, and that a checker of thirty lines refuses just what `Program` refuses."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import irkit
from irkit import dims
from irkit.contract.as_json import contract_of, solved_symbol
from irkit.contract.sizes import check_sizes
from irkit.dims import notation
from irkit.dims.algebra import line_of
from irkit.doors.cli import app
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering.program.program import Program

PAGE = Path(__file__).parents[3] / "docs" / "understand" / "contract.md"


@cache
def checker() -> Any:
    """The function on the page."""
    (code,) = (b for b in re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text()) if "def refusal" in b)
    space: dict[str, Any] = {}
    exec(code.partition("def arrays_of")[0], space)
    return space["refusal"]


def doubled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x]) + y


def branching(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 5:
        return x.sum(0)
    if y.shape[0] == 1:
        return x.sum(0) * 3
    return x.mean(0) + y[: x.shape[0]].sum(0)


def strided(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch._check(x.shape[0] % 2 == 0)
    return x + y[::2]


def counted(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
    return x.reshape(-1, 2).sum(1) * (y.sum() + n) if n < 4 else x.sum()


def largest(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.max(0).values + y.sum(0)


MODELS: dict[str, tuple[Any, tuple[int, int], Any, tuple[str, ...]]] = {
    "doubled": (doubled, (3, 6), {"x": {0: "n"}, "y": {0: "2*n"}}, ()),
    "branching": (branching, (3, 6), {"x": {0: "n"}, "y": {0: "m"}}, ()),
    "strided": (strided, (4, 8), {"x": {0: "n"}, "y": {0: "m"}}, ()),
    "counted": (counted, (4, 3), {"x": {0: "n"}, "y": {0: "m"}}, ("n",)),
    "largest": (largest, (4, 3), {"x": {0: "n"}, "y": {0: "m"}}, ()),
    "one name": (strided, (4, 7), {"x": {0: "k + 1"}, "y": {0: "2*k + 1"}}, ()),
}


@cache
def program_of(name: str) -> Program:
    """The program of a model, and its numbers."""
    model, (a, b), shapes, numbers = MODELS[name]
    shapes = {key: dict(value) for key, value in shapes.items()}
    args = (torch.randn(a, 2), torch.randn(b, 2), *([3] if numbers else []))
    return to_onnx(model, args, dynamic_shapes=shapes, scalar_inputs=numbers)


@pytest.mark.parametrize("name", MODELS)
@given(data=st.data())
def test_the_checker_on_the_page_refuses_what_a_program_refuses(name: str, data: st.DataObject) -> None:
    program = program_of(name)
    contract = json.loads(json.dumps(program.contract()))
    small = st.integers(0, 12)
    x, y = torch.zeros(data.draw(small), 2), torch.zeros(data.draw(small), data.draw(st.sampled_from([2, 2, 2, 3])))
    numbers = [data.draw(st.integers(-2, 6))] if MODELS[name][3] else []
    arrays = {"x": x.numpy(), "y": y.numpy(), **{n: np.array(v) for n, v in zip(MODELS[name][3], numbers, strict=True)}}
    refused = checker()(contract, arrays)
    try:
        program.feeds((x, y, *numbers), {})
    except ContractError as error:
        assert refused is not None, error.what
    else:
        assert refused is None


@pytest.mark.parametrize("name", MODELS)
def test_what_is_accepted_agrees_with_torch(name: str) -> None:
    program = program_of(name)
    model, _, _, numbers = MODELS[name]
    accepted = 0
    for a in range(7):
        for b in range(10):
            args = (torch.randn(a, 2), torch.randn(b, 2), *([3] if numbers else []))
            try:
                result = program(*args)
            except ContractError:
                continue
            accepted += 1
            torch.testing.assert_close(result, model(*args), rtol=1e-5, atol=1e-5, equal_nan=True)
    assert accepted >= 2


def test_a_file_has_the_contract_of_its_program(tmp_path: Path) -> None:
    program = program_of("branching")
    path = program.save(tmp_path / "model.onnx")
    assert contract_of(irkit.load(path)) == program.contract()
    printed = CliRunner().invoke(app, ["contract", str(path)])
    assert printed.exit_code == 0
    assert json.loads(printed.output) == program.contract()


def test_the_command_line_names_dimensions_and_lists_what_is_fixed(tmp_path: Path) -> None:
    shapes = {"x": {0: torch.export.Dim.AUTO}, "y": None}
    exported = torch.export.export(torch.nn.Bilinear(2, 3, 4), (torch.ones(5, 2), torch.ones(5, 3)))
    varying = torch.export.export(Rows(), (torch.ones(5, 2), torch.ones(5, 3)), dynamic_shapes=shapes)
    for name, program in (("fixed", exported), ("varying", varying)):
        torch.export.save(program, tmp_path / f"{name}.pt2")

    def run(name: str, *options: str) -> Any:
        return CliRunner().invoke(
            app, ["export", str(tmp_path / f"{name}.pt2"), "-o", str(tmp_path / "m.onnx"), *options]
        )

    assert run("varying", "--dim", "x.0=rows", "--specialization", "error").exit_code == 0
    assert irkit.load(tmp_path / "m.onnx").params[0].shape == (irkit.symbol("rows"), 2)
    both = ("--dim", "input1.0=rows", "--dim", "input1.1=width", "--specialization")
    refused = run("fixed", *both, "error")
    assert refused.exit_code == 1
    assert "2 dimensions or numbers that were to vary are fixed by the model" in refused.output
    assert "dimension 1 of 'input1', which was to vary as 'width', is 2" in refused.output
    reported = run("fixed", *both, "report")
    assert reported.exit_code == 0
    assert "which was to vary as 'rows', is 5" in " ".join(reported.output.split())
    assert run("varying", "--dim", "x=rows").exit_code == 1


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum(0) + y.sum()


def test_a_graph_without_names_or_facts_has_a_contract() -> None:
    x = irkit.param(irkit.tensor("f32", 2, irkit.fresh(), irkit.symbol("n")))
    contract = contract_of(irkit.Graph((x,), (irkit.op.Relu(x),)))
    assert contract["inputs"] == [{"name": "input 0", "role": "input", "dtype": "float32", "shape": [2, None, "n"]}]
    assert contract["outputs"] == [{"dtype": "float32", "shape": [2, None, "n"]}]
    assert contract["bind"] == {"n": {"input": "input 0", "axis": 2, "value": "size"}}


def test_a_size_divided_by_a_symbol_says_nothing_of_it() -> None:
    n = dims.symbol("n")
    assert solved_symbol(dims.floordiv(8, n)) is None and solved_symbol(dims.mod(8, n)) is None
    assert solved_symbol(dims.add(dims.mul(2, n), 1)) == ("n", "(size - 1) // 2")


def test_state_binds_each_output_to_its_input() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))
            self.seen: torch.Tensor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x)
            return x * self.seen

    contract = to_onnx(Counter(), (torch.ones(2),)).contract()
    assert contract["state"] == [{"input": "seen", "output": "seen_out"}]
    assert [(entry["name"], entry["role"]) for entry in contract["inputs"]] == [("seen", "state"), ("x", "input")]


@pytest.mark.parametrize("text", ["n", "2*n + 1", "3*n", "n - 4", "7 - n", "n // 2", "n*n", "max(n, 2)", "n + m", "5"])
def test_a_runtime_and_the_page_of_a_contract_solve_the_same_lines(text: str) -> None:
    """One function says which dimensions are linear in a symbol: for numbers, and for the text that others compute."""
    dim = notation.parse(text)
    told = solved_symbol(dim)
    assert (told is None) is (line_of(dim) is None) is (dims.solve(dim, 9) is None)
    for number in range(9) if told else ():
        size = dims.evaluate(dim, {"n": number})
        assert told is not None and (told[0], eval(told[1], {"size": size})) == dims.solve(dim, size) == ("n", number)


def test_conditions_on_sizes_of_data_hold_of_sizes_that_they_are_said_to_equal() -> None:
    """A size that only the data tells is refused before ONNX Runtime meets it, where another is said to be the same."""
    graph = irkit.parse("""
graph sizes {
  symbol seq in [0, inf]
  input %x: f32[seq]
  fact guard "seq == u0" from "model.py:1"
  fact guard "u1 == u0" from "model.py:2"
  fact guard "u1 == 7" from "model.py:3"
  %0: f32[seq] = Relu(%x)
  return %0 as y
}
""")
    check_sizes(graph, {"seq": 7})
    with pytest.raises(ContractError, match=r"under the condition u1 == 7, which u1 = 5 breaks") as refused:
        check_sizes(graph, {"seq": 5})
    assert refused.value.source == "model.py:3"
