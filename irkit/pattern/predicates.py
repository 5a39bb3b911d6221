"""Conditions on what a hole may hold: functions of a value with a name, and what a type must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import EllipsisType
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import DType, ElementType, Tensor, width_hint
from irkit.core.vocabulary import CONSTANT
from irkit.errors import AbsentError, TypeRuleError

Bound = dict[str, Any]
"""What the names of a pattern hold: a value, several, an attribute or a size. The rule knows which it is: hence Any."""

Predicate = Callable[[Any], bool]
"""A condition on what a hole is to hold: a Value, or an attribute's value. Its name is what `explain` reports."""

Shape = tuple[int | str | EllipsisType | None, ...]
"""Dimensions as a pattern writes them: a number, a name for one that must be the same everywhere, None for any, and
`...` in front for any number of leading ones."""


@attrs.frozen(eq=False)
class Is:
    """A predicate that knows what it holds of: `examples` are numbers, one of which fills a constant, or a function
    from a `Sampler` to a Value (see `irkit.instances`)."""

    name: str
    test: Callable[[Any], bool]
    examples: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, found: object) -> bool:
        return self.test(found)


# ---------------------------------------------------------------------------------------------- numbers in constants

LIMIT = 4096
"""Constants of more elements are not read to see what they hold."""


def uniform(value: Value) -> Any:
    """The number that every element of a constant is, as a Python number; None where there is no such number.

    NaN is no such number, and -0.0 is told from 0.0 by its sign. Empty and large constants give None, and so do
    weights: what they hold now is no property of the program.
    """
    if value.op != CONSTANT:
        return None
    blob = value.attributes[0][1]
    size = blob.size
    if not 0 < size <= LIMIT or (size > 1 and blob.is_weight) or blob.dtype is DType.STRING:
        return None
    return blob.uniform


SHOWN = 8
"""Constants of more elements are shown by their type alone, unless all elements are one number."""


def shown_value(value: Value | None) -> str:
    """A value in an explanation: its type and its operator, and of a constant what it holds, where that is short."""
    if value is None:
        return "nothing"
    text = f"{value.type!r} {value.op}"
    blob = value.attributes[0][1] if value.op == CONSTANT else None
    if blob is None or blob.size == 0:
        return text
    try:
        if blob.size > SHOWN:
            number = uniform(value)
            return text if number is None else f"{text}, all {number!r}"
        array = blob.array
    except AbsentError:
        return f"{text} without numbers"
    if blob.dtype is DType.STRING:
        return f"{text} {array.tolist()!r}"
    return f"{text} {' '.join(np.array2string(array, separator=', ', formatter={'all': str}).split())}"


def expected_text(test: Predicate) -> str:
    """What a predicate asks for, in an explanation."""
    name = getattr(test, "__name__", "<lambda>")
    return "one that its `where` holds of" if name == "<lambda>" else name.removeprefix("is ")


is_all_ones = Is("is_all_ones", lambda value: uniform(value) == 1, (1,))
"""Holds of a constant of ones (of True, for bool)."""

is_all_zeros = Is("is_all_zeros", lambda value: uniform(value) == 0, (0, -0.0))
"""Holds of a constant of zeros of either sign (of False, for bool)."""


def is_scalar(value: Value) -> bool:
    """True for a tensor of one element, of any rank, as far as its dimensions are known to be 1."""
    return all(type(d) is int and d == 1 for d in value.shape)


def equals(number: float) -> Is:
    """Holds of a constant all of whose elements are `number`, or what `number` becomes in its element type."""

    def holds(value: Value) -> bool:
        found = uniform(value)
        if found is None or found == number:
            return found is not None
        return value.dtype.is_float and found == float(np.float64(number).astype(value.dtype.numpy))

    return Is(f"is {number:g}", holds, (number,))


ROUNDING = {DType.BFLOAT16: 1e-2, DType.FLOAT16: 2e-3, DType.FLOAT: 2e-6, DType.DOUBLE: 2e-6}
"""How far, relative to its size, a written number may be from one that is meant: a few roundings in its type."""


def near(number: float, rtol: float | None = None, atol: float = 0.0) -> Is:
    """Holds of a floating-point constant all of whose elements are `number`, up to `atol + rtol * |number|`.

    Without `rtol`, up to a few roundings in the constant's element type.
    """

    def holds(value: Value) -> bool:
        found = uniform(value)
        if found is None or isinstance(found, complex) or not value.dtype.is_float:
            return False
        relative = ROUNDING.get(value.dtype, 2e-6) if rtol is None else rtol
        return abs(found - number) <= atol + relative * abs(number)

    return Is(f"is about {number:.6g}", holds, (number,))


# ---------------------------------------------------------------------------------------------- types

KINDS: dict[str, frozenset[DType]] = {
    "float": frozenset(d for d in DType if d.is_float and d.bits >= 16),
    "integer": frozenset(d for d in DType if d.is_integer),
    "signed": frozenset(d for d in DType if d.is_integer and not d.is_unsigned),
    "unsigned": frozenset(d for d in DType if d.is_unsigned),
    "complex": frozenset(d for d in DType if d.is_complex),
}
"""Words for several element types. A float is one of at least 16 bits."""


