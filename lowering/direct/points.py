"""Other sizes than the example's that the conditions kept so far allow, and arguments of such sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import attrs
import sympy
import torch

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.errors import DimensionError
from lowering.capture.guards.answers import holds
from lowering.capture.guards.questions import Questions
from lowering.capture.guards.small_sizes import SIDE, bits_allowed, bits_by_size, others_of, size_at
from lowering.capture.patches.shape_kernels import linalg_lstsq
from lowering.direct.sizes import SizeNode

TRIES = 30
"""How many sizes are drawn in search of some that all conditions allow."""


def sizes_moved(asked: Questions, others: Mapping[str, Any], condition: Any) -> dict[str, Any]:
    """New sizes for the symbols of a condition that the `others` break: some that no condition excludes, as far from
    the example's as is found, else the example's own."""
    names = [s.name for s in condition.free_symbols if s.name in asked.hints]
    example = {name: asked.hints[name] for name in names}
    if isinstance(condition, sympy.Eq) and len(names) == 1:
        return example
    rng = random.Random(0)
    best, score = example, 0
    for _ in range(TRIES):
        drawn = {name: drawn_size(rng, asked, name, others) for name in names}
        far = sum(size != example[name] for name, size in drawn.items())
        if far > score and are_allowed(asked, {**others, **drawn}):
            best, score = drawn, far
        if score == len(names):
            break
    return best


def drawn_points(asked: Questions, names: Sequence[str], others: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Some sizes of these names that no condition excludes."""
    rng = random.Random(1)
    for _ in range(TRIES):
        point = {name: drawn_size(rng, asked, name, others) for name in names}
        if are_allowed(asked, {**others, **point}):
            yield point


def drawn_size(rng: random.Random, asked: Questions, name: str, others: Mapping[str, Any]) -> int:
    """A size near the example's, or another's."""
    hint = asked.hints[name]
    less = hint - 1 if hint > 2 else hint  # at 1 all is broadcast
    offers: Sequence[int] = (hint, hint + 1, hint + 2, hint + rng.randint(1, 9), less, others.get(name, hint))
    size = rng.choice(offers)
    return size if name not in asked.ranges or size in asked.ranges[name] else hint


def are_allowed(asked: Questions, sizes: Mapping[str, Any]) -> bool:
    """Whether ranges and the conditions kept so far allow sizes."""
    inside = all(sizes[name] in known for name, known in asked.ranges.items() if name in sizes)
    kept = (*(guard.expr for guard in asked.kept.values()), *asked.assumed)
    return inside and all(holds(each, sizes) is not False for each in kept)


def small_sizes(tracer: Any, dim: Any, size: int) -> dict[str, int] | None:
    """Small sizes of names, which no condition excludes, that make a computed dimension a number; None where none is
    found."""
    asked, known = tracer.asked, tracer.allowed
    names = tuple(s.name for s in dims.symbols_of(dim) if s.name in asked.hints)
    made = bits_by_size(dim, names, others_of(dim, names, asked.hints)).get(size, 0)
    key = (names, len(asked.kept))
    if made and key not in known:
        conditions = (*(guard.expr for guard in asked.kept.values()), *asked.assumed)
        known[key] = bits_allowed(conditions, asked.ranges, names, asked.hints)
    found = made & known[key] if made else 0
    return size_at((found & -found).bit_length() - 1, names) if found else None


def emptied_dims(results: Sequence[Any], example: Mapping[str, Any], sizes: Mapping[str, Any]) -> list[Any]:
    """The dimensions of results that hold something for the example, and nothing for other sizes."""
    found = [d for v in results if isinstance(v, Value) and isinstance(v.type, Tensor) for d in v.shape]
    varying = [d for d in dict.fromkeys(found) if type(d) is not int]
    return [d for d in varying if plain_number(d, example) > 0 and plain_number(d, sizes) < 1]


