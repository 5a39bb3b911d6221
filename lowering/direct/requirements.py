"""What an operator requires of sizes: found by running it on the meta device at other sizes than the example's.

torch checks sizes where an operator is carried out: that matrices are square, that a window fits, that a size is even.
A traced run has one example, whose sizes may meet all that by chance. So each operator that meets sizes which vary is
run at others as well: at a second set, all different; at sizes in the opposite order; and at the smallest that are
allowed. What torch refuses there becomes a condition: sizes that are equal, multiples of a number, at least or at most
so many. Where none explains it, sizes are fixed to those of the example. Sizes of results are compared, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import attrs
import sympy
import torch
from torch.utils import _pytree as pytree

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.errors import DimensionError
from lowering.capture.guards.answers import holds
from lowering.capture.guards.assumed import (
    asks_in_its_kernel,
    compares_in_its_kernel,
    normalizes_channels,
    resizes,
)
from lowering.capture.guards.comparisons import as_said
from lowering.capture.guards.einsum_types import conditions as element_types
from lowering.direct.converting import QUICK
from lowering.direct.expected import KNOWN, require_masks
from lowering.direct.meta_device.arguments import Meta, is_on_cpu, made_of, on_cpu, order_of, plain_key
from lowering.direct.meta_device.results import teller
from lowering.direct.points import (
    NEARBY,
    SOME,
    are_allowed,
    as_large_as,
    candidates,
    computed_alike,
    computed_numbers,
    differ_somewhere,
    drawn_points,
    emptied_dims,
    highest,
    is_symbol,
    key_of,
    last_refused,
    last_taken,
    lowest,
    next_prime,
    number,
    opposite_sizes,
    plain_number,
    shapes_in,
    small_sizes,
    stretches,
    symbol_value,
    symbols_alike,
    takes_nothing,
    tied_names,
    varying_key,
)
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import META
from lowering.direct.tracer import Alike, Tracer
from lowering.errors import LoweringError

REFUSED = (ArithmeticError, AssertionError, IndexError, RuntimeError, TypeError, ValueError)
Sizes = Mapping[str, Any]
LARGE = 1_000_003


class Refused(Exception):
    """torch refuses an operator at other sizes."""


@attrs.frozen(eq=False)
class Elsewhere:
    """An operator as it was met: with its arguments, its results, and whether it takes a device."""

    tracer: Tracer
    func: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    results: Sequence[Any]
    device: bool

    @cached_property
    def given(self) -> tuple[Any, ...]:
        """All arguments."""
        return (self.args, tuple(self.kwargs.values()))

    def told(self, sizes: Sizes, nothing: Any = None) -> Any:
        """What torch gives on the meta device for these sizes of the names, and 0 for a dimension that is `nothing`;
        of what is empty on the CPU, where only the operator's kernel refuses that. It is asked once for equal numbers,
        also by trials. Raises Refused."""
        told, args, keys, given = self.tracer.told, [], [], dict[str, Any]()
        try:
            for name, each, known in self.parts:
                made = self.sized(each, sizes, nothing) if known is None else known[0]
                keys.append(plain_key(made) if known is None else known[1])
                if name is None:
                    args.append(made)
                else:
                    given[name] = made
        except DimensionError:
            raise Refused from None
        key = (self.func, len(args), *given, *keys)
        if key not in told:
            told[key] = self.carried_out(args, given)
        if isinstance(told[key], Refused):
            raise Refused(*told[key].args)  # anew: one that was raised holds on to all that ran then
        return told[key]

    @cached_property
    def parts(self) -> list[tuple[str | None, Any, tuple[Any, Any] | None]]:
        """(name, argument, (what it is at all sizes, its key)) of all arguments: None where one is given by place, and
        where it hangs on sizes."""
        named: dict[str, Any] = {name: each for name, each in self.kwargs.items() if name != "pin_memory"}
        if self.device and all(a.name != "device" for a in self.func._schema.arguments[: len(self.args)]):
            named["device"] = META
        found: list[tuple[str | None, Any, tuple[Any, Any] | None]] = []
        for name, each in (*((None, each) for each in self.args), *named.items()):
            varies = varying_key(self.tracer, each)[1]
            made = None if varies else self.sized(each, {}, None)
            found.append((name, each, None if varies else (made, plain_key(made))))
        return found

    def sized(self, each: Any, sizes: Sizes, nothing: Any) -> Any:
        """An argument for these sizes of the names, and 0 for a dimension that is `nothing`."""
        tracer = self.tracer
        if isinstance(each, torch.Tensor):
            handle = tracer.handle(each)
            shape = [0 if d is nothing else sizes[d] if d in sizes else number(d, sizes) for d in handle.value.shape]
            on = "cpu" if self.compares or (self.refuses_nothing and 0 in shape) else "meta"
            return Meta(tuple(shape), order_of(handle.twin), handle.twin.dtype, on)
        if isinstance(each, torch.SymInt):
            return plain_number(each.node.expr, sizes) if isinstance(each.node, SizeNode) else int(each)
        if isinstance(each, torch.SymFloat | torch.SymBool):
            return each.node.hint
        if isinstance(each, list | tuple):
            return type(each)(self.sized(one, sizes, nothing) for one in each)
        return META if isinstance(each, torch.device) else each

    def carried_out(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What torch gives for arguments on the meta device; a Refused where it raises."""
        if any(map(is_on_cpu, (*args, *kwargs.values()))):
            args, kwargs = on_cpu(args), {name: on_cpu(each) for name, each in kwargs.items()}
        try:
            return teller(self.func)(*map(made_of, args), **{name: made_of(each) for name, each in kwargs.items()})
        except REFUSED as error:
            return Refused(str(error))

    @cached_property
    def refuses_nothing(self) -> bool:
        """Whether its kernel alone refuses what is empty."""
        return asks_in_its_kernel(self.func._schema.name)

    @cached_property
    def compares(self) -> bool:
        """Whether its kernel alone holds the sizes of operands against one another."""
        return compares_in_its_kernel(self.func._schema.name)

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among its arguments."""
        return [each for each in pytree.tree_leaves(self.given) if isinstance(each, torch.Tensor)]

    def taken(self, sizes: Sizes) -> bool:
        """Whether torch takes the operator at these sizes."""
        try:
            self.told(sizes)
        except Refused:
            return False
        return True

    def allowed(self, sizes: Sizes) -> bool:
        """Whether the conditions that were kept so far allow these sizes."""
        asked, known = self.tracer.asked, self.tracer.allowed
        key = (len(asked.kept), tuple(sizes.items()))
        if key not in known:
            known[key] = are_allowed(asked, sizes)
        return known[key]

    def broken(self, sizes: Sizes) -> bool:
        """Whether torch refuses the operator at sizes that no condition excludes."""
        return self.allowed(sizes) and not self.taken(sizes)

    def keep(self, expr: Any, seen: set[Any] | None = None) -> None:
        """Keeps that torch requires a condition, among those where it was `seen` to refuse an operator elsewhere."""
        self.tracer.asked.required(expr)
        if seen is not None:
            seen.add(as_said(expr))

    def fix(self, symbol: Any) -> None:
        """Keeps that a size is that of the example, for want of knowing what torch requires of it."""
        self.tracer.unexplained.setdefault(symbol.name, str(self.func))
        self.keep(sympy.Eq(symbol, self.tracer.asked.hints[symbol.name]))

    def hangs_on_others(self) -> bool:
        """Whether a symbol among the sizes is what others make it, in a way that is not known."""
        return any(s.name in self.tracer.dependent for s in self.symbols())

    def is_view(self) -> bool:
        """Whether it gives a view, which sizes of tables and buffers may limit; others may take long at large sizes."""
        schema = self.func._schema
        return schema.name == "aten::narrow" or any(each.alias_info is not None for each in schema.returns)

    def symbols(self) -> list[Any]:
        """The symbols of the sizes that it is called with."""
        found = (s for d in shapes_in(self.tracer, self.given) for s in dims.symbols_of(d))
        return [s for s in dict.fromkeys(found) if s.name in self.tracer.asked.hints]


def require(
    tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any], device: bool
) -> None:
    """Keeps what an operator requires of sizes. Raises Alike where names must be one, LoweringError where the sizes of
    a result are others than its type says."""
    key = key_of(tracer, func, (args, tuple(kwargs.items())))
    if key is None or key in tracer.required:
        return
    tracer.required.add(key)
    met = Elsewhere(tracer, func, args, kwargs, results, device)
    require_masks(tracer, func, args)
    require_element_type(met)
    refuse_untaken(met)
    try:
        compare(met, met.told(tracer.others), tracer.others)
    except Refused:
        if not met.taken(tracer.asked.hints):
            if met.refuses_nothing and tracer.before is not None:
                raise untaken(met) from None
            tracer.unproven = True
            return  # it must see numbers, or does not say
        relate(met)
    symbols = met.symbols()
    if met.hangs_on_others():
        tracer.unproven = True
        at_smallest(met, symbols if len(symbols) == 1 else ())  # of several none may be another by itself
        return
    for dim in computed_dims(met):
        at_least_in_all(met, dim)
    for symbol in (s for s in symbols if tied_names(tracer, s.name)):
        at_least_in_all(met, symbol, holes=True)
    elsewhere(met, symbols)
    at_smallest(met, symbols)
    if met.refuses_nothing:
        something(met)
    if len(symbols) > 1:
        in_order(met, symbols)
    for symbol in symbols:
        if met.is_view():
            of_one(met, symbol, greatest(met, symbol.name))
        if not symbol.is_nonnegative:
            above_negative(met, symbol, symbols)


def require_again(
    tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any], device: bool
) -> None:
    """Keeps what an operator requires in a trial, where the run before kept what it requires anywhere else: looks
    whether torch takes it at the point of the trial with other sizes of the other names, and with the smallest."""
    met, hints, point = Elsewhere(tracer, func, args, kwargs, results, device), tracer.asked.hints, tracer.point
    refuse_untaken(met)
    rest = [s.name for s in met.symbols() if s.name not in point] if point is not None else []
    least = {name: lowest(met.tracer, name) for name in rest}
    alone = ({name: size} for name, size in least.items())
    around = ({**tracer.others, **(point or {})}, *({**hints, **some} for some in (least, *alone) if some))
    if point is None or any(met.broken(sizes) for sizes in around):
        require(tracer, func, args, kwargs, results, device)


def require_element_type(met: Elsewhere) -> None:
    """Keeps that an einsum has the element type that it has for the example."""
    if met.func._schema.name == "aten::einsum":
        for expr in element_types(met.args[0], met.args[1], met.told(met.tracer.asked.hints).dtype):
            met.keep(expr)


TAKEN_SIZES = "give an example of sizes that the model runs on: model(*args) shows torch's own error"


def refuse_untaken(met: Elsewhere, computed: bool = False) -> None:
    """Raises LoweringError where torch, which was not asked for results, or for no more than the meta device says,
    refuses an operator at the sizes of a run; with `computed`, where it may have been asked."""
    asked = met.func._schema.name.removeprefix("aten::") not in QUICK and not (met.compares and met.tracer.before)
    if (computed or not asked) and not met.taken(met.tracer.asked.hints):
        raise untaken(met)


def untaken(met: Elsewhere) -> LoweringError:
    """The error that torch refuses an operator at the sizes of a run."""
    return LoweringError(f"torch refuses {met.func} at these sizes", source=met.tracer.line(), hint=TAKEN_SIZES)


def something(met: Elsewhere) -> None:
    """Keeps that dimensions are not 0 of which torch refuses that, where what is computed of sizes may be so."""
    tracer, hints, name = met.tracer, met.tracer.asked.hints, met.func._schema.name
    computed = [d for each in met.tensors for d in tracer.handle(each).value.shape if not dims.are_numbers((d,))]
    for dim in dict.fromkeys(d for d in computed if not d.is_Symbol):
        try:
            met.told(hints, dim)
        except Refused:
            met.keep(sympy.Ge(dim, 1))
    channels = tracer.handle(met.tensors[0]).value.shape[1:2] if normalizes_channels(name) else ()
    for dim in (d for d in channels if type(d) is not int):
        met.keep(sympy.Ge(dim, 1))
    if resizes(name):
        for dim in (d for value in met.results for d in value.shape[2:] if type(d) is not int):
            met.keep(sympy.Ge(dim, 1))


def greatest(met: Elsewhere, name: str) -> int:
    """A size of a name that is greater than what tables and buffers have, or the greatest that is allowed."""
    return highest(met.tracer, name, LARGE)


# ---------------------------------------------------------------------------------------------- what explains a refusal


def relate(met: Elsewhere) -> None:
    """Keeps what explains that torch refuses the other sizes: the order of two, equal ones, what is required of a size
    by itself, or else that all are as in the example."""
    tracer, symbols = met.tracer, met.symbols()
    for explain in (equal_dims, ordered, equal_sizes, alone):
        explain(met)
        if met.taken(tracer.others):
            return
    if equal_sizes(met, True):
        return
    if met.hangs_on_others():
        at_smallest(met, symbols if len(symbols) == 1 else ())
        if met.broken(tracer.others):
            tracer.asked.untold(f"{met.func} takes sizes under a condition of torch's that is not known")
    else:
        for symbol in symbols:
            met.fix(symbol)
    tracer.others.update({s.name: tracer.asked.hints[s.name] for s in symbols})


def alone(met: Elsewhere) -> None:
    """Keeps what torch requires of each size by itself."""
    for symbol in met.symbols():
        of_one(met, symbol, met.tracer.others[symbol.name])


def ordered(met: Elsewhere) -> None:
    """Keeps that two sizes are in the order in which torch takes the others, where it takes none in the opposite."""
    tracer, symbols = met.tracer, met.symbols()
    for i, one in enumerate(symbols):
        for two in symbols[i + 1 :]:
            others = tracer.others
            sizes = {**others, one.name: others[two.name], two.name: others[one.name]}
            if others[one.name] == others[two.name] or not met.allowed(sizes) or not met.taken(sizes):
                continue
            less, more = (one, two) if sizes[one.name] < sizes[two.name] else (two, one)
            hints = tracer.asked.hints
            if not order_matters(met, less, more, symbols, sizes):
                continue
            if hints[less.name] <= hints[more.name] and keep_order(met, less, more, sizes):
                tracer.others.update(sizes)
                return


def order_matters(met: Elsewhere, less: Any, more: Any, symbols: Sequence[Any], sizes: Sizes) -> bool:
    """Whether torch refuses the opposite order of two sizes also where all others are larger than these, and where
    both are larger than all: else something else is what it asks for."""
    top = max(sizes[s.name] for s in symbols)
    larger = {s.name: next_prime(top) for s in symbols if s is not less and s is not more}
    turned = {**sizes, **larger, less.name: sizes[more.name], more.name: sizes[less.name]}
    most = next_prime(max(top, *met.tracer.asked.hints.values(), *numbers_in(met)))
    above = {**turned, less.name: next_prime(most), more.name: most}
    return not any(met.allowed(each) and met.taken(each) for each in (turned, above))


def keep_order(met: Elsewhere, less: Any, more: Any, sizes: Sizes) -> bool:
    """Keeps that a size is less than another, or at most that where torch takes equal ones; False where that is not so
    for the example."""
    found = (sympy.Lt if met.broken({**sizes, less.name: sizes[more.name]}) else sympy.Le)(less, more)
    if holds(found, met.tracer.asked.hints) is False:
        return False
    met.keep(found)
    return True


def of_one(met: Elsewhere, symbol: Any, other: int) -> None:
    """Keeps what torch requires of one size by itself where it refuses an `other`: a multiple, or a greatest size."""
    tracer, name = met.tracer, symbol.name
    hints, hint = tracer.asked.hints, tracer.asked.hints[symbol.name]

    def broken(size: int) -> bool:
        return met.broken({**hints, name: size})

    if not broken(other):
        return
    above = [size for size in range(hint + 1, hint + 2 * max(hint, 4) + 1) if met.allowed({**hints, name: size})]
    refused = [broken(size) for size in above]
    if all(refused):
        first = lowest(met.tracer, name)
        below = dict.fromkeys((*range(first, min(first + NEARBY, hint)), *range(max(hint - NEARBY, first), hint)))
        less = [size for size in below if met.allowed({**hints, name: size})]
        taken = [size for size in less if not broken(size)]
        one_of: list[Any] = [sympy.Eq(symbol, size) for size in (*taken, hint)]
        met.keep(sympy.Le(symbol, hint) if taken == less else sympy.Or(*one_of), tracer.asked.beyond)
        tracer.others[name] = min(hint, tracer.others[name])
        return
    for factor in range(2, hint + 1):
        if hint % factor == 0 and [bool(size % factor) for size in above] == refused:
            met.keep(sympy.Eq(dims.mod(symbol, factor), 0), tracer.asked.beyond)
            tracer.others[name] = -(-tracer.others[name] // factor) * factor
            return
    last = last_taken(broken, hint, other)
    holes = any(gone for size, gone in zip(above, refused, strict=True) if size <= last)
    beyond = [size for size in (last + 1, last + 2, other) if met.allowed({**hints, name: size})]
    if not holes and beyond and all(map(broken, beyond)):
        met.keep(sympy.Le(symbol, last), tracer.asked.beyond)
        tracer.others[name] = min(last, tracer.others[name])


def at_smallest(met: Elsewhere, symbols: Sequence[Any]) -> None:
    """Keeps the least sizes that torch takes, of each name and of all, where it refuses the smallest allowed ones."""
    hints = met.tracer.asked.hints
    least = {s.name: lowest(met.tracer, s.name) for s in symbols}
    points = ({**hints, **some} for some in (least, *({name: size} for name, size in least.items())))
    if not any(map(met.broken, points)) or not met.taken(hints):
        return
    for symbol in symbols:
        at_least(met, symbol)
    together = {**hints, **{s.name: lowest(met.tracer, s.name) for s in symbols}}
    for dim in emptied_dims(met.results, hints, together) if met.broken(together) else ():
        met.keep(sympy.Ge(dim, 1), met.tracer.asked.refused)


def at_least(met: Elsewhere, symbol: Any) -> None:
    """Keeps the least size that torch takes of a name, where it refuses smaller ones that are allowed."""
    tracer, name = met.tracer, symbol.name
    hints, hint, first = tracer.asked.hints, tracer.asked.hints[name], lowest(met.tracer, name)
    near = range(first, min(first + NEARBY, hint))
    last = last_refused(met, name, near)
    if last is None:
        return
    low, high = last, hint
    while high - low > 1 and low >= first + NEARBY - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if met.broken({**hints, name: middle}) else (low, middle)
    if (beside := as_large_as(met, symbol, range(first, low + 1))) is not None:
        met.keep(sympy.Le(beside, symbol))
        return
    others = [s for s in met.symbols() if s is not symbol] if met.refuses_nothing else []
    refused = [size for size in near if size <= last and met.broken({**hints, name: size})] if others else []
    empty: list[Any] = [sympy.Eq(s, 0) for s in others if takes_nothing(met, s, name, refused)]
    met.keep(sympy.Or(sympy.Ge(symbol, low + 1), *empty), tracer.asked.refused)


def elsewhere(met: Elsewhere, symbols: Sequence[Any]) -> None:
    """Keeps what torch requires of dimensions that are computed of names, where these might agree by chance."""
    tracer, found = met.tracer, computed_dims(met)
    if not found or met.func._schema.name in KNOWN:
        return
    apart: dict[Any, int] = dict(tracer.others)
    for dim in found:
        apart[dim] = next_prime(max(apart.values()))
    if met.taken(apart) or equal_dims(met):
        return
    for point in islice(drawn_points(tracer.asked, [s.name for s in symbols], tracer.others), POINTS):
        if not met.taken({**tracer.others, **point}):
            tracer.others.update(point)
            relate(met)
            return


def equal_dims(met: Elsewhere) -> bool:
    """Keeps that computed dimensions of operands are equal, or the numbers that others are, where that explains what
    torch takes; False elsewhere."""
    given = met.taken, met.tracer, shapes_in(met.tracer, met.tensors)
    pairs = computed_alike(*given) or computed_numbers(*given)
    for one, two in pairs:
        if differ_somewhere(met.tracer.asked, one, two):
            met.tracer.asked.equal(one, two)
    return bool(pairs)


POINTS = 6
"""At how many other sizes an operator is run whose operands have computed dimensions that hang together."""


def computed_dims(met: Elsewhere) -> list[Any]:
    """The dimensions of operands that are computed of names."""
    shapes = shapes_in(met.tracer, met.tensors)
    return [d for d in dict.fromkeys(shapes) if type(d) is not int and not d.is_Symbol]


def at_least_in_all(met: Elsewhere, dim: Any, holes: bool = False) -> None:
    """Keeps the least size that torch takes of a dimension that is computed of names; with `holes` also where it takes
    a smaller one."""
    hints, known = met.tracer.asked.hints, met.tracer.asked.ranges
    first, top = max(dims.bounds(dim, known).lo, 0), met.tracer.asked.hint(dim)

    def refused(size: int) -> bool | None:
        points = list(islice(small_sizes(met.tracer, dim, size), SOME if holes else 1))
        return None if not points else not any(met.taken({**hints, **point}) for point in points)

    near = range(first, min(first + NEARBY, top) + 1)
    if holes and (broken := [size for size in near if size < top and refused(size)]):
        taken = [size for size in range(first, broken[-1]) if size not in broken and refused(size) is not None]
        met.keep(sympy.Or(sympy.Ge(dim, broken[-1] + 1), *(sympy.Eq(dim, n) for n in taken)))
        return
    least = next((size for size in near if refused(size) is not None), top)
    if not holes and least < top and refused(least):
        last = next((size for size in near if size > least and refused(size) is False), None)
        if last is not None:
            met.keep(sympy.Ge(dim, last))


def above_negative(met: Elsewhere, symbol: Any, symbols: Sequence[Any]) -> None:
    """Keeps how far below 0 torch takes a number: not at all, or down to the opposite of a size."""
    hints = met.tracer.asked.hints
    if met.broken({**hints, symbol.name: -1}) and hints[symbol.name] >= 0:
        met.keep(sympy.Ge(symbol, 0))
        return
    sizes: list[Any] = [*(s for s in symbols if s is not symbol), *numbers_in(met)]
    for size in sizes:
        at = size if type(size) is int else hints[size.name]
        if met.broken({**hints, symbol.name: -at - 1}) and not met.broken({**hints, symbol.name: -at}):
            met.keep(sympy.Ge(symbol, -size))
            return


def numbers_in(met: Elsewhere) -> list[int]:
    """The sizes of operands that do not vary."""
    return [d for d in dict.fromkeys(shapes_in(met.tracer, met.given)) if type(d) is int]


def in_order(met: Elsewhere, symbols: Sequence[Any]) -> None:
    """Keeps which of two sizes is the greater where torch refuses the opposite."""
    tracer = met.tracer
    turned = opposite_sizes(tracer.others, [s.name for s in symbols], met.allowed)
    if not met.broken(turned):
        return
    hints = tracer.asked.hints
    for i, one in enumerate(symbols):
        for two in symbols[i + 1 :]:
            less, more = (one, two) if hints[one.name] <= hints[two.name] else (two, one)
            low, high = sorted((turned[less.name], turned[more.name]))
            kept = {**turned, less.name: low, more.name: high}
            wrong = met.broken({**turned, less.name: high, more.name: low}) and not met.broken(kept)
            if wrong and order_matters(met, less, more, symbols, kept):
                keep_order(met, less, more, kept)
    for symbol in symbols if met.broken(turned) else ():
        met.fix(symbol)


def equal_sizes(met: Elsewhere, numbers: bool = False) -> bool:
    """Keeps the sizes that must be equal for torch to take an operator, or be `numbers`; False where that does not
    explain it."""
    tracer = met.tracer
    found = [(s, d) for s, d in candidates(tracer, met.given) if numbers or type(d) is not int]
    for some in (*([each] for each in found), symbols_alike(met.taken, tracer, found), found):
        sizes = dict(tracer.others)
        for symbol, other in some:
            sizes[symbol.name] = other if type(other) is int else number(other, sizes)
        if not met.taken(sizes):
            continue
        swaps = {} if stretches(met.func) else {s: o for s, o in some if is_symbol(o)}
        if swaps and not tracer.asked.assumed and all({s.name, o.name} <= tracer.named for s, o in swaps.items()):
            raise Alike(swaps, tracer.line())
        for symbol, other in some:
            tracer.asked.equal(symbol, other)
        tracer.others.update(sizes)
        return True
    return False


def compare(met: Elsewhere, told: Any, sizes: Sizes) -> None:
    """Raises LoweringError where torch gives other sizes than the types of the results say."""
    tracer = met.tracer
    twins = list(told) if isinstance(told, tuple | list) else [told]
    for value, twin in zip(met.results, twins, strict=False):
        if not isinstance(value, Value) or not isinstance(twin, torch.Tensor) or not isinstance(value.type, Tensor):
            continue
        pairs = zip(value.shape, twin.shape, strict=True)
        for d, size in sorted(pairs, key=lambda pair: not is_symbol(pair[0])):  # what tells a symbol alone comes first
            new = [s for s in dims.symbols_of(d) if s.name in tracer.loose]
            for symbol in new:
                tracer.loose.discard(symbol.name)
                if len(new) == 1:
                    tracer.others[symbol.name] = symbol_value(d, symbol, size, sizes)
            if not new and number(d, sizes) != size:
                raise LoweringError(
                    f"{met.func} gives {d} elements along a dimension of the example, and {size} where that is "
                    f"{number(d, sizes)}",
                    source=tracer.line(), hint="use capture='torch.export'",
                )  # fmt: skip
