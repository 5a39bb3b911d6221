"""What tells the results of an operator on the meta device, where torch does not, or wrongly, or late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch

from lowering.capture.patches.shape_kernels import linalg_lstsq
from lowering.direct.meta_device.arguments import in_order_steps, lies_in_order, of_elements
from lowering.direct.meta_device.losses import LOST
from lowering.direct.meta_device.windows import ADAPTIVE, IMAGES


def with_statistics(func: Any, training: int | None, x: torch.Tensor, *rest: Any) -> Any:
    """What a normalization gives on a CPU: (result, mean, spread, ...), the two of the type of the parameters, and
    empty where the model does not train, while on the meta device they are not; `training` is where that stands among
    the other arguments, None for an operator that always computes them, -1 for one that never does."""
    try:
        result, *found = func(x, *rest)
    except ZeroDivisionError:  # the meta device divides by the one number of a channel less 1
        numbers = (torch.zeros_like(t, device="cpu") if isinstance(t, torch.Tensor) else t for t in (x, *rest))
        result, *found = (each.to(x.device) for each in func(*numbers))
    kind = next((each.dtype for each in rest if isinstance(each, torch.Tensor)), x.dtype)
    empty = training is not None and (training < 0 or not rest[training])
    learnt = (x.new_empty((0,) if empty else each.shape, dtype=kind) for each in found[:2])
    return result, *learnt, *found[2:]


def convolved(func: Any, x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Any:
    """What a convolution of either kind gives on a CPU, which refuses to make an image without rows or columns, while
    the meta device does not."""
    result = func(x, weight, *rest)
    some = not rest[4] or all(size > 0 for size in result.shape[2 - weight.dim() :])
    torch._check(some, lambda: f"what a transposed convolution gives is {tuple(result.shape)}: too small")
    return result


def taken_by_grid(func: Any, x: torch.Tensor, grid: torch.Tensor, *rest: Any) -> Any:
    """What grid_sampler gives, which the meta device computes by a hundred operators."""
    if not x.is_meta:
        return func(x, grid, *rest)
    rank = x.dim()
    fits = rank in (4, 5) and grid.dim() == rank and grid.shape[0] == x.shape[0] and grid.shape[-1] == rank - 2
    fits = fits and x.dtype is grid.dtype and all(size > 0 for size in x.shape[2:]) and (rank == 4 or rest[0] != 2)
    torch._check(fits, lambda: f"grid_sampler: a grid of {tuple(grid.shape)} fits no image of {tuple(x.shape)}")
    return x.new_empty((*x.shape[:2], *grid.shape[1:-1]))


def normalized_alone(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, by_input: bool, *rest: Any
) -> torch.Tensor:
    """What instance_norm gives, which the meta device computes by a batch norm of all channels of all images."""
    known = (mean is None) == (variance is None) and (by_input or mean is not None) and x.dim() > 1
    given = [each for each in (weight, bias, mean, variance) if each is not None]
    fits = known and all(tuple(each.shape) == tuple(x.shape[1:2]) for each in given)
    if not x.is_meta or 0 in x.shape[:2] or (not fits and 0 in x.shape):  # of nothing torch asks less
        return aten.instance_norm.default(x, weight, bias, mean, variance, by_input, *rest)
    torch._check(fits, lambda: f"instance_norm: no numbers for each channel of {tuple(x.shape)}")
    return x.new_empty(x.shape)


def recurred(func: Any, x: torch.Tensor, hidden: Any, weights: Sequence[torch.Tensor], *rest: Any) -> Any:
    """What a recurrent operator gives, whose loop over time the meta device carries out: by the sizes of its weights
    where these fit; else it does so for one step here, as all steps are alike."""
    several, (biases, layers, *_, both, first) = isinstance(hidden, list | tuple), (*rest[:-1], int(rest[-1]))
    given = hidden if several else [hidden]
    counts = [each.shape[0] for each in given if each.dim()]
    if x.is_meta and counts and (min(counts) < layers * (1 + both) or min(counts) < max(counts)):
        raise RuntimeError(f"{func} has no state for each layer")  # torch reads beyond them
    if not x.is_meta or x.dim() != 3 or 0 in (x.shape[first], x.shape[2]):
        return func(x, hidden, weights, *rest)
    time, batch, width = x.shape[first], x.shape[1 - first], weights[1].shape[-1]
    states = [(layers * (1 + both), batch, size) for size in (width, weights[1].shape[0] // 4)[: len(given)]]
    shapes = list(recurrent_shapes(weights, x.shape[2], layers, 1 + both, biases, several))
    fits = shapes == [tuple(w.shape) for w in weights] and states == [tuple(h.shape) for h in given]
    last, made = [each.new_empty(each.shape) for each in given], x.new_empty((time, batch, width * (1 + both)))
    if not fits or len({each.dtype for each in (x, *given, *weights)}) > 1:
        step, *last = func(x.narrow(first, 0, 1), hidden, weights, *rest)
        made = x.new_empty((time, step.shape[1 - first], step.shape[2]), dtype=step.dtype)
    return made.transpose(0, 1) if first else made, *last


def recurrent_shapes(
    weights: Sequence[torch.Tensor], size: int, layers: int, directions: int, biases: bool, cells: bool
) -> Iterator[tuple[int, ...]]:
    """The shapes that the weights of a recurrent operator have, for so many numbers in each step."""
    gates, width = weights[1].shape[0], weights[1].shape[-1]
    projected = cells and gates != 4 * width
    for layer, _ in product(range(layers), range(directions)):
        yield from ((gates, directions * width if layer else size), (gates, width))
        yield from [(gates,)] * (2 * biases) + [(width, gates // 4)] * projected


def normalized_rows(func: Any, x: torch.Tensor, shape: Sequence[int], *rest: Any, **named: Any) -> torch.Tensor:
    """What layer_norm and rms_norm give: layer_norm in order, also of what lies otherwise; torch's own way takes a
    hundred times as long."""
    given = [each for each in (*rest, *named.values()) if isinstance(each, torch.Tensor)]
    fits = len(shape) and all(tuple(each.shape) == tuple(shape) and each.dtype is x.dtype for each in given)
    plain = fits and x.is_meta and x.is_floating_point() and tuple(x.shape[-len(shape) :]) == tuple(shape)
    ordered = plain and (func is aten.layer_norm.default or x.is_contiguous())
    return x.new_empty(x.shape) if ordered else func(x, shape, *rest, **named)


def normalized_groups(x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, *rest: Any) -> torch.Tensor:
    """What group_norm gives, which the meta device computes by thirty operators."""
    plain = x.is_meta and x.dim() > 1 and x.shape[1] and x.is_contiguous() and groups > 0
    plain = plain and x.shape[1] % groups == 0
    fits = all(each is None or (each.shape == x.shape[1:2] and each.dtype is x.dtype) for each in (weight, bias))
    return x.new_empty(x.shape) if plain and fits else aten.group_norm.default(x, groups, weight, bias, *rest)


def multiplied(x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> torch.Tensor:
    """What linear gives of rows; torch's own way takes twenty times as long."""
    plain = x.is_meta and x.dim() > 1 and weight.dim() == 2
    plain = plain and x.shape[-1] == weight.shape[1] and x.dtype is weight.dtype
    fits = bias is None or (bias.shape == weight.shape[:1] and bias.dtype is x.dtype)
    made = plain and fits
    return x.new_empty((*x.shape[:-1], weight.shape[0])) if made else aten.linear.default(x, weight, bias)


