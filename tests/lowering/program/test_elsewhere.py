"""Programs whose calls another runtime answers: results as the model gives them, and what is said where one fails."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import irkit
from irkit.errors import EvaluateError, IrkitError
from irkit.runtimes import RUNTIMES, Answer
from lowering import run_elsewhere
from lowering.program.elsewhere import digest
from lowering.program.program import Program


class Halves(torch.nn.Module):
    """A layer and the greatest number of each row, in a dict, with an argument by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.layer(x) * scale
        return {"rows": found, "best": found.amax(dim=-1)}


MODEL = Halves().eval()
SCALE = torch.tensor(0.5)


def program_for(target: str) -> Program:
    """The model exported for a target, over a batch that varies."""
    shapes = {"x": {0: "batch"}, "scale": {}}
    return irkit.to_onnx(MODEL, (torch.randn(2, 4),), {"scale": SCALE}, dynamic_shapes=shapes, target=target)


@pytest.mark.parametrize("name", RUNTIMES)
def test_calls_give_what_the_model_gives(name: str) -> None:
    runtime = RUNTIMES[name]
    if not runtime.version():
        pytest.skip(f"{name} is an extra, and is not installed: {runtime.install}")
    there = run_elsewhere(program_for(runtime.target), name)
    x = torch.randn(5, 4)
    torch.testing.assert_close(there(x, scale=SCALE), MODEL(x, scale=SCALE))
    assert there.check(n=2)


def test_answers_that_were_asked_for_together_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_for("onnx-reference")
    x = torch.randn(3, 4)
    feeds = program.feeds((x,), {"scale": SCALE})
    there = run_elsewhere(program, "onnx-reference", [feeds])
    assert list(there.answers) == [digest(program.narrowed(feeds))]
    monkeypatch.setattr("lowering.program.elsewhere.run_saved", lambda *_: (Answer(problem="asked again"),))
    torch.testing.assert_close(there(x, scale=SCALE), MODEL(x, scale=SCALE))
    with pytest.raises(EvaluateError, match="onnx-reference fails: asked again") as failed:
        there(x + 1, scale=SCALE)
    assert "target=" in str(failed.value)


def test_arrays_are_told_apart_by_name_type_shape_and_numbers() -> None:
    x = np.arange(6, dtype=np.float32)
    others = [{"y": x}, {"x": x.reshape(2, 3)}, {"x": x.view(np.int32)}, {"x": x + 1}, {}]
    assert len({digest(each) for each in ({"x": x}, *others)}) == 1 + len(others)
    assert digest({"x": x, "y": x}) == digest({"y": x.copy(), "x": x})


def test_a_name_of_no_runtime_is_refused() -> None:
    with pytest.raises(IrkitError, match="there is no runtime 'nowhere'"):
        run_elsewhere(program_for("onnx-reference"), "nowhere")


def test_a_program_that_onnx_runtime_does_not_load_says_where_it_runs() -> None:
    """It ended in an error of ONNX Runtime's own class, with no word of the target."""
    program = irkit.to_onnx(torch.nn.SiLU(), (torch.randn(2, 3),), target="openvino")
    for call in (program, lambda x: program.bound()(x)):
        with pytest.raises(EvaluateError, match="does not load the model, which is for opset ") as caught:
            call(torch.randn(2, 3))
        assert "run_elsewhere" in caught.value.hint
