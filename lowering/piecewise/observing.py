"""What real calls of a model tell of an export: example arguments, and which dimensions vary, under which names."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import attrs
import torch

from irkit.support.counts import count_text
from lowering.capture.inputs.calls import Call, as_module, name_of
from lowering.capture.inputs.contents import keep_unchanged
from lowering.capture.torch_export import stretch_axis
from lowering.errors import CaptureError
from lowering.piecewise.calls import (
    Listener,
    Recorded,
    Spot,
    calls_of,
    copy_tree,
    inputs_of,
    is_tensor,
    kind_of,
    leaves_of,
    replace_calls,
)
from lowering.piecewise.relations import Place, Related, Sizes, relate
from lowering.program.check import CheckReport, SizeReport, run
from lowering.program.program import Program
from lowering.program.to_onnx import export_model
from lowering.records.dynamic_shapes import Leaf
from lowering.records.options import ExportOptions
from lowering.records.pytrees import STATES, register_classes
from lowering.records.torch_internals import pytree

CACHED = frozenset({"key", "value"})
"""The last part of the path of what a cache keeps of each token."""
TOKENS = ("input_ids", "inputs_embeds", "position_ids", "cache_position", "decoder_input_ids", "token_type_ids")
"""Arguments of models of language with an entry for each token that is read."""


@attrs.frozen(eq=False, repr=False)
class Observation:
    """What was seen of a model: its calls, and what they tell of an export.

    `args` and `kwargs` are an example that has every argument; `dynamic_shapes` names, by input leaf, the dimensions
    that vary; `scalar_inputs` are the numbers that do. `fit` are the numbers of the calls that give what the example
    gives, but for sizes and what they leave out; `names` has the size of each name in each of these, `relations` what
    was found among sizes, `notes` what an export cannot follow.
    """

    model: Any
    calls: tuple[Recorded, ...]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    dynamic_shapes: Mapping[str, Any]
    scalar_inputs: tuple[str, ...]
    names: Mapping[str, Sizes]
    relations: tuple[str, ...]
    notes: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    fit: tuple[int, ...]

    def to_onnx(self, **options: Any) -> Program:
        """The model exported for these calls; `options` are those of `irkit.to_onnx`, which win."""
        given = {"dynamic_shapes": dict(self.dynamic_shapes), "scalar_inputs": self.scalar_inputs, **options}
        return export_model(self.model, self.args, dict(self.kwargs), ExportOptions(**given))

    def check(self, program: Program) -> CheckReport:
        """The program compared with the model on every call that was seen."""
        runs: list[SizeReport] = [run(program, *call.copied()) for call in self.calls]
        return CheckReport(tuple(runs))

    @property
    def torch_shapes(self) -> Any:
        """The dimensions that vary as `torch.export.export` takes them: in the structure of the arguments, by name,
        with `Dim.DYNAMIC` at each; None where nothing varies."""
        if not self.dynamic_shapes:
            return None
        with register_classes(self.args, self.kwargs):
            leaves = inputs_of(self.model, self.args, self.kwargs)
            signature = inspect.signature(as_module(self.model).forward)
            found: dict[str, Any] = {}
            for name, value in signature.bind(*self.args, **self.kwargs).arguments.items():
                kind = signature.parameters[name].kind
                if kind is inspect.Parameter.VAR_KEYWORD:
                    found[name] = {key: shapes_tree(each, self.told(leaves, key)) for key, each in value.items()}
                elif kind is inspect.Parameter.VAR_POSITIONAL:
                    named = [f"{name}_{i}" for i in range(len(value))]
                    found[name] = tuple(
                        shapes_tree(each, self.told(leaves, key)) for key, each in zip(named, value, strict=True)
                    )
                else:
                    found[name] = shapes_tree(value, self.told(leaves, name))
        return found

    def shapes_of(self, call: Call) -> Any:
        """The same by argument, those behind `*args` and `**kwargs` among them; None where nothing varies."""
        if not self.dynamic_shapes:
            return None
        leaves = inputs_of(self.model, self.args, self.kwargs)
        values = [*self.args, *self.kwargs.values()]
        with register_classes(values):
            return {
                name: shapes_tree(value, self.told(leaves, name))
                for name, value in zip(call.arguments, values, strict=True)
            }

    def told(self, leaves: Sequence[Leaf], argument: str) -> Iterator[Any]:
        """What is said of each leaf of an argument, in order."""
        return iter([self.dynamic_shapes.get(leaf.name) for leaf in leaves if leaf.path[0] == argument])

    def asdict(self) -> dict[str, Any]:
        """The observation as plain data, ready for JSON; without the tensors."""
        return {
            "model": name_of(self.model),
            "calls": [[f"{leaf.name}: {text_of(leaf.value)}" for leaf in call.inputs] for call in self.calls],
            "dynamic_shapes": {name: shown(each) for name, each in self.dynamic_shapes.items()},
            "scalar_inputs": list(self.scalar_inputs),
            "names": {name: list(sizes) for name, sizes in self.names.items()},
            "relations": list(self.relations),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{name_of(self.model)}, called {count_text(len(self.calls), 'time')}"]
        texts = [type_text(leaf, self.dynamic_shapes.get(leaf.name)) for leaf in self.leaves]
        width = max((len(leaf.name) for leaf in self.leaves), default=0)
        lines += [f"  {leaf.name:{width}}  {text}" for leaf, text in zip(self.leaves, texts, strict=True)]
        lines += [f"  {name} = {', '.join(map(str, sizes))}" for name, sizes in self.names.items()]
        return "\n".join([*lines, *(f"  {each}" for each in (*self.relations, *self.notes))])

    def __repr__(self) -> str:
        return (
            f"<Observation of {name_of(self.model)}: {count_text(len(self.calls), 'call')}, "
            f"{', '.join(self.names) or 'no names'}>"
        )


def shown(statement: Any) -> Any:
    """What is said of a leaf, with text for axes: JSON has no numbers there."""
    return {str(axis): text for axis, text in statement.items()} if isinstance(statement, dict) else statement


def shapes_tree(value: Any, told: Iterator[Any]) -> Any:
    """What torch.export is told of an argument: a structure of lists and dicts like its own."""
    if isinstance(value, torch.Tensor) or not pytree_children(value):
        flat = pytree.tree_leaves(value)
        said = [next(told) for _ in flat]
        each = said[0] if said else None
        return dict.fromkeys(each, DYNAMIC) if isinstance(each, dict) else each and DYNAMIC
    kind, children = type(value), pytree_children(value)
    made = [shapes_tree(child, told) for child in children]
    if isinstance(value, dict):
        return dict(zip(value, made, strict=True))
    return tuple(made) if kind is tuple else made


DYNAMIC = torch.export.Dim.DYNAMIC


def pytree_children(value: Any) -> list[Any]:
    """The children of a node of a structure; nothing for a leaf."""
    node = pytree.SUPPORTED_NODES.get(pytree._get_node_type(value))
    return [] if node is None else list(node.flatten_fn(value)[0])


def text_of(value: Any) -> str:
    """A leaf in a few words: its type, or the constant."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return repr(value)[:60]


