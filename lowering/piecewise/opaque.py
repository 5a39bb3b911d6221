"""A piece as an opaque operator of torch: it is computed in eager mode, and what it gives is known from its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, wraps
from typing import Any
from uuid import uuid4

import attrs
import numpy as np
import torch

from irkit import build, dims
from irkit.core.types import Tensor, Tuple
from lowering.errors import CaptureError
from lowering.piecewise.calls import Recorded, Spot, inputs_of, is_tensor, kind_of, kinds_of, replace_calls
from lowering.piecewise.observing import agrees, main_call
from lowering.piecewise.relations import Formula, formula_of
from lowering.piecewise.tree import FUNCTION, Called
from lowering.records.pytrees import register_classes
from lowering.records.torch_internals import end_library, pytree
from lowering.records.types import DTYPES, array_of, tensor_of

NAMESPACE = "irkit_pieces"


@attrs.frozen
class Given:
    """A result that is one of the tensors given, unchanged."""

    index: int


@attrs.frozen(eq=False)
class Made:
    """A tensor that the operator gives: its element type, and its sizes as formulas of those of the inputs; None for
    one that hangs on data."""

    dtype: torch.dtype
    sizes: tuple[Formula | None, ...]


@attrs.frozen(eq=False)
class Number:
    """A result that is a number: a formula of the sizes of the inputs."""

    formula: Formula


@attrs.frozen(eq=False)
class Opaque:
    """A piece as an operator.

    Its operands are the tensors among the leaves of the arguments (`tensors`, by number) and the ints that vary
    (`numbers`); all other leaves are constants, the same in every call. `outputs` says of each leaf of the result, and
    `after` of each leaf of arguments that the call changed, where it comes from. `places` are the sizes that formulas
    speak of: (operand, axis), or (number, -1).
    """

    piece: Called
    name: str
    calls: tuple[Recorded, ...]
    tensors: tuple[int, ...]
    numbers: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    outputs: tuple[Any, ...]
    after: tuple[Any, ...] = ()

    @property
    def main(self) -> Recorded:
        """The call that tells the structure."""
        return self.calls[0]

    @cached_property
    def made(self) -> tuple[Made, ...]:
        """The tensors that the operator gives."""
        return tuple(each for each in (*self.outputs, *self.after) if isinstance(each, Made))

    @property
    def schema(self) -> str:
        """The operator's schema in torch's words."""
        taken = [f"Tensor t{i}" for i in range(len(self.tensors))] + [f"SymInt n{i}" for i in range(len(self.numbers))]
        given = ", ".join(["Tensor"] * len(self.made))
        return f"{self.name}({', '.join(taken)}) -> {given if len(self.made) == 1 else f'({given})'}"

    @property
    def is_sized_by_data(self) -> bool:
        """Whether a size of a result is known only when the data is."""
        return any(size is None for each in self.made for size in each.sizes)

    # -------------------------------------------------------------------------------------- sizes

    def sizes_of(self, operands: Sequence[Any]) -> list[Any]:
        """The sizes that formulas speak of, out of operands of any kind that has a shape."""
        return [operands[i].shape[axis] if axis >= 0 else operands[i] for i, axis in self.places]

    def fake(self, *operands: Any) -> Any:
        """What the operator gives, as far as sizes and element types tell: the kernel that torch traces with."""
        sizes = self.sizes_of(operands)
        device = next((each.device for each in operands if isinstance(each, torch.Tensor)), torch.device("cpu"))
        found = []
        for each in self.made:
            shape = [torch.library.get_ctx().new_dynamic_size() if f is None else f.of(sizes) for f in each.sizes]
            found.append(torch.empty(shape, dtype=each.dtype, device=device))
        return found[0] if len(found) == 1 else tuple(found)

    def convert(self, *operands: Any) -> Any:
        """The operator as a value of irkit's: one of a domain of its own."""
        tensors, numbers = operands[: len(self.tensors)], operands[len(self.tensors) :]
        sizes = self.sizes_of(operands)
        types = tuple(
            Tensor(DTYPES[m.dtype], tuple(dims.fresh() if f is None else f.dim(sizes) for f in m.sizes))
            for m in self.made
        )
        given = (*tensors, *(build.shape_vector((n,)) for n in numbers))
        return build.custom(self.op, *given, type=types[0] if len(types) == 1 else Tuple(types))

    @property
    def op(self) -> str:
        """The operator's name in a graph of irkit's."""
        return f"{NAMESPACE}::{self.name}"

    # -------------------------------------------------------------------------------------- numbers

    def run(self, *operands: Any) -> Any:
        """What the piece itself gives: the operator's kernel."""
        leaves = [leaf.value for leaf in self.main.inputs]
        for index, operand in zip((*self.tensors, *self.numbers), operands, strict=True):
            leaves[index] = operand.detach().clone() if isinstance(operand, torch.Tensor) else int(operand)
        with torch.no_grad():
            args, kwargs = self.arguments(leaves)
            result = self.original(*args, **kwargs)
            found = [*flat(result), *(flat((args, kwargs)) if self.after else ())]
        picked = [x for x, how in zip(found, (*self.outputs, *self.after), strict=True) if isinstance(how, Made)]
        own = [x.detach().clone() for x in picked]
        return own[0] if len(own) == 1 else tuple(own)

    def kernel(self, _: Any, *operands: Any) -> Any:
        """The same on arrays, for irkit's evaluator."""
        tensors = [tensor_of(each) for each in operands[: len(self.tensors)]]
        found = self.run(*tensors, *(int(np.ravel(each)[0]) for each in operands[len(self.tensors) :]))
        return array_of(found) if isinstance(found, torch.Tensor) else tuple(map(array_of, found))

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) around these leaves."""
        with register_classes(self.main.args, self.main.kwargs):
            _, spec = pytree.tree_flatten((self.main.args, dict(self.main.kwargs)))
            return pytree.tree_unflatten(list(leaves), spec)

    @property
    def original(self) -> Callable[..., Any]:
        """What runs in eager mode."""
        return self.piece.spots[0].called

    # -------------------------------------------------------------------------------------- in its place

    def call(self, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the model gets of a call with these leaves; arguments that the piece changes are changed."""
        operator = getattr(getattr(torch.ops, NAMESPACE), self.name)
        operands = [leaves[i] for i in (*self.tensors, *self.numbers)]
        sizes = self.sizes_of(operands)
        given = operator(*operands) if self.made else ()
        made = iter([given] if isinstance(given, torch.Tensor) else given)
        values = [value_of(how, leaves, made, sizes) for how in self.outputs]
        if self.after and self.main.after is not None:
            change((args, kwargs), self.main.after, [value_of(how, leaves, made, sizes) for how in self.after])
        with register_classes(self.main.result):
            _, spec = pytree.tree_flatten(self.main.result)
            return pytree.tree_unflatten(values, spec)

    def bound(self, leaves: Mapping[str, Any]) -> list[Any] | None:
        """The leaves of the arguments, by name, in the order of the recorded call; None for a call of another
        structure, or with other constants."""
        varying = {self.main.inputs[i].name for i in (*self.tensors, *self.numbers)}
        same = set(leaves) == {leaf.name for leaf in self.main.inputs} and all(
            leaf.name in varying or same_constant(leaf.value, leaves[leaf.name]) for leaf in self.main.inputs
        )
        return [leaves[leaf.name] for leaf in self.main.inputs] if same else None


