"""Nested inputs and outputs: their leaves, the name of each leaf, and the classes torch's pytree has to learn.

torch.export sees through the classes that torch's pytree knows, which is a table of the process. What this file adds to
the table stays there for the time of one `registering(...)` block only: dataclasses, and the caches of transformers
(`DynamicCache`, `StaticCache`, `EncoderDecoderCache` and every other class of that family, found by what it is and
never imported by name, so that a class which a version of transformers renames or drops is no business of ours). A
class that is registered already, by its own library or by the user, is left as it is; one without keys for its children
has their positions as keys for the time of the block.

One thread at a time is in such a block, since whoever leaves first would take out what another still needs. A capture
is one block, as torch.export itself changes what all threads see; a call of a program has two short ones.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any

import torch

from irkit.support.arguments import type_text
from lowering.records.torch_internals import C, fx_pytree, pytree

Path = tuple[str, ...]
Definitions = tuple[tuple[dict[Any, Any], Any, Any], ...]
# In the place of an entry: the table has none.
ABSENT = object()
# By which torch.fx opens an argument where a program knows its structure; torch.export's programs do so at each call.
OPENED_BY_FX = (fx_pytree.SUPPORTED_NODES, fx_pytree.SUPPORTED_NODES_EXACT_MATCH)

# Attributes that hold one layer's tensors under a longer name than a user would write.
SHORT_NAMES = {"keys": "key", "values": "value", "key_cache": "key", "value_cache": "value"}
# Counters of tokens that follow from the length of the keys: never to be baked into a graph as numbers.
LENGTHS = frozenset({"cumulative_length", "_seen_tokens"})
# What a layer that reads token by token remembers of them, whose size does not grow with their number.
STATES = frozenset({"conv_states", "recurrent_states", "linear_cache"})
# What a layer keeps of all tokens for no head: axis of the keys (0 the batch, 2 the length) -> its own axis.
HEADLESS = MappingProxyType({"indexer_keys": {0: 0, 2: 1}, "indexer_position_ids": {0: 1, 2: 2}})
# What torch.export puts in place of an int that varies is a leaf as well.
WRAPPED = getattr(torch.export.dynamic_shapes, "_IntWrapper", torch.SymInt)
# Modules of transformers that register caches.
THEIRS = ("transformers.exporters", "transformers.integrations")
LEAVES = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, WRAPPED)
# Where a class has the names of its attributes that are seen through.
FIELDS = "_irkit_fields_"
# Where a class has the functions that take it apart and make of its parts what it stands for.
OPENED = "_irkit_opened_"
# Held by the thread that changes torch's tables: they are the process's, and so is their lock.
TABLES = threading.RLock()


class Registrations:
    """The classes added to torch's pytree by this block, those inside `objects` and what it is told; taken out again
    when the block ends. Blocks may be nested; another thread waits for the outermost one."""

    def __init__(self, objects: Iterable[object] = ()) -> None:
        self.objects = tuple(objects)
        self.types: list[type] = []
        self.keyless: dict[type, pytree.NodeDef] = {}
        self.theirs: list[Definitions] = []

    def __enter__(self) -> Registrations:
        TABLES.acquire()
        try:
            for each in self.objects:
                self.include(each)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Takes out what was added, and lets others in."""
        self.clear()
        TABLES.release()

    def clear(self) -> None:
        """Takes out what was added."""
        while self.types:
            forget(self.types.pop())
        while self.theirs:
            write_entries(self.theirs.pop())
        for kind, before in self.keyless.items():
            if kind in pytree.SUPPORTED_NODES:
                pytree.SUPPORTED_NODES[kind] = before
        self.keyless.clear()

    def include(self, tree: object) -> None:
        """Register every class met in `tree` that torch's pytree would take for a leaf and that can be opened."""
        pending = [tree]
        while pending:
            node = pending.pop()
            kind = pytree._get_node_type(node)
            self.set_aside(kind)
            if kind not in pytree.SUPPORTED_NODES:
                if not self.add(type(node)):
                    continue
                kind = type(node)
            elif pytree.SUPPORTED_NODES[kind].flatten_with_keys_fn is None:
                self.keyless[kind] = pytree.SUPPORTED_NODES[kind]
                pytree.SUPPORTED_NODES[kind] = with_positions(self.keyless[kind])
            opened = pytree.SUPPORTED_NODES[kind].flatten_fn
            if opened is not flatten_cache:  # in which there are tensors and numbers only
                pending += opened(node)[0]

    def set_aside(self, kind: type) -> None:
        """Takes a cache out of the table that transformers put there: its exporters name no leaf and fix every count,
        and `register_dynamic_cache_export_support` refuses caches with states and counts no tokens before a window.
        It stands there again when the block ends."""
        known = pytree.SUPPORTED_NODES.get(kind)
        if known is not None and known.flatten_fn.__module__.startswith(THEIRS) and is_cache_type(kind):
            self.theirs.append(tuple(entries(kind)))
            forget(kind)

    def add(self, kind: type) -> bool:
        """Whether `kind` could be registered, which it now is."""
        if kind in pytree.SUPPORTED_NODES:
            return True
        if is_cache_type(kind):
            register_cache(kind)
        elif FIELDS in vars(kind):
            register_fields(kind, vars(kind)[FIELDS])
        elif OPENED in vars(kind):
            flatten, unflatten = vars(kind)[OPENED]
            pytree.SUPPORTED_NODES[kind] = pytree.NodeDef(kind, flatten, unflatten, None)
        elif dataclasses.is_dataclass(kind):
            pytree.register_dataclass(kind, serialized_type_name=serialized_name(kind))
        else:
            return False
        self.types.append(kind)
        return True


