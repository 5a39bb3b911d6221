"""The numbers that programs compare what they are given with: `x > 30.0`, `x.clamp(max=10)`, `ids == 5`.

Two programs that do unlike things beyond such a number agree on all others, so that these are drawn too where it is
looked at whether they are one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import attrs
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor
from lowering.records.types import DTYPES

COMPARING = frozenset("Less LessOrEqual Greater GreaterOrEqual Equal Clip Max Min".split())
"""Operators that do one thing below a number and another above it."""
CARRYING = frozenset(
    "Add Sub Mul Div Neg Abs Cast Reshape Expand Unsqueeze Squeeze Transpose Concat Where ReduceSum ReduceMean"
    " ReduceMax ReduceMin Slice Gather".split()
)
"""Operators of which a later comparison says something of their operands, by the numbers that stand in them."""
OF_SHAPES = frozenset(("Shape", "Size", "ShapeVector"))
ENDS: dict[str, int | float] = {
    "HardSigmoid": 3.0, "HardSwish": 3.0, "Mod": 10, "Round": 10.0, "Floor": 10.0, "Ceil": 10.0,
    "Exp": 100.0,
}  # fmt: skip
"""Numbers that reach what an operator does otherwise than with small ones."""
NARROW: dict[DType, int | float] = {
    DType.FLOAT16: 65520.0, DType.INT8: 128, DType.UINT8: 256, DType.INT16: 32768, DType.UINT16: 65536,
    DType.INT32: 10.0,
}  # fmt: skip
"""Types that do not hold numbers from one on; the greatest of some is beyond what is drawn of single numbers."""
SMALLER = frozenset((DType.BOOL, *NARROW))
FINITE = frozenset(("IsNaN", "IsInf"))
FEW = 4
MOST = 8
"""Of so many numbers each is drawn often enough."""
LEAST, GREATEST = 1e-8, 1e6
"""Beyond these ends a number stands for none, or for all."""


@attrs.frozen
class Compared:
    """The whole numbers and others with which programs compare, and whether one of them asks more often than another
    whether a number is finite."""

    whole: tuple[int, ...] = ()
    real: tuple[float, ...] = ()
    finite: bool = False

    @classmethod
    def of(cls, numbers: Iterable[Any], asked: Iterable[int] = ()) -> Compared:
        """What is told of some numbers, and of how often each program asks whether one is finite."""
        known = {n for n in numbers if type(n) is int or (type(n) is float and math.isfinite(n))}
        near = sorted((n for n in known if abs(n) <= GREATEST), key=lambda n: (abs(n), n))
        whole = [n for n in near if type(n) is int]
        real = dict.fromkeys(float(abs(n)) for n in near if abs(n) >= LEAST)
        return cls((*whole[:MOST],), (*[*real][:MOST],), len({*asked}) > 1)


def compared_in(graphs: Iterable[Graph]) -> Compared:
    """What graphs of irkit compare with."""
    graphs = tuple(graphs)
    counts = [Counter(value.op for value in walk.post_order(graph.results)) for graph in graphs]
    numbers = (n for graph in graphs for n in numbers_of_graph(graph))
    return Compared.of(numbers, [sum(count[op] for op in FINITE) for count in counts])


def numbers_of_graph(graph: Graph) -> Iterator[int | float]:
    """The numbers with which a graph, or one that it holds, compares what its parameters tell."""
    told, numbers = {*graph.params}, dict[Value, frozenset[int | float]]()
    order = walk.post_order(graph.results)
    for value in order:
        operands = [each for each in value.inputs if each is not None]
        if value.op not in OF_SHAPES and not told.isdisjoint(operands):
            told.add(value)
        known = frozenset[int | float]().union(*(numbers.get(each, ()) for each in operands))
        if value.op == "Constant":
            known = frozenset(numbers_in(value))
        elif value in told and value.op not in CARRYING:
            yield from known if value.op in COMPARING or value.op in ENDS else ()
            yield from (ENDS[value.op],) if value.op in ENDS else ()
            known = frozenset()
        if value.op == "Cast" and value in told and value.dtype in NARROW and operands[0].dtype not in SMALLER:
            yield NARROW[value.dtype]
        numbers[value] = known if len(known) <= MOST else frozenset()
    for body in walk.bodies(order):
        yield from numbers_of_graph(body)


def numbers_in(value: Value) -> Iterator[int | float]:
    """The numbers that a constant of few elements holds."""
    blob = value.blob
    if blob is None or not isinstance(value.type, Tensor) or blob.size > FEW or blob.absent:
        return
    if value.dtype.is_integer or value.dtype.is_float:
        yield from map(int if value.dtype.is_integer else float, blob.array.reshape(-1))


# ---- programs of torch.export


OF_TORCH = frozenset(
    "gt ge lt le eq ne clamp clamp_min clamp_max clip maximum minimum hardtanh threshold softplus relu6 hardswish exp"
    " hardsigmoid hardshrink softshrink where to _to_copy fmod remainder round floor ceil bucketize searchsorted"
    " bitwise_and huber_loss smooth_l1_loss".split()
)
CARRIED = frozenset("add sub mul div rsub".split())
END_OF_TORCH = {
    "hardswish": 3.0, "hardsigmoid": 3.0, "relu6": 6.0, "exp": 100.0, "fmod": 10, "remainder": 10, "round": 10.0,
    "floor": 10.0, "ceil": 10.0,
}  # fmt: skip
ASKING = frozenset("isnan isinf isfinite nan_to_num".split())


def compared_in_programs(programs: Iterable[ExportedProgram]) -> Compared:
    """The same of programs of torch.export."""
    programs = tuple(programs)
    nodes = [[*nodes_of(program)] for program in programs]
    asked = [sum(name in ASKING for name, _ in each) for each in nodes]
    numbers = chain.from_iterable(map(numbers_of_program, programs, nodes))
    return Compared.of(numbers, asked)


def nodes_of(program: ExportedProgram) -> Iterator[tuple[str, Node]]:
    """The operators that a program calls, in its branches too, with their names."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if node.op == "call_function":
                yield str(getattr(node.target, "__name__", "")).partition(".")[0].rstrip("_"), node


def numbers_of_program(program: ExportedProgram, nodes: Sequence[tuple[str, Node]]) -> Iterator[Any]:
    """The numbers that a program may compare with; none where it compares nothing."""
    if not any(name in OF_TORCH for name, _ in nodes):
        return
    for name, node in nodes:
        if name in OF_TORCH or name in CARRIED:
            yield from (*node.args, *node.kwargs.values())
        yield from (END_OF_TORCH[name],) if name in END_OF_TORCH else ()
        made = node.meta.get("val")
        if name in ("to", "_to_copy") and isinstance(made, torch.Tensor):
            yield from (NARROW[DTYPES[made.dtype]],) if DTYPES.get(made.dtype) in NARROW else ()
    for each in program.constants.values():
        if isinstance(each, torch.Tensor) and each.numel() <= FEW and each.dtype in DTYPES:
            yield from each.flatten().tolist()
