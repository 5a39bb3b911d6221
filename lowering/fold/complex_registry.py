"""Which converter serves an operator where something is complex.

A function `complex_<name>` or `complex_<name>_<overload>` in any module of `lowering/aten` serves the ATen operator,
and the primitive of the same name and arguments, where an operand or a result is complex; `complex_prims_<name>` serves
a primitive alone. It gets and returns what an `aten_` converter does, complex tensors as values of complex type, which
`lowering.tensors.complex_pairs` takes apart and makes: `parts(x)`, `pair(real, imaginary)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import attrs
from pyrsistent import PMap

from irkit.build import op
from irkit.core.ir import Value
from lowering.aten.aliases import ALIASES
from lowering.aten.complex.basics import both
from lowering.aten.further.prims import AS_ATEN
from lowering.fold.registry import (
    Converter,
    Entry,
    Registry,
    converter_modules,
    gather_converters,
    load_modules,
    standard_entry,
)
from lowering.tensors.complex_pairs import componentwise, is_complex, pair, parts
from lowering.tensors.promotion import truth


@cache
def complex_converters() -> PMap[str, Converter]:
    """irkit's own converters for complex tensors, by function name."""
    return gather_converters(*load_modules(converter_modules()), prefixes=("complex_",))


WHOLE = frozenset(
    f"lowering.aten.{name}"
    for name in (
        "complex.basics",
        "signal.fft",
        "linear_algebra.solve",
        "linear_algebra.factor",
        "linear_algebra.householder",
        "linear_algebra.symmetric",
        "linear_algebra.matrix_functions",
    )
)
"""The families whose `aten_*` converters take and return complex values themselves."""

MOVING = frozenset(
    """
    alias alias_copy as_strided as_strided_copy as_strided_scatter atleast_1d atleast_2d atleast_3d block_diag
    cartesian_prod broadcast_in_dim broadcast_tensors broadcast_to chunk clone collapse collapse_view
    constant_pad_nd contiguous copy_strided copy_to cumsum detach device_put diag diag_embed diagonal diagonal_copy
    diagonal_scatter empty empty_like empty_permuted empty_strided expand expand_as expand_copy fill flatten flip
    fliplr flipud full full_like gather index index_copy index_fill index_put index_select lift lift_fresh
    lift_fresh_copy linalg_diagonal masked_scatter masked_select mean meshgrid moveaxis movedim narrow narrow_copy
    neg negative new_empty new_empty_strided new_full new_ones new_zeros ones ones_like pad permute permute_copy
    pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle positive put ravel reflection_pad1d
    reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d
    reshape reshape_as resize resize_as resolve_neg rev roll rot90 scatter_add select select_copy select_scatter
    slice slice_copy slice_scatter split split_copy split_dim split_with_sizes split_with_sizes_copy squeeze
    squeeze_copy sum swapaxes swapdims t t_copy take take_along_dim tensor_split tile trace transpose transpose_copy
    tril triu unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes
    unsqueeze unsqueeze_copy view view_as view_copy view_of zero zeros zeros_like _pad_circular _reshape_alias
    _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view numpy_T mT
    scalar_tensor hsplit vsplit dsplit _chunk_cat hstack vstack dstack column_stack row_stack diff
    """.split()
)
"""Operators that move elements, or are linear with real coefficients, and so treat both parts alike."""

TRUTH = frozenset(
    "any all argwhere count_nonzero logical_and logical_not logical_or logical_xor nonzero nonzero_numpy "
    "nonzero_static".split()
)
"""Operators that ask of each element only whether it is 0."""

BILINEAR = frozenset(("mm", "bmm", "matmul", "mv", "dot", "outer", "kron"))
"""Operators that are products: (a + ib)(c + id) = (ac - bd) + i(ad + bc)."""

FILTERING = frozenset(
    "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d _convolution".split()
)
"""Operators that are products of their first two operands, with a third one added."""

SPREAD = frozenset(("var", "std", "var_mean", "std_mean"))
"""Variances, which are the sums of those of both parts, and their roots."""

