"""What a check has covered, and what it has not: the report of `irkit.check_rule`."""

from __future__ import annotations

import dis
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.core.walk import post_order
from irkit.evaluation.kernels.common import Content, is_array
from irkit.proofs import Proof
from irkit.support.counts import count_text

TraceFunction = Callable[[FrameType, str, Any], Any]
"""What `sys.settrace` takes, and what such a function returns."""

Counts = tuple[tuple[Hashable, int], ...]
"""Things and how often they occurred, sorted by the thing."""


@attrs.frozen
class Checked:
    """How a check went, and what it covered.

    Attributes:
        fired: on how many instances the rule fired, both sides were compared by numbers, and agreed.
        declined: how often the rule declined, by reason.
        near_misses: how many instances were changed a little; `near_fired` those of them on which the rule fired and
            both sides agreed, too; `near_kinds` is (change, (made, fired)).
        on_runtime: instances that were compared on ONNX Runtime; `not_there` those that were not: no kernel for the
            element type, something empty, integers divided by what may be 0.
        empty: instances on which the rule fired and everything was empty: they say nothing, and do not count.
        no_value: instances on which the rule fired and the left side has no value.
        types: element types of the operands; `untried_types` those that the rule may be given and was not.
        ranks: of the first result.
        axes: what attributes and operands said that name axes, as "axis -1 of 3".
        sizes: "0", "1", "larger" among the sizes of the operands, and "symbol" for dimensions that were symbols.
        numbers: "NaN", "infinity", "-0.0", "subnormal", "end of range" among what was fed.
        reused: instances in which one value stands in two places.
        lines: those of the rule's function that never ran, as (number, text).
        proof: whether it is proved for all sizes, or why not; None where no proof was asked for.
    """

    fired: int
    declined: Counts = ()
    near_misses: int = 0
    near_fired: int = 0
    on_runtime: int = 0
    not_there: int = 0
    rule: str = ""
    exact: bool = True
    near_kinds: tuple[tuple[str, tuple[int, int]], ...] = ()
    empty: int = 0
    no_value: int = 0
    types: Counts = ()
    untried: tuple[str, ...] = ()
    ranks: Counts = ()
    axes: Counts = ()
    sizes: Counts = ()
    numbers: Counts = ()
    reused: int = 0
    lines: tuple[tuple[int, str], ...] = ()
    proof: Proof | None = None

    def __str__(self) -> str:
        how = "to the bit" if self.exact else "the right side no worse than the left"
        first = (
            f"{self.rule or 'the rule'} fired on {count_text(self.fired, 'instance')}, where both sides agree: {how}"
        )
        return "\n".join([first, *self.details()])

    def details(self) -> list[str]:
        """What the check covered and what it did not, as lines of text."""
        lines: list[str] = []
        lines.append(f"element types: {counted(self.types)}; not tried: {', '.join(self.untried) or 'none'}")
        lines.append(f"ranks: {counted(self.ranks)}")
        lines.append(f"axes: {counted(self.axes)}" if self.axes else "axes: none are named")
        lines.append(f"sizes: {counted(self.sizes)}; a value in two places: {self.reused}")
        lines.append(f"numbers: {counted(self.numbers) or 'of moderate size'}")
        lines.append(f"near misses: {self.near_misses}, of which it fired on {self.near_fired}, where both sides agree")
        lines += [f"    {kind}: {made}, fired on {fired}" for kind, (made, fired) in self.near_kinds]
        lines.append(f"compared on ONNX Runtime: {self.on_runtime}; no answer there: {self.not_there}")
        lines += [f"declined {count_text(count, 'time')}: {reason}" for reason, count in self.declined]
        if self.empty or self.no_value:
            lines.append(f"did not count: {self.empty} with nothing but empty results, {self.no_value} without a value")
        if self.proof is not None:
            none = f"compared by numbers alone, as there is no proof for all sizes: {self.proof.reason}"
            lines.append(f"proved {self.proof.extent}" if self.proof else none)
        return lines + [f"never ran: line {number}: {text}" for number, text in self.lines]


def counted(counts: Counts) -> str:
    """Things with how often they occurred: "f32 12, i64 3"."""
    return ", ".join(f"{thing} {count}" for thing, count in counts)


