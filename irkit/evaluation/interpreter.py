"""The evaluator: a graph run on numpy, operator by operator, every result held against its type.

It is an oracle, no runtime: plain and strict; iterative over `graph.order`, recursive only over the nesting of bodies.
What each operator does stands in `irkit.evaluation.kernels`; here are feeds, symbols, control flow and irkit's own ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, retyping, runtime
from irkit.contract.binding import Binding, complaint
from irkit.core.ir import Graph, Value, param, require_graph
from irkit.core.types import DType, Optional, Tensor, Tuple, Type, dims_of
from irkit.core.types import Sequence as SequenceType
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.errors import DimensionError, EvaluateError, IrkitError
from irkit.evaluation.kernels.common import Array, Content, Kernel, attr, is_array
from irkit.evaluation.kernels.table import DRAWS, KERNELS
from irkit.nodes.operators import MOST, Operator, StandIn
from irkit.nodes.operators import body as body_of
from irkit.support.arguments import brief, require_count
from irkit.support.counts import count_text
from irkit.support.results import as_tuple
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

Feeds = Mapping[Any, Any] | Sequence[Any]
Watch = Callable[[Value, Content], None]


def evaluate(
    graph: Graph,
    feeds: Feeds,
    *,
    seed: int = 0,
    every: Watch | None = None,
    kernels: Mapping[str, Kernel] = KERNELS,
    most: int | None = None,
) -> tuple[Content, ...]:
    """The results of the graph: numpy arrays, lists for sequences, None for an empty optional.

    Args:
        feeds: an array for each parameter: by position, or by public name or parameter.
        seed: of the generator that random operators draw from. They need not agree with any runtime.
        every: called with each value and its result, in order, those of bodies among them.
        kernels: what computes each operator (see `irkit.evaluation.kernels.table`).
        most: how many elements all values of the run may have together, each of which counts for `LEAST` at least, so
            that a loop without an end is ended, too. A result whose size the operands tell is not begun.

    Raises EvaluateError for feeds that do not fit the parameters' types, for an operator without a kernel, for a
    result whose element type or shape contradicts the type of its value, and for more than `most`. Results may share
    memory with the feeds.
    """
    require_graph(graph)
    budget = None if most is None else Budget(require_count(most, "most", EvaluateError))
    run = Run(kernels, np.random.default_rng(require_count(seed, "seed", EvaluateError)), every, budget)
    arrays = arranged(graph, feeds)
    binding = Binding()
    try:
        for value, array, name in zip(graph.params, arrays, names(graph), strict=True):
            binding.feed(value.type, array, f"the parameter {name}")
        binding.check_pending()
        binding.check_ranges(graph.symbols)
    except DimensionError as error:
        raise EvaluateError(error.what, hint=error.hint) from error
    with np.errstate(all="ignore"):
        return run.graph(graph, arrays, binding)


def trace(
    graph: Graph, feeds: Feeds, *, seed: int = 0, kernels: Mapping[str, Kernel] = KERNELS, most: int | None = None
) -> Mapping[Value, Any]:
    """The result of every value of the graph (not of its bodies), parameters and constants among them. The rest as for
    `evaluate`."""
    own, found = set(graph.order), dict[Value, Content]()

    def keep(value: Value, result: Content) -> None:
        if value in own:
            found[value] = result

    evaluate(graph, feeds, seed=seed, every=keep, kernels=kernels, most=most)
    return found


def apply(node: Value, operands: Sequence[np.ndarray], *, kernels: Mapping[str, Kernel] = KERNELS) -> Any:
    """The result of one deterministic operator without bodies on numpy operands; a tuple where its type is one.

    Raises EvaluateError where there is no kernel, or the result contradicts the type of the node.
    """
    with np.errstate(all="ignore"):
        return Run(kernels, None, None).checked(node, tuple(operands), Binding())


# ---------------------------------------------------------------------------------------------- feeds


def names(graph: Graph) -> tuple[str, ...]:
    """How errors call each parameter: its public name, or its position."""
    ports = graph.signature.params
    return tuple(
        repr(ports[i].name) if i < len(ports) and ports[i].name else f"number {i}" for i in range(len(graph.params))
    )


def arranged(graph: Graph, feeds: Feeds) -> list[np.ndarray]:
    """The feeds in the order of the parameters, as arrays. Raises EvaluateError for missing and unknown ones."""
    if isinstance(feeds, Mapping):
        by_name = {port.name: value for port, value in zip(graph.signature.params, graph.params, strict=False)}
        chosen: dict[Value, Content] = {}
        for key, array in feeds.items():
            value = by_name.get(key) if isinstance(key, str) else key
            if value not in graph.params:
                raise EvaluateError(f"the graph has no parameter {key!r}", hint=f"it has: {', '.join(names(graph))}")
            chosen[value] = array
        missing = [name for name, value in zip(names(graph), graph.params, strict=True) if value not in chosen]
        if missing:
            raise EvaluateError(
                f"nothing is fed to the parameters {', '.join(missing)}",
                hint="give a dict with an array for each of them",
            )
        given: Sequence[Content] = [chosen[value] for value in graph.params]
    elif isinstance(feeds, list | tuple):
        given = feeds
    else:
        raise EvaluateError(
            f"the feeds are {brief(feeds)}", hint="give a list of arrays, or a dict of them by the names of parameters"
        )
    if len(given) != len(graph.params):
        raise EvaluateError(
            f"the graph has {count_text(len(graph.params), 'parameter')}, and was fed "
            f"{count_text(len(given), 'value')}",
            hint="give one array for each parameter, in order: graph.params, or name them in a dict",
        )
    return [settled(value.type, array) for value, array in zip(graph.params, given, strict=True)]


def settled(type_: Type, value: Content) -> Content:
    """A result or a feed as the evaluator holds it: arrays for tensors, lists for sequences, None for nothing."""
    if isinstance(type_, Tensor):
        if type(value) in (bool, int, float):
            return np.asarray(value).astype(type_.dtype.numpy)
        array = np.asarray(value)
        return array.astype(object) if array.dtype.kind in "US" else array
    if isinstance(type_, SequenceType) and isinstance(value, list | tuple):
        return [settled(type_.element, v) for v in cast("Iterable[Content]", value)]
    if isinstance(type_, Optional) and value is not None:
        return settled(type_.element, value)
    return value


# ---------------------------------------------------------------------------------------------- the run


LEAST = 256
"""For how many elements a value counts at least."""

TOLD = 64
"""Operands of up to this many elements say with these how large a result is."""


@attrs.define(eq=False)
class Budget:
    """How many elements are left to one evaluation."""

    left: int

    def spend(self, value: Value, size: int) -> None:
        """Takes the elements of a value off. Raises EvaluateError where there are not so many."""
        self.left -= max(LEAST, size)
        if self.left < 0:
            raise EvaluateError(
                f"{value.op} makes more elements than this run may have",
                ir=repr(value),
                source=str(value.origin),
                hint="give a larger `most`, smaller sizes, or fewer rounds of a loop",
            )

    def foresee(self, value: Value, operands: Sequence[Content], binding: Binding) -> None:
        """Raises EvaluateError where a result, as its operands tell its size, would have more than there are left."""
        left = self.left
        self.spend(value, foreseen_size(value, operands, binding))
        self.left = left


def foreseen_size(value: Value, operands: Sequence[Content], binding: Binding) -> int:
    """How many elements a value has where its type tells, or its operator's type rule for such operands; else 0."""
    found = type_size(value.type, binding)
    if found is None:
        given = tuple(v if v is None else told(v, held) for v, held in zip(value.inputs, operands, strict=True))
        try:
            found = type_size(retyping.inferred_type(value, given), binding)
        except IrkitError:  # what it would refuse, the kernel does
            return 0
    return found or 0


