"""Whole libraries of models, tiny and with random weights: which are exported and right at several sizes, as a page."""
