"""What tells the sizes of images, losses and cells on the meta device, beside what the operator gives on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from lowering.capture.guards.assumed import asks_in_its_kernel
from lowering.direct.meta_device.losses import ALIKE, LOST
from lowering.direct.meta_device.results import BLOCKS, RECURRENT, SMALL_BY_ALL, SMALL_BY_FIRST, TOLD, teller
from lowering.direct.meta_device.windows import ADAPTIVE, CONVOLUTIONS, GREATEST, MEANS, NEAREST, TRANSPOSED
from tests.lowering.direct.test_tellers import KINDS, SIZES, SOME, drawn, on_meta, outcome, requires_agreement
from tests.support.python_calls import python_calls

aten = torch.ops.aten
FEW = st.integers(1, 3)
PADS = st.integers(0, 2)
LONG = st.integers(0, 7)
MORE = st.integers(2, 3)
MOST = settings(max_examples=150)


def image(data: st.DataObject, rank: int, kind: torch.dtype, channels: int | None = None) -> torch.Tensor:
    """An image of some channels, or several."""
    shape = [channels or data.draw(SOME), *(data.draw(LONG) for _ in range(rank))]
    made = drawn(data, [*data.draw(st.sampled_from(([2], [1], [0], []))), *shape], kind)
    if made.dim() in (4, 5) and data.draw(st.booleans()):
        last = torch.channels_last if made.dim() == 4 else torch.channels_last_3d
        return made.contiguous(memory_format=last)
    return made


def counts(data: st.DataObject, rank: int, numbers: st.SearchStrategy[int]) -> list[int]:
    """A number for each axis, or one for all."""
    return data.draw(st.lists(numbers, min_size=rank, max_size=rank) | st.lists(numbers, min_size=1, max_size=1))


def agrees(data: st.DataObject, operator: Any, *args: Any) -> None:
    """What is told of an operator must be what the CPU gives, or the meta device, also where arguments that have
    defaults are left out."""
    least = sum(not argument.has_default_value() for argument in operator._schema.arguments)
    given = args[: max(least, data.draw(st.integers(0, 2 * len(args))))]
    requires_agreement(operator, *given)
    if operator in SMALL_BY_FIRST and given[0].dim():
        axis = data.draw(st.integers(0, given[0].dim() - 1))
        requires_growth(operator, given[0].shape[axis], lambda size: (resized(given[0], axis, size), *given[1:]))


def resized(x: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """A tensor as long as this along an axis."""
    return torch.zeros([size if a == axis else n for a, n in enumerate(x.shape)], dtype=x.dtype)


def requires_growth(operator: Any, most: int, arguments: Callable[[int], tuple[Any, ...]]) -> None:
    """Where an operator takes a size, and a smaller one, it must take all between."""
    kernels = [] if operator in RECURRENT else [(list, operator, 0)]  # which end the process at sizes that do not fit
    least = int(asks_in_its_kernel(operator._schema.name))  # of nothing the CPU is asked then
    for where, function, first in (*kernels, (on_meta, teller(operator), least)):
        taken = [outcome(function, *where(arguments(size))) != "refused" for size in range(first, most + 1)]
        assert not any(taken[-1:]) or taken == sorted(taken), taken


def convolves_as_the_cpu(operator: Any, *args: Any) -> None:
    """What is told of a convolution must be what the CPU gives, or the meta device; where the CPU refuses it, of the
    sizes that the meta device gives."""
    found, told, shown = (
        outcome(operator, *args),
        outcome(TOLD[operator], *on_meta(args)),
        outcome(operator, *on_meta(args)),
    )
    if args[0].dim() and operator in SMALL_BY_FIRST:
        for axis, most in enumerate(args[0].shape):
            requires_growth(operator, most, lambda size, axis=axis: (resized(args[0], axis, size), *args[1:]))
    if told == "refused" and found != "refused":
        assert 0 in found[0][0]  # of an image without pixels some kernels give one more
    elif found != "refused":
        assert told in (found, shown)  # of axes of one element either may lay it
    elif told != "refused":
        assert [(shape, kind) for shape, _, kind in told] == [(shape, kind) for shape, _, kind in shown]


@MOST
@given(st.data(), st.sampled_from(CONVOLUTIONS), KINDS, KINDS)
def test_convolutions_are_told_as_the_cpu_gives_them(data: st.DataObject, operator: Any, kind: Any, other: Any) -> None:
    rank, groups = int(operator._schema.name[-2]), data.draw(st.sampled_from((1, 1, 2)))
    inner, out = groups * data.draw(FEW), groups * data.draw(FEW)
    x = image(data, rank, kind, data.draw(st.sampled_from((inner, inner, inner, 2))))
    shape = (out, inner // groups, *(data.draw(FEW) for _ in range(rank)))
    weight = drawn(data, shape, data.draw(st.sampled_from((kind, kind, kind, other))))
    bias = data.draw(st.sampled_from((None, torch.zeros(out, dtype=kind), torch.zeros(2, dtype=kind))))
    named = operator._schema.overload_name == "padding"
    padding = data.draw(st.sampled_from(("same", "valid"))) if named else counts(data, rank, PADS)
    steps, apart = counts(data, rank, st.integers(0, 3) if data.draw(st.integers(0, 9)) == 0 else FEW), FEW
    args = x, weight, bias, steps, padding, counts(data, rank, apart), groups
    convolves_as_the_cpu(operator, *args[: data.draw(st.integers(2, 14))])


@MOST
@given(st.data(), st.sampled_from(TRANSPOSED), KINDS)
def test_transposed_convolutions_are_told_as_the_cpu_gives_them(data: st.DataObject, operator: Any, kind: Any) -> None:
    rank, groups = int(operator._schema.name[-2]), data.draw(st.sampled_from((1, 1, 2)))
    inner, out = groups * data.draw(FEW), data.draw(FEW)
    x = image(data, rank, kind, data.draw(st.sampled_from((inner, inner, inner, 2))))
    weight = drawn(data, (inner, out, *(data.draw(FEW) for _ in range(rank))), kind)
    bias = data.draw(st.sampled_from((None, torch.zeros(out * groups, dtype=kind), torch.zeros(2, dtype=kind))))
    rest = (counts(data, rank, FEW), counts(data, rank, PADS), counts(data, rank, PADS))
    args = (x, weight, bias, *rest, groups, counts(data, rank, FEW))[: data.draw(st.integers(2, 16))]
    found = outcome(operator, *args)
    if found != "refused" and 0 in found[0][0][2:] and x.shape[0]:  # which some kernels of the CPU refuse, not all
        assert outcome(TOLD[operator], *on_meta(args)) == "refused"
    else:
        convolves_as_the_cpu(operator, *args)


def lying(data: st.DataObject, tensor: torch.Tensor) -> torch.Tensor:
    """The same whose channels may lie last, or whose axes lie in another order."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    if last is not None and data.draw(st.booleans()):
        return tensor.contiguous(memory_format=last)
    return drawn(data, tensor.shape, tensor.dtype)


