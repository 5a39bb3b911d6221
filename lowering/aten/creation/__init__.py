"""Converters of operators that make tensors of sizes and numbers, or draw them."""
