"""What is taken from an operator that was met before is what would be found out anew."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
import sympy
import torch

import irkit
from irkit import dims
from irkit.errors import DimensionError
from lowering.capture.guards.answers import holds
from lowering.direct import operators
from lowering.direct import run as runs
from lowering.direct.tracer import Tracer
from lowering.errors import CaptureError
from lowering.records.parts_in_order import parts_in_order


class Layers(torch.nn.Module):
    """Layers that differ in their weights alone, with views, a question about sizes, and a branch at size 1."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            heads = layer(self.norm(x)).view(x.shape[0], -1, 2, 4).transpose(1, 2)
            causal = bool(x.shape[1] > 1)
            x = x + torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=causal).mean(
                1
            ).repeat(1, 1, 2)
        return x


def written(x: torch.Tensor) -> torch.Tensor:
    """Views of one tensor, each written, and read by the other."""
    y = x.clone()
    for i in range(3):
        y[:, i] += 1
        y.transpose(0, 1)[i].mul_(2)
    return y


def asked(x: torch.Tensor) -> torch.Tensor:
    """The same operators under conditions that hold for some sizes only."""
    halves = [part.squeeze(0) for part in (x[:1], x[1:2])]
    return halves[0] + halves[1] if x.shape[0] != 1 else halves[0]


