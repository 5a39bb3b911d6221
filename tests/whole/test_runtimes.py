"""`make runtimes`: a sample of its models and layers in each runtime that is installed, and its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from irkit.runtimes import RUNTIMES, Answer
from tests.support import torch_files
from tests.support.draws import drawn
from tests.support.torch_files import TorchFile, in_one_line, torch_file
from tests.tables.models import LAYERS
from tests.tables.runtimes import (
    IRKIT,
    NAMES,
    TORCH,
    Trial,
    Verdict,
    batched,
    difference,
    irkit_trials,
    is_as_near,
    is_near,
    mark,
    page,
    sizes_of,
    total,
    verdict,
    verdicts,
    without_folders,
)
from tests.zoo.case import Case
from tests.zoo.cases import CASES, case_named

INSTALLED = tuple(name for name in NAMES if RUNTIMES[name].version())
"""The reference evaluator at least: irkit needs the package onnx."""

MODELS = drawn("runtimes", [c.name for c in CASES if c.family not in LAYERS], 0, pinned=["gpt2_prompt"])
"""With queries that see no key, which tract answered with NaN."""

FAILED = ("rnn_relu", "ctc_loss", "embedding_bag_max", "multi_label_margin_loss", "lp_pool3d")
"""What a runtime refused, or got wrong, before its quirks were known."""

SINGLE = drawn("runtimes' layers", [c.name for c in CASES if c.family in LAYERS], 6, pinned=FAILED)


@pytest.mark.parametrize("names", [*((name,) for name in MODELS), tuple(SINGLE)], ids="-".join)
def test_files_agree_in_each_runtime(names: tuple[str, ...]) -> None:
    found = verdicts((names, IRKIT, INSTALLED))
    assert [(v.case, v.runtime) for v in found] == [(name, runtime) for runtime in INSTALLED for name in names]
    assert [v for v in found if v.problem] == []


def test_a_file_of_torch_is_written_once_and_a_failure_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, asked = case_named("gpt2_prompt"), list[str]()
    feeds = {"x": np.arange(3)}

    def written(given: Case, path: Path) -> TorchFile:
        asked.append(given.name)
        if len(asked) == 1:
            return TorchFile(path, problem="no file: it failed")
        path.write_bytes(b"a file")
        return TorchFile(path, ({"batch": 1},), (feeds,), ((np.ones(2),),))

    monkeypatch.setattr(torch_files, "written", written)
    assert torch_file(case, tmp_path).problem == "no file: it failed"
    first, second = torch_file(case, tmp_path), torch_file(case, tmp_path)
    assert asked == ["gpt2_prompt"] * 2
    assert first.path == second.path and second.path.read_bytes() == b"a file" and not second.problem
    assert second.sizes == ({"batch": 1},) and second.feeds[0]["x"].tolist() == [0, 1, 2]
    assert second.expected[0][0].tolist() == [1, 1]


@pytest.mark.parametrize("name", drawn("files", [c.name for c in CASES], 2, pinned=["wavlm", "max_unpool1d"]))
def test_files_for_each_runtime_are_written_where_it_is_not_installed(name: str, tmp_path: Path) -> None:
    make = irkit_trials(case_named(name), tmp_path)
    assert [trial.problem for each in NAMES if (trial := make(RUNTIMES[each])).problem] == []


def test_what_differs_is_said() -> None:
    one = np.ones(2, np.float32)
    assert difference([one], Answer((one,))) == ""
    assert difference([one], Answer(problem="it ended")) == "it ended"
    assert difference([one], Answer((one, one))) == "2 results where torch gives 1"
    assert difference([one], Answer((one * 2,))).startswith("output 0: 2 of 2 elements differ")


def test_errors_say_what_they_came_of() -> None:
    try:
        try:
            raise ValueError("the\ncause")
        except ValueError as cause:
            raise RuntimeError("a long way around") from cause
    except RuntimeError as error:
        assert in_one_line(error) == "ValueError: the cause"


def test_the_page_counts_what_passed_and_says_why_not() -> None:
    head = {"version": "1", "fixed": False}
    rows = [
        {**head, "case": "bert", "exporter": IRKIT, "runtime": "tract", "problem": "", "fixed": True},
        {**head, "case": "bert", "exporter": TORCH, "runtime": "tract", "problem": "batch=1: a | b"},
        {**head, "case": "bert_eager", "exporter": IRKIT, "runtime": "tract", "problem": ""},
    ]
    assert total("tract", rows) == "| tract | 2 of 2 | 1 | 0 of 1 | 0 | 0 of 0 | 0 of 0 |"
    found = page(rows)
    assert "tract 1; torch" in found and "ok, fixed | **fails**" in found
    assert "| bert | torch.onnx | tract | batch=1: a" in found
    assert batched(["a", "b", "c"], 2) == [("a", "b"), ("c",)]


def test_rows_of_other_code_are_said() -> None:
    row = {"case": "bert", "exporter": IRKIT, "runtime": "tract", "version": "1", "problem": "", "fixed": True}
    assert "irkit's files are all of one state of the code" in page([{**row, "code": "a"}])
    for others in ([row], [{**row, "code": "a"}, {**row, "case": "bert_eager", "code": "b"}]):
        assert "irkit's files are all of several states of the code" in page(others)
    assert mark({**row, "wide": True}) == "ok, fixed, float64"


def test_what_differs_from_eager_passes_where_eager_is_as_far_from_the_model_in_float64() -> None:
    exact = np.array([1.0, np.nan, 3.0])
    eager = np.array([1.001, np.nan, 3.0], np.float32)
    assert is_near(exact, eager, np.array([1.0, np.nan, 3.0008], np.float32))
    for other in ([1.002, np.nan, 3.0], [1.0, 2.0, 3.0], [1.0, np.nan, np.inf]):
        assert not is_near(exact, eager, np.array(other, np.float32))
    assert not is_near(exact, eager, exact) and not is_near(exact, eager, eager[:2])
    one = np.array([1, 2])
    assert is_near(one, one, one) and not is_near(one, one, one + 1)


def test_a_case_is_judged_by_its_model_in_float64() -> None:
    case = case_named("lp_pool3d")
    (x,), _ = case.inputs(case.traced)
    right = case.model()(x).numpy()
    assert is_as_near(case, case.traced, [right])
    assert not is_as_near(case, case.traced, [right * np.float32(1.01)])
    assert not is_as_near(case, case.traced, [right, right])
    trial = Trial("lp_pool3d", problems_in=lambda answers: ["it differs" for _ in answers])
    answers = [Answer((case.model()(case.inputs(dims)[0][0]).numpy(),)) for dims in sizes_of(case)]
    assert verdict(trial, "tract", answers) == Verdict("lp_pool3d", "tract", wide=True)
    ended = verdict(trial, "tract", [Answer(problem="it ended"), *answers[1:]])
    assert ended.problem.endswith(": it differs") and not ended.wide


def test_the_page_has_no_folders_of_a_machine() -> None:
    said = 'File "/one/two/three/tests/zoo/layers.py", line 3, in f; at /a/b/src/lib.rs:18:13: src/a/b/core.cpp'
    assert without_folders(said) == 'File "zoo/layers.py", line 3, in f; at src/lib.rs:18:13: src/a/b/core.cpp'
