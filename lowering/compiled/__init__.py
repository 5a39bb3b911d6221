"""irkit.compile: a callable that captures a model as it is called, and runs it on ONNX Runtime."""
