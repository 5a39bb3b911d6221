"""Questions that most rules ask, and the small values that most of them build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from irkit import dims
from irkit.build import const
from irkit.core.attributes import single
from irkit.core.blobs import Blob, computed_blob
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor, Type, same_types
from irkit.dims import Dim
from irkit.dims.algebra import any_fresh
from irkit.errors import AbsentError, EvaluateError, RewriteError
from irkit.ops.schemas import TYPE_STRINGS, spec
from irkit.pattern import uniform

SMALL = 1 << 16
"""Constants of up to this many elements are computed anew by a rule; larger ones are left alone."""

VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
"""Operators that see the same elements, in the same order, under other dimensions."""


def same_type(a: Value, b: Value) -> bool:
    """True where the types are certainly equal."""
    return a.type is b.type or same_types(a.type, b.type) is True


def same_shape(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """True where the shapes are certainly equal."""
    if a == b:
        return True
    return len(a) == len(b) and all(x is y or dims.same(x, y) is True for x, y in zip(a, b, strict=True))


def is_float(value: Value) -> bool:
    """True for a tensor of real floating-point numbers."""
    return value.dtype.is_float


def is_integer(value: Value) -> bool:
    """True for a tensor of integers."""
    return value.dtype.is_integer


def is_positive_zero(value: Value) -> bool:
    """True for a constant of zeros, none of them -0.0."""
    return _zero(value, negative=False)


def is_negative_zero(value: Value) -> bool:
    """True for a constant of -0.0, or of integer zeros: what every number may be added to and stay the same."""
    return _zero(value, negative=True)


def _zero(value: Value, negative: bool) -> bool:
    found = uniform(value)
    if isinstance(found, bool) or found != 0 or isinstance(found, complex):
        return False
    return not value.dtype.is_float or bool(np.signbit(np.float64(found))) is negative


def is_known(shape: tuple[Any, ...]) -> bool:
    """True where no dimension is a fresh symbol."""
    return not any_fresh(shape)


def is_one(dim: Dim) -> bool:
    """True for the number 1."""
    return type(dim) is int and dim == 1


def is_static(type_: Type) -> bool:
    """True for a tensor type all of whose dimensions are numbers."""
    return isinstance(type_, Tensor) and type_.is_static


def number(like: Value, data: Any) -> Value:
    """A scalar constant of the element type of `like`."""
    return const(np.array(data).astype(like.dtype.numpy))


def takes(name: str, dtype: DType, operand: int = 0) -> bool:
    """True where ONNX lets an operand of an operator be of that element type."""
    known = spec(name)
    return TYPE_STRINGS[dtype] in known.allowed(known.formal(operand))


def holds_digits(x: Value, *numbers: float) -> bool:
    """True where float attributes, which are f32, hold these numbers as closely as the element type of `x` does."""
    if x.dtype is DType.DOUBLE:
        return all(single(n) == n for n in numbers)
    least = float(np.finfo(np.float32).tiny)
    return all(not n or (np.isfinite(single(n)) and abs(n) >= least) for n in numbers)


def small(value: Value) -> np.ndarray | None:
    """The content of a constant of at most `SMALL` elements; None for every other value."""
    blob = value.blob
    return blob.array if blob is not None and blob.size <= SMALL and blob.dtype is not DType.STRING else None


def operand(value: Value, index: int) -> Value | None:
    """Operand number `index`; None where it was left out."""
    return value.inputs[index] if index < len(value.inputs) else None


def scan_axes(value: Value, name: str, ranks: list[int]) -> list[int]:
    """The axes that an attribute of Scan gives, counted from the front; 0 for each where it is left out."""
    return [axis % rank for axis, rank in zip(value.attribute(name) or (0,) * len(ranks), ranks, strict=True)]


def axes_of(value: Value | None) -> tuple[int, ...] | None:
    """The numbers in a constant operand of axes; None where it is absent or not constant."""
    blob = None if value is None else value.blob
    return None if blob is None else tuple(map(int, blob.array.ravel().tolist()))


def positive(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted."""
    return tuple(sorted(a + rank if a < 0 else a for a in axes))


def trailing_axis(axes: Value, x: Value) -> int | None:
    """The first of the axes that a reduction is over, where they are the last ones of a tensor; None otherwise."""
    found, rank = axes_of(axes), x.rank
    if not found or not rank:
        return None
    places = positive(found, rank)
    return places[0] if places == tuple(range(rank - len(places), rank)) else None


def vector(numbers: Iterable[Dim]) -> Value:
    """A constant vector of int64."""
    return const(np.array(list(numbers), dtype=np.int64))


def lazily(
    like: Value,
    shape: tuple[Any, ...],
    compute: Callable[[], np.ndarray],
    of: Iterable[Value | None],
    name: str | None = None,
    factored: str = "",
    by_rows: Callable[[], Iterator[np.ndarray]] | None = None,
) -> Value:
    """The constant of the element type of another whose content is computed when it is asked for.

    `of` are the constants that it is computed of, those that are missing left out: once one of them has changed, this
    one refuses too. It has the name of `like` where none is given. `factored` names the rule by which weights take
    factors: then the content is held `within_range`. `by_rows` is that of a Blob.
    """
    dtype: DType = like.dtype
    known = like.blob.name if like.blob is not None else ""
    held = tuple([b for v in of if v is not None and (b := v.blob) is not None])
    name = known if name is None else name
    if factored:
        return const(Blob(dtype, shape, within_range(compute, dtype, factored, name), name, of=held))
    return const(Blob(dtype, shape, lambda: compute().astype(dtype.numpy, copy=False), name, of=held, by_rows=by_rows))


