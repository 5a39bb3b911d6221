"""What runtimes beside ONNX Runtime refuse or compute wrongly of operators that they have, and what stands for it."""
