"""torch.cond over operands of any kind: numbers, None and strings beside tensors, and branches that give views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from lowering.capture.patches.table import LOCK
from lowering.records.torch_internals import pytree


@contextmanager
def branches_of_anything() -> Iterator[None]:
    """A block in which torch.cond takes operands that are no tensors, which its branches then close over, and branches
    whose results are views, which become tensors of their own."""
    with LOCK:
        before = torch.cond

        def cond(
            pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
        ) -> Any:
            leaves, spec = pytree.tree_flatten(tuple(operands))
            tensors = tuple(each for each in leaves if isinstance(each, torch.Tensor))

            def over_tensors(branch: Callable[..., Any]) -> Callable[..., Any]:
                def call(*given: Any) -> Any:
                    rest = iter(given)
                    full = [next(rest) if isinstance(each, torch.Tensor) else each for each in leaves]
                    found = branch(*pytree.tree_unflatten(full, spec))
                    return pytree.tree_map_only(torch.Tensor, lambda each: each.clone(), found)

                return call

            return before(pred, over_tensors(true_fn), over_tensors(false_fn), tensors)

        torch.cond = cond
        try:
            yield
        finally:
            torch.cond = before
