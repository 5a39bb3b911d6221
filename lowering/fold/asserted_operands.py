"""What an operator asserts of its operands' content, and torch itself checks, or should."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import combinations
from math import inf
from types import MappingProxyType
from typing import Any

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from irkit.dims.algebra import any_fresh
from irkit.rewriting.numbering import is_random
from lowering.aten.reduction.ctc import are_labels, lengths_of
from lowering.aten.reduction.loss import has_no_class, has_no_item
from lowering.fold.scope import Check
from lowering.records.sizes import is_unbacked
from lowering.tensors import shaping
from lowering.tensors.complex_pairs import is_complex, parts
from lowering.tensors.promotion import cast, scalar, truth
from lowering.tensors.shaping import binders, broadcast_shape, ints, slice_axis
from passes.legal.runtime.division import is_kept_off, is_size

ARANGE = "aten::arange"
DIVISIONS = frozenset(f"aten::{name}" for name in "div divide floor_divide true_divide remainder fmod __mod__".split())
GROUPED = frozenset(("aten::_grouped_mm", "transformers::grouped_mm_fallback"))
CLASSES = "aten::one_hot"
COUNTS = "aten::bincount"
REPEATS = "aten::repeat_interleave"
LOSSES = frozenset(f"aten::{name}" for name in "cross_entropy_loss nll_loss nll_loss_nd nll_loss2d".split())
SEGMENTS = "aten::segment_reduce"
NARROW = "aten::narrow"
PACK = "aten::_pack_padded_sequence"
ALIGNED = "aten::ctc_loss"
SOLVED = frozenset(
    f"aten::{name}" for name in "linalg_inv inverse linalg_solve linalg_tensorinv linalg_tensorsolve".split()
)
SOLVE = "aten::linalg_solve"
POWERS = "aten::linalg_matrix_power"
POSITIVE = frozenset(("aten::linalg_cholesky", "aten::cholesky"))
STEPS = "aten::_linalg_check_errors"
CHECKED = frozenset(f"aten::linalg_{name}_ex" for name in "inv solve cholesky lu_factor ldl_factor".split())
"""Operators that say which step failed, and refuse that where they are asked to."""
MATRICES = SOLVED | POSITIVE | CHECKED | {POWERS, STEPS}
READ = "aten::index"
WRITTEN = "aten::index_put"
SCATTERED = "aten::masked_scatter"
PLACES = frozenset((READ, WRITTEN, SCATTERED))
MASKS = (DType.BOOL, DType.UINT8)

Count = tuple[Value, Dim | None]
"""How many places there are along an axis: the number, as a vector of one, and the size where it is no mask's."""
LABELED = "aten::multi_margin_loss"
LISTED = frozenset(f"aten::{name}" for name in "multilabel_margin_loss multilabel_margin_loss_forward".split())


def asserted_conditions(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, line: str
) -> Iterator[Check]:
    """The conditions on the operands of a call of one of ASSERTING, asked in this line of the model."""
    if name == ARANGE:
        yield from bounds_asserted(args, line)
    elif name == SEGMENTS:
        yield from segments_asserted(line, *args, **kwargs)
    elif name == NARROW:
        yield from part_asserted(line, *args, **kwargs)
    elif name == PACK:
        yield from lengths_asserted(line, *args, **kwargs)
    elif name == ALIGNED:
        yield from labels_asserted(line, *args, **kwargs)
    elif name in LOSSES:
        ignored = args[4] if len(args) > 4 else kwargs.get("ignore_index", -100)
        yield from items_ignored(args[0], args[1], ignored, line)
        yield from targets_asserted(args[0], args[1], ignored, line)
    elif name == CLASSES:
        yield from classes_asserted(args[0], args[1] if len(args) > 1 else kwargs.get("num_classes", -1), line)
    elif name in (COUNTS, REPEATS):
        yield from counts_asserted(name, args, kwargs, line)
    elif name in MATRICES:
        yield from factors_asserted(name, args, kwargs, result, line)
    elif name in GROUPED:
        yield from ends_asserted(line, *args, **kwargs)
    elif name == LABELED or name in LISTED:
        yield from labels_listed(name, args[0], args[1], line)
    elif name in OF_NUMBERS:
        yield from OF_NUMBERS[name](line, *args, **kwargs)
    elif isinstance(result, Value) and result.dtype.is_integer:
        yield from divisor_asserted(args[1], line)


