"""Bound programs: the answers and the refusals of the program itself, in the memory of ONNX Runtime."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers.modeling_outputs import CausalLMOutputWithPast

from irkit.contract.flat_sizes import FlatSizes
from irkit.contract.sizes import binding_of, check_sizes
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, EvaluateError, IrkitError, StaleError
from irkit.text.parser import parse
from lowering.errors import LoweringError
from lowering.records.flat_structures import builder_of, nodes_of, opener_of
from lowering.records.torch_internals import pytree
from tests.support.same_results import is_same
from tests.zoo.case import config_of

CONFIG: Any = config_of(
    "LlamaConfig", vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1,
)  # fmt: skip


def filled(batch: int, length: int, kind: str = "DynamicCache", **options: Any) -> Any:
    """A cache of two layers with this many tokens in it."""
    made = getattr(transformers, kind)(config=CONFIG, **options)
    for layer in range(2):
        made.update(torch.randn(batch, 1, length, 8), torch.randn(batch, 1, length, 8), layer)
    return made


def step(batch: int, past: int, seq: int) -> dict[str, Any]:
    """The arguments of one step."""
    return {
        "input_ids": torch.randint(0, 64, (batch, seq)),
        "attention_mask": torch.ones(batch, past + seq, dtype=torch.int64),
        "past_key_values": filled(batch, past),
    }


@cache
def llama() -> Any:
    """A tiny decoder."""
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(CONFIG).eval()


@cache
def decoder() -> Any:
    """Its program, with a cache that grows."""
    shapes = {
        "input_ids": {0: "batch", 1: "seq"},
        "attention_mask": {0: "batch", 1: "past + seq"},
        "past_key_values": {0: "batch", 2: "past"},
    }
    return to_onnx(llama(), kwargs=step(2, 3, 2), dynamic_shapes=shapes)


def message(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The error of a call, all of it."""
    with pytest.raises(IrkitError) as caught:
        call(*args, **kwargs)
    return f"{type(caught.value).__name__}: {caught.value}"


# ----------------------------------------------------------------------------------------- The program's own answers


