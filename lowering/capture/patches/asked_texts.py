"""`str(n)` and `f"{n}"` of a number that data or sizes tell: torch answers with the name that it has for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from lowering.capture.patches.replaced import replaced_attributes
from lowering.errors import CaptureError
from lowering.records.message_lines import asking_frame, asks_text, fills_text
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import short_path
from lowering.records.torch_internals import FakeTensor, FunctionalTensor

KINDS = (torch.SymInt, torch.SymFloat, torch.SymBool)

WITHOUT_NUMBERS = (FakeTensor, FunctionalTensor)
"""Tensors with which torch.export runs a model."""

PLAIN = ((torch.SymInt, "__int__", int), (torch.SymFloat, "__int__", int), (torch.SymFloat, "__float__", float))
"""What makes plain numbers, for `%d` and `%f` among others."""


@contextmanager
def texts_asked(raised: list[Any]) -> Iterator[None]:
    """A block in which a model's own code that asks for the text of a number out of data or of a size, other than for a
    message, gets that of its number in the example, which is a condition then; that of a tensor is refused, by an error
    that is among those `raised`, with its frame: the model may catch it."""
    changed: list[tuple[Any, str, Any]] = [(kind, "__repr__", texted(kind.__repr__)) for kind in KINDS]
    for kind, name, plain in PLAIN:
        changed.append((kind, name, told(plain, getattr(kind, name))))
    changed += [(kind, "__repr__", of_tensor(kind.__repr__, raised)) for kind in WITHOUT_NUMBERS]
    changed.append((torch.Tensor, "__format__", of_tensor(torch.Tensor.__format__, raised)))
    with replaced_attributes(*changed, *((kind, "__format__", formatted) for kind in KINDS)):
        yield


def told(plain: type, number_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What gives the plain number, which is no condition where it goes into the text of a message."""

    def number(symbolic: Any) -> Any:
        own = symbolic.node.has_hint() and fills_text(sys._getframe(1))
        return plain(symbolic.node.hint) if own else number_of(symbolic)

    return number


def texted(symbolic: Callable[[Any], str]) -> Callable[[Any], str]:
    """What gives the text of a number, where `symbolic` gives that of its expression."""

    def text(number: Any) -> str:
        return repr(plain_number(number)) if decides(number, sys._getframe(1)) else symbolic(number)

    return text


def of_tensor(own: Callable[..., str], raised: list[Any]) -> Callable[[Any], str]:
    """What gives the text of a tensor without numbers, of which torch makes its `own`, for a message only."""

    def text(tensor: Any, *given: Any, **options: Any) -> str:
        frame = sys._getframe(1)
        if isinstance(tensor, WITHOUT_NUMBERS) and asks_text(frame):
            asking = asking_frame(frame)
            line = f"{short_path(asking.f_code.co_filename)}:{asking.f_lineno}"
            error = CaptureError(TEXT_OF_TENSOR, source=line, hint=BY_NUMBER)
            raised.append((error, None))
            raise error
        return own(tensor, *given, **options)

    return text


TEXT_OF_TENSOR = "the text of a tensor is asked for, whose content only data tells"
BY_NUMBER = "decide by the tensor itself, or by a number of it: x.item()"


def formatted(number: Any, spec: str) -> str:
    """format(number, spec), where data or sizes tell the number."""
    return format(plain_number(number), spec) if decides(number, sys._getframe(1)) else repr(number)


def decides(number: Any, frame: Any) -> bool:
    """Whether a frame makes a text by which the model may decide of a number that varies. As the key of a module a
    number out of data may vary, and a size is what it is for the example."""
    symbols = getattr(number.node.expr, "free_symbols", ())
    return bool(symbols) and asks_text(frame, keys=is_of_data(number))


def is_of_data(number: Any) -> bool:
    """Whether a symbolic number hangs on what a tensor holds."""
    return any(is_unbacked(each.name) for each in getattr(number.node.expr, "free_symbols", ()))


def plain_number(number: Any) -> Any:
    """The number or truth that a symbolic one is for the example, which is kept as a condition; others as they are."""
    if isinstance(number, torch.SymBool):
        return number.node.guard_bool("", 0)
    if isinstance(number, torch.SymFloat):
        return number.node.guard_float("", 0)
    return number.node.guard_int("", 0) if isinstance(number, torch.SymInt) else number
