"""Convolutions, norms, pooling, embeddings, recurrent and attention modules of torch.nn."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Case
from tests.zoo.inputs import floats, integers, module_case

LINE = ("batch", 4, "length")
IMAGE = ("batch", 4, "height", "width")
VOLUME = ("batch", 4, "depth", "height", "width")


class Unpooled(nn.Module):
    """Max pooling undone by the unpooling of the same dimension."""

    def __init__(self, pool: nn.Module, unpool: nn.Module) -> None:
        super().__init__()
        self.pool = pool
        self.unpool = unpool

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled, indices = self.pool(x)
        return self.unpool(pooled, indices, output_size=x.shape)


class SelfAttention(nn.Module):
    """MultiheadAttention of a sequence to itself, with the weights."""

    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, **options)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.attention(x, x, x)


class MaskedTransformer(nn.Module):
    """nn.Transformer with the causal mask that its decoder needs."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.Transformer(16, 4, 2, 2, 32, batch_first=True)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        return self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True)


def with_statistics(norm: nn.Module) -> nn.Module:
    """The norm with running statistics other than zero and one."""
    for name, buffer in norm.named_buffers():
        if name.startswith("running"):
            nn.init.uniform_(buffer, 0.5, 1.5)
    for parameter in norm.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    return norm


CONVOLUTIONS = (
    module_case("convolution", "conv1d", lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), floats(*LINE)),
    module_case("convolution", "conv1d_same", lambda: nn.Conv1d(4, 6, 4, padding="same", dilation=2), floats(*LINE)),
    module_case(
        "convolution", "conv1d_circular", lambda: nn.Conv1d(4, 6, 3, padding=2, padding_mode="circular"), floats(*LINE)
    ),
    module_case("convolution", "conv2d", lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1), floats(*IMAGE)),
    module_case("convolution", "conv2d_grouped", lambda: nn.Conv2d(4, 8, 3, groups=4, bias=False), floats(*IMAGE)),
    module_case(
        "convolution", "conv2d_reflect", lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), floats(*IMAGE)
    ),
    module_case("convolution", "conv3d", lambda: nn.Conv3d(4, 6, 3, dilation=(1, 2, 1)), floats(*VOLUME)),
    module_case("convolution", "conv_transpose1d", lambda: nn.ConvTranspose1d(4, 6, 3, stride=2), floats(*LINE)),
    module_case(
        "convolution",
        "conv_transpose2d",
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        floats(*IMAGE),
    ),
    module_case("convolution", "conv_transpose3d", lambda: nn.ConvTranspose3d(4, 6, 2, dilation=2), floats(*VOLUME)),
    module_case("convolution", "unfold", lambda: nn.Unfold(3, padding=1, stride=2), floats(*IMAGE)),
    module_case("convolution", "fold", lambda: nn.Fold((8, 9), 3, padding=1), floats("batch", 36, 72)),
)

