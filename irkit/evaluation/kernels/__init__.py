"""Numpy kernels, one per ONNX operator, by family; `irkit.evaluate` gathers them."""
