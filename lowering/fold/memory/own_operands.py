"""Operators that read the very tensor that they write: some read all before they write, others refuse it, or find what
they have written. Only their kernels tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.fx.node import map_arg

from lowering.capture.guards.guards import over_sizes
from lowering.errors import LoweringError
from lowering.fold.memory import overlap, storage
from lowering.fold.memory.apart import hint_of
from lowering.fold.memory.on_cpu import laid_out, sizes_in_small, tensors_in, with_numbers, zeros_like
from lowering.records.source_lines import source_of

IN_PLACE = frozenset(f"aten::{name}" for name in "copy_ masked_fill_ where lt_ le_ gt_ ge_ eq_ ne_".split())
"""Operators that take each element by itself, beside those of which torch says so."""


def takes_elements_alone(func: Any) -> bool:
    """Whether an operator makes each element of those at the same place, so that it may be one of these."""
    name = func._schema.name
    alone = torch.Tag.pointwise in func.tags or name in overlap.FILLS or name in IN_PLACE
    return alone or name.startswith(("aten::_foreach", "aten::_fused", "aten::_amp_foreach"))


def hangs_on_its_writes(
    func: Any,
    args: Sequence[Any],
    named: Mapping[str, Any],
    places: Sequence[tuple[int, str]],
    own: Callable[..., bool],
) -> bool:
    """Whether a kernel of a CPU refuses a tensor among the operands of an operator that writes it, or finds there what
    it has written: `places` are those of what it writes, `own` tells a tensor that is one with it. The arguments are on
    the meta device."""
    given = list(tensors_in((args, tuple(named.values()))))
    for sizes in sizes_asked(given):
        apart = made_of_numbers(func, args, named, places, own, sizes, True)
        if isinstance(apart, Exception):
            continue
        alike = made_of_numbers(func, args, named, places, own, sizes, False)
        if isinstance(alike, Exception):
            return True
        pairs = zip(alike, apart, strict=True)
        if not all(torch.allclose(one, other, equal_nan=True) for one, other in pairs):
            return True
    return False


def sizes_asked(given: Sequence[torch.Tensor]) -> Iterator[Mapping[int, int]]:
    """The sizes at which a kernel is asked, by those of its operands: few may not tell."""
    small = sizes_in_small(given)
    yield small
    yield {size: 2 * place + 1 if place > 1 else place for size, place in small.items()}
    if sum(each.numel() for each in given) <= MOST:
        yield {size: size for size in small}


MOST = 1 << 12
"""How many elements operands have together that are asked of as they are."""


def made_of_numbers(
    func: Any,
    args: Sequence[Any],
    named: Mapping[str, Any],
    places: Sequence[tuple[int, str]],
    own: Callable[..., bool],
    sizes: Mapping[int, int],
    apart: bool,
) -> list[torch.Tensor] | Exception:
    """What an operator leaves in what it writes, of numbers that are drawn, with its own operands being what it writes,
    or copies of it; the error where it refuses them."""
    written: list[torch.Tensor] = []
    mine: list[torch.Tensor] = []
    random = torch.Generator().manual_seed(0)

    def numbers(x: torch.Tensor) -> torch.Tensor:
        return drawn_like(x, sizes, random)

    def target(x: torch.Tensor) -> torch.Tensor:
        written.append(mine[0] if own(x) and mine else numbers(x))
        if own(x):
            mine.append(written[-1])
        return written[-1]

    def operand(x: torch.Tensor) -> torch.Tensor:
        if not own(x):
            return numbers(x)
        return mine[0].clone() if apart else mine[0]

    names = {name for _, name in places}
    held = {name: with_numbers(each, target) for name, each in named.items() if name in names}
    at = {place: with_numbers(args[place], target) for place, _ in places if place < len(args)}
    if not mine:
        return []
    positional = [at[place] if place in at else with_numbers(each, operand) for place, each in enumerate(args)]
    rest = {name: held[name] if name in held else with_numbers(each, operand) for name, each in named.items()}
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            func(*positional, **rest)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return error
    return written


def drawn_like(x: torch.Tensor, sizes: Mapping[int, int], random: torch.Generator) -> torch.Tensor:
    """Numbers of other sizes that lie in the order of a tensor; zeros for whole ones, which may be places."""
    made = zeros_like(laid_out(x, [sizes[size] for size in x.shape]))
    if made.is_floating_point() or made.is_complex():
        made.copy_(torch.randn(made.shape, generator=random))
    elif made.dtype is torch.bool:
        made.copy_(torch.rand(made.shape, generator=random) < 0.5)
    return made


def refuses_types(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a kernel of a CPU refuses to write its result to what is of another element type."""
    given, random = list(tensors_in((args, tuple(named.values())))), torch.Generator().manual_seed(0)
    sizes = {size: size for each in given for size in each.shape}
    if sum(each.numel() for each in given) > MOST:
        sizes = sizes_in_small(given)
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            rest = {name: with_numbers(each, lambda x: drawn_like(x, sizes, random)) for name, each in named.items()}
            func(*[with_numbers(each, lambda x: drawn_like(x, sizes, random)) for each in args], **rest)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return any(word in str(error) for word in ("dtype", "scalar type", "be cast"))
    return False