NORMS = (
    module_case("norm", "batch_norm1d", lambda: with_statistics(nn.BatchNorm1d(4)), floats(*LINE)),
    module_case("norm", "batch_norm1d_flat", lambda: with_statistics(nn.BatchNorm1d(4)), floats("batch", 4)),
    module_case("norm", "batch_norm2d", lambda: with_statistics(nn.BatchNorm2d(4)), floats(*IMAGE)),
    module_case("norm", "batch_norm3d", lambda: with_statistics(nn.BatchNorm3d(4, affine=False)), floats(*VOLUME)),
    module_case("norm", "instance_norm1d", lambda: nn.InstanceNorm1d(4), floats(*LINE)),
    module_case("norm", "instance_norm2d", lambda: with_statistics(nn.InstanceNorm2d(4, affine=True)), floats(*IMAGE)),
    module_case(
        "norm",
        "instance_norm3d",
        lambda: with_statistics(nn.InstanceNorm3d(4, affine=True, track_running_stats=True)),
        floats(*VOLUME),
    ),
    module_case("norm", "layer_norm", lambda: with_statistics(nn.LayerNorm(16)), floats("batch", "seq", 16)),
    module_case("norm", "layer_norm_2d", lambda: nn.LayerNorm([4, 16], bias=False), floats("batch", "seq", 4, 16)),
    module_case("norm", "group_norm", lambda: with_statistics(nn.GroupNorm(2, 4)), floats(*IMAGE)),
    module_case("norm", "rms_norm", lambda: with_statistics(nn.RMSNorm(16)), floats("batch", "seq", 16)),
    module_case("norm", "rms_norm_epsilon", lambda: nn.RMSNorm([4, 16], eps=1e-5), floats("batch", "seq", 4, 16)),
    module_case("norm", "local_response_norm", lambda: nn.LocalResponseNorm(3), floats(*IMAGE)),
    module_case(
        "norm",
        "cross_map_lrn2d",
        lambda: nn.CrossMapLRN2d(3),
        floats(2, 4, 8, 9),
        note="its Python function resizes buffers to the input's size, which torch.export takes for fixed",
    ),
)

POOLING = (
    module_case("pooling", "max_pool1d", lambda: nn.MaxPool1d(3, stride=2, padding=1), floats(*LINE)),
    module_case("pooling", "max_pool2d", lambda: nn.MaxPool2d((3, 2), ceil_mode=True), floats(*IMAGE)),
    module_case("pooling", "max_pool2d_indices", lambda: nn.MaxPool2d(2, return_indices=True), floats(*IMAGE)),
    module_case("pooling", "max_pool3d", lambda: nn.MaxPool3d(2, dilation=2, stride=1), floats(*VOLUME)),
    module_case(
        "pooling",
        "max_unpool1d",
        lambda: Unpooled(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)),
        floats(*LINE),
    ),
    module_case(
        "pooling",
        "max_unpool2d",
        lambda: Unpooled(nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)),
        floats(*IMAGE),
    ),
    module_case(
        "pooling",
        "max_unpool3d",
        lambda: Unpooled(nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)),
        floats(*VOLUME),
    ),
    module_case(
        "pooling", "avg_pool1d", lambda: nn.AvgPool1d(3, stride=2, padding=1, count_include_pad=False), floats(*LINE)
    ),
    module_case("pooling", "avg_pool2d", lambda: nn.AvgPool2d(3, stride=2, ceil_mode=True), floats(*IMAGE)),
    module_case("pooling", "avg_pool2d_divisor", lambda: nn.AvgPool2d(2, divisor_override=3), floats(*IMAGE)),
    module_case("pooling", "avg_pool3d", lambda: nn.AvgPool3d(2, padding=1), floats(*VOLUME)),
    module_case(
        "pooling",
        "fractional_max_pool2d",
        lambda: nn.FractionalMaxPool2d(2, output_size=(5, 6), _random_samples=torch.rand(2, 4, 2)),
        floats(2, 4, "height", "width"),
        note="the random samples are given, for the result to be the same twice, and they fix the batch",
    ),
    module_case(
        "pooling",
        "fractional_max_pool3d",
        lambda: nn.FractionalMaxPool3d(2, output_size=(3, 4, 5), _random_samples=torch.rand(2, 4, 3)),
        floats(2, 4, 12, 11, 13),
        note="the random samples fix the batch, and torch's kernel for shapes takes all sizes for fixed",
    ),
    module_case("pooling", "lp_pool1d", lambda: nn.LPPool1d(2, 3, stride=2), floats(*LINE)),
    module_case("pooling", "lp_pool2d", lambda: nn.LPPool2d(2.0, (3, 2), ceil_mode=True), floats(*IMAGE)),
    module_case("pooling", "lp_pool3d", lambda: nn.LPPool3d(3, 2), floats(*VOLUME)),
    module_case("pooling", "adaptive_max_pool1d", lambda: nn.AdaptiveMaxPool1d(5), floats(*LINE)),
    module_case("pooling", "adaptive_max_pool2d", lambda: nn.AdaptiveMaxPool2d((1, 1)), floats(*IMAGE)),
    module_case("pooling", "adaptive_max_pool3d", lambda: nn.AdaptiveMaxPool3d((2, 3, 1)), floats(*VOLUME)),
    module_case("pooling", "adaptive_avg_pool1d", lambda: nn.AdaptiveAvgPool1d(5), floats(*LINE)),
    module_case("pooling", "adaptive_avg_pool2d", lambda: nn.AdaptiveAvgPool2d((3, None)), floats(*IMAGE)),
    module_case("pooling", "adaptive_avg_pool2d_one", lambda: nn.AdaptiveAvgPool2d(1), floats(*IMAGE)),
    module_case("pooling", "adaptive_avg_pool3d", lambda: nn.AdaptiveAvgPool3d((1, 2, 3)), floats(*VOLUME)),
)

