"""Converters of complex tensors."""
