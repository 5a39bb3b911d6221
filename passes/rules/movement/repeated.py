"""Constants expanded over the batch: what is computed from them is computed once and expanded afterwards.

A detector, for example, makes a mask of ones for any number of images, and positions, sines and ratios from it. All of
that is one constant, expanded to the batch.
"""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attribute_of, either, hole, one_of, p, rest
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import VIEWS, axes_of, is_known, same_shape, vector
from passes.rules.movement.transposes import order
from passes.rules.movement.views import BROADCASTING

REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
MOVED = (*VIEWS, "Transpose", "Slice", "Gather", "GatherElements", "Tile")
BY_ROWS = (*VIEWS, "Transpose", "Slice", "Gather", "CumSum", "Concat", *REDUCTIONS)


def _is_plain(value: Value) -> bool:
    """True for a constant of the program itself; a weight may be exchanged, so its content decides nothing."""
    return value.blob is not None and not value.blob.is_weight


_wide = p.Expand(constant("data", where=_is_plain), hole("shape"))


def _repeated(m: Match, value: Value) -> Made:
    """The value expanded to the shape of what the rule matched."""
    shape = m.root.shape
    wide = (v for v in m.root.inputs if v is not None and v.op == "Expand")
    sources = [
        each for each in (*(sizes_held(v.inputs[1]) for v in wide), *map(sizes_held, m.root.inputs)) if each is not None
    ]
    sources.append(bound_by(*(v for v in m.root.inputs if v is not None)))
    if not is_known(shape) or not is_bound(m, shape, *sources):
        return decline("a dimension is not bound")
    return op.Expand(value, sizes_value(m, shape, 1, *sources))


# ---------------------------------------------------------------------------------------------- one number


def _number_moved(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, length)))
    wide = op.Expand(np.float32(rng.integers(3)), shape_vector((batch, 4, length), x))
    makers = (
        lambda: op.Unsqueeze(wide, [1]), lambda: op.Transpose(wide, perm=[2, 0, 1]), lambda: op.Tile(wide, [1, 2, 1]),
        lambda: op.Slice(wide, [1], [3], [1]), lambda: op.Gather(wide, const(np.array([[0, 3]])), axis=1),
        lambda: op.Reshape(wide, shape_vector((batch, dims.mul(length, 4)), x)),
    )  # fmt: skip
    return makers[int(rng.integers(len(makers)))]()


@rule(one_of(*MOVED)(_wide, *rest("more")), sample=_number_moved)
def number_moved(m: Match) -> Made:
    """what moves Expand(number) -> Expand(number)"""
    if m.data.blob.size != 1:
        return decline("it is not a single number")
    number = const(m.data.blob.array.reshape(()))
    return _repeated(m, number) if m.root.rank else number


# ---------------------------------------------------------------------------------------------- rows


def row_axis(value: Value) -> int | None:
    """The axis of unknown size along which an expanded constant repeats, if there is exactly one."""
    source, rank = value.inputs[0], value.rank
    open_ = [i for i, d in enumerate(value.shape) if type(d) is not int]
    if source is None or len(open_) != 1:
        return None
    at = open_[0] - rank + source.rank
    return open_[0] if at < 0 or source.shape[at] == 1 else None


def one_row(value: Value, axis: int) -> Value:
    """One row of an expanded constant, as it is before it is expanded."""
    shape = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
    return value.inputs[0] if same_shape(value.inputs[0].shape, shape) else op.Expand(value.inputs[0], vector(shape))  # type: ignore[union-attr]


def axis_after(root: Value, axis: int) -> int | None:
    """The axis of a result that holds the rows of its first operand; None where rows are mixed."""
    first = root.inputs[0]
    rank = first.rank if first is not None else 0
    if root.op in VIEWS:
        shape = first.shape if first is not None else ()
        found = [i for i, d in enumerate(root.shape) if type(d) is not int]
        if len(found) != 1 or dims.same(root.shape[found[0]], shape[axis]) is not True:
            return None  # of windows of each image, say, counted together
        before = dims.product(shape[:axis]), dims.product(root.shape[: found[0]])
        return found[0] if dims.same(*before) is True else None
    if root.op == "Transpose":
        return order(root.attribute("perm"), rank).index(axis)
    if root.op in ("Concat", "Gather"):
        along = attribute_of(root, "axis") % rank
        places = root.inputs[1] if root.op == "Gather" else None
        more = places.rank - 1 if places is not None else 0
        return None if along == axis else axis if axis < along else axis + more
    axes = _axes_of(root, rank)
    if axes is None or axis in axes:
        return None
    dropped = root.op in REDUCTIONS and not attribute_of(root, "keepdims")
    return axis - sum(a < axis for a in axes) if dropped else axis


