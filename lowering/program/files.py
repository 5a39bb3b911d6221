"""An ONNX file, whoever wrote it, against the exported program that it came from: by numbers, at several sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from pyrsistent import pmap
from torch.export.graph_signature import (
    ConstantArgument,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
)
from torch.fx import Node

from irkit.contract.sizes import ENFORCED, names_of
from irkit.core.digest import symbols_in
from irkit.core.ir import Graph, Signature
from irkit.dims import notation, symbol
from irkit.errors import LoadError
from irkit.onnx.sessions import Session, session
from irkit.support.arguments import require_count
from irkit.support.counts import count_text
from lowering.capture.capture import Captured, capture
from lowering.errors import LoweringError
from lowering.fold.assertions import Watched
from lowering.fold.facts import facts_of, ranges_by_name
from lowering.fold.lower import Inputs, Lowered, metadata_of
from lowering.program.check import CheckReport, check_program
from lowering.program.program import Program
from lowering.program.report import Report
from lowering.records.programs import RESULTS, callable_of
from lowering.records.sizes import Sizes
from lowering.records.torch_internals import pytree
from lowering.records.types import from_pairs, tensor_of

NUMBERS = (SymIntArgument, SymFloatArgument, SymBoolArgument)


def check_file(onnx_path: str | Path, pt2_path: str | Path, runs: int = 3, *, seed: int = 0) -> CheckReport:
    """Runs the program of a `.pt2` file in torch and an ONNX file on ONNX Runtime, on the traced sizes and on `runs`
    other assignments of the dynamic dimensions, and compares structure, element types, shapes and values.

    Nothing is lowered, so the ONNX file may come from any exporter, and the program may use any operator. Inputs are
    matched by name where all names are known, else in order; results in order. Returns the report, true where all
    agree. Raises CaptureError for a `.pt2` file that cannot be read, LoadError for an ONNX file that ONNX Runtime
    cannot run, LoweringError where the two have other inputs or another number of results.
    """
    runs, seed = require_count(runs, "runs", LoweringError), require_count(seed, "seed", LoweringError)
    captured = capture(str(pt2_path))
    try:
        file = session(Path(onnx_path))
    except Exception as error:
        raise LoadError(
            f"ONNX Runtime cannot run {Path(onnx_path).name}: {error}",
            hint="see whether it is a whole ONNX model, of operators that ONNX Runtime has",
        ) from error
    contract, state = contract_of(captured)
    low = Lowered(contract, captured, outputs_of(captured), {}, state, 0, 0.0)
    model = callable_of(captured.program) if captured.program is not None else None
    program = FileProgram(Watched(contract), low, 0, report_of(contract, file), model, file=file)
    program.require_fit()
    return check_program(program, runs, seed)


@attrs.frozen(eq=False, repr=False)
class FileProgram(Program):
    """A program whose contract is that of torch, and whose results are those of a file. Its graphs have no results."""

    file: Session = attrs.field(kw_only=True)

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """The file's name for each parameter of the program that the file takes."""
        ports = self.graph.signature.params
        known = {port.name: port.name for port in ports if port.name in self.file.inputs}
        given = [port.name for port in ports if port.role == "input"]
        if all(name in known for name in given):
            return known
        return dict(zip(given, self.file.inputs, strict=False)) if len(given) == len(self.file.inputs) else {}

    @cached_property
    def complex_results(self) -> frozenset[int]:
        """The numbers of the results that torch recorded as complex."""
        captured = self.lowered.captured
        output = next(n for n in reversed(captured.graph_module.graph.nodes) if n.op == "output")
        leaves = pytree.tree_leaves(output.args[0])
        recorded = {n.name: n.meta.get("val") for n in leaves if isinstance(n, Node)}
        named = [recorded.get(getattr(s.arg, "name", "")) for s in captured.output_specs if s.kind in RESULTS]
        kept = [v for v, (kind, _) in zip(named, self.lowered.outputs, strict=True) if kind != "constant"]
        return frozenset(i for i, v in enumerate(kept) if isinstance(v, torch.Tensor) and v.is_complex())

    @cached_property
    def count(self) -> int:
        """How many results the program gives its caller, as tensors."""
        return sum(1 for kind, _ in self.lowered.outputs if kind != "constant")

    def require_fit(self) -> None:
        """Raises LoweringError where the file has inputs that the program does not have, or too few results."""
        extra = set(self.file.inputs) - set(self.renamed.values())
        if extra or (not self.renamed and self.graph.params):
            raise LoweringError(
                f"the file takes {', '.join(self.file.inputs)}, and the program {', '.join(names_of(self.graph))}",
                hint="compare files that were exported from this very program",
            )
        if len(self.file.outputs) < self.count:
            raise LoweringError(
                f"the file gives {count_text(len(self.file.outputs), 'result')}, and the program {self.count}",
                hint="compare files that were exported from this very program",
            )

    def run(
        self, args: Any = (), kwargs: Mapping[str, Any] | None = None, state: Mapping[str, torch.Tensor] | None = None
    ) -> tuple[Any, dict[str, torch.Tensor]]:
        """(result, {}): what the file gives for the arguments, in the structure that the program returns.

        Raises ContractError as a call of the program does, LoadError where ONNX Runtime fails.
        """
        feeds = self.feeds(args, dict(kwargs or {}), state)
        try:
            found = self.file.run({self.renamed[name]: feeds[name] for name in feeds if name in self.renamed})
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise LoadError(
                f"ONNX Runtime cannot run the file on these inputs: {error}",
                hint="see whether the inputs have the types and sizes that the file names",
            ) from error
        results = [torch_of(array, i in self.complex_results) for i, array in enumerate(found)]
        return self.lowered.captured.result_of(self.lowered.leaves_from(results)), {}


