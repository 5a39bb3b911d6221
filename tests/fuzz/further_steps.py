"""Further kinds of steps of random programs: quotients and powers of sizes, matrices that may be singular, statistics,
places and bits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tests.fuzz.traced_steps import Offer, State, kept, place, several
from tests.fuzz.wider_steps import WIDER

Offers = list[tuple[str, Callable[..., Any]]]
F, L = torch.nn.functional, torch.linalg


def divided(rng: random.Random, state: State) -> Offer:
    """A tensor and what Python computes of two sizes, one of which may be 0 for other calls."""
    i, j = place(rng, state), place(rng, state)
    if i is None or j is None or not state.tensors[i].dim() or not state.tensors[j].dim():
        return None
    a, b, c = rng.randrange(state.tensors[i].dim()), rng.randrange(state.tensors[j].dim()), rng.randint(1, 16)
    real = rng.choice([0.1, 0.3, 1.5, 3.0, -0.7, 1 / 3])

    def of(function: Callable[[Any, Any], Any]) -> Callable[[Any, State], Any]:
        return lambda t, s: function(t.shape[a], s.tensors[j].shape[b])

    def with_number(function: Callable[[Any, Any], Any]) -> Callable[[Any, State], Any]:
        return lambda t, s: t + of(function)(t, s)

    offers: Offers = [
        ("n // m", with_number(lambda n, m: n // m)),
        ("n % m", with_number(lambda n, m: n % m)),
        ("n / m", with_number(lambda n, m: n / m)),
        ("(n // m) * 0", with_number(lambda n, m: (n // m) * 0)),
        ("n * m // m", with_number(lambda n, m: n * m // m)),
        (f"n // (m - {c % 4})", with_number(lambda n, m: n // (m - c % 4))),
        (f"n ** {c} % 7", with_number(lambda n, m: n**c % 7)),
        (f"min(n ** {c}, 5)", with_number(lambda n, m: min(n**c, 5))),
        (f"min(n ** {c}, m) rows", lambda t, s: t.new_ones(min(t.shape[a] ** c, s.tensors[j].shape[b], 9))),
        (f"ceil(n * {real:.2f})", with_number(lambda n, m: math.ceil(n * real))),
        (f"floor(n / {real:.2f})", with_number(lambda n, m: math.floor(n / real))),
        (f"round(n * {real:.2f} / 3)", with_number(lambda n, m: round(n * real / 3))),
        (f"floor(n / {real:.2f} * 1.1)", with_number(lambda n, m: math.floor(n / real * 1.1))),
        (f"n * {real:.2f} > m", lambda t, s: t + 1 if t.shape[a] * real > s.tensors[j].shape[b] else t),
        ("max(n, m) - min(n, m)", with_number(lambda n, m: max(n, m) - min(n, m))),
        ("n ** 0.5 / (m + 1)", with_number(lambda n, m: n**0.5 / (m + 1))),
        ("n == m", lambda t, s: t * 2 if t.shape[a] == s.tensors[j].shape[b] else t - 1),
        ("n // 2 rows", lambda t, s: t[: t.shape[0] // 2]),
        ("rows from -(m // 2)", lambda t, s: t[-(s.tensors[j].shape[b] // 2) :]),
    ]
    text, _, function = several(rng, offers, i)
    return kept(f"{text} (n of axis {a}, m of t{j} axis {b})", i, function)


def solved(rng: random.Random, state: State) -> Offer:
    """What linear algebra makes of a tensor times its transpose and a diagonal; of zeros where no element is chosen."""
    i = place(rng, state, 2)
    if i is None:
        return None
    more, masked = rng.choice([1.0, 2.5]), rng.random() < 0.5

    def square(t: torch.Tensor, s: State) -> torch.Tensor:
        made = t @ t.mT + more * torch.eye(t.shape[0])
        return made * s.mask.any() if masked else made

    offers: Offers = [
        ("inv", lambda t, s: L.inv(square(t, s))),
        ("solve", lambda t, s: L.solve(square(t, s), t)),
        ("cholesky", lambda t, s: L.cholesky(square(t, s))),
        ("det", lambda t, s: L.det(square(t, s))),
        ("slogdet", lambda t, s: L.slogdet(square(t, s)).sign),
        ("a power", lambda t, s: L.matrix_power(square(t, s), 2)),
        ("triangles", lambda t, s: L.solve_triangular(square(t, s).tril(), t, upper=False)),
        ("cross norms", lambda t, s: L.matrix_norm(square(t, s))),
        ("trace", lambda t, s: square(t, s).trace()),
        ("kron", lambda t, s: torch.kron(t, torch.eye(2))),
        ("cov", lambda t, s: torch.cov(t)),
        ("diagonal", lambda t, s: square(t, s).diagonal()),
    ]
    text, _, function = several(rng, offers, i)
    return kept(f"{text} of (t @ t.T + {more}){' * mask.any()' if masked else ''}", i, function)


def gathered(rng: random.Random, state: State) -> Offer:
    """Statistics, places, bits, and what joins or cuts."""
    i = place(rng, state)
    if i is None:
        return None
    rank = state.tensors[i].dim()
    a, c = (rng.randrange(-rank, rank) if rank else 0), rng.randint(1, 3)
    offers: Offers = [
        (f"std({a})", lambda t, s: t.std(a)),
        (f"var({a}, correction=0)", lambda t, s: t.var(a, correction=0)),
        (f"median({a})", lambda t, s: t.median(a).values),
        (f"quantile(0.3, {a})", lambda t, s: t.float().quantile(0.3, a)),
        (f"prod({a})", lambda t, s: t.prod(a)),
        (f"cummax({a})", lambda t, s: t.cummax(a).values),
        (f"logcumsumexp({a})", lambda t, s: t.float().logcumsumexp(a)),
        (f"logsumexp({a})", lambda t, s: t.float().logsumexp(a)),
        (f"diff({a})", lambda t, s: t.diff(dim=a)),
        (f"norm({a})", lambda t, s: t.float().norm(dim=a)),
        (f"aminmax({a})", lambda t, s: torch.stack(t.aminmax(dim=a))),
        (f"count_nonzero({a})", lambda t, s: (t > 0).count_nonzero(a)),
        (f"all({a})", lambda t, s: (t > -1).all(a).float()),
        ("bucketize", lambda t, s: torch.bucketize(t, torch.tensor([-1.0, 0.0, 1.0])) * 1.0),
        ("searchsorted in its own", lambda t, s: torch.searchsorted(t.flatten().sort().values, t.flatten()) * 1.0),
        ("histc", lambda t, s: t.float().histc(4, -2, 2)),
        ("bincount of ints", lambda t, s: torch.bincount(s.ints.clamp(0), minlength=c) * 1.0),
        ("one_hot of ints", lambda t, s: F.one_hot(s.ints.clamp(0, 5), 6) * 1.0),
        ("scatter_add by ints", lambda t, s: t.new_zeros(9).scatter_add(0, s.ints % 5, t.flatten()[:3])),
        ("index_add by ints", lambda t, s: t.index_add(0, s.ints.clamp(0, 1), t[:3])),
        ("take_along_dim", lambda t, s: t.take_along_dim(t.argsort(a), a)),
        ("rot90", lambda t, s: t.rot90(c, (0, 1))),
        ("unfold", lambda t, s: t.unfold(0, 2, c)),
        ("tensor_split", lambda t, s: t.tensor_split(c + 1)[0]),
        ("chunk", lambda t, s: t.chunk(c)[-1]),
        ("hsplit in halves", lambda t, s: t.split(max(t.shape[0] // 2, 1))[0]),
        ("block_diag", lambda t, s: torch.block_diag(t, t[:1])),
        ("cartesian_prod", lambda t, s: torch.cartesian_prod(t.flatten()[:3], s.ints * 1.0)),
        ("tril_indices", lambda t, s: t[tuple(torch.tril_indices(min(t.shape[0], t.shape[1]), min(t.shape)))]),
        ("nan_to_num of logs", lambda t, s: t.log().nan_to_num(0.5, 1.0, -1.0)),
        ("masked_fill", lambda t, s: t.masked_fill(t > 0.5, 0.0)),
        ("bits of ints", lambda t, s: t + ((s.ints & 3) << c).sum()),
        ("ints // 2 % 3", lambda t, s: t + (s.ints // 2 % 3).sum()),
        ("fmod", lambda t, s: t.fmod(0.7)),
        ("lerp to its mean", lambda t, s: t.lerp(t.mean(), 0.3)),
        ("group_norm", lambda t, s: F.group_norm(t[None], 1)),
        ("conv1d of ones", lambda t, s: F.conv1d(t[None], torch.ones(1, 2, 2), padding=1)),
        ("adaptive_avg_pool1d", lambda t, s: F.adaptive_avg_pool1d(t[None], c)),
        ("grid of its shape", lambda t, s: torch.meshgrid(*map(torch.arange, t.shape), indexing="ij")[-1] * 1.0),
        ("cosine_similarity", lambda t, s: F.cosine_similarity(t, t.flip(0), -1)),
        ("smooth_l1", lambda t, s: F.smooth_l1_loss(t, t.flip(0))),
    ]  # fmt: skip
    text, _, function = several(rng, offers, i)
    return kept(text, i, function)


FURTHER: Mapping[str, tuple[float, Callable[[random.Random, State], Offer]]] = {
    **WIDER, "divided": (6, divided), "solved": (2, solved), "gathered": (6, gathered),
}  # fmt: skip
"""The kinds of steps of the furthest programs, with how often each is drawn."""
