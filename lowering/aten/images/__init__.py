"""Converters of operators on images and boxes."""
