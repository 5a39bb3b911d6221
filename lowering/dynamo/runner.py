"""A compiled graph: torch tensors go into ONNX Runtime and come out of it without a copy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import onnxruntime
import torch

from irkit.contract.least import LEAST, check_least, least_numbers
from irkit.contract.sizes import ENFORCED, binding_of, check_sizes, names_of
from irkit.core.ir import Graph
from irkit.core.types import DType, Tensor
from irkit.errors import ContractError, EvaluateError
from irkit.onnx.sessions import array_of, ort_value
from lowering.records.types import TORCH, as_pairs, from_pairs, tensor_of
from lowering.records.types import array_of as ours_of

LOG = logging.getLogger("irkit.compile")

SHARED = frozenset((
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8,
))  # fmt: skip
"""Element types of which ONNX Runtime takes torch's memory, and torch that of ONNX Runtime."""


@attrs.frozen
class Entry:
    """An input of the graph: its name, the position of the argument, and whether that is complex."""

    name: str
    position: int
    is_complex: bool = False


@attrs.frozen
class Exit:
    """A result of the graph: its kind ("result", or "number" for a size), the element type that torch expects, whether
    it is complex, and in which order its dimensions lie in memory (empty where as they are counted)."""

    kind: str
    dtype: str
    is_complex: bool = False
    strides: tuple[int, ...] = ()


@attrs.frozen(eq=False)
class Runner:
    """A graph on ONNX Runtime, called with the arguments of the FX graph that it was lowered from, in a list.

    `checks` has the text of each condition that only the data decides; their values are the last outputs.
    `fallback` computes the same in torch, for sizes that the contract of the graph leaves out.
    """

    graph: Graph
    session: Any
    entries: tuple[Entry, ...]
    exits: tuple[Exit, ...]
    checks: tuple[str, ...]
    fallback: Callable[..., Any]

    @cached_property
    def types(self) -> Mapping[str, torch.dtype]:
        """The element types of the graph's inputs."""
        pairs = zip(names_of(self.graph), self.graph.params, strict=True)
        return {name: TORCH[p.type.dtype] for name, p in pairs if isinstance(p.type, Tensor)}

    @cached_property
    def is_conditional(self) -> bool:
        """Whether the contract leaves any sizes or places out."""
        facts = any(fact.kind in (*ENFORCED, LEAST) for fact in self.graph.signature.facts)
        return facts or any(r.lo > 0 or r.hi is not None for r in self.graph.symbols.values())

    def __call__(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The results in order. Raises ContractError where data break what the program asserts, EvaluateError where
        ONNX Runtime cannot run the graph."""
        given = {entry.name: self.operand(entry, arguments[entry.position]) for entry in self.entries}
        if self.is_conditional and (why := self.refusal(given)):
            LOG.warning("a call runs in torch: %s", why)
            return self.fallback(*arguments)
        try:
            found = self.session.run_with_ort_values(None, {name: value_of(t) for name, t in given.items()})
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise EvaluateError(
                f"ONNX Runtime cannot run {self.graph.name}: {error}",
                hint="backend='irkit_debug' runs the graph without ONNX Runtime, and prints what each node gives",
            ) from error
        count = len(self.exits)
        for text, held in zip(self.checks, found[count:], strict=True):
            if not held.numpy():
                raise ContractError(
                    f"the data break what the model asserts: {text}",
                    hint="look at the numbers that the model asserts something of, in the inputs",
                )
        return [left(exit_, value) for exit_, value in zip(self.exits, found, strict=False)]

    def operand(self, entry: Entry, argument: Any) -> torch.Tensor:
        """An argument as a tensor of the element type that the graph takes, in one piece."""
        wanted = self.types[entry.name]
        if argument is None:  # a token, which torch passes to keep checks in order
            return torch.empty(0, dtype=wanted)
        if not isinstance(argument, torch.Tensor):
            return torch.tensor(argument, dtype=wanted)
        tensor = argument.detach()
        if entry.is_complex:
            tensor = torch.as_tensor(as_pairs(tensor))
        return (tensor if tensor.dtype is wanted else tensor.to(wanted)).contiguous()

    def refusal(self, given: Mapping[str, torch.Tensor]) -> str:
        """Why the contract of the graph leaves these sizes or numbers out; empty where it admits them."""
        ports = [p for p in self.graph.signature.params if p.binds and p.name in given]
        shapes = [tuple(given[name].shape) if name in given else None for name in names_of(self.graph)]
        try:
            check_sizes(self.graph, binding_of(self.graph, shapes, {p.name: int(given[p.name]) for p in ports}))
            check_least(least_numbers(self.graph), given)
        except ContractError as error:
            return error.what
        return ""


def value_of(tensor: torch.Tensor) -> onnxruntime.OrtValue:
    """A tensor as ONNX Runtime holds it, in the memory of the tensor where it can be."""
    if tensor.dtype in SHARED and tensor.numel():
        return onnxruntime.OrtValue.from_dlpack(tensor)
    return ort_value(ours_of(tensor))


def tensor_in(value: Any) -> torch.Tensor:
    """What ONNX Runtime gave as a tensor, in the memory that it has there where that can be."""
    theirs = TORCH[DType(value.element_type())]
    return torch.from_dlpack(value) if theirs in SHARED and all(value.shape()) else tensor_of(array_of(value))


def left(exit_: Exit, value: Any) -> Any:
    """A result as torch expects it: a tensor, or a number."""
    if exit_.kind == "number":
        return value.numpy().item()
    made = tensor_in(value)
    if exit_.is_complex:
        made = from_pairs(made)
    wanted: torch.dtype = getattr(torch, exit_.dtype)
    made = made if made.dtype is wanted else made.to(wanted)
    if not exit_.strides:
        return made
    return made.permute(exit_.strides).contiguous().permute(tuple(np.argsort(exit_.strides).tolist()))


def memory_order(recorded: torch.Tensor) -> tuple[int, ...]:
    """The dimensions of a recorded tensor from the outermost in memory to the innermost; empty where they lie as they
    are counted, or overlap."""
    strides = [int(s) if isinstance(s, int) else int(s.node.hint or 0) for s in recorded.stride()]
    if recorded.is_contiguous() or 0 in strides:
        return ()
    order = tuple(sorted(range(len(strides)), key=lambda i: (-strides[i], i)))
    return () if order == tuple(range(len(strides))) else order
