"""What ONNX Runtime refuses although it has a kernel, computes wrongly, or ends the process with: ONE table.

Each row says when that happens, why it matters, what irkit writes instead, and in which version it was seen last.
Where a row has a condition, a value that meets it does not run as it is, and legalization replaces it; other rows name
the rules, or the condition of the contract, that keep it away. docs/measured/runtime_quirks.md is made of this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from irkit.core.ir import Value, item
from irkit.core.types import HALVES, DType, Tuple
from passes.legal.runtime.images import has_gaps, has_one_place
from passes.legal.runtime.int64 import ORDERED, is_confused
from passes.legal.runtime.limits import ATTENTION, CONVOLUTIONS, FUSED_PRODUCT, IMAGES, PRODUCT, RECURRENT, SUMS
from passes.legal.runtime.refusals import (
    PLACES,
    REDUCTIONS,
    SCATTERS,
    counts_back,
    has_many,
    is_of,
    lacks_bound,
    least_in_mask,
    linear_of_halves,
    names_no_axis,
    one_mask_for_all,
    pads_some_axes,
    results_of,
    scaled_roughly,
    spectrum,
    turns_beside_vector,
    wraps_nothing,
)
from passes.legal.runtime.texts import drops_texts, splits_nothing

SEEN = "1.31.1"
KEPT = "the same; to write it otherwise would take time at every call"
ISSUES = "https://github.com/microsoft/onnxruntime/issues/"
PULLS = "https://github.com/microsoft/onnxruntime/pull/"


@attrs.frozen
class Quirk:
    """One quirk: of which operators, when, why, and what is written instead.

    `condition` is asked of values of `ops`; `reason` may name `{op}` and `{dtype}`. `rules` are those that mend it
    where there is no condition; `contract` says that the graph is left as it is, and its contract keeps the quirk away
    where the sizes do not; `by` what else mends it. `issue` is the place where it is discussed, if one is known.
    """

    name: str
    ops: tuple[str, ...]
    when: str
    reason: str
    fix: str
    condition: Callable[[Value], bool] | None = None
    rules: tuple[str, ...] = ()
    contract: bool = False
    by: str = ""
    version: str = SEEN
    issue: str = ""


REFUSED: tuple[Quirk, ...] = (
    Quirk("mod_of_floats", ("Mod",), "fmod=0 and floating-point numbers",
          "ONNX Runtime computes Mod of floating-point numbers only with fmod=1", "Sub, Mul, Floor, Div",
          lambda v: v.dtype.is_float and not v.attribute("fmod"), issue=ISSUES + "1258"),
    Quirk("batch_first", ("RNN", "GRU", "LSTM"), "layout=1", "ONNX Runtime has {op} with layout=0 only",
          "layout=0 between Transposes", lambda v: bool(v.attribute("layout")), issue=PULLS + "7687"),
    Quirk("turned_beside_vector", ("MatMul",), "a Transpose times a vector",
          "ONNX Runtime multiplies a transposed tensor with a vector wrongly", "a matrix of one row or column",
          turns_beside_vector),
    Quirk("idle_recurrences", ("GRU", "LSTM"), "float64",
          "ONNX Runtime lists a kernel of {op} for f64 that computes nothing", "a Scan",
          lambda v: is_of(v, DType.DOUBLE)),
    Quirk("log_softmax_of_nan", ("LogSoftmax",), "float64",
          "ONNX Runtime gives numbers for rows of f64 with NaN or inf, whose LogSoftmax is NaN",
          "differences of logarithms", lambda v: is_of(v, DType.DOUBLE)),
    Quirk("tail_of_sigmoid", ("Sigmoid",), "float64", "ONNX Runtime gives 0 for the Sigmoid of f64 far below 0",
          "1 / (1 + Exp(-x))", lambda v: is_of(v, DType.DOUBLE)),
    Quirk("linear_of_halves", ("Add",), "a vector added to a product of 16 bits",
          "ONNX Runtime rounds a product of 16 bits once more before a vector is added to it", "both in float32",
          lambda v: linear_of_halves(v) is not None),
    Quirk("rough_factor", ("MatMul", "Mul", "Div"), "float64, a factor that float32 does not hold",
          "ONNX Runtime merges the factor of a product of matrices into it, as float32", "the factor kept apart",
          scaled_roughly),
    Quirk("scatter_of_halves", tuple(sorted(SCATTERS)), "a reduction of 16 bits",
          "ONNX Runtime has {op} with a reduction for no {dtype}", "the same in float32",
          lambda v: v.attribute("reduction", "none") != "none" and v.dtype in HALVES),
    Quirk("wrapped_nothing", ("Pad",), "mode=wrap, a size that may be 0",
          "ONNX Runtime wraps no empty tensor around", "Gathers along each axis", wraps_nothing),
    Quirk("pad_of_some_axes", ("Pad",), "axes are given, behind a Transpose",
          "ONNX Runtime moves a Transpose past a Pad of some axes as if it were one of all axes", "a Pad of all axes",
          pads_some_axes),
    Quirk("training_results", ("BatchNormalization",), "training_mode=1, not all results asked for",
          "ONNX Runtime trains BatchNormalization with all of its results only", "its arithmetic",
          lambda v: bool(v.attribute("training_mode")) and results_of(v) < 3),
    Quirk("zero_points", ("ConvInteger",), "a zero point for each kernel",
          "ONNX Runtime has ConvInteger for one zero point of all kernels only", "the zero points taken off first",
          lambda v: has_many(v, 3)),
    Quirk("places_in_output", ("MaxUnpool",), "output_shape is given",
          "ONNX Runtime counts the places of MaxUnpool in the shape that is asked for", "ScatterND",
          lambda v: len(v.inputs) > 2),
    Quirk("cut_spectrum", ("DFT",), "inverse, onesided, a length below the spectrum's",
          "ONNX Runtime errs in the inverse DFT of a half that its length cuts off", "the half cut first",
          lambda v: spectrum(v) is not None),
    Quirk("mel_of_halves", ("MelWeightMatrix",), "16 bits", "ONNX Runtime makes a MelWeightMatrix of no 16 bits",
          "a Cast of one of float32", lambda v: v.dtype in HALVES),
    Quirk("squeeze_of_all", ("Squeeze",), "no axes", "ONNX Runtime drops all axes of size 1 where Squeeze names none",
          "a Squeeze of named axes, or a Reshape", names_no_axis),
    Quirk("mask_of_one_row", ("Attention",), "a mask of one row for several queries",
          "ONNX Runtime takes masks of attention that have a row for each query", "the mask expanded",
          one_mask_for_all),
    Quirk("least_in_mask", ("Attention",), "a mask that may hold the least float32",
          "ONNX Runtime gives zeros for a row of a mask that holds the least number throughout",
          "the number raised a little, or attention written out", least_in_mask),
    Quirk("scale_of_nothing", ("Attention",), "scale <= 0",
          "ONNX Runtime refuses attention with a scale that is not above 0", "the queries scaled first",
          lambda v: v.attribute("scale", 1) <= 0),
    Quirk("grid_of_one_place", ("AffineGrid",), "align_corners=1, an axis that may have one place",
          "ONNX Runtime puts the only place of an axis at its corner, not in the middle", "Ranges, Mul, Add",
          has_one_place),
    Quirk("norm_of_equals", ("MeanVarianceNormalization",), "equal numbers throughout",
          "ONNX Runtime divides by a deviation of 0 to which ONNX adds 1e-9", "its arithmetic", lambda v: True),
    Quirk("clip_without_bound", ("Clip",), "floating-point numbers, a bound left out",
          "ONNX Runtime takes Clip without a bound for one by the largest number, and clips infinities", "Max or Min",
          lacks_bound),
    Quirk("wide_integers", tuple(sorted(ORDERED)), "64-bit integers that may lie beyond 32 bits",
          "ONNX Runtime errs in {op} of integers beyond 32 bits", "Less and Where", is_confused,
          issue="https://github.com/Quantco/ndonnx/pull/154"),
    Quirk("scalar_that_is_not_0", ("NonZero",), "a scalar", "ONNX Runtime gives a scalar one coordinate, and ONNX none",
          "the rows of a vector's cut off", lambda v: v.inputs[0] is not None and not v.inputs[0].rank),
    Quirk("rows_of_texts", ("Gather",), "strings, several at each place",
          "ONNX Runtime copies the first of the strings at a place alone", "GatherND", drops_texts),
    Quirk("split_of_nothing", ("StringSplit",), "a delimiter, and strings that may be empty",
          "ONNX Runtime gives no part of an empty string, and ONNX one", "the delimiter split in its place",
          splits_nothing),
    Quirk("gaps_of_columns", ("Col2Im",), "dilations of columns of other than two axes",
          "ONNX Runtime leaves out the dilations of columns that are not those of images", "Gathers and ReduceSum",
          has_gaps),
    Quirk("axes_from_the_end", tuple(sorted(REDUCTIONS | PLACES)), "an axis below 0, a size that may be 0",
          "ONNX Runtime gives {op} of an empty tensor another shape where axes are counted from the end",
          "axes counted from the front", counts_back),
)  # fmt: skip
"""Quirks of values that do not run as they are; of several that hold the first counts."""

ROUNDED_ATTENTION = Quirk(
    "attention_of_halves", ("Attention",), "float16 on the CPU",
    "ONNX Runtime rounds each step of an attention of f16 on the CPU", "attention in float32",
    lambda v: is_of(v, DType.FLOAT16),
)  # fmt: skip

KEPT_AWAY: tuple[Quirk, ...] = (
    Quirk("scan_axes", ("Scan",), "an axis other than the first", "it fails where a tensor has no elements",
          "Scan along the first axis between Transposes", rules=("scan_of_other_axes",)),
    Quirk("scan_of_nothing", ("Scan",), "a length that may be 0", "it fails", "If(n > 0, Scan, start)",
          rules=("scan_of_nothing",)),
    Quirk("loop_of_no_rounds", ("Loop",), "no round, and rows of a size that varies", "the size is 0",
          "If(m > 0 and condition, Loop, start)", rules=("loop_of_no_rounds",)),
    Quirk("product_of_no_batch", ("MatMul",), "a transposed batch that may be empty", "it fails",
          "a product of matrices between Reshapes", rules=("product_of_no_batch",)),
    Quirk("product_with_a_vector", ("MatMul",), "a vector, a size that may be 0", "another shape, or it fails",
          "a matrix of one column, and Squeeze", rules=("product_with_a_vector",)),
    Quirk("products_of_no_matrices", ("MatMul",), "one matrix for a batch that may be empty", "it fails",
          "the matrices cut to the batch", rules=("products_of_no_matrices",)),
    Quirk("product_of_nothing", ("MatMul",), "an inner size of 0, and an Add after it",
          "MatMulAddFusion makes a Reshape to (-1, 0), which fails", "zeros", rules=("product_of_nothing",)),
    Quirk("integer_product_of_nothing", ("MatMulInteger", "QLinearMatMul"), "an inner size that may be 0",
          "the result is what memory held", "If(k > 0, MatMulInteger, 0)", rules=("integer_product_of_nothing",)),
    Quirk("signed_activations", ("QuantizeLinear", "DequantizeLinear"), "int8 between operators",
          "convolutions and sums of int8 have no integer kernel on x86", "uint8, with zero points that are 128 more",
          rules=("unsigned_activations", "unsigned_activations_within")),
    Quirk("saturated_bytes", ("MatMulInteger", "QLinearMatMul", "QLinearConv", "ConvInteger", "MatMul", "Gemm", "Conv"),
          "unsigned bytes times signed ones, of ConvInteger signed ones times unsigned weights",
          "on processors with AVX2 and without VNNI it adds two products in 16 bits, which end at 2^15",
          "both of one kind, with zero points that are 128 more or less",
          rules=("unsigned_matrix", "unsigned_kernels", "signed_kernels", "unsigned_weights")),
    Quirk("weights_made_bytes", ("Gemm", "Conv", "ConvTranspose"),
          "weights in float32, between DequantizeLinear and QuantizeLinear",
          "it makes signed bytes of the weights by itself, and the product one of bytes",
          "a MatMul, or a convolution, less the negative bias",
          rules=("float_weights_of_bytes", "float_kernels_of_bytes")),
    Quirk("scales_of_rows", ("MatMul",), "a DequantizeLinear with a scale for each row of a matrix",
          "it takes them for scales of columns, and fails", "the product of the matrix and its scales",
          rules=("product_of_scaled_rows",)),
    Quirk("saturated_biases", ("Conv", "ConvTranspose", "Gemm", "MatMul"),
          "between DequantizeLinear, with a bias in float32 that is 2^30 or more of its steps, or is no number",
          "it makes integers of the bias, which end at 2^31, or overflow with the products",
          "the bias is subtracted, negative, behind", rules=("large_bias", "large_sum")),
    Quirk("attention_of_nothing", ("Attention",), "no keys", "it refuses them", "zeros",
          rules=("attention_of_nothing",)),
    Quirk("cross_entropy_of_nothing", ("SoftmaxCrossEntropyLoss",), "a size that may be 0", "it fails",
          "NegativeLogLikelihoodLoss of LogSoftmax", rules=("cross_entropy_of_nothing",)),
    Quirk("linear_of_nothing", ("Add",), "a product of matrices without elements, of known sizes",
          "MatMulAddFusion makes a Gemm between Reshapes, which refuse it", "a constant", rules=("linear_of_nothing",)),
    Quirk("einsum_of_nothing", ("Einsum",), "a size that may be 0", "it fails", "If(n > 0, Einsum, 0)",
          rules=("einsum_of_nothing",)),
    Quirk("mean_of_no_places", ("GlobalAveragePool",), "images without places", "it refuses them", "NaN",
          rules=("mean_of_no_places",)),
    Quirk("mean_of_nothing", ("ReduceMean",), "an axis of size 0",
          "it gives 0, and torch, numpy and irkit's evaluator NaN; ONNX leaves it open",
          "NaN, where the size is known; torch's means over sizes that vary are a sum and a quotient",
          rules=("mean_of_nothing",)),
    Quirk("past_without_present", ("com.microsoft::Attention", "com.microsoft::GroupQueryAttention",
                                   "com.microsoft::MultiHeadAttention"), "a past, and new keys that nobody reads",
          "it computes in memory that nobody wrote, or fails", "a name for each result",
          by="the writer of files"),
    Quirk("norm_of_nothing", ("LayerNormalization",), "rows that may be empty", "it fails",
          "If(n > 0, LayerNormalization, x)", rules=("norm_of_nothing",)),
    Quirk("expansion_to_nothing", ("Expand",), "a size of 1 that becomes 0", "ExpandElimination takes it for none",
          "a Slice of no elements", rules=("expansion_to_nothing",)),
    Quirk("gather_of_range", ("Gather",), "places of a Range",
          "GatherSliceToSplitFusion and GatherToSliceFusion make a Slice, of which negative numbers count from the end "
          "and others are cut off", "the Range counted from its start", rules=("gather_of_range",)),
    Quirk("pool_of_pad", ("MaxPool",), "behind a Pad with zeros",
          "PadFusion makes the zeros padding of the pool, which leaves its own out: numbers below 0 win",
          "a Pad that names its axes; before opset 18 a Max with the least number between", rules=("pool_of_pad",)),
    Quirk("slice_backward_to_an_end", ("Slice",), "a negative step, and an end of 2**31 - 1 or 2**63 - 1",
          "it takes these two for no end, and goes to the first place; ONNX cuts them off at the last",
          "an end that is one less", rules=("slice_backward_to_an_end",)),
    Quirk("cast_of_cast", ("Cast",), "a Cast of a Cast that wraps around or rounds",
          "RemoveDuplicateCastTransformer leaves out a cast to int64 of what wraps around then, and one to 16 bits, "
          "which rounds", "an operator between them", rules=("cast_of_cast",), issue=ISSUES + "17565"),
    Quirk("halves_looked_at", ("Equal", "Greater", "LessOrEqual", "Ceil", "Where", "Cast"),
          "float16 that an operator without a kernel computed, or that the model casts to, on the CPU",
          "RemoveDuplicateCastTransformer leaves out the casts to float16 and back between them, which round",
          "Min(Max(x, -inf), inf) between, which has kernels", rules=("halves_looked_at",), issue=ISSUES + "17565"),
    Quirk("reciprocal_of_integers", ("Div",), "integers, 1 by a number, and a Mul after it",
          "DivMulFusion makes x * (1 / y), which is 0 for y above 1, into x / y", "-(-1 / y)",
          rules=("reciprocal_of_integers",)),
    Quirk("resize_of_some_axes", ("Resize",), "axes are given, behind a Transpose",
          "TransposeOptimizer moves a Transpose past it as if its sizes or scales were those of all axes",
          "sizes or scales of all axes", rules=("resize_of_some_axes",)),
    Quirk("product_of_cast_of_transpose", (PRODUCT,),
          "an operand is a Cast of a Transpose that has another dimension first, of three or more; of float16 also "
          "without the Cast, which the runtime makes itself on the CPU",
          "MatmulTransposeFusion leaves a graph behind that ends the process while the session is made",
          "the Cast before the Transpose",
          rules=("product_of_cast_of_transpose", "product_by_cast_of_transpose", "product_of_turned_halves",
                 "product_by_turned_halves")),
    Quirk("cast_near_the_end", ("Cast",), "floats above 57344 to float8_e5m2, saturate=0",
          "it gives NaN up to 65536, where 57344 or infinity is the nearest", "what is above rounded before",
          rules=("cast_near_the_end",)),
    Quirk("sum_in_steps", (*sorted(SUMS), "CumSum"),
          "more than 2**24 rows, float32, on the CPU", "it adds one by one, and stands still at 2**24",
          "sums of runs, where the size is known", rules=("sum_in_steps",), contract=True),
    Quirk("division_by_minus_one", ("Div", "Mod"), "the least integer of 32 or 64 bits by -1, on the CPU",
          "x86 raises SIGFPE, which ends the process", "another divisor; then the sign put back",
          rules=("mod_by_minus_one", "div_by_minus_one")),
    Quirk("nan_in_order", ("Max", "Min", "Clip", "Relu", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK",
                          "MaxPool", "GlobalMaxPool", "ScatterElements", "ScatterND"), "NaN among the numbers",
          "comparisons leave NaN out, or put it anywhere", "NaN asked for beside them",
          rules=("written_extreme_with_nan", "written_place_with_nan", "written_order_with_nan",
                 "written_pool_with_nan", "written_global_pool_with_nan", "written_scatter_with_nan",
                 "sorted_with_nan", "nan_in_bodies")),
    Quirk("attention_without_rows", tuple(sorted(ATTENTION)), "a batch, queries or keys that may be none", "it fails",
          "the same; to write it otherwise would take time at every size", contract=True),
    Quirk("image_without_places", tuple(sorted(IMAGES)), "an image that may have no places",
          "it fails, or ends the process", "the same; to write it otherwise would take time at every size",
          contract=True),
    Quirk("recurrence_of_nothing", tuple(sorted(RECURRENT)), "steps or a batch that may be none",
          "it ends the process", "the same; to write it otherwise would take time at every size", contract=True),
    Quirk("turned_rows_of_nothing", (PRODUCT,), "rows or columns that may be none, turned from in front of a batch",
          "it turns them as it multiplies, and divides by their number, which ends the process",
          "the same; to write it otherwise would take time at every size", contract=True),
    Quirk("image_without_channels", tuple(sorted(CONVOLUTIONS)), "an image that may have no channels",
          "it does not come to an end, or fails", "the same; to write it otherwise would take time at every size",
          contract=True),
    Quirk("turned_product_of_nothing", (PRODUCT, FUSED_PRODUCT),
          "rows and columns of a batch swapped, of which none may be added",
          "it makes a FusedMatMul of it, which leaves what memory held",
          "the same; to write it otherwise would take time at every size", contract=True),
    Quirk("zero_chosen", ("Where",), "a -0.0 of floats where the condition holds",
          "it gives 0.0, and keeps the sign of a -0.0 where the condition does not hold",
          "the same; to write it otherwise would take time at every call",
          by="converters, which put last what may be -0.0"),
    Quirk("zero_of_selu", ("Selu",), "-0.0", "it gives 0.0",
          "the same; to write it otherwise would take time at every call", by="nothing: the sign of zero is lost"),
    Quirk("zero_first_added", ("ReduceSum", "ReduceMean", "CumSum"), "-0.0 alone is added",
          "it begins with the first number and gives -0.0; torch begins with 0.0", KEPT,
          by="converters that ask for the sign of a sum"),
    Quirk("zeros_compared", ("Max", "Min", "Clip"), "0.0 and -0.0", "it gives either, as IEEE 754 allows", KEPT,
          by="nothing: the sign of zero is open"),
    Quirk("elu_near_zero", ("Elu", "Selu", "Celu"), "float32, below 0 and beside it",
          "it is exp(x) - 1, so that -1e-10 gives 0: the error is up to 6e-8, whatever the result",
          "the same; by Tanh and Exp it takes up to twice as long", by="nothing: the digits are lost"),
    Quirk("rough_sigmoid", ("Sigmoid",), "float32, below -5",
          "its error is up to 1.4e-7, whatever the result, and below -16 it may give 0",
          "the same; 1 / (1 + Exp(-x)) takes 1.25 to 2.6 times as long", by="nothing: the digits are lost"),
    Quirk("rough_tanh", ("Tanh",), "float32, sizes below 3e-37",
          "it loses digits, 1.1e-5 of the result at the least normal number", KEPT, by="nothing: the digits are lost"),
    Quirk("draws", ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), "opset 22 and later",
          "there is no kernel", "the mask of a Dropout, as bits", issue=PULLS + "32201"),
)  # fmt: skip
"""Quirks that rules keep away, or expansions where a kernel is missing."""

QUIRKS: tuple[Quirk, ...] = (*REFUSED, ROUNDED_ATTENTION, *KEPT_AWAY)
"""The whole table."""

_BY_OPERATOR: Mapping[str, tuple[Quirk, ...]] = {
    name: tuple(row for row in REFUSED if name in row.ops) for row in REFUSED for name in row.ops
}

REFUSED_OPERATORS = frozenset(_BY_OPERATOR)
"""The operators of those that ONNX Runtime refuses at times, or gets wrong."""


def refusal_of(value: Value) -> str:
    """Why ONNX Runtime refuses a value, or gets it wrong, although it has the kernel; empty where it does not."""
    for row in _BY_OPERATOR.get(value.op, ()):
        if row.condition is not None and row.condition(value):
            if "{" not in row.reason:
                return row.reason
            first = value if not isinstance(value.type, Tuple) else item(value, 0)
            return row.reason.format(op=value.op, dtype=first.dtype.short)
    return ""
