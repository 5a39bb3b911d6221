"""The contract of a graph held against the example of its capture, which the program must take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np
import torch

from irkit import dims
from irkit.contract.least import check_least, least_numbers
from irkit.contract.sizes import binding_of, check_sizes, names_of
from irkit.core.ir import Graph, Value
from irkit.core.types import Tensor
from irkit.core.vocabulary import CONSTANT
from irkit.errors import ContractError, IrkitError
from irkit.evaluation.interpreter import evaluate
from irkit.rewriting.numbering import is_random
from lowering.errors import LoweringError
from lowering.records.types import array_of, as_pairs, is_absent

MOST = 200_000
"""How many elements are computed to tell whether conditions on data hold: a few milliseconds."""
TRY = (
    "run the model on the example: where it raises, too, give another example; where it does not, write the line "
    "otherwise, or leave what varies in it out of dynamic_shapes"
)


class Condition(Protocol):
    """What must hold whenever the program is called: a boolean scalar, in words, with its line."""

    @property
    def condition(self) -> Any: ...
    @property
    def text(self) -> str: ...
    @property
    def source(self) -> str: ...


def refuse_broken_example(graph: Graph, checks: Sequence[Condition], examples: Mapping[str, Any]) -> None:
    """Raises LoweringError where the contract of a graph is false for the example, whose tensors and numbers are given
    by name: sizes are always compared, conditions on data where they are computed of few elements, none of them random.
    """
    sizes, least = sizes_of_example(graph, examples), least_numbers(graph)
    if sizes is None:
        return
    try:
        check_sizes(graph, sizes)
        check_least(least, {name: array_of_example(examples.get(name)) for name in least})
    except ContractError as error:
        raise refused(error.what, error.source) from error
    refuse_places(graph, sizes)
    feeds = [array_of_example(examples.get(name)) for name in names_of(graph)] if checks else []
    if not checks or any(each is None for each in feeds):
        return
    for group in (checks, *([each] for each in checks if len(checks) > 1)):
        found = answers(graph, group, feeds, MOST if group is checks else MOST // len(checks))
        broken = next((c for c, holds in zip(group, found or (), strict=False) if not holds), None)
        if broken is not None:
            raise refused(f"its data breaks {broken.text}", broken.source)
        if found is not None and group is checks:
            return


def refused(what: str, source: str) -> LoweringError:
    """The error for what the example breaks."""
    return LoweringError(f"the program would refuse the very example of its capture: {what}", source=source, hint=TRY)


def refuse_places(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Raises LoweringError where a Gather looks up a constant place that is not there at these sizes: the model caught
    what eager raises then, and torch does not on tensors without numbers."""
    for value in graph.order:
        if value.op != "Gather":
            continue
        whole, places = value.inputs
        if whole is None or places is None or places.op != CONSTANT or not isinstance(whole.type, Tensor):
            continue
        size: Any = whole.type.shape[value.attribute("axis", 0)]
        if type(size) is not int and not {dims.label(symbol) for symbol in dims.symbols_of(size)} <= sizes.keys():
            continue
        try:
            found, size = np.asarray(places.attributes[0][1].array), dims.evaluate(size, sizes)
        except IrkitError:  # a buffer without numbers, or a size that is none here
            continue
        if found.size and not -size <= found.min() <= found.max() < size:
            raise refused(f"it looks up a place that is not among the {size} that there are", value.origin.source)


def sizes_of_example(graph: Graph, examples: Mapping[str, Any]) -> dict[str, int] | None:
    """The size of each name in the example; None where that has no sizes of its own."""
    shapes, seen = list[tuple[int, ...] | None](), set[tuple[int, tuple[int, ...]]]()
    for name, param in zip(names_of(graph), graph.params, strict=True):
        value = examples.get(name)
        if not isinstance(value, torch.Tensor) or type(param.type) is not Tensor:
            shapes.append(None)
            continue
        shape = (*value.shape, 2) if value.dtype.is_complex else tuple(value.shape)
        if [size for size in shape if type(size) is not int]:  # a tensor without numbers, of a program that was given
            return None
        key = (id(param.type), shape)  # the parts of a cache are all alike
        shapes.append(None if key in seen else shape)
        if key not in seen:
            seen.add(key)
    numbers = {name: value for name, value in examples.items() if type(value) is int}
    try:
        return binding_of(graph, shapes, numbers)
    except ContractError as error:
        raise refused(error.what, error.source) from error


def array_of_example(value: Any) -> np.ndarray | None:
    """What an argument of the example holds; None where that is not at hand."""
    if isinstance(value, torch.Tensor):
        plain = value.layout is torch.strided and not value.is_quantized and not is_absent(value)
        return array_of(as_pairs(value) if value.is_complex() else value) if plain else None
    return np.asarray(value) if isinstance(value, bool | int | float) else None


def answers(
    graph: Graph, checks: Sequence[Condition], feeds: Sequence[np.ndarray | None], most: int
) -> list[bool] | None:
    """Whether each condition holds for these arrays; None where that takes more elements, random numbers, or what
    irkit does not compute."""
    conditions: tuple[Value, ...] = tuple(each.condition for each in checks)
    alone = attrs.evolve(graph, results=conditions, signature=attrs.evolve(graph.signature, results=()))
    if any(map(is_random, alone.order)):
        return None
    given = [np.asarray(feed, param.dtype.numpy) for feed, param in zip(feeds, graph.params, strict=True)]
    try:
        return [bool(np.asarray(each).reshape(())) for each in evaluate(alone, given, most=most)]
    except IrkitError:
        return None
