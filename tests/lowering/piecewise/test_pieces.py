"""A model piece by piece: its tree, the trials, what stands for what fails."""

from __future__ import annotations

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import irkit
import lowering
from lowering import Status
from lowering.errors import CaptureError
from lowering.piecewise.exported import Exported
from lowering.piecewise.pieces import Piece
from lowering.piecewise.shown import as_text
from tests.lowering.piecewise.models import Block, Calling, Chain, Remembering, Strided

FAILING = ("layers.0.halved", "layers.1.halved", "layers.2.halved", "kept")


@cache
def tree() -> Piece:
    torch.manual_seed(0)
    return lowering.pieces(Chain().eval(), [(torch.randn(6, 8),), (torch.randn(9, 8),)])


@cache
def exported(strategy: str = "only_if_failing", exporter: str = "irkit") -> Exported:
    return tree().export(strategy=strategy, exporter=exporter)


def test_the_tree_has_every_module_with_types_and_names_of_what_varies() -> None:
    assert [piece.name for _, piece in tree().walk()][:6] == [
        "",
        "layers.0",
        "layers.0.norm",
        "layers.0.halved",
        "layers.0.halved.inner",
        "layers.0.out",
    ]
    assert len(tree()) == 18 and tree()["layers.1"].kind == "module"
    assert tree()["layers.1.halved"].inputs == (("x", "float32[batch, 8]"),)
    assert tree()["kept"].outputs == (("output", "float32[?, 8]"),)
    assert tree().names == {"batch": (6, 9)} and len(tree()["head"].calls) == 2
    assert json.loads(json.dumps(tree().asdict()))["children"][0]["name"] == "layers.0"
    with pytest.raises(KeyError):
        tree()["absent"]


def test_one_run_lists_all_that_fail_and_exports_what_is_around_them() -> None:
    found = exported()
    assert tuple(each.name for each in found.failing) == FAILING
    assert [each.like for each in found.failing] == ["", "layers.0.halved", "layers.0.halved", ""]
    assert found.status == Status.OK | Status.CHILDREN and found.opaque == FAILING and not found
    assert {v.op.partition("_")[0] for v in found.program.ready.order if "::" in v.op} == {"irkit"}
    blamed = found["layers.0.halved"]
    assert "numpy" in blamed.reason and "models.py" in blamed.line and blamed.step == "capture"
    assert blamed.status == Status.FAIL | Status.CUSTOM and found["layers.0.norm"].status == Status.OK
    assert found["layers.1"].status == Status.OK | Status.CHILDREN | Status.COVERED
    assert [dict(run.sizes) for run in found.runs] == [{"batch": 6}, {"batch": 9}]
    assert found.discrepancies["head"] and max(found.discrepancies[""]) < 1e-5


def test_the_opaque_operators_compute_what_eager_computes_for_other_inputs_and_go_away_again() -> None:
    found = exported()
    x = torch.randn(4, 8)
    with torch.no_grad():
        expected = tree().owner(x)
    assert torch.allclose(found.program(x), expected, atol=1e-5)
    assert not any(name.startswith("piece_") for name in dir(torch.ops.irkit_pieces))
    assert all("forward" not in vars(module) for module in tree().owner.modules())


@pytest.mark.parametrize(
    ("strategy", "status", "children"),
    [
        ("none", Status.FAIL, {"layers.0.halved": Status.FAIL, "head": Status.OK}),
        ("always", Status.OK | Status.CHILDREN, {"layers.0": Status.CUSTOM, "head": Status.CUSTOM}),
        ("local", Status.OK | Status.CHILDREN, {"layers.0": Status.OK | Status.CHILDREN, "kept": Status.FAIL}),
    ],
)
def test_strategies(strategy: str, status: Status, children: dict[str, Status]) -> None:
    found = exported(strategy)
    assert found.status == status and {name: found[name].status for name in children} == children


def test_a_strategy_is_chosen_by_name_or_class() -> None:
    found = tree().export(strategy={Block: "always", "kept": "always"}, check=False)
    assert found.status == Status.OK | Status.CHILDREN and set(found.opaque) == {
        "layers.0",
        "layers.1",
        "layers.2",
        "kept",
    }
    assert not found.failing and not found.runs


def test_torch_export_is_another_exporter_and_so_is_a_function() -> None:
    found = exported(exporter="torch.export")
    assert tuple(each.name for each in found.failing) == FAILING and found.status == Status.OK | Status.CHILDREN
    seen: list[Any] = []

    def mine(module: Any, args: Any, kwargs: Any, shapes: Any) -> Any:
        seen.append(shapes)
        return module

    assert tree().export(exporter=mine) and seen == [{"x": {0: torch.export.Dim.DYNAMIC}}]


