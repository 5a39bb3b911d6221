"""What several ways of a module give, as one: tensors by branches of the graph, numbers by what decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import sympy
import torch

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor
from irkit.dims.choice import choose_size, negation
from irkit.dims.periodic import shortest
from lowering.direct.sizes import SizeNode, dim_of, size_of
from lowering.direct.tensors import Memory, Traced
from lowering.direct.tracer import Tracer
from lowering.fold.assertions import all_of, condition, join_checks
from lowering.fold.control import several
from lowering.fold.scope import Check, Frame, stamp_origin, stamped_all
from lowering.fold.size_branches import divided_safely
from lowering.records.types import TORCH
from lowering.size_branches.decisions import GivenUp

PLAIN = (str, bytes, int, float, bool, type(None), torch.dtype, torch.device, torch.Size, slice)
"""Values that are the same where they are equal."""


class Apart(Exception):
    """What two ways give is not one; why."""


def refuse_write(module: torch.nn.Module) -> None:
    """Raises GivenUp where a tensor is written that another one may share its memory with, as sizes decide."""
    raise GivenUp(module, "a tensor is written that it gives, or was given, and whose memory hangs on sizes")


@attrs.frozen(eq=False)
class Way:
    """One way of a module: what is `said` where it is taken, the `leaves` that it gives, each one itself or the number
    of an operand, the `values` of tensors among these, and the memories that they may share with others, by their
    places, what it `checks` of data, and its frame with the parameters for its operands."""

    said: Sequence[Any]
    leaves: Sequence[Any]
    values: dict[int, Value]
    shared: dict[int, Memory]
    checks: Sequence[Check]
    frame: Frame
    params: Sequence[Value]

    @property
    def where(self) -> Any:
        """Where it is taken."""
        return sympy.And(*self.said)


@attrs.frozen
class Given:
    """A result that is an operand itself."""

    index: int


def join_leaves(tracer: Tracer, module: torch.nn.Module, ways: Sequence[Way], operands: Sequence[Traced]) -> list[Any]:
    """What the ways leave, as one; the last one is that of the example. Raises Apart where it cannot be."""
    found: list[Any] = []
    tensors: dict[int, tuple[Any, ...]] = {}
    for place, each in enumerate(zip(*(way.leaves for way in ways), strict=True)):
        if all(isinstance(one, Given) and one == each[0] for one in each):
            found.append(operands[each[0].index])
        elif all(one is each[0] for one in each) and type(each[0]) is not Traced:
            found.append(each[0])
        elif all(place in way.values for way in ways):
            tensors[place] = common_shape(tracer, ways, place)
            found.append(None)
        else:
            found.append(joined_leaf(tracer, ways, each))
    checks = [check for way in ways for check in way.checks]
    if tensors or checks:
        made = branches(tracer, ways, tensors, operands, bool(checks))
        if checks:
            *made, held = made
            tracer.scope.checks.append(join_checks(checks, held, "in the branch that is taken"))
        for (place, shape), value in zip(tensors.items(), made, strict=True):
            found[place] = shown(tracer, module, value, shape, [way.shared.get(place) for way in ways])
    return found


# ---------------------------------------------------------------------------------------------- numbers


def joined_leaf(tracer: Tracer, ways: Sequence[Way], leaves: Sequence[Any]) -> Any:
    """A number or another value that is no tensor, as the ways give it."""
    kinds = {kind_of(each) for each in leaves}
    if kinds == {int}:
        size = chosen_size(tracer, ways, [dim_of(each) for each in leaves])
        return size_of(tracer.asked, size)
    if kinds == {bool}:
        return chosen_truth(tracer, ways, leaves)
    first: Any = leaves[0]
    if type(first) in PLAIN and all(type(each) is type(first) and each == first for each in leaves):
        return first
    if all(isinstance(each, torch.SymFloat) and each.node.expr == first.node.expr for each in leaves):
        return first
    raise Apart(f"one gives {type(first).__name__} and another one something else")


def kind_of(value: Any) -> type | None:
    """int or bool, for a number that may be symbolic; None for anything else."""
    if isinstance(value, torch.SymInt) or type(value) is int:
        return int
    return bool if isinstance(value, torch.SymBool) or type(value) is bool else None


def chosen_size(tracer: Tracer, ways: Sequence[Way], sizes: Sequence[dims.Dim]) -> dims.Dim:
    """The size that each way has where it is taken. Raises Apart where no expression tells it."""
    refuse_inner(tracer, [symbol for each in sizes for symbol in dims.symbols_of(each)])
    return chosen_by([way.said for way in ways], [shortest(each) for each in sizes], one_or_other)


def refuse_inner(tracer: Tracer, symbols: Sequence[Any]) -> None:
    """Raises Apart for symbols of numbers that are told inside of one way only."""
    if not all(symbol.name in tracer.asked.ranges or symbol in tracer.scope.binders for symbol in symbols):
        raise Apart("a size of one of them is a number out of data")


def chosen_by(said: Sequence[Sequence[Any]], values: Sequence[Any], choose: Callable[[Any, Any, Any], Any]) -> Any:
    """Of values, one for each of some ways, that whose way is taken: what decides first is asked first. The values of
    ways that are refused, of which there is none, may be any."""
    first = values[0]
    if all(each == first for each in values):
        return first
    test = next(each for each, *_ in said)
    sides = [[i for i, each in enumerate(said) if (each[0] == test) is side] for side in (True, False)]
    made = [chosen_by([said[i][1:] for i in side], [values[i] for i in side], choose) for side in sides if side]
    return made[0] if len(made) == 1 or made[0] == made[1] else choose(test, *made)


def one_or_other(test: Any, yes: dims.Dim, no: dims.Dim) -> dims.Dim:
    """The size by what decides. Raises Apart where that is no expression."""
    found = choose_size(test, yes, no)
    if found is None:
        raise Apart("a size is one or another, by a condition that is none on integers")
    return found


def chosen_truth(tracer: Tracer, ways: Sequence[Way], truths: Sequence[Any]) -> Any:
    """The truth value that each way has where it is taken."""
    exprs = [sympy.true if each is True else sympy.false if each is False else each.node.expr for each in truths]
    if all(each == exprs[0] for each in exprs):
        return truths[-1]
    refuse_inner(tracer, [symbol for each in exprs for symbol in each.free_symbols])
    found = chosen_by(
        [way.said for way in ways],
        exprs,
        lambda test, yes, no: sympy.Or(sympy.And(test, yes), sympy.And(negation(test), no)),
    )
    if found in (sympy.true, sympy.false):
        return bool(found)
    last = truths[-1]
    return torch.SymBool(SizeNode(tracer.asked, found, bool, last if isinstance(last, bool) else last.node.hint))


def common_shape(tracer: Tracer, ways: Sequence[Way], place: int) -> tuple[Any, ...]:
    """The sizes of a tensor, as each way gives it. Raises Apart where the ways give what is no one type."""
    types = [way.values[place].type for way in ways]
    first = types[0]
    for each in types:
        if not (isinstance(each, Tensor) and isinstance(first, Tensor)):
            raise Apart("one gives what is no tensor")
        if each.dtype != first.dtype or len(each.shape) != len(first.shape):
            raise Apart(f"one gives {first!r} and another one {each!r}")
    return tuple(chosen_size(tracer, ways, sizes) for sizes in zip(*(each.shape for each in types), strict=True))  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------- tensors


def branches(
    tracer: Tracer, ways: Sequence[Way], tensors: dict[int, tuple[Any, ...]], operands: Sequence[Traced], checked: bool
) -> list[Value]:
    """The tensors at some places, and whether what is checked holds, by nested branches: the last way where no other
    one is taken."""
    origin = tracer.origin("cond")
    captures = tuple(dict.fromkeys(value for way in ways for value in way.frame.captured))
    flags = [condition(tracer.scope, divided_safely(way.where), origin) for way in ways[:-1]]
    types = [*(v.type for v in ways[0].params), *(v.type for v in captures), *(v.type for v in flags)]
    graphs = [body(tracer, way, tensors, captures, len(flags), checked) for way in ways]
    made = graphs[-1]
    for place in reversed(range(1, len(flags))):
        params = tuple(map(param, types))
        flag, count = params[len(types) - len(flags) + place], len(params)
        results = branched(flag, params, graphs[place], made, count)
        made = Graph(params, tuple(results), name="body")
    given = [tracer.read(tracer.handle(each)) for each in operands]
    every = [*given, *captures, *flags]
    values = branched(flags[0], every, graphs[0], made, len(every))
    tracer.asked.passed_on = True
    tracer.effects["content"] += 1
    shapes = [Tensor(v.type.dtype, shape) for v, shape in zip(values, tensors.values(), strict=False)]  # type: ignore[union-attr]
    known = dict(zip(values, [*shapes, *(v.type for v in values[len(shapes) :])], strict=True))
    new = stamped_all(tracer.scope, known, origin)
    return [new[v] for v in values]


def branched(flag: Value, given: Sequence[Value], yes: Graph, no: Graph, count: int) -> tuple[Value, ...]:
    """The results of one graph or another over the same operands."""
    attributes = {"then_branch": yes, "else_branch": no, "captures": count}
    return several(call("If", [flag, *given], attributes, outputs=len(yes.results)))


def body(
    tracer: Tracer, way: Way, tensors: dict[int, tuple[Any, ...]], captures: Sequence[Value], flags: int, checked: bool
) -> Graph:
    """A way as a graph over its operands, what all ways capture, and as many truth values as there are `flags`."""
    origin = tracer.origin("body")
    own = way.frame.captured
    params = (*way.params, *(own.get(v) or param(v.type) for v in captures), *(param(FLAG) for _ in range(flags)))
    results = [
        value if value.shape == shape else stamp_origin(tracer.scope, sized(value, shape), origin)
        for value, shape in ((way.values[place], shape) for place, shape in tensors.items())
    ]
    held = [all_of(way.checks) if way.checks else const(True)] if checked else []
    return Graph(params, (*results, *held), name="body")


FLAG = Tensor(DType.BOOL, ())


def sized(value: Value, shape: Sequence[Any]) -> Value:
    """A value, said to have sizes that it has where it is computed."""
    return op.Reshape(value, shape_vector(shape), allowzero=1)


def shown(
    tracer: Tracer, module: torch.nn.Module, value: Value, shape: Sequence[Any], shared: Sequence[Memory | None]
) -> Traced:
    """A result as the model gets it. Where it shares its memory on some way, it is not to be written, nor what it
    shares it with."""
    sizes = [tracer.asked.hint(d) for d in shape]
    twin = torch.empty(sizes, dtype=TORCH[value.dtype], device="meta")
    made = tracer.tensor(twin, value, "cond")
    memory = made.handle.memory
    for other in dict.fromkeys(each for each in shared if each is not None):
        refuse = partial(refuse_write, module)
        memory.doubtful.append(refuse)
        other.doubtful.append(refuse)
    return made
