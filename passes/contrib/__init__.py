"""Rules into ONNX Runtime's own operators, which `passes.fuse` applies for targets that allow their domain."""

from passes.contrib.decoders import DECODERS
from passes.contrib.encoders import ENCODERS

CONTRIB = DECODERS + ENCODERS
"""All of them, in the order in which they are tried."""