def type_size(type_: Type, binding: Binding) -> int | None:
    """How many elements the tensors of a type have; None where that is not known."""
    parts = type_.items if isinstance(type_, Tuple) else (type_,)
    sizes = [[binding.number(d) for d in part.shape] for part in parts if isinstance(part, Tensor)]
    return None if any(None in each for each in sizes) else sum(math.prod(cast("list[int]", each)) for each in sizes)


def told(value: Value, found: Content) -> Value:
    """An operand as its content tells what type rules ask: a constant where it is small, a parameter of its size else;
    the value itself where it is no tensor."""
    if not is_array(found) or found.dtype.kind == "O":
        return value
    return const(found) if found.size <= TOLD else param(Tensor(DType.of(found.dtype), found.shape))


def size_of(found: Content) -> int:
    """How many elements a result has; of text, characters."""
    if isinstance(found, list | tuple):
        return sum(map(size_of, cast("Iterable[Content]", found)))
    if not is_array(found):
        return 0
    return sum(map(len, map(str, found.ravel()))) if found.dtype.kind == "O" else found.size


Plans = dict[int, tuple[tuple[Value, tuple[Value, ...]], ...]]
"""By graph: each value in order, and those that nobody needs after it."""


@attrs.frozen(eq=False)
class Run:
    """What one evaluation hands down into bodies. `plans` holds, for each graph met, what is done when."""

    kernels: Mapping[str, Kernel]
    rng: np.random.Generator | None
    every: Watch | None
    budget: Budget | None = None
    plans: Plans = attrs.field(factory=Plans)

    def graph(self, graph: Graph, arrays: Sequence[Content], binding: Binding) -> tuple[Content, ...]:
        """The results of a graph whose parameters hold `arrays`, of which `binding` knows the symbols."""
        env: dict[Value, Content] = dict(zip(graph.params, arrays, strict=True))
        for value, dying in self.plan(graph):
            if value.op != PARAM:
                operands = tuple(None if v is None else env[v] for v in value.inputs)
                env[value] = self.value(value, operands, binding)
            if self.budget is not None:
                self.budget.spend(value, size_of(env[value]))
            if self.every is not None:
                self.every(value, env[value])
            for dead in dying:
                del env[dead]
        return tuple(env[result] for result in graph.results)

    def plan(self, graph: Graph) -> tuple[tuple[Value, tuple[Value, ...]], ...]:
        """Each value of the graph with those that nothing uses after it."""
        if id(graph) not in self.plans:
            last: dict[Value, Value] = {}
            for value in graph.order:
                last[value] = value
                last.update((v, value) for v in value.inputs if v is not None)
            kept = set(graph.results)
            dying: dict[Value, list[Value]] = {}
            for value, user in last.items():
                if value not in kept:
                    dying.setdefault(user, []).append(value)
            self.plans[id(graph)] = tuple((v, tuple(dying.get(v, ()))) for v in graph.order)
        return self.plans[id(graph)]

    def value(self, value: Value, operands: tuple[Content, ...], binding: Binding) -> np.ndarray | None:
        """What a value holds, given what its operands hold."""
        if value.op == CONSTANT:
            return value.attributes[0][1].array
        if value.op == ITEM:
            return operands[0][value.attributes[0][1]]
        if value.op == SHAPE_VECTOR:
            return sizes(value, operands, binding)
        return self.checked(value, operands, binding)

    def checked(self, value: Value, operands: tuple[Content, ...], binding: Binding) -> Content:
        """The result of an operator, held against the value's type, whose open symbols it binds."""
        try:
            if self.budget is not None:
                self.budget.foresee(value, operands, binding)
            found = conformed(value, self.computed(value, operands, binding))
        except EvaluateError as error:
            raise error.located(ir=line(value, operands), source=str(value.origin)) from error
        except (ValueError, IndexError, TypeError, KeyError, ArithmeticError, AttributeError, MemoryError) as error:
            raise EvaluateError(
                f"{value.op} cannot be computed: {error}",
                ir=line(value, operands),
                source=str(value.origin),
                hint="irkit.evaluate(..., verbose=1) prints what comes before; kernels={...} computes it otherwise",
            ) from error
        problem = binding.result(value.type, found)
        if problem:
            raise EvaluateError(
                f"{value.op}: {problem}",
                ir=line(value, operands),
                source=str(value.origin),
                hint="either the type rule of the operator or its kernel is wrong",
            )
        return found

    def computed(self, value: Value, operands: tuple[Content, ...], binding: Binding) -> Content:
        """What the kernel, or the body, gives back."""
        if value.op in CONTROL:
            return CONTROL[value.op](self, value, operands, binding)
        kernel = self.kernels.get(value.op)
        if kernel is None:
            known = runtime.defined_operator(value.op)
            kernel = None if known is None else known.kernel
            if known is not None and kernel is None and known.definition is not None:
                return self.defined(known, value, operands)
        if kernel is None:
            raise EvaluateError(
                f"irkit has no kernel for {value.op}",
                hint=f"give one: irkit.operator(..., kernel=), or evaluate(..., kernels={{{str(value.op)!r}: ...}})",
            )
        return kernel(value, *operands, rng=self.rng) if value.op in DRAWS else kernel(value, *operands)

    def defined(self, known: Operator, value: Value, operands: tuple[Content, ...]) -> tuple[Content, ...]:
        """The results of an operator by its definition for operands of just these sizes."""
        stands = tuple(None if v is None else stand(v) for v in operands)
        count = len(value.type.items) if isinstance(value.type, Tuple) else 1
        body = body_of(known, value.attributes, stands, count)
        inner = Run(
            self.kernels, self.rng, None, self.budget
        )  # plans are by identity, and this body may not outlive the call
        return inner.graph(body, [v for v in operands if v is not None], Binding())

    def body(
        self, body: Graph, arrays: Sequence[Content], outer: Binding, *, generic: bool = False
    ) -> tuple[Content, ...]:
        """The results of a body on these operands. It may speak of the symbols of the graph around it; where it is
        `generic`, those of its parameters' types are its own."""
        known = outer.known()
        if generic:
            own = {dims.label(s) for p in body.params for d in dims_of(p.type) for s in dims.symbols_of(d)}
            known = {name: size for name, size in known.items() if name not in own}
        binding = Binding(outer=known)
        given = [settled(p.type, a) for p, a in zip(body.params, arrays, strict=True)]
        try:
            for index, (parameter, array) in enumerate(zip(body.params, given, strict=True)):
                binding.feed(parameter.type, array, f"the parameter number {index} of the body {body.name!r}")
            binding.check_pending()
        except DimensionError as error:
            raise EvaluateError(error.what) from error
        return self.graph(body, given, binding)


