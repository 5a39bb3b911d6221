"""What the user said about dimensions, in any form that torch takes and a few more -> one statement for each leaf.

A statement about a dimension is None (static), a number, a `torch.export.Dim` (also derived: `2 * batch`), a hint
(`Dim.AUTO`, `Dim.DYNAMIC`, `Dim.STATIC`), or a string. A string is a name, the same name meaning the same size wherever
it stands, or an expression over names (`"past + seq"`); a `Dim` is a name with a range. torch is asked for `Dim.AUTO`
at such a dimension, so that it finds relations and ranges by itself; that the dimension stayed dynamic is checked
afterwards.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs
import sympy
import torch
from torch.export import Dim

from irkit import dims
from irkit.dims import notation
from irkit.errors import DimensionError
from irkit.support.arguments import type_text
from irkit.support.counts import count_text
from lowering.errors import CaptureError
from lowering.records.pytrees import HEADLESS, LENGTHS, SHORT_NAMES, STATES, Path

Hint = type(Dim.AUTO)
Statement = Any  # None | int | str | Dim | Hint
LeafStatement = Any  # {axis: Statement} for a tensor; a Statement for an int; None where nothing is dynamic
Groups = Mapping[str, Mapping[str, str]]  # "kwargs" -> {argument: its name in there}
Rest = list[tuple[Path, int]]  # leaves by number, each with what is left of its path

CACHE_FIELDS = frozenset(SHORT_NAMES) | frozenset(SHORT_NAMES.values())


@attrs.frozen(eq=False)
class Leaf:
    """One leaf of the example inputs: the user's name for it, its path from the argument on, and where torch finds it.

    `source` is torch's name for the leaf in guards: `L['past_key_values']['0.key']`.
    """

    name: str
    path: Path
    value: Any = attrs.field(repr=False)
    source: str = ""

    @property
    def is_tensor(self) -> bool:
        """Whether dimensions can be stated of it."""
        return isinstance(self.value, torch.Tensor)


@attrs.frozen
class Place:
    """A dimension that the user named: the leaf (by number), the axis (-1: the leaf is itself a size), and the name.

    `expr` is the name as a dimension: a symbol, or an expression over symbols. `least` and `most` are the range that a
    `torch.export.Dim` gives it.
    """

    leaf: int
    axis: int
    text: str
    expr: Any
    least: int = 0
    most: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether this is a name, not an expression."""
        return isinstance(self.expr, sympy.Symbol)


# ------------------------------------------------------------------------- From any form to one statement for each leaf


def statements(spec: Any, leaves: Sequence[Leaf], groups: Groups) -> list[LeafStatement]:
    """The user's `dynamic_shapes` -> one statement for each leaf, in order.

    `groups` tells which arguments stand behind `*args` and `**kwargs`, and what each is called in there. Raises
    CaptureError where a key, a structure, a rank or a dimension does not fit the inputs.
    """
    found: list[LeafStatement] = [None] * len(leaves)
    if spec is None:
        return found
    if isinstance(spec, Mapping):
        for key, each in spec.items():
            assign(by_name(key, leaves, groups, each), each, leaves, found)
    elif isinstance(spec, list | tuple):
        for name, each in zip(by_position(spec, leaves, groups), spec, strict=True):
            assign(by_name(name, leaves, groups), each, leaves, found)
    else:
        raise CaptureError(
            f"dynamic_shapes is {type_text(spec)}", hint="give a dict by argument name, or a tuple by position"
        )
    return found


def by_name(key: Any, leaves: Sequence[Leaf], groups: Groups, spec: Any = None) -> Rest:
    """The leaves that a key of `dynamic_shapes` speaks of: those of an argument, or the one leaf of that name."""
    whole: Rest = [(leaf.path[1:], i) for i, leaf in enumerate(leaves) if leaf.path[0] == key]
    if whole:
        return whole
    if key in groups:
        members = groups[key]
        return [((members[f.path[0]], *f.path[1:]), i) for i, f in enumerate(leaves) if f.path[0] in members]
    single: Rest = [((), i) for i, leaf in enumerate(leaves) if key in (leaf.name, ".".join(leaf.path))]
    if single or (isinstance(spec, dict | list | tuple) and not spec):  # of an argument that is an empty dict or list
        return single
    names = list(dict.fromkeys([*arguments_of(leaves), *(leaf.name for leaf in leaves), *groups]))
    near = difflib.get_close_matches(str(key), names, 1)
    raise CaptureError(
        f"dynamic_shapes speaks of {key!r}, and no input is called so",
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"the inputs are {', '.join(names)}",
    )


