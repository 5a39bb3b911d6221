"""Mixtures of experts as models compute them, read from the sum over the experts of a row up to the scores.

A model arranges the pairs of a row and an expert in one of two ways: as the rows come, each pair with the matrices of
its expert gathered for it; or sorted by expert, so that the rows of one expert stand together and meet its matrix at
once. What does not read as one raises `Other`, with the reason.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.core.attributes import Given
from irkit.core.ir import Value
from irkit.core.types import Tensor, Tuple
from irkit.core.walk import post_order
from irkit.dims import Dim
from irkit.errors import EvaluateError
from irkit.evaluation.interpreter import apply
from irkit.pattern import attribute_of
from passes.analysis.known_sizes import sizes_held
from passes.analysis.questions import axes_of, operand, same_shape
from passes.rules.onnxruntime.reading import Other, bare, both_ways, factor, first, is_last, need, part_of, uncast

ROW_BY_ROW = frozenset(
    ("Cast", "Mul", "Div", "Min", "Max", "Clip", "Equal", "And", "GreaterOrEqual", "LessOrEqual", "Less", "Greater",
     "Sub", "Add", "Where", "Floor")
)  # fmt: skip
"""Operators that compute each element from those that stand in its place."""

MOST = 1024
"""Mixtures of more experts are not read."""

NOTHING = 1e-12
"""So much added to a sum of shares does not change it in float32."""


@attrs.frozen(eq=False)
class Pairs:
    """Pairs of a row and an expert. `router` is the TopK that chooses each row's experts, `top` the TopK that sorts the
    pairs by expert, where they are sorted."""

    router: Value
    experts: int
    k: int
    top: Value | None = None

    def are_experts(self, value: Value) -> bool:
        """True for the expert of each pair."""
        return part_of(bare(value), 1) is self.router if self.top is None else part_of(value, 0) is self.top

    def gathered(self, value: Value) -> Value | None:
        """That of which each pair has the slice of its expert."""
        data, ids = value.inputs if value.op == "Gather" else (None, None)
        found = data is not None and ids is not None and ids.rank == 1 and not attribute_of(value, "axis")
        return data if found and self.are_experts(ids) else None  # type: ignore[arg-type]


@attrs.frozen(eq=False)
class Layer:
    """A layer of the experts: matrices of (experts, out, in), or of (experts, in, out) where they are `turned`, as one
    constant or one for each expert; and the experts' biases, where they have any."""

    source: Value
    weights: tuple[Value, ...]
    turned: bool
    bias: Value | None


@attrs.frozen(eq=False)
class Activation:
    """What follows the first layer: the attributes of MoE that name it, and which half of the layer are the gates,
    which MoE has at even places; None where they are there already."""

    source: Value
    given: Given
    half: int | None = None


@attrs.frozen(eq=False)
class Mixture:
    """A mixture of experts of rows, whose experts are chosen by `logits`."""

    rows: Value
    logits: Value
    first: Layer
    second: Layer
    activation: Activation
    k: int
    normal: bool


# ---------------------------------------------------------------------------------------------- the whole


def mixture(total: Value) -> Mixture:
    """The mixture of experts whose sum over each row's experts the value is. Raises Other where it is none."""
    apart = need(total.op == "ReduceSum" and total.inputs[0], "it is not a sum")
    along = axes_of(operand(total, 1)) in ((1,), (-2,)) and not attribute_of(total, "keepdims")
    need(apart.rank == 3 and along, "it is not a sum over the experts of each row")
    weighted, back = bare(apart), None
    if weighted.op == "Gather" and weighted.rank == 2 and not attribute_of(weighted, "axis"):
        weighted, back = first(weighted), operand(weighted, 1)
    need(weighted.op == "Mul" and weighted.rank == 2, "there is no product with shares")
    why = Other("no factor is a share of each pair")
    for made, shares in both_ways(weighted):
        if dims.same(shares.shape[-1], 1) is True and same_shape(made.shape, weighted.shape):
            try:
                return with_shares(made, shares, back, apart)
            except Other as other:
                why = other
    raise why


