"""The table of architectures: what each verdict means, which axes are dynamic, what the page says."""

from __future__ import annotations

import faulthandler
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import torch

import irkit
from lowering.architectures.inputs import Sets
from tests.support.rows import rows_in
from tests.tables.architectures.__main__ import TABLE, jobs_of, key_of, options, sibling_costs, took_longer
from tests.tables.architectures.measure import GOOD, NOT_EAGER, Row, is_no_worse, no_worse, row_of, unlike
from tests.tables.architectures.page import page
from tests.tables.architectures.places import Place, line_at_work, places_in
from tests.tables.architectures.reasons import reason_of
from tests.tables.architectures.subject import Subject, sets_of
from tests.tables.architectures.tiny import by_name, sectioned
from tests.tables.architectures.transformers import built


class Told(torch.nn.Module):
    """A linear layer, and what a function makes of its result."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x))


def looped(x: torch.Tensor) -> torch.Tensor:
    """Sums over the tokens, one after the other, in a dict, of which nothing is computed by a loop."""
    found = {i: x[:, i].cumsum(0) for i in range(x.shape[1])}
    return torch.stack([*found.values()]).sum(0)


def accumulated(x: torch.Tensor) -> torch.Tensor:
    """Sums over the tokens, by a loop that can be computed."""
    total = torch.zeros_like(x[:, 0])
    for i in range(x.shape[1]):
        total = total + x[:, i].tanh()
    return total


def branched(x: torch.Tensor) -> torch.Tensor:
    """Another number for one token."""
    return x + 1 if x.shape[1] == 1 else x * 2


def divided(x: torch.Tensor) -> torch.Tensor:
    """Another number for larger batches."""
    return x + 1 if x.shape[0] > 2 else x * 2


def counted(x: torch.Tensor) -> torch.Tensor:
    """Results of as many tensors as a size says, up to two."""
    return torch.stack([x] * min(x.shape[0], 3)) if x.shape[0] > 2 else x


def calls(_: torch.nn.Module) -> Sets:
    """Calls at three sizes."""
    sizes = [{"batch": 2, "seq": 7}, {"batch": 3, "seq": 7}, {"batch": 5, "seq": 1}]
    return sets_of(lambda batch, seq: {"x": torch.randn(batch, seq, 4)}, sizes)


@pytest.mark.parametrize(
    ("function", "verdict", "problem"),
    [
        (torch.relu, "right", ""),
        (lambda x: x + torch.rand_like(x), "random", ""),
        (lambda x: torch.rand_like(x).argsort(1), "random", ""),
        (lambda x: x[torch.rand(len(x)) < 0.5], "random", ""),
        (branched, "rewritten", ""),
        (divided, "rewritten", ""),
        (counted, "refuses", "ContractError"),
        (accumulated, "rewritten", ""),
        (looped, "fixed", "dimension 1 of 'x' was to vary as 'seq'"),
        (lambda x: x.reshape(-1, 5), "no eager", "RuntimeError: shape"),
    ],
)
def test_a_verdict_says_what_became_of_a_model(function: Any, verdict: str, problem: str) -> None:
    row = row_of(Subject("here", "told", "", lambda: Told(function), calls))
    assert (row.verdict, problem in row.problem) == (verdict, True), row
    assert bool(row.line) is bool(problem)
    assert (row.seconds > 0 and row.nodes > 0) is (verdict != "no eager")
    if verdict == "fixed":
        assert row.sizes == 2 and "range(x.shape[1])" in row.line
    assert bool(problem) is bool(reason_of(attrs.asdict(row))[1]) or verdict in GOOD


def test_what_is_drawn_has_the_shapes_and_types_of_eager() -> None:
    """Whole numbers and sizes that are drawn may be any, all others not."""
    model = Told(lambda x: torch.rand_like(x).argsort(1)[torch.rand(len(x)) < 0.5])
    program: Any = irkit.to_onnx(model.eval(), (torch.randn(8, 4),), dynamic_shapes=({0: "batch"},))
    call = {"x": torch.randn(8, 4)}
    assert unlike(program, call) == ""

    class Other:
        """The same program with other results."""

        reference = model

        def __init__(self, change: Callable[[torch.Tensor], Any]) -> None:
            self.change = change

        def __call__(self, x: torch.Tensor) -> Any:
            return self.change(program(x))

    changes = (lambda y: y.int(), lambda y: y[:, 1:], lambda y: y.sum(0), lambda y: (y, y))
    said = [unlike(cast(Any, Other(change)), call) for change in changes]
    assert all(said) and "torch.int32" in said[0] and "2 tensors" in said[3]


def test_a_reason_names_what_stopped_a_model() -> None:
    """A line of irkit's own that was at work when time was over is no loop of the model."""
    row = {"source": "transformers", "name": "any", "verdict": "fails", "problem": "more than 25 CPU seconds"}
    assert reason_of({**row, "line": "core/ir.py:339 own = (w for v in self.order for w in v)"})[0] == "nobody"
    problem = "CaptureError: aten.mm cannot be met"
    assert reason_of({**row, "problem": problem, "line": "m.py:1 for expert in expert_hit:"})[0] == "the model"


