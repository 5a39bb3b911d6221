"""Operators carried out on the meta device: what they are given there, and what tells their results."""
