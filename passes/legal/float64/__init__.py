"""Functions of float64 for which ONNX Runtime has no kernel."""
