"""What is to be traced: the model, the arguments of the example, and what the user said of their dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import attrs
import numpy as np
import sympy
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from irkit import dims
from irkit.core.ir import Port
from irkit.dims import Range
from irkit.dims.algebra import line_of
from irkit.errors import DimensionError
from irkit.support.once import once
from lowering.capture.guards.guards import Guard
from lowering.capture.inputs.calls import Call, bind, named_leaves, rename_leaves
from lowering.capture.inputs.contents import Parts
from lowering.capture.inputs.packed import Weights
from lowering.capture.inputs.scalars import said_of_numbers, with_numbers
from lowering.capture.torch_export import repeated_rows, stretch_axis
from lowering.direct.tensors import refuse_wrapper
from lowering.errors import CaptureError
from lowering.fold.scope import Options
from lowering.records.dynamic_shapes import (
    Hint,
    Leaf,
    Place,
    check_examples,
    free_name,
    places_of,
    statements,
    with_names,
)
from lowering.records.options import ExportOptions
from lowering.records.types import array_of, as_pairs

UNBOUNDED = 2**40


@attrs.frozen(eq=False)
class Deciding:
    """The modules of a model whose ways become branches, and those whose ways cannot be, by identity. These are left to
    the modules that call them. `calls` says how often a run before this one called each module."""

    modules: frozenset[int] = frozenset()
    given_up: frozenset[int] = frozenset()
    calls: Mapping[int, int] = {}

    def giving_up(self, module: int) -> Deciding:
        """The same without a module."""
        return Deciding(self.modules - {module}, self.given_up | {module}, self.calls)


@attrs.define(eq=False)
class Kept:
    """The globals of code in which runs of a model keep sizes, if they keep `any`, since one before them made numbers
    of some there, and of which: `chosen` are these sizes."""

    places: list[Any] = attrs.field(factory=list)
    any: bool = False
    chosen: set[Any] = attrs.field(factory=set)

    @classmethod
    def of(cls, request: Request, sizes: Mapping[str, int], *how: Any) -> Kept:
        """Those of runs at some sizes. A capture that began anew since a further decision is rewritten goes the same
        way as the one before it up to that decision, so it keeps at once what that one kept."""
        key = (request.as_eager, request.deciding.modules, request.deciding.given_up, *sizes.items(), *how)
        return cls() if request.options.learned is None else request.options.learned(key, cls())

    def emptied(self) -> list[Any]:
        """The places, to be kept no longer: a run came to its end, by ways that a further decision may change."""
        places, self.places, self.any, self.chosen = self.places, [], False, set()
        return places


def numbers_of(value: Any) -> np.ndarray:
    """The numbers of an example's leaf; complex ones as pairs."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    return array_of(as_pairs(value) if value.is_complex() else value)


def nothing_around(*_: Any) -> AbstractContextManager[None]:
    """A block in which a model runs as it is."""
    return nullcontext()