def _axes_of(root: Value, rank: int) -> set[int] | None:
    """The axes that a Slice, CumSum or reduction works along; None where they are not known."""
    place = 3 if root.op == "Slice" else 1
    axes = axes_of(root.inputs[place]) if len(root.inputs) > place else None
    return None if axes is None else {a % rank for a in axes}


def _rows(rng: np.random.Generator) -> Value:
    batch = dims.symbol("batch")
    x = param(Tensor(DType.FLOAT, (batch, 3)))
    data = const(rng.integers(-3, 4, (1, 4, 6)).astype(np.float32))
    wide = op.Expand(data if rng.random() < 0.7 else const(np.float32(2)), shape_vector((batch, 4, 6), x))
    other = const(rng.integers(1, 4, (5, 1, 4, 1) if rng.random() < 0.3 else (6,)).astype(np.float32))
    axis = int(rng.integers(3))
    nothing = op.Expand(const(np.zeros((1, 4, 0), np.float32)), shape_vector((batch, 4, 0), x))
    makers = (
        lambda: op.Reshape(nothing, shape_vector((batch, 2, 3, 0), x), allowzero=1),
        lambda: op.Add(wide, other), lambda: op.Div(other, wide), lambda: op.Mul(wide, wide),
        lambda: op.CumSum(wide, const(int(rng.integers(-2, 3)))),
        lambda: op.Concat(wide, wide, axis=int(rng.integers(3))),
        lambda: op.Slice(wide, [-1], [2**62], [int(rng.integers(3))]), lambda: op.Transpose(wide, perm=[2, 0, 1]),
        lambda: op.Gather(wide, const(np.array([[0, 2]])), axis=int(rng.integers(1, 3))),
        lambda: op.Reshape(wide, shape_vector((batch, 2, 12), x)), lambda: op.Unsqueeze(wide, [0, 2]),
        lambda: op.Reshape(wide, shape_vector((dims.mul(batch, 2), 2, 6), x)),
        lambda: call(str(rng.choice(REDUCTIONS)), [wide, vector([axis])], {"keepdims": int(rng.integers(2))}),
        lambda: op.Where(op.Greater(wide, other), wide, other), lambda: op.Sub(other, wide),
    )  # fmt: skip
    return makers[int(rng.integers(len(makers)))]()


@rule(
    either(
        one_of(*BY_ROWS, *BROADCASTING)(_wide, *rest("more")),
        one_of(*BROADCASTING)(hole("first"), _wide, *rest("more")),
        p.Where(hole("first"), hole("second"), _wide),
    ),
    exact=False,
    sample=_rows,
)
def row_repeated(m: Match) -> Made:
    """f(Expand(constant)) -> Expand(f(constant)), where f does to each row of a batch the same"""
    inputs, places, together = list[Value | None](), set[int | None](), m.root.op in (*BROADCASTING, "Concat")
    for operand in m.root.inputs:
        here = operand is not None and operand.op == "Expand" and (together or operand is m.root.inputs[0])
        axis = row_axis(operand) if here else None  # type: ignore[arg-type]
        if operand is None or operand.blob is not None:
            inputs.append(operand)
        elif axis is not None and _is_plain(operand.inputs[0]):  # type: ignore[arg-type]
            inputs.append(one_row(operand, axis))
            places.add(m.root.rank - operand.rank + axis if m.root.op in BROADCASTING else axis_after(m.root, axis))
        elif operand is m.root.inputs[0] or m.root.op not in VIEWS:
            return decline("an operand is neither a constant nor one that is repeated")
    (at,) = places if len(places) == 1 else (None,)
    if at is None:
        return decline("rows do not stay apart")
    shape = (*m.root.shape[:at], 1, *m.root.shape[at + 1 :])
    if not all(type(d) is int for d in shape):
        return decline("another dimension is not known")
    if m.root.op in VIEWS:
        found = op.Reshape(inputs[0], vector(shape), allowzero=int(0 in shape))
    else:
        found = call(m.root.op, inputs, dict(m.root.attributes))
    return _repeated(m, found) if same_shape(found.shape, shape) else decline("a constant has rows of its own")


REPEATED: tuple[Rule, ...] = (number_moved,)
REAL_REPEATED: tuple[Rule, ...] = (row_repeated,)
"""What is computed of constants that are repeated for each row; sums may be taken in another order."""
