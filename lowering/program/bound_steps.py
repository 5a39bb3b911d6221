"""A step of a bound program over what an earlier one kept, as rows: what can be settled once is not asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from irkit.contract.flat_sizes import FlatSizes, Sizes
from irkit.core.types import Tensor
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

Given = Callable[[Mapping[str, Any], Kept], "tuple[Any, Mapping[str, int]] | None"]
"""(inputs, sizes) for named arguments beside what is kept; None for what needs a closer look: it is not allowed,
or not plain."""


@attrs.frozen(eq=False)
class Row:
    """An input of a step: its place among what is kept (-1 for none), the argument that it is ("" for a buffer that the
    model writes), whether torch's memory is taken as it is, whether its sizes are looked at, and its rank."""

    entry: Entry
    place: int
    argument: str
    is_plain: bool
    is_read: bool
    rank: int


@attrs.frozen(eq=False)
class Step:
    """What takes the arguments of a step. `constants` are arguments that were numbers or None at capture, with whether
    each may be left out; `known` are the dimensions, of the shapes that are read."""

    rows: Sequence[Row]
    constants: Sequence[tuple[str, Any, bool]]
    known: Sizes
    state: Mapping[str, torch.Tensor]

    def function(self) -> Given:
        """One function of Python, made of the rows.

        After a run of the session the processor's caches hold other memory, so that each object that is touched and
        each function that is called takes ten times as long as else: what rows say stands in the source, and a tensor
        is asked each thing once, integers not of sign bits and gradients, which they do not have."""
        known: dict[str, Any] = {
            "MISSING": MISSING, "PLAIN": PLAIN, "held_values": held_values, "same_scalar": same_scalar,
            "to_dlpack": to_dlpack, "put_other": put_other, "tensor_held": tensor_held, "strided": torch.strided,
            "known": self.known, "state": self.state,
        }  # fmt: skip
        known |= {f"constant_{i}": value for i, (_, value, _) in enumerate(self.constants)}
        known |= {f"entry_{i}": row.entry for i, row in enumerate(self.rows)}
        known |= {f"dtype_{i}": row.entry.given for i, row in enumerate(self.rows)}
        made: dict[str, Any] = {}
        exec(compile(self.source, "<step>", "exec"), known, made)
        return made["given"]

    @property
    def source(self) -> str:
        """The source of that function. Names of arguments stand in it as texts only."""
        named = len({row.argument for row in self.rows if row.argument})
        lines = [
            "get, count, vector = kwargs.get, len(kwargs), held_values()",
            "push, held, places = vector.push_back, kept.held, kept.way.places",
        ]
        for i, (name, _, is_none) in enumerate(self.constants):
            lines += [f"given = get({name!r}, MISSING)"]
            # True is no 1, and the very object is the same constant
            differs = f"given is not constant_{i} and not same_scalar(given, constant_{i})"
            if is_none:
                lines += ["if given is MISSING: count += 1", f"elif {differs}: return None"]
            else:
                lines += [f"if {differs}: return None"]
        lines += [f"if count != {named + len(self.constants)}: return None"]
        for i, row in enumerate(self.rows):
            lines += source_of(i, row)
        shapes = ", ".join(f"shape_{i}" if row.place < 0 or row.is_read else "()" for i, row in enumerate(self.rows))
        lines += [f"sizes = known(({shapes},), {{}})", "return None if sizes is None else (vector, sizes)"]
        body = "\n".join(f"    {line}" for line in lines)
        return f"def given(kwargs, kept):\n{body}\n"


