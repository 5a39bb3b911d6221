"""The trials of an export piece by piece: which are needed, and what they say."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, Protocol

import attrs
import torch

import irkit.onnx.evaluate as evaluation
from irkit.checking.comparison import compare
from irkit.errors import ContractError, EvaluateError, IrkitError
from irkit.support.counts import count_text
from lowering.capture.inputs.calls import as_module, bind, flat_signature
from lowering.direct.entry import line_of_error
from lowering.errors import CaptureError, LoweringError
from lowering.piecewise.calls import Recorded, is_tensor, kind_of, leaves_of
from lowering.piecewise.exported import Exported, errors_of
from lowering.piecewise.opaque import Opaque, opaque, stand_of
from lowering.piecewise.statuses import Status, Strategy, strategies_of
from lowering.piecewise.tree import Called
from lowering.program.check import SizeReport, half_way, largest_error
from lowering.program.program import Program
from lowering.program.to_onnx import export_model
from lowering.records.options import AUTO, DIRECT, ExportOptions
from lowering.records.programs import first_line
from lowering.records.pytrees import register_classes
from lowering.records.types import array_of

FAILED = Status.FAIL | Status.DIFFERS
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Exporter(Protocol):
    """What makes something that can be called of a piece; `converters` are those of the opaque operators in it."""

    @property
    def name(self) -> str: ...

    def __call__(
        self, piece: Called, operators: Sequence[Opaque], converters: Mapping[Any, Any], options: Mapping[str, Any]
    ) -> tuple[Any, int]: ...


@attrs.frozen(eq=False, repr=False)
class PieceProgram(Program):
    """A program in which some operators run in torch: irkit's evaluator computes the others."""

    kernels: Mapping[str, Any] = attrs.field(kw_only=True)

    def found(self, feeds: Mapping[str, Any]) -> Sequence[Any]:
        """What the evaluator gives, checks included."""
        return evaluation.evaluate(self.watched, feeds, kernels=self.kernels)


@attrs.frozen
class ByIrkit:
    """irkit's own export."""

    name: str = "irkit"

    def __call__(
        self, piece: Called, operators: Sequence[Opaque], converters: Mapping[Any, Any], options: Mapping[str, Any]
    ) -> tuple[Any, int]:
        """(program, ONNX nodes)"""
        seen = piece.observation
        given = {"dynamic_shapes": dict(seen.dynamic_shapes), "scalar_inputs": seen.scalar_inputs, **options}
        if operators:
            given["converters"] = {**(given.get("converters") or {}), **converters}
            given["target"] = "onnx"
            given["kernels"] = {each.op: each.kernel for each in operators}
        program = export_model(piece.owner, seen.args, dict(seen.kwargs), ExportOptions(**given))
        if operators:
            held = {field.name: getattr(program, field.name) for field in attrs.fields(Program)}
            program = PieceProgram(**held, kernels=given["kernels"])
        return program, program.report.nodes.get("ONNX", 0)


@attrs.frozen
class ByTorch:
    """torch.export."""

    name: str = "torch.export"

    def __call__(
        self, piece: Called, operators: Sequence[Opaque], converters: Mapping[Any, Any], options: Mapping[str, Any]
    ) -> tuple[Any, int]:
        """(what runs the exported program, its FX nodes)"""
        seen, owner = piece.observation, as_module(piece.owner)
        results = [call.result for call in piece.calls]
        with register_classes(seen.args, seen.kwargs, results):
            call = bind(owner, seen.args, seen.kwargs)
            shapes, rest = seen.shapes_of(call), flat_signature(owner, call) if call.is_variable else nullcontext()
            with rest:
                program = torch.export.export(owner, seen.args, dict(seen.kwargs), dynamic_shapes=shapes, **options)
        module = program.module()

        def run(*args: Any, **kwargs: Any) -> Any:
            with register_classes(args, kwargs, results), torch.no_grad():
                return module(*args, **kwargs)

        return run, len(program.graph.nodes)


