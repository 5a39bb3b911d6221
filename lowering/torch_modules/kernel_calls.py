"""Operators that torch has no meaning for, computed by irkit's evaluator: on numpy arrays, without gradients.

An operator over tensors alone is one torch operator, `irkit::evaluate`, which torch.export keeps; its operand `graph`
is the text of a graph of that one operator. One over strings, numbers of four bits or sequences is a call in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from irkit.core.ir import Graph, Value, item, param
from irkit.core.types import Optional, Tensor, Tuple, Type, dims_of
from irkit.core.types import Sequence as SequenceType
from irkit.dims import label, symbols_of
from irkit.evaluation.interpreter import evaluate
from irkit.text.parser import parse
from lowering.records.types import TORCH, array_of, tensor_of
from lowering.torch_modules.common import vector
from lowering.torch_modules.sizes import number_of_term, sources_of, term_of


def text_of(value: Value) -> str:
    """The text of a graph of one operator, over parameters for the operands that are there."""
    inputs = tuple(None if v is None else param(v.type) for v in value.inputs)
    made = value.with_inputs(inputs)
    several = isinstance(value.type, Tuple)
    results = tuple(item(made, i) for i in range(len(made.type.items))) if several else (made,)  # type: ignore[union-attr]
    return str(Graph(tuple(v for v in inputs if v is not None), results, name="one"))


@lru_cache(maxsize=1 << 12)
def graph_of(text: str) -> Graph:
    """The graph of a text."""
    return parse(text)


def is_of_tensors(type_: Type) -> bool:
    """Whether torch has tensors of a type."""
    parts = type_.items if isinstance(type_, Tuple) else (type_,)
    return all(isinstance(part, Tensor) and part.dtype in TORCH for part in parts)


def as_array(given: Any) -> Any:
    """What the evaluator takes for a value of a module."""
    if isinstance(given, list):
        return [as_array(each) for each in given]
    held = vector(given) if isinstance(given, tuple) else given
    return array_of(held) if isinstance(held, torch.Tensor) else held


def as_held(found: Any, type_: Type) -> Any:
    """A result of the evaluator as a module holds it: a tensor, an array where torch has no such, a list, or None."""
    if isinstance(type_, SequenceType):
        return [as_held(each, type_.element) for each in found]
    if isinstance(type_, Optional):
        return None if found is None else as_held(found, type_.element)
    return tensor_of(np.array(found)) if isinstance(type_, Tensor) and type_.dtype in TORCH else found


def by_kernel(*operands: Any, text: str) -> Any:
    """The result of an operator, or a tuple of them."""
    graph = graph_of(text)
    given = [each for each in operands if each is not None]
    if all(isinstance(each, torch.Tensor | tuple) for each in given) and all(
        is_of_tensors(r.type) for r in graph.results
    ):
        found: Any = torch.ops.irkit.evaluate([vector(each) for each in given], text)
    else:
        found = computed(given, graph)
    return found[0] if len(graph.results) == 1 else tuple(found)


def computed(given: Sequence[Any], graph: Graph) -> list[Any]:
    """The results of a graph of one operator; random ones are drawn by torch's generator."""
    seed = int(torch.randint(1 << 31, ())) if any(v.op in DRAWING for v in graph.order) else 0
    arrays = [as_array(each) for each in given]
    found = evaluate(graph, arrays, seed=seed)
    return [as_held(each, r.type) for each, r in zip(found, graph.results, strict=True)]


DRAWING = frozenset(
    ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)


@torch.library.custom_op("irkit::evaluate", mutates_args=())
def evaluate_operator(operands: Sequence[torch.Tensor], graph: str) -> list[torch.Tensor]:
    """The results of an operator on tensors, by irkit's kernel of it."""
    return [each.clone() for each in computed(list(operands), graph_of(graph))]


@evaluate_operator.register_fake
def _(operands: Sequence[torch.Tensor], graph: str) -> list[torch.Tensor]:
    """Tensors of the sizes that the types of the results say; new symbols for those that hang on data."""
    one = graph_of(graph)
    types = [p.type for p in one.params]
    wanted = {label(s) for r in one.results for d in dims_of(r.type) for s in symbols_of(d)}
    known: dict[str, Any] = {}
    for name, at, axis, slope, offset in sources_of(types, wanted, {}):
        known[name] = (operands[at].shape[axis] - offset) // slope
    found = []
    for result in one.results:
        shape = []
        for dim in dims_of(result.type):
            for symbol in symbols_of(dim):
                if label(symbol) not in known:
                    known[label(symbol)] = torch.library.get_ctx().new_dynamic_size()
            shape.append(number_of_term(term_of(dim), known))
        found.append(torch.empty(shape, dtype=TORCH[result.dtype]))
    return found