def arguments_of(leaves: Sequence[Leaf]) -> list[str]:
    """The names of the arguments that the leaves belong to, in order."""
    return list(dict.fromkeys(leaf.path[0] for leaf in leaves))


def by_position(spec: Sequence[Any], leaves: Sequence[Leaf], groups: Groups) -> list[str]:
    """The names that the entries of a tuple or list speak of: the parameters of the signature, or each argument."""
    arguments = arguments_of(leaves)
    owners = {member: name for name, members in groups.items() for member in members}
    parameters = list(dict.fromkeys(owners.get(argument, argument) for argument in arguments))
    given = arguments_of([leaf for leaf in leaves if leaf.value is not None])  # None has no dimensions to speak of
    for names in (parameters, arguments, given):
        if len(names) == len(spec):
            return names
    raise CaptureError(
        f"dynamic_shapes has {count_text(len(spec), 'entry', 'entries')} for "
        f"{count_text(len(arguments), 'input')} ({', '.join(arguments)})",
        hint="give one entry for each input, None for what is static; or a dict by name, where inputs may be left out",
    )


def assign(rest: Rest, spec: Any, leaves: Sequence[Leaf], found: list[LeafStatement]) -> None:
    """Writes what `spec` says about these leaves, each with the path that is left of it, to `found`."""

    def rank(i: int) -> int:
        return leaves[i].value.dim()

    if spec is None:
        return
    if len(rest) == 1 and not rest[0][0]:
        found[rest[0][1]] = leaf_statement(leaves[rest[0][1]], spec)
    elif is_dims(spec):
        # One dict for all of a container: for every tensor in it that has these axes.
        states = {i for path, i in rest if STATES.intersection(path) and leaves[i].is_tensor}
        headless = {i: HEADLESS[path[-1]] for path, i in rest if path and path[-1] in HEADLESS and leaves[i].is_tensor}
        others = [i for _, i in rest if leaves[i].is_tensor and i not in states and i not in headless]
        able = [i for i in others if all(-rank(i) <= axis < rank(i) for axis in spec)]
        for i in able or others:
            found[i] = leaf_statement(leaves[i], spec)
        for i in states:
            # What a layer remembers of all tokens does not grow with them.
            batch = {axis: each for axis, each in spec.items() if axis in (0, -rank(i))}
            found[i] = leaf_statement(leaves[i], batch)
        for i, axes in headless.items():
            # Keys have four axes: batch, heads, tokens, size of a head.
            moved = {axes[axis % 4]: each for axis, each in spec.items() if axis % 4 in axes}
            found[i] = leaf_statement(leaves[i], moved)
        count_on(rest, leaves, found)
    elif isinstance(spec, Mapping):
        for key, each in spec.items():
            assign(below(rest, str(key), leaves), each, leaves, found)
    elif isinstance(spec, list | tuple):
        some = without_counters(rest, spec)
        for part, each in split(some, spec, leaves):
            assign(part, each, leaves, found)
        if len(some) < len(rest):
            count_on(rest, leaves, found)
    else:
        raise misfit(rest, spec, leaves)


def count_on(rest: Rest, leaves: Sequence[Leaf], found: list[LeafStatement]) -> None:
    """Moves what was said of the length of full windows to their counters.

    A sliding window that is full keeps its size; what goes on growing is the number of tokens counted.
    """
    for layer, counter in full_windows(rest, leaves):
        for i in layer:
            found[counter] = (found[i] or {}).pop(leaves[i].value.dim() - 2, None) or found[counter]


def without_counters(rest: Rest, spec: Sequence[Any]) -> Rest:
    """The leaves but for counters of tokens, unless the description of the container has an entry for each leaf."""
    return rest if len(spec) == len(rest) else [(path, i) for path, i in rest if not path or path[-1] not in LENGTHS]


