"""How two structures of arguments differ, in words."""

from __future__ import annotations

from typing import Any

from lowering.records.pytrees import Path, child_keys
from lowering.records.torch_internals import pytree


def difference(given: pytree.TreeSpec, wanted: pytree.TreeSpec, path: Path) -> str:
    """The first place where two structures differ, and how: what is given there, and what was at capture; empty where
    they are the same. `path` is where they stand."""
    if given == wanted:
        return ""
    where = ".".join(path)
    if given.type is not wanted.type:
        return f"{where} is {kind_of(given)}, and was {kind_of(wanted)}"
    if "state" in (given.context if isinstance(given.context, dict) else ()) and given.context != wanted.context:
        return encoded_difference(given.context["state"], wanted.context["state"], path)
    mine, own = child_keys(given), child_keys(wanted)
    if mine != own:
        more = [".".join(key) for key in mine if key not in own]
        less = [".".join(key) for key in own if key not in mine]
        parts = [f"it has {', '.join(more)} too"] * bool(more) + [f"it lacks {', '.join(less)}"] * bool(less)
        return f"{where} is not what it was: {' and '.join(parts) or 'its entries are in another order'}"
    for key, left, right in zip(mine, given.children(), wanted.children(), strict=True):
        found = difference(left, right, (*path, *key))
        if found:
            return found
    return f"{where} differs in what it is beside its tensors: {given.context!r}, where it was {wanted.context!r}"


def kind_of(spec: pytree.TreeSpec) -> str:
    """A node in words."""
    return "a single value" if spec.is_leaf() else f"a {spec.type.__name__}" if spec.type else "None"


def encoded_difference(given: Any, wanted: Any, path: Path) -> str:
    """The first difference between two caches as `pytrees.encode` wrote them; empty where there is none."""
    where = ".".join(path)
    if given == wanted:
        return ""
    mine, own = opened(given), opened(wanted)
    if mine is None or own is None:
        return f"{where} is {in_words(given)}, and was {in_words(wanted)}"
    if list(mine) != list(own):
        return f"{where} holds {', '.join(mine) or 'nothing'}, and held {', '.join(own) or 'nothing'}"
    inner = {key: path if key == "layers" else (*path, key) for key in mine}
    found = (encoded_difference(mine[key], own[key], inner[key]) for key in mine)
    return next(filter(None, found), f"{where} is {in_words(given)}, and was {in_words(wanted)}")


def opened(encoded: Any) -> dict[str, Any] | None:
    """What an encoded container holds by name; None for what is none."""
    if not isinstance(encoded, dict):
        return None
    for kind in ("list", "tuple"):
        if kind in encoded:
            return {str(i): each for i, each in enumerate(encoded[kind])}
    for kind in ("dict", "state"):
        if kind in encoded:
            return {str(key): each for key, each in encoded[kind]}
    return None


def in_words(encoded: Any) -> str:
    """What `pytrees.encode` wrote of one value."""
    if not isinstance(encoded, dict):
        return repr(encoded)
    tag, content = next(iter(encoded.items()))
    words = {"leaf": "a tensor or number of its own", "length": "the length of the keys"}
    if tag in words:
        return words[tag]
    if tag == "object":
        return f"a {content.rpartition(':')[2]}"
    return f"a {tag}" if isinstance(content, list) else str(content)
