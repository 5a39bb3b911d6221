"""Converters of Fourier transforms."""
