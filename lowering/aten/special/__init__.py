"""Converters of special functions."""
