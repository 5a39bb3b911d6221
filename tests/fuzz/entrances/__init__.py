"""Damaged files and texts at every entrance: `make fuzz-io` draws 100,000."""
