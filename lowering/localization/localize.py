"""`localize`: each operator of a model in eager mode beside the value of the same origin in the file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch

from irkit.checking.comparison import Tolerance, tolerance
from irkit.core.types import DType
from irkit.support.counts import count_text
from lowering.capture.inputs.calls import as_module
from lowering.localization.eager import Seen, record
from lowering.localization.written import Named, contents_of, feeds_of, proto_of, values_in
from lowering.piecewise.calls import copy_tree, leaves_of
from lowering.piecewise.shown import Column, Shown, as_page, as_text
from lowering.program.check import HALF
from lowering.records.types import array_of, as_pairs

AGREES, CARRIED, REWRITTEN, DEVIATES = "agrees", "carries on", "rewritten", "deviates"
GROWTH = 8.0
"""How many times the deviation of what it is computed from a value may have, before it is its own."""


@attrs.frozen
class Row:
    """An operator of the model beside the value of the same origin.

    `expected` and `actual` are the types and ranges of both, `error` the largest absolute difference, `deviation` the
    largest difference in units of what is allowed for the element type, `share` how much of it is explained by what the
    value is computed from. `returns` are the modules whose result it is.
    """

    node: str
    target: str
    module: str
    source: str
    returns: tuple[str, ...]
    name: str
    op: str
    expected: str
    actual: str
    error: float
    deviation: float
    share: float
    status: str


@attrs.frozen
class Located:
    """What `lowering.localize` found: a row for each operator whose origin the file still has, in the order in which
    the model runs, and the rows of the outputs. True where nothing deviates."""

    rows: tuple[Row, ...]
    outputs: tuple[Row, ...]
    unmatched: int

    @property
    def first(self) -> Row | None:
        """The first value that deviates beyond its share; None where none does."""
        return next((row for row in self.rows if row.status == DEVIATES), None)

    @property
    def modules(self) -> Mapping[str, Row]:
        """The row of the result of each module, by path; that of its last call."""
        return {path: row for row in self.rows for path in row.returns}

    def __bool__(self) -> bool:
        return self.first is None and all(row.deviation <= 1 for row in self.outputs)

    def shown(self) -> Shown:
        """The rows as a table."""
        columns = (
            Column("operator", "bold"),
            Column("module", "cyan"),
            Column("eager"),
            Column("file"),
            Column("value"),
            Column("error", right=True),
            Column("deviation", right=True),
            Column("share", right=True),
            Column("status"),
            Column("line", "dim"),
        )
        rows = (*self.rows, *self.outputs)
        colors = {DEVIATES: "red", CARRIED: "yellow", REWRITTEN: "dim"}
        styles = {i: colors[row.status] for i, row in enumerate(rows) if row.status in colors}
        cells = tuple(
            (
                row.node,
                row.module,
                row.expected,
                row.actual,
                f"{row.name} = {row.op}",
                f"{row.error:.2g}",
                f"{row.deviation:.2g}",
                f"{row.share:.2g}",
                row.status,
                row.source,
            )
            for row in rows
        )
        return Shown(self.said, columns, cells, self.notes, styles)

    @property
    def said(self) -> str:
        """What was found, in one line."""
        first = self.first
        if first is None:
            return "no value deviates beyond its share" if self else "outputs deviate, and no operator by itself"
        return f"{first.node} ({first.target}) of {first.module or 'the model'} deviates first: {first.source}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the table does not show."""
        rest = (
            f"{count_text(self.unmatched, 'operator')} without a value of their own in the file, as others took them in"
        )
        return (rest,) if self.unmatched else ()

    def __str__(self) -> str:
        return as_text(self.shown())

    def page(self) -> str:
        """The rows as an HTML page that needs no other file."""
        return as_page(self.shown())

    def save_page(self, path: str | Path) -> Path:
        """Writes `page`; returns the path."""
        Path(path).write_text(self.page(), encoding="utf-8")
        return Path(path)

    def asdict(self) -> dict[str, Any]:
        """The rows as plain data, ready for JSON."""
        return attrs.asdict(self)

    def json(self) -> str:
        """`asdict` as JSON."""
        return json.dumps(self.asdict(), indent=2)


