"""The quirks of runtimes beside ONNX Runtime: what each refuses, or computes wrongly, although it has the operator.

Rows are those of `passes.legal.runtime.quirks`. A value that meets the condition of a row does not run as it is, and
legalization replaces it: by the expansion that the row names, by ONNX's definition of the operator, or in another
element type; where none of these is, the export is refused with the reason. docs/measured/runtime_quirks.md shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import attrs

from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.pattern import attribute_of
from passes.analysis.questions import operand
from passes.legal.float64.functions import log_softmax
from passes.legal.float64.recurrent import USUAL
from passes.legal.others.exact_integers import (
    bounded_by_negatives,
    chosen_by_product,
    clipped_by_bounds,
    compared_by_differences,
    compares_large,
    convolved_in_runs,
    convolves_many,
    divided_exactly,
    extreme_by_halves,
    extremes_large,
    has_large,
    is_between,
    is_large_choice,
    is_long_sum,
    is_of_integers,
    is_power_of_integers,
    is_sum_of_64_bits,
    is_unsigned,
    mean_by_sum,
    mean_of_known,
    multiplied_in_runs,
    multiplied_out,
    multiplies_many,
    power_by_products,
    remainder_exactly,
    shifted_by_halves,
    shifts_large,
    sign_or_size,
    summed_by_running,
    summed_of_others,
)
from passes.legal.others.expansions import (
    Expansion,
    attention,
    by_definition,
    compared_places,
    constant_expanded,
    conv_transpose_by_groups,
    counted_from_start,
    counted_up,
    counts_down,
    counts_from_start,
    expand_by_lookups,
    expand_of_scalar,
    gather_elements,
    handed_on,
    has_masked_places,
    has_negative,
    has_sizes,
    in_32_bits,
    is_backwards,
    is_computed,
    is_square,
    keeps_extremes,
    kept_extreme,
    laid_out_mean,
    normalized_by,
    pad_with_scalar,
    pad_wrap,
    padded_by_joining,
    product_by_sums,
    recurrent,
    scan_forwards,
    slice_by_lookups,
    sliced_and_padded,
    split_by_slices,
    square_by_neighbour,
    squeezed_by_lookup,
)
from passes.legal.others.exponentials import log_sum_exp, may_be_far, softplus_of_near
from passes.legal.others.integers import (
    is_in_halves,
    is_of_bytes,
    is_of_casts,
    remainder_by_quotients,
    summed_at_once,
    through_32_bits,
)
from passes.legal.runtime.quirks import Quirk
from passes.targets.measured import OPENVINO, REFERENCE, TRACT

OV, TR, RE = "2026.4.1", "0.23.9", "1.23.2"
"""The versions in which the quirks were seen."""

SQUARELESS = frozenset((DType.INT16, DType.INT32, DType.INT64, DType.UINT16, DType.UINT32, DType.UINT64))
"""Integers that tract has no square of, or one that ends at the greatest."""

ROUNDS_INTEGERS = "OpenVINO makes float32 of integers where it"
"""How reasons begin."""


@attrs.frozen
class Other:
    """A quirk of another runtime, and the expansion that stands for what meets its condition, if there is one."""

    quirk: Quirk
    expansion: Expansion | None = None


def has_other_sizes(value: Value) -> bool:
    """True for indices whose sizes may differ from those of the data along other axes than the one looked up."""
    x, indices = value.inputs
    if x is None or indices is None:
        return False
    axis = value.attribute("axis", 0) % x.rank
    return any(a != b for at, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if at != axis)


def looks_at_part(value: Value) -> bool:
    """True for indices that may have other sizes than the data: along another axis, or along one below zero."""
    x, indices = value.inputs
    below = value.attribute("axis", 0) < 0 and x is not None and indices is not None and x.shape != indices.shape
    return below or has_other_sizes(value)


def looks_far(value: Value) -> bool:
    """True for a lookup along an axis that is not surely of at most 64."""
    x = value.inputs[0]
    if x is None:
        return False
    size = x.shape[value.attribute("axis", 0) % x.rank]
    return type(size) is not int or size > 64


def has_computed_sizes(value: Value) -> bool:
    """True for a Split whose sizes are no constant."""
    sizes = value.inputs[1] if len(value.inputs) > 1 else None
    return sizes is not None and sizes.blob is None


LAYERS = ("LSTM", "GRU", "RNN")


def has_lengths(value: Value) -> bool:
    """True for a recurrent layer of samples of some lengths."""
    return operand(value, 4) is not None


def begins_anywhere(value: Value) -> bool:
    """True for a recurrent layer of which a state before the first time is left out."""
    return any(operand(value, at) is None for at in ((5, 6) if value.op == "LSTM" else (5,)))


def shaped_by(*known: str) -> Callable[[Value], bool]:
    """Asks a recurrent layer whether it has other activations than those, or where none are given than the usual."""

    def asked(value: Value) -> bool:
        """True where it has"""
        named = tuple(name.title() for name in value.attribute("activations") or ())
        usual = USUAL[value.op]
        return not set(named) <= set(known) if known else named not in ((), usual, usual * 2)

    return asked


OTHERS: Mapping[str, tuple[Other, ...]] = MappingProxyType({
    OPENVINO: (
        Other(Quirk("saturated_bytes", ("Add", "Sub", "Mul", "Div", "Neg", "Abs", "BitShift"), "int8 and uint8",
                    "OpenVINO computes bytes as floats: quotients are rounded to the nearest, and results end at the "
                    "least and the largest byte", "the same of 32 bits", is_of_bytes, version=OV), through_32_bits),
        Other(Quirk("halves_of_int64", ("Add",), "the sums of the upper and of the lower 32 bits of int64",
                    "OpenVINO computes int64 in 32 bits, so that the halves of a number are lost", "one ReduceSum",
                    is_in_halves, version=OV), summed_at_once),
        Other(Quirk("large_compared", ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"),
                    "integers that may be beyond 2^24, both of them", f"{ROUNDS_INTEGERS} compares them",
                    "Max, Sub, and a comparison with 0", compares_large, version=OV), compared_by_differences),
        Other(Quirk("large_clipped", ("Clip", "Relu"), "integers that may be beyond 2^24",
                    f"{ROUNDS_INTEGERS} clips them", "Max and Min", has_large, version=OV), clipped_by_bounds),
        Other(Quirk("large_between", ("Max", "Min"), "of integers that may be beyond 2^24, a Min or Max",
                    "OpenVINO makes a Clip of it, in float32", "negatives between", is_between, version=OV),
              bounded_by_negatives),
        Other(Quirk("large_chosen", ("Where",), "integers that may be beyond 2^24",
                    "OpenVINO makes one step of a Where and what is computed of it, in float32", "Add, Sub, Mul",
                    is_large_choice, version=OV), chosen_by_product),
        Other(Quirk("large_shifted", ("BitShift",), "direction=RIGHT, integers that may be beyond 2^24",
                    f"{ROUNDS_INTEGERS} shifts them", "both halves shifted", shifts_large, version=OV),
              shifted_by_halves),
        Other(Quirk("products_of_bytes", ("MatMulInteger",), "sums of more than 256 products",
                    "OpenVINO adds products of bytes in float32", "sums of 256 at most", multiplies_many, version=OV),
              multiplied_in_runs),
        Other(Quirk("convolution_of_bytes", ("ConvInteger",), "sums of more than 256 products",
                    "OpenVINO adds products of bytes in float32", "sums of 256 at most", convolves_many, version=OV),
              convolved_in_runs),
        Other(Quirk("large_divided", ("Div",), "integers that may be beyond 2^24", f"{ROUNDS_INTEGERS} divides them",
                    "a quotient, and that of what it leaves", has_large, version=OV), divided_exactly),
        Other(Quirk("large_remainder", ("Mod",), "integers that may be beyond 2^24",
                    f"{ROUNDS_INTEGERS} takes their remainders", "what quotients leave", has_large, version=OV),
              remainder_exactly),
        Other(Quirk("large_extremes", ("ReduceMax", "ReduceMin"), "integers that may be beyond 2^24",
                    f"{ROUNDS_INTEGERS} looks for the greatest and the least", "both halves looked at",
                    extremes_large, version=OV), extreme_by_halves),
        Other(Quirk("sums_of_other_integers", ("ReduceL1", "ReduceSumSquare"), "integers",
                    f"{ROUNDS_INTEGERS} adds them up", "ReduceSum", is_of_integers, version=OV), summed_of_others),
        Other(Quirk("large_sums", ("ReduceSum",), "integers whose sum may be beyond 2^24",
                    f"{ROUNDS_INTEGERS} adds them up", "the last of CumSum", is_long_sum, version=OV),
              summed_by_running),
        Other(Quirk("product_in_floats", ("MatMul",), "integers", f"{ROUNDS_INTEGERS} multiplies matrices of them",
                    "sums of products", is_of_integers, version=OV), product_by_sums),
        Other(Quirk("product_and_sum_in_floats", ("Gemm",), "integers",
                    f"{ROUNDS_INTEGERS} multiplies matrices of them", "MatMul and Add", is_of_integers, version=OV),
              multiplied_out),
        Other(Quirk("power_in_floats", ("Pow",), "an integer raised to an integer",
                    f"{ROUNDS_INTEGERS} raises them to a power", "products", is_power_of_integers, version=OV),
              power_by_products),
        Other(Quirk("size_of_unsigned", ("Abs", "Sign"), "uint32 and uint64",
                    "OpenVINO takes integers without a sign for those with one", "the number itself, Where",
                    is_unsigned, version=OV), sign_or_size),
        Other(Quirk("mean_in_floats", ("ReduceMean",), "integers", f"{ROUNDS_INTEGERS} takes their mean",
                    "ReduceSum and Div", is_of_integers, version=OV), mean_by_sum),
        Other(Quirk("gather_of_part", ("GatherElements",), "indices of other sizes than the data along other axes",
                    "OpenVINO takes GatherElements with indices of the data's sizes along all axes but one only",
                    "GatherND", has_other_sizes, version=OV), gather_elements),
        Other(Quirk("expanded_scalar", ("Expand",), "a scalar to a scalar", "OpenVINO makes a vector of it",
                    "the scalar", lambda v: v.rank == 0, version=OV), expand_of_scalar),
        Other(Quirk("wrapped", ("Pad",), "mode=wrap", "OpenVINO has Pad without mode=wrap",
                    "Gathers along each axis", lambda v: attribute_of(v, "mode") == "wrap", version=OV), pad_wrap),
        Other(Quirk("places_by_columns", ("MaxPool",), "storage_order=1",
                    "OpenVINO gives results of another shape with storage_order=1", "nothing: it is refused",
                    lambda v: bool(v.attribute("storage_order")), version=OV)),
        Other(Quirk("images_of_three_axes", ("GridSample",), "images of three axes",
                    "OpenVINO has GridSample for images of two axes", "nothing: it is refused",
                    lambda v: v.rank != 4, version=OV)),
        Other(Quirk("cubic_inside", ("Resize",), "mode=cubic, exclude_outside=1",
                    "OpenVINO counts places outside with exclude_outside=1", "nothing: it is refused",
                    lambda v: attribute_of(v, "mode") == "cubic" and bool(v.attribute("exclude_outside")),
                    version=OV)),
        Other(Quirk("peepholes", ("LSTM",), "peepholes", "OpenVINO leaves the peepholes of an LSTM out",
                    "a Scan for each direction", lambda v: operand(v, 7) is not None, version=OV), recurrent),
        Other(Quirk("seen_by_steps", ("Scan",), "values from around it",
                    "OpenVINO has Scan whose steps see nothing from around it", "a Scan that hands them on as states",
                    lambda v: v.attribute("captures", 0) > 0, version=OV), handed_on),
        Other(Quirk("activations_beyond", LAYERS, "activations other than Sigmoid, Tanh and Relu",
                    "OpenVINO has the activations Sigmoid, Tanh and Relu", "a Scan for each direction",
                    shaped_by("Sigmoid", "Tanh", "Relu"), version=OV), recurrent),
        Other(Quirk("ignored_classes", ("NegativeLogLikelihoodLoss",), "ignore_index",
                    "OpenVINO has NegativeLogLikelihoodLoss without ignore_index", "ONNX's definition",
                    lambda v: v.attribute("ignore_index") is not None, version=OV), by_definition),
    ),
    TRACT: (
        Other(Quirk("attention_with_masks", ("Attention",), "always",
                    "tract takes no mask of booleans beside is_causal or in its fused kernel, and no past",
                    "softmax of products", lambda v: True, version=TR), attention),
        Other(Quirk("computed_split", ("Split",), "sizes that are computed",
                    "tract has Split for constant sizes only", "Slices", has_computed_sizes, version=TR),
              split_by_slices),
        Other(Quirk("zeros_of_shape", ("ConstantOfShape",), "float32, for 0 is left out in a file",
                    "tract makes float64 of it where no value is given", "Expand",
                    lambda v: v.dtype is DType.FLOAT, version=TR), constant_expanded),
        Other(Quirk("computed_statistics", ("BatchNormalization",), "operands that are no constants",
                    "tract has BatchNormalization of constants only", "its arithmetic",
                    lambda v: any(x is not None and x.blob is None for x in v.inputs[1:]), version=TR), normalized_by),
        Other(Quirk("product_of_integers", ("MatMul",), "integers of 64 bits, or of 32 without a sign",
                    "tract ends the process at MatMul of integers but int32", "sums of products",
                    lambda v: v.dtype in (DType.INT64, DType.UINT64, DType.UINT32), version=TR), product_by_sums),
        Other(Quirk("square_of_integers", ("Mul", "Pow"), "a tensor by itself, of integers of more than 8 bits",
                    "tract makes a square of it, which it has for int8, uint8 and int32 only, and ends at the greatest "
                    "int32 in that", "(x + 1) * x - x",
                    lambda v: v.dtype in SQUARELESS and is_square(v), version=TR), square_by_neighbour),
        Other(Quirk("sizes_as_data", ("CumSum", "ArgMax", "ArgMin", "TopK", "Sign", "NonZero", "Pad", "ScatterElements",
                                      "ScatterND", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"),
                    "int64 of sizes and Casts", "tract computes int64 that is cast, and sizes, in an element type of "
                    "its own, which this operator does not take", "int32, where that has room", has_sizes, version=TR),
              in_32_bits),
        Other(Quirk("logarithm_of_softmax", ("LogSoftmax",), "always",
                    "tract takes the logarithm of a Softmax, which is 0 for numbers far from the greatest",
                    "differences of logarithms", lambda v: True, version=TR), log_softmax),
        Other(Quirk("sum_that_overflows", ("ReduceLogSumExp",), "always",
                    "tract takes exponentials of the numbers as they are, which overflow", "those of differences",
                    lambda v: True, version=TR), log_sum_exp),
        Other(Quirk("softplus_that_overflows", ("Softplus",), "numbers that may be above 10 to 40",
                    "tract takes exponentials of the numbers as they are, which overflow", "the number itself there",
                    may_be_far, version=TR), softplus_of_near),
        Other(Quirk("squares_of_integers_added", ("ReduceSumSquare",), "integers",
                    "tract makes squares of them, which end at the greatest number, and adds them up otherwise",
                    "ReduceSum", is_of_integers, version=TR), summed_of_others),
        Other(Quirk("size_of_integers_added", ("ReduceL1",), "int64", "tract adds int64 up in 32 bits", "ReduceSum",
                    lambda v: v.dtype is DType.INT64, version=TR), summed_of_others),
        Other(Quirk("mean_of_64_bits", ("ReduceMean",), "int64", "tract adds int64 up in 32 bits",
                    "ReduceSum and Div, over sizes that are known", lambda v: v.dtype is DType.INT64, version=TR),
              mean_of_known),
        Other(Quirk("sums_of_64_bits", ("ReduceSum",), "int64 whose sum 32 bits may not hold, not cast",
                    "tract adds int64 up in 32 bits", "the last of CumSum", is_sum_of_64_bits, version=TR),
              summed_by_running),
        Other(Quirk("squeezed_axis", ("Squeeze",), "an axis that is computed",
                    "tract has Squeeze along axes that are constants only", "a Gather, of one element",
                    lambda v: (axes := operand(v, 1)) is not None and axes.blob is None, version=TR),
              squeezed_by_lookup),
        Other(Quirk("usual_activations", LAYERS, "other activations than the usual ones",
                    "tract takes no word of activations, and computes with the usual ones",
                    "a Scan for each direction", shaped_by(), version=TR), recurrent),
        Other(Quirk("varying_lengths", LAYERS, "lengths of samples",
                    "tract takes lengths of samples that are constants only", "a Scan for each direction",
                    has_lengths, version=TR), recurrent),
        Other(Quirk("backwards", LAYERS, "direction=reverse", "tract goes forwards there", "a Scan",
                    lambda v: attribute_of(v, "direction") == "reverse", version=TR), recurrent),
        Other(Quirk("states_left_out", LAYERS, "without a state before the first time",
                    "tract begins with the state of one sample", "a Scan for each direction", begins_anywhere,
                    version=TR), recurrent),
        Other(Quirk("wrapped_there", ("Pad",), "mode=wrap", "tract has Pad without mode=wrap",
                    "Gathers along each axis", lambda v: attribute_of(v, "mode") == "wrap", version=TR), pad_wrap),
        Other(Quirk("less_than_nothing", ("Pad",), "padding below zero", "tract ends the process",
                    "a Slice and a Pad", has_negative, version=TR), sliced_and_padded),
        Other(Quirk("remainder_of_casts", ("Mod",), "int64 that is cast, fmod=0",
                    "tract gives the remainder the sign of what is divided", "what quotients leave", is_of_casts,
                    version=TR), remainder_by_quotients),
        Other(Quirk("halves_of_sizes", ("Add",), "the sums of the upper and of the lower 32 bits of int64",
                    "tract adds int64 that is masked in 32 bits, so that the halves of a number are lost",
                    "one ReduceSum", is_in_halves, version=TR), summed_at_once),
        Other(Quirk("counting_down", ("Range",), "a step below zero", "tract miscounts what divides evenly",
                    "a Range upwards, subtracted", counts_down, version=TR), counted_up),
        Other(Quirk("computed_padding", ("Pad",), "a number that is computed",
                    "tract takes a Pad with a constant only", "a Concat for each axis",
                    lambda v: (fill := operand(v, 2)) is not None and fill.blob is None, version=TR),
              padded_by_joining),
        Other(Quirk("vector_of_padding", ("Pad",), "a number in a vector of one",
                    "tract refuses a Pad whose number is no scalar", "Pad with the scalar",
                    lambda v: (fill := operand(v, 2)) is not None and fill.rank > 0, version=TR), pad_with_scalar),
        Other(Quirk("masked_places", ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"),
                    "places whose bits are masked, so that none counts from the end",
                    "tract has no BitwiseAnd of sizes and of int64 that is cast, and keeps 32 bits of a place",
                    "comparisons with 0", has_masked_places, version=TR), compared_places),
        Other(Quirk("places_from_the_end", ("GatherND", "ScatterND"), "places that may be below zero",
                    "tract ends the process at places of GatherND below zero, and refuses those of ScatterND",
                    "sizes are added to them", lambda v: not counts_from_start(v.inputs[1]), version=TR),
              counted_from_start),
        Other(Quirk("computed_slice", ("Slice",), "places that are computed of data",
                    "tract loses the sizes of a Slice whose places are computed of data", "Gathers of Ranges",
                    lambda v: is_computed(v.inputs[1]) or is_computed(v.inputs[2]), version=TR), slice_by_lookups),
        Other(Quirk("computed_repetition", ("Expand",), "sizes that are computed of data",
                    "tract has Expand for sizes that it can follow only", "Gathers along each axis",
                    lambda v: is_computed(v.inputs[1]), version=TR), expand_by_lookups),
        Other(Quirk("least_of_nothing", ("ReduceMax", "ReduceMin"), "floating-point numbers, NaN or infinities",
                    "tract begins with the least finite number, and passes over NaN", "both are looked for",
                    lambda v: keeps_extremes(v.inputs[0]), version=TR), kept_extreme),
    ),
    REFERENCE: (
        Other(Quirk("far_lookups", ("GatherElements",), "an axis that may be longer than 64",
                    "the reference evaluator looks up at most 64 places: numpy.choose takes no more", "GatherND",
                    looks_far, version=RE), gather_elements),
        Other(Quirk("grouped_transposed_convolution", ("ConvTranspose",), "groups",
                    "the reference evaluator fails at ConvTranspose of more than one group", "one for each group",
                    lambda v: v.attribute("group", 1) > 1, version=RE), conv_transpose_by_groups),
        Other(Quirk("lookups_of_part", ("GatherElements",),
                    "indices of other sizes than the data, or an axis below zero",
                    "the reference evaluator takes GatherElements with indices of the data's sizes along all axes but "
                    "one only, and counts that from the start", "GatherND", looks_at_part, version=RE),
              gather_elements),
        Other(Quirk("all_times", LAYERS, "lengths of samples", "the reference evaluator goes over all times",
                    "a Scan for each direction", has_lengths, version=RE), recurrent),
        Other(Quirk("given_activations", LAYERS, "other activations than the usual ones",
                    "the reference evaluator has the usual activations only, and takes others of GRU and LSTM for them",
                    "a Scan for each direction", shaped_by(), version=RE), recurrent),
        Other(Quirk("scanned_backwards", ("Scan",), "directions backwards",
                    "the reference evaluator has Scan forwards only", "a Scan of what is turned around",
                    is_backwards, version=RE), scan_forwards),
        Other(Quirk("part_of_nothing", ("Pad",), "padding below zero", "the reference evaluator fails",
                    "a Slice and a Pad", has_negative, version=RE), sliced_and_padded),
        Other(Quirk("logarithm_there", ("LogSoftmax",), "always",
                    "the reference evaluator takes the logarithm of a Softmax, which is 0 for numbers far from the "
                    "greatest", "differences of logarithms", lambda v: True, version=RE), log_softmax),
        Other(Quirk("loss_there", ("SoftmaxCrossEntropyLoss",), "always",
                    "the reference evaluator takes the logarithm of a Softmax, which is 0 for numbers far from the "
                    "greatest", "ONNX's definition", lambda v: True, version=RE), by_definition),
        Other(Quirk("sum_of_nothing", ("ReduceLogSumExp",), "rows of -inf",
                    "the reference evaluator gives NaN for rows of -inf", "differences of what is finite",
                    lambda v: True, version=RE), log_sum_exp),
        Other(Quirk("begun_windows", ("AveragePool",), "ceil_mode=1",
                    "the reference evaluator moves all windows where the last one is not whole", "windows laid out",
                    lambda v: bool(v.attribute("ceil_mode")), version=RE), laid_out_mean),
    ),
})  # fmt: skip
"""The tables by the provider of a target."""


def refusal(value: Value, provider: str) -> str:
    """Why a runtime refuses a value, or gets it wrong, although it has the operator; empty where it does not."""
    found = other_of(value, provider)
    return "" if found is None else found.quirk.reason


def other_of(value: Value, provider: str) -> Other | None:
    """The row that a value meets."""
    for row in OTHERS.get(provider, ()):
        if value.op in row.quirk.ops and row.quirk.condition is not None and row.quirk.condition(value):
            return row
    return None