def with_shares(made: Value, shares: Value, back: Value | None, apart: Value) -> Mixture:
    """The mixture whose pairs are `made`, each multiplied by its share."""
    source, top = bare(shares), None
    if back is not None:
        sorted_ = source.op == "Gather" and source.rank == 1
        top = need(sorted_ and part_of(source.inputs[1], 1), "the shares are not sorted as the pairs are")
        need(undone(back, top), "the pairs are not brought back to where they stood")
        source = bare(first(source))
    need(source.rank >= 2 and dims.same(source.shape[-1], apart.shape[1]) is True, "the shares are not those of rows")
    logits, router, normal = routing(source)
    k, experts = apart.shape[1], logits.shape[-1]
    known = type(k) is int and type(experts) is int and experts <= MOST
    need(known and logits.shape[:-1] == source.shape[:-1], "the number of experts is not known")
    need(top is None or sorts(top, router), "other pairs are sorted")
    pairs = Pairs(router, experts, k, top)
    second = layer(made, pairs)
    between = activation(second.source)
    begin = layer(between.source, pairs)
    return Mixture(spread(begin.source, pairs, apart.shape[0]), logits, begin, second, between, k, normal)


# ---------------------------------------------------------------------------------------------- shares


def routing(shares: Value) -> tuple[Value, Value, bool]:
    """(the logits of all experts, the TopK that chooses among them, whether the shares of a row are scaled to sum to
    1). Raises Other where the shares come from no Softmax."""
    if shares.op == "Softmax":
        need(is_last(attribute_of(shares, "axis"), shares), "the Softmax is along another axis")
        return *picked(first(shares)), True
    values, normal = shares, shares.op == "Div"
    if normal:
        values, total = first(shares), need(operand(shares, 1), "the shares are divided otherwise")
        if total.op == "Add":
            small = [(a, factor(b)) for a, b in both_ways(total)]
            total = next((a for a, b in small if b is not None and 0 <= b <= NOTHING), total)
        summed = total.op == "ReduceSum" and total.inputs[0] is values
        need(summed and axes_of(operand(total, 1)) in ((-1,), (total.rank - 1,)), "the shares are divided otherwise")
        need(attribute_of(total, "keepdims"), "the shares are divided otherwise")
    scores, router = picked(values)
    need(scores.op == "Softmax" and is_last(attribute_of(scores, "axis"), scores), "the scores are no Softmax")
    return first(scores), router, normal


def picked(values: Value) -> tuple[Value, Value]:
    """(the scores of all experts, the TopK that chooses among them), found from the chosen scores."""
    router = part_of(values, 0)
    scores = None if router is None else router.inputs[0]
    if values.op == "GatherElements" and is_last(attribute_of(values, "axis"), values):
        scores, router = values.inputs[0], part_of(values.inputs[1], 1)
        need(router is not None and router.op == "TopK" and ranked(router.inputs[0]) is scores, "other scores choose")
    why = "the shares are not chosen by a TopK"
    scores, router = need(scores, why), need(router is not None and router.op == "TopK" and router, why)
    largest = attribute_of(router, "largest") and is_last(attribute_of(router, "axis"), scores)
    need(largest, "it is not the largest scores of a row that are chosen")
    return scores, router


def ranked(keys: Value | None) -> Value | None:
    """The values by which keys are sorted: Where(IsNaN(x), inf, Min(x, largest)) has the order of x."""
    if keys is None or keys.op != "Where":
        return keys
    missing, top, least = keys.inputs
    if missing is None or missing.op != "IsNaN" or factor(top) != np.inf or least is None or least.op != "Min":
        return keys
    x = missing.inputs[0]
    below = [uncast(a) for a, b in both_ways(least) if (factor(b) or 0) > 1e38]
    return x if x in below else keys


# ---------------------------------------------------------------------------------------------- pairs that are sorted


def sorts(top: Value, router: Value) -> bool:
    """True for the TopK that sorts all pairs by expert."""
    flat = top.inputs[0]
    if top.op != "TopK" or attribute_of(top, "largest") or not attribute_of(top, "sorted") or flat is None:
        return False
    return flat.rank == 1 and is_whole(top) and part_of(bare(flat), 1) is router


