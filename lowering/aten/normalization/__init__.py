"""Converters of norms."""
