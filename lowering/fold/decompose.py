"""The last resort for one operator: torch's own decomposition of it, traced and lowered in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import attrs
import sympy
import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from irkit.core.ir import Value
from irkit.core.types import Tensor
from lowering.capture.patches.shape_decompositions import WRITTEN
from lowering.capture.patches.table import Occasion, patch_torch
from lowering.errors import LoweringError
from lowering.fold.scope import Scope
from lowering.records.source_lines import source_of
from lowering.records.torch_internals import (
    MADE_OF_OTHERS,
    MADE_OF_OTHERS_BUT_FOR_GRADIENTS,
    FakeTensor,
    FakeTensorMode,
    OpOverload,
    decomposition_table,
    make_fx,
    pytree,
)
from lowering.records.types import DTYPES, TORCH


@lru_cache(maxsize=1 << 12)
def decomposition_of(target: Any) -> Callable[..., Any] | None:
    """torch's decomposition of an operator into others, or ours in its place; None where there is none."""
    if not isinstance(target, OpOverload):
        return None
    if target in WRITTEN:
        return WRITTEN[target]
    # torch.onnx.ops is slow to import, and is there already where one of its operators is.
    onnx_ops = sys.modules.get("torch.onnx.ops")
    for table in (decomposition_table, onnx_ops.aten_decompositions() if onnx_ops is not None else {}):
        if target in table:
            return table[target]
    implicit = MADE_OF_OTHERS
    if target.has_kernel_for_dispatch_key(implicit) or target.has_kernel_for_dispatch_key(
        MADE_OF_OTHERS_BUT_FOR_GRADIENTS
    ):
        return target.decompose if target.has_kernel_for_dispatch_key(implicit) else None
    return None


def can_decompose(target: Any) -> bool:
    """True for an operator that torch can express by others."""
    return decomposition_of(target) is not None


def run_decomposition(
    scope: Scope, node: Node, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], reason: str
) -> Any:
    """The results of `target` on arguments, through its decomposition; counted in `scope.decomposed`.

    Raises LoweringError where `strict` forbids it, torch has no decomposition, or tracing it fails.
    """
    function = decomposition_of(target)
    if function is None or scope.options.strict or scope.lower is None:
        how = "strict=True forbids its decomposition" if function is not None else "torch cannot decompose it"
        raise LoweringError(
            f"{target} cannot be lowered ({reason}), and {how}",
            source=source_of(node),
            hint="hand a converter in: lower(..., converters={...})",
        )
    return written_out(scope, node, target, function, args, kwargs)


def written_out(
    scope: Scope, node: Node, target: Any, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """The results of a Python function that computes what `target` does, traced on what torch recorded of the
    arguments; counted in `scope.decomposed`. Raises LoweringError where it cannot be traced."""
    recorded = recorded_arguments(node)
    flat, spec = pytree.tree_flatten(recorded)
    leaves, _ = pytree.tree_flatten((list(args), dict(kwargs)))
    inputs = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor | torch.SymInt | torch.SymFloat)]

    def run(*given: Any) -> Any:
        filled = list(flat)
        for i, value in zip(inputs, given, strict=True):
            filled[i] = value
        positional, keyword = pytree.tree_unflatten(filled, spec)
        return function(*positional, **keyword)

    module, guards = traced(run, [of_type(flat[i], leaves[i]) for i in inputs], target, node)
    scope.guards.extend((guard, source_of(node)) for guard in guards)
    scope.decomposed[str(target)] += 1
    known = len(scope.checks)
    results, _ = scope.graph_within(module, [leaves[i] for i in inputs], closed=False)
    scope.checks[known:] = [attrs.evolve(each, source=each.source or source_of(node)) for each in scope.checks[known:]]
    return results


def recorded_arguments(node: Node) -> Any:
    """The arguments of a node as torch recorded them: fake tensors and symbolic sizes in place of nodes."""

    def recorded(n: Node) -> Any:
        inner = getattr(n.graph.owning_module, str(n.target), None) if n.op == "get_attr" else None
        return inner if isinstance(inner, GraphModule) else n.meta.get("val")

    args: Any = map_arg(node.args, recorded)
    kwargs: Any = map_arg(node.kwargs, recorded)
    return [list(args), dict(kwargs)]


def of_type(recorded: Any, given: Any) -> Any:
    """What torch recorded of an argument, in the element type of what is given for it: a view that is decomposed is
    taken of numbers that stand for positions too."""
    if not isinstance(recorded, FakeTensor) or not isinstance(given, Value) or not isinstance(given.type, Tensor):
        return recorded
    if DTYPES[recorded.dtype] is given.dtype:
        return recorded
    with recorded.fake_mode:
        return torch.empty_strided(recorded.shape, recorded.stride(), dtype=TORCH[given.dtype])


def in_one_mode(inputs: list[Any]) -> list[Any]:
    """The inputs as fake tensors of one mode: make_fx with fixed sizes gives each a mode of its own."""
    modes = {id(t.fake_mode) for t in inputs if isinstance(t, FakeTensor)}
    if len(modes) < 2:
        return inputs
    with FakeTensorMode():
        return [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) if isinstance(t, FakeTensor) else t for t in inputs
        ]


def traced(run: Callable[..., Any], inputs: list[Any], target: Any, node: Node) -> tuple[Any, list[Any]]:
    """(graph, guards): the FX graph of a decomposition on fake inputs, and what it assumes of sizes.

    Raises LoweringError where torch cannot trace it, or where it holds for one size of a dynamic dimension only: a
    loop over a sequence, say, written out as often as the example is long.
    """
    inputs = in_one_mode(inputs)
    mode = next((t.fake_mode for t in inputs if hasattr(t, "fake_mode")), None)
    environment = getattr(mode, "shape_env", None)
    known = len(environment.guards) if environment is not None else 0
    fixed = numbers_in(environment)
    try:
        if mode is None:
            return make_fx(run, tracing_mode="real")(*inputs), []
        with mode, torch.no_grad():
            module = traced_generally(run, inputs)
    except Exception as error:
        raise LoweringError(
            f"torch's decomposition of {target} cannot be traced: {error}",
            source=source_of(node),
            hint="hand in a converter for it: converters={operator: function}",
        ) from error
    guards = [guard.expr for guard in environment.guards[known:]] if environment is not None else []
    learned = [sympy.Eq(s, n, evaluate=False) for s, n in numbers_in(environment).items() if s not in fixed]
    for guard in (*guards, *learned):
        if isinstance(guard, sympy.Eq) and any(side.is_Integer for side in guard.args):
            raise LoweringError(
                f"torch's decomposition of {target} is right for one size only: {guard}",
                source=source_of(node),
                hint="hand a converter in: lower(..., converters={...}), or leave the dimension static",
            )
    return module, guards


def traced_generally(run: Callable[..., Any], inputs: list[Any]) -> GraphModule:
    """The graph as it is for sizes 0 and 1 as well, where torch can trace that; else as it is for the example's."""
    try:
        with patch_torch(Occasion("decomposition")):
            return make_fx(run, tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)
    except Exception:  # a size of 1 that is meant to broadcast, say
        return make_fx(run, tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)


def numbers_in(environment: Any) -> dict[Any, Any]:
    """The symbols that torch has found to be one number, with that number."""
    found = getattr(environment, "replacements", {})
    return {symbol: value for symbol, value in found.items() if getattr(value, "is_Integer", False)}