@attrs.frozen
class ByFunction:
    """A function of the user's."""

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """What a table calls it."""
        return getattr(self.function, "__name__", "exporter")

    def __call__(
        self, piece: Called, operators: Sequence[Opaque], converters: Mapping[Any, Any], options: Mapping[str, Any]
    ) -> tuple[Any, int]:
        """(what the function gives, 0)"""
        seen = piece.observation
        return self.function(piece.owner, seen.args, dict(seen.kwargs), seen.torch_shapes, **options), 0


def exporter_of(asked: Any) -> Exporter:
    """The exporter of that name, or around a function. Raises CaptureError for none."""
    if asked == "irkit":
        return ByIrkit()
    if asked == "torch.export":
        return ByTorch()
    if callable(asked):
        return ByFunction(asked)
    raise CaptureError(f"there is no exporter {asked!r}", hint="take 'irkit', 'torch.export' or a function")


# ---------------------------------------------------------------------------------------------- trials


def export_piece(
    piece: Called,
    exporter: Any,
    strategy: Any,
    check: bool,
    rtol: float | None,
    atol: float | None,
    quiet: bool,
    options: Mapping[str, Any],
) -> Exported:
    """A piece exported, as `Piece.export` says, which has the arguments."""
    return Trials(exporter_of(exporter), strategy, check, rtol, atol, quiet, options).result(piece)


