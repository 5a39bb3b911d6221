"""A model as a tree of its modules and functions, with what each was called with and what it gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import torch

from irkit.support.counts import count_text
from lowering.capture.inputs.calls import name_of
from lowering.piecewise.calls import Recorded, Spot, is_tensor, kinds_of
from lowering.piecewise.observing import Observation, observation_of, text_of, type_text
from lowering.piecewise.relations import Sizes, formula_of
from lowering.piecewise.shown import Column, Shown, as_page, as_text

MODULE, FUNCTION, METHOD = "module", "function", "method"


@attrs.frozen(eq=False, repr=False)
class Called:
    """A module, method or function of a model, with the calls that were made of it and the pieces that it called.

    `name` is the dotted path of a module, empty for the model itself; a function's is that of the module that called it
    and its own name, `layers.0.rotated()`. `names` has the size of each name of a dimension in each of the model's own
    calls.
    """

    name: str
    kind: str
    owner: Any
    calls: tuple[Recorded, ...]
    children: tuple[Called, ...]
    names: Mapping[str, Sizes]
    spots: tuple[Spot, ...] = ()

    @property
    def type(self) -> str:
        """The class of a module, or the name of a function."""
        return type(self.owner).__name__ if isinstance(self.owner, torch.nn.Module) else name_of(self.owner)

    @cached_property
    def observation(self) -> Observation:
        """What the calls tell of an export of this piece alone. Raises CaptureError where it was not called."""
        known = {name: tuple(sizes[call.row] for call in self.calls) for name, sizes in self.names.items()}
        return observation_of(self.owner, self.calls, known)

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each argument, with names for what varies."""
        if not self.calls:
            return ()
        seen = self.observation
        return tuple((leaf.name, type_text(leaf, seen.dynamic_shapes.get(leaf.name))) for leaf in seen.leaves)

    @cached_property
    def outputs(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each result, with names for what varies; `?` for a size that follows from no other."""
        if not self.calls:
            return ()
        seen = self.observation
        main = self.alike_calls[0]
        same = [i for i, row in enumerate(seen.fit) if kinds_of(seen.calls[row].outputs) == kinds_of(main.outputs)]
        calls = [seen.calls[seen.fit[i]] for i in same]
        names = {name: tuple(sizes[i] for i in same) for name, sizes in seen.names.items()}
        names |= self.sums(calls, names)
        found = []
        for index, leaf in enumerate(main.outputs):
            if not is_tensor(leaf.value):
                found.append((leaf.name, text_of(leaf.value)))
                continue
            told = {}
            for axis in range(leaf.value.dim()):
                formula = formula_of(tuple(c.outputs[index].value.shape[axis] for c in calls), list(names.values()))
                told[axis] = "?" if formula is None else formula.text(list(names))
            found.append((leaf.name, type_text(leaf, told)))
        return tuple(found)

    def sums(self, calls: Sequence[Recorded], names: Mapping[str, Sizes]) -> dict[str, Sizes]:
        """What is said of arguments that is no name alone, with its size in some calls."""
        found: dict[str, Sizes] = {}
        for leaf, said in self.observation.dynamic_shapes.items():
            for axis, text in said.items() if isinstance(said, dict) else ():
                values = [each.value for call in calls for each in call.inputs if each.name == leaf]
                if text not in names and len(values) == len(calls) and all(map(is_tensor, values)):
                    found[text] = tuple(value.shape[axis] for value in values)
        return found

    @cached_property
    def alike_calls(self) -> tuple[Recorded, ...]:
        """The calls that are like the one that an export of this piece is made for, that one first."""
        seen = self.observation
        names = [leaf.name for leaf in seen.leaves]
        main = next(
            call
            for call in self.calls
            if [leaf.name for leaf in call.inputs] == names
            and all(is_tensor(a.value) == is_tensor(b.value) for a, b in zip(call.inputs, seen.leaves, strict=True))
        )
        return (main, *(call for call in self.calls if call is not main and call.shape == main.shape))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Called]]:
        """(depth, piece) of this piece and all below it, each before its children."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def rows(self, depth: int = 0, above: str = "") -> Iterator[tuple[int, Called, str]]:
        """(depth, piece, name of the piece around it) of this piece and all below it."""
        yield depth, self, above
        for child in self.children:
            yield from child.rows(depth + 1, self.name)

    def __getitem__(self, name: str) -> Called:
        """The piece of that name. Raises KeyError for none."""
        for _, piece in self.walk():
            if piece.name == name:
                return piece
        raise KeyError(name)

    def __len__(self) -> int:
        """How many pieces there are, this one among them."""
        return sum(1 for _ in self.walk())

    def __bool__(self) -> bool:
        return True

    # -------------------------------------------------------------------------------------- shown

    def shown(self) -> Shown:
        """The tree as a table."""
        columns = (
            Column("piece", "bold"),
            Column("type", "cyan"),
            Column("calls"),
            Column("inputs"),
            Column("outputs"),
        )
        rows = tuple(
            (
                name_at_depth(depth, piece, above),
                piece.type,
                str(len(piece.calls)),
                listed(piece.inputs),
                listed(piece.outputs),
            )
            for depth, piece, above in self.rows()
        )
        varying = tuple(f"{name} = {', '.join(map(str, sizes))}" for name, sizes in self.names.items())
        return Shown(f"{self.type}: {count_text(len(self), 'piece')}", columns, rows, notes=varying)

    def __str__(self) -> str:
        return as_text(self.shown())

    def __repr__(self) -> str:
        return (
            f"<Piece {self.name or 'model'}: {self.type}, {count_text(len(self.calls), 'call')}, "
            f"{count_text(len(self.children), 'child', 'children')}>"
        )

    def page(self) -> str:
        """The tree as an HTML page that needs no other file."""
        return as_page(self.shown())

    def asdict(self) -> dict[str, Any]:
        """The tree as plain data, ready for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "type": self.type,
            "calls": len(self.calls),
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "children": [child.asdict() for child in self.children],
        }


def name_at_depth(depth: int, piece: Called, above: str) -> str:
    """The part of a piece's name that the piece around it does not have, moved to the right by its depth."""
    own = piece.name.removeprefix(f"{above}.") if above else piece.name
    return "  " * depth + (own or "model")


FEW = 4


def listed(ports: Sequence[tuple[str, str]]) -> str:
    """The types of a few arguments or results, and how many there are more."""
    texts = [text if name.startswith("output") else f"{name}: {text}" for name, text in ports[:FEW]]
    return ", ".join(texts) + (f", {len(ports) - FEW} more" if len(ports) > FEW else "")
