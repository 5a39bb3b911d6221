"""Models of sentence-transformers: tiny backbones of transformers, and each of the library's own modules behind one."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tests.tables.architectures.listed import Row, at, by_name, normal, subject_of
from tests.tables.architectures.subject import Call, Subject

TEXTS = at("batch tokens", (2, 7), (3, 11), (1, 5))
WIDTH = 16
SMALL: Mapping[str, Any] = {
    "vocab_size": 60, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 40, "pad_token_id": 0,
}  # fmt: skip
DECODER: Mapping[str, Any] = {**SMALL, "num_key_value_heads": 1, "head_dim": 8}
BACKBONES: Mapping[str, Mapping[str, Any]] = {
    "bert": SMALL,
    "roberta": SMALL,
    "xlm-roberta": SMALL,
    "mpnet": SMALL,
    "electra": {**SMALL, "embedding_size": 12},
    "albert": {**SMALL, "embedding_size": 12},
    "deberta-v2": {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "distilbert": {"vocab_size": 60, "dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    "modernbert": {**SMALL, "local_attention": 4, "global_attn_every_n_layers": 2},
    "t5": {"vocab_size": 60, "d_model": WIDTH, "d_kv": 8, "num_heads": 2, "num_layers": 2, "d_ff": 24},
    "qwen2": DECODER,
    "mistral": DECODER,
    "gemma3_text": {**DECODER, "use_bidirectional_attention": True, "sliding_window": 4},
}
"""Configurations of what gives tokens their embeddings."""


class Embedded(torch.nn.Module):
    """A model of the library, which takes one dictionary and writes into it, called with tensors by their names."""

    def __init__(self, model: Any, result: str) -> None:
        super().__init__()
        self.model, self.result = model, result

    def forward(self, **features: torch.Tensor) -> Any:
        return self.model(dict(features))[self.result]


def subjects() -> Mapping[str, Subject]:
    """Each by its name. Raises ModuleNotFoundError without sentence-transformers."""
    library = importlib.import_module("sentence_transformers")
    return by_name([subject(library, row) for row in ROWS])


def subject(library: Any, row: Row) -> Subject:
    """The subject of a row."""

    def build() -> torch.nn.Module:
        whole = library.SparseEncoder if row.kind == "sparse" else library.SentenceTransformer
        parts = row.made(importlib.import_module("sentence_transformers.sentence_transformer.modules"))
        return Embedded(whole(modules=list(parts), device="cpu"), "sentence_embedding")

    return subject_of("sentence_transformers", row.kind, row.name, build, row.call, row.sizes)


def tokens(batch: int, length: int) -> Call:
    """Token ids and a mask: the last token of all texts but the first is padding."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1:, -1] = 0
    ids = torch.randint(5, 55, (batch, length), generator=torch.Generator().manual_seed(batch * 31 + length))
    return {"input_ids": ids, "attention_mask": mask}


