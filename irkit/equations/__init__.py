"""Rules as equations of two pictures: written once, read in both directions, discovered, and proved."""

from irkit.equations.discovery import Discovery, discover
from irkit.equations.equations import Equation, equation_of
from irkit.equations.functions import equation, replace_pattern
from irkit.proofs import Proof, prove

__all__ = ["Discovery", "Equation", "Proof", "discover", "equation", "equation_of", "prove", "replace_pattern"]
