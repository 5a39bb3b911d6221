"""Converters of pools."""