def stand(array: Array) -> StandIn:
    """What a definition may know of an operand: its type, and its elements where it holds a few integers."""
    type_ = Tensor(DType.of(array.dtype), array.shape)
    few = array.ndim <= 1 and array.size <= MOST and array.dtype.kind == "i"
    return type_, tuple(map(int, array.ravel())) if few else None


def conformed(value: Value, found: Content) -> Content:
    """A kernel's result in the form that the value's type asks for: results that nobody asked for are left out."""
    if isinstance(value.type, Tuple):
        items: tuple[Content, ...] = as_tuple(found)
        if len(items) < len(value.type.items):
            raise EvaluateError(
                f"{value.op} gave {count_text(len(items), 'result')}, where {len(value.type.items)} are asked for",
                hint="a kernel gives a tuple with an array for each result",
            )
        return tuple(settled(t, v) for t, v in zip(value.type.items, items, strict=False))
    return settled(value.type, found[0] if isinstance(found, tuple) else found)


def sizes(value: Value, operands: tuple[np.ndarray, ...], binding: Binding) -> Array:
    """The dimensions of a ShapeVector as int64; its last operands are the content of the symbols `scalars`."""
    attributes = dict(value.attributes)
    scalars = attributes.get("scalars", ())
    for symbol, operand in zip(scalars, operands[len(operands) - len(scalars) :], strict=True):
        try:
            binding.content(symbol, int(np.asarray(operand).reshape(())))
        except DimensionError as error:
            raise EvaluateError(error.what, source=str(value.origin)) from error
    numbers = [binding.number(d) for d in attributes["dims"]]
    if None in numbers:
        unknown = attributes["dims"][numbers.index(None)]
        raise EvaluateError(
            f"nothing binds a symbol of the dimension {unknown}",
            ir=repr(value),
            source=str(value.origin),
            hint="hand shape_vector the value whose type has the symbol",
        )
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError as error:
        raise EvaluateError(
            f"one of the sizes {numbers} is beyond an int64", source=str(value.origin), hint="run with smaller sizes"
        ) from error