@attrs.frozen(eq=False, slots=False)
class Request:
    """A model and its example call.

    `shapes` has for each leaf what its dimensions are: ints and expressions over the user's names; the expression alone
    for a number that varies; None for what is part of the graph. `hints` and `ranges` are those of the names; those in
    `free` may turn out to be fixed (`Dim.AUTO`), those in `invented` are no user's. `promises` are conditions that
    follow from what was said, `notes` what the user should know of it. `parts` are the module as it stands before runs,
    `weights` what was unpacked of it; `lists_all` says that all names are asked for that the model fixes, not only the
    first; `deciding` are those of its modules whose ways at other sizes become branches; `as_eager` has the model take
    the ways that it takes in eager, where it has others for exports;
    `around` makes the block of a tracer and a request in which the model runs.
    """

    module: torch.nn.Module
    parts: Parts
    name: str
    call: Call
    leaves: tuple[Leaf, ...]
    spec: pytree.TreeSpec
    shapes: tuple[Any, ...]
    hints: Mapping[str, int]
    ranges: Mapping[str, Range]
    numbers: Mapping[int, type]
    options: Options
    free: frozenset[str] = frozenset()
    invented: frozenset[str] = frozenset()
    equal: Mapping[str, str] = {}
    promises: tuple[Guard, ...] = ()
    notes: tuple[str, ...] = ()
    weights: Weights = attrs.field(factory=Weights)
    lists_all: bool = False
    deciding: Deciding = attrs.field(factory=Deciding)
    as_eager: bool = False
    around: Callable[..., AbstractContextManager[None]] = nothing_around

    @once
    def held(self) -> Mapping[str, np.ndarray]:
        """What the example holds at its own sizes, by the names of leaves; complex numbers as pairs."""
        return {
            leaf.name: numbers_of(leaf.value)
            for leaf, shape in zip(self.leaves, self.shapes, strict=True)
            if shape is not None
        }

    def numbers_held(self, params: Iterable[tuple[Port, Any]]) -> list[np.ndarray]:
        """What the example, at its own sizes, holds for some inputs."""
        return [self.held[port.name] for port, _ in params]

    def with_equal(self, swaps: Mapping[Any, Any]) -> Request:
        """The same with names replaced by others, to which they are equal; the contract says so."""
        known: dict[Any, Any] = {}
        for symbol, other in swaps.items():
            last = known.get(other, other)
            if symbol.name in self.hints and last is not symbol:
                known = {s: last if o is symbol else o for s, o in known.items()} | {symbol: last}

        def at(dim: Any) -> Any:
            return dims.substitute(dim, known)

        shapes = tuple(tuple(map(at, s)) if isinstance(s, tuple) else s and at(s) for s in self.shapes)
        gone = {s.name for s in known}
        ranges = dict(self.ranges)
        for each, other in known.items():
            if each.name in ranges and other.name in ranges:
                ranges[other.name] = overlap(ranges[each.name], ranges[other.name])
        return attrs.evolve(
            self,
            shapes=shapes,
            hints={name: size for name, size in self.hints.items() if name not in gone},
            ranges={name: r for name, r in ranges.items() if name not in gone},
            equal={**self.equal, **{s.name: o.name for s, o in known.items()}},
        )

    def with_numbers(self, sizes: Mapping[str, int]) -> Request:
        """The same with names fixed to numbers."""
        known: dict[Any, Any] = {dims.symbol(name): size for name, size in sizes.items()}

        def fixed(dim: Any) -> Any:
            return dims.substitute(dim, known)

        return attrs.evolve(
            self,
            shapes=tuple(tuple(map(fixed, s)) if isinstance(s, tuple) else s and fixed(s) for s in self.shapes),
            hints={name: size for name, size in self.hints.items() if name not in sizes},
            ranges={name: r for name, r in self.ranges.items() if name not in sizes},
        )

    def elements_at(self, sizes: Mapping[str, int]) -> int:
        """How many elements the arguments have at sizes of the names."""
        shapes = [each for each in self.shapes if isinstance(each, tuple)]
        return sum(math.prod(d if type(d) is int else dims.evaluate(d, sizes) for d in shape) for shape in shapes)

    def place_of(self, name: str) -> str:
        """Where a name stands first, in words: `dimension 1 of 'x'`."""
        for leaf, shape in zip(self.leaves, self.shapes, strict=True):
            for axis, dim in enumerate(shape if isinstance(shape, tuple) else (shape,)):
                if any(s.name == name for s in dims.symbols_of(dim if dim is not None else 0)):
                    return (
                        f"dimension {axis} of {leaf.name!r}"
                        if isinstance(shape, tuple)
                        else f"the number {leaf.name!r}"
                    )
        return f"the dimension {name!r}"

    def examples(self, sizes: Mapping[str, int]) -> list[Any]:
        """The example leaves at other sizes of the names: cut off, or with their last row repeated. Tensors that lie
        alike, as the parts of a cache do, are the first of them there: `stretched_numbers` tells what each holds."""
        if sizes == self.hints:
            return [leaf.value for leaf in self.leaves]
        return list(self._resized(sizes))

    def _resized(self, sizes: Mapping[str, int]) -> Iterator[Any]:
        known: dict[int, int] = {}
        made: dict[Any, torch.Tensor] = {}
        rows = cache(repeated_rows)

        def number(dim: Any) -> int:
            if type(dim) is int:
                return dim
            if id(dim) not in known:  # the shapes keep it alive
                known[id(dim)] = dims.evaluate(dim, sizes)
            return known[id(dim)]

        for leaf, shape in zip(self.leaves, self.shapes, strict=True):
            value = leaf.value
            if not isinstance(value, torch.Tensor):
                yield value if shape is None else number(shape)
                continue
            there = tuple(map(number, shape))
            key = (value.shape, value.stride(), value.dtype, value.device, there)
            if value.shape == there:
                yield value
            else:
                if key not in made:
                    made[key] = stretched(value, there, rows)
                yield made[key]


