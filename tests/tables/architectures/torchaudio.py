"""What torchaudio has that is a module or a function of tensors: transforms, filters, and its models, tiny, with random
weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tests.tables.architectures.listed import Called, Row, at, normal, subjects_of_rows
from tests.tables.architectures.subject import Call, Sizes, Subject

WAVES = at("batch length", (2, 1600), (1, 2401), (3, 1000))
LONG = at("batch length", (2, 8000), (1, 12000))
FRAMES = at("batch frames", (2, 30), (1, 45), (3, 20))
SPECTRA = at("batch frames", (2, 20), (1, 31), (3, 8))
FEW = at("frames", (20,), (31,), (8,))
LENGTHS = at("length", (1600,), (2401,), (1000,))
RATE = 8000


def subjects() -> Mapping[str, Subject]:
    """Each by its name. Raises ModuleNotFoundError without torchaudio."""
    for part in ("transforms", "functional", "models", "compliance.kaldi"):
        importlib.import_module(f"torchaudio.{part}")
    return subjects_of_rows("torchaudio", importlib.import_module("torchaudio"), ROWS)


def sound(batch: int, length: int) -> Call:
    """Several sounds."""
    return {"waveform": normal(batch, length)}


def wave(
    name: str, made: Callable[[Any], Any], call: Callable[..., Call] = sound, sizes: Sequence[Sizes] = WAVES
) -> Row:
    """The row of a transform of sound."""
    return Row(name, "transform", lambda a: Called(made(a.transforms)), call, sizes)


def function(
    name: str, made: Callable[[Any], Any], call: Callable[..., Call] = sound, sizes: Sequence[Sizes] = WAVES
) -> Row:
    """The row of a function of sound: `made` gives it of torchaudio.functional."""
    return Row(name, "function", lambda a: Called(made(a.functional)), call, sizes)


def kaldi(name: str) -> Row:
    """The row of features as Kaldi computes them, of one sound."""
    return Row(
        f"kaldi_{name}",
        "function",
        lambda a: Called(lambda x: getattr(a.compliance.kaldi, name)(x, dither=0.0)),
        lambda n: {"waveform": normal(1, n)},
        LENGTHS,
    )


def model(name: str, made: Callable[[Any], Any], call: Callable[..., Call], sizes: Sequence[Sizes] = WAVES) -> Row:
    """The row of a model: `made` gives it of torchaudio.models."""
    return Row(name, "model", lambda a: Called(made(a.models)), call, sizes)


def complex_normal(*shape: int) -> torch.Tensor:
    """Random complex numbers."""
    return torch.complex(normal(*shape), normal(*shape, seed=3))


def called_once(layer: torch.nn.Module) -> torch.nn.Module:
    """The layer, which makes its parameters when it is called first."""
    layer(normal(1, 1600))
    return layer


def densities(seed: int = 0) -> torch.Tensor:
    """complex64[9, 3, 3]: positive definite matrices, as the densities of three microphones are."""
    half = torch.complex(normal(9, 3, 3, seed=seed), normal(9, 3, 3, seed=seed + 1))
    return half @ half.mH + torch.eye(3)


def speech(batch: int, frames: int) -> Call:
    """Features of speech, and how many frames each has."""
    return {"input": normal(batch, frames, 16), "lengths": frames - torch.arange(batch)}


WAV2VEC: Mapping[str, Any] = {
    "extractor_mode": "group_norm", "extractor_conv_layer_config": [(8, 10, 5), (8, 3, 2)],
    "extractor_conv_bias": False, "encoder_embed_dim": 16, "encoder_projection_dropout": 0.0,
    "encoder_pos_conv_kernel": 9, "encoder_pos_conv_groups": 2, "encoder_num_layers": 2, "encoder_num_heads": 2,
    "encoder_attention_dropout": 0.0, "encoder_ff_interm_features": 24, "encoder_ff_interm_dropout": 0.0,
    "encoder_dropout": 0.0, "encoder_layer_norm_first": False, "encoder_layer_drop": 0.0, "aux_num_out": 5,
}  # fmt: skip
TRANSDUCER: Mapping[str, Any] = {
    "input_dim": 8, "encoding_dim": 16, "num_symbols": 10, "segment_length": 8, "right_context_length": 4,
    "time_reduction_input_dim": 4, "time_reduction_stride": 2, "transformer_num_heads": 2, "transformer_ffn_dim": 16,
    "transformer_num_layers": 1, "transformer_dropout": 0.0, "transformer_activation": "gelu",
    "transformer_left_context_length": 8, "transformer_max_memory_size": 0,
    "transformer_weight_init_scale_strategy": "depthwise", "transformer_tanh_on_mem": True,
    "symbol_embedding_dim": 8, "num_lstm_layers": 1, "lstm_layer_norm": True, "lstm_layer_norm_epsilon": 1e-3,
    "lstm_dropout": 0.0,
}  # fmt: skip
TACOTRON: Mapping[str, Any] = {
    "n_mels": 8, "encoder_embedding_dim": 16, "encoder_n_convolution": 1, "decoder_rnn_dim": 16,
    "attention_rnn_dim": 16, "attention_hidden_dim": 8, "prenet_dim": 8, "postnet_embedding_dim": 8,
    "postnet_n_convolution": 2, "decoder_max_step": 20, "symbol_embedding_dim": 16, "n_symbol": 20,
}  # fmt: skip
SEPARATOR: Mapping[str, Any] = {
    "num_sources": 2, "enc_kernel_size": 16, "enc_num_feats": 16, "msk_kernel_size": 3, "msk_num_feats": 8,
    "msk_num_hidden_feats": 16, "msk_num_layers": 2, "msk_num_stacks": 2,
}  # fmt: skip


TRANSFORMS: tuple[Row, ...] = (
    wave("Spectrogram", lambda t: t.Spectrogram(n_fft=64)),
    wave("Spectrogram_complex", lambda t: t.Spectrogram(n_fft=64, power=None)),
    wave("MelSpectrogram", lambda t: t.MelSpectrogram(n_fft=256, n_mels=20)),
    wave("MFCC", lambda t: t.MFCC(n_mfcc=13, melkwargs={"n_fft": 256, "n_mels": 23})),
    wave("LFCC", lambda t: t.LFCC(n_lfcc=13, speckwargs={"n_fft": 256})),
    wave("SpectralCentroid", lambda t: t.SpectralCentroid(16000, n_fft=64)),
    wave("Resample", lambda t: t.Resample(16000, RATE)),
    wave("Resample_up", lambda t: t.Resample(RATE, 22050)),
    wave("MuLawEncoding", lambda t: t.MuLawEncoding()),
    wave("MuLawDecoding", lambda t: t.MuLawDecoding(), lambda b, n: {"x": torch.arange(b * n).reshape(b, n) % 256}),
    wave("AmplitudeToDB", lambda t: t.AmplitudeToDB(top_db=80.0), lambda b, n: {"x": normal(b, n).abs()}),
    wave("ComputeDeltas", lambda t: t.ComputeDeltas(), lambda b, n: {"specgram": normal(b, 8, n)}, FRAMES),
    wave(
        "SlidingWindowCmn",
        lambda t: t.SlidingWindowCmn(cmn_window=40, min_cmn_window=10),
        lambda b, n: {"specgram": normal(b, n, 8)},
        at("batch frames", (2, 50), (1, 75), (3, 60)),
    ),
    wave("Fade", lambda t: t.Fade(100, 100)),
    wave("Vol", lambda t: t.Vol(0.5)),
    wave("Loudness", lambda t: t.Loudness(RATE), sizes=LONG),
    wave("Vad", lambda t: t.Vad(RATE), lambda n: {"waveform": normal(1, n)}, at("length", (8000,), (12000,))),
    wave("Preemphasis", lambda t: t.Preemphasis()),
    wave("Deemphasis", lambda t: t.Deemphasis()),
    wave("PitchShift", lambda t: called_once(t.PitchShift(RATE, 2, n_fft=128))),
    wave("Speed", lambda t: t.Speed(RATE, 1.1)),
    wave(
        "GriffinLim",
        lambda t: t.GriffinLim(n_fft=64, n_iter=4, rand_init=False),
        lambda b, n: {"specgram": normal(b, 33, n).abs()},
        SPECTRA,
    ),
    wave(
        "InverseSpectrogram",
        lambda t: t.InverseSpectrogram(n_fft=64),
        lambda b, n: {"spectrogram": complex_normal(b, 33, n)},
        SPECTRA,
    ),
    wave(
        "InverseMelScale",
        lambda t: t.InverseMelScale(n_stft=33, n_mels=8),
        lambda b, n: {"melspec": normal(b, 8, n).abs()},
        SPECTRA,
    ),
    wave(
        "TimeStretch",
        lambda t: t.TimeStretch(hop_length=16, n_freq=33, fixed_rate=1.3),
        lambda b, n: {"complex_specgrams": complex_normal(b, 33, n)},
        SPECTRA,
    ),
    wave("PSD", lambda t: t.PSD(), lambda b, n: {"specgram": complex_normal(b, 3, 9, n)}, SPECTRA),
    wave(
        "MVDR",
        lambda t: t.MVDR(ref_channel=0),
        lambda n: {
            "specgram": complex_normal(3, 9, n),
            "mask_s": normal(9, n).sigmoid(),
            "mask_n": normal(9, n, seed=1).sigmoid(),
        },
        FEW,
    ),
    wave(
        "RTFMVDR",
        lambda t: t.RTFMVDR(),
        lambda n: {"specgram": complex_normal(3, 9, n), "rtf": complex_normal(9, 3), "psd_n": densities(), "ref": 0},
        FEW,
    ),
    wave(
        "SoudenMVDR",
        lambda t: t.SoudenMVDR(),
        lambda n: {"specgram": complex_normal(3, 9, n), "psd_s": densities(), "psd_n": densities(2), "ref": 0},
        FEW,
    ),
    *(
        wave(
            name,
            lambda t, name=name: getattr(t, name)(),
            lambda n, k: {"x": normal(2, n), "y": normal(2, k)},
            at("n k", (40, 7), (31, 9), (8, 5)),
        )
        for name in ("Convolve", "FFTConvolve")
    ),
    wave(
        "AddNoise",
        lambda t: t.AddNoise(),
        lambda b, n: {"waveform": normal(b, n), "noise": normal(b, n, seed=4), "snr": normal(b)},
    ),
    wave(
        "RNNTLoss",
        lambda t: t.RNNTLoss(),
        lambda t: {
            "logits": normal(2, t, 4, 5),
            "targets": torch.tensor([[1, 2, 3], [1, 1, 2]], dtype=torch.int32),
            "logit_lengths": torch.tensor([t, t], dtype=torch.int32),
            "target_lengths": torch.tensor([3, 3], dtype=torch.int32),
        },
        at("frames", (6,), (8,)),
    ),
)
FUNCTIONS: tuple[Row, ...] = (
    *(
        function(f"{name}_biquad", lambda f, name=name: lambda x: getattr(f, f"{name}_biquad")(x, RATE, 1000.0))
        for name in ("allpass", "band", "bandpass", "bandreject", "highpass", "lowpass")
    ),
    *(
        function(f"{name}_biquad", lambda f, name=name: lambda x: getattr(f, f"{name}_biquad")(x, RATE, 3.0))
        for name in ("bass", "treble")
    ),
    function("equalizer_biquad", lambda f: lambda x: f.equalizer_biquad(x, RATE, 1000.0, 3.0)),
    function("deemph_biquad", lambda f: lambda x: f.deemph_biquad(x, 44100)),
    function("riaa_biquad", lambda f: lambda x: f.riaa_biquad(x, 44100)),
    function("lfilter", lambda f: lambda x: f.lfilter(x, torch.tensor([1.0, 0.3]), torch.tensor([0.2, 0.1]))),
    function("filtfilt", lambda f: lambda x: f.filtfilt(x, torch.tensor([1.0, 0.3]), torch.tensor([0.2, 0.1]))),
    function("contrast", lambda f: f.contrast),
    function("dcshift", lambda f: lambda x: f.dcshift(x, 0.1, 0.05)),
    function("overdrive", lambda f: f.overdrive),
    function("phaser", lambda f: lambda x: f.phaser(x, RATE)),
    function("flanger", lambda f: lambda x: f.flanger(x, RATE), lambda b, n: {"waveform": normal(b, 2, n)}),
    function("dither", lambda f: f.dither),
    function("gain", lambda f: lambda x: f.gain(x, 2.0)),
    function("detect_pitch_frequency", lambda f: lambda x: f.detect_pitch_frequency(x, RATE), sizes=LONG),
    function("amplitude_to_db", lambda f: lambda x: f.amplitude_to_DB(x.abs(), 10.0, 1e-10, 0.0)),
    kaldi("fbank"),
    kaldi("mfcc"),
    kaldi("spectrogram"),
)
MODELS: tuple[Row, ...] = (
    model("Conformer", lambda m: m.Conformer(16, 2, 24, 2, 7), speech, FRAMES),
    model("Conformer_first", lambda m: m.Conformer(16, 2, 24, 2, 7, convolution_first=True), speech, FRAMES),
    model("ConvTasNet", lambda m: m.ConvTasNet(**SEPARATOR), lambda b, n: {"input": normal(b, 1, n)}),
    model("DeepSpeech", lambda m: m.DeepSpeech(8, 16, 5), lambda b, n: {"x": normal(b, 1, n, 8)}, FRAMES),
    model(
        "Emformer",
        lambda m: m.Emformer(16, 2, 24, 2, 4, right_context_length=1),
        lambda b, n: {"input": normal(b, n, 16), "lengths": torch.full((b,), n - 1)},
        at("batch frames", (2, 21), (1, 33), (3, 17)),
    ),
    model(
        "HDemucs",
        lambda m: m.HDemucs(["a", "b"], audio_channels=2, channels=8),
        lambda b, n: {"input": normal(b, 2, n)},
        at("batch length", (1, 8000), (2, 12000)),
    ),
    model(
        "Tacotron2",
        lambda m: m.Tacotron2(**TACOTRON),
        lambda b, n: {
            "tokens": torch.arange(b * n).reshape(b, n) % 20,
            "token_lengths": torch.full((b,), n),
            "mel_specgram": normal(b, 8, 6),
            "mel_specgram_lengths": torch.full((b,), 6),
        },
        at("batch tokens", (2, 7), (1, 9)),
    ),
    model(
        "Wav2Letter",
        lambda m: m.Wav2Letter(num_classes=5, input_type="mfcc", num_features=8),
        lambda b, n: {"x": normal(b, 8, n)},
        FRAMES,
    ),
    model("Wav2Vec2Model", lambda m: m.wav2vec2_model(**WAV2VEC), sound),
    model(
        "Wav2Vec2Model_lengths",
        lambda m: m.wav2vec2_model(**WAV2VEC),
        lambda b, n: {"waveforms": normal(b, n), "lengths": n - 100 * torch.arange(b)},
    ),
    model(
        "Wav2Vec2Model_layer_norm",
        lambda m: m.wav2vec2_model(
            **{**WAV2VEC, "extractor_mode": "layer_norm", "encoder_layer_norm_first": True, "aux_num_out": None}
        ),
        sound,
    ),
    model(
        "WavLM",
        lambda m: m.wav2vec2.model.wavlm_model(**WAV2VEC, encoder_num_buckets=16, encoder_max_distance=40),
        sound,
    ),
    model(
        "WaveRNN",
        lambda m: m.WaveRNN(
            upsample_scales=[2, 2], n_classes=8, hop_length=4, n_res_block=1, n_rnn=16, n_fc=16, kernel_size=3,
            n_freq=8, n_hidden=8, n_output=8,
        ),
        lambda b, n: {"waveform": normal(b, 1, 4 * (n - 2)), "specgram": normal(b, 1, 8, n)},
        at("batch frames", (2, 10), (1, 15), (3, 8)),
    ),
    model(
        "RNNT",
        lambda m: m.rnnt.emformer_rnnt_model(**TRANSDUCER),
        lambda b, n: {
            "sources": normal(b, n + 4, 8),
            "source_lengths": torch.full((b,), n),
            "targets": torch.ones(b, 3, dtype=torch.int32),
            "target_lengths": torch.full((b,), 3, dtype=torch.int32),
        },
        at("batch frames", (2, 16), (1, 32)),
    ),
    model(
        "SquimObjective",
        lambda m: m.squim_objective_model(
            feat_dim=16, win_len=8, d_model=16, nhead=2, hidden_dim=16, num_blocks=1, rnn_type="LSTM", chunk_size=5
        ),
        sound,
        at("batch length", (2, 320), (1, 480)),
    ),
)  # fmt: skip
ROWS = (*TRANSFORMS, *FUNCTIONS, *MODELS)