@MOST
@given(st.data(), st.sampled_from((*CONVOLUTIONS[::2], *TRANSPOSED)), KINDS | st.just(torch.bfloat16))
def test_convolutions_lay_channels_as_the_cpu_does(data: st.DataObject, operator: Any, kind: Any) -> None:
    rank, groups, back = int(operator._schema.name[-2]), data.draw(st.sampled_from((1, 1, 2))), operator in TRANSPOSED
    inner, out = groups * data.draw(MORE), groups * data.draw(MORE)
    several = data.draw(st.sampled_from(([2], [2], [1], [])))
    x = lying(
        data, torch.zeros(*several, inner, *(data.draw(st.sampled_from((4, 5, 22))) for _ in range(rank)), dtype=kind)
    )
    kernel = [data.draw(st.integers(1, 4)) for _ in range(rank)]
    weight = lying(
        data, torch.zeros((inner, out // groups, *kernel) if back else (out, inner // groups, *kernel), dtype=kind)
    )
    steps, apart = [data.draw(FEW)] * rank, [1] * rank
    rest = ([0] * rank, groups, apart) if back else (apart, groups)
    args = x, weight, None, steps, [0] * rank, *rest
    assert outcome(TOLD[operator], *on_meta(args)) == outcome(operator, *args)


def written(y: torch.Tensor, *order: int) -> torch.Tensor:
    """A tensor, of whose elements in an order of axes twice as much is written, where they lie in that order."""
    y.permute(order).reshape(-1).mul_(2)
    return y


LAST = torch.channels_last
WEIGHT = torch.linspace(-1, 1, 81).reshape(3, 3, 3, 3)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)], ids=["in order", "channels last"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.conv2d(x.contiguous(memory_format=LAST), WEIGHT),
        lambda x: torch.conv2d(x, WEIGHT.contiguous(memory_format=LAST)),
        lambda x: torch.conv_transpose2d(x.contiguous(memory_format=LAST), WEIGHT),
        lambda x: torch.nn.functional.logsigmoid(x.contiguous(memory_format=LAST)),
    ],
    ids=["convolved", "by weights", "convolved back", "logsigmoid"],
)
def test_what_is_written_through_a_view_of_an_image_is_as_in_eager(function: Any, order: tuple[int, ...]) -> None:
    x = torch.linspace(-2, 2, 180).reshape(2, 3, 5, 6)
    program = irkit.to_onnx(lambda x: written(function(x), *order), (x,), dynamic_shapes=({0: "n"},), capture="direct")
    for each in (x, x.repeat(2, 1, 1, 1)):
        torch.testing.assert_close(program(each), written(function(each), *order), rtol=1e-5, atol=1e-5)


