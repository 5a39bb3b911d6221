"""The structural digest of a graph: parameters by position, symbols by first use; names and origins take no part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, cast

import sympy

from irkit.core.blobs import Blob
from irkit.core.operator_names import name_key
from irkit.core.types import Optional, Sequence, Tensor, Tuple, Type, dims_of
from irkit.core.vocabulary import CONSTANT
from irkit.dims import Dim, is_fresh, notation, symbols_of
from irkit.support.results import as_tuple

if TYPE_CHECKING:
    from irkit.core.ir import Graph

MANY = 5
"""Of more new symbols in one expression than this, the order is that of their names."""


def digest(graph: Graph) -> bytes:
    """16 bytes, equal for graphs that are the same up to the names of parameters, results and symbols."""
    return summary(graph)[0]


def summary(graph: Graph, *, contents: bool = True) -> tuple[bytes, tuple[sympy.Symbol, ...]]:
    """(digest, symbols): the hash, and the symbols of the graph in the order in which it numbers them.

    Two bodies of one digest mean the same only where their symbols are the same too, since a body may speak of the
    symbols of the graph around it. Without `contents` large blobs count by their storage, and are not read: the hash
    is then good for as long as the graph lives.
    """
    hasher = hashlib.blake2b(digest_size=16)
    names: dict[sympy.Symbol, str] = {}
    number = {value: i for i, value in enumerate(graph.canonical)}
    types: dict[Type, str] = {}
    for value in graph.canonical:
        known = types.get(value.type)
        if known is None:
            known = types[value.type] = type_key(value.type, names)
        operands = tuple(-1 if v is None else number[v] for v in value.inputs)
        attributes = tuple((k, attribute_key(v, names, contents)) for k, v in value.attributes)
        inner = [(b.digest if contents else b.token) for b in value.bodies]
        bodies = tuple(
            (d.hex(), *(dim_key(s, names) for s in b.symbols_used)) for b, d in zip(value.bodies, inner, strict=True)
        )
        op = value.op if type(value.op) is str else name_key(value.op)
        hasher.update(repr((op, operands, attributes, bodies, known)).encode())
    hasher.update(repr((len(graph.params), tuple(number[r] for r in graph.results))).encode())
    hasher.update(repr(ranges(graph, names)).encode())
    return hasher.digest(), tuple(names)


def ranges(graph: Graph, names: dict[sympy.Symbol, str]) -> list[tuple[str, str]]:
    """The ranges of the symbols that the graph uses, by their number."""
    known = [s for s in names if s.name in graph.symbols and not is_fresh(s)]
    return sorted((names[s], str(graph.symbols[s.name])) for s in known)


def type_key(type_: Type, names: dict[sympy.Symbol, str]) -> str:
    """A type as text with its symbols numbered by first use; `names` is the caller's own numbering, which grows."""
    if isinstance(type_, Tensor):
        return f"{type_.dtype.short}[{','.join(dim_key(d, names) for d in type_.shape)}]"
    if isinstance(type_, Tuple):
        return f"({','.join(type_key(t, names) for t in type_.items)})"
    kind = {Sequence: "seq", Optional: "opt"}[type(type_)]
    return f"{kind}({type_key(type_.element, names)})"


def dim_key(dim: Dim, names: dict[sympy.Symbol, str]) -> str:
    """A dimension as text with numbered symbols; signed ones are told from the others."""
    if type(dim) is int:
        return str(dim)
    new = [s for s in symbols_of(dim) if s not in names]
    if len(new) > 1:
        # Which of several new symbols comes first must not depend on their names: the least text decides.
        orders = permutations(new) if len(new) <= MANY else [new]
        new = list(min(orders, key=lambda order: notation.text(dim, {**names, **numbered(order, len(names))})))
    names.update(numbered(new, len(names)))
    return numbered_text(dim, tuple([names[s] for s in symbols_of(dim)]))


@lru_cache(maxsize=1 << 14)
def numbered_text(dim: Dim, names: tuple[str, ...]) -> str:
    """A dimension as text with these names for its symbols: a graph says the same one of many values."""
    return notation.text(dim, dict(zip(symbols_of(dim), names, strict=True)))


def numbered(symbols: Iterable[sympy.Symbol], start: int) -> dict[sympy.Symbol, str]:
    """A name for each symbol, by its number from `start` up and by its sign."""
    return {s: f"{'s' if s.is_nonnegative else 'z'}{start + i}" for i, s in enumerate(symbols)}


def attribute_key(value: Any, names: dict[sympy.Symbol, str], contents: bool = True) -> Any:
    """An attribute as something whose `repr` tells it from every other; see `summary`."""
    if isinstance(value, Blob):
        return "blob", value.digest if contents else value.key
    if type(value) is tuple:
        return "list", *(attribute_key(v, names, contents) for v in cast("tuple[Any, ...]", value))
    if hasattr(value, "free_symbols"):
        return "dim", dim_key(value, names)
    if isinstance(value, Tensor | Sequence | Optional | Tuple):
        return "type", type_key(value, names)
    return value


_PLAIN = frozenset((int, float, str, Blob))
"""Types of attributes that hold no symbols."""


def symbols_in(graph: Graph) -> tuple[sympy.Symbol, ...]:
    """Every symbol that a type or a ShapeVector of the graph holds, by first use."""
    found: dict[sympy.Symbol, None] = {}
    seen: set[int] = set()  # of types and attributes, which many values share
    for value in graph.order:
        place = id(value.type)
        if place not in seen:
            seen.add(place)
            for dim in dims_of(value.type):
                if type(dim) is not int:
                    found.update(dict.fromkeys(symbols_of(dim)))
        if not value.attributes or value.op == CONSTANT or id(value.attributes) in seen:
            continue
        seen.add(id(value.attributes))
        for _, attribute in value.attributes:
            if type(attribute) in _PLAIN:
                continue
            for part in as_tuple(attribute):
                if hasattr(part, "free_symbols"):
                    found.update(dict.fromkeys(symbols_of(part)))
    return tuple(found)
