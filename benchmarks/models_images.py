"""Models of images, and models that put numbers in order, in which max pooling, sorts and the like weigh."""

# transformers' configurations take more than they declare.
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Built = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]


def pictures(size: int = 64, batch: int = 1) -> dict[str, torch.Tensor]:
    """Images of three channels."""
    return {"pixel_values": torch.randn(batch, 3, size, size)}


FREE = {"pixel_values": {0: "batch"}}


def resnet_small() -> Built:
    """A ResNet of four stages."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[2, 2, 2, 2], layer_type="basic", num_labels=10
    )
    return ResNetForImageClassification(config), (), pictures(), FREE


def mobilenet() -> Built:
    """A MobileNetV2 of a third of the width."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(depth_multiplier=0.35, image_size=96, num_labels=10)
    return MobileNetV2ForImageClassification(config), (), pictures(96), FREE


def efficientnet() -> Built:
    """An EfficientNet with squeezes and excitations, of few layers."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(
        width_coefficient=0.5, depth_coefficient=0.5, image_size=64, hidden_dim=640, num_labels=10
    )
    return EfficientNetForImageClassification(config), (), pictures(), FREE


def detr() -> Built:
    """A DETR: a ResNet, a transformer over what it sees, and boxes."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 64, 128],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage4"],
    )
    given: dict[str, Any] = {
        "use_timm_backbone": False, "backbone_config": backbone, "d_model": 64, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "num_queries": 10, "num_labels": 10,
    }  # fmt: skip
    config = DetrConfig(**given)
    return DetrForObjectDetection(config), (), pictures(128), None


def normed(given: int, made: int, *, size: int = 3, stride: int = 1) -> nn.Sequential:
    """A convolution, a norm and a Relu."""
    return nn.Sequential(
        nn.Conv2d(given, made, size, stride, size // 2, bias=False), nn.BatchNorm2d(made), nn.ReLU(inplace=True)
    )


class DenseBlock(nn.Module):
    """Layers that each see what all before them made."""

    def __init__(self, width: int, layers: int, growth: int) -> None:
        super().__init__()
        rows = ((width + i * growth, 4 * growth) for i in range(layers))
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(w),
                nn.ReLU(),
                nn.Conv2d(w, inner, 1, bias=False),
                nn.BatchNorm2d(inner),
                nn.ReLU(),
                nn.Conv2d(inner, growth, 3, 1, 1, bias=False),
            )
            for w, inner in rows
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet() -> Built:
    """A DenseNet of three blocks."""
    stages: list[nn.Module] = [normed(3, 24, size=7, stride=2), nn.MaxPool2d(3, 2, 1)]
    width = 24
    for i, layers in enumerate((3, 4, 3)):
        stages.append(DenseBlock(width, layers, 12))
        width += 12 * layers
        if i < 2:
            made = width // 2
            stages += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, made, 1, bias=False), nn.AvgPool2d(2)]
            width = made
    head = [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    return nn.Sequential(*stages, *head), (torch.randn(1, 3, 64, 64),), {}, ({0: "batch"},)


class UNet(nn.Module):
    """Down by max pooling, up by transposed convolutions, with what was seen on the way down beside it."""

    def __init__(self, widths: Sequence[int] = (8, 16, 32, 64)) -> None:
        super().__init__()
        ends = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(nn.Sequential(normed(a, b), normed(b, b)) for a, b in ends)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.join = nn.ModuleList(nn.Sequential(normed(2 * a, a), normed(a, a)) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for i, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if i else x)
            seen.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([seen[i], self.up[i](x)], 1))
        return self.head(x)


def unet() -> Built:
    """A U-Net of four levels."""
    return UNet(), (torch.randn(1, 3, 64, 64),), {}, ({0: "batch"},)


class VGG(nn.Module):
    """Convolutions with a max pooling after every two, the largest of each channel at the end."""

    def __init__(self, widths: Sequence[int] = (16, 32, 64)) -> None:
        super().__init__()
        ends = list(zip((3, *widths), widths, strict=False))
        parts = [part for a, b in ends for part in (normed(a, b), normed(b, b), nn.MaxPool2d(2))]
        self.features, self.head = nn.Sequential(*parts), nn.Linear(widths[-1], 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).amax((2, 3)))


