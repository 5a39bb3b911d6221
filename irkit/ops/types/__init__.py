"""Type rules, one per ONNX operator, by family; `irkit.nodes.type_rules` gathers them."""
