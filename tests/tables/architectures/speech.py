"""Models of speech of openai-whisper and SpeechBrain, tiny, with random weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tests.tables.architectures.listed import Called, Row, at, normal, subjects_of_rows
from tests.tables.architectures.subject import Call, Sizes, Subject

FRAMES = at("batch frames", (2, 40), (1, 56), (3, 32))
WAVES = at("batch length", (2, 1600), (1, 2400), (3, 1040))
WHISPER = {"n_mels": 80, "n_audio_ctx": 20, "n_audio_state": 16, "n_audio_head": 2, "n_audio_layer": 2, "n_vocab": 60,
           "n_text_ctx": 24, "n_text_state": 16, "n_text_head": 2, "n_text_layer": 2}  # fmt: skip


def subjects() -> Mapping[str, Subject]:
    """Each model by its name. Raises ModuleNotFoundError where one of the packages is missing."""
    importlib.import_module("whisper.model")
    importlib.import_module("speechbrain")
    return subjects_of_rows("speech", None, ROWS)


def found(module: str, name: str) -> Any:
    """A class of SpeechBrain."""
    return getattr(importlib.import_module(f"speechbrain.{module}"), name)


def whisper(*_: Any) -> Any:
    """A Whisper, with numbers in place of the memory that its embedding of places begins with."""
    library = importlib.import_module("whisper.model")
    model = library.Whisper(library.ModelDimensions(**WHISPER))
    torch.nn.init.normal_(model.decoder.positional_embedding, std=0.1)
    return model


def features(batch: int, frames: int) -> Call:
    """Features of speech."""
    return {"x": normal(batch, frames, 16)}


def known(batch: int, frames: int) -> Call:
    """Features of speech, and which part of the longest each is."""
    return {"x": normal(batch, frames, 16), "lengths": 1 - torch.arange(batch) / 8}


def sounds(batch: int, length: int) -> Call:
    """Several sounds."""
    return {"x": normal(batch, length)}


def bands(batch: int, frames: int) -> Call:
    """Features of speech, bands before frames."""
    return {"x": normal(batch, 16, frames)}


def row(
    name: str,
    module: str,
    options: Mapping[str, Any],
    call: Callable[..., Call],
    sizes: Sequence[Sizes] = FRAMES,
) -> Row:
    """The row of a class of SpeechBrain, by its module; what follows a hyphen in the name says which of several."""
    title = name.partition("-")[0]
    return Row(name, "speechbrain", lambda _: Called(found(module, title)(**options)), call, sizes)


def separator(block: str, **options: Any) -> Any:
    """A model of two paths, of blocks of that kind in and between chunks."""
    made = [found("lobes.models.dual_path", block)(**options) for _ in range(2)]
    return found("lobes.models.dual_path", "Dual_Path_Model")(16, 16, *made, num_layers=1, norm="ln", K=10, num_spks=2)


def recognizer(encoder: str) -> Any:
    """A transformer from features to tokens."""
    return found("lobes.models.transformer.TransformerASR", "TransformerASR")(
        tgt_vocab=20,
        input_size=16,
        d_model=16,
        nhead=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_ffn=24,
        encoder_module=encoder,
        normalize_before=True,
        causal=False,
        kernel_size=5,
        attention_type="RelPosMHAXL" if encoder == "conformer" else "regularMHA",
    )


SHORT = {"channels": [16, 16, 16, 16, 48], "attention_channels": 8, "res2net_scale": 4, "se_channels": 8}
ROWS: tuple[Row, ...] = (
    Row(
        "Whisper",
        "whisper",
        whisper,
        lambda b, n: {"mel": normal(b, 80, 40), "tokens": torch.arange(b * n).reshape(b, n) % 60},
        at("batch tokens", (2, 7), (1, 9), (3, 3)),
    ),
    Row("Whisper.embed_audio", "whisper", lambda _: Called(whisper(), "embed_audio"),
        lambda b: {"mel": normal(b, 80, 40)}, at("batch", (2,), (1,), (3,))),
    Row(
        "Whisper.logits",
        "whisper",
        lambda _: Called(whisper(), "logits"),
        lambda b, n, m: {"tokens": torch.arange(b * n).reshape(b, n) % 60, "audio_features": normal(b, m, 16)},
        at("batch tokens frames", (2, 7, 20), (1, 9, 12), (3, 3, 16)),
    ),
    row("ECAPA_TDNN", "lobes.models.ECAPA_TDNN", {"input_size": 16, "lin_neurons": 8, **SHORT}, features),
    row("ECAPA_TDNN-lengths", "lobes.models.ECAPA_TDNN", {"input_size": 16, "lin_neurons": 8, **SHORT}, known),
    row("Xvector", "lobes.models.Xvector",
        {"in_channels": 16, "tdnn_channels": [16] * 5, "lin_neurons": 8, "activation": torch.nn.LeakyReLU}, features),
    row("ResNet", "lobes.models.ResNet",
        {"input_size": 16, "channels": [8] * 4, "block_sizes": [1] * 4, "lin_neurons": 8}, features),
    row("CRDNN", "lobes.models.CRDNN",
        {"input_shape": [None, None, 16], "cnn_channels": [4, 4], "rnn_neurons": 8, "rnn_layers": 1, "dnn_neurons": 8},
        features),
    row("ESPnetVGG", "lobes.models.ESPnetVGG",
        {"input_shape": [None, None, 16], "cnn_channels": [4, 4], "rnn_layers": 1, "rnn_neurons": 8}, features),
    row("VanillaNN", "lobes.models.VanillaNN",
        {"input_shape": [None, None, 16], "dnn_blocks": 1, "dnn_neurons": 8}, features),
    row("ContextNet", "lobes.models.ContextNet",
        {"input_shape": [None, None, 16], "out_channels": 8, "conv_channels": [8] * 4, "kernel_size": 3,
         "strides": [1, 2, 1, 1], "num_blocks": 4, "num_layers": 1, "inner_dim": 4, "alpha": 1, "beta": 1,
         "dropout": 0.0, "se_activation": torch.nn.Sigmoid}, features),
    row("RNNLM", "lobes.models.RNNLM",
        {"output_neurons": 20, "embedding_dim": 8, "rnn_layers": 1, "rnn_neurons": 8, "dnn_neurons": 8,
         "return_hidden": True}, lambda b, n: {"x": torch.arange(b * n).reshape(b, n) % 20}),
    row("Encoder-conv_tasnet", "lobes.models.conv_tasnet", {"L": 16, "N": 8}, sounds, WAVES),
    row("MaskNet", "lobes.models.conv_tasnet",
        {"N": 16, "B": 8, "H": 16, "P": 3, "X": 2, "R": 2, "C": 2}, bands),
    row("Encoder-dual_path", "lobes.models.dual_path", {"kernel_size": 16, "out_channels": 8}, sounds, WAVES),
    Row("dual_path_rnn", "speechbrain",
        lambda _: Called(separator("SBRNNBlock", input_size=16, hidden_channels=8, num_layers=1)), bands, FRAMES),
    Row("dual_path_transformer", "speechbrain",
        lambda _: Called(separator("SBTransformerBlock", num_layers=1, d_model=16, nhead=2, d_ffn=24)), bands, FRAMES),
    Row("sepformer", "speechbrain",
        lambda _: Called(found("lobes.models.dual_path", "SepformerWrapper")(
            encoder_kernel_size=16, encoder_out_nchannels=16, masknet_chunksize=10, masknet_numlayers=1,
            intra_numlayers=1, inter_numlayers=1, intra_nhead=2, inter_nhead=2, intra_dffn=24, inter_dffn=24)),
        lambda b, n: {"mix": normal(b, n)}, WAVES),
    Row("ResourceEfficientSeparator", "speechbrain",
        lambda _: Called(found("lobes.models.resepformer", "ResourceEfficientSeparator")(
            input_dim=16, num_spk=2, layer=1, segment_size=10, unit=8, mem_type="hc",
            seg_model=found("lobes.models.resepformer", "SegLSTM")(16, 8))), bands, FRAMES),
    row("HifiganGenerator", "lobes.models.HifiGAN",
        {"in_channels": 16, "out_channels": 1, "resblock_type": "1", "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5]],
         "resblock_kernel_sizes": [3, 5], "upsample_kernel_sizes": [8, 4], "upsample_initial_channel": 16,
         "upsample_factors": [4, 2], "inference_padding": 0}, bands),
    row("DiffWave", "lobes.models.DiffWave",
        {"input_channels": 16, "residual_layers": 2, "residual_channels": 8, "dilation_cycle_length": 2,
         "total_steps": 10},
        lambda b, n: {"audio": normal(b, 1, 256 * n), "step": torch.arange(b), "spectrogram": normal(b, 16, n)},
        at("batch frames", (2, 4), (1, 6), (3, 3))),
    row("Cnn14", "lobes.models.Cnn14", {"mel_bins": 64, "emb_dim": 64},
        lambda b, n: {"x": normal(b, n, 64)}, at("batch frames", (2, 64), (1, 96), (3, 80))),
    row("EnhancementGenerator", "lobes.models.MetricGAN",
        {"input_size": 16, "hidden_size": 200, "num_layers": 1}, known),
    row("MetricDiscriminator", "lobes.models.MetricGAN", {"kernel_size": (3, 3), "base_channels": 4},
        lambda b, n: {"x": normal(b, 2, n, 32)}, FRAMES),
    Row("TransformerASR", "speechbrain", lambda _: Called(recognizer("transformer")),
        lambda b, n: {**features(b, n), "tokens": torch.arange(b * 5).reshape(b, 5) % 19 + 1}, FRAMES),
    Row("TransformerASR.encode", "speechbrain", lambda _: Called(recognizer("transformer"), "encode"), known, FRAMES),
    Row("Conformer.encode", "speechbrain", lambda _: Called(recognizer("conformer"), "encode"), known, FRAMES),
    Row("Branchformer.encode", "speechbrain", lambda _: Called(recognizer("branchformer"), "encode"), features, FRAMES),
    row("TransformerLM", "lobes.models.transformer.TransformerLM",
        {"vocab": 20, "d_model": 16, "nhead": 2, "num_encoder_layers": 1, "d_ffn": 24},
        lambda b, n: {"x": torch.arange(b * n).reshape(b, n) % 19 + 1}),
    *(
        row(name, "nnet.RNN", {"hidden_size": 8, "input_size": 16, "bidirectional": True}, features)
        for name in ("RNN", "LSTM", "GRU")
    ),
    *(
        row(name, "nnet.RNN", {"hidden_size": 8, "input_shape": [4, None, 16], "bidirectional": True}, features)
        for name in ("LiGRU", "SLiGRU")
    ),
    row("SincConv", "nnet.CNN", {"out_channels": 8, "kernel_size": 11, "in_channels": 1},
        lambda b, n: {"x": normal(b, n, 1)}, WAVES),
    row("Fbank", "lobes.features", {"n_mels": 20, "n_fft": 400}, sounds, WAVES),
    row("MFCC", "lobes.features", {"n_mels": 20, "n_mfcc": 13}, sounds, WAVES),
    row("Leaf", "lobes.features", {"out_channels": 8, "window_len": 5.0, "in_channels": 1},
        lambda b, n: {"x": normal(b, n)}, WAVES),
    row("InputNormalization", "processing.features", {"norm_type": "sentence"}, known),
    row("StatisticsPooling", "nnet.pooling", {}, known),
)  # fmt: skip
