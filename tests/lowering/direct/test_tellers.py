"""What tells the sizes of results on the meta device, beside what the operator gives on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from irkit import dims
from lowering.direct.converting import info_of
from lowering.direct.meta_device.arguments import of_elements
from lowering.direct.meta_device.losses import LOSSES
from lowering.direct.meta_device.results import RECURRENT, TOLD
from lowering.direct.meta_device.windows import RESIZING
from lowering.direct.points import symbol_value
from tests.support.python_calls import python_calls

aten = torch.ops.aten
SIZES = st.integers(1, 4)
SOME = st.integers(0, 4)
KINDS = st.sampled_from((torch.float32, torch.float64))


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The sizes, steps and element types that a function gives, or that it raises."""
    try:
        found = function(*args)
    except (RuntimeError, ValueError, IndexError, ZeroDivisionError, TypeError, AssertionError):
        return "refused"
    every = (found,) if isinstance(found, torch.Tensor) else found
    return [(tuple(t.shape), steps(t), t.dtype) for t in every]


def steps(tensor: torch.Tensor) -> tuple[int, ...]:
    """The steps of the axes that have any, of what has elements."""
    return (
        ()
        if 0 in tensor.shape
        else tuple(step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    )


def on_meta(given: Any) -> Any:
    """Arguments with their tensors on the meta device."""
    if isinstance(given, list | tuple):
        return type(given)(map(on_meta, given))
    return given.to("meta") if isinstance(given, torch.Tensor) else given


@given(st.data(), st.sampled_from(list(RESIZING)), KINDS)
def test_an_image_of_another_size_is_told_as_the_cpu_gives_it(data: st.DataObject, packet: Any, kind: Any) -> None:
    rank = int(packet._qualified_op_name[-2])
    x = torch.zeros(data.draw(st.lists(SIZES, min_size=rank + 1, max_size=rank + 2)), dtype=kind)
    if x.dim() == 4 and data.draw(st.booleans()):
        x = x.contiguous(memory_format=torch.channels_last)
    sizes = st.none() | st.lists(st.integers(0, 5), min_size=rank - 1, max_size=rank)
    factors = st.none() | st.lists(st.sampled_from((0.1, 0.5, 1.0, 1.7, 2.0)), min_size=rank, max_size=rank)
    size, scales, aligned = data.draw(sizes), data.draw(factors), data.draw(st.booleans())
    args = x, size, aligned, scales
    assert outcome(TOLD[packet.vec], *on_meta(args)) == outcome(packet.vec, *args)
    if size is not None:
        args = x, size, aligned, *(scales or [None] * rank)
        assert outcome(TOLD[packet.default], *on_meta(args)) == outcome(packet.default, *args)


@given(st.data(), KINDS)
def test_a_norm_of_each_image_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any) -> None:
    x = torch.ones(data.draw(st.lists(SOME, min_size=2, max_size=5)), dtype=kind)
    of_channels = st.none() | st.sampled_from((x.shape[1], x.shape[1], x.shape[1], 1, 2)).map(
        lambda n: torch.ones(n, dtype=kind)
    )
    numbers = data.draw(st.tuples(of_channels, of_channels, of_channels, of_channels))
    args = x, *numbers, data.draw(st.booleans()), 0.1, 1e-5, False
    assert outcome(TOLD[aten.instance_norm.default], *on_meta(args)) == outcome(aten.instance_norm.default, *args)


@settings(max_examples=25)
@given(st.data(), st.sampled_from((torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)))
def test_a_recurrent_layer_is_told_as_the_cpu_gives_it(data: st.DataObject, layer: Any) -> None:
    features, width, layers = data.draw(SIZES), data.draw(SIZES), data.draw(st.integers(1, 2))
    both, first, biased = data.draw(st.booleans()), data.draw(st.booleans()), data.draw(st.booleans())
    projected = layer is torch.nn.LSTM and width > 1 and data.draw(st.booleans())
    more = {"proj_size": width - 1} if projected else {}
    made = layer(features, width, layers, bidirectional=both, batch_first=first, bias=biased, **more).eval()
    steps, batch = data.draw(st.integers(0, 5)), data.draw(SOME)
    given_features = data.draw(st.sampled_from((features, features, features, 2)))
    given_batch = data.draw(st.sampled_from((batch, batch, batch, 2)))
    x = torch.zeros(*((batch, steps) if first else (steps, batch)), given_features)
    count = layers * (2 if both else 1)
    hidden: Any = torch.zeros(count, given_batch, width - 1 if projected else width)
    if layer is torch.nn.LSTM:
        hidden = [hidden, torch.zeros(count, given_batch, width)]
    name = {torch.nn.LSTM: aten.lstm, torch.nn.GRU: aten.gru, torch.nn.RNN: aten.rnn_tanh}[layer]
    args = x, hidden, made._flat_weights, biased, layers, 0.0, False, both, first
    with torch.no_grad():
        told = outcome(TOLD[name.input], *on_meta(args))
        assert told == outcome(name.input, *on_meta(args))
        if (given_batch, given_features) == (batch, features):  # of others oneDNN looks at no size
            assert told == outcome(name.input, *args)


