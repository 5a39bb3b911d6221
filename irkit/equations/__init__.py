"""Rules as equations of two pictures: written once, read in both directions."""

from irkit.equations.equations import Equation
from irkit.equations.functions import equation, replace_pattern

__all__ = ["Equation", "equation", "replace_pattern"]