def type_text(leaf: Leaf, said: Any) -> str:
    """The type of a leaf with names for what varies."""
    if isinstance(leaf.value, torch.Tensor):
        told = said if isinstance(said, dict) else {}
        sizes = ", ".join(str(told.get(axis, size)) for axis, size in enumerate(leaf.value.shape))
        return f"{str(leaf.value.dtype).removeprefix('torch.')}[{sizes}]"
    return str(said) if said is not None else repr(leaf.value)[:60]


# ---------------------------------------------------------------------------------------------- from calls


def observation_of(
    model: Any, calls: Sequence[Recorded], known: Mapping[str, Sizes] = MappingProxyType({})
) -> Observation:
    """What calls of a model tell. `known` are names with their size in each of these calls, which are used where they
    fit. The example has no size of 1 or 0 where another call has a larger one, unless the model refuses that: its last
    rows are repeated. Raises CaptureError where nothing was called."""
    if not calls:
        raise CaptureError(f"{name_of(model)} was not called", hint="call it inside the block, or give calls")
    main = main_call(calls)
    rows = [{leaf.name: leaf.value for leaf in call.inputs} for call in calls]
    notes = list(notes_of(main, calls))
    fit = [row for row in range(len(calls)) if agrees(main, calls[row])]
    below = below_zero(main, [rows[row] for row in fit])
    notes += [f"{name} is below 0 in some calls, and so stays what it is in the example" for name in below]
    fit = [row for row in fit if all(rows[row].get(name, value) == value for name, value in below.items())]
    places = list(places_of(main, [rows[row] for row in fit]))
    related = relate(places, {name: tuple(sizes[row] for row in fit) for name, sizes in known.items()})
    said: dict[str, Any] = {}
    for place, text in zip(places, related.texts, strict=True):
        if text is not None and place.axis < 0:
            said[place.leaf] = text
        elif text is not None:
            said.setdefault(place.leaf, {})[place.axis] = text
    scalars = tuple(varying_floats(main, [rows[row] for row in fit]))
    example = stretched(main, places, related, fit.index(calls.index(main)))
    with register_classes(main.args, main.kwargs):
        _, spec = pytree.tree_flatten((main.args, dict(main.kwargs)))
        args, kwargs = pytree.tree_unflatten([leaf.value for leaf in example], spec)
    if any(new.value is not old.value for new, old in zip(example, main.inputs, strict=True)) and fails(
        model, args, kwargs
    ):
        example, args, kwargs = main.inputs, main.args, dict(main.kwargs)
    return Observation(
        model,
        tuple(calls),
        tuple(args),
        kwargs,
        said,
        scalars,
        related.names,
        related.told,
        tuple(notes),
        tuple(example),
        tuple(fit),
    )