@attrs.define(eq=False)
class Trials:
    """The trials of one export. `known` has what became of the first of pieces that are alike."""

    exporter: Exporter
    strategy: Any
    check: bool
    rtol: float | None
    atol: float | None
    quiet: bool
    options: Mapping[str, Any]
    known: dict[Any, Exported] = attrs.field(factory=dict)
    root: Called | None = None

    def result(self, root: Called) -> Exported:
        """What became of a piece and of all in it."""
        self.root = root
        found = self.found(root)
        return found if self.way_of(root) is Strategy.NONE else self.around(found)

    def way_of(self, piece: Called) -> Strategy:
        """The strategy for a piece."""
        ways = strategies_of(self.strategy)
        kind = type(piece.owner)
        for key in (piece.name, kind, kind.__name__):
            if key != "" and key in ways:
                return ways[key]
        return ways[""]

    def found(self, piece: Called) -> Exported:
        """What became of a piece as it is, and where it fails, of those in it."""
        way = self.way_of(piece)
        if way is Strategy.ALWAYS and piece is not self.root:
            return Exported(piece, Status.CUSTOM, opaque=(piece.name,), exporter=self.exporter.name)
        key = alike_key(piece)
        if key in self.known:
            return self.like(piece, self.known[key])
        if way is Strategy.LOCAL:
            children = tuple(map(self.found, piece.children))
            first = self.tried(piece, piece.children)
            own = bool(first.status & FAILED)
            found = attrs.evolve(first, children=children, own=own)
        else:
            always, quick = self.always_in(piece), self.quick(piece)
            first = self.tried(piece, always, quick)
            if first.status & FAILED:
                children = tuple(map(self.found, piece.children))
                blamed = any(child.failing for child in children)
                first = first if blamed or not quick else self.tried(piece, always)
                found = attrs.evolve(first, children=children, own=bool(first.status & FAILED) and not blamed)
            else:
                found = attrs.evolve(first, children=tuple(self.covered(child) for child in piece.children))
        self.known[key] = found
        return found

    def quick(self, piece: Called) -> Mapping[str, Any]:
        """The options of a first trial of a piece with others in it: torch.export, which takes ten times as long, is
        asked only where none of those in it is to blame."""
        automatic = self.options.get("capture", AUTO) == AUTO and self.exporter.name == "irkit"
        return {"capture": DIRECT} if automatic and piece.children and self.quiet else {}

    def like(self, piece: Called, other: Exported) -> Exported:
        """What is known of a piece by another that is like it."""
        children = tuple(self.like(mine, its) for mine, its in zip(piece.children, other.children, strict=False))
        return attrs.evolve(
            other,
            piece=piece,
            status=other.status | Status.ALIKE,
            children=children,
            like=other.like or other.name,
            seconds=0.0,
            runs=(),
            program=None,
            opaque=(),
        )

    def covered(self, piece: Called) -> Exported:
        """A piece that was exported with what is around it."""
        if self.way_of(piece) is Strategy.ALWAYS:
            return Exported(piece, Status.CUSTOM, opaque=(piece.name,), exporter=self.exporter.name)
        children = tuple(map(self.covered, piece.children))
        return Exported(piece, Status.OK | Status.COVERED, children, exporter=self.exporter.name)

    def always_in(self, piece: Called) -> list[Called]:
        """The pieces in another that are opaque operators in any case."""
        found = []
        for child in piece.children:
            always = self.way_of(child) is Strategy.ALWAYS
            found += [child] if always else self.always_in(child)
        return found

    # -------------------------------------------------------------------------------------- around what fails

    def around(self, found: Exported) -> Exported:
        """What becomes of a piece once those in it that are to blame are opaque operators."""
        if found.own or not found.status & FAILED or self.way_of(found.piece) is Strategy.LOCAL:
            return found
        blamed = [each.piece for each in found.failing]
        trial = self.tried(found.piece, [*self.always_in(found.piece), *blamed])
        if not trial.status & FAILED:
            return attrs.evolve(trial, children=tuple(map(self.passed, found.children)))
        children = tuple(map(self.around, found.children))
        again = [piece for child in children for piece in needed_of(child)]
        if {id(piece) for piece in again} != {id(piece) for piece in blamed}:
            trial = self.tried(found.piece, [*self.always_in(found.piece), *again])
        own = bool(trial.status & FAILED)
        return attrs.evolve(trial, children=children, own=own)

    def passed(self, found: Exported) -> Exported:
        """A piece in one that is exported around those to blame."""
        if found.own:
            return attrs.evolve(found, status=found.status | Status.CUSTOM)
        children = tuple(map(self.passed, found.children))
        if not found.status & FAILED:
            return attrs.evolve(found, children=children)
        opaque = tuple(each.name for each in found.failing)
        return attrs.evolve(
            found,
            status=Status.OK | Status.CHILDREN | Status.COVERED,
            children=children,
            opaque=opaque,
            step="",
            reason="",
            line="",
            hint="",
            error=None,
            like="",
            runs=(),
            program=None,
            nodes=0,
        )

    # -------------------------------------------------------------------------------------- one trial

    def tried(
        self, piece: Called, others: Sequence[Called], more: Mapping[str, Any] = MappingProxyType({})
    ) -> Exported:
        """What becomes of a piece with others in it as opaque operators; with `more` options than the user's."""
        begun = time.perf_counter()
        options = {**self.options, **more}
        program, nodes, error, runs = None, 0, None, ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                stands = [stand_of(each) for each in others]
                operators = [way for stand in stands for way in stand.ways]
                with opaque(stands) as converters:
                    program, nodes = self.exporter(piece, operators, converters, options)
                    runs = tuple(self.runs_of(piece, program)) if self.check else ()
            except Exception as raised:  # an exporter may raise anything
                if not self.quiet:
                    raise
                error = raised
        seconds = time.perf_counter() - begun
        problem = errors_of(runs)
        status = Status.FAIL if error is not None else Status.DIFFERS if problem else Status.OK
        status |= Status.CHILDREN if others else Status(0)
        told = told_of(error) if error is not None else ("compare", problem, "", "") if problem else ("", "", "", "")
        step, reason, line, hint = told
        return Exported(
            piece,
            status,
            (),
            step,
            reason,
            line,
            hint,
            error,
            seconds,
            nodes,
            runs,
            program,
            tuple(each.name for each in others),
            "",
            False,
            self.exporter.name,
            dict(self.options),
        )

    def runs_of(self, piece: Called, program: Any) -> Iterator[SizeReport]:
        """What was exported compared with eager, on each call that it takes."""
        seen = piece.observation
        for index, row in enumerate(seen.fit):
            call = seen.calls[row]
            sizes = tuple((name, each[index] or 0) for name, each in seen.names.items())
            main = {leaf.name for leaf in piece.alike_calls[0].inputs}
            if self.exporter.name != "irkit" and {leaf.name for leaf in call.inputs} != main:
                continue  # only irkit's programs take a call without the cache that they were exported with
            yield self.compared(call, program, sizes)

    def compared(self, call: Recorded, program: Any, sizes: tuple[tuple[str, int], ...]) -> SizeReport:
        """One call compared with what eager gave."""
        args, kwargs = call.copied()
        try:
            with torch.no_grad():
                actual = program(*args, **kwargs)
        except Exception as error:  # ONNX Runtime's own classes have no common base
            return SizeReport(sizes, (), f"{type(error).__name__}: {first_line(error)}")
        ours = leaves_of(actual)
        if len(ours) != len(call.outputs):
            return SizeReport(sizes, (), f"{count_text(len(ours), 'result')}, where eager gives {len(call.outputs)}")
        errors: list[tuple[str, float, float]] = []
        for mine, leaf in zip(ours, call.outputs, strict=True):
            if not is_tensor(leaf.value):
                if kind_of(mine.value) != kind_of(leaf.value):
                    return SizeReport(sizes, tuple(errors), f"{leaf.name} is {mine.value!r}, not {leaf.value!r}")
                continue
            difference = compare(array_of(leaf.value), array_of(mine.value), **self.tolerances(program, leaf.value))
            if difference is not None:
                return SizeReport(sizes, tuple(errors), f"{leaf.name}: {difference}")
            errors.append((leaf.name, *largest_error(leaf.value, mine.value)))
        return SizeReport(sizes, tuple(errors))

    def tolerances(self, program: Any, expected: torch.Tensor) -> dict[str, float | None]:
        """The tolerances of a comparison; for a program of half precision they are relative to the largest number."""
        if isinstance(program, Program) and program.precision is not None and self.rtol is None:
            return dict(half_way(program, expected))
        return {"rtol": self.rtol, "atol": self.atol}