def computed_constant(
    like: Value,
    shape: tuple[Any, ...],
    compute: Callable[..., np.ndarray],
    of: Iterable[Value | None],
    name: str | None = None,
    factored: str = "",
) -> Value:
    """As `lazily`, by a function of the contents of `of`, those that are missing left out. So the same can be made of
    other weights, and layers that are alike are rewritten as one."""
    held = [b for v in of if v is not None and (b := v.blob) is not None]
    known = like.blob.name if like.blob is not None else ""
    label = known if name is None else name
    compute = within_range(compute, like.dtype, factored, label) if factored else compute
    return const(computed_blob(like.dtype, shape, compute, held, label))


def within_range(compute: Callable[..., np.ndarray], dtype: DType, rule: str, label: str) -> Callable[..., np.ndarray]:
    """The function, in an element type, for weights that a rule multiplies: it raises RewriteError where a number that
    was finite is no longer.

    `is_moderate` leaves large weights unread, for reading them takes longer than all else that is done about them. The
    processor notes an overflow anyway, so that looking for one where they are multiplied costs nothing.
    """

    def checked(*arrays: np.ndarray) -> np.ndarray:
        try:
            with np.errstate(over="raise"):
                wide = compute(*arrays)
                found = wide.astype(dtype.numpy, copy=False)
                if dtype.numpy.kind == "V" and np.isinf(found).sum() > np.isinf(wide).sum():
                    raise FloatingPointError  # the casts of ml_dtypes note nothing
        except FloatingPointError:
            raise RewriteError(
                f"the weight {label or 'without a name'} leaves the range of {dtype}, where {rule} multiplies it",
                hint=f'leave that rule out: optimize(graph, rules="-{rule}"), or --rules=-{rule}',
            ) from None
        return found

    return checked


OUT_OF_RANGE = "the factor may take weights out of range"


class UnreadError(AbsentError):
    """What holds for all layers that are alike cannot hang on the numbers of one: the content that was asked for stands
    for those of `every` layer."""

    stands: Blob | None = None
    every: tuple[Value, ...] = ()


def is_moderate(*constants: Value | None, whole: bool = False) -> bool:
    """False where weights may leave the range of their element type when they are multiplied by one of the constants:
    beyond the root of the largest number, and for a single number also below what that divides 1 by.

    Constants of more than `SMALL` elements are looked at if `whole` is said. By itself that would read large weights
    twice: they are looked at where they are multiplied (`within_range`). What is not there is taken for moderate.
    """
    return all(each is None or has_moderate_numbers(each, whole) for each in constants)


def has_moderate_numbers(value: Value, whole: bool = False) -> bool:
    """Whether `is_moderate` takes a constant."""
    blob = value.blob
    if blob is None or not value.dtype.is_float or not blob.size or (blob.size > SMALL and not whole):
        return True
    bound = float(ml_dtypes.finfo(value.dtype.numpy).max) ** 0.5
    try:
        with np.errstate(all="ignore"):
            least, most = blob.extremes  # a fourth of the time that all sizes take
    except UnreadError as error:
        held = blob if blob.turned is None else blob.turned
        if held is not error.stands:
            raise
        return is_moderate(*error.every, whole=whole)  # a layer may do what all of them may
    except AbsentError:
        if blob.size == 1:
            raise
        return True
    if blob.size == 1:
        return not most or 1 / bound <= abs(most) <= bound
    return -bound <= least and most <= bound  # neither of which is so where one is NaN


def divides_moderately(value: Value) -> bool:
    """Whether `is_moderate` takes what is 1 divided by a constant."""
    blob = value.blob
    if blob is None or not value.dtype.is_float or not 0 < blob.size <= SMALL:
        return True
    return is_moderate(computed_constant(value, value.shape, inverse, [value]))


def inverse(array: np.ndarray) -> np.ndarray:
    """1 / array, in f64."""
    return np.asarray(1 / array.astype(np.float64))


def wide(value: Value) -> np.ndarray:
    """The content of a constant in f64. Raises EvaluateError for what is not a constant."""
    blob = value.blob
    if blob is None:
        raise EvaluateError(f"{value!r} is not a constant", hint="ask whether it has a blob first")
    return blob.read().astype(np.float64)


def joined_name(weights: Iterable[Value | None]) -> str:
    """The names of weights as one, where each has one: what they differ in, joined by `+`, between what they share."""
    names = [v.blob.name.split(".") for v in weights if v is not None and v.blob is not None and v.blob.name]
    if len({len(words) for words in names}) != 1:
        return "+".join(".".join(words) for words in names)
    return ".".join("+".join(dict.fromkeys(words)) for words in zip(*names, strict=True))
