"""Layers that are handed a cache are made of the first one's values, and the cache is asked by each of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.fx import _pytree as fx_pytree
from torch.utils import _pytree as pytree

import irkit
from irkit.doors.to_onnx import to_onnx
from lowering import lower
from lowering.capture.inputs.alike import Likes
from lowering.direct import equal_modules
from lowering.direct import run as runs
from lowering.direct.caches import Unequal
from lowering.program.files import check_file
from lowering.records.programs import register_as_its_exporters_do, register_as_transformers_does
from lowering.records.pytrees import Registrations
from passes import optimize
from tests.zoo.cases import case_named

KEPT: list[Any] = []
CACHES = [transformers.DynamicCache]
SCALES = [1.0, 2.0, 1.0, 1.0]
TABLE = torch.randn(4, 80)


class Cache:
    """What layers have kept, by their number."""

    def __init__(self, held: list[torch.Tensor]) -> None:
        self.held, self.seen = held, 0

    def update(self, x: torch.Tensor, number: int, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        self.held[number] = torch.cat([self.held[number], x], 0)
        return self.held[number] * scale, x

    def length(self, number: int = 0) -> int:
        return self.held[number].shape[0]

    @property
    def total(self) -> int:
        return sum(each.shape[0] for each in self.held)


class Counting(Cache):
    """Counts its calls, where layers can see it."""

    def update(self, x: torch.Tensor, number: int, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen += 1
        return super().update(x, number, scale)


class Sliding(Cache):
    """Keeps less of the layer 2."""

    def update(self, x: torch.Tensor, number: int, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        own, x = super().update(x, number, scale)
        return (own[-2:], x) if number == 2 else (own, x)


class Growing(Cache):
    """Scales what it gives by the number of the layer."""

    def update(self, x: torch.Tensor, number: int, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        return super().update(x, number, number + 1.0)


for kind in (Cache, Counting, Sliding, Growing):
    pytree.register_pytree_node(
        kind, lambda c: (c.held, None), lambda held, _, kind=kind: kind(list(held)), serialized_type_name=kind.__name__
    )


class Layer(torch.nn.Module):
    """A layer with a number, that keeps its rows in a cache."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.inner = torch.nn.Linear(80, 80)

    def forward(self, x: Any, cache: Any) -> Any:
        own, x = cache.update(torch.relu(self.inner(x)), self.number)
        return x + own.sum(0)


class Scaling(Layer):
    """Computes with its number."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) * (self.number % 2 + 1)


class LookingUp(Layer):
    """Finds a number in a list by its own."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) * SCALES[self.number]


class LookingUpRows(Layer):
    """Finds a row of a tensor by its number."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) + TABLE[self.number]


class Branching(Layer):
    """Is another one where its number says so."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) if self.number != 1 else x


class Keeping(Layer):
    """Keeps what the cache gives."""

    def forward(self, x: Any, cache: Any) -> Any:
        own, x = cache.update(torch.relu(self.inner(x)), self.number)
        KEPT.append(own)
        return x + own.sum(0)


class Writing(Layer):
    """Writes into what the cache gives it."""

    def forward(self, x: Any, cache: Any) -> Any:
        own, x = cache.update(torch.relu(self.inner(x)), self.number)
        x.add_(1)
        return x + own.sum(0)


class WritingLater(Layer):
    """Writes into what it gave to the cache."""

    def forward(self, x: Any, cache: Any) -> Any:
        y = torch.relu(self.inner(x))
        cache.held[self.number] = y
        return cache.update(y, self.number)[0].sum(0) + y.mul_(2)


class Seeing(Layer):
    """Sees how often the cache was asked."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) * (cache.seen + 1)


class Adding(Layer):
    """Reads a property of the cache."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) + cache.total


class Getting(Layer):
    """Reads attributes of its own by their names."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) + getattr(self.inner, "missing", 2.0)


class GettingTotal(Layer):
    """Reads a property of the cache by its name."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) + getattr(cache, "total", 0)


class GettingAny(Layer):
    """Reads a property of the cache by a name that is computed."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) + getattr(cache, "".join(("to", "tal")))


class Measuring(Layer):
    """Asks the cache how much it has of another layer."""

    def forward(self, x: Any, cache: Any) -> Any:
        return super().forward(x, cache) * cache.length()


class Twice(Layer):
    """Asks twice, by name, with what it was answered."""

    def forward(self, x: Any, cache: Any) -> Any:
        own, x = cache.update(self.inner(x), number=self.number, scale=0.5)
        again, _ = cache.update(x + own.sum(0), scale=2.0, number=self.number)
        return x + again.sum(0)


class Pair(torch.nn.Module):
    """Two layers, each with a number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(number % 4), Layer((number + 1) % 4)])

    def forward(self, x: Any, cache: Any) -> Any:
        for layer in self.layers:
            x = layer(x, cache)
        return x


