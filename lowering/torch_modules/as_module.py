"""`as_module`: a graph as a torch module, with its weights as parameters."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule, Node

from irkit.build.runtime import DEFINITIONS
from irkit.contract.least import check_least, least_numbers
from irkit.contract.sizes import binding_of, check_sizes, names_of
from irkit.core import walk
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import Tensor, Tuple
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.dims import label, symbols_of
from irkit.errors import AbsentError
from irkit.onnx.load import load
from irkit.onnx.writing.materialize import has_vectors, materialize_dims
from irkit.pattern import Hole
from irkit.rewriting.face import Made, Match, Rule, decline, rewrite
from lowering.records.types import TORCH, tensor_of
from lowering.torch_modules import control
from lowering.torch_modules.common import vector
from lowering.torch_modules.kernel_calls import by_kernel, text_of
from lowering.torch_modules.sizes import sizes, sources_of, term_of
from lowering.torch_modules.table import FUNCTIONS, SEVERAL, SIZES, function_of
from passes.legal.definitions import by_definition, own_written_out
from passes.legal.opsets.onnx_functions import by_function, operators_with_body


def as_module(graph: Any, *, trainable: bool = True) -> GraphModule:
    """A torch module that computes what a graph computes, with its weights as parameters under their names.

    `graph` is a graph of irkit's, a program (its graph, with what it carries from call to call as inputs and results),
    or an ONNX model as `irkit.load` takes it. The module takes tensors in the order of the graph's parameters and gives
    a tensor, or a tuple of them: the results in order. Named floating-point contents are parameters, which take
    gradients unless they are not `trainable`, and other contents buffers; all are copies. Each operator is a call of
    torch's functions, through which gradients flow; what torch has no meaning for is computed by irkit's evaluator,
    without gradients. `torch.export.export(as_module(graph), args)` makes an ExportedProgram of it.

    A call raises ContractError for sizes that the graph's contract does not allow. Raises LoadError for what is no
    ONNX model, AbsentError for weights without numbers.
    """
    found = graph if isinstance(graph, Graph) else getattr(graph, "graph", None)
    if not isinstance(found, Graph):
        found = load(graph)
    made = Builder(simple_graph(found), trainable).module()
    made.register_forward_pre_hook(Contract(found))
    return made


WRITTEN_OUT = tuple(op for op in (*operators_with_body(), *DEFINITIONS) if op not in FUNCTIONS)
"""Operators that torch has no function for, and ONNX or irkit a definition in others."""


def by_others(m: Match) -> Made:
    """an operator that torch has none for -> its definition"""
    found = by_definition(m, m.root) if m.root.op in DEFINITIONS else by_function(m, m.root)
    return decline("there is no definition of it for such operands") if found is None else found


EXPANSION = Rule("written_out", Hole("value", (), WRITTEN_OUT), by_others, False, "an operator -> its definition")


def simple_graph(graph: Graph) -> Graph:
    """The graph in operators that torch has, as far as they are defined by such, with the sizes in bodies as operators,
    since bodies may speak of sizes around them."""
    graph = rewrite(own_written_out(graph), EXPANSION)
    if any(map(has_vectors, walk.bodies(graph.order))):
        graph = materialize_dims(graph)
    return graph


@attrs.frozen(eq=False)
class Contract:
    """The check of sizes before a call; while torch traces it is left to whoever traces."""

    graph: Graph

    def __call__(self, _: Any, args: tuple[Any, ...]) -> None:
        """Raises ContractError for arguments of sizes that the graph's contract does not allow."""
        if torch.compiler.is_compiling() or len(args) != len(self.graph.params):
            return
        shapes = [tuple(x.shape) if isinstance(x, torch.Tensor) else None for x in args]
        ports = zip(self.graph.signature.params, args, strict=False)
        numbers = {port.name: int(x) for port, x in ports if port.binds and port.role == "input"}
        check_sizes(self.graph, binding_of(self.graph, shapes, numbers))
        check_least(least_numbers(self.graph), dict(zip(names_of(self.graph), args, strict=True)))


