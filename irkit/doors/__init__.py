"""The command line and `to_onnx`: what may reach up into the packages above."""
