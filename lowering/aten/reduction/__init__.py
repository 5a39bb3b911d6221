"""Converters of reductions, losses and running sums."""
