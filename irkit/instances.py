"""Random instances of patterns: graphs that contain the left side of a rule, and numbers to feed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, call_graph, const, shape_vector
from irkit.dims import Dim
from irkit.errors import IrkitError
from irkit.ir import Graph, Value, item, param
from irkit.onnx.schemas import COMMUTATIVE, AttributeSpec, OpSpec, spec
from irkit.pattern import Attr, Constant, Either, Hole, Is, OfConstants, Op, Own, Pattern, Rest, Through, Typed
from irkit.pattern.heads import parts
from irkit.pattern.language import ABSENT, row_of
from irkit.types import DType, Tensor, Tuple
from irkit.vocabulary import PARAM
from irkit.walk import post_order, rebuild

DTYPES = (
    DType.FLOAT, DType.FLOAT, DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16, DType.INT64, DType.INT32,
    DType.INT8, DType.UINT8, DType.BOOL,
)  # fmt: skip
SIZES: tuple[Any, ...] = (0, 1, 1, 2, 3, 4, "n", "m")


class Retry(Exception):
    """The random choices do not lead to an instance."""


@attrs.frozen(eq=False)
class Instance:
    """Values for the patterns of a rule. `arrays` holds numbers for the parameters in them that must not be just any,
    such as indices; their shapes say what the symbols are. Without it all numbers are drawn."""

    roots: tuple[Value, ...]
    arrays: Mapping[Value, Any] | None = None


@attrs.define(eq=False)
class Sampler:
    """The random choices of one instance. `params` are the parameters that it has made."""

    rng: np.random.Generator
    dtype: DType
    shape: tuple[Dim, ...]
    bound: dict[str, Any] = attrs.field(factory=dict)
    params: list[Value] = attrs.field(factory=list)
    dims: dict[str, Dim] = attrs.field(factory=dict)

    @classmethod
    def of(cls, rng: np.random.Generator, dtypes: tuple[DType, ...] = DTYPES) -> Sampler:
        """A sampler with an element type, one of `dtypes`, and a shape that most of the instance will have."""
        dtype = dtypes[rng.integers(len(dtypes))]
        rank = int(rng.choice([0, 1, 2, 2, 3, 3, 4]))
        sizes = [SIZES[i] for i in rng.integers(0, len(SIZES), rank)]
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
        if self.chance(0.7):
            return shape
        if self.chance(0.3):
            return ()
        cut = shape[int(self.rng.integers(len(shape) + 1)) :]
        return tuple(1 if self.chance(0.4) else d for d in cut)

    def numbers(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        """Random numbers of moderate size."""
        return numbers(self.rng, dtype, shape)


def numbers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], special: bool = False) -> np.ndarray:
    """Random elements of moderate size; where `special`, floats also hold NaN, infinities and zeros of both signs, and
    integers the ends of their range."""
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        found = rng.integers(0 if dtype.is_unsigned else -4, 5, shape)
        if special and dtype.bits >= 8:
            limits = np.iinfo(dtype.numpy)
            ends = rng.choice(np.array([limits.min, limits.max], dtype.numpy), shape)
            return np.where(rng.random(shape) < 0.15, ends, found.astype(dtype.numpy))
        return found.astype(dtype.numpy)
    found = np.asarray(rng.normal(0, 2, shape))
    if special and found.size:
        odd = rng.random(shape) < 0.3
        found = np.where(odd, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, -0.0, 1.0, -1.5], shape), found)
    return found.astype(dtype.numpy)


# ---------------------------------------------------------------------------------------------- patterns


def instance(pattern: Pattern, rng: np.random.Generator) -> Value:
    """A random value that `pattern` is meant to match. Raises Retry where the choices made lead nowhere."""
    return instances((pattern,), rng)[0]


def instances(patterns: tuple[Pattern, ...], rng: np.random.Generator) -> tuple[Value, ...]:
    """Random values that patterns are meant to match together: holes of one name hold one value in all of them. Raises
    Retry where the choices made lead nowhere."""
    sampler = Sampler.of(rng, _dtypes_of(patterns))
    try:
        found = tuple(_value(sampler, pattern, _Place("", 0, ())) for pattern in patterns)
    except (IrkitError, ValueError, IndexError, ZeroDivisionError, OverflowError, KeyError) as error:
        raise Retry(str(error)) from error
    if not all(isinstance(each, Value) for each in found):
        raise Retry("the root is no value")
    return found


def _dtypes_of(patterns: tuple[Pattern, ...]) -> tuple[DType, ...]:
    """The element types that every typed part of the patterns allows; all where that leaves none."""
    wanted = [t.dtypes for pattern in patterns for t in _types(pattern) if t.dtypes]
    both = tuple(d for d in DTYPES if all(d in w for w in wanted))
    return both or DTYPES


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


def _called(s: Sampler, value: Any) -> Any:
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
        shape = tuple(1 if not isinstance(d, int) else d for d in s.variant())
        shape = () if s.chance(0.5) else shape
        return const(np.full(shape, s.pick(*given[0])).astype(dtype.numpy))
    special = OPERANDS.get((place.op, place.index))
    if place.op.startswith("Reduce") and place.index:
        special = _last_or_any
    if special is not None:
        found = special(s, place)
        if isinstance(found, Value):
            return found
        if isinstance(pattern, Constant) or s.chance(0.8):
            return const(np.asarray(found))
        return s.param(DType.of(np.asarray(found).dtype), np.asarray(found).shape)
    shape = _fitting(s, place) or s.variant()
    if isinstance(pattern, Constant):
        static = tuple(d if isinstance(d, int) else 1 for d in shape)
        return const(
            s.numbers(dtype, static) if s.chance(0.6) else np.full(static, s.pick(0, 1, 2, 1)).astype(dtype.numpy)
        )
    if isinstance(pattern, Hole) and pattern.ops:
        raise Retry("a hole of given operators needs an example")
    return s.param(dtype, shape)


def _fitting(s: Sampler, place: _Place) -> tuple[Dim, ...] | None:
    """A shape that a matrix may have to be multiplied with what stands before it, mostly."""
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
        return s.param(dtype, shape)
    return const(s.numbers(dtype, tuple(d if isinstance(d, int) else 3 for d in shape)))


def _size(s: Sampler) -> Dim:
    chosen = s.pick(*SIZES)
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
    return DType.INT64 if allowed == frozenset(("tensor(int64)",)) else s.dtype


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


def _applied(pattern: Op, found: Any) -> Value:
    """The result that the pattern means, of an operator that may have several."""
    if not isinstance(found, tuple):
        return found
    return found[0].inputs[0] if pattern.item is None else found[pattern.item]


def _attribute(s: Sampler, attribute: AttributeSpec, wanted: Any, operands: list[Any]) -> Any:
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


def _random_attribute(s: Sampler, attribute: AttributeSpec, operands: list[Any]) -> Any:
    rank = operands[0].rank if operands and isinstance(operands[0], Value) else 0
    name, default = attribute.name, attribute.default
    if name == "perm":
        return tuple(int(i) for i in s.rng.permutation(rank))
    if name == "axis":
        return int(s.rng.integers(-rank, rank)) if rank else 0
    if name == "to":
        return int(s.pick(*DTYPES))
    if name in ("alpha", "beta", "lambd", "bias", "gamma"):
        return s.pick(default if default is not None else 1.0, float(np.float32(s.rng.uniform(0.1, 2.0))))
    if name in ("transA", "transB", "keepdims", "select_last_index"):
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
    return np.array([int(a) - rank if s.chance(0.3) else int(a) for a in picked], dtype=np.int64)


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


def _expanded(s: Sampler, place: _Place) -> Any:
    shape = [s.pick(2, 3, 1) if d == 1 else d for d in _shape(place)]
    return shape_vector([s.pick(1, 2)] * s.pick(0, 0, 1) + shape)


def _reducible(s: Sampler, place: _Place) -> Any:
    ones = [i for i, d in enumerate(_shape(place)) if d == 1]
    picked = [i for i in ones if s.chance(0.7)]
    return np.array(picked, dtype=np.int64)


def _places(s: Sampler, place: _Place) -> np.ndarray:
    rank, count = len(_shape(place)), s.pick(1, 1, 2)
    return np.sort(s.rng.permutation(rank + count)[:count]).astype(np.int64)


def _starts(s: Sampler, place: _Place) -> np.ndarray:
    rank = len(_shape(place))
    if not rank:
        raise Retry("nothing to slice")
    return s.rng.integers(-2, 2, s.pick(1, min(2, rank))).astype(np.int64) * s.pick(0, 1)


def _ends(s: Sampler, place: _Place) -> np.ndarray:
    count = len(place.before[1].blob.array) if place.before[1].blob is not None else 1
    return s.pick(s.rng.integers(0, 4, count).astype(np.int64), np.full(count, np.iinfo(np.int64).max))


def _sliced(s: Sampler, place: _Place) -> np.ndarray:
    rank, count = len(_shape(place)), int(place.before[1].shape[0])
    return s.rng.permutation(rank)[:count].astype(np.int64)


def _steps(s: Sampler, place: _Place) -> np.ndarray:
    return np.full(int(place.before[1].shape[0]), s.pick(1, 1, 2), dtype=np.int64)


def _repeats(s: Sampler, place: _Place) -> np.ndarray:
    return np.array([s.pick(1, 1, 2) for _ in _shape(place)], dtype=np.int64)


def _pads(s: Sampler, place: _Place) -> np.ndarray:
    return np.array([s.pick(0, 0, 1) for _ in range(2 * len(_shape(place)))], dtype=np.int64)


def _indices(s: Sampler, place: _Place) -> np.ndarray:
    return np.array(s.pick(0, [0], [0, 0]), dtype=np.int64)


def _scalar(s: Sampler, place: _Place) -> np.ndarray:
    return s.numbers(_dtype(s, place), ())


OPERANDS: Mapping[tuple[str, int], Callable[[Sampler, _Place], Any]] = {
    ("Reshape", 1): _target, ("Expand", 1): _expanded, ("Squeeze", 1): _reducible, ("Unsqueeze", 1): _places,
    ("Slice", 1): _starts, ("Slice", 2): _ends, ("Slice", 3): _sliced, ("Slice", 4): _steps, ("Tile", 1): _repeats,
    ("Pad", 1): _pads, ("Gather", 1): _indices, ("Clip", 1): _scalar, ("Clip", 2): _scalar,
    ("Dropout", 1): lambda s, place: np.float32(0.5), ("Dropout", 2): lambda s, place: np.bool_(s.chance(0.2)),
}  # fmt: skip
"""How operands that say where or how much are made, by operator and number."""


# ---------------------------------------------------------------------------------------------- numbers to feed


def assignment(
    values: tuple[Value, ...], rng: np.random.Generator, arrays: Mapping[Value, Any] = MappingProxyType({})
) -> dict[str, int]:
    """A number for each dimension symbol in the types of values, 0 and 1 among them; what the shapes of `arrays` say of
    one is taken."""
    symbols = {s for v in values if isinstance(v.type, Tensor) for d in v.type.shape for s in dims.symbols_of(d)}
    found = {dims.label(s): int(rng.choice([0, 1, 2, 3, 5])) for s in sorted(symbols, key=str)}
    for value in values:
        if value in arrays and isinstance(value.type, Tensor):
            sizes = zip(value.shape, np.shape(arrays[value]), strict=True)
            found.update({dims.label(d): n for d, n in sizes if isinstance(d, dims.sympy.Symbol)})
    return found


def feeds(
    params: tuple[Value, ...],
    rng: np.random.Generator,
    special: bool,
    chosen: Mapping[str, int] | None = None,
    arrays: Mapping[Value, Any] = MappingProxyType({}),
) -> list[Any]:
    """An array for each parameter, under an assignment of the symbols, or a random one; that of `arrays` where it has
    one."""
    chosen = assignment(params, rng, arrays) if chosen is None else chosen
    found = []
    for value in params:
        if value in arrays:
            found.append(arrays[value])
            continue
        shape = tuple(dims.evaluate(d, chosen) for d in value.shape)
        found.append(numbers(rng, value.dtype, shape, special))
    return found


def results_of(value: Value) -> tuple[Value, ...]:
    """The value, or each result of an operator with several."""
    if isinstance(value.type, Tuple):
        return tuple(item(value, i) for i in range(len(value.type.items)))
    return (value,)
