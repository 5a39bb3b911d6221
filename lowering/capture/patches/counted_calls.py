"""What hangs on how many calls there were: the running statistics of `BatchNorm(momentum=None)`, torch's averages of
models, and steps of `RAdam`, `ASGD` and `Adafactor`. Torch makes a number of the count, or decides by it, or by what
the weights are, or, in `GradScaler`, the gradients; here the count is state, as it is, and each step is computed by the
same operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pkgutil import resolve_name
from typing import Any

import torch
import torch.nn.functional as F
from torch.amp.grad_scaler import GradScaler
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel, get_swa_avg_fn

from lowering.capture.patches.functions_of_numbers import any_varies
from lowering.capture.patches.replaced import Replaced, replaced_attributes
from lowering.errors import CaptureError

Method = Callable[..., Any]


def calls_counted() -> Replaced:
    """A block in which the count of what is averaged, or of steps, is that of each call."""
    kinds = (_BatchNorm, "forward", with_counted_batches(_BatchNorm.forward)), (AveragedModel, "update_parameters", add)
    return replaced_attributes(*kinds, *OF_OPTIMIZERS, *OF_SCALERS)


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


# ---------------------------------------------------------------------------------------------- optimizers


def step_radam(
    params: Sequence[Any], grads: Sequence[Any], means: Sequence[Any], squares: Sequence[Any], steps: Sequence[Any],
    *, beta1: float, beta2: float, lr: Any, weight_decay: float, eps: float, decoupled_weight_decay: bool,
    maximize: bool, **_: Any,
) -> None:  # fmt: skip
    """A step of RAdam, which rectifies where that has a meaning: from the sixth step on, by the usual rates."""
    limit = 2 / (1 - beta2) - 1
    for param, grad, mean, square, count in zip(*map(as_reals, (params, grads, means, squares)), steps, strict=True):
        count += 1
        grad = -grad if maximize else grad
        if weight_decay != 0 and decoupled_weight_decay:
            param.mul_(1 - lr * weight_decay)
        elif weight_decay != 0:
            grad = grad.add(param, alpha=weight_decay)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        step = count.double()  # of floats nothing would be left where what is subtracted is almost as large
        second = 1 - beta2**step
        length = limit - 2 * step * beta2**step / second
        rest = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        adaptive = second.sqrt() / square.sqrt().add(eps) * rest.clamp(min=0).sqrt()
        param.add_(mean / (1 - beta1**step) * lr * torch.where(length > 5.0, adaptive, 1.0), alpha=-1.0)


def step_asgd(
    params: Sequence[Any], grads: Sequence[Any], means: Sequence[Any], shares: Sequence[Any], rates: Sequence[Any],
    steps: Sequence[Any], *, lambd: float, lr: Any, t0: float, alpha: float, weight_decay: float, maximize: bool,
    **_: Any,
) -> None:  # fmt: skip
    """A step of ASGD, which averages from step t0 on: before that the average is the weight."""
    reals = map(as_reals, (params, grads, means))
    for param, grad, mean, share, rate, count in zip(*reals, shares, rates, steps, strict=True):
        count += 1
        grad = -grad if maximize else grad
        if weight_decay != 0:
            grad = grad.add(param, alpha=weight_decay)
        param.mul_(1 - lambd * rate.double()).sub_(grad * rate)
        mean.copy_(torch.where(share == 1, param, mean + (param - mean) * share))
        step = count.double()
        rate.copy_(lr / (1 + lambd * lr * step) ** alpha)
        share.copy_(1 / (step - t0).clamp(min=1))


def as_reals(tensors: Sequence[Any]) -> list[Any]:
    """Tensors, complex ones as pairs of real numbers."""
    return [torch.view_as_real(each) if each.is_complex() else each for each in tensors]


def greatest(one: Any, other: Any) -> Any:
    """max of two floats, also of such as data tells."""
    return chosen(one, other, torch.gt) if any_varies((one, other)) else max(one, other)


def smallest(one: Any, other: Any) -> Any:
    """min of two floats, also of such as data tells."""
    return chosen(one, other, torch.lt) if any_varies((one, other)) else min(one, other)


def chosen(one: Any, other: Any, before: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Any:
    """The second of two floats where it goes before the first, which is Python's rule."""
    first, second = (torch.full((), each, dtype=torch.float64) for each in (one, other))
    return torch.where(before(second, first), second, first).item()


