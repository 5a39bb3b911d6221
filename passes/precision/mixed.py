"""Float32 graphs in float16 or bfloat16, with what overflows or loses too much left in float32.

Each operator is decided once: left in float32 with a reason, or computed in 16 bits, or as its operands are. Casts
stand only where a value passes from one type to the other, one for each value and type.

- What the keep-list names, what `passes.precision.risks` warns of, and positions (numbers that come of integers and
  constants alone) stay in float32.
- Products, convolutions and the like are computed in 16 bits.
- Everything else is computed as its operands are: in float32 where all of them are float32 anyhow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

import attrs
import numpy as np

from irkit.build import op
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value, constant, param
from irkit.core.types import HALVES, DType, Tensor, Tuple, Type, types_of
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.errors import RewriteError, TypeRuleError
from irkit.evaluation.interpreter import Feeds
from irkit.ops.schemas import TYPE_STRINGS, OpSpec, spec, split_domain
from irkit.support.counts import count_text
from passes.precision.risks import Measured, has_floats, limits, measure, risk

COMPUTED = frozenset((
    "MatMul", "Gemm", "Conv", "ConvTranspose", "DeformConv", "Attention", "LSTM", "GRU", "RNN", "Einsum",
    "com.microsoft::FusedMatMul", "com.microsoft::FusedConv", "com.microsoft::Attention",
    "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention",
))  # fmt: skip
"""Operators worth a cast of their operands."""
STAYING = frozenset(
    (("BatchNormalization", "T1"), ("BatchNormalization", "T2"), ("GridSample", "T2"), ("Resize", "T2"))
)
"""(operator, type variable): operands that stay in float32 beside others in 16 bits: statistics and coordinates."""
TYPED = ("to", "dtype", "output_dtype", "output_datatype")
"""Attributes that name the element type of a result."""
TAKING = frozenset(("Bernoulli", "EyeLike", "OptionalGetElement", "RandomNormalLike", "RandomUniformLike"))
"""Operators whose result takes the element type of their operand, though their schema has two names for these."""
SPREADS = frozenset((
    "Where", "Mul", "Add", "Sub", "Max", "Min", "Cast", "Concat", "Expand", "Unsqueeze", "Squeeze", "Reshape",
    "Transpose", "Slice", "Gather", "Identity", "Neg", "Trilu", "Pad", "Tile",
))  # fmt: skip
"""Operators through which a mask of very low numbers keeps them."""
INVERTS = frozenset(("Sqrt", "Reciprocal", "Pow", "Unsqueeze", "Squeeze", "Expand", "Reshape", "Identity", "Abs"))
"""Operators through which what may be next to 0 stays so, or becomes what may be very large."""
TABLE = 1024
"""A constant of up to so many numbers may be a table of frequencies, by which positions are multiplied."""


@attrs.frozen
class Kept:
    """An operator that stays in float32, and why."""

    value: Value
    why: str

    def __str__(self) -> str:
        place = str(self.value.origin)
        return f"{self.value.op}{' at ' + place if place else ''}: {self.why}"


@attrs.frozen
class Mixed:
    """A graph in mixed precision: the graph, what stays in float32, what became of constants, how many casts it has."""

    graph: Graph
    dtype: DType
    kept: tuple[Kept, ...]
    notes: tuple[str, ...]
    casts: int

    def __str__(self) -> str:
        reasons: dict[str, list[Kept]] = {}
        for each in self.kept:
            by_numbers = each.why.startswith(("it reaches", "it loses"))
            reasons.setdefault(each.why.rpartition(" ")[0] + " ..." if by_numbers else each.why, []).append(each)
        lines = [
            f"{self.dtype.short}, {count_text(self.casts, 'cast')}, "
            f"{count_text(len(self.kept), 'operator')} kept in f32"
        ]
        for why, group in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
            places = ", ".join(dict.fromkeys(str(k.value.origin) or k.value.op for k in group[:3]))
            lines.append(f"  {len(group):4} {why} ({places}{', ...' if len(group) > 3 else ''})")
        return "\n".join((*lines, *(f"  {note}" for note in self.notes)))


def patterns(keep: object) -> tuple[str, ...]:
    """The patterns of a keep-list. Raises RewriteError for what is not a list of texts."""
    if isinstance(keep, str | bytes) or not isinstance(keep, Iterable):
        raise RewriteError(f"keep is {keep!r}", hint='give a list: ["Softmax", "lm_head"]')
    found: tuple[Any, ...] = tuple(cast("Iterable[Any]", keep))
    if not all(isinstance(each, str) for each in found):
        raise RewriteError(f"keep is {keep!r}, and patterns are texts", hint='give a list: ["Softmax", "lm_head"]')
    return found


@attrs.frozen
class Precision:
    """What is asked of a conversion: the arguments of `mixed_precision`, for which see there."""

    dtype: DType | str = DType.FLOAT16
    keep: tuple[str, ...] = attrs.field(default=(), converter=patterns)
    keep_io: bool = True
    feeds: Feeds | Sequence[Feeds] | None = None
    safety: float = 4.0

    @classmethod
    def of(cls, wanted: Precision | DType | str) -> Precision:
        """What a user asks for by name, by type or in full. Raises RewriteError for another type or name."""
        found = wanted if isinstance(wanted, Precision) else cls(wanted)
        chosen = found.dtype if isinstance(found.dtype, DType) else named_dtype(found.dtype)
        return attrs.evolve(found, dtype=chosen)

    def mixed(self, graph: Graph) -> Mixed:
        """The graph in that precision, with the report."""
        return mixed_precision(
            graph, self.dtype, keep=self.keep, keep_io=self.keep_io, feeds=self.feeds, safety=self.safety
        )


def to_precision(
    graph: Graph,
    dtype: DType | str = DType.FLOAT16,
    *,
    keep: Iterable[str] = (),
    keep_io: bool = True,
    feeds: Feeds | Sequence[Feeds] | None = None,
    safety: float = 4.0,
) -> Graph:
    """The graph computed in float16 or bfloat16 as far as that is safe; the very same object where it has no float32.

    See `mixed_precision`, which also says what was kept in float32 and why.
    """
    return mixed_precision(graph, dtype, keep=keep, keep_io=keep_io, feeds=feeds, safety=safety).graph


def mixed_precision(
    graph: Graph,
    dtype: DType | str = DType.FLOAT16,
    *,
    keep: Iterable[str] = (),
    keep_io: bool = True,
    feeds: Feeds | Sequence[Feeds] | None = None,
    safety: float = 4.0,
) -> Mixed:
    """The graph in float16 or bfloat16, with the report of what stays in float32.

    Args:
        keep: patterns, as `Softmax`, `lm_head`, `encoder.layers.3.*`, `*.norm`: what matches an operator, the path of a
            module (or of one around it), the name of an FX node, or the public name of a result stays in float32.
        keep_io: inputs and outputs stay in float32.
        feeds: sample inputs, or a list of them: operators are kept as well where a value comes within a factor of
            `safety` of the end of the type's range, or loses much of its size in the type.
        safety: how far above what was seen a value may grow.

    Raises RewriteError for another type, and EvaluateError for feeds that do not fit.
    """
    chosen = dtype if isinstance(dtype, DType) else named_dtype(dtype)
    if chosen not in HALVES:
        raise RewriteError(
            f"graphs are converted to float16 or bfloat16, and not to {chosen.name.lower()}",
            hint='write precision="float16" or "bfloat16"',
        )
    seen: Mapping[Value, Measured] = {} if feeds is None else measure(graph, feeds, chosen)
    work = Conversion(graph, chosen, patterns(keep), seen, safety)
    made = work.graph_of(graph, keep_io)
    idle = [p for p in work.keep if p not in work.named]
    work.notes.update(dict.fromkeys(f"{p!r} of the keep-list names nothing that is converted" for p in idle))
    return Mixed(made, chosen, tuple(work.kept), tuple(work.notes), work.casts)


def named_dtype(name: object) -> DType:
    """The type that a user names as `DType.of` takes it, in letters of any size. Raises RewriteError for no name."""
    for each in (name, name.lower()) if isinstance(name, str) else () if isinstance(name, int) else (name,):
        try:
            return DType.of(each)
        except (KeyError, TypeError, ValueError):
            continue
    known = ", ".join(n for d in HALVES for n in (d.name.lower(), d.short))
    raise RewriteError(f"there is no precision {name!r}", hint=f"known: {known}")


def pattern_of(keep: Sequence[str], value: Value, name: str = "") -> str:
    """The first pattern that matches an operator, its module or one around it, its FX node or the `name` that the graph
    has for it; empty where none does."""
    if not keep:
        return ""
    origin = value.origin
    module = origin.module.split(".") if origin.module else []
    paths = (".".join(module[: i + 1]) for i in range(len(module)))
    names = (value.op, origin.node, origin.target, name, *paths)
    return next((p for p in keep if any(n and fnmatchcase(n, p) for n in names)), "")


class Conversion:
    """What one conversion knows and finds out. Bodies are converted as graphs whose inputs and outputs stay."""

    def __init__(
        self, graph: Graph, dtype: DType, keep: tuple[str, ...], seen: Mapping[Value, Measured], safety: float
    ) -> None:
        self.dtype, self.keep, self.seen, self.safety = dtype, keep, seen, safety
        self.names: dict[Value, str] = {}
        for port, value in zip(graph.signature.results, graph.results, strict=False):
            self.names.setdefault(value, port.name)
        self.kept: list[Kept] = []
        self.notes: dict[str, None] = {}
        self.casts = 0
        self.named: set[str] = set()
        self._blobs: dict[Hashable, Blob] = {}
        self._bodies: dict[int, tuple[Graph, Graph]] = {}

    def graph_of(self, graph: Graph, keep_io: bool) -> Graph:
        """The graph, converted."""
        sweep = Sweep(self)
        params = tuple(p if keep_io else sweep.param(p) for p in graph.params)
        for value in graph.order:
            if value.op != PARAM:
                sweep.value(value)
        floats = [isinstance(r.type, Tensor) and r.dtype is DType.FLOAT for r in graph.results]
        wanted = DType.FLOAT if keep_io else self.dtype
        results = tuple(
            sweep.as_type(r, wanted) if is_float else sweep.new.get(r, r)
            for r, is_float in zip(graph.results, floats, strict=True)
        )
        if all(a is b for a, b in zip((*params, *results), (*graph.params, *graph.results), strict=True)):
            return graph
        return attrs.evolve(graph, params=params, results=results)

    def body(self, body: Graph) -> Graph:
        """A body, whose parameters and results stay as they are."""
        if id(body) not in self._bodies:
            self._bodies[id(body)] = body, self.graph_of(body, True)
        return self._bodies[id(body)][1]

    def blob(self, blob: Blob) -> Blob:
        """A constant in 16 bits; what is beyond the range becomes the largest finite number."""
        key = (id(blob.source), blob.shape, blob.name) if blob.source is not None else id(blob)
        if key not in self._blobs:
            dtype, bound = self.dtype, limits(self.dtype).largest

            def load() -> np.ndarray:
                array = blob.read()
                inside = np.where(np.isfinite(array), np.clip(array, -bound, bound), array)
                return inside.astype(dtype.numpy)

            source = blob.source if blob.source is not None else blob
            self._blobs[key] = Blob(dtype, blob.shape, load, blob.name, source, of=(blob,))
        return self._blobs[key]

    # ------------------------------------------------------------------------------------------ reasons

    def asked(self, value: Value) -> str:
        """The pattern of the keep-list that names a value; empty where none does."""
        found = pattern_of(self.keep, value, self.names.get(value, ""))
        self.named.add(found)
        return found

    def reason(self, value: Value) -> str:
        """Why an operator stays in float32; empty where nothing speaks for it."""
        pattern = self.asked(value)
        if pattern:
            return f"{pattern!r} is on the keep-list"
        why = risk(value, self.dtype)
        for v in (value, *value.inputs):
            found = self.seen.get(v) if v is not None and v.op != CONSTANT else None
            why = why or (found.risk(self.dtype, self.safety) if found is not None else "")
        return why


class Sweep:
    """One graph being converted: `new` maps values to what stands for them, in whichever type that is computed."""

    def __init__(self, conversion: Conversion) -> None:
        self.conversion, self.dtype = conversion, conversion.dtype
        self.new: dict[Value, Value] = {}
        self._cast: dict[tuple[Value, DType], Value] = {}
        self._places: set[Value] = set()
        self._low: set[Value] = set()
        self._delicate: set[Value] = set()

    def param(self, value: Value) -> Value:
        """A parameter in 16 bits."""
        if isinstance(value.type, Tensor) and value.dtype is DType.FLOAT:
            self.new[value] = param(Tensor(self.dtype, value.shape))
        return self.new.get(value, value)

    def as_type(self, value: Value, dtype: DType) -> Value:
        """What stands for a float32 value, in a type: cast once."""
        if value.op == CONSTANT:
            if dtype is DType.FLOAT:
                return value
            return self._cast.setdefault((value, dtype), self.low_constant(value))
        found = self.new.get(value, value)
        if found.dtype is dtype:
            return found
        key = (value, dtype)
        if key not in self._cast:
            if value in self._low and dtype is self.dtype:
                bound = np.float32(limits(self.dtype).largest)
                found = op.Clip(found, -bound, bound)
                self.conversion.notes.setdefault(f"a mask is cut off at {-bound:.5g} before it is cast")
            self._cast[key] = op.Cast(found, to=dtype).with_origin(value.origin.after("to_precision"))
            self.conversion.casts += 1
        return self._cast[key]

    def low_constant(self, value: Value) -> Value:
        """A constant in 16 bits."""
        blob: Blob = value.attributes[0][1]
        if blob.size <= TABLE and np.any(np.abs(blob.array[np.isfinite(blob.array)]) > limits(self.dtype).largest):
            bound = limits(self.dtype).largest
            self.conversion.notes.setdefault(f"constants beyond {bound:.5g} become {bound:.5g}, the largest that fits")
        return constant(self.conversion.blob(blob)).with_origin(value.origin)

    # ------------------------------------------------------------------------------------------ values

    def value(self, value: Value) -> None:
        """Converts one value, whose operands are converted."""
        if value.op == CONSTANT:
            return
        if value.op in (ITEM, SHAPE_VECTOR):
            self.follow(value)
        elif value.bodies:
            self.closed(value)
        else:
            self.operator(value)

    def follow(self, value: Value) -> None:
        """An Item, or sizes: over the new operands."""
        inputs = tuple(self.new.get(v, v) if v is not None else None for v in value.inputs)
        if inputs == value.inputs:
            return
        type_ = value.type
        if value.op == ITEM:
            type_ = inputs[0].type.items[value.attribute("index")]  # type: ignore[union-attr]
        self.new[value] = attrs.evolve(value, inputs=inputs, type=type_)

    def closed(self, value: Value) -> None:
        """An operator with bodies takes and gives what it did, and computes inside them in 16 bits."""
        bodies = tuple(map(self.conversion.body, value.bodies))
        made = self.over(value, [DType.FLOAT] * len(value.inputs))
        if any(a is not b for a, b in zip(bodies, value.bodies, strict=True)):
            self.new[value] = attrs.evolve(made, bodies=bodies)

    def operator(self, value: Value) -> None:
        """An operator in float32 or in 16 bits."""
        if not has_floats(value.inputs) and not has_float_results(value):
            self.over(value, [None] * len(value.inputs))
            return
        self.note(value)
        if value.op == "Cast" and value.dtype is not DType.FLOAT:  # from either type
            self.over(value, [None])
            return
        row = row_of(value)
        low = row is not None and self.is_low(value, row)
        if row is None and split_domain(value.op)[0]:
            self.conversion.kept.append(Kept(value, "its element types are not known"))
        if row is None or not low:
            self.over(value, [DType.FLOAT] * len(value.inputs))
            return
        kinds = low_kinds(value, row, self.dtype)
        operands = [self.dtype if row.formal(i).type in kinds else DType.FLOAT for i in range(len(value.inputs))]
        types = [
            lower_type(t, self.dtype) if row.outputs[min(i, len(row.outputs) - 1)].type in kinds else t
            for i, t in enumerate(types_of(value.type))
        ]
        self.over(value, operands, Tuple(tuple(types)) if isinstance(value.type, Tuple) else types[0])

    def over(self, value: Value, wanted: Sequence[DType | None], type_: Type | None = None) -> Value:
        """The value over its new operands, those of float32 in the types that are wanted."""
        inputs = tuple(
            None if v is None else self.as_type(v, dtype) if dtype is not None and is_float(v) else self.new.get(v, v)
            for v, dtype in zip(value.inputs, wanted, strict=True)
        )
        if inputs == value.inputs and type_ is None:
            return value
        self.new[value] = made = attrs.evolve(value, inputs=inputs, type=value.type if type_ is None else type_)
        return made

    def is_low(self, value: Value, row: OpSpec) -> bool:
        """True for an operator that is computed in 16 bits; notes what is kept for a reason."""
        typed = value.op in TAKING or any(value.attribute(name) is not None for name in TYPED)
        if typed or not low_kinds(value, row, self.dtype):
            return False
        why = self.conversion.reason(value)
        why = why or ("it computes positions" if value in self._places else "")
        why = self.with_divisors(value, why)
        if why:
            self.conversion.kept.append(Kept(value, why))
            return False
        if value.op in COMPUTED:
            return True
        given = [v for v in value.inputs if v is not None and is_float(v) and v.op != CONSTANT]
        return not given or any(self.new.get(v, v).dtype is self.dtype for v in given)

    def with_divisors(self, value: Value, why: str) -> str:
        """The reason, or that an operand may be next to 0, or very large where it was inverted; remembers of which
        values that is so: sums and bounds with a tiny constant, and what is made of them alone."""
        if "below what" in why:
            self._delicate.add(value)
        given = [v for v in value.inputs if v is not None and is_float(v) and v.op != CONSTANT]
        if not any(v in self._delicate for v in given):
            return why
        if value.op in INVERTS or (value.op == "Div" and len(given) == 1):
            self._delicate.add(value)
        return why or f"{value.op} by what may be next to 0"

    def note(self, value: Value) -> None:
        """Notes whether a value holds positions, and whether it may hold numbers far below what fits."""
        given = [v for v in value.inputs if v is not None and is_float(v)]
        moving = [v for v in given if v.op != CONSTANT]
        first = value.inputs[0] if value.inputs else None
        counts = value.op == "Range" or (value.op == "Cast" and first is not None and first.dtype.is_integer)
        small = value.op not in COMPUTED or all(v.blob is None or v.blob.size <= TABLE for v in given)
        if counts or (small and moving and all(v in self._places for v in moving)):
            self._places.add(value)
        if value.op in SPREADS and any(v in self._low or is_far_below(v, self.dtype) for v in given):
            self._low.add(value)


# ---------------------------------------------------------------------------------------------- questions


def is_float(value: Value) -> bool:
    """True for a tensor of float32."""
    return isinstance(value.type, Tensor) and value.dtype is DType.FLOAT


def has_float_results(value: Value) -> bool:
    """True where some result is a tensor of float32."""
    return any(isinstance(t, Tensor) and t.dtype is DType.FLOAT for t in types_of(value.type))


def is_far_below(value: Value, dtype: DType) -> bool:
    """True for a small constant that holds finite numbers beyond the range of the type."""
    blob = value.blob
    if blob is None or blob.size > TABLE:
        return False
    array = np.asarray(blob.array)
    return bool(np.any(np.abs(array[np.isfinite(array)]) > limits(dtype).largest))


def row_of(value: Value) -> OpSpec | None:
    """The row of an operator on tensors that ONNX or ONNX Runtime knows; None for all others."""
    if value.op == CALL:
        return None
    if not all(
        isinstance(t, Tensor) for t in (*(v.type for v in value.inputs if v is not None), *types_of(value.type))
    ):
        return None
    try:
        return spec(value.op)
    except TypeRuleError:
        return None  # somebody's own


def low_kinds(value: Value, row: OpSpec, dtype: DType) -> frozenset[str]:
    """The type variables of an operator that become 16 bits: those of float32 operands that allow it."""
    found: set[str] = set()
    for i, v in enumerate(value.inputs):
        formal = row.formal(i)
        if v is None or not is_float(v) or formal.type not in row.types or (value.op, formal.type) in STAYING:
            continue
        if TYPE_STRINGS[dtype] in row.allowed(formal):
            found.add(formal.type)
    return frozenset(found)


def lower_type(type_: Type, dtype: DType) -> Type:
    """A type with float32 replaced."""
    return Tensor(dtype, type_.shape) if isinstance(type_, Tensor) and type_.dtype is DType.FLOAT else type_


__all__ = ["Kept", "Mixed", "mixed_precision", "to_precision"]
