"""Direct capture: the model is run once, on tensors that carry an irkit value, below nothing of torch.export."""