def asserted_in_place(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], results: Any, line: str
) -> Iterator[Check]:
    """The conditions on the operands of an operator that stands for one which writes its first argument."""
    if name in ASSERTING_IN_PLACE:
        result = results[0] if isinstance(results, list | tuple) else results
        yield from asserted_conditions(name, args, kwargs, result, line)


def bounds_asserted(args: Sequence[Any], line: str) -> Iterator[Check]:
    """What `arange` asserts of bounds and a step that only the data tells: the step leads from one to the other."""
    if not any(isinstance(each, Value) for each in args):
        return
    start, end = (0, args[0]) if len(args) == 1 else args[:2]
    bounds = (start, end, args[2] if len(args) > 2 else 1)
    first, last, gap = (n if isinstance(n, Value) else scalar(n, DType.DOUBLE) for n in bounds)
    leads = op.GreaterOrEqual(op.Mul(op.Sub(last, first), op.Sign(gap)), scalar(0, DType.DOUBLE))
    holds = op.And(leads, op.Greater(op.Abs(gap), scalar(0, DType.DOUBLE)))
    yield Check(holds, "the step of arange leads from its start to its end", line)


def part_asserted(line: str, x: Value, dim: int, start: Value | Dim, length: Dim) -> Iterator[Check]:
    """What `narrow` asserts of a start or length that only the data tells: both lie within the dimension."""
    if not any(isinstance(each, Value) or hangs_on_data(each) for each in (start, length)):
        return
    at = dim % x.rank
    size, count = (shape_vector((n,), *binders((n,), x)) for n in (x.shape[at], length))
    given = op.Reshape(cast(start, DType.INT64) if isinstance(start, Value) else scalar(start, DType.INT64), ints(1))
    first = op.Where(op.Less(given, const(0)), op.Add(given, size), given)
    holds = op.And(op.GreaterOrEqual(first, const(0)), op.LessOrEqual(op.Add(first, count), size))
    yield Check(op.Squeeze(holds, ints(0)), "the part that narrow takes lies within the dimension", line)


def hangs_on_data(number: Value | Dim) -> bool:
    """Whether a number is made of some that the data tells."""
    return not isinstance(number, Value) and any(is_unbacked(symbol.name) for symbol in dims.symbols_of(number))


def lengths_asserted(line: str, x: Value, lengths: Value, batch_first: bool) -> Iterator[Check]:
    """What `pack_padded_sequence` asserts of lengths: there is one for each sequence, and they fall, from the time at
    most to 1 at least."""
    batch, time = x.shape[:2] if batch_first else x.shape[1::-1]
    if dims.same(batch, lengths.shape[0]) is not True:
        counts = (shape_vector((n,), *binders((n,), of)) for n, of in ((batch, x), (lengths.shape[0], lengths)))
        each = op.Squeeze(op.Equal(*counts), ints(0))
        yield Check(each, "there is a length for each packed sequence", line)
    room, sizes = shape_vector((time,), *binders((time,), x)), cast(lengths, DType.INT64)
    before, after = op.Concat(room, sizes, axis=0), op.Concat(sizes, ints(1), axis=0)
    rises = op.ReduceSum(cast(op.Less(before, after), DType.INT64), keepdims=0)
    yield Check(op.Equal(rises, const(0, "i64")), f"the lengths of packed sequences fall, and are 1 to {time}", line)


def items_ignored(scores: Value, target: Value, ignored: int, line: str) -> Iterator[Check]:
    """What a loss asserts where there is no class: that every item is ignored."""
    if not target.dtype.is_float and has_no_class(scores) and not has_no_item(target):
        others = op.ReduceSum(cast(op.Not(op.Equal(target, scalar(ignored, target.dtype))), DType.INT64), keepdims=0)
        yield Check(op.Equal(others, const(0, "i64")), "there is no class, and no item names one", line)


def targets_asserted(scores: Value, target: Value, ignored: int, line: str) -> Iterator[Check]:
    """What a loss asserts of targets: that each is a class, or ignored."""
    if target.dtype.is_float or has_no_class(scores) or has_no_item(target):
        return
    classes = scores.shape[min(1, scores.rank - 1)]
    text = f"the targets of a loss are classes, or {ignored}"
    yield from within(target, classes, scores, text, line, besides=op.Equal(target, scalar(ignored, target.dtype)))