def window(data: st.DataObject, rank: int) -> tuple[Any, ...]:
    """The size of windows, the step and the padding."""
    steps = st.just([]) | st.just(counts(data, rank, FEW))
    return counts(data, rank, FEW), data.draw(steps), counts(data, rank, st.sampled_from((0, 0, 1, 2)))


@MOST
@given(st.data(), st.sampled_from(list(MEANS)), KINDS | st.just(torch.int64))
def test_pools_of_means_are_told_as_the_cpu_gives_them(data: st.DataObject, rank: int, kind: Any) -> None:
    divisor = [data.draw(st.sampled_from((None, 2, 0)))] if rank > 1 else []
    up, counting = data.draw(st.booleans()), data.draw(st.booleans())
    agrees(data, MEANS[rank], image(data, rank, kind), *window(data, rank), up, counting, *divisor)


@MOST
@given(st.data(), st.sampled_from(list(GREATEST)), KINDS | st.just(torch.int64))
def test_pools_of_the_greatest_are_told_as_the_cpu_gives_them(data: st.DataObject, operator: Any, kind: Any) -> None:
    rank = GREATEST[operator]
    apart, up = counts(data, rank, FEW), data.draw(st.booleans())
    agrees(data, operator, image(data, rank, kind), *window(data, rank), apart, up)


@MOST
@given(st.data(), st.sampled_from(list(ADAPTIVE)), KINDS | st.just(torch.int64))
def test_pools_to_a_size_are_told_as_the_cpu_gives_them(data: st.DataObject, operator: Any, kind: Any) -> None:
    rank = ADAPTIVE[operator]
    agrees(data, operator, image(data, rank, kind), data.draw(st.lists(SOME, min_size=rank, max_size=rank)))


NAMED = {"a": 3, "b": 5, "c": 2, "one": 1, "two": 2}


