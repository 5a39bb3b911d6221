"""Converters of `lowering.aten.normalization.norm` against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from irkit.doors.to_onnx import to_onnx
from tests.lowering.aten.oracle import check, check_all, module_cases, op_cases

OPS = [
    "nn.functional.layer_norm", "nn.functional.group_norm", "nn.functional.rms_norm",
    "nn.functional.local_response_norm", "nn.functional.normalize", "native_batch_norm", "native_layer_norm",
    "renorm", "nn.functional.cosine_similarity", "nn.functional.pairwise_distance", "nn.functional.pdist",
    "cdist", "softmax", "log_softmax", "nn.functional.softmin",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 3))


@pytest.mark.parametrize("name", ["nn.functional.batch_norm", "nn.functional.instance_norm"])
def test_norms_of_channels_as_torch_samples_them(name: str) -> None:
    """OpInfo's samples, in training mode too."""
    check_all(op_cases(name, torch.float32, 9))


MODULES = [
    "nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d", "nn.LayerNorm", "nn.GroupNorm", "nn.InstanceNorm1d",
    "nn.InstanceNorm2d", "nn.InstanceNorm3d", "nn.RMSNorm", "nn.LocalResponseNorm", "nn.Softmax", "nn.Softmax2d",
    "nn.LogSoftmax", "nn.Softmin",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 3))


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.BatchNorm1d(4),
        torch.nn.BatchNorm1d(4, affine=False),
        torch.nn.BatchNorm1d(4, track_running_stats=False),
        torch.nn.InstanceNorm1d(4, affine=True),
        torch.nn.InstanceNorm1d(4, track_running_stats=True),
        torch.nn.GroupNorm(2, 4),
        torch.nn.GroupNorm(2, 4, affine=False),
        torch.nn.LocalResponseNorm(2),
    ],
    ids=repr,
)
def test_channels_of_any_length(model: torch.nn.Module) -> None:
    """Batch and length are symbols; running statistics are not those of a fresh module."""
    for buffer in model.buffers():
        if buffer.dtype.is_floating_point:
            buffer.data.uniform_(0.5, 1.5)
    shapes = [{0: "batch", 2: "length"}]
    check(model, torch.randn(3, 4, 5), dynamic_shapes=shapes, others=[(torch.randn(2, 4, 9),)])


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.LayerNorm(4),
        torch.nn.LayerNorm(4, elementwise_affine=False),
        torch.nn.LayerNorm(4, bias=False),
        torch.nn.RMSNorm(4),
        torch.nn.RMSNorm(4, eps=0.1, elementwise_affine=False),
    ],
    ids=repr,
)
def test_layers_of_any_length(model: torch.nn.Module) -> None:
    """Batch and length are symbols; small numbers, so that eps counts."""
    shapes = [{0: "batch", 1: "length"}]
    check(model, torch.randn(3, 5, 4) * 1e-3, dynamic_shapes=shapes, others=[(torch.randn(2, 7, 4) * 1e-3,)])


def test_operators_of_core_aten() -> None:
    """The forms with several results that decompositions use."""
    x = torch.randn(2, 4, 3, 3)
    check(lambda x: torch.native_group_norm(x, None, None, 2, 4, 9, 2, 1e-5), x)
    check(lambda x: torch.ops.aten._fused_rms_norm(x, [3], None, None), x)
    mean, variance = torch.randn(4), torch.rand(4) + 0.5
    check(
        lambda x, m, v: torch.ops.aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-5)[0],
        x,
        mean,
        variance,
    )
    check(
        lambda x, m, v: torch.ops.aten._native_batch_norm_legit_functional(x, None, None, m, v, True, 0.1, 1e-5),
        x,
        mean,
        variance,
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("make", [torch.nn.InstanceNorm2d, torch.nn.BatchNorm2d])
def test_training_writes_running_statistics(make: Any, dynamic: bool) -> None:
    """What the module's buffers hold afterwards is a result of the program."""
    model, x = make(4, track_running_stats=True, momentum=0.3, affine=True).train(), torch.randn(3, 4, 5, 6)
    program = to_onnx(model, (x,), dynamic_shapes=({0: Dim.AUTO, 2: Dim.AUTO},) if dynamic else None)
    result, state = program.run((x,))
    torch.testing.assert_close(result, model(x))
    torch.testing.assert_close(state["running_mean"], model.running_mean)
    torch.testing.assert_close(state["running_var"], model.running_var)


def test_cosine_similarity_broadcasts_along_its_own_axis() -> None:
    """The norm is that of the elements repeated."""
    check(lambda a, b: F.cosine_similarity(a, b, dim=-2), torch.randn(1, 2, 3), torch.randn(2, 1, 3))
    check(lambda a, b: F.cosine_similarity(a, b, dim=0), torch.randn(3), torch.randn(1))
    check(lambda a, b: F.cosine_similarity(a, b, dim=0), torch.tensor(2.0), torch.randn(4))


def test_weight_norm() -> None:
    """The parametrization of a convolution along its last axis, as Wav2Vec2 has it."""
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(3, 4, 3), dim=2)
    check(model, torch.randn(2, 3, 8))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_distances(p: float) -> None:
    """All pairs by every norm; sizes are symbols."""
    check(lambda a, b: torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist"), torch.randn(2, 3, 4), torch.randn(2, 5, 4))
    check(
        lambda a, b: torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist"),
        torch.randn(2, 3, 4),
        torch.randn(2, 5, 4),
        dynamic_shapes=[{1: "n"}, {1: "m"}],
        others=[(torch.randn(2, 6, 4), torch.randn(2, 2, 4))],
    )


def test_the_largest_difference_of_nothing_is_zero() -> None:
    x, y = torch.randn(3, 2), torch.randn(4, 2)
    program = to_onnx(lambda x, y: torch.cdist(x, y, p=float("inf")), (x, y), dynamic_shapes=({1: "k"}, {1: "k"}))
    assert torch.equal(program(x, y), torch.cdist(x, y, p=float("inf")))
    assert torch.equal(program(x[:, :0], y[:, :0]), torch.zeros(3, 4))