def full_windows(rest: Rest, leaves: Sequence[Leaf]) -> list[tuple[list[int], int]]:
    """(tensors, counter) by number, of each layer of a cache that has counted more tokens than it keeps."""
    found = []
    for path, counter in rest:
        if path and path[-1] in LENGTHS and not leaves[counter].is_tensor:
            where = leaves[counter].path[:-1]
            layer = [i for _, i in rest if leaves[i].is_tensor and leaves[i].path[:-1] == where]
            found.append(([i for i in layer if leaves[i].value.dim() >= 2], counter))
    return found


def below(rest: Rest, key: str, leaves: Sequence[Leaf]) -> Rest:
    """The leaves below the child `key` of a container: a name, a path (`0.key`), or all keys or values of a cache."""
    parts = tuple(key.split("."))
    chosen = [(path[len(parts) :], i) for path, i in rest if path[: len(parts)] == parts]
    chosen = chosen or [(path[1:], i) for path, i in rest if path[0] == key]
    if not chosen and key in CACHE_FIELDS:
        field = SHORT_NAMES.get(key, key)
        chosen = [(path[:-1], i) for path, i in rest if path[-1] == field]
    if not chosen:
        names = list(dict.fromkeys(path[0] for path, _ in rest if path))
        near = difflib.get_close_matches(key, names, 1)
        raise CaptureError(
            f"dynamic_shapes speaks of {key!r} inside {leaves[rest[0][1]].path[0]!r}, which holds nothing so called",
            hint=(f"did you mean {near[0]!r}? " if near else "") + f"it holds {', '.join(names)}",
        )
    return chosen


def split(rest: Rest, spec: Sequence[Any], leaves: Sequence[Leaf]) -> list[tuple[Any, Any]]:
    """Pairs of (leaves, what is said of them) for a sequence that describes a container.

    One entry for each leaf, one for each child, or, of a cache, all keys and then all values. Of two layers, lists in a
    list are keys and values, tuples in a list are layers. One entry for each leaf of a cache may stand in the order in
    which transformers takes it apart, all keys first, where what is said shows it.
    """
    heads = list(dict.fromkeys(path[0] for path, _ in rest if path))
    children = [([(path[1:], i) for path, i in rest if path[0] == head], head) for head in heads]
    one_each = len(spec) == len(rest) and all(each is None or is_dims(each) or is_dim_list(each) for each in spec)
    fields = [SHORT_NAMES.get(path[-1], path[-1]) for path, _ in rest]
    layered = set(fields) == {"key", "value"} and all(head.isdigit() for head in heads)
    halves = layered and len(spec) == 2 and all(isinstance(each, list) and 2 * len(each) == len(rest) for each in spec)
    order = [i for field in ("key", "value") for (_, i), own in zip(rest, fields, strict=True) if own == field]
    if halves and not one_each:
        return [([((), i)], each) for i, each in zip(order, [*spec[0], *spec[1]], strict=True)]
    if one_each and layered and keys_first(spec):
        return [([((), i)], each) for i, each in zip(order, spec, strict=True)]
    if one_each and len(heads) != len(spec):
        return [([((), i)], each) for (_, i), each in zip(rest, spec, strict=True)]
    if len(spec) == len(children):
        return [(part, each) for (part, _), each in zip(children, spec, strict=True)]
    some = [(path, i) for path, i in rest if leaves[i].value is not None]
    if some and len(some) < len(rest):  # None has no dimensions to speak of
        return split(some, spec, leaves)
    raise misfit(rest, spec, leaves)


def keys_first(spec: Sequence[Any]) -> bool:
    """Whether of a flat list for a cache the first half is alike and the second half is, but not both together."""
    half = len(spec) // 2
    keys, values = spec[:half], spec[half:]
    return (
        half > 1
        and keys[0] != values[0]
        and all(each == keys[0] for each in keys)
        and (all(each == values[0] for each in values))
    )