def pytree_class(*fields: str) -> Callable[[type], type]:
    """A decorator for a class whose instances are arguments or results of models: their attributes of these names are
    seen through, all others are constants of the model.

    The class itself knows it, and torch's pytree only while a model is captured or called, or in a block of
    `lowering.patched(classes=[...])`. Raises TypeError where a name is no text.
    """
    if not fields or not all(isinstance(each, str) for each in fields):
        raise TypeError('name the attributes that hold tensors: @lowering.pytree_class("keys", "values")')

    def marked(kind: type) -> type:
        setattr(kind, FIELDS, fields)
        return kind

    return marked


def opened_class(flatten: Callable[[Any], Any], unflatten: Callable[..., Any]) -> Callable[[type], type]:
    """A decorator for a class of irkit's that stands for something else in what a model returns: `unflatten` makes that
    of the parts, which `flatten` gives with what else is known."""

    def marked(kind: type) -> type:
        setattr(kind, OPENED, (flatten, unflatten))
        return kind

    return marked


def register_fields(kind: type, fields: tuple[str, ...]) -> None:
    """Teach torch's pytree a class by the names of its attributes that are seen through."""

    def flatten(value: Any) -> tuple[list[Any], Any]:
        rest = {name: each for name, each in vars(value).items() if name not in fields}
        return [getattr(value, name) for name in fields], rest

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, rest = flatten(value)
        return [(pytree.GetAttrKey(name), child) for name, child in zip(fields, children, strict=True)], rest

    def unflatten(children: Iterable[Any], rest: Any) -> Any:
        made: Any = object.__new__(kind)
        for name, child in (*rest.items(), *zip(fields, children, strict=True)):
            object.__setattr__(made, name, child)
        return made

    register = getattr(pytree, "_private_register_pytree_node", pytree.register_pytree_node)
    register(
        kind, flatten, unflatten, serialized_type_name=serialized_name(kind), flatten_with_keys_fn=flatten_with_keys
    )


def with_positions(node: pytree.NodeDef) -> pytree.NodeDef:
    """What torch knows of a class, with the position of each child as its key: torch.export asks for keys."""

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = node.flatten_fn(value)
        return [(pytree.SequenceKey(i), child) for i, child in enumerate(children)], context

    return node._replace(flatten_with_keys_fn=flatten_with_keys)


def register_classes(*objects: object) -> Registrations:
    """A block in which torch's pytree knows every class inside `objects` -> the block, to be told of more."""
    return Registrations(objects)


