"""Mutation as values: a store maps each written storage to its current content, a view is a lens on it.

torch's in-place operators write through views. Here a storage that some node writes has one value, the content of its
*base*; a view of it is read by applying the chain of view operators to that value, and written by putting a new value
back through the chain. Nothing is overwritten: a write gives the store a new value under the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
import torch
from torch.fx import Node

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value
from lowering.records.torch_internals import OpOverload
from lowering.tensors.complex_pairs import from_real, pair, parts, to_real
from lowering.tensors.shaping import place_of, replace_slice, reshape, slice_bounds

Get = Callable[[Value], Value]
Put = Callable[[Value, Value], Value]


@attrs.frozen(eq=False)
class Lens:
    """One view operator as a pair of functions: `get` takes the view out of a base, `put` gives the base with that view
    replaced.

    `repeats` is true where the view may show one element of the base several times. Then `put` is right only if all of
    these are given the same content.
    """

    get: Get
    put: Put
    repeats: bool = False


@attrs.frozen(eq=False)
class Location:
    """Where a node's tensor lives: the base of its storage, and the lenses that lead from the base to the view."""

    base: Node
    lenses: tuple[Lens, ...] = ()

    def read(self, content: Value) -> Value:
        """The view's content, out of the base's."""
        for lens in self.lenses:
            content = lens.get(content)
        return content

    def write(self, content: Value, new: Value) -> Value:
        """The base's content after the view was given the content `new`."""
        lenses = without_repeats(self.lenses)
        levels = [content]
        for lens in lenses[:-1]:
            levels.append(lens.get(levels[-1]))
        for lens, outer in zip(reversed(lenses), reversed(levels), strict=False):
            new = lens.put(outer, new)
        return new


def without_repeats(lenses: tuple[Lens, ...]) -> tuple[Lens, ...]:
    """The same lenses, with all from the first one that repeats elements joined into one.

    In `x.unfold(0, 3, 1)[0] = y` only the elements that the last view shows are written, not all that the windows show;
    one lens for both views writes just these. Views of bits, and of the parts of complex numbers, show no positions of
    their base, and stay as they are.
    """
    first = next((i for i, lens in enumerate(lenses) if lens.repeats), len(lenses))
    apart = (put_bits, *OF_PARTS.values())
    last = next((i for i, lens in enumerate(lenses) if i > first and lens.put in apart), len(lenses))
    if last - first < 2:
        return lenses

    def get(base: Value) -> Value:
        for lens in lenses[first:last]:
            base = lens.get(base)
        return base

    return (*lenses[:first], by_position(get), *lenses[last:])


# ---------------------------------------------------------------------------------------------- what FX says


@lru_cache(maxsize=1 << 12)
def reshapes_in_place(target: Any) -> bool:
    """True for `squeeze_`, `t_` and their like: they write no element, and are the views that they are named after."""
    if not isinstance(target, OpOverload) or torch.Tag.inplace_view not in target.tags:
        return False
    return target._schema.name.partition("::")[2] not in ("resize_", "resize_as_", "set_", "rename_")


OBSERVERS = frozenset((torch.ops.aten.fused_moving_avg_obs_fake_quant.default,))
"""Operators that write ranges only where their observer is on, which their converter refuses."""


