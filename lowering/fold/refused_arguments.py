"""Arguments that torch refuses only while it computes, so that neither its meta device nor torch.export tells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from sympy import Expr
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom, BooleanFunction

from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from lowering.errors import LoweringError
from lowering.records.types import DTYPES

Given = Mapping[str, Any]


def require_taken(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises LoweringError for arguments of an operator that eager refuses whatever the tensors hold."""
    if not hasattr(target, "_schema"):
        return
    schema = target._schema
    for check in CHECKS.get(schema.name.removesuffix("_"), ()):
        given: dict[str, Any] = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        given |= dict(zip((a.name for a in schema.arguments), args, strict=False)) | dict(kwargs)
        for reason in check(given):
            raise LoweringError(f"eager refuses this call of {target}: {reason}", hint="mend the call in the model")


def require_fits(target: Any, result: Value, held: Value) -> None:
    """Raises LoweringError where an operator writes in place what is of another kind of numbers than what holds it, or
    of more elements, which eager refuses."""
    reason = ""
    kinds = [kind_of(each) for each in (result, held)]
    if kinds[0] > kinds[1]:
        reason = f"its result cannot be cast to {held.dtype.short}"
    else:
        pairs = zip(reversed(result.shape), reversed(held.shape), strict=False)
        larger = result.rank > held.rank or any(
            type(one) is int and type(other) is int and one not in (1, other) for one, other in pairs
        )
        reason = f"its result is {result.type!r}, and is written to {held.type!r}" if larger else ""
    if reason:
        raise LoweringError(f"eager refuses this call of {target}: {reason}", hint="mend the call in the model")


def kind_of(x: Value) -> int:
    """What kind of numbers a value has: truths, integers, floats, complex ones, each of which holds those before it."""
    if x.dtype.is_complex:
        return 3
    return 0 if x.dtype is DType.BOOL else 1 if x.dtype.is_integer else 2


def is_tensor(given: Any) -> bool:
    """Whether an argument is a tensor with dimensions; what is computed of numbers out of data has none."""
    return isinstance(given, Value) and isinstance(given.type, Tensor)


def one_type(*names: str) -> Callable[[Given], Iterator[str]]:
    """The check that some operands have one element type."""

    def check(given: Given) -> Iterator[str]:
        found = [given[name] for name in names if is_tensor(given.get(name)) and given[name].rank]
        if len({each.dtype for each in found}) > 1:
            yield f"the element types differ, {', '.join(each.dtype.short for each in found)}"

    return check


def one_rank(*names: str) -> Callable[[Given], Iterator[str]]:
    """The check that some operands have as many dimensions as one another."""

    def check(given: Given) -> Iterator[str]:
        ranks = [given[name].rank for name in names if is_tensor(given.get(name))]
        if len({*ranks}) > 1:
            yield f"the operands have {' and '.join(map(str, ranks))} dimensions"

    return check


def for_each_channel(given: Given) -> Iterator[str]:
    """The check that there is a weight, and a bias, for each channel, where their numbers are known."""
    channels = given["self" if "self" in given else "input"].shape[1]
    found: list[Any] = [given.get("weight"), given.get("bias")]
    for each in found:
        if is_tensor(each) and type(channels) is int and type(each.shape[0]) is int and each.shape[0] != channels:
            yield f"there are {channels} channels, and {each.shape[0]} weights"


def typed(name: str, *types: DType) -> Callable[[Given], Iterator[str]]:
    """The check that an operand has one of some element types."""

    def check(given: Given) -> Iterator[str]:
        if is_tensor(given.get(name)) and given[name].dtype not in types:
            yield f"{name} is of {given[name].dtype.short}, and must be of {' or '.join(t.short for t in types)}"

    return check


def labels(given: Given) -> Iterator[str]:
    """The check that what names classes is of int64 or uint8; probabilities of classes are floats."""
    target: Any = given.get("target")
    if is_tensor(target) and not target.dtype.is_float:
        yield from typed("target", DType.INT64, DType.UINT8)(given)


def choosing(given: Given) -> Iterator[str]:
    """The check that what chooses between two is of bool or uint8; where alone it names places, it is of any type."""
    if "self" in given:
        yield from typed("condition", DType.BOOL, DType.UINT8)(given)


def no_bool(*names: str) -> Callable[[Given], Iterator[str]]:
    """The check that no operand is of bool."""

    def check(given: Given) -> Iterator[str]:
        operands = [given[name] for name in names if name in given]
        if any(map(is_truth, operands)):
            yield "it does not take bool"

    return check


def is_truth(given: Any) -> bool:
    """Whether an operand is of bool: a truth value, one that sizes tell, or a tensor of them."""
    told = isinstance(given, bool | Relational | BooleanFunction | BooleanAtom)
    return told or (is_tensor(given) and given.dtype is DType.BOOL)