@attrs.define(eq=False)
class Covered:
    """What has been covered so far."""

    types: Counter[str] = attrs.field(factory=Counter[str])
    ranks: Counter[int] = attrs.field(factory=Counter[int])
    axes: Counter[str] = attrs.field(factory=Counter[str])
    sizes: Counter[str] = attrs.field(factory=Counter[str])
    numbers: Counter[str] = attrs.field(factory=Counter[str])
    reused: int = 0

    def note(
        self, roots: Sequence[Value], params: Sequence[Value], feeds: Iterable[Sequence[Content]], shallow: bool = False
    ) -> None:
        """Takes down an instance on which both sides agree. Where it is `shallow`, the element types are those of the
        roots' own operands, and not of what these are made of."""
        leaves = [v for v in post_order(roots) if v.op in (PARAM, CONSTANT) and isinstance(v.type, Tensor)]
        own = [v for root in roots for v in root.inputs if v is not None and isinstance(v.type, Tensor)]
        typed = own if shallow else [v for v in leaves if v.op == PARAM] or leaves
        self.types.update({v.dtype.short for v in typed})
        if isinstance(roots[0].type, Tensor):
            self.ranks[roots[0].rank] += 1
        self.axes.update({each for v in post_order(roots) for each in axes_of(v)})
        uses = Counter(id(v) for user in post_order(roots) for v in user.inputs if v is not None and v.op != CONSTANT)
        self.reused += any(n > 1 for n in uses.values())
        found = {"symbol"} if any(type(d) is not int for v in leaves for d in v.shape) else set[str]()
        marks: set[str] = set()
        for arrays in feeds:
            for value, array in zip(params, arrays, strict=True):
                if isinstance(value.type, Tensor) and is_array(array):
                    found.update("larger" if n > 1 else str(n) for n in array.shape)
                    marks.update(marks_of(array, value.dtype))
        self.sizes.update(found)
        self.numbers.update(marks)


AXES = ("axis", "axes", "perm", "batch_dims")
"""Attributes that name axes."""


def axes_of(value: Value) -> Iterator[str]:
    """What a value says of axes: "axis -1 of 3", "perm (1, 0)"."""
    first = value.inputs[0] if value.inputs else None
    rank = f" of {first.rank}" if first is not None and isinstance(first.type, Tensor) else ""
    for name, content in value.attributes:
        if name in AXES:
            yield f"{name} {content}" + ("" if name == "perm" else rank)
    if value.op.startswith("Reduce") or value.op in ("Squeeze", "Unsqueeze"):
        axes = value.inputs[1] if len(value.inputs) > 1 else None
        if axes is not None and axes.blob is not None:
            yield f"axes {axes.blob.array.reshape(-1).tolist()}{rank}"


def marks_of(array: np.ndarray, dtype: DType) -> Iterator[str]:
    """What kinds of numbers stand in an array that break equations."""
    if not array.size:
        return
    if dtype.is_integer and dtype.bits >= 8:
        limits = np.iinfo(array.dtype)
        if np.any(array == limits.max) or (limits.min and np.any(array == limits.min)):
            yield "end of range"
    if not dtype.is_float or dtype.bits < 8:
        return
    wide = array.astype(np.float64)
    size = np.abs(wide)
    limits = _limits(dtype)
    kinds = {
        "NaN": np.isnan(wide), "infinity": np.isinf(wide), "-0.0": (wide == 0) & np.signbit(wide),
        "subnormal": (size > 0) & (size < limits[0]), "end of range": size == limits[1],
    }  # fmt: skip
    yield from (kind for kind, places in kinds.items() if places.any())


def _limits(dtype: DType) -> tuple[float, float]:
    found = ml_dtypes.finfo(dtype.numpy)
    return float(found.smallest_normal), float(found.max)


# ---------------------------------------------------------------------------------------------- lines of a function


@contextmanager
def record_lines(function: Callable[..., object], seen: set[int]) -> Generator[None]:
    """Within it, the lines of the function that run are added to `seen`; what else is traced goes on afterwards."""
    code = getattr(function, "__code__", None)
    before = sys.gettrace()

    def local(frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        seen.add(frame.f_lineno)
        return local

    def entered(frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        return local if frame.f_code is code else None

    if code is None or before is not None:
        yield
        return
    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(before)


def ends_of(function: Callable[..., object]) -> tuple[tuple[int, str], ...]:
    """(number, text) of the lines of a function that return or raise."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return ()
    own = {line for _, line in dis.findlinestarts(code) if line and line != code.co_firstlineno}  # None: of no line
    texts = {n: linecache.getline(code.co_filename, n).strip() for n in sorted(own)}
    return tuple((n, text) for n, text in texts.items() if text.startswith(("return", "raise")))


def sorted_counts(counts: Counter[Any]) -> Counts:
    """Things and how often they occurred, sorted."""
    return tuple(sorted(counts.items(), key=lambda pair: (str(type(pair[0])), pair[0])))


def untried_types(allowed: Iterable[DType], types: Iterable[str]) -> tuple[str, ...]:
    """The short names of the element types that are allowed, and not among those tried."""
    there = set(types)
    return tuple(d.short for d in DType if d in set(allowed) and d.short not in there)
