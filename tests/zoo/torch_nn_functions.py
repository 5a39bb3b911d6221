"""Every activation and every loss module of torch.nn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from tests.zoo.case import Case
from tests.zoo.inputs import Input, floats, integers, log_probabilities, module_case, positives, signs

SEQUENCE = ("batch", "seq", 8)
ROWS = ("batch", 5)

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "threshold": lambda: nn.Threshold(0.1, -0.7),
    "relu": nn.ReLU,
    "relu_inplace": lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True)),
    "rrelu": nn.RReLU,
    "hardtanh": lambda: nn.Hardtanh(-0.5, 0.7),
    "relu6": nn.ReLU6,
    "sigmoid": nn.Sigmoid,
    "hardsigmoid": nn.Hardsigmoid,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "hardswish": nn.Hardswish,
    "elu": lambda: nn.ELU(0.7),
    "celu": lambda: nn.CELU(0.7),
    "selu": nn.SELU,
    "glu": nn.GLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "hardshrink": nn.Hardshrink,
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "log_sigmoid": nn.LogSigmoid,
    "softplus": lambda: nn.Softplus(2.0, 1.0),
    "softshrink": nn.Softshrink,
    "prelu": nn.PReLU,
    "softsign": nn.Softsign,
    "tanhshrink": nn.Tanhshrink,
    "softmin": lambda: nn.Softmin(-1),
    "softmax": lambda: nn.Softmax(1),
    "log_softmax": lambda: nn.LogSoftmax(-1),
}


def loss(name: str, make_model: Callable[[], nn.Module], *inputs: Input, note: str = "", refused: str = "") -> Case:
    return module_case("loss", name, make_model, *inputs, note=note, refused=refused)


def class_weights() -> torch.Tensor:
    return torch.rand(5) + 0.5


class ConnectionistLoss(nn.Module):
    """CTCLoss of a fixed size: lengths that are numbers are part of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.CTCLoss()

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.loss(logits, targets, (12, 10), (5, 4))


class GaussianLoss(nn.Module):
    """GaussianNLLLoss with one variance for all."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.GaussianNLLLoss(full=True)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.loss(x, target, 0.3)


class AdaptiveLogSoftmax(nn.Module):
    """The probabilities of AdaptiveLogSoftmaxWithLoss."""

    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.softmax.log_prob(x)


LOSSES = (
    loss("l1_loss", nn.L1Loss, floats(*SEQUENCE), floats(*SEQUENCE)),
    loss("nll_loss", lambda: nn.NLLLoss(class_weights()), log_probabilities(*ROWS), integers(5, "batch")),
    loss(
        "nll_loss_image",
        lambda: nn.NLLLoss(ignore_index=2),
        floats("batch", 5, "height", "width"),
        integers(5, "batch", "height", "width"),
    ),
    loss("poisson_nll_loss", lambda: nn.PoissonNLLLoss(full=True), floats(*ROWS), positives(*ROWS)),
    loss(
        "gaussian_nll_loss",
        GaussianLoss,
        floats(*ROWS),
        floats(*ROWS),
        note="the variance is a number: of a tensor of them torch asks whether one is negative, a branch on data",
    ),
    loss("kl_div_loss", lambda: nn.KLDivLoss(reduction="batchmean"), log_probabilities(*ROWS), positives(*ROWS)),
    loss(
        "kl_div_loss_log",
        lambda: nn.KLDivLoss(reduction="sum", log_target=True),
        log_probabilities(*ROWS),
        log_probabilities(*ROWS),
    ),
    loss("mse_loss", nn.MSELoss, floats(*SEQUENCE), floats(*SEQUENCE)),
    loss("mse_loss_none", lambda: nn.MSELoss(reduction="none"), floats(*SEQUENCE), floats(*SEQUENCE)),
    loss("bce_loss", nn.BCELoss, positives(*ROWS), positives(*ROWS)),
    loss(
        "bce_with_logits_loss",
        lambda: nn.BCEWithLogitsLoss(pos_weight=class_weights()),
        floats(*ROWS),
        positives(*ROWS),
    ),
    loss("hinge_embedding_loss", nn.HingeEmbeddingLoss, floats(*ROWS), signs(*ROWS)),
    loss("multi_label_margin_loss", nn.MultiLabelMarginLoss, floats(*ROWS), integers(5, *ROWS)),
    loss("smooth_l1_loss", lambda: nn.SmoothL1Loss(beta=0.5), floats(*SEQUENCE), floats(*SEQUENCE)),
    loss("huber_loss", lambda: nn.HuberLoss(reduction="sum", delta=0.7), floats(*SEQUENCE), floats(*SEQUENCE)),
    loss("soft_margin_loss", nn.SoftMarginLoss, floats(*ROWS), signs(*ROWS)),
    loss(
        "cross_entropy_loss",
        lambda: nn.CrossEntropyLoss(class_weights(), ignore_index=1, label_smoothing=0.1),
        floats("batch", 5, "length"),
        integers(5, "batch", "length"),
    ),
    loss("cross_entropy_loss_soft", nn.CrossEntropyLoss, floats(*ROWS), positives(*ROWS)),
    loss(
        "linear_cross_entropy_loss",
        lambda: nn.LinearCrossEntropyLoss(6, 5, bias=True, label_smoothing=0.1),
        floats("batch", 6),
        integers(5, "batch"),
    ),
    loss("multi_label_soft_margin_loss", nn.MultiLabelSoftMarginLoss, floats(*ROWS), positives(*ROWS)),
    loss("cosine_embedding_loss", lambda: nn.CosineEmbeddingLoss(0.2), floats(*ROWS), floats(*ROWS), signs("batch")),
    loss("margin_ranking_loss", lambda: nn.MarginRankingLoss(0.3), floats(*ROWS), floats(*ROWS), signs(*ROWS)),
    loss("multi_margin_loss", lambda: nn.MultiMarginLoss(p=2), floats(*ROWS), integers(5, "batch")),
    loss("triplet_margin_loss", lambda: nn.TripletMarginLoss(swap=True), floats(*ROWS), floats(*ROWS), floats(*ROWS)),
    loss(
        "triplet_margin_with_distance_loss",
        lambda: nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(1)),
        floats(*ROWS),
        floats(*ROWS),
        floats(*ROWS),
    ),
    loss(
        "ctc_loss",
        ConnectionistLoss,
        log_probabilities(12, 2, 6),
        integers(4, 2, 5),
        note="the lengths are numbers here; tests/lowering/aten/reduction/test_ctc.py varies sizes",
    ),
    loss(
        "adaptive_log_softmax",
        AdaptiveLogSoftmax,
        floats("batch", 8),
        note="log_prob: forward skips the clusters that no row falls in, a branch on data",
    ),
)

CASES: tuple[Case, ...] = (
    *(module_case("activation", name, make, floats(*SEQUENCE)) for name, make in ACTIVATIONS.items()),
    module_case("activation", "prelu_channels", lambda: nn.PReLU(4), floats("batch", 4, "height", "width")),
    module_case("activation", "softmax2d", nn.Softmax2d, floats("batch", 4, "height", "width")),
    *LOSSES,
)
