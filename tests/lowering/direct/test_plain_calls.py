"""Calls that are met without torch's dispatcher come down to the same operators, with the same arguments, as with it.

The calls are those of torch's own operator database, of all functions that have a rule.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import irkit
from lowering import lower
from lowering.direct import modes
from lowering.direct.functions.plain_calls import RULES
from lowering.direct.tensors import Traced
from tests.support.draws import drawn

SAMPLES = 6
WHERE = re.compile(r" from \".*|  # .*")
"""Lines of the model in the text of a graph: what notes the operators stands in between, and is taken for the model."""
END = (1 << 63) - 1


def plain(each: Any) -> Any:
    """An argument as text: sizes by their expressions, tensors by their types."""
    if isinstance(each, Traced):
        return repr(each.handle.value.type)
    if isinstance(each, torch.Tensor):
        return f"{each.dtype} {tuple(each.shape)}"
    if isinstance(each, list | tuple):
        return f"[{', '.join(map(plain, each))}]"
    if isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool):
        return str(each.node.expr)
    return f"{each.__class__.__name__} {each!r}"


def told(func: Any, args: Any, kwargs: Any) -> str:
    """A call of an operator as text, with the defaults of its schema."""
    named = {**kwargs}
    for argument, each in zip(func._schema.arguments, args, strict=False):
        named[argument.name] = each
    for argument in func._schema.arguments:
        named.setdefault(argument.name, argument.default_value if argument.has_default_value() else None)
    return f"{func} { ({name: plain(each) for name, each in sorted(named.items())}) }"


def is_left_out(func: Any, args: Any) -> bool:
    """Whether a call is `x[:]`, which torch makes of each part of an index for a size that varies, or its question
    whether a tensor is in order already."""
    asks = func._schema.name in ("aten::is_contiguous", "aten::sym_is_contiguous")
    return asks or (func is torch.ops.aten.slice.Tensor and tuple(args[2:]) == (0, END))


def operators(function: Callable[..., Any], args: tuple[Any, ...], through_torch: bool) -> tuple[list[str], str, int]:
    """(the operators that the first run of a function meets, the text of its graph without the lines that made it, or
    what was raised, how many of them were met without torch's dispatcher)."""
    found: list[str] = []
    runs: list[Any] = []
    taken = 0
    before = modes.met, modes.plain_call, modes.plain_steps

    def met(tracer: Any, func: Any, args: Any, kwargs: Any) -> Any:
        runs.append(tracer)
        if tracer is runs[0] and not tracer.asked.operators and not is_left_out(func, args):
            found.append(told(func, args, kwargs))
        return before[0](tracer, func, args, kwargs)

    def counted(way: Any) -> Any:
        def asked(*given: Any) -> Any:
            nonlocal taken
            answer = way(*given)
            taken += bool(answer)
            return answer

        return asked

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(modes, "met", met)
        patch.setattr(modes, "plain_call", (lambda *_: None) if through_torch else counted(before[1]))
        patch.setattr(modes, "plain_steps", (lambda *_: []) if through_torch else counted(before[2]))
        axes = tuple(dict.fromkeys(range(each.dim()), torch.export.Dim.AUTO) for each in args)
        try:
            text = lower(Spread(function), args, dynamic_shapes={"tensors": axes}, capture="direct").text()
        except (irkit.errors.IrkitError, RuntimeError, IndexError, TypeError, ValueError) as error:
            text = f"{type(error).__name__}: {error}"
    return found, WHERE.sub("", text), taken


class Spread(torch.nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def ways_of(op: Any) -> Iterator[Any]:
    """The functions and methods of an entry of torch's database that have a rule."""
    for way in dict.fromkeys((op.op, op.method_variant, op.operator_variant)):
        if way is not None and (way in RULES or way is torch.Tensor.__getitem__):
            yield way


DRAWN = 30
RULED = drawn(
    "plain calls", [op for op in op_db if next(ways_of(op), None) is not None], DRAWN, key=lambda op: op.full_name
)
"""Some of the operators of torch's database that a call by a name of Python's comes down to."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("op", RULED, ids=lambda op: op.full_name)
def test_calls_come_down_to_the_operators_that_torch_calls(op: Any, dtype: torch.dtype) -> None:
    if dtype not in op.supported_dtypes("cpu"):
        return
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))[:SAMPLES]
    for sample in samples:
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        tensors = tuple(each for each in leaves if isinstance(each, torch.Tensor))
        for way in ways_of(op):

            def function(*given: torch.Tensor, leaves: Any = leaves, spec: Any = spec, way: Any = way) -> Any:
                rest = iter(given)
                held = [next(rest) if isinstance(each, torch.Tensor) else each for each in leaves]
                first, args, kwargs = pytree.tree_unflatten(held, spec)
                return way(first, *args, **kwargs)

            assert_same(function, tensors)


def assert_same(function: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> int:
    """How many calls of a function were met without torch's dispatcher. Fails where other operators or another graph
    come of it."""
    plainly, through = operators(function, args, False), operators(function, args, True)
    assert plainly[:2] == through[:2]
    return plainly[2]


X, ROWS, CPU = torch.randn(6, 4, 8), torch.randn(5, 8), torch.device("cpu")
IMAGE, SOUND, VOLUME = torch.randn(6, 4, 8, 8), torch.randn(6, 4, 8), torch.randn(6, 4, 5, 5, 5)
MASK = torch.ones(4, 4, dtype=torch.bool)
CALLS: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "arange": (lambda x: torch.arange(x.shape[0], device=x.device) + torch.arange(6), X),
    "arange of a type": (lambda x: torch.arange(x.shape[1], dtype=torch.float32), X),
    "contiguous": (lambda x: x.transpose(0, 1).contiguous(), X),
    "to a device": (lambda x: x.to(CPU), X),
    "to a type": (lambda x: x.to(torch.float16), X),
    "to the same type": (lambda x: x.to(torch.float32) + 1, X),
    "dropout": (lambda x: F.dropout(x, 0.1, False), X),
    "linear without bias": (lambda x: F.linear(x, ROWS, None), X),
    "embedding": (lambda x: F.embedding((x.abs() * 0).long(), ROWS), X),
    "embedding with padding": (lambda x: F.embedding((x.abs() * 0).long(), ROWS, padding_idx=-1), X),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), X),
    "attention with a mask": (lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=MASK, scale=0.5), X),
    "attention with a causal mask": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), X),
    "conv1d": (torch.nn.Conv1d(4, 3, 3, padding=1), SOUND),
    "conv2d": (torch.nn.Conv2d(4, 4, 3, stride=2, groups=2, bias=False), IMAGE),
    "conv3d": (torch.nn.Conv3d(4, 3, 2, dilation=2), VOLUME),
    "gelu": (F.gelu, X),
    "a power": (lambda x: x.pow(2) + torch.pow(x, 0.5), X),
    "one beyond 64 bits": (lambda x: x.long() + (1 << 62), X),
    "ends beyond 64 bits": (lambda x: x[:, : 10**30, 1:] + x[:, -(10**30) :, 1:], X),
    "a truth value": (lambda x: x + True + x, X),
    "conditions": (lambda x: (x > 0) & (x < 1) | (x == 2), X),
    "sizes": (lambda x: x.view(x.shape[0], 2, -1).expand(2, -1, -1, -1).reshape(-1, x.shape[0]), X),
    "a mode of the user's": (lambda x: in_mode(x), X),
}


def in_mode(x: torch.Tensor) -> torch.Tensor:
    """Calls under a device that the model chooses for what it makes."""
    with torch.device("cpu"):
        return x.transpose(0, 1) + torch.arange(8)


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_models_come_down_to_the_operators_that_torch_calls(name: str) -> None:
    function, x = CALLS[name]
    with torch.no_grad():
        taken = assert_same(function.eval() if isinstance(function, torch.nn.Module) else function, (x,))
    assert taken > 0


PARTS = st.one_of(
    st.none(),
    st.just(...),
    st.integers(-3, 3),
    st.builds(
        slice, st.none() | st.integers(-5, 6), st.none() | st.integers(-5, 6), st.none() | st.sampled_from([1, 2])
    ),
)


@settings(max_examples=60)
@given(st.lists(PARTS, min_size=1, max_size=5))
def test_indices_come_down_to_the_operators_that_torch_calls(parts: list[Any]) -> None:
    index = tuple(parts)
    assert_same(lambda x: x[index] * 2, (X,))
    if len(index) == 1:
        assert_same(lambda x: x[index[0]] * 2, (X,))


def test_a_gradient_that_is_recorded_goes_through_torch() -> None:
    layer = torch.nn.Linear(8, 5)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        (found,) = torch.autograd.grad(layer(x).pow(2).mean(-1).sum(), [layer.weight])
        return found

    assert_same(gradient, (X,))
