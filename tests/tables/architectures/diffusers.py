"""Models of diffusers: unets, control networks, autoencoders and transformers, tiny, with random weights."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tests.tables.architectures import diffusers_clips, diffusers_transformers, diffusers_unets, diffusers_vaes
from tests.tables.architectures.diffusers_rows import Row
from tests.tables.architectures.listed import by_name, subject_of
from tests.tables.architectures.subject import Subject

ROWS = {
    "unet": diffusers_unets.ROWS,
    "autoencoder": diffusers_vaes.ROWS,
    "transformer": (*diffusers_transformers.ROWS, *diffusers_clips.ROWS),
}


def subjects() -> Mapping[str, Subject]:
    """Each model by its name. Raises ModuleNotFoundError without diffusers."""
    library = importlib.import_module("diffusers")
    return by_name([subject(library, kind, row) for kind, rows in ROWS.items() for row in rows])


def subject(library: Any, kind: str, row: Row) -> Subject:
    """The subject of a row."""

    def build() -> Any:
        whole = getattr(library, row.made)(**row.options)
        return whole if row.part is None else row.part(whole)

    return subject_of("diffusers", kind, row.name, build, row.call, row.sizes)
