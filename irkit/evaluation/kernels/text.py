"""Operators on strings, which onnx's reference implementation computes."""

from __future__ import annotations

from irkit.evaluation.kernels.reference import run_reference

kernel_RegexFullMatch = kernel_StringConcat = kernel_StringNormalizer = kernel_StringSplit = run_reference
kernel_TfIdfVectorizer = run_reference
