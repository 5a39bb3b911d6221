"""What an operator asserts of the numbers that it is given: that they are probabilities, shares, or finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from math import inf
from types import MappingProxyType
from typing import Any

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.fold.scope import Check
from lowering.tensors.complex_pairs import is_complex, parts
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import ints

Asserted = Callable[..., Iterator[Check]]
"""The conditions of a call in a line of the model, with its arguments."""


def of_loss(line: str, given: Value, target: Value, *_: Any, **__: Any) -> Iterator[Check]:
    """What binary_cross_entropy asserts: that what it compares are probabilities."""
    yield from probabilities_asserted("binary_cross_entropy", line, given)
    yield from probabilities_asserted("binary_cross_entropy", line, target)


def shares_asserted(line: str, given: Value, share: Any, *_: Any, **__: Any) -> Iterator[Check]:
    """What a quantile asserts of shares in a tensor."""
    if isinstance(share, Value):
        right = op.And(op.GreaterOrEqual(share, scalar(0, share.dtype)), op.LessOrEqual(share, scalar(1, share.dtype)))
        yield none_wrong(op.Not(right), "the shares of a quantile are 0 to 1", line)


def deviations_asserted(line: str, mean: Any, std: Any = 1.0, *_: Any, **__: Any) -> Iterator[Check]:
    """What `normal` asserts of deviations in a tensor."""
    if isinstance(std, Value):
        wrong = op.Not(op.GreaterOrEqual(std, scalar(0, std.dtype)))
        yield none_wrong(wrong, "the deviations of normal are not below 0", line)


def spectrum_asserted(name: str, line: str, matrices: Value, *args: Any, **kwargs: Any) -> Iterator[Check]:
    """What a decomposition by eigenvalues or singular values asserts of the numbers that it reads: LAPACK refuses NaN
    and most infinite ones."""
    read = parts(matrices) if is_complex(matrices) else (matrices,)
    if name == "_linalg_eigh":
        upper = (args[0] if args else kwargs.get("UPLO", "L")).upper() == "U"
        read = tuple(op.Trilu(each, upper=int(upper)) for each in read)
    yield Check(op.Not(has_no_number(*read)), f"the numbers of {name.strip('_').replace('_', '.', 1)} are finite", line)


def none_wrong(wrong: Value, text: str, line: str) -> Check:
    """The condition that no element is wrong."""
    return Check(op.Equal(op.ReduceSum(cast(wrong, DType.INT64), keepdims=0), const(0, "i64")), text, line)


def probabilities_asserted(what: str, line: str, given: Value, *_: Any, **__: Any) -> Iterator[Check]:
    """What an operator asserts of probabilities or rates: that they are such, and that those that are drawn from have a
    sum above 0."""
    if given.blob is not None or not given.dtype.is_float:
        return
    zero = scalar(0, given.dtype)
    right = op.GreaterOrEqual(given, zero)
    if what in ("binary_cross_entropy", "bernoulli"):
        right = op.And(right, op.LessOrEqual(given, scalar(1, given.dtype)))
    wrong = op.Not(right)
    if what == "multinomial":
        total = op.ReduceSum(given, ints(-1))
        wrong = op.Or(wrong, op.Not(op.And(op.Greater(total, zero), op.Less(total, scalar(inf, given.dtype)))))
    yield none_wrong(wrong, f"what {what} is given are probabilities, or rates", line)


def bins_asserted(
    line: str,
    given: Value,
    bins: Any = 100,
    min: Any = 0,
    max: Any = 0,
    **_: Any,
) -> Iterator[Check]:
    """What histc asserts of numbers whose own range it takes: that they are finite."""
    if given.blob is None and given.dtype.is_float and type(min) is type(max) in (int, float) and min == max:
        yield Check(op.Not(has_no_number(given)), "the numbers of histc are finite", line)


def has_no_number(*given: Value) -> Value:
    """Whether some element of tensors is infinite or NaN."""
    found = list[Value]()
    for x in (part for v in given for part in (parts(v) if is_complex(v) else (v,))):
        wide = x if x.dtype is DType.DOUBLE else cast(x, DType.FLOAT)
        found.append(op.ReduceSum(cast(op.Or(op.IsInf(wide), op.IsNaN(wide)), DType.INT64), keepdims=0))
    return op.Greater(reduce(op.Add, found), const(0, "i64"))


def edges_asserted(line: str, given: Value, bins: Any = 100, *, range: Any = None, **_: Any) -> Iterator[Check]:
    """What histogram asserts of numbers whose own range it takes: that they are finite."""
    if range is None and not isinstance(bins, Value) and given.dtype.is_float:
        yield Check(op.Not(has_no_number(given)), "the numbers of histogram are finite", line)


SPECTRAL = ("_linalg_svd", "_linalg_eigh", "linalg_eig", "linalg_eigvals", "linalg_pinv")
OF_NUMBERS: Mapping[str, Asserted] = MappingProxyType({
    **{f"aten::{name}": partial(probabilities_asserted, name) for name in ("bernoulli", "poisson", "multinomial")},
    **{f"aten::{name}": partial(spectrum_asserted, name) for name in SPECTRAL},
    "aten::binary_cross_entropy": of_loss, "aten::quantile": shares_asserted, "aten::nanquantile": shares_asserted,
    "aten::normal": deviations_asserted, "aten::histc": bins_asserted, "aten::histogram": edges_asserted,
})  # fmt: skip
"""What operators assert of numbers, by their names."""