def test_each_model_that_is_not_right_has_a_reason_with_a_line() -> None:
    """A time-out, or a line that was at work when an export ended, is not yet a reason."""
    rows = [row for row in rows_in(TABLE, key_of) if row["verdict"] not in (*GOOD, NOT_EAGER)]
    told = {row["name"]: reason_of(row) for row in rows}
    assert rows and not [name for name, (_, why) in told.items() if not re.search(r"\w\.py:\d+", why)], told
    assert {whose for whose, _ in told.values()} <= {"nobody", "the model", "transformers", "irkit"}


def test_axes_bear_the_names_of_sizes() -> None:
    def call(batch: int, seq: int, side: int) -> dict[str, Any]:
        return {"ids": torch.ones(batch, seq), "pair": [torch.ones(2, batch), torch.ones(side + 1, side + 1)], "n": 3}

    sets = sets_of(call, [{"batch": 2, "seq": 7, "side": 8}, {"batch": 3, "seq": 5, "side": 9}])
    pair = [{1: "batch"}, {0: "pair_1_0", 1: "pair_1_1"}]
    assert sets.dynamic_shapes == {"ids": {0: "batch", 1: "seq"}, "pair": pair, "n": None}
    assert list(sets.others) == ["batch=3 seq=5 side=9"]


def test_sizes_are_made_tiny_by_their_names() -> None:
    assert by_name("vision_vocab_size", 50000) == 99 and by_name("out_hidden_size", 4096) == 32
    assert by_name("depths", [2, 2, 18, 2]) == [1, 1, 1, 1] and by_name("num_channels", 3) == 3
    assert sectioned({"mrope_section": [16, 24, 24]}, 8)["mrope_section"] == [2, 1, 1]


def test_the_page_counts_and_tells() -> None:
    rows = [
        Row("here", "a", "text", "right", 3, 1e-6, 10, 0.5, 2.0),
        Row("here", "b", "text", "fails", problem="CaptureError: it", line="b.py:7 x"),
        Row("here", "c", "text", "no eager", problem="ValueError: it"),
    ]
    text = page([attrs.asdict(row) for row in rows], {"there": "no module"}, {"here": 2})
    assert "| here | 3 | 2 | 1 | 50.0 % | 0 | 2 | 0.5 (1 models) | 2.0 |" in text
    assert "b.py:7 x" in text and "there: no module" in text and "| irkit |  | 1 |" in text