def tokenizer() -> Any:
    """A tokenizer of sixty words."""
    tokenizers, library = importlib.import_module("tokenizers"), importlib.import_module("transformers")
    words = {"[PAD]": 0, "[UNK]": 1, **{f"w{n}": n for n in range(2, 60)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    return library.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")


def backbone(kind: str, task: str = "feature-extraction", **more: Any) -> Any:
    """What gives tokens their embeddings: a model of transformers of that kind, with random weights."""
    library = importlib.import_module("transformers")
    config = library.AutoConfig.for_model(kind, **BACKBONES[kind])
    classes = {"feature-extraction": library.AutoModel, "fill-mask": library.AutoModelForMaskedLM}
    made = importlib.import_module("sentence_transformers.base.modules").Transformer
    with tempfile.TemporaryDirectory() as folder:
        classes[task].from_config(config).save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        return made(folder, transformer_task=task, **more)


def pooled(name: str, mode: Any, *after: Callable[[Any, int], Any]) -> Row:
    """The row of a BERT, pooled so, and of modules behind it."""

    def made(modules: Any) -> list[Any]:
        pooling = modules.Pooling(WIDTH, mode)
        width = pooling.get_embedding_dimension()
        return [backbone("bert"), pooling, *(each(modules, width) for each in after)]

    return Row(name, "pooling", made, tokens, TEXTS)


def base() -> Any:
    """The modules that kinds of models share."""
    return importlib.import_module("sentence_transformers.base.modules")


def normalized(*_: Any) -> Any:
    """Makes embeddings of length 1."""
    return base().Normalize()


def sparse() -> Any:
    """The modules of sparse models."""
    return importlib.import_module("sentence_transformers.sparse_encoder.modules")


def between(name: str, made: Callable[[Any], Any], width: int = WIDTH, call: Callable[..., Call] = tokens) -> Row:
    """The row of a BERT with a module between its tokens and their mean."""
    return Row(name, "module", lambda m: [backbone("bert"), made(m), m.Pooling(width, "mean")], call, TEXTS)


ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"{kind}_mean",
            "backbone",
            lambda m, kind=kind: [backbone(kind), m.Pooling(WIDTH, "mean"), base().Normalize()],
            tokens,
            TEXTS,
        )
        for kind in BACKBONES
    ),
    *(pooled(f"pooling_{mode}", mode) for mode in ("cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")),
    pooled("pooling_cls_mean_max", ("cls", "mean", "max")),
    Row("qwen2_lasttoken", "pooling", lambda m: [backbone("qwen2"), m.Pooling(WIDTH, "lasttoken")], tokens, TEXTS),
    pooled("dense", "mean", lambda m, width: base().Dense(width, 12), normalized),
    pooled("dense_residual", "mean", lambda m, width: base().Dense(width, width, use_residual=True)),
    pooled("layer_norm", "mean", lambda m, width: m.LayerNorm(width)),
    pooled("dropout", "mean", lambda m, width: m.Dropout(0.2)),
    between("cnn", lambda m: m.CNN(WIDTH, 6, [1, 3]), 12),
    between(
        "lstm",
        lambda m: m.LSTM(WIDTH, 6),
        12,
        lambda b, n: {**tokens(b, n), "sentence_lengths": n - torch.arange(b).clamp(max=1)},
    ),
    Row(
        "weighted_layer_pooling",
        "module",
        lambda m: [
            backbone("bert", config_kwargs={"output_hidden_states": True}),
            m.WeightedLayerPooling(WIDTH, 2, 1),
            m.Pooling(WIDTH, "mean"),
        ],
        tokens,
        TEXTS,
    ),
    Row(
        "word_embeddings",
        "module",
        lambda m: [m.WordEmbeddings(tokenizer(), normal(60, WIDTH).numpy()), m.Pooling(WIDTH, "mean")],
        tokens,
        TEXTS,
    ),
    Row(
        "static_embedding",
        "module",
        lambda m: [m.StaticEmbedding(tokenizer(), embedding_weights=normal(60, WIDTH))],
        lambda b, n: {"input_ids": torch.arange(b * n) % 60, "offsets": torch.arange(b) * n},
        TEXTS,
    ),
    *(
        Row(
            f"splade_{strategy}_{activation}",
            "sparse",
            lambda m, strategy=strategy, activation=activation: [
                backbone("bert", "fill-mask"), sparse().SpladePooling(strategy, activation),
            ],
            tokens,
            TEXTS,
        )
        for strategy, activation in (("max", "relu"), ("sum", "relu"), ("max", "log1p_relu"))
    ),
    Row(
        "sparse_auto_encoder",
        "sparse",
        lambda m: [backbone("bert"), m.Pooling(WIDTH, "mean"), sparse().SparseAutoEncoder(WIDTH, 24, 4, 8)],
        tokens,
        TEXTS,
    ),
)  # fmt: skip