def classes_asserted(classes: Value, number: Any, line: str) -> Iterator[Check]:
    """What one_hot asserts of classes: that they are below their number, where that is given, and none is below 0."""
    if type(number) is int and number == -1:
        yield from none_below_zero(classes, "the classes of one_hot", line)
    else:
        yield from within(classes, number, classes, f"the classes of one_hot are 0 to {dims.sub(number, 1)}", line)


def none_below_zero(given: Value | Dim, what: str, line: str) -> Iterator[Check]:
    """A condition that an operator's integers are not below 0; torch itself looks at a number of repeats."""
    if not isinstance(given, Value) or given.dtype.is_unsigned or not given.dtype.is_integer or given.blob is not None:
        return
    low = op.ReduceSum(cast(op.Less(given, scalar(0, given.dtype)), DType.INT64), keepdims=0)
    yield Check(op.Equal(low, const(0, "i64")), f"{what} are not below 0", line)


def counts_asserted(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], line: str) -> Iterator[Check]:
    """What bincount and repeat_interleave assert of integers: that none is below 0, and that rows are repeated as often
    together as `output_size` says; of what is repeated equally often the sizes tell."""
    repeats = args[1] if len(args) > 1 else kwargs.get("repeats", args[0])
    what = "the numbers of bincount" if name == COUNTS else "the repeats of repeat_interleave"
    yield from none_below_zero(args[0] if name == COUNTS else repeats, what, line)
    size = kwargs.get("output_size") if name == REPEATS else None
    if type(size) is int and isinstance(repeats, Value) and repeats.rank == 1 and repeats.shape != (1,):
        count = op.ReduceSum(cast(repeats, DType.INT64), keepdims=0)
        told = "the repeats of repeat_interleave are as many as output_size says"
        yield Check(op.Equal(count, const(size, "i64")), told, line)


def within(
    given: Value, count: Dim, source: Value, text: str, line: str, besides: Value | None = None
) -> Iterator[Check]:
    """A condition that integers are 0 or more, and below a number that `source` tells, but for those `besides`."""
    if given.blob is not None and type(count) is int:  # torch itself looked at a constant
        return
    end = shape_vector((count,), *binders((count,), source))
    places = cast(given, DType.INT64)
    wrong = op.Or(op.Less(places, const(0)), op.GreaterOrEqual(places, end))
    if besides is not None:
        wrong = op.And(wrong, op.Not(besides))
    none = op.ReduceSum(cast(wrong, DType.INT64), keepdims=0)
    yield Check(op.Equal(none, const(0, "i64")), text, line)


def labels_asserted(
    line: str, log_probs: Value, targets: Value, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any
) -> Iterator[Check]:
    """What ctc_loss asserts of labels: that each is a class. torch does not look, and reads what lies elsewhere."""
    labels, classes = cast(targets, DType.INT64), log_probs.shape[-1]
    end = shape_vector((classes,), *binders((classes,), log_probs))
    wrong = op.Or(op.Less(labels, const(0)), op.GreaterOrEqual(labels, end))
    if targets.rank == 2:
        wrong = op.And(wrong, are_labels(targets.shape[1], lengths_of(target_lengths)))
    none = op.ReduceSum(cast(wrong, DType.INT64), keepdims=0)
    yield Check(op.Equal(none, const(0, "i64")), "the labels of ctc_loss are classes", line)


def ends_asserted(line: str, rows: Value, matrices: Value, offs: Value | None = None, *_: Any) -> Iterator[Check]:
    """What a product of groups asserts of where these end, if they are no running sum of counts: in order, and within
    what is cut into groups. torch does not look, and reads what lies beyond."""
    if offs is None or rows.rank == matrices.rank == 3 or started_from(offs).op == "CumSum":
        return
    ends, end = (
        cast(offs, DType.INT64),
        matrices.shape[-1] if rows.rank == 3 else rows.shape[0 if matrices.rank == 3 else 1],
    )
    before = op.Concat(ints(0), ends, axis=0)
    after = op.Concat(ends, shape_vector((end,), *binders((end,), rows, matrices)), axis=0)
    wrong = op.ReduceSum(cast(op.Less(after, before), DType.INT64), keepdims=0)
    text = "the groups of grouped_mm end in order, and none after the last row"
    yield Check(op.Equal(wrong, const(0, "i64")), text, line)


