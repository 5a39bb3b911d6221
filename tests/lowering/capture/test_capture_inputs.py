"""Capture of nested inputs, numbers, caches; and the names that leaves get."""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import nn
from torch.utils import _pytree as pytree
from transformers.models.minimax.modeling_minimax import MiniMaxCache

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering.capture.capture import capture
from lowering.capture.same_program import run
from lowering.errors import CaptureError
from lowering.records.pytrees import known_cache_types, register_classes
from tests.support.captured import Add, Apart, Tree, X, Y, program_of, shapes


@dataclasses.dataclass
class Pair:
    """A dataclass nobody registered."""

    left: torch.Tensor
    right: torch.Tensor
    label: str = "pair"
    nothing: torch.Tensor | None = None


class Point(NamedTuple):
    """A named tuple."""

    a: torch.Tensor
    b: torch.Tensor


SCALE = torch.tensor(2.0)
N = {0: "n"}
TREES: dict[str, tuple[Any, Any, list[str]]] = {
    "list": ([X, Y], [N, N], ["tree.0", "tree.1"]),
    "one dict of axes for all": ([X, (Y, X)], N, ["tree.0", "tree.1.0", "tree.1.1"]),
    "dict": ({"a": X, "b": [Y]}, {"a": N, "b": [N]}, ["tree.a", "tree.b.0"]),
    "ordered dict": (OrderedDict(b=X, a=Y), {"a": N, "b": N}, ["tree.b", "tree.a"]),
    "named tuple": (Point(X, Y), (N, N), ["tree.a", "tree.b"]),
    "dataclass": (Pair(X, Y), {"left": N, "right": N}, ["tree.left", "tree.right", "tree.label"]),
    "dataclass by position": (Pair(X, Y), [N, N, None], ["tree.left", "tree.right", "tree.label"]),
}


@pytest.mark.parametrize("form", TREES)
def test_nested_inputs_have_names_and_dimensions_by_path(form: str) -> None:
    tree, spec, names = TREES[form]
    captured = capture(Tree(), (tree, SCALE), dynamic_shapes={"tree": spec})
    assert captured.input_names == (*names, "scale")
    assert {shape[0] for name, shape in shapes(captured).items() if name != "scale"} == {"n"}
    assert Pair not in pytree.SUPPORTED_NODES


def test_a_leaf_is_described_by_its_own_name() -> None:
    captured = capture(Tree(), ({"a": X, "b": Y}, SCALE), dynamic_shapes={"tree.b": {1: "n"}, "tree": {"a": {1: "n"}}})
    assert shapes(captured)["tree.b"] == (4, "n")


def test_results_come_back_in_the_structure_of_the_model() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"pair": Pair(x, x + 1), "rest": [x * 2]}

    captured = capture(Both(), (X,))
    assert captured.output_names == ("pair.left", "pair.right", "pair.label", "rest.0")
    back = captured.result_of([X, Y, "pair", X])
    assert isinstance(back["pair"], Pair)
    assert back["pair"].right is Y


def test_a_call_may_pass_by_position_or_by_name() -> None:
    captured = capture(Add(), (X,), {"y": Y})
    assert [leaf is each for leaf, each in zip(captured.leaves_of((X, Y)), (X, Y), strict=True)] == [True, True]
    assert captured.leaves_of((), {"y": Y, "x": X})[0] is X
    with pytest.raises(CaptureError, match="lacks 'y'"):
        captured.leaves_of((X,))
    with pytest.raises(CaptureError, match="another structure"):
        captured.leaves_of(([X], Y))


