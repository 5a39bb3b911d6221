"""The exported program: `to_onnx`, calls, checks, files, the report."""
