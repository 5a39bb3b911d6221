"""Where models come from. A library that is not installed has none; the page says so."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tests.tables.architectures.subject import Subject

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "transformers": "tests.tables.architectures.transformers",
        "timm": "tests.tables.architectures.timm",
        "torchvision": "tests.tables.architectures.torchvision",
        "diffusers": "tests.tables.architectures.diffusers",
        "torch_geometric": "tests.tables.architectures.torch_geometric",
        "sentence_transformers": "tests.tables.architectures.sentence_transformers",
        "segmentation": "tests.tables.architectures.segmentation",
        "torchaudio": "tests.tables.architectures.torchaudio",
        "speech": "tests.tables.architectures.speech",
    }
)
"""The module of each source, by the name of its package. A module has `subjects()`: each subject by its name, in order,
none of them built; it raises ModuleNotFoundError where the package is missing."""


@cache
def subjects_of(source: str) -> Mapping[str, Subject]:
    """The subjects of a source by name. Raises ModuleNotFoundError where its package is missing."""
    return importlib.import_module(SOURCES[source]).subjects()
