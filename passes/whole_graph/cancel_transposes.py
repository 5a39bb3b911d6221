"""Transposes that cancel over a distance: each is drawn toward the parameters, through what computes alike in another
order of axes, where that leaves fewer of them.

A rule sees one value and what is below it; whether a Transpose pays is known only where the whole region between it and
the others is seen. So this is a pass: for each Transpose the region above its operand is looked through, as far as
values have one user, and the cheapest place for it is found: 1 for a Transpose that has to be put somewhere, -1 for one
that meets its inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from irkit import dims
from irkit.build import call, op, shape_vector
from irkit.core.ir import Graph, Value
from irkit.core.types import types_of
from irkit.core.vocabulary import CONSTANT, ITEM
from irkit.dims import Dim
from irkit.errors import DimensionError
from irkit.pattern import attribute_of
from irkit.rewriting.joint_rules import grow
from irkit.rewriting.passes import Pass, graph_pass, in_bodies
from passes.analysis.known_sizes import sizes_held
from passes.analysis.questions import axes_of, same_shape, small, vector
from passes.rules.arithmetic.reductions import REDUCTIONS
from passes.rules.movement.transposes import BINARY, UNARY, order

Perm = tuple[int, ...]
Built = Sequence[Value]
Demands = tuple[tuple[tuple[Value, Perm], ...], Callable[[Built], Value], int]
"""(operand, permutation) for each operand that is to be turned, what makes the turned result of those, and what that
costs beside them."""

FARTHEST = 200
"""How many values are looked through for one Transpose."""

IMPOSSIBLE = 1 << 20


# ---------------------------------------------------------------------------------------------- what computes alike


def _elementwise(value: Value, perm: Perm) -> Demands | None:
    operands = [v for v in value.inputs if v is not None]
    rank = value.rank
    if len(operands) < len(value.inputs) or any(0 < v.rank < rank and v.op != CONSTANT for v in operands):
        return None
    turned = [(v, perm) for v in operands if v.rank]

    def build(new: Built) -> Value:
        each = iter(new)
        return call(value.op, [next(each) if v.rank else v for v in operands], dict(value.attributes))

    return tuple(turned), build, 0


def _along_axis(value: Value, perm: Perm) -> Demands | None:
    source = value.inputs[0]
    if source is None:
        return None
    axis = attribute_of(value, "axis") % source.rank
    moved = perm.index(axis)
    extra = int(axis == source.rank - 1 and moved != axis)  # kernels are made for the last axis

    def build(new: Built) -> Value:
        return call(value.op, [new[0], *value.inputs[1:]], {**dict(value.attributes), "axis": moved})

    return ((source, perm),), build, extra


def _over_last(value: Value, perm: Perm) -> Demands | None:
    source = value.inputs[0]
    if source is None or attribute_of(value, "axis") % source.rank != source.rank - 1 or perm[-1] != source.rank - 1:
        return None
    return ((source, perm),), lambda new: call(value.op, [new[0], *value.inputs[1:]], dict(value.attributes)), 0


def _concat(value: Value, perm: Perm) -> Demands | None:
    axis = perm.index(attribute_of(value, "axis") % value.rank)
    parts = tuple((v, perm) for v in value.inputs if v is not None)
    return parts, lambda new: op.Concat(*new, axis=axis), 0


def _reduction(value: Value, perm: Perm) -> Demands | None:
    source, axes = value.inputs[0], axes_of(value.inputs[1] if len(value.inputs) > 1 else None)
    if source is None or not axes:
        return None
    gone = {a % source.rank for a in axes}
    if not attribute_of(value, "keepdims"):
        left = [i for i in range(source.rank) if i not in gone]
        moved = iter(left[i] for i in perm)
        perm = tuple(i if i in gone else next(moved) for i in range(source.rank))
    new_axes = vector(sorted(perm.index(a) for a in gone))
    return ((source, perm),), lambda new: call(value.op, [new[0], new_axes], dict(value.attributes)), 0


def _slice(value: Value, perm: Perm) -> Demands | None:
    source, axes = value.inputs[0], axes_of(value.inputs[3] if len(value.inputs) > 3 else None)
    if source is None or axes is None:
        return None
    moved = vector(perm.index(a % source.rank) for a in axes)
    starts, stops, more = value.inputs[1:2], value.inputs[2:3], value.inputs[4:]
    return ((source, perm),), lambda new: call("Slice", [new[0], *starts, *stops, moved, *more], {}), 0


def _pad(value: Value, perm: Perm) -> Demands | None:
    source, pads = value.inputs[0], axes_of(value.inputs[1])
    if source is None or pads is None or (len(value.inputs) > 3 and value.inputs[3] is not None):
        return None
    moved = vector([pads[i] for i in perm] + [pads[source.rank + i] for i in perm])
    more = value.inputs[2:3]
    return ((source, perm),), lambda new: call("Pad", [new[0], moved, *more], dict(value.attributes)), 0


def _tile(value: Value, perm: Perm) -> Demands | None:
    source, repeats = value.inputs[0], axes_of(value.inputs[1])
    if source is None or repeats is None:
        return None
    return ((source, perm),), lambda new: op.Tile(new[0], vector(repeats[i] for i in perm)), 0


def _unsqueeze(value: Value, perm: Perm) -> Demands | None:
    source, axes = value.inputs[0], axes_of(value.inputs[1])
    if source is None or axes is None:
        return None
    added = {a % value.rank for a in axes}
    left = [i for i in range(value.rank) if i not in added]
    inner = tuple(left.index(i) for i in perm if i not in added)
    places = vector(j for j, i in enumerate(perm) if i in added)
    return ((source, inner),), lambda new: op.Unsqueeze(new[0], places), 0


def _squeeze(value: Value, perm: Perm) -> Demands | None:
    source, axes = value.inputs[0], axes_of(value.inputs[1] if len(value.inputs) > 1 else None)
    if source is None or axes is None:
        return None
    gone = {a % source.rank for a in axes}
    left = [i for i in range(source.rank) if i not in gone]
    moved = iter(left[i] for i in perm)
    inner = tuple(i if i in gone else next(moved) for i in range(source.rank))
    return ((source, inner),), lambda new: op.Squeeze(new[0], vector(sorted(gone))), 0


def _reshape(value: Value, perm: Perm) -> Demands | None:
    source, sizes = value.inputs[0], sizes_held(value.inputs[1])
    if source is None or sizes is None or any(type(d) is int and d < 1 for d in sizes.dims):
        return None
    runs = _runs(source.shape, value.shape)
    if runs is None:
        return None
    of = {j: (low, high, first) for low, high, first, last in runs for j in range(first, last)}
    inner: list[int] = []
    at = 0
    while at < len(perm):
        low, high, first = of[perm[at]]
        length = sum(1 for each in of.values() if each == (low, high, first))
        if perm[at : at + length] != tuple(range(first, first + length)):
            return None
        inner += range(low, high)
        at += length
    dims_ = tuple(sizes.dims[i] for i in perm)
    symbolic = any(type(d) is not int for d in dims_)
    shape = shape_vector(dims_, *sizes.binders, scalars=dict(sizes.scalars)) if symbolic else vector(dims_)
    return ((source, tuple(inner)),), lambda new: op.Reshape(new[0], shape), 0


def _runs(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> list[tuple[int, int, int, int]] | None:
    """Which axes of one shape are which of another: runs [low, high) and [first, last) of equal products, each as short
    as can be told; None where a run would be of several axes on both sides, or of none on one."""
    found: list[tuple[int, int, int, int]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        low, first = i, j
        i, j = i + 1, j + 1
        fit = _same_product(source[low:i], target[first:j])
        while not fit and j < len(target):
            j += 1
            fit = _same_product(source[low:i], target[first:j])
        if not fit:
            j = first + 1
        while not fit and i < len(source):
            i += 1
            fit = _same_product(source[low:i], target[first:j])
        if not fit:
            return None
        found.append((low, i, first, j))
    return found if i == len(source) and j == len(target) else None


def _same_product(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    try:
        return a == b or dims.same(dims.product(a), dims.product(b)) is True
    except DimensionError:  # an expression of a great many parts, of which nothing is known
        return False


HANDLERS: dict[str, Callable[[Value, Perm], Demands | None]] = {
    **dict.fromkeys((*UNARY, *BINARY, "Cast", "Where", "Sum", "Mean", "Mod", "PRelu", "Clip"), _elementwise),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), _along_axis),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _over_last),
    **dict.fromkeys(REDUCTIONS, _reduction),
    "Concat": _concat, "Slice": _slice, "Pad": _pad, "Tile": _tile, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze,
    "Reshape": _reshape,
}  # fmt: skip
"""What each operator asks of its operands so that its result has its axes in another order."""


# ---------------------------------------------------------------------------------------------- regions


@attrs.define(eq=False)
class Node:
    """A value that is wanted with its axes in another order: what that costs, and how it is made."""

    value: Value
    perm: Perm
    cost: int = 1
    build: Callable[[Built], Value] | None = None
    extra: int = 0
    parts: tuple[Node, ...] = ()


def _is_trivial(perm: Perm) -> bool:
    return perm == tuple(range(len(perm)))


def _leaf_cost(graph: Graph, value: Value) -> int:
    """What a Transpose costs that is put on a value, where nothing above is looked at."""
    if value.op == CONSTANT and value.blob is not None:
        if len(graph.users.get(value, ())) == 1 or (small(value) is not None and not value.blob.is_weight):
            return 0
        return IMPOSSIBLE  # a weight that others use too would be turned at each run
    return 1


def _explored(graph: Graph, turn: Value, results: frozenset[Value]) -> tuple[Node, list[Value]] | None:
    """The region above a Transpose, its cheapest places found, and the values in it; None where it is too large."""
    source = turn.inputs[0]
    if source is None:
        return None
    root = Node(source, order(turn.attribute("perm"), source.rank))
    nodes, inside = [root], list[Value]()
    for node in nodes:  # grows while it is walked: operands come after users
        value = node.value
        if len(nodes) > FARTHEST:
            return None
        if _is_trivial(node.perm):
            node.cost = 0
            continue
        alone = len(graph.users.get(value, ())) == 1 and value not in results
        if value.op == "Transpose":
            inner = order(value.attribute("perm"), value.rank)
            node.cost = (0 if alone else 1) - int(_is_trivial(tuple(inner[i] for i in node.perm)))
            inside.append(value)
            continue
        handler = HANDLERS.get(value.op) if alone else None
        wanted = handler(value, node.perm) if handler is not None else None
        if wanted is None:
            node.cost = _leaf_cost(graph, value)
            continue
        inside.append(value)
        operands, node.build, node.extra = wanted
        node.parts = tuple(Node(v, perm) for v, perm in operands)
        nodes += node.parts
    for node in reversed(nodes):
        if node.build is None:
            continue
        total = node.extra + sum(part.cost for part in node.parts)
        if total < 1:
            node.cost = total
        else:
            node.build, node.parts, node.cost = None, (), 1
    return root, inside


def _made(root: Node) -> Value:
    """The turned value, operands first."""
    stack, built, walk = [root], dict[int, Value](), list[Node]()
    while stack:
        node = stack.pop()
        walk.append(node)
        stack += node.parts
    for node in reversed(walk):
        if node.build is not None:
            built[id(node)] = node.build([built[id(part)] for part in node.parts])
        else:
            built[id(node)] = _turned(node.value, node.perm)
    return built[id(root)]


def _turned(value: Value, perm: Perm) -> Value:
    """A value with its axes in another order, merged with the Transpose that it may be."""
    if value.op == CONSTANT and value.rank < len(perm):
        value = op.Unsqueeze(value, vector(range(len(perm) - value.rank))) if value.rank else value
    if value.op == "Transpose" and value.inputs[0] is not None:
        inner = order(value.attribute("perm"), value.rank)
        value, perm = value.inputs[0], tuple(inner[i] for i in perm)
    return value if _is_trivial(perm) or not value.rank else op.Transpose(value, perm=perm)


# ---------------------------------------------------------------------------------------------- the parts of a Split


def _split_between(graph: Graph, split: Value, results: frozenset[Value]) -> dict[Value, Value]:
    """Split(Transpose(x)), all of whose parts are turned back -> the parts of x, by the Transposes they stand for."""
    turn = split.inputs[0]
    if turn is None or turn.op != "Transpose" or len(graph.users.get(turn, ())) > 1 or turn in results:
        return {}
    inner = order(turn.attribute("perm"), turn.rank)
    outer: list[Value] = []
    items = graph.users.get(split, ())
    for item in items:
        users = graph.users.get(item, ())
        if item.op != ITEM or item in results or any(u.op != "Transpose" for u in users):
            return {}
        outer += users
    perms = {order(u.attribute("perm"), turn.rank) for u in outer}
    if len(perms) != 1 or not _is_trivial(tuple(inner[i] for i in perms.pop())):
        return {}
    place: int = attribute_of(split, "axis") % turn.rank
    axis = inner[place]
    count = len(types_of(split.type))
    made = call("Split", [turn.inputs[0], *split.inputs[1:]], {**dict(split.attributes), "axis": axis}, outputs=count)
    return {u: made[u.inputs[0].attributes[0][1]] for u in outer if u.inputs[0] is not None}


def cancel_transposes_here(graph: Graph) -> Graph:
    """The graph with fewer Transposes, outside of bodies; itself where none can be spared."""
    turns = [v for v in graph.order if v.op == "Transpose" and v.inputs[0] is not None]
    if len(turns) < 2:
        return graph
    results = frozenset(graph.results)
    swaps: dict[Value, Value] = {}
    touched: set[Value] = set()
    for turn in turns:
        source = turn.inputs[0]
        if turn in touched or source is None or source.op not in HANDLERS:
            continue
        found = _explored(graph, turn, results)
        if found is None or found[0].cost > 0 or not touched.isdisjoint(found[1]) or not found[0].parts:
            continue
        made = _made(found[0])
        if same_shape(made.shape, turn.shape):
            swaps[turn] = made.with_origin(turn.origin.after("cancel_transposes"))
            touched.update(found[1])
            touched.add(turn)
    for value in graph.order:
        if value.op == "Split" and value.inputs[0] is not None and value.inputs[0] not in touched:
            swaps.update(_split_between(graph, value, results))
    if not swaps:
        return graph
    built: dict[Value, Value] = {}
    for value in graph.order:  # what stands for a Transpose may lie above others that were spared
        if value in swaps:
            grow(built, (swaps[value],))
            built[value] = built[swaps[value]]
    grow(built, graph.results)
    return graph.with_results(built[r] for r in graph.results)


cancel_transposes: Pass = in_bodies(graph_pass(cancel_transposes_here))
"""Transposes that cancel over a distance, in bodies too."""
