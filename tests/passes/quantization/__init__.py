"""Tests of passes/quantization."""
