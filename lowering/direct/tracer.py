"""The run of a model on traced tensors: every operator that torch is about to carry out is met here, whole."""

from __future__ import annotations

import linecache
import os
import sys
import types
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import attrs
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import _len_torch_dispatch_stack_pre_dispatch

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.dims import Range
from irkit.rewriting.numbering import is_random
from lowering.capture.guards.answers import holds
from lowering.capture.guards.questions import Questions
from lowering.capture.inputs.alike import Likes
from lowering.capture.inputs.objects import Known
from lowering.capture.inputs.packed import Weights
from lowering.direct.examples import Examples, reaches_parameter
from lowering.direct.functions.transforms import is_wrapped
from lowering.direct.points import next_prime, sizes_moved
from lowering.direct.repeats import Entry, Index, Met, Outcome, Record, content_of_tensor, recognize_values
from lowering.direct.tensors import META, Handle, Layouts, Memory, Traced, refuse_layout, weakly
from lowering.errors import CaptureError, LoweringError
from lowering.fold.memory.storage import Lens
from lowering.fold.scope import Check, Frame, Options, Scope, stamped_all, tensor_constant
from lowering.records.module_calls import ModuleCalls
from lowering.records.sizes import Sizes
from lowering.records.source_lines import short_path
from lowering.records.types import array_of, is_absent
from lowering.tensors.promotion import scalar

ROUNDED: Mapping[Any, Any] = {dims.Floor: op.Floor, dims.Ceil: op.Ceil, dims.Round: op.Round}
"""How a number is rounded before it becomes an integer, which cuts off what is left."""
WHOLE = "a number that becomes an integer is finite, and has 64 bits at most"
TORCH = f"{Path(torch.__file__).parent}{os.sep}"
HERE = f"{Path(__file__).parents[1]}{os.sep}"
IRKIT = f"{Path(dims.__file__).parents[1]}{os.sep}"
FEW = 16
"""Constants of so many elements are compared by what they hold."""
MOST = 24
"""How many operators a trial may meet that the run before did not, for what may not be used in the end."""


class Alike(Exception):
    """Symbols that must be others for the model to be traced, since they are equal in the example: to be tried anew."""

    def __init__(self, swaps: Mapping[Any, Any], source: str) -> None:
        super().__init__("sizes must be equal")
        self.swaps, self.source = swaps, source


class OwnSizes(Sizes):
    """Sizes whose symbols are irkit's already, with the signs that they have."""

    def symbol(self, expr: Any) -> Any:
        """The symbol itself."""
        return expr

    def number(self, expr: Any) -> Any:
        """The expression itself."""
        return expr


@attrs.frozen
class Outside:
    """What earlier runs found of tensors from outside, by their memories: those that are `written`, whose content is no
    constant, since a later call finds something else; and those that are `lasting`, all that are not being made anew
    by each run, like `torch.tensor(0)`. That is None where it was not asked yet."""

    written: frozenset[int] = frozenset()
    lasting: frozenset[int] | None = None