def candidates(tracer: Any, given: Any) -> Iterator[tuple[Any, Any]]:
    """(symbol, dimension) for each symbol among operands and a dimension that it equals in the example."""
    hints: list[tuple[Any, int]] = [(d, tracer.asked.hint(d)) for d in dict.fromkeys(shapes_in(tracer, given))]
    for i, (d, size) in enumerate(hints):
        for other, theirs in hints[i + 1 :]:
            if size == theirs and d != other:
                if is_symbol(other):
                    yield other, d
                elif is_symbol(d):
                    yield d, other


def computed_alike(taken: Callable[[Mapping[Any, Any]], bool], tracer: Any, shapes: Sequence[Any]) -> list[Any]:
    """Pairs of dimensions of the same length in the example, one at least computed of names, that have to be equal for
    an operator to be `taken`; none where that does not explain why it is refused."""
    varying = [d for d in dict.fromkeys(shapes) if type(d) is not int]
    apart: dict[Any, Any] = {**tracer.others, **{d: tracer.others.get(d.name) for d in varying if d.is_Symbol}}
    if None in apart.values():
        return []
    for d in varying:
        apart.setdefault(d, larger_prime(apart))
    groups = [[d for d in varying if tracer.asked.hint(d) == size] for size in {*map(tracer.asked.hint, varying)}]
    groups = [each for each in groups if len(each) > 1 and not all(d.is_Symbol for d in each)]
    together = {**apart, **{d: apart[group[0]] for group in groups for d in group}}
    if not groups or taken(apart) or not taken(together):
        return []
    return [pair for group in groups for pair in equal_in_group(taken, together, group)]


def computed_numbers(taken: Callable[[Mapping[Any, Any]], bool], tracer: Any, shapes: Sequence[Any]) -> list[Any]:
    """Pairs of a dimension computed of names and the number that another is, which have to be equal for an operator to
    be `taken`; none where that does not explain why it is refused."""
    numbers = {d for d in shapes if type(d) is int}
    computed = [d for d in dict.fromkeys(shapes) if type(d) is not int and not d.is_Symbol]
    pairs = [(d, tracer.asked.hint(d)) for d in computed if tracer.asked.hint(d) in numbers]
    held: dict[Any, Any] = {**tracer.others, **dict(pairs)}
    if not pairs or taken(tracer.others) or not taken(held):
        return []
    return [(d, size) for d, size in pairs if not taken({**held, d: larger_prime(held)})]


def symbols_alike(
    taken: Callable[[Mapping[Any, Any]], bool], tracer: Any, pairs: Sequence[tuple[Any, Any]]
) -> list[tuple[Any, Any]]:
    """Of pairs of sizes that are equal in the example, those that have to be so for an operator to be `taken`, given
    that it is where all are; all pairs where one is not of two symbols."""
    if not pairs or not all(is_symbol(d) for pair in pairs for d in pair):
        return list(pairs)
    every = dict.fromkeys(d for pair in pairs for d in reversed(pair))
    groups = [
        [d for d in every if tracer.asked.hint(d) == size] for size in dict.fromkeys(map(tracer.asked.hint, every))
    ]
    together = {**tracer.others, **{d: tracer.others[group[0].name] for group in groups for d in group}}
    if not taken(together):
        return list(pairs)
    return [(other, first) for group in groups for first, other in equal_in_group(taken, together, group)]


def equal_in_group(taken: Callable[[Mapping[Any, Any]], bool], sizes: dict[Any, Any], group: list[Any]) -> list[Any]:
    """Pairs of a group of dimensions that have to be equal, given that an operator is taken where all of them are."""
    found: list[Any] = []
    while len(group) > 1:
        first, *rest = group
        wide = range(len(rest)) if len(rest) < WIDE else ()
        subsets = ((first, *some) for count in wide for some in combinations(rest, count))
        moved = larger_prime(sizes)
        alike = next((some for some in subsets if taken({**sizes, **dict.fromkeys(some, moved)})), tuple(group))
        found += [(first, d) for d in alike[1:]]
        group = [d for d in rest if d not in alike]
    return found


