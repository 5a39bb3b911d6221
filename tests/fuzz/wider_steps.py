"""Further steps of random programs (see `tests.fuzz.traced_programs`): element types, out=, gradients, transforms,
hooks, loops over ranges of sizes, and writes through several views."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tests.fuzz.traced_steps import KINDS, Offer, State, kept, place, several

Offers = list[tuple[str, Callable[..., Any]]]


def typed(rng: random.Random, state: State) -> Offer:
    """A tensor of another element type, or what is computed of one."""
    i, j = place(rng, state), place(rng, state)
    if i is None or j is None:
        return None
    rank = state.tensors[i].dim()
    a, c = (rng.randrange(-rank, rank) if rank else 0), rng.randint(1, 4)
    dtype = rng.choice([torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8])
    offers: Offers = [
        (f"to({dtype})", lambda t, s: t.to(dtype)),
        (f"to({dtype})", lambda t, s: t.to(dtype)),
        ("bool()", lambda t, s: t.bool()),
        ("float()", lambda t, s: t.float()),
        ("complex with its sine", lambda t, s: torch.complex(t.float(), t.float().sin())),
        ("complex()", lambda t, s: t.to(torch.complex64)),
        ("polar", lambda t, s: torch.polar(t.float().abs(), t.float())),
        ("view_as_real", lambda t, s: torch.view_as_real(t)),
        ("view_as_complex of pairs", lambda t, s: torch.view_as_complex(torch.stack([t, t * 2], -1))),
        ("real", lambda t, s: t.real),
        ("imag", lambda t, s: t.imag),
        ("conj", lambda t, s: t.conj()),
        ("conj * itself", lambda t, s: (t.conj() * t).real),
        ("abs", lambda t, s: t.abs()),
        ("angle", lambda t, s: t.angle()),
        ("* 1j", lambda t, s: t * 1j),
        ("exp of * 1j", lambda t, s: (t.float() * 1j).exp()),
        (f"fft along {a}", lambda t, s: torch.fft.fft(t.float(), dim=a)),
        (f"// {c}", lambda t, s: t // c),
        (f"% {c}", lambda t, s: t % c),
        (f"/ {c}", lambda t, s: t / c),
        ("& 3", lambda t, s: t.long() & 3),
        ("<< 1", lambda t, s: t.int() << 1),
        ("~", lambda t, s: ~(t > 0)),
        (f"> t{j}", lambda t, s: t > s.tensors[j]),
        (f"== t{j}", lambda t, s: t == s.tensors[j]),
        (f"maximum of t{j}", lambda t, s: torch.maximum(t, s.tensors[j])),
        (f"argsort({a})", lambda t, s: t.argsort(a, stable=True)),
        (f"any({a})", lambda t, s: (t > 0.5).any(a)),
        ("all()", lambda t, s: (t > -1).all()),
        ("nonzero", lambda t, s: (t > 0).nonzero()),
        ("nonzero as tuple", lambda t, s: (t > 0).nonzero(as_tuple=True)[0]),
        ("count_nonzero", lambda t, s: torch.count_nonzero(t > 0)),
        ("one_hot(6)", lambda t, s: torch.nn.functional.one_hot(t.long().clamp(0, 5), 6)),
        ("bincount", lambda t, s: torch.bincount(t.long().clamp(0, 5).reshape(-1), minlength=6)),
        ("where by its sign", lambda t, s: torch.where(t > 0, 1, 0)),
        ("where of one", lambda t, s: torch.where(t > 0)[0]),
        (f"x[(t > 0) of {a}]", lambda t, s: s.x[(t > 0).any(-1)]),
        ("ints[ints > 0]", lambda t, s: s.ints[s.ints > 0]),
        (f"cumsum({a})", lambda t, s: t.cumsum(a)),
        (f"sum({a})", lambda t, s: t.sum(a)),
        (f"prod({a})", lambda t, s: t.prod(a)),
        (f"amax({a})", lambda t, s: t.amax(a)),
        ("view(int32)", lambda t, s: t.view(torch.int32)),
        ("tensor of numbers of sizes", lambda t, s: torch.tensor([t.shape[0], t.numel()])),
        ("full of a size", lambda t, s: torch.full((2,), t.shape[0])),
        ("scalar_tensor of a size", lambda t, s: torch.scalar_tensor(t.shape[-1]) * 1.5),
        ("x * its item", lambda t, s: s.x * t.reshape(-1)[0].item()),
        ("arange up to its item", lambda t, s: torch.arange(t.reshape(-1)[0].long().clamp(0, 6).item())),
    ]
    text, _, function = several(rng, offers, i)
    return kept(text, i, function)


def deep_write(rng: random.Random, state: State) -> Offer:
    """A write through a view of a view of a tensor."""
    i = place(rng, state)
    if i is None:
        return None
    rank = state.tensors[i].dim()
    a, c = (rng.randrange(-rank, rank) if rank else 0), rng.choice([2, -1, 3])
    views: Offers = [
        ("[1:]", lambda t, s: t[1:]),
        ("[:-1]", lambda t, s: t[:-1]),
        ("[::2]", lambda t, s: t[::2]),
        ("t()", lambda t, s: t.t()),
        (f"transpose(0, {a})", lambda t, s: t.transpose(0, a)),
        ("[0]", lambda t, s: t[0]),
        (f"select({a}, -1)", lambda t, s: t.select(a, -1)),
        ("unsqueeze(0)", lambda t, s: t.unsqueeze(0)),
        ("squeeze()", lambda t, s: t.squeeze()),
        ("reshape(-1)", lambda t, s: t.reshape(-1)),
        ("view(-1)", lambda t, s: t.view(-1)),
        ("flatten()", lambda t, s: t.flatten()),
        ("detach()", lambda t, s: t.detach()),
        ("diagonal()", lambda t, s: t.diagonal()),
        ("chunk(2)[0]", lambda t, s: t.chunk(2)[0]),
        ("split(2)[-1]", lambda t, s: t.split(2)[-1]),
        ("unbind()[0]", lambda t, s: t.unbind()[0]),
        (f"movedim(0, {a})", lambda t, s: t.movedim(0, a)),
        ("view_as_real", lambda t, s: torch.view_as_real(t)),
        ("real", lambda t, s: t.real),
        ("imag", lambda t, s: t.imag),
        ("[: len // 2]", lambda t, s: t[: t.shape[0] // 2]),
        ("[..., :1]", lambda t, s: t[..., :1]),
        ("[None]", lambda t, s: t[None]),
        ("unfold(0, 2, 2)", lambda t, s: t.unfold(0, 2, 2)),
    ]
    writes: Offers = [
        (f"add_({c})", lambda t, s: t.add_(c)),
        (f"mul_({c})", lambda t, s: t.mul_(c)),
        ("zero_()", lambda t, s: t.zero_()),
        ("neg_()", lambda t, s: t.neg_()),
        (f"[...] = {c}", lambda t, s: t.__setitem__(..., c)),
        (f"[0] = {c}", lambda t, s: t.__setitem__(0, c)),
        (f"[t > 0] = {c}", lambda t, s: t.__setitem__(t > 0, c)),
        (f"[ints[:1] * 0] += {c}", lambda t, s: t.__setitem__(s.ints[:1] * 0, c)),
        ("copy_(of its clone, flipped)", lambda t, s: t.copy_(t.clone().flip(0))),
        ("cumsum_(0)", lambda t, s: t.cumsum_(0)),
        ("sqrt(abs, out=)", lambda t, s: torch.sqrt(t.abs(), out=t)),
        ("index_fill_", lambda t, s: t.index_fill_(0, torch.tensor([0]), c)),
        ("index_copy_", lambda t, s: t.index_copy_(0, torch.tensor([0]), t[-1:].clone())),
        ("scatter_", lambda t, s: t.scatter_(0, torch.zeros_like(t[:1], dtype=torch.int64), c)),
        ("masked_scatter_", lambda t, s: t.masked_scatter_(t > 0, t.clone() + 1)),
        ("swap of two rows", lambda t, s: t.__setitem__([0, -1], t[[-1, 0]])),
        ("put_", lambda t, s: t.put_(torch.tensor([0]), t.reshape(-1)[:1].clone() + 1)),
    ]
    chain = [rng.choice(views) for _ in range(rng.randint(1, 3))]
    how, function = rng.choice(writes)

    def step(s: State) -> None:
        t = s.tensors[i]
        for _, view in chain:
            t = view(t, s)
        function(t, s)
        s.put(t)

    return f"t{i}.{'.'.join(text for text, _ in chain)}.{how}", step


def into_out(rng: random.Random, state: State) -> Offer:
    """An operator with out=, into what is empty, or of other sizes or types, or a view."""
    i, j = place(rng, state), place(rng, state)
    if i is None or j is None:
        return None
    fresh: Offers = [
        ("empty(0)", lambda t, s: torch.empty(0, dtype=t.dtype)),
        ("empty(0)", lambda t, s: torch.empty(0, dtype=t.dtype)),
        ("empty(2, 3)", lambda t, s: torch.empty(2, 3, dtype=t.dtype)),
        ("empty_like", lambda t, s: torch.empty_like(t)),
        ("zeros of double", lambda t, s: torch.zeros(t.shape, dtype=torch.float64)),
        ("a row of zeros", lambda t, s: torch.zeros(2, *t.shape, dtype=t.dtype)[0]),
        ("zeros of t()", lambda t, s: torch.zeros(t.t().shape, dtype=t.dtype).t()),
        (f"t{j}", lambda t, s: s.tensors[j]),
    ]
    operators: Offers = [
        ("sin", lambda t, out: torch.sin(t, out=out)),
        ("add", lambda t, out: torch.add(t, 1, out=out)),
        ("mul", lambda t, out: torch.mul(t, t, out=out)),
        ("cat", lambda t, out: torch.cat([t, t], out=out)),
        ("stack", lambda t, out: torch.stack([t, t], out=out)),
        ("sum(0)", lambda t, out: torch.sum(t, 0, out=out)),
        ("matmul", lambda t, out: torch.matmul(t, t.t(), out=out)),
        ("cumsum", lambda t, out: torch.cumsum(t, 0, out=out)),
        ("index_select", lambda t, out: torch.index_select(t, 0, torch.tensor([0, 0]), out=out)),
        ("clamp", lambda t, out: torch.clamp(t, -1, 1, out=out)),
        ("where", lambda t, out: torch.where(t > 0, t, -t, out=out)),
    ]
    (made, target), (name, function) = rng.choice(fresh), rng.choice(operators)

    def step(s: State) -> None:
        out = target(s.tensors[i], s)
        s.put(function(s.tensors[i], out), out)

    return f"{name}(t{i}, out={made})", step


def outside(rng: random.Random) -> torch.Tensor:
    """A constant of the model, of 3 rows and 2 columns."""
    return torch.tensor([[rng.uniform(-1, 1) for _ in range(2)] for _ in range(3)])


class Doubled(torch.autograd.Function):
    """2 x, whose gradient is said to be 3."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * 3 + ctx.saved_tensors[0] * 0


