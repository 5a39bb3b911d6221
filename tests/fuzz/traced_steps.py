"""The steps of random programs (see `tests.fuzz.traced_programs`): what a step does, and its text."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch

Step = Callable[["State"], Any]
Offer = tuple[str, Step] | None
attention = torch.nn.functional.scaled_dot_product_attention


@attrs.define
class State:
    """The inputs of a run, and what its steps have made: tensors (the first three are inputs), and numbers."""

    x: torch.Tensor
    y: torch.Tensor
    mask: torch.Tensor
    ints: torch.Tensor
    k: Any
    tensors: list[Any] = attrs.field(init=False)
    numbers: list[Any] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.tensors = [self.x, self.y]

    def put(self, *made: Any) -> None:
        """Keeps new tensors."""
        self.tensors += made


def place(rng: random.Random, state: State, rank: int | None = None) -> int | None:
    """The place of a tensor, of the last more often; of this rank where one is asked for."""
    found = [i for i, t in enumerate(state.tensors) if rank is None or t.dim() == rank]
    return rng.choice(found[-2:] if rng.random() < 0.5 else found) if found else None


def kept(text: str, i: int, function: Callable[..., Any]) -> Offer:
    """A step that keeps what a function makes of tensor i and the state."""
    return f"{text} of t{i}", lambda s: s.put(function(s.tensors[i], s))


def view(rng: random.Random, state: State) -> Offer:
    """A view of a tensor."""
    i = place(rng, state)
    if i is None:
        return None
    rank = state.tensors[i].dim()
    a, b = (rng.randrange(-rank, rank) if rank else 0 for _ in range(2))
    size = state.tensors[i].shape[a] if rank else 1
    j, h = rng.randint(0, 2), rng.randint(1, 4)
    number = rng.randrange(len(state.numbers)) if state.numbers else None
    offers: list[tuple[str, Callable[..., Any]]] = [
        (f"select({a}, {j})", lambda t, s: t.select(a, min(j, 1))),
        (f"select({a}, -1)", lambda t, s: t.select(a, -1)),
        (f"narrow({a}, 0, {min(h, size)})", lambda t, s: t.narrow(a, 0, min(h, size))),
        (f"[{j}:] along {a}", lambda t, s: t.movedim(a, 0)[j:].movedim(0, a)),
        ("[1:]", lambda t, s: t[1:]),
        ("[:-1]", lambda t, s: t[:-1]),
        ("[::2]", lambda t, s: t[::2]),
        ("[: len // 2]", lambda t, s: t[: t.shape[0] // 2]),
        ("[len // 2 :]", lambda t, s: t[t.shape[0] // 2 :]),
        ("[..., : x.shape[0]]", lambda t, s: t[..., : s.x.shape[0]]),
        (f"transpose({a}, {b})", lambda t, s: t.transpose(a, b)),
        ("t()", lambda t, s: t.t()),
        (f"unsqueeze({a})", lambda t, s: t.unsqueeze(a)),
        (f"squeeze({a})", lambda t, s: t.squeeze(a)),
        ("squeeze()", lambda t, s: t.squeeze()),
        ("view(-1)", lambda t, s: t.view(-1)),
        ("reshape(-1)", lambda t, s: t.reshape(-1)),
        (f"reshape({h}, -1)", lambda t, s: t.reshape(h, -1)),
        ("flatten()", lambda t, s: t.flatten()),
        ("expand(2, ...)", lambda t, s: t.expand(2, *t.shape)),
        ("expand_as(x)", lambda t, s: t.expand_as(s.x)),
        ("view_as(x)", lambda t, s: t.view_as(s.x)),
        ("reshape(x.shape)", lambda t, s: t.reshape(s.x.shape)),
        ("diagonal()", lambda t, s: t.diagonal()),
        ("detach()", lambda t, s: t.detach()),
        (f"unfold({a}, 2, 1)", lambda t, s: t.unfold(a, 2, 1)),
        ("contiguous()", lambda t, s: t.contiguous()),
        ("to(float32)", lambda t, s: t.to(torch.float32)),
        ("[ints[0]]", lambda t, s: t[s.ints[0]]),
    ]
    if number is not None:
        offers += [(f"[: n{number}]", lambda t, s: t[: s.numbers[number]])] * 3
        offers += [(f"[n{number}]", lambda t, s: t[s.numbers[number]])]
        offers += [(f"view(n{number}, -1)", lambda t, s: t.view(s.numbers[number], -1))]
        offers += [(f"as_strided((n{number},), (1,))", lambda t, s: t.as_strided((s.numbers[number],), (1,)))]
        offers += [(f"narrow({a}, 0, n{number})", lambda t, s: t.narrow(a, 0, s.numbers[number]))]
    return kept(*several(rng, offers, i))


def several(rng: random.Random, offers: Any, i: int) -> tuple[str, int, Callable[..., Any]]:
    """One of the offers, for tensor i."""
    text, function = rng.choice(offers)
    return text, i, function


def parts(rng: random.Random, state: State) -> Offer:
    """Several views of a tensor at once."""
    i = place(rng, state)
    if i is None or not state.tensors[i].dim():
        return None
    axis, count = rng.randrange(state.tensors[i].dim()), rng.randint(1, 3)
    size = state.tensors[i].shape[axis]
    first = rng.randint(0, size)
    offers: list[tuple[str, Callable[..., Any]]] = [
        (f"chunk({count}, {axis})", lambda t, s: t.chunk(count, axis)),
        (f"split({count}, {axis})", lambda t, s: t.split(count, axis)),
        (f"split([{first}, len - {first}], {axis})", lambda t, s: t.split([first, t.shape[axis] - first], axis)),
        (f"split([{first}, {size - first}], {axis})", lambda t, s: t.split([first, size - first], axis)),
        (f"tensor_split({count}, {axis})", lambda t, s: t.tensor_split(count, axis)),
        (f"unbind({axis})", lambda t, s: t.unbind(axis)),
        ("for row in", lambda t, s: [row * 2 for row in t]),
        ("split(len // 2)", lambda t, s: t.split(t.shape[0] // 2)),
    ]
    text, _, function = several(rng, offers, i)
    return f"{text} of t{i}", lambda s: s.put(*function(s.tensors[i], s))


def write(rng: random.Random, state: State) -> Offer:
    """A write into a tensor, which all that share its memory see."""
    i, j = place(rng, state), place(rng, state)
    if i is None or j is None:
        return None
    value = rng.choice([2.0, -1.0, 0.5])
    a = rng.randrange(state.tensors[i].dim()) if state.tensors[i].dim() else 0
    offers: list[tuple[str, Callable[[Any, State], Any]]] = [
        (f"add_({value})", lambda t, s: t.add_(value)),
        (f"mul_({value})", lambda t, s: t.mul_(value)),
        ("neg_()", lambda t, s: t.neg_()),
        ("relu_()", lambda t, s: t.relu_()),
        ("zero_()", lambda t, s: t.zero_()),
        (f"fill_({value})", lambda t, s: t.fill_(value)),
        (f"add_(t{j})", lambda t, s: t.add_(s.tensors[j])),
        (f"copy_(t{j})", lambda t, s: t.copy_(s.tensors[j])),
        (f"copy_(t{j} + 1)", lambda t, s: t.copy_(s.tensors[j] + 1)),
        (f"[0] = {value}", lambda t, s: t.__setitem__(0, value)),
        (f"[-1] = {value}", lambda t, s: t.__setitem__(-1, value)),
        (f"[1:] = {value}", lambda t, s: t.__setitem__(slice(1, None), value)),
        (f"[..., 0] = {value}", lambda t, s: t.__setitem__((..., 0), value)),
        (f"[:, 1] += {value}", lambda t, s: t[:, 1].add_(value)),
        (f"[ints[:2]] = {value}", lambda t, s: t.__setitem__(s.ints[:2], value)),
        (f"[mask] = {value}", lambda t, s: t.__setitem__(s.mask, value)),
        (f"[t > 0] = {value}", lambda t, s: t.__setitem__(t > 0, value)),
        ("masked_fill_(t > 1, 0)", lambda t, s: t.masked_fill_(t > 1, 0.0)),
        (f"[: len // 2] = {value}", lambda t, s: t.__setitem__(slice(None, t.shape[0] // 2), value)),
        (f"cumsum_({a})", lambda t, s: t.cumsum_(a)),
        (f"index_add_ along {a}", lambda t, s: t.index_add_(a, torch.tensor([0]), torch.ones_like(t.narrow(a, 0, 1)))),
        ("clamp_(-1, 1)", lambda t, s: t.clamp_(-1, 1)),
        (f"sin(t{j}, out=)", lambda t, s: torch.sin(s.tensors[j], out=t)),
        ("t_() after clone()", lambda t, s: s.put(t.clone().t_())),
        ("unsqueeze_(0) of a view", lambda t, s: s.put(t.view_as(t).unsqueeze_(0))),
        ("squeeze_() of a view", lambda t, s: s.put(t[:].squeeze_())),
    ]
    if state.numbers:
        n = rng.randrange(len(state.numbers))
        offers += [(f"[: n{n}] = {value}", lambda t, s: t.__setitem__(slice(None, s.numbers[n]), value))] * 2
        offers += [(f"[n{n}] = {value}", lambda t, s: t.__setitem__(s.numbers[n], value))]
        offers += [(f"add_(n{n})", lambda t, s: t.add_(s.numbers[n]))]
    text, _, function = several(rng, offers, i)
    return f"t{i}.{text}", lambda s: function(s.tensors[i], s)


def compute(rng: random.Random, state: State) -> Offer:
    """A new tensor out of others."""
    i, j = place(rng, state), place(rng, state)
    if i is None or j is None:
        return None
    rank = state.tensors[i].dim()
    a = rng.randrange(-rank, rank) if rank else 0
    offers: list[tuple[str, Callable[..., Any]]] = [
        ("clone", lambda t, s: t.clone()),
        ("* 2", lambda t, s: t * 2),
        ("sin", lambda t, s: t.sin()),
        (f"+ t{j}", lambda t, s: t + s.tensors[j]),
        (f"* t{j}", lambda t, s: t * s.tensors[j]),
        (f"@ t{j}", lambda t, s: t @ s.tensors[j]),
        (f"cat with t{j} along {a}", lambda t, s: torch.cat([t, s.tensors[j]], a)),
        (f"stack with t{j}", lambda t, s: torch.stack([t, s.tensors[j]])),
        (f"where with t{j}", lambda t, s: torch.where(t > 0, t, s.tensors[j])),
        ("+ x", lambda t, s: t + s.x),
        ("+ y", lambda t, s: t + s.y),
        (f"sum({a})", lambda t, s: t.sum(a)),
        (f"mean({a}, keepdim)", lambda t, s: t.mean(a, keepdim=True)),
        (f"amax({a})", lambda t, s: t.amax(a)),
        (f"softmax({a})", lambda t, s: t.softmax(a)),
        (f"cumsum({a})", lambda t, s: t.cumsum(a)),
        (f"flip({a})", lambda t, s: t.flip(a)),
        (f"roll(1, {a})", lambda t, s: t.roll(1, a)),
        (f"sort({a})", lambda t, s: t.sort(a).values),
        (f"topk(2, {a})", lambda t, s: t.topk(2, a).values),
        (f"argmax({a}) as numbers", lambda t, s: t.argmax(a).float()),
        ("tril", lambda t, s: t.tril()),
        ("zeros_like", lambda t, s: torch.zeros_like(t)),
        ("new_zeros(x.shape[0])", lambda t, s: t.new_zeros(s.x.shape[0])),
        ("arange(len) + 0.5", lambda t, s: torch.arange(t.shape[0]) + 0.5),
        ("[mask]", lambda t, s: t[s.mask]),
        ("[t > 0]", lambda t, s: t[t > 0]),
        ("[mask.nonzero()[:, 0]]", lambda t, s: t[s.mask.nonzero()[:, 0]]),
        ("index_select(ints)", lambda t, s: t.index_select(0, s.ints)),
        ("repeat(2, 1)", lambda t, s: t.repeat(2, 1)),
        ("repeat_interleave(2, 0)", lambda t, s: t.repeat_interleave(2, 0)),
        ("pad(1, 0)", lambda t, s: torch.nn.functional.pad(t, (1, 0))),
        ("pad(-1, 0)", lambda t, s: torch.nn.functional.pad(t, (-1, 0))),
        ("reflect pad(1, 1)", lambda t, s: torch.nn.functional.pad(t[None], (1, 1), "reflect")),
        ("pixel_unshuffle", lambda t, s: torch.nn.functional.pixel_unshuffle(t[None], 2) if t.numel() else t),
        ("max_pool1d(2)", lambda t, s: torch.nn.functional.max_pool1d(t[None], 2)[0]),
        ("avg_pool1d(3, 1)", lambda t, s: torch.nn.functional.avg_pool1d(t[None], 3, 1)[0]),
        ("layer_norm", lambda t, s: torch.nn.functional.layer_norm(t, t.shape[-1:])),
        ("einsum ij,kj->ik with itself", lambda t, s: torch.einsum("ij,kj->ik", t, t)),
        (f"einsum ij,jk->ik with t{j}", lambda t, s: torch.einsum("ij,jk->ik", t, s.tensors[j])),
        ("linear of ones", lambda t, s: torch.nn.functional.linear(t, torch.ones(2, state_width(t)))),
        ("attention with itself", lambda t, s: attention(t, t, t)),
        (f"attention with t{j}", lambda t, s: attention(t, *[s.tensors[j]] * 2)),
        ("cond on its sum", lambda t, s: torch.cond(t.sum() > 0, torch.sin, torch.cos, (t,))),
        ("cond on its length", lambda t, s: torch.cond(t.shape[0] > 3, torch.sin, torch.cos, (t,))),
        ("vmap of a sum", lambda t, s: torch.vmap(lambda row: row * row.sum())(t)),
        ("interpolate to 4", lambda t, s: torch.nn.functional.interpolate(t[None], 4)),
        ("unflatten(0, (2, -1))", lambda t, s: t.unflatten(0, (2, -1))),
        ("masked_select", lambda t, s: t.masked_select(t > 0.5)),
        ("gather", lambda t, s: t.gather(0, s.ints[:2, None].clamp(0, 1).expand(2, 1))),
        ("bfloat16 and back", lambda t, s: t.to(torch.bfloat16).float()),
        ("unique of rounded", lambda t, s: t.round().unique()),
        ("cdist", lambda t, s: torch.cdist(t, t)),
        ("outer of rows", lambda t, s: torch.outer(t[0], t[-1])),
    ]  # fmt: skip
    if state.numbers:
        n = rng.randrange(len(state.numbers))
        offers += [
            (f"* n{n}", lambda t, s: t * s.numbers[n]),
            (f"full((n{n},), 2)", lambda t, s: torch.full((s.numbers[n],), 2.0)),
            (f"arange(n{n})", lambda t, s: torch.arange(s.numbers[n]) * 1.0),
            (f"roll(n{n})", lambda t, s: t.roll(s.numbers[n], 0)),
            (f"repeat(n{n}, 1)", lambda t, s: t.repeat(s.numbers[n], 1)),
            (f"eye(n{n}) @", lambda t, s: torch.eye(s.numbers[n]) @ t),
            (f"x[:, 0] + zeros(n{n})", lambda t, s: s.x[:, 0] + torch.zeros(s.numbers[n])),
            (f"interpolate to n{n}", lambda t, s: torch.nn.functional.interpolate(t[None], s.numbers[n])),
        ]
    text, _, function = several(rng, offers, i)
    return kept(text, i, function)


def state_width(t: torch.Tensor) -> int:
    """The last size."""
    return t.shape[-1]


def count(rng: random.Random, state: State) -> Offer:
    """A number out of sizes, of data, or of other numbers."""
    i = place(rng, state)
    if i is None:
        return None
    rank = state.tensors[i].dim()
    a, c, j = (rng.randrange(rank) if rank else 0), rng.randint(1, 4), rng.randrange(3)
    offers: list[tuple[str, Callable[[State], Any]]] = [
        (f"t{i}.shape[{a}]", lambda s: s.tensors[i].shape[a]),
        (f"len(t{i})", lambda s: len(s.tensors[i])),
        (f"t{i}.numel()", lambda s: s.tensors[i].numel()),
        (f"t{i}.stride({a})", lambda s: s.tensors[i].stride(a)),
        (f"x.shape[0] - {c}", lambda s: s.x.shape[0] - c),
        (f"x.shape[0] // {c}", lambda s: s.x.shape[0] // c),
        ("int(x.shape[1] * 0.5)", lambda s: int(s.x.shape[1] * 0.5)),
        ("max(x.shape)", lambda s: max(s.x.shape)),
        ("min(x.shape[0], 4)", lambda s: min(s.x.shape[0], 4)),
        ("ceil(x.shape[0] / 2)", lambda s: -(-s.x.shape[0] // 2)),
        ("mask.sum().item()", lambda s: s.mask.sum().item()),
        (f"ints[{j}].item()", lambda s: s.ints[j].item()),
        ("ints.tolist()[1]", lambda s: s.ints.tolist()[1]),
        ("mask.nonzero().shape[0]", lambda s: s.mask.nonzero().shape[0]),
        ("int(ints.max())", lambda s: int(s.ints.max())),
        ("k", lambda s: s.k),
        (f"k + {c}", lambda s: s.k + c),
    ]
    if state.numbers:
        n, m = (rng.randrange(len(state.numbers)) for _ in range(2))
        offers += [
            (f"n{n} + n{m}", lambda s: s.numbers[n] + s.numbers[m]),
            (f"n{n} * {c}", lambda s: s.numbers[n] * c),
            (f"n{n} // {c}", lambda s: s.numbers[n] // c),
            (f"n{n} % {c}", lambda s: s.numbers[n] % c),
            (f"max(n{n}, n{m})", lambda s: max(s.numbers[n], s.numbers[m])),
            (f"abs(n{n} - {c})", lambda s: abs(s.numbers[n] - c)),
        ]
    text, function = rng.choice(offers)
    return f"n{len(state.numbers)} = {text}", lambda s: s.numbers.append(function(s))


def question(rng: random.Random, state: State) -> tuple[str, Callable[[State], Any]]:
    """A condition on sizes, numbers or data."""
    i, c = place(rng, state) or 0, rng.randint(0, 4)
    offers: list[tuple[str, Callable[[State], Any]]] = [
        (f"x.shape[0] > {c}", lambda s: s.x.shape[0] > c),
        (f"x.shape[1] == {c}", lambda s: s.x.shape[1] == c),
        ("x.shape[0] == x.shape[1]", lambda s: s.x.shape[0] == s.x.shape[1]),
        ("x.shape[0] % 2 == 0", lambda s: s.x.shape[0] % 2 == 0),
        ("x.shape[0] >= y.shape[0]", lambda s: s.x.shape[0] >= s.y.shape[0]),
        (f"len(t{i}) > {c}", lambda s: len(s.tensors[i]) > c),
        (f"t{i}.shape[-1] in (1, 3)", lambda s: s.tensors[i].shape[-1] in (1, 3)),
        (f"t{i}.numel() == 0", lambda s: s.tensors[i].numel() == 0),
        (f"t{i}.is_contiguous()", lambda s: s.tensors[i].is_contiguous()),
        (f"t{i}.shape == x.shape", lambda s: s.tensors[i].shape == s.x.shape),
        (f"t{i}.sum() > 0", lambda s: s.tensors[i].sum() > 0),
        ("mask.any()", lambda s: bool(s.mask.any())),
        ("mask.all()", lambda s: s.mask.all()),
        ("ints[0] > 1", lambda s: s.ints[0] > 1),
        ("ints[1].item() > 1", lambda s: s.ints[1].item() > 1),
        ("k > 1", lambda s: s.k > 1),
        ("x.sum().item() < 0.5", lambda s: s.x.sum().item() < 0.5),
        ("equal(x, y)", lambda s: torch.equal(s.x, s.y)),
        ("shape[0] > 2 and shape[1] > 2", lambda s: s.x.shape[0] > 2 and s.x.shape[1] > 2),
    ]
    if state.numbers:
        n, m = (rng.randrange(len(state.numbers)) for _ in range(2))
        offers += [
            (f"n{n} > {c}", lambda s: s.numbers[n] > c),
            (f"n{n} == n{m}", lambda s: s.numbers[n] == s.numbers[m]),
        ]
        offers += [(f"n{n} < x.shape[0]", lambda s: s.numbers[n] < s.x.shape[0])] * 2
    return rng.choice(offers)


def branching(rng: random.Random, state: State, text: str, step: Step) -> tuple[str, Step]:
    """A step where a condition holds, and something else where it does not."""
    asked, holds = question(rng, state)
    other = rng.choice([-1.0, 3.0])

    def branch(s: State) -> None:
        if holds(s):
            step(s)
        else:
            s.put(s.x * other)

    return f"if {asked}: {text}; else: x * {other}", branch


def check(rng: random.Random, state: State) -> Offer:
    """A branch between two ways of computing the last tensor further."""
    asked, holds = question(rng, state)
    return f"sin if {asked} else cos of the last", lambda s: s.put(
        s.tensors[-1].sin() if holds(s) else s.tensors[-1].cos()
    )


def loop(rng: random.Random, state: State) -> Offer:
    """A loop over the rows of a tensor, or as often as a number says."""
    i = place(rng, state)
    if i is None:
        return None

    def by_rows(s: State) -> None:
        total = s.x.sum()
        for row in range(s.tensors[i].shape[0]):
            total = total + s.tensors[i][row].sum() * (row + 1)
        s.put(total)

    def until(s: State) -> None:
        total = s.tensors[i].abs().sum() + 1
        rounds = 0
        while total > 3 and rounds < 3:
            total, rounds = total / 2, rounds + 1
        s.put(total)

    return rng.choice([(f"for row of t{i}", by_rows), (f"halved until small, t{i}", until)])


KINDS: Mapping[str, tuple[float, Callable[[random.Random, State], Offer]]] = {
    "view": (5, view), "parts": (1.5, parts), "write": (4, write), "compute": (5, compute), "count": (2.5, count),
    "check": (1.5, check), "loop": (0.4, loop),
}  # fmt: skip
"""The kinds of steps, with how often each is drawn."""
