"""Converters against eager torch: export, lower, optimize, run on ONNX Runtime, compare element types, shapes, numbers.

The cases come from nobody here: torch's own OpInfo and ModuleInfo databases, which torch tests its kernels with.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

from irkit.checking.comparison import compare
from irkit.onnx.sessions import session
from lowering import lower
from passes import optimize
from passes.legal.legalize import legalize
from passes.targets import target_of

OPS = {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}
MODULES = {info.name: info for info in module_db}


class Wrapped(torch.nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


@attrs.frozen(eq=False)
class Case:
    """One call to compare: a module, its arguments, and a few words that say which call it is."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    words: str


def array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as numpy has it."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if plain.dtype is torch.complex32:
        plain = torch.view_as_real(plain)
    return plain.numpy()


def tensors_of(structure: Any) -> list[torch.Tensor]:
    """The tensors of a nested structure, in order."""
    return [leaf for leaf in pytree.tree_leaves(structure) if isinstance(leaf, torch.Tensor)]


def check(
    model: torch.nn.Module | Callable[..., Any],
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    others: Sequence[tuple[Any, ...]] = (),
    tolerance: float | None = None,
    operators: Sequence[str] | None = None,
) -> None:
    """Fails where the model on ONNX Runtime differs from eager, on the traced arguments or on `others`. Where
    these hold NaN or infinities, the model is asked to keep NaN.

    `operators` are ones that the optimized graph must hold, where the test is of that too.
    """
    plain = not isinstance(model, torch.nn.Module)
    module = Wrapped(model) if plain else model.eval()
    if plain and dynamic_shapes is not None:
        dynamic_shapes = (tuple(dynamic_shapes),)
    rules = rules_for((args, kwargs or {}, others))
    graph = optimize(lower(module, copied(args), kwargs, dynamic_shapes=dynamic_shapes), rules=rules)
    runner = session(legalize(graph, target_of("onnxruntime-cpu")))
    if operators is not None:
        held = {value.op for value in graph.order}
        assert held.issuperset(operators), f"the graph has {sorted(held)}"
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    state = {name: array(tensor.clone()) for name, tensor in state.items()}
    names = [port.name for port in graph.signature.params if port.role == "input"]
    for given in (args, *others):
        with torch.no_grad():
            expected = [array(t) for t in tensors_of(copy.deepcopy(module)(*copied(given), **(kwargs or {})))]
        arrays = [array(t) for t in tensors_of((given, kwargs or {}))]
        feeds = state | dict(zip(names, arrays, strict=True))
        found = runner.run({name: feeds[name] for name in runner.inputs})
        difference = compare(expected, list(found[: len(expected)]), rtol=tolerance, atol=tolerance)
        assert difference is None, f"{difference} (for inputs of {[a.shape for a in arrays]})"


def rules_for(arguments: Any) -> str:
    """The rules of an export for some arguments: those that keep NaN, where there is any, or an infinity."""
    held = [t if t.layout is torch.strided else t.detach().to_dense() for t in tensors_of(arguments)]
    floats = [t for t in held if t.is_floating_point() or t.is_complex()]
    return "default" if all(bool(torch.isfinite(t).all()) for t in floats) else "default+nan"


def copied(structure: Any) -> Any:
    """The structure with tensors that no run of the model can change."""
    return pytree.tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, structure)


# ---------------------------------------------------------------------------------------------- torch's own cases


def spread(items: Sequence[Any], count: int) -> Iterator[Any]:
    """`count` of the items at most, evenly spread, the first among them."""
    step = max(1, -(-len(items) // count))
    yield from items[::step]


def op_cases(
    name: str, dtype: torch.dtype, count: int, skip: Callable[[Any], bool] = lambda sample: False
) -> list[Case]:
    """Sample calls of one entry of OpInfo, but for those that `skip` holds for."""
    info = OPS[name]
    samples = [s for s in info.sample_inputs("cpu", dtype, requires_grad=False) if not skip(s)]
    return [op_case(info, sample) for sample in spread(samples, count)]


def op_case(info: Any, sample: Any) -> Case:
    """One sample call as a module of its tensors."""
    flat, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> Any:
        filled = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        positional, keyword = pytree.tree_unflatten(filled, spec)
        return info.op(*positional, **keyword)

    words = ", ".join(str(tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in flat)
    return Case(Wrapped(run), tuple(flat[i].detach() for i in places), {}, f"{info.name}({words})")


def module_cases(name: str, count: int, skip: Callable[[Any], bool] = lambda given: False) -> list[Case]:
    """Modules of one entry of ModuleInfo with the inputs that torch tests them with, but for those that `skip` holds
    for."""
    info = MODULES[name]
    inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    cases = []
    for given in spread([g for g in inputs if not skip(g)], count):
        build, call = given.constructor_input, given.forward_input
        words = f"{name}(*{build.args}, **{build.kwargs})"
        model = info.module_cls(*build.args, **build.kwargs)
        cases.append(Case(model, tuple(call.args), dict(call.kwargs), words))
    return cases


def check_all(cases: Sequence[Case], tolerance: float | None = None) -> None:
    """Fails with every case that differs, each with its words."""
    wrong = []
    for case in cases:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's own cases use what torch deprecates
                check(case.model, *case.args, kwargs=case.kwargs, tolerance=tolerance)
        except Exception as error:
            wrong.append(f"{case.words}: {type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(wrong)