# ---------------------------------------------------------------------------------------------- of FX nodes


def refuse_other_types(node: Node) -> None:
    """Raises LoweringError for a node whose result a kernel refuses to write to what is of another element type."""
    operator: Any = node.target
    shown = shown_on_meta(node)
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: number(shown[each]))
    if refuses_types(operator, args, kwargs):
        raise LoweringError(
            f"eager refuses to write the result of {operator} to a tensor of another element type",
            source=source_of(node),
            hint="give out= a tensor of the result's type",
        )


def shown_on_meta(node: Node) -> dict[Node, Any]:
    """What was recorded for the operands of a node, on the meta device at the example's sizes."""
    shown: dict[Node, Any] = {}
    for each in node.all_input_nodes:
        recorded = each.meta.get("val")
        shown[each] = overlap.laid_out([each], False)[0] if isinstance(recorded, torch.Tensor) else recorded
    return shown


def refuse_own_operands(node: Node, target: Node) -> None:
    """Raises LoweringError for a node that takes the tensor that it writes among its operands, where a kernel refuses
    it or finds there what it has written."""
    operator: Any = node.target
    memory = storage.storage_of(target)
    if takes_elements_alone(operator) or sum(storage.storage_of(each) == memory for each in operands_of(node)) < 2:
        return
    shown = shown_on_meta(node)
    written = shown[target]
    own = {
        id(shown[each])
        for each in node.all_input_nodes
        if storage.storage_of(each) == memory and overlap.same_elements(shown[each], written)
    }
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: number(shown[each]))
    if sum(id(each) in own for each in tensors_in((args, tuple(kwargs.values())))) > 1 and hangs_on_its_writes(
        operator, args, kwargs, storage.written_arguments(operator), lambda x: id(x) in own
    ):
        raise LoweringError(
            f"{operator} writes {target.name}, which is among its operands: torch refuses that, or reads it after it "
            "has written it",
            source=source_of(node),
            hint="clone() it among the operands",
        )


def operands_of(node: Node) -> list[Node]:
    """The nodes among the arguments of a node, each as often as it stands there."""
    found: list[Node] = []
    map_arg((node.args, node.kwargs), lambda each: found.append(each))
    return found


def number(given: Any) -> Any:
    """A size that was recorded as the number that it was; anything else as it is."""
    return given.node.hint if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool) else given


def reads_apart(node: Node, target: Node) -> Iterator[Any]:
    """The conditions, in torch's symbols, under which a node reads no element that it writes at another place: at the
    sizes of the example, and where all are large, it does not, and of small ones those are left out at which it does.

    Raises LoweringError where these are many.
    """
    writing: Any = node.target
    memory = storage.storage_of(target)
    others = {each for each in node.all_input_nodes if each is not target and storage.storage_of(each) == memory}
    reads = [each for each in others if not overlap.copies_one(writing, each.meta["val"].shape)]
    hints = hints_of_layouts((target, *reads)) if reads and memory is not None else {}
    if writing._schema.name in overlap.FILLS or not hints:
        return
    found = [each for each in small_sizes(hints) if moves_at(target, reads, each)]
    if len(found) > MANY:
        raise LoweringError(
            f"{writing} writes {target.name}, which it reads at another place at many sizes",
            source=source_of(node),
            hint="clone() what is read before the write",
        )
    for sizes in found:
        yield sympy.Or(*(sympy.Ne(over_sizes(symbol), size) for symbol, size in sizes.items()))


MANY = 8
"""More sizes are not left out one by one."""
SMALL = 12
"""Below which sizes are tried."""


def small_sizes(hints: Mapping[Any, int]) -> Iterator[dict[Any, int]]:
    """Small sizes, one symbol or two at a time, with the others as in the example."""
    single = [{symbol: size} for symbol in hints for size in range(2, SMALL) if size != hints[symbol]]
    yield from ({**hints, **each} for each in single)
    if len(hints) > 1:
        pairs = combinations(hints, 2)
        yield from (
            {**hints, one: a, other: b}
            for one, other in pairs
            for a, b in product(range(2, SMALL // 2), repeat=2)
            if a != hints[one] and b != hints[other]
        )


def hints_of_layouts(nodes: Iterable[Node]) -> dict[Any, int]:
    """The numbers of the example for the symbols that tell how tensors lie."""
    kept = [each.meta["val"] for each in nodes]
    sizes = [n for x in kept for n in (*x.shape, *x.stride(), x.storage_offset()) if isinstance(n, torch.SymInt)]
    return {s: hint_of(n, s) for n in sizes for s in sorted(n.node.expr.free_symbols, key=str)}


def moves_at(target: Node, reads: Sequence[Node], sizes: Mapping[Any, int]) -> bool:
    """Whether some of the tensors that are read has elements of what is written, at other places, at these sizes."""
    written, *read = overlap.laid_out([target, *reads], False, sizes)
    return any(
        each.numel() > 0 and not overlap.same_elements(each, written) and overlap.share_elements(each, written)
        for each in read
    )
