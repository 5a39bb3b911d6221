"""Models with control flow on data, as their users wrote them: nothing in them helps an exporter."""

from __future__ import annotations

import math
from typing import Any

import attrs
import torch
from torch import nn
from torch.nn import functional as F

# ---------------------------------------------------------------------------------------------- branches


def clamp_if_large(x):
    if x.abs().max() > 10:
        x = torch.clamp(x, -10, 10)
    return x


def sign_of_sum(x):
    total = x.sum()
    if total > 0:
        label = torch.tensor(1)
    elif total < 0:
        label = torch.tensor(-1)
    else:
        label = torch.tensor(0)
    return label


def early_return(x, y):
    if (x == y).all():
        return torch.zeros_like(x)
    difference = x - y
    if difference.norm() < 1:
        return difference
    return difference / difference.norm()


def guarded(x, mask=None):
    if mask is not None:
        x = x * mask
    if x.dtype == torch.float32 and (torch.isnan(x).any() or torch.isinf(x).any()):
        x = torch.nan_to_num(x, 0.0, 100.0, -100.0)
    return x


def nested_decision(x):
    if x.mean() > 0:
        if x.max() > 5:
            scale = 0.1
        else:
            scale = 0.5
        x = x * scale
    else:
        x = -x
    return x + 1


def ternary(x):
    bias = x.mean() if x.mean() > 0 else -x.mean()
    return x + bias


def chained(x):
    level = x.mean()
    if -1 < level < 1:
        return x
    return x / level.abs()


def not_any(x):
    if not (x < 0).any():
        return x.sqrt()
    return x.abs().sqrt()


def two_results(x):
    if x[0, 0] > x[0, -1]:
        first, second = x.sum(0), x.prod(0)
    else:
        first, second = x.prod(0), x.sum(0)
    return {"first": first, "second": second}


def temporary(x):
    if x.sum() > 3:
        scaled = x / 3
        shifted = scaled - scaled.mean()
        x = shifted * 2
    return x


def number_chosen(x):
    k = 1
    if x.sum() > 0:
        k = 2
    return x.repeat(k, 1)[:1] * k


def either_or(x, y):
    chosen = x if x.sum() > y.sum() else y
    return F.softmax(chosen, -1)


def write_in_branch(x):
    out = torch.zeros_like(x)
    if x.sum() > 0:
        out[0] = x[0]
    else:
        out += 1
    return out * 2


def listed_in_branch(x):
    features = [x]
    if x.max() > 2:
        features[0] = x / x.max()
    return torch.cat(features, -1)


def asserted(x):
    assert (x >= 0).all(), "the input must not be negative"
    return x.sqrt()


def biggest(x, y):
    return max(x.max(), y.max()) - min(x.min(), y.min())


def any_of(x):
    if any(row.sum() > 4 for row in x.unbind(1)):
        return x - 4
    return x


# ---------------------------------------------------------------------------------------------- loops


def halve_until_small(x):
    while x.abs().max() > 1:
        x = x / 2
    return x


def newton(x):
    guess = x.clone()
    steps = 0
    while (guess * guess - x).abs().max() > 1e-3 and steps < 20:
        guess = (guess + x / guess) / 2
        steps += 1
    return guess, steps


def powers(x, n):
    result = torch.ones_like(x)
    for _ in range(n):
        result = result * x
    return result


def running_sum(x):
    total = torch.zeros(x.shape[1])
    sums = []
    for row in x:
        total = total + row
        sums.append(total)
    return torch.stack(sums)


def rows_until(x):
    total = torch.zeros(())
    for row in x:
        if row.sum() < 0:
            break
        total = total + row.sum()
    return total


def skip_rows(x):
    total = 0.0
    for row in x:
        if row.max() > 3:
            continue
        total = total + row.mean()
    return total


def find_first(x):
    for i, row in enumerate(x):
        if row.sum() > 2:
            return i
    return -1


def with_else(x):
    for row in x:
        if row.min() < -2:
            found = row
            break
    else:
        found = torch.zeros(x.shape[1])
    return found


def pairs(x, y):
    score = torch.zeros(())
    for a, b in zip(x, y):
        score = score + (a * b).sum() if a.sum() > b.sum() else score - 1
    return score


def layers_until_stable(x):
    previous = x
    for _ in range(6):
        x = torch.tanh(x * 0.5)
        if (x - previous).abs().max() < 0.05:
            break
        previous = x
    return x


def collatz(n):
    steps = torch.zeros((), dtype=torch.int64)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    return steps


def search_matrix(x):
    best = torch.tensor(-math.inf)
    where = torch.tensor(0)
    for i in range(x.shape[0]):
        for j in range(2):
            if x[i, j] > best:
                best = x[i, j]
                where = torch.tensor(i * 10 + j)
    return best, where