@pytest.mark.parametrize(
    ("kind", "name", "shapes"),
    [
        ("llama4", "Llama4ForCausalLM", {"input_ids": (2, 3)}),  # a part, whose class takes its own configuration
        ("llava", "LlavaForConditionalGeneration", {"input_ids": (2, 23), "pixel_values": (2, 3, 32, 32)}),
        ("qwen2_vl", "Qwen2VLForConditionalGeneration", {"input_ids": (2, 11), "mm_token_type_ids": (2, 11)}),
        ("musicgen", "MusicgenForCausalLM", {"input_ids": (8, 7)}),  # a row for each codebook
        ("pix2struct_vision_model", "", {"flattened_patches": (2, 16, 770)}),
        ("decision_transformer", "DecisionTransformerModel", {"states": (2, 7, 17), "timesteps": (2, 7)}),
        ("granite_speech_encoder", "", {"hidden_states": (2, 7, 32)}),
        ("longcat_flash", "LongcatFlashForCausalLM", {"input_ids": (2, 3)}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_models_get_a_configuration_and_a_call_that_eager_takes(kind: str, name: str, shapes: dict[str, Any]) -> None:
    _, sets = built(kind, name)
    assert {each: tuple(sets.example[each].shape) for each in shapes} == shapes
    assert sets.others


def test_what_took_too_long_is_measured_again_with_more_time() -> None:
    for problem in ("more than 6 CPU seconds", "ContractError: seq; another way took more than 6 CPU seconds"):
        assert took_longer({"problem": problem}, 25.0)
        assert not took_longer({"problem": problem}, 6.0)
    assert not took_longer({"problem": ""}, 25.0)


def test_places_are_read_off_what_faulthandler_writes(tmp_path: Path) -> None:
    told = tmp_path / "stack"
    with told.open("w", encoding="utf-8") as file:
        faulthandler.dump_traceback(file)
    last = places_in(told.read_text(encoding="utf-8"))[-1]
    assert last.file == __file__ and last.function == "test_places_are_read_off_what_faulthandler_writes"


def test_the_line_of_the_model_is_told_of_a_stack() -> None:
    model = Place("/somewhere/site-packages/library/models/model.py", 7, "forward")
    ours = Place(str(Path(__file__).parents[2] / "passes" / "pipeline.py"), 1, "optimize")
    torchs = Place("/somewhere/site-packages/torch/nn/modules/linear.py", 3, "forward")
    assert line_at_work([ours, model, torchs, ours]) == "models/model.py:7"
    assert line_at_work([torchs, ours]).endswith("(in optimize)") and "passes/pipeline.py:1 " in line_at_work([ours])
    assert line_at_work([torchs]) == ""


def test_what_is_likely_right_and_cheap_is_measured_first() -> None:
    rows = [
        {"source": "timm", "name": name, "verdict": verdict, "seconds": seconds, "problem": ""}
        for name, verdict, seconds in (("a.A", "right", 1.0), ("b.A", "right", 0.2), ("c.A", "fails", 0.1))
    ]
    assert sibling_costs(rows)["timm", "c"] == float("inf")
    known = {
        ("timm", f"{each}.B"): Subject("timm", f"{each}.B", "", lambda: Told(torch.relu), calls) for each in "cabd"
    }
    jobs = jobs_of(options(["timm", "--resume"]), known, rows)
    assert [job[1] for job in jobs] == ["b.B", "a.B", "d.B", "c.B"]


class Asked(torch.nn.Module):
    """Sums of numbers that the model asks to be of 32 bits, whose roundings count."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turns = torch.arange(x.shape[0], dtype=torch.float32).float()[:, None] * 1000.1
        return torch.polar(torch.ones_like(x), x.float() * turns)


@pytest.mark.parametrize(("worse", "fine"), ((1e-5, True), (0.05, False)))
def test_roundings_are_judged_by_float64_of_complex_numbers_and_where_a_model_asks_for_32_bits(
    worse: float, fine: bool
) -> None:
    model, x = Asked(), torch.randn(16, 4, generator=torch.Generator().manual_seed(0))

    class Program:
        reference = model

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return model(x) + worse

    made: Any = Program()
    assert no_worse(made, {"x": x}) is fine


@pytest.mark.parametrize(
    ("ours", "fine"),
    (
        ([2.00001, -float("inf"), 0.0], True),
        ([2.00001, 0.0, 0.0], False),
        ([2.5, -float("inf"), 0.0], False),
        ([2.00001, -float("inf"), float("nan")], False),
    ),
)
def test_numbers_beside_infinite_ones_are_judged_by_float64_and_infinite_ones_are_the_same(
    ours: list[float], fine: bool
) -> None:
    infinite = -float("inf")
    exact = torch.tensor([2.0, infinite, 0.0], dtype=torch.float64)
    theirs = torch.tensor([2.1, infinite, 0.0])
    assert is_no_worse(exact, theirs, torch.tensor(ours)) is fine


def test_results_that_are_all_zeros_are_as_good_as_zeros() -> None:
    zeros = torch.zeros(2, 2)
    assert is_no_worse(zeros.double(), zeros, zeros.clone())
    assert not is_no_worse(zeros.double(), zeros, zeros + 0.1)