def definitions(*specs: pytree.TreeSpec | None) -> Definitions:
    """What torch's tables hold now of each class in these structures: (table, key, entry)."""
    pending, found = [spec for spec in specs if spec is not None], {}
    while pending:
        spec = pending.pop()
        pending += spec.children()
        found[spec.type] = None
    return tuple(entry for kind in found if kind in pytree.SUPPORTED_NODES for entry in entries(kind))


def entries(kind: type) -> Iterator[tuple[dict[Any, Any], Any, Any]]:
    """What torch's tables hold of a class: (table, key, entry or ABSENT)."""
    yield pytree.SUPPORTED_NODES, kind, pytree.SUPPORTED_NODES[kind]
    yield from ((table, kind, table.get(kind, ABSENT)) for table in OPENED_BY_FX)
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    if known is not None:
        yield pytree.SUPPORTED_SERIALIZED_TYPES, kind, known
        yield pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, known.serialized_type_name, kind


@contextmanager
def use_definitions(known: Definitions) -> Iterator[None]:
    """A block in which torch's pytree opens classes as it did when they were captured, whoever has registered them or
    taken them out since."""
    with TABLES:
        now = [(table, key, table.get(key, ABSENT)) for table, key, _ in known]
        write_entries(known)
        try:
            yield
        finally:
            write_entries(now)


def write_entries(known: Iterable[tuple[dict[Any, Any], Any, Any]]) -> None:
    """Put entries into torch's tables, and take out those that are ABSENT."""
    for table, key, entry in known:
        if entry is ABSENT:
            table.pop(key, None)
        else:
            table[key] = entry


def forget(kind: type) -> None:
    """Take `kind` out of torch's tables; a class that somebody else took out already is no error."""
    name = getattr(pytree.SUPPORTED_SERIALIZED_TYPES.get(kind), "serialized_type_name", None)
    pytree.SUPPORTED_NODES.pop(kind, None)
    pytree.SUPPORTED_SERIALIZED_TYPES.pop(kind, None)
    for table in OPENED_BY_FX:
        table.pop(kind, None)
    if name is not None:
        pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(name, None)


def serialized_name(kind: type) -> str:
    """The name under which a saved program refers to `kind`."""
    return f"irkit.{kind.__module__}.{kind.__qualname__}"


# ------------------------------------------------------------------------------------------- The caches of transformers


def is_cache_type(kind: type) -> bool:
    """Whether `kind` is a cache of transformers, or derived from one, by where its bases come from and their names."""
    return any(
        base.__module__.partition(".")[0] == "transformers" and base.__name__.endswith("Cache") for base in kind.__mro__
    )


def known_cache_types() -> tuple[type, ...]:
    """The cache classes of a transformers that is imported already; none where it is not."""
    module = sys.modules.get("transformers.cache_utils")
    found = [each for each in vars(module).values() if isinstance(each, type)] if module else []
    return tuple(dict.fromkeys(kind for kind in found if is_cache_type(kind)))


@dataclasses.dataclass(frozen=True)
class Implied:
    """What stands for a tensor that a call leaves out and that follows from the others: one of a cache in which nothing
    is yet, or a mask that hides nothing, all of whose elements are `fill`."""

    fill: int = 0


def empty_leaves(value: object, captured: pytree.TreeSpec) -> list[Implied] | None:
    """For a cache that holds nothing yet what stands for each leaf that it held at capture; None for anything else.

    A cache over an encoder's states is no such one: its first call computes what later calls read.
    """
    kind = captured.type
    if kind is None or type(value) is not kind or not is_cache_type(kind):
        return None
    crossed = any(base.__name__ == "EncoderDecoderCache" for base in kind.__mro__)
    if crossed or any(leaf.numel() for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)):
        return None
    paths = leaf_paths(captured)
    return None if any(path[-1] in STATES for path in paths) else [Implied()] * len(paths)


