"""irkit behind `torch.compile(model, backend="irkit")`: graphs that TorchDynamo captured, run by ONNX Runtime."""