@attrs.define(eq=False)
class Tracer:
    """The state of one run; seen by nobody else once it is over.

    `outside` is what is known of tensors from outside. `asked` are the questions
    of the model, `scope` what a lowering knows beside its values. `handles` has the tensors from outside by identity,
    with the tensors themselves so that none dies, `seen` those of which the memory and the content are known,
    `memories` their storages. `names` are those of parameters and buffers, `modules` the path of the module that is
    running, `visits` the calls of modules so far; `functions`, `above` and `below` are the modes through which torch
    hands over its operators. `others` are sizes of the names at which each operator is run once more (see
    `requirements`), `required` what was run so, `told` what torch gave for which numbers, `allowed` what the conditions
    kept so far say of sizes; `loose` are symbols whose size is told by the operator that made them, `dependent` those
    that hang on sizes in a way that no type rule tells. `met` has what is known of operators by what they are called
    with, `layouts` how torch lays out tensors, `record` what this run has met. In a
    trial `before` is what the run before it has met, `index` its values as they are at the trial's sizes, `point` these
    sizes, if they have no say on other names and the trial has met little for the first time, which `missed` counts.
    `alive` has weak references to the tensors that were made, `written` tells of each write when its memory was made,
    `drawn` has the lines that draw from generators that the model seeds, `effects` counts what else operators do beside
    making values; `likes` has the numbers of modules that are equal but for their weights, `unequal` says that some
    were not; `chosen` are those with weights that data chose. `unproven` says that some operator was not run at the
    smallest sizes, `unexplained` has the operators that fixed names in a way that was not understood. `found` has the
    symbols of how many places of a tensor are not 0, `counted` is the tensor whose places the operator at hand counts;
    `domains` has the versions of domains that the model names, `wholes` the symbols of numbers that were rounded,
    `items` those of integers in tensors, by how these are computed, `truths` those of truth values. `present` says that
    inputs have numbers, which tensors on the meta device do not. `decisions` are the modules that decide by sizes,
    where their ways are to be branches; `disguised` the lists that a loop on data made grow, of which other names may
    know.
    """

    options: Options
    names: dict[int, str]
    weights: Weights = attrs.field(factory=Weights)
    scope: Scope = attrs.field(init=False)
    asked: Questions = attrs.field(init=False)
    handles: dict[int, tuple[torch.Tensor, Handle]] = attrs.field(factory=dict)
    seen: dict[int, tuple[torch.Tensor, Memory, Value, str]] = attrs.field(factory=dict)
    memories: dict[int, tuple[Memory, torch.Tensor]] = attrs.field(factory=dict)
    modules: list[str] = attrs.field(factory=list)
    visits: ModuleCalls = attrs.field(factory=ModuleCalls)
    counts: Counter[str] = attrs.field(factory=Counter)
    symbols: Counter[str] = attrs.field(factory=Counter)
    counted: Value | None = None
    found: dict[Any, tuple[Any, Scope]] = attrs.field(factory=dict)
    truths: set[Any] = attrs.field(factory=set)
    domains: dict[str, int] = attrs.field(factory=dict)
    wholes: dict[Any, Any] = attrs.field(factory=dict)
    items: dict[Any, tuple[Any, Scope, Value]] = attrs.field(factory=dict)
    own: dict[str, bool] = attrs.field(factory=dict)
    codes: dict[int, tuple[types.CodeType, Known]] | None = None
    until: int = 0
    lines: dict[Any, str] = attrs.field(factory=dict)
    constants: dict[Value, bool] = attrs.field(factory=dict)
    outside: Outside = Outside()
    frames: list[Frame] = attrs.field(factory=list)
    named: frozenset[str] = frozenset()
    present: bool = False
    others: dict[str, Any] = attrs.field(factory=dict)
    loose: set[str] = attrs.field(factory=set)
    dependent: set[str] = attrs.field(factory=set)
    unproven: bool = False
    unexplained: dict[str, str] = attrs.field(factory=dict)
    required: set[Any] = attrs.field(factory=set)
    told: dict[Any, Any] = attrs.field(factory=dict)
    allowed: dict[Any, Any] = attrs.field(factory=dict)
    calls: int = 0
    met: dict[Any, Entry] = attrs.field(factory=dict)
    kinds: dict[Any, int] = attrs.field(factory=dict)
    layouts: Layouts = attrs.field(factory=Layouts)
    record: Record = attrs.field(init=False)
    before: Record | None = None
    index: Index = attrs.field(factory=lambda: Index({}))
    point: Mapping[str, int] | None = None
    again: Counter[Any] = attrs.field(factory=Counter)
    answers: dict[Any, bool] = attrs.field(factory=dict)
    missed: int = 0
    alive: list[Any] = attrs.field(factory=list)
    effects: Counter[str] = attrs.field(factory=Counter)
    written: list[int] = attrs.field(factory=list)
    drawn: dict[str, None] = attrs.field(factory=dict)
    likes: Likes = attrs.field(factory=Likes)
    chosen: list[Any] = attrs.field(factory=list)
    unequal: bool = False
    examples: Examples = attrs.field(init=False)
    decisions: Any = None
    disguised: list[Any] = attrs.field(factory=list)
    mixed: dict[int, Value] = attrs.field(factory=dict)
    functions: Any = None
    above: Any = None
    below: Any = None

    def __attrs_post_init__(self) -> None:
        self.scope = Scope(OwnSizes({}), self.options)
        self.record = Record(binders=self.scope.binders, numbers=self.scope.numbers)
        line, heard, rounded, code = (
            weakly(self, each) for each in (Tracer.line, Tracer.heard, Tracer.rounded, Tracer.code)
        )
        self.asked = Questions(line, heard, rounded, reached=self.options.reached or id, code=code)
        self.examples = Examples(self.asked.hints, kernels=self.options.kernels)

    # ------------------------------------------------------------------------------------------ places

    def line(self) -> str:
        """The user's line that is being run: the innermost that is neither torch's nor irkit's; "" where none is."""
        frame = self.frame(sys._getframe(1))
        if frame is None:
            return ""
        key = (frame.f_code.co_filename, frame.f_lineno)
        if key not in self.lines:
            self.lines[key] = f"{short_path(key[0])}:{key[1]} {linecache.getline(*key).strip()}"
        return self.lines[key]

    def note_codes(self, inner: Any) -> None:
        """Notes the codes that run, from a frame to the call that is looked at, with the variables around them."""
        known, frame = self.codes, inner
        while known is not None and frame is not None and id(frame) != self.until:
            code = frame.f_code
            if id(code) not in known and not code.co_filename.startswith((TORCH, HERE, IRKIT)):
                around = {name: frame.f_locals.get(name) for name in code.co_freevars}
                known[id(code)] = (code, {"LOAD_GLOBAL": frame.f_globals, "LOAD_DEREF": around})
            frame = frame.f_back

    def code(self) -> dict[str, Any]:
        """The globals of the user's code that is being run; empty where none is."""
        frame = self.frame(sys._getframe(1))
        return {} if frame is None else frame.f_globals

    def frame(self, inner: Any) -> Any:
        """The user's frame that is innermost from there; None where none is."""
        own, frame = self.own, inner
        while frame is not None:
            file = frame.f_code.co_filename  # the code itself Python would hash anew each time, with all in it
            mine = own.get(file)
            if mine is None:
                mine = own[file] = file.startswith((TORCH, HERE, IRKIT, "<"))
            if not mine:
                return frame
            frame = frame.f_back
        return None

    def heard(self, condition: Any) -> None:
        """Takes other sizes to compare with, where these break what was asked."""
        if holds(condition, self.others) is not True:
            self.others.update(sizes_moved(self.asked, self.others, condition))

    def name(self, func: Any) -> str:
        """The name of the next node of an operator: `add`, `add_1`, as FX counts them."""
        base = func._schema.name.rpartition("::")[2]
        count = self.counts[base]
        self.counts[base] = count + 1
        return f"{base}_{count}" if count else base

    # ------------------------------------------------------------------------------------------ tensors

    def handle(self, tensor: torch.Tensor) -> Handle:
        """The handle of a tensor that a model uses: a traced one, or one from outside, which is a constant."""
        if type(tensor) is Traced:
            if self.asked.moved and tensor.handle.memory.depth < len(self.frames):
                self.refuse_other_sizes(tensor.handle)
            return tensor.handle
        found = self.handles.get(id(tensor))
        return found[1] if found is not None else self.entered(tensor)

    def refuse_other_sizes(self, handle: Handle) -> None:
        """Raises LoweringError where a block that is run at other sizes than the example's uses a tensor around it,
        which has those of the example."""
        if list(handle.twin.shape) != [self.asked.hint(d) for d in handle.value.shape]:
            what = "a branch that the example does not take uses a tensor that is no variable of its function"
            raise LoweringError(what, source=self.line(), hint="hand the tensor over as an argument")

    def entered(self, tensor: torch.Tensor) -> Handle:
        """The handle of a tensor from outside, met for the first time."""
        memory, value, name = self.lying(tensor)
        value = value if memory.torn else memory.content
        twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
        found = Handle(twin, memory, (), value, memory.version, name)
        self.handles[id(tensor)] = (tensor, found)
        return found

    def lying(self, tensor: torch.Tensor) -> tuple[Memory, Value, str]:
        """(the memory of a tensor from outside, what it held when it was met first, its name)"""
        known = self.seen.get(id(tensor))
        if known is None:
            known = self.seen[id(tensor)] = (tensor, *self.first_lying(tensor))
        return known[1:]

    def first_lying(self, tensor: torch.Tensor) -> tuple[Memory, Value, str]:
        """The same of one that was not met before."""
        if type(tensor) is not torch.nn.Parameter and is_wrapped(tensor):
            raise LoweringError(
                "a tensor of torch.func meets an operator that is no longer transformed",
                hint="use capture='torch.export'",
            )
        if tensor.is_meta and self.present:
            raise CaptureError(
                "the model computes with tensors on at least two devices, cpu and meta!",
                hint="weights on the meta device have no numbers: load them, or look at the graph, with inputs of that "
                "device",
            )
        refuse_layout(tensor)
        weight = id(tensor) in self.names
        name = self.names.get(id(tensor)) or f"constant_{self.symbols['constant']}"
        held = tensor if weight else tensor.detach()  # a weight is the same object in every run
        value = self.held_before(tensor)
        key = tensor.untyped_storage()._cdata
        if self.is_written(tensor, key, weight):
            value = self.written_content(tensor)
        elif value is None:
            value = tensor_constant(self.scope.constants, held, name, copy=self.options.copy)
        self.record.outside[id(tensor)] = value
        if not weight:
            self.symbols["constant"] += 1
            self.effects["constant"] += (content := content_of_tensor(held)) is None
            if content is not None and value.op != PARAM:
                self.record.small.setdefault(content, value)
        if key in self.memories:
            memory, base = self.memories[key]
            same = base.shape == tensor.shape and base.stride() == tensor.stride() and base.dtype is tensor.dtype
            memory.torn = memory.torn or not (same and base.storage_offset() == tensor.storage_offset())
            value = memory.content if not memory.torn else value
        else:
            lasting = self.outside.lasting
            local = lasting is not None and key not in lasting and not weight
            memory = Memory(value, name, local=local)
            self.memories[key] = (memory, tensor)
            if key in self.outside.written or (self.options.live and not local):
                self.constants[value] = False
        return memory, value, name

    def is_written(self, tensor: torch.Tensor, key: int, weight: bool) -> bool:
        """Whether a tensor from outside is known to hold something else in a later call. Complex ones are constants of
        which a pair of parameters is made once the run is over."""
        lasting = self.outside.lasting or frozenset()
        lives = self.options.live and (weight or key in lasting)
        return (lives or key in self.outside.written) and not (tensor.is_complex() or is_absent(tensor))

    def written_content(self, tensor: torch.Tensor) -> Value:
        """What a tensor from outside that is written holds at first: a parameter, so that nothing hangs on the numbers
        of this one call; that of the run before a trial, whose tensors live on."""
        array = array_of(tensor)
        before = None if self.before is None else self.before.outside.get(id(tensor))
        value = param(Tensor(DType.of(array.dtype), array.shape)) if before is None else before
        self.examples.known[value] = array.copy()
        return value

    def held_before(self, tensor: torch.Tensor) -> Value | None:
        """What the run before a trial found a tensor from outside to hold; None where there is none."""
        if self.before is None:
            return None
        if id(tensor) in self.names:
            return self.before.outside.get(id(tensor))
        content = content_of_tensor(tensor)
        return None if content is None else self.before.small.get(content)

    def kind(self, handle: Handle) -> int:
        """A number that tensors of equal type and layout have in common; -1 for those that say more than that."""
        twin = handle.twin
        if twin.is_complex() or twin.is_neg() or not isinstance(handle.value.type, Tensor):
            handle.kind = -1
        else:
            apart = handle.memory.elsewhere is not None
            key = (handle.value.type, twin.dtype, twin.stride(), twin.storage_offset(), apart)
            handle.kind = self.kinds.setdefault(key, len(self.kinds) + 1)
        return handle.kind

    def read(self, handle: Handle) -> Value:
        """What a tensor holds now; in a body, of a tensor around it, the parameter that stands for that."""
        memory = handle.memory
        if not self.frames and handle.version == memory.version and not memory.stale:
            return handle.value  # as most are asked, many times for each layer
        value = self.outer_read(handle)
        return self.captured(value, handle.memory.depth if handle.depth < 0 else handle.depth)

    def captured(self, value: Value, depth: int) -> Value:
        """What stands in the body that is being traced for a value made in so many bodies."""
        for frame in self.frames[depth:]:
            if value.op == CONSTANT:
                return value
            if value not in frame.captured:
                frame.captured[value] = param(value.type)
                self.examples.later[frame.captured[value]] = (value, False)
            value = frame.captured[value]
        return value

    def outer_read(self, handle: Handle) -> Value:
        """What a tensor holds now, where it was made."""
        memory = handle.memory
        while memory.stale:
            memory.stale[-1]()  # which stays where it refuses: it is read more than once
            memory.stale.pop()
        if handle.version != memory.version:
            if memory.torn:
                raise LoweringError(
                    f"{memory.name} shares its memory with another tensor from outside, and is written",
                    hint="use capture='torch.export'",
                )
            value = handle.location().read(memory.content)
            handle.value, handle.version = self.placed(value, "view", handle.value.type), memory.version
            handle.depth = -1
        return handle.value

    def write(self, handle: Handle, new: Value) -> None:
        """Puts a new content of the same type where a tensor lives."""
        memory = handle.memory
        self.written.append(memory.born)
        if memory.name:
            self.effects["outside"] += 1
        for settle in memory.doubtful:
            settle()
        for other, settle in memory.linked:
            if other.name:
                settle()
            else:
                other.stale.append(settle)
        if memory.depth < len(self.frames):
            raise LoweringError(
                "a body of control flow writes a tensor of the model around it", source=self.line(),
                hint="use capture='torch.export'",
            )  # fmt: skip
        content = handle.location().write(memory.content, new) if handle.lenses else new
        self.record.overwritten.append(memory.content)
        memory.content = self.placed(content, "write", memory.content.type)
        memory.version += 1
        self.record.written.append(memory.content)
        if not handle.lenses:
            handle.value, handle.version = memory.content, memory.version

    def tensor(self, twin: torch.Tensor, value: Value, name: str) -> Traced:
        """A new tensor, of memory of its own."""
        return self.shown(Handle(twin, Memory(value, depth=len(self.frames), twin=twin), (), value, 0, name))

    def view(self, twin: torch.Tensor, of: Handle, lens: Lens | None, value: Value, name: str) -> Traced:
        """A new tensor that shares the memory of another."""
        lenses = of.lenses if lens is None else (*of.lenses, lens)
        of.memory.shared = True
        return self.shown(Handle(twin, of.memory, lenses, value, of.memory.version, name, depth=len(self.frames)))

    def shown(self, handle: Handle) -> Traced:
        """A handle as torch sees it."""
        if handle.memory.born < 0:
            handle.memory.born = len(self.alive)
            self.layouts.memories.append(weakref.ref(handle.memory))
        made = self.layouts.shown(self, handle)
        self.alive.append(weakref.ref(made))
        return made

    # ------------------------------------------------------------------------------------------ values

    def origin(self, target: str, name: str = "") -> Origin:
        """Where what is being computed comes from."""
        return Origin(name, target, self.modules[-1] if self.modules else "", self.line())

    def placed(self, value: Value, target: str, known: Any = None) -> Value:
        """A value made outside an operator, with its origin, and the type that is known of it."""
        return self.stamped({value: value.type if known is None else known}, self.origin(target))[value]

    def stamped(self, refined: Mapping[Value, Any], origin: Origin) -> Mapping[Value, Value]:
        """What values become with their types and an origin; in a trial those that the run before it made, too."""
        new = stamped_all(self.scope, refined, origin)
        return new if self.before is None else recognize_values(self.index, new)

    def earlier(self, met: Met, values: Sequence[Value]) -> Outcome | None:
        """What an operator gave in the run before a trial, where the conditions asked meanwhile hold here, too."""
        if self.before is None:
            return None
        key = self.index.key_of(met, values)
        there, count = self.index.outcomes.get(key, ()), self.again.get(key, 0)
        if not there or (count >= len(there) and there[0].random):
            return None
        found = there[min(count, len(there) - 1)]
        same = not found.of_data or self.index.stand_for_the_same(self.record, self.before, found.of_data)
        if not (same and all(self.holds(each) for each in found.conditions)):
            return None
        for each in () if self.index.point else found.conditions:  # at a point, those of the run before are kept
            self.asked.condition(each, True)
        self.again[key] = count + 1
        return found

    def open_index(self) -> None:
        """Takes into the index what values are computed of that the run before took over, for a trial that cannot."""
        if self.before is not None and self.index.closed:
            self.index = self.before.index_at(self.index.point)

    def holds(self, condition: Any) -> bool:
        """Whether a condition holds for the example."""
        if condition not in self.answers:
            self.answers[condition] = condition is True or holds(condition, self.asked.hints) is True
        return self.answers[condition]

    @property
    def state(self) -> tuple[int, int]:
        """How many symbols and checks there are."""
        return self.symbols["u"], len(self.scope.checks)

    def first_met(self, values: Sequence[Any]) -> None:
        """Counts what a trial meets and the run before did not: where that is much, its graph is another, and what its
        operators require is looked at everywhere."""
        if self.before is not None and self.point is not None:
            self.missed += any(v not in self.index.same for v in values)
            if self.missed > MOST:
                self.point = None

    def fresh_symbol(self, hint: int, signed: bool = False) -> Any:
        """A symbol for a number that only the data tells."""
        name = f"u{self.symbols['u']}"
        self.symbols["u"] += 1
        made = dims.symbol(name, signed=signed)
        self.asked.hints[name] = hint
        self.others[name] = next_prime(max((4, hint, *self.others.values())))
        self.loose.add(name)
        return made

    def number_of(self, value: Value) -> Any:
        """The symbol of the number that a value holds, where one that is computed alike was asked for it in the same
        body; else None."""
        return self.items.get((id(self.scope), self.computed_alike(value)), (None,))[0]

    def note_number(self, value: Value, symbol: Any) -> None:
        """Notes the symbol of the number that a value holds."""
        self.items[id(self.scope), self.computed_alike(value)] = (symbol, self.scope, value)

    def computed_alike(self, value: Value, depth: int = 12) -> Any:
        """Equal for values that are computed alike of the same values, by so many operators at most."""
        if value.op == PARAM and self.frames:
            around = {own: outer for outer, own in self.frames[-1].captured.items()}
            return self.computed_alike(around[value], depth) if value in around else value
        blob = value.blob
        if blob is not None and blob.array.size <= FEW:
            return value.type, blob.array.tobytes()
        if not depth or value.op in (PARAM, CONSTANT) or value.bodies or is_random(value):
            return value
        operands = [None if v is None else self.computed_alike(v, depth - 1) for v in value.inputs]
        return value.op, value.attributes, *operands

    def rounded(self, function: Any, expr: Any, hint: int) -> Any:
        """A symbol for a real number that hangs on floats out of data, once it is rounded; None where it does not."""
        numbers = self.scope.numbers
        if not expr.free_symbols & numbers.keys():
            return None
        key = (function, expr)
        if key not in self.wholes:
            exact = scalar(expr, DType.DOUBLE, numbers)
            near = ROUNDED[function](exact) if function in ROUNDED else exact
            self.wholes[key] = self.fresh_symbol(hint, signed=True)
            self.scope.binders[self.wholes[key]] = (self.placed(op.Cast(near, to=DType.INT64), "item"), True)
            fits = op.Less(op.Abs(near), scalar(2.0**63, DType.DOUBLE))  # not so NaN, which Python refuses, too
            self.scope.checks.append(Check(self.placed(fits, "assert"), WHOLE, self.line()))
        return self.wholes[key]

    def begin(self, sizes: Mapping[str, int], ranges: Mapping[str, Range]) -> None:
        """Sets the sizes of the example, and others to compare with."""
        self.asked.hints.update(sizes)
        self.asked.ranges.update(ranges)
        self.named = frozenset(sizes)
        for name, size in sizes.items():
            other = next_prime(max((*self.others.values(), *sizes.values())))
            self.others[name] = other if name not in ranges or other in ranges[name] else size

    def example(self, value: Value) -> Any:
        """What a value holds for the example, as an array. Raises LoweringError in a block that is run at other sizes,
        where it is no constant."""
        if self.asked.moved and reaches_parameter(value, self.constants):
            what = "a branch that the example's sizes do not take asks what a tensor holds"
            raise LoweringError(what, source=self.line(), hint="give an example whose sizes take it")
        self.effects["content"] += 1
        return self.examples.of(value)

    def is_constant(self, value: Value) -> bool:
        """Whether a value hangs on no input, no size, no random number, and nothing that is known to be written."""
        answer = not reaches_parameter(value, self.constants)
        self.effects["content"] += answer
        return answer

    def overlooked(self) -> frozenset[int]:
        """The memories from outside that were taken for constant, and are state: whoever made values of them may have
        looked at what they hold in this one call."""
        return frozenset(key for key, (memory, _) in self.memories.items() if memory.is_state)

    def seen_outside(self) -> Outside:
        """What is known of tensors from outside once this run is over; the same where it found nothing new."""
        unnamed = (memory for memory, tensor in self.memories.values() if id(tensor) not in self.names)
        seen = attrs.evolve(self.outside, written=self.outside.written | self.overlooked())
        if self.outside.lasting is None and any(memory.is_state or self.options.live for memory in unnamed):
            return attrs.evolve(seen, lasting=frozenset(self.memories))
        return seen

    # ------------------------------------------------------------------------------------------ modes

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """A block inside an operator in which every operator is met again."""
        if torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python):
            above = nullcontext() if _len_torch_dispatch_stack_pre_dispatch() else self.above
            below = nullcontext() if torch._C._len_torch_dispatch_stack() else self.below
            with restored_dispatch(), below, enable_python_dispatcher(), above:
                yield
        else:
            yield


def restored_dispatch() -> Any:
    """A block in which torch dispatches to Python again, inside one in which it does not."""
    return torch._C._ForceDispatchKeyGuard(
        torch._C._dispatch_tls_local_include_set().add(torch._C.DispatchKey.Python),
        torch._C._dispatch_tls_local_exclude_set()
        .remove(torch._C.DispatchKey.Python)
        .remove(torch._C.DispatchKey.PreDispatch)
        .remove(torch._C.DispatchKey.PythonTLSSnapshot),
    )
