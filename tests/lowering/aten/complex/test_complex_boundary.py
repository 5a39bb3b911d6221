"""Complex inputs, outputs, weights and state of a program: pairs of real numbers in the file only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch

import irkit
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering import lower
from lowering.program.files import check_file

pytestmark = pytest.mark.filterwarnings("ignore")


class Mixer(torch.nn.Module):
    """Complex weights, a complex buffer that is written, complex and real arguments and results."""

    phase: torch.Tensor
    seen: torch.Tensor

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(4, dtype=dtype))
        self.register_buffer("phase", torch.randn(4, dtype=dtype).conj())
        self.register_buffer("seen", torch.zeros(4, dtype=dtype))

    def forward(self, z: torch.Tensor, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """z: (n, 4) complex, x: (n, 4) real."""
        self.seen.add_(z.sum(0))
        return {"mixed": z * self.gain + self.phase * x, "length": z.abs(), "same": z, "seen": self.seen * 2}


def arguments(n: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    real = torch.float64 if dtype is torch.complex128 else torch.float32
    return torch.randn(n, 4, dtype=dtype), torch.randn(n, 4, dtype=real)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_arguments_results_weights_and_state(dtype: torch.dtype) -> None:
    program = to_onnx(Mixer(dtype), arguments(3, dtype), dynamic_shapes=({0: "n"}, {0: "n"}))
    report = program.check(n=2)
    assert report, report
    z, x = arguments(5, dtype)
    result, state = program.run((z, x))
    assert result["mixed"].dtype is dtype and torch.equal(result["same"], z)
    torch.testing.assert_close(state["seen"], z.sum(0))
    again, state = program.run((z, x), state=state)
    torch.testing.assert_close(state["seen"], 2 * z.sum(0))
    torch.testing.assert_close(again["seen"], 4 * z.sum(0))


def test_the_file_says_what_is_complex(tmp_path: Path) -> None:
    model, (z, x) = Mixer(torch.complex64), arguments(3, torch.complex64)
    program = to_onnx(model, (z, x), dynamic_shapes=({0: "n"}, {0: "n"}))
    path = program.save(tmp_path / "mixer.onnx")
    session = ort.InferenceSession(str(path))
    assert {i.name: (i.type, i.shape) for i in session.get_inputs()} == {
        "z": ("tensor(float)", ["n", 4, 2]),
        "x": ("tensor(float)", ["n", 4]),
        "seen": ("tensor(float)", [4, 2]),
    }
    names = {"z", "seen", "mixed", "same", "seen_out"}
    assert names <= set(json.loads(session.get_modelmeta().custom_metadata_map["irkit.complex"]))
    assert {i.name for i in program.proto.graph.initializer} >= {"gain.real", "gain.imag"}
    feeds = {"z": torch.view_as_real(z).numpy(), "x": x.numpy(), "seen": np.zeros((4, 2), np.float32)}
    found = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
    np.testing.assert_allclose(
        np.asarray(found["mixed"]), torch.view_as_real(model(z, x)["mixed"]).detach(), rtol=1e-5, atol=1e-6
    )
    assert "c64[n, 4] as f32[n, 4, 2]" in str(program.report)
    assert irkit.load(path).signature.metadata == program.graph.signature.metadata


def test_an_argument_of_another_type_is_refused() -> None:
    program = to_onnx(lambda z: z * 2, (torch.randn(3, dtype=torch.complex64),))
    for wrong in (torch.randn(3, 2), torch.randn(3, dtype=torch.complex128)):
        with pytest.raises(ContractError, match="the model takes c64"):
            program(wrong)
    view = torch.randn(3, dtype=torch.complex64).conj()
    torch.testing.assert_close(program(view), view * 2)


def test_results_without_elements_or_dimensions() -> None:
    program = to_onnx(lambda z: (z.sum(), z[:0], z.conj()), (torch.randn(3, 2, dtype=torch.complex64),))
    z = torch.randn(3, 2, dtype=torch.complex64)
    total, empty, turned = program(z)
    assert empty.shape == (0, 2) and empty.dtype is torch.complex64 and total.shape == ()
    torch.testing.assert_close(total, z.sum())
    torch.testing.assert_close(turned, z.conj().resolve_conj())


def test_a_file_is_compared_with_a_program_of_complex_arguments(tmp_path: Path) -> None:
    exported = torch.export.export(
        torch.nn.Identity(), (torch.randn(3, dtype=torch.complex64),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    torch.export.save(exported, tmp_path / "model.pt2")
    path = to_onnx(exported).save(tmp_path / "model.onnx")
    assert check_file(path, tmp_path / "model.pt2")


def test_a_graph_of_complex_arguments_has_no_complex_type() -> None:
    graph = lower(lambda z: z.exp() @ z, (torch.randn(3, 3, dtype=torch.complex64),))
    assert not [v for v in graph.order if hasattr(v.type, "dtype") and v.dtype.is_complex]


class Halves(torch.nn.Module):
    """Complex numbers of float16, as far as torch computes with them on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(4, dtype=torch.complex64).to(torch.complex32))

    def forward(self, z: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """z: (n, 4) complex32, x: (n, 8) float16."""
        seen = torch.view_as_complex(x.reshape(-1, 4, 2))
        wide = z.to(torch.complex64) * self.gain
        return z * self.gain + seen, torch.cat([z[:1], seen.conj()]), wide, z.abs(), x * 1j, z == seen, x.chalf()


def test_complex_numbers_of_float16() -> None:
    z, x = torch.randn(3, 4, dtype=torch.complex64).to(torch.complex32), torch.randn(3, 8).half()
    program = to_onnx(Halves(), (z, x), dynamic_shapes=({0: "n"}, {0: "n"}))
    report = program.check(n=2)
    assert report, report
    assert [r.dtype for r in program(z, x)][:3] == [torch.complex32, torch.complex32, torch.complex64]
    assert program.report.inputs[0] == ("z", "c32[n, 4] as f16[n, 4, 2]")
