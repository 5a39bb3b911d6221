"""Type rules of sequences and optionals.

The elements of a sequence have one type. What is put into a sequence whose elements have other sizes makes those sizes
unknown; another rank is refused, since the rank of every tensor must be known. The result of SequenceEmpty has elements
of rank 0, and takes elements of any rank: it has none that could disagree.
"""

from __future__ import annotations

from irkit import dims
from irkit.core.types import DType, Optional, Sequence, Tensor, Type, map_dims, same_types
from irkit.dims import Dim
from irkit.ops.types.context import Context
from irkit.ops.types.movement import sum_of

EMPTY = "SequenceEmpty"
"""The operator whose result holds no element."""


def element(c: Context, index: int = 0) -> Type:
    """The type of the elements of a sequence operand."""
    found = c.type(index)
    if not isinstance(found, Sequence):
        raise c.fail(f"operand {index} is a {found!r}, where a sequence is needed")
    return found.element


def joined(c: Context, a: Type, b: Type) -> Type:
    """The type that two elements of one sequence share: sizes that may differ are unknown."""
    if a is b or a == b:
        return a
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        if same_types(a, b) is False:
            raise c.fail(f"a sequence cannot hold both {a!r} and {b!r}")
        return a
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape):
        raise c.fail(
            f"a sequence cannot hold both {a!r} and {b!r}", hint="the elements of a sequence have one rank in irkit"
        )
    pairs = zip(a.shape, b.shape, strict=True)
    return Tensor(a.dtype, tuple(x if dims.same(x, y) is True else dims.fresh() for x, y in pairs))


def infer_SequenceEmpty(c: Context) -> Type:
    """-> seq of the element type `dtype`, with no element"""
    return Sequence(Tensor(c.element("dtype", DType.FLOAT), ()))


def infer_SequenceConstruct(c: Context) -> Type:
    """x, y, ... -> seq"""
    found: Type = c.tensor(0)
    for index in range(1, len(c.inputs)):
        found = joined(c, found, c.tensor(index))
    return Sequence(found)


def infer_SequenceInsert(c: Context) -> Type:
    """seq, x, place[]? -> seq"""
    old, new = element(c), c.tensor(1)
    if c.inputs[0].op == EMPTY:
        if isinstance(old, Tensor) and old.dtype is not new.dtype:
            raise c.fail(f"a sequence of {old.dtype.short} cannot hold {new!r}")
        return Sequence(new)
    return Sequence(joined(c, old, new))


def infer_SequenceErase(c: Context) -> Type:
    """seq, place[]? -> seq"""
    element(c)
    return c.type(0)


def infer_SequenceAt(c: Context) -> Type:
    """seq, place[] -> one element"""
    return outside(element(c))


def outside(found: Type) -> Type:
    """The type of one element taken out: a size that is unknown in the elements may be another one in each."""
    return map_dims(found, lambda d: dims.fresh() if any(map(dims.is_fresh, dims.symbols_of(d))) else d)


def infer_SequenceLength(c: Context) -> Type:
    """seq -> i64[]"""
    element(c)
    return Tensor(DType.INT64, ())


def infer_SplitToSequence(c: Context) -> Type:
    """x[..., n, ...], split[] or split[k]? -> seq of parts along `axis`; of slices without it, where `keepdims` is 0"""
    x = c.tensor(0)
    axis = c.axis(c.attr("axis"), len(x.shape))
    if not c.has(1) and not c.attr("keepdims"):
        return Sequence(Tensor(x.dtype, x.shape[:axis] + x.shape[axis + 1 :]))
    part = split_part(c, x.shape[axis])
    return Sequence(Tensor(x.dtype, (*x.shape[:axis], part, *x.shape[axis + 1 :])))


def split_part(c: Context, whole: Dim) -> Dim:
    """The size that every part of a SplitToSequence has; fresh where they may differ."""
    if not c.has(1):
        return 1
    sizes = c.contents(1)
    if sizes is None or not sizes:
        return dims.fresh()
    if c.rank(1) == 0:
        even = type(sizes[0]) is int and sizes[0] > 0 and dims.same(dims.mod(whole, sizes[0]), 0) is True
        return sizes[0] if even else dims.fresh()
    if dims.same(sum_of(sizes), whole) is False:
        raise c.fail(f"the sizes {list(sizes)} do not add up to {whole}")
    return sizes[0] if all(dims.same(s, sizes[0]) is True for s in sizes) else dims.fresh()


def infer_ConcatFromSequence(c: Context) -> Type:
    """seq of x[...] -> x with an unknown size on `axis`, or on a new axis there"""
    found = element(c)
    if not isinstance(found, Tensor):
        raise c.fail(f"the sequence holds {found!r}, where tensors are needed")
    stacked = bool(c.attr("new_axis"))
    axis = c.axis(c.attr("axis"), len(found.shape), end=stacked)
    return Tensor(found.dtype, (*found.shape[:axis], dims.fresh(), *found.shape[axis + (not stacked) :]))


def infer_Optional(c: Context) -> Type:
    """x? -> optional of x, or of attribute `type` with nothing in it"""
    if c.has(0):
        return Optional(c.type(0))
    given = c.attr("type")
    if not isinstance(given, Tensor | Sequence):
        raise c.fail("attribute type must hold an irkit type where there is no operand")
    return Optional(given)


def infer_OptionalHasElement(c: Context) -> Type:
    """x? -> bool[]"""
    return Tensor(DType.BOOL, ())


def infer_OptionalGetElement(c: Context) -> Type:
    """optional of x -> x; anything else -> itself"""
    found = c.type(0)
    return found.element if isinstance(found, Optional) else found
