"""Rewrite rules by subject."""