class Chain(torch.nn.Module):
    """Four layers one after the other."""

    def __init__(self, layer: Callable[[int], Any]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([layer(i) for i in range(4)])

    def forward(self, x: Any, cache: Any) -> Any:
        for layer in self.layers:
            x = layer(x, cache)
        return x, cache


CHAINS: dict[str, tuple[Callable[[int], Any], type, bool]] = {
    "plain": (Layer, Cache, True), "scaling": (Scaling, Cache, False), "looking up": (LookingUp, Cache, False),
    "rows": (LookingUpRows, Cache, False), "branching": (Branching, Cache, False), "keeping": (Keeping, Cache, False),
    "writing": (Writing, Cache, False), "writing later": (WritingLater, Cache, False),
    "counting": (Layer, Counting, False), "seeing": (Seeing, Counting, False), "adding": (Adding, Cache, False),
    "getting": (Getting, Cache, True), "the total": (GettingTotal, Cache, False), "any": (GettingAny, Cache, False),
    "measuring": (Measuring, Cache, True), "twice": (Twice, Cache, True), "pair": (Pair, Cache, True),
    "sliding": (Layer, Sliding, True), "growing": (Layer, Growing, True),
}  # fmt: skip
"""Layers, a cache, and whether some layers are expected to be taken over, at first."""

OTHERS = ("sliding", "pair")
"""Those of which a layer turns out to do something else then: the cache has more, or less, for it."""


@pytest.mark.parametrize("name", CHAINS)
def test_layers_with_a_cache_give_the_graph_that_each_by_itself_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, kind, taken = CHAINS[name]
    torch.manual_seed(0)
    model, x = Chain(layer).eval(), torch.randn(3, 80)
    found: list[Any] = []
    take = equal_modules.Calls.taken

    def noted(self: Any, call: Any, parts: Any, *args: Any) -> Any:
        found.append(isinstance(parts[0], Layer | Pair))
        return take(self, call, parts, *args)

    monkeypatch.setattr(equal_modules.Calls, "taken", noted)
    shapes = ({0: "n"}, [{0: "past"}] * 4)
    cache = kind([torch.randn(5, 80) for _ in range(4)])
    again = runs_made_anew(monkeypatch)
    ours = lower(model, (x, copy.deepcopy(cache)), dynamic_shapes=shapes, capture="direct")
    assert any(found) is taken
    assert bool(again) is (name in OTHERS)
    monkeypatch.setattr(runs, "likes_of", lambda *_: Likes())
    plain = lower(model, (x, copy.deepcopy(cache)), dynamic_shapes=shapes, capture="direct")
    assert str(optimize(ours, 0)) == str(optimize(plain, 0))  # what hangs on no weight and no input is made once
    assert set(vars(cache)) == {"held", "seen"}
    KEPT.clear()


def runs_made_anew(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Has something for each run in which a layer did something else than one like it."""
    found, once = list[bool](), runs.run_once

    def noted(*args: Any) -> Any:
        try:
            run = once(*args)
        except Unequal:
            found.append(True)
            raise
        found.extend([True] if run.tracer.unequal else [])
        return run

    monkeypatch.setattr(runs, "run_once", noted)
    return found


DECODERS = ("llama", "qwen2", "qwen3")


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_whose_cache_begins_empty_are_taken_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache gives back the very keys that it is handed, as if they were its own."""
    case = case_named(f"{name}_prompt")
    model, args, kwargs = case.build()
    again, layers = runs_made_anew(monkeypatch), list[Any]()
    take = equal_modules.Calls.taken
    monkeypatch.setattr(equal_modules.Calls, "taken", lambda *given: layers.append(given[2][0]) or take(*given))
    ours = lower(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, capture="direct")
    assert not again
    assert any("DecoderLayer" in type(each).__name__ for each in layers)  # in the trial of one token
    monkeypatch.setattr(runs, "likes_of", lambda *_: Likes())
    plain = lower(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, capture="direct")
    assert str(optimize(ours, 0)) == str(optimize(plain, 0))


def test_the_program_of_such_layers_is_right_at_other_sizes() -> None:
    torch.manual_seed(0)
    model, shapes = Chain(Layer).eval(), ({0: "n"}, [{0: "past"}] * 4)
    program = irkit.to_onnx(
        model, (torch.randn(3, 80), Cache([torch.randn(5, 80) for _ in range(4)])), dynamic_shapes=shapes,
        capture="direct",
    )  # fmt: skip
    x, held = torch.randn(1, 80), [torch.randn(2, 80) for _ in range(4)]
    (ours, left), (theirs, right) = program(x, Cache(list(held))), model(x, Cache(list(held)))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(left.held, right.held, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mistral_cache", "mamba_step"])
def test_caches_that_transformers_registered_are_seen_as_irkit_does(name: str) -> None:
    case = case_named(name)
    model, args, kwargs = case.build()
    with Registrations() as known:
        register_as_transformers_does(known)
        theirs = pytree.SUPPORTED_NODES[transformers.DynamicCache]
        program = to_onnx(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, capture="direct")
        assert pytree.SUPPORTED_NODES[transformers.DynamicCache] is theirs  # as it was
    assert program.check(1)


@pytest.mark.parametrize("twice", [False, True], ids=["as executorch does", "as its exporters do"])
def test_a_file_saved_as_transformers_registers_caches_is_checked(tmp_path: Path, twice: bool) -> None:
    """Whoever reads it has registered nothing: the program opens its arguments as it did when it was saved.

    transformers has two ways to register a cache, and torch a table for each of its two pytrees: what one way left in
    the table of torch.fx was met by the other way's structures."""
    model, args, kwargs = case_named("llama_cache").build()
    left = dict(fx_pytree.SUPPORTED_NODES)
    with Registrations() as known:
        register_as_transformers_does(known)
        if twice:
            known.clear()
            assert {kind: way for kind, way in left.items() if kind not in CACHES} == fx_pytree.SUPPORTED_NODES
            register_as_its_exporters_do(known)
        exported = torch.export.export(model, args, kwargs, strict=False)
        torch.export.save(exported, tmp_path / "model.pt2")
        given = to_onnx(exported)
    assert given.check(2)
    program = to_onnx(tmp_path / "model.pt2")
    assert program.check(2)
    program.save(tmp_path / "model.onnx")
    assert check_file(tmp_path / "model.onnx", tmp_path / "model.pt2", 2)
