"""Converters of convolutions."""
