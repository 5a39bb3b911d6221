"""`isinstance(x, int)`, `hasattr(x, "shape")` and `torch.is_tensor(x)` of what is a number in eager on one way of a
branch or loop on data, and a tensor on the other, where the graph has one type for both."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lowering.capture.patches.replaced import replaced_attributes
from lowering.errors import CaptureError

OWN = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))
NUMBERS = (0, 0.0, False)


def asked_error(line: str) -> CaptureError:
    """The error for a model that asks on a line whether something is a number or a tensor."""
    return CaptureError(
        "the model asks whether a value is a number or a tensor, and it is one where a condition on data holds, and "
        "the other where it does not",
        source=line,
        hint="make it a tensor on both ways: torch.zeros(()) in place of 0",
    )


@contextmanager
def kinds_asked(line: Callable[[], str], is_mixed: Callable[[Any], bool]) -> Iterator[None]:
    """A block in which a model's own code that asks for the kind of what is a number on one way only is refused, where
    the answers differ; `is_mixed` tells whether a tensor is one of these, `line` gives the user's line."""
    is_kind, has = builtins.isinstance, builtins.hasattr

    def refuse_unlike(found: bool, value: Any, answer: Callable[[Any], bool], frame: Any) -> bool:
        asks = is_kind(value, torch.Tensor) and not frame.f_code.co_filename.startswith(OWN)
        if asks and is_mixed(value) and any(answer(number) != found for number in NUMBERS):
            raise asked_error(line())
        return found

    def asked(value: Any, kinds: Any, /) -> bool:
        found = is_kind(value, kinds)
        if type(value) in PLAIN:
            return found
        return refuse_unlike(found, value, lambda number: is_kind(number, kinds), sys._getframe(1))

    def had(value: Any, name: str, /) -> bool:
        found = has(value, name)
        return refuse_unlike(found, value, lambda number: has(number, name), sys._getframe(1))

    def is_tensor(value: Any, /) -> bool:
        found = is_kind(value, torch.Tensor)
        return refuse_unlike(found, value, lambda number: False, sys._getframe(1))

    changed = (builtins, "isinstance", asked), (builtins, "hasattr", had), (torch, "is_tensor", is_tensor)
    with replaced_attributes(*changed):
        yield


PLAIN = frozenset((int, float, bool, str, list, tuple, dict, type(None), type))
