"""Steps that train through branches and loops, of the model's Python or of torch, against eager at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch.compiler import nested_compile_region
from torch.nn import functional as F

import irkit

SIZES = ((3, 7), (2, 5), (4, 1), (1, 9), (3, 4), (5, 2))
Loss = Callable[[Any, torch.Tensor], torch.Tensor]


def stepping(model: torch.nn.Module, loss_of: Loss) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> Any:
        loss = loss_of(model, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), [each.detach().clone() for each in model.parameters()]

    return step


def states_stacked(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state, found = torch.zeros(x.shape[0], 5), []
    for t in range(x.shape[1]):
        state = cell(x[:, t], state)
        found.append(state)
    return torch.stack(found, 1).pow(2).mean()


def last_state(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(x.shape[0], 5)
    for t in range(x.shape[1]):
        state = cell(x[:, t], state)
    return state.pow(2).mean() + cell.weight_ih.pow(2).sum()


def two_states(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state = memory = torch.zeros(x.shape[0], 5)
    for t in range(x.size(1)):
        state, memory = cell(x[:, t], (state, memory))
    return state.pow(2).mean() + memory.mean()


def cut_between(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(x.shape[0], 5)
    for t in range(x.shape[1]):
        state = cell(x[:, t], state.detach())
    return state.pow(2).mean()


def unrecorded(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(x.shape[0], 5)
    with torch.no_grad():
        for t in range(x.shape[1]):
            state = cell(x[:, t], state)
    return (state * cell.bias_ih[:5]).pow(2).sum()


def loop_in_loop(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state, total = torch.zeros(x.shape[0], 5), torch.zeros(())
    for t in range(x.shape[1]):
        for _ in range(2):
            state = cell(x[:, t], state)
        total = total + state.sum()
    return total / x.shape[1]


def branch_in_loop(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(x.shape[0], 5)
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:  # noqa: SIM108
            state = cell(x[:, t], state)
        else:
            state = cell(x[:, t].exp(), state) * 0.5 + cell.bias_ih[:5]
    return state.pow(2).mean()


def written_in_place(cell: Any, x: torch.Tensor) -> torch.Tensor:
    found, state = x.new_zeros(x.shape[0], x.shape[1], 5), torch.zeros(x.shape[0], 5)
    for t in range(x.shape[1]):
        state = cell(x[:, t], state)
        found[:, t] = state
    return found.pow(2).mean()


def attending(cell: Any, x: torch.Tensor) -> torch.Tensor:
    known, state, found = F.linear(x, cell.weight_ih[:5]), torch.zeros(x.shape[0], 5), []
    for _ in range(x.shape[1]):
        weights = (known @ state.unsqueeze(-1)).softmax(1)
        state = cell((weights * x).sum(1), state)
        found.append(state)
    return torch.stack(found, 1).pow(2).mean()


def one_branch(cell: Any, x: torch.Tensor) -> torch.Tensor:
    y = cell.bias_ih
    if x.sum() > 0:  # noqa: SIM108
        y = y * cell.bias_hh
    else:
        y = y + cell.bias_hh.sin()
    return y.pow(2).mean() + cell.weight_ih.pow(2).sum()


def by_cond(cell: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.cond(x.sum() > 0, lambda y: y * cell.bias_hh, lambda y: y + 1, (cell.bias_ih * 2,))
    return y.pow(2).mean() + cell.weight_ih.pow(2).sum()


def as_cond(cell: Any, x: torch.Tensor) -> torch.Tensor:
    y = cell.bias_ih * 2
    y = torch.where(x.sum() > 0, y * cell.bias_hh, y + 1)
    return y.pow(2).mean() + cell.weight_ih.pow(2).sum()


def by_scan(cell: Any, x: torch.Tensor) -> torch.Tensor:
    def step(state: torch.Tensor, element: torch.Tensor) -> Any:
        state = cell(element, state)
        return state, state.clone()

    return scan(step, torch.zeros(x.shape[0], 5), x.transpose(0, 1).contiguous(), dim=0)[1].pow(2).mean()


def by_map(cell: Any, x: torch.Tensor) -> torch.Tensor:
    state = torch.ones(x.shape[0], 5)
    over: Any = mapped  # whose annotation takes no tensor for a further operand
    return over(lambda each, state: cell(each, state), x.transpose(0, 1), state).pow(2).mean()


def as_map(cell: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.stack([cell(each, torch.ones(x.shape[0], 5)) for each in x.unbind(1)]).pow(2).mean()


def linear_and_tanh(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight).tanh()


region: Any = nested_compile_region(linear_and_tanh)


def by_region(cell: Any, x: torch.Tensor) -> torch.Tensor:
    return region(x, cell.weight_ih).pow(2).mean()


CELL = torch.nn.GRUCell
LOSSES: tuple[tuple[Any, Loss], ...] = (
    (CELL, states_stacked), (CELL, last_state), (torch.nn.RNNCell, last_state), (torch.nn.LSTMCell, two_states),
    (CELL, cut_between), (CELL, unrecorded), (CELL, loop_in_loop), (CELL, branch_in_loop), (CELL, written_in_place),
    (CELL, attending), (CELL, one_branch), (CELL, by_cond), (CELL, by_scan), (CELL, by_map),
    (CELL, by_region),
)  # fmt: skip
EAGER: dict[Loss, Loss] = {by_cond: as_cond, by_scan: states_stacked, by_map: as_map}
"""The same in what eager runs without a compiler."""
NAMES = [f"{kind.__name__} {loss_of.__name__}" for kind, loss_of in LOSSES]


@pytest.mark.parametrize(("kind", "loss_of"), LOSSES, ids=NAMES)
def test_a_step_trains_through_it(kind: Any, loss_of: Loss) -> None:
    def fresh(loss_of: Loss) -> Any:
        torch.manual_seed(0)
        return stepping(kind(4, 5), loss_of)

    mine, eager = fresh(loss_of), fresh(EAGER.get(loss_of, loss_of))
    shapes = ({0: "batch", 1: "n"},)
    program = irkit.to_onnx(mine, (torch.randn(3, 7, 4),), dynamic_shapes=shapes, capture="direct", rewrite=True)
    state: Any = None
    for number, sizes in enumerate(SIZES):
        x = torch.randn(*sizes, 4)
        x = x * (x.sum().sign() if number % 2 else -x.sum().sign())  # both ways of the branches
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, eager(x), rtol=1e-3, atol=1e-5)


def test_gradients_of_the_input() -> None:
    weight = torch.randn(4, 4)

    def slope(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        state = torch.zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            state = torch.tanh(state @ weight + x[:, t])
        return torch.autograd.grad(state.pow(2).sum() + x.sum(), x)[0]

    shapes = ({0: "batch", 1: "n"},)
    program = irkit.to_onnx(slope, (torch.randn(3, 7, 4),), dynamic_shapes=shapes, capture="direct", rewrite=True)
    for sizes in SIZES:
        x = torch.randn(*sizes, 4)
        torch.testing.assert_close(program(x), slope(x))


class Scaled(torch.autograd.Function):
    """x * weight"""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        (x, weight), (slope,) = ctx.saved_tensors, slopes
        return slope * weight, (slope * x).sum(0)


def until_large(model: Any, x: torch.Tensor) -> torch.Tensor:
    y = model.bias
    while y.sum() < 3:
        y = y + 0.1 * model.bias.exp()
    return y.pow(2).sum() + model.weight.sum() + x.sum()


def growing(model: Any, x: torch.Tensor) -> torch.Tensor:
    y = model(x)[:, :1]
    for t in range(x.shape[1]):
        y = torch.cat([y, model(x[:, t : t + 1])], 1)
    return y.pow(2).sum()


def by_a_function_of_its_own(model: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(x.shape[0], 5)
    for t in range(x.shape[1]):
        y = Scaled.apply(x[:, t].sum(1, keepdim=True) + y, model.bias)
    return y.pow(2).sum() + model.weight.sum()


def twice(model: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(x.shape[0], 5)
    for t in range(x.shape[1]):
        y = torch.tanh(model(x[:, t]) + y)
    (slope,) = torch.autograd.grad(y.sum(), model.bias, create_graph=True)
    return slope.pow(2).sum() + model.weight.sum()


def on_one_way(model: Any, x: torch.Tensor) -> torch.Tensor:
    y = model.weight.sum() * x
    if x.sum() > 0:  # noqa: SIM108
        y = y * model.bias.sum()
    else:
        y = y + 1
    return y.sum()


def written_after(model: Any, x: torch.Tensor) -> torch.Tensor:
    y, scale = torch.zeros(x.shape[0], 5), torch.full((5,), 2.0)
    for t in range(x.shape[1]):
        y = torch.tanh(model(x[:, t]) + y) + scale
    scale.zero_()
    return y.sum()


def swapping(model: Any, x: torch.Tensor) -> torch.Tensor:
    one, two = model.bias * 1, model.bias.exp()
    for t in range(x.shape[1]):
        one, two = two + x[:, t].sum(), one * 1.5
    return one.sum() + model.weight.sum()


REFUSED = (
    (swapping, "the states of a loop change their places"),
    (on_one_way, "one way of a branch gives a tensor a gradient, and the other none"),
    (written_after, "is written before the gradient of that is computed"),
    (until_large, "the gradient of a loop is asked for, of which data tells how many rounds there are"),
    (growing, "or that grows"),
    (by_a_function_of_its_own, "uses a tensor by what is no operator of torch"),
    (twice, "the gradient of a branch or a loop is asked for a gradient of its own"),
)


@pytest.mark.parametrize(("loss_of", "said"), REFUSED, ids=[loss_of.__name__ for loss_of, _ in REFUSED])
def test_a_gradient_that_is_not_there_is_refused_rather_than_left_out(loss_of: Loss, said: str) -> None:
    step = stepping(torch.nn.Linear(4, 5), loss_of)
    with pytest.raises(irkit.IrkitError, match=said):
        irkit.to_onnx(step, (torch.randn(3, 7, 4),), dynamic_shapes=({0: "b", 1: "n"},), capture="direct", rewrite=True)


# --------------------------------------------------------------------------------- states that have no gradient

Round = Callable[[list[torch.Tensor], torch.Tensor, torch.Tensor], tuple[list[torch.Tensor], torch.Tensor]]
ROUNDS: dict[str, tuple[int, Round]] = {
    "apart": (2, lambda s, x, w: ([s[0] * w + x, s[1] + x * w], s[0] * w)),
    "chain": (2, lambda s, x, w: ([s[0] + s[1], s[1] * w + x], s[0] * w)),
    "long chain": (3, lambda s, x, w: ([s[0] + s[1], s[1] + s[2], s[2] * w + x], x * 1)),
    "shifted": (2, lambda s, x, w: ([s[0] * w + x, s[0] * 1], x * w)),
    "not read": (2, lambda s, x, w: ([x * w, s[1] * 2], x * w)),
    "infinite": (2, lambda s, x, w: ([s[0] * w + x, (s[1] * 0).log()], x * w)),
    "infinite slopes": (2, lambda s, x, w: ([s[0] * w + x, (s[1] * w * 0).sqrt()], x * w)),
    "handed on": (2, lambda s, x, w: ([s[0] * w + x, s[1]], s[1] * w)),
}
ENDS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "first": lambda s, found: s[0].sum(), "last": lambda s, found: s[-1].square().sum(),
    "rounds": lambda s, found: found.square().sum() + (s[0] * 0).sum(),
    "all": lambda s, found: sum(each.square().sum() for each in s) + found.sum(),
}  # fmt: skip


def with_states(name: str, end: str, by_scan: bool) -> Callable[[torch.Tensor], Any]:
    count, one_round = ROUNDS[name]
    torch.manual_seed(0)
    weight, *starts = weights = [torch.nn.Parameter(torch.randn(3)) for _ in range(count + 1)]

    def step(x: torch.Tensor) -> Any:
        for each in weights:
            each.grad = None
        states: Any = [each * 1 for each in starts]
        if by_scan:
            states, found = scan(lambda s, row: one_round([*s], row, weight), states, x)
        else:
            rows = []
            for row in x:
                states, made = one_round(states, row, weight)
                rows.append(made)
            found = torch.stack(rows)
        loss = ENDS[end](states, found)
        loss.backward()
        return loss.detach(), [torch.full((1,), -7.0) if p.grad is None else p.grad.clone() for p in weights]

    return step


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ROUNDS)
def test_a_state_that_the_loss_does_not_use_has_no_gradient(name: str, end: str) -> None:
    eager, mine = with_states(name, end, False), with_states(name, end, True)
    program = irkit.to_onnx(mine, (torch.randn(4, 3),), dynamic_shapes=({0: "t"},), capture="direct")
    for count in (4, 1, 2, 3, 7):
        x = torch.randn(count, 3)
        try:
            found = program(x)
        except irkit.ContractError:
            assert count < 4
            continue
        torch.testing.assert_close(found, eager(x), rtol=1e-3, atol=1e-3, equal_nan=True)


def overwritten(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    found = torch.zeros(2)
    for row in x:
        found = p.sqrt() * row
    return found


def overwritten_by_another(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    found = last = torch.zeros(2)
    for row in x:
        found = last * 2
        last = p.sqrt() * row
    return found


def overwritten_beside_a_sum(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    found = total = torch.zeros(2)
    for row in x:
        found = p.log() * row
        total = total + found
    return found + 0 * total.detach().nan_to_num(0, 0, 0)


@pytest.mark.parametrize("loop", [overwritten, overwritten_by_another, overwritten_beside_a_sum])
def test_rounds_that_a_result_does_not_hang_on_have_no_say_in_its_gradient(loop: Any) -> None:
    def slope(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(loop(x, p.requires_grad_()).sum(), p)[0]

    shapes = ({0: "n"}, None)
    given = (torch.rand(3, 2), torch.tensor([0.5, 0.25]))
    program = irkit.to_onnx(slope, given, dynamic_shapes=shapes, capture="direct", rewrite=True)
    for size in (3, 2, 6):
        for at in ([0.5, 0.25], [0.0, 0.25], [0.0, 0.0]):  # of 0 the slopes of sqrt and log are infinite
            x, p = torch.rand(size, 2), torch.tensor(at)
            torch.testing.assert_close(program(x, p), slope(x, p.clone()), equal_nan=True)
