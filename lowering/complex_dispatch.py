"""Which converter serves an operator where something is complex.

A function `complex_<name>` or `complex_<name>_<overload>` in any module of `lowering/aten` serves the ATen operator,
and the primitive of the same name and arguments, where an operand or a result is complex; `complex_prims_<name>` serves
a primitive alone. It gets and returns what an `aten_` converter does, complex tensors as values of complex type, which
`lowering.complexes` takes apart and makes: `parts(x)`, `pair(real, imaginary)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from irkit.build import op
from irkit.ir import Value
from lowering.aten.complex_ import both
from lowering.aten.prims import AS_ATEN
from lowering.complexes import componentwise, pair
from lowering.registry import Entry, Registry, entry, families, gathered

COMPLEX = gathered(*families(), prefixes=("complex_",))
"""irkit's own converters for complex tensors, by function name."""

WHOLE = frozenset(("lowering.aten.complex_", "lowering.aten.fft"))
"""The families whose `aten_*` converters take and return complex values themselves."""

MOVING = frozenset(
    "alias broadcast_tensors broadcast_to chunk clone constant_pad_nd contiguous cumsum detach diag diag_embed "
    "diagonal expand expand_as flatten flip gather index index_select lift_fresh mean movedim narrow neg permute "
    "pixel_shuffle positive ravel repeat repeat_interleave reshape reshape_as roll select slice slice_scatter split "
    "split_with_sizes squeeze sum swapaxes t take tile transpose tril triu unbind unflatten unfold unsafe_chunk "
    "unsafe_split unsqueeze view view_as _unsafe_view numpy_T mT".split()
)
"""Operators that treat both parts alike."""

BILINEAR = frozenset(("mm", "bmm", "matmul", "mv", "dot", "outer"))
"""Operators that are products: (a + ib)(c + id) = (ac - bd) + i(ad + bc)."""

SYNONYMS: Mapping[str, str] = {
    "_conj": "conj", "conj_physical": "conj", "_conj_physical": "conj", "multiply": "mul", "subtract": "sub",
    "divide": "div", "true_divide": "div", "_to_copy": "to", "concat": "cat", "concatenate": "cat",
    "resolve_conj": "clone",
}  # fmt: skip
"""Operators that do what another one does."""


def has_converter(registry: Registry, target: Any) -> bool:
    """True where some converter serves the operator, on real tensors or on complex ones."""
    return registry.find(target) is not None or complex_entry(registry, target) is not None


def complex_entry(registry: Registry, target: Any) -> Entry | None:
    """The converter of an operator on complex tensors; None where there is none.

    The caller's own converter wins; then `complex_<name>_<overload>`, `complex_<name>`, the name it is a synonym of;
    then, for operators that move elements, that for real tensors on both parts.
    """
    plain = registry.find(target)
    if target in registry.custom or getattr(target, "overloadpacket", None) in registry.custom:
        return plain
    space, _, name = target._schema.name.partition("::") if hasattr(target, "_schema") else ("", "", "")
    if space not in ("aten", "prims"):
        return None
    for known in names_of(space, name, target._overloadname):
        if known in COMPLEX:
            return entry(COMPLEX[known])
    if plain is not None and plain.function.__module__ in WHOLE:
        return plain
    if plain is not None and name in MOVING:
        return attrs.evolve(plain, function=componentwise(plain.function))
    if plain is not None and name in BILINEAR:
        return attrs.evolve(plain, function=product(plain.function), wants_expected=False)
    return None


def names_of(space: str, name: str, overload: str) -> tuple[str, ...]:
    """The names of converters looked for, in order."""
    own = (f"complex_prims_{name}",) if space == "prims" else ()
    if space == "prims" and name not in AS_ATEN:
        return own
    return (*own, f"complex_{name}_{overload}", f"complex_{name}", f"complex_{SYNONYMS.get(name, name)}")


def product(function: Callable[..., Value]) -> Callable[..., Value]:
    """The converter of a product of complex tensors, from that of real ones."""

    def multiplied(self: Value, other: Value) -> Value:
        (a, b), (c, d) = both(self, other)
        real = op.Sub(function(a, c), function(b, d))
        return pair(real, op.Add(function(a, d), function(b, c)))

    return multiplied
