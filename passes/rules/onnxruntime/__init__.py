"""Rules into ONNX Runtime's own operators, which `passes.preparing.fuse` applies for targets that have them."""

from passes.rules.onnxruntime.decoders import DECODERS
from passes.rules.onnxruntime.encoders import ENCODERS, HELD
from passes.rules.onnxruntime.experts import EXPERTS
from passes.rules.onnxruntime.recurrences import RECURRENCES

WHOLE = EXPERTS + RECURRENCES
"""Rules for what is written with many operators: they are applied first, while those still are ONNX's."""

PARTS = DECODERS + ENCODERS
"""The others, in the order in which they are tried."""

CONTRIB = WHOLE + PARTS + HELD
"""All of them."""