WIDE = 8
"""How many dimensions of one length are looked at in all subsets."""


def larger_prime(sizes: Mapping[Any, Any]) -> int:
    """A prime that is larger than all of these sizes."""
    return next_prime(max(sizes.values()))


def next_prime(number: int) -> int:
    """The least prime above a number, from 5 on."""
    found = max(number, 4) + 1
    while any(found % divisor == 0 for divisor in range(2, int(found**0.5) + 1)):
        found += 1
    return found


def differ_somewhere(asked: Questions, one: Any, two: Any) -> bool:
    """Whether two dimensions that are equal in the example are not at other sizes of their names."""
    hints = asked.hints
    names = [s.name for s in {*dims.symbols_of(one), *dims.symbols_of(two)} if s.name in hints]
    points = ({**hints, name: size} for name in names for size in range(1, 2 * hints[name] + SIDE))
    return any(apart_at(one, two, point) for point in points)


def apart_at(one: Any, two: Any, sizes: Mapping[str, Any]) -> bool:
    """Whether two dimensions differ at sizes; False where one is no number there."""
    try:
        return plain_number(one, sizes) != plain_number(two, sizes)
    except DimensionError:
        return False


def last_taken(broken: Callable[[int], bool], low: int, high: int) -> int:
    """The greatest size from `low` on before torch refuses one; `high` is refused."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if broken(middle) else (middle, high)
    return low


def number(dim: Any, sizes: Mapping[str, Any]) -> int:
    """What a dimension is for sizes of the names."""
    found = plain_number(dim, sizes)
    if found < 0:
        raise DimensionError(f"the dimension {dim} is {found}", hint="give an example of sizes that the model runs on")
    return found


def symbol_value(dim: Any, symbol: Any, size: int, sizes: Mapping[str, Any]) -> int:
    """What a symbol is where a dimension is so long, for sizes of its other names; its size where nothing else fits."""
    known = {s: sizes[s.name] for s in dims.symbols_of(dim) if s != symbol}
    told = dims.substitute(dim, {**known, symbol: dims.symbol(symbol.name)})
    try:
        found = dims.solve(told, size)
    except DimensionError:
        return size
    return size if found is None else found[1]


def plain_number(dim: Any, sizes: Mapping[str, Any]) -> int:
    """What an integer is for sizes of the names."""
    return dim if type(dim) is int else dims.evaluate(dim, sizes)


@attrs.frozen
class Meta:
    """A tensor, mostly on the meta device, whose axes lie in memory in an order, the outermost first."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    dtype: torch.dtype
    on: str = "meta"

    def tensor(self) -> torch.Tensor:
        """A new one, of zeros."""
        order = list(self.order)
        made = torch.zeros([self.shape[a] for a in order], dtype=self.dtype, device=self.on)
        return made.permute([order.index(a) for a in range(len(order))]) if order != sorted(order) else made


def order_of(twin: torch.Tensor) -> tuple[int, ...]:
    """The axes of a tensor, the outermost in memory first."""
    steps = twin.stride()
    return tuple(sorted(range(len(steps)), key=lambda a: -steps[a]))


