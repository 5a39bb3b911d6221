"""From modules and functions to what torch.export, FX or a file says of them."""