def test_variable_arguments_have_names() -> None:
    class Variable(nn.Module):
        def forward(self, *xs: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
            return xs[0] + xs[1] + more["z"]

    for spec in ({"xs": (N, N), "more": {"z": N}}, {"xs_0": N, "xs_1": N, "z": N}, (N, N, N), ((N, N), {"z": N})):
        captured = capture(Variable(), (X, Y), {"z": X}, dynamic_shapes=spec)
        assert captured.input_names == ("xs_0", "xs_1", "z")
        assert set(shapes(captured).values()) == {("n", 6)}


# ---------------------------------------------------------------------------------------------- Numbers, None


def scaled(x: torch.Tensor, times: int, by: float = 1.0, flag: bool = False, mode: Any = None) -> torch.Tensor:
    """A function with arguments that are no tensors."""
    return x * times * by if flag else x[:times]


def test_numbers_and_none_are_baked_and_told() -> None:
    captured = capture(scaled, (X, 3), {"by": 0.5, "flag": True, "mode": None})
    assert captured.input_names == ("x", "times", "by", "flag", "mode")
    assert captured.scalars == {"times": 3, "by": 0.5, "flag": True, "mode": None}


def test_an_int_may_vary_under_a_name() -> None:
    captured = capture(scaled, (X, 3), dynamic_shapes={"times": "count"})
    assert captured.scalars == {}
    assert "count" in captured.dim_names.values()
    with pytest.raises(CaptureError, match="part of the graph"):
        capture(scaled, (X, 3, 0.5), dynamic_shapes={"by": "factor"})


# ---------------------------------------------------------------------------------------------- Names of inputs


def test_renamed_inputs_key_the_shapes_by_old_and_new_names() -> None:
    for key in ("x", "tokens"):
        captured = capture(Apart(), (X, Y), dynamic_shapes={key: {0: "n"}}, input_names=["tokens", "mask"])
        assert captured.input_names == ("tokens", "mask")
        assert shapes(captured)["tokens"] == ("n", 6)
    assert capture(Add(), (X, Y), input_names={"y": "z"}).input_names == ("x", "z")
    with pytest.raises(CaptureError, match="3 input names were given for 2 inputs"):
        capture(Add(), (X, Y), input_names=["a", "b", "c"])
    with pytest.raises(CaptureError, match="two inputs would be called 'y'"):
        capture(Add(), (X, Y), input_names=["y"])


def test_names_skip_what_is_baked() -> None:
    captured = capture(lambda a, n, b: a * n + b, (X, 2, Y), input_names=["first", "second"])
    assert captured.input_names == ("first", "n", "second")


# ---------------------------------------------------------------------------------------------- Caches


class Remembering(nn.Module):
    """What decoders do with a cache."""

    def forward(self, x: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        total = x.sum()
        for layer in range(2):
            keys, values = cache.update(x, x + layer, layer)
            total = total + keys.sum() * values.mean()
        return total, cache


def dynamic_cache(batch: int = 2, past: int = 3) -> Any:
    cache = transformers.DynamicCache()
    for layer in range(2):
        cache.update(torch.randn(batch, 2, past, 4), torch.randn(batch, 2, past, 4), layer)
    return cache


def layer_of(cache: Any, index: int) -> Any:
    return cache.layers[index]


TOKENS = torch.randn(2, 2, 1, 4)
P = {0: "b", 2: "past"}
CACHE_SPECS: dict[str, Any] = {
    "one dict for all": P,
    "keys and values": [[P, P], [P, P]],
    "pairs": [(P, P), (P, P)],
    "flat": [P, P, P, P],
    "torch's own fields": {"key_cache": [P, P], "value_cache": [P, P]},
    "by path": {"0.key": P, "0.value": P, "1": {"key": P, "value": P}},
}


@pytest.mark.parametrize("form", CACHE_SPECS)
def test_caches_are_described_in_every_form(form: str) -> None:
    spec = {"x": {0: "b", 2: "new"}, "cache": CACHE_SPECS[form]}
    before = set(pytree.SUPPORTED_NODES)  # transformers' own exporters register its caches for good
    captured = capture(Remembering(), (TOKENS, dynamic_cache()), dynamic_shapes=spec)
    assert captured.input_names == ("x", "cache.0.key", "cache.0.value", "cache.1.key", "cache.1.value")
    assert captured.output_names == ("", "1.0.key", "1.0.value", "1.1.key", "1.1.value")
    assert {shape for name, shape in shapes(captured).items() if name != "x"} == {("b", 2, "past", 4)}
    assert set(known_cache_types()) & set(pytree.SUPPORTED_NODES) == set(known_cache_types()) & before


def test_a_cache_goes_in_and_comes_out() -> None:
    spec = {"x": {0: "b", 2: "new"}, "cache": P}
    captured = capture(Remembering(), (TOKENS, dynamic_cache()), dynamic_shapes=spec)
    cache = dynamic_cache(5, 6)
    leaves = captured.leaves_of((torch.randn(5, 2, 2, 4), cache))
    total, after = captured.result_of(run(program_of(captured), leaves))
    expected, wanted = Remembering()(leaves[0], cache)
    torch.testing.assert_close(total, expected)
    assert isinstance(after, transformers.DynamicCache)
    torch.testing.assert_close(layer_of(after, 1).values, layer_of(wanted, 1).values)


def test_two_caches_in_one_have_names_of_their_own() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor, cache: Any) -> Any:
            cache.self_attention_cache.update(x, x, 0)
            return cache

    cache = transformers.EncoderDecoderCache(dynamic_cache(), dynamic_cache(2, 7))
    own, cross = P, {0: "b", 2: "source"}
    for spec in ([own, cross], {"self_attention_cache": own, "cross_attention_cache": [cross] * 4}):
        captured = capture(Both(), (TOKENS, cache), dynamic_shapes={"x": {0: "b"}, "cache": spec})
        assert captured.input_names[1] == "cache.self_attention_cache.0.key"
        assert shapes(captured)["cache.cross_attention_cache.1.value"] == ("b", 2, "source", 4)


def test_a_static_cache_is_its_tensors_and_its_counter() -> None:
    config = transformers.LlamaConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=8)
    cache = transformers.StaticCache(config=config, max_cache_len=8)
    cache.early_initialization(2, 2, 4, torch.float32, torch.device("cpu"))
    captured = capture(Remembering(), (TOKENS, cache), dynamic_shapes={"x": {0: "b"}, "cache": {0: "b"}})
    assert captured.input_names[1:4] == ("cache.0.key", "cache.0.value", "cache.0.cumulative_length")
    assert int(layer_of(cache, 0).cumulative_length) == 0