def line(value: Value, operands: Sequence[Content]) -> str:
    """One line that shows an operator with what it was given."""
    given = ", ".join(complaint(v) for v in operands)
    shown = "".join(f" {k}={v!r}" for k, v in value.attributes)
    return f"{value.type!r} = {value.op}({given}){shown}"


# ---------------------------------------------------------------------------------------------- control flow


def run_call(run: Run, value: Value, operands: tuple[np.ndarray, ...], binding: Binding) -> tuple[Content, ...]:
    """The results of the body."""
    return run.body(value.bodies[0], operands, binding, generic=True)


def run_if(run: Run, value: Value, operands: tuple[np.ndarray, ...], binding: Binding) -> tuple[Content, ...]:
    """The results of the branch that the condition chooses."""
    condition, captures = operands[0], operands[1:]
    return run.body(value.bodies[0 if bool(np.asarray(condition).reshape(())) else 1], captures, binding)


def captured(value: Value, operands: tuple[Content, ...]) -> tuple[tuple[Content, ...], tuple[Content, ...]]:
    """(the operands proper, the captures)."""
    count = value.attribute("captures", 0)
    return (operands[: len(operands) - count], operands[len(operands) - count :])


def run_loop(run: Run, value: Value, operands: tuple[Content, ...], binding: Binding) -> tuple[Content, ...]:
    """(what is carried at the end, what each step gave, stacked along a new first dimension)."""
    proper, captures = captured(value, operands)
    trip, condition, *carried = (*proper, None, None) if len(proper) < 2 else proper
    carried = carried[: max(len(proper) - 2, 0)]
    body = value.bodies[0]
    limit = None if trip is None else int(np.asarray(trip).reshape(()))
    going = condition is None or bool(np.asarray(condition).reshape(()))
    stacks: list[list[Content]] = [[] for _ in body.results[1 + len(carried) :]]
    step = 0
    while going and (limit is None or step < limit):
        heads = (np.full(of_rank(body.params[0]), step, np.int64), np.full(of_rank(body.params[1]), going))
        again, *found = run.body(body, (*heads, *carried, *captures), binding)
        carried = found[: len(carried)]
        for stack, item in zip(stacks, found[len(carried) :], strict=True):
            stack.append(item)
        # The body's answer counts even where no condition operand was given, as it does in every runtime.
        going = bool(np.asarray(again).reshape(()))
        step += 1
    first = len(carried)
    return (*carried, *(stacked(value, first + i, s, 0, binding) for i, s in enumerate(stacks)))


