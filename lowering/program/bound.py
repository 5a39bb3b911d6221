"""A program made ready for many calls: arguments are checked by rows that were laid out once, and nothing is copied."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from irkit.contract.flat_sizes import FlatSizes
from irkit.contract.sizes import check_sizes, sizes_after
from irkit.errors import ContractError, IrkitError
from irkit.onnx.bound_runs import BoundRun, array_held, held_values
from lowering.fold.scope import Check
from lowering.program.arguments import same_scalar, sequence_of
from lowering.program.bound_parts import (
    Argument,
    Entry,
    Exit,
    Keeping,
    Kept,
    arguments_of,
    entries_of,
    exits_of,
    is_written_in_place,
    kept_inputs,
    paths_out,
    put,
    tensor_crossing,
    tensor_held,
)
from lowering.program.bound_steps import MISSING, Given, Shown, step_of, value_at
from lowering.program.failures import breach, refusal
from lowering.records.flat_structures import Builder, builder_of, nodes_of, take_leaf
from lowering.records.tensor_versions import ManyWatches
from lowering.records.types import tensor_of

if TYPE_CHECKING:
    from lowering.program.program import Program


@attrs.frozen(eq=False, repr=False)
class Bound:
    """What `program.bound()` returns: called as the program is, with the same checks and the same answers.

    Results are torch tensors in the memory of ONNX Runtime; one that is an input unchanged is in the memory of that
    input. `run` keeps what `keep` names between calls. `following` says for each input that is kept which result comes
    next, and `overwritten` has those that are written where they lie.
    """

    program: Program
    entries: tuple[Entry, ...]
    exits: tuple[Exit, ...]
    arguments: tuple[Argument, ...]
    baked: tuple[tuple[int, Any], ...]
    following: Mapping[str, int]
    names: list[str]
    overwritten: frozenset[str]
    build: Builder
    sizes: FlatSizes | None
    step: Given | None
    shown: Shown
    next: tuple[Exit, ...]
    ways: tuple[Keeping, Keeping]
    checks: tuple[Check, ...]
    is_sized_by_data: bool
    direct: BoundRun
    state: Mapping[str, torch.Tensor]
    contents: ManyWatches

    @classmethod
    def of(cls, program: Program, keep: Sequence[str] = (), in_place: bool = False) -> Bound:
        """A program made ready. Raises LoweringError for something to keep that the model does not give back."""
        keep = (keep,) if isinstance(keep, str) else tuple(keep)
        captured, entries = program.lowered.captured, entries_of(program)
        arguments = arguments_of(program, keep)
        following = kept_inputs(program, arguments, keep)
        kept = {".".join(leaf.path) for leaf in captured.leaves if leaf.name in following}
        left_out = frozenset(i for i, path in enumerate(paths_out(program)) if path in kept)
        needed = {what for i, (kind, what) in enumerate(program.lowered.outputs) if kind != "constant"} - {
            what for i, (kind, what) in enumerate(program.lowered.outputs) if kind != "constant" and i in left_out
        }
        exits, asked = exits_of(program, sorted({*needed, *following.values()}))
        outputs = program.session.outputs
        asked += range(len(exits), len(outputs))  # the conditions that only the data decides
        scalars, names = captured.scalars, list(following)
        sizes = FlatSizes.of(program.graph, program.ready)
        states, after = program.lowered.initial_state, tuple(exits[i] for i in following.values())
        state = {name: tensor_of(program.array(name, each)) for name, each in states.items()}
        return cls(
            program, entries, exits, arguments,
            tuple((i, scalars[name]) for i, name in enumerate(captured.input_names) if name in scalars),
            following, names,
            frozenset(n for n, i in following.items() if in_place and is_written_in_place(program, n, i)),
            builder(program, left_out),
            sizes, step_of(program, entries, arguments, following, sizes, state),
            Shown.of(program.lowered.outputs, exits, left_out),
            after, ways_to_keep(program, names, after),
            program.checks, program.is_sized_by_data,
            BoundRun(program.session, [entry.name for entry in entries], [outputs[i] for i in asked]),
            state, ManyWatches.of(program.watched.watches),
        )  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result, in its own structure. Raises what a call of the program raises."""
        return self.run(args, kwargs)[0]

    def run(
        self, args: Any = (), kwargs: Mapping[str, Any] | None = None, kept: Kept | None = None
    ) -> tuple[Any, Kept]:
        """(result, kept): the model's result, in which what is kept is None, and what the next run shall be given.

        With `kept`, of an earlier run, the arguments that are kept are left out of the call. Raises what a call of the
        program raises, and ContractError for what a run in place has used up already.
        """
        args, kwargs = args if type(args) is tuple else sequence_of(args), kwargs or {}
        if kept is not None and self.overwritten and kept.unused is not None and not kept.unused.acquire(False):
            raise ContractError(
                "what this call was given to go on from was overwritten by an earlier one",
                hint="go on from what that call returned, or bind the program without in_place",
            )
        given = self.plainly_given(kwargs, args, kept)
        vector, sizes = self.checked(args, kwargs, kept) if given is None else given
        return self.computed(vector, sizes, kept is not None)

    # ------------------------------------------------------------------------------------------------- Arguments

    def plainly_given(
        self, kwargs: Mapping[str, Any], args: Sequence[Any] = (), kept: Kept | None = None
    ) -> tuple[Any, Mapping[str, int]] | None:
        """(inputs, sizes) of a call that the program plainly takes; None for what needs a closer look."""
        if kept is not None and self.step is not None and kept.way.names is self.names and not args:
            given = self.step(kwargs, kept)
            if given is not None:
                return given
        leaves = self.leaves(args, kwargs, kept)
        return None if leaves is None else self.given(leaves, kept)

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any], kept: Kept | None) -> list[Any] | None:
        """The leaves of a call, in order, `MISSING` for what is kept; None for what needs a closer look."""
        if args:
            called = self.program.lowered.captured.called
            if len(args) > len(called.by_position) or any(n in kwargs for n in called.by_position[: len(args)]):
                return None
            kwargs = {**dict(zip(called.by_position, args, strict=False)), **kwargs}
        leaves, seen = list[Any](), 0
        for argument in self.arguments:
            value = kwargs.get(argument.name, MISSING)
            if value is MISSING:
                if argument.is_kept and kept is not None:
                    leaves += [MISSING] * len(argument.leaves)
                    continue
                if not argument.is_none:
                    return None
                value = None
            elif argument.is_kept and kept is not None:
                return None
            else:
                seen += 1
            if argument.opener is take_leaf:
                leaves.append(value)
            elif not argument.opener(value, leaves):
                return None
        if seen == len(kwargs):
            return leaves
        called = self.program.lowered.captured.called
        names = {argument.name for argument in self.arguments}
        known = all(name in names or called.goes_without_saying(name, each) for name, each in kwargs.items())
        return leaves if known else None

    def given(self, leaves: Sequence[Any], kept: Kept | None) -> tuple[Any, Mapping[str, int]] | None:
        """(inputs, sizes): the inputs as ONNX Runtime holds them, and the dimensions; None for what needs a closer
        look, because it is not allowed, or not plain."""
        if self.sizes is None:
            return None
        for i, value in self.baked:
            given = leaves[i]
            # True is no 1, and the very object is the same constant
            if given is not value and given is not MISSING and not same_scalar(given, value):
                return None
        values = {} if kept is None else kept.values
        vector, shapes, numbers = held_values(), list[tuple[int, ...]](), dict[int, int]()
        for i, entry in enumerate(self.entries):
            held = values.get(entry.name)
            if held is not None:
                if entry.leaf >= 0 and leaves[entry.leaf] is not MISSING:
                    return None
                if entry.is_places and not entry.takes(tensor_held(held)):
                    return None
                vector.push_back(held)
                shapes.append(tuple(held.shape()))
                if entry.is_number:
                    numbers[i] = int(held.numpy())
                continue
            tensor = self.state[entry.name] if entry.leaf < 0 else tensor_crossing(entry, leaves[entry.leaf])
            if tensor is None or not entry.takes(tensor):
                return None
            if entry.is_number:
                numbers[i] = leaves[entry.leaf]
            put(vector, tensor)
            shapes.append(tensor.shape)
        sizes = self.sizes.sizes(shapes, numbers)
        return None if sizes is None else (vector, sizes)

    def checked(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], kept: Kept | None
    ) -> tuple[Any, Mapping[str, int]]:
        """The same by the program's own way, which takes more forms, and says what is wrong with the others."""
        program, known = self.program, {} if kept is None else kept.tensors()
        states = program.lowered.initial_state
        whole = dict(kwargs)
        for argument in self.arguments:
            if kept is not None and argument.is_kept and argument.name not in kwargs:
                whole[argument.name] = argument.builder([self.leaf_kept(name, known) for name in argument.leaves])
        feeds = program.feeds(args, whole, {name: each for name, each in known.items() if name in states})
        vector, narrowed = held_values(), program.narrowed(feeds)
        for entry in self.entries:
            put(vector, tensor_of(narrowed[entry.name]))
        return vector, program.sizes_of(feeds)

    def leaf_kept(self, name: str, known: Mapping[str, torch.Tensor]) -> Any:
        """A leaf of an argument that is kept, as a caller would give it."""
        if name not in known:
            return self.program.lowered.captured.scalars.get(name)
        return known[name].item() if name in self.program.numbers else known[name]

    # ------------------------------------------------------------------------------------------------- Results

    def computed(self, vector: Any, sizes: Mapping[str, int], goes_on: bool) -> tuple[Any, Kept]:
        """(result, kept) of a run; `goes_on` where what is kept is of an earlier run, and may be overwritten."""
        program = self.program
        self.contents.check()
        try:
            if goes_on and self.overwritten:
                found = self.direct.into(vector, self.overwritten_values(vector))
            else:
                found = self.direct(vector)
        except IrkitError:
            raise
        except Exception as error:  # ONNX Runtime's own classes have no common base
            feeds = {entry.name: array_held(vector[i]) for i, entry in enumerate(self.entries)}
            raise refusal(error, program.ready, program.checks, program.opset, feeds) from error
        if checks := self.checks:
            for i, check in enumerate(checks, len(found) - len(checks)):
                if not found[i].numpy():
                    raise breach(check)
        if self.is_sized_by_data:
            self.check_sizes_after(sizes, [value_at(exit_, found, vector) for exit_ in self.exits])
        first, further = self.ways
        unused = threading.Lock() if self.overwritten else None
        if goes_on and further is not first:
            kept = Kept(further, found, unused)
        else:  # what a first run gives beside is as long as the prompt, and not kept with it
            kept = Kept(first, [value_at(exit_, found, vector) for exit_ in self.next], unused)
        return self.build(self.shown.held(found, vector)), kept

    def overwritten_values(self, vector: Any) -> Mapping[str, Any]:
        """The values that are overwritten, by the name of the output that is written there."""
        at = {entry.name: i for i, entry in enumerate(self.entries)}
        outputs = self.direct.outputs
        return {outputs[self.exits[self.following[name]].output]: vector[at[name]] for name in self.overwritten}

    def check_sizes_after(self, sizes: Mapping[str, int], held: Sequence[Any]) -> None:
        """Raises ContractError where a size that only the data decides breaks what the model asserts of it."""
        graph = self.program.graph
        shown = [i for i, value in enumerate(held) if value is not None]
        seen = attrs.evolve(
            graph, results=tuple(graph.results[i] for i in shown), signature=attrs.evolve(graph.signature, results=())
        )
        check_sizes(self.program.ready, sizes_after(seen, sizes, [tuple(held[i].shape()) for i in shown]))

    def __repr__(self) -> str:
        return f"<Bound {self.program.report.model}: keeps {', '.join(self.following) or 'nothing'}>"


def ways_to_keep(program: Program, names: Sequence[str], after: Sequence[Exit]) -> tuple[Keeping, Keeping]:
    """How a first run keeps what comes `after` it: alone; and how each further one does: among all that it gives, if it
    computes all of these."""
    first = Keeping(program, names, range(len(after)))
    places = tuple(each.output for each in after)
    return first, Keeping(program, names, places) if places and min(places) >= 0 else first


def builder(program: Program, left_out: frozenset[int]) -> Builder:
    """What puts the model's result together."""
    captured = program.lowered.captured
    if captured.out_spec is None:
        return lambda leaves: leaves[0] if len(leaves) == 1 else tuple(leaves)
    return builder_of(captured.out_spec, nodes_of(captured.registered), left_out)
