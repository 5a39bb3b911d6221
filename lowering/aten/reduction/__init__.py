"""Converters of reductions, norms, losses and scans."""