def misfit(rest: Rest, spec: Any, leaves: Sequence[Leaf]) -> CaptureError:
    """The error for a description whose structure is not that of the input."""
    names = [leaves[i].name for _, i in rest]
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return CaptureError(
        f"dynamic_shapes describes {leaves[rest[0][1]].path[0]!r} by {spec!r}, which has another structure",
        hint=f"it holds {shown}: describe each by a dict of axes, or all of them by one such dict",
    )


def is_statement(value: Any) -> bool:
    """Whether this can be said of one dimension."""
    return value is None or (isinstance(value, str | int | Dim | Hint) and not isinstance(value, bool))


def is_dims(spec: Any) -> bool:
    """Whether this is a dict from axes to statements."""
    return isinstance(spec, Mapping) and all(
        isinstance(axis, int) and is_statement(each) for axis, each in spec.items()
    )


def is_dim_list(spec: Any) -> bool:
    """Whether this is one statement for each axis, one of them at least more than None."""
    return isinstance(spec, list | tuple) and all(map(is_statement, spec))


def leaf_statement(leaf: Leaf, spec: Any) -> LeafStatement:
    """What is said of one leaf, checked: axes counted from the front, sizes as they are, names well-formed."""
    if spec is None:
        return None
    if not leaf.is_tensor:
        return number_statement(leaf, spec)
    shape = tuple(leaf.value.shape)
    if isinstance(spec, list | tuple):
        if len(spec) != len(shape):
            raise CaptureError(
                f"dynamic_shapes gives {count_text(len(spec), 'dimension')} for {leaf.name!r}, whose shape is {shape}",
                hint=f"give {len(shape)} of them, or a dict of the axes that vary",
            )
        spec = dict(enumerate(spec))
    if not is_dims(spec):
        raise CaptureError(
            f"dynamic_shapes says {spec!r} of {leaf.name!r}, which is a tensor",
            hint='give a dict from axes to dimensions: {0: "batch"}',
        )
    return {axis_of(leaf, axis): checked(leaf, axis, each) for axis, each in spec.items() if each is not None}


def number_statement(leaf: Leaf, spec: Any) -> LeafStatement:
    """What is said of a leaf that is not a tensor: only an int may vary."""
    if isinstance(leaf.value, int) and not isinstance(leaf.value, bool) and is_statement(spec):
        return None if isinstance(spec, int) or spec == Dim.STATIC else spec
    if isinstance(spec, Mapping | list | tuple) and not spec:
        return None
    raise CaptureError(
        f"dynamic_shapes says {spec!r} of {leaf.name!r}, which is {leaf.value!r} and part of the graph",
        hint="leave it out, or pass a tensor",
    )


def axis_of(leaf: Leaf, axis: int) -> int:
    """An axis counted from the front. Raises CaptureError where the tensor has no such axis."""
    rank = leaf.value.dim()
    if not -rank <= axis < rank:
        raise CaptureError(
            f"dynamic_shapes speaks of dimension {axis} of {leaf.name!r}, whose shape is {tuple(leaf.value.shape)}",
            hint=f"its dimensions are 0 to {rank - 1}" if rank else "it is a scalar and has none",
        )
    return axis % rank


def checked(leaf: Leaf, axis: int, each: Statement) -> Statement:
    """The statement itself. Raises CaptureError where it contradicts the example or is not a name."""
    size = leaf.value.shape[axis]
    if isinstance(each, int) and isinstance(size, int) and each != size:
        raise CaptureError(
            f"dynamic_shapes says that dimension {axis} of {leaf.name!r} is {each}, and the example has {size}",
            hint='give an example of that size, or a name such as "batch" where the size may vary',
        )
    if isinstance(each, str):
        expression(each)
    return each


def statements_of(found: Sequence[LeafStatement]) -> Iterator[Statement]:
    """Every statement about a dimension or a number."""
    for said in found:
        yield from said.values() if isinstance(said, dict) else (said,)