@MOST
@given(st.data(), st.sampled_from(sorted(SMALL_BY_ALL, key=str)), st.sampled_from(("a", "b", "c")))
def test_of_sizes_that_several_arguments_have_all_greater_ones_are_taken(
    data: st.DataObject, operator: Any, name: str
) -> None:
    def names(*usual: str) -> list[str]:
        return [data.draw(st.sampled_from((*[each] * 4, *NAMED))) for each in usual]

    rank = ADAPTIVE.get(operator, 0)
    images = names(*("two", "one", "a", "b", "c")[data.draw(st.integers(0, 1)) : rank + 2]), names(*"abc"[:rank])
    states = [names("one", "b", "two"), names("one", "b", "two")][: 2 if operator is aten.lstm.input else 1]
    steps, blocks = names("a", "b", "c"), {aten.lstm.input: 4, aten.gru.input: 3}.get(operator, 1)

    def arguments(size: int) -> tuple[Any, ...]:
        sizes = {**NAMED, name: size}
        first, *rest = [[sizes[each] for each in every] for every in ((*images,) if rank else (steps, *states))]
        if rank:
            return torch.zeros(first), rest[0]
        weights = [torch.zeros(shape) for shape in ([2 * blocks, 2], [2 * blocks, 2], [2 * blocks], [2 * blocks])]
        before = [torch.zeros(shape) for shape in rest]
        given = before if operator is aten.lstm.input else before[0]
        return torch.zeros(first), given, weights, True, 1, 0.0, False, False, False

    requires_growth(operator, NAMED[name], arguments)


@MOST
@given(st.data(), KINDS | st.just(torch.int64), st.sampled_from(("constant", "reflect", "replicate", "circular")))
def test_paddings_are_told_as_the_cpu_gives_them(data: st.DataObject, kind: Any, mode: str) -> None:
    rank = data.draw(st.integers(1, 3))
    pads = data.draw(st.lists(st.integers(-2, 4), min_size=2 * rank, max_size=2 * rank))
    value = data.draw(st.sampled_from((None, None, 1.0)))
    agrees(data, aten.pad.default, image(data, data.draw(st.integers(1, 3)), kind), pads, mode, value)


@MOST
@given(st.data(), KINDS)
def test_columns_are_told_as_the_cpu_gives_them(data: st.DataObject, kind: Any) -> None:
    x = image(data, 2, kind)
    wide, apart, pads, steps = (data.draw(st.tuples(each, each)) for each in (FEW, FEW, PADS, FEW))
    agrees(data, aten.im2col.default, x, wide, apart, pads, steps)
    size, found = data.draw(st.tuples(LONG, LONG)), outcome(aten.im2col.default, x, wide, apart, pads, steps)
    if found != "refused" and data.draw(st.booleans()):
        size = tuple(x.shape[-2:])
        columns = drawn(data, found[0][0], kind)
    else:
        columns = drawn(data, (2, wide[0] * wide[1] * data.draw(FEW), data.draw(LONG)), kind)
    agrees(data, aten.col2im.default, columns, size, wide, apart, pads, steps)


@MOST
@given(st.data(), st.sampled_from(list(NEAREST)), KINDS)
def test_images_of_repeated_pixels_are_told_as_the_cpu_gives_them(data: st.DataObject, rank: int, kind: Any) -> None:
    x, packet = image(data, rank, kind), NEAREST[rank]
    size = data.draw(st.none() | st.lists(SOME, min_size=rank, max_size=rank))
    factor = st.sampled_from((0.1, 0.5, 1.0, 1.7, 2.0))
    factors = data.draw(st.none() | st.lists(factor, min_size=rank, max_size=rank))
    agrees(data, packet.vec, x, size, factors)
    if size is not None:
        agrees(data, packet.default, x, size, *(factors or [None] * rank))


REDUCTIONS = st.integers(0, 2)


