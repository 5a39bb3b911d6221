"""Operators for older opsets."""