BATCH_NOTE = "an EmbeddingBag of a matrix takes bags of equal length; offsets are the other form"

EMBEDDINGS = (
    module_case("embedding", "embedding", lambda: nn.Embedding(20, 8, padding_idx=3), integers(20, "batch", "seq")),
    module_case(
        "embedding",
        "embedding_bag_mean",
        lambda: nn.EmbeddingBag(20, 8, mode="mean"),
        integers(20, "bags", "seq"),
        note=BATCH_NOTE,
    ),
    module_case(
        "embedding",
        "embedding_bag_sum",
        lambda: nn.EmbeddingBag(20, 8, mode="sum", padding_idx=2),
        integers(20, "bags", "seq"),
        note=BATCH_NOTE,
    ),
    module_case(
        "embedding",
        "embedding_bag_max",
        lambda: nn.EmbeddingBag(20, 8, mode="max"),
        integers(20, "bags", "seq"),
        note=BATCH_NOTE,
    ),
    module_case(
        "embedding",
        "embedding_bag_offsets",
        lambda: nn.EmbeddingBag(20, 8, mode="sum"),
        integers(20, "count"),
        integers(1, "bags"),
    ),
)

RECURRENT = (
    module_case("recurrent", "lstm", lambda: nn.LSTM(8, 6, batch_first=True), floats("batch", "seq", 8)),
    module_case(
        "recurrent", "lstm_deep", lambda: nn.LSTM(8, 6, num_layers=2, bidirectional=True), floats("seq", "batch", 8)
    ),
    module_case("recurrent", "lstm_projected", lambda: nn.LSTM(8, 6, proj_size=3), floats("seq", "batch", 8)),
    module_case("recurrent", "gru", lambda: nn.GRU(8, 6, batch_first=True), floats("batch", "seq", 8)),
    module_case(
        "recurrent", "gru_deep", lambda: nn.GRU(8, 6, num_layers=2, bidirectional=True), floats("seq", "batch", 8)
    ),
    module_case("recurrent", "rnn_tanh", lambda: nn.RNN(8, 6, batch_first=True), floats("batch", "seq", 8)),
    module_case(
        "recurrent", "rnn_relu", lambda: nn.RNN(8, 6, nonlinearity="relu", bias=False), floats("seq", "batch", 8)
    ),
    module_case("recurrent", "lstm_cell", lambda: nn.LSTMCell(8, 6), floats("batch", 8)),
    module_case("recurrent", "gru_cell", lambda: nn.GRUCell(8, 6), floats("batch", 8)),
    module_case("recurrent", "rnn_cell", lambda: nn.RNNCell(8, 6), floats("batch", 8)),
)

