"""Equality saturation: all forms of a graph that rules lead to, kept at once, and the cheapest of them taken out."""
