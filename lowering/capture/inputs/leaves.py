"""The leaves of autograd's graph that a model holds: they have the gradients, flags and hooks again that they had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import torch

from lowering.capture.inputs.containers import restore


@attrs.frozen(eq=False)
class Leaves:
    """Parameters, and other tensors that get gradients, each with its gradient, whether it gets one, and its tables of
    hooks, and what these tables held. There are many: most are only looked at."""

    tensors: Sequence[tuple[Any, Any, bool, Any, Any]]
    tables: Sequence[tuple[Any, Mapping[Any, Any]]]

    @classmethod
    def of(cls, tensors: Iterable[Any]) -> Leaves:
        """Tensors as they are."""
        found = [(t, t.grad, t.requires_grad, t._backward_hooks, t._post_accumulate_grad_hooks) for t in tensors]
        return cls(found, [(table, dict(table)) for each in found for table in each[3:] if table is not None])

    def dropped(self, gained: set[int]) -> list[torch.Tensor]:
        """The tensors that have no gradient now, and had one before, or `gained` one since."""
        return [t for t, before, *_ in self.tensors if t.grad is None and (before is not None or id(t) in gained)]

    def spent(self) -> list[torch.Tensor]:
        """The gradients of tensors that have none now."""
        return [before for t, before, *_ in self.tensors if before is not None and t.grad is None]

    def put_back(self, noted: set[int], spent: set[int]) -> tuple[list[torch.Tensor], int]:
        """Has the tensors be as they were. (those that are left with another gradient, but for those whose gradients
        are `spent` by a step and are dropped, as `noted`, before; of how many it is others whether they get one)."""
        begun: list[torch.Tensor] = []
        flags = 0
        others = [
            each
            for each in self.tensors
            if (t := each[0]).grad is not each[1]
            or t.requires_grad != each[2]
            or t._backward_hooks is not each[3]
            or t._post_accumulate_grad_hooks is not each[4]
        ]
        for tensor, gradient, records, backward, after in others:
            another = tensor.grad is not None and tensor.grad is not gradient
            dropped = id(tensor) in noted or gradient is not None
            if another and not (id(tensor) in spent and dropped):
                begun.append(tensor)
            tensor.grad = gradient
            if tensor.requires_grad != records:
                flags += 1
                tensor.requires_grad_(records)
            if tensor._backward_hooks is not backward:
                tensor._backward_hooks.clear()
            if tensor._post_accumulate_grad_hooks is not after:
                tensor._post_accumulate_grad_hooks.clear()
        for table, held in self.tables:
            restore(table, held)
        return begun, flags