def localize(program: Any, model: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Located:
    """Each operator of a model in eager mode beside the value of the same origin in the file that was written.

    Args:
        program: what `irkit.to_onnx` returned, in any precision; or an ONNX file that irkit wrote, by its path or as a
            message: its nodes say where they come from.
        model: the torch model, or a function or method, as it was exported.
        args, kwargs: a call.

    What an origin is: the operator, the module and the line of the model, and which of several it was. An optimized
    file has fewer: what has no value of its own is counted. A value deviates beyond its share where it lies outside of
    what its element type allows, and more than eight times as far as what it is computed from; one after which
    everything agrees again is said to be rewritten, since rules may put other values in between.
    Returns the rows in the order in which the model runs, `first` the one to look at; `print` and `page()` show them
    side by side. Raises LoweringError for arguments that the file does not take, and what the model and ONNX Runtime
    raise.
    """
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    module, kwargs = as_module(model), dict(kwargs or {})
    proto = proto_of(program)
    feeds = feeds_of(program, model, *copy_tree((args, kwargs)))
    seen, result = record(module, *copy_tree((args, kwargs)))
    values = values_in(proto)
    pairs = list(matches(seen, values))
    contents = contents_of(proto, [value.name for _, several in pairs for value in several], feeds)
    coarse = coarsest_of(proto)
    found: dict[str, Pair] = {}
    for each, several in pairs:
        able = [Pair.of(each, value, contents[value.name], coarse) for value in several if value.name in contents]
        best = min(able, key=lambda pair: (not pair.same_size, pair.deviation), default=None)
        if best is not None and best.value.name not in found:
            found[best.value.name] = best
    return located(found, values, list(outputs_of(proto, result, contents, coarse)), len(seen) - len(found))


@attrs.frozen(eq=False)
class Pair:
    """An operator's result and the value of the same origin, with how far they lie apart."""

    seen: Seen
    value: Named
    expected: np.ndarray
    actual: np.ndarray
    error: float
    deviation: float

    @classmethod
    def of(cls, seen: Seen, value: Named, actual: np.ndarray, coarse: DType) -> Pair:
        """The pair of a result and what the file has for it, which computes in `coarse` somewhere."""
        content = seen.content
        expected = array_of(as_pairs(content) if content.is_complex() else content)
        return cls(seen, value, expected, actual, *least_distances(expected, actual, coarse))

    @property
    def same_size(self) -> bool:
        """Whether the value has as many elements as the result."""
        return self.expected.size == self.actual.size

    def row(self, share: float, status: str) -> Row:
        """The pair as a row."""
        seen, value = self.seen, self.value
        return Row(
            seen.node,
            seen.target,
            seen.module,
            seen.source,
            tuple(seen.returned),
            value.name,
            value.op,
            summary(self.expected),
            summary(self.actual),
            self.error,
            self.deviation,
            share,
            status,
        )


def coarsest_of(proto: Any) -> DType:
    """The coarsest element type of floats that a model holds constants of or casts to: what comes after it is no
    better."""
    held = {each.data_type for each in proto.graph.initializer}
    held |= {a.i for node in proto.graph.node if node.op_type == "Cast" for a in node.attribute if a.name == "to"}
    kinds = [DType(code) for code in held if code]
    return max((k for k in (*kinds, DType.FLOAT) if k in COARSE), key=COARSE.index)


COARSE = (DType.DOUBLE, DType.FLOAT, DType.FLOAT16, DType.BFLOAT16)
"""Element types of floats, the finest first."""


def least_distances(expected: np.ndarray, actual: np.ndarray, coarse: DType) -> tuple[float, float]:
    """`distances` of a value whose elements may stand in another shape, or whose axes may be turned: rewriting moves
    both through operators."""
    if expected.size != actual.size:
        return float("inf"), float("inf")
    found = distances(expected.reshape(actual.shape), actual, coarse)
    if found[1] <= 1 or not 1 < expected.ndim <= MOST_AXES:
        return found
    turned = (expected.transpose(axes).reshape(actual.shape) for axes in permutations(range(expected.ndim)))
    return min((found, *(distances(each, actual, coarse) for each in turned)), key=lambda each: each[1])


MOST_AXES = 4


def distances(expected: np.ndarray, actual: np.ndarray, coarse: DType) -> tuple[float, float]:
    """(largest absolute error, largest error in units of what the coarsest element type allows): infinite where a NaN
    or an infinity stands in one of the two."""
    if not expected.size:
        return 0.0, 0.0
    kinds = DType.of(expected.dtype), DType.of(actual.dtype)
    if any(kind.is_integer or kind is DType.BOOL for kind in kinds):
        gap = float(np.abs(expected.astype(np.float64) - actual.astype(np.float64)).max())
        return gap, float("inf") if gap else 0.0
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(e) & np.isfinite(a)
    low = np.finfo(np.float16).max if DType.FLOAT16 in (*kinds, coarse) else np.inf
    odd = ~finite & ~((np.isnan(e) & np.isnan(a)) | (e == a) | ((np.abs(e) > low) & (np.sign(e) == np.sign(a))))
    if odd.any():
        return float("inf"), float("inf")
    if not finite.any():
        return 0.0, 0.0
    gap = np.abs(e - a)[finite]
    near = np.abs(e[finite])
    typical = near[near < 1e30]
    scale = max(1.0, float(np.sqrt(np.mean(typical**2)))) if typical.size else 1.0
    allowed = max((allowance(kind) for kind in (*kinds, coarse)), key=lambda each: each.rtol)
    return float(gap.max()), float((gap / (allowed.atol * scale + allowed.rtol * near)).max())


def allowance(kind: DType) -> Tolerance:
    """What a value of an element type may be off after many operators of it."""
    half = HALF.get(kind)
    return tolerance(kind) if half is None else Tolerance(half, half / 4)


def summary(array: np.ndarray) -> str:
    """The type of an array and the range of its numbers: `f16[2, 4] -1.5..2.25`."""
    kind = DType.of(array.dtype)
    text = f"{kind.short}{list(array.shape)}"
    if not array.size or not (kind.is_float or kind.is_integer):
        return text
    wide = array.astype(np.float64)
    wide = wide[~np.isnan(wide)]
    return f"{text} {wide.min():.3g}..{wide.max():.3g}" if wide.size else f"{text} NaN"


# ---------------------------------------------------------------------------------------------- what belongs together


def matches(seen: Sequence[Seen], values: Sequence[Named]) -> Iterator[tuple[Seen, list[Named]]]:
    """(a result, the values of the same origin): by operator, module and line, and the count of the operator where the
    file has it, else the place among those of one origin."""
    by_origin: dict[Any, dict[str, list[Named]]] = defaultdict(lambda: defaultdict(list))
    for value in values:
        by_origin[value.target, value.module, value.source][value.node].append(value)
    places: dict[Any, dict[str, None]] = defaultdict(dict)
    for each in seen:
        places[each.target, each.module, each.source].setdefault(each.node)
    for each in seen:
        key = each.target, each.module, each.source
        known = by_origin.get(key)
        if not known:
            continue
        mine = list(places[key])
        if each.node in known:
            yield each, known[each.node]
        elif len(mine) == len(known) and not set(mine) & set(known):
            yield each, known[sorted(known, key=number_of)[mine.index(each.node)]]


def number_of(node: str) -> tuple[str, int]:
    """The name of a node and its count."""
    base, _, digits = node.rpartition("_")
    return (base, int(digits)) if base and digits.isdecimal() else (node, 0)


def outputs_of(proto: Any, result: Any, contents: Mapping[str, np.ndarray], coarse: DType) -> Iterator[Row]:
    """The rows of the outputs, each beside the leaf of the model's result, in order."""
    tensors = [leaf for leaf in leaves_of(result) if isinstance(leaf.value, torch.Tensor)]
    for leaf, output in zip(tensors, proto.graph.output, strict=False):
        if output.name in contents:
            seen = Seen(leaf.name, "output", "", "", 0, leaf.value, leaf.value.detach())
            pair = Pair.of(seen, Named(output.name, "output", "", "", "", "", ()), contents[output.name], coarse)
            yield pair.row(1.0, AGREES if pair.deviation <= 1 else CARRIED)


# ---------------------------------------------------------------------------------------------- shares


def located(found: Mapping[str, Pair], values: Sequence[Named], outputs: Sequence[Row], unmatched: int) -> Located:
    """The rows with what each value may deviate, by what it is computed from."""
    above: dict[str, frozenset[str]] = {}
    for value in values:
        near = [frozenset([name]) if name in found else above.get(name, frozenset()) for name in value.inputs]
        above[value.name] = frozenset().union(*near)
    below: dict[str, set[str]] = defaultdict(set)
    for name in found:
        for other in above[name]:
            below[other].add(name)
    wrong = {row.name for row in outputs if row.deviation > 1}
    reaching: dict[str, bool] = {}
    for value in reversed(values):  # whether a deviation is seen in what comes of it
        name = value.name
        if name in found:
            users = below[name]
            reaching[name] = name in wrong or not users or any(found[u].deviation > 1 for u in users)
    rows = []
    for pair in sorted(found.values(), key=lambda pair: order_of(values)[pair.value.name]):
        name = pair.value.name
        share = max([1.0, *(GROWTH * found[other].deviation for other in above[name])])
        rows.append(pair.row(share, status_of(pair, share, reaching[name])))
    return Located(tuple(rows), tuple(outputs), unmatched)


def order_of(values: Sequence[Named]) -> Mapping[str, int]:
    """The place of each value in the file."""
    return {value.name: i for i, value in enumerate(values)}


def status_of(pair: Pair, share: float, reaches: bool) -> str:
    """What is said of a pair."""
    if pair.deviation <= 1:
        return AGREES
    if not reaches or not pair.same_size:
        return REWRITTEN
    return CARRIED if pair.deviation <= share else DEVIATES
