"""Converters of `lowering.aten.reduction.loss` against eager torch."""

from __future__ import annotations

import pytest
import torch

import irkit
from tests.lowering.aten.oracle import check, check_all, module_cases, op_cases

OPS = [
    "nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.smooth_l1_loss", "nn.functional.huber_loss",
    "nn.functional.binary_cross_entropy", "nn.functional.binary_cross_entropy_with_logits",
    "nn.functional.nll_loss", "nn.functional.cross_entropy", "nn.functional.kl_div",
    "nn.functional.poisson_nll_loss", "nn.functional.hinge_embedding_loss", "nn.functional.margin_ranking_loss",
    "nn.functional.multi_margin_loss", "nn.functional.multilabel_soft_margin_loss",
    "nn.functional.soft_margin_loss", "nn.functional.triplet_margin_loss",
    "nn.functional.triplet_margin_with_distance_loss", "nn.functional.cosine_embedding_loss",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 5))


MODULES = [
    "nn.MSELoss", "nn.L1Loss", "nn.SmoothL1Loss", "nn.HuberLoss", "nn.BCELoss", "nn.BCEWithLogitsLoss",
    "nn.NLLLoss", "nn.CrossEntropyLoss", "nn.KLDivLoss", "nn.PoissonNLLLoss", "nn.HingeEmbeddingLoss",
    "nn.MarginRankingLoss", "nn.MultiMarginLoss", "nn.MultiLabelSoftMarginLoss", "nn.SoftMarginLoss",
    "nn.CosineEmbeddingLoss",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 5))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_classes(reduction: str) -> None:
    """Weights, classes to ignore, smoothed labels, probabilities, one item, images."""
    x, labels = torch.randn(4, 3), torch.tensor([1, 0, 2, 1])
    for smoothing in (0.0, 0.1):
        options = {"reduction": reduction, "label_smoothing": smoothing, "weight": torch.rand(3)}
        check(torch.nn.CrossEntropyLoss(ignore_index=1, **options), x, labels)
        check(torch.nn.CrossEntropyLoss(**options), x, torch.randn(4, 3).softmax(1))
        check(torch.nn.CrossEntropyLoss(**options), torch.randn(3), torch.tensor(1))
        check(torch.nn.CrossEntropyLoss(**options), torch.randn(2, 3, 4), torch.randint(0, 3, (2, 4)))
    check(
        torch.nn.NLLLoss(reduction=reduction, ignore_index=1), torch.randn(2, 3, 2, 2), torch.randint(0, 3, (2, 2, 2))
    )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_logarithms_at_their_ends(reduction: str) -> None:
    """Probabilities of 0 and 1, targets of 0, logits far from 0."""
    check(torch.nn.BCELoss(reduction=reduction), torch.tensor([0.0, 1.0, 0.3]), torch.tensor([1.0, 0.0, 0.7]))
    targets = torch.tensor([[0.0, 0.5, 0.5]] * 4)
    check(torch.nn.KLDivLoss(reduction=reduction.replace("mean", "batchmean")), torch.randn(4, 3), targets)
    logits = torch.tensor([-90.0, -3.0, 0.0, 3.0, 90.0])
    check(torch.nn.BCEWithLogitsLoss(reduction=reduction, pos_weight=torch.rand(5)), logits, torch.rand(5))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_labels_by_margin(reduction: str) -> None:
    """Labels end at the first -1."""
    labels = torch.tensor([[3, 0, -1, 1], [1, -1, 2, 2]])
    check(torch.nn.MultiLabelMarginLoss(reduction=reduction), torch.randn(2, 4), labels)


@pytest.mark.parametrize("reduction", [1, 2])
def test_totals_of_weights(reduction: int) -> None:
    """The second result of core ATen's nll_loss_forward."""
    x, labels, weight = torch.randn(4, 3), torch.tensor([1, 0, 2, 1]), torch.rand(3)
    check(lambda x, t, w: torch.ops.aten.nll_loss_forward(x, t, w, reduction, 1), x, labels, weight)


@pytest.mark.parametrize("reduction", ("none", "mean", "sum"))
@pytest.mark.parametrize("smoothing", (0.0, 0.1))
def test_of_no_classes_every_item_is_ignored(reduction: str, smoothing: float) -> None:
    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)

    x, ignored = torch.zeros(2, 0), torch.full((2,), -100)
    program = irkit.to_onnx(loss, (x, ignored))
    torch.testing.assert_close(program(x, ignored), loss(x, ignored), equal_nan=True)
    with pytest.raises(IndexError):
        loss(x, ignored * 0)
    with pytest.raises(irkit.ContractError, match="there is no class"):
        program(x, ignored * 0)