def fails(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the model raises for arguments."""
    args, kwargs = copy_tree((tuple(args), dict(kwargs)))
    module = as_module(model)
    with torch.no_grad(), keep_unchanged(module):
        try:
            module.forward(*args, **kwargs)
        except Exception:  # a model may raise anything
            return True
    return False


def main_call(calls: Sequence[Recorded]) -> Recorded:
    """The call that an export is made for: of those with most tensors and of the kind that was seen most often, the one
    whose sizes tell most from each other."""
    most = max(tensors_in(call) for call in calls)
    able = [call for call in calls if tensors_in(call) == most]
    often = Counter(call.shape[0] for call in able)
    able = [call for call in able if often[call.shape[0]] == max(often.values())]

    def telling(call: Recorded) -> tuple[int, int]:
        sizes = [size for leaf in call.inputs if is_tensor(leaf.value) for size in leaf.value.shape]
        return -sum(size < 2 for size in sizes), len(set(sizes))

    return max(able, key=telling)


def tensors_in(call: Recorded) -> int:
    """How many tensors a call is given."""
    return sum(is_tensor(leaf.value) for leaf in call.inputs)


def agrees(main: Recorded, call: Recorded) -> bool:
    """Whether what a call gives is what the main one gives, but for sizes, numbers, and what it leaves out."""
    kinds = {leaf.name: kind_of(leaf.value) for leaf in main.inputs}
    given = {leaf.name: kind_of(leaf.value) for leaf in call.inputs}
    return all(name not in given or given[name] is None or given[name] == kind for name, kind in kinds.items()) and all(
        name in kinds or kind is None for name, kind in given.items()
    )


def notes_of(main: Recorded, calls: Sequence[Recorded]) -> Iterator[str]:
    """What a program that is exported for the main call does not take as other calls give it."""
    for number, call in enumerate(calls):
        given = {leaf.name: leaf.value for leaf in call.inputs}
        absent = [leaf.name for leaf in main.inputs if leaf.name not in given or given[leaf.name] is None]
        absent = [name for name in absent if not any(part in CACHED | STATES for part in name.split("."))]
        absent = [n for n in absent if any(leaf.name == n and is_tensor(leaf.value) for leaf in main.inputs)]
        if not agrees(main, call):
            yield f"call {number} gives other arguments or constants than the example, and is left out"
        elif absent:
            yield f"call {number} leaves out {', '.join(absent)}, which the program needs"


def places_of(main: Recorded, rows: Sequence[Mapping[str, Any]]) -> Iterator[Place]:
    """The dimensions of the tensors of a call, and its ints, with the size of each in every call."""
    for leaf in main.inputs:
        values = [row.get(leaf.name) for row in rows]
        if is_tensor(leaf.value):
            for axis in range(leaf.value.dim()):
                sizes = tuple(v.shape[axis] if isinstance(v, torch.Tensor) else None for v in values)
                yield Place(leaf.name, axis, sizes, usual_names(leaf, axis))
        elif type(leaf.value) is int:
            yield Place(leaf.name, -1, tuple(v if type(v) is int else None for v in values), ())


def usual_names(leaf: Leaf, axis: int) -> tuple[str, ...]:
    """What a dimension is called in most models."""
    rank = leaf.value.dim()
    if rank == 4 and axis == 2 and leaf.path[-1] in CACHED:
        return ("past",)
    if axis == 0 and rank > 1:
        return ("batch",)
    if axis == 1 and rank > 1 and leaf.path[0] in TOKENS:
        return ("seq",)
    if rank == 4 and axis > 1 and leaf.value.is_floating_point():
        return ("height",) if axis == 2 else ("width",)
    return ()


def below_zero(main: Recorded, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The ints of a call that are not the same in every call, and below 0 in one, which torch takes for no size."""
    found = {}
    for leaf in main.inputs:
        values = [row.get(leaf.name, leaf.value) for row in rows]
        if type(leaf.value) is int and len(set(values)) > 1 and min(v for v in values if type(v) is int) < 0:
            found[leaf.name] = leaf.value
    return found


def varying_floats(main: Recorded, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The names of floats that are not the same in every call."""
    for leaf in main.inputs:
        if type(leaf.value) is float and len({row.get(leaf.name, leaf.value) for row in rows}) > 1:
            yield leaf.name


def stretched(main: Recorded, places: Sequence[Place], related: Related, row: int) -> tuple[Leaf, ...]:
    """The leaves of a call, with sizes of 2 or more where it has 0 or 1 and another call has more."""
    sizes = {name: each[row] or 0 for name, each in related.names.items()}
    taken = set(sizes.values())
    for name, each in related.names.items():
        if sizes[name] < 2 and max(s or 0 for s in each) > 1:
            sizes[name] = next(n for n in range(2, 1 << 20) if n not in taken)
            taken.add(sizes[name])
    ordered = [sizes[name] for name in related.names]
    wanted: dict[str, dict[int, int]] = {}
    for place, formula in zip(places, related.formulas, strict=True):
        if formula is not None:
            wanted.setdefault(place.leaf, {})[place.axis] = formula.of(ordered)
    found = []
    for leaf in main.inputs:
        value: Any = leaf.value
        for axis, size in wanted.get(leaf.name, {}).items():
            value = size if axis < 0 else stretch_axis(value, axis, size)
        found.append(attrs.evolve(leaf, value=value))
    return tuple(found)


# ---------------------------------------------------------------------------------------------- by listening


class Observer:
    """What listens to a model for the time of a `with` block. `observation` is what its calls tell, when there are
    some; its fields (`args`, `kwargs`, `dynamic_shapes` ...) can be asked of the observer itself."""

    def __init__(self, model: Any, method: str = "forward") -> None:
        self.model, self.method = model, method
        self.calls: list[Recorded] = []
        self._undo: Any = None

    def __enter__(self) -> Observer:
        self._undo = listening(self.model, self.method, self.calls.append)
        self._undo.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._undo.__exit__(*error)

    @property
    def observation(self) -> Observation:
        """What the calls tell so far. Raises CaptureError where there was none."""
        target = self.model if self.method == "forward" else getattr(self.model, self.method)
        return observation_of(target, self.calls)

    def __getattr__(self, name: str) -> Any:
        if name == "observation" or name.startswith("_") or not hasattr(Observation, name):
            raise AttributeError(f"an observer has no attribute {name!r}")
        return getattr(self.observation, name)


@contextmanager
def listening(model: Any, method: str, heard: Callable[[Recorded], None]) -> Iterator[None]:
    """A block in which each call of a model's method is recorded."""
    module = as_module(model)
    listener = Listener(lambda _, call: heard(call))
    spot = Spot(module.__dict__, method, getattr(module, method), "")
    with replace_calls([spot], listener.at):
        yield


def observe(model: Any, calls: Any = None, *, method: str = "forward") -> Any:
    """What real calls of a model tell of its export: example arguments, and dimensions that vary, under names.

    Args:
        model: a module; its `method` is listened to.
        calls: what to observe. None gives an `Observer`, for a `with` block in which the model is called, by
            `model.generate(...)` too. A function is called, and what it makes of the model observed; a list of calls,
            each `(args, kwargs)`, a tuple or a dict, is made; one of torch's own `torch.onnx.InputObserver` that has
            listened to the model is read.
        method: another method than `forward`, which then is what an export takes.

    Returns an `Observation`, or the `Observer` that has one: `args`, `kwargs` and `dynamic_shapes` are what
    `irkit.to_onnx` takes, `observation.to_onnx()` calls it, and `observation.check(program)` compares a program with
    the model on every call. Sizes that were the same in every call are taken for fixed: call the model twice.
    Raises CaptureError where the model was not called, and what the model itself raises.
    """
    if calls is None:
        return Observer(model, method)
    candidates = getattr(getattr(calls, "info", None), "inputs", None)
    if candidates is not None:
        target = model if method == "forward" else getattr(model, method)
        return observation_of(target, [read_candidate(target, i, each) for i, each in enumerate(candidates)])
    with Observer(model, method) as observer:
        if callable(calls) and not isinstance(calls, torch.Tensor):
            calls()
        else:
            with torch.no_grad():
                for args, kwargs in calls_of(model, calls):
                    getattr(model, method)(*args, **kwargs) if method != "forward" else model(*args, **kwargs)
    return observer.observation


def read_candidate(model: Any, row: int, candidate: Any) -> Recorded:
    """A call that torch's InputObserver has seen; it keeps no results beside it."""
    args, kwargs = tuple(candidate.args), {**candidate.kwargs, **getattr(candidate, "cst_kwargs", {})}
    return Recorded(row, args, kwargs, None, inputs_of(model, args, kwargs), leaves_of(None))
