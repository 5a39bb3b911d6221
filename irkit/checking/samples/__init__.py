"""Samples of operators, by family: what random graphs are grown from (see `irkit.testing`)."""
