"""Damaged files and texts at every entrance: `python -m tests.entrances` draws them, `make fuzz-io` draws 100,000."""