def segments_asserted(
    line: str,
    data: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    **_: Any,
) -> Iterator[Check]:
    """What segment_reduce asserts of lengths: that none is below 0, and that they add up to what there is, where it is
    not `unsafe`; then torch does not look, and reads what lies beyond. So it does where it is told offsets: that they
    are in order and within is asserted, too."""
    at = axis % data.rank
    end = shape_vector((data.shape[at],), *binders((data.shape[at],), data))
    text = "the stretches of segment_reduce have no length below 0"
    if lengths is not None:
        sizes = cast(lengths, DType.INT64)
        total = op.ReduceSum(sizes, ints(at), keepdims=0)
        beyond = op.Greater(total, end) if unsafe else op.Not(op.Equal(total, end))
        wrong = (op.Less(sizes, const(0)), beyond)
        text += ", and end with the last row" if not unsafe else ", and none ends beyond the last row"
    elif offsets is not None:
        places = cast(offsets, DType.INT64)
        before, after = slice_axis(places, at, 0, -1), slice_axis(places, at, 1, None)
        wrong = (op.Less(after, before), op.Less(places, const(0)), op.Greater(places, end))
        text += ", and lie within the rows"
    else:
        return
    broken = op.Concat(*(op.Reshape(each, ints(-1)) for each in wrong), axis=0)
    none = op.ReduceSum(cast(broken, DType.INT64), keepdims=0)
    yield Check(op.Equal(none, const(0, "i64")), text, line)


def steps_of_elimination(matrices: Value) -> Value:
    """For each matrix the step at which its elimination finds no pivot; 0 where there is none."""
    from lowering.algorithms.elimination import lu  # algorithms are loaded by those who need them

    return lu(matrices)[2]


def factors_asserted(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, line: str
) -> Iterator[Check]:
    """What an operator asserts of matrices that it inverts or factors: none is singular, or has a pivot that is not
    above 0. It is asked of what was computed: a pivot of 0 makes infinities or NaN of finite numbers."""
    made: Any = result[0] if isinstance(result, tuple) and result else result
    text = f"no matrix of {name.removeprefix('aten::').replace('linalg_', 'linalg.')} is singular"
    unseen = name == SOLVE and made.rank == args[0].rank and may_be_empty(made, args[0].shape[-1])
    if name == STEPS or unseen or (name in CHECKED and kwargs.get("check_errors")):
        info = steps_of_elimination(args[0]) if unseen else args[0] if name == STEPS else result[-1]
        broken = op.Not(op.Equal(info, scalar(0, info.dtype)))
        text = "no matrix that is inverted or factored is singular" if name == STEPS else text
    elif name in POSITIVE:
        real = parts(made)[0]
        broken = on_diagonals(op.Not(op.Greater(real, scalar(0, real.dtype))))
        text = text.replace("is singular", "has a pivot that is not above 0")
    elif name in SOLVED or (name == POWERS and args[1] < 0):
        broken = op.And(has_no_number(made), op.Not(has_no_number(*(v for v in args if isinstance(v, Value)))))
    else:
        return
    none = op.ReduceSum(cast(broken, DType.INT64), keepdims=0)
    yield Check(op.Equal(none, const(0, "i64")), text, line)


def may_be_empty(made: Value, steps: Dim) -> bool:
    """Whether a solution of so many steps may have no rows or columns: then nothing of a pivot of 0 is in it."""
    return not all(size == steps or (type(size) is int and size > 0) for size in made.shape[-2:])


def on_diagonals(flags: Value) -> Value:
    """Flags of matrices where they are those of their diagonals; False elsewhere."""
    rows, columns = (shaping.iota(size) for size in flags.shape[-2:])
    return op.And(flags, op.Equal(shaping.unsqueeze(rows, 1), columns))


def labels_listed(name: str, scores: Value, target: Value, line: str) -> Iterator[Check]:
    """What a loss by margins asserts of targets: that they are classes; in lists of them -1 ends one."""
    what, listed = name.removeprefix("aten::").removesuffix("_forward"), name in LISTED
    ends = op.Equal(target, scalar(-1, target.dtype)) if listed else None
    text = f"the targets of {what} are classes{', or -1' if listed else ''}"
    yield from within(target, scores.shape[-1] if scores.rank else 1, scores, text, line, besides=ends)