SYNONYMS: Mapping[str, str] = {
    "_conj": "conj", "conj_physical": "conj", "_conj_physical": "conj", "true_divide": "div", "_to_copy": "to",
    "resolve_conj": "clone", **{name.removeprefix("aten_"): of.removeprefix("aten_") for name, of in ALIASES.items()},
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
        if known in complex_converters():
            return standard_entry(complex_converters()[known])
    if plain is not None and plain.function.__module__ in WHOLE:
        return plain
    if plain is not None and name in MOVING:
        return attrs.evolve(plain, function=componentwise(plain.function, plain.names), wants_expected=True)
    if plain is not None and name in TRUTH:
        return attrs.evolve(plain, function=of_truth(plain.function), wants_expected=False)
    if plain is not None and name in SPREAD:
        return attrs.evolve(plain, function=spread(plain.function, root=name.startswith("std")), wants_expected=False)
    if plain is not None and name in FILTERING:
        return attrs.evolve(plain, function=filtering(plain.function), wants_expected=False)
    if plain is not None and name in BILINEAR:
        return attrs.evolve(plain, function=product(plain.function), wants_expected=False)
    return None


def names_of(space: str, name: str, overload: str) -> tuple[str, ...]:
    """The names of converters looked for, in order."""
    own = (f"complex_prims_{name}",) if space == "prims" else ()
    if space == "prims" and name not in AS_ATEN | {"conj", "imag", "ne"}:
        return own
    return (*own, f"complex_{name}_{overload}", f"complex_{name}", f"complex_{SYNONYMS.get(name, name)}")


def of_truth(function: Callable[..., Any]) -> Callable[..., Any]:
    """The converter that is told of complex operands only where they are not 0."""

    def asked(*args: Any, **kwargs: Any) -> Any:
        return function(*(nonzero(a) if is_complex(a) else a for a in args), **kwargs)

    return asked


def nonzero(x: Any) -> Value:
    """Where a complex tensor is not 0: bool, in the shape of x."""
    a, b = parts(x)
    return op.Or(truth(a), truth(b))


def product(function: Callable[..., Value]) -> Callable[..., Value]:
    """The converter of a product of complex tensors, from that of real ones: twice where an operand is real."""

    def multiplied(self: Value, other: Value) -> Value:
        (a, b), (c, d) = both(self, other)
        if not other.dtype.is_complex:
            return pair(function(a, c), function(b, c))
        if not self.dtype.is_complex:
            return pair(function(a, c), function(a, d))
        real = op.Sub(function(a, c), function(b, d))
        return pair(real, op.Add(function(a, d), function(b, c)))

    return multiplied


def filtering(function: Callable[..., Value]) -> Callable[..., Value]:
    """The converter of a convolution of complex tensors, from that of real ones; the bias is added to the parts."""

    def filtered(input: Value, weight: Value, bias: Value | None = None, *args: Any, **kwargs: Any) -> Value:
        first, second = (None, None) if bias is None else parts(bias)
        (a, b), (c, d) = both(input, weight)
        real = function(a, c, first, *args, **kwargs)
        if not weight.dtype.is_complex:
            return pair(real, function(b, c, second, *args, **kwargs))
        imaginary = function(a, d, second, *args, **kwargs)
        if not input.dtype.is_complex:
            return pair(real, imaginary)
        real = op.Sub(real, function(b, d, None, *args, **kwargs))
        return pair(real, op.Add(imaginary, function(b, c, None, *args, **kwargs)))

    return filtered


def spread(function: Callable[..., Any], root: bool) -> Callable[..., Any]:
    """The converter of a variance of complex tensors or of its root, perhaps with the mean, from that of real ones."""

    def found(self: Value, *args: Any, **kwargs: Any) -> Any:
        halves = [function(part, *args, **kwargs) for part in parts(self)]
        a, b = (half[0] if isinstance(half, tuple) else half for half in halves)
        made = op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b))) if root else op.Add(a, b)
        return (made, pair(halves[0][1], halves[1][1])) if isinstance(halves[0], tuple) else made

    return found
