"""Random instances of patterns: graphs that contain the left side of a rule, and numbers to feed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, call_graph, const, shape_vector
from irkit.checking.draws import numbers
from irkit.core.ir import Graph, Value, item, param
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import PARAM
from irkit.core.walk import post_order, rebuild
from irkit.dims import Dim
from irkit.errors import IrkitError
from irkit.evaluation.kernels.common import Content
from irkit.ops.schemas import COMMUTATIVE, TYPE_STRINGS, AttributeSpec, OpSpec, spec
from irkit.pattern import Attr, Constant, Either, Hole, Op, Own, Pattern, Rest, Through
from irkit.pattern.heads import parts
from irkit.pattern.language import ABSENT, OfConstants, row_of
from irkit.pattern.predicates import Bound, Is, Typed
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

DTYPES = (
    DType.FLOAT, DType.FLOAT, DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16, DType.INT64, DType.INT32,
    DType.INT8, DType.UINT8, DType.BOOL,
)  # fmt: skip
"""The usual element types; all 28 are drawn, these more often."""

SIZES: tuple[int | str, ...] = (1, 1, 2, 3, 4, "n", "m", "n", "m")
EMPTY = 0.03
"""How often a dimension is the number 0."""


SIGNED = frozenset((DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16, DType.INT64, DType.INT32, DType.INT8))
"""Element types that Neg and Abs take."""


class Retry(Exception):
    """The random choices do not lead to an instance."""


@attrs.frozen(eq=False)
class Instance:
    """Values for the patterns of a rule. `arrays` holds numbers for the parameters in them that must not be just any,
    such as indices; their shapes say what the symbols are. Without it all numbers are drawn."""

    roots: tuple[Value, ...]
    arrays: Mapping[Value, Content] | None = None


@attrs.define(eq=False)
class Sampler:
    """The random choices of one instance. `params` are the parameters that it has made, `given` the numbers that fill
    constants."""

    rng: np.random.Generator
    dtype: DType
    shape: tuple[Dim, ...]
    bound: Bound = attrs.field(factory=dict[str, Any])
    params: list[Value] = attrs.field(factory=list[Value])
    dims: dict[str, Dim] = attrs.field(factory=dict[str, Dim])
    given: list[float] = attrs.field(factory=list[float])

    @classmethod
    def of(cls, rng: np.random.Generator, dtypes: tuple[DType, ...] = DTYPES) -> Sampler:
        """A sampler with an element type, one of `dtypes`, and a shape that most of the instance will have."""
        dtype = dtypes[rng.integers(len(dtypes))]
        rank = int(rng.choice([0, 1, 2, 2, 3, 3, 4]))
        drawn = map(int, rng.integers(0, len(SIZES), rank))
        sizes = [0 if rng.random() < EMPTY else SIZES[i] for i in drawn]
        return cls(rng, dtype, tuple(dims.symbol(s) if isinstance(s, str) else s for s in sizes))

    def pick(self, *choices: Any) -> Any:
        """One of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.rng.random() < probability)

    def param(self, dtype: DType, shape: tuple[Dim, ...]) -> Value:
        """A new parameter."""
        made = param(Tensor(dtype, shape))
        self.params.append(made)
        return made

    def variant(self, shape: tuple[Dim, ...] | None = None) -> tuple[Dim, ...]:
        """A shape that is the instance's own, or broadcasts to it."""
        shape = self.shape if shape is None else shape
        if shape and self.chance(0.05):
            at = int(self.rng.integers(len(shape)))
            return (*shape[:at], dims.symbol("k"), *shape[at + 1 :])
        if self.chance(0.6):
            return shape
        if self.chance(0.25):
            return ()
        cut = shape[int(self.rng.integers(len(shape) + 1)) :]
        return tuple(1 if self.chance(0.4) else d for d in cut)

    def numbers(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        """Random numbers of moderate size."""
        return numbers(self.rng, dtype, shape)


# ---------------------------------------------------------------------------------------------- patterns


def instance(pattern: Pattern, rng: np.random.Generator) -> Value:
    """A random value that `pattern` is meant to match. Raises Retry where the choices made lead nowhere."""
    return instances((pattern,), rng)[0]


def instances(patterns: tuple[Pattern, ...], rng: np.random.Generator) -> tuple[Value, ...]:
    """Random values that patterns are meant to match together: holes of one name hold one value in all of them. Raises
    Retry where the choices made lead nowhere."""
    sampler = Sampler.of(rng, dtypes_of(patterns))
    try:
        found = tuple(_value(sampler, pattern, _Place("", 0, ())) for pattern in patterns)
    except (IrkitError, ValueError, IndexError, ZeroDivisionError, OverflowError, KeyError) as error:
        raise Retry(str(error)) from error
    if not all(isinstance(each, Value) for each in found):
        raise Retry("the root is not a value")
    return found


def dtypes_of(patterns: tuple[Pattern, ...]) -> tuple[DType, ...]:
    """The element types to draw from: all that every typed part of the patterns, and every operator with a hole or a
    constant, allows; the usual ones more often. All, where that leaves none."""
    wanted = [t.dtypes for pattern in patterns for t in _types(pattern) if t.dtypes]
    wanted += [found for pattern in patterns for found in _taken(pattern)]
    allowed = tuple(d for d in DType if all(d in w for w in wanted)) or tuple(DType)
    return (*(d for d in DTYPES if d in allowed), *(d for d in DTYPES if d in allowed), *allowed, *allowed[:1])


def _taken(pattern: Pattern) -> list[frozenset[DType]]:
    """The element types that operators take where the pattern has a hole or a constant of any type; a choice of
    operators takes what one of them does."""
    found: list[frozenset[DType]] = []
    for part in parts(pattern):
        found += _taken(part)
    if not isinstance(pattern, Op) or pattern.bodies:
        return found
    rows = [row for row in map(row_of, pattern.ops) if row is not None and row.inputs]
    for index, part in enumerate(pattern.operands):
        if isinstance(part, Hole | Constant) and part is not ABSENT and rows:
            kinds = [_kinds(row, index) for row in rows]
            if all(len(each) > 1 for each in kinds):  # where there is but one, the instance's own is not asked for
                found.append(frozenset[DType]().union(*kinds))
    return found


@lru_cache(maxsize=1 << 12)
def _kinds(row: OpSpec, index: int) -> frozenset[DType]:
    """The element types that an operand may have."""
    return frozenset(d for d, name in TYPE_STRINGS.items() if name in row.allowed(row.formal(index)))


def _types(pattern: Pattern) -> list[Typed]:
    own = [pattern.type] if isinstance(pattern, Op | Hole | Constant) and pattern.type is not None else []
    return own + [t for part in parts(pattern) for t in _types(part)]


@attrs.frozen
class _Place:
    """Where a hole stands: the operator that it is an operand of, its number, and the operands before it."""

    op: str
    index: int
    before: tuple[Any, ...]


def _value(s: Sampler, pattern: Pattern, place: _Place) -> Any:
    if isinstance(pattern, Either):
        return _value(s, s.pick(*pattern.choices), place)
    if isinstance(pattern, Op) and not pattern.bodies:
        return _operator(s, pattern)
    if isinstance(pattern, OfConstants | Own | Op):
        raise Retry("give the rule a sample")
    if isinstance(pattern, Through):
        return _called(s, _value(s, pattern.inner, place))
    if isinstance(pattern, Rest):
        return _bound(s, pattern.name, lambda: tuple(_leaf(s, pattern, place) for _ in range(s.pick(0, 1, 2, 3))))
    if pattern is ABSENT:
        return None
    if pattern.optional and s.chance(0.5):
        return _bound(s, pattern.name, lambda: None)
    return _bound(s, pattern.name, lambda: _leaf(s, pattern, place))


def _called(s: Sampler, value: Value | None) -> Any:
    """The value, or a call of a function that computes it."""
    if not isinstance(value, Value) or s.chance(0.4):
        return value
    used = tuple(v for v in post_order([value]) if v.op == PARAM)
    own = {v: param(v.type) for v in used}
    return call_graph(Graph(tuple(own.values()), (rebuild([value], own)[value],)), *used)


def _bound(s: Sampler, name: str, make: Callable[[], Any]) -> Any:
    if not name:
        return make()
    if name not in s.bound:
        s.bound[name] = make()
    return s.bound[name]


def _leaf(s: Sampler, pattern: Hole | Constant | Rest, place: _Place) -> Value:
    for test in pattern.where:
        if isinstance(test, Is) and callable(test.examples[0]):
            made: Any = test.examples[0]
            return made(s)
    for _ in range(30):
        found = _candidate(s, pattern, place)
        if not isinstance(pattern, Rest) and pattern.type is not None and pattern.type.refuses(found, dict(s.dims)):
            continue
        if all(test(found) for test in pattern.where):
            return found
    raise Retry(f"nothing found for {pattern.name}")


def _candidate(s: Sampler, pattern: Hole | Constant | Rest, place: _Place) -> Value:
    given = [test.examples for test in pattern.where if isinstance(test, Is)]
    dtype = _dtype(s, place)
    if not isinstance(pattern, Rest) and pattern.type is not None and not given:
        return _of_type(s, pattern, pattern.type, dtype)
    if given:
        return _of_number(s, place, dtype, s.pick(*given[0]))
    special = _special(place)
    if special is not None:
        found = special(s, place)
        if isinstance(found, Value):
            return found
        if isinstance(pattern, Constant) or s.chance(0.8):
            return const(np.asarray(found))
        return s.param(DType.of(np.asarray(found).dtype), np.asarray(found).shape)
    shape = _fitting(s, place) or s.variant()
    if isinstance(pattern, Constant):
        static = _raised(s, tuple(d if isinstance(d, int) else 1 for d in shape))
        return _constant(s, dtype, () if s.chance(0.25) else static)
    if isinstance(pattern, Hole) and pattern.ops:
        raise Retry("a hole of given operators needs an example")
    return _operand(s, dtype, shape)


def _special(place: _Place) -> Callable[[Sampler, _Place], Any] | None:
    return _last_or_any if place.op.startswith("Reduce") and place.index else OPERANDS.get((place.op, place.index))


def _of_number(s: Sampler, place: _Place, dtype: DType, number: Any) -> Value:
    """A constant of one number: where it says where or how much, as many as the operands before ask for."""
    special = _special(place)
    asked = None if special is None else special(s, place)
    if asked is not None and not isinstance(asked, Value):
        asked = np.asarray(asked)
        return const(np.full(asked.shape, number, asked.dtype))
    shape = tuple(1 if not isinstance(d, int) else d for d in s.variant())
    return const(np.full(_raised(s, () if s.chance(0.5) else shape), number).astype(dtype.numpy))


def _operand(s: Sampler, dtype: DType, shape: tuple[Dim, ...]) -> Value:
    """A new parameter; now and then one that is there already, or the result of an operator."""
    if s.chance(0.1):
        there = [v for v in s.params if v.type == Tensor(dtype, shape)]
        if there:
            return s.pick(*there)
    made = s.param(dtype, shape)
    if not s.chance(0.08):
        return made
    name = "Not" if dtype is DType.BOOL else s.pick("Neg", "Abs") if dtype in SIGNED else "Identity"
    return call(name, [made], {})


def _constant(s: Sampler, dtype: DType, shape: tuple[int, ...]) -> Value:
    """A constant: random numbers, or one number in all places, a small one of either sign or a half."""
    if s.chance(0.6):
        return const(s.numbers(dtype, shape))
    if dtype is DType.STRING:
        return const(np.full(shape, "a", dtype=object))
    number = s.pick(*s.given) if s.given and s.chance(0.3) else s.pick(0, 1, 2, 1, 0.5, 2, -1, 3)
    s.given.append(number)
    with np.errstate(all="ignore"):
        return const(np.full(shape, abs(number) if dtype.is_unsigned else number).astype(dtype.numpy))


def _raised(s: Sampler, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, now and then with one more dimension in front."""
    return (s.pick(1, 2), *shape) if s.chance(0.1) else shape


TOGETHER = frozenset(("Concat", "SequenceConstruct"))
"""Operators whose operands have one shape, but for an axis."""


def _fitting(s: Sampler, place: _Place) -> tuple[Dim, ...] | None:
    """A shape that fits what stands before it, mostly: of what is put together with it, or multiplied as matrices."""
    if place.op in TOGETHER and place.before and s.chance(0.85):
        return _shape(place)
    if place.op not in ("MatMul", "Gemm") or place.index != 1 or s.chance(0.2):
        return None
    first = _shape(place)
    if len(first) < 2:
        return None
    if place.op == "Gemm":
        return s.pick((first[1], _size(s)), (_size(s), first[1]), (first[0], _size(s)))
    return s.pick((first[-1], _size(s)), (*first[:-2], first[-1], _size(s)))


def _of_type(s: Sampler, pattern: Hole | Constant, wanted: Typed, dtype: DType) -> Value:
    """A parameter or a constant of the type that a pattern asks for; dimensions it names are remembered."""
    if wanted.dtypes and dtype not in wanted.dtypes:
        dtype = s.pick(*(d for d in DTYPES if d in wanted.dtypes), *sorted(wanted.dtypes)[:1])
    if wanted.shape is None:
        rank = s.pick(*sorted(wanted.ranks)) if wanted.ranks else len(s.shape)
        shape = (*(_size(s) for _ in range(rank - len(s.shape))), *s.shape)[-rank:] if rank else ()
    else:
        lead = wanted.shape[:1] == (...,)
        named = tuple(_named(s, d) for d in wanted.shape[int(lead) :])
        shape = (*s.shape[: s.pick(0, 1, 1, 2)], *named) if lead else named
    if isinstance(pattern, Hole):
        return _operand(s, dtype, shape)
    return _constant(s, dtype, tuple(d if isinstance(d, int) else 3 for d in shape))


def _size(s: Sampler) -> Dim:
    chosen = 0 if s.chance(EMPTY) else s.pick(*SIZES)
    return dims.symbol(chosen) if isinstance(chosen, str) else chosen


def _named(s: Sampler, wanted: Any) -> Dim:
    if isinstance(wanted, int):
        return wanted
    return _size(s) if wanted is None else s.dims.setdefault(wanted, _size(s))


def _dtype(s: Sampler, place: _Place) -> DType:
    """The element type of the operands before, if the schema ties them; bool for conditions; else the instance's."""
    if not place.op:
        return s.dtype
    known = spec(place.op)
    formal = known.formal(place.index)
    for index, value in enumerate(place.before):
        if isinstance(value, Value) and isinstance(value.type, Tensor) and known.formal(index).type == formal.type:
            return value.type.dtype
    allowed = known.allowed(formal)
    if allowed == frozenset(("tensor(bool)",)):
        return DType.BOOL
    places = TYPE_STRINGS[DType.INT64] in allowed and TYPE_STRINGS[s.dtype] not in allowed
    return DType.INT64 if places else s.dtype


def _operator(s: Sampler, pattern: Op) -> Value:
    if pattern.name and pattern.name in s.bound:
        return s.bound[pattern.name]
    if pattern.whole and pattern.whole in s.bound:
        return item(s.bound[pattern.whole], pattern.item or 0)
    name = s.pick(*pattern.ops)
    operands: list[Any] = []
    for operand in pattern.operands:
        found = _value(s, operand, _Place(name, len(operands), tuple(operands)))
        operands += found if isinstance(operand, Rest) else [found]
    if name in COMMUTATIVE and s.chance(0.5):
        operands = [operands[i] for i in s.rng.permutation(len(operands))]
    known = row_of(name)
    if known is None:
        raise Retry(f"nobody knows {name}: give the rule a sample")
    given = {n: _attribute(s, known.attributes[n], wanted, operands) for n, wanted in pattern.attributes}
    for n, attribute in known.attributes.items() if pattern.any_attributes else ():
        if attribute.required or s.chance(0.4):
            given[n] = _attribute(s, attribute, Attr("", ()), operands)
    found = _applied(pattern, call(name, operands, given, outputs=_count(pattern, known)))
    if pattern.type is not None and pattern.type.refuses(found, s.dims):
        raise Retry("another type than the pattern asks for")
    if not all(test(found) for test in pattern.where):
        raise Retry("a condition on an operator does not hold")
    if pattern.whole:
        s.bound[pattern.whole] = found.inputs[0]
    return _bound(s, pattern.name, lambda: found)


def _count(pattern: Op, known: OpSpec) -> int | None:
    """How many results to ask for; None where attributes or operands say it."""
    wanted = max((pattern.item or 0) + 1, known.min_outputs)
    return None if known.outputs and known.outputs[-1].option == "variadic" else wanted


def _applied(pattern: Op, found: Value | tuple[Value, ...]) -> Value:
    """The result that the pattern means, of an operator that may have several."""
    if not isinstance(found, tuple):
        return found
    return cast(Value, found[0].inputs[0]) if pattern.item is None else found[pattern.item]


SWITCHES = frozenset(
    (
        "transA",
        "transB",
        "keepdims",
        "select_last_index",
        "exclusive",
        "reverse",
        "fmod",
        "largest",
        "upper",
        "is_causal",
    )
)
"""Attributes that are 0 or 1, either of which may be given wherever the operator stands."""


def permutation(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    """A permutation of the axes; of three and more often one that is not its own inverse."""
    if rank >= 3 and rng.random() < 0.5:
        first = int(rng.integers(rank - 2))
        order = [*range(first), *range(first + 1, rank), first]
        return tuple(order if rng.random() < 0.5 else [order.index(i) for i in range(rank)])
    return tuple(int(i) for i in rng.permutation(rank))


def _attribute(s: Sampler, attribute: AttributeSpec, wanted: Any, operands: list[Value]) -> Any:
    if not isinstance(wanted, Attr):
        return wanted
    if wanted.name and wanted.name in s.bound:
        return s.bound[wanted.name]
    for _ in range(20):
        found = _random_attribute(s, attribute, operands)
        held = attribute.default if found is None else found
        if all(test(held) for test in wanted.where):
            if wanted.name:
                s.bound[wanted.name] = held
            return held
    raise Retry(f"nothing found for attribute {wanted.name}")


def _random_attribute(s: Sampler, attribute: AttributeSpec, operands: Sequence[Value | None]) -> Any:
    rank = operands[0].rank if operands and operands[0] is not None else 0
    name, default = attribute.name, attribute.default
    if name == "perm":
        return permutation(s.rng, rank)
    if name == "axis":
        return int(s.rng.integers(-rank, rank)) if rank else 0
    if name == "to":
        return int(s.pick(*DTYPES) if s.chance(0.7) else s.pick(*DType))
    if name in ("alpha", "beta", "lambd", "bias", "gamma"):
        drawn = float(np.float32(s.rng.uniform(0.1, 2.0)))
        return s.pick(default if default is not None else 1.0, drawn, default if s.chance(0.5) else -drawn)
    if name in SWITCHES:
        return s.pick(0, 1)
    return default


# ---------------------------------------------------------------------------------------------- operands by place


def _shape(place: _Place) -> tuple[Dim, ...]:
    first = place.before[0]
    return first.type.shape if isinstance(first, Value) and isinstance(first.type, Tensor) else ()


def _axes(s: Sampler, place: _Place) -> np.ndarray:
    rank = len(_shape(place))
    if not rank:
        raise Retry("no axes")
    count = int(s.rng.integers(1, rank + 1))
    picked = s.rng.permutation(rank)[:count]
    return _counted(s, picked, rank)


def _counted(s: Sampler, axes: Sequence[int] | np.ndarray, rank: int) -> np.ndarray:
    """Axes, some of them counted from the end."""
    return np.array([int(a) - rank if s.chance(0.3) else int(a) for a in axes], dtype=np.int64)


def _last_or_any(s: Sampler, place: _Place) -> np.ndarray:
    return np.array([s.pick(-1, len(_shape(place)) - 1)]) if s.chance(0.7) else _axes(s, place)


def _target(s: Sampler, place: _Place) -> Any:
    """A shape for Reshape: axes joined, split, dropped and added, or written with 0 and -1."""
    shape = list(_shape(place))
    for _ in range(s.pick(0, 1, 2)):
        at = int(s.rng.integers(len(shape) + 1))
        if s.chance(0.5):
            shape.insert(at, 1)
        elif at < len(shape) and shape[at] == 1:
            del shape[at]
        elif at + 1 < len(shape):
            shape[at : at + 2] = [dims.mul(shape[at], shape[at + 1])]
        elif at < len(shape) and shape[at] == 4:
            shape[at : at + 1] = [2, 2]
    if all(isinstance(d, int) for d in shape) or s.chance(0.5):
        copied = [
            0 if d not in (0, 1) and i < len(_shape(place)) and d == _shape(place)[i] else d
            for i, d in enumerate(shape)
        ]
        open_ = [i for i, d in enumerate(copied) if not isinstance(d, int)]
        if len(open_) <= 1 and 0 not in shape:
            copied = [-1 if i in open_ else d for i, d in enumerate(copied)]
            symbolic = any(not isinstance(d, int) for d in shape)
            return np.array(copied if symbolic or s.chance(0.5) else shape, dtype=np.int64)
    if 0 in shape:
        raise Retry("a literal 0")
    return shape_vector(shape)


def _expanded(s: Sampler, place: _Place) -> Value:
    shape = [s.pick(2, 3, 1) if d == 1 else d for d in _shape(place)]
    return shape_vector([s.pick(1, 2)] * s.pick(0, 0, 1) + shape)


def _reducible(s: Sampler, place: _Place) -> Any:
    ones = [i for i, d in enumerate(_shape(place)) if d == 1]
    return _counted(s, [i for i in ones if s.chance(0.7)], len(_shape(place)))


def _places(s: Sampler, place: _Place) -> np.ndarray:
    rank, count = len(_shape(place)), s.pick(1, 1, 2)
    return _counted(s, np.sort(s.rng.permutation(rank + count)[:count]), rank + count)


def _starts(s: Sampler, place: _Place) -> np.ndarray:
    rank = len(_shape(place))
    if not rank:
        raise Retry("nothing to slice")
    count: int = s.pick(1, min(2, rank))
    return s.rng.integers(-2, 2, count).astype(np.int64) * s.pick(0, 1)


def _ends(s: Sampler, place: _Place) -> np.ndarray:
    count = len(place.before[1].blob.array) if place.before[1].blob is not None else 1
    far = np.full(count, np.iinfo(np.int64).max)
    return s.pick(s.rng.integers(0, 4, count).astype(np.int64), s.rng.integers(-2, 6, count).astype(np.int64), far)


def _sliced(s: Sampler, place: _Place) -> np.ndarray:
    rank, count = len(_shape(place)), int(place.before[1].shape[0])
    return _counted(s, s.rng.permutation(rank)[:count], rank)


def _steps(s: Sampler, place: _Place) -> np.ndarray:
    return np.full(int(place.before[1].shape[0]), s.pick(1, 1, 1, 2, 2, -1), dtype=np.int64)


def _repeats(s: Sampler, place: _Place) -> np.ndarray:
    return np.array([s.pick(1, 1, 2) for _ in _shape(place)], dtype=np.int64)


def _pads(s: Sampler, place: _Place) -> np.ndarray:
    return np.array([s.pick(0, 0, 1) for _ in range(2 * len(_shape(place)))], dtype=np.int64)


def _indices(s: Sampler, place: _Place) -> np.ndarray:
    return np.array(s.pick(0, -1, s.pick(1, -2), [0], [0, 0], [-1, 0], [[1], [0]]), dtype=np.int64)


def _scalar(s: Sampler, place: _Place) -> np.ndarray:
    return s.numbers(_dtype(s, place), ())


OPERANDS: Mapping[tuple[str, int], Callable[[Sampler, _Place], Any]] = {
    ("Reshape", 1): _target, ("Expand", 1): _expanded, ("Squeeze", 1): _reducible, ("Unsqueeze", 1): _places,
    ("Slice", 1): _starts, ("Slice", 2): _ends, ("Slice", 3): _sliced, ("Slice", 4): _steps, ("Tile", 1): _repeats,
    ("Pad", 1): _pads, ("Gather", 1): _indices, ("Clip", 1): _scalar, ("Clip", 2): _scalar,
    ("Dropout", 1): lambda s, place: np.float32(0.5), ("Dropout", 2): lambda s, place: np.bool_(s.chance(0.2)),
}  # fmt: skip
"""How operands that say where or how much are made, by operator and number."""
