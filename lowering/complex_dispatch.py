"""Which converter serves an operator where something is complex."""

from __future__ import annotations

from typing import Any

import attrs

from lowering.aten import complex_
from lowering.complexes import componentwise
from lowering.registry import Entry, Registry, entry

WHOLE = frozenset((complex_.__name__, "lowering.aten.fft"))
"""The families whose `aten_*` converters take and return complex values themselves."""


def complex_entry(registry: Registry, target: Any) -> Entry | None:
    """The converter of an operator on complex tensors; None where there is none.

    The caller's own converter wins; then `complex_<name>_<overload>`, `complex_<name>`, the name it is a synonym of;
    then, for operators that move elements, that for real tensors on both parts.
    """
    plain = registry.find(target)
    if target in registry.custom:
        return plain
    space, _, name = target._schema.name.partition("::") if hasattr(target, "_schema") else ("", "", "")
    if space not in ("aten", "prims"):
        return None
    for known in (f"{name}_{target._overloadname}", name, complex_.SYNONYMS.get(name, "")):
        function = getattr(complex_, f"complex_{known}", None)
        if function is not None:
            return entry(function)
    if plain is not None and plain.function.__module__ in WHOLE:
        return plain
    if plain is not None and name in complex_.MOVING:
        return attrs.evolve(plain, function=componentwise(plain.function))
    if plain is not None and name in complex_.BILINEAR:
        return attrs.evolve(plain, function=complex_.product(plain.function), wants_expected=False)
    return None
