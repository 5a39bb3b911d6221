"""dynamo, which takes longer to load than a small model to export, is loaded only by what has a use for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODELS = {
    "convolutions": "torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), "
    "torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(36, 5)).eval(), torch.ones(2, 3, 8, 8)",
    "attention": "torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, batch_first=True), 2).eval(), "
    "torch.ones(2, 5, 32)",
    "words": "torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 3), "
    "torch.nn.GELU(), torch.nn.Softmax(-1)).eval(), torch.ones(2, 5, dtype=torch.int64)",
}
QUIET = """
import sys, torch, irkit
model, x = {model}
irkit.to_onnx(model, (x,), dynamic_shapes=({{0: "n"}},))
assert "torch._dynamo" not in sys.modules, "loaded"
"""
COMPILING = """
import sys, torch, irkit

def doubled(x):
    return x + x if not torch.compiler.is_compiling() or torch.compiler.is_exporting() else x * 3

class Compiles(torch.nn.Module):
    def forward(self, x):
        return torch.compile(doubled)(x) + 1

before = list(sys.meta_path)
program = irkit.to_onnx(Compiles(), (torch.ones(2, 4),), dynamic_shapes=({0: "n"},))
assert "torch._dynamo" in sys.modules and sys.meta_path == before
from torch._dynamo import convert_frame, eval_frame
assert eval_frame._stance.stance == "default", eval_frame._stance
assert not convert_frame.FRAME_COUNTER and not convert_frame.input_codes.seen
import torch._dynamo as dynamo
assert dynamo.__spec__.loader is dynamo.__loader__ and type(dynamo.__loader__).__name__ == "SourceFileLoader"
x = torch.randn(3, 4)
assert torch.equal(program(x), 2 * x + 1)
"""


def require_success(script: str) -> None:
    """Runs a script in a process of its own, which must end well."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_torch_is_exported_without_dynamo(model: str) -> None:
    require_success(QUIET.format(model=MODELS[model]))


def test_dynamo_that_a_model_loads_compiles_nothing() -> None:
    require_success(COMPILING)