def refused(*_: Any) -> Any:
    """Raises CaptureError for a step of LBFGS."""
    raise CaptureError(
        "a step of LBFGS cannot be part of a program: it calls the loss as often as the numbers say",
        hint="capture the loss and its gradients, which the step calls, and make the step in torch",
    )


OF_OPTIMIZERS = tuple(
    (resolve_name(f"torch.optim.{module}"), name, value)
    for module, name, value in (
        ("radam", "_single_tensor_radam", step_radam), ("radam", "_multi_tensor_radam", step_radam),
        ("asgd", "_single_tensor_asgd", step_asgd), ("asgd", "_multi_tensor_asgd", step_asgd),
        ("_adafactor", "max", greatest), ("_adafactor", "min", smallest), ("lbfgs.LBFGS", "_gather_flat_grad", refused),
    )
)  # fmt: skip
"""What of torch's optimizers decides by the count, or by numbers out of weights, and what stands for it."""


# ---------------------------------------------------------------------------------------------- scaled gradients


def unscale_gradients(gradients: Sequence[torch.Tensor], found: torch.Tensor, factor: torch.Tensor) -> None:
    """Gradients times a factor; `found` becomes 1 where one of them is infinite or NaN."""
    for each in gradients:
        found.copy_(torch.maximum(found, each.isfinite().logical_not().any().to(found.dtype)))
        each.mul_(factor.to(each.dtype))


def update_scale(
    scale: torch.Tensor, count: torch.Tensor, found: torch.Tensor, more: float, less: float, interval: int
) -> torch.Tensor:
    """The scale, less where something was `found`, else more after as many steps as `interval`, which are counted."""
    skipped = found > 0
    grows = (count + 1 == interval).logical_and(skipped.logical_not())
    grown = scale * more
    larger = torch.where(grows.logical_and(grown.isfinite()), grown, scale)
    count.copy_(torch.where(skipped.logical_or(grows), torch.zeros_like(count), count + 1))
    return scale.copy_(torch.where(skipped, scale * less, larger))


def step_unless_found(self: Any, optimizer: Any, known: Any, *args: Any, **kwargs: Any) -> Any:
    """A step of an optimizer, of which nothing is left where a gradient was infinite or NaN."""
    found = sum(known["found_inf_per_device"].values())
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    held = [each for kept in optimizer.state.values() for each in kept.values() if isinstance(each, torch.Tensor)]
    before = [(each, each.detach().clone()) for each in (*weights, *held)]
    made = optimizer.step(*args, **kwargs)
    with torch.no_grad():
        for each, content in before:
            each.copy_(torch.where(torch.as_tensor(found) > 0, content, each))
    return made


def refuse_to_begin(*_: Any) -> None:
    """Raises CaptureError for a GradScaler that has no scale yet."""
    raise CaptureError(
        "the GradScaler begins with the first loss that it scales, and each call of the program would be the first",
        hint="make a step before, or call scaler.scale(torch.ones(()))",
    )


OF_SCALERS = (
    (torch, "_amp_foreach_non_finite_check_and_unscale_", unscale_gradients),
    (torch, "_amp_update_scale_", update_scale),
    (GradScaler, "_maybe_opt_step", step_unless_found),
    (GradScaler, "_lazy_init_scale_growth_tracker", refuse_to_begin),
)
"""What of `GradScaler` decides by what gradients hold, and what stands for it."""
