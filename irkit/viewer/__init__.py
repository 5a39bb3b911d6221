"""Graphs, rewrites and differences as pages that need no other file, and as plain data."""