class Counter(nn.Module):
    """Writes a buffer."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.sum(0))
        return x / self.seen


def nested(tree: Any, scale: float = 2.0) -> Any:
    """Lists, dicts, numbers and tensors, in and out."""
    return {"sum": tree["a"] + tree["b"][0] * scale, "rows": tree["a"].shape[0], "is": [tree["b"][1], None, "text"]}


def crop(x: torch.Tensor, n: int) -> torch.Tensor:
    return x[:n] * n


def positives(x: torch.Tensor) -> torch.Tensor:
    count = (x > 0).sum().item()
    torch._check(count <= 3)
    return torch.arange(count)


CALLS: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]]]] = {
    "nested": (
        lambda: to_onnx(nested, ({"a": torch.ones(3, 2), "b": [torch.ones(3, 2), torch.tensor([True])]},),
                        dynamic_shapes={"tree": {"a": {0: "n"}, "b": [{0: "n"}, None]}}),
        [({"a": torch.randn(n, 2), "b": [torch.randn(2, n).T, torch.tensor([n > 2])]},) for n in (3, 1, 0, 7)],
    ),
    "number": (
        lambda: to_onnx(crop, (torch.ones(8), 4), scalar_inputs=["n"]), [(torch.randn(8), n) for n in (4, 0, 8)]
    ),
    "complex": (
        lambda: to_onnx(lambda x: (x * 2j, x.real > 0), (torch.ones(3, dtype=torch.complex64),),
                        dynamic_shapes=({0: "n"},)),
        [(torch.randn(n, dtype=torch.complex64),) for n in (3, 0)]
        + [(torch.randn(n, dtype=torch.complex64).conj(),) for n in (2,)],
    ),
    "half": (
        lambda: to_onnx(nn.Linear(3, 4).eval(), (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), precision="float16"),
        [(torch.randn(2, 3),), (torch.randn(1, 3).requires_grad_(),)],
    ),
    "bfloat16": (
        lambda: to_onnx(lambda x, y: (x, x + 1, y ^ y), (torch.ones(3).bfloat16(), torch.tensor([True, False]))),
        [(torch.randn(3).bfloat16(), torch.tensor([False, True]))],
    ),
    "buffer": (lambda: to_onnx(Counter(), (torch.ones(3, 2),), dynamic_shapes=({0: "n"},)), [(torch.ones(4, 2),)]),
    "sized by data": (lambda: to_onnx(positives, (torch.tensor([1.0, -1.0]),)), [(torch.tensor([1.0, 1.0]),)]),
    "solved": (
        lambda: to_onnx(lambda x: x.reshape(-1, 2).sum(1), (torch.ones(6),), dynamic_shapes=({0: "2*half"},)),
        [(torch.randn(n),) for n in (6, 2, 8)],
    ),
    "step": (lambda: decoder(), []),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_bound_gives_what_the_program_gives(name: str) -> None:
    make, calls = CALLS[name]
    program = make()
    bound = program.bound()
    assert repr(bound).endswith("keeps nothing>")
    for args in calls:
        assert is_same(bound(*args), program(*args))
    if name == "step":
        for batch, past, seq in ((2, 3, 2), (1, 1, 1), (3, 0, 4), (1, 9, 1)):
            kwargs = step(batch, past, seq)
            assert is_same(bound(**kwargs), program(**kwargs))
            assert is_same(bound(**kwargs, use_cache=True), program(**kwargs))
        kwargs = {**step(1, 0, 3), "past_key_values": transformers.DynamicCache(config=CONFIG)}
        assert is_same(bound(**kwargs), program(**kwargs))
        assert is_same(bound(kwargs["input_ids"], past_key_values=kwargs["past_key_values"]), program(**kwargs))


def test_bound_refuses_as_the_program_does() -> None:
    program = decoder()
    bound = program.bound()
    good = step(2, 3, 2)
    for change in (
        {"input_ids": good["input_ids"].to(torch.int32)}, {"input_ids": good["input_ids"][0]}, {"input_ids": None},
        {"input_ids": good["input_ids"].numpy()}, {"attention_mask": torch.ones(2, 6, dtype=torch.int64)},
        {"attention_mask": torch.ones(1, 5, dtype=torch.int64)}, {"past_key_values": filled(2, 4)},
        {"past_key_values": (torch.ones(1),)}, {"past_key_values": filled(2, 3, "StaticCache", max_cache_len=5)},
        {"other": 1}, {"use_cache": False}, {"input_ids": good["input_ids"].to("meta")},
        {"input_ids": torch.ones(2, 0, dtype=torch.int64), "attention_mask": torch.ones(2, 3, dtype=torch.int64)},
    ):  # fmt: skip
        assert message(bound, **{**good, **change}) == message(program, **{**good, **change})
    assert message(bound, good["input_ids"], **good) == message(program, good["input_ids"], **good)
    lacking = {"past_key_values": good["past_key_values"]}
    assert message(bound, **lacking) == message(program, **lacking)
    scaled = to_onnx(nested, ({"a": torch.ones(3), "b": [torch.ones(3), torch.ones(1)]}, 2.0))
    given_ = ({"a": torch.ones(3), "b": [torch.ones(3), torch.ones(1)]}, 3.0)
    assert message(scaled.bound(), *given_) == message(scaled, *given_)
    few = to_onnx(positives, (torch.tensor([1.0, -1.0, 2.0, -2.0]),))
    assert message(few.bound(), torch.ones(4)) == message(few, torch.ones(4))


def test_bound_says_which_line_onnxruntime_could_not_run() -> None:
    program = to_onnx(lambda x, i: x[i], (torch.ones(3, 2), torch.tensor([1])), dynamic_shapes=({0: "n"}, None))
    bound = program.bound()
    assert bound(torch.ones(4, 2), torch.tensor([3])).shape == (1, 2)
    assert message(bound, torch.ones(2, 2), torch.tensor([7])) == message(program, torch.ones(2, 2), torch.tensor([7]))
    with pytest.raises(EvaluateError):
        bound(torch.ones(2, 2), torch.tensor([7]))


def test_bound_refuses_once_a_weight_was_written() -> None:
    model = nn.Linear(200, 200).eval()
    bound = to_onnx(model, (torch.ones(1, 200),)).bound()
    bound(torch.ones(1, 200))
    with torch.no_grad():
        model.weight.add_(1)
    with pytest.raises(StaleError):
        bound(torch.ones(1, 200))


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "written": lambda weight: weight.add_(0),
    "a part written": lambda weight: weight[1:2, 3:4].fill_(0),
    "copied into": lambda weight: weight.copy_(torch.ones_like(weight)),
    "written by another name": lambda weight: weight.detach().view(-1).zero_(),
    "moved": lambda weight: weight.share_memory_(),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_bound_program_refuses_whatever_happened_to_a_weight(change: str, last: bool) -> None:
    model = nn.Sequential(nn.Linear(200, 200), nn.Linear(200, 200), nn.Linear(200, 200)).eval()
    bound, x = to_onnx(model, (torch.ones(1, 200),)).bound(), torch.ones(1, 200)
    bound(x)
    with torch.no_grad():
        CHANGES[change](model.get_parameter("2.weight" if last else "0.weight"))
    with pytest.raises(StaleError, match=r"written in place|other memory"):
        bound(x)


def test_weights_of_inference_mode_are_watched_by_where_they_lie() -> None:
    with torch.inference_mode():
        model: nn.Module = nn.Sequential(nn.Linear(200, 200), nn.Linear(200, 200)).eval()
        bound, x = to_onnx(model, (torch.ones(1, 200),)).bound(), torch.ones(1, 200)
        bound(x)
        model.get_parameter("1.weight").share_memory_()
    with pytest.raises(StaleError, match="other memory"):
        bound(x)


def test_results_outlive_what_computed_them_and_are_not_written_again() -> None:
    program = to_onnx(lambda x: (x + 1, x), (torch.ones(3),))
    bound = program.bound()
    x = torch.arange(3.0)
    first, same = bound(x)
    second, _ = bound(torch.full((3,), 5.0))
    assert first.tolist() == [1, 2, 3] and second.tolist() == [6, 6, 6]
    assert same.data_ptr() == x.data_ptr()  # a result that is an input, unchanged
    del bound, program
    assert first.tolist() == [1, 2, 3]


def test_threads_share_one_bound_program() -> None:
    bound = to_onnx(lambda x: x.cumsum(0), (torch.ones(3),), dynamic_shapes=({0: "n"},)).bound()
    wrong = list[int]()

    def call(n: int) -> None:
        wrong.extend(n for _ in range(50) if bound(torch.ones(n))[-1].item() != n)

    threads = [threading.Thread(target=call, args=(n,)) for n in (1, 5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ------------------------------------------------------------------------------------------------------------- Kept


@pytest.mark.parametrize("in_place", [False, True])
def test_a_cache_that_grows_is_kept(in_place: bool) -> None:
    program = decoder()
    bound = program.bound("past_key_values", in_place=in_place)
    kwargs = step(2, 3, 2)
    expected, (found, kept) = program(**kwargs), bound.run((), kwargs)
    assert found.past_key_values is None and len(kept) == 4
    for _ in range(3):
        assert torch.equal(found.logits, expected.logits)
        cache = expected.past_key_values
        assert torch.equal(kept["past_key_values.1.value"], cache.layers[1].values)
        assert kept.tensors().keys() == kept.values.keys()
        ids = found.logits[:, -1:].argmax(-1)
        kwargs = {"input_ids": ids, "attention_mask": torch.ones(2, cache.get_seq_length() + 1, dtype=torch.int64)}
        expected = program(**kwargs, past_key_values=cache)
        found, kept = bound.run((), kwargs, kept)
    wrong = {**kwargs, "attention_mask": torch.ones(2, 50, dtype=torch.int64)}
    assert "must be past + seq" in message(bound.run, (), wrong, kept)
    assert "two" not in message(bound.run, (), {**kwargs, "input_ids": None}, kept)
    below = {"input_ids": torch.full((2, 1), -1), "attention_mask": torch.ones(2, 9, dtype=torch.int64)}
    assert "holds -1, and the model looks up places from 0 on" in message(bound.run, (), below, kept)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_static_cache_is_kept_where_it_lies(in_place: bool) -> None:
    kwargs = {
        "input_ids": torch.randint(0, 64, (2, 1)),
        "past_key_values": filled(2, 3, "StaticCache", max_cache_len=8),
    }
    shapes = {"input_ids": {0: "batch"}, "past_key_values": {0: "batch"}}
    program = to_onnx(llama(), kwargs=kwargs, dynamic_shapes=shapes)
    bound = program.bound(["past_key_values"], in_place=in_place)
    assert len(bound.overwritten) == (4 if in_place else 0)  # keys and values; the counts of tokens are added to
    given_ = {name: torch.clone(each) for name, each in pairs(kwargs["past_key_values"])}
    found, kept = bound.run((), kwargs)
    assert all(torch.equal(given_[name], each) for name, each in pairs(kwargs["past_key_values"]))
    expected, ids, before = program(**kwargs), kwargs["input_ids"], kept
    for count in range(3):
        assert torch.equal(found.logits, expected.logits)
        assert kept["past_key_values.0.cumulative_length"].item() == 4 + count
        ids, before = found.logits[:, -1:].argmax(-1), kept
        expected = program(input_ids=ids, past_key_values=expected.past_key_values)
        address = kept["past_key_values.0.key"].data_ptr()
        found, kept = bound.run((), {"input_ids": ids}, before)
        assert (kept["past_key_values.0.key"].data_ptr() == address) is in_place
    if in_place:
        assert "was overwritten by an earlier one" in message(bound.run, (), {"input_ids": ids}, before)
    else:
        bound.run((), {"input_ids": ids}, before)


def pairs(cache: Any) -> list[tuple[str, torch.Tensor]]:
    """The keys and values of a cache, by name."""
    return [
        (f"{i}.{name}", getattr(layer, name)) for i, layer in enumerate(cache.layers) for name in ("keys", "values")
    ]


def test_a_buffer_is_kept() -> None:
    program = to_onnx(Counter(), (torch.ones(3, 2),), dynamic_shapes=({0: "n"},))
    bound = program.bound("seen")
    result, kept = bound.run((torch.ones(4, 2),))
    assert kept["seen"].tolist() == [4, 4]
    result, kept = bound.run((torch.ones(4, 2),), kept=kept)
    assert kept["seen"].tolist() == [8, 8] and torch.equal(result, torch.full((4, 2), 1 / 8))


def test_what_is_kept_and_given_is_what_the_call_gives() -> None:
    """Of two arguments of one shape the second is given all the same, beside what is kept of both."""
    dims = ({0: "n"}, {0: "n"})
    program = to_onnx(lambda a, b: {"a": a + 1, "b": b * 2}, (torch.ones(3), torch.ones(3)), dynamic_shapes=dims)
    bound = program.bound(["a", "b"])
    _, kept = bound.run((torch.ones(4), torch.ones(4)))
    _, after = bound.run((), {}, kept)
    assert after["a"].tolist() == [3] * 4 and after["b"].tolist() == [4] * 4
    for name, expected in (("a", [8] * 4), ("b", [14] * 4)):
        _, after = bound.run((), {name: torch.full((4,), 7.0)}, kept)
        assert after[name].tolist() == expected
    assert "n" in message(bound.run, (), {"b": torch.ones(5)}, kept)
    other = program.bound(["b", "a"])
    _, after = other.run((), {}, kept)
    assert after["a"].tolist() == [3] * 4 and after["b"].tolist() == [4] * 4


@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("names", [("logits",), ("loss", "logits"), ("logits", "hidden_states"), ("loss",)])
def test_records_are_made_as_their_class_makes_them(names: tuple[str, ...], left_out: bool) -> None:
    kind = CausalLMOutputWithPast
    parts: dict[str, Any] = {name: torch.randn(2) for name in names}
    if "hidden_states" in names:
        parts["hidden_states"] = (torch.randn(1), torch.randn(3))
    whole = kind(**parts)
    leaves, spec = pytree.tree_flatten(whole)
    without = frozenset(range(1, len(leaves))) if left_out else frozenset[int]()
    expected = kind(**{n: None if left_out and at else each for at, (n, each) in enumerate(parts.items())})
    build = builder_of(spec, pytree.SUPPORTED_NODES, without)
    for given_ in (leaves, [None] * len(leaves), [1.5] * len(leaves)):
        found = build(given_)
        told = kind(**pytree.tree_unflatten(given_, spec)) if given_ is not leaves else expected
        if given_ is leaves or not left_out:
            assert type(found) is kind and dict(found) == dict(told) and vars(found) == vars(told)
            assert list(vars(found)) == list(vars(told)) and found.to_tuple() == told.to_tuple()
    found = build(leaves)
    found.logits = torch.ones(1)
    assert found["logits"] is found.logits and pytree.tree_structure(build(leaves)) == pytree.tree_structure(expected)


def test_only_what_comes_back_can_be_kept() -> None:
    with pytest.raises(LoweringError, match="attention_mask cannot be kept between calls"):
        decoder().bound("attention_mask")
    with pytest.raises(LoweringError, match="nothing called 'cache' to keep") as caught:
        decoder().bound("cache")
    assert "past_key_values" in caught.value.hint


# ------------------------------------------------------------------------------------------------------------- Cost


def test_a_call_costs_little_more_than_the_session() -> None:
    """0.1 ms on a quiet machine, on eight layers; here a bound that a busy one keeps, on CPU time, alternating."""
    program = decoder()
    bound, kwargs = program.bound(), step(1, 8, 1)
    feeds = program.feeds((), kwargs)
    least = {"bound": 1.0, "session": 1.0}
    for _ in range(150):
        for name, call in (
            ("bound", lambda: bound(**kwargs)),
            ("session", lambda: program.session.inner.run(None, feeds)),
        ):
            start = time.thread_time()
            call()
            least[name] = min(least[name], time.thread_time() - start)
    assert least["bound"] - least["session"] < 0.25e-3


def calls_of(call: Callable[[], Any]) -> int:
    """How many functions a call calls, those written in C among them."""
    seen: list[str] = []
    sys.setprofile(lambda _frame, event, _what: seen.append(event) if event in ("call", "c_call") else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(seen)


def test_a_step_over_what_is_kept_calls_little() -> None:
    """Neither weights nor layers beyond the first cost more than being handed over: what is deterministic of the bound
    of 0.1 ms. A call of the program itself calls some fifteen times as many functions."""
    program = decoder()
    bound, kwargs = program.bound("past_key_values"), step(1, 8, 1)
    _, kept = bound.run(kwargs=kwargs)
    again = {name: each for name, each in kwargs.items() if name != "past_key_values"}
    again["attention_mask"] = torch.ones(1, 10, dtype=torch.int64)
    bound.run(kwargs=again, kept=kept)
    few = calls_of(lambda: bound.run(kwargs=again, kept=kept))
    many = calls_of(lambda: program(**kwargs))
    assert few < 50 and many > 12 * few, (few, many)


class CountsDown(torch.nn.Module):
    """Rows of a table, and the places of those that come next: one before."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(8, 4)

    def forward(self, places: torch.Tensor, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"rows": self.table(places) + x, "places": places - 1}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("named", [True, False])
