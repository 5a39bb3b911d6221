"""What a bound program knows of each argument, input and result; and values as ONNX Runtime holds them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from irkit.contract.flat_sizes import FlatSizes
from irkit.contract.sizes import names_of
from irkit.core.types import DType, Tensor
from irkit.onnx.bound_runs import array_held, owned_value
from lowering.errors import LoweringError
from lowering.records.flat_structures import Builder, Opener, builder_of, nodes_of, opener_of
from lowering.records.pytrees import leaf_paths
from lowering.records.torch_internals import from_capsule, to_dlpack
from lowering.records.types import TORCH, array_of, as_pairs, tensor_of
from lowering.tensors.complex_pairs import WHOLES

if TYPE_CHECKING:
    from lowering.program.program import Program

SHARED = frozenset((
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64,
))  # fmt: skip
"""Element types of which ONNX Runtime takes torch's memory, and torch that of ONNX Runtime."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
WRITES_INTO = frozenset(("ScatterElements", "ScatterND"))
"""Operators whose kernels leave what is there already where they read and write the same memory."""


@attrs.frozen
class Entry:
    """An input of the session: its place among the leaves of a call (-1 for a buffer that the model writes), the
    element type that the caller gives and the one that the session takes, whether it is a number to the caller, and
    whether it serves as places, none of which is below 0."""

    name: str
    leaf: int
    given: torch.dtype
    taken: torch.dtype
    is_complex: bool = False
    is_number: bool = False
    is_places: bool = False

    def takes(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor may hold what it does. `item` costs half of what `int` of the tensor does."""
        if not self.is_places or not (count := tensor.numel()):
            return True
        return (tensor if count == 1 else tensor.min()).item() >= 0


@attrs.frozen
class Exit:
    """A result of the graph: the element type that the caller gets and the one that the session gives, whether it is
    complex, its place among the outputs that are asked for, and that of the input that it is, unchanged; -1 for none.
    """

    dtype: torch.dtype
    given: torch.dtype
    is_complex: bool = False
    output: int = -1
    unchanged: int = -1


@attrs.frozen
class Argument:
    """An argument of a call: what takes it apart, what puts it together again, the names of its leaves, whether it was
    None at capture, and whether it is kept between calls."""

    name: str
    opener: Opener
    builder: Builder
    leaves: tuple[str, ...]
    is_none: bool
    is_kept: bool


@attrs.frozen(eq=False)
class Keeping:
    """How runs of the program `source` keep what the inputs of these `names` shall be given: at which `places` of what
    they give."""

    source: Program
    names: Sequence[str]
    places: Sequence[int]


@attrs.frozen(eq=False)
class Kept:
    """What a run keeps for the next one: values as ONNX Runtime `held` them, of which `way` says what they are for.

    `kept["past_key_values.0.key"]` is one as a torch tensor, in the same memory. What is given to a run in place is
    used up by it, which `unused` tells.
    """

    way: Keeping
    held: Any
    unused: threading.Lock | None = attrs.field(default=None, repr=False)

    def __getitem__(self, name: str) -> torch.Tensor:
        return tensor_held(self.values[name])

    def __len__(self) -> int:
        return len(self.way.names)

    @property
    def values(self) -> Mapping[str, Any]:
        """The values as ONNX Runtime holds them, by name."""
        return dict(zip(self.way.names, [self.held[place] for place in self.way.places], strict=True))

    def tensors(self) -> dict[str, torch.Tensor]:
        """All of them, by name."""
        return {name: tensor_held(value) for name, value in self.values.items()}


# ---------------------------------------------------------------------------------- Values as ONNX Runtime holds them


def is_plain(leaf: Any, dtype: torch.dtype) -> bool:
    """Whether an argument is a tensor of an element type whose numbers lie in the memory of the CPU as they are."""
    return (
        type(leaf) in PLAIN
        and leaf.dtype is dtype
        and leaf.layout is torch.strided
        and leaf.is_cpu
        and not leaf.is_neg()
    )


def tensor_crossing(entry: Entry, leaf: Any) -> torch.Tensor | None:
    """An argument as the tensor that the session takes for it; None for what is not plainly that."""
    if entry.is_number:
        return torch.tensor(leaf) if type(leaf) is int and entry.taken is torch.int64 else None
    if not is_plain(leaf, entry.given):
        return None
    tensor: torch.Tensor = as_pairs(leaf) if entry.is_complex else leaf.detach() if leaf.requires_grad else leaf
    return tensor if tensor.dtype is entry.taken else tensor.to(entry.taken)


def put(values: Any, tensor: torch.Tensor) -> None:
    """Appends a tensor to the inputs of a run, in its own memory where that can be."""
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if tensor.dtype in SHARED and tensor.numel():
        values.push_back(to_dlpack(tensor), False)
    elif tensor.dtype is torch.bool and tensor.numel():
        values.push_back(to_dlpack(tensor.view(torch.uint8)), True)
    else:
        values.push_back(owned_value(array_of(tensor)))


def tensor_held(value: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A value of ONNX Runtime's as a tensor, in the same memory where that can be; `dtype` is its element type, where
    that is known."""
    kind = TORCH[DType(value.element_type())] if dtype is None else dtype
    if kind in SHARED:
        return from_capsule(value.to_dlpack())
    if kind is torch.bool and 0 not in value.shape():
        return from_capsule(value.to_dlpack()).view(torch.bool)
    return tensor_of(array_held(value))


# ------------------------------------------------------------------------------------------------ What a program takes


def entries_of(program: Program) -> tuple[Entry, ...]:
    """The inputs of a program's session, in the order of its graph."""
    captured = program.lowered.captured
    places = {name: i for i, name in enumerate(captured.input_names)}
    found = list[Entry]()
    for name, param in zip(names_of(program.ready), program.ready.params, strict=True):
        part, is_complex = program.inputs[name].dtype, name in program.complex_names
        if not isinstance(param.type, Tensor):
            raise LoweringError(f"the input {name} is no tensor", hint="call the program itself")
        leaf = -1 if name in program.lowered.initial_state else places[name]
        given = TORCH[WHOLES[part] if is_complex else part]
        kinds = (is_complex, name in program.numbers, name in program.least)
        found.append(Entry(name, leaf, given, TORCH[param.type.dtype], *kinds))
    return tuple(found)


def arguments_of(program: Program, keep: Sequence[str]) -> tuple[Argument, ...]:
    """The arguments of a call, in the order of their leaves."""
    captured = program.lowered.captured
    positional, by_name = captured.in_spec.children()
    names = (*captured.arguments[: positional.num_children], *by_name.context)
    nodes, start, found = nodes_of(captured.registered), 0, list[Argument]()
    for name, spec in zip(names, (*positional.children(), *by_name.children()), strict=True):
        leaves = captured.input_names[start : start + spec.num_leaves]
        is_none = len(leaves) == 1 and captured.scalars.get(leaves[0], 0) is None
        opener, builder = opener_of(spec, nodes), builder_of(spec, nodes)
        found.append(Argument(name, opener, builder, leaves, is_none, name in keep))
        start += spec.num_leaves
    return tuple(found)


def kept_inputs(program: Program, arguments: Sequence[Argument], keep: Sequence[str]) -> dict[str, int]:
    """For each input that is kept between calls, the result that is its next content, by its number.

    Raises LoweringError for what is neither an argument nor a buffer that is written, and for an argument that the
    model does not give back.
    """
    known = {argument.name: argument.leaves for argument in arguments}
    signature, states = program.graph.signature, program.lowered.initial_state
    written = {port.binds: i for i, port in enumerate(signature.results) if port.role == "state"}
    given_back = {
        path: what
        for path, (kind, what) in zip(paths_out(program), program.lowered.outputs, strict=True)
        if kind != "constant" and path
    }
    paths = {leaf.name: ".".join(leaf.path) for leaf in program.lowered.captured.leaves}
    found = dict[str, int]()
    for name in keep:
        if name not in known and name not in states:
            names = ", ".join((*known, *states))
            raise LoweringError(f"there is nothing called {name!r} to keep", hint=f"there are: {names}")
        for leaf in known.get(name, (name,)):
            if leaf not in program.inputs:
                continue
            after = written.get(leaf, given_back.get(paths.get(leaf, "")))
            if after is None:
                raise LoweringError(
                    f"{leaf} cannot be kept between calls: the model does not give it back",
                    hint="keep what the model returns under the same name, or writes",
                )
            found[leaf] = after
    return found


def twins_of(program: Program, following: Mapping[str, int]) -> dict[str, str]:
    """For each input that is kept, an earlier one of the same shape whose next content has that of its own, too: what
    one run gives for both is of one shape."""
    graph = program.graph
    taken = zip(names_of(graph), graph.params, strict=True)
    shapes = {name: param.type.shape for name, param in taken if isinstance(param.type, Tensor)}
    first, found = dict[object, str](), dict[str, str]()
    for name, i in following.items():
        result = graph.results[i].type
        if isinstance(result, Tensor):
            key = (shapes[name], result.shape)
            found |= {name: first[key]} if key in first else {}
            first.setdefault(key, name)
    return found


def sizes_without(sizes: FlatSizes, entries: Sequence[Entry], twins: Mapping[str, str]) -> FlatSizes:
    """The conditions on sizes without those of inputs that are kept and like an earlier one: what one run gave for
    both is of one shape."""
    alike = {i for i, entry in enumerate(entries) if entry.name in twins}
    same = tuple((i, other) for i, other in sizes.same if i not in alike)
    return attrs.evolve(sizes, same=same)


def paths_out(program: Program) -> tuple[str, ...]:
    """The path of each leaf of what the model returns."""
    spec = program.lowered.captured.out_spec
    return (
        tuple(".".join(path) for path in leaf_paths(spec)) if spec is not None else ("",) * len(program.lowered.outputs)
    )


def exits_of(program: Program, needed: Sequence[int]) -> tuple[tuple[Exit, ...], list[int]]:
    """(exits, asked): the results of a program's graph, and the numbers of the outputs that a run asks for."""
    asked, found = list[int](), list[Exit]()
    params = {id(param): i for i, param in enumerate(program.ready.params)}
    for i, (result, ready) in enumerate(zip(program.graph.results, program.ready.results, strict=True)):
        if not isinstance(result.type, Tensor):
            raise LoweringError(f"result {i} is no tensor", hint="call the program itself")
        unchanged = params.get(id(ready), -1)
        output = -1
        if i in needed and unchanged < 0:
            output = len(asked)
            asked.append(i)
        is_complex = program.graph.signature.results[i].name in program.complex_names
        part = result.type.dtype
        given = TORCH[ready.type.dtype] if isinstance(ready.type, Tensor) else TORCH[part]
        found.append(Exit(TORCH[part], given, is_complex, output, unchanged))
    return tuple(found), asked


def is_written_in_place(program: Program, name: str, result: int) -> bool:
    """Whether a result may be written where an input lies: an operator writes a part of the input and leaves the rest,
    and nothing else reads it."""
    graph = program.watched
    param, value = graph.params[names_of(graph).index(name)], graph.results[result]
    users = graph.users.get(param, ())
    return (
        value.op in WRITES_INTO
        and value.inputs[0] is param
        and len(users) == 1
        and not any(each is param for each in graph.results)
        and value.inputs.count(param) == 1
    )
