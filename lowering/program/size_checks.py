"""The conditions on inputs in a file's contract, as values that the file computes itself: sizes, and least numbers.

`Program` and whoever reads the contract check them before a run. A file can do so too: each condition is a boolean
scalar, computed from the shapes of the inputs, in whole numbers as Python has them, and in double where the model
rounds its sizes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import attrs
import numpy as np

from irkit.build import const, op
from irkit.contract.as_json import contract_of
from irkit.contract.least import least_numbers
from irkit.contract.sizes import names_of
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.dims.syntax import Conditions, Reader, one_by_one, tree_of
from irkit.errors import DimensionError
from lowering.fold.scope import Check
from lowering.program.size_numbers import OPERATORS, ROUNDED, Number, constant, largest, least, less, said_by

RULED = "the range that the model was captured for"


def input_checks(graph: Graph) -> tuple[Check, ...]:
    """What the contract of a graph says of its inputs, as checks on values of the graph. Raises DimensionError for a
    condition that ONNX cannot say."""
    values = dict(zip(names_of(graph), graph.params, strict=True))
    least = (
        Check(none_less(values[name], number), f"{name} >= {number}", source)
        for name, (number, source) in least_numbers(graph).items()
    )
    return (*size_checks(graph), *least)


def none_less(value: Value, number: int) -> Value:
    """Whether no element is less than a number, as a boolean scalar."""
    low = op.ReduceSum(
        op.Cast(op.Less(value, const(np.array(number, value.dtype.numpy))), to=int(DType.INT64)), keepdims=0
    )
    return op.Equal(low, const(0, "i64"))


def size_checks(graph: Graph) -> tuple[Check, ...]:
    """What the contract of a graph says of sizes, as checks on values of the graph: equal dimensions, ranges, guards
    and relations. Dimensions that are numbers are left to the runtime, which compares them with the inputs of the file.

    Raises DimensionError for a condition that ONNX cannot say.
    """
    contract, inputs = contract_of(graph), Inputs(graph)
    names = {
        name: number_of(place["value"], {"size": inputs.size(place["input"], place["axis"])})
        for name, place in contract["bind"].items()
    }
    bound = {(place["input"], place["axis"]) for place in contract["bind"].values() if place["value"] == "size"}
    asked = list[tuple[str, str]]()
    for entry in contract["inputs"]:
        for axis, dim in enumerate(entry.get("shape", ())):
            if isinstance(dim, str) and (entry["name"], axis) not in bound:
                names[f"{entry['name']}.{axis}"] = inputs.size(entry["name"], axis)
                asked.append((f"'{entry['name']}.{axis}' == {dim}", "the shapes of the inputs"))
    for name, (low, high) in contract["ranges"].items():
        if name in names:
            asked += [(f"'{name}' >= {low}", RULED)] if low > 0 else []
            asked += [(f"'{name}' <= {high}", RULED)] if high is not None else []
    asked += [(each["text"], each["source"]) for each in (*contract["guards"], *contract["relations"])]
    return tuple(Check(truth_of(text, names), text, source) for text, source in dict(asked).items())


@attrs.frozen
class Inputs:
    """The inputs of a graph, whose sizes are read."""

    graph: Graph

    def size(self, name: str, axis: int | None) -> Number:
        """The size of an axis of an input; the number that the input holds where `axis` is None."""
        value = self.graph.params[names_of(self.graph).index(name)]
        if axis is None:
            return Number(op.Cast(op.Reshape(value, const([])), to=int(DType.INT64)))
        return Number(op.Gather(op.Shape(value), const(axis), axis=0))


# ---------------------------------------------------------------------------------------------- what texts mean


@attrs.frozen
class Truth:
    """Whether a condition holds, and whether it says anything, which it does not where it divides by 0, or where 64
    bits do not hold a number in it."""

    flag: Value
    said: Value


def truth_of(text: str, names: Mapping[str, Number]) -> Value:
    """Whether a condition over sizes holds, as a boolean scalar; where it divides by 0, or 64 bits do not hold a number
    in it, it does not. Raises DimensionError for one that ONNX cannot say."""
    reader = numbers_over(names)
    conditions = Conditions[Truth](reader.read, compared, joined, negated, known)
    found = conditions.read(tree_of(text, "condition"), text)
    return op.And(found.flag, found.said)


def number_of(text: str, names: Mapping[str, Number]) -> Number:
    """The number that an expression over sizes means."""
    return numbers_over(names).read(tree_of(text, "dimension"), text)


def numbers_over(names: Mapping[str, Number]) -> Reader[Number]:
    """What reads expressions over sizes."""

    def named(name: str) -> Number:
        if name not in names:
            raise DimensionError(f"the file does not tell {name}", hint="check it with the contract")
        return names[name]

    rounded: Mapping[str, Callable[[list[Number]], Number]] = {
        name: (lambda given, function=function: function(given[0])) for name, function in ROUNDED.items()
    }
    functions = {
        "max": lambda given: reduce(largest, given),
        "min": lambda given: reduce(least, given),
        **rounded,
    }
    return Reader(
        constant, named, OPERATORS, functions, lambda given: OPERATORS[ast.Sub](constant(0), given), one_by_one
    )


def compared(relations: Sequence[type], sides: Sequence[Number]) -> Truth:
    """Whether each relation holds between two sides that follow one another."""
    flags = [ASKED[each](a, b) for each, a, b in zip(relations, sides, sides[1:], strict=False)]
    said = dict.fromkeys(each for flag in flags for each in flag.said)
    return Truth(reduce(op.And, (flag.value for flag in flags)), reduce(op.And, said, const(True)))


def joined(parts: Sequence[Truth], decisive: bool) -> Truth:
    """`or` of the parts where `decisive`, else `and`: what follows the part that decides is not asked."""
    flag, said = parts[-1].flag, parts[-1].said
    for part in reversed(parts[:-1]):
        decides = part.flag if decisive else op.Not(part.flag)
        flag = op.Or(part.flag, flag) if decisive else op.And(part.flag, flag)
        said = op.And(part.said, op.Or(decides, said))
    return Truth(flag, said)


def negated(part: Truth) -> Truth:
    """The contrary, which says as little where something is divided by 0."""
    return Truth(op.Not(part.flag), part.said)


def known(flag: bool) -> Truth:
    """What is always so, or never."""
    return Truth(const(flag), const(True))


def same(a: Number, b: Number) -> Number:
    """Whether neither is less."""
    below, above = less(a, b), less(b, a)
    return Number(op.Not(op.Or(below.value, above.value)), said=said_by(below, above))


def opposite(flag: Number) -> Number:
    """The contrary of a flag."""
    return Number(op.Not(flag.value), said=flag.said)


ASKED: Mapping[type, Callable[[Number, Number], Number]] = {
    ast.Lt: less,
    ast.Gt: lambda a, b: less(b, a),
    ast.LtE: lambda a, b: opposite(less(b, a)),
    ast.GtE: lambda a, b: opposite(less(a, b)),
    ast.Eq: same,
    ast.NotEq: lambda a, b: opposite(same(a, b)),
}