def is_whole(top: Value) -> bool:
    """True for a TopK that returns all elements."""
    size = sizes_held(top.inputs[1])
    return size is not None and dims.same(size.dims[0], top.inputs[0].shape[-1]) is True  # type: ignore[union-attr]


def undone(back: Value, top: Value) -> bool:
    """True for the inverse permutation of a sort: ScatterND(any, order, [0, 1, 2, ...]), or the TopK that sorts the
    order."""
    if back.op == "ScatterND" and attribute_of(back, "reduction") == "none":
        _, places, ordinals = back.inputs
        at = places is not None and places.rank == 2 and part_of(bare(places), 1) is top
        return at and ordinals is not None and is_counting(ordinals) and same_shape(back.shape, ordinals.shape)
    again = part_of(back, 1)
    if again is None or again.op != "TopK" or attribute_of(again, "largest") or not attribute_of(again, "sorted"):
        return False
    return part_of(again.inputs[0], 1) is top and is_whole(again)


def is_counting(value: Value) -> bool:
    """True for 0, 1, 2, ... ."""
    if value.rank == 1 and value.op == "Range":
        return factor(value.inputs[0]) == 0 and factor(value.inputs[2]) == 1
    blob = value.blob
    return blob is not None and value.rank == 1 and bool(np.array_equal(blob.array, np.arange(blob.size)))


def spread(source: Value, pairs: Pairs, rows: Dim) -> Value:
    """The rows, where the value has each row once for each of its experts."""
    k = pairs.k
    if pairs.top is None:
        why = "the rows are not there for each expert"
        found = need(source.op == "Expand" and source.rank == 3 and source.inputs[0], why)
        need(found.rank == 3 and same_shape(found.shape[:2], (rows, 1)), why)
        need(same_shape(source.shape, (rows, k, found.shape[2])), why)
        return bare(found)
    fits = source.op == "Gather" and source.rank == 2 and not attribute_of(source, "axis")
    need(fits and is_row_of(source.inputs[1], pairs), "the rows are not gathered in the order of the pairs")
    return first(source)


def is_row_of(value: Value | None, pairs: Pairs) -> bool:
    """True for the row of each sorted pair: its place before the sort divided by k, rounded down."""
    if value is not None and value.op == "Sub":
        value = rounded_down(value)
    if value is None or value.op != "Div" or factor(value.inputs[1]) != pairs.k:
        return False
    place = value.inputs[0]
    if place is not None and place.op == "Sub" and place.inputs[1] is not None and place.inputs[1].op == "Mod":
        left, by = place.inputs[1].inputs
        if left is not place.inputs[0] or factor(by) != pairs.k:
            return False
        place = left
    return part_of(place, 1) is pairs.top


def rounded_down(value: Value) -> Value | None:
    """The Div in `q - (q * k > x)`, where q is x / k, which is how a quotient of i64 is rounded down; None for another
    Sub."""
    quotient, less = value.inputs
    above = less.inputs[0] if less is not None and less.op == "Cast" else None
    if quotient is None or quotient.op != "Div" or above is None or above.op != "Greater":
        return None
    product, x = above.inputs
    again = product is not None and product.op == "Mul" and product.inputs == (quotient, quotient.inputs[1])
    return quotient if again and x is quotient.inputs[0] else None


# ---------------------------------------------------------------------------------------------- layers


def layer(made: Value, pairs: Pairs) -> Layer:
    """The layer that computes a value of pairs. Raises Other where there is none."""
    value, bias = bare(made), None
    if value.op == "Add" and same_shape(value.shape, made.shape):
        found = [(bare(a), pairs.gathered(b)) for a, b in both_ways(value)]
        value, bias = next(((a, b) for a, b in found if b is not None), (value, None))
    if value.op == "MatMul":
        return fitting(gathered_layer(value, bias, pairs), made)
    need(value.op == "Concat" and pairs.top is not None, "no product with matrices of experts makes the pairs")
    return fitting(sorted_layer(value, bias, pairs), made)