def register_cache(kind: type) -> None:
    """Teach torch's pytree the leaves of a cache: its tensors, layer by layer, named `0.key`, `0.value`, ..."""
    # The private form leaves the C++ pytree alone, whose registrations cannot be taken back; torch's own
    # register_dataclass uses it for the same reason, and falls back to the public one the day it is gone.
    register = getattr(pytree, "_private_register_pytree_node", pytree.register_pytree_node)
    register(
        kind,
        flatten_cache,
        unflatten_cache,
        serialized_type_name=serialized_name(kind),
        flatten_with_keys_fn=flatten_cache_with_keys,
    )


def flatten_cache(cache: object) -> tuple[list[Any], dict[str, Any]]:
    """A cache -> its tensors, and all that is needed to build it again around other tensors (plain JSON)."""
    leaves: list[Any] = []
    paths: list[str] = []
    state = encode(cache, (), leaves, paths)
    return leaves, {"paths": paths, "state": state}


def flatten_cache_with_keys(cache: object) -> tuple[list[tuple[Any, Any]], dict[str, Any]]:
    """The same, each tensor with its path as the key."""
    leaves, context = flatten_cache(cache)
    return [(pytree.MappingKey(path), leaf) for path, leaf in zip(context["paths"], leaves, strict=True)], context


def unflatten_cache(leaves: Iterable[Any], context: dict[str, Any]) -> Any:
    """What `flatten_cache` took apart, around these leaves."""
    return decode(context["state"], list(leaves))


def encode(value: Any, path: Path, leaves: list[Any], paths: list[str]) -> Any:
    """`value` as JSON, its tensors (and sizes that vary) moved to `leaves` and their paths to `paths`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, LEAVES):
        leaves.append(value)
        paths.append(".".join(path))
        return {"leaf": len(leaves) - 1}
    if isinstance(value, torch.dtype | torch.layout):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, type):
        return {"class": class_path(value)}
    if type(value) in (list, tuple, torch.Size):
        items = [encode(each, (*path, str(i)), leaves, paths) for i, each in enumerate(value)]
        return {"list" if type(value) is list else "tuple": items}
    if type(value) is dict:
        return {"dict": [[key, encode(each, (*path, str(key)), leaves, paths)] for key, each in value.items()]}
    if hasattr(value, "__dict__") and not callable(value):
        return {"object": class_path(type(value)), "state": encode_attributes(value, path, leaves, paths)}
    where = ".".join(path) or "the cache"
    raise TypeError(
        f"{where} holds {type_text(value)}, which cannot be part of a model's input or output; "
        "pass a cache that holds tensors and plain values only"
    )


def encode_attributes(value: object, path: Path, leaves: list[Any], paths: list[str]) -> list[list[Any]]:
    """The attributes of an object as JSON; a counter that equals the length of its keys is kept as "that length".

    Another counter (a sliding window is full, and goes on counting) is a leaf. A number that is kept a second time, as
    a tensor (`_sliding_window_tensor`), is not an input.
    """
    first = len(leaves)
    attributes: list[list[Any]] = []
    own = vars(value)
    for name, each in own.items():
        if each is None or type(each) is bool:
            attributes.append([name, each])
            continue
        twin = own.get(name.removeprefix("_").removesuffix("_tensor")) if name.endswith("_tensor") else None
        if name in LENGTHS and first < len(leaves) and same_size(each, length_of(leaves[first])):
            attributes.append([name, {"length": first}])
        elif name in LENGTHS and first < len(leaves) and type(each) is int:
            leaves.append(each)
            paths.append(".".join((*path, name)))
            attributes.append([name, {"leaf": len(leaves) - 1}])
        elif type(twin) is int and isinstance(each, torch.Tensor):
            attributes.append([name, {"number": twin}])
        else:
            inner = path if name == "layers" else (*path, SHORT_NAMES.get(name, name))
            attributes.append([name, encode(each, inner, leaves, paths)])
    return attributes


def decode(state: Any, leaves: Sequence[Any]) -> Any:
    """The value that `encode` turned to JSON, with `leaves` in their places."""
    if type(state) is not dict:
        return state
    if "leaf" in state:
        return leaves[state["leaf"]]
    if "object" in state:
        kind = class_at(state["object"])
        rebuilt: Any = object.__new__(kind)
        held = rebuilt.__dict__
        for name, each in state["state"]:
            held[name] = decode(each, leaves) if type(each) is dict else each
        return rebuilt
    ((tag, content),) = state.items()
    if tag in ("list", "tuple"):
        items = [decode(each, leaves) for each in content]
        return items if tag == "list" else tuple(items)
    if tag == "dict":
        return {key: decode(each, leaves) for key, each in content}
    return length_of(leaves[content]) if tag == "length" else DECODERS[tag](content)


def length_of(keys: Any) -> Any:
    """How many tokens these keys (or values) hold; None for what is not a tensor of that shape."""
    if isinstance(keys, torch.Tensor):
        with C.DisableTorchFunction():  # a cache has one for each layer
            return keys.size(-2) if keys.dim() >= 2 else None
    shape = getattr(keys, "shape", ())
    return shape[-2] if len(shape) >= 2 else None


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are the same number or the same expression, without asking torch to assume anything."""
    if isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt):
        return bool(a.node.expr == b.node.expr)
    return type(a) is int and type(b) is int and a == b


