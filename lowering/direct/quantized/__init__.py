"""Models that `torch.ao.quantization` has converted: tensors of integers with a scale."""
