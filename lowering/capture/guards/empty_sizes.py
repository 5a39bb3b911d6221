"""Whether the operators of a program take empty tensors: `max` over a dimension of size 0 raises, and ONNX need not.

The program's graph is run on tensors without numbers, once with every dimension at 0 that may be 0. This costs little:
no symbols, no tracing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeVar

import attrs
import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node

from lowering.capture.guards.guards import Guard, number
from lowering.records.programs import first_line, quiet
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import line_of_trace, trace_of
from lowering.records.torch_internals import (
    LOGGER_OF_FAKE_TENSORS,
    FakeTensorMode,
    OpOverload,
    ShapeEnv,
    pytree,
    unset_fake_temporarily,
)

Found = TypeVar("Found", bound=Any)  # a lowering.capture.capture.Captured


def without_empty(captured: Found, symbols: Sequence[str], few: Sequence[int] = (0,)) -> tuple[Found, frozenset[str]]:
    """(program, refused): the same program, in which a symbol ranges from 1 where some operator raises at 0, or gives
    other sizes than torch recorded, and those symbols. Sizes of 1 are looked at, too, where they are among the `few`.
    """
    program: ExportedProgram | None = captured.program
    if program is None or not symbols:
        return captured, frozenset()
    ranges, guards, notes = dict(captured.range_constraints), list(captured.guards), list(captured.notes)
    refused: set[str] = set()
    for point in refused_points(program, symbols, few):
        text, line = raised_at(program, point) or ("", "")
        names = " and ".join(f"{captured.dim_names[symbol]} = {size}" for symbol, size in point.items())
        notes.append(f"{names} is refused: {text}")
        ((symbol, size), *others) = point.items()
        if others or size:
            guards.append(guard_against(point, line))
            continue
        refused.add(symbol)
        ranges[symbol] = (max(1, ranges[symbol][0]), ranges[symbol][1])
        expr = sympy.Ge(number(symbol), 1)
        guards = [guard for guard in guards if not is_about_zero(guard.expr, symbol)]
        guards.append(Guard(expr, str(expr), line))
    return attrs.evolve(captured, range_constraints=ranges, guards=tuple(guards), notes=tuple(notes)), frozenset(
        refused
    )


def guard_against(point: Mapping[str, int], line: str) -> Guard:
    """What refuses that symbols have these sizes, all of them together."""
    sizes = [(number(symbol), size) for symbol, size in point.items()]
    expr: Any = sympy.Or(*(each for s, size in sizes for each in (sympy.Lt(s, size), sympy.Gt(s, size))))
    return Guard(expr, str(expr), line)


def refused_points(program: ExportedProgram, symbols: Sequence[str], few: Sequence[int]) -> Iterator[Mapping[str, int]]:
    """The sizes, of the few, at which some operator raises, or gives other sizes than torch recorded: of each symbol
    alone, then of two together, then of all of them."""
    wholes = [size for size in few if raised_at(program, dict.fromkeys(symbols, size)) is not None]
    if not wholes and len(symbols) > FEW:
        return
    single = [{symbol: size} for symbol in symbols for size in few]
    alone = [point for point in single if raised_at(program, point) is not None]
    yield from alone
    rest = [point for point in single if point not in alone]
    pairs = [{**one, **other} for one, other in combinations(rest, 2) if one.keys() != other.keys()]
    pairs = pairs if len(symbols) <= FEW else []
    together = [pair for pair in pairs if raised_at(program, pair) is not None]
    yield from together
    for size in wholes:
        every = {symbol: size for symbol in symbols if {symbol: size} in rest}
        if len(every) > 2 and not together and raised_at(program, every) is not None:
            yield every


FEW = 4
"""Of how many sizes each is tried, and each two of them, where all of them together at 0 are taken."""


def is_about_zero(expr: Any, symbol: str) -> bool:
    """True for a relation which says that a symbol is not 0."""
    return isinstance(expr, sympy.Ne) and expr.rhs == 0 and getattr(expr.lhs, "name", "") == symbol


class Walk(Interpreter):
    """Runs a graph node by node at some sizes, and remembers the node it is at."""

    def __init__(self, module: GraphModule, sizes: Mapping[str, int]) -> None:
        super().__init__(module)
        self.sizes = sizes
        self.at: Node | None = None

    def run_node(self, n: Node) -> Any:
        """What the node gives. Where all of its operands are empty it is computed for good first, because a few
        operators raise only then."""
        self.at = n
        if n.op == "call_function" and isinstance(n.target, OpOverload):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            if tensors and all(0 in each.shape for each in tensors if is_known(each)) and all(map(is_known, tensors)):
                with unset_fake_temporarily():
                    real: Any = pytree.tree_map_only(torch.Tensor, like, (args, kwargs))
                    n.target(*real[0], **real[1])
        try:
            made = super().run_node(n)
        except Exception as error:
            recorded = n.meta.get("val") if n.op == "call_function" else None
            if recorded is None or (is_refusal(error) and not hangs_on_data(n)):
                raise
            return pytree.tree_map(self.as_recorded, recorded)
        refuse_other_sizes(n, made, self.sizes)
        return made

    def as_recorded(self, recorded: Any) -> Any:
        """What torch recorded, at these sizes: where torch itself fails, or data tells sizes, what follows is asked."""
        if isinstance(recorded, torch.Tensor):
            shape = [max(0, at(size, self.sizes)) for size in recorded.shape]
            return torch.empty(shape, dtype=recorded.dtype, device=recorded.device)
        if isinstance(recorded, torch.SymFloat | torch.SymBool):
            return 1.0 if isinstance(recorded, torch.SymFloat) else True
        return at(recorded, self.sizes) if isinstance(recorded, torch.SymInt) else recorded


def is_refusal(error: Exception) -> bool:
    """Whether an error is one by which an operator refuses what it is given."""
    return isinstance(error, RuntimeError | IndexError | ValueError) and type(error).__module__ == "builtins"


def is_known(x: torch.Tensor) -> bool:
    """Whether all sizes of a tensor are numbers."""
    return all(type(size) is int for size in x.shape)


def hangs_on_data(node: Node) -> bool:
    """Whether a size of what a node is given is a number of the data, or the number itself is given."""
    given = pytree.tree_leaves([each.meta.get("val") for each in node.all_input_nodes])
    sizes = [size for each in given for size in (each.shape if isinstance(each, torch.Tensor) else (each,))]
    return not all(map(is_told, sizes))


def refuse_other_sizes(node: Node, made: Any, sizes: Mapping[str, int]) -> None:
    """Raises ValueError where a node gives other sizes than torch recorded for it: torch takes min(1, n) for 1."""
    recorded = pytree.tree_leaves(node.meta.get("val")) if node.op == "call_function" else []
    for each, found in zip(recorded, pytree.tree_leaves(made), strict=False):
        if not isinstance(each, torch.Tensor) or not isinstance(found, torch.Tensor) or each.ndim != found.ndim:
            continue
        pairs = [(n, size) for n, size in zip(each.shape, found.shape, strict=True) if type(size) is int and is_told(n)]
        try:
            other = any(at(n, sizes) != size for n, size in pairs)
        except ArithmeticError:  # at these sizes it would divide by 0
            continue
        if other:
            raise ValueError(f"{node.target} gives a tensor of {list(found.shape)}, torch recorded {list(each.shape)}")


def is_told(size: Any) -> bool:
    """Whether a recorded size hangs on no number of the data."""
    return not isinstance(size, torch.SymInt) or not any(is_unbacked(s.name) for s in size.node.expr.free_symbols)


def like(tensor: torch.Tensor) -> torch.Tensor:
    """An empty tensor with the shape and the element type of a tensor."""
    return torch.empty(tuple(int(size) for size in tensor.shape), dtype=tensor.dtype)


def raised_at(program: ExportedProgram, sizes: Mapping[str, int]) -> tuple[str, str] | None:
    """(error, the user's line) where some operator raises at these sizes; None where none does, or where only numbers
    could tell."""
    walk = Walk(program.graph_module, sizes)
    try:
        inputs = [filled(node, sizes) for node in program.graph.nodes if node.op == "placeholder"]
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        with quiet(LOGGER_OF_FAKE_TENSORS), mode, torch.no_grad():
            walk.run(*(empty(each) for each in inputs), enable_io_processing=False)
    except (RuntimeError, IndexError, ValueError) as error:
        if type(error).__module__ != "builtins" or walk.at is None:
            return None
        return first_line(error), line_of_trace(trace_of(walk.at))
    except Exception:
        return None
    return None


def filled(node: Node, sizes: Mapping[str, int]) -> Any:
    """What was recorded for a placeholder, made at these sizes: an empty tensor of that shape and element type (the
    strides need not be those), or a number."""
    recorded = node.meta.get("val")
    if isinstance(recorded, torch.Tensor):
        return tuple(at(size, sizes) for size in recorded.shape), recorded.dtype, recorded.device
    return at(recorded, sizes) if isinstance(recorded, torch.SymInt) else recorded


def empty(what: Any) -> Any:
    """A tensor without numbers for a tensor, made inside the mode that holds such; everything else as it is."""
    if isinstance(what, tuple) and len(what) == 3 and isinstance(what[1], torch.dtype):
        shape, dtype, device = what
        return torch.empty(shape, dtype=dtype, device=device)
    return what


def at(size: Any, sizes: Mapping[str, int]) -> int:
    """A recorded size, with these sizes for symbols. The other symbols have the size that they had in the trace."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    expr = size.node.expr
    traced = size.node.shape_env.backed_var_to_val
    return int(expr.xreplace({s: sympy.Integer(int(sizes.get(s.name, traced.get(s, 2)))) for s in expr.free_symbols}))