@attrs.frozen(eq=False)
class Stand:
    """What stands for a piece: an operator for each way in which it is called."""

    piece: Called
    ways: tuple[Opaque, ...]

    def at(self, spot: Spot) -> Callable[..., Any]:
        """What is called in the place of the piece."""

        @wraps(spot.called)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = {leaf.name: leaf.value for leaf in inputs_of(spot.called, args, kwargs)}
            for way in self.ways:
                leaves = way.bound(given)
                if leaves is not None:
                    return way.call(leaves, args, kwargs)
            if self.piece.kind == FUNCTION:  # another place calls it
                return spot.called(*args, **kwargs)
            raise CaptureError(
                f"{self.piece.name} is called otherwise than when it was observed", hint="observe such a call, too"
            )

        return call


def same_constant(one: Any, other: Any) -> bool:
    """Whether a call gives the constant that was observed."""
    if type(one) in (int, float) and type(other) in (int, float):
        return type(one) is type(other) and one == other
    return kind_of(one) == kind_of(other)


def value_of(how: Any, leaves: Sequence[Any], made: Iterator[Any], sizes: Sequence[Any]) -> Any:
    """One leaf of a result: what the operator made, an argument as it is, a number, or a constant."""
    if isinstance(how, Made):
        return next(made)
    if isinstance(how, Given):
        return leaves[how.index]
    return how.formula.of(sizes) if isinstance(how, Number) else how


def change(arguments: Any, after: Any, leaves: Sequence[Any]) -> None:
    """Lets arguments hold what they hold after the call: tensors are written to, containers are filled anew."""
    with register_classes(after):
        _, spec = pytree.tree_flatten(after)
        later = pytree.tree_unflatten(list(leaves), spec)
    olds = [*arguments[0], *arguments[1].values()]
    for old, new in zip(olds, [*later[0], *later[1].values()], strict=True):
        refill(old, new)


def refill(old: Any, new: Any) -> None:
    """Writes what one argument holds into another."""
    if isinstance(old, torch.Tensor):
        if old is not new:
            old.copy_(new)
    elif isinstance(old, dict):
        old.clear()
        old.update(new)
    elif isinstance(old, list):
        old[:] = new
    elif isinstance(old, tuple):
        for each, other in zip(old, new, strict=True):
            refill(each, other)
    elif hasattr(old, "__dict__") and type(old) is type(new):
        old.__dict__.clear()
        old.__dict__.update(new.__dict__)


def flat(tree: Any) -> list[Any]:
    """The leaves of a structure."""
    with register_classes(tree):
        return pytree.tree_leaves(tree)


# ---------------------------------------------------------------------------------------------- made of calls