def fitting(found: Layer, made: Value) -> Layer:
    """The layer, if views before and after it keep the pairs apart. Raises Other where they do not."""
    rows, columns = found.weights[0].shape[-2:]
    out, into = (columns, rows) if found.turned else (rows, columns)
    whole = made.rank == 2 and same_shape(made.shape[1:], (out,)) and same_shape(found.source.shape[-1:], (into,))
    need(whole, "what a layer takes or makes is not a row for each pair")
    return found


def gathered_layer(product: Value, bias: Value | None, pairs: Pairs) -> Layer:
    """Each pair times the matrix gathered for it."""
    left, right = next(both_ways(product))
    need(left.rank == 3 and right.rank == 3, "the product is no batched one")
    for matrix, other, axis in ((left, right, 2), (right, left, 1)):
        weights = pairs.gathered(matrix)
        if weights is not None and dims.same(other.shape[axis], 1) is True:
            return Layer(bare(other), (weights,), axis == 1, bias)
    raise Other("no matrices are gathered for the pairs")


def sorted_layer(joined: Value, bias: Value | None, pairs: Pairs) -> Layer:
    """Each expert's rows times its matrix, one expert after the other, then zeros for rows without an expert."""
    every = [v for v in joined.inputs if v is not None]
    products = [v for v in every if v.op == "MatMul"]
    rest = [v for v in every[pairs.experts :] if v.op == "Expand" and factor(first(v)) == 0]
    whole = len(every) == len(products) + len(rest) and len(products) == pairs.experts
    whole = whole and not attribute_of(joined, "axis") % joined.rank
    need(whole, "there is no product for each expert")
    split = part_of(products[0].inputs[0], 0)
    parts = all(part_of(v.inputs[0], i) is split for i, v in enumerate(products))
    split = need(parts and split is not None and split.op == "Split" and split, "the rows are not parts of one value")
    source = first(split)
    need(source.rank == 2 and not attribute_of(split, "axis") % 2, "the rows are split otherwise")
    need_lengths(need(operand(split, 1), "the rows are split evenly"), pairs)
    weights = [v.inputs[1] for v in products]
    return Layer(source, tuple(v for v in weights if v is not None), True, bias)


# ---------------------------------------------------------------------------------------------- lengths


def need_lengths(lengths: Value, pairs: Pairs) -> None:
    """Raises Other unless the value is the number of pairs of each expert, as differences of a prefix sum of hits."""
    why = "the rows are split by other lengths than how many rows each expert has"
    need(lengths.op == "Sub", why)
    ends, begins = next(both_ways(lengths))
    need(begins.op == "Concat" and len(begins.inputs) == 2, why)
    zero, before = next(both_ways(begins))
    need(factor(zero) == 0 and zero.shape == (1,), why)
    if before.op == "Slice":
        need(before.inputs[0] is ends and before.shape == (pairs.experts - 1,), why)
        need(axes_of(operand(before, 1)) == (0,), why)
    else:  # the last length is that of the rows that no expert has
        need(ends.op == "Concat" and len(ends.inputs) == 2 and first(ends) is before, why)
        ends = before
    total = uncast(ends)
    forward = total.op == "CumSum" and not attribute_of(total, "exclusive") and not attribute_of(total, "reverse")
    need(forward and total.rank == 1, why)
    hits = uncast(first(total))
    counted = hits.op == "ReduceSum" and axes_of(operand(hits, 1)) in ((0,), (-2,)) and hits.rank == 1
    need(counted and hits.shape == (pairs.experts,), why)
    need(are_hits(first(hits), pairs), why)