def whole_factor(given: Given) -> Iterator[str]:
    """The check that a factor is no truth value where the result is of numbers."""
    if is_truth(given.get("alpha")) and not (is_truth(given.get("self")) and is_truth(given.get("other"))):
        yield "alpha is of bool, and the result is not"
    if is_real(given.get("alpha")) and not any(is_real(given.get(name)) for name in ("self", "other")):
        yield "alpha is a float, and the result is not"


def is_real(given: Any) -> bool:
    """Whether an operand is of floats, or of complex numbers: a number, or a tensor."""
    if is_tensor(given):
        return not (given.dtype.is_integer or given.dtype is DType.BOOL)
    return isinstance(given, float | complex) or (isinstance(given, Expr) and not given.is_integer)


def floats(given: Given) -> Iterator[str]:
    """The check that the first operand is of floats."""
    if is_tensor(given.get("self")) and (given["self"].dtype.is_integer or given["self"].dtype is DType.BOOL):
        yield f"it takes floats only, not {given['self'].dtype.short}"


def held(*names: str) -> Callable[[Given], Iterator[str]]:
    """The check that the element type of the result holds some numbers."""

    def check(given: Given) -> Iterator[str]:
        named: Any = given.get("dtype")
        x: Any = given.get("self")
        dtype = DTYPES.get(named) if named is not None else x.dtype if is_tensor(x) else None
        for number in (given.get(name) for name in names):
            if dtype is not None and is_too_large(number, dtype):
                yield f"{number} does not fit {dtype.short}"

    return check


def is_too_large(number: Any, dtype: DType) -> bool:
    """Whether torch refuses to convert a number to an element type: unsigned integers take those below 0, too."""
    if isinstance(number, complex):
        return not dtype.is_complex and bool(number.imag)
    if type(number) not in (int, float) or dtype is DType.BOOL or dtype.is_complex:
        return False
    if dtype.is_float:
        about: Any = ml_dtypes.finfo(dtype.numpy)
        return math.isfinite(number) and abs(number) > float(about.max)
    info: Any = np.iinfo(dtype.numpy)
    least = -int(info.max) if dtype.is_unsigned and type(number) is int else int(info.min)
    return number != number or not least <= number <= int(info.max)


def known_rounding(given: Given) -> Iterator[str]:
    """The check that a rounding mode is one."""
    if given.get("rounding_mode") not in (None, "trunc", "floor"):
        yield f"rounding_mode is {given['rounding_mode']!r}, and must be None, 'trunc' or 'floor'"


def some_bound(given: Given) -> Iterator[str]:
    """The check that a clamp has a bound."""
    if given.get("min") is None and given.get("max") is None:
        yield "at least one of min and max must be given"


def some_draws(given: Given) -> Iterator[str]:
    """The check that something is drawn."""
    count = given.get("num_samples")
    if type(count) is int and count <= 0:
        yield f"num_samples is {count}, and must be above 0"


def loss_width(name: str, zero: bool) -> Callable[[Given], Iterator[str]]:
    """The check that a loss that is quadratic near 0 has a width, or 0 where `zero` is taken."""

    def check(given: Given) -> Iterator[str]:
        width = given.get(name)
        if isinstance(width, int | float) and not (width >= 0 if zero else width > 0):
            yield f"{name} is {width}, and must {'not be below' if zero else 'be above'} 0"

    return check


def width_of_zero(given: Given) -> Iterator[str]:
    """The check that what becomes 0 has a width."""
    width = given.get("lambd")
    if isinstance(width, int | float) and not width >= 0:
        yield f"lambd is {width}, and must not be below 0"


def row_of_bounds(given: Given) -> Iterator[str]:
    """The check that boundaries are a vector."""
    if is_tensor(given.get("boundaries")) and given["boundaries"].rank != 1:
        yield f"boundaries have {given['boundaries'].rank} dimensions, and must have one"


def padding_around(given: Given) -> Iterator[str]:
    """The checks of a convolution's numbers."""
    for name, least in (("padding", 0), ("output_padding", 0), ("stride", 1), ("dilation", 1)):
        numbers = given.get(name, least)
        for number in numbers if isinstance(numbers, list | tuple) else (numbers,):
            if type(number) is int and number < least:
                yield f"{name} is {number}, and must not be below {least}"


def little_output_padding(given: Given) -> Iterator[str]:
    """The check that the output of a transposed convolution is padded by less than a step."""
    rows = [given.get(name) for name in ("output_padding", "stride", "dilation")]
    count = max((len(row) for row in rows if isinstance(row, list | tuple)), default=1)
    wide = [(row * count if len(row) == 1 else row) if isinstance(row, list | tuple) else [row] * count for row in rows]
    for out, stride, dilation in zip(*wide, strict=False):
        if all(type(n) is int for n in (out, stride, dilation)) and out >= max(stride, dilation):
            yield f"output_padding is {out}, and must be below {max(stride, dilation)}, the stride or dilation"


