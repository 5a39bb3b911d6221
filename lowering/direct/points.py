"""Other sizes than the example's that the conditions kept so far allow, and arguments of such sizes."""

from __future__ import annotations

import functools
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import sympy
import torch

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.errors import DimensionError
from lowering.capture.guards.answers import first_equal, holds
from lowering.capture.guards.questions import Questions
from lowering.capture.guards.small_sizes import SIDE, bits_allowed, bits_by_size, others_of, size_at
from lowering.direct.meta_device.results import SMALL_BY_ALL, SMALL_BY_FIRST
from lowering.direct.sizes import SizeNode

TRIES = 30
"""How many sizes are drawn in search of some that all conditions allow."""
NEAR = ((1, 0), (2, 0), (3, 0), (1, 1), (1, 8), (1, 32), (5, 3))
"""Sizes around one of the example: by what it is multiplied, and what is added."""
SMALL = 65
"""Below this each size of a name is looked at, at the example's sizes of the others."""


def sizes_moved(asked: Questions, others: Mapping[str, Any], condition: Any) -> dict[str, Any]:
    """New sizes for the symbols of a condition that the `others` break: some that no condition excludes, as far from
    the example's as is found, else the example's own, also of what these are held against."""
    names = [s.name for s in dims.symbols_of(condition) if s.name in asked.hints]
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
    if not score and not are_allowed(asked, {**others, **best}):
        return {name: asked.hints[name] for name in linked_names(asked, names)}
    return best


def linked_names(asked: Questions, names: Sequence[str]) -> set[str]:
    """These names, and those that conditions hold them against, and these others."""
    kept = [{s.name for s in dims.symbols_of(guard.expr)} for guard in asked.kept.values() if guard.expr is not None]
    found, more = set[str](), set(names)
    while more:
        found |= more
        more = {name for each in kept if each & found for name in each if name in asked.hints} - found
    return found


