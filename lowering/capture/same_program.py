"""Whether a program is right for a size that it was not traced for: it does as one that was traced at this size.

Where both have the same operators and arguments, the first is right; where they differ, both are run on random numbers,
other masks and other integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node

from lowering.capture.compared_numbers import compared_in_programs
from lowering.capture.guards.guards import at_sizes, number, size_of
from lowering.capture.inputs.draws import (
    MOST_TURNS,
    draws_beside,
    draws_for,
    later_state,
    plain_array,
    redrawn,
    redrawn_tensor,
)
from lowering.records.programs import metas_of_program, state_of_program
from lowering.records.torch_internals import pytree

LAST = (1 << 63) - 1  # torch's way to say "to the end"
Point = Mapping[str, int]  # torch's symbols by name, and the sizes that they shall have


def at_point(expr: Any, point: Point) -> Any:
    """A relation or size with these sizes in place of torch's symbols; True where there is no relation.

    Raises ArithmeticError where it divides by one that is 0, or where torch's functions of sizes are not defined: its
    `Mod` takes no negative number.
    """
    if expr is None:
        return sympy.true
    return at_sizes(expr, {s: sympy.Integer(point[s.name]) for s in expr.free_symbols if s.name in point})


@attrs.frozen
class Change:
    """What turns an expression of the program into one of another, traced at a point: the sizes fixed there, and
    for each symbol of the other program what it is called in this one."""

    point: Point
    names: Mapping[Any, Any]

    def here(self, expr: Any) -> Any:
        """An expression of the program, at the point."""
        return at_point(sympy.sympify(expr), self.point)

    def there(self, expr: Any) -> Any:
        """An expression of the other program, in the symbols of this one."""
        known = {theirs.name: ours.name for theirs, ours in self.names.items()}
        mine = {
            s: number(known[s.name])
            for s in sympy.sympify(expr).free_symbols
            if s not in self.names and s.name in known
        }
        return sympy.sympify(expr).xreplace({**self.names, **mine})

    def agree(self, ours: Any, theirs: Any) -> bool:
        """Whether an expression of this program, at the point, is one of the other."""
        try:
            a, b = self.here(ours), self.there(theirs)
        except ArithmeticError:
            return False
        return bool(a == b) or bool(sympy.expand(a - b) == 0)


def correspondence(program: ExportedProgram, other: ExportedProgram) -> dict[Any, Any]:
    """Symbol of the other program -> symbol of this one, by where they stand in the inputs."""
    names: dict[Any, Any] = {}
    for ours, theirs in zip(metas_of_program(program), metas_of_program(other), strict=True):
        axes = range(ours.dim()) if isinstance(ours, torch.Tensor) else (-1,) if isinstance(ours, torch.SymInt) else ()
        for axis in axes:
            a, b = size_of(ours, axis), size_of(theirs, axis)
            if isinstance(a, sympy.Symbol) and isinstance(b, sympy.Symbol):
                names.setdefault(b, a)
    return names


def same_graphs(program: ExportedProgram, other: ExportedProgram, change: Change) -> bool:
    """Whether both programs call the same operators with the same arguments, sizes compared as expressions, on equal
    constants."""
    constants = zip_longest(constants_of(program), constants_of(other))
    return all(same_tensor(a, b) for a, b in constants) and same_steps(program.graph_module, other.graph_module, change)


def constants_of(program: ExportedProgram) -> Iterator[Any]:
    """The constants that a program was traced with, in order: what the model makes of Python's numbers is one."""
    state = state_of_program(program)
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ):
            yield state.get(str(spec.target))


