"""Which operators of a float32 graph overflow or lose too much in 16 bits: by what they are, and by numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast

import attrs
import numpy as np

from irkit import dims
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.evaluation.interpreter import Feeds, evaluate
from irkit.evaluation.kernels.common import Content
from passes.analysis.questions import axes_of
from passes.legal.runtime.refusals import REDUCTIONS

LOOKED = 1 << 18
"""Of so many elements of a constant, evenly spread, it is asked what they lose."""
SHORT = 64
"""Sums of up to so many numbers lose little."""
SUMS = frozenset((
    "Softmax", "LogSoftmax", "CumSum", "CumProd", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    "ReduceL2", "InstanceNormalization", "LpNormalization", "MeanVarianceNormalization", "LRN", "LpPool",
    "GlobalLpPool", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "Det", "DFT", "STFT",
))  # fmt: skip
"""Operators that add up or multiply many numbers, with nothing that says in which type."""
GROWING = frozenset(("Exp", "Sinh", "Cosh", "Softplus", "Log", "Tan"))
"""Operators of which a moderate operand gives a result, or a moderate result comes of an operand, that is extreme."""
PLACES = frozenset(("Range", "RoiAlign", "MaxRoiPool", "NonMaxSuppression", "AffineGrid", "MelWeightMatrix"))
"""Operators on positions and coordinates, of which 16 bits tell few apart."""
SCALES = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"))
"""Operators of quantization: a scale is often below what float16 holds."""
CLAMPED = frozenset(("Where", "Add", "Sub", "Max", "Min", "Clip", "Concat", "Pad", "ConstantOfShape", "ScatterND"))
"""Operators whose constants may be masks: the lowest finite number does what a lower one did."""
RESTRICTED = frozenset((DType.FLOAT16,))
"""Types whose range is much smaller than that of float32."""


@attrs.frozen
class Limits:
    """What a type of 16 bits holds: the largest number, the smallest normal one, and the relative step."""

    largest: float
    normal: float
    step: float


@lru_cache(maxsize=8)
def limits(dtype: DType) -> Limits:
    """The limits of float16 or bfloat16."""
    if dtype is DType.FLOAT16:
        return Limits(65504.0, 2.0**-14, 2.0**-10)
    return Limits(3.3895313892515355e38, 2.0**-126, 2.0**-7)


def risk(value: Value, dtype: DType) -> str:
    """Why an operator is better left in float32, by what it is and its constants; empty where nothing speaks for it."""
    name = value.op
    if name in SUMS:
        return f"{name} adds up, or multiplies, many numbers"
    if name in PLACES:
        return f"{name} is about positions"
    if name in SCALES:
        return f"{name} has scales"
    if name in REDUCTIONS and name not in ("ReduceMax", "ReduceMin") and not is_short(value):
        return f"{name} adds up many numbers"
    if name in ("AveragePool", "GlobalAveragePool") and not is_short(value):
        return f"{name} adds up many numbers"
    if dtype in RESTRICTED:
        if name in GROWING:
            return f"{name} overflows soon"
        if name == "Pow" and not is_mild_power(value):
            return "Pow overflows soon"
    return constant_risk(value, dtype)


def is_short(value: Value) -> bool:
    """True for a sum of at most `SHORT` numbers."""
    x = value.inputs[0]
    if x is None:
        return False
    if value.op == "AveragePool":
        count: Dim = dims.product(value.attribute("kernel_shape"))
    elif value.op == "GlobalAveragePool":
        count = dims.product(x.shape[2:])
    else:
        axes = axes_of(value.inputs[1]) if len(value.inputs) > 1 else None
        count = dims.product(x.shape if axes is None else [x.shape[a] for a in axes])
    return type(count) is int and count <= SHORT


def is_mild_power(value: Value) -> bool:
    """True where the exponent is a constant between -1 and 1."""
    blob = value.inputs[1].blob if value.inputs[1] is not None else None
    return blob is not None and blob.size == 1 and abs(float(blob.array.item())) <= 1


def constant_risk(value: Value, dtype: DType) -> str:
    """Why the constants of an operator ask for float32; empty where they do not."""
    bound = limits(dtype)
    for v in value.inputs:
        if v is None or v.blob is None or v.blob.dtype is not DType.FLOAT:
            continue
        largest, loss = extremes(v.blob, dtype)
        if largest > bound.largest and value.op not in CLAMPED:
            return f"a constant of {largest:.3g} does not fit"
        if v.blob.size == 1 and 0 < largest < bound.normal:
            return f"a constant of {largest:.3g} is below what {dtype.short} holds well"
        if loss > 4 * bound.step and largest <= bound.largest:
            return f"constants lose {loss:.1g} of their size"
    return ""


def extremes(blob: Blob, dtype: DType) -> tuple[float, float]:
    """(the largest finite magnitude, how much of its size a constant loses in the type: of its Euclidean norm).

    Of a large constant only a part is looked at for what it loses.
    """
    array = np.asarray(blob.array)
    return largest_of(array), loss_of(array.ravel()[:: -(-array.size // LOOKED) or 1], dtype)


def largest_of(array: np.ndarray) -> float:
    """The largest finite magnitude; 0 where there is none."""
    if not array.size:
        return 0.0
    ends = float(array.min()), float(array.max())
    if np.isfinite(ends).all():
        return max(map(abs, ends))
    size = np.abs(array[np.isfinite(array)])
    return float(size.max()) if size.size else 0.0


def loss_of(array: np.ndarray, dtype: DType) -> float:
    """How much of the Euclidean norm of an array is lost in the type; numbers that do not fit are left out."""
    fits = array[np.isfinite(array) & (np.abs(array) <= limits(dtype).largest)].astype(np.float64)
    whole = float(np.sqrt(np.sum(fits * fits)))
    with np.errstate(all="ignore"):
        gap = fits - fits.astype(dtype.numpy).astype(np.float64)
    return float(np.sqrt(np.sum(gap * gap))) / whole if whole else 0.0


# ---------------------------------------------------------------------------------------------- numbers


@attrs.frozen
class Measured:
    """What was seen of a value: the largest finite magnitude, and how much of its norm the type loses."""

    largest: float
    loss: float

    def risk(self, dtype: DType, safety: float) -> str:
        """Why the value does not fit the type; empty where it does."""
        bound = limits(dtype)
        if self.largest * safety > bound.largest:
            return f"it reaches {self.largest:.3g}"
        if self.loss > 4 * bound.step:
            return f"it loses {self.loss:.1g} of its size"
        return ""


def measure(graph: Graph, feeds: Feeds | Sequence[Feeds], dtype: DType = DType.FLOAT16) -> Mapping[Value, Measured]:
    """What the evaluator sees of every float32 value of the graph and its bodies for the feeds, or for a list of them.

    Raises EvaluateError for feeds that do not fit.
    """
    found: dict[Value, Measured] = {}

    def look(value: Value, result: Content) -> None:
        if isinstance(value.type, Tensor) and value.dtype is DType.FLOAT and isinstance(result, np.ndarray):
            array = cast(np.ndarray, result)
            seen = Measured(largest_of(array), loss_of(array, dtype))
            old = found.get(value, seen)
            found[value] = Measured(max(old.largest, seen.largest), max(old.loss, seen.loss))

    for each in (
        feeds if isinstance(feeds, list) and feeds and isinstance(feeds[0], list | tuple | Mapping) else [feeds]
    ):
        evaluate(graph, each, every=look)
    return found


def overflowing(
    graph: Graph, feeds: Feeds | Sequence[Feeds], dtype: DType = DType.FLOAT16, *, safety: float = 4.0
) -> Mapping[Value, Measured]:
    """The values of the graph that come too near the end of the type's range for the feeds, or lose too much in it,
    with what was seen of them. `safety` is the factor that is kept free above what was seen."""
    return {v: seen for v, seen in measure(graph, feeds, dtype).items() if seen.risk(dtype, safety)}


def has_floats(values: Iterable[Value | None]) -> bool:
    """True where some of the values is a float32 tensor."""
    return any(v is not None and isinstance(v.type, Tensor) and v.dtype is DType.FLOAT for v in values)