def source_of(i: int, row: Row) -> Iterator[str]:
    """What puts an input among those of a run, and names its shape."""
    if row.place >= 0:
        yield f"value = held[places[{row.place}]]"
        yield "push(value)"
        if row.is_read:
            yield f"shape_{i} = value.shape()"
        if row.entry.is_places:
            yield f"if not entry_{i}.takes(tensor_held(value)): return None"
        return
    yield f"given = get({row.argument!r})" if row.argument else f"given = state[{row.entry.name!r}]"
    other = f"shape_{i} = put_other(entry_{i}, given, vector)"
    if row.argument and row.is_plain:
        asked = ["type(given) in PLAIN", f"given.dtype is dtype_{i}", "given.layout is strided"]
        asked += ["given.is_cpu", "given.is_contiguous()"]
        asked += [] if row.entry.given in WHOLE else ["not given.is_neg()", "not given.requires_grad"]
        asked += [f"0 not in (shape_{i} := given.shape)"]
        if row.entry.is_places:
            one = (1,) * row.rank
            asked += [f"(given if shape_{i} == {one!r} else given.min()).item() >= 0"]
        yield f"if {' and '.join(asked)}: push(to_dlpack(given), False)"
        yield "else:"
        yield f"    {other}"
        yield f"    if shape_{i} is None: return None"
    else:
        yield other
        yield f"if shape_{i} is None: return None"


def put_other(entry: Entry, given: Any, vector: Any) -> Any:
    """Appends an argument, or a buffer that is written, to the inputs of a run -> its shape; None for what needs a
    closer look."""
    tensor = given if entry.leaf < 0 else tensor_crossing(entry, given)
    if tensor is None or not entry.takes(tensor):
        return None
    put(vector, tensor)
    return tensor.shape


def step_of(
    program: Program,
    entries: Sequence[Entry],
    arguments: Sequence[Argument],
    following: Mapping[str, int],
    sizes: FlatSizes | None,
    state: Mapping[str, torch.Tensor],
) -> Given | None:
    """What takes the arguments of a step of a program; None where an argument that is not kept has several leaves or is
    a number that varies."""
    others = [argument for argument in arguments if not argument.is_kept]
    if sizes is None or any(a.opener is not take_leaf for a in others) or any(e.is_number for e in entries):
        return None
    twins, baked = twins_of(program, following), program.lowered.captured.scalars
    order = {name: at for at, name in enumerate(following)}
    owner = {argument.leaves[0]: argument.name for argument in others}
    rows = [
        Row(
            entry,
            order.get(entry.name, -1),
            owner.get(entry.name, "") if entry.leaf >= 0 else "",
            entry.given is entry.taken and entry.given in SHARED and not entry.is_complex,
            entry.name not in twins,
            len(param.type.shape) if isinstance(param.type, Tensor) else 0,
        )
        for entry, param in zip(entries, program.ready.params, strict=True)
    ]
    if any(row.place < 0 and row.entry.leaf >= 0 and not row.argument for row in rows):
        return None
    constants = [(each.name, baked[each.leaves[0]], each.is_none) for each in others if each.leaves[0] in baked]
    return Step(rows, constants, sizes_without(sizes, entries, twins).sizes, state).function()


@attrs.frozen(eq=False)
class Shown:
    """What a call gives, of the results of the session: `leaves` with the constants among them; for those leaves that
    are tensors in the memory of an output their place and the output, `shared`, and for others place, kind, result."""

    leaves: list[Any]
    shared: Sequence[tuple[int, int]]
    places: Sequence[tuple[int, str, Exit]]

    @classmethod
    def of(cls, outputs: Sequence[tuple[str, Any]], exits: Sequence[Exit], left_out: frozenset[int]) -> Shown:
        """Those of a program, without what is left out, in whose place is None."""
        leaves = [what if kind == "constant" else None for kind, what in outputs]
        places = [
            (i, kind, exits[what]) for i, (kind, what) in enumerate(outputs) if kind != "constant" and i not in left_out
        ]
        shared = [(i, exit_.output) for i, kind, exit_ in places if kind == "result" and is_shared(exit_)]
        seen = dict(shared)
        return cls(leaves, shared, [place for place in places if place[0] not in seen])

    def held(self, found: Any, given: Any) -> list[Any]:
        """The leaves, of what a run found and was given."""
        leaves = self.leaves.copy()
        for i, output in self.shared:
            leaves[i] = from_capsule(found.dlpack_at(output))
        for i, kind, exit_ in self.places:
            leaves[i] = leaf_held(kind, exit_, value_at(exit_, found, given))
        return leaves


def is_shared(exit_: Exit) -> bool:
    """Whether a result is a tensor in the memory of ONNX Runtime as it lies there."""
    return exit_.output >= 0 and exit_.given is exit_.dtype and exit_.given in SHARED and not exit_.is_complex


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