def with_names(found: Sequence[LeafStatement]) -> tuple[list[LeafStatement], tuple[str, ...]]:
    """(statements, notes): an expression over several names, none of which is that of a dimension, is a name too.

    Exporters write "cache+seq" for a size that is called so. What it is called then, and why, stands in the notes.
    """
    texts = list(statements_of(found))
    names = {text if isinstance(text, str) else text.__name__ for text in texts if isinstance(text, str | Dim)}
    plain = {name for name in names if name.isidentifier()}
    renamed: dict[str, str] = {}
    for text in dict.fromkeys(text for text in texts if isinstance(text, str) and not text.isidentifier()):
        size = expression(text)
        roots = [symbol.name for symbol in dims.symbols_of(size)]
        if len(roots) > 1 and plain.isdisjoint(roots):
            same = (name for other, name in renamed.items() if expression(other) == size)
            renamed[text] = next(same, None) or free_name(text, {*plain, *roots, *renamed.values()})
    if not renamed:
        return list(found), ()

    def settled(said: Statement) -> Statement:
        return renamed.get(said, said) if isinstance(said, str) else said

    notes = (f"{name} stands for {text!r}, none of whose names is a dimension" for text, name in renamed.items())
    settled_all = [{a: settled(s) for a, s in e.items()} if isinstance(e, dict) else settled(e) for e in found]
    return settled_all, tuple(notes)


def free_name(text: str, taken: Collection[str]) -> str:
    """An identifier like an expression: `cache_seq` for "cache + seq", followed by `_` where it is taken."""
    name = "".join(c if c.isalnum() else "_" for c in text.replace(" ", ""))
    name = name if name.isidentifier() else f"dim_{name}"
    while name in taken:
        name += "_"
    return name


def expression(text: str) -> Any:
    """The dimension that a name or an expression over names stands for. Raises CaptureError for what is neither."""
    if text.isidentifier():
        return dims.symbol(text)
    try:
        return notation.parse(text)
    except DimensionError as error:
        raise CaptureError(
            f"the dimension {text!r} is neither a name nor an expression over names",
            hint='write "batch", or "past + seq"',
        ) from error


# ---------------------------------------------------------------------------------------------- Names


def places_of(found: Sequence[LeafStatement]) -> tuple[Place, ...]:
    """Every dimension that has a name, in order: strings and torch's named dims."""
    places = []
    for i, said in enumerate(found):
        each = said if isinstance(said, dict) else {-1: said}
        for axis, statement in each.items():
            if isinstance(statement, str):
                places.append(Place(i, axis, statement, expression(statement)))
            elif isinstance(statement, Dim):
                name, limits = statement.__name__, range_of(statement)
                places.append(Place(i, axis, name, expression(name), limits[0] or 0, limits[1]))
    return tuple(places)


def hinted_places(found: Sequence[LeafStatement], metas: Sequence[Any], names: Mapping[str, str]) -> Iterator[Place]:
    """Every dimension of which a hint says that it may vary, and that does vary, with the name that it was given."""
    for i, said in enumerate(found):
        each = said if isinstance(said, dict) else {-1: said}
        for axis, statement in each.items():
            size = metas[i].shape[axis] if axis >= 0 else metas[i]
            expr = size.node.expr if isinstance(size, torch.SymInt) else None
            if isinstance(statement, Hint) and expr is not None and expr.is_Symbol and expr.name in names:
                name = names[expr.name]
                yield Place(i, axis, name, dims.symbol(name))


def range_of(said: Statement) -> tuple[int | None, int | None]:
    """(least, greatest) size that a Dim or a hint allows; None where it does not say."""
    low, high = (getattr(said, end, None) for end in ("min", "max"))
    return low if isinstance(low, int) and low > 0 else None, high if isinstance(high, int) else None


def bound_sizes(places: Sequence[Place], sizes: Sequence[Any]) -> dict[str, tuple[Any, Place]]:
    """Name -> the size it has at the first place that it stands at alone."""
    bound: dict[str, tuple[Any, Place]] = {}
    for place, size in zip(places, sizes, strict=True):
        if place.is_plain:
            bound.setdefault(place.expr.name, (size, place))
    return bound


def expected_size(place: Place, bound: Mapping[str, Any]) -> Any:
    """The size that a place must have, given the sizes of names; None where a name in it stands nowhere alone."""
    if any(symbol.name not in bound for symbol in dims.symbols_of(place.expr)):
        return None
    return value_of(place.expr, bound)


