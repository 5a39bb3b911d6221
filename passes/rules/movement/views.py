"""Views and broadcasts: Reshape, Squeeze, Unsqueeze, Flatten, Expand, Tile, Slice, Pad, Concat."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT
from irkit.dims import Dim
from irkit.ops.types.context import contents
from irkit.pattern import attr, attribute_of, either, hole, is_all_ones, is_all_zeros, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import Sizes, bound_by, built_if_bound, is_bound, sizes_held, sizes_value
from passes.analysis.questions import VIEWS, is_known, same_shape, same_type, vector

x, y, s = hole("x"), hole("y"), hole("s")


# ---------------------------------------------------------------------------------------------- nothing to do


def keeps_its_shape(value: Value) -> bool:
    """True for a value that certainly has the type of its first operand."""
    return value.inputs[0] is not None and same_type(value.inputs[0], value)


@rule(p.Expand(x, s).provided(keeps_its_shape))
def same_expand(m: Match) -> Made:
    """Expand(x, its own shape) -> x"""
    return m.x


@rule(one_of("Squeeze", "Unsqueeze", "Flatten")(x, hole("axes", optional=True)).provided(keeps_its_shape))
def no_axes(m: Match) -> Made:
    """Squeeze(x, no axes) -> x; Flatten of a matrix -> x"""
    return m.x


@rule(p.Tile(x, constant("repeats", where=is_all_ones)))
def tile_once(m: Match) -> Made:
    """Tile(x, [1, 1, ...]) -> x"""
    return m.x


@rule(one_of("Slice")(x, s, y, *rest("more")).provided(keeps_its_shape))
def whole_slice(m: Match) -> Made:
    """x[0:n] -> x"""
    if len(m.more) > 1 and uniform(m.more[1]) != 1:
        return decline("there are steps")
    return m.x


@rule(one_of("Pad")(x, constant("pads", where=is_all_zeros), *rest("more")))
def no_padding(m: Match) -> Made:
    """Pad(x, zeros) -> x"""
    return m.x if same_type(m.x, m.root) else decline("the shape changes")


# ---------------------------------------------------------------------------------------------- one view of another


def view(m: Match, x: Value, shape: tuple[Dim, ...], *sources: Sizes) -> Value | None:
    """x under other dimensions: itself, an Unsqueeze or a Squeeze where only 1s come or go, or else a Reshape.

    None where a Reshape is needed and some dimension is not known, or not bound by x, a parameter or a source.
    """
    if same_shape(x.shape, shape):
        return x
    added = inserted_ones(x.shape, shape)
    if added is not None:
        return op.Unsqueeze(x, vector(added))
    dropped = inserted_ones(shape, x.shape)
    if dropped is not None:
        return op.Squeeze(x, vector(dropped))
    sizes = built_if_bound(m, shape, bound_by(x), *sources) if is_known(shape) else None
    if sizes is None:
        return None
    zero = any(type(d) is int and d == 0 for d in shape)
    # The type is the one that was asked for: no type rule need find it out.
    return Value("Reshape", (x, sizes), (("allowzero", 1),) if zero else (), (), Tensor(x.dtype, shape))


def sources_of(*views: Value) -> list[Sizes]:
    """The values that bind the sizes which a Reshape names."""
    named = [v.inputs[1] for v in views if v.op == "Reshape"]
    return [sizes for v in named if v is not None and v.op != CONSTANT and (sizes := sizes_held(v)) is not None]


def inserted_ones(small: tuple[Dim, ...], large: tuple[Dim, ...]) -> tuple[int, ...] | None:
    """Where `large` has axes of size 1 that `small` has not; None where they differ in anything else."""
    if len(large) <= len(small):
        return None
    found, at = list[int](), 0
    for i, d in enumerate(large):
        if at < len(small) and (small[at] is d or dims.same(small[at], d) is True):
            at += 1
        elif type(d) is int and d == 1:
            found.append(i)
        else:
            return None
    return tuple(found) if at == len(small) else None


def needs_reshape(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    """True where two shapes differ in more than inserted axes of size 1."""
    if same_shape(source, target):
        return False
    return inserted_ones(source, target) is None and inserted_ones(target, source) is None


def same(a: Dim, b: Dim) -> bool:
    """True for dimensions that are known to be equal."""
    return a is b or dims.same(a, b) is True


def is_cheap(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    """True where the target of a Reshape can be written with zeros (copy) and one -1, so that no size is computed."""
    moved = 0
    for i, d in enumerate(target):
        if type(d) is not int and not (i < len(source) and dims.same(source[i], d) is True):
            moved += 1
    return moved <= 1


@rule(one_of(*VIEWS)(one_of(*VIEWS)(x, hole("first", optional=True)).named("inner"), hole("second", optional=True)))
def view_of_view(m: Match) -> Made:
    """Reshape(Reshape(x)) -> Reshape(x), and so for any two views"""
    shape = m.root.shape
    found = view(m, m.x, shape, *sources_of(m.root, m.inner))
    if found is None:
        return decline("a dimension is not known")
    if found.op == "Reshape" and not is_cheap(m.x.shape, shape) and _is_free(m.inner) and _is_free(m.root):
        return decline("sizes would have to be computed that two views need not know")
    return found


def _is_free(view: Value) -> bool:
    """True for a view for which no size has to be computed at run time."""
    source = view.inputs[0]
    return view.op != "Reshape" or (source is not None and is_cheap(source.shape, view.shape))


@rule(one_of("Reshape")(x, s))
def plain_reshape(m: Match) -> Made:
    """Reshape(x, [0, -1]) -> Reshape(x, the dimensions that this means), or Unsqueeze, Squeeze, or x itself"""
    given, shape = contents(m.s) or (), m.root.shape
    written = given == shape or (len(given) == len(shape) and all(map(same, given, shape)))
    if written and needs_reshape(m.x.shape, shape):
        return decline("the dimensions are written out")
    found = view(m, m.x, shape, *sources_of(m.root))
    return decline("a dimension is not known") if found is None else found


@rule(p.Squeeze(x))
def squeeze_axes(m: Match) -> Made:
    """Squeeze(x) -> Squeeze(x, axes)"""
    axes = [i for i, d in enumerate(m.x.shape) if type(d) is int and d == 1]
    return op.Squeeze(m.x, vector(axes)) if axes else m.x


# ---------------------------------------------------------------------------------------------- broadcasts


@rule(p.Expand(p.Expand(x, s), y))
def expand_expand(m: Match) -> Made:
    """Expand(Expand(x)) -> Expand(x)"""
    shape = m.root.shape
    sources = [each for each in (sizes_held(m.s), sizes_held(m.y)) if each is not None] + [bound_by(m.x)]
    if not is_known(shape) or not is_bound(m, shape, *sources):
        return decline("the result's dimensions are not known")
    found = op.Expand(m.x, sizes_value(m, shape, 1, *sources))
    return found if same_type(found, m.root) else decline("the dimensions cannot be told")


@rule(one_of("Expand")(x, s))
def expand_to_view(m: Match) -> Made:
    """Expand(x, dims) -> Unsqueeze(x), where only leading 1s are added"""
    extra = m.root.rank - m.x.rank
    if extra <= 0 or not same_shape((1,) * extra + m.x.shape, m.root.shape):
        return decline("it repeats something")
    return op.Unsqueeze(m.x, vector(range(extra)))


BROADCASTING = (
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual",
    "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Where", "Max", "Min",
)  # fmt: skip
_expanded = p.Expand(x, s)


@rule(
    either(
        one_of(*BROADCASTING)(_expanded, *rest("more")),
        one_of(*BROADCASTING)(hole("first"), _expanded, *rest("more")),
        p.Where(hole("first"), hole("second"), _expanded),
    )
)
def expand_before_broadcast(m: Match) -> Made:
    """Expand(x) + y -> x + y, where y broadcasts x as far"""
    for index, operand in enumerate(m.root.inputs):
        if operand is None or operand.op != "Expand":
            continue
        inputs = list(m.root.inputs)
        inputs[index] = operand.inputs[0]
        shape = broadcast([v.shape for v in inputs if v is not None])
        if shape is not None and same_shape(shape, m.root.shape):
            return call(m.root.op, inputs, dict(m.root.attributes))
    return decline("the other operands do not broadcast as far")


def broadcast(shapes: list[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    """The shape that these shapes broadcast to; None where it is not certain."""
    rank = max(map(len, shapes))
    found: list[Dim] = []
    for i in range(rank):
        chosen: Dim = 1
        for shape in shapes:
            at = i - rank + len(shape)
            d = shape[at] if at >= 0 else 1
            if type(d) is int and d == 1:
                continue
            if type(chosen) is int and chosen == 1:
                chosen = d
            elif dims.same(chosen, d) is not True:
                return None
        found.append(chosen)
    return tuple(found)


# ---------------------------------------------------------------------------------------------- concatenations, slices


TOGETHER = 64
"""Parts of a Concat that another one may go into: of one that stands twice in another, the parts do so too, and after
forty such steps there would be more than memory holds."""


def _nested(rng: np.random.Generator) -> Value:
    axis = int(rng.integers(-3, 3))

    def part(size: Dim) -> Value:
        shape: list[Dim] = [dims.symbol("m"), 2, 3]
        shape[axis] = size
        return param(Tensor((DType.FLOAT, DType.INT64, DType.BOOL)[kind], tuple(shape)))

    kind = int(rng.integers(3))
    inner = op.Concat(part(1), part(dims.symbol("n")), axis=axis if rng.random() < 0.5 else axis % 3 - 3)
    parts = [inner, part(2), part(0)]
    chosen = [parts[int(i)] for i in rng.permutation(3)[: int(rng.integers(1, 4))]]
    return op.Concat(*chosen, axis=axis)


@rule(p.Concat(*rest("parts"), axis=attr("axis")), sample=_nested)
def concat_concat(m: Match) -> Made:
    """Concat(Concat(a, b), c) -> Concat(a, b, c) of 64 parts at most, and parts of size 0 are left out"""
    rank = m.root.rank
    axis = m.axis + rank if m.axis < 0 else m.axis
    flat: list[Value] = []
    count = len(m.parts)
    for part in m.parts:
        inner = part.op == "Concat" and attribute_of(part, "axis") % rank == axis
        if inner and count + len(part.inputs) - 1 <= TOGETHER:
            flat += part.inputs
            count += len(part.inputs) - 1
        else:
            flat.append(part)
    kept = [v for v in flat if not (type(v.shape[axis]) is int and v.shape[axis] == 0)] or flat[:1]
    if len(kept) == len(m.parts):
        return decline("no part is a Concat along that axis, or empty")
    return kept[0] if len(kept) == 1 else op.Concat(*kept, axis=axis)


SHAPES: tuple[Rule, ...] = (
    same_expand, no_axes, tile_once, whole_slice, no_padding, squeeze_axes, view_of_view, plain_reshape,
    expand_expand, expand_to_view, expand_before_broadcast, concat_concat,
)  # fmt: skip
