"""What bends torch.export while it traces."""