def same_tensor(a: Any, b: Any) -> bool:
    """Whether two constants are the same object, or tensors that hold the same."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def same_steps(module: GraphModule, other: GraphModule, change: Change) -> bool:
    """The same of two graphs, and of those that they hold for higher-order operators."""
    ours, theirs = list(steps(module)), list(steps(other))
    if len(ours) != len(theirs):
        return False
    partner = dict(zip(ours, theirs, strict=True))
    for a, b in partner.items():
        if a.op != b.op or (a.op == "call_function" and a.target is not b.target):
            return False
        if a.op == "get_attr" and not same_held(attribute_of(module, a), attribute_of(other, b), change):
            return False
        if not (same_value(a.args, b.args, partner, change) and same_value(a.kwargs, b.kwargs, partner, change)):
            return False
        if not same_type(a.meta.get("val"), b.meta.get("val"), change):
            return False
    return True


def same_held(a: Any, b: Any, change: Change) -> bool:
    """Whether what two graphs hold is the same: graphs, or tensors."""
    if isinstance(a, GraphModule) and isinstance(b, GraphModule):
        return same_steps(a, b, change)
    return same_tensor(a, b)


def attribute_of(module: GraphModule, node: Node) -> Any:
    """What a graph holds under the name of a node."""
    return operator.attrgetter(str(node.target))(module)


def steps(module: GraphModule) -> Iterator[Node]:
    """The nodes that compute or return tensors: no arithmetic on sizes, no assertions, nothing that is `carried`."""
    for node in module.graph.nodes:
        scalar = isinstance(node.meta.get("val"), int | float | torch.SymInt | torch.SymFloat | torch.SymBool)
        checks = node.op == "call_function" and getattr(node.target, "__name__", "").startswith("_assert")
        if node.op in ("placeholder", "output") or not (scalar or checks or carried(node) is not node):
            yield node


def carried(node: Node) -> Node:
    """The node whose numbers this one holds unchanged: what a chain of full slices and `contiguous` begins with.

    Python's `x[:, 1]` slices a dimension of symbolic size, and no other; `contiguous` copies only what is not yet so.
    """
    while node.target in (torch.ops.aten.slice.Tensor, torch.ops.aten.contiguous.default):
        tensor = node.args[0]
        _, start, stop, step = (*node.args[1:], *(0, 0, None, 1)[len(node.args) - 1 :])
        whole = start in (0, None) and step == 1 and (stop is None or (isinstance(stop, int) and stop >= LAST))
        if not isinstance(tensor, Node) or not (whole or node.target is torch.ops.aten.contiguous.default):
            break
        node = tensor
    return node


def same_value(a: Any, b: Any, partner: Mapping[Node, Node], change: Change) -> bool:
    """Whether two arguments are the same: nodes that correspond, sizes that agree, equal constants."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_value(x, y, partner, change) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key], partner, change) for key in a)
    if isinstance(a, Node) and isinstance(b, Node) and carried(a) in partner:
        return partner[carried(a)] is carried(b)
    x, y = number_of(a), number_of(b)
    if x is None or y is None:
        return type(a) is type(b) and bool(a == b)
    return change.agree(x, y)


def number_of(argument: Any) -> Any:
    """The expression of an argument that is a size or a number; None for any other."""
    value = argument.meta.get("val") if isinstance(argument, Node) else argument
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return value.node.expr
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def same_type(a: Any, b: Any, change: Change) -> bool:
    """Whether two recorded values have one element type, and shapes that agree."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) or not isinstance(a, torch.Tensor)
    if a.dtype != b.dtype or a.dim() != b.dim():
        return False
    return all(change.agree(size_of(a, axis), size_of(b, axis)) for axis in range(a.dim()))


def same_numbers(
    program: ExportedProgram, other: ExportedProgram, examples: Sequence[Any], moved: Iterable[Sequence[Any]] = (),
    held: Sequence[Any] = (),
) -> bool:  # fmt: skip
    """Whether both programs give the same results for other numbers than those of the leaves: random floats, zeros,
    other masks and other integers; whether the shapes and element types on the way are those that it records; and
    whether they do for leaves of other sizes, `moved`, as far as both take these. Numbers with which a program compares
    are drawn, too, and integers beside those that are `held`, which may be more than those of the leaves.

    An operator whose result has another shape or element type for other sizes gives the right numbers when torch runs
    it; what is made of the program takes for granted what is recorded.
    """
    generator, known = np.random.default_rng(0), held or examples
    used = zip(examples, inputs_used(program), inputs_used(other), strict=True)
    apart = [
        np.asarray(each.cpu())
        for each, *both in used
        if isinstance(each, torch.Tensor) and len({*both}) > 1 and not each.is_floating_point()
    ]
    for pair in draws_for(apart):
        leaves = [redrawn_tensor(each, known[i], pair[i % 2], generator) for i, each in enumerate(examples)]
        checked = AsRecorded(program, leaves)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            ours, theirs = rebuilt(program, run(program, leaves, checked.run)), rebuilt(other, run(other, leaves))
        same = len(ours) == len(theirs) and all(close(a, b) for a, b in zip(ours, theirs, strict=True))
        if not (same and checked.agrees):
            return False
    compared = compared_in_programs((program, other))
    arrays = ([plain_array(each) for each in some if isinstance(each, torch.Tensor)] for some in (examples, known))
    counts = ((redrawn, redrawn),) * (MOST_TURNS if buffers_written(program) else 0)
    for pair in (*counts, *draws_beside(compared.whole, compared.real, compared.finite, *arrays)):
        leaves = [redrawn_tensor(each, known[i], pair[i % 2], generator) for i, each in enumerate(examples)]
        number = int(generator.integers(1 << 30))
        if alike(*(results_or_none(each, leaves, state_later(each, number)) for each in (program, other))) is False:
            return False
    for leaves in moved:
        given = [results_or_none(each, leaves) for each in (program, other)]
        if given.count(None) == 1 or alike(*given) is False:
            return False
    return True


def alike(ours: list[Any] | None, theirs: list[Any] | None) -> bool | None:
    """Whether two programs gave the same; None where one of them gave nothing."""
    if ours is None or theirs is None:
        return None
    return len(ours) == len(theirs) and all(close(a, b) for a, b in zip(ours, theirs, strict=True))


def inputs_used(program: ExportedProgram) -> list[bool]:
    """Of each leaf whether the program uses it."""
    given = {getattr(s.arg, "name", "") for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT}
    return [bool(n.users) for n in program.graph.nodes if n.op == "placeholder" and n.name in given]


def state_later(program: ExportedProgram, number: int) -> dict[str, torch.Tensor]:
    """What the buffers that a program writes may hold in a later call, one of many."""
    state, generator = state_of_program(program), np.random.default_rng(number)
    written = [name for name in buffers_written(program) if isinstance(state.get(name), torch.Tensor)]
    return {name: redrawn_tensor(state[name], state[name], later_state, generator) for name in written}


def buffers_written(program: ExportedProgram) -> list[str]:
    """The buffers that a program writes, in place or by an output."""
    signature = program.graph_signature
    names = {s.arg.name: str(s.target) for s in signature.input_specs if s.kind is InputKind.BUFFER}
    views = {node: names[node.name] for node in program.graph.nodes if node.op == "placeholder" and node.name in names}
    written = {*signature.buffers_to_mutate.values()}
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        of = views.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
        if of is None or schema is None:
            continue
        written |= {of} if schema.is_mutable else set()
        if any(each.alias_info is not None for each in schema.returns):
            views[node] = of
    return sorted(written)


def results_or_none(
    program: ExportedProgram, leaves: Sequence[Any], later: Mapping[str, torch.Tensor] | None = None
) -> list[Any] | None:
    """What a program gives for these leaves, from a `later` state on; None where it takes none such."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return list(rebuilt(program, run(program, leaves, later=later or {})))
    except Exception:  # whatever torch's operators raise for numbers that do not fit such sizes
        return None