def enough_to_cut(given: Given) -> Iterator[str]:
    """The check that what a padding below 0 takes away is there, whatever is added at the other end."""
    shape, pads = given["self"].shape, given["pad"]
    for axis, pair in enumerate(zip(pads[::2], pads[1::2], strict=True), 1):
        size, cut = shape[-axis], [min(each, 0) for each in pair if type(each) is int]
        if type(size) is int and len(cut) == 2 and size + sum(cut) < 0:
            yield f"{-sum(cut)} elements are taken away of {size}"


def labels_enough(given: Given) -> Iterator[str]:
    """The check that there are as many labels as the lengths of a CTC loss say, of a batch of rows."""
    targets, lengths = given["targets"], given["target_lengths"]
    whole = is_tensor(targets) and targets.rank == 2 and isinstance(lengths, list | tuple)
    numbers = [each for each in lengths if type(each) is int] if whole else []
    if numbers and type(targets.shape[1]) is int and targets.shape[1] < max(numbers):
        yield f"there are {targets.shape[1]} labels in a row, and {max(numbers)} are said to be"


def counting(given: Given) -> Iterator[str]:
    """The check that running sums and products are none of bools."""
    named: Any = given.get("dtype")
    if DTYPES.get(named) is DType.BOOL:
        yield "it is not computed in bools"


CHECKS: Mapping[str, tuple[Callable[[Given], Iterator[str]], ...]] = {
    "aten::mm": (one_type("self", "mat2"),), "aten::bmm": (one_type("self", "mat2"),),
    "aten::mv": (one_type("self", "vec"),), "aten::dot": (one_type("self", "tensor"),),
    "aten::matmul": (one_type("self", "other"),), "aten::linear": (one_type("input", "weight"),),
    "aten::addmm": (one_type("mat1", "mat2"),), "aten::addmv": (one_type("mat", "vec"),),
    "aten::addbmm": (one_type("self", "batch1", "batch2"),), "aten::baddbmm": (one_type("batch1", "batch2"),),
    **{
        f"aten::conv{n}d": (one_type("input", "weight"), padding_around) for n in (1, 2, 3)
    },
    **{
        f"aten::conv_transpose{n}d": (one_type("input", "weight"), padding_around, little_output_padding)
        for n in (1, 2, 3)
    },
    "aten::index_add": (one_type("self", "source"), one_rank("self", "source")),
    "aten::index_reduce": (one_type("self", "source"), one_rank("self", "source")),
    "aten::index_copy": (one_type("self", "source"),), "aten::put": (one_type("self", "source"),),
    "aten::index_put": (one_type("self", "values"),), "aten::heaviside": (one_type("self", "values"),),
    "aten::lerp": (one_type("self", "end"),),
    "aten::masked_fill": (typed("mask", DType.BOOL), held("value")),
    "aten::masked_scatter": (typed("mask", DType.BOOL),),
    "aten::where": (choosing,),
    "aten::cross_entropy_loss": (labels,),
    "aten::nll_loss_nd": (typed("target", DType.INT64, DType.UINT8),),
    "aten::nll_loss": (typed("target", DType.INT64, DType.UINT8),),
    "aten::nll_loss2d": (typed("target", DType.INT64, DType.UINT8),),
    "aten::sub": (no_bool("self", "other"), whole_factor), "aten::rsub": (no_bool("self", "other"), whole_factor),
    "aten::add": (whole_factor,),
    "aten::topk": (no_bool("self"),), "aten::argmax": (no_bool("self"),), "aten::argmin": (no_bool("self"),),
    "aten::var": (floats,), "aten::std": (floats,), "aten::var_mean": (floats,), "aten::std_mean": (floats,),
    "aten::fill": (held("value"),), "aten::full": (held("fill_value"),), "aten::full_like": (held("fill_value"),),
    "aten::new_full": (held("fill_value"),), "aten::index_fill": (held("value"),),
    "aten::constant_pad_nd": (held("value"), enough_to_cut), "aten::pad": (enough_to_cut,),
    "aten::native_group_norm": (for_each_channel,), "aten::ctc_loss": (labels_enough,),
    "aten::threshold": (held("value"),), "aten::cumsum": (counting,), "aten::cumprod": (counting,),
    "aten::hardtanh": (held("min_val", "max_val"),),
    "aten::div": (known_rounding,), "aten::clamp": (some_bound,), "aten::multinomial": (some_draws,),
    "aten::smooth_l1_loss": (loss_width("beta", zero=True),), "aten::huber_loss": (loss_width("delta", zero=False),),
    "aten::softshrink": (width_of_zero,), "aten::bucketize": (row_of_bounds,),
}  # fmt: skip
"""What is asked of the operators whose kernels refuse more than their shapes tell."""
