"""Converters of elementwise operators."""
