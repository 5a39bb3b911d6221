"""Type rules, one per ONNX operator, by family; `irkit.onnx.rules` gathers them."""
