"""Numbers for dimension symbols, learned from arrays, and arrays held against types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import sympy

from irkit import dims
from irkit.core.types import DType, Optional, Tensor, Tuple, Type
from irkit.core.types import Sequence as SequenceType
from irkit.dims import Dim, Range, notation
from irkit.errors import DimensionError
from irkit.support.arguments import type_text

Computed = np.ndarray | list[Any] | tuple[Any, ...] | None
"""What a graph computes: an array, a list of them for a sequence, a tuple for several results, None for an optional."""


@attrs.define(eq=False)
class Binding:
    """What each symbol of one graph stands for, by label (see `dims.label`), and which parameter said so.

    `outer` holds the symbols of the graph around a body. It answers where the body itself says nothing; since a body
    that is called twice may give the same symbol another number each time, its own arrays come first.
    """

    values: dict[str, int] = attrs.field(factory=dict[str, int])
    sources: dict[str, str] = attrs.field(factory=dict[str, str])
    outer: Mapping[str, int] = attrs.field(factory=dict[str, int])
    pending: list[tuple[Dim, int, str]] = attrs.field(factory=list[tuple[Dim, int, str]])
    memo: dict[Dim, int] = attrs.field(factory=dict[Dim, int])

    def known(self) -> Mapping[str, int]:
        """All that is known here and around."""
        return {**self.outer, **self.values}

    # ------------------------------------------------------------------------------------------ parameters

    def feed(self, type_: Type, value: Any, name: str) -> None:
        """Binds symbols from what is fed to a parameter. Raises DimensionError for what does not fit its type."""
        problem = kind_problem(type_, value)
        if problem:
            raise DimensionError(f"{name} is fed {problem}", hint="feed an array of the parameter's type")
        if isinstance(type_, Tensor):
            self.shape(type_.shape, value.shape, name)

    def shape(self, dims_: Sequence[Dim], sizes: Sequence[int], name: str) -> None:
        """Binds symbols from the sizes of a parameter, as many as it has dimensions. Raises DimensionError where one of
        them contradicts what was said before."""
        for axis, (dim, size) in enumerate(zip(dims_, sizes, strict=True)):
            if self._own(dim) != size:
                self._fit(dim, size, f"dimension {axis} of {name}")

    def _fit(self, dim: Dim, size: int, place: str) -> None:
        if type(dim) is int:
            hint = "where it may vary, name it in dynamic_shapes when the model is captured"
            raise DimensionError(f"{place} is {size}, and must be {dim}", hint=hint)
        try:
            solved = dims.solve(dim, size)
        except DimensionError as error:
            raise DimensionError(
                f"{place} is {size}, which is not of the form {notation.text(dim)}",
                hint=f"give a size of the form {notation.text(dim)}; where others are right, capture the model anew",
            ) from error
        if solved is None:
            self.pending.append((dim, size, place))
            return
        label, number = solved
        if label in self.values:
            first = f"{label} is {self.values[label]} by {self.sources[label]}"
            raise DimensionError(
                f"{place} makes {label} = {number}, but {first}",
                hint=f"give inputs that agree on {label}; where these sizes differ, name them apart in dynamic_shapes",
            )
        problem = self._bind(dim, label, number, place)
        if problem:
            raise DimensionError(
                f"{place} is {size}: {problem}",
                hint="give larger inputs, or capture the model with another name for this size",
            )

    def _bind(self, dim: Dim, label: str, number: int, source: str) -> str:
        if number < 0 and all(s.is_nonnegative for s in dims.symbols_of(dim)):
            return f"{notation.text(dim)} cannot be that small: {label} would be {number}"
        self.values[label] = number
        self.sources[label] = source
        self.memo.clear()
        return ""

    def check_pending(self) -> None:
        """Raises DimensionError for a dimension that could not be solved when it was met, now that all are bound."""
        for dim, size, place in self.pending:
            number = self._own(dim)
            if number is not None and number != size:
                raise DimensionError(
                    f"{place} is {size}, and must be {notation.text(dim)} = {number}",
                    hint="give sizes that agree; where they are independent, name them apart in dynamic_shapes",
                )

    def check_ranges(self, ranges: Mapping[str, Range]) -> None:
        """Raises DimensionError for a symbol that lies outside its range."""
        for label, range_ in ranges.items():
            if label in self.values and self.values[label] not in range_:
                number, source = self.values[label], self.sources[label]
                raise DimensionError(
                    f"{label} is {number} by {source}, outside its range {range_}",
                    hint=f"give a size in {range_}, or capture the model with a wider range in dynamic_shapes",
                )

    # ------------------------------------------------------------------------------------------ computed values

    def result(self, type_: Type, value: Computed) -> str:
        """What contradicts the type in a computed result, or nothing. Open symbols are bound by what is there."""
        if isinstance(type_, Tensor) and isinstance(value, np.ndarray):  # the common case, without detours
            if value.dtype != type_.dtype.numpy or value.ndim != len(type_.shape):
                return f"the result is {complaint(value)}, where the type is {type_!r}"
            for dim, size in zip(type_.shape, value.shape, strict=True):
                if dim != size and not self._agrees(dim, size):
                    return f"the result is {complaint(value)}, where the type is {type_!r}{self._where(type_)}"
            return ""
        if isinstance(type_, Tuple):
            problems = (self.result(t, v) for t, v in zip(type_.items, () if value is None else value, strict=True))
            return next((p for p in problems if p), "")
        problem = kind_problem(type_, value)
        return f"the result is {problem}" if problem else ""

    def _agrees(self, dim: Dim, size: int) -> bool:
        number = self._own(dim)
        if number is not None:
            return number == size
        try:
            solved = dims.solve(dim, size)
        except DimensionError:
            return False
        return solved is None or not self._bind(dim, *solved, "a computed value")

    def _where(self, type_: Tensor) -> str:
        labels = dict.fromkeys(dims.label(s) for d in type_.shape for s in dims.symbols_of(d))
        said = [f"{label} = {self.values[label]}" for label in labels if label in self.values]
        return f", with {', '.join(said)}" if said else ""

    def content(self, symbol: sympy.Symbol, number: int, source: str = "a scalar") -> None:
        """Binds a symbol that is the content of a scalar. Raises DimensionError where another number is known of it."""
        label = dims.label(symbol)
        if self.values.get(label, number) != number:
            raise DimensionError(
                f"{label} is {self.values[label]} by {self.sources[label]}, and {number} by {source}",
                hint=f"give inputs that agree on {label}",
            )
        self.values[label], self.sources[label] = number, source

    # ------------------------------------------------------------------------------------------ numbers

    def number(self, dim: Dim) -> int | None:
        """The number that a dimension is; None where a symbol is unknown here and around."""
        found = self._own(dim)
        if found is not None:
            return found
        try:
            return dims.evaluate(dim, self.known())
        except DimensionError:
            return None

    def _own(self, dim: Dim) -> int | None:
        if type(dim) is int:
            return dim
        found = self.memo.get(dim)
        if found is None and all(dims.label(s) in self.values for s in dims.symbols_of(dim)):
            found = self.memo[dim] = dims.evaluate(dim, self.values)
        return found


def kind_problem(type_: Type, value: Computed) -> str:
    """What is wrong with the kind, element type or rank of a value; its dimensions are compared where they are ints."""
    if isinstance(type_, Tensor):
        if not isinstance(value, np.ndarray):
            return f"{complaint(value)}, where its type is {type_!r}"
        fits = value.dtype == type_.dtype.numpy and value.ndim == len(type_.shape)
        if not fits or any(type(d) is int and d != size for d, size in zip(type_.shape, value.shape, strict=True)):
            return f"{complaint(value)}, where its type is {type_!r}"
        return ""
    if isinstance(type_, SequenceType):
        if not isinstance(value, list):
            return f"{complaint(value)}, where its type is {type_!r}"
        return next((p for p in (kind_problem(type_.element, v) for v in value) if p), "")
    if isinstance(type_, Optional):
        return "" if value is None else kind_problem(type_.element, value)
    return ""


def complaint(value: Computed) -> str:
    """A value as a type: `f32[2, 3]`, or what else it is."""
    if isinstance(value, np.ndarray):
        try:
            return f"{DType.of(value.dtype).short}{list(value.shape)}"
        except KeyError:
            return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"{type_text(value)} of {len(value)}"
    return "nothing" if value is None else type_text(value)
