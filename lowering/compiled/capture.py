"""One capture of a compiled callable: a program, what it took for granted, and a call of it without copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import attrs
import torch

from irkit.contract.sizes import check_sizes, sizes_after
from irkit.errors import EvaluateError
from irkit.onnx.sessions import CPU, graph_session, ort_value, quiet_options
from irkit.rewriting.numbering import is_random
from lowering.capture.inputs.calls import as_module
from lowering.capture.inputs.contents import Parts
from lowering.capture.inputs.schedules import Schedule
from lowering.capture.inputs.standing import Standing
from lowering.dynamo.runner import tensor_in
from lowering.program.failures import breach
from lowering.program.program import Program
from lowering.records.types import TORCH


@attrs.frozen(eq=False)
class Capture:
    """A program of a model, with the session that runs it. `standing` is how the model stood, the weights whose numbers
    are in the graph among it, `live` the tensors that are its state, by name: they are read at each call, and what is
    written goes into them. Of `gradients`, by name too, that are those of the tensors that get them, at each call those
    that are there then; those that are `replaced` become others, and the `unread` ones are not used. Tensors whose
    gradients are dropped have none after a call, and had none before it, if that is not added to, where `empty` says
    so. `asking` says of each argument of the call that was captured whether gradients are asked for it."""

    program: Program
    session: Any
    standing: Standing
    live: Mapping[str, torch.Tensor]
    schedules: tuple[Schedule, ...]
    is_random: bool
    gradients: Mapping[str, torch.Tensor]
    replaced: frozenset[str]
    unread: frozenset[str]
    empty: tuple[tuple[torch.Tensor, bool], ...]
    asking: tuple[bool, ...]

    @classmethod
    def of(cls, model: Any, program: Program, threads: int, given: Sequence[Any]) -> Capture:
        """The capture of a program that was just made of a model, called with these arguments."""
        options = quiet_options()
        options.intra_op_num_threads = threads
        session = graph_session(program.watched, CPU, options, program.opset)
        met = program.lowered.outside
        live = {name: met[name] for name in program.lowered.initial_state}
        inside = [tensor for name, tensor in met.items() if name not in live]
        summed = {id(total): tensor for tensor, total in program.lowered.training.sums}
        found = list(leaves_of(as_module(model), met))
        summed |= {id(each.grad): each for each in found if each.grad is not None}
        gradients = {name: summed[id(each)] for name, each in live.items() if id(each) in summed}
        training = program.lowered.training
        begin(training, set(map(id, live.values())))
        replaced = frozenset(name for name, each in live.items() if id(each) in training.replaced)
        looked_up = {
            (id(s.scheduler.optimizer.param_groups[number]), key)
            for s in training.schedules
            for number, key, _ in s.tables
        }
        leaves = found if training.records else ()
        standing = Standing.of_call(as_module(model), training.optimizers, inside, leaves, looked_up)
        is_drawn = any(map(is_random, program.graph.order))
        unread = replaced - names_read(program)
        kept = (standing, live, training.schedules, is_drawn, gradients, replaced, unread)
        known = set(map(id, gradients.values()))
        empty = tuple((each, each.grad is None) for each in training.dropped if id(each) not in known)
        return cls(program, session, *kept, empty, tuple(map(asks_for_gradients, given)))

    def holds(self) -> bool:
        """Whether the model is what it was, its weights where they are in the graph, and its schedulers as far as the
        captures of it have brought them."""
        counted = all(each.is_followed() for each in self.schedules)
        empty = all((each.grad is None) is none for each, none in self.empty)
        return counted and empty and self.standing.holds()

    @property
    def trained(self) -> tuple[torch.Tensor, ...]:
        """The tensors from outside whose gradients a caller may ask for."""
        return tuple(t for t in self.program.lowered.outside.values() if t.requires_grad)

    @property
    def writes(self) -> bool:
        """Whether a call writes anything."""
        return any(port.role == "state" for port in self.program.graph.signature.results)

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The model's result. Raises ContractError for a call that the program is not right for; nothing is written
        then."""
        program = self.program
        found = {
            name: tensor.detach() if name in self.unread else gradient_of(tensor)  # of one type
            for name, tensor in self.gradients.items()
        }
        live = {**self.live, **found}
        feeds = program.feeds(tuple(args), dict(kwargs), live)
        values = {name: ort_value(array) for name, array in program.narrowed(feeds).items()}
        try:
            found = self.session.inner.run_with_ort_values(None, values)
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise EvaluateError(
                f"ONNX Runtime cannot run {program.graph.name}: {error}",
                hint="program.check() compares it with torch for these arguments, and says where they differ",
            ) from error
        count = len(found) - len(program.checks)
        for check, holds in zip(program.checks, found[count:], strict=True):
            if not holds.numpy():
                raise breach(check)
        tensors = [tensor_in(value) for value in found[:count]]
        if program.is_sized_by_data:
            sizes = sizes_after(program.graph, program.sizes_of(feeds), [tuple(t.shape) for t in tensors])
            check_sizes(program.ready, sizes)
        if program.precision is not None:
            results_of: Any = program.graph.results
            tensors = [t.to(TORCH[v.type.dtype]) for t, v in zip(tensors, results_of, strict=True)]
        ports = program.graph.signature.results
        results = [program.leaf(port.name, t) for port, t in zip(ports, tensors, strict=True)]
        after = {p.binds: r for p, r in zip(ports, results, strict=True) if p.role == "state"}
        self.write(args, kwargs, after, live)
        return program.lowered.captured.result_of(program.lowered.leaves_from(results))

    def write(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        after: Mapping[str, torch.Tensor],
        live: Mapping[str, torch.Tensor],
    ) -> None:
        """Puts new contents where they belong: into state, into gradients, and into arguments."""
        dropped = self.program.lowered.training.dropped
        if not after and not dropped:
            return
        captured = self.program.lowered.captured
        targets = dict(live)
        if any(name not in targets for name in after):
            targets |= dict(zip(captured.input_names, captured.leaves_of(tuple(args), kwargs), strict=True))
        with torch.no_grad():
            for name, content in after.items():
                if name in self.replaced:
                    self.gradients[name].grad = content.clone()
                    continue
                targets[name].copy_(content)
                if name in self.gradients:
                    self.gradients[name].grad = targets[name]
        for each in dropped:
            each.grad = None