def are_hits(hits: Value, pairs: Pairs) -> bool:
    """True for (pairs, experts) that say which expert each pair has. Each row must be computed from the pair's expert
    alone, and is tried with every expert."""
    top = pairs.top
    if hits.rank != 2 or top is None:
        return False
    order = post_order([hits], lambda v: part_of(v, 0) is top)
    if not all(is_by_row(v, pairs.experts) for v in order):
        return False
    rows = top.inputs[0].shape[0]  # type: ignore[union-attr]
    count = rows if type(rows) is int else pairs.experts * pairs.k
    for begin in range(0, pairs.experts, max(count, 1)):
        experts = np.arange(begin, begin + count) % pairs.experts
        found: dict[Value, Any] = {}
        for value in order:
            given = [found.get(v, experts) for v in value.inputs if v is not None]
            try:
                found[value] = value.blob.array if value.blob is not None else apply(value, given)
            except EvaluateError:
                return False
        if not np.array_equal(found[hits], experts[:, None] == np.arange(pairs.experts)):
            return False
    return bool(order)


def is_by_row(value: Value, experts: int) -> bool:
    """True for an operator that computes each row of its result from the same row of its operands, and for constants of
    one row."""
    if value.blob is not None:
        return value.blob.size == 1 or value.blob.shape in ((experts,), (1, experts))
    if not isinstance(value.type, Tensor) or value.rank not in (1, 2):
        return False
    if value.op == "Unsqueeze":
        return value.rank == 2 and axes_of(value.inputs[1]) in ((1,), (-1,))
    broad = any(v is not None and v.blob is not None and v.blob.size > 1 for v in value.inputs)
    return value.op in ROW_BY_ROW and not (broad and value.rank == 1)


# ---------------------------------------------------------------------------------------------- activations

PLAIN = {"Relu": "relu", "Gelu": "gelu", "Swish": "silu"}


def activation(made: Value) -> Activation:
    """What stands between the first layer and the second."""
    if made.op == "Mul":
        for gate, other in both_ways(made):
            if gate.op == "Swish":
                return gated(gate, other)
    kind = need(PLAIN.get(made.op), f"MoE has no such activation as {made.op}")
    usual = {"Gelu": ("approximate", "tanh"), "Swish": ("alpha", 1.0)}.get(made.op)
    need(usual is None or attribute_of(made, usual[0]) == usual[1], f"MoE has another form of {made.op}")
    return Activation(first(made), {"activation_type": kind})


def gated(swish: Value, other: Value) -> Activation:
    """Gates and what they multiply, limited or not: Swish(gate) * (other + beta)"""
    given: Given = {"activation_type": "swiglu", "swiglu_fusion": 1}
    given["activation_alpha"] = float(attribute_of(swish, "alpha"))
    gate = first(swish)
    if other.op == "Add":
        numbers = [(a, factor(b)) for a, b in both_ways(other)]
        other, beta = need(next(((a, b) for a, b in numbers if b is not None), None), "the gated half has a summand")
        given["activation_beta"] = beta
    if other.op == "Clip" or gate.op == "Min":
        low, high = ([factor(v) for v in other.inputs[1:]] + [None, None])[:2]
        limited = [a for a, b in both_ways(gate) if factor(b) == high] if gate.op == "Min" else []
        need(limited and high is not None and low == -high, "the halves are limited otherwise")
        gate, other = limited[0], first(other)
        given["swiglu_limit"] = high
    for index in (0, 1):
        split = part_of(gate, index)
        if split is not None and part_of(other, 1 - index) is split and is_halved(split):
            return Activation(first(split), given, index)
    one, two = (every_second(v, i) for i, v in enumerate((gate, other)))
    return Activation(need(one if one is two else None, "gates and what they gate are no halves of one layer"), given)


def is_halved(split: Value) -> bool:
    """True for a Split of the columns into two halves."""
    types = split.type.items if isinstance(split.type, Tuple) else ()
    halves = split.op == "Split" and len(types) == 2 and types[0] == types[1]
    return halves and is_last(attribute_of(split, "axis"), first(split))


def every_second(value: Value, begin: int) -> Value | None:
    """The value of which these are every second column, from `begin` on."""
    if value.op != "Slice" or value.rank != 2 or len(value.inputs) != 5:
        return None
    source, starts, _, axes, steps = value.inputs
    whole = source is not None and type(source.shape[1]) is int and 2 * value.shape[1] == source.shape[1]
    fits = [axes_of(v) for v in (starts, steps)] == [(begin,), (2,)] and axes_of(axes) in ((1,), (-1,))
    return source if whole and fits else None
