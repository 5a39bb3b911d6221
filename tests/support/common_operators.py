"""The operators that most programs are made of, by the names of their samples."""

from __future__ import annotations

COMMON = tuple(
    """
    Abs Neg Sign Relu Sigmoid Tanh Exp Sqrt Erf Sin Atan Softplus Ceil Floor Round IsNaN Not Identity BitwiseNot
    Gelu HardSwish Softsign Acos Acosh Asin Asinh Atanh Cos Cosh Sinh Tan Log Reciprocal Mish Selu HardSigmoid Celu
    IsInf Shrink BitwiseXor Mean Add Sub Mul Max Min Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor
    BitwiseAnd BitwiseOr Div Mod Pow Where Cast Clip LeakyRelu Elu ThresholdedRelu Swish PRelu BitShift BitCast
    CastLike Sum Softmax LogSoftmax Hardmax Transpose Reshape Expand Unsqueeze Squeeze Flatten Concat Split Slice
    Gather GatherElements ScatterElements Tile Pad Trilu Shape Size ShapeVector NonZero Range ConstantOfShape
    ReduceSum ReduceMax ReduceMin ReduceMean ReduceProd ReduceL2 ReduceSumSquare ReduceL1 ReduceLogSum
    ReduceLogSumExp ArgMax ArgMin CumProd Det Einsum EyeLike CumSum TopK MatMul Gemm Conv MaxPool LayerNormalization
    OneHot If Loop Scan Call Constant Sequence
    """.split()
)
"""Those on which ONNX Runtime and the evaluator are compared in graphs of several operators, as they are written. The
others are compared by themselves in tests/irkit/evaluation/test_kernels.py, with what is known of each kernel. A pinned
seed draws from them by their order."""
