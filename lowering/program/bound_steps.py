"""A step of a bound program over what an earlier one kept, as rows: what can be settled once is not asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from irkit.contract.flat_sizes import FlatSizes, Sizes
from irkit.onnx.bound_runs import held_values
from lowering.program.arguments import same_scalar
from lowering.program.bound_parts import (
    PLAIN,
    SHARED,
    Argument,
    Entry,
    Exit,
    Kept,
    put,
    sizes_without,
    tensor_crossing,
    tensor_held,
    twins_of,
)
from lowering.records.flat_structures import take_leaf
from lowering.records.torch_internals import from_capsule, to_dlpack
from lowering.records.types import from_pairs

if TYPE_CHECKING:
    from lowering.program.program import Program

MISSING = object()
"""In the place of an argument that is not given."""


WHOLE = frozenset(dtype for dtype in SHARED if not dtype.is_floating_point and not dtype.is_complex)
"""Element types of integers that cross as they are."""

Row = tuple[int, int, str, "torch.dtype | None", bool, Entry]
"""An input of a step: its number, its place among what is kept (-1 for none), the argument that it is ("" for a buffer
that the model writes), its element type where torch's memory is taken as it is (None for what is not), and whether its
sizes are looked at."""


@attrs.frozen(eq=False)
class Step:
    """What takes the arguments of a step. `constants` are arguments that were numbers or None at capture, with whether
    each may be left out; `known` are the dimensions, of the shapes that are read."""

    rows: Sequence[Row]
    constants: Sequence[tuple[str, Any, bool]]
    shapes: Sequence[tuple[int, ...]]
    known: Sizes
    state: Mapping[str, torch.Tensor]

    def given(self, kwargs: Mapping[str, Any], kept: Kept) -> tuple[Any, Mapping[str, int]] | None:
        """(inputs, sizes) for named arguments beside what is kept; None for what needs a closer look, because it is not
        allowed, or not plain.

        After a run of the session the processor's caches hold other memory, so that what is asked of a tensor takes ten
        times as long as else: it is asked once, and integers not of sign bits and gradients, which they do not have."""
        get, seen = kwargs.get, 0
        for name, value, is_none in self.constants:
            given = get(name, MISSING)
            if given is MISSING:
                if not is_none:
                    return None
                continue
            # True is no 1, and the very object is the same constant
            if given is not value and not same_scalar(given, value):
                return None
            seen += 1
        shapes, vector, held, places = list(self.shapes), held_values(), kept.held, kept.places
        push = vector.push_back
        for i, at, name, plain, is_read, entry in self.rows:
            if at >= 0:
                value = held[places[at]]
                push(value)
                if is_read:
                    shapes[i] = value.shape()
                continue
            given: Any = get(name) if name else None
            seen += bool(name)
            if (
                plain is not None
                and type(given) in PLAIN
                and given.dtype is plain
                and given.layout is torch.strided
                and given.is_cpu
                and given.is_contiguous()
                and (plain in WHOLE or not (given.is_neg() or given.requires_grad))
                and 0 not in (shape := given.shape)
                and (not entry.is_places or entry.takes(given))
            ):
                shapes[i] = shape
                push(to_dlpack(given), False)
                continue
            tensor = tensor_crossing(entry, given) if name else self.state[entry.name]
            if tensor is None or not entry.takes(tensor):
                return None
            put(vector, tensor)
            shapes[i] = tensor.shape
        if seen != len(kwargs):
            return None
        sizes = self.known(shapes, {})
        return None if sizes is None else (vector, sizes)


def step_of(
    program: Program,
    entries: Sequence[Entry],
    arguments: Sequence[Argument],
    following: Mapping[str, int],
    sizes: FlatSizes | None,
    state: Mapping[str, torch.Tensor],
) -> Step | None:
    """The step of a program; None where an argument that is not kept has several leaves, or is a number that varies."""
    others = [argument for argument in arguments if not argument.is_kept]
    if sizes is None or any(a.opener is not take_leaf for a in others) or any(e.is_number for e in entries):
        return None
    twins, baked = twins_of(program, following), program.lowered.captured.scalars
    order = {name: at for at, name in enumerate(following)}
    owner = {argument.leaves[0]: argument.name for argument in others}
    rows = [
        (
            i,
            order.get(entry.name, -1),
            owner.get(entry.name, "") if entry.leaf >= 0 else "",
            entry.given if entry.given is entry.taken and entry.given in SHARED and not entry.is_complex else None,
            entry.name not in twins,
            entry,
        )
        for i, entry in enumerate(entries)
    ]
    if any(at < 0 and entry.leaf >= 0 and not name for _, at, name, _, _, entry in rows):
        return None
    constants = [(each.name, baked[each.leaves[0]], each.is_none) for each in others if each.leaves[0] in baked]
    return Step(rows, constants, [()] * len(rows), sizes_without(sizes, entries, twins).sizes, state)


@attrs.frozen(eq=False)
class Shown:
    """What a call gives, of the results of the session: `leaves` with the constants among them, and for each other leaf
    its place, which output it is in whose memory a tensor is made (-1 for what is not so), its kind, and the result."""

    leaves: list[Any]
    places: Sequence[tuple[int, int, str, Exit]]

    @classmethod
    def of(cls, outputs: Sequence[tuple[str, Any]], exits: Sequence[Exit], left_out: frozenset[int]) -> Shown:
        """Those of a program, without what is left out, in whose place is None."""
        leaves = [what if kind == "constant" else None for kind, what in outputs]
        places = [
            (i, exits[what].output if kind == "result" and is_shared(exits[what]) else -1, kind, exits[what])
            for i, (kind, what) in enumerate(outputs)
            if kind != "constant" and i not in left_out
        ]
        return cls(leaves, places)

    def held(self, found: Any, given: Any) -> list[Any]:
        """The leaves, of what a run found and was given."""
        leaves = self.leaves.copy()
        for i, output, kind, exit_ in self.places:
            if output >= 0:
                leaves[i] = from_capsule(found.dlpack_at(output))
            else:
                leaves[i] = leaf_held(kind, exit_, value_at(exit_, found, given))
        return leaves


def is_shared(exit_: Exit) -> bool:
    """Whether a result is a tensor in the memory of ONNX Runtime as it lies there."""
    return exit_.given is exit_.dtype and exit_.given in SHARED and not exit_.is_complex


def value_at(exit_: Exit, found: Any, given: Any) -> Any:
    """A result as ONNX Runtime holds it; None for one that was not asked for."""
    if exit_.output >= 0:
        return found[exit_.output]
    return given[exit_.unchanged] if exit_.unchanged >= 0 else None


def leaf_held(kind: str, exit_: Exit, value: Any) -> Any:
    """A leaf of the result, of a value that ONNX Runtime holds."""
    made = tensor_held(value, exit_.given)
    if kind == "number":
        return made.item()
    if exit_.is_complex:
        return from_pairs(made)
    return made if made.dtype is exit_.dtype else made.to(exit_.dtype)
