"""dynamo, which takes longer to load than a small model to export, is loaded only by what has a use for it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys, torch, irkit
from torch import nn

MODELS = {
    "convolutions": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(36, 2)),
        torch.ones(2, 3, 8, 8),
    ),
    "attention": (nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, batch_first=True), 2), torch.ones(2, 5, 32)),
    "words": (
        nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4), nn.Linear(4, 3), nn.GELU(), nn.Softmax(-1)),
        torch.ones(2, 5, dtype=torch.int64),
    ),
}
for name, (model, x) in MODELS.items():
    irkit.to_onnx(model.eval(), (x,), dynamic_shapes=({0: "n"},))
    assert "torch._dynamo" not in sys.modules, name

def doubled(x):
    return x + x if not torch.compiler.is_compiling() or torch.compiler.is_exporting() else x * 3

class Compiles(nn.Module):
    def forward(self, x):
        return torch.compile(doubled)(x) + 1

before = list(sys.meta_path)
program = irkit.to_onnx(Compiles(), (torch.ones(2, 4),), dynamic_shapes=({0: "n"},))
assert "torch._dynamo" in sys.modules and sys.meta_path == before
from torch._dynamo import convert_frame, eval_frame
assert eval_frame._stance.stance == "default", eval_frame._stance
assert not convert_frame.FRAME_COUNTER and not convert_frame.input_codes.seen
loader = sys.modules["torch._dynamo"].__loader__
assert sys.modules["torch._dynamo"].__spec__.loader is loader and type(loader).__name__ == "SourceFileLoader"
x = torch.randn(3, 4)
assert torch.equal(program(x), 2 * x + 1)
"""


def test_dynamo_is_loaded_by_what_has_a_use_for_it_and_compiles_nothing() -> None:
    """In a process of its own, where nothing has loaded it: one takes a while to begin."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
