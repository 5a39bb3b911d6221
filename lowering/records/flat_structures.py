"""Nested inputs and outputs, taken apart and put together by functions that are made once for a structure.

torch's pytree looks every class up at every call, and a cache of transformers is told as JSON each time. Here the
structure that a program was captured with becomes a tree of functions: an opener, which says at the first difference
that a value has another structure, and a builder.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any

import attrs
import torch

from lowering.records.pytrees import LENGTHS, Definitions, class_at, decode, length_of
from lowering.records.torch_internals import pytree

Opener = Callable[[Any, list[Any]], bool]
"""Appends the leaves of a value; False where its structure is another one."""
Builder = Callable[[Sequence[Any]], Any]
"""The value around all leaves of the whole structure."""
Nodes = Mapping[type, pytree.NodeDef]
SETTLED = (bool, int, float, str, type(None))


def nodes_of(registered: Definitions) -> Nodes:
    """How torch's pytree opened each class when a program was captured."""
    return {key: entry for table, key, entry in registered if table is pytree.SUPPORTED_NODES}


def is_cache(spec: pytree.TreeSpec) -> bool:
    """Whether a structure is that of a cache, which irkit itself takes apart."""
    return isinstance(spec.context, dict) and spec.context.keys() == {"paths", "state"}


# ---------------------------------------------------------------------------------------------- Opening


def opener_of(spec: pytree.TreeSpec, nodes: Nodes) -> Opener:
    """What takes a value of this structure apart."""
    if spec.is_leaf():
        return take_leaf
    if is_cache(spec):
        return state_opener(spec.context["state"])
    kind, context, node = spec.type, spec.context, nodes[spec.type]
    parts = [opener_of(child, nodes) for child in spec.children()]

    def opened(value: Any, leaves: list[Any]) -> bool:
        if type(value) is not kind:
            return False
        children, own = node.flatten_fn(value)
        if own != context or len(children) != len(parts):
            return False
        return all(part(child, leaves) for part, child in zip(parts, children, strict=True))

    return opened


def take_leaf(value: Any, leaves: list[Any]) -> bool:
    """Appends what is a leaf by its place; what it must be, whoever reads the leaves asks."""
    leaves.append(value)
    return True


def state_opener(state: Any) -> Opener:
    """What takes a part of a cache apart, by what `encode` wrote of it."""
    if not isinstance(state, dict):
        return lambda value, _: type(value) is type(state) and value == state
    if "object" in state:
        return object_opener(class_at(state["object"]), state["state"])
    ((tag, content),) = state.items()
    if tag == "leaf":
        return take_tensor
    if tag in ("list", "tuple"):
        kind = list if tag == "list" else tuple
        parts = [state_opener(each) for each in content]
        return lambda value, leaves: (
            type(value) is kind
            and len(value) == len(parts)
            and all(part(each, leaves) for part, each in zip(parts, value, strict=True))
        )
    if tag == "dict":
        keys, parts = [key for key, _ in content], [state_opener(each) for _, each in content]
        return lambda value, leaves: (
            type(value) is dict
            and list(value) == keys
            and all(part(each, leaves) for part, each in zip(parts, value.values(), strict=True))
        )
    known = decode(state, ())
    return lambda value, _: value == known


def take_tensor(value: Any, leaves: list[Any]) -> bool:
    """Appends a tensor."""
    leaves.append(value)
    return isinstance(value, torch.Tensor)


def object_opener(kind: type, state: Sequence[tuple[str, Any]]) -> Opener:
    """What takes an object apart: its class, and its attributes in their order."""
    names = [name for name, _ in state]
    settled = {name: each for name, each in state if type(each) in SETTLED}
    parts = [(name, attribute_opener(name, each)) for name, each in state if name not in settled]
    plain = list(settled.items())

    def opened(value: Any, leaves: list[Any]) -> bool:
        if type(value) is not kind:
            return False
        own = value.__dict__
        if list(own) != names:
            return False
        for name, known in plain:
            found = own[name]
            if found is not known and (type(found) is not type(known) or found != known):
                return False
        first = len(leaves)
        return all(part(own, leaves, first) for _, part in parts)

    return opened