def stand_of(piece: Called) -> Stand:
    """What stands for a piece: operators made of what was observed of its calls."""
    ways: list[Opaque] = []
    left = list(piece.calls)
    while left:
        main = main_call(left)
        calls = [main, *(c for c in left if c is not main and agrees(main, c))]
        ways.append(opaque_of(piece, [c for c in calls if kinds_of(c.outputs) == kinds_of(main.outputs)]))
        names = {leaf.name for leaf in main.inputs}
        left = [c for c in left if c not in calls or {leaf.name for leaf in c.inputs} != names]
    return Stand(piece, tuple(ways))


def opaque_of(piece: Called, calls: Sequence[Recorded]) -> Opaque:
    """A piece as an operator, made of calls that are alike, the first of which tells the structure."""
    main = calls[0]
    rows = [{leaf.name: leaf.value for leaf in call.inputs} for call in calls]
    tensors = tuple(i for i, leaf in enumerate(main.inputs) if is_tensor(leaf.value))
    numbers = tuple(
        i
        for i, leaf in enumerate(main.inputs)
        if type(leaf.value) is int and len({row.get(leaf.name, leaf.value) for row in rows}) > 1
    )
    places, others = varying_places(main, rows, tensors, numbers)
    outputs = [described(i, calls, others) for i in range(len(main.outputs))]
    after = list(described_after(calls, others, tensors)) if main.after is not None else []
    name = "piece_" + "".join(c if c.isalnum() else "_" for c in piece.name)
    return Opaque(
        piece, f"{name}_{uuid4().hex[:12]}", tuple(calls), tensors, numbers, tuple(places), tuple(outputs), tuple(after)
    )


def varying_places(
    main: Recorded, rows: Sequence[Mapping[str, Any]], tensors: Sequence[int], numbers: Sequence[int]
) -> tuple[list[tuple[int, int]], list[tuple[int | None, ...]]]:
    """(place, its size in each call) of what varies, the first of those that are always the same."""
    places: list[tuple[int, int]] = []
    found: list[tuple[int | None, ...]] = []
    for operand, index in enumerate((*tensors, *numbers)):
        leaf = main.inputs[index]
        values = [row.get(leaf.name) for row in rows]
        for axis in range(leaf.value.dim()) if is_tensor(leaf.value) else (-1,):
            sizes = tuple(
                None if v is None else v.shape[axis] if axis >= 0 and is_tensor(v) else v if axis < 0 else None
                for v in values
            )
            if len({s for s in sizes if s is not None}) > 1 and sizes not in found:
                places.append((operand, axis))
                found.append(sizes)
    return places, found


def described(index: int, calls: Sequence[Recorded], others: Sequence[Any]) -> Any:
    """Where a leaf of the result comes from."""
    return described_leaf([call.outputs[index].value for call in calls], others)


def described_leaf(values: Sequence[Any], others: Sequence[Any]) -> Any:
    """Where a leaf comes from that held these values in several calls."""
    if is_tensor(values[0]):
        shapes = zip(*(v.shape for v in values), strict=True)
        return Made(values[0].dtype, tuple(formula_of(tuple(sizes), others) for sizes in shapes))
    if type(values[0]) is int and len(set(values)) > 1:
        formula = formula_of(tuple(values), others)
        return Number(formula) if formula is not None else values[0]
    return values[0]


def described_after(calls: Sequence[Recorded], others: Sequence[Any], tensors: Sequence[int]) -> Iterator[Any]:
    """Where each leaf of the arguments comes from after the call. One that the call left alone is what was given."""
    flats = [flat(call.after if call.after is not None else (call.args, dict(call.kwargs))) for call in calls]
    befores = [flat((call.args, dict(call.kwargs))) for call in calls]
    usable = [i for i, each in enumerate(flats) if len(each) == len(flats[0])]
    for index, value in enumerate(flats[0]):
        same = next((k for k, old in enumerate(befores[0]) if is_tensor(old) and unchanged(old, value)), None)
        if same is not None and all(
            unchanged(befores[i][same], flats[i][index]) for i in usable if len(befores[i]) > same
        ):
            yield Given(same)
        else:
            picked = [tuple(each[i] for i in usable) for each in others]
            yield described_leaf([flats[i][index] for i in usable], picked)


def unchanged(old: Any, new: Any) -> bool:
    """Whether a tensor is what it was."""
    return is_tensor(old) and is_tensor(new) and (old is new or (old.shape == new.shape and torch.equal(old, new)))


# ---------------------------------------------------------------------------------------------- in force


@contextmanager
def opaque(stands: Sequence[Stand]) -> Iterator[dict[Any, Callable[..., Any]]]:
    """A block in which pieces are opaque operators -> the converters of these operators."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    with ExitStack() as undo:
        undo.callback(end_library, library)
        converters: dict[Any, Callable[..., Any]] = {}
        for each in (way for stand in stands for way in stand.ways):
            library.define(each.schema)
            library.impl(each.name, each.run, "CPU")
            library.impl(each.name, each.run, "CUDA")
            torch.library.register_fake(each.op, each.fake, lib=library)
            converters[getattr(getattr(torch.ops, NAMESPACE), each.name).default] = each.convert
        for stand in stands:
            undo.enter_context(replace_calls(stand.piece.spots, stand.at))
        yield converters