def value_of(expr: Any, sizes: Mapping[str, Any]) -> Any:
    """A dimension with numbers (or torch's symbolic numbers) in place of its names."""
    if type(expr) is int or expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return sizes[expr.name]
    parts = [value_of(part, sizes) for part in expr.args]
    if isinstance(expr, sympy.Add | sympy.Mul):
        total = parts[0]
        for part in parts[1:]:
            total = total + part if isinstance(expr, sympy.Add) else total * part
        return total
    two_sided = {dims.FloorDiv: lambda a, b: a // b, dims.Mod: lambda a, b: a % b, sympy.Pow: lambda a, b: a**b}
    if type(expr) in two_sided:
        return two_sided[type(expr)](*parts)
    raise CaptureError(
        f"the dimension {notation.text(expr)!r} uses a function that capture cannot state to torch",
        hint="use +, -, *, // and % only",
    )


def check_examples(places: Sequence[Place], leaves: Sequence[Leaf]) -> None:
    """Raises CaptureError where two places of one name have different sizes in the example inputs or different ranges,
    where an example is out of its range, and for numbers below 0."""
    sizes = [example_size(place, leaves) for place in places]
    bound = bound_sizes(places, sizes)
    for place, size in zip(places, sizes, strict=True):
        if size < 0:
            raise CaptureError(
                f"{location(place, leaves)} is {size}, and torch takes a number that varies for a size, 0 or more",
                hint="make it a tensor of rank 0, or leave it a constant",
            )
        if size < place.least or (place.most is not None and size > place.most):
            raise CaptureError(
                f"{location(place, leaves)} is {size} in the example, and the Dim {place.text!r} is from {place.least} "
                f"to {'any size' if place.most is None else place.most}",
                hint="give an example of a size in the range, or a Dim with another one",
            )
    check_ranges(places, leaves)
    plain = {name: size for name, (size, _) in bound.items()}
    for place, size in zip(places, sizes, strict=True):
        wanted = expected_size(place, plain)
        if wanted is None and not fits(place, size, plain):
            raise CaptureError(
                f"{location(place, leaves)} is {size} in the example, which is not of the form {place.text}",
                hint="give an example of such a size, or a plain name",
            )
        if wanted is not None and wanted != size:
            names = ", ".join(
                f"{name} is {plain[name]} at {location(bound[name][1], leaves)}"
                for name in sorted(symbol.name for symbol in dims.symbols_of(place.expr))
            )
            raise CaptureError(
                f"{location(place, leaves)} is {size} in the example, and {place.text!r} makes it {wanted}: {names}",
                hint="give dimensions that may differ different names, or examples whose sizes agree",
            )


def check_ranges(places: Sequence[Place], leaves: Sequence[Leaf]) -> None:
    """Raises CaptureError where two Dims of one name have different ranges."""
    ranged: dict[str, Place] = {}
    for place in places:
        if place.is_plain and (place.least or place.most is not None):
            first = ranged.setdefault(place.text, place)
            if (first.least, first.most) != (place.least, place.most):
                raise CaptureError(
                    f"the Dim {place.text!r} has one range at {location(first, leaves)} and another at "
                    f"{location(place, leaves)}",
                    hint="make one Dim, and state it at both; or give the other one a name of its own",
                )


def fits(place: Place, size: int, sizes: Mapping[str, int]) -> bool:
    """Whether the one name of an expression that has no size can be given one, so that the expression is `size`."""
    known = {symbol: sizes[symbol.name] for symbol in dims.symbols_of(place.expr) if symbol.name in sizes}
    try:
        found = dims.solve(place.expr.xreplace(known), size)
    except DimensionError:
        return False
    return found is None or found[1] >= 0


def example_size(place: Place, leaves: Sequence[Leaf]) -> int:
    """The size of a place in the example inputs."""
    value = leaves[place.leaf].value
    return int(value.shape[place.axis]) if place.axis >= 0 else int(value)


def location(place: Place, leaves: Sequence[Leaf]) -> str:
    """A place in words: `dimension 1 of 'x'`."""
    name = leaves[place.leaf].name
    return f"dimension {place.axis} of {name!r}" if place.axis >= 0 else f"the number {name!r}"
