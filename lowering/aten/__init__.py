"""Converters by family: one pure function per ATen operator."""
