"""Tests of lowering/direct/quantized."""
