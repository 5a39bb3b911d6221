"""Converters of attention and of mixtures of experts."""