def attribute_opener(name: str, state: Any) -> Callable[[Mapping[str, Any], list[Any], int], bool]:
    """What takes an attribute of an object apart whose leaves begin at a place. A count of tokens that was the length
    of the keys at capture is so at each call, and one that was another number is another number."""
    if isinstance(state, dict) and "length" in state:
        return lambda own, leaves, first: type(own[name]) is int and own[name] == length_after(leaves, first)
    if isinstance(state, dict) and "number" in state:
        twin = name.removeprefix("_").removesuffix("_tensor")
        return lambda own, _leaves, _first: isinstance(own[name], torch.Tensor) and own.get(twin) == state["number"]
    if isinstance(state, dict) and "leaf" in state and name in LENGTHS:

        def counted(own: Mapping[str, Any], leaves: list[Any], first: int) -> bool:
            count = own[name]
            told = type(count) is int and (len(leaves) <= first or count != length_after(leaves, first))
            leaves.append(count)
            return told or isinstance(count, torch.Tensor)

        return counted
    opened = state_opener(state)
    return lambda own, leaves, _: opened(own[name], leaves)


def length_after(leaves: Sequence[Any], first: int) -> Any:
    """How many tokens the keys at a place hold; None where nothing is there."""
    return length_of(leaves[first]) if first < len(leaves) else None


# ---------------------------------------------------------------------------------------------- Building


def builder_of(spec: pytree.TreeSpec, nodes: Nodes, without: frozenset[int] = frozenset(), start: int = 0) -> Builder:
    """What puts a structure together. A part all of whose leaves are among those that are left out, `without`, is None;
    so is each such leaf by itself."""
    if is_left_out(spec, without, start):
        return lambda _: None
    if spec.is_leaf():
        return itemgetter(start)
    if is_cache(spec):
        return state_builder(spec.context["state"], start)
    begins = list(accumulate((child.num_leaves for child in spec.children()), initial=start))[:-1]
    placed = list(zip(spec.children(), begins, strict=True))
    parts = [builder_of(child, nodes, without, begin) for child, begin in placed]
    node, context = nodes[spec.type], spec.context
    if spec.type is torch.Size:
        return lambda leaves: torch.Size([part(leaves) for part in parts])
    if is_record(spec.type):
        absent = [is_left_out(child, without, begin) for child, begin in placed]
        record = Record.of(lambda values: node.unflatten_fn(values, context), spec.type, parts, absent)
        if record is not None:
            return record
    return lambda leaves: node.unflatten_fn([part(leaves) for part in parts], context)


def is_left_out(spec: pytree.TreeSpec, without: frozenset[int], start: int) -> bool:
    """Whether all leaves of a part are left out."""
    return bool(spec.num_leaves) and without.issuperset(range(start, start + spec.num_leaves))


def is_record(kind: type) -> bool:
    """Whether a class is one of transformers' records of results, with that library's own way of being made."""
    base = next((each for each in kind.__mro__ if (each.__module__, each.__name__) == RECORD), None)
    return base is not None and all(getattr(kind, name) is getattr(base, name) for name in RECORD_WAYS)


RECORD = ("transformers.utils.generic", "ModelOutput")
RECORD_WAYS = ("__new__", "__post_init__", "__setattr__", "__setitem__")