def while_true(x):
    count = 0
    while True:
        x = x * 0.7
        count += 1
        if x.norm() < 1:
            break
        if count > 30:
            return x * 0, count
    return x, count


# ---------------------------------------------------------------------------------------------- modules


class Clamped(nn.Module):
    """As the encoder of Bart keeps float16 from overflowing."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.linear(x) * 1e4
        if torch.isinf(hidden).any() or hidden.abs().max() > 2e4:
            limit = 2e4 - 1000
            hidden = torch.clamp(hidden, min=-limit, max=limit)
        outputs = (hidden,)
        outputs += (x,)
        return outputs


class Counted(nn.Module):
    """Keeps how often its input was large."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("large", torch.zeros(()))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x):
        if x.max() > 1:
            self.large += 1
            self.last = x[0]
        return x + self.large + self.last


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return x * self.scale


class Derived(Base):
    """Calls its parent, with a private method and a default."""

    def __adjusted(self, x):
        return x - 1

    def forward(self, x, floor=0.0):
        if x.mean() > floor:
            x = super().forward(x)
        else:
            x = self.__adjusted(x)
        return x


class Experts(nn.Module):
    """A mixture of experts that asks which of them are chosen at all."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mask = chosen == i
            if mask.any():
                out = out + expert(x) * mask.unsqueeze(-1)
        return out


class Recurrent(nn.Module):
    """A cell applied to each step of a sequence of any length, until a score says that it is enough."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 5)
        self.halt = nn.Linear(5, 1)

    def forward(self, x):
        state = torch.zeros(1, 5)
        states = []
        for step in x:
            state = self.cell(step.unsqueeze(0), state)
            states.append(state[0])
        found = torch.stack(states)
        return found, self.halt(state)


@attrs.frozen(eq=False)
class Case:
    """A model, its example, and other inputs that take its other ways; `sizes` is what varies."""

    model: Any
    example: tuple[Any, ...]
    others: tuple[tuple[Any, ...], ...]
    sizes: Any = None

    @property
    def name(self) -> str:
        return getattr(self.model, "__name__", type(self.model).__name__)


def ramp(*shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    """Numbers in equal steps."""
    return torch.linspace(low, high, math.prod(shape)).reshape(shape)


N = ({0: "n"},)
NN = ({0: "n"}, {0: "n"})
UP, DOWN, BIG, LONG = ramp(3, 4, low=0.1), -ramp(3, 4, low=0.1), ramp(3, 4) * 20, ramp(6, 4, low=-3, high=2)


def cases() -> list[Case]:
    """All of them."""
    torch.manual_seed(0)
    nan = UP.clone()
    nan[1, 1] = math.nan
    x, ways = (UP,), ((DOWN,), (BIG,), (LONG,), (UP * 0,))
    modules = [Clamped().eval(), Counted().eval(), Derived().eval(), Experts().eval()]
    return [
        *(Case(f, x, ways, N) for f in (
            clamp_if_large, sign_of_sum, nested_decision, ternary, not_any, two_results, temporary, number_chosen,
            write_in_branch, listed_in_branch, any_of, halve_until_small, layers_until_stable, while_true,
        )),
        Case(chained, x, ((DOWN,), (BIG,), (BIG + 5,), (LONG - 8,)), N),
        Case(early_return, (UP, DOWN), ((UP, UP), (UP, UP + 0.1), (LONG, LONG * 2)), NN),
        Case(guarded, x, ((nan,), (UP / 0,), (LONG,)), N),
        Case(either_or, (UP, DOWN), ((DOWN, UP), (LONG, -LONG)), NN),
        Case(asserted, x, ((UP * 3,), (LONG.abs(),)), N),
        Case(biggest, (UP, DOWN), ((DOWN, UP), (LONG, BIG[:1])), ({0: "n"}, {0: "m"})),
        Case(newton, x, ((UP * 30,), (LONG.abs() + 0.1,), (UP * 0 + 1,)), N),
        Case(powers, (UP, torch.tensor(3)), ((UP, torch.tensor(0)), (LONG, torch.tensor(5)))),
        *(Case(f, x, (*ways, (LONG[:1],)), N) for f in (
            running_sum, rows_until, skip_rows, find_first, with_else, search_matrix,
        )),
        Case(pairs, (UP, DOWN), ((DOWN, UP), (LONG, -LONG), (BIG, UP)), NN),
        Case(collatz, (torch.tensor(6),), ((torch.tensor(1),), (torch.tensor(7),), (torch.tensor(27),))),
        *(Case(model, x, ways, N) for model in modules),
        Case(Recurrent().eval(), x, ((LONG,), (LONG[:1],)), N),
    ]  # fmt: skip
