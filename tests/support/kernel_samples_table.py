"""Samples of operators by name: what the kernels are compared on, and what random instances of operators begin with."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support import kernel_samples, kernel_samples_nn
from tests.support.kernel_samples import (
    Maker,
    along_axis,
    broadcasting,
    real,
    reduction,
    running,
    search,
    unary,
    variadic,
    window,
)
from tests.support.kernel_samples_nn import by_channel, loss, over_space, pooling, recurrent

UNARY = (
    "Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Exp", "Sqrt", "Reciprocal", "Sin", "Cos", "Tan", "Atan",
    "Sinh", "Cosh", "Tanh", "Asinh", "Erf", "Identity", "IsNaN", "Not", "BitwiseNot", "Relu", "Sigmoid", "Softplus",
    "Softsign", "Mish", "HardSwish",
)  # fmt: skip
BINARY = (
    "Add", "Sub", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Less",
    "LessOrEqual", "Greater", "GreaterOrEqual",
)  # fmt: skip
FINITE = ("Exp", "Sinh", "Cosh", "Tan", "Sin", "Cos", "Sign")
"""Operators drawn without infinities and NaN: of the sign of a NaN, ONNX Runtime makes 0 for narrow floats."""
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")

SAMPLES: Mapping[str, Maker] = {
    **{op: unary(op, special=op not in FINITE) for op in UNARY},
    "Log": unary("Log", 0.1, 9), "Asin": unary("Asin", -1.2, 1.2), "Acos": unary("Acos", -1.2, 1.2),
    "Acosh": unary("Acosh", 1, 9), "Atanh": unary("Atanh", -0.9, 0.9, False),
    "Elu": unary("Elu", alpha=real(0.1, 2)), "Selu": unary("Selu", alpha=real(0.1, 2), gamma=real(0.1, 2)),
    "Celu": unary("Celu", alpha=real(0.1, 2)), "LeakyRelu": unary("LeakyRelu", alpha=real(-1, 1)),
    "ThresholdedRelu": unary("ThresholdedRelu", alpha=real(0, 2)),
    "HardSigmoid": unary("HardSigmoid", alpha=real(0.1, 1), beta=real(0, 1)),
    "Swish": unary("Swish", special=False, alpha=real(0.5, 2)),
    "Gelu": unary("Gelu", special=False, approximate=lambda d: d.pick(["none", "tanh"])),
    "Shrink": unary("Shrink", special=False, bias=real(0, 1), lambd=real(0, 2)),
    **{op: broadcasting(op) for op in BINARY},
    **{op: variadic(op) for op in ("Max", "Min", "Sum", "Mean")},
    **{op: along_axis(op) for op in ("Softmax", "LogSoftmax", "Hardmax")},
    **{f"Reduce{op}": reduction(f"Reduce{op}") for op in REDUCTIONS},
    "ReduceLogSum": reduction("ReduceLogSum", 1),
    "ArgMax": search("ArgMax"), "ArgMin": search("ArgMin"), "CumSum": running("CumSum"),
    **{op: window(op) for op in ("HannWindow", "HammingWindow", "BlackmanWindow")},
    "MaxPool": pooling("MaxPool"), "MaxPool:indices": pooling("MaxPool", 2), "AveragePool": pooling("AveragePool"),
    "LpPool": pooling("LpPool"),
    **{op: over_space(op) for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    "InstanceNormalization": by_channel("InstanceNormalization", 2),
    "GroupNormalization": by_channel("GroupNormalization", 2),
    "BatchNormalization": by_channel("BatchNormalization", 4),
    "RNN": recurrent("RNN", 1), "GRU": recurrent("GRU", 3), "LSTM": recurrent("LSTM", 4),
    "NegativeLogLikelihoodLoss": loss("NegativeLogLikelihoodLoss", None),
    "SoftmaxCrossEntropyLoss": loss("SoftmaxCrossEntropyLoss", 2),
    **{
        {"CastFloat8": "Cast:float8", "ResizeAntialias": "Resize:antialias"}.get(op, op): function
        for module in (kernel_samples, kernel_samples_nn)
        for name, function in vars(module).items()
        if name.startswith("sample_") and (op := name.removeprefix("sample_"))
    },
}  # fmt: skip
"""What the differential test draws, by operator; a word after a colon tells samples of one operator apart."""
