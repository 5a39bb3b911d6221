"""Type rules, one per ONNX operator, by family; `irkit.ops.types.rules` gathers them."""