def names_read(program: Program) -> set[str]:
    """The names of the parameters of a program that something in it uses."""
    graph = program.watched
    used = {value for each in graph.order for value in each.inputs} | set(graph.results)
    return {
        port.name for port, value in zip(program.graph.signature.params, graph.params, strict=True) if value in used
    }


def asks_for_gradients(leaf: Any) -> bool:
    """Whether a call asks for gradients for an argument."""
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """The gradient of a tensor, or the zeros that the first one is added to."""
    return torch.zeros_like(tensor).detach() if tensor.grad is None else tensor.grad


def leaves_of(module: torch.nn.Module, met: Mapping[str, torch.Tensor]) -> Iterator[torch.Tensor]:
    """The tensors of a model, and those around it, that get gradients."""
    parts = Parts.of(module)
    return (t for t in (*parts.parameters.values(), *parts.around.leaves, *met.values()) if t.is_leaf)


def begin(training: Any, met: Set[int]) -> None:
    """Gives optimizers what they begin with, for the parameters whose steps the program makes: tensors of it are `met`,
    which the program writes."""
    for optimizer, start in zip(training.optimizers, training.starts, strict=True):
        for parameter, contents in start.items():
            tensors = [each for each in contents.values() if isinstance(each, torch.Tensor)]
            if not tensors or any(id(each) in met for each in tensors):
                optimizer.state[parameter] = dict(contents)
