"""Equality saturation with the measured costs of operators, and the equations that it uses."""

from passes.saturation.choice import saturate
from passes.saturation.equations import EQUATIONS, SUMS

__all__ = ["EQUATIONS", "SUMS", "saturate"]