@lru_cache(maxsize=1 << 12)
def written_arguments(target: Any) -> tuple[tuple[int, str], ...]:
    """(position, name) of every argument that an operator writes, by its schema."""
    if not isinstance(target, OpOverload) or reshapes_in_place(target) or target in OBSERVERS:
        return ()
    return tuple(
        (i, a.name)
        for i, a in enumerate(target._schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    )


_NORMS = frozenset((torch.ops.aten.batch_norm.default, torch.ops.aten.instance_norm.default))


def silent_writes(node: Node) -> tuple[Node, ...]:
    """The running statistics that a batch or instance norm updates in training mode, which its schema does not say."""
    if node.target not in _NORMS or node.args[5] is not True:
        return ()
    return tuple(n for n in node.args[3:5] if isinstance(n, Node))


def written_nodes(node: Node) -> tuple[Node, ...]:
    """The nodes whose tensors this node writes."""
    found: list[Node] = list(silent_writes(node))
    for position, name in written_arguments(node.target):
        argument = node.args[position] if position < len(node.args) else node.kwargs.get(name)
        for part in argument if isinstance(argument, list | tuple) else (argument,):
            if isinstance(part, Node):
                found.append(part)
    return tuple(found)


def storage_of(node: Node) -> Any:
    """What identifies the memory behind a node's recorded tensor; None where it has none.

    A dropout outside of training has that of what it is given, and so have the views of it.
    """
    found = recorded_storage(node.meta.get("val"))
    while found is not None and node.args and isinstance(node.args[0], Node):
        before = node.args[0]
        shown = before.meta.get("val")
        given = recorded_storage(shown[0] if isinstance(shown, tuple | list) and shown else shown)
        if returns_its_own(node):
            found = given
        elif given != found:
            break
        node = before
    return found


def recorded_storage(recorded: Any) -> Any:
    """The memory of a tensor that torch.export recorded."""
    if not isinstance(recorded, torch.Tensor) or recorded.layout is not torch.strided:
        return None
    return recorded.untyped_storage()._cdata


def returns_its_own(node: Node) -> bool:
    """Whether a node is a dropout outside of training, which in eager gives back the very tensor that it is given, and
    which torch.export records as a new one."""
    return node.target in _DROPOUTS and len(node.args) > 2 and node.args[2] is False


_DROPOUTS = frozenset(
    getattr(torch.ops.aten, name).default
    for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
)


def written_storages(nodes: Iterable[Node]) -> Mapping[Any, Node]:
    """Each storage that some of the nodes write, with its base: the first node that lives in it."""
    every = tuple(nodes)
    written = {storage_of(n) for node in every for n in written_nodes(node)} - {None}
    bases: dict[Any, Node] = {}
    if written:
        for node in every:
            storage = storage_of(node)
            if storage in written and storage not in bases:
                bases[storage] = node
    return bases


# ---------------------------------------------------------------------------------------------- lenses


def lens_of(target: Any, get: Get, args: tuple[Any, ...], grows: bool = False) -> Lens:
    """The lens of a view operator whose converter, applied to its other arguments, is `get`.

    Slices, selections and permutations have a `put` of their own; every other view has one that follows positions.
    `grows` says that the view has more elements than what it is a view of.
    """
    name = target._schema.name.removeprefix("aten::") if hasattr(target, "_schema") else ""
    if target is torch.ops.aten.view.dtype:
        return Lens(get, put_bits)
    if name in OF_PARTS:
        return Lens(get, OF_PARTS[name])
    if name in _RESHAPES and not grows:
        return Lens(get, in_parts(lambda base, new: reshape(new, base.shape)))
    if name in ("slice", "select", "transpose", "permute", "t", "numpy_T", "mT"):
        return Lens(get, in_parts(_PUTS[name](args, get)))
    return by_position(get)


def by_position(get: Get) -> Lens:
    """The lens of any view at all. It may repeat elements."""
    return Lens(get, in_parts(lambda base, new: put_by_position(base, new, get)), repeats=True)


def put_bits(base: Value, new: Value) -> Value:
    """The base, from its bits that are read as elements of another type."""
    return new if new.dtype is base.dtype else op.BitCast(new, to=int(base.dtype))


def in_parts(put: Put) -> Put:
    """The same `put` for complex tensors: the real and the imaginary part are put back one after the other."""

    def both(base: Value, new: Value) -> Value:
        if not base.dtype.is_complex:
            return put(base, new)
        halves = zip(parts(base), parts(new), strict=True)
        return pair(*(put(old, content) for old, content in halves))

    return both


def put_real(base: Value, new: Value) -> Value:
    """The base with its real part replaced; all of it where it is real itself."""
    return pair(new, parts(base)[1]) if base.dtype.is_complex else new


def conjugate(new: Value) -> Value:
    """real - i * imag; a real tensor as it is."""
    if not new.dtype.is_complex:
        return new
    real, imaginary = parts(new)
    return pair(real, op.Neg(imaginary))


OF_PARTS: Mapping[str, Put] = {
    "real": put_real, "imag": lambda base, new: pair(parts(base)[0], new),
    "view_as_real": lambda base, new: from_real(new), "view_as_complex": lambda base, new: to_real(new),
    "_conj": lambda base, new: conjugate(new), "conj": lambda base, new: conjugate(new),
    "_neg_view": in_parts(lambda base, new: op.Neg(new)),
}  # fmt: skip
"""How what is put into one of these views of a complex tensor, or of its parts, becomes the content of its base."""


_RESHAPES = frozenset(
    "view reshape _unsafe_view unsqueeze squeeze flatten unflatten view_as reshape_as alias detach "
    "contiguous expand expand_as to _to_copy lift_fresh ravel view_copy".split()
)
EXPANSIONS = frozenset(("aten::expand", "aten::expand_as"))
SAME = frozenset(
    f"aten::{name}"
    for name in "alias detach contiguous lift_fresh to type_as dropout alpha_dropout feature_dropout "
    "feature_alpha_dropout".split()
)
"""Operators that return the very tensor they were given, where they return its memory."""


def put_slice(args: tuple[Any, ...], get: Get) -> Put:
    """The base with base[start:end:step] along one dimension replaced."""
    given: tuple[Any, ...] = (*args, *(0, None, None, 1)[len(args) :])
    dim, start, end, step = given

    def put(base: Value, new: Value) -> Value:
        axis = dim % base.rank
        if step != 1:
            return put_by_position(base, new, get)
        return replace_slice(base, new, axis, *slice_bounds(start, end, base.shape[axis]))

    return put


def put_select(args: tuple[Any, ...], get: Get) -> Put:
    """The base with base[index] along one dimension replaced."""
    dim, index = args

    def put(base: Value, new: Value) -> Value:
        axis = dim % base.rank
        at = place_of(index, base.shape[axis])
        return replace_slice(base, op.Unsqueeze(new, [axis]), axis, at, dims.add(at, 1))

    return put


def put_transpose(args: tuple[Any, ...], get: Get) -> Put:
    """The base from its transpose."""

    def put(base: Value, new: Value) -> Value:
        first, second = args if args else (base.rank - 2, base.rank - 1)
        order = list(range(base.rank))
        if base.rank >= 2:
            order[first % base.rank], order[second % base.rank] = order[second % base.rank], order[first % base.rank]
        return op.Transpose(new, perm=order)

    return put


def put_permute(args: tuple[Any, ...], get: Get) -> Put:
    """The base from its permutation."""

    def put(base: Value, new: Value) -> Value:
        order = [d % base.rank for d in args[0]] if args else list(reversed(range(base.rank)))
        return op.Transpose(new, perm=[int(i) for i in np.argsort(order)])

    return put


_PUTS: Mapping[str, Callable[[tuple[Any, ...], Get], Put]] = {
    "slice": put_slice, "select": put_select, "transpose": put_transpose, "permute": put_permute,
    "t": put_transpose, "mT": put_transpose, "numpy_T": put_permute,
}  # fmt: skip


def put_by_position(base: Value, new: Value, get: Get) -> Value:
    """The base with a view replaced, for any view operator. To find the positions that the view shows, the same view is
    taken of the numbers 0, 1, 2, ... in the shape of the base."""
    count = dims.product(base.shape)
    numbers = (
        const(np.arange(count, dtype=np.int64))
        if type(count) is int
        else op.Range(const(0), op.Squeeze(shape_vector((count,)), [0]), const(1))
    )
    positions = get(reshape(numbers, base.shape))
    flat = op.ScatterElements(op.Reshape(base, [-1]), op.Reshape(positions, [-1]), op.Reshape(new, [-1]), axis=0)
    return reshape(flat, base.shape)