def stretched_numbers(numbers: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The numbers of a tensor at other sizes, as `stretched` makes it; complex ones are pairs."""
    for axis, size in enumerate(sizes):
        there = numbers.shape[axis]
        if not there and size:
            return np.zeros((*sizes, *numbers.shape[len(sizes) :]), numbers.dtype)
        numbers = numbers if there == size else numbers.take(np.minimum(np.arange(size), there - 1), axis)
    return numbers


def stretched(tensor: torch.Tensor, sizes: Sequence[int], rows: Callable[..., torch.Tensor]) -> torch.Tensor:
    """A tensor at other sizes."""
    for axis, size in enumerate(sizes):
        tensor = stretch_axis(tensor, axis, size, rows)
    return tensor


def request_of(
    module: torch.nn.Module,
    name: str,
    args: Sequence[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None,
    asked: ExportOptions,
    as_eager: bool = False,
) -> Request:
    """The request of a call, by the ways that the module has for exports, or `as_eager`. Raises CaptureError where
    arguments or `dynamic_shapes` do not fit."""
    call, numbers = with_numbers(module, bind(module, args, kwargs), asked.scalar_inputs)
    leaves, dynamic_shapes = (
        rename_leaves(named_leaves(call, with_sources=False), asked.input_names),
        asked.dynamic_shapes,
    )
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # torch's ShapesCollection and AdditionalInputs
        dynamic_shapes = dynamic_shapes.dynamic_shapes(module, call.args, call.kwargs)
    said, notes = with_names(statements(dynamic_shapes, leaves, call.groups))
    said = said_of_numbers(said, leaves, numbers, places_of(said))
    places = places_of(said)
    check_examples(places, leaves)
    for leaf in leaves:
        if isinstance(leaf.value, np.ndarray):
            raise CaptureError(f"{leaf.name} is a numpy.ndarray", hint="give tensors: torch.from_numpy(array)")
        if isinstance(leaf.value, torch.Tensor):
            refuse_wrapper(leaf.value)
    exprs, promises = renamed_roots(places)
    names = Names()
    shapes: list[Any] = []
    known: dict[Any, Any] = {}  # one for all that are equal, as those of a cache are
    for i, leaf in enumerate(leaves):
        each = said[i]
        if isinstance(leaf.value, torch.Tensor):
            told = each or {}
            sizes = enumerate(leaf.value.shape)
            shape = tuple([names.dim(exprs.get((i, axis)), told.get(axis), size) for axis, size in sizes])
            shapes.append(known.setdefault(shape, shape))
        elif each is not None and type(leaf.value) is int:
            shapes.append(names.dim(exprs.get((i, -1)), each, leaf.value))
        else:
            shapes.append(None)
    names.complete()
    _, spec = pytree.tree_flatten((call.args, call.kwargs))
    return Request(
        module, Parts.of(module), name, call, tuple(leaves), spec, tuple(shapes), names.hints, names.ranges, numbers,
        Options.of(asked), frozenset(names.free), frozenset(names.invented), promises=promises, notes=notes,
        lists_all=asked.specialization is not None, as_eager=as_eager,
    )  # fmt: skip


def overlap(one: Range, other: Range) -> Range:
    """The sizes that are in both ranges."""
    tops = [each.hi for each in (one, other) if each.hi is not None]
    return Range(max(one.lo, other.lo), min(tops) if tops else None)


def renamed_roots(places: Sequence[Place]) -> tuple[dict[tuple[int, int], Any], tuple[Guard, ...]]:
    """(what each place is, what that promises). An expression with a name that stands nowhere alone, beside others or
    in no line, gets a name of its own: a call tells that size, and not the name in it."""
    plain = {place.expr.name for place in places if place.is_plain}
    exprs: dict[tuple[int, int], Any] = {}
    promises: list[Guard] = []
    named: dict[Any, Any] = {}
    for place in places:
        symbols = dims.symbols_of(place.expr)
        unknown = [s for s in symbols if s.name not in plain]
        line = len(symbols) == 1 and line_of(place.expr) is not None
        exprs[place.leaf, place.axis] = place.expr
        if place.is_plain or not unknown or line:
            continue
        size = named.setdefault(
            place.expr, dims.symbol(free_name(place.text, {*plain, *(s.name for s in named.values())}))
        )
        exprs[place.leaf, place.axis] = size
        if len(unknown) == 1:
            least = dims.sub(place.expr, unknown[0])
            known = type(least) is not int and all(s.name in plain for s in dims.symbols_of(least))
            promises += [Guard(sympy.Ge(size, least), place.text, kind="promise")] if known else []
    return exprs, tuple(promises)


@attrs.define(eq=False)
class Names:
    """The names of dimensions as they are met, with the size of each in the example and the range that was given."""

    hints: dict[str, int] = attrs.field(factory=dict)
    ranges: dict[str, Range] = attrs.field(factory=dict)
    free: set[str] = attrs.field(factory=set)
    invented: set[str] = attrs.field(factory=set)
    waiting: list[tuple[Any, int]] = attrs.field(factory=list)

    def dim(self, expr: Any, said: Any, size: int) -> Any:
        """What an axis is: its size, or the expression that is said of it."""
        if expr is None and (not isinstance(said, Hint) or said.type == Dim.STATIC.type):
            return size
        if expr is None:
            expr = dims.symbol(next(n for n in map("s{}".format, range(1 << 30)) if n not in self.hints))
            self.invented.add(expr.name)
            self.free.update([expr.name] if said.type == Dim.AUTO.type else [])
        if type(expr) is int:
            return expr
        if not expr.is_Symbol:
            self.waiting.append((expr, size))
            return expr
        low, high = getattr(said, "min", None), getattr(said, "max", None)
        top = int(high) if isinstance(high, int) and high < UNBOUNDED else None
        self.hints.setdefault(expr.name, size)
        self.ranges.setdefault(expr.name, Range(int(low) if isinstance(low, int) else 0, top))
        return expr

    def complete(self) -> None:
        """Gives the names that stand in expressions only the size that these have in the example."""
        for expr, size in self.waiting:
            symbols: Any = dims.symbols_of(expr)
            unknown = [s for s in symbols if s.name not in self.hints]
            if not unknown:
                continue
            known = {s: self.hints[s.name] for s in symbols if s.name in self.hints}
            try:
                solved = dims.solve(dims.substitute(expr, known), size)
            except DimensionError:
                solved = None
            if solved is None:
                raise CaptureError(f"no size of {unknown[0]} makes {expr} {size}", hint="name the dimension plainly")
            self.hints[solved[0]] = solved[1]
            self.ranges.setdefault(solved[0], Range())