@MOST
@given(st.data(), st.sampled_from(list(ALIKE)), KINDS, KINDS)
def test_losses_of_elements_are_told_as_the_cpu_gives_them(
    data: st.DataObject, operator: Any, kind: Any, other: Any
) -> None:
    shape = data.draw(st.lists(SOME, max_size=3))
    args: list[Any] = []
    for argument in operator._schema.arguments:
        if argument.kwarg_only:
            break
        if str(argument.type) == "Tensor":
            sizes = data.draw(st.sampled_from((shape, shape, shape, shape[1:], [1, *shape])))
            args.append(drawn(data, sizes, data.draw(st.sampled_from((kind, kind, kind, other)))))
        elif str(argument.type) == "Optional[Tensor]":
            sizes = data.draw(st.sampled_from((shape, shape[-1:], [1], [2])))
            args.append(
                data.draw(st.none() | st.just(torch.ones(sizes, dtype=data.draw(st.sampled_from((kind, other))))))
            )
        elif argument.name == "reduction":
            args.append(data.draw(REDUCTIONS))
        else:
            args.append({"bool": data.draw(st.booleans()), "float": 1.0}[str(argument.type)])
    agrees(data, operator, *args)


@given(st.data(), st.sampled_from([f for f in LOST if f not in ALIKE]), KINDS, KINDS)
def test_other_losses_are_told_as_the_cpu_gives_them(data: st.DataObject, operator: Any, kind: Any, other: Any) -> None:
    shape = data.draw(st.lists(SOME, max_size=3))
    x = drawn(data, shape, kind)
    again = data.draw(st.sampled_from((shape, shape, shape, shape[1:])))
    whole = data.draw(st.sampled_from((torch.int64, torch.int64, torch.int32)))
    y = drawn(data, again, data.draw(st.sampled_from((kind, kind, other))))
    rows = drawn(data, data.draw(st.sampled_from((shape[:1], shape[:1], shape[1:], (2,)))), whole)
    targets = rows.to(data.draw(st.sampled_from((kind, other, whole))))
    reduction = data.draw(REDUCTIONS)
    calls: dict[Any, tuple[Any, ...]] = {
        aten.nll_loss_nd.default: (x, rows, data.draw(st.none() | st.just(torch.ones(shape[1:2], dtype=kind)))),
        aten.cross_entropy_loss.default: (x, rows, None, reduction),
        aten.multi_margin_loss.default: (x, rows, data.draw(st.sampled_from((1, 2, 3))), 1.0, None, reduction),
        aten.multilabel_margin_loss.default: (x, drawn(data, again, whole), reduction),
        aten.cosine_embedding_loss.default: (x, y, targets, 0.0, reduction),
        aten.cosine_similarity.default: (x, y, data.draw(st.integers(-4, 3))),
        aten.pairwise_distance.default: (x, y, 2.0, 1e-6, data.draw(st.booleans())),
    }  # fmt: skip
    more = [data.draw(st.sampled_from((1.0, 0.5, 0.0, -1.0)))] if operator in BY_A_NUMBER else []
    agrees(data, operator, *calls.get(operator, (x, y, reduction, *more)))


BY_A_NUMBER = aten.smooth_l1_loss.default, aten.huber_loss.default


@MOST
@given(st.data(), st.sampled_from(list(BLOCKS)), KINDS, KINDS)
def test_cells_are_told_as_the_cpu_gives_them(data: st.DataObject, operator: Any, kind: Any, other: Any) -> None:
    rows, features, width = data.draw(SOME), data.draw(SOME), data.draw(SIZES)
    blocks = BLOCKS[operator]

    def size(right: int) -> int:
        return data.draw(st.sampled_from((right, right, right, right, 2)))

    def tensor(*shape: int) -> torch.Tensor:
        return drawn(data, shape, data.draw(st.sampled_from((kind, kind, kind, kind, kind, other))))

    states = [tensor(size(rows), size(width)) for _ in range(2)]
    bias = data.draw(st.booleans())
    biases = [tensor(size(blocks * width)) if bias else None for _ in range(2)]
    weights = tensor(blocks * width, size(features)), tensor(blocks * width, size(width))
    x = tensor(rows, features) if data.draw(st.integers(0, 5)) else tensor(features)
    agrees(data, operator, x, states if operator is aten.lstm_cell.default else states[0], *weights, *biases)


