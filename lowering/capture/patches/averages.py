"""Averages over all calls: the running statistics of `BatchNorm(momentum=None)`, and torch's averages of models. Torch
makes a number of how many calls there were, or asks whether it is the first; here the count is state, as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel, get_swa_avg_fn

from lowering.capture.patches.replaced import replaced_attributes

Method = Callable[..., Any]


@contextmanager
def averages_counted() -> Iterator[None]:
    """A block in which the count of what is averaged is that of each call."""
    kinds = (_BatchNorm, "forward", with_counted_batches(_BatchNorm.forward)), (AveragedModel, "update_parameters", add)
    with replaced_attributes(*kinds):
        yield


def with_counted_batches(before: Method) -> Method:
    """`forward` of a batch norm, whose statistics, where it has no momentum, move by 1 / n in the n-th batch."""

    def forward(self: Any, input: Any) -> Any:
        counts = self.momentum is None and self.training and self.track_running_stats
        if not counts or self.num_batches_tracked is None:
            return before(self, input)
        self._check_input_dim(input)
        self.num_batches_tracked.add_(1)
        momentum: Any = 1.0 / torch.sym_float(self.num_batches_tracked.item())
        running = self.running_mean, self.running_var
        return F.batch_norm(input, *running, self.weight, self.bias, True, momentum, self.eps)

    return forward


def add(self: Any, model: torch.nn.Module) -> None:
    """`update_parameters` of an average of models: of the first model its own weights, whatever was there."""
    own, others = self.parameters(), model.parameters()
    if self.use_buffers:
        own, others = ([*each.parameters(), *each.buffers()] for each in (self.module, model))
    pairs = [(mean.detach(), new.detach().to(mean.device)) for mean, new in zip(own, others, strict=False)]
    is_first = self.n_averaged == 0
    for mean, moved, (_, new) in zip([mean for mean, _ in pairs], moved_by(self, pairs), pairs, strict=True):
        mean.copy_(torch.where(is_first.to(mean.device), new.to(mean.dtype), moved))
    if not self.use_buffers:
        for mean, new in zip(self.module.buffers(), model.buffers(), strict=True):
            mean.detach().copy_(new.detach().to(mean.device))
    self.n_averaged += 1


def moved_by(average: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    """The means once further weights entered, by the function of the average."""
    means = [mean.clone() for mean, _ in pairs]
    if average.multi_avg_fn is None:
        function = get_swa_avg_fn() if average.avg_fn is None else average.avg_fn
        news = zip(means, pairs, strict=True)
        return [function(mean, new, average.n_averaged.to(mean.device)) for mean, (_, new) in news]
    for kind in dict.fromkeys((mean.device, mean.dtype) for mean in means):
        places = [i for i, mean in enumerate(means) if (mean.device, mean.dtype) == kind]
        count = average.n_averaged.to(kind[0])
        average.multi_avg_fn([means[i] for i in places], [pairs[i][1] for i in places], count)
    return means
