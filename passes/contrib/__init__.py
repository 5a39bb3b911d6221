"""Rules into ONNX Runtime's own operators, which `passes.fuse` applies for targets that allow their domain."""

from passes.contrib.decoders import DECODERS
from passes.contrib.encoders import ENCODERS, HELD
from passes.contrib.experts import EXPERTS
from passes.contrib.recurrences import RECURRENCES

WHOLE = EXPERTS + RECURRENCES
"""Rules for what is written with many operators: they are applied first, while those still are ONNX's."""

PARTS = DECODERS + ENCODERS
"""The others, in the order in which they are tried."""

CONTRIB = WHOLE + PARTS + HELD
"""All of them."""
