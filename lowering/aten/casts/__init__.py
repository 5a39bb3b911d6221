"""Converters of casts and of quantization."""
