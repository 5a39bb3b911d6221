"""Chains of layers that differ in part are captured as plain tracing captures them, with trials of sizes 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from irkit.core.ir import Graph
from lowering import lower
from lowering.capture.inputs.alike import Likes
from lowering.direct import equal_modules
from lowering.direct import run as runs
from passes import optimize


class Plain(torch.nn.Module):
    """A layer with weights and a number of its own, which it does not read."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.inner = torch.nn.Linear(70, 70)
        self.register_buffer("scale", torch.ones(70))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x) * self.scale) + x


class Numbered(Plain):
    """A layer that reads its number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * (self.number % 2 + 1)


class Nested(Plain):
    """A layer around two that are alike."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.parts = torch.nn.Sequential(Plain(number), Plain(number + 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.parts(x))


class Asking(Plain):
    """A layer that asks for the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * (2.0 if x.shape[0] > 1 else 3.0)


class Chain(torch.nn.Module):
    """Layers of several kinds, of which one may come twice, or have the weights of another; those `shared` have one
    module between them. Before the layer `at` a place, something hangs on the batch: what that is given, what the last
    layer's buffer holds, or nothing."""

    def __init__(
        self, kinds: Sequence[type[Plain]], again: int, tied: int, at: int, what: str, shared: Sequence[int] = ()
    ) -> None:
        super().__init__()
        made: list[Any] = [kind(i) for i, kind in enumerate(kinds)]
        made += made[again : again + 1]
        if tied < len(kinds):
            made.append(Plain(len(made)))
            made[-1].inner = made[tied].inner
        for place in shared:
            made[place % len(made)].inner = made[shared[0] % len(made)].inner
        self.layers: Any = torch.nn.ModuleList(made)
        self.at, self.what = at, what

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            if i == self.at and self.what != "nothing":
                factor = 2.0 if x.shape[0] > 1 or self.what == "alike" else 3.0
                if self.what == "written":
                    self.layers[-1].scale.mul_(factor)
                else:
                    x = x * factor
            x = layer(x)
        return x


KINDS = (Plain, Numbered, Nested, Asking)


def captured(model: torch.nn.Module, low: int) -> Any:
    """What a chain is captured as: its graph, and what that is right for; or what is said against it."""
    sizes = ({0: torch.export.Dim("n", min=low)},)
    try:
        found: Graph = lower(model, (torch.ones(3, 70),), dynamic_shapes=sizes, capture="direct")
    except Exception as error:
        return type(error), str(error)
    shared = optimize(found, 0)  # what hangs on no weight and no input is made once for layers that are alike
    return str(shared), [(fact.kind, fact.text, fact.source) for fact in found.signature.facts]


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=5),
    again=st.integers(0, 6),
    tied=st.integers(0, 6),
    at=st.integers(0, 5),
    what=st.sampled_from(("nothing", "alike", "given", "written")),
    low=st.sampled_from((0, 1, 2)),
    shared=st.lists(st.integers(0, 6), max_size=4),
)
@example(kinds=[Plain, Plain], again=0, tied=1, at=0, what="nothing", low=0, shared=[])
@example(kinds=[Plain] * 5, again=9, tied=9, at=0, what="nothing", low=1, shared=[1, 2, 3])
@example(kinds=[Plain, Nested, Nested, Plain, Nested], again=1, tied=9, at=0, what="nothing", low=1, shared=[0, 1, 2])
@settings(max_examples=20, deadline=None)
def test_chains_of_mixed_layers_are_what_plain_tracing_gives(
    kinds: list[type[Plain]], again: int, tied: int, at: int, what: str, low: int, shared: list[int]
) -> None:
    torch.manual_seed(0)
    model = Chain(kinds, again, tied, at, what, shared).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ours = captured(model, low)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "likes_of", lambda *_: Likes())
        assert ours == captured(model, low)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("written", [False, True])
def test_a_trial_takes_over_by_identity_unless_something_outside_was_written(
    written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write into a weight in a trial alone makes the layers behind it be looked at."""
    once, found = equal_modules.Calls.once_before, []

    def noted(*args: Any) -> Any:
        made = once(*args)
        found.append(made is not None)
        return made

    monkeypatch.setattr(equal_modules.Calls, "once_before", noted)
    model = Chain([Plain, Plain, Plain, Asking, Plain, Plain], 9, 9, 0, "written" if written else "nothing").eval()
    captured(model, 1)
    assert any(found) is not written