def vgg() -> Built:
    """A VGG of six convolutions."""
    return VGG(), (torch.randn(1, 3, 64, 64),), {}, ({0: "batch"},)


# ---------------------------------------------------------------------------------------------- order


class Ranker(nn.Module):
    """Scores the rows of a list and sorts them by their scores."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores, order = self.score(rows).squeeze(-1).sort(dim=-1, descending=True)
        return scores, torch.gather(rows, 1, order.unsqueeze(-1).expand_as(rows))


class Retriever(nn.Module):
    """The keys nearest to a query, and the mean of what they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.held = (nn.Parameter(torch.randn(512, 32)) for _ in range(2))
        self.query = nn.Linear(32, 32)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        near, places = (self.query(rows) @ self.keys.T).topk(8, dim=-1)
        return (near.softmax(-1).unsqueeze(-1) * self.held[places]).sum(-2)


class Voter(nn.Module):
    """What most of the nearest neighbours of a point are."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(256, 16))
        self.register_buffer("kinds", torch.randint(0, 10, (256,)))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        gaps = (rows[:, None] - self.points).square().sum(-1)
        kinds: Any = self.kinds
        return kinds[gaps.topk(9, dim=-1, largest=False)[1]].mode(-1)[0]


class Tagger(nn.Module):
    """A kind for each word, and how sure that is."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.conv = nn.Embedding(500, 64), nn.Conv1d(64, 64, 3, 1, 1)
        self.head = nn.Linear(64, 40)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scores = self.head(F.relu(self.conv(self.embed(ids).transpose(1, 2))).transpose(1, 2))
        best, kinds = scores.max(-1)
        return best, kinds, scores.amax((1, 2))


class Robust(nn.Module):
    """Rows told by their medians and quantiles."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 8)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(torch.stack([rows.median(-1)[0], rows.kthvalue(5, -1)[0]], -1))


ROWS = torch.randn(4, 200, 32)


IMAGES: dict[str, Callable[[], Built]] = {
    "resnet-small": resnet_small, "densenet": densenet, "mobilenet": mobilenet, "efficientnet": efficientnet,
    "unet": unet, "vgg": vgg, "detr": detr,
}  # fmt: skip
"""Convolutional nets and a detector."""

ORDERS: dict[str, Callable[[], Built]] = {
    "sort": lambda: (Ranker(), (ROWS,), {}, ({0: "batch"},)),
    "topk": lambda: (Retriever(), (ROWS[0],), {}, ({0: "batch"},)),
    "mode": lambda: (Voter(), (ROWS[0, :, :16].contiguous(),), {}, ({0: "batch"},)),
    "argmax": lambda: (Tagger(), (torch.randint(0, 500, (2, 50)),), {}, ({0: "batch"},)),
    "median": lambda: (Robust(), (ROWS[0],), {}, ({0: "batch"},)),
}  # fmt: skip
"""Models that sort, and that find the largest of some numbers."""


# ---------------------------------------------------------------------------------------------- what few models hold


class Unpooled(nn.Module):
    """SegNet: what is decoded is put back where the largest of each window was."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([normed(3, 16), normed(16, 32)])
        self.up = nn.ModuleList([normed(32, 16), normed(16, 16)])
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        taken = []
        for part in self.down:
            x, places = F.max_pool2d_with_indices(part(x), (2, 2))
            taken.append(places)
        for part, places in zip(self.up, reversed(taken), strict=True):
            x = part(F.max_unpool2d(x, places, (2, 2)))
        return self.head(x)


class Binary(nn.Module):
    """A net whose activations are signs."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).sign()
        return x


class Bounded(nn.Module):
    """A net whose activations are kept between bounds that were learnt."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])
        self.bounds = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x).clamp(-self.bounds[i], self.bounds[i])
        return x


class Chosen(nn.Module):
    """Convolutions whose activations are written by `where`."""

    def __init__(self, widths: Sequence[int] = (16, 32, 32)) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(a, b, 3, 1, 1) for a, b in zip((3, *widths), widths, strict=False)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            x = torch.where(x > 0, x, 0)
        return x.mean((2, 3))