def laid_out(twin: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of another shape whose axes lie in memory in the order of a twin's."""
    return Meta(tuple(shape), order_of(twin), twin.dtype).tensor()


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


def margins(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """What multilabel_margin_loss gives on a CPU, of one row without an axis, while on the meta device it has one."""
    result = torch.ops.aten.multilabel_margin_loss.default(x, target, reduction)
    return result.new_empty(()) if target.dim() < 2 else result


def convolved_back(func: Any, x: torch.Tensor, weight: torch.Tensor, *rest: Any, **named: Any) -> Any:
    """What a transposed convolution gives on a CPU, which refuses to make an image without rows or columns, while the
    meta device does not."""
    result = func(x, weight, *rest, **named)
    transposed = "transpose" in func._schema.name or bool(rest[4])
    some = not transposed or all(size > 0 for size in result.shape[2 - weight.dim() :])
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


def resized(func: Any, nearest: Any, x: torch.Tensor, size: Any, *rest: Any) -> Any:
    """What an operator gives that makes an image another size by weights, which the meta device computes by thousands
    of operators: the sizes of `nearest`, with its refusals, which are those of all kernels on a CPU."""
    if not x.is_meta or 0 in x.shape:
        return func(x, size, *rest)
    return nearest(x, size, *rest[1:])  # whether the corners are aligned does not matter


def normalized_alone(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, by_input: bool, *rest: Any
) -> torch.Tensor:
    """What instance_norm gives, which the meta device computes by a batch norm of all channels of all images."""
    if not x.is_meta or 0 in x.shape:
        return torch.ops.aten.instance_norm.default(x, weight, bias, mean, variance, by_input, *rest)
    known = (mean is None) == (variance is None) and (by_input or mean is not None) and x.dim() > 1
    given = [each for each in (weight, bias, mean, variance) if each is not None]
    fits = known and all(tuple(each.shape) == tuple(x.shape[1:2]) for each in given)
    torch._check(fits, lambda: f"instance_norm: no numbers for each channel of {tuple(x.shape)}")
    return x.new_empty(x.shape)


def recurred(func: Any, x: torch.Tensor, hidden: Any, weights: Sequence[torch.Tensor], *rest: Any) -> Any:
    """What a recurrent operator gives, whose loop over time the meta device carries out: by the sizes of its weights
    where these fit; else it does so for one step here, as all steps are alike."""
    given, (biases, layers, *_, both, first) = hidden if is_list(hidden) else [hidden], (*rest[:-1], int(rest[-1]))
    if not x.is_meta or x.dim() != 3 or 0 in x.shape:
        return func(x, hidden, weights, *rest)
    time, batch, width = x.shape[first], x.shape[1 - first], weights[1].shape[-1]
    states = [(layers * (1 + both), batch, size) for size in (width, weights[1].shape[0] // 4)[: len(given)]]
    shapes = list(recurrent_shapes(weights, x.shape[2], layers, 1 + both, biases, is_list(hidden)))
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
    """What layer_norm and rms_norm give of what lies in order; torch's own way takes a hundred times as long."""
    given = [each for each in (*rest, *named.values()) if isinstance(each, torch.Tensor)]
    fits = len(shape) and all(tuple(each.shape) == tuple(shape) and each.dtype is x.dtype for each in given)
    plain = fits and x.is_meta and x.is_contiguous() and tuple(x.shape[-len(shape) :]) == tuple(shape)
    return x.new_empty(x.shape) if plain else func(x, shape, *rest, **named)


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
    torch._check(0 not in x.shape, lambda: f"pixel_unshuffle: {tuple(x.shape)} has no pixels")
    return torch.ops.aten.pixel_unshuffle.default(x, factor)


def pooled(x: torch.Tensor, kernel: Any, output: Any, samples: torch.Tensor) -> Any:
    """What fractional_max_pool3d gives on a CPU, which checks the random samples, while the meta device does not."""
    batch, channels = x.shape[0] if x.dim() == 5 else 1, x.shape[-4]
    enough = samples.shape[0] >= batch and samples.shape[1] == channels and samples.dtype is x.dtype
    torch._check(enough, lambda: "fractional_max_pool3d: samples of the element type of x for each channel are wanted")
    return torch.ops.aten.fractional_max_pool3d.default(x, kernel, output, samples)


def attended(q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, causal: bool = False, **rest: Any) -> Any:
    """What scaled_dot_product_attention gives, by the two products that it is made of; torch's own way takes forty
    times as long."""
    own = (*(each.dtype for each in (q, k, v)), *(() if mask is None or mask.dtype is torch.bool else (mask.dtype,)))
    plain = min(q.dim(), k.dim(), v.dim()) > 2 and len({*own}) == 1 and 0 not in (*q.shape, *k.shape, *v.shape)
    if not plain or dropout or rest.get("enable_gqa"):
        return ATTENTION(q, k, v, mask, dropout, causal, **rest)
    scores = q @ k.transpose(-2, -1)
    if mask is not None:
        torch._check(not causal, lambda: "a mask is given, and is_causal")
        mask.expand(scores.shape)
    return scores @ v


aten = torch.ops.aten
ATTENTION = aten.scaled_dot_product_attention.default
STATISTICS = {
    aten.native_batch_norm.default: 4, aten._native_batch_norm_legit.default: 4,
    aten._native_batch_norm_legit_functional.default: 4, aten._native_batch_norm_legit.no_stats: None,
    aten._batch_norm_with_update.default: None, aten._batch_norm_with_update_functional.default: None,
    aten._native_batch_norm_legit_no_training.default: -1, aten._batch_norm_no_update.default: -1,
    aten.native_layer_norm.default: None, aten.native_group_norm.default: None,
}  # fmt: skip
TRANSPOSED = (
    aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input, aten.convolution.default,
    aten._convolution.default,
)  # fmt: skip
RECURRENT = aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input
RESIZING = {
    aten.upsample_linear1d: aten.upsample_nearest1d, aten.upsample_bilinear2d: aten.upsample_nearest2d,
    aten.upsample_bicubic2d: aten.upsample_nearest2d, aten.upsample_trilinear3d: aten.upsample_nearest3d,
}  # fmt: skip
NORMALIZING = aten.layer_norm.default, aten.rms_norm.default
SAMPLERS = aten.grid_sampler.default, aten.grid_sampler_2d.default, aten.grid_sampler_3d.default
TOLD = {
    **{func: partial(taken_by_grid, func) for func in SAMPLERS},
    **{getattr(func, name): partial(resized, getattr(func, name), getattr(nearest, name))
       for func, nearest in RESIZING.items() for name in ("vec", "default")},
    **{func: partial(recurred, func) for func in RECURRENT}, **{f: partial(normalized_rows, f) for f in NORMALIZING},
    aten.instance_norm.default: normalized_alone,
    **{func: partial(convolved_back, func) for func in TRANSPOSED},
    **{func: partial(with_statistics, func, place) for func, place in STATISTICS.items()},
    aten.fractional_max_pool3d.default: pooled, ATTENTION: attended, aten.pixel_unshuffle.default: unshuffled,
    aten.multilabel_margin_loss.default: margins, aten.linalg_lstsq.default: linalg_lstsq,
}  # fmt: skip
"""Operators whose results torch does not tell on the meta device, or wrongly, or late, and what tells them there."""


NAMED = {
    "torchaudio::_lfilter_core_loop": filtered, "torchaudio::_overdrive_core_loop": overdriven,
    "torchaudio::rnnt_loss_forward": transduced,
}  # fmt: skip
"""The same of other libraries' operators, by name: they need not be there."""


def teller(func: Any) -> Any:
    """What gives the results of an operator for arguments on the meta device."""
    return TOLD.get(func) or NAMED.get(func._schema.name, func)


def on_cpu(given: Any) -> Any:
    """An argument with its tensors on the CPU."""
    if isinstance(given, list | tuple):
        return type(given)(map(on_cpu, given))
    return attrs.evolve(given, on="cpu") if isinstance(given, Meta) else given


def made_of(given: Any) -> Any:
    """An argument with its tensors made."""
    if isinstance(given, list | tuple):
        return type(given)(map(made_of, given))
    return given.tensor() if isinstance(given, Meta) else given


def plain_key(given: Any) -> Any:
    """Equal for equal arguments of equal types."""
    if isinstance(given, list | tuple):
        return (type(given), *map(plain_key, given))
    return given if isinstance(given, Meta) else (type(given), repr(given))


def key_of(tracer: Any, func: Any, given: Any) -> Any:
    """What an operator is called with, as far as sizes go; None where none varies, or data is asked for."""
    key, varying = varying_key(tracer, given)
    return (func, key) if varying else None


def varying_key(tracer: Any, given: Any) -> tuple[Any, bool]:
    """(what is equal for arguments of equal sizes and layouts, whether a size among them varies)"""
    if isinstance(given, torch.Tensor):
        handle = tracer.handle(given)
        shape = handle.value.shape
        return (*shape, handle.twin.stride(), handle.twin.dtype), not dims.are_numbers(shape)
    if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
        return str(given.node.expr), True
    if isinstance(given, list | tuple):
        keys = [varying_key(tracer, each) for each in given]
        return tuple([key for key, _ in keys]), any(varying for _, varying in keys)
    return repr(given), False


def is_symbol(dim: Any) -> bool:
    """Whether a dimension is a name by itself."""
    return type(dim) is not int and dim.is_Symbol


def shapes_in(tracer: Any, given: Any) -> list[Any]:
    """The dimensions of the tensors among operands, and the sizes."""
    found: list[Any] = []
    for each in given:
        if isinstance(each, torch.Tensor):
            found += tracer.handle(each).value.shape
        elif isinstance(each, torch.SymInt) and isinstance(each.node, SizeNode):
            found.append(each.node.dim)
        elif isinstance(each, list | tuple):
            found += shapes_in(tracer, each)
    return found


# ---------------------------------------------------------------------------------------------- where any size will do


def are_rows(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """linear(x, weight, bias): any rows"""
    x, *weights = (each for each in (*args, *kwargs.values()) if isinstance(each, Value))
    return dims.are_numbers(x.shape[-1:]) and known_sizes(weights)


def are_outside(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """layer_norm(x, shape, weight, bias) and rms_norm: anything around the shape that is normalized"""
    x, shape, *rest = (*args, *kwargs.values())
    inside = x.shape[-len(shape) :] if len(shape) else ()
    return dims.are_numbers((*inside, *shape)) and known_sizes(rest)


def are_places(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """embedding(weight, indices): any number of indices"""
    return known_sizes(args[:1])


def are_samples(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """batch_norm(x, weight, bias, mean, variance, training, ...), not in training: any samples of so many channels"""
    x, *weights = args[:5]
    known = len(args) > 5 and not args[5] and all(isinstance(each, Value) for each in args[3:5])
    return known and x.rank > 1 and are_positive(x.shape[1:2]) and known_sizes(weights)


def are_images(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """conv2d(x, weight, bias, ...) and its like: any number of images of one size"""
    x, weight = args[0], args[1]
    one_size = x.rank == weight.rank and are_positive((*x.shape[1:], *weight.shape))
    return one_size and known_sizes(args[2:]) and are_tensors(args[1:], kwargs)


def are_positive(sizes: Sequence[Any]) -> bool:
    """Whether all sizes are numbers, and none of them is 0."""
    return dims.are_numbers(sizes) and all(sizes)


def are_tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """An operator that takes all sizes, where none of its other arguments is a size"""
    rest = (*args[1:], *kwargs.values())
    return not any(isinstance(each, sympy.Basic) for part in rest for each in (part if is_list(part) else (part,)))


def is_list(given: Any) -> bool:
    """Whether an argument is a list."""
    return isinstance(given, list | tuple)


def known_sizes(given: Sequence[Any]) -> bool:
    """Whether no tensor among arguments has a dimension that varies."""
    return all(dims.are_numbers(each.shape) for each in given if isinstance(each, Value))


ANY_SIZE = "unsqueeze transpose permute t to contiguous clone detach alias dropout softmax log_softmax mean sum".split()
FREE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], bool]] = {
    "aten::linear": are_rows, "aten::layer_norm": are_outside, "aten::rms_norm": are_outside,
    "aten::embedding": are_places, "aten::batch_norm": are_samples,
    **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), are_images),
    **dict.fromkeys((f"aten::{name}" for name in ANY_SIZE), are_tensors),
}  # fmt: skip
"""By operator: whether torch takes it whatever the sizes are that vary, where it takes it for the example."""
