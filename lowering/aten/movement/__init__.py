"""Converters of operators that move, index, join and create."""