def needed_of(found: Exported) -> list[Called]:
    """The pieces that must be opaque operators for a piece to be exported."""
    if found.own:
        return [found.piece]
    return [piece for child in found.children for piece in needed_of(child)]


def told_of(error: Exception) -> tuple[str, str, str, str]:
    """(step, reason, line, hint) of an error."""
    if isinstance(error, IrkitError):
        step = (
            "capture"
            if isinstance(error, CaptureError)
            else "lower"
            if isinstance(error, LoweringError)
            else "run"
            if isinstance(error, ContractError | EvaluateError)
            else "write"
        )
        return step, error.what, error.source or line_of_error(error), error.hint
    return "capture", f"{type(error).__name__}: {first_line(error)}", line_of_error(error), ""


# ---------------------------------------------------------------------------------------------- alike


NUMBERED = frozenset("layer_idx layer_id layer_index layer_number idx index block_idx layer_num".split())
"""Attributes that number layers."""
PLAIN = (bool, int, float, str, type(None))


def alike_key(piece: Called) -> Any:
    """Equal for pieces of which one trial tells for all: modules of the same classes, with weights of the same types
    and the same plain attributes but for their number, that are called with arguments of the same types and
    constants."""
    if not isinstance(piece.owner, torch.nn.Module):
        return id(piece.owner), piece.inputs
    modules = tuple(
        (
            path,
            type(module),
            tuple((name, each.dtype, tuple(each.shape)) for name, each in weights_of(module)),
            tuple(
                (name, type(each), each)
                for name, each in sorted(vars(module).items())
                if isinstance(each, PLAIN) and name not in NUMBERED
            ),
        )
        for path, module in piece.owner.named_modules()
    )
    return modules, piece.inputs, tuple(name for name, _ in piece.outputs)


def weights_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters and buffers of a module itself, by name."""
    yield from module.named_parameters(recurse=False)
    yield from module.named_buffers(recurse=False)