class AsRecorded(torch.fx.Interpreter):
    """Runs a program's graph; `agrees` is False once a node gave another shape or element type than was recorded."""

    def __init__(self, program: ExportedProgram, leaves: Sequence[Any]) -> None:
        super().__init__(program.graph_module)
        self.agrees = True
        self.sizes: dict[Any, Any] = {}
        for meta, leaf in zip(metas_of_program(program), leaves, strict=True):
            for axis in range(meta.dim()) if isinstance(meta, torch.Tensor) else ():
                size = size_of(meta, axis)
                if isinstance(size, sympy.Symbol):
                    self.sizes[size] = sympy.Integer(leaf.shape[axis])

    def run_node(self, n: Node) -> Any:
        """What the node gives."""
        found, recorded = super().run_node(n), n.meta.get("val")
        if isinstance(found, torch.Tensor) and isinstance(recorded, torch.Tensor):
            self.agrees &= found.dim() == recorded.dim() and found.dtype == recorded.dtype
            for axis in range(found.dim()) if self.agrees else ():
                size = sympy.sympify(size_of(recorded, axis)).xreplace(self.sizes)
                self.agrees &= not size.is_Integer or int(size) == found.shape[axis]
        return found


def run(
    program: ExportedProgram, leaves: Sequence[Any], graph: Callable[..., Any] | None = None,
    later: Mapping[str, torch.Tensor] = MappingProxyType({}),
) -> list[Any]:  # fmt: skip
    """All that the program's graph returns for these leaves, or `graph` in its place; state is copied where it could
    be written, and what is `later` stands for it."""
    state, given = {**state_of_program(program), **later}, iter(leaves)
    arguments = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            leaf = next(given)
            arguments.append(leaf.clone() if isinstance(leaf, torch.Tensor) else leaf)
        elif spec.kind is InputKind.PARAMETER:
            arguments.append(state[str(spec.target)])
        else:
            value = state[spec.target] if spec.target is not None else None
            arguments.append(value.clone() if isinstance(value, torch.Tensor) else value)
    torch.manual_seed(0)
    return list((graph or program.graph_module)(*arguments))


def rebuilt(program: ExportedProgram, found: Sequence[Any]) -> list[Any]:
    """What the program's graph returned, with the leaves that its result has once it is rebuilt: it depends on sizes
    which numbers of a cache are leaves."""
    is_user = [spec.kind is OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs]
    own = [each for each, user in zip(found, is_user, strict=True) if user]
    written = [each for each, user in zip(found, is_user, strict=True) if not user]
    spec = program.call_spec.out_spec
    return [*written, *(own if spec is None else pytree.tree_leaves(pytree.tree_unflatten(own, spec)))]


def close(a: Any, b: Any) -> bool:
    """Whether two results are the same but for rounding."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    tolerance = 1e-3 if a.dtype in (torch.float32, torch.float64) else 2e-2
    a, b = a.double(), b.double()
    finite = b[b.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 1.0  # of whose digits sums lose some
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance * max(0.1, largest * 0.01), equal_nan=True)
