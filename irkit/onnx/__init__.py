"""ONNX in and out: the operator table, type rules, kernels, serializer and loader."""