def test_a_sliding_window_counts_its_tokens_by_the_length_of_its_keys() -> None:
    config = transformers.MistralConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=8, sliding_window=16)
    cache = transformers.DynamicCache(config=config)
    for layer in range(2):
        cache.update(torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4), layer)
    spec = {"x": {0: "b", 2: "new"}, "cache": P}
    captured = capture(Remembering(), (TOKENS, cache), dynamic_shapes=spec)
    assert shapes(captured)["cache.1.key"] == ("b", 2, "past", 4)
    assert not captured.scalars


def test_a_class_that_is_registered_already_is_left_alone() -> None:
    with register_classes(Pair(X, Y)):
        before = pytree.SUPPORTED_NODES[Pair]
        capture(Tree(), (Pair(X, Y), SCALE))
        assert pytree.SUPPORTED_NODES[Pair] is before
    assert Pair not in pytree.SUPPORTED_NODES


class Swapped(nn.Module):
    """A Pair in, a Pair out."""

    def forward(self, pair: Pair) -> Pair:
        return Pair(pair.right * 2, pair.left)


def test_threads_export_and_call_without_meeting_in_the_tables_of_torch() -> None:
    given, spec = Pair(X, Y), {"pair": {"left": N, "right": N}}
    shared = to_onnx(Swapped(), (given,), dynamic_shapes=spec)

    def work(number: int) -> None:
        program = to_onnx(Swapped(), (given,), dynamic_shapes=spec) if number < 3 else shared
        for _ in range(50):
            result = program(given)
            assert isinstance(result, Pair) and torch.equal(result.left, Y * 2) and torch.equal(result.right, X)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(work, range(6))) == [None] * 6
    finally:
        sys.setswitchinterval(before)
    assert Pair not in pytree.SUPPORTED_NODES


def test_model_outputs_of_transformers_have_names() -> None:
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    captured = capture(
        transformers.BertModel(config).eval(),
        kwargs={"input_ids": torch.ones(2, 5, dtype=torch.int64)},
        dynamic_shapes={"input_ids": {0: "batch", 1: "seq"}},
    )
    assert captured.output_names == ("last_hidden_state", "pooler_output")
    assert "embeddings.word_embeddings.weight" in captured.state