@given(st.data(), KINDS, KINDS)
def test_a_linear_layer_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any, other: Any) -> None:
    x = torch.zeros(data.draw(st.lists(SOME, min_size=1, max_size=4)), dtype=kind)
    x = x.mT if x.dim() > 1 and data.draw(st.booleans()) else x
    features = data.draw(st.sampled_from((x.shape[-1], x.shape[-1], 2)))
    out = data.draw(SOME)
    bias = data.draw(st.sampled_from((None, torch.zeros(out, dtype=kind), torch.zeros(out, dtype=other))))
    args = x, torch.zeros(out, features, dtype=data.draw(st.sampled_from((kind, kind, other)))), bias
    assert outcome(TOLD[aten.linear.default], *on_meta(args)) in (
        outcome(aten.linear.default, *args), outcome(aten.linear.default, *on_meta(args))
    )  # fmt: skip


@given(st.data(), KINDS, KINDS)
def test_a_norm_of_groups_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any, other: Any) -> None:
    x = torch.zeros(data.draw(st.lists(SOME, min_size=1, max_size=5)), dtype=kind)
    count = data.draw(st.sampled_from((*x.shape[1:2], *x.shape[1:2], 2)))
    numbers = st.sampled_from((None, torch.ones(count, dtype=kind), torch.ones(count, dtype=other)))
    args = x, data.draw(st.integers(0, 3)), data.draw(numbers), data.draw(numbers)
    assert outcome(TOLD[aten.group_norm.default], *on_meta(args)) in (
        outcome(aten.group_norm.default, *args), outcome(aten.group_norm.default, *on_meta(args))
    )  # fmt: skip


@given(st.data(), st.sampled_from(LOSSES), KINDS, KINDS)
def test_a_loss_is_told_as_the_cpu_gives_it(data: st.DataObject, loss: Any, kind: Any, other: Any) -> None:
    shape = data.draw(st.lists(SOME, max_size=3))
    x, y = torch.zeros(shape, dtype=kind), torch.zeros(data.draw(st.sampled_from((shape, shape[1:]))), dtype=other)
    args = x, y, *data.draw(st.sampled_from(((), (0,), (1,), (2,))))
    told = outcome(TOLD[loss], *on_meta(args))
    assert told in (outcome(loss, *args), outcome(loss, *on_meta(args)))