@MOST
@given(st.data(), KINDS | st.sampled_from((torch.int64, torch.int32, torch.bool, torch.uint8)), KINDS)
def test_other_operators_are_told_as_the_cpu_gives_them(data: st.DataObject, kind: Any, other: Any) -> None:
    shape = data.draw(st.lists(SOME, max_size=4))
    x = drawn(data, shape, kind)
    again = [data.draw(st.sampled_from((n, n, 1, 2))) for n in shape][data.draw(st.integers(0, 1)) :]
    y = drawn(data, again, data.draw(st.sampled_from((kind, other))))
    number: Any = data.draw(st.sampled_from((2, 2.5, True)))
    mask = drawn(data, again, torch.bool)
    dim = data.draw(st.integers(-5, 4))
    dims = data.draw(st.lists(st.integers(-4, 3), max_size=3))
    agrees(data, aten.floor_divide.default, x, torch.ones_like(y))
    agrees(data, aten.where.ScalarOther, mask, x, number)
    agrees(data, aten.where.ScalarSelf, mask, number, x)
    agrees(data, aten.min.other, x, y)
    agrees(data, aten.max.other, x, y)
    weights = st.sampled_from((shape[1:2], [1], [2], []))
    agrees(data, aten.prelu.default, x, torch.ones(data.draw(weights), dtype=data.draw(st.sampled_from((kind, other)))))
    agrees(data, aten.glu.default, x, dim)
    agrees(data, aten.mean.dim, x, dims, data.draw(st.booleans()))
    agrees(data, aten.cumsum.default, x, dim)
    for operator in (aten.triu.default, aten.tril.default):
        agrees(data, operator, x, 1)
    for operator in (aten.hardswish.default, aten.log_sigmoid.default):
        agrees(data, operator, x)
    agrees(data, aten.stack.default, [x, data.draw(st.sampled_from((x, x, y))), x], dim)
    agrees(data, aten.layer_norm.default, x, shape[data.draw(SOME) :], None, None)


@MOST
@given(st.data(), KINDS)
def test_what_is_taken_at_places_is_told_as_the_cpu_gives_it(data: st.DataObject, kind: Any) -> None:
    x = drawn(data, data.draw(st.lists(SIZES, min_size=1, max_size=4)), kind)
    common = data.draw(st.lists(SOME, max_size=3))
    places: list[Any] = []
    for size in x.shape[: data.draw(st.integers(1, x.dim()))]:
        shape = [data.draw(st.sampled_from((n, n, 1))) for n in common][data.draw(st.integers(0, 1)) :]
        made = drawn(data, shape, data.draw(st.sampled_from((torch.int64, torch.int64, torch.int32))))
        places.append(data.draw(st.sampled_from((made, made, made, None, torch.ones(size).bool()))))
    agrees(data, aten.index.Tensor, x, places)


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.conv2d.default, (torch.zeros(2, 3, 8, 8), torch.zeros(4, 3, 3, 3), None, [1, 1], [1, 1])),
        (aten.max_pool2d_with_indices.default, (torch.zeros(2, 3, 8, 8), [2, 2])),
        (aten.pad.default, (torch.zeros(2, 3, 8, 8), [1, 1, 1, 1], "reflect")),
        (aten.cosine_similarity.default, (torch.zeros(2, 3), torch.zeros(2, 3))),
        (aten.floor_divide.default, (torch.zeros(3), torch.zeros(3))),
        (aten.mean.dim, (torch.zeros(2, 3), [-1])),
    ],
    ids=lambda each: str(each) if isinstance(each, torch._ops.OpOverload) else "",
)
def test_sizes_are_told_by_few_calls(operator: Any, args: tuple[Any, ...]) -> None:
    given = on_meta(list(args))
    TOLD[operator](*given)  # what is looked up once
    assert python_calls(lambda: TOLD[operator](*given)) < 60