def of_rank(param: Value) -> tuple[int, ...]:
    """The shape of a single number in the rank that a body's parameter has."""
    return (1,) * param.rank


def stacked(value: Value, index: int, items: list[np.ndarray], axis: int, binding: Binding) -> Array:
    """The items along a new axis; of no items, an empty array of the type that result number `index` has."""
    if items:
        return np.stack(items, axis=axis)
    type_ = value.type.items[index] if isinstance(value.type, Tuple) else value.type
    if not isinstance(type_, Tensor):
        raise EvaluateError(f"{value.op} stacks a {type_!r}", hint="only tensors can be stacked")
    shape = [binding.number(d) or 0 for d in type_.shape]
    shape[axis] = 0
    return np.zeros(shape, dtype=type_.dtype.numpy)


def run_scan(run: Run, value: Value, operands: tuple[np.ndarray, ...], binding: Binding) -> tuple[Content, ...]:
    """(the last states, what each step gave, stacked along its axis)."""
    proper, captures = captured(value, operands)
    count = attr(value, "num_scan_inputs")
    states, scanned = list(proper[: len(proper) - count]), proper[len(proper) - count :]
    body = value.bodies[0]
    outputs = len(body.results) - len(states)
    axes, backward = flags(value, "scan_input_axes", count), flags(value, "scan_input_directions", count)
    lines = [np.moveaxis(x, axis, 0) for x, axis in zip(scanned, axes, strict=True)]
    lines = [x[::-1] if back else x for x, back in zip(lines, backward, strict=True)]
    stacks: list[list[Content]] = [[] for _ in range(outputs)]
    for pieces in zip(*lines, strict=True):
        found = run.body(body, (*states, *pieces, *captures), binding)
        states = list(found[: len(states)])
        for stack, item in zip(stacks, found[len(states) :], strict=True):
            stack.append(item)
    out_axes, reverse = flags(value, "scan_output_axes", outputs), flags(value, "scan_output_directions", outputs)
    return (
        *states,
        *(
            stacked(value, len(states) + i, stack[::-1] if reverse[i] else stack, out_axes[i], binding)
            for i, stack in enumerate(stacks)
        ),
    )


def flags(value: Value, name: str, count: int) -> tuple[int, ...]:
    """An attribute with one number for each scanned operand or result; zeros where it is not given."""
    return tuple(attr(value, name) or (0,) * count)


def run_sequence_map(run: Run, value: Value, operands: tuple[Content, ...], binding: Binding) -> tuple[Content, ...]:
    """The results of the body for each element, as sequences; tensor operands go to each step whole."""
    proper, captures = captured(value, operands)
    found: list[tuple[Content, ...]] = []
    for index in range(len(proper[0])):
        given: list[Content] = [x[index] if isinstance(x, list) else x for x in proper]
        found.append(run.body(value.bodies[0], (*given, *captures), binding))
    return tuple([step[i] for step in found] for i in range(len(value.bodies[0].results)))


CONTROL: Mapping[str, Callable[[Run, Value, tuple[Content, ...], Binding], tuple[Content, ...]]] = {
    CALL: run_call, "If": run_if, "Loop": run_loop, "Scan": run_scan, "SequenceMap": run_sequence_map,
}  # fmt: skip
"""What runs the operators that have bodies."""

__all__ = ["apply", "evaluate", "trace"]