def test_a_file_that_holds_a_cache_is_read(tmp_path: Path) -> None:
    spec = {"x": {0: "b", 2: "new"}, "cache": P}
    captured = capture(Remembering(), (TOKENS, dynamic_cache()), dynamic_shapes=spec)
    with captured.pytrees():
        torch.export.save(program_of(captured), tmp_path / "cache.pt2")
    again = capture(tmp_path / "cache.pt2", dynamic_shapes=spec)
    assert shapes(again) == shapes(captured)
    assert again.output_names == captured.output_names
    with pytest.raises(CaptureError, match="there is no file"):
        capture(tmp_path / "missing.pt2")
    (tmp_path / "broken.pt2").write_bytes(b"nothing")
    with pytest.raises(CaptureError, match="holds no torch program"):
        capture(tmp_path / "broken.pt2")


def test_states_of_a_cache_vary_in_their_batch_only() -> None:
    config = transformers.Lfm2Config(
        hidden_size=8, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, conv_L_cache=3,
        layer_types=["conv", "full_attention"],
    )  # fmt: skip
    cache = transformers.DynamicCache(config=config)
    cache.update_conv_state(torch.randn(2, 8, 3), 0)
    cache.update(torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4), 1)

    class Both(nn.Module):
        def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
            return cache.layers[0].conv_states[0].sum() + cache.layers[1].keys.sum((0, 2, 3)) * x

    for tokens in (2, -2):
        spec = {0: "b", tokens: "past"}
        captured = capture(Both(), (torch.randn(2), cache), dynamic_shapes={"x": None, "cache": spec})
        found = shapes(captured)
        assert found["cache.0.conv_states.0"] == ("b", 8, 3) and found["cache.1.key"] == ("b", 2, "past", 4)


def test_states_beside_the_layers_vary_in_their_batch_only() -> None:
    cache = MiniMaxCache()
    cache.update(torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4), 0)
    cache.set_linear_cache(1, torch.randn(2, 2, 4, 4))

    class Both(nn.Module):
        def forward(self, cache: Any) -> torch.Tensor:
            return cache.linear_cache[1].sum((1, 3)) + cache.layers[0].keys.sum((1, 2))

    found = shapes(capture(Both(), (cache,), dynamic_shapes=({0: "b", 2: "past"},)))
    assert found["cache.linear_cache.1"] == ("b", 2, 4, 4) and found["cache.0.key"] == ("b", 2, "past", 4)


def test_keys_of_an_indexer_have_no_axis_of_heads() -> None:
    cache = transformers.DynamicCache(config=transformers.DeepseekV32Config(num_hidden_layers=1))
    cache.update(torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4), 0)
    layer: Any = cache.layers[0]
    layer.update_indexer(torch.randn(2, 5, 8))
    layer.indexer_position_ids = torch.arange(5).expand(3, 2, 5)

    class Indexed(nn.Module):
        def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
            layer = cache.layers[0]
            found = layer.keys.sum(1) @ x + layer.indexer_keys.sum(-1, keepdim=True)
            return found.squeeze(-1) + layer.indexer_position_ids[0]

    for batch, tokens in ((0, 2), (-4, -2)):
        spec = {"x": None, "cache": {batch: "b", tokens: "past"}}
        program = to_onnx(Indexed(), (torch.randn(4, 1), cache), dynamic_shapes=spec)
        assert program.report.inputs[1:] == (
            ("cache.0.key", "f32[b, 3, past, 4]"),
            ("cache.0.value", "f32[b, 3, past, 4]"),
            ("cache.0.indexer_keys", "f32[b, past, 8]"),
            ("cache.0.indexer_position_ids", "i64[3, b, past]"),
        )
        assert program.check(n=3)


def test_a_size_may_be_a_sum_with_a_number() -> None:
    def seen(mask: torch.Tensor, x: torch.Tensor, past: int) -> torch.Tensor:
        return mask[:, past:] * x

    shapes = {"mask": {1: "past + seq"}, "x": {1: "seq"}, "past": "past"}
    program = to_onnx(seen, (torch.randn(2, 9), torch.randn(2, 4), 5), dynamic_shapes=shapes)
    assert program.report.dims[:2] == (("past", "[0, inf]"), ("seq", "[0, inf]"))
    assert dict(program.report.inputs)["mask"] == "f32[2, past + seq]" and program.check(n=3)