def loss_gradient(t: torch.Tensor, loss: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The gradient of a loss of a tensor."""
    with torch.enable_grad():
        x = t.detach().clone().requires_grad_(True)
        return torch.autograd.grad(loss(x), x)[0]


def backward_gradient(t: torch.Tensor, hooked: bool) -> Any:
    """What backward() leaves in a leaf, with a hook on the way where `hooked`."""
    with torch.enable_grad():
        x = t.detach().clone().requires_grad_(True)
        y = x.sin()
        if hooked:
            y.register_hook(lambda gradient: gradient * 2)
        (y * x).sum().backward()
        return x.grad


def doubled(module: Any, given: Any, found: Any) -> Any:
    """A hook that doubles what a module gives."""
    return found * 2


def differentiated(rng: random.Random, state: State) -> Offer:
    """Gradients, transforms, checkpoints, hooks, autocast."""
    i, j = place(rng, state), place(rng, state)
    if i is None or j is None:
        return None
    weight = outside(rng)
    layer = torch.nn.Linear(3, 2)
    hooked = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
    hooked[0].register_forward_hook(doubled)
    hooked.register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    half = rng.choice([torch.bfloat16, torch.float16])

    def cast_automatically(t: torch.Tensor, s: State) -> torch.Tensor:
        with torch.autocast("cpu", dtype=half):
            return torch.nn.functional.linear(t[..., :3], weight.t()) + 1

    def without_gradient(t: torch.Tensor, s: State) -> torch.Tensor:
        with torch.no_grad():
            return t * 2

    offers: Offers = [
        ("gradient of sum(x * x)", lambda t, s: loss_gradient(t, lambda x: (x * x).sum())),
        ("gradient of softmax", lambda t, s: loss_gradient(t, lambda x: x.softmax(-1)[..., 0].sum())),
        ("gradient of its max", lambda t, s: loss_gradient(t, lambda x: x.max() if x.numel() else x.sum())),
        ("gradient of a part", lambda t, s: loss_gradient(t, lambda x: (x[1:] ** 3).sum())),
        (f"gradient of * t{j}", lambda t, s: loss_gradient(t, lambda x: (x * s.tensors[j]).sin().sum())),
        ("gradient of a write", lambda t, s: loss_gradient(t, lambda x: x.clone().mul_(x).sum())),
        ("backward", lambda t, s: backward_gradient(t, False)),
        ("backward with a hook", lambda t, s: backward_gradient(t, True)),
        ("a function with its own gradient", lambda t, s: Doubled.apply(t)),
        ("gradient of such a function", lambda t, s: loss_gradient(t, lambda x: Doubled.apply(x).sum())),
        ("checkpoint", lambda t, s: checkpoint(lambda x: x.sin() + x, t, use_reentrant=False)),
        ("gradient of a checkpoint", lambda t, s: loss_gradient(
            t, lambda x: checkpoint(lambda z: z.sin() * z, x, use_reentrant=False).sum())),
        ("func.grad", lambda t, s: torch.func.grad(lambda x: (x.sin() * x).sum())(t)),
        ("func.grad twice", lambda t, s: torch.func.grad(
            lambda x: torch.func.grad(lambda z: (z**3).sum())(x).sum())(t)),
        ("vmap of func.grad", lambda t, s: torch.func.vmap(torch.func.grad(lambda r: (r * r).sum()))(t)),
        ("jacrev of a row", lambda t, s: torch.func.jacrev(lambda r: r.sin())(t[0])),
        ("jacfwd of a row", lambda t, s: torch.func.jacfwd(lambda r: r * r.sum())(t[0])),
        ("vjp", lambda t, s: torch.func.vjp(torch.sin, t)[1](torch.ones_like(t))[0]),
        ("jvp", lambda t, s: torch.func.jvp(torch.sin, (t,), (torch.ones_like(t),))[1]),
        ("vmap over columns", lambda t, s: torch.func.vmap(lambda c: c.cumsum(0), in_dims=1, out_dims=1)(t)),
        (f"vmap of a product with t{j}", lambda t, s: torch.func.vmap(lambda r: r @ s.tensors[j])(t)),
        ("vmap of a write", lambda t, s: torch.func.vmap(lambda r: r.clone().add_(1))(t)),
        ("vmap of vmap", lambda t, s: torch.vmap(torch.vmap(lambda e: e * e + 1))(t)),
        ("vmap with where", lambda t, s: torch.vmap(lambda r: torch.where(r.sum() > 0, r, -r))(t)),
        ("linear", lambda t, s: layer(t[..., :3])),
        ("hooked modules", lambda t, s: hooked(t[..., :3])),
        (f"autocast to {half}", cast_automatically),
        ("in no_grad", without_gradient),
        ("@ a constant", lambda t, s: t[..., :3] @ weight),
    ]  # fmt: skip
    text, _, function = several(rng, offers, i)
    return kept(text, i, function)


def ranged(rng: random.Random, state: State) -> Offer:
    """Loops over ranges of sizes, and numbers that Python makes of sizes."""
    i = place(rng, state)
    if i is None:
        return None
    rank = state.tensors[i].dim()
    a, c = (rng.randrange(rank) if rank else 0), rng.randint(1, 4)

    def over(numbers: Callable[[Any, State], Any]) -> Callable[[Any, State], Any]:
        def summed(t: Any, s: State) -> Any:
            total = t.sum() * 0
            for number in numbers(t, s):
                total = total + t.sum() * number + number
            return total

        return summed

    offers: Offers = [
        (f"range({c})", over(lambda t, s: range(c))),
        ("range(len)", over(lambda t, s: range(len(t)))),
        ("range(1, len, 2)", over(lambda t, s: range(1, t.shape[0], 2))),
        ("enumerate", over(lambda t, s: [k for k, _ in enumerate(t)])),
        ("zip with y", over(lambda t, s: [k for k, _ in enumerate(zip(t, s.y, strict=False))])),
        ("range(min(len, 2))", over(lambda t, s: range(min(t.shape[0], 2)))),
        ("shape", over(lambda t, s: t.shape)),
        ("tuple(shape[1:])", over(lambda t, s: tuple(t.shape[1:]))),
        ("ints.tolist()", over(lambda t, s: s.ints.tolist())),
        (f"int(size({a}) / 2)", lambda t, s: t * int(t.size(a) / 2)),
        (f"float(size({a}))", lambda t, s: t * float(t.size(a))),
        (f"/ size({a}) ** 0.5", lambda t, s: t / t.size(a) ** 0.5),
        (f"/ math.sqrt(size({a}))", lambda t, s: t / math.sqrt(max(t.size(a), 1))),
        (f"math.ceil(size({a}) / {c + 1})", lambda t, s: t[: math.ceil(t.size(a) / (c + 1))]),
        (f"round(size({a}) * 0.7)", lambda t, s: t[: round(t.size(a) * 0.7)]),
        ("math.prod(shape)", lambda t, s: t.reshape(math.prod(t.shape))),
        (f"divmod(size({a}), {c})", lambda t, s: t * divmod(t.size(a), c)[1]),
        (f"size({a}) if size({a}) else 7", lambda t, s: t + (t.size(a) if t.size(a) else 7)),
        (f"{c} <= size({a}) < 6", lambda t, s: t + 1 if c <= t.size(a) < 6 else t - 1),
        (f"not size({a}) % 2", lambda t, s: t.sin() if not t.size(a) % 2 else t),
        ("zeros(shape) + its numel", lambda t, s: torch.zeros(t.shape) + t.numel()),
        ("arange(-len, len)", lambda t, s: torch.arange(-t.shape[0], t.shape[0])),
        ("linspace of len", lambda t, s: torch.linspace(0, 1, t.shape[0] + 1)),
        ("indices of every other", lambda t, s: t[list(range(0, t.shape[0], 2))]),
        ("rows by a list of sizes", lambda t, s: t[[t.shape[0] - 1, 0]]),
        ("pad to 6 rows", lambda t, s: torch.nn.functional.pad(t, (0, 0, 0, max(6 - t.shape[0], 0)))),
        ("stack of rows", lambda t, s: torch.stack([t[k] * k for k in range(t.shape[0])])),
        ("tensor of a range", lambda t, s: torch.tensor(range(t.shape[0])) * 1.0),
        ("hash of its length", lambda t, s: t * {2: 2.0, 3: 3.0}.get(t.shape[0], 4.0)),
    ]
    text, _, function = several(rng, offers, i)
    return kept(text, i, function)


def shared(rng: random.Random, state: State) -> Offer:
    """A tensor again, as itself or under another object, which then is written."""
    i = place(rng, state)
    if i is None:
        return None
    offers: Offers = [
        ("itself", lambda t, s: t),
        ("a view of all", lambda t, s: t.view(t.shape)),
        ("detach()", lambda t, s: t.detach()),
        (".data", lambda t, s: t.data),
        ("alias", lambda t, s: torch.ops.aten.alias(t)),
        ("expand_as itself", lambda t, s: t.expand_as(t)),
        ("to its own type", lambda t, s: t.to(t.dtype)),
        ("contiguous()", lambda t, s: t.contiguous()),
        ("reshape of its shape", lambda t, s: t.reshape(t.shape)),
        ("flatten of a row", lambda t, s: t[0].flatten()),
        ("t().t()", lambda t, s: t.t().t()),
        ("real", lambda t, s: t.real),
        ("dropout not in training", lambda t, s: torch.nn.functional.dropout(t, 0.5, False)),
        ("squeeze_() of a view", lambda t, s: t.view(t.shape).squeeze_()),
        ("resize_ of a clone", lambda t, s: t.clone().resize_(t.numel())),
        ("atleast_1d", lambda t, s: torch.atleast_1d(t)),
        ("broadcast of itself", lambda t, s: torch.broadcast_tensors(t, t)[0]),
    ]  # fmt: skip
    text, function = rng.choice(offers)
    value = rng.choice([None, 2, -1])

    def step(s: State) -> None:
        made = function(s.tensors[i], s)
        if value is not None:
            made.add_(value)
        s.put(made)

    return f"{text} of t{i}" + ("" if value is None else f".add_({value})"), step


WIDER: Mapping[str, tuple[float, Callable[[random.Random, State], Offer]]] = {
    **KINDS, "typed": (4, typed), "deep write": (3, deep_write), "out": (2, into_out),
    "differentiated": (3, differentiated), "ranged": (2, ranged), "shared": (1.5, shared),
}  # fmt: skip
"""The kinds of steps of the wider programs, with how often each is drawn."""
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.int32)
"""What the first input is of at times."""
