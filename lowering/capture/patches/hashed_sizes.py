"""Sizes that vary in a set, or as keys of a dict, which torch refuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lowering.capture.patches.replaced import replaced_attributes

OWN = (str(Path(torch.__file__).parent) + os.sep, str(Path(__file__).parents[2]) + os.sep)


@contextmanager
def sizes_hashed() -> Iterator[None]:
    """A block in which a model's own code may put a size into a set or a dict, which takes its number: a plain one of
    the same number has the same place there."""
    refusing = torch.SymInt.__hash__

    def hashed(size: Any) -> int:
        if sys._getframe(1).f_code.co_filename.startswith(OWN):
            return refusing(size)
        return hash(size.node.guard_int("", 0))

    with replaced_attributes((torch.SymInt, "__hash__", hashed)):
        yield