def test_a_full_sliding_window_counts_on() -> None:
    config = transformers.MistralConfig(
        vocab_size=30, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, hidden_size=8,
        intermediate_size=16, sliding_window=4, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.MistralForCausalLM(config).eval()

    def step(past: int) -> dict[str, Any]:
        cache = transformers.DynamicCache(config=config)
        cache.update(torch.randn(2, 1, past, 4), torch.randn(2, 1, past, 4), 0)
        return {"input_ids": torch.ones(2, 1, dtype=torch.int64), "past_key_values": cache}

    shapes = {"input_ids": {0: "batch"}, "past_key_values": {0: "batch", 2: "past"}}
    prompt = to_onnx(model, kwargs={"input_ids": step(1)["input_ids"].repeat(1, 7)}, dynamic_shapes=({0: "b", 1: "s"},))
    assert prompt.check(n=3)
    assert prompt(input_ids=torch.ones(2, 1, dtype=torch.int64)).past_key_values.get_seq_length() == 1
    cache = prompt(input_ids=torch.ones(2, 6, dtype=torch.int64)).past_key_values
    assert type(cache.layers[0].cumulative_length) is int and cache.get_seq_length() == 6

    program = to_onnx(model, kwargs=step(9), dynamic_shapes=shapes)
    assert program.report.inputs[1:] == (
        ("past_key_values.0.key", "f32[batch, 1, 3, 4]"),
        ("past_key_values.0.value", "f32[batch, 1, 3, 4]"),
        ("past_key_values.0.cumulative_length", "i64[]"),
    )
    assert program.check(n=3)
    assert program(input_ids=step(1)["input_ids"], past_key_values=cache).past_key_values.get_seq_length() == 7
    with pytest.raises(ContractError) as error:
        program(**step(2))
    assert error.value.what == (
        "the arguments have another structure than at capture: past_key_values.0.cumulative_length is the length of "
        "the keys, and was a tensor or number of its own"
    )


@pytest.mark.parametrize(
    ("given", "difference"),
    [
        (([X, X, X], {"a": X}), "xs is not what it was: it has 2 too"),
        (([X, X], {"b": X}), "named is not what it was: it has b too and it lacks a"),
        (([X, X], {"a": [X]}), "named.a is a list, and was a single value"),
        ((X, {"a": X}), "xs is a single value, and was a list"),
    ],
)
def test_a_call_of_another_structure_says_where(given: Any, difference: str) -> None:
    program = to_onnx(lambda xs, named: xs[0] + named["a"], ([X, X], {"a": X}))
    with pytest.raises(ContractError) as error:
        program(*given)
    assert error.value.what == f"the arguments have another structure than at capture: {difference}"


def test_a_size_that_the_model_returns_is_an_int() -> None:
    program = to_onnx(lambda x: (x * 2, x.shape[0] * 3), (torch.randn(4, 2),), dynamic_shapes=({0: "n"},))
    assert program(torch.randn(5, 2))[1] == 15 and type(program(torch.randn(5, 2))[1]) is int
    assert program.check()


class Keyless:
    """A class that its owner registered without names for its children."""

    def __init__(self, left: torch.Tensor, right: torch.Tensor) -> None:
        self.left, self.right = left, right


def test_a_class_registered_without_keys_has_positions() -> None:
    pytree._private_register_pytree_node(
        Keyless, lambda each: ([each.left, each.right], None), lambda parts, _: Keyless(*parts)
    )
    try:
        node = pytree.SUPPORTED_NODES[Keyless]
        said = ([{0: "n"}, {0: "n"}],)
        captured = capture(lambda each: each.left - each.right, (Keyless(X, Y),), dynamic_shapes=said)
        assert captured.input_names == ("each.0", "each.1") and pytree.SUPPORTED_NODES[Keyless] is node
        assert shapes(captured) == {"each.0": ("n", 6), "each.1": ("n", 6)}
    finally:
        pytree.SUPPORTED_NODES.pop(Keyless)
        pytree.SUPPORTED_SERIALIZED_TYPES.pop(Keyless, None)
