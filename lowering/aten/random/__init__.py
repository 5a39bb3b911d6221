"""Converters of random numbers."""