def drawn_points(asked: Questions, names: Sequence[str], others: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Some sizes of these names that no condition excludes."""
    rng = random.Random(1)
    for _ in range(TRIES):
        point = {name: drawn_size(rng, asked, name, others) for name in names}
        if are_allowed(asked, {**others, **point}):
            yield point


def points_around(hints: Mapping[str, int], names: Mapping[str, int]) -> list[dict[str, int]]:
    """Sizes around those of the example, some of them of all names at once."""
    points = [{**hints, **{name: size * times + more for name, size in names.items()}} for times, more in NEAR]
    return points + [{**hints, name: size} for name in names for size in range(1, SMALL)]


def points_apart(hints: Mapping[str, int], names: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes at which one name is further from the example, and those of two names changed for one another."""
    for name, size in names.items():
        yield from ({**hints, name: size * times + more} for times, more in NEAR)
    yield {**hints, **{name: 8 * size for name, size in names.items()}}
    for first, second in combinations(names, 2):
        yield {**hints, first: hints[second], second: hints[first]}


def drawn_size(rng: random.Random, asked: Questions, name: str, others: Mapping[str, Any]) -> int:
    """A size near the example's, or another's."""
    hint = asked.hints[name]
    less = hint - 1 if hint > 2 else hint  # at 1 all is broadcast
    offers: Sequence[int] = (hint, hint + 1, hint + 2, hint + rng.randint(1, 9), less, others.get(name, hint))
    size = rng.choice(offers)
    return size if name not in asked.ranges or size in asked.ranges[name] else hint


def are_allowed(asked: Questions, sizes: Mapping[str, Any]) -> bool:
    """Whether ranges and the conditions kept so far allow sizes."""
    return are_in_ranges(asked, sizes) and all(holds(each, sizes) is not False for each in conditions_of(asked))


def sizes_with(asked: Questions, point: Mapping[str, int]) -> Mapping[str, Any] | None:
    """Sizes of all names, these among them, which ranges and the conditions kept so far allow: those of the example, or
    others for the names that the point leaves. None where none of a few is allowed."""
    sizes = {**asked.hints, **point}
    if are_allowed(asked, sizes):
        return sizes
    broken = [each for each in conditions_of(asked) if holds(each, sizes) is False]
    beside = {s.name for each in broken for s in each.free_symbols} & asked.ranges.keys() - point.keys()
    near = dict.fromkeys((1, 2, 3, *(size + step for size in point.values() for step in (0, -1, 1)), MANY))
    tried = ({**sizes, **dict.fromkeys(beside, each)} for each in near if each >= 0 and beside)
    return next((each for each in tried if are_allowed(asked, each)), None)


MANY = 97
"""More than other names have."""


def move_test(asked: Questions) -> Callable[[Mapping[str, int]], bool]:
    """The same for sizes that differ from those of now in some names, by the sizes of these: what hangs on no name that
    is another is as it is now, and asked once for all sizes."""
    hints, of_name = asked.hints, dict[str, list[Any]]()
    broken: list[tuple[str, ...]] = [
        (name,) for name, known in asked.ranges.items() if hints.get(name, known.lo) not in known
    ]
    for each in conditions_of(asked):
        if each is None:  # said in words
            continue
        first, names = first_equal(each)
        if holds(first, hints) is False:
            broken.append(names)
        for name in names:
            of_name.setdefault(name, []).append(first)

    def allows(moved: Mapping[str, int]) -> bool:
        if not are_in_ranges(asked, moved) or any(moved.keys().isdisjoint(names) for names in broken):
            return False
        sizes = {**hints, **moved}
        return all(holds(each, sizes) is not False for name in moved for each in of_name.get(name, ()))

    return allows


def none_takes(asked: Questions, point: Mapping[str, int], against: Sequence[Any]) -> bool:
    """Whether an operator of a model refuses a point that differs in one name from the sizes of now: one requires more
    of that name, and what else refuses the point are least sizes that operators require. So the model, of which nothing
    else is asked there, comes to that operator."""
    moved = [name for name, size in point.items() if asked.hints.get(name) != size]
    seen = any(is_symbol(expr.args[0]) and expr in asked.refused for expr in against)
    return len(moved) == 1 and seen and all(type(expr) is sympy.Ge and expr not in asked.own for expr in against)


def are_in_ranges(asked: Questions, sizes: Mapping[str, Any]) -> bool:
    """Whether ranges allow sizes."""
    return all(sizes[name] in known for name, known in asked.ranges.items() if name in sizes)


def conditions_of(asked: Questions) -> tuple[Any, ...]:
    """The conditions kept so far, and those that are taken for granted."""
    return (*(guard.expr for guard in asked.kept.values()), *asked.assumed)


def small_sizes(tracer: Any, dim: Any, size: int) -> Iterator[dict[str, int]]:
    """Small sizes of names, which no condition excludes, that make a computed dimension a number."""
    names = tuple(s.name for s in dims.symbols_of(dim) if s.name in tracer.asked.hints)
    tied = tied_names(tracer, names[0]) if len(names) == 1 else ()
    for each in [(*names, name) for name in tied] or [names]:
        yield from small_sizes_of(tracer, dim, size, each)


def small_sizes_of(tracer: Any, dim: Any, size: int, names: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Those of these names, at the example's sizes of all others."""
    asked, known = tracer.asked, tracer.allowed
    made = bits_by_size(dim, names, others_of(dim, names, asked.hints)).get(size, 0)
    key = (names, len(asked.kept))
    if made and key not in known:
        conditions = (*(guard.expr for guard in asked.kept.values()), *asked.assumed)
        known[key] = bits_allowed(conditions, asked.ranges, names, asked.hints)
    found = made & known[key] if made else 0
    while found:
        yield size_at((found & -found).bit_length() - 1, names)
        found &= found - 1


def tied_names(tracer: Any, name: str) -> tuple[str, ...]:
    """The names whose sizes conditions tie to that of a name, which may not be small while they are as they are; none
    where it may be small by itself."""
    asked, known = tracer.asked, tracer.allowed
    key = ("tied", name, len(asked.kept))
    if key not in known:
        span, hints = asked.ranges.get(name), asked.hints
        first = max(0 if span is None else span.lo, 0)
        small = [{**hints, name: size} for size in range(first, min(first + NEARBY, max(hints[name], first)))]
        kept: list[Any] = [each for each in asked.kept if each is not None]
        about = [each for each in kept if len(each.free_symbols) == 2 and name in {s.name for s in each.free_symbols}]
        found = [each for each in about if any(holds(each, point) is False for point in small)]
        names = [s.name for each in found for s in dims.symbols_of(each) if s.name != name and s.name in hints]
        known[key] = tuple(dict.fromkeys(names))
    return known[key]


def lowest(tracer: Any, name: str) -> int:
    """The smallest size that is allowed of a name: of the first few, or from where on they are; else the example's."""
    asked, known = tracer.asked, tracer.allowed
    key = (name, len(asked.kept))
    if key not in known:
        known[key] = lowest_now(asked, name)
    return known[key]


def lowest_now(asked: Questions, name: str) -> int:
    """The same, by the conditions kept so far."""
    known, allows = asked.ranges.get(name), move_test(asked)
    first = 0 if known is None else max(known.lo, 0)
    sizes, allowed = range(first, max(first, asked.hints[name])), lambda size: allows({name: size})
    found = next(filter(allowed, sizes[:NEARBY]), None)
    return first + bisect_left(sizes, True, key=allowed) if found is None else found


def highest(tracer: Any, name: str, most: int) -> int:
    """The greatest size up to `most` that is allowed of a name: that, or what conditions end at above the example's."""
    asked, known = tracer.asked, tracer.allowed
    key = (name, most, len(asked.kept))
    if key not in known:
        bounds, allows = asked.ranges.get(name), move_test(asked)
        top, hint = most if bounds is None or bounds.hi is None else min(most, bounds.hi), asked.hints[name]
        ends = range(hint + 1, top + 1)
        whole = not ends or allows({name: top})
        known[key] = top if whole else hint + bisect_left(ends, True, key=lambda size: not allows({name: size}))
    return known[key]


NEARBY, SOME = 8, 16
"""How many sizes are tried one by one before the others are halved; and how many of a name that is tied to one."""


def as_large_as(met: Any, symbol: Any, refused: Sequence[int]) -> Any:
    """The size that one has to be as large as, where torch refuses these smaller ones for that alone: it takes each of
    them where the other is as small. None where none is such."""
    hints = met.tracer.asked.hints
    for other in met.symbols():
        alike = ({**hints, symbol.name: size, other.name: size} for size in refused[-NEARBY:])
        if other is not symbol and hints[other.name] == refused[-1] + 1 and all(map(met.taken, alike)):
            return other
    return None


def last_refused(met: Any, name: str, near: Sequence[int]) -> int | None:
    """The greatest size of a name among these that torch refuses; None where it takes all. Of an operator that refuses
    what is too small alone, few are asked for."""
    hints = met.tracer.asked.hints
    end = first_taken(lambda size: met.taken({**hints, name: size}), near) if refuses_small(met) else len(near)
    return next((size for size in reversed(near[:end]) if met.broken({**hints, name: size})), None)


def first_taken(taken: Callable[[int], bool], sizes: Sequence[int]) -> int:
    """The place of the least size that is taken, where all greater ones are, too; the end where none is."""
    place = 1
    while place <= len(sizes) and not taken(sizes[place - 1]):
        place *= 2
    return bisect_left(sizes, True, place // 2, min(place - 1, len(sizes)), key=taken)


def refuses_small(met: Any) -> bool:
    """Whether torch refuses an operator only for sizes that are too small: as they are named, of its first tensor alone
    or of all that it takes."""
    varying = [each for _, each, known in met.parts if known is None]
    first = len(varying) == 1 and any(varying[0] is each for each in met.args[:1])
    told = met.func in SMALL_BY_ALL or (met.func in SMALL_BY_FIRST and first)
    return told and all(type(d) is int or d.is_Symbol for d in shapes_in(met.tracer, varying))


def takes_nothing(met: Any, symbol: Any, name: str, refused: Sequence[int]) -> bool:
    """Whether torch takes the sizes of a name that it refuses where another is 0."""
    hints = {**met.tracer.asked.hints, symbol.name: 0}
    return met.allowed(hints) and all(met.taken({**hints, name: size}) for size in refused)


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


def opposite_sizes(
    others: Mapping[str, Any], names: Sequence[str], allowed: Callable[[Mapping[str, Any]], bool]
) -> dict[str, Any]:
    """Sizes of which those of some names are in the opposite order: greater than all others where that is allowed."""
    by_size = sorted(names, key=lambda name: others[name])
    above = [max((0, *others.values()))]
    for _ in by_size:
        above.append(next_prime(above[-1]))
    turned = {**others, **dict(zip(by_size, reversed(above[1:]), strict=True))}
    if allowed(turned):
        return turned
    return {**others, **dict(zip(by_size, sorted((others[name] for name in by_size), reverse=True), strict=True))}


def larger_prime(sizes: Mapping[Any, Any]) -> int:
    """A prime that is larger than all of these sizes."""
    return next_prime(max(sizes.values()))


@functools.lru_cache(maxsize=1 << 12)
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
        return given.node.expr, True
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


ANY_SIZE = (
    "unsqueeze transpose permute t to contiguous clone detach alias dropout softmax log_softmax mean sum "
    "hardswish selu log_sigmoid relu6 square"
).split()
FREE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], bool]] = {
    "aten::linear": are_rows, "aten::layer_norm": are_outside, "aten::rms_norm": are_outside,
    "aten::embedding": are_places, "aten::batch_norm": are_samples,
    **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), are_images),
    **dict.fromkeys((f"aten::{name}" for name in ANY_SIZE), are_tensors),
}  # fmt: skip
"""By operator: whether torch takes it whatever the sizes are that vary, where it takes it for the example."""


def stretches(func: Any) -> bool:
    """Whether an operator writes the elements of a tensor by those of others, which it broadcasts: a size of these may
    be 1 also where it is the tensor's own for the example."""
    schema = func._schema
    return schema.is_mutable and (torch.Tag.pointwise in func.tags or schema.name in STRETCHING)


STRETCHING = frozenset(("aten::copy_", "aten::masked_fill_"))
