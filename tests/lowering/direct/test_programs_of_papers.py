"""Programs as the code of papers has them answer as eager at sizes that the example has not, in a bare file too."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import irkit

torch.manual_seed(0)
EXPERTS, GATE, BETWEEN = torch.randn(4, 6, 6), torch.randn(4, 6), torch.randn(5, 5)
LEVELS = (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)


def beam_step(scores: Tensor, logits: Tensor) -> tuple[Tensor, ...]:
    batch, beams, words = logits.shape
    best, place = (scores[..., None] + logits.log_softmax(-1)).view(batch, beams * words).topk(beams, dim=-1)
    return best, torch.div(place, words, rounding_mode="floor"), place % words


def best_path(emissions: Tensor) -> Tensor:
    score, back = emissions[:, 0], list[Tensor]()
    for step in range(1, 4):
        most, place = (score[:, :, None] + BETWEEN).max(1)
        score = most + emissions[:, step]
        back.append(place)
    path = [score.argmax(1)]
    for place in reversed(back):
        path.append(place.gather(1, path[-1][:, None]).squeeze(1))
    return torch.stack(path[::-1], 1)


def sorted_experts(x: Tensor) -> tuple[Tensor, Tensor]:
    share, chosen = (x @ GATE.T).softmax(-1).topk(2)
    order = chosen.flatten().argsort(stable=True)
    y = torch.einsum("nd,ndk->nk", x[order // 2], EXPERTS[chosen.flatten()[order]]) * share.flatten()[order, None]
    return torch.zeros_like(x).index_add(0, order // 2, y), torch.bincount(chosen.flatten(), minlength=4)


def masked_experts(x: Tensor) -> Tensor:
    share, chosen = (x @ GATE.T).softmax(-1).topk(2)
    y = torch.zeros_like(x)
    for expert in range(4):
        token, place = torch.where(chosen == expert)
        y.index_add_(0, token, x[token] @ EXPERTS[expert] * share[token, place, None])
    return y


def edge_softmax(x: Tensor, edges: Tensor) -> Tensor:
    source, target = edges
    score = (x[source] * x[target]).sum(-1)
    most = torch.full((x.size(0),), -math.inf).scatter_reduce(0, target, score, "amax")
    weight = (score - most[target]).exp()
    total = torch.zeros(x.size(0)).index_add_(0, target, weight)
    return torch.zeros_like(x).index_add_(0, target, x[source] * (weight / total[target])[:, None])


def ball_query(points: Tensor) -> Tensor:
    n = points.size(0)
    place = torch.arange(n).expand(n, n).clone()
    place[(points[:, None] - points[None]).square().sum(-1) > 1.0] = n
    place = place.sort(-1).values[:, :4]
    return torch.where(place == n, place[:, :1], place)


def nucleus(logits: Tensor, p: Tensor) -> Tensor:
    ordered, place = logits.sort(descending=True)
    removed = ordered.softmax(-1).cumsum(-1) > p
    removed[..., 1:] = removed[..., :-1].clone()
    removed[..., 0] = False
    return logits.masked_fill(removed.scatter(-1, place, removed), -math.inf).softmax(-1)


def ring_buffer(kept: Tensor, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    places = (at + torch.arange(x.shape[0])) % kept.shape[0]
    return kept.index_copy(0, places, x).roll(-1, 0), places


def runs(x: Tensor) -> tuple[Tensor, ...]:
    value, inverse, count = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    return value, inverse, count, count.cumsum(0) - count


N, B, BN = {0: "n"}, {0: "b"}, {0: "b", 1: "n"}
Arguments = Callable[[int, int], tuple[Tensor, ...]]
PROGRAMS: dict[str, tuple[Callable[..., Any], Any, Arguments]] = {
    "beam step": (beam_step, (BN, BN), lambda b, n: (torch.randn(b, n), torch.randn(b, n, 7))),
    "best path": (best_path, (B,), lambda b, n: (torch.randn(b, 4, 5),)),
    "sorted experts": (sorted_experts, (N,), lambda b, n: (torch.randn(n, 6),)),
    "masked experts": (masked_experts, (N,), lambda b, n: (torch.randn(n, 6),)),
    "edge softmax": (edge_softmax, (N, {1: "e"}), lambda b, n: (torch.randn(n, 4), torch.randint(0, n, (2, 3 * b)))),
    "ball query": (ball_query, (N,), lambda b, n: (torch.randn(n + 3, 3),)),
    "nucleus": (nucleus, (BN, None), lambda b, n: (torch.randn(b, n), torch.tensor(0.7))),
    "ring buffer": (ring_buffer, ({0: "w"}, N, None),
                    lambda b, n: (torch.randn(n + b, 3), torch.randn(n, 3), torch.tensor(5))),
    "runs": (runs, (N,), lambda b, n: (torch.randint(0, 3, (n,)),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_papers_answer_as_eager(name: str, tmp_path: Path) -> None:
    model, shapes, arguments = PROGRAMS[name]
    torch.manual_seed(0)
    program = irkit.to_onnx(model, arguments(2, 4), dynamic_shapes=shapes)
    assert "directly" in str(program.report)
    program.save(tmp_path / "model.onnx")
    sessions: list[Any] = []
    for level in LEVELS:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        sessions.append(onnxruntime.InferenceSession(tmp_path / "model.onnx", options, ["CPUExecutionProvider"]))
    for b, n in ((1, 1), (3, 9), (2, 2), (5, 3), (0, 4)):
        inputs = arguments(b, n)
        expected = pytree.tree_leaves(model(*inputs))
        names = [each.name for each in sessions[0].get_inputs()]
        feeds = dict(zip(names, (x.numpy() for x in inputs), strict=True))
        bare = [[torch.from_numpy(each) for each in session.run(None, feeds)] for session in sessions]
        for found in (pytree.tree_leaves(program(*inputs)), *bare):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