def divisor_asserted(divisor: Any, line: str) -> Iterator[Check]:
    """What a quotient or remainder of integers asserts of a divisor that is computed: it is not 0."""
    if not isinstance(divisor, Value) or divisor.blob is not None or not divisor.dtype.is_integer:
        return
    if not is_size(divisor) and not is_kept_off(divisor, 0):
        none = op.ReduceSum(cast(op.Equal(divisor, scalar(0, divisor.dtype)), DType.INT64), keepdims=0)
        yield Check(op.Equal(none, const(0, "i64")), "no integer is divided by 0", line)


def started_from(value: Value) -> Value:
    """What a value is a Cast, or several, of."""
    while value.op == "Cast" and value.inputs[0] is not None:
        value = value.inputs[0]
    return value


# ---------------------------------------------------------------------------------------------- of masks


def places_asserted(
    name: str, line: str, x: Value, chosen: Any, values: Value | None = None, *_: Any, **__: Any
) -> Iterator[Check]:
    """What a call of one of PLACES asserts: masks choose as many places as stand beside them, and as values are given
    for them; a masked_scatter has an element for each place."""
    if name == SCATTERED and values is not None:
        yield from elements_enough(x, chosen, values, line)
        return
    given = [index for index in chosen if index is not None] if name != SCATTERED else []
    masks = [index for index in given if index.dtype in MASKS]
    others = {
        index.shape[-1]: index for index in given if index.dtype not in MASKS and index.shape[-1:] not in ((), (1,))
    }
    if not masks and not any(map(hangs_on_data, others)):
        return
    counts = [counted(mask) for mask in masks]
    counts += [(shape_vector((size,), *binders((size,), index)), size) for size, index in others.items()]
    for (one, size), (other, size_) in combinations(counts, 2):
        if size is None or size_ is None:
            fits = op.Or(op.Equal(one, other), op.Or(op.Equal(one, const([1])), op.Equal(other, const([1]))))
            yield vector_check(fits, "indices that stand beside each other choose as many places, or one", line)
    if name == WRITTEN and values is not None:
        yield from values_enough(x, chosen, values, counts, line, masks[0] if masks else None)


def values_enough(
    x: Value, chosen: Sequence[Value | None], values: Value, counts: Sequence[Count], line: str, mask: Value | None
) -> Iterator[Check]:
    """The condition that values are as many as the places that masks choose, or one for all."""
    at = values.rank - 1 - axes_behind(x, chosen)
    size: Dim = values.shape[at] if at >= 0 else 1
    if size == 1 or (len(counts) == 1 and counts[0][1] == size):
        return
    if len(counts) == 1 and mask is not None and is_chosen_by(values, size, mask):
        return
    number = shape_vector((size,), *binders((size,), values))
    same = [op.Equal(count, number) for count, _ in counts]
    as_many = reduce(op.Or, same)
    for (count, _), each in zip(counts if len(counts) > 1 else (), same, strict=False):
        as_many = op.And(as_many, op.Or(each, op.Equal(count, const([1]))))
    one = op.Equal(number, const([1]))
    holds = as_many if type(size) is int else op.Or(as_many, one)
    yield vector_check(holds, "values are as many as the places that a mask chooses, or one", line)


def elements_enough(x: Value, mask: Value, values: Value, line: str) -> Iterator[Check]:
    """The condition that masked_scatter is given an element for each place."""
    shape = broadcast_shape(x.shape, mask.shape)
    few = mask
    while few.op == "Expand" and few.inputs[0] is not None:
        few = few.inputs[0]
    own = (*(1 for _ in range(len(shape) - few.rank)), *few.shape)
    times = dims.product([size for size, each in zip(shape, own, strict=True) if each == 1])
    count, _ = counted(few)
    if times != 1:
        count = op.Mul(count, shape_vector((times,), *binders((times,), x, mask)))
    there = dims.product(values.shape)
    if dims.same(there, dims.product(shape)) is not True:
        number = shape_vector((there,), *binders((there,), values))
        yield vector_check(
            op.LessOrEqual(count, number), "masked_scatter has an element for each place of its mask", line
        )


