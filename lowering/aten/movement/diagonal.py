"""Diagonals: taken out, laid in, and put in place of others."""

from __future__ import annotations

from functools import reduce

from irkit import dims
from irkit.build import dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.dims import Dim
from lowering.aten.elementwise.arithmetic import choose
from lowering.tensors.promotion import Number, cast, scalar
from lowering.tensors.shaping import align_axis, axis, ints, iota, permute, reshape, slice_axis, unsqueeze


def last_two(x: Value, dim1: int, dim2: int) -> Value:
    """x with two dimensions moved to the end."""
    a, b = axis(dim1, x.rank), axis(dim2, x.rank)
    return permute(x, (*(i for i in range(x.rank) if i not in (a, b)), a, b))


def length(rows: Dim, columns: Dim, offset: Dim) -> Dim:
    """How many elements a diagonal has."""
    if type(offset) is not int:  # of either sign
        ends = (rows, columns, dims.sub(columns, offset), dims.add(rows, offset))
        return dims.maximum(reduce(dims.minimum, ends), 0)
    low, high = (rows, dims.sub(columns, offset)) if offset >= 0 else (dims.add(rows, offset), columns)
    return dims.maximum(dims.minimum(low, high), 0)


def start_of(columns: Dim, offset: Dim) -> Dim:
    """The place in a matrix laid flat at which a diagonal starts."""
    if type(offset) is int:
        return offset if offset >= 0 else dims.mul(columns, -offset)
    before, after = beside(offset)
    return dims.add(after, dims.mul(columns, before))


def aten_diagonal(self: Value, offset: Dim = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The elements of the dimensions dim1 and dim2 whose indices differ by offset, as the last dimension.

    In the matrix laid flat, they stand columns + 1 apart.
    """
    x = last_two(self, dim1, dim2)
    *lead, rows, columns = x.shape
    count = length(rows, columns, offset)
    if type(count) is int and count == 0:
        return slice_axis(reshape(x, (*lead, dims.mul(rows, columns))), len(lead), 0, 0)
    start = start_of(columns, offset)
    step = dims.add(columns, 1)
    stop = dims.add(start, dims.mul(step, count))
    taken = slice_axis(reshape(x, (*lead, dims.mul(rows, columns))), len(lead), start, stop, step)
    return taken.with_type(Tensor(x.dtype, (*lead, count)))  # which a step that is no number does not tell


def aten_linalg_diagonal(A: Value, *, offset: Dim = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """The elements whose indices differ by offset, as the last dimension."""
    return aten_diagonal(A, offset, dim1, dim2)


def aten_diag(self: Value, diagonal: Dim = 0) -> Value:
    """The diagonal of a matrix, or the matrix with that diagonal."""
    return aten_diag_embed(self, diagonal) if self.rank == 1 else aten_diagonal(self, diagonal)


def on_diagonal(rows: Dim, columns: Dim, offset: Dim) -> Value:
    """True where column - row is offset: (rows, columns)."""
    return op.Equal(op.Add(unsqueeze(iota(rows), 1), dim_scalar(offset)), iota(columns))


def beside(offset: Dim) -> tuple[Dim, Dim]:
    """How many rows lie before a diagonal, and how many after it."""
    return dims.maximum(dims.mul(offset, -1), 0), dims.maximum(offset, 0)


def aten_fill_diagonal_(self: Value, fill_value: Number, wrap: bool = False) -> Value:
    """self with `fill_value` where all indices are equal; in a matrix of more rows than columns, with `wrap`, once more
    after each row that is left out below the diagonal."""
    if self.rank == 2 and wrap:
        columns = self.shape[1]
        row = op.Mod(iota(self.shape[0]), dim_scalar(dims.add(columns, 1)))
        at = op.Equal(unsqueeze(row, 1), iota(columns))
    else:
        first = align_axis(iota(self.shape[0]), 0, self.rank)
        at = reduce(op.And, (op.Equal(first, align_axis(iota(n), i, self.rank)) for i, n in enumerate(self.shape) if i))
    return choose(at, scalar(fill_value, self.dtype), self)


def aten_diag_embed(self: Value, offset: Dim = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Square matrices with the last dimension of self as a diagonal, in the dimensions dim1 and dim2."""
    last = self.rank - 1
    before, after = beside(offset)
    size = dims.add(self.shape[last], dims.add(before, after))
    # Row i holds self[i] for offset >= 0, and self[i + offset] below.
    x = self if offset == 0 else op.Pad(self, shape_vector((before, after)), None, ints(last))
    matrix = choose(on_diagonal(size, size, offset), unsqueeze(x, -1), scalar(0, self.dtype))
    rank = self.rank + 1
    a, b = axis(dim1, rank), axis(dim2, rank)
    rest = iter(range(rank - 2))
    return permute(matrix, (rank - 2 if i == a else rank - 1 if i == b else next(rest) for i in range(rank)))


def aten_diagonal_scatter(self: Value, src: Value, offset: Dim = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """self with the diagonal that `aten_diagonal` takes replaced by `src`."""
    x = last_two(self, dim1, dim2)
    *_, rows, columns = x.shape
    count = length(rows, columns, offset)
    before, _ = beside(offset)
    pads = shape_vector((before, dims.sub(dims.sub(rows, count), before)))
    by_row = op.Pad(cast(src, self.dtype), pads, None, ints(src.rank - 1))
    matrix = choose(on_diagonal(rows, columns, offset), unsqueeze(by_row, -1), x)
    a, b = axis(dim1, self.rank), axis(dim2, self.rank)
    rest = iter(range(self.rank - 2))
    back = (self.rank - 2 if i == a else self.rank - 1 if i == b else next(rest) for i in range(self.rank))
    return permute(matrix, back)
