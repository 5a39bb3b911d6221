"""Passes that look at a whole graph."""
