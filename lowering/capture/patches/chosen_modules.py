"""A place in a list of modules that only data tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from lowering.capture.patches.replaced import replaced_in_classes

HOLDERS = (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)


@contextmanager
def modules_chosen(choose: Callable[[Any, Any], Any]) -> Iterator[None]:
    """A block in which `choose(holder, place)` is asked first for the module at a place, and may give None."""

    def asking_first(own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def at(holder: Any, place: Any) -> Any:
            found = None if type(place) in (int, slice) else choose(holder, place)
            return own(holder, place) if found is None else found

        return at

    with replaced_in_classes({kind: {"__getitem__": asking_first(kind.__getitem__)} for kind in HOLDERS}):
        yield