def matrix_product(func: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What mm and bmm give, which the meta device asks some fifty questions before."""
    rank = 2 if func is aten.mm.default else 3
    fits = x.is_meta and x.dim() == y.dim() == rank and x.dtype is y.dtype
    fits = fits and x.shape[:-2] == y.shape[:-2] and x.shape[-1] == y.shape[-2]
    return x.new_empty((*x.shape[:-1], y.shape[-1])) if fits else func(x, y)


def sum_of_product(bias: torch.Tensor, x: torch.Tensor, y: torch.Tensor, **named: Any) -> torch.Tensor:
    """What addmm gives, for which the meta device multiplies, and adds."""
    fits = x.is_meta and x.dim() == y.dim() == 2 and x.shape[1] == y.shape[0] and x.dtype is y.dtype is bias.dtype
    row = bias.dim() == 1 and bias.shape[0] == y.shape[-1]
    return x.new_empty((x.shape[0], y.shape[1])) if fits and row else aten.addmm.default(bias, x, y, **named)


def joined(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """What cat gives of tensors of one rank and element type, which lies in order if one of them has its channels not
    last."""
    first, rank = tensors[0], tensors[0].dim()
    plain = all(t.is_meta and t.dim() == rank and t.dtype is first.dtype for t in tensors)
    ordered = rank not in (4, 5) or any(t.is_contiguous() or t.stride(-1) < t.stride(1) for t in tensors)
    nothing = rank == 1 and any(t.shape[0] == 0 for t in tensors)
    if not (plain and ordered and rank and -rank <= dim < rank) or nothing:
        return aten.cat.default(tensors, dim)
    axis, sizes = dim % rank, list(first.shape)
    sizes[axis] = sum(t.shape[axis] for t in tensors)
    rest = {(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors}
    return first.new_empty(sizes) if len(rest) == 1 else aten.cat.default(tensors, dim)


def counted(*ends: Any, **named: Any) -> torch.Tensor:
    """What arange gives of whole numbers."""
    start, end = ends if len(ends) == 2 else (0, *ends)
    kind, plain = named.get("dtype") or torch.int64, type(start) is int and type(end) is int
    if plain and end >= start and kind is not torch.bool and named.get("layout") in (None, torch.strided):
        return torch.empty((end - start,), dtype=kind, device=named.get("device"))
    return (aten.arange.start if len(ends) == 2 else aten.arange.default)(*ends, **named)


def looked_up(weight: torch.Tensor, places: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """What embedding gives."""
    plain = weight.is_meta and weight.dim() == 2 and places.dtype in (torch.int64, torch.int32)
    return weight.new_empty((*places.shape, weight.shape[1])) if plain else TABLE(weight, places, *rest, **named)


def normalized_batch(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What batch_norm gives of what lies in order, which the meta device computes by thirty operators."""
    given = [each for each in rest[:4] if each is not None]
    known = (rest[2] is None) == (rest[3] is None) and (rest[4] or rest[2] is not None)
    plain = known and x.is_meta and x.dim() > 1 and x.is_contiguous() and 0 not in x.shape and x.is_floating_point()
    fits = plain and all(each.shape == x.shape[1:2] and each.dtype is x.dtype for each in given)
    return x.new_empty(x.shape) if fits else aten.batch_norm.default(x, *rest)


def shares(func: Any, x: torch.Tensor, dim: int, dtype: Any = None) -> torch.Tensor:
    """What softmax and log_softmax give of numbers that lie in order."""
    plain = x.is_meta and x.is_contiguous() and x.is_floating_point() and dtype is None and -x.dim() <= dim < x.dim()
    return x.new_empty(x.shape) if plain else func(x, dim, dtype)


def divided(x: torch.Tensor, y: Any) -> torch.Tensor:
    """What floor_divide gives of numbers; torch's own way lays it in order whatever the order of those is."""
    given = [each for each in (x, y) if isinstance(each, torch.Tensor)]
    plain = all(each.is_meta for each in given) and (len(given) == 2 or type(y) is int)
    kind = torch.result_type(x, y) if plain else torch.bool
    if kind not in (torch.int64, torch.int32, torch.float32, torch.float64):
        return aten.floor_divide.default(x, y)
    return of_elements(stretched(given[0].shape, given[-1].shape), kind, given)


def chosen(func: Any, condition: torch.Tensor, x: Any, y: Any) -> torch.Tensor:
    """What where gives of one tensor and one number."""
    tensor = x if isinstance(x, torch.Tensor) else y
    plain = isinstance(tensor, torch.Tensor) and condition.is_meta and tensor.is_meta
    if not plain or condition.dtype is not torch.bool:
        return func(condition, x, y)
    shape = stretched(condition.shape, tensor.shape)
    return of_elements(shape, torch.result_type(x, y), (condition, tensor))


def extreme(func: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What min and max of two tensors give."""
    plain = x.is_meta and y.is_meta and x.dtype is y.dtype and not x.is_complex()
    return of_elements(stretched(x.shape, y.shape), x.dtype, (x, y)) if plain else func(x, y)


def by_itself(func: Any, x: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What an operator gives that goes over the elements of one tensor of floats that lie in order; log_sigmoid lays
    its result so whatever the order is."""
    ordered = x.is_contiguous() or func is aten.log_sigmoid.default
    return x.new_empty(x.shape) if x.is_meta and ordered and x.is_floating_point() else func(x, *rest)


def inclined(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What prelu gives of what lies in order."""
    plain = x.is_meta and x.dim() > 0 and x.is_contiguous() and x.is_floating_point() and x.dtype is weight.dtype
    fits = weight.dim() == 1 and (weight.shape[0] == 1 or (x.dim() > 1 and weight.shape == x.shape[1:2]))
    return x.new_empty(x.shape) if plain and fits else aten.prelu.default(x, weight)


def gated(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """What glu gives of what lies in order: half as much along an axis."""
    plain = x.is_meta and x.is_contiguous() and x.is_floating_point() and -x.dim() <= dim < x.dim()
    if not plain or x.shape[dim] % 2 or not x.shape[dim]:
        return aten.glu.default(x, dim)
    sizes = list(x.shape)
    sizes[dim] //= 2
    return x.new_empty(sizes)


def averaged(x: torch.Tensor, dims: Any, keeps: bool = False, **named: Any) -> torch.Tensor:
    """What mean gives along some axes of what lies in order."""
    rank = x.dim()
    plain = x.is_meta and x.is_contiguous() and x.is_floating_point() and named.get("dtype") is None and rank
    axes = {axis % rank for axis in dims} if plain and dims and all(-rank <= axis < rank for axis in dims) else set()
    if not axes or len(axes) < len(dims):
        return aten.mean.dim(x, dims, keeps, **named)
    each = ((axis, size) for axis, size in enumerate(x.shape) if keeps or axis not in axes)
    return x.new_empty([1 if axis in axes else size for axis, size in each])


def cut_off(func: Any, x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    """What triu and tril give of what lies in order."""
    return x.new_empty(x.shape) if x.is_meta and x.dim() > 1 and x.is_contiguous() else func(x, diagonal)


def summed_up(x: torch.Tensor, dim: int, **named: Any) -> torch.Tensor:
    """What cumsum gives of what lies in order."""
    if not (x.is_meta and x.is_contiguous() and -x.dim() <= dim < x.dim()) or x.is_complex():
        return aten.cumsum.default(x, dim, **named)
    kind = named.get("dtype") or (x.dtype if x.is_floating_point() else torch.int64)
    return x.new_empty(x.shape, dtype=kind)


def stacked(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """What stack gives of tensors of one shape and type that lie in order."""
    first, rank = tensors[0], tensors[0].dim() + 1
    alike = all(t.shape == first.shape and t.dtype is first.dtype and lies_in_order(t) for t in tensors)
    if not alike or not -rank <= dim < rank:
        return aten.stack.default(tensors, dim)
    axis, shape = dim % rank, first.shape
    return first.new_empty((*shape[:axis], len(tensors), *shape[axis:]))


def taken_at(x: torch.Tensor, places: Sequence[Any]) -> torch.Tensor:
    """What index gives at places along the first axes, where all lies in order and no mask is among them."""
    known = bool(places) and len(places) <= x.dim() and x.is_meta and x.is_contiguous() and 0 not in x.shape
    plain = known and all(p is not None and p.dtype is torch.int64 and p.is_meta and p.is_contiguous() for p in places)
    if not plain:
        return aten.index.Tensor(x, places)
    return x.new_empty((*torch.broadcast_shapes(*[p.shape for p in places]), *x.shape[len(places) :]))


def stepped(
    func: Any, x: torch.Tensor, hidden: Any, by_input: torch.Tensor, by_hidden: torch.Tensor, *biases: Any
) -> Any:
    """What a recurrent cell gives of rows: what its state becomes."""
    several = isinstance(hidden, list | tuple)
    state = hidden[0] if several else hidden
    given = [each for each in (x, *(hidden if several else [hidden]), by_input, by_hidden, *biases) if each is not None]
    plain = x.is_meta and x.dim() == state.dim() == 2 and all(t.dtype is x.dtype for t in given) and x.shape[1] > 0
    rows, width, blocks = x.shape[0], state.shape[-1], BLOCKS[func]
    states = hidden if several else [hidden]
    fits = plain and all(tuple(t.shape) == (rows, width) and t.is_contiguous() for t in states)
    fits = fits and tuple(by_input.shape) == (blocks * width, x.shape[1]) and width > 0
    fits = fits and tuple(by_hidden.shape) == (blocks * width, width)
    if not fits or any(each is not None and tuple(each.shape) != (blocks * width,) for each in biases):
        return func(x, hidden, by_input, by_hidden, *biases)
    made = x.new_empty((rows, width))
    return (made, x.new_empty((rows, width))) if several else made


def filtered(x: torch.Tensor, weights: torch.Tensor, results: torch.Tensor) -> torch.Tensor:
    """What torchaudio's loop over samples gives, which the meta device carries out one by one."""
    fits = x.dim() == results.dim() == 3 and weights.dim() == 2 and len({x.dtype, weights.dtype, results.dtype}) == 1
    fits = fits and x.shape[:2] == results.shape[:2] and x.shape[2] + weights.shape[1] - 1 == results.shape[2]
    torch._check(fits and x.shape[1] == weights.shape[0], lambda: "the sizes of the filter do not fit the sound's")
    return results


def transduced(
    logits: torch.Tensor, targets: torch.Tensor, logit_lengths: torch.Tensor, target_lengths: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What torchaudio's loss of a transducer gives: one for each sample, and its gradient."""
    fits = logits.dim() == 4 and targets.dim() == 2 and logits.shape[1] > 0 and logits.shape[3] > 0
    fits = fits and logits.shape[2] == targets.shape[1] + 1 and logits.dtype in (torch.float32, torch.float16)
    counts = {logits.shape[0], targets.shape[0], *logit_lengths.shape, *target_lengths.shape} if fits else {0, 1}
    torch._check(len(counts) == 1 and counts != {0}, lambda: "the sizes of logits, targets and lengths do not fit")
    return logits.new_empty(logits.shape[:1]), torch.empty_like(logits)


def overdriven(
    x: torch.Tensor, driven: torch.Tensor, before: torch.Tensor, became: torch.Tensor, heard: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The same of its loop that overdrives a sound."""
    fits = x.dim() == 2 and x.shape == driven.shape == heard.shape and before.shape == became.shape == x.shape[:1]
    torch._check(fits, lambda: "the sizes of what a sound is overdriven with do not fit")
    return before, became, heard


def unshuffled(x: torch.Tensor, factor: int) -> torch.Tensor:
    """What pixel_unshuffle gives of an image with pixels; one without them a CPU gives back with the sizes it has."""
    torch._check(factor == 1 or 0 not in x.shape, lambda: f"pixel_unshuffle: {tuple(x.shape)} has no pixels")
    return torch.ops.aten.pixel_unshuffle.default(x, factor)


def pooled(x: torch.Tensor, kernel: Any, output: Any, samples: torch.Tensor) -> Any:
    """What fractional_max_pool3d gives on a CPU, which checks the random samples, while the meta device does not."""
    batch, channels = x.shape[0] if x.dim() == 5 else 1, x.shape[-4]
    enough = samples.shape[0] >= batch and samples.shape[1] == channels and samples.dtype is x.dtype
    torch._check(enough, lambda: "fractional_max_pool3d: samples of the element type of x for each channel are wanted")
    return torch.ops.aten.fractional_max_pool3d.default(x, kernel, output, samples)


def attended(q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, causal: bool = False, **rest: Any) -> Any:
    """What scaled_dot_product_attention gives, by the sizes of the two products that it is made of; torch's own way
    takes a hundred times as long."""
    own = (*(each.dtype for each in (q, k, v)), *(() if mask is None or mask.dtype is torch.bool else (mask.dtype,)))
    plain = min(q.dim(), k.dim(), v.dim()) > 2 and len({*own}) == 1 and not (causal and mask is not None)
    fits = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    if 0 in (*q.shape, *k.shape, *v.shape):  # for which torch asks next to nothing
        plain = plain and q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and mask is None
    if not (plain and fits) or dropout or rest.get("enable_gqa"):
        return ATTENTION(q, k, v, mask, dropout, causal, **rest)
    around = stretched(q.shape[:-2], k.shape[:-2])
    if mask is not None:
        mask.expand((*around, q.shape[-2], k.shape[-2]))
    return q.new_empty((*stretched(around, v.shape[:-2]), q.shape[-2], v.shape[-1]))


def put_at(
    func: Any, x: torch.Tensor, axis: int, index: torch.Tensor, rows: torch.Tensor, *rest: Any, **named: Any
) -> Any:
    """What index_add and index_reduce give on a CPU, which wants one index for each row, and rows as long as those of
    x, while the meta device does not ask."""
    torch._check(x.dim() == rows.dim(), lambda: f"{func}: rows of {tuple(rows.shape)} for {tuple(x.shape)}")
    if x.dim() and index.dim() < 2 and -x.dim() <= axis < x.dim():
        at = axis % x.dim()
        one = (*x.shape[:at], index.numel(), *x.shape[at + 1 :])
        torch._check(tuple(rows.shape) == one, lambda: f"{func}: rows of {tuple(rows.shape)} for places of {one}")
        some = x.shape[at] > 0 or not index.numel() or "index_add" in func._schema.name
        torch._check(some, lambda: f"{func}: {tuple(x.shape)} has no place for a row")
    return func(x, axis, index, rows, *rest, **named)


def stretched(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that two are stretched to."""
    return one if one == other else torch.broadcast_shapes(one, other)


def in_order(x: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    """What contiguous gives, laid out as it is whatever the sizes are: torch gives back a tensor as it lies where only
    axes of one element are out of order."""
    made = torch.ops.aten.contiguous.default(x, memory_format=memory_format)
    if memory_format is not torch.contiguous_format or not is_in_order_by_chance(made):
        return made
    return made.as_strided(made.shape, in_order_steps(made), made.storage_offset())


def is_in_order_by_chance(x: torch.Tensor) -> bool:
    """Whether the elements of a tensor lie in order only because some of its axes have one element."""
    return any(size < 2 for size in x.shape) and x.stride() != in_order_steps(x) and x.is_contiguous()


aten = torch.ops.aten
ATTENTION, TABLE = aten.scaled_dot_product_attention.default, aten.embedding.default
STATISTICS = {
    aten.native_batch_norm.default: 4, aten._native_batch_norm_legit.default: 4,
    aten._native_batch_norm_legit_functional.default: 4, aten._native_batch_norm_legit.no_stats: None,
    aten._batch_norm_with_update.default: None, aten._batch_norm_with_update_functional.default: None,
    aten._native_batch_norm_legit_no_training.default: -1, aten._batch_norm_no_update.default: -1,
    aten.native_layer_norm.default: None, aten.native_group_norm.default: None,
}  # fmt: skip
RECURRENT = aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input
BLOCKS = {
    aten.lstm_cell.default: 4, aten.gru_cell.default: 3, aten.rnn_tanh_cell.default: 1, aten.rnn_relu_cell.default: 1,
}  # fmt: skip
"""How many matrices stand in one of the weights of a recurrent cell."""
NORMALIZING = aten.layer_norm.default, aten.rms_norm.default
SAMPLERS = aten.grid_sampler.default, aten.grid_sampler_2d.default, aten.grid_sampler_3d.default
PUTTING = (
    aten.index_add.default, aten.index_add_.default, aten.index_add.out,
    aten.index_reduce.default, aten.index_reduce_.default, aten.index_reduce.out,
)  # fmt: skip
ALONE = aten.hardswish.default, aten.log_sigmoid.default
TOLD = {
    **IMAGES, **LOST, **{func: partial(taken_by_grid, func) for func in SAMPLERS},
    **{func: partial(recurred, func) for func in RECURRENT}, **{f: partial(normalized_rows, f) for f in NORMALIZING},
    aten.instance_norm.default: normalized_alone, aten.group_norm.default: normalized_groups,
    aten.linear.default: multiplied,
    **{func: partial(convolved, func) for func in (aten.convolution.default, aten._convolution.default)},
    **{func: partial(with_statistics, func, place) for func, place in STATISTICS.items()},
    aten.fractional_max_pool3d.default: pooled, ATTENTION: attended, aten.pixel_unshuffle.default: unshuffled,
    aten.contiguous.default: in_order, aten.linalg_lstsq.default: linalg_lstsq,
    aten.batch_norm.default: normalized_batch, aten.cat.default: joined,
    **{func: partial(matrix_product, func) for func in (aten.mm.default, aten.bmm.default)}, TABLE: looked_up,
    aten.addmm.default: sum_of_product, aten.arange.default: counted, aten.arange.start: counted,
    **{func: partial(shares, func) for func in (aten.softmax.int, aten.log_softmax.int)},
    aten.floor_divide.default: divided, aten.prelu.default: inclined, aten.glu.default: gated,
    **{func: partial(chosen, func) for func in (aten.where.ScalarOther, aten.where.ScalarSelf)},
    **{func: partial(extreme, func) for func in (aten.min.other, aten.max.other)}, aten.mean.dim: averaged,
    **{func: partial(by_itself, func) for func in ALONE}, aten.cumsum.default: summed_up, aten.stack.default: stacked,
    **{func: partial(cut_off, func) for func in (aten.triu.default, aten.tril.default)}, aten.index.Tensor: taken_at,
    **{func: partial(stepped, func) for func in BLOCKS}, **{func: partial(put_at, func) for func in PUTTING},
}  # fmt: skip
"""Operators whose results torch does not tell on the meta device, or wrongly, or late, and what tells them there."""


NAMED = {
    "torchaudio::_lfilter_core_loop": filtered, "torchaudio::_overdrive_core_loop": overdriven,
    "torchaudio::rnnt_loss_forward": transduced,
}  # fmt: skip
"""The same of other libraries' operators, by name: they need not be there."""

SMALL_BY_ALL = frozenset((*ADAPTIVE, *RECURRENT))
"""Operators that take all greater sizes than those they take, if these are those of others, where they must be."""
SMALL_BY_FIRST = frozenset((*IMAGES, aten.instance_norm.default)) - {aten.col2im.default}
"""Operators that do so of the sizes of their first tensor."""


def teller(func: Any) -> Any:
    """What gives the results of an operator for arguments on the meta device."""
    return TOLD.get(func) or NAMED.get(func._schema.name, func)