def counted(mask: Value) -> Count:
    """How many places a mask chooses."""
    return op.Reshape(op.ReduceSum(cast(truth(mask), DType.INT64), keepdims=0), ints(1)), None


def axes_behind(x: Value, chosen: Sequence[Value | None]) -> int:
    """How many axes of x[chosen] stand behind those of the places."""
    axes, indexed = 0, list[int]()
    for index in chosen:
        taken = index.rank if index is not None and index.dtype in MASKS else 1
        indexed.extend(range(axes, axes + taken) if index is not None else ())
        axes += taken
    beside = indexed == list(range(indexed[0], indexed[-1] + 1))
    return x.rank - len(indexed) - (indexed[0] if beside else 0)


def is_chosen_by(values: Value, size: Dim, mask: Value) -> bool:
    """Whether a size of values is the number of places that the same mask chooses: they are computed, place by place,
    of what it chose."""
    seen, left = set[int](), [values]
    while left:
        value = left.pop()
        if value.op == "NonZero" and value.inputs[0] is not None and alike(value.inputs[0], truth(mask)):
            return True
        if id(value) not in seen and (size in value.shape or any_fresh(value.shape)):
            left.extend(each for each in value.inputs if each is not None)
        seen.add(id(value))
    return False


def alike(one: Value, other: Value, depth: int = 8) -> bool:
    """Whether two values are computed alike, of the same values, in a few steps."""
    if one is other:
        return True
    if one.blob is not None and other.blob is not None and max(one.blob.array.size, other.blob.array.size) == 1:
        return one.type == other.type and one.blob.array.tobytes() == other.blob.array.tobytes()
    if not depth or one.op != other.op or one.bodies or is_random(one) or not one.inputs:
        return False
    if one.attributes != other.attributes or len(one.inputs) != len(other.inputs):
        return False
    return all(
        a is b or (a is not None and b is not None and alike(a, b, depth - 1))
        for a, b in zip(one.inputs, other.inputs, strict=True)
    )


def vector_check(holds: Value, text: str, line: str) -> Check:
    """A condition that is a vector of one truth value."""
    return Check(op.Squeeze(holds, ints(0)), text, line)


# ---------------------------------------------------------------------------------------------- of numbers

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
    own = type(min) is type(max) in (int, float) and min == max
    if own and given.blob is None and given.dtype.is_float and not of_integers(given):
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
    if range is None and not isinstance(bins, Value) and given.dtype.is_float and not of_integers(given):
        yield Check(op.Not(has_no_number(given)), "the numbers of histogram are finite", line)


def of_integers(given: Value) -> bool:
    """Whether floats are integers or truth values that were cast, all of which their type holds: these are finite."""
    cast_of = given.inputs[0] if given.op == "Cast" and given.dtype in WIDE else None
    return cast_of is not None and not cast_of.dtype.is_float


WIDE = (DType.FLOAT, DType.DOUBLE, DType.BFLOAT16)
"""Types of floats in which no integer is infinite."""


SPECTRAL = ("_linalg_svd", "_linalg_eigh", "linalg_eig", "linalg_eigvals", "linalg_pinv")
OF_NUMBERS: Mapping[str, Asserted] = MappingProxyType({
    **{f"aten::{name}": partial(probabilities_asserted, name) for name in ("bernoulli", "poisson", "multinomial")},
    **{f"aten::{name}": partial(spectrum_asserted, name) for name in SPECTRAL},
    "aten::binary_cross_entropy": of_loss, "aten::quantile": shares_asserted, "aten::nanquantile": shares_asserted,
    **{name: partial(places_asserted, name) for name in PLACES},
    "aten::normal": deviations_asserted, "aten::histc": bins_asserted, "aten::histogram": edges_asserted,
})  # fmt: skip
"""What operators assert of numbers and places, by their names."""

ASSERTING = (
    DIVISIONS
    | GROUPED
    | LOSSES
    | {ARANGE, SEGMENTS, NARROW, PACK, ALIGNED, CLASSES, COUNTS, REPEATS}
    | MATRICES
    | LISTED
    | {LABELED}
    | OF_NUMBERS.keys()
)
"""The operators that assert something of what their operands hold."""
ASSERTING_IN_PLACE = DIVISIONS | PLACES
"""Those of them whose forms that write their first argument assert the same of it."""