@attrs.frozen(eq=False)
class Record:
    """What makes a record of transformers as its class does, which for each field that it sets goes through all.

    `fields` say which part stands under each name, where those are None that are `absent`, and the part of the `first`
    field, if there is one, is a tensor; all else is left to the class, by `unflatten` of all `parts`. `settled` has the
    names of all fields.
    """

    unflatten: Callable[[list[Any]], Any]
    kind: Any
    parts: Sequence[Builder]
    first: Builder | None
    settled: Mapping[str, None]
    fields: Sequence[tuple[str, Builder]]

    @classmethod
    def of(
        cls, unflatten: Callable[[list[Any]], Any], kind: Any, parts: Sequence[Builder], absent: list[bool]
    ) -> Record | None:
        """The way of a class, as it is seen from one record; None where that holds more than its parts, or has them
        under other names as attributes."""
        marks = [None if each else torch.empty(0) for each in absent]
        places = {id(mark): at for at, mark in enumerate(marks) if mark is not None}
        try:
            made = unflatten(list(marks))
        except Exception:  # classes raise anything
            return None
        own = vars(made)
        if type(made) is not kind or any(each is not None and id(each) not in places for each in own.values()):
            return None
        held = {name: each for name, each in own.items() if each is not None}
        entries = dict(dict.items(made))
        if list(entries) != list(held) or any(entries[name] is not each for name, each in held.items()):
            return None
        if len(held) != len(places):
            return None
        fields = [(name, parts[places[id(each)]]) for name, each in held.items()]
        first = dict(fields).get(next(iter(own), ""))
        return cls(unflatten, kind, parts, first, dict.fromkeys(own), fields)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """The record around all leaves of the whole structure."""
        if self.first is not None and type(self.first(leaves)) is not torch.Tensor:
            return self.unflatten([part(leaves) for part in self.parts])
        made = NEW(self.kind)
        own = made.__dict__
        own.update(self.settled)
        for name, part in self.fields:
            value = part(leaves)
            if value is None:
                return self.unflatten([part(leaves) for part in self.parts])
            SET(made, name, value)
            own[name] = value
        return made


NEW, SET = OrderedDict.__new__, OrderedDict.__setitem__
"""How a record is made, and an entry set, below what its class does beside."""


def put_together(leaves: list[Any], spec: pytree.TreeSpec, known: Definitions) -> Any:
    """The leaves of a structure in it. A torch.Size, of which torch's pytree makes a tuple, is one."""
    if holds_size(spec):
        return builder_of(spec, nodes_of(known))(leaves)
    return pytree.tree_unflatten(leaves, spec)


def holds_size(spec: pytree.TreeSpec) -> bool:
    """Whether a torch.Size is in a structure."""
    return spec.type is torch.Size or any(map(holds_size, spec.children()))


def state_builder(state: Any, start: int) -> Builder:
    """What puts a part of a cache together whose leaves begin at a place."""
    if not isinstance(state, dict):
        return lambda _: state
    if "object" in state:
        return object_builder(class_at(state["object"]), state["state"], start)
    ((tag, content),) = state.items()
    if tag == "leaf":
        return lambda leaves: leaves[start + content]
    if tag == "length":
        return lambda leaves: length_of(leaves[start + content])
    if tag in ("list", "tuple"):
        parts, kind = [state_builder(each, start) for each in content], list if tag == "list" else tuple
        return lambda leaves: kind([part(leaves) for part in parts])
    if tag == "dict":
        named = [(key, state_builder(each, start)) for key, each in content]
        return lambda leaves: {key: part(leaves) for key, part in named}
    if tag == "number":  # a tensor, which whoever gets it may write
        return lambda _: decode(state, ())
    known = decode(state, ())
    return lambda _: known


def is_settled(state: Any) -> bool:
    """Whether an attribute is the same object in each call: a number, a text, an element type, a device, a class."""
    return type(state) in SETTLED or (
        isinstance(state, dict) and not state.keys().isdisjoint(("torch", "device", "class"))
    )


def object_builder(kind: type, state: Sequence[tuple[str, Any]], start: int) -> Builder:
    """What makes an object of a class with these attributes."""
    template = dict.fromkeys(name for name, _ in state)  # the order of the attributes
    template |= {name: decode(each, ()) for name, each in state if is_settled(each)}
    parts = [(name, state_builder(each, start)) for name, each in state if not is_settled(each)]

    def built(leaves: Sequence[Any]) -> Any:
        made: Any = object.__new__(kind)
        own = made.__dict__
        own.update(template)
        for name, part in parts:
            own[name] = part(leaves)
        return made

    return built