def drawn(data: st.DataObject, shape: Any, kind: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of a shape, some of whose axes lie in another order in memory."""
    order = data.draw(st.permutations(range(len(shape)))) if data.draw(st.booleans()) else range(len(shape))
    lying = torch.zeros([shape[axis] for axis in order], dtype=kind)
    return lying.permute([list(order).index(axis) for axis in range(len(shape))])


def requires_agreement(operator: Any, *args: Any) -> None:
    """What is told of an operator must be what the CPU gives, or the meta device where that says otherwise."""
    told = outcome(TOLD[operator], *on_meta(args))
    assert told in (outcome(operator, *args), outcome(operator, *on_meta(args)))


@given(st.data(), KINDS, KINDS)
def test_products_are_told_as_the_cpu_gives_them(data: st.DataObject, kind: Any, other: Any) -> None:
    several, rows, inner, columns = (data.draw(SOME) for _ in range(4))
    again = data.draw(st.sampled_from((inner, inner, inner, 2)))
    x, y = drawn(data, (rows, inner), kind), drawn(data, (again, columns), data.draw(st.sampled_from((kind, other))))
    requires_agreement(aten.mm.default, x, y)
    beside = data.draw(st.sampled_from(((columns,), (columns,), (rows, columns), (1, columns), (2,), (), (rows, 1))))
    requires_agreement(aten.addmm.default, drawn(data, beside, data.draw(st.sampled_from((kind, other)))), x, y)
    batches = (several, data.draw(st.sampled_from((several, several, 2))))
    x, y = drawn(data, (batches[0], rows, inner), kind), drawn(data, (batches[1], again, columns), kind)
    requires_agreement(aten.bmm.default, x, y)


@given(st.data(), KINDS)
def test_what_is_put_together_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any) -> None:
    shape = data.draw(st.lists(SOME, min_size=1, max_size=5))
    dim = data.draw(st.integers(-len(shape) - 1, len(shape)))

    def part() -> torch.Tensor:
        sizes = list(shape)
        if -len(shape) <= dim < len(shape):
            sizes[dim] = data.draw(SOME)
        sizes[data.draw(st.sampled_from([0, -1]))] += data.draw(st.sampled_from((0, 0, 0, 1)))
        chosen = data.draw(st.sampled_from((sizes, sizes, sizes, [0])))
        made = drawn(data, chosen, data.draw(st.sampled_from((torch.float32, torch.float32, kind))))
        last = made.dim() == 4 and data.draw(st.booleans())
        return made.contiguous(memory_format=torch.channels_last) if last else made

    requires_agreement(aten.cat.default, [part() for _ in range(data.draw(st.integers(1, 3)))], dim)


@given(st.data(), KINDS)
def test_rows_of_a_table_are_told_as_the_cpu_gives_them(data: st.DataObject, kind: Any) -> None:
    table = drawn(data, data.draw(st.lists(SIZES, min_size=1, max_size=3)), kind)
    places = drawn(data, data.draw(st.lists(SOME, max_size=3)), data.draw(st.sampled_from((torch.int64, torch.int32))))
    requires_agreement(aten.embedding.default, table, places)


@given(st.integers(-3, 5) | st.sampled_from((1.5, True)), st.integers(-3, 5) | st.just(2.5), st.booleans())
def test_counts_are_told_as_the_cpu_gives_them(start: Any, end: Any, typed: bool) -> None:
    named: dict[str, Any] = {"dtype": torch.float64} if typed else {}
    for operator, args in ((aten.arange.start, (start, end)), (aten.arange.default, (end,))):
        told = outcome(lambda *given, made=TOLD[operator]: made(*given, device="meta", **named), *args)
        assert told == outcome(lambda *given, made=operator: made(*given, device="cpu", **named), *args)


@given(st.data(), KINDS)
def test_a_norm_of_batches_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any) -> None:
    x = drawn(data, data.draw(st.lists(SOME, min_size=1, max_size=5)), kind)
    count = data.draw(st.sampled_from((*x.shape[1:2], *x.shape[1:2], 2)))
    numbers = st.sampled_from((None, torch.ones(count, dtype=kind), torch.ones(count)))
    args = (x, *(data.draw(numbers) for _ in range(4)), data.draw(st.booleans()), 0.1, 1e-5, False)
    requires_agreement(aten.batch_norm.default, *args)


@given(st.data(), KINDS)
def test_a_loss_by_classes_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any) -> None:
    x = drawn(data, data.draw(st.lists(SOME, min_size=1, max_size=4)), kind)
    shape = [*x.shape[:1], *x.shape[2:], *data.draw(st.sampled_from(((), (), (2,))))]
    classes = drawn(data, shape, data.draw(st.sampled_from((torch.int64, torch.int64, torch.int32))))
    weight = data.draw(st.sampled_from((None, torch.ones(x.shape[1:2], dtype=kind), torch.ones(2))))
    rest = data.draw(st.sampled_from(((), (0,), (1,), (2,), (1, -100, 0.1))))
    requires_agreement(aten.cross_entropy_loss.default, x, classes, weight, *rest)


@given(st.data(), KINDS)
def test_pools_and_shares_are_told_as_the_cpu_gives_them(data: st.DataObject, kind: Any) -> None:
    x = drawn(data, data.draw(st.lists(SOME, min_size=1, max_size=5)), data.draw(st.sampled_from((kind, torch.int64))))
    requires_agreement(aten.adaptive_avg_pool2d.default, x, data.draw(st.lists(SOME, min_size=2, max_size=2)))
    dim, wider = data.draw(st.integers(-x.dim() - 1, x.dim())), data.draw(st.sampled_from((None, torch.float64)))
    for operator in (aten.softmax.int, aten.log_softmax.int):
        requires_agreement(operator, x, dim, wider)


@given(st.data(), KINDS)
def test_attention_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any) -> None:
    batch = data.draw(st.lists(SOME, max_size=2))
    long, other, width, out = (data.draw(SOME) for _ in range(4))

    def operand(rows: int, columns: int) -> torch.Tensor:
        around = [data.draw(st.sampled_from((size, size, size, 1))) for size in batch]
        return drawn(data, (*around, rows, columns), data.draw(st.sampled_from((kind, kind, torch.float32))))

    masks = (None, None, torch.zeros(long, other), torch.zeros(*batch, long, other), torch.zeros(1, other).bool())
    mask = data.draw(st.sampled_from((*masks, torch.zeros(2, 2))))
    keys = operand(other, data.draw(st.sampled_from((width, width, 2))))
    values = operand(data.draw(st.sampled_from((other, other, 2))), out)
    args = operand(long, width), keys, values, mask, 0.0, data.draw(st.booleans())
    requires_agreement(aten.scaled_dot_product_attention.default, *args)


@given(st.data())
def test_elements_lie_as_the_cpu_lays_them(data: st.DataObject) -> None:
    shape = data.draw(st.lists(SIZES, max_size=4))
    operands = [drawn(data, [data.draw(st.sampled_from((n, n, 1))) for n in shape]) for _ in range(3)]
    twins = [each.to("meta") for each in operands]
    made, shown = torch.addcmul(*operands), torch.addcmul(*twins)
    told = of_elements(made.shape, made.dtype, twins)
    assert outcome(lambda: told) in (outcome(lambda: made), outcome(lambda: shown))


def operators_on_elements() -> list[Any]:
    """The operators whose result is told to lie as their operands do."""
    found: list[Any] = []
    for packet in (getattr(aten, name) for name in dir(aten)):
        for name in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
            with suppress(RuntimeError):  # some are of numbers alone, and none to torch
                each = getattr(packet, name)
                found += [each] if info_of(each).lies_alike else []
    return found


GIVEN: dict[str, Any] = {"int": 1, "number": 1, "float": 1.0, "bool": True, "str": "none"}
"""What operators on elements are given beside tensors, by type."""


@settings(max_examples=400)
@given(st.data(), st.sampled_from(operators_on_elements()))
def test_results_on_elements_lie_as_the_cpu_lays_them(data: st.DataObject, operator: Any) -> None:
    shape = data.draw(st.lists(SIZES, min_size=2, max_size=4))
    kind = data.draw(st.sampled_from((torch.float32, torch.int64, torch.bool)))
    args: list[Any] = []
    for argument in operator._schema.arguments:
        if argument.kwarg_only or (argument.has_default_value() and str(argument.type) != "Tensor"):
            break
        if str(argument.type) in ("Tensor", "Optional[Tensor]"):
            masking = argument.name in ("condition", "mask")
            sizes = [data.draw(st.sampled_from((n, n, 1))) for n in shape]
            args.append(drawn(data, sizes, torch.bool if masking else kind))
        else:
            args.append(GIVEN.get(str(argument.type), 1))
    tensors = [each.to("meta") for each in args if isinstance(each, torch.Tensor)]
    found = outcome(operator, *args)
    if found != "refused" and tensors:
        made = operator(*args)
        told = of_elements(made.shape, made.dtype, tensors)
        assert outcome(lambda: told) in (found, outcome(operator, *on_meta(args)))


@pytest.mark.parametrize("packet", list(RESIZING), ids=str)
def test_sizes_of_an_image_are_told_by_few_calls(packet: Any) -> None:
    rank = int(packet._qualified_op_name[-2])
    x = torch.zeros((2, 3, *[4] * rank), device="meta")
    assert python_calls(lambda: TOLD[packet.vec](x, [8] * rank, False, None)) < 100


@pytest.mark.parametrize("operator", RECURRENT, ids=str)
def test_a_long_row_is_told_by_as_many_calls_as_a_short_one(operator: Any) -> None:
    several = operator is aten.lstm.input
    blocks = {"lstm": 4, "gru": 3}.get(operator._schema.name.partition("::")[2], 1)
    weights = [torch.zeros(blocks * 3, n, device="meta") for n in (2, 3)]
    hidden: Any = torch.zeros(1, 2, 3, device="meta")
    rest = ([hidden, hidden] if several else hidden, weights, False, 1, 0.0, False, False, False)
    TOLD[operator](torch.zeros(2, 2, 2, device="meta"), *rest)  # what is looked up once
    few, many = (python_calls(lambda n=n: TOLD[operator](torch.zeros(n, 2, 2, device="meta"), *rest)) for n in (2, 50))
    assert many <= few + 10  # caches of torch's may be asked once more


def test_what_a_new_symbol_is_follows_from_the_length_that_it_is_a_part_of() -> None:
    """A length taken for the symbol itself grows with each product, until no prime above it is found in time."""
    n, u = dims.symbol("n"), dims.symbol("u0", signed=True)
    assert symbol_value(dims.mul(dims.mul(n, n), u), u, 7 * 7 * 11, {"n": 7}) == 11
    assert symbol_value(dims.maximum(0, u), u, 13, {}) == 13
    assert symbol_value(dims.floordiv(u, 2), u, 13, {}) == 13
