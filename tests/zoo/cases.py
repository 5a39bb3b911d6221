"""Every model of the zoo, by family."""

from __future__ import annotations

from tests.zoo import (
    torch_nn_functions,
    torch_nn_layers,
    transformers_decoders,
    transformers_encoders,
    transformers_further,
    transformers_seq2seq,
    transformers_text,
    transformers_vision,
)
from tests.zoo.case import Case

TRANSFORMERS: tuple[Case, ...] = (
    *transformers_text.CASES,
    *transformers_seq2seq.CASES,
    *transformers_vision.CASES,
    *transformers_further.CASES,
    *transformers_encoders.CASES,
    *transformers_decoders.CASES,
)
TORCH_NN: tuple[Case, ...] = (*torch_nn_layers.CASES, *torch_nn_functions.CASES)
CASES: tuple[Case, ...] = (*TRANSFORMERS, *TORCH_NN)


def case_named(name: str) -> Case:
    """The case of that name; an unknown name is a KeyError that lists the near ones."""
    found = {case.name: case for case in CASES}
    return found[name]
