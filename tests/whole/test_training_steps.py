"""Whole training steps as one program: fifty of them on ONNX Runtime against fifty in eager."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import irkit

STEPS = 50


def mlp() -> tuple[torch.nn.Module, Any]:
    layers = torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)
    return torch.nn.Sequential(*layers), lambda: (torch.randn(6, 8), torch.randint(0, 3, (6,)))


def cnn() -> tuple[torch.nn.Module, Any]:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 8, 3, stride=2),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 3),
    )
    return model, lambda: (torch.randn(4, 3, 8, 8), torch.randint(0, 3, (4,)))


def bert() -> tuple[torch.nn.Module, Any]:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config), lambda: (torch.randint(0, 50, (3, 7)), torch.randint(0, 2, (3,)))


def llama() -> tuple[torch.nn.Module, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        use_cache=False,
    )

    def draw() -> Any:
        tokens = torch.randint(0, 50, (3, 7))
        return tokens, tokens

    return LlamaForCausalLM(config), draw


def loss_of(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if isinstance(model, torch.nn.Sequential):
        return torch.nn.functional.cross_entropy(model(x), y)
    return model(input_ids=x, labels=y).loss


def stepping(model: torch.nn.Module, optimizer: torch.optim.Optimizer, schedule: Any) -> Any:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss.detach(), norm

    return step


def made(model: torch.nn.Module, kind: str) -> tuple[torch.nn.Module, Any]:
    """A model with its step."""
    options = {"lr": 0.05, "momentum": 0.9} if kind == "SGD" else {"lr": 0.002}
    optimizer = getattr(torch.optim, kind)(model.parameters(), **options)
    return model, stepping(model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS))


CASES = {"mlp": (mlp, "AdamW"), "cnn": (cnn, "SGD"), "bert": (bert, "Adam"), "llama": (llama, "AdamW")}


@pytest.mark.parametrize("name", CASES)
def test_fifty_steps_of_one_program_are_those_of_eager(name: str) -> None:
    """Loss, backward, clipping, optimizer and schedule, with all that they write, on another batch each time.

    Losses and norms agree to 1e-3, weights to 2e-3 of their size: rounding in float32 is not the same in other kernels,
    and each step goes on from where the last one ended. Adam divides by the root of what gradients were, so that the
    smallest of these say most: the bias of the keys of attention has no gradient but rounding, and moves by 1e-6.
    """
    torch.manual_seed(0)
    make, kind = CASES[name]
    model, draw = make()
    (ours, step), (theirs, eager) = (made(each, kind) for each in (model.train(), copy.deepcopy(model).train()))
    program = irkit.to_onnx(step, draw())
    state: Any = None
    for _ in range(STEPS):
        x, y = draw()
        found, state = program.run((x, y), {}, state)
        torch.testing.assert_close(found, eager(x, y), rtol=1e-3, atol=1e-4)
    after = dict((*theirs.named_parameters("model"), *theirs.named_buffers("model")))
    written = {each: after[each].detach() for each in after if each in state}
    assert len(written) >= len(list(ours.parameters())) - 1 and not program.checks
    for each, tensor in written.items():
        torch.testing.assert_close(state[each], tensor, rtol=2e-3, atol=1e-5 + 2e-3 * float(tensor.abs().max()))
