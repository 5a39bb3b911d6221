"""What ONNX Runtime refuses, computes wrongly or has no kernel for, restated."""
