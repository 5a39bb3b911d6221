"""The families of operators: one list, by whose names type rules, kernels, samples, converters and tests are found.

The type rule of the operator `X` of the family `f` is `infer_X` in `irkit/ops/types/f.py`, its kernel `kernel_X` in
`irkit/evaluation/kernels/f.py`, what makes samples of it `sample_X` in `irkit/checking/samples/f.py`. The converters of
the ATen operators that compute the like stand in `lowering/aten/f/`, and their tests in `tests/lowering/aten/f/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        family: tuple(operators.split())
        for family, operators in {
            "elementwise": """
                Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil
                Clip Cos Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Mean
                Min Mod Mul Neg Not Or Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan Tanh Where Xor
            """,
            "activations": """
                Celu Elu Gelu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax Mish PRelu Relu Selu Shrink Sigmoid
                Softmax Softplus Softsign Swish ThresholdedRelu
            """,
            "casts": "BitCast Cast CastLike DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
            "creation": """
                Bernoulli Constant ConstantOfShape Dropout EyeLike Multinomial RandomNormal RandomNormalLike
                RandomUniform RandomUniformLike Range
            """,
            "movement": """
                CenterCropPad Concat DepthToSpace Expand Flatten Identity Pad Reshape ReverseSequence Shape Size Slice
                SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze
            """,
            "indexing": """
                Compress Gather GatherElements GatherND NonZero OneHot ScatterElements ScatterND TensorScatter TopK
                Unique
            """,
            "reduction": """
                ArgMax ArgMin CumProd CumSum NegativeLogLikelihoodLoss ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
                ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare SoftmaxCrossEntropyLoss
            """,
            "linear_algebra": "Det Einsum Gemm MatMul MatMulInteger QLinearMatMul",
            "convolution": "Col2Im Conv ConvInteger ConvTranspose DeformConv QLinearConv",
            "pooling": """
                AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxUnpool
            """,
            "normalization": """
                BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
                MeanVarianceNormalization RMSNormalization
            """,
            "attention": "Attention RotaryEmbedding",
            "recurrent": "GRU LSTM RNN",
            "images": "AffineGrid GridSample ImageDecoder MaxRoiPool NonMaxSuppression Resize RoiAlign",
            "signal": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
            "text": "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
            "sequences": """
                ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct
                SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence
            """,
            "control": "If Loop Scan SequenceMap",
        }.items()
    }
)
"""The operators of ONNX by family. `elementwise` computes each element from those at its place, `creation` makes
tensors of nothing but sizes or chance, `movement` puts elements at places known beforehand, `indexing` at places that
are data, `reduction` makes one number of many."""

_FAMILY_OF = {operator: family for family, operators in FAMILIES.items() for operator in operators}


def family_of(op: str) -> str | None:
    """The family of an ONNX operator; None for one that ONNX does not have."""
    return _FAMILY_OF.get(op)
