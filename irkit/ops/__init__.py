"""ONNX's operators: schemas, the `op` namespace, what ONNX Runtime has kernels for."""