def class_path(kind: type) -> str:
    """`module:qualified.name` of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def class_at(path: str) -> type:
    """The class that `class_path` named."""
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def device_named(text: str) -> torch.device:
    """The device of a name, of which modes through which torch hands over its functions are not told."""
    with C.DisableTorchFunction():
        return torch.device(text)


DECODERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType({
    "number": torch.tensor, "torch": partial(getattr, torch), "device": device_named, "class": class_at,
})  # fmt: skip
"""What gives back the values that `encode` says by a word or a number."""


# ---------------------------------------------------------------------------------------------- Names of leaves


def leaf_paths(spec: pytree.TreeSpec) -> list[Path]:
    """The path of each leaf of a tree, in the order of the leaves: `("past_key_values", "0", "key")`."""
    if spec.is_leaf():
        return [()]
    paths = []
    for key, child in zip(child_keys(spec), spec.children(), strict=True):
        paths += [tidied((*key, *rest)) for rest in leaf_paths(child)]
    return paths


def child_keys(spec: pytree.TreeSpec) -> list[Path]:
    """How each child of a node is called: by field, by key or by position, whatever the context tells."""
    count, context = spec.num_children, spec.context
    if spec.type is defaultdict:
        return [(str(key),) for key in context[1]]
    if isinstance(context, type) and hasattr(context, "_fields"):
        return [(field,) for field in context._fields]
    if isinstance(context, dict) and "paths" in context:
        return [tuple(path.split(".")) for path in context["paths"]]
    candidates = [context, context[0]] if isinstance(context, list | tuple) and context else [context]
    for keys in candidates:
        if isinstance(keys, list | tuple) and len(keys) == count and all(isinstance(key, str | int) for key in keys):
            return [(str(key),) for key in keys]
    return [(str(i),) for i in range(count)]


def tidied(path: Path) -> Path:
    """`key_cache.0` -> `0.key`: one name for a cache's tensors, whoever registered the class."""
    for i in range(len(path) - 1):
        if path[i] in ("key_cache", "value_cache") and path[i + 1].isdigit():
            return (*path[:i], path[i + 1], SHORT_NAMES[path[i]], *path[i + 2 :])
    return path


def unique_names(names: Iterable[str]) -> list[str]:
    """The names, a repeated one followed by `_1`, `_2`, ... in order of appearance."""
    wanted = list(names)
    taken = set(wanted)
    seen: set[str] = set()
    result = []
    for name in wanted:
        free, count = name, 0
        while free in seen or (count and free in taken):
            count += 1
            free = f"{name}_{count}"
        seen.add(free)
        result.append(free)
    return result


def is_names(given: Any) -> bool:
    """True for what can be gone through and gives texts, none of them empty; a text itself is not a list of names."""
    return (
        isinstance(given, Iterable)
        and not isinstance(given, str | bytes)
        and all(isinstance(name, str) and name for name in given)
    )
