"""Equality saturation with the measured costs of operators, and the equations that it uses."""

from passes.saturation.choice import Search, saturate, search
from passes.saturation.derivations import Derivation, Step, derivation
from passes.saturation.equations import EQUATIONS, SUMS
from passes.saturation.known import KNOWN

__all__ = ["EQUATIONS", "KNOWN", "SUMS", "Derivation", "Search", "Step", "derivation", "saturate", "search"]