class Masked(nn.Module):
    """Two layers of attention written out, whose mask may hide all keys of a query."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.ins = heads, nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(2)])
        self.outs = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width)) for _ in range(2)])

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, size, width = x.shape
        for project, finish in zip(self.ins, self.outs, strict=True):
            q, k, v = project(x).view(batch, size, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
            found = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
            x = x + finish(found.transpose(1, 2).reshape(batch, size, width))
        return x


class Words(nn.Module):
    """A bag of words: an embedding, a net of three layers, and what `of` does with the numbers of words."""

    def __init__(self, of: Callable[[torch.Tensor, torch.Tensor], tuple[Any, Any]], width: int = 128) -> None:
        super().__init__()
        self.table, self.of = nn.Embedding(5000, width), of
        self.layers = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, width)
        )

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        taken, weights = self.of(words, lengths)
        return (self.layers(self.table(taken)) * weights).sum(1)


def first_words(words: torch.Tensor, lengths: torch.Tensor) -> tuple[Any, Any]:
    """The words, of which as many count as are there."""
    count = lengths.clamp(max=words.shape[1])
    return words, (torch.arange(words.shape[1]) < count[:, None])[..., None]


def most_of_words(words: torch.Tensor, lengths: torch.Tensor) -> tuple[Any, Any]:
    """The words, each weighed by the greatest of them."""
    return words, words.amax(1)[:, None, None] + lengths[:, None, None]


class Joined(nn.Module):
    """Attention by einsum."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.project, self.finish = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, size, width = x.shape
        q, k, v = self.project(x).view(batch, size, 3, 4, width // 4).unbind(2)
        shares = torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1)
        return self.finish(torch.einsum("bhij,bjhd->bihd", shares, v).reshape(batch, size, width))


class Bands(nn.Module):
    """A spectrogram put together to bands by one matrix, and a convolution of it."""

    def __init__(self) -> None:
        super().__init__()
        self.bands, self.conv = nn.Parameter(torch.rand(1, 80, 201)), nn.Conv1d(80, 64, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv((self.bands @ x).clamp(min=1e-5).log()).relu().mean(-1)


class Binned(nn.Module):
    """Numbers embedded by the bin that they fall into."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.table, self.finish = nn.Embedding(65, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
        return self.finish(self.table(torch.searchsorted(bounds, x)))


def words(of: Callable[[torch.Tensor, torch.Tensor], tuple[Any, Any]]) -> Built:
    """A bag of words and a batch for it."""
    given = torch.randint(0, 5000, (8, 128)), torch.randint(1, 128, (8,))
    return Words(of), given, {}, ({0: "batch", 1: "size"}, {0: "batch"})


RARE: dict[str, Callable[[], Built]] = {
    "masked": lambda: (
        Masked(),
        (torch.randn(1, 128, 256), torch.rand(1, 1, 1, 128) > 0.3),
        {},
        ({0: "batch", 1: "size"}, {0: "batch", 3: "size"}),
    ),
    "known words": lambda: words(lambda words, lengths: (words.clamp(0, 4999), lengths[:, None, None])),
    "first words": lambda: words(first_words),
    "signed words": lambda: words(lambda words, lengths: (words, words.sign()[..., None])),
    "most of words": lambda: words(most_of_words),
    "joined": lambda: (Joined(), (torch.randn(4, 64, 128),), {}, ({0: "batch"},)),
    "bands": lambda: (Bands(), (torch.rand(4, 201, 100),), {}, ({0: "batch", 2: "size"},)),
    "wide": lambda: (
        nn.Sequential(*(nn.Linear(128, 128) for _ in range(3)), nn.LogSoftmax(-1)).double(),
        (torch.randn(64, 128, dtype=torch.float64),),
        {},
        ({0: "batch"},),
    ),
    "cut in bins": lambda: (
        Binned(),
        (torch.randn(400), torch.sort(torch.randn(64)).values),
        {},
        ({0: "batch"}, {0: "bounds"}),
    ),
    "segnet": lambda: (Unpooled(), (torch.randn(1, 3, 64, 64),), {}, ({0: "batch"},)),
    "signs": lambda: (Binary(), (torch.randn(16, 256),), {}, ({0: "batch"},)),
    "bounded": lambda: (Bounded(), (torch.randn(16, 256),), {}, ({0: "batch"},)),
    "chosen": lambda: (Chosen(), (torch.randn(1, 3, 64, 64),), {}, ({0: "batch"},)),
}
"""Models of what is written right and takes time, which none of the others holds."""