@attrs.define(eq=False)
class Builder:
    """One graph becoming an FX graph: the nodes of its values, and where its contents are kept. `statistics` are the
    contents that are the running means and variances of batch norms, which take no gradients."""

    graph: Graph
    trainable: bool
    root: torch.nn.Module = attrs.field(factory=torch.nn.Module)
    fx: FxGraph = attrs.field(factory=FxGraph)
    nodes: dict[Value, Node] = attrs.field(factory=dict)
    integers: dict[Value, Node] = attrs.field(factory=dict)
    held: dict[Any, str] = attrs.field(factory=dict)
    statistics: frozenset[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        normal = [v for v in self.graph.order if v.op == "BatchNormalization"]
        self.statistics = frozenset(id(x.blob) for v in normal for x in v.inputs[3:] if x is not None)

    def module(self) -> GraphModule:
        """The module of the graph."""
        for name, value in zip(names_of(self.graph), self.graph.params, strict=True):
            self.nodes[value] = self.fx.placeholder(identifier(name))
        for value in self.graph.order:
            if value.op not in (PARAM, CONSTANT):
                self.value(value)
        results = [self.tensor(r) for r in self.graph.results]
        self.fx.output(results[0] if len(results) == 1 else tuple(results))
        return GraphModule(self.root, self.fx, identifier(self.graph.name))

    def value(self, value: Value) -> None:
        """The node of a value that is no leaf."""
        if value.op == SHAPE_VECTOR:
            self.integers[value] = self.sizes(value)
        elif value.op == ITEM:
            self.nodes[value] = self.call(operator.getitem, (self.nodes[value.inputs[0]], value.attributes[0][1]), {})  # type: ignore[index]
        elif value.bodies:
            self.nodes[value] = self.controlled(value)
        else:
            self.nodes[value] = self.computed(value)
        if value.op == "Squeeze" and value.inputs[0] in self.integers and not value.rank:
            self.integers[value] = self.integers[value.inputs[0]]

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Node:
        """A node that calls a function."""
        return self.fx.call_function(function, tuple(args), dict(kwargs))

    # ------------------------------------------------------------------------------------------ operators

    def computed(self, value: Value) -> Node:
        """An operator, by its function, or by irkit's kernel."""
        function = function_of(value)
        if function is None:
            return self.call(
                by_kernel, [None if v is None else self.tensor(v) for v in value.inputs], {"text": text_of(value)}
            )
        places = SIZES.get(value.op, ())
        args = [
            None if v is None else self.whole(v) if at in places else self.tensor(v)
            for at, v in enumerate(value.inputs)
        ]
        while args and args[-1] is None:
            args.pop()
        kwargs = {name: self.attribute(each) for name, each in value.attributes}
        if value.op == "Range":
            kwargs = {"dtype": int(value.dtype)}
        elif value.op == "Resize":
            kwargs = {"text": text_of(value)}
        made = self.call(function, args, kwargs)
        if value.op in SEVERAL and not isinstance(value.type, Tuple) and not is_single(value):
            made = self.call(operator.getitem, (made, 0), {})
        return made

    def attribute(self, given: Any) -> Any:
        """An attribute as FX takes it: numbers, texts and lists of them; a content as a tensor."""
        if isinstance(given, Blob):
            return self.kept(given)
        return [self.attribute(each) for each in given] if isinstance(given, tuple) else given

    # ------------------------------------------------------------------------------------------ operands

    def tensor(self, value: Value) -> Node:
        """An operand as a tensor."""
        if value not in self.nodes:
            if value.op == CONSTANT:
                self.nodes[value] = self.kept(value.attributes[0][1])
            else:
                self.nodes[value] = self.call(vector, (self.integers[value],), {})
        return self.nodes[value]

    def whole(self, value: Value) -> Any:
        """An operand as numbers, where they are known; else as a tensor."""
        if value in self.integers:
            return self.integers[value]
        blob = value.blob
        if blob is not None and blob.size <= MANY:
            return blob.array.reshape(-1).tolist()
        return self.tensor(value)

    def sizes(self, value: Value) -> Node:
        """The dimensions of a ShapeVector as a tuple of numbers, read off its operands and the graph's parameters."""
        dims = value.attribute("dims")
        symbols = value.attribute("scalars", ())
        operands = [*(v for v in value.inputs if v is not None), *self.graph.params]
        first = len(value.inputs) - len(symbols)
        scalars = {first + i: label(s) for i, s in enumerate(symbols)}
        wanted = {label(s) for d in dims for s in symbols_of(d)}
        bound = {p.binds: len(value.inputs) + i for i, p in enumerate(self.graph.signature.params) if p.binds}
        scalars |= {
            at: name
            for name, at in bound.items()
            if name in wanted and self.graph.params[at - len(value.inputs)].rank == 0
        }
        found = sources_of([v.type for v in operands], wanted, scalars)
        used = sorted({source[1] for source in found})
        places = {at: i for i, at in enumerate(used)}
        sources = [(name, places[at], *rest) for name, at, *rest in found]
        args = [self.tensor(operands[at]) for at in used]
        return self.call(sizes, args, {"terms": [term_of(d) for d in dims], "sources": sources})

    # ------------------------------------------------------------------------------------------ contents

    def kept(self, blob: Blob) -> Node:
        """A content as an attribute of the module: a parameter, a buffer, or an array that torch has no tensor for."""
        key = id(blob.source) if blob.source is not None else id(blob)
        if key not in self.held:
            self.held[key] = self.keep(blob)
        return self.fx.get_attr(self.held[key])

    def keep(self, blob: Blob) -> str:
        """Puts a content into the module, under its name where it has one that is free: that name."""
        if blob.absent:
            raise AbsentError(f"{blob!r} has no numbers", hint="irkit.bind(graph, weights) gives it some")
        own = re.sub(r"[^0-9A-Za-z_.]", "_", blob.name).strip(".") or "constant"
        *path, last = [part or "_" for part in own.split(".")]
        owner = self.root
        for part in path:
            inner = getattr(owner, part, None)
            if not isinstance(inner, torch.nn.Module):
                part = part if inner is None else free_name(owner, part)
                inner = torch.nn.Module()
                owner.add_module(part, inner)
            owner = inner
        last = free_name(owner, last)
        if blob.dtype not in TORCH:
            setattr(owner, last, blob.array)
        elif blob.name and blob.dtype.is_float and id(blob) not in self.statistics:
            weight = tensor_of(blob.read()).clone()
            owner.register_parameter(
                last, torch.nn.Parameter(weight, requires_grad=self.trainable and blob.dtype.bits >= 16)
            )
        else:
            owner.register_buffer(last, tensor_of(blob.read()).clone(), persistent=bool(blob.name))
        prefix = next(name for name, module in self.root.named_modules() if module is owner)
        return f"{prefix}.{last}" if prefix else last

    # ------------------------------------------------------------------------------------------ bodies

    def body(self, body: Graph) -> Node:
        """A body as a module of its own."""
        if id(body) not in self.held:
            name = free_name(self.root, identifier(body.name))
            self.root.add_module(name, Builder(body, self.trainable).module())
            self.held[id(body)] = name
        return self.fx.get_attr(self.held[id(body)])

    def controlled(self, value: Value) -> Node:
        """A call of a body, a branch or a loop."""
        bodies = [self.body(body) for body in value.bodies]
        args = [None if v is None else self.tensor(v) for v in value.inputs]
        if value.op == CALL:
            return self.call(control.run_call, [bodies[0], *args], {})
        captures = value.attribute("captures", 0)
        proper, rest = args[: len(args) - captures], args[len(args) - captures :]
        if value.op == "If":
            return self.call(control.run_if, [proper[0], *bodies, *rest], {})
        if value.op == "SequenceMap":
            options = {"sequences": len(proper), "results": len(value.bodies[0].results)}
            return self.call(control.run_sequence_map, [bodies[0], *args], options)
        if value.op == "Loop":
            trip, condition, *carried = [*proper, None, None][: max(len(proper), 2)]
            empties = self.empties(value, len(carried), [0] * len(value.bodies[0].results))
            options = {"carried": len(carried), "index_rank": value.bodies[0].params[0].rank, "empties": empties}
            return self.call(control.run_loop, [trip, condition, bodies[0], *carried, *rest], options)
        return self.call(control.run_scan, [bodies[0], *args], self.scan_options(value, len(proper)))

    def scan_options(self, value: Value, proper: int) -> dict[str, Any]:
        """How a Scan goes over what it scans."""
        scanned = value.attribute("num_scan_inputs")
        states = proper - scanned
        outputs = len(value.bodies[0].results) - states

        def listed(name: str, count: int) -> list[int]:
            return list(value.attribute(name) or [0] * count)

        axes = listed("scan_output_axes", outputs)
        return {
            "states": states, "scanned": scanned, "axes": listed("scan_input_axes", scanned),
            "backward": listed("scan_input_directions", scanned), "out_axes": axes,
            "reverse": listed("scan_output_directions", outputs), "empties": self.empties(value, states, axes),
        }  # fmt: skip

    def empties(self, value: Value, first: int, axes: Sequence[int]) -> list[Any]:
        """Sizes and element types of what is stacked, where there is nothing to stack; 0 for sizes that vary."""
        types = value.type.items if isinstance(value.type, Tuple) else (value.type,)
        found: list[Any] = []
        for type_, axis in zip(types[first:], axes, strict=False):
            if not isinstance(type_, Tensor):
                continue
            shape = [d if type(d) is int else 0 for d in type_.shape]
            shape[axis] = 0
            found.append((shape, TORCH[type_.dtype]))
        return found


MANY = 1 << 10
"""Numbers that are read off a constant, where an operand is sizes or axes; more stay a tensor."""


def is_single(value: Value) -> bool:
    """Whether a function that may give a tuple gives a tensor for this operator."""
    return value.op == "BatchNormalization" and not value.attribute("training_mode", 0)


def identifier(name: str) -> str:
    """A name of Python's."""
    plain = re.sub(r"\W", "_", name) or "value"
    return plain if not plain[0].isdigit() else f"_{plain}"


def free_name(owner: torch.nn.Module, name: str) -> str:
    """The name, or with a number where the module has something of that name."""
    found, count = name, 0
    while hasattr(owner, found):
        count += 1
        found = f"{name}_{count}"
    return found
