"""Converters of operators whose places are data: gathers, scatters, sorts, look-ups."""