def torch_of(array: Any, is_complex: bool) -> Any:
    """An array of ONNX Runtime as a tensor, pairs of real numbers as complex ones; what is no array as it is."""
    if not isinstance(array, np.ndarray):
        return array
    found = tensor_of(array)
    paired = is_complex and found.is_floating_point() and found.ndim and found.shape[-1] == 2
    return from_pairs(found) if paired else found


def contract_of(captured: Captured) -> tuple[Graph, dict[str, torch.Tensor]]:
    """(graph, state): the parameters, ranges and facts of a program as a graph without results, and the initial content
    of what it writes."""
    sizes = Sizes(captured.dim_names, captured.signed, settled=captured.settled)
    inputs = Inputs.of(captured, sizes)
    ports = tuple(port for port, _ in inputs.params)
    graph = Graph(
        tuple(value for _, value in inputs.params),
        (),
        signature=Signature(
            ports, (), facts_of(captured, sizes, captured.guards), metadata_of(captured, inputs.complex_names)
        ),
        name=captured.name,
    )
    ranges, present = ranges_by_name(captured, sizes), {s.name for s in symbols_in(graph)}
    return graph.with_symbols(pmap({name: ranges[name] for name in present if name in ranges})), inputs.state


def outputs_of(captured: Captured) -> tuple[Any, ...]:
    """For each leaf of the program's result the number of the file's result, or the constant that it always is."""
    found: list[Any] = []
    number = 0
    for spec in captured.output_specs:
        if spec.kind not in RESULTS:
            continue
        if isinstance(spec.arg, ConstantArgument):
            found.append(("constant", spec.arg.value))
        else:
            found.append(("number" if isinstance(spec.arg, NUMBERS) else "result", number))
            number += 1
    return tuple(found)


def report_of(contract: Graph, file: Session) -> Report:
    """What is known of a file and the program it is compared with."""
    ports = zip(contract.signature.params, contract.params, strict=True)
    facts = contract.signature.facts
    return Report(
        model=contract.name,
        capture="read from a file",
        opset=0,
        target="the ONNX file given",
        inputs=tuple((port.name, repr(v.type)) for port, v in ports if port.role == "input"),
        outputs=tuple((name, "") for name in file.outputs),
        dims=tuple((notation.text(symbol(name)), str(r)) for name, r in sorted(contract.symbols.items())),
        guards=tuple((f.text, f.source) for f in facts if f.kind in ENFORCED),
        baked=tuple((f.text, f.source) for f in facts if f.kind == "baked"),
        state=tuple(port.name for port in contract.signature.params if port.role == "state"),
        decomposed={},
        upcasts={},
        nodes={},
        seconds={},
        weights=(0, 0),
    )
