"""An exported program: the graph, its ONNX model, and a call that takes what the torch model takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
import torch
from torch.export import ExportedProgram

from irkit.contract.as_json import contract_of
from irkit.contract.least import check_least, least_numbers
from irkit.contract.sizes import binding_of, check_sizes, names_of, sizes_after
from irkit.core.freeze import freezer
from irkit.core.ir import Graph
from irkit.core.types import DType, Tensor, dims_of
from irkit.dims import symbols_of
from irkit.errors import ContractError, IrkitError, SerializeError
from irkit.onnx.functions import INSIDE, as_function
from irkit.onnx.save import Form, write_model
from irkit.onnx.sessions import quiet_options, session
from irkit.onnx.writing.inlining import has_calls
from irkit.onnx.writing.models import FUNCTIONS, to_proto
from irkit.rewriting.history import History
from irkit.rewriting.rules import Rules
from irkit.support.arguments import type_text
from lowering.capture.guards.sparse import HINT, lines_that_count, stores_zero
from lowering.direct.run import HOW as TRACED
from lowering.errors import CaptureError, LoweringError
from lowering.fold.assertions import Watched
from lowering.fold.lower import Lowered
from lowering.fold.scope import Check
from lowering.program.arguments import (
    array_of_number,
    implied_arrays,
    refuse_shared,
    require_tensor,
    same_scalar,
    sequence_of,
    signature_of,
)
from lowering.program.bound import Bound
from lowering.program.check import CheckReport, check_program
from lowering.program.failures import breach, load_refusal, refusal
from lowering.program.finite_numbers import conditions
from lowering.program.refusing import bind_conditions
from lowering.program.report import Report
from lowering.program.size_checks import input_checks
from lowering.records.programs import callable_of
from lowering.records.pytrees import Implied
from lowering.records.types import array_of, as_pairs, from_pairs, tensor_of
from lowering.tensors.complex_pairs import WHOLES, complex_names
from passes.quantization import Quantized


class Described:
    """`__signature__` of a program; none for the class."""

    def __get__(self, program: Program | None, _: type) -> inspect.Signature | None:
        return None if program is None else program.parameters


@attrs.frozen(eq=False, repr=False)
class Program:
    """What `irkit.to_onnx` returns.

    `graph` is the graph as lowered, `made` the same optimized, legalized and materialized for its target, together
    with the conditions that only the data decides; `lowered` the record of capture and lowering; `report` what an
    export says about itself; `precision` is float16 or bfloat16 for a program that computes in it, `quantized`
    tells of one with weights of integers; `model` is what it was exported from; `own_rules` are the caller's rules
    that it was made with, and `again` makes its graph once more, for `history`. A call takes and gives the element
    types of the torch model in any case.
    """

    made: Watched
    lowered: Lowered
    opset: int
    report: Report
    model: Any = None
    precision: DType | None = None
    quantized: Quantized | None = None
    own_rules: Rules = ()
    again: Callable[[], History] | None = None

    @property
    def graph(self) -> Graph:
        """The graph as lowered."""
        return self.lowered.graph

    @property
    def ready(self) -> Graph:
        """The graph that is saved: optimized, legalized and materialized for its target."""
        return self.made.graph

    @property
    def watched(self) -> Graph:
        """`ready` with a result more for each of the `checks`; `ready` itself where there is none. A call runs it."""
        return self.made.whole

    @property
    def checks(self) -> tuple[Check, ...]:
        """The conditions that only the data decides, as boolean scalars beside the results of `ready`."""
        return self.made.checks

    @cached_property
    def reference(self) -> Any:
        """What computes in torch what the program is checked against: the model itself, or the module of an exported
        program, made when it is asked for; None where no torch model is at hand."""
        if isinstance(self.model, str | Path):
            program = self.lowered.captured.program
            return None if program is None else callable_of(program)
        if isinstance(self.model, ExportedProgram):
            return callable_of(self.model)
        return self.model if callable(self.model) else None

    @property
    def proto(self) -> onnx.ModelProto:
        """The ONNX model, weights inside: a new message each time. Models above 2 GB have no such form: save them."""
        return to_proto(self.ready, opset=self.opset, functions=has_calls(self.ready))

    def save(self, path: str | Path, *, external: Any = "auto", conditions: bool | str | None = None) -> Path:
        """Writes the model, with weights beside it where they are large or `external` asks for it; returns the path.

        With `conditions` the file has an output more for each condition that only the data decides, which is true where
        it holds; its contract says which. With "refuse" the file itself fails in any runtime where one does not hold;
        that is the default for a model that was captured directly, where such a condition says which branch was
        followed. With "all" it fails at sizes too that the contract excludes. With False it has neither. Raises
        SerializeError where no file can be written there, DimensionError for a condition on sizes that ONNX cannot say.
        `irkit.save(program.ready, ...)` has more options.
        """
        form = Form(external, opset=self.opset, functions=has_calls(self.ready))
        write_model(self.written(conditions), path, form)
        return Path(path)

    def written(self, conditions: bool | str | None = None) -> Graph:
        """The graph that `save` writes, with such conditions on the data."""
        if conditions is None:
            conditions = "refuse" if self.lowered.captured.how == TRACED else False
        if isinstance(conditions, str) and conditions not in ("refuse", "all"):
            raise SerializeError(
                f"conditions={conditions!r} says nothing of conditions", hint="say 'refuse', 'all', True or False"
            )
        if conditions == "all":
            return bind_conditions(self.made.asking(input_checks(self.ready)))
        return bind_conditions(self.made) if conditions == "refuse" else self.watched if conditions else self.ready

    def as_function(
        self, name: str = "", domain: str = FUNCTIONS, *, weights: str = INSIDE, conditions: bool | str | None = None
    ) -> onnx.FunctionProto:
        """The program as a function of ONNX, to be called in other models, or to serve as a converter: see
        `irkit.as_function`. `conditions` are as in `save`; the others stand in its metadata only."""
        graph = self.written(conditions)
        return as_function(graph, name=name, domain=domain, opset=self.opset, weights=weights)

    def refusing_nan(self) -> Program:
        """The same program, which also refuses data that break what `report.assumed` says, finite numbers: a call
        computes that beside the results. `save(path, conditions=True)` of it writes an output more for each. The
        program itself where it assumes nothing, or refuses already.
        """
        known = {check.text + check.source for check in self.checks}
        new = tuple(check for check in conditions(self.ready) if check.text + check.source not in known)
        return attrs.evolve(self, made=self.made.asking(new)) if new else self

    @cached_property
    def session(self) -> Any:
        """The ONNX Runtime session that a call runs, on the CPU. Where the weights of the model itself are integers, it
        multiplies them in floating point, as the model does; left to itself, it would round activations too.
        Raises EvaluateError where ONNX Runtime does not take the model, as of one that is for another runtime."""
        options = quiet_options()
        if self.quantized is None:
            options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        try:
            return session(self.watched, options=options, opset=self.opset, functions=has_calls(self.watched))
        except IrkitError:
            raise
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise load_refusal(error, self.report.target) from error

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The initial content of the buffers that the model writes, by name; `run(state=...)` goes on from another."""
        return {name: tensor.detach().clone() for name, tensor in self.lowered.initial_state.items()}

    def bound(self, keep: str | Sequence[str] = (), *, in_place: bool = False) -> Bound:
        """The program made ready for many calls: the same checks, laid out once, and results that are not copied.

        `bound(...)` is called as the program is. `bound.run(args, kwargs, kept)` gives (result, kept): the arguments
        and the buffers that `keep` names stay in ONNX Runtime's hands from one run to the next, a cache for instance.
        With `in_place` they are written where they lie, if the operator that writes them can. Raises LoweringError for
        something to keep that the model does not give back under the same name, and does not write.
        """
        return Bound.of(self, keep, in_place)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result, in its own structure, computed by ONNX Runtime.

        Raises ContractError for inputs whose structure, element types, sizes or baked values are not those that the
        model was captured for, and for data that breaks what the model asserts.
        """
        return self.run(args, kwargs)[0]

    def run(
        self, args: Any = (), kwargs: Mapping[str, Any] | None = None, state: Mapping[str, torch.Tensor] | None = None
    ) -> tuple[Any, dict[str, torch.Tensor]]:
        """(result, state): the model's result and the content that written buffers and inputs have afterwards.

        `state`, of an earlier run, stands in for these buffers and inputs; what is written goes on from there. Raises
        ContractError as a call does, and for a state that the model does not have; EvaluateError where ONNX Runtime
        cannot run the model on what the contract allows; StaleError where a weight was written into since the export.
        """
        feeds = self.feeds(args, dict(kwargs or {}), state)
        found = self.kept(self.found(self.narrowed(feeds)))
        if self.is_sized_by_data:
            check_sizes(self.ready, sizes_after(self.graph, self.sizes_of(feeds), [r.shape for r in found]))
        return self.taken(found)

    def taken(self, found: Sequence[Any]) -> tuple[Any, dict[str, torch.Tensor]]:
        """(result, state) that the arrays of a run say, those of its conditions left out."""
        if self.precision is not None:
            found = [wide(r, v.type) for r, v in zip(found, self.graph.results, strict=True)]
        ports = self.graph.signature.results
        results = [self.leaf(p.name, tensor_of(r)) for p, r in zip(ports, found, strict=True)]
        after: dict[str, torch.Tensor] = {}
        for port, result in zip(ports, results, strict=True):
            if port.role == "state":
                after[port.binds] = result
        return self.lowered.captured.result_of(self.lowered.leaves_from(results)), after

    def found(self, feeds: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """What ONNX Runtime gives, checks included. Raises ContractError or EvaluateError where it cannot run."""
        self.watched.check_contents(closely=False)
        try:
            return self.session.run(feeds)
        except IrkitError:
            raise
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise refusal(error, self.ready, self.checks, self.opset, feeds) from error

    def kept(self, found: Sequence[Any]) -> Sequence[Any]:
        """The results of a run without its checks. Raises ContractError where one of these does not hold."""
        count = len(found) - len(self.checks)
        for check, holds in zip(self.checks, found[count:], strict=True):
            if not holds:
                raise breach(check)
        return found[:count]

    def feeds(
        self, args: Any, kwargs: dict[str, Any], state: Mapping[str, torch.Tensor] | None = None
    ) -> dict[str, np.ndarray]:
        """The arrays that ONNX Runtime is given for a call, by input name. Raises ContractError as a call does."""
        captured = self.lowered.captured
        try:
            leaves = captured.leaves_of(sequence_of(args), kwargs)
        except CaptureError as error:
            raise ContractError(error.what, hint=error.hint) from error
        self.check_baked(leaves)
        given = dict(state or {})
        written = {port.binds: None for port in self.graph.signature.results if port.role == "state"}
        unknown = [name for name in given if name not in self.lowered.initial_state and name not in written]
        if unknown:
            known = ", ".join({**self.lowered.initial_state, **written}) or "none"
            raise ContractError(f"the model has no state called {unknown[0]!r}", hint=f"its state is: {known}")
        tensors = [leaf for leaf, name in zip(leaves, captured.input_names, strict=True) if name in self.inputs]
        arrays: dict[str, np.ndarray] = {}
        taken = [name for name in captured.input_names if name in self.inputs]
        if not written.keys().isdisjoint(taken):
            refuse_shared({**dict(zip(taken, tensors, strict=True)), **given}, written)
        absent = {name: leaf.fill for name, leaf in zip(taken, tensors, strict=True) if isinstance(leaf, Implied)}
        for name, leaf in zip(taken, tensors, strict=True):
            if name not in absent:
                arrays[name] = self.array(name, given.pop(name, leaf))
        for name, tensor in {**self.lowered.initial_state, **given}.items():
            arrays[name] = self.array(name, tensor)
        if absent:
            arrays |= implied_arrays(self.inputs, absent, self.sizes_of(arrays))
        check_sizes(self.ready, self.sizes_of(arrays))
        check_least(self.least, arrays)
        return arrays

    def narrowed(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The arrays in the element types of the file's inputs, which may be of 16 bits."""
        if self.precision is None:
            return feeds
        types = dict(zip(names_of(self.ready), (p.type for p in self.ready.params), strict=True))
        return {name: wide(array, types[name]) for name, array in feeds.items()}

    def sizes_of(self, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
        """The value of each dimension symbol that the arrays tell. Raises ContractError where two of them disagree."""
        ports = [p for p in self.graph.signature.params if p.role == "input" and p.binds and p.name in arrays]
        shapes = [arrays[name].shape if name in arrays else None for name in names_of(self.graph)]
        return binding_of(self.graph, shapes, {port.name: int(arrays[port.name]) for port in ports})

    @cached_property
    def inputs(self) -> Mapping[str, Tensor]:
        """The types of the graph's parameters by name."""
        return dict(zip(names_of(self.graph), (p.type for p in self.graph.params), strict=True))  # type: ignore[arg-type]

    @cached_property
    def least(self) -> Mapping[str, tuple[int, str]]:
        """For inputs that serve as places the least number that they may hold, and the line that asks for it."""
        return least_numbers(self.ready)

    @property
    def parameters(self) -> inspect.Signature:
        """The arguments of a call: what `inspect.signature` tells of a program, and transformers' `generate` asks."""
        return signature_of(self.lowered.captured)

    __signature__ = Described()

    @cached_property
    def is_sized_by_data(self) -> bool:
        """Whether a size of a result depends on the numbers in the inputs; what the model asserts of it is then checked
        when it is known."""
        inputs, results = (
            {symbol for value in values for dim in dims_of(value.type) for symbol in symbols_of(dim)}
            for values in (self.graph.params, self.graph.results)
        )
        return not results <= inputs

    @cached_property
    def complex_names(self) -> frozenset[str]:
        """The inputs and outputs that are complex: in ONNX, real ones of a last dimension of 2."""
        return complex_names(self.graph)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The inputs that are Python numbers to the caller."""
        captured = self.lowered.captured
        return frozenset(captured.numbers) | {leaf.name for leaf in captured.leaves if not leaf.is_tensor}

    def leaf(self, name: str, result: torch.Tensor) -> torch.Tensor:
        """One result as the model gives it."""
        return from_pairs(result) if name in self.complex_names else result

    def array(self, name: str, leaf: Any) -> np.ndarray:
        """One argument as an array of the element type that the graph takes. Raises ContractError for any other."""
        part = self.inputs[name].dtype
        wanted = WHOLES[part] if name in self.complex_names else part
        if name in self.numbers and not isinstance(leaf, torch.Tensor):
            return array_of_number(name, leaf, wanted)
        require_tensor(name, leaf, wanted, self.inputs[name])
        if stores_zero(leaf) and any(True for _ in lines_that_count(self.lowered.captured.graph_module)):
            raise ContractError(f"{name} stores a 0, and the model counts what is stored", hint=HINT)
        return array_of(as_pairs(leaf) if wanted.is_complex else leaf)

    def history(self) -> History:
        """All that passes and rules did to the graph, done once more to be watched: `irkit.viz(program)` shows it.
        Raises LoweringError for a program that was read from a file."""
        if self.again is None:
            raise LoweringError("the program was read from a file", hint="irkit.viz(program.ready) shows its graph")
        return self.again()

    def frozen(self) -> Program:
        """The same program with its weights copied, which stays what it is while the model goes on training. Raises
        StaleError where a weight was written into before."""
        frozen = freezer()
        graph = frozen(self.graph)
        return attrs.evolve(self, made=self.made.then(frozen), lowered=attrs.evolve(self.lowered, graph=graph))

    def contract(self) -> dict[str, Any]:
        """What another runtime must check before it runs the model, ready for `json.dumps`. docs/understand/contract.md
        describes it, and has a checker in plain Python; `irkit contract` prints that of a file."""
        return contract_of(self.ready)

    def check_baked(self, leaves: list[Any]) -> None:
        """Raises ContractError where a constant input is not what capture baked in."""
        captured = self.lowered.captured
        for name, leaf in zip(captured.input_names, leaves, strict=True):
            if name in captured.scalars and not same_scalar(leaf, captured.scalars[name]):
                given = type_text(leaf) if isinstance(leaf, torch.Tensor | np.ndarray) else repr(leaf)
                raise ContractError(
                    f"{name} is {given}, and the model was captured with {name} = {captured.scalars[name]!r} baked in",
                    hint="capture it again with this value, or make the input a tensor",
                )

    def check(self, n: int = 3, *, seed: int = 0) -> CheckReport:
        """Runs the torch model and the ONNX model on the traced sizes and on `n` other assignments of the dimensions,
        and compares structure, element types, shapes and values. The report is true where all agree; printing it shows
        the largest error at each assignment. Raises LoweringError where no torch model is at hand."""
        return check_program(self, n, seed)

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: Any) -> Program:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("programs are not pickled: save the program as a file, or pickle its graph, program.ready")

    def _repr_html_(self) -> str:
        return self.report._repr_html_() + self.ready._repr_html_()

    def __repr__(self) -> str:
        return f"<Program {self.report.model}: {self.report.nodes.get('ONNX', 0)} ONNX nodes, opset {self.opset}>"


def wide(array: Any, type_: Any) -> Any:
    """An array in the element type of a type; anything else, and what has it already, as it is."""
    if not isinstance(array, np.ndarray) or not isinstance(type_, Tensor) or array.dtype == type_.dtype.numpy:
        return array
    return array.astype(type_.dtype.numpy)