@attrs.frozen
class Typed:
    """What the type of a tensor must be: its element type, its rank, its dimensions."""

    dtypes: frozenset[DType] = frozenset()
    ranks: frozenset[int] = frozenset()
    shape: Shape | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of dimensions that the match will hold."""
        return tuple(d for d in self.shape or () if isinstance(d, str))

    def may_be(self, value: Value) -> bool:
        """False for a value of another element type or rank."""
        type_ = value.type
        if not isinstance(type_, Tensor) or (self.dtypes and type_.dtype not in self.dtypes):
            return False
        return not self.ranks or len(type_.shape) in self.ranks

    def refuses(self, value: Value, bound: Bound) -> str:
        """Why a value has another type, or an empty string; named dimensions are added to `bound`."""
        type_ = value.type
        if not isinstance(type_, Tensor):
            return f"found a {type_!r}, expected a tensor"
        if self.dtypes and type_.dtype not in self.dtypes:
            return f"found {type_.dtype.short}, expected {self._element_types()}"
        if self.ranks and len(type_.shape) not in self.ranks:
            return f"found rank {len(type_.shape)}, expected {' or '.join(map(str, sorted(self.ranks)))}"
        return "" if self.shape is None else self._refuses_shape(type_, bound)

    def _refuses_shape(self, type_: Tensor, bound: Bound) -> str:
        wanted, given = self.shape or (), type_.shape
        if wanted and wanted[0] is ...:
            wanted = wanted[1:]
            if len(given) < len(wanted):
                return f"found rank {len(given)}, expected {len(wanted)} or more"
            given = given[len(given) - len(wanted) :]
        elif len(wanted) != len(given):
            return f"found rank {len(given)}, expected {len(wanted)}"
        for want, have in zip(wanted, given, strict=True):
            if want is None or (isinstance(want, str) and bound.setdefault(want, have) is have):
                continue
            target: Any = bound[want] if isinstance(want, str) else want
            if dims.same(target, have) is not True:
                return (
                    f"found {type_!r}, expected {want!r} to be {target}"
                    if want != target
                    else (f"found {type_!r}, expected the size {target}")
                )
        return ""

    def _element_types(self) -> str:
        word = next((k for k, v in KINDS.items() if v == self.dtypes), "")
        return word or " or ".join(sorted(d.short for d in self.dtypes))

    def __str__(self) -> str:
        parts: list[str] = []
        if self.dtypes:
            parts.append("dtype=" + self._element_types().replace(" or ", "|"))
        if self.ranks:
            parts.append("rank=" + "|".join(map(str, sorted(self.ranks))))
        if self.shape is not None:
            parts.append(f"shape=({', '.join('...' if d is ... else str(d) for d in self.shape)})")
        return ", ".join(parts)


def typed_predicate(
    dtype: ElementType | Iterable[ElementType] | None = None,
    rank: int | Iterable[int] | None = None,
    shape: Iterable[Any] | None = None,
) -> Typed | None:
    """What `hole(dtype=, rank=, shape=)` asks for; None where it asks for nothing.

    Args:
        dtype: an element type, as `DType.of` takes it, a word of `KINDS`, or several of these.
        rank: a number, or several: `rank=(2, 3)`, `rank=range(1, 5)`.
        shape: see `Shape`.

    Raises TypeRuleError for what is none of these.
    """
    if dtype is None and rank is None and shape is None:
        return None
    return Typed(_dtypes(dtype), _ranks(rank), _shape(shape))


def _dtypes(dtype: ElementType | Iterable[ElementType] | None) -> frozenset[DType]:
    chosen: set[DType] = set()
    given: Iterable[object] = dtype if isinstance(dtype, Iterable) and not isinstance(dtype, str) else (dtype,)
    for each in () if dtype is None else given:
        try:
            chosen |= KINDS[each] if isinstance(each, str) and each in KINDS else {DType.of(each)}
        except (KeyError, TypeError, ValueError) as error:
            words = f"one of the words {', '.join(KINDS)}"
            known = width_hint(each)
            hint = (
                f"{known}, or {words} for any"
                if known
                else f"write one of {', '.join(t.short for t in DType)}, or {words}"
            )
            raise TypeRuleError(f"{each!r} is not an element type", hint=hint) from error
    return frozenset(chosen)


def _ranks(rank: int | Iterable[int] | None) -> frozenset[int]:
    found = () if rank is None else (rank,) if isinstance(rank, int | str) else tuple(rank)
    for each in found:
        if type(each) is not int or each < 0:
            raise TypeRuleError(f"{each!r} is not a rank", hint="write rank=2, rank=(2, 3) or rank=range(1, 5)")
    return frozenset(found)


def _shape(shape: Iterable[Any] | None) -> Shape | None:
    if isinstance(shape, str | int):
        raise TypeRuleError(f"shape={shape!r} is not a shape", hint=f"write shape=({shape!r},) for rank 1")
    wanted: Shape | None = None if shape is None else tuple(shape)
    for at, d in enumerate(wanted or ()):
        fits = d is None or (isinstance(d, str) and d) or (type(d) is int and d >= 0) or (d is ... and at == 0)
        if not fits:
            raise TypeRuleError(
                f"{d!r} is not a dimension in a shape", hint="write a number, a name, None, or ... in front"
            )
    return wanted