def test_wrong_numbers_are_found_where_they_come_from() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Hardswish(), nn.Linear(4, 4)), nn.Tanh()).eval()
    root = lowering.pieces(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    wrong = {torch.ops.aten.hardswish: lambda self: irkit.op.Mul(self, irkit.op.HardSigmoid(self))}
    found = root.export(converters=wrong)
    assert [each.name for each in found.failing] == ["1.0"] and found["1.0"].status & Status.DIFFERS
    assert found["1.0"].step == "compare" and "elements differ" in found["1.0"].reason
    assert found.status == Status.OK | Status.CHILDREN and len(found.runs) == 3


def test_what_passes_needs_one_trial() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3))).eval()
    found = lowering.pieces(model, (torch.randn(3, 4),)).export()
    assert found and [each.seconds > 0 for _, each, _ in found.walk()] == [True] + [False] * 9
    assert found["1.0"].status == Status.OK | Status.COVERED


def test_arguments_that_a_piece_changes_are_changed_by_its_operator() -> None:
    calls = [(torch.randn(2, 3), [torch.randn(2, 5)]), (torch.randn(4, 7), [torch.randn(4, 6)])]
    found = lowering.pieces(Remembering(), calls).export()
    assert [each.name for each in found.failing] == ["growing"] and found.status == Status.OK | Status.CHILDREN
    assert [run.problem for run in found.runs] == ["", ""]


def test_functions_with_rest_arguments_and_keywords_are_pieces() -> None:
    calls = [((torch.randn(n, 8), torch.randn(n, 8)), {"scale": 2.0}) for n in (3, 5)]
    root = lowering.pieces(Calling().eval(), calls, functions=True)
    assert [piece.name for _, piece in root.walk()] == ["", "inner", "doubled()"]
    assert len(root["doubled()"].calls) == 4 and root["doubled()"].kind == "function"
    found = root.export()
    assert [each.name for each in found.failing] == ["doubled()"]


def test_sizes_of_results_are_told_by_those_of_arguments() -> None:
    calls = [
        (torch.randn(b, s, 4), torch.randn(b, p, 4), torch.ones(b, s + p))
        for b, s, p in ((2, 3, 5), (3, 4, 9), (5, 7, 6))
    ]
    root = lowering.pieces(Strided(), calls)
    assert root.inputs[-1] == ("mask", "float32[batch, x_1 + past_1]")
    texts = [text for _, text in root.outputs]
    assert texts[0] == "float32[batch, x_1 + past_1, 4]" and "?" not in texts[3]


def test_a_method_and_what_is_left_out() -> None:
    class Coding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).relu()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.encode(x) + 1

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.coding, self.rest = Coding(), nn.Sequential(nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.rest(self.coding(x))

    root = lowering.pieces(Whole().eval(), (torch.randn(2, 4),), methods={"Coding": "encode", "rest": ""})
    assert [(piece.name, piece.kind) for _, piece in root.walk()] == [
        ("", "module"),
        ("coding", "method"),
        ("coding.layer", "module"),
    ]
    assert root.export()["coding"].status == Status.OK | Status.COVERED
    assert root["coding"].export().program(torch.ones(2, 4)).shape == (2, 4)


def test_text_is_aligned_and_coloured_on_demand_and_the_page_escapes() -> None:
    text = str(exported())
    header = next(line for line in text.splitlines() if line.startswith("piece"))
    rows = [line for line in text.splitlines() if "Linear" in line]
    assert len({line.index("Linear") for line in rows}) == 1 and rows[0].index("Linear") == header.index("type")
    assert "\x1b[" not in text and "\x1b[" in as_text(exported().shown(), color=True)
    page = exported().page()
    assert page.count("<tr") > len(tree()) and "<script" not in page and "&#x27;" in page and "kept" in page
    assert "halved" in tree().page()
    assert json.loads(exported().json())["children"][0]["children"][1]["status"] == ["FAIL", "CUSTOM"]


def test_the_script_of_a_piece_fails_alone(tmp_path: Path) -> None:
    path = exported()["layers.0.halved"].save_script(tmp_path)
    with pytest.raises(CaptureError, match="numpy"):
        runpy.run_path(str(path))
    compile(exported(exporter="torch.export")["kept"].script, "script", "exec")


def test_what_cannot_be_done_says_what_to_try(tmp_path: Path) -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(x.numpy())

    model = Local()
    found = lowering.pieces(model, torch.randn(2)).export()
    with pytest.raises(CaptureError, match="cannot be written") as told:
        found.save_script(tmp_path)
    assert "imported" in told.value.hint and not list(tmp_path.iterdir())
    for wrong in ([], [3], 7):
        with pytest.raises(CaptureError, match="the calls of Local"):
            lowering.pieces(model, wrong)
    with pytest.raises(CaptureError, match="no strategy"):
        tree().export(strategy="sometimes")
    with pytest.raises(CaptureError, match="no exporter"):
        tree().export(exporter="tf")
    with pytest.raises(CaptureError):
        tree().export(quiet=False, strategy="none")