ATTENTION = (
    module_case("attention", "self_attention", lambda: SelfAttention(batch_first=True), floats("batch", "seq", 16)),
    module_case(
        "attention",
        "multihead_attention",
        lambda: nn.MultiheadAttention(16, 4, kdim=8, vdim=12, add_bias_kv=True),
        floats("target", "batch", 16),
        floats("seq", "batch", 8),
        floats("seq", "batch", 12),
    ),
    module_case(
        "attention",
        "transformer",
        MaskedTransformer,
        floats("batch", "seq", 16),
        floats("batch", "target", 16),
        note="tgt_is_causal is said, or torch would look at the numbers in the mask to find out",
    ),
    module_case(
        "attention",
        "transformer_encoder",
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, activation="gelu"), 2, enable_nested_tensor=False
        ),
        floats("seq", "batch", 16),
    ),
    module_case(
        "attention",
        "transformer_decoder",
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, norm_first=True, batch_first=True), 2),
        floats("batch", "target", 16),
        floats("batch", "seq", 16),
    ),
)

OTHERS = (
    module_case("layer", "linear", lambda: nn.Linear(8, 5), floats("batch", "seq", 8)),
    module_case("layer", "bilinear", lambda: nn.Bilinear(8, 6, 5), floats("batch", 8), floats("batch", 6)),
    module_case("layer", "flatten", lambda: nn.Flatten(), floats("batch", 4, 3, 2)),
    module_case("layer", "unflatten", lambda: nn.Unflatten(1, (2, 4)), floats("batch", 8, "length")),
    module_case("layer", "dropout", lambda: nn.Dropout(0.3), floats("batch", 8)),
    module_case("layer", "pixel_shuffle", lambda: nn.PixelShuffle(2), floats(*IMAGE)),
    module_case("layer", "pixel_unshuffle", lambda: nn.PixelUnshuffle(2), floats("batch", 4, 6, 8)),
    module_case("layer", "channel_shuffle", lambda: nn.ChannelShuffle(2), floats(*IMAGE)),
    module_case("layer", "upsample_nearest", lambda: nn.Upsample(scale_factor=2), floats(*IMAGE)),
    module_case("layer", "upsample_linear", lambda: nn.Upsample(size=11, mode="linear"), floats(*LINE)),
    module_case("layer", "upsample_bilinear", lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), floats(*IMAGE)),
    module_case(
        "layer",
        "upsample_bicubic",
        lambda: nn.Upsample(size=(9, 8), mode="bicubic", align_corners=True),
        floats(*IMAGE),
    ),
    module_case("layer", "upsample_trilinear", lambda: nn.Upsample(scale_factor=2, mode="trilinear"), floats(*VOLUME)),
    module_case("layer", "constant_pad", lambda: nn.ConstantPad2d((1, 2, 0, 1), 0.5), floats(*IMAGE)),
    module_case("layer", "zero_pad_negative", lambda: nn.ZeroPad1d((-1, 2)), floats(*LINE)),
    module_case("layer", "reflection_pad1d", lambda: nn.ReflectionPad1d(2), floats(*LINE)),
    module_case("layer", "reflection_pad2d", lambda: nn.ReflectionPad2d((1, 2, 3, 0)), floats(*IMAGE)),
    module_case("layer", "replication_pad2d", lambda: nn.ReplicationPad2d(2), floats(*IMAGE)),
    module_case("layer", "replication_pad3d", lambda: nn.ReplicationPad3d(1), floats(*VOLUME)),
    module_case("layer", "circular_pad2d", lambda: nn.CircularPad2d((1, 2, 3, 0)), floats(*IMAGE)),
    module_case("layer", "cosine_similarity", lambda: nn.CosineSimilarity(), floats(*LINE), floats(*LINE)),
    module_case("layer", "pairwise_distance", lambda: nn.PairwiseDistance(3), floats("batch", 8), floats("batch", 8)),
)

CASES: tuple[Case, ...] = (*CONVOLUTIONS, *NORMS, *POOLING, *EMBEDDINGS, *RECURRENT, *ATTENTION, *OTHERS)