PROGRAMS: dict[str, tuple[Callable[[], Any], tuple[int, ...], Any]] = {
    "layers": (Layers, (2, 3, 8), ({0: "batch", 1: "seq"},)),
    "written": (lambda: written, (3, 4), ({1: "m"},)),
    "asked": (lambda: asked, (2, 4), ({0: "n"},)),
    "split": (lambda: lambda x: torch.cat([p * 2 for p in x.split(2) + x.split(2)]), (4, 3), ({0: "n", 1: "m"},)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_that_remembers_gives_the_graph_of_one_that_does_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, shape, dynamic = PROGRAMS[name]
    torch.manual_seed(0)
    model, example = make(), torch.randn(shape)
    if isinstance(model, torch.nn.Module):
        model.eval()
    found = irkit.to_onnx(model, (example,), dynamic_shapes=dynamic, capture="direct")
    monkeypatch.setattr(operators, "as_met", lambda *_: None)
    plain = irkit.to_onnx(model, (example,), dynamic_shapes=dynamic, capture="direct")
    assert str(found.graph) == str(plain.graph)
    assert found.report.guards == plain.report.guards
    assert found.report.dims == plain.report.dims


def by_sympy(expr: Any, sizes: dict[str, int]) -> bool | None:
    """What sympy says of a condition at sizes; of `and` and `or` as Python does, which asks no part behind one that
    decides, and none behind one that has no value."""
    if isinstance(expr, sympy.And | sympy.Or):
        deciding = isinstance(expr, sympy.Or)
        found = (by_sympy(part, sizes) for part in parts_in_order(expr))
        return next((each for each in found if each is None or each is deciding), not deciding)
    if any(s.name not in sizes for s in expr.free_symbols):
        return None
    try:
        found = expr.xreplace({s: sympy.Integer(sizes[s.name]) for s in expr.free_symbols}).doit()
    except (DimensionError, TypeError, ZeroDivisionError):
        return None
    return bool(found) if found in (sympy.true, sympy.false) else None


def test_conditions_on_integers_hold_where_sympy_says_so() -> None:
    rng = random.Random(0)
    symbols: list[Any] = [dims.symbol("a"), dims.symbol("b"), dims.symbol("u0", signed=True)]
    binary: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x + y, lambda x, y: x * y, dims.Mod, dims.FloorDiv, dims.Min, dims.Max,
    ]  # fmt: skip
    relations: list[Any] = [sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge]

    def drawn(depth: int) -> Any:
        if depth == 0:
            return rng.choice([*symbols, sympy.Integer(rng.randint(1, 9))])
        return rng.choice(binary)(drawn(depth - 1), drawn(depth - 1))

    for _ in range(300):
        try:
            one, two = (rng.choice(relations)(drawn(rng.randint(0, 2)), drawn(1)) for _ in range(2))
        except DimensionError:
            continue  # a quotient by what always is 0
        expr = rng.choice([sympy.And(one, two), sympy.Or(one, sympy.Not(two)), one])
        sizes = {"a": rng.randint(0, 6), "b": rng.randint(0, 6), "u0": rng.randint(-3, 4)}
        assert holds(expr, sizes) is by_sympy(expr, sizes), (expr, sizes)


def joined(x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
    """Rows after earlier ones, if there are any, at positions that go on from theirs, for two heads."""
    rows = torch.cat([past, x], 1) if past.numel() else x
    start = past.shape[1] if past.numel() else 0
    heads = rows[:, None].expand(-1, 2, -1, -1).reshape(rows.shape[0], 2 * rows.shape[1], 4)
    return heads.sum((1, 2)) + (torch.arange(x.shape[1]) + start).sum()


def shortened(x: torch.Tensor) -> torch.Tensor:
    """The steps between rows, the first one from 1 less, where there are several rows."""
    before = x[:, :1] - 1
    return torch.cat([before, x], 1).diff(dim=1) if x.shape[1] != 1 else torch.cat([x - 1, x], 1).diff(dim=1)


def test_what_a_trial_meets_is_proved_the_same_at_its_sizes() -> None:
    shapes = ({0: "b", 1: "n"}, {0: "b", 1: "p"})
    program = irkit.to_onnx(
        joined, (torch.randn(2, 3, 4), torch.randn(2, 5, 4)), dynamic_shapes=shapes, capture="direct"
    )
    assert "p = 0 is allowed: traced at 0, the graph is the same" in program.report.notes
    for b, n, p in ((2, 1, 1), (3, 1, 0), (1, 2, 0), (2, 2, 2), (1, 1, 3)):
        x, past = torch.randn(b, n, 4), torch.randn(b, p, 4)
        torch.testing.assert_close(program(x, past), joined(x, past))
    program = irkit.to_onnx(shortened, (torch.arange(6).view(2, 3),), dynamic_shapes=({1: "n"},), capture="direct")
    assert "n = 1 is allowed: traced at 1, the graph is the same" in program.report.notes


def test_results_that_agree_for_the_example_only_are_not_taken_for_the_same() -> None:
    def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x, -x) if x.shape[0] > 1 else x * 1

    given = (torch.randn(2, 3), torch.ones(2, 3, dtype=torch.bool))
    program = irkit.to_onnx(masked, given, dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    with pytest.raises(irkit.ContractError):
        program(torch.randn(1, 3), torch.ones(1, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    "function",
    [lambda x, y: y[:, -x.shape[1] :], lambda x, y: y[:, : -x.shape[1]], lambda x, y: y[:, x.shape[1] - 5 :],
     lambda x, y: y[:, -x.shape[1] : x.shape[1] : 2]],
)  # fmt: skip
def test_parts_whose_ends_are_sizes_have_sizes_that_are_told(function: Callable[..., Any]) -> None:
    shapes = ({1: "seq"}, {1: "length"})
    program = irkit.to_onnx(function, (torch.randn(2, 3), torch.randn(2, 8)), dynamic_shapes=shapes, capture="direct")
    assert {s.name for s in dims.symbols_of(program.graph.results[0].shape[1])} == {"seq", "length"}
    for seq, length in ((0, 3), (0, 0), (1, 8), (3, 3), (5, 2), (9, 11), (4, 0)):
        x, y = torch.randn(2, seq), torch.randn(2, length)
        torch.testing.assert_close(program(x, y), function(x, y))


def biased(x: torch.Tensor) -> torch.Tensor:
    """A table's last places, as many as there are rows."""
    table = torch.arange(16.0)
    return x + table[max(0, table.shape[0] - x.shape[0]) :, None]


def test_a_part_that_begins_where_the_model_has_made_sure_is_as_long_as_sizes_say() -> None:
    program = irkit.to_onnx(biased, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for n in (0, 1, 3, 15, 16):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), biased(x))
    with pytest.raises(irkit.IrkitError, match="which n = 17 breaks"):
        program(torch.randn(17, 4))


def test_a_run_is_freed_once_nobody_looks_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tracers: list[weakref.ref[Tracer]] = []

    def noted(*args: Any) -> Any:
        made = Tracer(*args)
        tracers.append(weakref.ref(made))
        return made

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            turned = x.t().reshape(-1, 4)  # a view or a copy, as sizes have it
            return self.inner(turned).relu_() + x.sum() if x.shape[0] > 1 else x

    irkit.to_onnx(Model(), (torch.randn(3, 4),), capture="direct")  # what torch loads at first leaves frames in cycles
    monkeypatch.setattr(runs, "Tracer", noted)
    gc.collect()
    gc.disable()
    try:
        irkit.to_onnx(Model(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
        alive = [each() for each in tracers if each() is not None]
    finally:
        gc.enable()
    assert tracers
    assert not alive


def test_what_a_model_kept_of_its_capture_says_so_when_it_is_used() -> None:
    waiting: SimpleQueue[torch.Tensor] = SimpleQueue()
    keep = waiting.put  # what is in a list that the model itself reaches is put back

    def model(x: torch.Tensor) -> torch.Tensor:
        keep(x * 2)
        return x + 1

    irkit.to_onnx(model, (torch.randn(3),), dynamic_shapes=({0: "n"},), capture="direct")
    gc.collect()
    kept = waiting.get()
    with pytest.raises(CaptureError, match="after its capture"):
        _ = kept + 1
    with pytest.raises(CaptureError, match="after its capture"):
        assert kept.shape[0] > 1


def noisy(x: torch.Tensor) -> torch.Tensor:
    wide = x.repeat(2 if x.shape[0] > 1 else 1 + 1, 1)
    first, second = torch.randn(wide.shape), torch.rand(wide.shape)
    return (wide + first).cumsum(0) * second


def noise_used_again(x: torch.Tensor) -> torch.Tensor:
    first, second = torch.randn(x.shape), torch.randn(x.shape)
    return x + first - (second if x.shape[0] > 1 else first)


def noise_used_in_turn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = torch.randn(x.shape), torch.randn(x.shape)
    return x + first, x + (second if x.shape[0] > 1 else first)


def test_random_numbers_of_a_trial_stand_for_as_many_others() -> None:
    """Compared by their places in the graph: numbers would have to be drawn, and every layer behind them evaluated."""
    shapes: Any = ({0: "batch"},)
    program = irkit.to_onnx(noisy, (torch.randn(3, 4),), dynamic_shapes=shapes)
    assert "batch = 1 is allowed: traced at 1, the graph is the same" in program.report.notes
    for model in (noise_used_again, noise_used_in_turn):
        program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=shapes)
        with pytest.raises(irkit.ContractError):
            program(torch.randn(1, 4))
