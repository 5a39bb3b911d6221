"""Rules that are proved for all sizes, rather than sampled."""

from irkit.proofs.proofs import Proof, prove

__all__ = ["Proof", "prove"]
