"""One torch function through the fold to ONNX Runtime, compared with eager torch: element types, shapes, values."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import onnxruntime as ort
import torch
from pyrsistent import pmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from irkit import dims
from irkit.build import const
from irkit.checking.comparison import Difference, compare
from irkit.core.ir import Graph, Port, Signature, Value, param
from irkit.core.types import dims_of
from irkit.dims import Range
from irkit.onnx.writing.materialize import materialize_dims
from irkit.onnx.writing.models import to_proto
from irkit.rewriting.face import rewrite
from irkit.support.uncollected import without_collector
from lowering.fold.nodes import lower_graph
from lowering.fold.registry import Registry
from lowering.fold.scope import Options
from lowering.records.sizes import Sizes
from lowering.records.types import array_of, type_of
from passes.rules.nan import NAN

IR_VERSION = 13
"""The newest that ONNX Runtime 1.31 reads."""


@attrs.frozen
class Case:
    """A function lowered: the graph, and which operators only torch's decomposition could express."""

    graph: Graph
    decomposed: dict[str, int]


def lowered(function: Callable[..., Any], *args: Any, symbolic: bool = False, **kwargs: Any) -> Case:
    """`function` traced on arguments and lowered; with a symbol for every size above 1 where `symbolic`."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def run(*given: torch.Tensor) -> Any:
        parts = iter(given)
        filled = [next(parts) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        positional, keyword = pytree.tree_unflatten(filled, spec)
        return function(*positional, **keyword)

    mode = "symbolic" if symbolic else "fake"
    # The collector may end a generator under torch.no_grad (OpInfo's samples are such), which a trace would record.
    trace = without_collector(make_fx(run, pre_dispatch=True, tracing_mode=mode, _allow_non_fake_inputs=True))
    module = trace(*tensors)
    sizes = Sizes({}, traced=sizes_at_trace(module))
    params = tuple(param(type_of(n.meta["val"], sizes)) for n in module.graph.nodes if n.op == "placeholder")
    found, scope = lower_graph(module, params, sizes, Options(Registry()))
    results = tuple(r if isinstance(r, Value) else const(np.array(r)) for r in pytree.tree_leaves(found))
    names = {s.name for p in params for d in dims_of(p.type) for s in dims.symbols_of(d)}
    ports = Signature(
        tuple(Port(f"x{i}") for i in range(len(params))), tuple(Port(f"y{i}", "output") for i in range(len(results)))
    )
    return Case(Graph(params, results, pmap({n: Range() for n in names}), ports), dict(scope.decomposed))


def sizes_at_trace(module: torch.fx.GraphModule) -> dict[str, int]:
    """The size that each symbol of the inputs had while torch traced."""
    found: dict[str, int] = {}
    for node in module.graph.nodes:
        recorded = node.meta.get("val") if node.op == "placeholder" else None
        for size in recorded.shape if isinstance(recorded, torch.Tensor) else ():
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.has_hint():
                found[size.node.expr.name] = int(size.node.hint)
    return found


def legal(graph: Graph, nan: bool = False) -> Graph:
    """The graph in operators that ONNX Runtime has kernels for, and with `nan` in what keeps NaN there."""
    graph = rewrite(graph, NAN) if nan else graph
    if importlib.util.find_spec("passes.legal.legalize") is not None:
        targets = importlib.import_module("passes.targets")
        graph = importlib.import_module("passes.legal.legalize").legalize(
            graph, targets.target_of("onnxruntime-cpu", None)
        )
    return materialize_dims(graph)


def run_onnx(graph: Graph, tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """The results of a graph on ONNX Runtime."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = to_proto(legal(graph, any(map(is_odd, tensors))), ir_version=IR_VERSION).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {f"x{i}": array_of(t) for i, t in enumerate(tensors)}
    return [np.asarray(r) for r in session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})]


def is_odd(tensor: torch.Tensor) -> bool:
    """True for a tensor with NaN or an infinity."""
    return bool((tensor.is_floating_point() or tensor.is_complex()) and not torch.isfinite(tensor).all())


def tensors_of(args: Any) -> list[torch.Tensor]:
    """The tensors among nested arguments, in order."""
    return [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]


def eager(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[np.ndarray]:
    """The results of torch itself on copies of the arguments."""
    copied = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, (args, kwargs))
    results = pytree.tree_leaves(function(*copied[0], **copied[1]))
    return [array_of(r) if isinstance(r, torch.Tensor) else np.array(r) for r in results]


def difference(function: Callable[..., Any], *args: Any, symbolic: bool = False, **kwargs: Any) -> Difference | None:
    """How lowered and eager results differ; None where they agree within irkit's tolerances."""
    case = lowered(function, *args, symbolic=symbolic, **kwargs)
    return compare(eager(function, *args, **kwargs), run_onnx(case.graph, tensors_of((args, kwargs))))


def check(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Fails where lowered and eager results differ, traced with fixed sizes and with symbolic ones."""
    for symbolic in (False, True):
        found = difference(function, *args, symbolic=symbolic, **kwargs)
        if found is not None:
            raise AssertionError(f"{'symbolic' if symbolic else 'static'} sizes: {found}")


def check_sizes(function: Callable[..., Any], traced: Sequence[Any], *others: Sequence[Any]) -> None:
    """Fails where the graph traced with symbolic sizes on `traced` is wrong on it, or on arguments of other sizes."""
    case = lowered(function, *traced, symbolic=True)
    for args in (traced, *others):
        found = compare(eager(function, *args), run_onnx(case.graph, tensors_of(args)))
        if found is not None:
            shapes = [tuple(t.shape) for t in tensors_of(args)]
            raise AssertionError(f"on shapes {shapes}: {found}")