def test_places_that_are_kept_are_refused_below_zero(named: bool, count: int) -> None:
    """A step over what is kept once pushed kept places unseen: a row from the end came of -1."""
    x = torch.ones(count, 4)
    bound = to_onnx(CountsDown().eval(), (torch.ones(count, dtype=torch.int64), x)).bound("places")
    _, kept = bound.run(kwargs={"places": torch.ones(count, dtype=torch.int64), "x": x})
    asked: Any = {"kwargs": {"x": x}} if named else {"args": (), "kwargs": {"x": x.clone().requires_grad_()}}
    _, kept = bound.run(**asked, kept=kept)
    assert kept["places"].tolist() == [-1] * count
    with pytest.raises(ContractError, match="places holds -1"):
        bound.run(**asked, kept=kept)


# ------------------------------------------------------------------------------------------------------- Flat sizes

GRAPH = parse(
    'graph g {\n  symbol past in [0, 9]\n  symbol seq in [1, inf]\n  input %x: f32[batch, seq]\n'
    '  input %mask: f32[batch, past + seq]\n  input %k: f32[batch, 2, past]\n  input %v: f32[batch, 2, past]\n'
    '  input %half: f32[past // 2, 2*seq + 3]\n  fact guard "seq >= 2 or past != 0" from "line"\n'
    '  fact guard "past <= 6" from "line"\n  fact guard "seq > 0 or batch == 1" from "line"\n  return %x\n}'
)  # fmt: skip
SHAPE = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
CLOSE = st.builds(
    lambda b, s, p: [(b, s), (b, p + s), (b, 2, p), (b, 2, p), (p // 2, 2 * s + 3)],
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 10),
)


@settings(max_examples=15)
@given(st.one_of(CLOSE, st.lists(SHAPE, min_size=5, max_size=5)), st.integers(0, 4), SHAPE)
def test_flat_sizes_say_what_the_contract_says(
    shapes: list[tuple[int, ...]], which: int, other: tuple[int, ...]
) -> None:
    flat = FlatSizes.of(GRAPH, GRAPH)
    assert flat is not None and flat.conditions == ("seq >= 2 or past != 0",)  # ranges say the others
    for each in (shapes, [other if i == which else shape for i, shape in enumerate(shapes)]):
        try:
            expected = binding_of(GRAPH, each)
            check_sizes(GRAPH, expected)
        except ContractError:
            assert flat.sizes(each, {}) is None
        else:
            assert flat.sizes(each, {}) == expected


def test_structures_are_opened_and_built_as_pytree_does() -> None:
    captured = decoder().lowered.captured
    cache = filled(2, 3)
    with captured.pytrees():
        leaves, spec = pytree.tree_flatten(cache)
    nodes, opened = nodes_of(captured.registered), list[Any]()
    assert opener_of(spec, nodes)(cache, opened) and all(a is b for a, b in zip(opened, leaves, strict=True))
    assert is_same(builder_of(spec, nodes)(leaves), cache)
    changed = filled(2, 3)
    changed.layers[1].new = 1
    other = filled(2, 3)
    other.layers[0].dtype = torch.float64
    for wrong in (changed, other, [cache], None, transformers.DynamicCache()):
        assert not opener_of(spec, nodes)(wrong, [])
